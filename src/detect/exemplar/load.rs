//! Exemplars from their files: the ones that are built in and the user's.
#![forbid(unsafe_code)]

use serde::Deserialize;
use toml::Spanned;

use super::Exemplar;
use crate::detect::{
  Code,
  rules::{NamedText, RuleError, place},
};

/// The embedded file.
pub const BUILT_IN: NamedText<'static> =
  ("rules/exemplars.toml", include_str!("../../../rules/exemplars.toml"));
/// Exemplars of a user, at most: each is one more text of every question.
pub const MAX_EXEMPLARS: usize = 64;
/// Bytes of one exemplar, at most.
pub const MAX_TEXT_BYTES: usize = 2048;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
  #[serde(default)]
  exemplar: Vec<RawExemplar>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawExemplar {
  name: Spanned<String>,
  code: Spanned<String>,
  text: Spanned<String>,
}

/// Known attacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exemplars(Vec<Exemplar>);

impl Exemplars {
  /// Those that are built in.
  ///
  /// # Panics
  /// Never in a released build: a test loads the embedded file.
  pub fn built_in() -> Self {
    Self::default().and(BUILT_IN, usize::MAX).unwrap_or_else(|errors| {
      let first = errors.first().map_or(String::new(), ToString::to_string);
      unreachable!("the embedded exemplars are tested: {first}")
    })
  }

  /// These exemplars and the user's; the error has all problems of the file.
  pub fn with(self, file: NamedText<'_>) -> Result<Self, Vec<RuleError>> {
    self.and(file, MAX_EXEMPLARS)
  }

  /// The exemplars, in the order of their files.
  pub fn list(&self) -> &[Exemplar] {
    &self.0
  }

  fn and(mut self, (file, text): NamedText<'_>, most: usize) -> Result<Self, Vec<RuleError>> {
    let error = |at: usize, message: String, hint: Option<&str>| {
      let (line, column) = place(text, at);
      RuleError { file: file.to_owned(), line, column, message, hint: hint.map(str::to_owned) }
    };
    let raw: RawFile = toml::from_str(text).map_err(|problem| {
      let at = problem.span().map_or(text.len(), |span| span.start);
      vec![error(at, problem.message().trim().replace('\n', ", "), None)]
    })?;
    let mut errors = Vec::new();
    for (n, RawExemplar { name, code, text }) in raw.exemplar.into_iter().enumerate() {
      let (at, length) = (name.span().start, text.get_ref().len());
      let kind: Result<Code, _> = code.get_ref().parse();
      if n >= most {
        errors.push(error(at, format!("there are more than {most} exemplars"), None));
        break;
      }
      if name.get_ref().is_empty() || name.get_ref().contains(char::is_control) {
        errors.push(error(at, "`name` must be a line of plain text".to_owned(), None));
      } else if self.0.iter().any(|other| other.name == *name.get_ref()) {
        let message = format!("the name `{}` is used already", name.get_ref());
        errors.push(error(at, message, Some("choose another name")));
      } else if text.get_ref().trim().is_empty() || length > MAX_TEXT_BYTES {
        let message = format!("`text` must have 1 to {MAX_TEXT_BYTES} bytes, it has {length}");
        errors.push(error(text.span().start, message, None));
      } else {
        match kind {
          Ok(code) => {
            self.0.push(Exemplar { name: name.into_inner(), code, text: text.into_inner() });
          }
          Err(unknown) => {
            let hint = "docs/findings.md has all codes";
            errors.push(error(code.span().start, unknown.to_string(), Some(hint)));
          }
        }
      }
    }
    if errors.is_empty() { Ok(self) } else { Err(errors) }
  }
}

#[cfg(test)]
mod tests {
  use std::collections::BTreeSet;

  use super::*;

  const ONE: &str = "[[exemplar]]\nname = \"n\"\ncode = \"concealment\"\ntext = \"t\"\n";

  fn problems(text: &str) -> Vec<String> {
    let errors = Exemplars::built_in().with(("exemplars.toml", text)).unwrap_err();
    errors.iter().map(ToString::to_string).collect()
  }

  #[test]
  fn fourteen_are_built_in_each_of_another_kind() {
    let all = Exemplars::built_in();
    let kinds: BTreeSet<Code> = all.list().iter().map(|exemplar| exemplar.code).collect();
    assert_eq!((all.list().len(), kinds.len()), (14, 14));
  }

  #[test]
  fn users_add_and_do_not_replace() {
    let all = Exemplars::built_in().with(("exemplars.toml", ONE)).unwrap();
    assert_eq!(all.list().len(), 15);
    assert_eq!(all.list()[14].text, "t");
    assert_eq!(
      problems(&ONE.replace("\"n\"", "\"other-account\"")),
      ["exemplars.toml:2:8: the name `other-account` is used already"]
    );
  }

  #[test]
  fn all_that_is_wrong_is_reported_with_its_place() {
    let long = format!("\"{}\"", "x".repeat(MAX_TEXT_BYTES + 1));
    for (text, expected) in [
      (
        ONE.replace("concealment", "nonsense"),
        "exemplars.toml:3:8: unknown finding code `nonsense`",
      ),
      (
        ONE.replace("\"t\"", "\" \""),
        "exemplars.toml:4:8: `text` must have 1 to 2048 bytes, it has 1",
      ),
      (
        ONE.replace("\"t\"", &long),
        "exemplars.toml:4:8: `text` must have 1 to 2048 bytes, it has 2049",
      ),
      (ONE.replace("\"n\"", "\"\""), "exemplars.toml:2:8: `name` must be a line of plain text"),
    ] {
      assert_eq!(problems(&text), [expected]);
    }
    assert!(
      problems(&format!("{ONE}colour = 1\n"))[0].starts_with("exemplars.toml:5:1: unknown field")
    );
    let many: String =
      (0..=MAX_EXEMPLARS).map(|n| ONE.replace("\"n\"", &format!("\"{n}\""))).collect();
    assert!(problems(&many)[0].contains("more than 64 exemplars"));
  }
}
