//! What a tool call would leave in a file.
//!
//! It follows the agent's own tools. Where it cannot tell what a tool would do, it has more than one answer, and all
//! of them are judged: no text is let through because memfw did not foresee how it gets in.
#![forbid(unsafe_code)]

use serde::Deserialize;

use super::{
  edits,
  limits::{MAX_EDITS, MAX_JUDGED_BYTES, MAX_TEXT_BYTES},
  outcome::{Edit, Files, Outcome, Version},
  patch,
};

/// What a call would change in one file.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Change {
  /// The whole new content.
  Write(String),
  /// Text at the end.
  Append(String),
  /// Replacements in the content before the call, each of a text that occurs once.
  Edits(Vec<Edit>),
  /// A patch as the tool `apply_patch` takes it; it may change other files as well.
  Patch(String),
  /// A command; what it would write is not known before it has run.
  Command(String),
}

impl Change {
  /// Whether it keeps the limits.
  pub fn is_within_limits(&self) -> bool {
    let is_many = matches!(self, Self::Edits(edits) if edits.len() > MAX_EDITS);
    !is_many && self.n_bytes() <= MAX_TEXT_BYTES
  }

  /// Whether it is judged before the write: a longer one takes longer than a plugin waits.
  pub fn is_judged(&self) -> bool {
    let is_part = |line: &&str| {
      let line = line.trim_start();
      line.starts_with("***") || line.starts_with("@@")
    };
    let n_parts = match self {
      // Each part is looked for in the whole file.
      Self::Patch(text) => text.lines().filter(is_part).count(),
      _ => 0,
    };
    self.n_bytes() <= MAX_JUDGED_BYTES && n_parts <= MAX_EDITS
  }

  /// The bytes of its texts.
  fn n_bytes(&self) -> usize {
    match self {
      Self::Write(text) | Self::Append(text) | Self::Patch(text) | Self::Command(text) => {
        text.len()
      }
      Self::Edits(edits) => edits.iter().map(|edit| edit.old.len() + edit.new.len()).sum(),
    }
  }

  /// The names of the files that the call may change, other than the one that it is about.
  pub fn names(&self) -> Vec<&str> {
    match self {
      Self::Patch(text) => patch::names(text),
      _ => vec![],
    }
  }

  /// What the call may leave in the file named `path`, and in others that a patch names; each of it is judged.
  /// Empty if the call changes no file, or if that is known only after it has run.
  pub fn outcomes(&self, path: &str, files: &dyn Files) -> Vec<Outcome> {
    let of_file = |versions: &dyn Fn(&[u8]) -> Vec<Version>| {
      let file = files.place(path);
      let outcome = file.map(|file| {
        let before = files.content(&file).unwrap_or_default();
        Outcome { versions: versions(&before), file }
      });
      outcome.into_iter().collect()
    };
    match self {
      Self::Write(text) => of_file(&|_| vec![Version::Content(text.clone().into_bytes())]),
      Self::Append(text) => of_file(&|_| vec![Version::Added(text.clone())]),
      Self::Edits(edits) => of_file(&|before| edits::versions(before, edits)),
      Self::Patch(text) => patch::outcomes(text, path, files),
      Self::Command(_) => vec![],
    }
  }
}

/// The lines of `after` that `before` does not have, each with its line end: the new text of a change.
pub fn new_lines(before: &str, after: &str) -> String {
  let mut left: std::collections::HashMap<&str, usize> = std::collections::HashMap::new();
  for line in before.lines() {
    *left.entry(line).or_default() += 1;
  }
  let is_new = |line: &&str| match left.get_mut(line.trim_end_matches(['\n', '\r'])) {
    Some(count) if *count > 0 => {
      *count -= 1;
      false
    }
    _ => true,
  };
  after.split_inclusive('\n').filter(is_new).collect()
}

#[cfg(test)]
mod tests {
  use std::path::{Path, PathBuf};

  use super::*;

  fn edit(old: &str, new: &str) -> Edit {
    Edit { old: old.to_owned(), new: new.to_owned() }
  }

  #[test]
  fn a_change_gives_what_the_tool_would_leave() {
    struct One;
    impl Files for One {
      fn place(&self, named: &str) -> Option<PathBuf> {
        Some(named.into())
      }
      fn content(&self, _: &Path) -> Option<Vec<u8>> {
        Some(b"- a\n- b\n".to_vec())
      }
    }
    let after = |change: Change| {
      let outcome = change.outcomes("MEMORY.md", &One).into_iter().next()?;
      let version = outcome.versions.into_iter().next()?;
      Some(String::from_utf8(version.over(b"- a\n- b\n")).unwrap())
    };
    assert_eq!(after(Change::Write("x".into())).as_deref(), Some("x"));
    assert_eq!(after(Change::Append("- c\n".into())).as_deref(), Some("- a\n- b\n- c\n"));
    let edits = vec![edit("- a", "- A"), edit("- b\n", "- B\n- z\n")];
    assert_eq!(after(Change::Edits(edits)).as_deref(), Some("- A\n- B\n- z\n"));
    // The tool fails, if it is the tool that is known: the text is missing, ambiguous, or empty.
    for old in ["- c", "- ", ""] {
      let after = after(Change::Edits(vec![edit(old, "x")]));
      assert_eq!(after.as_deref(), Some("- a\n- b\nx"), "{old:?}");
    }
    assert_eq!(after(Change::Command("rm -r /".into())), None);
    assert_eq!(Version::Added("b".into()).over(b"a"), b"a\nb");
  }

  #[test]
  fn new_lines_are_counted() {
    assert_eq!(new_lines("- a\n- b\n", "- a\n- c\n- b\n- b\n"), "- c\n- b\n");
    assert_eq!(new_lines("", "x"), "x");
    assert_eq!(new_lines("x\n", "x"), "");
  }

  #[test]
  fn too_much_is_over_the_limit() {
    assert!(Change::Write("x".repeat(MAX_TEXT_BYTES)).is_within_limits());
    assert!(!Change::Write("x".repeat(MAX_TEXT_BYTES + 1)).is_within_limits());
    assert!(!Change::Edits(vec![edit("a", "b"); MAX_EDITS + 1]).is_within_limits());
  }

  #[test]
  fn what_takes_long_is_left_to_the_daemon() {
    assert!(Change::Append("x".repeat(MAX_JUDGED_BYTES)).is_judged());
    assert!(!Change::Append("x".repeat(MAX_JUDGED_BYTES + 1)).is_judged());
    assert!(Change::Patch("@@\n+x\n".repeat(MAX_EDITS)).is_judged());
    assert!(!Change::Patch(" @@\n+x\n".repeat(MAX_EDITS + 1)).is_judged());
  }
}
