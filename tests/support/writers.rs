//! The ways in which agents, tools and people write memory.

use std::{
  fs::{self, File, OpenOptions},
  io::Write as _,
  os::unix::fs::FileExt as _,
  path::Path,
  process::{Command, Stdio},
};

/// A way to add text to the end of a file. When it returns, the writer has closed the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writer {
  /// `printf >> FILE` in a shell.
  Shell,
  /// Read, truncate, write everything, as most tools do.
  Truncate,
  /// Read, then write everything in place and truncate the file to its length.
  InPlace,
  /// Read, write everything to a temporary file, rename it over the file.
  Rename,
  /// A few bytes at a time through one descriptor.
  Chunks,
  /// A few bytes at a time, opening the file again for each.
  Reopen,
}

/// Bytes of a chunk.
const CHUNK: usize = 9;

impl Writer {
  pub(crate) const ALL: [Self; 6] =
    [Self::Shell, Self::Truncate, Self::InPlace, Self::Rename, Self::Chunks, Self::Reopen];

  /// Adds `text` to the end of `file`, and creates the file if it does not exist.
  pub(crate) fn add(self, file: &Path, text: &[u8]) {
    match self {
      Self::Shell => shell(file, text),
      Self::Truncate => fs::write(file, with(file, text)).unwrap(),
      Self::InPlace => in_place(file, text),
      Self::Rename => rename(file, text),
      Self::Chunks => {
        let mut open = appending(file);
        for chunk in text.chunks(CHUNK) {
          open.write_all(chunk).unwrap();
          std::thread::yield_now();
        }
      }
      Self::Reopen => {
        for chunk in text.chunks(CHUNK) {
          appending(file).write_all(chunk).unwrap();
        }
      }
    }
  }
}

/// The content of the file, and `text` after it.
fn with(file: &Path, text: &[u8]) -> Vec<u8> {
  let mut all = if file.exists() { fs::read(file).unwrap() } else { Vec::new() };
  all.extend_from_slice(text);
  all
}

fn appending(file: &Path) -> File {
  OpenOptions::new().append(true).create(true).open(file).unwrap()
}

fn shell(file: &Path, text: &[u8]) {
  let mut child = Command::new("sh")
    .args(["-c", "cat >> \"$1\"", "sh"])
    .arg(file)
    .stdin(Stdio::piped())
    .spawn()
    .unwrap();
  child.stdin.take().unwrap().write_all(text).unwrap();
  assert!(child.wait().unwrap().success());
}

fn in_place(file: &Path, text: &[u8]) {
  let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(file);
  let open = open.unwrap();
  let mut all = vec![0; usize::try_from(open.metadata().unwrap().len()).unwrap()];
  open.read_exact_at(&mut all, 0).unwrap();
  all.extend_from_slice(text);
  open.write_all_at(&all, 0).unwrap();
  open.set_len(all.len() as u64).unwrap();
}

fn rename(file: &Path, text: &[u8]) {
  let temporary = file.with_extension("md.tmp");
  fs::write(&temporary, with(file, text)).unwrap();
  fs::rename(&temporary, file).unwrap();
}
