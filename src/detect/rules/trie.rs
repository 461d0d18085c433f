//! A table that finds words at the starts of words, and signs anywhere.
//!
//! An automaton for words anywhere meets `me` in `some` and `i` in everything; nearly all words of
//! the rules begin where a word begins, so nothing else is looked at. ASCII only, case folded.
#![forbid(unsafe_code)]

/// Kinds of bytes that words are made of; all others end a walk.
const CLASSES: usize = 64;
/// The root, and "no way on".
const NONE: u16 = 0;

/// Words by their letters.
#[derive(Debug)]
pub(crate) struct Trie {
  /// For each node and kind of byte, the next node; for the kind of no word, the number of the word
  /// that ends there, plus one. Both in one row, because a row is a cache miss.
  next: Vec<[u16; CLASSES]>,
  /// For each two kinds of bytes, the kinds that can follow them at the start of a word, a bit each; a word of one
  /// or two bytes is followed by all.
  triples: Vec<u64>,
  /// For each byte, [`PART`] and [`FIRST`].
  bytes: [u8; 256],
}

/// The byte is part of words.
const PART: u8 = 1;
/// A word of the trie begins with the byte.
const FIRST: u8 = 2;
/// So many bytes are looked at together, a bit each.
const BLOCK: usize = 64;

/// The kind of a byte: letters of either case are one; zero for bytes of no word.
const fn class(byte: u8) -> usize {
  match byte {
    b'a'..=b'z' => (byte - b'a') as usize + 1,
    b'A'..=b'Z' => (byte - b'A') as usize + 1,
    b'0'..=b'9' => (byte - b'0') as usize + 27,
    b' ' => 37,
    b'-' => 38,
    b'_' => 39,
    b'\'' => 40,
    b'.' => 41,
    b'/' => 42,
    b':' => 43,
    b'=' => 44,
    b'@' => 45,
    b'(' => 46,
    b')' => 47,
    b'#' => 48,
    b'*' => 49,
    b'<' => 50,
    b'>' => 51,
    b'[' => 52,
    b']' => 53,
    b'|' => 54,
    b'~' => 55,
    b'+' => 56,
    b'&' => 57,
    b'%' => 58,
    b'!' => 59,
    b'?' => 60,
    b',' => 61,
    _ => 0,
  }
}

/// [`class`] as a table.
static CLASS: [u8; 256] = {
  let mut table = [0; 256];
  let mut byte = 0;
  while byte < 256 {
    #[expect(clippy::indexing_slicing, reason = "a constant evaluated at compile time")]
    {
      table[byte] = class(byte as u8) as u8;
    }
    byte += 1;
  }
  table
};

impl Trie {
  /// A trie without words.
  pub(crate) fn new() -> Self {
    Self {
      next: vec![[NONE; CLASSES]],
      triples: vec![0; CLASSES * CLASSES],
      bytes: std::array::from_fn(|byte| if is_word(byte as u8) { PART } else { 0 }),
    }
  }

  /// Whether a trie can hold `word`: ASCII that begins with a sign, or with a letter when it needs
  /// an edge on its left.
  pub(crate) fn takes(word: &str, left_edge: bool) -> bool {
    let starts = word.as_bytes().first().is_some_and(|b| left_edge || !is_word(*b));
    starts && word.bytes().all(|b| class(b) != 0)
  }

  /// Adds a word; `None` when there is no room.
  pub(crate) fn insert(&mut self, word: &str, number: usize) -> Option<()> {
    let mut kinds = word.bytes().map(class);
    let first = kinds.next()?;
    let row = first * CLASSES;
    if let Some(second) = kinds.next() {
      let third = kinds.next().map_or(u64::MAX, |third| 1 << third);
      *self.triples.get_mut(row + second)? |= third;
    } else {
      self.triples.get_mut(row..row + CLASSES)?.fill(u64::MAX);
    }
    for (byte, marks) in self.bytes.iter_mut().enumerate() {
      if class(byte as u8) == first {
        *marks |= FIRST;
      }
    }
    let mut node = 0;
    for byte in word.bytes() {
      let way = *self.next.get(node)?.get(class(byte))?;
      node = if way == NONE {
        let new = u16::try_from(self.next.len()).ok()?;
        self.next.push([NONE; CLASSES]);
        *self.next.get_mut(node)?.get_mut(class(byte))? = new;
        usize::from(new)
      } else {
        usize::from(way)
      };
    }
    *self.next.get_mut(node)?.first_mut()? = u16::try_from(number + 1).ok()?;
    Some(())
  }

  /// Calls `found` with number, start and end of every word that starts at the start of a word or
  /// at a sign.
  pub(crate) fn scan(&self, text: &[u8], mut found: impl FnMut(usize, usize, usize)) {
    let mut inside = 0;
    for (block, bytes) in text.chunks(BLOCK).enumerate() {
      // Without a branch for each byte: where words begin is what a processor guesses worst.
      let (mut parts, mut firsts) = (0_u64, 0_u64);
      for (bit, byte) in bytes.iter().enumerate() {
        let marks = u64::from(self.bytes.get(usize::from(*byte)).copied().unwrap_or_default());
        parts |= (marks & u64::from(PART)) << bit;
        firsts |= (marks >> 1) << bit;
      }
      let mut starts = firsts & !(parts & (parts << 1 | inside));
      inside = parts >> (BLOCK - 1);
      // Most words of a text end at the second or third letter, without a look at any node.
      let mut begun = 0_u64;
      while starts != 0 {
        let bit = starts.trailing_zeros();
        begun |= self.begins(text, block * BLOCK + bit as usize) << bit;
        starts &= starts - 1;
      }
      while begun != 0 {
        self.walk(text, block * BLOCK + begun.trailing_zeros() as usize, &mut found);
        begun &= begun - 1;
      }
    }
  }

  /// One where a word begins with the three bytes from `start`, else zero.
  fn begins(&self, text: &[u8], start: usize) -> u64 {
    let at = |at: usize| text.get(at).map_or(0, |byte| kind(*byte));
    let thirds = self.triples.get(at(start) * CLASSES + at(start + 1)).copied().unwrap_or(0);
    thirds >> at(start + 2) & 1
  }

  /// Walks from `start` as far as the trie has nodes.
  fn walk(&self, text: &[u8], start: usize, found: &mut impl FnMut(usize, usize, usize)) {
    let mut row = self.next.first();
    let mut at = start;
    while let Some(ways) = row {
      let [end, ..] = *ways;
      if end != 0 {
        found(usize::from(end) - 1, start, at);
      }
      let Some(&byte) = text.get(at) else { return };
      let kind = kind(byte);
      let way = ways.get(kind).copied().unwrap_or(NONE);
      if kind == 0 || way == NONE {
        return;
      }
      row = self.next.get(usize::from(way));
      at += 1;
    }
  }
}

fn kind(byte: u8) -> usize {
  CLASS.get(usize::from(byte)).map_or(0, |kind| usize::from(*kind))
}

/// ASCII letters, digits and the underscore.
pub(crate) const fn is_word(byte: u8) -> bool {
  byte.is_ascii_alphanumeric() || byte == b'_'
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn words_are_found_at_the_starts_of_words() {
    let mut trie = Trie::new();
    for (number, word) in ["me", "message", "send", "send to"].into_iter().enumerate() {
      assert!(Trie::takes(word, true));
      trie.insert(word, number).unwrap();
    }
    let mut found = Vec::new();
    trie.scan(b"some Message: SEND to me", |number, start, end| found.push((number, start, end)));
    assert_eq!(found, [(0, 5, 7), (1, 5, 12), (2, 14, 18), (3, 14, 21), (0, 22, 24)]);
    assert!(Trie::takes(".env", false) && !Trie::takes("ключ", true) && !Trie::takes("me", false));
  }

  #[test]
  fn words_are_found_across_the_edges_of_blocks() {
    let mut trie = Trie::new();
    let words = ["a", "an", "and", "send to", ".env", "*"];
    for (number, word) in words.into_iter().enumerate() {
      trie.insert(word, number).unwrap();
    }
    let text = "x_and an a send to .env* xsend to and.env b-an ";
    for shift in 0..2 * BLOCK {
      let text = format!("{}{text}{}", "-".repeat(shift), "z".repeat(shift));
      let mut found = Vec::new();
      trie.scan(text.as_bytes(), |number, start, end| found.push((number, start, end)));
      let bytes = text.as_bytes();
      let is_inside = |at: usize| at > 0 && is_word(bytes[at - 1]) && is_word(bytes[at]);
      let mut slow = Vec::new();
      for at in (0..bytes.len()).filter(|at| !is_inside(*at)) {
        for (number, word) in words.iter().enumerate() {
          if bytes[at..].starts_with(word.as_bytes()) {
            slow.push((number, at, at + word.len()));
          }
        }
      }
      assert_eq!(found, slow, "{shift}");
    }
  }
}
