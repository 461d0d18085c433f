//! From a user name to a numeric uid, by `/etc/passwd`.
//!
//! Directory services (LDAP and similar) are not queried; the error says to give the number.
#![forbid(unsafe_code)]

use std::{
  ffi::OsStr,
  io,
  os::unix::ffi::OsStrExt as _,
  path::{Path, PathBuf},
};

use super::paths::{self, PathError};
pub use super::uid::effective_uid;

/// Largest password file that is read, in bytes.
const MAX_PASSWD: u64 = 4 << 20;

/// Why a configured owner has no uid.
#[derive(Debug, thiserror::Error)]
pub enum UserError {
  /// No such name.
  #[error(
    "no user `{}` in `/etc/passwd`\nhint: give the numeric uid (`id -u NAME`)",
    name.escape_debug()
  )]
  Unknown {
    /// The name as configured.
    name: String,
  },
  /// The password file cannot be read.
  #[error(transparent)]
  Passwd(#[from] PathError),
}

/// The uid of a user name, or the number itself.
pub fn uid(name: &str) -> Result<u32, UserError> {
  if let Ok(number) = name.parse() {
    return Ok(number);
  }
  find(&table()?, name).ok_or_else(|| UserError::Unknown { name: name.to_owned() })
}

/// The home directory of a user.
pub fn home(name: &str) -> Result<PathBuf, UserError> {
  home_in(&table()?, name).ok_or_else(|| UserError::Unknown { name: name.to_owned() })
}

fn table() -> Result<Vec<u8>, PathError> {
  let path = Path::new("/etc/passwd");
  paths::read_own(path, MAX_PASSWD)?.ok_or_else(|| PathError::Io {
    op: "read",
    path: path.to_owned(),
    source: io::ErrorKind::NotFound.into(),
  })
}

fn home_in(table: &[u8], name: &str) -> Option<PathBuf> {
  table.split(|&byte| byte == b'\n').find_map(|line| {
    let mut fields = line.split(|&byte| byte == b':');
    let home = (fields.next()? == name.as_bytes() && !name.is_empty()).then(|| fields.nth(4))??;
    home.starts_with(b"/").then(|| PathBuf::from(OsStr::from_bytes(home)))
  })
}

fn find(table: &[u8], name: &str) -> Option<u32> {
  table.split(|&byte| byte == b'\n').find_map(|line| {
    let mut fields = line.split(|&byte| byte == b':');
    (fields.next()? == name.as_bytes() && !name.is_empty())
      .then(|| std::str::from_utf8(fields.nth(1)?).ok()?.parse().ok())
      .flatten()
  })
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn names_and_numbers_resolve() {
    let table = b"root:x:0:0:root:/root:/bin/sh\nbroken\nann:x:1000:1000::/home/ann:\nbob:x:no:\n";
    assert_eq!(find(table, "root"), Some(0));
    assert_eq!(find(table, "ann"), Some(1000));
    assert_eq!(find(table, "bob"), None);
    assert_eq!(find(table, "an"), None);
    assert_eq!(find(table, ""), None);
    assert_eq!(home_in(table, "ann"), Some("/home/ann".into()));
    for nobody in ["an", "broken", "bob", ""] {
      assert_eq!(home_in(table, nobody), None, "{nobody}");
    }
    assert_eq!(uid("4711").unwrap(), 4711);
    assert_eq!(uid("root").unwrap(), 0);
    let error = uid("no\nbody").unwrap_err().to_string();
    assert!(error.starts_with("no user `no\\nbody`"), "{error}");
  }
}
