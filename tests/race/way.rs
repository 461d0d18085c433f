//! Ten ways in which programs write memory. None of them takes a lock that memfw could join.
#![forbid(unsafe_code)]

use {
  super::{block::HEADER, helper::Helper},
  crate::support::{Random, pace},
  std::{
    fs::{self, File, OpenOptions},
    io::Write as _,
    os::unix::fs::{FileExt as _, MetadataExt as _},
    path::{Path, PathBuf},
    time::{Duration, Instant},
  },
};

/// A way to add one block to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
  /// Open for appending, write, close.
  Append,
  /// Like `Append`, a few bytes at a time.
  Chunks,
  /// One descriptor for appending, open for as long as the file is written to.
  Held,
  /// Extend, map, close, store through the mapping, unmap.
  Mapped,
  /// Read everything; later truncate and write everything.
  Truncate,
  /// Read everything; later write everything in place and set the length.
  InPlace,
  /// Like `Truncate`, with the new block in front, so that all later text shifts.
  Prepend,
  /// Read everything; later write a temporary file and rename it over the file.
  Rename,
  /// Read everything; later rename the file to a backup and write a new one.
  Vim,
  /// Read everything; later unlink the file and write a new one.
  Unlink,
  /// Like `Truncate`, in node.
  NodeWrite,
  /// Like `NodeWrite`, with the block after a quoted line, and a verifying read at once.
  NodeEdit,
  /// Read everything; later `root.write` of OpenClaw's safe writer.
  SafeWrite,
  /// `root.append` of OpenClaw's safe writer.
  SafeAppend,
}

/// About how long the daemon takes to write markers when the idle time is 0: a stamp is trusted after
/// 20 ms.
const EDITED_AFTER: Duration = Duration::from_millis(25);
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

  /// Those that OpenClaw and its agent's tools use, in node.
  pub(crate) const NODE: [Self; 4] =
    [Self::NodeWrite, Self::NodeEdit, Self::SafeWrite, Self::SafeAppend];

  /// The name in the table and in requests.
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
      Self::NodeWrite => "write",
      Self::NodeEdit => "edit",
      Self::SafeWrite => "safe-write",
      Self::SafeAppend => "safe-append",
    }
  }

  /// How many writers write to one file at once. Two that read, modify and write would overwrite
  /// each other's blocks even without memfw: that is their own race, which is not tested.
  pub(crate) fn hands(self) -> usize {
    if matches!(self, Self::Append | Self::Held | Self::SafeAppend) { 2 } else { 1 }
  }

  /// Whether another process writes.
  pub(crate) fn needs_helper(self) -> bool {
    self == Self::Mapped || Self::NODE.contains(&self)
  }

  /// Whether the text that it writes may be older than the content.
  pub(crate) fn may_be_stale(self) -> bool {
    use Way::{InPlace, Prepend, Rename, Truncate, Unlink, Vim};
    matches!(self, Truncate | InPlace | Prepend | Rename | Vim | Unlink)
  }

  /// Whether others may see a block with its first line and without its second.
  pub(crate) fn tears_lines(self) -> bool {
    matches!(self, Self::Chunks)
  }
}

/// A writer of one file after the other.
pub(crate) struct Hand {
  way: Way,
  random: Random,
  helper: Option<Helper>,
  file: PathBuf,
  held: Option<File>,
  /// How long after a write the daemon edited the file the last time.
  edited_after: Duration,
}

impl Hand {
  pub(crate) fn new(way: Way, seed: u64) -> Self {
    let helper = Helper::of(way);
    Self {
      way,
      random: Random::from_seed(seed),
      helper,
      file: PathBuf::new(),
      held: None,
      edited_after: EDITED_AFTER,
    }
  }

  /// Switches to another, existing file.
  pub(crate) fn turn_to(&mut self, file: &Path) {
    self.file = file.to_owned();
    self.held = (self.way == Way::Held).then(|| appending(file));
  }

  /// Closes the file.
  pub(crate) fn end(&mut self) {
    self.held = None;
  }

  /// Adds a block. When it returns, the write is complete. Returns how often the writer had to try
  /// again, or why it could not write.
  pub(crate) fn add(&mut self, text: &[u8]) -> Result<usize, String> {
    let file = self.file.clone();
    match self.way {
      way if way.needs_helper() => {
        let gap = self.gap();
        return self.helper.as_mut().unwrap().add(&file, text, gap);
      }
      Way::Append => appending(&file).write_all(text).unwrap(),
      Way::Chunks => {
        let mut open = appending(&file);
        for chunk in text.chunks(CHUNK) {
          open.write_all(chunk).unwrap();
          if self.random.below(8) == 0 {
            pace(self.gap());
          }
        }
      }
      Way::Held => self.held.as_ref().unwrap().write_all(text).unwrap(),
      way => {
        let all = with(way, &fs::read(&file).unwrap(), text);
        pace(self.gap());
        rewrite(way, &file, &all);
      }
    }
    Ok(0)
  }

  /// Time between a read and the write that follows from it.
  fn gap(&mut self) -> Duration {
    match self.random.below(8) {
      0..=3 => Duration::ZERO,
      4 | 5 => Duration::from_micros(self.random.below(300)),
      6 => Duration::from_micros(self.random.below(3_000)),
      _ if self.way == Way::Mapped => Duration::from_micros(self.random.below(8_000)),
      _ => self.aim(),
    }
  }

  /// Time between two writes: none, little, until the daemon has edited the file, or about as long as
  /// that took the last time, so that the next write meets the daemon at work.
  pub(crate) fn rest(&mut self) {
    match self.random.below(8) {
      0 | 1 => {}
      2 | 3 => pace(Duration::from_micros(self.random.below(2_000))),
      4 | 5 => self.watch(),
      _ => pace(self.aim()),
    }
  }

  fn aim(&mut self) -> Duration {
    let early = Duration::from_micros(self.random.below(4_000));
    (self.edited_after + Duration::from_millis(1)).saturating_sub(early)
  }

  /// Waits for the daemon's edit, without opening the file. If another hand writes as well, the
  /// edit is not seen, and the usual time is assumed.
  fn watch(&mut self) {
    if self.way.hands() > 1 {
      return pace(EDITED_AFTER * 2);
    }
    let stamp = || self.file.metadata().map(|stamp| (stamp.mtime(), stamp.mtime_nsec())).ok();
    let (before, started) = (stamp(), Instant::now());
    while stamp() == before && started.elapsed() < EDITED_AFTER * 2 {
      pace(Duration::from_micros(50));
    }
    if stamp() != before {
      self.edited_after = started.elapsed();
    }
  }
}

fn appending(file: &Path) -> File {
  OpenOptions::new().append(true).open(file).unwrap()
}

/// The new content that a rewriting writer makes of the old one.
fn with(way: Way, read: &[u8], text: &[u8]) -> Vec<u8> {
  match way {
    Way::Prepend => {
      // After the header, which may have a marker around it.
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
