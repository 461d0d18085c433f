//! The content of packages: units that start the packed program, documents, and the program's own
//! output.

use {
  crate::support::files_below,
  serde_json::Value,
  sha2::{Digest, Sha256},
  std::{
    path::{Path, PathBuf},
    process::{Command, Output},
  },
};

fn script(name: &str) -> Command {
  let root = Path::new(env!("CARGO_MANIFEST_DIR"));
  let mut command = Command::new(root.join("packaging").join(name));
  command.current_dir(root);
  command
}

fn text(output: &Output) -> String {
  let streams = [&output.stdout[..], &output.stderr[..]].concat();
  String::from_utf8_lossy(&streams).into_owned()
}

#[test]
fn a_package_holds_units_for_its_own_program_and_all_documents() {
  let temp = tempfile::tempdir().unwrap();
  let dir = temp.path().join("usr");
  let output = script("stage.sh").args([Path::new(env!("CARGO_BIN_EXE_memfw")), &dir]).output();
  let output = output.unwrap();
  assert!(output.status.success(), "{}", text(&output));
  let files = files_below(&dir);
  let names = |start: &str| -> Vec<&PathBuf> {
    files.keys().filter(|path| path.starts_with(start)).collect()
  };
  let units = [names("lib/systemd/user"), names("lib/systemd/system")];
  assert!(units.iter().all(|units| !units.is_empty()), "{units:?}");
  for unit in units.concat() {
    let text = String::from_utf8(files[unit].clone()).unwrap();
    for line in text.lines().filter(|line| line.starts_with("Exec") && line.contains("memfw")) {
      let program = line.split_once('=').unwrap().1.trim_start_matches('-');
      assert!(program.starts_with("/usr/bin/memfw "), "{}: {line}", unit.display());
    }
  }
  for page in ["README.md", "life.md", "findings.md", "adr/0001-one-package.md"] {
    assert!(files.contains_key(&Path::new("share/doc/memfw").join(page)), "{page}");
  }
  // The output of a working program is packed, and no other file takes its place.
  for (args, path) in [
    (&["man"][..], "share/man/man1/memfw.1"),
    (&["completions", "bash"], "share/bash-completion/completions/memfw"),
    (&["completions", "zsh"], "share/zsh/vendor-completions/_memfw"),
    (&["completions", "fish"], "share/fish/vendor_completions.d/memfw.fish"),
  ] {
    let answer = Command::new(env!("CARGO_BIN_EXE_memfw")).args(args).output().unwrap();
    let expected = answer.status.success().then_some(answer.stdout);
    assert_eq!(files.get(Path::new(path)), expected.as_ref(), "{path}");
  }
  // Every page to which the first one links is there.
  let first = String::from_utf8(files[Path::new("share/man/man1/memfw.1")].clone()).unwrap();
  let first = first.replace('\\', "");
  let named: Vec<&str> = first.lines().filter_map(|line| line.strip_suffix("(1)")).collect();
  assert!(named.len() > 10, "{first}");
  for page in named {
    assert!(files.contains_key(&Path::new("share/man/man1").join(format!("{page}.1"))), "{page}");
  }
}

#[test]
fn the_debian_package_is_installed_run_and_removed_without_a_trace() {
  let temp = tempfile::tempdir().unwrap();
  let mut command = script("deb.sh");
  command.arg("--check").arg(temp.path());
  let output = command.env("MEMFW_PROGRAM", env!("CARGO_BIN_EXE_memfw")).output().unwrap();
  if output.status.code() == Some(77) {
    eprintln!("{}", text(&output).trim());
    return;
  }
  assert!(output.status.success(), "{}", text(&output));
  assert!(
    text(&output).contains("installed, run and removed in an empty root"),
    "{}",
    text(&output)
  );
}

/// Runs a language's own parser over a file, if it is installed.
fn assert_parses(program: &str, args: &[&str], file: &Path) {
  match Command::new(program).args(args).arg(file).output() {
    Ok(output) => assert!(output.status.success(), "{}: {}", file.display(), text(&output)),
    Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
      eprintln!("SKIPPED: there is no {program}; {} was not parsed", file.display());
    }
    Err(error) => panic!("{program}: {error}"),
  }
}

#[test]
fn the_recipes_name_the_archives_of_this_version() {
  let dist = tempfile::tempdir().unwrap();
  let recipes = |base: &str| script("recipes.sh").arg(dist.path()).arg(base).output().unwrap();
  let version = env!("CARGO_PKG_VERSION");
  let sums = [("x86_64", "1".repeat(64)), ("aarch64", "2".repeat(64))];
  let archive = |arch: &str| format!("memfw-{version}-{arch}-unknown-linux-musl.tar.gz");
  let lines = sums.iter().map(|(arch, sum)| format!("{sum}  {}\n", archive(arch)));
  let lines: Vec<String> = lines.collect();
  std::fs::write(dist.path().join("SHA256SUMS"), &lines[0]).unwrap();
  let output = recipes("https://example.com/memfw");
  assert_eq!(output.status.code(), Some(77), "an archive is missing");
  assert!(text(&output).contains(&archive("aarch64")), "{}", text(&output));

  std::fs::write(dist.path().join("SHA256SUMS"), lines.concat()).unwrap();
  let output = recipes("https://example.com/$(id)");
  assert_eq!(output.status.code(), Some(2), "{}", text(&output));
  let output = recipes("https://example.com/memfw/");
  assert!(output.status.success(), "{}", text(&output));
  for name in ["memfw.rb", "PKGBUILD", ".SRCINFO"] {
    let recipe = std::fs::read_to_string(dist.path().join("recipes").join(name)).unwrap();
    for word in [version, "https://example.com/memfw/memfw-", &sums[0].1, &sums[1].1] {
      let is_built = name == "PKGBUILD" && word.ends_with("memfw-");
      assert!(is_built || recipe.contains(word), "{name} lacks {word}: {recipe}");
    }
    for mark in ["@BASE_URL@", "@VERSION@", "@SHA256"] {
      assert!(!recipe.contains(mark), "{name}: {recipe}");
    }
  }
  let at = |name: &str| dist.path().join("recipes").join(name);
  assert_parses("ruby", &["-c"], &at("memfw.rb"));
  assert_parses("bash", &["-n"], &at("PKGBUILD"));
  let flake = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/recipes/flake.nix");
  assert_parses("nix-instantiate", &["--parse"], &flake);
}

#[test]
fn an_image_has_each_program_under_its_digest() {
  let temp = tempfile::tempdir().unwrap();
  let (program, image) = (temp.path().join("program"), temp.path().join("image.tar"));
  // Any program of this machine: what the image starts is tested with `packaging/all.sh --check`.
  std::fs::copy("/bin/true", &program).unwrap();
  let make = || script("oci.sh").args([&image, &program]).output().unwrap();
  let output = make();
  assert!(output.status.success(), "{}", text(&output));
  let first = std::fs::read(&image).unwrap();
  make();
  assert!(std::fs::read(&image).unwrap() == first, "it is the same whenever it is made");

  let unpack = |archive: &Path, to: &str| -> PathBuf {
    let to = temp.path().join(to);
    std::fs::create_dir(&to).unwrap();
    let status = Command::new("tar").arg("-xf").arg(archive).arg("-C").arg(&to).status();
    assert!(status.unwrap().success());
    to
  };
  let layout = unpack(&image, "layout");
  // What a descriptor names, after its digest and size were checked.
  let blob = |descriptor: &Value| -> Vec<u8> {
    let digest = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
    let bytes = std::fs::read(layout.join("blobs/sha256").join(digest)).unwrap();
    assert_eq!(bytes.len(), descriptor["size"], "{descriptor}");
    let found: Vec<String> =
      Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(found.concat(), digest);
    bytes
  };
  let json = |bytes: Vec<u8>| -> Value { serde_json::from_slice(&bytes).unwrap() };
  let index = json(std::fs::read(layout.join("index.json")).unwrap());
  let image = json(blob(&index["manifests"][0]));
  assert_eq!(image["manifests"].as_array().unwrap().len(), 1);
  let manifest = json(blob(&image["manifests"][0]));
  let config = json(blob(&manifest["config"]));
  assert_eq!(config["architecture"], image["manifests"][0]["platform"]["architecture"]);
  assert_eq!(config["config"]["Entrypoint"][0], "/usr/bin/memfw");
  let layer = temp.path().join("layer.tar.gz");
  std::fs::write(&layer, blob(&manifest["layers"][0])).unwrap();
  let root = unpack(&layer, "root");
  assert_eq!(std::fs::read(root.join("usr/bin/memfw")).unwrap(), std::fs::read(&program).unwrap());

  std::fs::write(&program, [0; 64]).unwrap();
  let output = make();
  assert_eq!(output.status.code(), Some(2), "a program for no machine: {}", text(&output));
}
