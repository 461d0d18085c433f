//! The comments and managed regions that OpenClaw writes into memory itself stay unchanged, byte
//! for byte, when memfw edits their file; and markers leave room for the other files of the prompt.

use {
  crate::support::{AT_ONCE, Guarded, clean, marks, needle, poison},
  serde_json::Value,
};

/// Every form that OpenClaw was observed to write or has in its source, as it is in a file. The
/// lines come from the agent itself, so memfw takes none of them out.
const FORMS: &[&str] = &[
  "<!-- openclaw-memory-promotion:3f2a:MEMORY.md:12 -->\n- Ann moved to the third floor.",
  "<!-- openclaw-memory-lineage:3f2a -->\n- Ann's desk is by the window.",
  "- The garage code changes monthly. <!-- trigger: garage, parking -->",
  "- Reviews are before noon. <!-- importance: 7 -->",
  "- Deploys go out on Tuesdays. <!-- trigger: deploy --> <!-- importance: 3 --> <!-- project: billing;ops -->",
  "<!-- openclaw:dreaming:light:start -->\n## Light Sleep\n- Candidate: Ann likes trains.\n<!-- openclaw:dreaming:light:end -->",
  "<!-- openclaw:dreaming:rem:start -->\n## REM Sleep\n- Theme: trains.\n<!-- openclaw:dreaming:rem:end -->",
  "<!-- openclaw:dreaming:deep:start -->\n## Deep Sleep\n- Ranked: trains.\n<!-- openclaw:dreaming:deep:end -->",
  "<!-- openclaw:dreaming:diary:start -->\n# Dream Diary\n\n*A train at night.*\n<!-- openclaw:dreaming:diary:end -->",
  "<!-- openclaw-root-memory-merge source=memory.md archived=memory/archive/memory.md -->\n- Merged line.",
  "<!-- Imported from Hermes: notes.md -->\n- From Hermes.",
  "<!-- Imported from Claude: CLAUDE.md -->\n- From Claude.",
  "<!-- openclaw:wiki:summary:start -->\nA page about trains.\n<!-- openclaw:wiki:summary:end -->",
  "<!-- openclaw:human:start -->\nAnn's own words.\n<!-- openclaw:human:end -->",
];

/// All forms as separate blocks, each beside an unrelated line.
fn text() -> String {
  let blocks = FORMS.iter().enumerate().map(|(n, form)| format!("\n{form}\n\n{}\n", clean(n)));
  std::iter::once("# Memory\n".to_owned()).chain(blocks).collect()
}

fn assert_survive(config: &str) {
  for file in ["MEMORY.md", "memory/2026-11-21.md"] {
    let mut guarded = Guarded::new(config);
    guarded.start();
    let text = text();
    drop(guarded.test().memory(file, &text));
    guarded.settle();
    marks::assert_well_formed(&guarded.read(file));
    marks::assert_same(&marks::strip(&guarded.read(file)), text.as_bytes(), config);
    // Poison is written between them, and taken out.
    let (before, after) = text.split_at(text.find("<!-- openclaw:dreaming:rem:start").unwrap());
    drop(guarded.test().memory(file, format!("{before}{}\n\n{after}", poison(1))));
    guarded.settle();
    let left = guarded.read(file);
    assert!(marks::find(&left, needle(1).as_bytes()).is_none(), "{config}");
    let left = String::from_utf8(marks::strip(&left)).unwrap();
    for form in FORMS {
      assert!(left.contains(form), "{config}: {form}\n{left}");
    }
    let waiting: Vec<Value> = guarded.waiting();
    assert_eq!(waiting.len(), 1, "{config}: {waiting:#?}");
    guarded.stop();
  }
}

#[test]
fn they_survive_markers_around_them() {
  assert_survive(AT_ONCE);
}

#[test]
fn they_survive_markers_behind_them() {
  assert_survive(&format!("markers = \"id\"\n{AT_ONCE}"));
}

#[test]
fn they_survive_without_markers() {
  assert_survive(&format!("markers = \"none\"\n{AT_ONCE}"));
}

#[test]
fn markers_leave_room_for_what_is_before_them_in_the_prompt() {
  // 60,000 characters in all, of which the four files before MEMORY.md take 59,000.
  let mut guarded = Guarded::new(AT_ONCE);
  let line = "a line about trains and night trains\n";
  for (file, chars) in [("AGENTS.md", 20_000), ("SOUL.md", 20_000), ("IDENTITY.md", 19_000)] {
    let text = line.repeat(chars / line.len() + 1);
    drop(guarded.test().memory(file, &text[..chars]));
  }
  guarded.start();
  drop(guarded.test().memory(
    "MEMORY.md",
    format!("# Memory\n\n{}\n", "- A short line about a train.\n".repeat(31)),
  ));
  guarded.settle();
  if marks::reshapes(guarded.tmp()) {
    let text = String::from_utf8(guarded.read("MEMORY.md")).unwrap();
    assert!(!text.contains("memfw:id="), "wrappers would cut the file in the prompt:\n{text}");
    let status = guarded.json(&["status", "--json"]);
    let why = status["unmarked"][0]["why"].as_str().unwrap();
    // A blank at the end of one of them does not count.
    assert!(why.contains(" would exceed the agent's limit of 1,00"), "{status:#}");
  }
  guarded.stop();
}

#[test]
fn temporary_files_of_the_agent_are_not_looked_at() {
  let mut guarded = Guarded::new(AT_ONCE);
  guarded.start();
  for name in [".fs-safe-0f3e.tmp", "memory/.fs-safe-0f3e.tmp", ".AGENTS.md.swp"] {
    drop(guarded.test().memory(name, format!("{}\n", poison(1))));
  }
  drop(guarded.test().memory("MEMORY.md", format!("{}\n", clean(1))));
  guarded.settle();
  assert_eq!(guarded.json(&["status", "--json"])["files"], 1);
  assert!(guarded.waiting().is_empty());
  guarded.stop();
}
