//! Whether a run of characters reads as words, with any signs between them.
#![forbid(unsafe_code)]

/// Letters of a word, at least: shorter ones come about by chance in every key.
const MIN_LETTERS: usize = 3;
/// Words from which on a run is a text.
const MIN_WORDS: usize = 3;
/// Letters from which on a run without gaps is a text: no word has so many.
const MANY_LETTERS: usize = 25;

/// The words of a run. In a random one of base64 they are some four of ten characters.
pub(super) struct Words {
  n: usize,
  letters: usize,
  of: usize,
  is_path: bool,
}

impl Words {
  pub(super) fn of(run: &str) -> Self {
    let mut words = Self { n: 0, letters: 0, of: run.len(), is_path: run.contains('/') };
    for segment in run.split(|c: char| !c.is_ascii_alphabetic()) {
      if segment.bytes().all(|byte| byte.is_ascii_uppercase()) {
        words.add(segment.len());
        continue;
      }
      // A capital begins a word, so `OneTwo` is two; several in a row beside small letters are chance.
      let mut length = 0;
      for byte in segment.bytes() {
        if byte.is_ascii_uppercase() {
          words.add(length);
          length = 0;
        }
        length += 1;
      }
      words.add(length);
    }
    words
  }

  fn add(&mut self, length: usize) {
    if length >= MIN_LETTERS {
      self.n += 1;
      self.letters += length;
    }
  }

  /// Whether most of the run is words.
  pub(super) const fn are_most(&self) -> bool {
    self.letters * 10 >= self.of * 7
  }

  /// Whether the run is a text: more than the one word or two that a password may be.
  pub(super) const fn is_text(&self) -> bool {
    self.are_most() && (self.n >= MIN_WORDS || self.letters >= MANY_LETTERS || self.is_path)
  }
}
