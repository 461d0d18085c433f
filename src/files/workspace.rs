//! The memory files of a workspace that are there, and the directories to watch.
//!
//! Nothing is opened or created here, and no link is followed.
#![forbid(unsafe_code)]

use std::{
  ffi::OsStr,
  fmt,
  os::unix::ffi::OsStrExt as _,
  path::{Path, PathBuf},
};

use super::{
  Shape,
  fs::{Fs, FsError, Kind, OpenError, Refusal, RootDir},
  memory_layout::{DIARY, DIRECTORY, PEOPLE, PERSON_FILE, ROOT_FILES, is_diary, is_memory_dir},
};
use crate::os::shown::Shown;

/// Directories below the root that are entered one inside the other.
pub const MAX_DEPTH: usize = 16;
/// Names in all that a walk takes up; a bound on memory, ten times the largest tree tried.
pub const MAX_NAMES: usize = 1_000_000;

/// A workspace that was opened.
#[derive(Debug)]
pub struct Workspace<F: Fs> {
  root: F::Root,
}

/// The result of a walk. Paths are relative to the root, and sorted.
#[derive(Debug, Default)]
pub struct Walk {
  /// Memory files, and entries of other kinds that have a memory file's name.
  pub files: Vec<PathBuf>,
  /// Directories to watch: the root (an empty path), `memory`, and all below it.
  pub dirs: Vec<PathBuf>,
  /// The parts that could not be examined.
  pub problems: Vec<Problem>,
}

/// A part of a workspace that is not guarded, and why.
#[derive(Debug)]
pub enum Problem {
  /// A directory cannot be listed, or an entry of another kind has its name.
  Unreadable {
    /// The relative path.
    path: PathBuf,
    /// Why.
    error: FsError,
  },
  /// Directories below this one are nested too deeply.
  TooDeep {
    /// The relative path.
    path: PathBuf,
  },
  /// There are too many names; the walk stopped in this directory.
  TooMany {
    /// The relative path.
    path: PathBuf,
  },
}

impl Problem {
  /// The relative path that is not guarded.
  pub fn path(&self) -> &Path {
    match self {
      Self::Unreadable { path, .. } | Self::TooDeep { path } | Self::TooMany { path } => path,
    }
  }
}

impl Problem {
  /// Whether a later attempt may succeed without any event: the system failed, or the directory is not
  /// readable at the moment.
  pub fn may_pass(&self) -> bool {
    let Self::Unreadable { error, .. } = self else { return false };
    match error {
      FsError::Refused { refusal, .. } => {
        refusal.is_transient() || matches!(refusal, Refusal::Permission | Refusal::Io(_))
      }
      error => matches!(error, FsError::Io { .. }),
    }
  }

  /// Whether a symbolic link is the reason.
  pub fn is_link(&self) -> bool {
    let refused =
      |error: &FsError| matches!(error, FsError::Refused { refusal: Refusal::Symlink, .. });
    matches!(self, Self::Unreadable { error, .. } if refused(error))
  }
}

impl fmt::Display for Problem {
  fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match self {
      Self::Unreadable { error, .. } => error.fmt(f),
      Self::TooDeep { path } => {
        let path = Shown(path);
        write!(
          f,
          "{path} is nested more than {MAX_DEPTH} directories deep: no file in it is guarded"
        )
      }
      Self::TooMany { path } => {
        write!(f, "more than {MAX_NAMES} names, stopped in {}", Shown(path))
      }
    }
  }
}

impl<F: Fs> Workspace<F> {
  /// Opens the workspace directory. It must exist; what is in it need not.
  pub fn open(fs: &F, path: &Path) -> Result<Self, OpenError> {
    Ok(Self { root: fs.open_root(path)? })
  }

  /// The open root.
  pub fn root(&self) -> &F::Root {
    &self.root
  }

  /// The absolute path of a relative one.
  pub fn absolute(&self, rel: &Path) -> PathBuf {
    // Joining an empty path would add a slash.
    if rel.as_os_str().is_empty() {
      self.root.path().to_owned()
    } else {
      self.root.path().join(rel)
    }
  }

  /// The relative path of an absolute one below this root.
  pub fn relative<'a>(&self, path: &'a Path) -> Option<&'a Path> {
    path.strip_prefix(self.root.path()).ok()
  }

  /// Finds all memory files and all directories to watch in a directory of any shape.
  pub fn walk_as(&self, fs: &F, shape: &Shape) -> Walk {
    let mut walk = Walk::default();
    match shape {
      Shape::Workspace => return self.walk(fs),
      Shape::Notes => self.descend(fs, PathBuf::new(), MAX_NAMES, shape, &mut walk),
      Shape::Files(names) => {
        walk.dirs.push(PathBuf::new());
        for name in names {
          match fs.kind(&self.root, Path::new(name)) {
            Ok(Some(_)) => walk.files.push(name.into()),
            Ok(None) => {}
            Err(error) => walk.problems.push(Problem::Unreadable { path: name.into(), error }),
          }
        }
      }
    }
    walk.files.sort();
    walk.dirs.sort();
    walk
  }

  /// Finds all memory files and all directories to watch in a workspace.
  pub fn walk(&self, fs: &F) -> Walk {
    let mut walk = Walk { dirs: vec![PathBuf::new()], ..Walk::default() };
    for name in ROOT_FILES {
      match fs.kind(&self.root, Path::new(name)) {
        Ok(Some(_)) => walk.files.push(name.into()),
        Ok(None) => {}
        Err(error) => walk.problems.push(Problem::Unreadable { path: name.into(), error }),
      }
    }
    self.visit_diaries(fs, &mut walk);
    let top = PathBuf::from(DIRECTORY);
    match fs.kind(&self.root, &top) {
      Ok(None) => {}
      Ok(Some(Kind::Directory)) => {
        self.descend(fs, top, MAX_NAMES, &Shape::Workspace, &mut walk);
      }
      Ok(Some(kind)) => {
        let refusal =
          if kind == Kind::Symlink { Refusal::Symlink } else { Refusal::NotRegular(kind) };
        let error = FsError::Refused { path: self.absolute(&top), refusal };
        walk.problems.push(Problem::Unreadable { path: top, error });
      }
      Err(error) => walk.problems.push(Problem::Unreadable { path: top, error }),
    }
    self.visit_people(fs, &mut walk);
    walk.files.sort();
    walk.dirs.sort();
    walk
  }

  /// The diary by all its names.
  fn visit_diaries(&self, fs: &F, walk: &mut Walk) {
    match fs.list(&self.root, Path::new(""), MAX_NAMES) {
      Ok(listing) => {
        let diaries = listing.entries.into_iter().filter(|entry| is_diary(&entry.name));
        walk.files.extend(diaries.map(|entry| PathBuf::from(entry.name)));
        if listing.truncated {
          walk.problems.push(Problem::TooMany { path: PathBuf::new() });
        }
      }
      // It was deleted in the meantime.
      Err(FsError::Refused { refusal: Refusal::Absent, .. }) => {}
      // A directory that cannot be listed may still be entered.
      Err(error) => {
        for name in [DIARY, "DREAMS.md"] {
          if let Ok(Some(_)) = fs.kind(&self.root, Path::new(name)) {
            walk.files.push(name.into());
          }
        }
        walk.problems.push(Problem::Unreadable { path: PathBuf::new(), error });
      }
    }
  }

  /// The directories of people: one level, with one file name in each.
  fn visit_people(&self, fs: &F, walk: &mut Walk) {
    let top = PathBuf::from(PEOPLE);
    match fs.kind(&self.root, &top) {
      Ok(Some(Kind::Directory)) => {}
      // A link or a file of this name belongs to something else, and the agent does not follow it.
      Ok(_) => return,
      Err(error) => {
        walk.problems.push(Problem::Unreadable { path: top, error });
        return;
      }
    }
    let listing = match fs.list(&self.root, &top, MAX_NAMES) {
      Ok(listing) => listing,
      Err(FsError::Refused { refusal: Refusal::Absent, .. }) => return,
      Err(error) => {
        walk.problems.push(Problem::Unreadable { path: top, error });
        return;
      }
    };
    walk.dirs.push(top.clone());
    for entry in listing.entries {
      let dir = top.join(&entry.name);
      if entry.kind != Kind::Directory || !is_memory_dir(&dir) {
        continue;
      }
      walk.dirs.push(dir.clone());
      let file = dir.join(PERSON_FILE);
      match fs.kind(&self.root, &file) {
        Ok(Some(_)) => walk.files.push(file),
        Ok(None) => {}
        Err(error) => walk.problems.push(Problem::Unreadable { path: file, error }),
      }
    }
    if listing.truncated {
      walk.problems.push(Problem::TooMany { path: top });
    }
  }

  fn descend(&self, fs: &F, top: PathBuf, mut left: usize, shape: &Shape, walk: &mut Walk) {
    let mut open = vec![top];
    while let Some(dir) = open.pop() {
      if dir.components().count() > MAX_DEPTH {
        walk.problems.push(Problem::TooDeep { path: dir });
        continue;
      }
      let listing = match fs.list(&self.root, &dir, left) {
        Ok(listing) => listing,
        // It was deleted after it was found.
        Err(FsError::Refused { refusal: Refusal::Absent, .. }) => continue,
        Err(error) => {
          walk.problems.push(Problem::Unreadable { path: dir, error });
          continue;
        }
      };
      // One budget for the whole tree, so that many small directories are limited, too.
      left = left.saturating_sub(listing.entries.len());
      for entry in listing.entries {
        let rel = dir.join(&entry.name);
        // A directory called `x.md` is entered, and is no file.
        if entry.kind == Kind::Directory {
          open.push(rel);
        } else if entry.kind == Kind::Symlink && (*shape == Shape::Notes || is_hidden(&entry.name))
        {
          // The agent does not follow links, and editors use links with a dot as locks.
        } else if shape.has(&rel) {
          walk.files.push(rel);
        } else if entry.kind == Kind::Symlink {
          // It may lead to a directory of memory, which is not guarded.
          let error = FsError::Refused { path: self.absolute(&rel), refusal: Refusal::Symlink };
          walk.problems.push(Problem::Unreadable { path: rel, error });
        }
      }
      walk.dirs.push(dir.clone());
      if listing.truncated {
        walk.problems.push(Problem::TooMany { path: dir });
        return;
      }
    }
  }
}

/// Whether a name begins with a dot.
fn is_hidden(name: &OsStr) -> bool {
  name.as_bytes().starts_with(b".")
}

#[cfg(test)]
#[path = "workspace_tests.rs"]
mod tests;
