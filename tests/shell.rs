//! The command line for a person who types: help, completions, manual pages, colours, the pager.

use crate::support::{Guarded, NEVER, Test, clean, poison};
use clap::CommandFactory as _;
use memfw::command::Args;
use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf, process::Command};

/// Helps that are longer than a screen of 24 lines, and why.
const LONG: &[(&str, &str)] = &[
  ("memfw eval", "it is a tool for those who change memfw"),
  ("memfw approve", "it has filters for many items, and options for a part of one"),
  ("memfw quarantine approve", "it is its long form"),
];

/// The tree of commands that a person sees, as they are typed.
fn commands() -> Vec<(String, clap::Command)> {
  fn walk(command: &clap::Command, path: &str, found: &mut Vec<(String, clap::Command)>) {
    found.push((path.to_owned(), command.clone()));
    for below in command.get_subcommands().filter(|one| !one.is_hide_set()) {
      walk(below, &format!("{path} {}", below.get_name()), found);
    }
  }
  let mut found = Vec::new();
  walk(&Args::command(), "memfw", &mut found);
  found
}

/// The help of a command at 80 columns.
fn help(path: &str, flag: &str) -> String {
  let words: Vec<&str> = path.split(' ').skip(1).chain([flag]).collect();
  let output = Test::new().env("COLUMNS", "80").args(words).output();
  assert_eq!((output.status, output.stderr.as_str()), (0, ""), "{path}");
  output.stdout
}

#[test]
fn each_help_fits_a_screen_and_has_an_example() {
  let mut problems = Vec::new();
  for (path, command) in commands() {
    let help = help(&path, "--help");
    let lines = help.lines().count();
    let is_long = LONG.iter().any(|(long, _)| *long == path);
    if (lines > 24) != is_long {
      problems.push(format!("`{path} --help` has {lines} lines"));
    }
    if help.lines().any(|line| line.chars().count() > 80) {
      problems.push(format!("`{path} --help` is wider than 80 columns"));
    }
    if !help.contains("Example") {
      problems.push(format!("`{path} --help` has no example"));
    }
    if command.get_about().is_none() {
      problems.push(format!("`{path}` says nothing about itself"));
    }
  }
  assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn help_reads_well() {
  let pages = ["memfw config", "memfw config show", "memfw config set", "memfw completions"];
  let text: String = pages
    .iter()
    .map(|path| format!("$ {path} --help\n{}\n", help(path, "--help")))
    .collect::<Vec<_>>()
    .concat();
  insta::assert_snapshot!("help", text);
}

#[test]
fn a_command_below_another_one_is_found() {
  let output = Test::new().args(["export", "a1b2c3"]).output();
  assert_eq!(output.status, 2);
  let hint = "\nhint: did you mean `memfw quarantine export`?\n";
  assert!(output.stderr.ends_with(hint), "{}", output.stderr);
}

#[test]
fn manual_pages_are_there_for_all_commands_and_always_the_same() {
  let test = Test::new();
  let pages = |dir: &str| -> Vec<(PathBuf, Vec<u8>)> {
    let dir = test.tmp().join(dir);
    let run = test.next().args(["man".as_ref(), dir.as_os_str()]).output();
    assert_eq!((run.status, run.stderr.as_str()), (0, ""));
    let mut pages: Vec<_> = fs::read_dir(&dir)
      .unwrap()
      .map(|entry| entry.unwrap().path())
      .map(|path| (path.file_name().unwrap().into(), fs::read(&path).unwrap()))
      .collect();
    pages.sort();
    pages
  };
  let found = pages("one/man1");
  let mut expected: Vec<PathBuf> =
    commands().iter().map(|(path, _)| format!("{}.1", path.replace(' ', "-")).into()).collect();
  expected.sort();
  assert_eq!(found.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>(), expected);
  for (name, page) in &found {
    let page = String::from_utf8(page.clone()).unwrap();
    assert!(page.contains(".TH memfw") && page.contains(".SH SYNOPSIS"), "{}", name.display());
    assert!(page.contains("Example"), "{}", name.display());
  }
  assert_eq!(found, pages("two"));
  let first = test.next().args(["man"]).output().stdout;
  assert!(first.contains("memfw\\-quarantine(1)"), "{first}");
}

/// A world with two waiting items, one of them in a file with a hostile name.
fn world() -> Guarded {
  let guarded = Guarded::new(NEVER)
    .memory("MEMORY.md", format!("{}\n\n{}\n", clean(1), poison(1)))
    .memory("memory/$(touch x); `y`.md", format!("{}\n", clean(2)))
    .memory("memory/a\u{1b}[2Jb.md", format!("{}\n", clean(3)));
  let output = guarded.test().args(["run", "--once"]).output();
  assert_eq!(output.status, 0, "{}", output.stderr);
  guarded
}

/// The completions of the last word.
fn offered(guarded: &Guarded, shell: &str, words: &[&str]) -> Vec<String> {
  let last = (words.len() - 1).to_string();
  let output = guarded.test().args(["complete", shell, &last, "--"]).args(words).output();
  assert_eq!((output.status, output.stderr.as_str()), (0, ""), "{words:?}");
  output.stdout.lines().map(str::to_owned).collect()
}

#[test]
fn what_can_be_next_is_offered() {
  let guarded = world();
  let flagged = guarded.test().args(["quarantine", "list", "--status", "flagged", "--json"]).json();
  let id = flagged[0]["id"].as_str().unwrap().to_owned();
  assert!(offered(&guarded, "bash", &["memfw", "quar"]).contains(&"quarantine".to_owned()));
  let approve = ["memfw", "quarantine", "approve", ""];
  assert!(offered(&guarded, "bash", &approve).contains(&id));
  let line = offered(&guarded, "zsh", &approve).remove(0);
  assert!(line.starts_with(&format!("{id}\tflagged ")) && line.ends_with(" MEMORY.md"), "{line}");
  let half = ["memfw", "quarantine", "show", &id[..3]];
  assert_eq!(offered(&guarded, "bash", &half), [id.as_str()]);
  for (words, value) in [
    (&["memfw", "config", "set", "files.id"][..], "files.idle_ms"),
    (&["memfw", "config", "set", "preset", ""][..], "strict"),
    (&["memfw", "audit", "--event", "quar"][..], "quarantined"),
    (&["memfw", "scan", "--trust", ""][..], "hostile"),
    (&["memfw", "completions", "f"][..], "fish"),
    (&["memfw", "scan", "--sou"][..], "--source"),
    (&["memfw", "quarantine", "list", "--status", "fl"][..], "flagged"),
  ] {
    let offered = offered(&guarded, "bash", words);
    assert!(offered.iter().any(|offered| offered == value), "{words:?}: {offered:?}");
  }
  // Neither the hidden command nor a completion at an invalid place.
  assert!(!offered(&guarded, "bash", &["memfw", "comp"]).contains(&"complete".to_owned()));
  let output = guarded.test().args(["complete", "bash", "999999999", "--", "memfw"]).output();
  assert_eq!((output.status, output.stderr.as_str()), (0, ""));
}

#[test]
fn guarded_files_are_offered_as_they_were_begun_and_hostile_names_are_words() {
  let guarded = world();
  let tmp = guarded.tmp().canonicalize().unwrap();
  let here = offered(&guarded, "fish", &["memfw", "provenance", "MEM"]);
  assert_eq!(here, ["MEMORY.md"]);
  let absolute = format!("{}/workspace/", tmp.display());
  let words = ["memfw", "provenance", absolute.as_str()];
  let in_bash = offered(&guarded, "bash", &words);
  let escaped = "[TMP]/workspace/memory/\\$\\(touch\\ x\\)\\;\\ \\`y\\`.md";
  assert!(in_bash.iter().any(|line| line == escaped), "{in_bash:?}");
  let in_fish = offered(&guarded, "fish", &words);
  assert!(in_fish.contains(&"[TMP]/workspace/memory/$(touch x); `y`.md".to_owned()), "{in_fish:?}");
  for lines in [in_bash, in_fish] {
    assert_eq!(lines.len(), 2, "the name with an escape sequence is not offered: {lines:?}");
  }
}

#[test]
fn bash_runs_its_script_and_no_name_of_a_file() {
  if !Command::new("bash").arg("--version").output().is_ok_and(|output| output.status.success()) {
    println!("skipped: there is no bash here");
    return;
  }
  let guarded = world();
  let script = guarded.test().args(["completions", "bash"]).output().stdout;
  let program = PathBuf::from(env!("CARGO_BIN_EXE_memfw"));
  let workspace = guarded.tmp().join("workspace");
  // A person completes the word and runs the line.
  let typed = format!(
    "{script}\ncompopt() {{ :; }}\n\
     COMP_WORDS=(memfw provenance \"$PWD/memory/\") COMP_CWORD=2\n_memfw\n\
     for word in \"${{COMPREPLY[@]}}\"; do eval \"printf '%s\\n' $word\"; done\n"
  );
  let output = Command::new("bash")
    .args(["--norc", "-c", &typed])
    .current_dir(&workspace)
    .env_clear()
    .env("PATH", format!("{}:/usr/bin:/bin", program.parent().unwrap().display()))
    .env("HOME", guarded.tmp().join("home"))
    .env("MEMFW_HOME", guarded.tmp().join("memfw"))
    .output()
    .unwrap();
  assert_eq!(String::from_utf8_lossy(&output.stderr), "");
  let shown = String::from_utf8(output.stdout).unwrap();
  assert!(shown.ends_with("/memory/$(touch x); `y`.md\n"), "{shown}");
  assert_eq!(shown.lines().count(), 1);
  assert!(!workspace.join("x").exists());
}

#[test]
fn other_shells_find_no_mistake_in_their_scripts() {
  for shell in ["zsh", "fish"] {
    let script = Test::new().args(["completions", shell]).output().stdout;
    assert!(script.contains(&format!("memfw complete {shell}")), "{script}");
    let file = Test::new().write("script", &script);
    let run = Command::new(shell).arg("-n").arg(file.tmp().join("script")).output();
    match run {
      Ok(run) => assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr)),
      Err(_) => println!("skipped: there is no {shell} here"),
    }
  }
}

#[test]
fn colours_are_for_terminals_unless_the_environment_says_otherwise() {
  let show = || Test::new().args(["config", "show", "gate"]);
  let plain = show().output().stdout;
  assert!(!plain.contains('\x1b'), "{plain}");
  let forced = show().env("CLICOLOR_FORCE", "1").output().stdout;
  assert!(forced.contains("\x1b[2mdefault\x1b[0m"), "{forced}");
  let refused = show().env("CLICOLOR_FORCE", "1").env("NO_COLOR", "1").output().stdout;
  assert_eq!(refused, plain);
  let Some(seen) = show().on_terminal(80, 24) else { return };
  assert_eq!(seen, forced);
  for (name, value) in [("NO_COLOR", "1"), ("CLICOLOR", "0"), ("TERM", "dumb")] {
    assert_eq!(show().env(name, value).on_terminal(80, 24).unwrap(), plain, "{name}");
  }
}

/// A text without its colours.
fn bare(coloured: &str) -> String {
  let mut pieces = coloured.split("\x1b[");
  let first = pieces.next().unwrap().to_owned();
  pieces.fold(first, |text, piece| text + piece.split_once('m').unwrap().1)
}

#[test]
fn lists_fit_eighty_columns_with_and_without_colours() {
  let guarded = world();
  let list = || guarded.test().args(["provenance", "MEMORY.md"]);
  let Some(plain) = list().env("NO_COLOR", "1").on_terminal(80, 24) else { return };
  assert!(plain.lines().count() > 1);
  for line in plain.lines() {
    assert!(line.chars().count() <= 80, "{line}");
  }
  let coloured = list().on_terminal(80, 24).unwrap();
  assert_ne!(coloured, plain);
  // The age of an item, in the last column, may be another one by now.
  let since = plain.find("WHEN").unwrap();
  let cut = |text: &str| -> Vec<String> {
    text.lines().map(|line| line.chars().take(since).collect()).collect()
  };
  assert_eq!(cut(&bare(&coloured)), cut(&plain));
}

#[test]
fn a_table_looks_like_this() {
  let show = || Test::new().args(["config", "show", "detection", "--preset", "strict"]);
  let Some(plain) = show().env("NO_COLOR", "1").on_terminal(80, 24) else { return };
  let coloured = show().on_terminal(80, 24).unwrap();
  assert_eq!(bare(&coloured), plain);
  insta::assert_snapshot!("table", format!("{plain}\n{}", coloured.replace('\x1b', "ESC")));
}

#[test]
fn a_long_list_on_a_terminal_goes_through_the_pager_and_no_shell() {
  let test =
    Test::new().write("pager", "#!/bin/sh\n{ echo \"$#: $1 $2\"; cat; } > '[TMP]/paged'\n");
  let pager = test.tmp().join("pager");
  fs::set_permissions(&pager, fs::Permissions::from_mode(0o755)).unwrap();
  let words = format!("{} $(x) |", pager.display());
  let paged = || fs::read_to_string(test.tmp().join("paged")).ok();
  let show =
    || test.next().args(["config", "show"]).env("PAGER", &words).env("PATH", "/usr/bin:/bin");
  assert_eq!(show().output().status, 0);
  assert_eq!(paged(), None, "not into a pipe");
  let Some(seen) = show().on_terminal(80, 60) else { return };
  assert_eq!(paged(), None, "not where all fits");
  let few = show().on_terminal(80, 10).unwrap();
  assert_eq!(few, "", "the pager has it");
  assert_eq!(paged().unwrap(), format!("2: $(x) |\n{seen}"));
  fs::remove_file(test.tmp().join("paged")).unwrap();
  for none in ["cat", "/no/such/program"] {
    assert_eq!(show().env("PAGER", none).on_terminal(80, 10).unwrap(), seen, "{none}");
  }
  assert_eq!(paged(), None);
}

#[test]
fn a_file_that_is_not_guarded_is_answered_with_the_one_that_is() {
  let guarded = world();
  let output = guarded.test().args(["provenance", "MEMROY.md"]).output();
  assert_eq!(output.status, 2);
  let hint = "hint: did you mean `[TMP]/workspace/MEMORY.md`?\n";
  assert!(output.stderr.ends_with(hint), "{}", output.stderr);
}
