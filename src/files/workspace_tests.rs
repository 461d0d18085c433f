//! Which files count as memory, and walks over trees that cannot be fully read.

use std::{
  fs,
  os::unix::{ffi::OsStrExt as _, fs::symlink},
};

use super::*;
use crate::files::{RealFs, memory_layout::is_memory};

#[expect(clippy::disallowed_methods, reason = "the tests' own files")]
fn write(path: &Path) {
  fs::create_dir_all(path.parent().unwrap()).unwrap();
  fs::write(path, "- a\n").unwrap();
}

fn walk(dir: &Path) -> (Vec<String>, Vec<String>, Vec<String>) {
  let workspace = Workspace::open(&RealFs::default(), dir).unwrap();
  let walk = workspace.walk(&RealFs::default());
  let text = |paths: &[PathBuf]| paths.iter().map(|p| p.display().to_string()).collect();
  let problems = walk.problems.iter().map(|p| format!("{}: {p}", p.path().display())).collect();
  (text(&walk.files), text(&walk.dirs), problems)
}

#[test]
fn memory_is_known_by_its_name() {
  for name in [
    "MEMORY.md",
    "memory.md",
    "memory/2026-11-21.md",
    "memory/a/b/c.md",
    "memory/new\nline.md",
    "memory/.md.md",
    "memory/x.tmp.md",
    "AGENTS.md",
    "dreams.md",
    "DrEaMs.md",
    "memory/.hidden.md",
    "memory/.dreams/x.md",
    "memory/ok/.git/x.md",
    "users/ann/USER.md",
    "users/.x/USER.md",
  ] {
    assert!(is_memory(Path::new(name)), "{name}");
  }
  assert!(is_memory(Path::new(OsStr::from_bytes(b"memory/\xff.md"))));
  for name in [
    "",
    "Memory.md",
    "README.md",
    "memory",
    "memory/",
    "memory/x.txt",
    "memory/x.md~",
    "memory/x.md.tmp",
    "memory/4913",
    "memory/.x.md.swp",
    "memory/.x.swo",
    "memory/.fs-safe-1234.tmp",
    "memory/x.MD",
    "memory/../MEMORY.md",
    "/memory/x.md",
    "notes/memory/x.md",
    "memory.md/x.md",
    "agents.md",
    "users/USER.md",
    "users/ann/b/USER.md",
    "users/ann/SOUL.md",
    ".fs-safe-1234.tmp",
  ] {
    assert!(!is_memory(Path::new(name)), "{name}");
  }
}

#[test]
fn a_walk_finds_memory_files_and_the_directories_to_watch() {
  let dir = tempfile::tempdir().unwrap();
  let names = ["MEMORY.md", "README.md", "memory/b.md", "memory/sub/deep/a.md", "memory/x.txt"];
  for name in names.into_iter().chain(["memory/.git/x.md", "other/c.md", "memory/d.md/e.md"]) {
    write(&dir.path().join(name));
  }
  write(&dir.path().join("DrEaMs.md"));
  write(&dir.path().join("memory/.cache.md"));
  symlink("ann@host.1", dir.path().join("memory/.#b.md")).unwrap();
  let (files, dirs, problems) = walk(dir.path());
  assert_eq!(
    files,
    [
      "DrEaMs.md",
      "MEMORY.md",
      "memory/.cache.md",
      "memory/.git/x.md",
      "memory/b.md",
      "memory/d.md/e.md",
      "memory/sub/deep/a.md"
    ]
  );
  assert_eq!(dirs, ["", "memory", "memory/.git", "memory/d.md", "memory/sub", "memory/sub/deep"]);
  assert!(problems.is_empty(), "{problems:?}");

  let workspace = Workspace::open(&RealFs::default(), dir.path()).unwrap();
  let absolute = workspace.absolute(Path::new("memory/b.md"));
  assert_eq!(workspace.relative(&absolute), Some(Path::new("memory/b.md")));
  assert_eq!(workspace.relative(&workspace.absolute(Path::new(""))), Some(Path::new("")));
}

#[test]
fn instructions_and_personal_files_are_found() {
  let dir = tempfile::tempdir().unwrap();
  for name in ["SOUL.md", "users/ann/USER.md", "users/ann/notes.md", "users/bob/x/USER.md"] {
    write(&dir.path().join(name));
  }
  symlink("ann", dir.path().join("users/link")).unwrap();
  let (files, dirs, problems) = walk(dir.path());
  assert_eq!(files, ["SOUL.md", "users/ann/USER.md"]);
  assert_eq!(dirs, ["", "users", "users/ann", "users/bob"]);
  assert!(problems.is_empty(), "{problems:?}");
}

#[test]
fn an_empty_workspace_is_watched_and_stays_empty() {
  let dir = tempfile::tempdir().unwrap();
  let (files, dirs, problems) = walk(dir.path());
  assert_eq!((files, dirs, problems), (vec![], vec![String::new()], vec![]));
  assert_eq!(dir.path().read_dir().unwrap().count(), 0);
}

#[test]
fn links_are_not_entered_and_a_linked_memory_directory_is_a_problem() {
  let outside = tempfile::tempdir().unwrap();
  write(&outside.path().join("secret.md"));
  let dir = tempfile::tempdir().unwrap();
  symlink(outside.path(), dir.path().join("memory")).unwrap();
  let (files, dirs, problems) = walk(dir.path());
  assert_eq!((files.len(), dirs.len(), problems.len()), (0, 1, 1));
  assert!(problems[0].contains("symbolic link"), "{problems:?}");

  let dir = tempfile::tempdir().unwrap();
  write(&dir.path().join("memory/a.md"));
  symlink(outside.path(), dir.path().join("memory/link")).unwrap();
  symlink("..", dir.path().join("memory/loop")).unwrap();
  symlink(outside.path().join("secret.md"), dir.path().join("memory/link.md")).unwrap();
  let (files, dirs, problems) = walk(dir.path());
  // The linked file is listed, so that opening it can report that it is not guarded.
  assert_eq!(files, ["memory/a.md", "memory/link.md"]);
  assert_eq!(dirs, ["", "memory"]);
  // The targets of the other two are not examined, and that is reported.
  assert_eq!(problems.len(), 2, "{problems:?}");
  assert!(problems.iter().all(|problem| problem.contains("symbolic link")), "{problems:?}");

  let dir = tempfile::tempdir().unwrap();
  write(&dir.path().join("memory"));
  let (_, _, problems) = walk(dir.path());
  assert!(problems[0].contains("it is a file"), "{problems:?}");
}

#[test]
fn nesting_beyond_the_limit_is_a_problem_and_not_an_overflow() {
  let dir = tempfile::tempdir().unwrap();
  let mut rel = PathBuf::from("memory");
  for _ in 1..MAX_DEPTH {
    rel.push("d");
  }
  write(&dir.path().join(&rel).join("last.md"));
  assert!(walk(dir.path()).2.is_empty());
  write(&dir.path().join(&rel).join("d/beyond.md"));
  let (files, dirs, problems) = walk(dir.path());
  assert_eq!(files, [rel.join("last.md").to_str().unwrap()]);
  assert_eq!((dirs.len(), problems.len()), (MAX_DEPTH + 1, 1));
  assert!(problems[0].contains("nested more than 16"), "{problems:?}");
}

#[test]
fn a_name_limit_stops_the_walk_and_says_so() {
  let dir = tempfile::tempdir().unwrap();
  for name in ["memory/a.md", "memory/b.md", "memory/c.md"] {
    write(&dir.path().join(name));
  }
  let workspace = Workspace::open(&RealFs::default(), dir.path()).unwrap();
  let mut walk = Walk::default();
  workspace.descend(&RealFs::default(), "memory".into(), 2, &Shape::Workspace, &mut walk);
  assert_eq!(walk.files.len(), 2);
  // The directory is watched nevertheless, so that changes in it are seen.
  assert_eq!(walk.dirs, [Path::new("memory")]);
  assert!(matches!(&walk.problems[..], [Problem::TooMany { .. }]), "{:?}", walk.problems);
}
