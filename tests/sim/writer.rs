//! The other programs of a schedule: scripts of system calls, one call a step.
//!
//! They take part in no protocol. What they do is what editors, agents and sync tools were seen to do.
#![forbid(unsafe_code)]

use std::{
  collections::VecDeque,
  path::{Path, PathBuf},
};

use super::{book::Book, rng::Rng};

/// One system call, or one computation between two of them.
#[derive(Clone, Debug)]
pub(crate) enum Step {
  Open {
    path: PathBuf,
    create: bool,
    truncate: bool,
    append: bool,
  },
  /// Reads the whole file into the buffer.
  Read,
  /// Puts text before the buffer.
  Prepend(Vec<u8>),
  /// Puts text behind the buffer.
  Extend(Vec<u8>),
  /// Takes the n-th line (modulo their number) out of the buffer and puts text there.
  Replace(usize, Vec<u8>),
  /// Writes a part of the buffer, in hundredths of it, where it belongs.
  Write(usize, usize),
  /// Writes text: at the end with an appending descriptor, else behind what this script wrote last.
  Put(Vec<u8>),
  /// Cuts the file to the length of the buffer.
  Cut,
  Sync,
  Close,
  /// Maps the file; the mapping lives on when the descriptor is closed.
  Map,
  /// Extends the file and stores text at its end, through the mapping.
  Store(Vec<u8>),
  Unmap,
  Rename(PathBuf, PathBuf),
  Unlink(PathBuf),
  Nothing,
}

/// A program in the middle of its script.
#[derive(Debug, Default)]
pub(crate) struct Actor {
  pub(crate) name: &'static str,
  pub(crate) steps: VecDeque<Step>,
  pub(crate) fd: Option<u64>,
  pub(crate) map: Option<usize>,
  pub(crate) buffer: Vec<u8>,
  pub(crate) at: usize,
}

/// The ways to write.
const KINDS: usize = 13;

impl Actor {
  /// A program that does something to the file at `path`.
  pub(crate) fn new(rng: &mut Rng, book: &mut Book, path: &Path, serial: usize) -> Self {
    let mut script = Script { rng, book, path, steps: Vec::new() };
    let name = match script.rng.below(KINDS) {
      0 | 1 => script.append(),
      2 => script.truncate_then_write(),
      3 => script.in_place(),
      4 => script.prepend(),
      5 => script.temp_and_rename(serial),
      6 => script.vim(),
      7 => script.held_appender(),
      8 => script.chunked(true),
      9 => script.chunked(false),
      10 => script.unlink_and_create(),
      11 => script.mapped(),
      _ => script.tail(),
    };
    Self { name, steps: script.steps.into(), ..Self::default() }
  }
}

struct Script<'a> {
  rng: &'a mut Rng,
  book: &'a mut Book,
  path: &'a Path,
  steps: Vec<Step>,
}

impl Script<'_> {
  fn block(&mut self) -> Vec<u8> {
    let poison = self.rng.one_in(3);
    self.book.block(self.rng, poison)
  }

  fn add(&mut self, steps: impl IntoIterator<Item = Step>) {
    self.steps.extend(steps);
  }

  fn open(&mut self, truncate: bool, append: bool) {
    let path = self.path.to_owned();
    self.add([Step::Open { path, create: true, truncate, append }]);
  }

  /// Sometimes durable, sometimes not; then closed.
  fn close(&mut self) {
    if self.rng.one_in(2) {
      self.add([Step::Sync]);
    }
    self.add([Step::Close]);
  }

  /// Time for somebody else.
  fn dawdle(&mut self) {
    let n = self.rng.below(6);
    self.add(vec![Step::Nothing; n]);
  }

  /// What was read is old by the time it is written.
  fn read(&mut self) {
    self.open(false, false);
    self.add([Step::Read, Step::Close]);
    self.dawdle();
  }

  fn change(&mut self) {
    let block = self.block();
    let line = self.rng.below(50);
    let step = match self.rng.below(4) {
      0 => Step::Replace(line, block),
      _ => Step::Extend(block),
    };
    self.add([step]);
  }

  fn write(&mut self) {
    if self.rng.one_in(2) {
      self.add([Step::Write(0, 100)]);
    } else {
      let half = 1 + self.rng.below(99);
      self.add([Step::Write(0, half)]);
      self.dawdle();
      self.add([Step::Write(half, 100)]);
    }
  }

  fn append(&mut self) -> &'static str {
    self.open(false, true);
    let block = self.block();
    self.add([Step::Put(block)]);
    self.close();
    "append"
  }

  fn truncate_then_write(&mut self) -> &'static str {
    self.read();
    self.change();
    self.open(true, false);
    self.write();
    self.close();
    "truncate, then write"
  }

  fn in_place(&mut self) -> &'static str {
    self.open(false, false);
    self.add([Step::Read]);
    self.dawdle();
    self.change();
    self.write();
    self.add([Step::Cut]);
    self.close();
    "in place"
  }

  fn prepend(&mut self) -> &'static str {
    self.read();
    let block = self.block();
    self.add([Step::Prepend(block)]);
    self.open(false, false);
    self.write();
    self.add([Step::Cut]);
    self.close();
    "prepend"
  }

  fn temp_and_rename(&mut self, serial: usize) -> &'static str {
    self.read();
    self.change();
    let temp = self.path.with_extension(format!("{serial}.tmp"));
    self.add([Step::Open { path: temp.clone(), create: true, truncate: true, append: false }]);
    self.write();
    self.close();
    self.add([Step::Rename(temp, self.path.to_owned())]);
    "temp and rename"
  }

  fn vim(&mut self) -> &'static str {
    self.read();
    self.change();
    let backup = self.path.with_extension("md~");
    self.add([Step::Rename(self.path.to_owned(), backup.clone())]);
    self.open(false, false);
    self.write();
    self.add([Step::Sync, Step::Close, Step::Unlink(backup)]);
    "vim"
  }

  fn held_appender(&mut self) -> &'static str {
    self.open(false, true);
    for _ in 0..=self.rng.below(4) {
      let block = self.block();
      self.add([Step::Put(block)]);
      self.dawdle();
    }
    self.close();
    "held appender"
  }

  /// One block in pieces, with one descriptor or with one for each.
  fn chunked(&mut self, held: bool) -> &'static str {
    self.open(false, true);
    let block = self.block();
    let mut rest = &block[..];
    while !rest.is_empty() {
      let (now, later) = rest.split_at(1 + self.rng.below(rest.len()));
      rest = later;
      self.add([Step::Put(now.to_vec())]);
      if !held && !rest.is_empty() {
        self.close();
        self.dawdle();
        self.open(false, true);
      } else {
        self.dawdle();
      }
    }
    self.close();
    if held { "chunked with one descriptor" } else { "chunked with many" }
  }

  fn unlink_and_create(&mut self) -> &'static str {
    self.read();
    self.change();
    self.add([Step::Unlink(self.path.to_owned())]);
    self.dawdle();
    self.open(false, false);
    self.write();
    self.close();
    "unlink and create"
  }

  fn mapped(&mut self) -> &'static str {
    self.open(false, false);
    self.add([Step::Map, Step::Close]);
    self.dawdle();
    let block = self.block();
    self.add([Step::Store(block)]);
    self.dawdle();
    self.add([Step::Unmap]);
    "mapped"
  }

  /// `tail -f`: holds the file open and writes nothing.
  fn tail(&mut self) -> &'static str {
    self.open(false, false);
    for _ in 0..=self.rng.below(12) {
      self.add([Step::Read, Step::Nothing]);
    }
    self.add([Step::Close]);
    "tail"
  }
}
