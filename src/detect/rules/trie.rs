//! A table that finds words at the starts of words, and signs anywhere.
//!
//! An automaton for words anywhere meets `me` in `some` and `i` in everything; nearly all words of
//! the rules begin where a word begins, so nothing else is looked at. ASCII only, case folded.
#![forbid(unsafe_code)]

/// Kinds of bytes that words are made of; all others end a walk.
const CLASSES: usize = 64;
/// The root, which no way leads to, so it also means "no way on".
const NONE: u16 = 0;

/// Words by their letters. Letters after which nothing is to be decided are kept in a row, because most words have a
/// long end that no other word shares: a table for each letter would take ten times as much memory.
#[derive(Debug)]
pub(crate) struct Trie {
  /// The first is the root.
  nodes: Vec<Node>,
  /// For each kind of byte, the next node. A row is a cache miss.
  rows: Vec<[u16; CLASSES]>,
  /// The kinds of the letters of all nodes.
  letters: Vec<u8>,
  /// For each two kinds of bytes, the kinds that can follow them at the start of a word, a bit each; a word of one
  /// or two bytes is followed by all.
  triples: Vec<u64>,
  /// For each byte, [`PART`] and [`FIRST`].
  bytes: [u8; 256],
}

/// Letters that follow one another in all words that lead here, and what comes after them.
#[derive(Clone, Copy, Debug)]
struct Node {
  /// Where its letters begin, and how many they are.
  start: u32,
  len: u16,
  /// The number of the word that ends after them, plus one.
  word: u16,
  ways: Ways,
}

/// The ways on from a node.
#[derive(Clone, Copy, Debug)]
enum Ways {
  End,
  /// One node, which begins with the next letter.
  One(u16),
  /// A row, in which the next letter has a node that begins behind it.
  Row(u16),
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
  /// A trie of these words; `None` when there is no room for all.
  pub(crate) fn of<'w>(words: impl IntoIterator<Item = &'w str>) -> Option<Self> {
    let mut trie = Self {
      nodes: Vec::new(),
      rows: Vec::new(),
      letters: Vec::new(),
      triples: vec![0; CLASSES * CLASSES],
      bytes: std::array::from_fn(|byte| if is_word(byte as u8) { PART } else { 0 }),
    };
    let mut sorted = Vec::new();
    for (number, word) in words.into_iter().enumerate() {
      let kinds: Vec<u8> = word.bytes().map(|byte| class(byte) as u8).collect();
      if kinds.contains(&0) {
        return None;
      }
      trie.note_start(&kinds)?;
      sorted.push((kinds, u16::try_from(number + 1).ok()?));
    }
    sorted.sort();
    trie.grow(&sorted, 0, true)?;
    trie.nodes.shrink_to_fit();
    trie.rows.shrink_to_fit();
    trie.letters.shrink_to_fit();
    Some(trie)
  }

  /// Notes with what a word begins.
  fn note_start(&mut self, kinds: &[u8]) -> Option<()> {
    let mut kinds = kinds.iter().copied().map(usize::from);
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
    Some(())
  }

  /// Adds the node of these words, which are sorted and equal in their first `depth` letters; returns its index. The
  /// root has no letters of its own.
  fn grow(&mut self, words: &[(Vec<u8>, u16)], depth: usize, is_root: bool) -> Option<u16> {
    let index = u16::try_from(self.nodes.len()).ok()?;
    let (first, last) = match words {
      [] => (&[][..], &[][..]),
      [(only, _)] => (only.as_slice(), only.as_slice()),
      [(first, _), .., (last, _)] => (first.as_slice(), last.as_slice()),
    };
    let common = first.iter().zip(last).take_while(|(one, other)| one == other).count();
    let end = if is_root { depth } else { common };
    let letters = first.get(depth..end)?;
    let start = u32::try_from(self.letters.len()).ok()?;
    self.letters.extend(letters);
    let len = u16::try_from(letters.len()).ok()?;
    self.nodes.push(Node { start, len, word: 0, ways: Ways::End });
    // A word that ends here is sorted before those that go on; of equal words the last one counts.
    let n_ended = words.iter().take_while(|(word, _)| word.len() == end).count();
    let (ended, longer) = words.split_at_checked(n_ended)?;
    let word = ended.last().map_or(0, |(_, number)| *number);
    let letter = |word: &(Vec<u8>, u16)| word.0.get(end).copied();
    let mut groups = longer.chunk_by(|one, other| letter(one) == letter(other));
    let ways = match (groups.next(), groups.next()) {
      (None, _) => Ways::End,
      (Some(group), None) if !is_root => Ways::One(self.grow(group, end, false)?),
      _ => {
        let row = self.rows.len();
        self.rows.push([NONE; CLASSES]);
        for group in longer.chunk_by(|one, other| letter(one) == letter(other)) {
          let kind = group.first().and_then(letter)?;
          let next = self.grow(group, end + 1, false)?;
          *self.rows.get_mut(row)?.get_mut(usize::from(kind))? = next;
        }
        Ways::Row(u16::try_from(row).ok()?)
      }
    };
    let node = self.nodes.get_mut(usize::from(index))?;
    (node.word, node.ways) = (word, ways);
    Some(index)
  }

  /// Whether a trie can hold `word`: ASCII that begins with a sign, or with a letter when it needs
  /// an edge on its left.
  pub(crate) fn takes(word: &str, left_edge: bool) -> bool {
    let starts = word.as_bytes().first().is_some_and(|b| left_edge || !is_word(*b));
    starts && word.bytes().all(|b| class(b) != 0)
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
    let mut node = self.nodes.first();
    let mut at = start;
    while let Some(&Node { start: from, len, word, ways }) = node {
      let (from, len) = (from as usize, usize::from(len));
      let letters = self.letters.get(from..from + len).unwrap_or_default();
      let next = text.get(at..at + len).unwrap_or_default();
      let is_same = |(byte, letter): (&u8, &u8)| kind(*byte) == usize::from(*letter);
      if len > 0 && (next.len() != len || !next.iter().zip(letters).all(is_same)) {
        return;
      }
      at += len;
      if word != 0 {
        found(usize::from(word) - 1, start, at);
      }
      node = match ways {
        Ways::End => return,
        Ways::One(only) => self.nodes.get(usize::from(only)),
        Ways::Row(row) => {
          let (Some(row), Some(&byte)) = (self.rows.get(usize::from(row)), text.get(at)) else {
            return;
          };
          let way = row.get(kind(byte)).copied().unwrap_or(NONE);
          if way == NONE {
            return;
          }
          at += 1;
          self.nodes.get(usize::from(way))
        }
      };
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
    let words = ["me", "message", "send", "send to"];
    assert!(words.iter().all(|word| Trie::takes(word, true)));
    let trie = Trie::of(words).unwrap();
    let mut found = Vec::new();
    trie.scan(b"some Message: SEND to me", |number, start, end| found.push((number, start, end)));
    assert_eq!(found, [(0, 5, 7), (1, 5, 12), (2, 14, 18), (3, 14, 21), (0, 22, 24)]);
    assert!(Trie::takes(".env", false) && !Trie::takes("ключ", true) && !Trie::takes("me", false));
  }

  #[test]
  fn words_are_found_across_the_edges_of_blocks() {
    let words = ["a", "an", "and", "send", "send to", "sender", ".env", "*", "endless", "envy"];
    let trie = Trie::of(words).unwrap();
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
