# The Homebrew formula. `packaging/recipes.sh` fills in what is between two `@`.
class Memfw < Formula
  desc "Memory firewall for AI agents: guards markdown memory against poisoning"
  homepage "@BASE_URL@"
  version "@VERSION@"
  license any_of: ["MIT", "Apache-2.0"]

  depends_on :linux

  on_intel do
    url "@BASE_URL@/memfw-@VERSION@-x86_64-unknown-linux-musl.tar.gz"
    sha256 "@SHA256_X86_64@"
  end
  on_arm do
    url "@BASE_URL@/memfw-@VERSION@-aarch64-unknown-linux-musl.tar.gz"
    sha256 "@SHA256_AARCH64@"
  end

  def install
    bin.install "memfw"
    man1.install Dir["share/man/man1/*.1"]
    bash_completion.install "share/bash-completion/completions/memfw"
    zsh_completion.install "share/zsh/vendor-completions/_memfw"
    fish_completion.install "share/fish/vendor_completions.d/memfw.fish"
    doc.install Dir["share/doc/memfw/*"]
  end

  def caveats
    "memfw starts no service by itself: `memfw init` asks what to guard, and installs one."
  end

  test do
    (testpath/"notes/MEMORY.md").write "# Memory\n"
    ENV["MEMFW_HOME"] = (testpath/"home").to_s
    system bin/"memfw", "run", "--once", "--workspace", testpath/"notes"
    assert_path_exists testpath/"home/data/ledger.sqlite"
  end
end
