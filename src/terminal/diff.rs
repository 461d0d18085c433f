//! The difference of two texts by lines, in the format of `diff -u`. This module escapes nothing.
#![forbid(unsafe_code)]

use std::{collections::HashMap, time::Instant};

use similar::{Algorithm, DiffOp, DiffTag, capture_diff_slices_deadline, group_diff_ops};

/// Unchanged lines around a change, the usual number.
const CONTEXT: usize = 3;

/// The kind of a line of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
  /// The head of a run of changes.
  Head,
  /// The line is in both texts.
  Same,
  /// The line is only in the old text.
  Gone,
  /// The line is only in the new text.
  Come,
}

/// A line of a difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiffLine {
  /// Its kind.
  pub change: Change,
  /// Its text, with the sign before it and without its line end.
  pub text: Vec<u8>,
}

/// The changes from `old` to `new`. Very different texts are compared exactly until `deadline`;
/// the rest is then reported as replaced.
pub fn unified(old: &[u8], new: &[u8], deadline: Instant) -> Vec<DiffLine> {
  let (old, new) = (lines(old), lines(new));
  let ops = capture_diff_slices_deadline(Algorithm::Myers, &old, &new, Some(deadline));
  let mut out = Vec::new();
  for group in group_diff_ops(ops, CONTEXT) {
    let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
    let head = format!(
      "@@ -{} +{} @@",
      range(first.old_range().start, last.old_range().end),
      range(first.new_range().start, last.new_range().end)
    );
    out.push(DiffLine { change: Change::Head, text: head.into_bytes() });
    for op in group {
      let mut put = |change, sign, lines: &[&[u8]]| {
        for line in lines {
          push(&mut out, change, sign, line);
        }
      };
      if op.tag() == DiffTag::Equal {
        put(Change::Same, b' ', of(&old, &op, DiffOp::old_range));
      } else {
        put(Change::Gone, b'-', of(&old, &op, DiffOp::old_range));
        put(Change::Come, b'+', of(&new, &op, DiffOp::new_range));
      }
    }
  }
  out
}

/// The number of lines that only `new` has, and that only `old` has. The places of the lines do not matter, so this
/// takes linear time.
pub fn counts(old: &[u8], new: &[u8]) -> (u64, u64) {
  let mut balance: HashMap<&[u8], i64> = HashMap::new();
  for line in lines(new) {
    *balance.entry(line).or_default() += 1;
  }
  for line in lines(old) {
    *balance.entry(line).or_default() -= 1;
  }
  balance.values().fold((0, 0), |(come, gone), n| {
    if *n > 0 { (come + n.unsigned_abs(), gone) } else { (come, gone + n.unsigned_abs()) }
  })
}

fn lines(text: &[u8]) -> Vec<&[u8]> {
  text.split_inclusive(|byte| *byte == b'\n').collect()
}

fn of<'a, 't>(
  lines: &'a [&'t [u8]],
  op: &DiffOp,
  range: impl Fn(&DiffOp) -> std::ops::Range<usize>,
) -> &'a [&'t [u8]] {
  lines.get(range(op)).unwrap_or_default()
}

fn push(out: &mut Vec<DiffLine>, change: Change, sign: u8, line: &[u8]) {
  let whole = line.strip_suffix(b"\n");
  let mut text = vec![sign];
  text.extend_from_slice(whole.unwrap_or(line));
  out.push(DiffLine { change, text });
  if whole.is_none() {
    out.push(DiffLine { change, text: b"\\ No newline at end of file".to_vec() });
  }
}

/// First line and number of lines; an empty range names the line before it.
fn range(start: usize, end: usize) -> String {
  match end - start {
    0 => format!("{start},0"),
    1 => (start + 1).to_string(),
    n => format!("{},{n}", start + 1),
  }
}

#[cfg(test)]
mod tests {
  use std::time::Duration;

  use proptest::prelude::*;

  use super::*;
  use crate::os::clock::deadline;

  fn soon() -> Instant {
    deadline(Duration::from_mins(1))
  }

  fn shown(old: &str, new: &str) -> String {
    let lines = unified(old.as_bytes(), new.as_bytes(), soon()).into_iter();
    lines.map(|line| String::from_utf8(line.text).unwrap() + "\n").collect()
  }

  #[test]
  fn it_reads_as_diff_u() {
    assert_eq!(
      shown("a\nb\nc\nd\ne\nf\n", "a\nb\nc\nd\nE\nf\ng"),
      "@@ -2,5 +2,6 @@\n b\n c\n d\n-e\n+E\n f\n+g\n\\ No newline at end of file\n"
    );
    assert_eq!(shown("", "a\n"), "@@ -0,0 +1 @@\n+a\n");
    assert_eq!(shown("a\n", ""), "@@ -1 +0,0 @@\n-a\n");
    assert_eq!(shown("a\n", "a\n"), "");
  }

  #[test]
  fn after_the_deadline_the_rest_is_replaced() {
    let text = |seed: usize| {
      let lines = (0..4000).map(|n| ((n * 7919 + seed * 104_729) % 9973).to_string());
      lines.collect::<Vec<_>>().join("\n")
    };
    let lines = unified(text(1).as_bytes(), text(2).as_bytes(), deadline(Duration::ZERO));
    let of = |change| lines.iter().filter(|line| line.change == change).count();
    assert!(of(Change::Gone) > 3000 && of(Change::Come) > 3000);
  }

  proptest! {
    #[test]
    fn a_difference_turns_the_old_text_into_the_new_one(
      old in "([abc]\n){0,12}[ab]?", new in "([abc]\n){0,12}[ab]?",
    ) {
      // Applied by the numbers in the difference, as `patch` does.
      let old_lines: Vec<&str> = old.split_inclusive('\n').collect();
      let (mut made, mut at) = (String::new(), 0);
      for line in unified(old.as_bytes(), new.as_bytes(), soon()) {
        let text = String::from_utf8(line.text).unwrap();
        match line.change {
          Change::Head => {
            let place = text.strip_prefix("@@ -").and_then(|rest| rest.split_once(" +")).unwrap().0;
            let (start, len) = place.split_once(',').unwrap_or((place, "1"));
            let start = start.parse::<usize>().unwrap() - usize::from(len != "0");
            made.push_str(&old_lines[at..start].concat());
            at = start;
          }
          _ if text.starts_with('\\') => {
            if line.change != Change::Gone { prop_assert_eq!(made.pop(), Some('\n')); }
          }
          Change::Gone => at += 1,
          Change::Same | Change::Come => {
            at += usize::from(line.change == Change::Same);
            made.push_str(text.get(1..).unwrap());
            made.push('\n');
          }
        }
      }
      made.push_str(&old_lines[at..].concat());
      prop_assert_eq!(&made, &new);
      let (come, gone) = counts(old.as_bytes(), new.as_bytes());
      let (n_old, n_new) = (old_lines.len() as u64, new.split_inclusive('\n').count() as u64);
      prop_assert_eq!(n_old + come, n_new + gone);
    }
  }
}
