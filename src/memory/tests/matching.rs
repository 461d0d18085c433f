//! Two versions of a file.
#![forbid(unsafe_code)]

use super::*;

fn fates(before: &str, after: &str) -> Comparison {
  compare(&parse(after), &ledger(&parse(before), 0x100))
}

#[test]
fn unchanged_moved_edited_removed_inserted() {
  use Fate::{Edited, Inserted, Moved, Unchanged};
  let found =
    fates("a\n\nb\n\nc\n\nd one\nd two\n\ne\n", "b\n\nc\n\na\n\nd one\nd new\n\nf\n\ng\n");
  assert_eq!(
    found.fates,
    [
      Unchanged { known: 1 },
      Unchanged { known: 2 },
      Moved { known: 0 },
      Edited { known: 3, fresh: vec![1] },
      Inserted,
      Inserted,
    ]
  );
  assert_eq!(found.removed, [4]);
}

#[test]
fn other_line_ends_and_a_final_newline_change_nothing() {
  let found = fates("a\nb\n\nc", "a\r\nb\r\n\r\nc\r\n");
  assert_eq!(found.fates, [Fate::Unchanged { known: 0 }, Fate::Unchanged { known: 1 }]);
}

#[test]
fn equal_blocks_stay_in_place() {
  let found = fates("- x\n- x\n- x\n", "- x\n- x\n- y\n- x\n");
  let known: Vec<_> = found.fates.iter().map(Fate::known).collect();
  assert_eq!(known, [Some(0), Some(1), None, Some(2)]);
  let copied = fates("- x\n", "- x\n- x\n");
  assert_eq!(copied.fates, [Fate::Unchanged { known: 0 }, Fate::Inserted], "a copy is new");
}

#[test]
fn a_lone_block_between_the_same_neighbours_is_an_edit() {
  let found = fates("- a\n- b\n- c\n", "- a\n- entirely different\n- c\n");
  assert_eq!(found.fates[1], Fate::Edited { known: 1, fresh: vec![0] });
  assert!(found.removed.is_empty());
}

#[test]
fn joined_and_split_blocks_have_no_fresh_lines() {
  let found = fates("one\n\ntwo\n\nthree\n", "one\ntwo\n\nthree\n");
  assert_eq!(found.fates[0], Fate::Edited { known: 0, fresh: vec![] });
  assert_eq!(found.removed, [1]);
  let found = fates("one\ntwo\n", "one\n\ntwo\n");
  assert_eq!(
    found.fates,
    [Fate::Edited { known: 0, fresh: vec![] }, Fate::Edited { known: 0, fresh: vec![] }]
  );
  assert_eq!(found.heirs, HashSet::from([1]));
}

#[test]
fn a_copied_line_is_fresh_once() {
  let found = fates("one\ntwo\n", "one\ntwo\ntwo\n");
  assert_eq!(found.fates, [Fate::Edited { known: 0, fresh: vec![2] }]);
}

#[test]
fn a_rewrite_without_our_comments_keeps_the_ids() {
  let wrapped = format!(
    "# H\n\n- a\n{}\n- b\n- c\n<!-- /memfw -->\n- d <!-- memfw:000002 -->\n",
    marker(1).print()
  );
  let before = Document::parse(wrapped.as_bytes(), &known(&[1, 2], &[]));
  let after = parse("# H\n\n- a\n- b\n- c\n- d\n");
  let found = compare(&after, &ledger(&before, 0x100));
  let unchanged: Vec<_> = (0..4).map(|known| Fate::Unchanged { known }).collect();
  assert_eq!(found.fates, unchanged);
}

#[test]
fn an_edited_marked_block_is_found_by_its_marker() {
  let text = |middle: &str| {
    format!("- a\n{}\n{middle}\n<!-- /memfw -->\n- z <!-- memfw:000002 -->\n", marker(1).print())
  };
  let known = known(&[1, 2], &[]);
  let before = Document::parse(text("- b").as_bytes(), &known);
  let after = text("- quite another thing").replace("- z", "- y").replace("- a\n", "- a\n- n\n");
  let after = Document::parse(after.as_bytes(), &known);
  let found = compare(&after, &ledger(&before, 0x100));
  assert_eq!(
    found.fates,
    [
      Fate::Unchanged { known: 0 },
      Fate::Inserted,
      Fate::Edited { known: 1, fresh: vec![0] },
      Fate::Edited { known: 2, fresh: vec![0] },
    ]
  );
}

#[test]
fn punctuation_alone_is_no_kinship() {
  let found = fates("x\n\n```\nold code\n```\n\ny\n\nz\n", "y\n\nx\n\nz\n\n```\nnew code\n```\n");
  assert_eq!(found.fates[3], Fate::Inserted);
}

#[test]
fn blocks_swallowed_and_released_are_not_new() {
  let inner = "one\n\n- two\n- three\n\nfour\n";
  let swallowed = format!("```\n{inner}");
  let found = fates(inner, &swallowed);
  assert_eq!(found.fates, [Fate::Edited { known: 0, fresh: vec![0] }]);
  let released = fates(&swallowed, inner);
  for fate in &released.fates {
    assert_eq!(*fate, Fate::Edited { known: 0, fresh: vec![] });
  }
  assert_eq!(released.heirs, HashSet::from([1, 2, 3]));
}
