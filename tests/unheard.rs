//! Daemons that hold their lock and guard no file, or seem to: a log that no process reads, a
//! stopped process, a workspace that was moved and linked.

use {
  crate::support::{AT_ONCE, Guarded, eventually, id, needle, poison},
  rustix::process::Signal,
  std::{fs, os::unix::fs::symlink},
};

fn line(n: usize) -> String {
  format!("{}\n", poison(n))
}

fn append(guarded: &Guarded, file: &str, text: &str) {
  use std::io::Write as _;
  let mut file = fs::OpenOptions::new().append(true).open(guarded.path(file)).unwrap();
  file.write_all(text.as_bytes()).unwrap();
}

fn degradations(guarded: &Guarded) -> String {
  let answer = guarded.memfw(&["status", "--json"]).stdout;
  serde_json::from_str::<serde_json::Value>(&answer).unwrap()["degradations"].to_string()
}

#[test]
fn a_log_that_nobody_reads_stops_no_redaction() {
  let guarded = Guarded::new(AT_ONCE).memory("MEMORY.md", "# Notes\n\n- old\n");
  let pipe = guarded.tmp().join("log").display().to_string();
  // The pipe is full from the start, and its only reader does not read.
  let script =
    format!("mkfifo {pipe}; exec 3<>{pipe}; head -c 65536 /dev/zero >&3; exec \"$0\" \"$@\" 2>&3");
  let mut guarded = guarded.before(&["sh", "-c", &script]);
  guarded.spawn();
  eventually("it guards", || guarded.memfw(&["status", "--wait", "1"]).status == 0);
  for n in 0..20 {
    append(&guarded, "MEMORY.md", &line(n));
  }
  guarded.settle();
  assert_eq!(guarded.waiting().len(), 20);
  guarded.stop();
}

#[test]
fn a_daemon_that_was_stopped_is_reduced_protection() {
  let mut guarded = Guarded::new(AT_ONCE).memory("MEMORY.md", "# Notes\n\n- old\n");
  guarded.start();
  assert_eq!(degradations(&guarded), "[]");
  guarded.signal(Signal::STOP);
  append(&guarded, "MEMORY.md", &line(1));
  eventually("it is noticed", || degradations(&guarded).contains("was stopped and guards nothing"));
  assert_eq!(guarded.memfw(&["status"]).status, 1);
  guarded.signal(Signal::CONT);
  guarded.settle();
  assert_eq!(degradations(&guarded), "[]");
  assert_eq!(guarded.waiting().len(), 1);
  guarded.stop();
}

#[test]
#[cfg(debug_assertions)]
fn a_command_that_was_stopped_while_it_writes_is_named_until_it_goes_on() {
  let mut guarded = Guarded::new(AT_ONCE)
    .memory("MEMORY.md", "# Notes\n\n- old\n")
    .memory("memory/other.md", "# Other\n");
  guarded.start();
  append(&guarded, "MEMORY.md", &(line(1) + "\n- between\n\n" + &line(3)));
  guarded.wait_for_items(2);
  guarded.settle();
  let items: Vec<String> = guarded.waiting().iter().map(|item| id(item).to_owned()).collect();
  // It is stopped while it holds the lock that all edits take.
  let command = guarded.test().args(["quarantine", "approve", &items[0]]);
  let point = "approve-after-decision";
  let mut command = command.env(memfw::failpoint::VARIABLE, format!("{point}:1:stop")).start();
  command.wait_for_log(&format!("failpoint {point}"));
  append(&guarded, "memory/other.md", &line(2));
  let name = format!("another memfw (pid {}), which was stopped", command.pid());
  eventually("it is named", || degradations(&guarded).contains(&name));
  assert_eq!(guarded.memfw(&["status"]).status, 1);
  let refused = guarded.memfw(&["quarantine", "approve", &items[1]]);
  assert!(refused.status == 2 && refused.stderr.contains(&name), "{refused:?}");
  command.go_on();
  assert!(command.wait().success());
  eventually("poison is taken out", || guarded.holding("workspace", &needle(2)).is_empty());
  guarded.settle();
  assert_eq!(degradations(&guarded), "[]");
  let back = [1, 3].map(|n| guarded.holding("workspace", &needle(n)).len());
  assert_eq!(back.iter().sum::<usize>(), 1, "one was approved");
  guarded.stop();
}

#[test]
fn a_workspace_that_is_moved_and_linked_is_reduced_protection_until_it_is_back() {
  let mut guarded = Guarded::new(AT_ONCE).memory("MEMORY.md", "# Notes\n\n- old\n");
  guarded.start();
  let root = guarded.path("");
  let root = root.components().as_path();
  let moved = root.with_extension("real");
  fs::rename(root, &moved).unwrap();
  symlink(&moved, root).unwrap();
  eventually("it is noticed", || degradations(&guarded).contains("has become a link"));
  fs::remove_file(root).unwrap();
  fs::rename(&moved, root).unwrap();
  eventually("it is guarded again", || degradations(&guarded) == "[]");
  append(&guarded, "MEMORY.md", &line(1));
  eventually("poison is taken out", || guarded.holding("workspace", &needle(1)).is_empty());
  guarded.stop();
}
