//! Which files below a guarded directory are memory. The directory may be an agent's workspace, or contain
//! additional notes that an agent searches.
//!
//! In a workspace, memory is `MEMORY.md` (or `memory.md`, its older name) in the root and every `*.md` file below
//! `memory/`, including directories and names that begin with a dot, because the agent reads those like all
//! others; and the instruction files that the agent can write, in the root and as `users/ID/USER.md`. The
//! ending is case-sensitive and exact: `x.MD`, `x.md~` and `x.md.tmp` are not memory.
#![forbid(unsafe_code)]

use std::{
  collections::{BTreeMap, BTreeSet},
  ffi::{OsStr, OsString},
  os::unix::ffi::OsStrExt as _,
  path::{Component, Path, PathBuf},
};

/// The directory whose markdown files are memory.
pub(super) const DIRECTORY: &str = "memory";
/// The memory files of the root, and its files of instructions.
pub(super) const ROOT_FILES: [&str; 10] = [
  "MEMORY.md",
  "memory.md",
  "AGENTS.md",
  "BOOT.md",
  "BOOTSTRAP.md",
  "HEARTBEAT.md",
  "IDENTITY.md",
  "SOUL.md",
  "TOOLS.md",
  "USER.md",
];
/// A file of the root whose name the agent accepts in upper and lower case.
pub(super) const DIARY: &str = "dreams.md";
/// The directory with a directory for each person, and the one memory file in each of those.
pub(super) const PEOPLE: &str = "users";
pub(super) const PERSON_FILE: &str = "USER.md";

/// Which files of a directory are memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Shape {
  /// Those of a workspace.
  #[default]
  Workspace,
  /// All markdown files in it and below it.
  Notes,
  /// Only files in it with these names.
  Files(BTreeSet<OsString>),
}

/// The directories that are not workspaces, and which of their files are memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shapes(BTreeMap<PathBuf, Shape>);

impl Shape {
  /// Whether a relative path is the name of a memory file.
  pub fn has(&self, rel: &Path) -> bool {
    match self {
      Self::Workspace => is_memory(rel),
      Self::Notes => is_plain(rel) && rel.as_os_str().as_bytes().ends_with(b".md"),
      Self::Files(names) => names.iter().any(|name| rel.as_os_str() == name),
    }
  }

  /// Whether a relative path may be that of a directory with memory files.
  pub fn has_dir(&self, rel: &Path) -> bool {
    match self {
      Self::Workspace => is_memory_dir(rel),
      Self::Notes => is_plain(rel),
      Self::Files(_) => rel.as_os_str().is_empty(),
    }
  }
}

impl Shapes {
  /// Which files of a directory are memory.
  pub fn of(&self, root: &Path) -> &Shape {
    self.0.get(root).unwrap_or(&Shape::Workspace)
  }

  /// Whether a directory is not a workspace.
  pub fn is_elsewhere(&self, root: &Path) -> bool {
    self.0.contains_key(root)
  }

  /// Adds all notes below a directory.
  pub fn add_notes(&mut self, root: PathBuf) {
    self.0.insert(root, Shape::Notes);
  }

  /// Adds one file.
  pub fn add_file(&mut self, dir: PathBuf, name: OsString) {
    match self.0.entry(dir).or_insert_with(|| Shape::Files(BTreeSet::new())) {
      Shape::Files(names) => drop(names.insert(name)),
      // The whole directory is guarded already.
      Shape::Notes | Shape::Workspace => {}
    }
  }

  /// The directories.
  pub fn roots(&self) -> impl Iterator<Item = &PathBuf> {
    self.0.keys()
  }

  /// Forgets all but some.
  pub fn retain(&mut self, keep: impl Fn(&Path) -> bool) {
    self.0.retain(|root, _| keep(root));
  }

  /// Adds the directories of `others` that are not known yet.
  pub fn extend(&mut self, others: &Self) {
    for (root, shape) in &others.0 {
      self.0.entry(root.clone()).or_insert_with(|| shape.clone());
    }
  }
}

/// Whether a path relative to a workspace root is the name of a memory file.
pub fn is_memory(rel: &Path) -> bool {
  let mut names = rel.components();
  let (Some(Component::Normal(first)), rest) = (names.next(), names.as_path()) else {
    return false;
  };
  if rest.as_os_str().is_empty() {
    return ROOT_FILES.iter().any(|name| first == *name) || is_diary(first);
  }
  if first == PEOPLE {
    let below = rest.parent().is_some_and(|dir| !dir.as_os_str().is_empty());
    return below
      && is_memory_dir(rel.parent().unwrap_or(rel))
      && rest.file_name() == Some(OsStr::new(PERSON_FILE));
  }
  let plain = |part: Component<'_>| matches!(part, Component::Normal(_));
  first == DIRECTORY
    && rest.components().all(plain)
    && rest.file_name().is_some_and(|name| name.as_bytes().ends_with(b".md"))
}

/// Whether a path relative to a workspace root is a directory that can hold memory files.
pub fn is_memory_dir(rel: &Path) -> bool {
  let mut names = rel.components();
  let first = names.next();
  let mut depth = 0;
  let plain = names.all(|part| {
    depth += 1;
    matches!(part, Component::Normal(_))
  });
  plain
    && match first {
      Some(Component::Normal(name)) if name == PEOPLE => depth <= 1,
      first => first == Some(Component::Normal(OsStr::new(DIRECTORY))),
    }
}

/// Whether a name is one of the diary.
pub(super) fn is_diary(name: &OsStr) -> bool {
  name.as_bytes().eq_ignore_ascii_case(DIARY.as_bytes())
}

/// Whether a path stays below its root.
fn is_plain(rel: &Path) -> bool {
  rel.components().all(|part| matches!(part, Component::Normal(_)))
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn notes_are_all_markdown_files_and_single_files_are_alone() {
    let mut shapes = Shapes::default();
    shapes.add_notes("/n".into());
    shapes.add_file("/f".into(), "a.md".into());
    shapes.add_file("/f".into(), "b.txt".into());
    shapes.add_file("/n".into(), "c.txt".into());
    let has = |root: &str, rel: &str| shapes.of(Path::new(root)).has(Path::new(rel));
    for (root, rel, expected) in [
      ("/n", "a.md", true),
      ("/n", "x/y/MEMORY.md", true),
      ("/n", "x/.git/y.md", true),
      ("/n", ".a.md", true),
      ("/n", "c.txt", false),
      ("/n", "../a.md", false),
      ("/f", "a.md", true),
      ("/f", "b.txt", true),
      ("/f", "c.md", false),
      ("/f", "x/a.md", false),
      ("/w", "MEMORY.md", true),
      ("/w", "x.md", false),
    ] {
      assert_eq!(has(root, rel), expected, "{root} {rel}");
    }
    assert!(shapes.is_elsewhere(Path::new("/n")) && !shapes.is_elsewhere(Path::new("/w")));
    let dir = |root: &str, rel: &str| shapes.of(Path::new(root)).has_dir(Path::new(rel));
    assert!(dir("/n", "x/y") && dir("/f", "") && !dir("/f", "x") && dir("/n", ".git"));
  }
}
