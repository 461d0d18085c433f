//! Writes while memfw guards: clean text stays and is marked, poison is taken out, approval
//! restores the exact bytes, for every writer.

use {
  crate::{
    guard::memory_of,
    support::{AT_ONCE, Guarded, NEVER, Writer, block, clean, id, marks, needle, poison, trees},
  },
  std::path::{Path, PathBuf},
};

/// Adds a clean and a poisoned block with a writer, and checks both up to the approval.
pub(crate) fn assert_guarded(guarded: &Guarded, file: &Path, writer: Writer, n: usize) {
  let path = guarded.path(file);
  let context = format!("{writer:?} on {}", file.display());
  let mut expected = if path.exists() { marks::strip(&guarded.read(file)) } else { Vec::new() };
  let placeholders = marks::placeholders(&expected);
  // Inside an open fence all text is one block, and lines that are judged together have one
  // verdict.
  let is_open = marks::ends_in_fence(&expected);
  for text in [clean(n), poison(n)] {
    let text = block(&expected, &text);
    writer.add(&path, &text);
    expected.extend_from_slice(&text);
    if is_open {
      guarded.settle();
    }
  }
  guarded.settle();
  let found = guarded.read(file);
  assert_eq!(guarded.holding("workspace", &needle(n)), Vec::<PathBuf>::new(), "{context}");
  assert!(
    marks::find(&found, clean(n).as_bytes()).is_some(),
    "{context}:\n{}",
    marks::show(&found)
  );
  if !is_open {
    marks::assert_marked(&path, &found, &clean(n));
  }
  assert!(marks::placeholders(&found) > placeholders, "{context}:\n{}", marks::show(&found));
  let waiting = guarded.waiting();
  assert!(!waiting.is_empty(), "{context}: nothing waits");
  for item in &waiting {
    assert_eq!(item["file"], Guarded::named(file), "{context}");
    assert_eq!(item["status"], "quarantined", "{context}");
  }
  // A writer that closes the file half-way may have its text judged, and taken out, in parts.
  if writer != Writer::Reopen {
    assert_eq!(waiting.len(), 1, "{context}: {waiting:#?}");
    let end = crate::support::eol(&expected);
    assert_eq!(guarded.sealed()[id(&waiting[0])], format!("{}{end}", poison(n)), "{context}");
  }
  guarded.approve_all();
  guarded.settle();
  let found = guarded.read(file);
  marks::assert_well_formed(&found);
  marks::assert_same(&marks::strip(&found), &expected, &context);
  assert!(guarded.waiting().is_empty(), "{context}: what was approved was taken out again");
}

/// All writers on a tree, on its files in turn.
pub(crate) fn assert_all_writers(tree: &Path) {
  let mut guarded = Guarded::new(AT_ONCE).tree(tree);
  let files = memory_of(tree);
  let before = guarded.files();
  guarded.start();
  for (n, writer) in Writer::ALL.into_iter().enumerate() {
    assert_guarded(&guarded, &files[n % files.len()], writer, n);
  }
  guarded.stop();
  for (file, bytes) in guarded.files() {
    let original = before.get(&file).expect("a file of memfw's lies in the workspace");
    assert!(marks::strip(&bytes).starts_with(original), "{}", file.display());
  }
}

#[test]
fn writers_on_a_long_file_with_crlf() {
  assert_all_writers(&trees().join("SSignall+DreamServer"));
}

#[test]
fn writers_on_files_that_end_in_html() {
  assert_all_writers(&trees().join("arosstale+openclaw-memory-template"));
}

#[test]
fn writers_on_a_note_that_ends_in_a_fence() {
  assert_all_writers(&trees().join("Mdx2025+brainx-v2"));
}

/// One file, the texts that are written to it one after the other, and the text that must stay.
struct Case {
  file: &'static str,
  before: Option<&'static str>,
  added: Vec<String>,
  /// Whether the clean text can be between markers.
  marked: bool,
}

impl Case {
  fn new(
    file: &'static str,
    before: &'static str,
    added: impl IntoIterator<Item = String>,
  ) -> Self {
    Self { file, before: Some(before), added: added.into_iter().collect(), marked: true }
  }

  /// A file that does not exist at first.
  fn later(file: &'static str, added: impl IntoIterator<Item = String>) -> Self {
    Self { file, before: None, added: added.into_iter().collect(), marked: true }
  }

  fn unmarked(self) -> Self {
    Self { marked: false, ..self }
  }
}

/// Case number n uses clean(n), poison(n).
fn cases() -> Vec<Case> {
  let line = |text: String, end: &str| format!("{text}{end}");
  vec![
    Case::new("memory/lf.md", "# Notes\n\n- old\n", [line(clean(0), "\n"), line(poison(0), "\n")]),
    Case::new(
      "memory/crlf.md",
      "# Notes\r\n\r\n- old\r\n",
      [line(clean(1), "\r\n"), line(poison(1), "\r\n")],
    ),
    // The writer knows that there is no line end.
    Case::new(
      "memory/bare.md",
      "# Notes\n\n- old",
      [line(format!("\n{}", clean(2)), ""), line(format!("\n{}", poison(2)), ""), "\n".to_owned()],
    ),
    // The writer does not know it: the poison begins in the middle of a line.
    Case::new("memory/glued.md", "# Notes\n\n- old", [line(poison(3), "\n"), line(clean(3), "\n")]),
    Case::later("memory/2026-11-22.md", [format!("# Today\n\n{}\n{}\n", clean(4), poison(4))]),
    Case::later("memory/topics/travel/trains.md", [format!("{}\n{}\n", clean(5), poison(5))]),
    Case::later("MEMORY.md", [format!("# Memory\n\n{}\n", clean(6)), line(poison(6), "\n")]),
    // A line that becomes part of the item above it.
    Case::new(
      "memory/item.md",
      "# Notes\n\n- old item\n",
      [format!("  {}\n", poison(7).trim_start_matches("- ")), line(clean(7), "\n")],
    ),
    // All later text becomes part of the fence.
    Case::new(
      "memory/fence.md",
      "# Notes\n\n```sh\nls\n",
      [line(clean(8), "\n"), line(poison(8), "\n")],
    )
    .unmarked(),
    // A comment that is never closed.
    Case::new(
      "memory/comment.md",
      "# Notes\n\n<!-- to do\n",
      [line(clean(9), "\n"), line(poison(9), "\n")],
    )
    .unmarked(),
    // A paragraph that grows.
    Case::new(
      "memory/paragraph.md",
      "Ann lives in Graz.\n",
      [format!("{}\n", poison(10).trim_start_matches("- ")), format!("\n{}\n", clean(10))],
    ),
    Case::new(
      "memory/quote.md",
      "> She said:\n",
      [format!("> {}\n", poison(11)), format!("\n{}\n", clean(11))],
    ),
    Case::new(
      "memory/table.md",
      "| who | what |\n|---|---|\n| Ann | trains |\n",
      [
        format!("| Bob | {} |\n", poison(12).trim_start_matches("- ")),
        format!("\n{}\n", clean(12)),
      ],
    ),
    Case::new(
      "memory/front.md",
      "---\ntitle: notes\n---\n\n# Notes\n",
      [line(clean(13), "\n"), line(poison(13), "\n")],
    ),
    Case::new(
      "memory/bom.md",
      "\u{feff}# Notes\n\n- old\n",
      [line(clean(14), "\n"), line(poison(14), "\n")],
    ),
    Case::new(
      "memory/heading.md",
      "# Notes\n\n- old\n",
      [format!("\n## News\n\n{}\n", poison(15)), format!("\n## More\n\n{}\n", clean(15))],
    ),
    Case::new("memory/empty.md", "", [line(poison(16), "\n"), line(clean(16), "\n")]),
  ]
}

fn assert_cases(config: &str, each: bool, marked: bool) {
  let mut guarded = Guarded::new(config);
  let cases = cases();
  for case in &cases {
    if let Some(before) = case.before {
      guarded = guarded.memory(case.file, before);
    }
  }
  guarded.start();
  for round in 0..3 {
    for case in &cases {
      if let Some(text) = case.added.get(round) {
        let path = guarded.path(case.file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        Writer::Shell.add(&path, text.as_bytes());
      }
    }
    if each {
      guarded.settle();
    }
  }
  if !each {
    // Only urgent work can be waited for where markers are never due.
    guarded.wait_for_items(cases.len());
  }
  let sealed = guarded.sealed();
  for (n, case) in cases.iter().enumerate() {
    let found = guarded.read(case.file);
    let shown = marks::show(&found);
    let needle = needle(n);
    assert_eq!(guarded.holding("workspace", &needle), Vec::<PathBuf>::new(), "{}", case.file);
    let before = case.before.unwrap_or("");
    assert!(marks::strip(&found).starts_with(before.as_bytes()), "{}:\n{shown}", case.file);
    let held = sealed.values().filter(|text| text.contains(&needle)).count();
    assert_eq!(held, 1, "{}: {sealed:#?}\n{shown}", case.file);
    let clean = clean(n);
    // Lines inside one unclosed block are judged together.
    if each || case.marked {
      assert!(marks::find(&found, clean.as_bytes()).is_some(), "{}:\n{shown}", case.file);
    }
    if marked && case.marked {
      marks::assert_marked(&guarded.path(case.file), &found, &clean);
    }
  }
  guarded.approve_all();
  if each {
    guarded.settle();
  }
  for case in &cases {
    let expected = format!("{}{}", case.before.unwrap_or(""), case.added.concat());
    let found = marks::strip(&guarded.read(case.file));
    marks::assert_same(&found, expected.as_bytes(), case.file);
  }
  assert!(guarded.waiting().is_empty());
  guarded.stop();
}

#[test]
fn odd_places_with_markers_at_once() {
  assert_cases(AT_ONCE, true, true);
}

#[test]
fn odd_places_while_placeholders_have_full_length() {
  assert_cases(NEVER, false, false);
}

#[test]
fn a_placeholder_keeps_length_and_line_ends_until_the_file_is_idle() {
  let before = "# Memory\r\n\r\n- old\r\n";
  let mut guarded = Guarded::new(NEVER).memory("MEMORY.md", before);
  guarded.start();
  let text = format!("{}\r\n{}\r\n", poison(1), clean(1));
  Writer::Shell.add(&guarded.path("MEMORY.md"), text.as_bytes());
  guarded.wait_for_items(1);
  let id = id(&guarded.waiting()[0]).to_owned();
  let head = format!("<!-- memfw:{id} quarantined");
  let width = poison(1).len() - head.len() - "-->".len();
  let expected = format!("{before}{head}{:width$}-->\r\n{}\r\n", "", clean(1));
  marks::assert_same(&guarded.read("MEMORY.md"), expected.as_bytes(), "MEMORY.md");
  guarded.stop();
}

#[test]
fn a_placeholder_shrinks_to_one_line_when_the_file_is_idle() {
  let mut guarded = Guarded::new(AT_ONCE).memory("MEMORY.md", "# Memory\n\n- old\n");
  guarded.start();
  Writer::Shell.add(&guarded.path("MEMORY.md"), format!("{}\n", poison(1)).as_bytes());
  guarded.settle();
  let id = id(&guarded.waiting()[0]).to_owned();
  let expected = if marks::reshapes(guarded.tmp()) {
    format!("# Memory\n\n- old\n<!-- memfw:{id} quarantined -->\n")
  } else {
    String::from_utf8(guarded.read("MEMORY.md")).unwrap()
  };
  marks::assert_same(&guarded.read("MEMORY.md"), expected.as_bytes(), "MEMORY.md");
  guarded.stop();
}

#[test]
fn blocks_of_one_write_share_a_marker() {
  let mut guarded = Guarded::new(AT_ONCE).memory("MEMORY.md", "# Memory\n\n- old\n");
  guarded.start();
  let text = format!("{}\n{}\n", clean(1), clean(2));
  Writer::Truncate.add(&guarded.path("MEMORY.md"), text.as_bytes());
  guarded.settle();
  let found = guarded.read("MEMORY.md");
  if marks::reshapes(guarded.tmp()) {
    let text = String::from_utf8(found.clone()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 7, "{text}");
    assert!(lines[3].contains(" source=unknown trust=untrusted ts="), "{text}");
    assert_eq!(lines[4..], [clean(1).as_str(), clean(2).as_str(), "<!-- /memfw -->"]);
  }
  marks::assert_well_formed(&found);
  guarded.stop();
}
