//! Texts that are made to be slow, deep or large. A quadratic step would make these run for minutes.
#![forbid(unsafe_code)]

use super::*;

/// Parses, compares with itself and with its second half, and checks the tiling.
fn survive(bytes: &[u8]) -> Document {
  let known = known(&[1, 2], &[3, 4]);
  let document = Document::parse(bytes, &known);
  assert_eq!(tiled(&document, bytes), bytes);
  let ledger = ledger(&document, 0x10_0000);
  let same = compare(&document, &ledger);
  assert!(same.fates.iter().enumerate().all(|(at, fate)| *fate == Fate::Unchanged { known: at }));
  let half = compare(&document, &ledger[ledger.len() / 2..]);
  assert_eq!(half.fates.len(), document.blocks().len());
  document
}

#[test]
fn five_megabytes_on_one_line() {
  assert_eq!(survive(&b"forward the mail ".repeat(300_000)).blocks().len(), 1);
  survive(&b"*a **b `c [d](e <f> &g; ".repeat(40_000));
}

#[test]
fn a_hundred_thousand_tiny_items() {
  let each = |count: usize, of: &dyn Fn(usize) -> String| (0..count).map(of).collect::<String>();
  let distinct = each(100_000, &|n| format!("- {n}\n"));
  let document = survive(distinct.as_bytes());
  assert!(document.is_coarse() && document.blocks().len() <= coarse::MAX_BLOCKS);
  let document = survive(&b"- x\n".repeat(100_000));
  // All of them edited, with one line that all share.
  let old = each(30_000, &|n| format!("- {n}\n  shared\n"));
  let new = each(30_000, &|n| format!("- {n} new\n  shared\n"));
  let found = compare(&parse(&new), &ledger(&parse(&old), 0x10_0000));
  assert_eq!(found.fates.len(), parse(&new).blocks().len());
  let distinct = parse(&distinct);
  let rotated = compare(&document, &ledger(&distinct, 0x10_0000));
  assert_eq!(rotated.removed.len(), distinct.blocks().len());
}

/// Blocks, lines and rows of a file have a bound, and every byte is in a block.
#[test]
fn many_blocks_and_lines_are_joined_and_none_is_left_out() {
  for (part, count) in [
    ("a\n\n", 50_000),
    ("a\n\n", 1_000_000),
    ("a\n", 44_000),
    ("a\n", 1_500_000),
    ("- a\n", 22_000),
    ("[a](https://b.example/c)\n\n", 20_000),
    ("<!-- memfw:aaaaaa quarantined -->\n", 20_000),
    ("a\r\r", 300_000),
    ("# a\n", 100_000),
  ] {
    let text = part.repeat(count);
    let document = survive(text.as_bytes());
    let blocks = document.blocks();
    assert!(blocks.len() <= coarse::most_blocks(text.len()), "{part:?}: {}", blocks.len());
    let lines: usize = blocks.iter().map(|block| block.lines.len()).sum();
    // One more for the text between two blocks.
    let most = coarse::most_lines(text.len()) * 2;
    assert!(lines <= most, "{part:?}: {lines} lines");
    let said: usize =
      blocks.iter().flat_map(|block| &block.parts).map(ExactSizeIterator::len).sum();
    assert!(said + 2 * blocks.len() >= text.trim_end().len(), "{part:?}: {said} bytes");
    assert!(document.is_coarse());
  }
}

/// The parser keeps a node for each sign of markup, so a file of signs is read line by line.
#[test]
fn signs_of_markup_do_not_fill_the_memory() {
  for part in ["[", "]", "*a", "<a", "&lt;", "|a", "\\[", "- - - a\n"] {
    let text = part.repeat(300_000);
    assert!(survive(text.as_bytes()).is_coarse(), "{part:?}");
  }
  let notes = "- **Ann** likes `tea`; see [notes](x.md).\n".repeat(4000);
  assert!(!survive(notes.as_bytes()).is_coarse());
}

/// A line that is inserted at the top changes only the units around it.
#[test]
fn an_edit_of_a_coarse_file_leaves_the_other_units_alone() {
  for line_end in ["\n", "\n\n"] {
    let facts: Vec<String> = (0..200_000).map(|n| format!("fact {n}{line_end}")).collect();
    let text = facts.concat();
    let known = ledger(&parse(&text), 0x10_0000);
    let edited = format!("one more{line_end}{text}");
    let found = compare(&parse(&edited), &known);
    let changed = found.fates.iter().filter(|fate| !matches!(fate, Fate::Unchanged { .. })).count();
    assert!((1..=2).contains(&changed), "{changed} units changed");
  }
}

/// A file small enough for separate blocks has them, and text between comments of memfw is never joined with
/// other text.
#[test]
fn common_files_are_not_joined() {
  let notes: Vec<String> = (0..4000).map(|n| format!("- note {n} about the garden\n")).collect();
  let text = notes.concat();
  let document = parse(&text);
  assert_eq!((document.blocks().len(), document.is_coarse()), (4000, false));
  let part = "a\n\n".repeat(3000);
  let opener = marker(1).print();
  let text = format!("{part}{opener}\nb\n<!-- /memfw -->\n{part}");
  let document = Document::parse(text.as_bytes(), &known(&[1], &[]));
  assert!(document.is_coarse());
  let marked: Vec<&Block> = document.blocks().iter().filter(|one| one.marker.is_some()).collect();
  assert_eq!(marked.len(), 1);
  assert_eq!(marked[0].lines.len(), 1);
}

#[test]
fn containers_without_end() {
  let stair = |n| [b"  ".repeat(n), b"- a\n".to_vec()].concat();
  let stairs: Vec<u8> = (0..1000).flat_map(stair).collect();
  for text in [
    [b"- ".repeat(300_000), b"a".to_vec(), b"\nb".repeat(300_000)].concat(),
    [b"- ".repeat(300_000), b"\n".repeat(600_000)].concat(),
    [b"> ".repeat(300_000), b"\n>".repeat(300_000)].concat(),
    b">".repeat(1_000_000),
    b"1. ".repeat(300_000),
    stairs.clone(),
    [stairs.clone(), b"x\n \n".repeat(200_000)].concat(),
  ] {
    survive(&text);
  }
}

#[test]
fn openings_without_end() {
  for part in [
    "<!--",
    "<!-- ",
    "<?",
    "<![CDATA[",
    "<a ",
    "[",
    "![",
    "](",
    "`",
    "``a",
    "*a_",
    "&",
    "\\",
    "<",
    "|",
    "[a]: ",
    "[a](<b",
    "~~~\n",
    "```\n",
    "<div>\n",
    "\r",
    "\n",
    " \n",
    "\t\n",
    "\u{feff}",
    "=\n",
    "-\n",
    "|-|\n",
    "a|b\n-|-\n",
    "[a]: b\n",
    "> [a]: b\n\n",
    "---\n",
    "# ",
    "#\n",
    "\0",
  ] {
    survive(part.repeat(400_000 / part.len()).as_bytes());
  }
}

#[test]
fn our_own_comments_by_the_thousand() {
  let opener = marker(1).print();
  for part in [
    "memfw",
    "<!-- memfw:",
    "<!-- memfw:000003 quarantined -->",
    "memfw:000003\n",
    "<!-- /memfw -->\n",
    "<!-- memfw:000001 -->",
    "a <!-- memfw:000001 -->\n",
    "<!-- memfw:000003 quarantined       ",
    "<!-- memfw:000003 quarantined -->x\n",
    "<!-- memfw:id=000001 ",
    &format!("{opener}\n"),
    &format!("{opener}\na\n<!-- /memfw -->\n"),
    "- <!-- memfw:000003 quarantined -->\n",
  ] {
    survive(part.repeat(400_000 / part.len()).as_bytes());
  }
}

#[test]
fn a_redaction_of_many_lines_is_fast() {
  let text = "xy\n".repeat(200_000);
  let form = placeholder::redact(text.as_bytes(), &id(1));
  assert_eq!(form.len(), text.len());
  let text = format!("{text}a line with room for the whole placeholder\n");
  let form = placeholder::redact(text.as_bytes(), &id(1));
  assert!(placeholder::find(&form, &id(1), text.as_bytes()).unwrap().exact);
}
