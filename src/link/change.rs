//! What a tool call would leave in a file.
//!
//! It follows the agent's own tools. Where a tool would fail there is no result, and nothing to judge.
#![forbid(unsafe_code)]

use serde::Deserialize;

use super::{
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
  /// Replacements, each of a text that occurs once.
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

  /// The content of the file named `path` after the change; `None` if the tool would fail, or if the result is
  /// not known.
  pub fn applied_to(&self, before: &str, path: &str) -> Option<String> {
    match self {
      Self::Write(text) => Some(text.clone()),
      Self::Append(text) => {
        let gap = if before.is_empty() || before.ends_with('\n') { "" } else { "\n" };
        Some(format!("{before}{gap}{text}"))
      }
      Self::Edits(edits) => {
        let mut text = before.to_owned();
        for edit in edits {
          // The tool refuses a text that occurs more than once.
          let (head, tail) = text.split_once(edit.old.as_str()).filter(|_| !edit.old.is_empty())?;
          if tail.contains(edit.old.as_str()) {
            return None;
          }
          text = format!("{head}{}{tail}", edit.new);
        }
        Some(text)
      }
      Self::Patch(text) => patch::apply(text, before, path),
      Self::Command(_) => None,
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
    let before = "- a\n- b\n";
    let after = |change: Change| change.applied_to(before, "MEMORY.md");
    assert_eq!(after(Change::Write("x".into())).as_deref(), Some("x"));
    assert_eq!(after(Change::Append("- c\n".into())).as_deref(), Some("- a\n- b\n- c\n"));
    let edits = vec![edit("- a", "- A"), edit("- A\n", "- A\n- z\n")];
    assert_eq!(after(Change::Edits(edits)).as_deref(), Some("- A\n- z\n- b\n"));
    // The tool fails: the text is missing, ambiguous, or empty.
    for old in ["- c", "- ", ""] {
      assert_eq!(after(Change::Edits(vec![edit(old, "x")])), None, "{old:?}");
    }
    assert_eq!(after(Change::Command("rm -r /".into())), None);
    assert_eq!(Change::Append("b".into()).applied_to("a", "").as_deref(), Some("a\nb"));
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
