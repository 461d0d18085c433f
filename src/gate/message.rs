//! The messages between gate and daemon: paths and answers, never content. Pure.
//!
//! One message is one datagram: a letter, numbers of fixed width, and optionally the bytes of a
//! path. A message that cannot be parsed is an error, and the connection ends.
#![forbid(unsafe_code)]

use std::{
  ffi::OsString,
  os::unix::ffi::{OsStrExt as _, OsStringExt as _},
  path::{Path, PathBuf},
  time::Duration,
};

use super::Why;
use crate::files::Stamp;

/// Version of the messages; gate and daemon of different versions do not talk.
pub const VERSION: u16 = 2;

/// Messages of the gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToDaemon {
  /// A process wants to read this file: has layer 1 passed its bytes?
  Ask {
    /// The number of the question.
    id: u32,
    /// The path of the file.
    path: PathBuf,
  },
  /// Readers were let through to bytes that were not passed.
  LetThrough {
    /// How many readers.
    n: u32,
    /// The latest reason.
    why: Why,
  },
  /// How many directories are gated.
  Gated {
    /// The number of directories.
    n: u32,
  },
  /// A named directory is not gated.
  NotGated {
    /// The directory.
    dir: PathBuf,
  },
  /// The gate ends because it was told to.
  Bye,
}

/// Messages of the daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToGate {
  /// The first message.
  Hello {
    /// The longest time that a reader waits.
    max_wait: Duration,
  },
  /// Readers of this directory wait.
  Watch {
    /// Whether it is the root of a workspace, in which few names are memory.
    root: bool,
    /// Its absolute path.
    dir: PathBuf,
  },
  /// The bytes that the file has with this stamp may be read.
  Passed {
    /// The question.
    id: u32,
    /// Stamp of the bytes.
    stamp: Stamp,
  },
  /// The file was read, and its bytes cannot be passed yet: the daemon is alive.
  NotYet {
    /// The question.
    id: u32,
  },
  /// Nothing to wait for: the path is not a memory file, or the file cannot be judged.
  Aside {
    /// The question.
    id: u32,
  },
}

/// A message that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
  /// Too short, too long, or with an unknown letter.
  #[error("a message cannot be read")]
  Form,
  /// From a memfw of another version.
  #[error("the daemon speaks version {0} of the gate's messages, this gate {VERSION}")]
  Version(u16),
}

impl ToDaemon {
  /// As bytes.
  pub fn encode(&self) -> Vec<u8> {
    match self {
      Self::Ask { id, path } => Writer::new(b'a').u32(*id).path(path),
      Self::LetThrough { n, why } => Writer::new(b'l').u32(*n).u8(why.code()).done(),
      Self::Gated { n } => Writer::new(b'g').u32(*n).done(),
      Self::NotGated { dir } => Writer::new(b'n').path(dir),
      Self::Bye => Writer::new(b'b').done(),
    }
  }

  /// From bytes.
  pub fn decode(bytes: &[u8]) -> Result<Self, Unreadable> {
    let mut reader = Reader(bytes);
    let message = match reader.u8()? {
      b'a' => Self::Ask { id: reader.u32()?, path: reader.path() },
      b'l' => Self::LetThrough {
        n: reader.u32()?,
        why: Why::from_code(reader.u8()?).ok_or(Unreadable::Form)?,
      },
      b'g' => Self::Gated { n: reader.u32()? },
      b'n' => Self::NotGated { dir: reader.path() },
      b'b' => Self::Bye,
      _ => return Err(Unreadable::Form),
    };
    reader.end(message)
  }
}

impl ToGate {
  /// As bytes.
  pub fn encode(&self) -> Vec<u8> {
    match self {
      Self::Hello { max_wait } => {
        let ms = u32::try_from(max_wait.as_millis()).unwrap_or(u32::MAX);
        Writer::new(b'h').u16(VERSION).u32(ms).done()
      }
      Self::Watch { root, dir } => Writer::new(if *root { b'r' } else { b'w' }).path(dir),
      Self::Passed { id, stamp } => Writer::new(b'p')
        .u32(*id)
        .u64(stamp.dev)
        .u64(stamp.ino)
        .u64(stamp.size)
        .u64(stamp.mtime_ns.cast_unsigned())
        .u64(stamp.ctime_ns.cast_unsigned())
        .done(),
      Self::NotYet { id } => Writer::new(b'y').u32(*id).done(),
      Self::Aside { id } => Writer::new(b's').u32(*id).done(),
    }
  }

  /// From bytes.
  pub fn decode(bytes: &[u8]) -> Result<Self, Unreadable> {
    let mut reader = Reader(bytes);
    let message = match reader.u8()? {
      b'h' => match reader.u16()? {
        VERSION => Self::Hello { max_wait: Duration::from_millis(reader.u32()?.into()) },
        // The first message of another version may have an unknown format after its version.
        other => return Err(Unreadable::Version(other)),
      },
      letter @ (b'r' | b'w') => Self::Watch { root: letter == b'r', dir: reader.path() },
      b'p' => Self::Passed {
        id: reader.u32()?,
        stamp: Stamp {
          dev: reader.u64()?,
          ino: reader.u64()?,
          size: reader.u64()?,
          mtime_ns: reader.u64()?.cast_signed(),
          ctime_ns: reader.u64()?.cast_signed(),
        },
      },
      b'y' => Self::NotYet { id: reader.u32()? },
      b's' => Self::Aside { id: reader.u32()? },
      _ => return Err(Unreadable::Form),
    };
    reader.end(message)
  }
}

struct Writer(Vec<u8>);

impl Writer {
  fn new(letter: u8) -> Self {
    Self(vec![letter])
  }

  fn put(mut self, bytes: &[u8]) -> Self {
    self.0.extend_from_slice(bytes);
    self
  }

  fn u8(self, value: u8) -> Self {
    self.put(&[value])
  }

  fn u16(self, value: u16) -> Self {
    self.put(&value.to_le_bytes())
  }

  fn u32(self, value: u32) -> Self {
    self.put(&value.to_le_bytes())
  }

  fn u64(self, value: u64) -> Self {
    self.put(&value.to_le_bytes())
  }

  fn path(self, path: &Path) -> Vec<u8> {
    self.put(path.as_os_str().as_bytes()).0
  }

  fn done(self) -> Vec<u8> {
    self.0
  }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
  fn take<const N: usize>(&mut self) -> Result<[u8; N], Unreadable> {
    let (head, rest) = self.0.split_first_chunk::<N>().ok_or(Unreadable::Form)?;
    self.0 = rest;
    Ok(*head)
  }

  fn u8(&mut self) -> Result<u8, Unreadable> {
    self.take().map(u8::from_le_bytes)
  }

  fn u16(&mut self) -> Result<u16, Unreadable> {
    self.take().map(u16::from_le_bytes)
  }

  fn u32(&mut self) -> Result<u32, Unreadable> {
    self.take().map(u32::from_le_bytes)
  }

  fn u64(&mut self) -> Result<u64, Unreadable> {
    self.take().map(u64::from_le_bytes)
  }

  /// All that is left.
  fn path(&mut self) -> PathBuf {
    PathBuf::from(OsString::from_vec(std::mem::take(&mut self.0).to_vec()))
  }

  fn end<M>(self, message: M) -> Result<M, Unreadable> {
    if self.0.is_empty() { Ok(message) } else { Err(Unreadable::Form) }
  }
}

#[cfg(test)]
mod tests {
  use proptest::prelude::*;

  use super::*;

  fn path() -> impl Strategy<Value = PathBuf> {
    proptest::collection::vec(any::<u8>(), 0..40).prop_map(|b| OsString::from_vec(b).into())
  }

  fn to_daemon() -> impl Strategy<Value = ToDaemon> {
    prop_oneof![
      (any::<u32>(), path()).prop_map(|(id, path)| ToDaemon::Ask { id, path }),
      (any::<u32>(), 0..Why::ALL.len())
        .prop_map(|(n, why)| ToDaemon::LetThrough { n, why: Why::ALL[why] }),
      any::<u32>().prop_map(|n| ToDaemon::Gated { n }),
      path().prop_map(|dir| ToDaemon::NotGated { dir }),
      Just(ToDaemon::Bye),
    ]
  }

  fn to_gate() -> impl Strategy<Value = ToGate> {
    let stamp =
      any::<(u64, u64, u64, i64, i64)>().prop_map(|(dev, ino, size, mtime_ns, ctime_ns)| Stamp {
        dev,
        ino,
        size,
        mtime_ns,
        ctime_ns,
      });
    prop_oneof![
      any::<u32>().prop_map(|ms| ToGate::Hello { max_wait: Duration::from_millis(ms.into()) }),
      (any::<bool>(), path()).prop_map(|(root, dir)| ToGate::Watch { root, dir }),
      (any::<u32>(), stamp).prop_map(|(id, stamp)| ToGate::Passed { id, stamp }),
      any::<u32>().prop_map(|id| ToGate::NotYet { id }),
      any::<u32>().prop_map(|id| ToGate::Aside { id }),
    ]
  }

  proptest! {
    #[test]
    fn messages_come_back_as_they_were(one in to_daemon(), other in to_gate()) {
      prop_assert_eq!(ToDaemon::decode(&one.encode()), Ok(one));
      prop_assert_eq!(ToGate::decode(&other.encode()), Ok(other));
    }

    #[test]
    fn any_bytes_are_an_answer(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
      // Parsing and printing again gives the parsed bytes.
      if let Ok(message) = ToDaemon::decode(&bytes) {
        prop_assert_eq!(message.encode(), bytes.clone());
      }
      if let Ok(message) = ToGate::decode(&bytes) {
        prop_assert_eq!(message.encode(), bytes);
      }
    }
  }

  #[test]
  fn another_version_is_distinguished_from_nonsense() {
    let mut hello = ToGate::Hello { max_wait: Duration::from_secs(2) }.encode();
    hello[1] = 9;
    hello.push(1);
    assert_eq!(ToGate::decode(&hello), Err(Unreadable::Version(9)));
    assert_eq!(ToGate::decode(b""), Err(Unreadable::Form));
    assert_eq!(ToGate::decode(b"s123"), Err(Unreadable::Form));
  }
}
