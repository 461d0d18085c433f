//! The other programs of a schedule: scripts of system calls, one call a step.
//!
//! They take part in no protocol. What they do is what editors, agents and sync tools were seen to do.
#![forbid(unsafe_code)]

use std::{
  collections::VecDeque,
  path::{Path, PathBuf},
  time::Duration,
};

use memfw::files::Kind;

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
  /// Closes what an agent's tool wrote, and remembers when.
  CloseTool(PathBuf),
  /// The tool puts on record what it is about to write: the buffer.
  Record(PathBuf),
  /// The tool has read the file back and compares.
  Verify(PathBuf),
  /// Maps the file; the mapping lives on when the descriptor is closed.
  Map,
  /// Extends the file and stores text at its end, through the mapping.
  Store(Vec<u8>),
  /// Stores text over the n-th line (modulo their number) through the mapping, if it fits.
  StoreOver(usize, Vec<u8>),
  /// Writes text over the n-th line (modulo their number), if it fits.
  PutOver(usize, Vec<u8>),
  Unmap,
  Rename(PathBuf, PathBuf),
  Link(PathBuf, PathBuf),
  Unlink(PathBuf),
  /// Puts something that is no regular file at a path.
  Place(PathBuf, Kind),
  /// Gives a file to somebody else, or back.
  Chown(PathBuf, bool),
  Nothing,
}

/// When a tool wrote what it has closed now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Closing {
  /// On the monotonic clock.
  pub(crate) at: Duration,
  /// How often the wall clock had been set.
  pub(crate) n_jumps: u64,
  /// How often writers had changed something.
  pub(crate) n_changes: u64,
  /// How often somebody had opened something.
  pub(crate) n_opens: u64,
  /// How often a tool had put something on record, which hides what was there before.
  pub(crate) n_records: u64,
  /// How often the engine had written without regard for verifying reads.
  pub(crate) n_others: u64,
}

/// A program in the middle of its script.
#[derive(Debug, Default)]
pub(crate) struct Actor {
  pub(crate) name: &'static str,
  pub(crate) steps: VecDeque<Step>,
  pub(crate) fd: Option<u64>,
  pub(crate) map: Option<usize>,
  /// The name under which it was opened.
  pub(crate) map_name: Option<PathBuf>,
  /// Whether something was written through the descriptor.
  pub(crate) wrote: bool,
  pub(crate) buffer: Vec<u8>,
  pub(crate) at: usize,
  /// Whether the step that is next has begun to wait for a lease.
  pub(crate) waits: bool,
  pub(crate) closing: Option<Closing>,
  /// How often somebody had opened something when this one put a file in its place: the program that opens it from
  /// then on, may be the one that reads back.
  pub(crate) n_opens_renamed: Option<u64>,
}

/// The last line of a file that is not empty, for [`Step::PutOver`].
pub(crate) const LAST: usize = usize::MAX;

/// What programs there are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taste {
  /// Mostly an agent's tools.
  pub(crate) tools: bool,
  /// Mostly programs that make a second hard link and remove it, of which no event tells.
  pub(crate) links: bool,
  /// Also those of twisted schedules.
  pub(crate) twisted: bool,
}

/// A way to write, as a script and its weight.
type Way<'a> = (usize, fn(&mut Script<'a>) -> &'static str);

impl Actor {
  /// A program that does something to the file at `path`.
  pub(crate) fn new(
    rng: &mut Rng,
    book: &mut Book,
    path: &Path,
    serial: usize,
    taste: Taste,
  ) -> Self {
    let ways: [Way<'_>; 20] = [
      (6, Script::append),
      (3, Script::truncate_then_write),
      (3, Script::in_place),
      (3, Script::prepend),
      (3, Script::temp_and_rename),
      (3, Script::vim),
      (3, Script::held_appender),
      (3, |script| script.chunked(true)),
      (3, |script| script.chunked(false)),
      (2, Script::unlink_and_create),
      (1, Script::unlink),
      (2, Script::mapped),
      (2, Script::mapped_in_place),
      (3, Script::stale),
      (if taste.tools { 60 } else { 4 }, Script::tool),
      (if taste.links { 60 } else { 1 }, Script::hard_link),
      (1, Script::foreign_owner),
      (1, Script::no_file),
      (2, Script::tail),
      (if taste.twisted { 8 } else { 0 }, Script::same_size),
    ];
    let all: usize = ways.iter().map(|(weight, _)| weight).sum();
    let mut at = rng.below(all);
    let mut script = Script { rng, book, path, serial, steps: Vec::new() };
    let mut name = "";
    for (weight, way) in ways {
      if at < weight {
        name = way(&mut script);
        break;
      }
      at -= weight;
    }
    Self { name, steps: script.steps.into(), ..Self::default() }
  }

  /// A program that overwrites a line at equal length, and does nothing else.
  pub(crate) fn overwriter(rng: &mut Rng, book: &mut Book, path: &Path) -> Self {
    let mut script = Script { rng, book, path, serial: 0, steps: Vec::new() };
    script.overwrite();
    Self { name: "overwriter", steps: script.steps.into(), ..Self::default() }
  }
}

struct Script<'a> {
  rng: &'a mut Rng,
  book: &'a mut Book,
  path: &'a Path,
  serial: usize,
  steps: Vec<Step>,
}

impl Script<'_> {
  /// A name beside the file.
  fn beside(&self, end: &str) -> PathBuf {
    self.path.with_extension(format!("{}.{end}", self.serial))
  }

  fn path(&self) -> PathBuf {
    self.path.to_owned()
  }

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

  fn temp_and_rename(&mut self) -> &'static str {
    self.read();
    self.change();
    let temp = self.beside("tmp");
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

  fn unlink(&mut self) -> &'static str {
    let path = self.path();
    self.add([Step::Unlink(path)]);
    "unlink"
  }

  /// Old text, poison included, is written back long after somebody else changed the file.
  fn stale(&mut self) -> &'static str {
    if self.rng.one_in(2) {
      self.open(false, true);
      let block = self.book.block(self.rng, true);
      self.add([Step::Put(block), Step::Close]);
    }
    self.read();
    let n = 10 + self.rng.below(60);
    self.add(vec![Step::Nothing; n]);
    self.change();
    self.open(true, false);
    self.write();
    self.close();
    "stale read-modify-write"
  }

  /// An agent's own tool: on record before it writes, and read back afterwards.
  fn tool(&mut self) -> &'static str {
    self.read();
    self.change();
    let path = self.path();
    self.add([Step::Record(path.clone())]);
    if self.rng.one_in(3) {
      let temp = self.beside("tool");
      self.add([Step::Open { path: temp.clone(), create: true, truncate: true, append: false }]);
      self.add([
        Step::Write(0, 100),
        Step::Close,
        Step::Rename(temp, path.clone()),
        Step::CloseTool(path.clone()),
      ]);
    } else {
      self.open(true, false);
      self.add([Step::Write(0, 100), Step::CloseTool(path.clone())]);
    }
    self.dawdle();
    let read = Step::Open { path: path.clone(), create: false, truncate: false, append: false };
    self.add([read, Step::Verify(path), Step::Close]);
    "agent tool"
  }

  fn hard_link(&mut self) -> &'static str {
    let (path, other) = (self.path(), self.beside("link"));
    self.add([Step::Link(path.clone(), other.clone())]);
    self.dawdle();
    if self.rng.one_in(2) {
      self.append();
    }
    self.dawdle();
    let gone = if self.rng.one_in(4) { path } else { other };
    self.add([Step::Unlink(gone)]);
    "hard link"
  }

  fn foreign_owner(&mut self) -> &'static str {
    let path = self.path();
    self.add([Step::Chown(path.clone(), true)]);
    self.dawdle();
    self.append();
    self.dawdle();
    self.add([Step::Chown(path, false)]);
    "foreign owner"
  }

  /// For a while something else stands where the file was.
  fn no_file(&mut self) -> &'static str {
    let (path, away) = (self.path(), self.beside("away"));
    let kind = *self.rng.pick(&[Kind::Symlink, Kind::Fifo, Kind::Directory]);
    self.add([Step::Rename(path.clone(), away.clone()), Step::Place(path.clone(), kind)]);
    self.dawdle();
    self.dawdle();
    self.add([Step::Unlink(path.clone()), Step::Rename(away, path)]);
    "no file"
  }

  fn mapped_in_place(&mut self) -> &'static str {
    self.open(false, false);
    self.add([Step::Map, Step::Close]);
    for _ in 0..=self.rng.below(3) {
      self.dawdle();
      let line = self.rng.below(50);
      let text = if self.rng.one_in(3) {
        self.book.bare_line(self.rng, true)
      } else {
        self.book.short_line(self.rng)
      };
      self.add([Step::StoreOver(line, text)]);
    }
    self.dawdle();
    self.add([Step::Unmap]);
    "mapped in place"
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

  /// What was just appended is overwritten at equal length, so nothing but times can tell.
  fn same_size(&mut self) -> &'static str {
    self.open(false, true);
    let mut first = self.book.bare_line(self.rng, false);
    first.resize(first.len().max(150), b'.');
    first.push(b'\n');
    self.add([Step::Put([b"\n".to_vec(), first].concat()), Step::Close]);
    for _ in 0..=self.rng.below(2) {
      self.dawdle();
      self.dawdle();
      self.overwrite();
    }
    "same size"
  }

  fn overwrite(&mut self) {
    self.open(false, false);
    let poison = self.rng.one_in(2);
    let line = if self.rng.one_in(2) { LAST } else { self.rng.below(50) };
    let text = self.book.bare_line(self.rng, poison);
    self.add([Step::PutOver(line, text)]);
    self.close();
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
