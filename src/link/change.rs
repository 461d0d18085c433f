//! What a tool call would leave in a file.
//!
//! It follows the agent's own tools. Where it cannot tell what a tool would do, it has more than one answer, and all
//! of them are judged: no text is let through because memfw did not foresee how it gets in.
#![forbid(unsafe_code)]

use serde::Deserialize;

use super::{
  edits,
  limits::{MAX_EDITS, MAX_TEXT_BYTES},
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

/// One replacement.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct Edit {
  /// The text that goes.
  pub old: String,
  /// The text that comes.
  pub new: String,
}

impl Change {
  /// Whether it keeps the limits.
  pub fn is_within_limits(&self) -> bool {
    let texts: usize = match self {
      Self::Write(text) | Self::Append(text) | Self::Patch(text) | Self::Command(text) => {
        text.len()
      }
      Self::Edits(edits) if edits.len() > MAX_EDITS => return false,
      Self::Edits(edits) => edits.iter().map(|edit| edit.old.len() + edit.new.len()).sum(),
    };
    texts <= MAX_TEXT_BYTES
  }

  /// What the call may leave in the file named `path`; each of it is judged. Empty if the call does not change
  /// the file, or if that is known only after it has run.
  pub fn versions(&self, before: &[u8], path: &str) -> Vec<Version> {
    match self {
      Self::Write(text) => vec![Version::Content(text.clone().into_bytes())],
      Self::Append(text) => vec![Version::Added(text.clone())],
      Self::Edits(edits) => edits::versions(before, edits),
      Self::Patch(text) => {
        let before = String::from_utf8_lossy(before);
        let after = patch::apply(text, &before, path);
        after.map(|after| Version::Content(after.into_bytes())).into_iter().collect()
      }
      Self::Command(_) => vec![],
    }
  }
}

/// What a call may leave in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Version {
  /// The whole content.
  Content(Vec<u8>),
  /// The content before the call, and this text at its end.
  Added(String),
}

impl Version {
  /// A text that may get anywhere into a file: at its end, and without what stands before it, such as a code fence
  /// that is open.
  pub(super) fn added(text: &str) -> [Self; 2] {
    [Self::Added(text.to_owned()), Self::Content(text.as_bytes().to_vec())]
  }

  /// The content, if it was `before` earlier.
  pub fn over(self, before: &[u8]) -> Vec<u8> {
    match self {
      Self::Content(content) => content,
      Self::Added(text) => {
        let gap = if before.is_empty() || before.ends_with(b"\n") { "" } else { "\n" };
        [before, gap.as_bytes(), text.as_bytes()].concat()
      }
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
  use super::*;

  fn edit(old: &str, new: &str) -> Edit {
    Edit { old: old.to_owned(), new: new.to_owned() }
  }

  #[test]
  fn a_change_gives_what_the_tool_would_leave() {
    let before = b"- a\n- b\n";
    let after = |change: Change| {
      let version = change.versions(before, "MEMORY.md").into_iter().next();
      version.map(|version| String::from_utf8(version.over(before)).unwrap())
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
}
