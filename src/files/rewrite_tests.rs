//! Reshaping, and recovery from every state in which a crash can leave it.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::files::overwrite::tests::Memory;

#[test]
fn one_write_from_the_common_prefix_and_a_cut_only_when_shorter() {
  let file = Memory::leased(b"- a\n- b\n");
  assert!(matches!(reshape(&file, b"- a\n- b\n", b"- a\n- longer\n").unwrap(), Reshaped::Done));
  assert_eq!(*file.bytes.borrow(), b"- a\n- longer\n");
  assert_eq!(*file.writes.borrow(), [(6, 7)]);
  assert!(file.cuts.borrow().is_empty());

  let file = Memory::leased(b"- a\n- b\n");
  assert!(matches!(reshape(&file, b"- a\n- b\n", b"- a\n").unwrap(), Reshaped::Done));
  assert_eq!(*file.bytes.borrow(), b"- a\n");
  assert!(file.writes.borrow().is_empty());
  assert_eq!(*file.cuts.borrow(), [4]);
}

#[test]
fn another_content_is_left_alone() {
  let file = Memory::leased(b"- a\n- c\n");
  assert!(matches!(reshape(&file, b"- a\n", b"- x\n").unwrap(), Reshaped::Changed));
  assert_eq!(*file.bytes.borrow(), b"- a\n- c\n");
}

#[test]
fn without_a_young_lease_nothing_is_reshaped() {
  for age in [None, Some(lease::LIMIT), Some(Duration::from_mins(1))] {
    let file = Memory::new(b"a");
    file.age.set(age);
    assert!(matches!(reshape(&file, b"a", b"b"), Err(FsError::NotLeased { .. })));
    assert_eq!(*file.bytes.borrow(), b"a");
  }
}

#[test]
fn recovery_by_example() {
  let recover = |current: &[u8]| recover_reshape(current, b"abcd", b"abXXcdYY");
  assert_eq!(recover(b"abXXcdYY"), Recovery::Done);
  assert_eq!(recover(b"abXXcdYY appended"), Recovery::Done);
  assert_eq!(recover(b"abcd"), Recovery::NotApplied);
  assert_eq!(recover(b"abcd appended"), Recovery::NotApplied);
  // The size reached the disk and the data did not.
  assert_eq!(recover(b"abcd\0\0\0\0"), Recovery::Rewrite(b"abXXcdYY".to_vec()));
  assert_eq!(recover(b"abcd\0\0\0\0++"), Recovery::Rewrite(b"abXXcdYY++".to_vec()));
  assert_eq!(recover(b"abXX\0\0YY++"), Recovery::Rewrite(b"abXXcdYY++".to_vec()));
  // Too few bytes differ to show who wrote `XX`, so it is kept as well.
  assert_eq!(recover(b"abXX++"), Recovery::Rewrite(b"abXXcdYYXX++".to_vec()));
  assert_eq!(recover(b"abXX"), Recovery::Rewrite(b"abXXcdYY".to_vec()));
  assert_eq!(recover(b"abXX\0\0"), Recovery::Rewrite(b"abXXcdYY".to_vec()));
  assert_eq!(recover(b""), Recovery::Foreign);
  assert_eq!(recover(b"abX"), Recovery::Foreign);
  assert_eq!(recover(b"someone else's text"), Recovery::Foreign);

  let recover = |current: &[u8]| recover_reshape(current, b"abXXcdYY", b"abcd");
  assert_eq!(recover(b"abXXcdYY++"), Recovery::NotApplied);
  // Written and not truncated.
  assert_eq!(recover(b"abcdcdYY"), Recovery::Rewrite(b"abcd".to_vec()));
  // Perhaps a program wrote `cdYY++` after a finished reshape.
  assert_eq!(recover(b"abcdcdYY++"), Recovery::Done);
  assert_eq!(recover(b"abcd++"), Recovery::Done);
  // Truncated on disk before the data was there.
  assert_eq!(recover(b"abXX"), Recovery::Rewrite(b"abcd".to_vec()));
  assert_eq!(recover(b"abXX++"), Recovery::Rewrite(b"abcdXX++".to_vec()));
  assert_eq!(recover(b"ab"), Recovery::Foreign);
}

#[test]
fn text_that_begins_like_the_new_content_by_chance_is_not_cut() {
  let head = "- what all versions have in common\n".repeat(3);
  let texts = |parts: [&str; 3]| parts.map(|part| format!("{head}{part}").into_bytes());
  // A writer that had read an earlier version writes it back with an entry of its own.
  let [base, new, current] = texts(["\n", "(12) one more\n", "(11) another\n"]);
  let both = [&new[..], b"(11) another\n"].concat();
  assert_eq!(recover_reshape(&current, &base, &new), Recovery::Rewrite(both));
  let [base, new, current] = texts(["(12)", "", "(11) another\n"]);
  assert_eq!(recover_reshape(&current, &base, &new), Recovery::Done);
  let [base, new, current] = texts(["(1", "", "(11) another\n"]);
  assert_eq!(recover_reshape(&current, &base, &new), Recovery::NotApplied);
}

#[test]
fn a_growing_write_that_was_cut_short_ends_at_a_page() {
  let base = b"- a\n".repeat(1100);
  let grown = [&b"- new\n"[..], &base, &b"- b\n".repeat(3000)].concat();
  for pages in [2, 3] {
    let current = [&grown[..pages * PAGE], b"- APPENDED\n"].concat();
    let whole = [&grown[..], b"- APPENDED\n"].concat();
    assert_eq!(recover_reshape(&current, &base, &grown), Recovery::Rewrite(whole.clone()));
    let hole = vec![0; grown.len() - pages * PAGE];
    let current = [&grown[..pages * PAGE], &hole, b"- APPENDED\n"].concat();
    assert_eq!(recover_reshape(&current, &base, &grown), Recovery::Rewrite(whole));
  }
  // Only text after the base: appended text may begin alike by chance.
  let base = &base[..PAGE - 4];
  let grown = [base, &b"- b\n".repeat(3000)].concat();
  let current = [base, b"- b\n- APPENDED\n"].concat();
  assert_eq!(recover_reshape(&current, base, &grown), Recovery::NotApplied);
}

#[test]
fn what_a_writer_changed_in_a_finished_reshape_is_not_taken_for_an_addition() {
  let base = b"- a first entry\n- a second entry\n";
  let new =
    b"<!-- memfw:id=a1b2c3 -->\n- a first entry\n- a second entry\n<!-- /memfw -->\n- end\n";
  let mut current = new.to_vec();
  let at = new.len() - b"<!-- /memfw -->\n- end\n".len();
  current[at..at + 5].copy_from_slice(b"- own");
  assert_eq!(recover_reshape(&current, base, new), Recovery::Foreign);
}

const MARKED: &str = "# Memory\n\n- one\n\n<!-- memfw:id=a1b2c3 source=agent trust=verified -->\n\
                      - two\n<!-- /memfw -->\n";

#[test]
fn a_growing_write_that_was_cut_short_at_any_byte_is_completed() {
  let whole = MARKED.as_bytes();
  for base in
    ["# Memory\n\n- one\n\n- two\n", "# Memory\n\n- one\n\n", "# Memory\n\n- one\n- two\n"]
  {
    let base = base.as_bytes();
    let same = base.iter().zip(whole).take_while(|(old, new)| old == new).count();
    for end in same + 1..whole.len() {
      let torn = [&whole[..end], base.get(end..).unwrap_or_default()].concat();
      let expected = Recovery::Rewrite(whole.to_vec());
      let is_started = torn != base;
      assert_eq!(recover_reshape(&torn, base, whole) == expected, is_started, "{end}: {torn:?}");
    }
  }
  // Behind a whole page as well.
  let base = b"- a\n".repeat(1020);
  let grown = [&b"- a longer first line\n"[..], &base, &b"- b\n".repeat(3000)].concat();
  for end in [PAGE - 3, PAGE + 5, 2 * PAGE + 6] {
    let found = recover_reshape(&grown[..end], &base, &grown);
    assert_eq!(found, Recovery::Rewrite(grown.clone()), "{end}");
  }
}

#[test]
fn text_that_was_appended_to_a_part_of_a_comment_is_kept_behind_the_whole_one() {
  let (base, whole) = (b"# Memory\n\n- one\n\n- two\n", MARKED.as_bytes());
  let begin = MARKED.find("<!-- memfw:").unwrap();
  for end in begin + 11..MARKED.find(" -->").unwrap() {
    let current = [&whole[..end.max(base.len() + 1)], b"- APPENDED\n"].concat();
    let expected = Recovery::Rewrite([whole, b"- APPENDED\n"].concat());
    assert_eq!(recover_reshape(&current, base, whole), expected, "{end}");
  }
  // A writer has changed a comment of the finished content.
  let changed = MARKED.replace("verified", "trusted");
  assert_eq!(recover_reshape(changed.as_bytes(), base, whole), Recovery::Foreign);
  let changed = MARKED.replace("- two\n", "- two, or three\n");
  assert_eq!(recover_reshape(changed.as_bytes(), base, whole), Recovery::Foreign);
}

/// How far a reshape came before the crash.
#[derive(Clone, Debug)]
enum Crash {
  /// The kill came after this many bytes of the write, rounded down to the kernel's unit.
  Killed(usize),
  /// After the write, before the truncation.
  Uncut,
  /// The power failed: for each unit its state on disk, and whether the new length is there.
  Power(Vec<u8>, bool),
  /// It was finished.
  Finished,
}

/// Texts of lower-case letters and line ends, so that appended text (upper case) is always distinguishable:
/// otherwise the writer of a byte would be unknown. Made of runs, because single bytes would take minutes.
fn image() -> impl Strategy<Value = Vec<u8>> {
  let run = (0usize..5, 1usize..600).prop_map(|(start, length)| {
    (start..start + length).map(|at| b"abcde\n"[at * at % 6]).collect::<Vec<_>>()
  });
  prop::collection::vec(run, 1..40).prop_map(|runs| runs.concat())
}

fn crash() -> impl Strategy<Value = Crash> {
  prop_oneof![
    (0..6 * PAGE).prop_map(Crash::Killed),
    Just(Crash::Uncut),
    (prop::collection::vec(0u8..3, 40), any::<bool>()).prop_map(|(d, l)| Crash::Power(d, l)),
    Just(Crash::Finished),
  ]
}

/// The bytes of the file after the crash.
fn torn(base: &[u8], new: &[u8], crash: &Crash) -> Vec<u8> {
  let same = base.iter().zip(new).take_while(|(old, new)| old == new).count();
  match crash {
    Crash::Killed(bytes) => {
      let end = if same + bytes >= new.len() { new.len() } else { (same + bytes) / PAGE * PAGE };
      let end = end.max(same);
      let tail = base.get(end..).unwrap_or_default();
      [&new[..end], tail].concat()
    }
    Crash::Uncut => [new, base.get(new.len()..).unwrap_or_default()].concat(),
    Crash::Power(units, long) => {
      let length = if *long { new.len() } else { base.len() };
      // Units of 512 bytes, smaller than any that is used.
      let unit = |at: usize| units[at / 512 % units.len()];
      let byte = |at: usize| match (base.get(at), new.get(at), unit(at)) {
        // Beyond the base there is the new text or no text.
        (_, Some(new), 1) | (None, Some(new), 2) => *new,
        (Some(base), _, _) => *base,
        _ => 0,
      };
      (0..length).map(byte).collect()
    }
    Crash::Finished => new.to_vec(),
  }
}

proptest! {
  #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

  #[test]
  fn whatever_a_crash_left_is_made_whole(
    base in image(),
    parts in prop::collection::vec(
      (
        any::<prop::sample::Index>(),
        prop_oneof![4 => "[a-e\n]{0,60}".prop_map(String::into_bytes), 1 => image()],
        0usize..60,
      ),
      1..6,
    ),
    crash in crash(),
    appended in "([A-Z]{1,20}\n){0,3}",
  ) {
    // The new image differs from the base as a reshape makes it: lines inserted and taken out.
    let mut new = base.clone();
    for (at, insert, remove) in parts {
      let at = at.index(new.len() + 1);
      let end = (at + remove).min(new.len());
      new.splice(at..end, insert);
    }
    prop_assume!(new != base && !new.is_empty() && !base.is_empty());
    let appended = appended.as_bytes();
    let left = torn(&base, &new, &crash);
    let current = [&left[..], appended].concat();
    let whole = [&new[..], appended].concat();
    let untouched = [&base[..], appended].concat();
    match recover_reshape(&current, &base, &new) {
      // Too few bytes to be distinguished from appended ones: they stay.
      Recovery::Done => {
        prop_assert!(current.starts_with(&new) && current.ends_with(appended));
        prop_assert!(current.len() < whole.len() + EVIDENCE);
      }
      // Too few bytes of the new content to be distinguished from appended ones.
      Recovery::NotApplied if current.len() < untouched.len() + EVIDENCE => {
        prop_assert!(current.starts_with(&base) && current.ends_with(appended));
      }
      Recovery::NotApplied => prop_assert_eq!(&current, &untouched),
      Recovery::Rewrite(bytes) => {
        prop_assert!(bytes.starts_with(&new) && bytes.ends_with(appended));
        prop_assert!(bytes.len() < whole.len() + EVIDENCE);
      }
      Recovery::Foreign => prop_assert!(false, "a torn file was taken for a foreign one"),
    }
  }

  #[test]
  fn a_file_of_somebody_else_is_never_rewritten(
    base in "[a-e\n]{1,300}",
    new in "[a-e\n]{1,300}",
    other in "[A-Z\n]{0,10}[A-Z][A-Z\n]{0,300}",
  ) {
    let (base, new) = (base.as_bytes(), new.as_bytes());
    // Another first letter than both images have: no part of them is left.
    let current = [b"Q", other.as_bytes()].concat();
    prop_assert_eq!(recover_reshape(&current, base, new), Recovery::Foreign);
  }

  #[test]
  fn recovery_never_loses_what_is_behind_both_images(
    base in prop::collection::vec(any::<u8>(), 0..40),
    new in prop::collection::vec(any::<u8>(), 0..40),
    current in prop::collection::vec(any::<u8>(), 0..80),
  ) {
    if let Recovery::Rewrite(bytes) = recover_reshape(&current, &base, &new) {
      prop_assert!(bytes.starts_with(&new));
      let behind = current.get(base.len().max(new.len())..).unwrap_or_default();
      prop_assert!(bytes.ends_with(behind));
    }
  }
}

#[test]
fn the_end_of_the_new_content_is_not_kept_behind_it_once_more() {
  let new = b"- one line of the note\n- another line of it, rather long\n";
  let rest = b"line of it, rather long\n";
  let torn = |tail: &[u8]| rewrite(new, tail, 0);
  assert_eq!(torn(rest), Recovery::Rewrite(new.to_vec()));
  // A whole line may have been appended.
  let line = b"- another line of it, rather long\n";
  assert_eq!(torn(line), Recovery::Rewrite([&new[..], line].concat()));
  assert_eq!(torn(b"- tea\n"), Recovery::Rewrite([&new[..], b"- tea\n"].concat()));
}

#[test]
fn a_line_that_was_overwritten_in_the_rest_of_a_shrunk_file_stays_alone() {
  let base = b"# Old\n\n- a rather long first line\n- a rather long second line\n- third\n";
  let new = b"# New\n\n- a rather\n";
  let rest = &base[new.len()..];
  let changed = str::from_utf8(rest).unwrap().replace("- third", "- other");
  for added in ["", "- appended\n"] {
    let current = [&new[..], changed.as_bytes(), added.as_bytes()].concat();
    let expected = [&new[..], b"- other\n", added.as_bytes()].concat();
    assert_eq!(recover_reshape(&current, base, new), Recovery::Rewrite(expected));
  }
  // A program that had read the old version wrote it again, with another third line.
  let new = b"# Old\n\n- a rather long first line\n";
  let current = str::from_utf8(base).unwrap().replace("- third", "- other");
  assert_eq!(recover_reshape(current.as_bytes(), base, new), Recovery::NotApplied);
}

#[test]
fn a_line_that_was_overwritten_in_the_new_part_of_a_shrunk_file_stays_and_the_rest_goes() {
  let base = b"# Notes\n\n- a line that is taken out\n- the first line\n- the second line\n- the third line\n";
  let new = b"# Notes\n\n- the first line\n- the second line\n- the third line\n";
  let torn = str::from_utf8(&[&new[..], &base[new.len()..]].concat()).unwrap().to_owned();
  for added in ["", "- appended\n"] {
    let current = torn.replacen("the second", "an altered", 1) + added;
    let expected = str::from_utf8(new).unwrap().replace("the second", "an altered") + added;
    let recovery = recover_reshape(current.as_bytes(), base, new);
    assert_eq!(recovery, Recovery::Rewrite(expected.into_bytes()));
  }
  // Most lines are others': nothing shows that the edit has been written.
  let lines = ["the first", "the second", "the third"].into_iter().zip([
    "our first",
    "our second",
    "our third",
  ]);
  let current = lines.fold(torn, |text, (old, new)| text.replacen(old, new, 1));
  assert_eq!(recover_reshape(current.as_bytes(), base, new), Recovery::Foreign);
}

#[test]
fn a_shrink_of_which_no_byte_is_there_was_not_begun_whatever_others_changed_behind_it() {
  let base = b"- a                    \n- the first line\n- the second line\n- the third line\n";
  let new = b"- a\n- the first line\n- the second line\n- the third line\n";
  let until = |at: usize| base.get(..at).unwrap();
  // A power cut took what another program had appended.
  assert_eq!(recover_reshape(until(base.len() - 4), base, new), Recovery::NotApplied);
  // Another program wrote a stale copy with an end of its own.
  let stale = [until(base.len() - 4), b" of another\n"].concat();
  assert_eq!(recover_reshape(&stale, base, new), Recovery::NotApplied);
  // The truncation reached the disk, and the new content did not.
  assert_eq!(recover_reshape(until(new.len()), base, new), Recovery::Rewrite(new.to_vec()));
}
