//! JSON from a transcript as values of bounded size.
//!
//! A text of four megabytes can hold two million values, each some twenty times as large in memory. So
//! values are counted while they are read, what is over the count is dropped, and strings are cut.
//! Invariant: what [`parse`] returns takes no more memory than a fixed multiple of the caps.
#![forbid(unsafe_code)]

use std::{borrow::Cow, cell::Cell, fmt};

use serde::{
  Deserializer,
  de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Value};

/// Longest string that is kept, in bytes; a page that OpenClaw fetches is cut at 50,000 characters.
pub(super) const MAX_STRING: usize = 1024 * 1024;
/// Most values in one record; the largest that was seen has some hundred.
const MAX_VALUES: u32 = 50_000;
/// Longest key of an object.
const MAX_KEY: usize = 1024;

/// The value that `text` says.
pub(super) fn parse(text: &str) -> Result<Value, serde_json::Error> {
  let read = |text: &str| {
    let left = Cell::new(MAX_VALUES);
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = Bounded { left: &left }.deserialize(&mut deserializer)?;
    deserializer.end().map(|()| value)
  };
  match read(text) {
    Ok(value) => Ok(value),
    Err(error) => match mend(text) {
      Cow::Owned(mended) => read(&mended),
      Cow::Borrowed(_) => Err(error),
    },
  }
}

/// Of an object of objects, the members of each that are in `keys`, for as many objects as `take` takes.
pub(super) fn pick(
  bytes: &[u8],
  keys: &[&str],
  take: &mut dyn FnMut(String, Map<String, Value>) -> bool,
) -> Result<(), serde_json::Error> {
  let mut deserializer = serde_json::Deserializer::from_slice(bytes);
  deserializer.deserialize_map(Outer { keys, take })
}

/// Of one object, the members that are in `keys`.
pub(super) fn members(text: &str, keys: &[&str]) -> Result<Map<String, Value>, serde_json::Error> {
  Inner { keys }.deserialize(&mut serde_json::Deserializer::from_str(text))
}

/// The longest beginning of `text` with at most `max` bytes.
pub(super) fn cut(text: &str, max: usize) -> &str {
  text.get(..text.floor_char_boundary(max)).unwrap_or(text)
}

/// JavaScript writes half a surrogate pair as an escape, which is no text elsewhere. Such halves
/// become U+FFFD, so that no author hides a record by one.
fn mend(text: &str) -> Cow<'_, str> {
  let mut out = String::new();
  let mut kept = 0;
  let mut at = 0;
  let bytes = text.as_bytes();
  while let Some(offset) = memchr(bytes.get(at..).unwrap_or_default()) {
    let start = at + offset;
    let Some(unit) = unit(bytes, start) else {
      at = start + 2;
      continue;
    };
    at = start + 6;
    let follows = unit_at(bytes, at).is_some_and(|next| (0xdc00..0xe000).contains(&next));
    if (0xd800..0xdc00).contains(&unit) && follows {
      at += 6;
    } else if (0xd800..0xe000).contains(&unit) {
      out.push_str(text.get(kept..start).unwrap_or_default());
      out.push_str("\\ufffd");
      kept = at;
    }
  }
  if kept == 0 {
    return Cow::Borrowed(text);
  }
  out.push_str(text.get(kept..).unwrap_or_default());
  Cow::Owned(out)
}

fn memchr(bytes: &[u8]) -> Option<usize> {
  bytes.iter().position(|byte| *byte == b'\\')
}

fn unit_at(bytes: &[u8], at: usize) -> Option<u16> {
  if bytes.get(at) == Some(&b'\\') { unit(bytes, at) } else { None }
}

/// The code unit of the escape `\uXXXX` at `at`.
fn unit(bytes: &[u8], at: usize) -> Option<u16> {
  if bytes.get(at + 1) != Some(&b'u') {
    return None;
  }
  let digits = std::str::from_utf8(bytes.get(at + 2..at + 6)?).ok()?;
  if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
    return None;
  }
  u16::from_str_radix(digits, 16).ok()
}

#[derive(Clone, Copy)]
struct Bounded<'a> {
  left: &'a Cell<u32>,
}

impl Bounded<'_> {
  fn counted(self) -> bool {
    let left = self.left.get();
    self.left.set(left.saturating_sub(1));
    left > 0
  }
}

impl<'de> DeserializeSeed<'de> for Bounded<'_> {
  type Value = Value;

  fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
    deserializer.deserialize_any(self)
  }
}

impl<'de> Visitor<'de> for Bounded<'_> {
  type Value = Value;

  fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str("a JSON value")
  }

  fn visit_unit<E>(self) -> Result<Value, E> {
    Ok(Value::Null)
  }

  fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
    Ok(Value::Bool(value))
  }

  fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
    Ok(Value::from(value))
  }

  fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
    Ok(Value::from(value))
  }

  fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
    Ok(Value::from(value))
  }

  fn visit_str<E>(self, value: &str) -> Result<Value, E> {
    Ok(Value::String(cut(value, MAX_STRING).to_owned()))
  }

  fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
    let mut kept = Vec::new();
    while self.left.get() > 0 {
      let Some(item) = items.next_element_seed(self)? else { return Ok(Value::Array(kept)) };
      if self.counted() {
        kept.push(item);
      }
    }
    while items.next_element::<IgnoredAny>()?.is_some() {}
    Ok(Value::Array(kept))
  }

  fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
    let mut kept = Map::new();
    while let Some(key) = members.next_key::<String>()? {
      if key.len() > MAX_KEY || !self.counted() {
        members.next_value::<IgnoredAny>()?;
      } else {
        let value = members.next_value_seed(self)?;
        kept.insert(key, value);
      }
    }
    Ok(Value::Object(kept))
  }
}

struct Outer<'a> {
  keys: &'a [&'a str],
  take: &'a mut dyn FnMut(String, Map<String, Value>) -> bool,
}

impl<'de> Visitor<'de> for Outer<'_> {
  type Value = ();

  fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str("an object of objects")
  }

  fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
    let mut more = true;
    while let Some(key) = members.next_key::<String>()? {
      if more && key.len() <= MAX_KEY {
        let entry = members.next_value_seed(Inner { keys: self.keys })?;
        more = (self.take)(key, entry);
      } else {
        members.next_value::<IgnoredAny>()?;
      }
    }
    Ok(())
  }
}

struct Inner<'a> {
  keys: &'a [&'a str],
}

impl<'de> DeserializeSeed<'de> for Inner<'_> {
  type Value = Map<String, Value>;

  fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
    deserializer.deserialize_map(self)
  }
}

impl<'de> Visitor<'de> for Inner<'_> {
  type Value = Map<String, Value>;

  fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str("an object")
  }

  fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
    let left = Cell::new(1000);
    let mut picked = Map::new();
    while let Some(key) = members.next_key::<String>()? {
      if self.keys.contains(&key.as_str()) {
        let value = members.next_value_seed(Bounded { left: &left })?;
        picked.insert(key, value);
      } else {
        members.next_value::<IgnoredAny>()?;
      }
    }
    Ok(picked)
  }
}

#[cfg(test)]
mod tests {
  use serde_json::json;

  use super::*;

  fn size(value: &Value) -> usize {
    match value {
      Value::Array(items) => 1 + items.iter().map(size).sum::<usize>(),
      Value::Object(members) => 1 + members.values().map(size).sum::<usize>(),
      _ => 1,
    }
  }

  #[test]
  fn values_are_those_of_serde_json_within_the_caps() {
    let text =
      r#"{"a":[1,-2,2.5,true,null,"x\n"],"b":{"c":"\ud83e\udd9e"},"a2":18446744073709551615}"#;
    assert_eq!(parse(text).unwrap(), serde_json::from_str::<Value>(text).unwrap());
    assert!(parse("{\"a\":1} x").is_err());
    assert!(parse(&"[".repeat(100_000)).is_err());
  }

  #[test]
  fn millions_of_values_and_long_strings_are_dropped() {
    let many = format!("[{}0]", "[],".repeat(1_000_000));
    assert!(size(&parse(&many).unwrap()) <= MAX_VALUES as usize + 2);
    let objects = format!("[{}0]", r#"{"":{}},"#.repeat(300_000));
    assert!(size(&parse(&objects).unwrap()) <= 2 * MAX_VALUES as usize);
    let long = parse(&format!("\"{}\"", "ä".repeat(MAX_STRING))).unwrap();
    assert_eq!(long.as_str().unwrap().len(), MAX_STRING);
  }

  #[test]
  fn half_a_surrogate_pair_hides_nothing() {
    for (text, meant) in [
      (r#""a\ud800b""#, "a\u{fffd}b"),
      (r#""\udc00\ud83e\udd9e\ud83e""#, "\u{fffd}🦞\u{fffd}"),
      (r#""\\ud800 \ud800""#, "\\ud800 \u{fffd}"),
      (r#""\ud800\u0041""#, "\u{fffd}A"),
    ] {
      assert_eq!(parse(text).unwrap(), json!(meant), "{text}");
    }
  }

  #[test]
  fn only_named_members_of_entries_are_picked() {
    let text = r#"{"k":{"a":1,"b":{"c":[2]},"d":3},"l":{"a":4},"m":{}}"#;
    let mut seen = Vec::new();
    pick(text.as_bytes(), &["a", "b"], &mut |key, entry| {
      seen.push((key, Value::Object(entry)));
      seen.len() < 2
    })
    .unwrap();
    let wanted = [("k", json!({"a":1,"b":{"c":[2]}})), ("l", json!({"a":4}))];
    assert_eq!(seen, wanted.map(|(key, entry)| (key.to_owned(), entry)));
  }
}
