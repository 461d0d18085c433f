//! The values in a service file, for the service manager that writes them in its own form.
#![forbid(unsafe_code)]

use std::{ffi::OsString, path::PathBuf};

/// Directories whose files are private to a service with `PrivateTmp=`.
const TEMPORARY: [&str; 2] = ["/tmp", "/var/tmp"];

/// How much of the sandbox a service of a user has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sandbox {
  /// All of it.
  Whole,
  /// The service manager cannot make a user namespace.
  NoNamespaces,
  /// The configuration names other owners, whom a user namespace would hide.
  OtherOwners,
}

impl Sandbox {
  /// Why a part of the sandbox is left out; a sentence.
  pub const fn why(self) -> Option<&'static str> {
    match self {
      Self::Whole => None,
      Self::NoNamespaces => Some("this service manager cannot make user namespaces"),
      Self::OtherOwners => {
        Some("`files.owners` names other users, whom a user namespace would hide")
      }
    }
  }
}

/// The values in a service file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
  /// This program.
  pub program: PathBuf,
  /// The home directory of the guarded user.
  pub home: PathBuf,
  /// Units that start after memfw.
  pub before: Vec<String>,
  /// Variables that memfw needs.
  pub variables: Vec<(String, OsString)>,
  /// The guarded directories.
  pub workspaces: Vec<PathBuf>,
  /// Writable directories, none below another.
  pub writable: Vec<PathBuf>,
  /// How much of the sandbox the service has.
  pub sandbox: Sandbox,
}

/// A value that a service file cannot hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{}` has a character that a service file cannot contain", .0.escape_debug())]
pub struct Unsayable(pub String);

impl Facts {
  /// Whether a writable path is in a directory that would otherwise be private to the service.
  pub fn shares_temporary_files(&self) -> bool {
    self.writable.iter().any(|path| TEMPORARY.iter().any(|dir| path.starts_with(dir)))
  }

  /// The writable paths, and the directories for temporary files if they stay shared.
  pub fn all_writable(&self) -> Vec<PathBuf> {
    let shared = TEMPORARY.iter().filter(|_| self.shares_temporary_files()).map(PathBuf::from);
    outermost(self.writable.iter().cloned().chain(shared))
  }
}

/// The paths in their order, without those below another path.
pub(super) fn outermost(paths: impl IntoIterator<Item = PathBuf>) -> Vec<PathBuf> {
  let mut found: Vec<PathBuf> = Vec::new();
  for path in paths {
    if !found.iter().any(|known| path.starts_with(known)) {
      found.retain(|known| !known.starts_with(&path));
      found.push(path);
    }
  }
  found
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn what_lies_below_another_path_is_not_named_again() {
    let paths = |list: &[&str]| list.iter().map(PathBuf::from).collect::<Vec<_>>();
    assert_eq!(
      outermost(paths(&["/a/b", "/c", "/a/bc", "/a/b/c", "/c", "/a/b"])),
      paths(&["/a/b", "/c", "/a/bc"])
    );
    assert_eq!(outermost(paths(&["/a/b", "/c", "/a"])), paths(&["/c", "/a"]));
  }
}
