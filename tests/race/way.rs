//! Ten ways in which programs write memory. None of them takes a lock that memfw could join.
#![forbid(unsafe_code)]

use {
  super::{block::HEADER, mapper::Mapper},
  crate::support::{Random, pace},
  std::{
    fs::{self, File, OpenOptions},
    io::Write as _,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    time::Duration,
  },
};

/// A way to add one block to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
  /// Open for appending, write, close.
  Append,
  /// The same, a few bytes at a time.
  Chunks,
  /// One descriptor for appending, open for as long as the file is written to.
  Held,
  /// Extend, map, close, store through the mapping, unmap.
  Mapped,
  /// Read everything; later truncate and write everything.
  Truncate,
  /// Read everything; later write everything in place and set the length.
  InPlace,
  /// As `Truncate`, with the new block in front, so that everything behind it shifts.
  Prepend,
  /// Read everything; later write a temporary file and rename it over the file.
  Rename,
  /// Read everything; later rename the file to a backup and write a new one.
  Vim,
  /// Read everything; later unlink the file and write a new one.
  Unlink,
}

/// Microseconds until a file without new writes has its markers when the idle time is 0: a stamp is
/// trusted after 20 ms, and the daemon looks twice.
const RESHAPED_AFTER: u64 = 50_000;
/// Bytes of a chunk.
const CHUNK: usize = 9;

impl Way {
  pub(crate) const ALL: [Self; 10] = [
    Self::Append,
    Self::Chunks,
    Self::Held,
    Self::Mapped,
    Self::Truncate,
    Self::InPlace,
    Self::Prepend,
    Self::Rename,
    Self::Vim,
    Self::Unlink,
  ];

  /// The name in the table.
  pub(crate) fn name(self) -> &'static str {
    match self {
      Self::Append => "append",
      Self::Chunks => "chunked",
      Self::Held => "held descriptor",
      Self::Mapped => "mmap",
      Self::Truncate => "truncate",
      Self::InPlace => "in place",
      Self::Prepend => "prepend",
      Self::Rename => "temp+rename",
      Self::Vim => "vim style",
      Self::Unlink => "unlink+recreate",
    }
  }

  /// How many write to one file at the same time. Two that read, modify and write would overwrite
  /// each other's blocks, whoever guards the file: that is their own race, and not what is tested.
  pub(crate) fn hands(self) -> usize {
    if matches!(self, Self::Append | Self::Held) { 2 } else { 1 }
  }

  /// Whether it reads first, so that what it writes may be older than what stands there.
  pub(crate) fn rewrites(self) -> bool {
    !matches!(self, Self::Append | Self::Chunks | Self::Held | Self::Mapped)
  }

  /// Whether others may see a block of which the first line stands and the second does not.
  pub(crate) fn tears_lines(self) -> bool {
    matches!(self, Self::Chunks)
  }
}

/// Somebody who writes one file after the other.
pub(crate) struct Hand {
  way: Way,
  random: Random,
  mapper: Option<Mapper>,
  file: PathBuf,
  held: Option<File>,
}

impl Hand {
  pub(crate) fn new(way: Way, seed: u64) -> Self {
    let mapper = (way == Way::Mapped).then(Mapper::start);
    Self { way, random: Random::from_seed(seed), mapper, file: PathBuf::new(), held: None }
  }

  /// Turns to another file, which is there.
  pub(crate) fn turn_to(&mut self, file: &Path) {
    self.file = file.to_owned();
    self.held = (self.way == Way::Held).then(|| appending(file));
  }

  /// Lets go of the file.
  pub(crate) fn end(&mut self) {
    self.held = None;
  }

  /// Adds a block. When it returns, the write is complete.
  pub(crate) fn add(&mut self, text: &[u8]) {
    let file = self.file.clone();
    match self.way {
      Way::Append => appending(&file).write_all(text).unwrap(),
      Way::Chunks => {
        let mut open = appending(&file);
        for chunk in text.chunks(CHUNK) {
          open.write_all(chunk).unwrap();
          if self.random.below(8) == 0 {
            self.hesitate();
          }
        }
      }
      Way::Held => self.held.as_ref().unwrap().write_all(text).unwrap(),
      Way::Mapped => {
        let gap = Duration::from_micros(self.random.below(3_000));
        self.mapper.as_mut().unwrap().add(&file, text, gap);
      }
      way => {
        let all = with(way, &fs::read(&file).unwrap(), text);
        self.hesitate();
        rewrite(way, &file, &all);
      }
    }
  }

  /// Time between a read and the write that follows from it.
  fn hesitate(&mut self) {
    match self.random.below(8) {
      0..=3 => {}
      4 | 5 => pace(Duration::from_micros(self.random.below(300))),
      6 => pace(Duration::from_micros(self.random.below(3_000))),
      _ => pace(Duration::from_micros(self.random.below(RESHAPED_AFTER))),
    }
  }

  /// Time between two writes: mostly none or little, and sometimes about as much as the daemon waits
  /// before it reshapes, so that the next write meets it there.
  pub(crate) fn rest(&mut self) {
    match self.random.below(8) {
      0..=2 => {}
      3..=5 => pace(Duration::from_micros(self.random.below(2_000))),
      _ => pace(Duration::from_micros(RESHAPED_AFTER / 4 + self.random.below(RESHAPED_AFTER))),
    }
  }
}

fn appending(file: &Path) -> File {
  OpenOptions::new().append(true).open(file).unwrap()
}

/// What a rewriting writer makes of what it has read.
fn with(way: Way, read: &[u8], text: &[u8]) -> Vec<u8> {
  match way {
    Way::Prepend => {
      // Behind the header, which somebody may have put a marker around.
      let at = crate::support::marks::find(read, HEADER.as_bytes()).expect("the header is gone");
      let (head, tail) = read.split_at(at + HEADER.len());
      [head, text, tail].concat()
    }
    _ => [read, text].concat(),
  }
}

fn rewrite(way: Way, file: &Path, all: &[u8]) {
  match way {
    Way::InPlace => {
      let open = OpenOptions::new().read(true).write(true).open(file).unwrap();
      open.write_all_at(all, 0).unwrap();
      open.set_len(all.len() as u64).unwrap();
    }
    Way::Rename => {
      let temporary = file.with_extension("md.tmp");
      fs::write(&temporary, all).unwrap();
      fs::rename(&temporary, file).unwrap();
    }
    Way::Vim => {
      let backup = file.with_extension("md~");
      fs::rename(file, &backup).unwrap();
      fs::write(file, all).unwrap();
      fs::remove_file(&backup).unwrap();
    }
    Way::Unlink => {
      fs::remove_file(file).unwrap();
      fs::write(file, all).unwrap();
    }
    _ => fs::write(file, all).unwrap(),
  }
}
