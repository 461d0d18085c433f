//! Detects changes of a file without reading it.
#![forbid(unsafe_code)]

use rusqlite::Row;

/// What the file system reports about a file's content: equal stamps mean equal content, as far as
/// the resolution of its clock allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stamp {
  /// Device.
  pub dev: u64,
  /// Inode.
  pub ino: u64,
  /// Bytes.
  pub size: u64,
  /// Last change of the content, nanoseconds since 1970.
  pub mtime_ns: i64,
  /// Last change of content, name or permissions, nanoseconds since 1970.
  pub ctime_ns: i64,
}

impl Stamp {
  /// The stamp in the five columns that begin at `first`: all five or none.
  pub(super) fn from_row(row: &Row<'_>, first: usize) -> rusqlite::Result<Option<Self>> {
    let column = |index: usize| row.get::<_, Option<i64>>(first + index);
    let all = (column(0)?, column(1)?, column(2)?, column(3)?, column(4)?);
    let (Some(dev), Some(ino), Some(size), Some(mtime_ns), Some(ctime_ns)) = all else {
      return Ok(None);
    };
    Ok(Some(Self { dev: dev as u64, ino: ino as u64, size: size as u64, mtime_ns, ctime_ns }))
  }

  /// The five columns.
  pub(super) fn columns(stamp: Option<Self>) -> [Option<i64>; 5] {
    match stamp {
      Some(s) => [s.dev as i64, s.ino as i64, s.size as i64, s.mtime_ns, s.ctime_ns].map(Some),
      None => [None; 5],
    }
  }
}
