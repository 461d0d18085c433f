//! Characters without a glyph: which are honest, which are smuggling, and what they spell.
//!
//! Joiners inside emoji and in scripts that need them, variation selectors, flags of regions, soft
//! hyphens, directional marks and a byte order mark at the start are honest and make no finding.
#![forbid(unsafe_code)]

use std::ops::Range;

/// What an invisible character is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Invisible {
  /// Zero-width space, joiners, word joiner, byte order mark, invisible operators.
  ZeroWidth,
  /// Soft hyphen, combining grapheme joiner, Hangul fillers, Mongolian and Khmer marks.
  Filler,
  /// Left-to-right, right-to-left and Arabic letter mark.
  Mark,
  /// Directional embedding, override, isolate and their ends.
  Bidi,
  /// Variation selectors.
  Variation,
  /// Tag characters.
  Tag,
}

/// What an entity says, if anything. One that names a tag character says the letter behind it.
pub(super) fn shown(c: char) -> Option<char> {
  match classify(c) {
    Some(Invisible::Tag) => char::from_u32(u32::from(c) - 0xe0000).filter(|c| !c.is_control()),
    Some(_) => None,
    None => (!c.is_control()).then_some(c),
  }
}

/// The class of an invisible character.
pub(super) fn classify(c: char) -> Option<Invisible> {
  match u32::from(c) {
    0x200b..=0x200d | 0x2060..=0x2064 | 0xfeff | 0x180e => Some(Invisible::ZeroWidth),
    0xad | 0x34f | 0x115f | 0x1160 | 0x17b4 | 0x17b5 | 0x180b..=0x180d | 0x3164 | 0xffa0 => {
      Some(Invisible::Filler)
    }
    // Anchors and the format characters of music, shorthand and hieroglyphs.
    0xfff9..=0xfffb
    | 0x206a..=0x206f
    | 0x1d173..=0x1d17a
    | 0x1bca0..=0x1bca3
    | 0x13430..=0x1345f => Some(Invisible::Filler),
    0x200e | 0x200f | 0x61c => Some(Invisible::Mark),
    0x202a..=0x202e | 0x2066..=0x2069 => Some(Invisible::Bidi),
    0xfe00..=0xfe0f | 0xe0100..=0xe01ef => Some(Invisible::Variation),
    0xe0000..=0xe007f => Some(Invisible::Tag),
    _ => None,
  }
}

/// Smuggling of one sort, all of it together.
#[derive(Debug, Default)]
pub(super) struct Smuggled {
  /// Zero-width characters inside words, or in long runs.
  pub zero_width: Vec<Range<usize>>,
  /// Directional controls where no script needs them.
  pub bidi: Vec<Range<usize>>,
  /// Text spelled in characters without a glyph, with the range that it was spelled in.
  pub spelled: Vec<(String, Range<usize>)>,
}

/// Texts in tag characters or variation selectors that are looked at, at most.
const MAX_SPELLED: usize = 16;
/// Findings of one sort that are kept; more say nothing new.
const MAX_RANGES: usize = 64;
/// A run of this many zero-width characters is a code at any place.
const LONG_RUN: usize = 8;

/// Looks at every run of invisible characters in its surroundings.
pub(super) fn smuggled(text: &str) -> Smuggled {
  let mut found = Smuggled::default();
  let has_rtl = text.chars().any(is_rtl);
  let mut before: Option<char> = None;
  let mut chars = text.char_indices().peekable();
  while let Some((start, c)) = chars.next() {
    if classify(c).is_none() {
      before = Some(c);
      continue;
    }
    let mut run = vec![c];
    let mut end = start + c.len_utf8();
    while let Some(&(at, next)) = chars.peek() {
      if classify(next).is_none() {
        break;
      }
      run.push(next);
      end = at + next.len_utf8();
      chars.next();
    }
    let after = chars.peek().map(|&(_, next)| next);
    judge_run(&mut found, &run, start..end, before, after, has_rtl);
  }
  found
}

fn judge_run(
  found: &mut Smuggled,
  run: &[char],
  range: Range<usize>,
  before: Option<char>,
  after: Option<char>,
  has_rtl: bool,
) {
  let count = |class| run.iter().filter(|&&c| classify(c) == Some(class)).count();
  let zero_width = count(Invisible::ZeroWidth);
  if zero_width > 0 && found.zero_width.len() < MAX_RANGES {
    let inside_word = before.is_some_and(is_plain_letter) && after.is_some_and(is_plain_letter);
    if inside_word || zero_width >= LONG_RUN {
      found.zero_width.push(range.clone());
    }
  }
  // Isolates and embeddings belong to texts with right-to-left letters; an override to none.
  let overrides = run.iter().any(|c| matches!(c, '\u{202d}' | '\u{202e}'));
  if found.bidi.len() < MAX_RANGES
    && (overrides || (count(Invisible::Bidi) > 0 && !has_rtl && !is_isolated_mention(run)))
  {
    found.bidi.push(range.clone());
  }
  if found.spelled.len() < MAX_SPELLED {
    let tags = spelled_tags(run);
    let is_flag = before == Some('\u{1f3f4}') && is_region(&tags);
    if !is_flag && !tags.is_empty() {
      found.spelled.push((tags, range.clone()));
    }
    if let Some(text) = spelled_variations(run) {
      found.spelled.push((text, range));
    }
  }
}

/// Chat programs put names and links between isolates; these alone hide nothing.
fn is_isolated_mention(run: &[char]) -> bool {
  run.iter().all(|c| {
    matches!(c, '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{202a}' | '\u{202c}')
  }) && run.len() <= 2
}

fn spelled_tags(run: &[char]) -> String {
  run
    .iter()
    .filter_map(|&c| {
      let code = u32::from(c);
      (0xe0020..=0xe007e).contains(&code).then(|| char::from_u32(code - 0xe0000)).flatten()
    })
    .collect()
}

/// Subdivision flags: `gbsct`, `ustx`.
fn is_region(tags: &str) -> bool {
  (3..=6).contains(&tags.len()) && tags.bytes().all(|b| b.is_ascii_alphanumeric())
}

/// Bytes hidden in variation selectors, one byte each; honest text never has two in a row.
fn spelled_variations(run: &[char]) -> Option<String> {
  let bytes: Vec<u8> = run
    .iter()
    .filter_map(|&c| match u32::from(c) {
      code @ 0xfe00..=0xfe0f => Some((code - 0xfe00) as u8),
      code @ 0xe0100..=0xe01ef => Some((code - 0xe0100 + 16) as u8),
      _ => None,
    })
    .collect();
  (bytes.len() >= 4).then(|| String::from_utf8(bytes).unwrap_or_else(|_| "\u{fffd}".to_owned()))
}

/// Letters and digits of scripts that never need a joiner.
fn is_plain_letter(c: char) -> bool {
  c.is_ascii_alphanumeric() || matches!(u32::from(c), 0xc0..=0x24f | 0x370..=0x52f)
}

fn is_rtl(c: char) -> bool {
  matches!(u32::from(c), 0x590..=0x8ff | 0xfb1d..=0xfdff | 0xfe70..=0xfefe | 0x10800..=0x10fff | 0x1e800..=0x1efff)
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn honest_invisible_characters_are_no_findings() {
    for text in [
      "\u{feff}# Title",
      "👩\u{200d}💻 and 👨\u{200d}👩\u{200d}👧 and ❤\u{fe0f}",
      "🏴\u{e0067}\u{e0062}\u{e0073}\u{e0063}\u{e0074}\u{e007f} flag",
      "می\u{200c}خواهم",
      "क\u{200d}ष and ന\u{200d}",
      "Donau\u{ad}dampf\u{ad}schiff",
      "price\u{200b} list",
      "\u{200f}שלום\u{200f} world",
      "@\u{2068}Ann\u{2069} said hi",
      "ภาษา\u{200b}ไทย",
    ] {
      let found = smuggled(text);
      assert!(
        found.zero_width.is_empty() && found.bidi.is_empty() && found.spelled.is_empty(),
        "{text:?}: {found:?}"
      );
    }
  }

  #[test]
  fn smuggling_is_found() {
    assert_eq!(smuggled("ig\u{200b}nore").zero_width.first(), Some(&(2..5)));
    assert_eq!(smuggled(&format!("x {} y", "\u{200b}\u{200c}".repeat(8))).zero_width.len(), 1);
    assert_eq!(smuggled("a \u{202e}desrever\u{202c}").bidi.len(), 1);
    let tags: String =
      "run it".chars().filter_map(|c| char::from_u32(u32::from(c) + 0xe0000)).collect();
    assert_eq!(smuggled(&format!("hi{tags}")).spelled.first().unwrap().0, "run it");
    let selectors: String =
      "rule".bytes().filter_map(|b| char::from_u32(0xe0100 + u32::from(b) - 16)).collect();
    assert_eq!(smuggled(&format!("😊{selectors}")).spelled.first().unwrap().0, "rule");
  }
}
