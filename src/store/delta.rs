//! One text as its difference to another: the lengths of their common beginning and end, and the
//! bytes between. Pure.
//!
//! Memory is mostly appended to or edited in one place, so this finds nearly everything that a
//! general algorithm would find, in linear time and forty lines.
#![forbid(unsafe_code)]

/// Bytes of the two lengths before the data.
const HEAD: usize = 8;

/// The difference that turns `base` into `new`.
pub(super) fn encode(base: &[u8], new: &[u8]) -> Vec<u8> {
  let prefix = base.iter().zip(new).take_while(|(a, b)| a == b).count();
  let rest = base.iter().skip(prefix).rev().zip(new.iter().skip(prefix).rev());
  let suffix = rest.take_while(|(a, b)| a == b).count();
  let between = new.get(prefix..new.len() - suffix).unwrap_or_default();
  let mut delta = Vec::with_capacity(HEAD + between.len());
  // Files are capped far below 4 GiB.
  delta.extend_from_slice(&(prefix as u32).to_be_bytes());
  delta.extend_from_slice(&(suffix as u32).to_be_bytes());
  delta.extend_from_slice(between);
  delta
}

/// The `new` of [`encode`]; `None` if the difference does not belong to this base.
pub(super) fn apply(base: &[u8], delta: &[u8]) -> Option<Vec<u8>> {
  let (prefix, rest) = delta.split_first_chunk::<4>()?;
  let (suffix, between) = rest.split_first_chunk::<4>()?;
  let prefix = base.get(..u32::from_be_bytes(*prefix) as usize)?;
  let suffix = base.len().checked_sub(u32::from_be_bytes(*suffix) as usize)?;
  Some([prefix, between, base.get(suffix..)?].concat())
}

#[cfg(test)]
mod tests {
  use proptest::prelude::*;

  use super::*;

  #[test]
  fn an_append_costs_what_was_appended() {
    assert_eq!(encode(b"- one\n", b"- one\n- two\n").len(), HEAD + 6);
    assert_eq!(encode(b"- one\n- two\n", b"- two\n").len(), HEAD, "the beginning is gone");
    assert_eq!(encode(b"aaa", b"aaaa").len(), HEAD + 1, "beginning and end never overlap");
  }

  #[test]
  fn a_difference_to_another_base_is_refused_or_at_least_harmless() {
    assert_eq!(apply(b"ab", &encode(b"abcdef", b"abcdefg")), None);
    for delta in [&b""[..], b"\0\0\0\0", &[255; 8], &[0, 0, 0, 1, 255, 255, 255, 255]] {
      assert_eq!(apply(b"ab", delta), None, "{delta:?}");
    }
  }

  proptest! {
    #[test]
    fn what_was_encoded_comes_back(
      head in "[ab]{0,8}", one in "[abc]{0,8}", two in "[abc]{0,8}", tail in "[ab]{0,8}",
    ) {
      let (base, new) = (format!("{head}{one}{tail}"), format!("{head}{two}{tail}"));
      let delta = encode(base.as_bytes(), new.as_bytes());
      prop_assert_eq!(apply(base.as_bytes(), &delta).unwrap(), new.as_bytes());
      prop_assert!(delta.len() <= HEAD + two.len().max(new.len().saturating_sub(base.len())));
    }

    #[test]
    fn any_bytes_may_come(
      base in proptest::collection::vec(any::<u8>(), 0..64),
      delta in proptest::collection::vec(any::<u8>(), 0..64),
    ) {
      prop_assert!(apply(&base, &delta).is_none_or(|new| new.len() <= 2 * base.len() + 64));
    }
  }
}
