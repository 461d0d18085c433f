# The Nix flake, which builds from the sources: `nix run 'git+file:///path/to/memfw?dir=packaging/recipes'`.
{
  description = "memfw: a memory firewall for AI agents";

  inputs.nixpkgs.url = "nixpkgs/nixos-unstable";

  outputs = { self, nixpkgs }:
    let
      manifest = builtins.fromTOML (builtins.readFile ../../Cargo.toml);
      systems = [ "x86_64-linux" "aarch64-linux" "aarch64-darwin" ];
      each = build: nixpkgs.lib.genAttrs systems (system: build nixpkgs.legacyPackages.${system});
    in
    {
      packages = each (pkgs: rec {
        memfw = pkgs.rustPlatform.buildRustPackage {
          pname = manifest.package.name;
          version = manifest.package.version;
          src = ../..;
          cargoLock.lockFile = ../../Cargo.lock;
          nativeBuildInputs = [ pkgs.installShellFiles ];
          # The tests need a file system with leases, and most need minutes.
          doCheck = false;
          postInstall = ''
            $out/bin/memfw man man1
            installManPage man1/*.1
            installShellCompletion --cmd memfw \
              --bash <($out/bin/memfw completions bash) \
              --zsh <($out/bin/memfw completions zsh) \
              --fish <($out/bin/memfw completions fish)
          '';
          meta = {
            description = manifest.package.description;
            license = with pkgs.lib.licenses; [ mit asl20 ];
            mainProgram = "memfw";
          };
        };
        default = memfw;
      });
    };
}
