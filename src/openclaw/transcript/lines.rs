//! The lines of a file from its end backwards, block by block.
//!
//! Invariant: a line over the cap costs no more memory than the cap, and no more bytes are read than
//! the allowance has, whatever the file is.
#![forbid(unsafe_code)]

use std::{cell::Cell, fs::File, io, os::unix::fs::FileExt as _};

/// First block; each further one for the same line is twice as long.
const BLOCK: usize = 8 * 1024;

/// A line, without its end.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
  /// Where it begins in the file.
  pub(super) offset: u64,
  /// Its bytes; `None` where there are more than the cap.
  pub(super) bytes: Option<Vec<u8>>,
}

/// A file that is read backwards.
#[derive(Debug)]
pub(super) struct LinesBack<'a> {
  file: &'a File,
  max_line: usize,
  /// How many bytes of the file lie before `held`.
  start: u64,
  /// What was read and not given out.
  held: Vec<u8>,
  /// Bytes that may still be read, by all readers that share it.
  allowance: &'a Cell<u64>,
}

impl<'a> LinesBack<'a> {
  /// The lines that end at or before `end`; `end` is the end of the file or of a line.
  pub(super) fn new(file: &'a File, end: u64, max_line: usize, allowance: &'a Cell<u64>) -> Self {
    Self { file, max_line, start: end, held: vec![], allowance }
  }

  /// The line before; `None` at the beginning of the file, an error also where too much was read.
  pub(super) fn line(&mut self) -> io::Result<Option<Line>> {
    // The end of the line before does not belong to it.
    if self.held.is_empty() && !self.more(BLOCK)? {
      return Ok(None);
    }
    if self.held.last() == Some(&b'\n') {
      self.held.pop();
    }
    let mut is_long = false;
    let mut block = BLOCK;
    let mut searched = 0;
    loop {
      // The part that was searched before is at the end.
      let fresh = self.held.len().saturating_sub(searched);
      let newline =
        self.held.get(..fresh).and_then(|fresh| fresh.iter().rposition(|b| *b == b'\n'));
      if let Some(newline) = newline {
        let bytes = self.held.split_off(newline + 1);
        return Ok(Some(self.given(bytes, newline as u64 + 1, is_long)));
      }
      if self.held.len() > self.max_line {
        is_long = true;
        self.held.clear();
      }
      searched = self.held.len();
      if !self.more(block)? {
        let bytes = std::mem::take(&mut self.held);
        return Ok(Some(self.given(bytes, 0, is_long)));
      }
      block = (block * 2).min(1024 * 1024);
    }
  }

  fn given(&self, bytes: Vec<u8>, at: u64, is_long: bool) -> Line {
    let is_long = is_long || bytes.len() > self.max_line;
    Line { offset: self.start + at, bytes: (!is_long).then_some(bytes) }
  }

  /// Reads the block before; whether there was one.
  fn more(&mut self, block: usize) -> io::Result<bool> {
    let block = self.start.min(block as u64);
    if block == 0 {
      return Ok(false);
    }
    spend(self.allowance, block)?;
    let mut bytes = vec![0; block as usize];
    self.file.read_exact_at(&mut bytes, self.start - block)?;
    bytes.append(&mut self.held);
    self.held = bytes;
    self.start -= block;
    Ok(true)
  }
}

/// Takes bytes off an allowance.
pub(super) fn spend(allowance: &Cell<u64>, bytes: u64) -> io::Result<()> {
  match allowance.get().checked_sub(bytes) {
    Some(left) => {
      allowance.set(left);
      Ok(())
    }
    None => Err(io::Error::other("there is more to read than one question may cost")),
  }
}

#[cfg(test)]
mod tests {
  use std::io::Write as _;

  use proptest::prelude::*;

  use super::*;

  fn all(bytes: &[u8], max_line: usize) -> Vec<Line> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    let allowance = Cell::new(1 << 30);
    let mut lines = LinesBack::new(&file, bytes.len() as u64, max_line, &allowance);
    let mut all: Vec<Line> = std::iter::from_fn(|| lines.line().unwrap()).collect();
    all.reverse();
    all
  }

  #[test]
  fn a_line_over_the_cap_is_passed_over_and_the_next_one_is_read() {
    let text = [b"first\n".to_vec(), vec![b'x'; 3_000_000], b"\nlast".to_vec()].concat();
    let lines = all(&text, 1_000_000);
    let bytes: Vec<Option<&[u8]>> = lines.iter().map(|line| line.bytes.as_deref()).collect();
    assert_eq!(bytes, [Some(&b"first"[..]), None, Some(b"last")]);
    assert_eq!((lines[1].offset, lines[2].offset), (6, 3_000_007));
  }

  #[test]
  fn no_more_is_read_than_allowed() {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&vec![b'x'; 1_000_000]).unwrap();
    let allowance = Cell::new(500_000);
    assert!(LinesBack::new(&file, 1_000_000, 4_000_000, &allowance).line().is_err());
    assert!(allowance.get() < 500_000);
  }

  proptest! {
    #[test]
    fn all_lines_are_found_where_they_are(
      lens in proptest::collection::vec(prop_oneof![0usize..5, 8_180usize..8_200, 16_370usize..16_390, 100_000usize..100_010], 0..6),
      ends in any::<bool>(),
    ) {
      let mut text: Vec<u8> = Vec::new();
      let mut wanted = Vec::new();
      for (n, len) in lens.iter().enumerate() {
        let bytes = vec![b'a' + n as u8; *len];
        wanted.push(Line { offset: text.len() as u64, bytes: Some(bytes.clone()) });
        text.extend(bytes);
        if n + 1 < lens.len() || ends {
          text.push(b'\n');
        }
      }
      // Without an end, an empty last line is none.
      if !ends && lens.last() == Some(&0) {
        wanted.pop();
      }
      prop_assert_eq!(all(&text, 1_000_000), wanted);
    }
  }
}
