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

/// The known blocks of a version of which every line has this trust; `former` when the version had
/// left the file.
fn trusted(text: &str, first: usize, trust: Trust, former: bool) -> Vec<KnownBlock> {
  let mut known = ledger(&parse(text), first);
  for block in &mut known {
    block.former = former;
    block.lines.iter_mut().for_each(|line| line.trust = trust);
  }
  known
}

/// The known block that each line of a block is from.
fn origins(found: &Comparison, block: usize) -> Vec<Option<usize>> {
  found.inherited[&block].iter().map(|line| line.map(|line| line.known)).collect()
}

#[test]
fn a_line_that_joins_another_block_is_still_its_own() {
  let mut known = trusted("# Day\n\n- old\n", 0x100, Trust::Verified, false);
  known.extend(trusted("- new\n", 0x200, Trust::Untrusted, false));
  let found = compare(&parse("# Day\n\n- new\n- old\n"), &known);
  // The item identifies the block better than the heading above it.
  assert_eq!(found.fates[0], Fate::Edited { known: 1, fresh: vec![] });
  assert_eq!(origins(&found, 0), [Some(0), None, Some(1)]);
  assert_eq!(found.fates[1], Fate::Edited { known: 0, fresh: vec![] });
  assert_eq!(origins(&found, 1), [Some(0)]);
}

#[test]
fn of_equal_blocks_the_least_trusted_one_is_left() {
  for low in 0..3 {
    let trust = |at| if at == low { Trust::Untrusted } else { Trust::Verified };
    let known: Vec<KnownBlock> =
      (0..3).flat_map(|at| trusted("- x\n", 0x100 * (at + 1), trust(at), false)).collect();
    let found = compare(&parse("- x\n"), &known);
    assert_eq!(found.fates[0].known(), Some(low));
    // A former line accounts for no line while a present one does.
    let mut known = trusted("- x\n", 0x100, Trust::Verified, false);
    known.extend(trusted("- x\n", 0x200, Trust::Hostile, true));
    assert_eq!(compare(&parse("- x\n"), &known).fates, [Fate::Unchanged { known: 0 }]);
  }
}

#[test]
fn of_equal_lines_the_least_trusted_one_is_left() {
  let mut known = trusted("one\ntwo\nthree\n", 0x100, Trust::Verified, false);
  known.extend(trusted("two\n", 0x200, Trust::Untrusted, false));
  let found = compare(&parse("one\ntwo\n"), &known);
  assert_eq!(found.fates, [Fate::Edited { known: 0, fresh: vec![] }]);
  assert_eq!(origins(&found, 0), [Some(0), Some(1)]);
}

#[test]
fn a_block_put_together_as_one_that_was_there_once_is_what_it_was_made_of() {
  let mut known = trusted("- x\n", 0x100, Trust::Hostile, false);
  known.extend(trusted("# H\n\n- x\n", 0x200, Trust::Trusted, true));
  let found = compare(&parse("# H\n\n- x\n"), &known);
  assert_eq!(found.fates, [Fate::Unchanged { known: 1 }]);
  assert_eq!(origins(&found, 0), [Some(1), None, Some(0)]);
}

#[test]
fn a_line_with_another_list_marker_is_known() {
  let changed = |before: &str, after: &str| {
    compare_text(after.as_bytes(), &parse(after), &ledger(&parse(before), 0x100))
  };
  let fresh = |fates: &[Fate]| -> Vec<bool> {
    let is_fresh = |fate: &Fate| match fate {
      Fate::Inserted => true,
      Fate::Edited { fresh, .. } => !fresh.is_empty(),
      Fate::Unchanged { .. } | Fate::Moved { .. } => false,
    };
    fates.iter().map(is_fresh).collect()
  };
  let found = changed("- a\n- b\n", "* a\n* new\n* b\n");
  assert_eq!(fresh(&found.fates), [false, true, false]);
  let known: Vec<_> = found.fates.iter().map(Fate::known).collect();
  assert_eq!(known, [Some(0), None, Some(1)]);
  let found = changed("1. a\n2. b\n3. c\n", "1. new\n2. a\n3. b\n4. c\n");
  assert_eq!(fresh(&found.fates), [true, false, false, false]);
  // Beside the line itself, it is a copy; and the rest of the line counts.
  assert_eq!(fresh(&changed("- a\n", "- a\n\n* a\n").fates), [false, true]);
  assert_eq!(fresh(&changed("- [ ] a\n", "* [x] a\n").fates), [true]);
  assert_eq!(fresh(&changed("- x\n  - a\n", "- x\n  * a\n").fates), [false]);
  // In code, the sign has a meaning.
  assert_eq!(fresh(&changed("```\n- a\n```\n", "```\n+ a\n```\n").fates), [true]);
}
