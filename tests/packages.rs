//! The content of packages: units that start the packed program, documents, and the program's own
//! output.

use {
  crate::support::files_below,
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
