//! How much of a workspace's files OpenClaw puts before its model.
//!
//! Files are taken in a fixed order, each up to its own limit and up to what the files before it have left
//! of the limit for all (2026.9.6: `src/agents/embedded-agent-helpers/bootstrap.ts`). Trailing blanks do
//! not count. Characters are UTF-16 code units, because OpenClaw is written in JavaScript.
#![forbid(unsafe_code)]

use std::path::Path;

use super::file;

/// The files in the order of the prompt (`WORKSPACE_BOOTSTRAP_FILENAMES`); memory comes last. Those after
/// `BOOTSTRAP.md` were injected by releases before 2026.8 and are not counted.
const ORDER: [&str; 6] =
  ["AGENTS.md", "SOUL.md", "IDENTITY.md", "USER.md", "BOOTSTRAP.md", "MEMORY.md"];
/// Characters of `USER.md` (`USER_BOOTSTRAP_MAX_CHARS`).
const USER_MAX_CHARS: usize = 4_000;
/// With less than this left, OpenClaw injects no further file (`MIN_BOOTSTRAP_FILE_BUDGET_CHARS`).
const LEAST_CHARS: usize = 64;
/// OpenClaw reads no larger file into its prompt (`MAX_WORKSPACE_BOOTSTRAP_FILE_BYTES`).
pub const MAX_BYTES: u64 = 2 << 20;

/// The limits of one agent, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
  /// For one file.
  pub file: usize,
  /// For all of them.
  pub total: usize,
}

impl Default for Limits {
  fn default() -> Self {
    Self { file: 20_000, total: 60_000 }
  }
}

impl Limits {
  /// The limit of one file alone.
  pub fn of_file(&self, name: &str) -> usize {
    if name == "USER.md" { self.file.min(USER_MAX_CHARS) } else { self.file }
  }

  /// How many characters of `file` (relative to `workspace`) are injected at most; `None` where it is
  /// not injected whole.
  pub fn left_for(&self, workspace: &Path, file: &Path) -> Option<usize> {
    let name = match file.to_str()? {
      "memory.md" => "MEMORY.md",
      name => name,
    };
    let place = ORDER.iter().position(|one| *one == name)?;
    let mut left = self.total;
    for before in ORDER.iter().take(place) {
      // One that cannot be read is not injected either, or leaves a line that says that it is missing.
      let bytes = file::read(&workspace.join(before), MAX_BYTES).ok().flatten().unwrap_or_default();
      if left < LEAST_CHARS {
        return Some(0);
      }
      left = left.saturating_sub(chars(bytes.trim_ascii_end()).min(self.of_file(before)));
    }
    Some(self.of_file(name).min(if left < LEAST_CHARS { 0 } else { left }))
  }
}

/// Characters as OpenClaw counts them.
pub fn chars(bytes: &[u8]) -> usize {
  bytes
    .utf8_chunks()
    .map(|chunk| {
      chunk.valid().chars().map(char::len_utf16).sum::<usize>()
        + usize::from(!chunk.invalid().is_empty())
    })
    .sum()
}

#[cfg(test)]
mod tests {
  use super::*;

  #[expect(clippy::disallowed_methods, reason = "a test's own files")]
  fn left(files: &[(&str, usize)], limits: Limits, file: &str) -> Option<usize> {
    let dir = tempfile::tempdir().unwrap();
    for (name, chars) in files {
      // Two code units each, and four bytes.
      std::fs::write(dir.path().join(name), "\u{1f600}".repeat(chars / 2) + " \n\n").unwrap();
    }
    limits.left_for(dir.path(), Path::new(file))
  }

  #[test]
  fn memory_has_what_the_files_before_it_leave() {
    let limits = Limits::default();
    assert_eq!(left(&[], limits, "MEMORY.md"), Some(20_000));
    assert_eq!(left(&[], limits, "USER.md"), Some(4_000));
    assert_eq!(left(&[], limits, "memory/x.md"), None);
    // Of a longer file no more than its limit is taken.
    let full = [("AGENTS.md", 50_000), ("SOUL.md", 20_000), ("USER.md", 9_000)];
    assert_eq!(left(&full, limits, "MEMORY.md"), Some(16_000));
    assert_eq!(left(&full, limits, "AGENTS.md"), Some(20_000));
    let small = Limits { file: 100, total: 250 };
    assert_eq!(left(&full, small, "MEMORY.md"), Some(0));
    assert_eq!(left(&[("AGENTS.md", 100), ("SOUL.md", 80)], small, "memory.md"), Some(70));
  }
}
