//! How the text of a file is treated, by its path and the configuration.
#![forbid(unsafe_code)]

use std::path::Path;

use crate::config::{Config, ExtraPaths, InstructionFile};

/// How the text of a file is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
  /// Poison is taken out.
  Memory,
  /// It contains many instructions by nature: findings are flagged and stay.
  Report,
  /// It is not searched.
  Ignore,
}

impl Treatment {
  /// How a file is treated by the configuration. The path is relative to its directory; with
  /// `elsewhere` that directory is not a workspace.
  pub fn of(rel: &Path, elsewhere: bool, config: &Config) -> Self {
    if elsewhere {
      return match config.agent_extra_paths {
        ExtraPaths::Report => Self::Report,
        ExtraPaths::Quarantine => Self::Memory,
        ExtraPaths::Ignore => Self::Ignore,
      };
    }
    match InstructionFile::of(rel) {
      None => Self::Memory,
      Some(file) if config.files_quarantine.contains(&file) => Self::Memory,
      Some(file) if config.files_ignore.contains(&file) => Self::Ignore,
      Some(_) => Self::Report,
    }
  }
}
