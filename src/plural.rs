//! A number with its noun, in messages of every room: `1 file`, `2 files`. The one place that knows the
//! singular.
#![forbid(unsafe_code)]

/// A number with its noun, whose plural ends in `s`: `1 file`, `2 files`. An adjective may come before the
/// noun.
pub fn count(n: u64, noun: &str) -> String {
  if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

/// A number with its noun, and its digits in groups of three: `9,115 blocks`.
pub fn large(n: u64, noun: &str) -> String {
  if n == 1 { format!("1 {noun}") } else { format!("{} {noun}s", grouped(n)) }
}

/// A number with its digits in groups of three.
pub fn grouped(n: u64) -> String {
  let digits = n.to_string();
  let mut text = String::with_capacity(digits.len() * 4 / 3);
  for (index, digit) in digits.chars().enumerate() {
    if index > 0 && (digits.len() - index).is_multiple_of(3) {
      text.push(',');
    }
    text.push(digit);
  }
  text
}

/// The first word for one, the second for any other number: `is` and `are`.
pub const fn choose<'a>(n: u64, one: &'a str, other: &'a str) -> &'a str {
  if n == 1 { one } else { other }
}

/// How often: `once`, `2 times`.
pub fn times(n: u64) -> String {
  if n == 1 { "once".to_owned() } else { format!("{n} times") }
}

/// One of something without a name, or a number of them: `a file`, `2 files`.
pub fn some(n: u64, noun: &str) -> String {
  if n == 1 { format!("a {noun}") } else { count(n, noun) }
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn one_is_singular_and_all_other_numbers_are_not() {
    assert_eq!([0, 1, 2].map(|n| count(n, "file")), ["0 files", "1 file", "2 files"]);
    assert_eq!([0, 1, 2].map(|n| choose(n, "is", "are")), ["are", "is", "are"]);
    assert_eq!([0, 1, 2].map(times), ["0 times", "once", "2 times"]);
    let numbers = [0, 1, 12, 999, 1_000, 9_115, 1_234_567].map(|n| large(n, "block"));
    let expected =
      ["0 blocks", "1 block", "12 blocks", "999 blocks", "1,000 blocks", "9,115 blocks"];
    assert_eq!(numbers[..6], expected);
    assert_eq!(numbers[6], "1,234,567 blocks");
    assert_eq!([1, 2].map(|n| some(n, "file")), ["a file", "2 files"]);
  }
}
