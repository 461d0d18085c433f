//! Creates a file where none exists, for a person who restores a deleted file.
#![forbid(unsafe_code)]

use std::{
  os::fd::{AsFd as _, OwnedFd},
  path::Path,
};

use rustix::fs::{Mode, OFlags};

use super::{
  fs::{Kind, Refusal},
  resolve::{self, Resolver},
};
use crate::os::user;

/// The directory is resolved like any file, and only a plain name is added, so no link can be followed
/// and no existing file can be opened.
pub(super) fn make(resolver: Resolver, root: &OwnedFd, rel: &Path) -> Result<(), Refusal> {
  let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
  let (parent, Some(name)) = (rel.parent(), rel.file_name()) else {
    return Err(Refusal::Escapes);
  };
  let directory = match parent.filter(|parent| !parent.as_os_str().is_empty()) {
    Some(parent) => {
      let target = resolver.find(root.as_fd(), parent)?;
      match target.facts()?.kind {
        Kind::Directory => target.open(flags).map_err(resolve::refusal)?,
        Kind::Symlink => return Err(Refusal::Symlink),
        kind => return Err(Refusal::NotRegular(kind)),
      }
    }
    None => rustix::fs::openat(root, ".", flags, Mode::empty()).map_err(resolve::refusal)?,
  };
  let found = resolve::facts(&rustix::fs::fstat(&directory).map_err(resolve::refusal)?);
  if found.uid != user::effective_uid() {
    return Err(Refusal::ForeignDirectory(found.uid));
  }
  let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
  let mode = Mode::RUSR | Mode::WUSR;
  rustix::fs::openat(&directory, name, flags, mode).map_err(resolve::refusal)?;
  rustix::fs::fsync(&directory).map_err(resolve::refusal)
}
