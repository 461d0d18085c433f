//! A placeholder that comes back with an older version of the file, after its text was approved.

use std::fs;

use crate::support::{AT_ONCE, Guarded, Writer, eventually, needle, poison};

/// A workspace whose poisoned line was approved, with the version of the file from before that.
fn approved() -> (Guarded, Vec<u8>) {
  let mut guarded = Guarded::new(AT_ONCE).memory("MEMORY.md", "# Memory\n\n- old\n");
  guarded.start();
  Writer::Shell.add(&guarded.path("MEMORY.md"), format!("{}\n", poison(1)).as_bytes());
  eventually("the poison waits", || !guarded.waiting().is_empty());
  guarded.settle();
  let older = fs::read(guarded.path("MEMORY.md")).unwrap();
  guarded.approve_all();
  guarded.settle();
  assert!(is_back(&guarded));
  (guarded, older)
}

fn is_back(guarded: &Guarded) -> bool {
  guarded.holding("workspace", &needle(1)).len() == 1
}

#[test]
fn approved_text_is_brought_back_when_an_editor_saves_an_older_version() {
  let (mut guarded, older) = approved();
  // An editor had read the file before the approval.
  let mut stale = older;
  stale.extend_from_slice(b"- typed meanwhile\n");
  fs::write(guarded.path("MEMORY.md"), &stale).unwrap();
  eventually("the text is back once more", || is_back(&guarded));
  guarded.settle();
  let text = fs::read_to_string(guarded.path("MEMORY.md")).unwrap();
  assert!(text.contains("- typed meanwhile\n") && !text.contains("quarantined"), "{text}");
  assert!(guarded.ok(&["audit", "--event", "brought-back"]).contains("older version"));
  assert!(guarded.waiting().is_empty());
  guarded.stop();
}

#[test]
fn approved_text_that_a_person_deletes_stays_deleted() {
  let (mut guarded, _) = approved();
  fs::write(guarded.path("MEMORY.md"), "# Memory\n\n- old\n- typed later\n").unwrap();
  guarded.settle();
  assert!(!is_back(&guarded));
  assert!(!guarded.ok(&["audit", "--event", "brought-back"]).contains("older version"));
  guarded.stop();
}
