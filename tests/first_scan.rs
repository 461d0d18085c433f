//! The first scan as a person sees it: one line for each workspace, and what commands show while they wait.

use crate::support::{Guarded, NEVER, Test, clean, poison};

/// The log of a first scan of these many files, one of them poisoned.
fn first_log(n_files: usize) -> String {
  let mut test = Test::new().memory("MEMORY.md", format!("# Notes\n\n{}\n", poison(1)));
  for n in 1..n_files {
    test = test.memory(&format!("memory/{n}.md"), format!("{}\n\n{}\n", clean(n), clean(n + 100)));
  }
  let output = test.args(["run", "--once", "--workspace", "[TMP]/workspace"]).output();
  assert_eq!((output.status, output.stdout.as_str()), (0, ""), "{output:?}");
  output.stderr
}

#[test]
fn a_first_scan_is_one_line_for_each_workspace() {
  let log = first_log(7);
  let lines: Vec<&str> = log.lines().filter(|line| line.contains("[TMP]/workspace")).collect();
  let adopted: Vec<&&str> = lines.iter().filter(|line| line.contains("baseline adopted")).collect();
  assert_eq!(adopted.len(), 1, "{log}");
  assert!(adopted[0].contains("baseline adopted file=[TMP]/workspace "), "{log}");
  assert!(adopted[0].contains("detail=\"7 files, 13 blocks, 1 finding: memfw list\""), "{log}");
  assert!(!log.contains("block flagged"), "the line of the workspace counts it: {log}");
  assert!(!log.contains("MEMORY.md"), "{log}");
}

#[test]
fn a_scan_of_what_is_known_says_nothing_of_a_baseline() {
  let mut guarded = Guarded::new(NEVER).memory("MEMORY.md", format!("{}\n", clean(1)));
  guarded.start();
  guarded.wait_for_log("baseline adopted");
  guarded.stop();
  guarded.start();
  guarded.settle();
  assert!(!guarded.log().contains("baseline adopted"), "{}", guarded.log());
}

#[test]
fn every_file_and_finding_is_on_record() {
  let mut guarded = Guarded::new(NEVER)
    .memory("MEMORY.md", format!("{}\n", poison(1)))
    .memory("memory/a.md", format!("{}\n", clean(1)));
  guarded.start();
  guarded.wait_for_log("baseline adopted");
  let adopted = guarded.json(&["audit", "--event", "adopted", "--json"]);
  assert_eq!(adopted.as_array().map(Vec::len), Some(2), "{adopted}");
  let flagged = guarded.json(&["audit", "--event", "flagged", "--json"]);
  assert_eq!(flagged.as_array().map(Vec::len), Some(1), "{flagged}");
}

#[test]
fn settle_shows_what_it_waits_for_on_a_terminal_only() {
  let mut guarded = Guarded::new(NEVER).memory("MEMORY.md", format!("{}\n", clean(1)));
  guarded.start();
  guarded.stop();
  std::fs::write(guarded.path("MEMORY.md"), format!("{}\n", clean(2))).unwrap();
  let expected = "error: 1 change is pending and no daemon is running\n";
  let output = guarded.memfw(&["settle"]);
  assert_eq!((output.status, output.stdout.as_str()), (2, ""), "{output:?}");
  assert!(output.stderr.starts_with(expected), "{output:?}");
  let Some(mut terminal) = guarded.on_terminal("xterm", &["settle"]) else { return };
  terminal.expect("\r\x1b[K1 change is pending");
  terminal.expect("\r\x1b[K");
  terminal.expect("error: ");
  assert_eq!(terminal.wait().code(), Some(2));
}

#[test]
fn status_shows_what_it_waits_for_on_a_terminal_only() {
  let guarded = Guarded::new(NEVER).memory("MEMORY.md", format!("{}\n", clean(1)));
  let output = guarded.memfw(&["status", "--wait", "1"]);
  assert_eq!((output.status, output.stderr.as_str()), (1, ""), "{output:?}");
  let Some(mut terminal) = guarded.on_terminal("xterm", &["status", "--wait", "2"]) else { return };
  terminal.expect("\r\x1b[Kthe daemon is not running yet");
  terminal.expect("\r\x1b[K");
  terminal.expect("memfw ");
  assert_eq!(terminal.wait().code(), Some(1));
}

#[test]
fn a_scan_of_nothing_on_a_terminal_says_how_to_use_it() {
  let guarded = Guarded::new(NEVER);
  let Some(mut terminal) = guarded.on_terminal("xterm", &["scan"]) else { return };
  terminal.expect("error: `memfw scan` needs something to judge");
  terminal.expect("memfw scan ~/notes");
  assert_eq!(terminal.wait().code(), Some(2));
}
