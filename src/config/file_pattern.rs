//! Patterns of files and of sources as settings.
#![forbid(unsafe_code)]

use {
  super::setting::{Complaint, Rules, Setting},
  crate::provenance::{SourcePattern, matches_pattern},
  std::{os::unix::ffi::OsStrExt as _, path::Path},
  toml::{Spanned, Value, de::DeValue},
};

/// Bytes of a pattern, at most; no path is longer.
const MAX_BYTES: usize = 4096;

/// A path relative to its workspace in which `*` matches any characters, including `/`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FilePattern(String);

impl FilePattern {
  /// The text.
  pub fn as_str(&self) -> &str {
    &self.0
  }

  /// Whether the pattern matches this file of a workspace.
  pub fn matches(&self, rel: &Path) -> bool {
    matches_pattern(self.0.as_bytes(), rel.as_os_str().as_bytes())
  }
}

impl Setting for FilePattern {
  fn read(value: &Spanned<DeValue<'_>>, rules: &Rules<'_>) -> Result<Self, Complaint> {
    let text = String::read(value, rules)?;
    let why = if text.is_empty() {
      "it is empty"
    } else if text.len() > MAX_BYTES {
      "it is longer than any path"
    } else if text.starts_with(['/', '~']) || text.starts_with("./") {
      "it is not relative to the workspace"
    } else {
      return Ok(Self(text));
    };
    Err(Complaint {
      span: value.span(),
      message: format!(
        "`{}` contains `{text}`, which is not a pattern of files: {why}",
        rules.name
      ),
      hint: Some("write it like `memory/private*`".to_owned()),
    })
  }

  fn show(&self) -> Value {
    Value::String(self.0.clone())
  }
}

impl Setting for SourcePattern {
  fn read(value: &Spanned<DeValue<'_>>, rules: &Rules<'_>) -> Result<Self, Complaint> {
    let text = String::read(value, rules)?;
    Self::new(&text).map_err(|error| Complaint {
      span: value.span(),
      message: format!("`{}` contains `{text}`, which is not a pattern: {error}", rules.name),
      hint: None,
    })
  }

  fn show(&self) -> Value {
    Value::String(self.as_str().to_owned())
  }
}

#[cfg(test)]
mod tests {
  use super::*;
  use crate::config::Effective;

  #[test]
  fn files_are_known_by_their_path_in_the_workspace() {
    let text = "[judge]\nexclude_files = [\"memory/private*\", \"USER.md\"]\n";
    let patterns = Effective::parse(text, None).unwrap().config.judge_exclude_files;
    let matches = |path: &str| patterns.iter().any(|one| one.matches(Path::new(path)));
    assert!(matches("memory/private/a.md") && matches("memory/private.md") && matches("USER.md"));
    assert!(!matches("MEMORY.md") && !matches("users/USER.md"));
  }

  #[test]
  fn a_wrong_pattern_is_reported_with_its_place() {
    for (text, expected) in [
      ("exclude_files = [\"/home/a\"]", "it is not relative to the workspace"),
      ("exclude_files = [\"\"]", "it is empty"),
      ("exclude_sources = [\" \"]", "it is empty"),
      ("exclude_sources = \"email:*\"", "must be an array"),
    ] {
      let problems = Effective::parse(&format!("[judge]\n{text}\n"), None).unwrap_err();
      assert_eq!(problems.len(), 1, "{text}");
      assert!(problems[0].message.contains(expected), "{}", problems[0].message);
      assert_eq!(problems[0].line, 2);
    }
  }
}
