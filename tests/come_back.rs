//! A placeholder that returns with an older version of the file, after its text was approved.

use std::fs;

use crate::support::{AT_ONCE, Guarded, Writer, eventually, id, needle, poison};

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

/// A workspace in which a poisoned line was taken out, and then the line that introduces its place
/// was changed.
fn displaced(end: &str) -> (Guarded, String) {
  let mut guarded = Guarded::new(AT_ONCE).memory("MEMORY.md", "# Attacks\n\n- old\n");
  guarded.start();
  Writer::Shell.add(&guarded.path("MEMORY.md"), format!("{}\n", poison(1)).as_bytes());
  guarded.wait_for_items(1);
  guarded.settle();
  let text = fs::read_to_string(guarded.path("MEMORY.md")).unwrap();
  fs::write(guarded.path("MEMORY.md"), text.replace("# Attacks", "# Orders") + end).unwrap();
  guarded.settle();
  let id = id(&guarded.waiting()[0]).to_owned();
  let output = guarded.memfw(&["quarantine", "approve", &id]);
  assert!(output.status == 2 && output.stderr.contains("--at-end"), "{output:?}");
  (guarded, id)
}

#[test]
fn approved_text_is_not_added_to_the_end_where_a_code_block_is_open() {
  let (mut guarded, id) = displaced("\n```\nls\n");
  let before = guarded.read("MEMORY.md");
  let output = guarded.memfw(&["quarantine", "approve", "--at-end", &id]);
  assert_eq!(output.status, 2, "{output:?}");
  for part in ["the end of", "is inside a code block that begins at line", "close it there"] {
    assert!(output.stderr.contains(part), "{output:?}");
  }
  guarded.settle();
  assert_eq!(guarded.read("MEMORY.md"), before, "nothing is written");
  assert_eq!(guarded.waiting().len(), 1);
  guarded.stop();
}

#[test]
fn approved_text_at_the_end_does_not_come_back_at_its_old_place_too() {
  let (mut guarded, id) = displaced("\n# Day\n\n- rain\n");
  let older = fs::read_to_string(guarded.path("MEMORY.md")).unwrap();
  guarded.ok(&["quarantine", "approve", "--at-end", &id]);
  guarded.settle();
  // Its place has its former introduction, and its placeholder is there again.
  let text = format!("{}{}\n", older.replace("# Orders", "# Attacks"), poison(1));
  assert!(text.contains("quarantined"), "{text}");
  fs::write(guarded.path("MEMORY.md"), &text).unwrap();
  guarded.settle();
  let text = fs::read_to_string(guarded.path("MEMORY.md")).unwrap();
  assert_eq!(text.matches(&poison(1)).count(), 1, "{text}");
  assert!(guarded.waiting().is_empty());
  guarded.stop();
}

#[test]
fn a_note_that_is_renamed_keeps_its_placeholders() {
  let mut guarded = Guarded::new(AT_ONCE).memory("memory/day.md", "# Day\n\n- old\n");
  guarded.start();
  Writer::Shell.add(&guarded.path("memory/day.md"), format!("{}\n", poison(1)).as_bytes());
  guarded.wait_for_items(1);
  guarded.settle();
  let before = guarded.read("memory/day.md");
  let rename = |guarded: &Guarded, from: &str, to: &str| {
    fs::create_dir_all(guarded.path(to).parent().unwrap()).unwrap();
    fs::rename(guarded.path(from), guarded.path(to)).unwrap();
  };
  rename(&guarded, "memory/day.md", "memory/archive/day.md");
  guarded.settle();
  // Once more while no daemon runs, and with its directory.
  guarded.stop();
  rename(&guarded, "memory/archive", "memory/old");
  guarded.start();
  guarded.settle();
  assert_eq!(guarded.read("memory/old/day.md"), before);
  assert_eq!(guarded.ok(&["audit", "--event", "renamed"]).matches("renamed").count(), 2);
  let item = guarded.waiting().remove(0);
  assert!(item["file"].as_str().unwrap().ends_with("memory/old/day.md"), "{item}");
  guarded.approve_all();
  guarded.settle();
  assert_eq!(guarded.holding("workspace", &needle(1)).len(), 1);
  guarded.stop();
}
