//! The parts of the protection that can be reduced.
#![forbid(unsafe_code)]

use std::fmt;

use strum::{Display, EnumString};

/// What kind of part of the protection is reduced.
#[derive(Clone, Copy, Debug, Display, EnumString, PartialEq, Eq, Hash)]
#[cfg_attr(test, derive(strum::EnumIter))]
#[strum(serialize_all = "kebab-case")]
pub enum PartKind {
  /// What the records of the agent are asked.
  AgentRecords,
  /// The configuration of memfw.
  Configuration,
  /// Who can change the configuration of memfw.
  ConfigurationOwner,
  /// Finding the agent's workspaces.
  Discovery,
  /// Comparing texts by an embedding.
  Embedding,
  /// Readers that wait at the gate.
  Gate,
  /// Layer 3.
  Judge,
  /// The encryption key.
  Key,
  /// A ledger that is gone, of which files hold placeholders.
  LostLedger,
  /// The model of layer 2.
  Model,
  /// Notifications of the owner.
  Notify,
  /// Detection rules of the owner.
  Rules,
  /// Finding the agent's skills.
  Skills,
  /// Kept versions of files.
  Versions,
  /// Events of directories.
  Watch,
  /// The agent's record about this file.
  AgentRecord,
  /// Who wrote this file.
  Attribution,
  /// Texts of this file that the encoder leaves out.
  Encoder,
  /// This file.
  File,
  /// The agent's search index of this file or workspace.
  Index,
  /// This directory, which was guarded before.
  Left,
  /// The lock of this workspace.
  Lock,
  /// This workspace.
  Workspace,
  /// A part that this version does not know.
  Unknown,
}

impl PartKind {
  /// The part for one path, in the form in which memfw shows it.
  pub fn of(self, path: impl Into<String>) -> Part {
    Part { kind: self, path: Some(path.into()) }
  }
}

/// A part of the protection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Part {
  kind: PartKind,
  path: Option<String>,
}

impl Part {
  /// Reads a part from its text.
  pub(super) fn read(text: &str) -> Self {
    let (kind, path) = match text.split_once(':') {
      Some((kind, path)) => (kind, Some(path.to_owned())),
      None => (text, None),
    };
    match kind.parse() {
      Ok(kind) => Self { kind, path },
      Err(_) => PartKind::Unknown.of(text),
    }
  }

  /// What kind of part it is.
  pub const fn kind(&self) -> PartKind {
    self.kind
  }

  /// Whether it concerns this directory, or something below it. The path is in the form in which memfw shows it.
  pub fn is_in(&self, directory: &str) -> bool {
    let below = self.path.as_deref().and_then(|path| path.strip_prefix(directory));
    below.is_some_and(|below| below.is_empty() || below.starts_with('/'))
  }
}

impl From<PartKind> for Part {
  fn from(kind: PartKind) -> Self {
    Self { kind, path: None }
  }
}

impl fmt::Display for Part {
  fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match (&self.path, self.kind) {
      (Some(text), PartKind::Unknown) => f.write_str(text),
      (Some(path), kind) => write!(f, "{kind}:{path}"),
      (None, kind) => kind.fmt(f),
    }
  }
}

#[cfg(test)]
mod tests {
  use strum::IntoEnumIterator as _;

  use super::*;

  #[test]
  fn each_part_comes_back_from_its_text() {
    for kind in PartKind::iter() {
      for part in [Part::from(kind), kind.of("/w/a:b")] {
        let text = part.to_string();
        assert_eq!(Part::read(&text), part, "{text}");
      }
    }
    assert_eq!(PartKind::LostLedger.to_string(), "lost-ledger");
    let later = Part::read("later:/w");
    assert_eq!((later.kind(), later.to_string().as_str()), (PartKind::Unknown, "later:/w"));
  }

  #[test]
  fn a_part_is_in_its_directory_and_in_those_above() {
    let part = PartKind::File.of("/w/memory/a.md");
    assert!(part.is_in("/w") && part.is_in("/w/memory") && part.is_in("/w/memory/a.md"));
    assert!(!part.is_in("/w/mem") && !part.is_in("/v"));
    assert!(!Part::from(PartKind::Watch).is_in("/w"));
  }
}
