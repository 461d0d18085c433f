//! Reads a compressed file of weights in pieces, so that its content is never in memory twice: as the file, and as
//! the numbers in it.
#![forbid(unsafe_code)]

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom, Take};

use zstd::stream::read::Decoder;

/// A larger file is not one of memfw's, in bytes without compression.
const MAX_MODEL: u64 = 64 << 20;

/// The content of a compressed file, from its beginning to its end.
pub(super) struct Packed<'a> {
  content: BufReader<Take<Decoder<'static, &'a [u8]>>>,
}

impl<'a> Packed<'a> {
  /// `None` where nothing can be decompressed.
  pub(super) fn new(file: &'a [u8]) -> Option<Self> {
    let decoder = Decoder::with_buffer(file).ok()?;
    Some(Self { content: BufReader::new(decoder.take(MAX_MODEL)) })
  }

  /// Whether everything was read, and whole.
  pub(super) fn is_at_end(&mut self) -> bool {
    self.content.fill_buf().is_ok_and(<[u8]>::is_empty) && self.content.get_ref().limit() > 0
  }
}

impl Read for Packed<'_> {
  fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
    self.content.read(buffer)
  }
}

impl BufRead for Packed<'_> {
  fn fill_buf(&mut self) -> io::Result<&[u8]> {
    self.content.fill_buf()
  }

  fn consume(&mut self, amount: usize) {
    self.content.consume(amount);
  }
}

/// Only forwards, which is how the reader of a file passes over what it does not need.
impl Seek for Packed<'_> {
  fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
    let SeekFrom::Current(offset) = to else { return Err(ErrorKind::Unsupported.into()) };
    let offset = u64::try_from(offset).map_err(|_negative| ErrorKind::Unsupported)?;
    io::copy(&mut self.by_ref().take(offset), &mut io::sink())
  }
}
