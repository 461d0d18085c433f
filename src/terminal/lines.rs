//! Lines of a stream in chunks: all lines that are already available, up to a limit.
//!
//! Invariants: a program that waits for the answer to a line need not send another one first; a chunk
//! has a bounded number of bytes, except for a single longer line, which has its own bound.
#![forbid(unsafe_code)]

use std::io::{self, BufRead as _, BufReader, Read};

/// Bytes of one read: a choice, large enough that the cost of system calls does not matter.
const BUFFER: usize = 1 << 20;
/// Bytes after which a chunk is full: a choice, seconds of work at the slowest.
const CHUNK_BYTES: usize = 4 << 20;
/// Lines after which a chunk is full: a choice, for progress to be seen.
pub const CHUNK_LINES: usize = 2_048;

/// One line of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
  /// The whole line, with its line end if it has one.
  Whole(Vec<u8>),
  /// The line is longer than allowed, and was skipped.
  TooLong,
}

impl Line {
  /// The available bytes.
  pub fn len(&self) -> usize {
    match self {
      Self::Whole(bytes) => bytes.len(),
      Self::TooLong => 0,
    }
  }

  /// Whether no byte is available.
  pub fn is_empty(&self) -> bool {
    self.len() == 0
  }
}

/// A stream of lines.
pub struct Lines<R> {
  input: BufReader<R>,
  max_line: u64,
}

impl<R: Read> Lines<R> {
  /// The lines of `input`, each of at most `max_line` bytes.
  pub fn new(input: R, max_line: u64) -> Self {
    Self { input: BufReader::with_capacity(BUFFER, input), max_line }
  }

  /// The next lines; it waits for the first one only. Empty at the end of the stream.
  pub fn chunk(&mut self) -> io::Result<Vec<Line>> {
    let mut lines = Vec::new();
    let mut n_bytes = 0;
    while let Some(line) = self.line()? {
      n_bytes += line.len();
      lines.push(line);
      let is_full = n_bytes >= CHUNK_BYTES || lines.len() >= CHUNK_LINES;
      if is_full || !self.input.buffer().contains(&b'\n') {
        break;
      }
    }
    Ok(lines)
  }

  fn line(&mut self) -> io::Result<Option<Line>> {
    let mut line = Vec::new();
    let n = (&mut self.input).take(self.max_line).read_until(b'\n', &mut line)?;
    if n == 0 {
      return Ok(None);
    }
    if line.last() != Some(&b'\n') && n as u64 == self.max_line {
      // The long line may end here; otherwise its rest must not become a line of its own.
      let rest = self.input.skip_until(b'\n')?;
      if rest > 0 {
        return Ok(Some(Line::TooLong));
      }
    }
    Ok(Some(Line::Whole(line)))
  }
}

#[cfg(test)]
mod tests {
  use {super::*, proptest::prelude::*};

  /// Returns the pieces one by one, like a pipe.
  struct Pieces(Vec<Vec<u8>>);

  impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
      if self.0.is_empty() {
        return Ok(0);
      }
      let piece = self.0.remove(0);
      buffer[..piece.len()].copy_from_slice(&piece);
      Ok(piece.len())
    }
  }

  fn all(pieces: Vec<Vec<u8>>, max_line: u64) -> Vec<Vec<Line>> {
    let mut lines = Lines::new(Pieces(pieces), max_line);
    std::iter::from_fn(|| Some(lines.chunk().unwrap()).filter(|chunk| !chunk.is_empty())).collect()
  }

  fn whole(text: &str) -> Line {
    Line::Whole(text.as_bytes().to_vec())
  }

  #[test]
  fn a_chunk_is_what_is_there() {
    let pieces = ["a\nb\n", "c\nd", "e\n", "f"].map(|piece| piece.as_bytes().to_vec()).to_vec();
    let expected =
      [vec![whole("a\n"), whole("b\n")], vec![whole("c\n")], vec![whole("de\n")], vec![whole("f")]];
    assert_eq!(all(pieces, 100), expected);
    let many = vec!["\n".repeat(CHUNK_LINES + 1).into_bytes()];
    assert_eq!(all(many, 100).iter().map(Vec::len).collect::<Vec<_>>(), [CHUNK_LINES, 1]);
  }

  #[test]
  fn long_lines_are_reported_and_their_rest_is_no_line() {
    let text = b"12345\n1234\n123456789\n12\n12345".to_vec();
    let expected =
      [vec![Line::TooLong, whole("1234\n"), Line::TooLong, whole("12\n")], vec![whole("12345")]];
    assert_eq!(all(vec![text], 5), expected);
  }

  proptest! {
    #[test]
    fn nothing_is_lost(text in proptest::collection::vec(prop_oneof![Just(b'\n'), any::<u8>()], 0..300), cut in 1_usize..50) {
      let chunks = all(text.chunks(cut).map(<[u8]>::to_vec).collect(), 1_000);
      let mut joined = Vec::new();
      for line in chunks.concat() {
        let Line::Whole(line) = line else { panic!("no line is that long") };
        prop_assert!(line.iter().rposition(|&byte| byte == b'\n').is_none_or(|at| at + 1 == line.len()));
        joined.extend(line);
      }
      prop_assert_eq!(joined, text);
    }
  }
}
