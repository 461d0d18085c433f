//! One writer on one file, writing as much as it is allowed to while daemons start and are killed.

use {
  crate::support::pace,
  std::{
    fs::{self, File, OpenOptions},
    io::Write as _,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::Duration,
  },
};

/// Bytes of a chunk.
const CHUNK: usize = 9;
/// Writes through one descriptor before it is closed.
const HELD: usize = 6;
/// Between two writes.
const PACE: Duration = Duration::from_millis(3);

/// How a block is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
  /// One appending write.
  Append,
  /// Appended a few bytes at a time through one descriptor.
  Chunks,
  /// Appended through a descriptor that stays open for several blocks.
  Held,
  /// Read, truncate, write everything.
  Truncate,
  /// Read, write everything over the content.
  InPlace,
  /// Like `InPlace`, with the new block first, so that all other text moves.
  Prepend,
  /// Read, write a temporary file, rename it over the file.
  Rename,
  /// Rename the file away, write a new one, remove the old one.
  Vim,
}

impl Kind {
  pub(crate) const ALL: [Self; 8] = [
    Self::Append,
    Self::Chunks,
    Self::Held,
    Self::Truncate,
    Self::InPlace,
    Self::Prepend,
    Self::Rename,
    Self::Vim,
  ];

  /// Whether it writes back the bytes that it has read, and so can make a half-done change of memfw
  /// permanent.
  pub(crate) fn writes_back(self) -> bool {
    !matches!(self, Self::Append | Self::Chunks | Self::Held)
  }
}

/// The state of a writer between two writes.
pub(crate) struct Pen {
  kind: Kind,
  path: PathBuf,
  held: Option<(File, usize)>,
}

impl Pen {
  pub(crate) fn new(kind: Kind, path: &Path) -> Self {
    Self { kind, path: path.to_owned(), held: None }
  }

  /// Adds a block; when this returns, the writer counts it as written.
  pub(crate) fn add(&mut self, text: &str) {
    let path = &self.path;
    match self.kind {
      Kind::Append => appending(path).write_all(text.as_bytes()).unwrap(),
      Kind::Chunks => {
        let mut file = appending(path);
        for chunk in text.as_bytes().chunks(CHUNK) {
          file.write_all(chunk).unwrap();
          std::thread::yield_now();
        }
      }
      Kind::Held => {
        let (mut file, n) = self.held.take().unwrap_or_else(|| (appending(path), 0));
        file.write_all(text.as_bytes()).unwrap();
        self.held = (n + 1 < HELD).then_some((file, n + 1));
      }
      Kind::Truncate => {
        fs::write(path, [&fs::read(path).unwrap(), text.as_bytes()].concat()).unwrap();
      }
      Kind::InPlace => in_place(path, |old| [old, text.as_bytes()].concat()),
      Kind::Prepend => in_place(path, |old| [text.as_bytes(), old].concat()),
      Kind::Rename => {
        let temporary = path.with_extension("md.tmp");
        fs::write(&temporary, [&fs::read(path).unwrap(), text.as_bytes()].concat()).unwrap();
        fs::rename(&temporary, path).unwrap();
      }
      Kind::Vim => {
        let old = fs::read(path).unwrap();
        let backup = path.with_extension("md~");
        fs::rename(path, &backup).unwrap();
        let mut file = File::create(path).unwrap();
        file.write_all(&old).unwrap();
        file.write_all(text.as_bytes()).unwrap();
        drop(file);
        fs::remove_file(&backup).unwrap();
      }
    }
  }

  /// Closes its open descriptor.
  pub(crate) fn put_down(&mut self) {
    self.held = None;
  }
}

fn appending(path: &Path) -> File {
  OpenOptions::new().append(true).open(path).unwrap()
}

fn in_place(path: &Path, change: impl FnOnce(&[u8]) -> Vec<u8>) {
  let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
  let mut old = vec![0; usize::try_from(file.metadata().unwrap().len()).unwrap()];
  let length = file.read_at(&mut old, 0).unwrap();
  old.truncate(length);
  let new = change(&old);
  file.write_all_at(&new, 0).unwrap();
  if new.len() < length {
    file.set_len(new.len() as u64).unwrap();
  }
}

/// How far a writer may go and how far it has come.
#[derive(Default)]
pub(crate) struct Progress {
  allowed: AtomicUsize,
  confirmed: AtomicUsize,
  stop: AtomicBool,
}

impl Progress {
  /// Blocks that were written.
  pub(crate) fn confirmed(&self) -> usize {
    self.confirmed.load(Ordering::SeqCst)
  }

  /// Lets the writer write up to this block, and waits until it has.
  pub(crate) fn up_to(&self, n: usize) {
    self.allowed.store(n, Ordering::SeqCst);
    crate::support::eventually("the writer writes", || self.confirmed() >= n);
  }

  /// Lets the writer close its file after the current block.
  pub(crate) fn hold(&self) {
    self.allowed.store(0, Ordering::SeqCst);
    let mut last = usize::MAX;
    crate::support::eventually("the writer rests", || {
      pace(PACE * 4);
      std::mem::replace(&mut last, self.confirmed()) == self.confirmed()
    });
  }

  /// Ends the writer.
  pub(crate) fn stop(&self) {
    self.stop.store(true, Ordering::SeqCst);
  }
}

/// Writes `text(0)`, `text(1)`, ... as far as that is allowed.
pub(crate) fn write(kind: Kind, path: &Path, progress: &Progress, text: impl Fn(usize) -> String) {
  let mut pen = Pen::new(kind, path);
  while !progress.stop.load(Ordering::SeqCst) {
    let n = progress.confirmed();
    if n < progress.allowed.load(Ordering::SeqCst) {
      pen.add(&format!("{}\n", text(n)));
      progress.confirmed.fetch_add(1, Ordering::SeqCst);
    } else {
      pen.put_down();
    }
    pace(PACE);
  }
}
