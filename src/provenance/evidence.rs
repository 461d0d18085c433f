//! What an attribution rests on, in a form that a person can check.
//!
//! Names and addresses in it come from transcripts and are hostile: they are capped here and escaped
//! by whoever prints them. No text of a memory file or of a page stands in it.
#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};

/// Longest name, address or tool in evidence, in characters.
pub const MAX_EVIDENCE_CHARS: usize = 200;

/// What was observed about the origin of a text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Evidence {
  /// The call that wrote it.
  #[serde(skip_serializing_if = "Option::is_none")]
  pub written: Option<Written>,
  /// What the text itself comes from.
  #[serde(skip_serializing_if = "Option::is_none")]
  pub fed: Option<Fed>,
  /// What else stood before the agent in that turn, least trusted first; at most eight.
  #[serde(skip_serializing_if = "Vec::is_empty")]
  pub also: Vec<String>,
  /// Whether the agent's ledger has the hash of the very version in which the text was first seen.
  #[serde(skip_serializing_if = "std::ops::Not::not")]
  pub ledger_hash: bool,
  /// What a person has to know besides, in memfw's own words.
  #[serde(skip_serializing_if = "Option::is_none")]
  pub note: Option<String>,
}

/// The call that wrote a text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Written {
  /// The tool: `edit`, `write`, `apply_patch`, `exec`, ...; `memory flush` where no call is on record.
  pub tool: String,
  /// When, in microseconds UTC.
  pub at: i64,
  /// The session.
  #[serde(skip_serializing_if = "Option::is_none")]
  pub session: Option<String>,
}

/// What a text comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fed {
  /// The source, as in [`super::Source`].
  pub source: String,
  /// When the agent got it, in microseconds UTC.
  pub at: i64,
  /// Which part of the text's words is found there, 0 to 1; `None` where it was not compared.
  #[serde(skip_serializing_if = "Option::is_none")]
  pub share: Option<f64>,
}
