//! Paths as tools name them, compared with the file that is asked about.
//!
//! No path from a transcript is ever opened; this is text against text.
#![forbid(unsafe_code)]

use std::path::{Component, Path, PathBuf};

/// Longest path that is looked at, in bytes.
const MAX_PATH_BYTES: usize = 4096;

/// How well the path in a call names a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Names {
  /// It ends like it, but is in another place: a link, a sandbox, or another file.
  Ending,
  /// The path is exactly that of the file.
  File,
}

/// Whether `named`, as a tool was given it, is `file` of `workspace`. `home` is where the agent works: from
/// there a relative path counts.
pub(super) fn names(named: &str, home: &Path, workspace: &Path, file: &Path) -> Option<Names> {
  let from_home = home.join(named.trim());
  let named = plain(named)?;
  let full = plain(&workspace.join(file).to_string_lossy())?;
  if home != workspace && named != full {
    let resolved = plain(&from_home.to_string_lossy())?;
    let is_elsewhere = named.is_relative() || resolved.starts_with(home);
    if resolved == full || is_elsewhere {
      return (resolved == full).then_some(Names::File);
    }
  }
  let below = plain(&file.to_string_lossy())?;
  if named == full || named == below {
    return Some(Names::File);
  }
  named.ends_with(&below).then_some(Names::Ending)
}

/// The path as it would be called from the workspace, where it lies below it; else as it was named.
pub(super) fn relative(named: &str, workspace: &Path) -> Option<PathBuf> {
  let named = plain(named)?;
  let below = plain(&workspace.to_string_lossy())
    .and_then(|workspace| named.strip_prefix(workspace).ok().map(Path::to_path_buf));
  Some(below.unwrap_or(named))
}

/// Whether a file, relative to the workspace, is memory: the ledger has the origin of its text.
pub(super) fn is_memory(relative: &Path) -> bool {
  const INJECTED: &[&str] = &[
    "MEMORY.md",
    "memory.md",
    "USER.md",
    "DREAMS.md",
    "dreams.md",
    "AGENTS.md",
    "SOUL.md",
    "IDENTITY.md",
    "TOOLS.md",
    "HEARTBEAT.md",
    "BOOT.md",
    "BOOTSTRAP.md",
  ];
  let is_note = relative.extension().is_some_and(|extension| extension == "md");
  is_note
    && (relative.to_str().is_some_and(|path| INJECTED.contains(&path))
      || relative.starts_with("memory")
      || (relative.starts_with("users") && relative.ends_with("USER.md")))
}

/// The importer whose folder a file lies in.
pub(super) fn importer(relative: &Path) -> Option<&str> {
  relative.strip_prefix("memory/imports").ok()?.components().next()?.as_os_str().to_str()
}

/// The skill whose folder a file lies in.
pub(super) fn skill(relative: &Path) -> Option<String> {
  let mut parts = relative.components().skip_while(|part| part.as_os_str() != "skills");
  parts.next()?;
  let name = parts.next()?.as_os_str().to_str()?;
  parts.next().map(|_| name.to_owned())
}

/// Without `.`, `..` and doubled slashes, by the text alone; `~` is dropped, so that such a path can
/// only match by its ending. Of `..` those stay that lead above the start.
fn plain(path: &str) -> Option<PathBuf> {
  let path = path.trim();
  if path.is_empty() || path.len() > MAX_PATH_BYTES {
    return None;
  }
  let path = path.strip_prefix("file://").unwrap_or(path);
  let mut plain = PathBuf::new();
  for part in Path::new(path).components() {
    match part {
      Component::CurDir => {}
      // The text alone does not say where a path above its start leads.
      Component::ParentDir if plain.file_name().is_none() && !plain.has_root() => plain.push(part),
      Component::ParentDir => drop(plain.pop()),
      other => plain.push(other),
    }
  }
  Some(plain)
}

#[cfg(test)]
mod tests {
  use super::*;

  fn named(path: &str) -> Option<Names> {
    let workspace = Path::new("/home/claw/.openclaw/workspace");
    names(path, workspace, workspace, Path::new("memory/2026-11-20.md"))
  }

  #[test]
  fn a_file_is_known_under_all_its_names() {
    for path in [
      "memory/2026-11-20.md",
      "./memory//2026-11-20.md",
      "notes/../memory/2026-11-20.md",
      "/home/claw/.openclaw/workspace/memory/2026-11-20.md",
      "file:///home/claw/.openclaw/workspace/memory/2026-11-20.md",
      " memory/2026-11-20.md ",
    ] {
      assert_eq!(named(path), Some(Names::File), "{path}");
    }
    for path in ["~/.openclaw/workspace/memory/2026-11-20.md", "/mnt/ws/memory/2026-11-20.md"] {
      assert_eq!(named(path), Some(Names::Ending), "{path}");
    }
    for path in ["2026-11-20.md", "memory/2026-11-21.md", "", "xmemory/2026-11-20.md"] {
      assert_eq!(named(path), None, "{path}");
    }
  }

  #[test]
  fn a_relative_path_counts_from_where_its_agent_works() {
    let (workspace, file) = (Path::new("/c/workspace-work"), Path::new("memory/a.md"));
    let named = |path| names(path, Path::new("/c/workspace"), workspace, file);
    for path in ["memory/a.md", "/c/workspace/memory/a.md", "./memory/a.md"] {
      assert_eq!(named(path), None, "{path}");
    }
    for path in ["/c/workspace-work/memory/a.md", "../workspace-work/memory/a.md"] {
      assert_eq!(named(path), Some(Names::File), "{path}");
    }
    assert_eq!(named("/mnt/box/memory/a.md"), Some(Names::Ending));
  }

  #[test]
  fn memory_is_distinguished_from_other_files() {
    for path in ["MEMORY.md", "memory/2026-11-20.md", "users/ann/USER.md", "SOUL.md"] {
      assert!(is_memory(Path::new(path)), "{path}");
    }
    for path in ["../memory/a.md", "docs/MEMORY.md", "notes.md", "memory/data.json", "/etc/USER.md"]
    {
      assert!(!is_memory(Path::new(path)), "{path}");
    }
    assert_eq!(importer(Path::new("memory/imports/claude-code/a.md")), Some("claude-code"));
    assert_eq!(skill(Path::new("skills/weather/SKILL.md")).as_deref(), Some("weather"));
    assert_eq!(skill(Path::new("skills/README.md")), None);
  }
}
