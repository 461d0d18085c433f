//! Reads directories of skills: finds them below a root, and reads all files of one. Nothing is written.
//!
//! Both are hostile: links are not followed, pipes and devices are not opened, and every size is limited. Each name is
//! opened in the directory that was opened before, so that no exchange of a directory leads elsewhere.
#![forbid(unsafe_code)]

use std::{
  collections::{BTreeSet, VecDeque},
  ffi::{OsStr, OsString},
  fs::File,
  io::{self, ErrorKind, Read as _},
  os::{
    fd::{AsFd as _, BorrowedFd, OwnedFd},
    unix::ffi::{OsStrExt as _, OsStringExt as _},
  },
  path::{Path, PathBuf},
};

use rustix::{
  fs::{AtFlags, Dir, FileType, Mode, OFlags},
  io::Errno,
};

/// The most files of one skill, directories included (a choice: sixteen times what the first agent framework allows
/// in a bundle).
const MAX_FILES: usize = 4096;
/// The most bytes of one skill (a choice: four times such a bundle).
const MAX_BYTES: u64 = 32 << 20;
/// The most directories in each other (a choice).
const MAX_DEPTH: usize = 16;
/// How deep below a root skills are found; as deep as the first agent framework finds them.
const MAX_GROUPS: usize = 6;
/// The most directories below a root in which skills are searched (a choice).
const MAX_DIRECTORIES: usize = 4096;
/// The most skills of one root (a choice).
const MAX_SKILLS: usize = 1024;

/// A limit that a skill exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeLimit {
  /// Too many files.
  Files,
  /// Too many bytes.
  Bytes,
  /// Too many directories in each other.
  Depth,
}

/// One entry of a skill's directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeEntry<'a> {
  /// A regular file, with its content.
  File {
    /// Its content.
    bytes: &'a [u8],
    /// Whether it may be run.
    is_program: bool,
  },
  /// A symbolic link, with the path that it contains.
  Link(&'a [u8]),
  /// A pipe, a socket or a device.
  Other,
  /// A regular file or a directory that could not be read.
  Unread,
}

/// Reads all entries below a directory except directories, in the order of their names, one at a time; returns the
/// first limit that was exceeded, after which nothing more is read. Paths are relative to the directory.
pub fn read_tree(
  dir: &Path,
  visit: &mut dyn FnMut(&[u8], TreeEntry<'_>),
) -> io::Result<Option<TreeLimit>> {
  let root = open_directory(None, dir.as_os_str())?;
  let mut walk = Walk { n_files: 0, bytes_left: MAX_BYTES, visit };
  Ok(walk.directory(root.as_fd(), &mut Vec::new(), 0).err())
}

struct Walk<'v> {
  n_files: usize,
  bytes_left: u64,
  visit: &'v mut dyn FnMut(&[u8], TreeEntry<'_>),
}

impl Walk<'_> {
  fn directory(
    &mut self,
    dir: BorrowedFd<'_>,
    path: &mut Vec<u8>,
    depth: usize,
  ) -> Result<(), TreeLimit> {
    let Ok((names, is_all)) = names(dir, MAX_FILES - self.n_files.min(MAX_FILES)) else {
      (self.visit)(path, TreeEntry::Unread);
      return Ok(());
    };
    let length = path.len();
    for name in names {
      self.n_files += 1;
      if !path.is_empty() {
        path.push(b'/');
      }
      path.extend(name.as_bytes());
      let result = self.entry(dir, &name, path, depth);
      path.truncate(length);
      result?;
    }
    if is_all { Ok(()) } else { Err(TreeLimit::Files) }
  }

  fn entry(
    &mut self,
    dir: BorrowedFd<'_>,
    name: &OsStr,
    path: &mut Vec<u8>,
    depth: usize,
  ) -> Result<(), TreeLimit> {
    let kind = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW);
    match kind.map(|stat| FileType::from_raw_mode(stat.st_mode)) {
      Ok(FileType::Directory) if depth >= MAX_DEPTH => return Err(TreeLimit::Depth),
      Ok(FileType::Directory) => match open_directory(Some(dir), name) {
        Ok(below) => return self.directory(below.as_fd(), path, depth + 1),
        Err(_) => (self.visit)(path, TreeEntry::Unread),
      },
      Ok(FileType::RegularFile) => match read_file(dir, name, self.bytes_left) {
        Ok(Some((bytes, is_program))) => {
          self.bytes_left -= (bytes.len() as u64).min(self.bytes_left);
          (self.visit)(path, TreeEntry::File { bytes: &bytes, is_program });
        }
        Ok(None) => return Err(TreeLimit::Bytes),
        Err(_) => (self.visit)(path, TreeEntry::Unread),
      },
      Ok(FileType::Symlink) => match rustix::fs::readlinkat(dir, name, Vec::new()) {
        Ok(target) => (self.visit)(path, TreeEntry::Link(target.as_bytes())),
        Err(_) => (self.visit)(path, TreeEntry::Unread),
      },
      Ok(_) => (self.visit)(path, TreeEntry::Other),
      // It was removed in between.
      Err(_) => {}
    }
    Ok(())
  }
}

/// Why not all skills below a directory were found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gap {
  /// There are too many directories.
  Directories,
  /// There are too many skills.
  Skills,
  /// Something cannot be read.
  Unread,
}

/// The skills below a root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundSkills {
  /// Their directories, without links in their paths, in order.
  pub dirs: Vec<PathBuf>,
  /// The first place in which not all were found, and why.
  pub gap: Option<(PathBuf, Gap)>,
}

/// Finds the skills below a root: the directories that have an entry `main`. Below a skill no further one is searched,
/// except below a root that is one itself: otherwise a single file there would hide all others. Directories whose
/// names begin with a dot are left out, as the first agent framework does. A link to a directory counts if that
/// directory is itself a skill. A root that does not exist has none.
///
/// The directories next to the root come first: what is hidden deep below one of them does not keep the others from
/// being found.
pub fn find_skills(root: &Path, main: &str) -> FoundSkills {
  let mut search = Search { found: BTreeSet::new(), gap: None };
  let mut n_directories = 0;
  let mut dirs = VecDeque::from([(root.to_owned(), 0)]);
  while let Some((dir, depth)) = dirs.pop_front() {
    n_directories += 1;
    if n_directories > MAX_DIRECTORIES {
      search.missed(root, Gap::Directories);
      break;
    }
    if search.found.len() >= MAX_SKILLS {
      search.missed(root, Gap::Skills);
      break;
    }
    let is_skill = search.take(&dir, main);
    if (is_skill && depth > 0) || depth >= MAX_GROUPS {
      continue;
    }
    let listed =
      open_directory(None, dir.as_os_str()).and_then(|dir| names(dir.as_fd(), MAX_DIRECTORIES));
    let names = match listed {
      Ok((names, true)) => names,
      Ok((names, false)) => {
        search.missed(&dir, Gap::Directories);
        names
      }
      Err(error) => {
        search.failed(&dir, &error);
        continue;
      }
    };
    for name in names {
      if name.as_bytes().starts_with(b".") || name == "node_modules" {
        continue;
      }
      let path = dir.join(&name);
      match path.symlink_metadata() {
        Ok(meta) if meta.is_dir() => dirs.push_back((path, depth + 1)),
        Ok(meta) if meta.is_symlink() => drop(search.take(&path, main)),
        Ok(_) => {}
        Err(error) => search.failed(&path, &error),
      }
    }
  }
  FoundSkills { dirs: search.found.into_iter().collect(), gap: search.gap }
}

struct Search {
  found: BTreeSet<PathBuf>,
  gap: Option<(PathBuf, Gap)>,
}

impl Search {
  /// Takes a directory up if it is a skill; whether it is one.
  fn take(&mut self, dir: &Path, main: &str) -> bool {
    match dir.join(main).symlink_metadata().and_then(|_| dir.canonicalize()) {
      Ok(dir) => {
        self.found.insert(dir);
        true
      }
      Err(error) => {
        self.failed(dir, &error);
        false
      }
    }
  }

  /// Notes that something could not be read. What does not exist, or is no directory, is no skill.
  fn failed(&mut self, path: &Path, error: &io::Error) {
    let is_loop = error.raw_os_error() == Some(Errno::LOOP.raw_os_error());
    let is_nothing = matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory);
    if !is_loop && !is_nothing {
      self.missed(path, Gap::Unread);
    }
  }

  fn missed(&mut self, path: &Path, why: Gap) {
    self.gap.get_or_insert_with(|| (path.to_owned(), why));
  }
}

fn open_directory(parent: Option<BorrowedFd<'_>>, name: &OsStr) -> io::Result<OwnedFd> {
  let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
  let opened = match parent {
    // A root is a person's choice, and a link there is one as well.
    None => rustix::fs::open(name, flags, Mode::empty()),
    Some(parent) => rustix::fs::openat(parent, name, flags | OFlags::NOFOLLOW, Mode::empty()),
  };
  Ok(opened?)
}

/// The names in a directory, sorted, at most so many, and whether that is all of them.
fn names(dir: BorrowedFd<'_>, limit: usize) -> io::Result<(Vec<OsString>, bool)> {
  let mut names = Vec::new();
  for entry in Dir::read_from(dir)? {
    let name = entry?.file_name().to_bytes().to_vec();
    if name == b"." || name == b".." {
      continue;
    }
    if names.len() >= limit {
      names.sort();
      return Ok((names, false));
    }
    names.push(OsString::from_vec(name));
  }
  names.sort();
  Ok((names, true))
}

/// The content of a regular file, and whether it may be run; `None` if it has more bytes than are left.
fn read_file(dir: BorrowedFd<'_>, name: &OsStr, limit: u64) -> io::Result<Option<(Vec<u8>, bool)>> {
  // Without O_NONBLOCK, a pipe that has taken the file's place would keep memfw waiting.
  let flags =
    OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
  let opened = rustix::fs::openat(dir, name, flags, Mode::empty())?;
  let stat = rustix::fs::fstat(&opened)?;
  if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
    return Err(io::Error::other("it is not a regular file"));
  }
  let is_program =
    Mode::from_raw_mode(stat.st_mode).intersects(Mode::XUSR | Mode::XGRP | Mode::XOTH);
  let mut bytes = Vec::new();
  File::from(opened).take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
  Ok((bytes.len() as u64 <= limit).then_some((bytes, is_program)))
}

#[cfg(test)]
#[path = "skill_tree_tests.rs"]
mod tests;
