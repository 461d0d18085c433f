//! One thing that a layer saw in a text.
#![forbid(unsafe_code)]

use std::{fmt, ops::Range, sync::Arc};

use super::rules::RuleName;

/// The layer that saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layer {
  /// The normaliser or a rule.
  Rules,
  /// What the text would do, and who may.
  Effects,
  /// The embedded model.
  Model,
  /// Other blocks, sources and days.
  Context,
  /// The optional judge.
  Judge,
}

impl Layer {
  /// The word used in JSON and logs.
  pub const fn as_str(self) -> &'static str {
    match self {
      Self::Rules => "rules",
      Self::Effects => "effects",
      Self::Model => "model",
      Self::Context => "context",
      Self::Judge => "judge",
    }
  }
}

/// How bad it would be if it were meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
  /// Worth knowing.
  Info,
  /// Could be part of something.
  Low,
  /// Steers the agent.
  Medium,
  /// Harms the user.
  High,
  /// Harms the user and hides it, or takes the agent over.
  Critical,
}

impl Severity {
  /// The word used in rules, JSON and logs.
  pub const fn as_str(self) -> &'static str {
    match self {
      Self::Info => "info",
      Self::Low => "low",
      Self::Medium => "medium",
      Self::High => "high",
      Self::Critical => "critical",
    }
  }
}

/// Whether a finding may decide alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RuleKind {
  /// Only asks for a closer look.
  Trigger,
  /// May quarantine alone.
  Signature,
}

impl RuleKind {
  /// The word used in rules and JSON.
  pub const fn as_str(self) -> &'static str {
    match self {
      Self::Trigger => "trigger",
      Self::Signature => "signature",
    }
  }
}

/// One thing seen in a text. The `span` is in bytes of the judged input, so that it can be shown,
/// masked or removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
  /// What it is: a heading in docs/findings.md.
  pub code: super::code::Code,
  /// Who saw it.
  pub layer: Layer,
  /// How bad.
  pub severity: Severity,
  /// Whether it may decide alone.
  pub kind: RuleKind,
  /// Where, in bytes of the judged input.
  pub span: Range<usize>,
  /// Why this is a finding, in memfw's plain words, never the text's.
  pub why: String,
  /// The rule that saw it; `None` where something else did.
  pub rule: Option<Arc<RuleName>>,
}

impl fmt::Display for Layer {
  fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.pad(self.as_str())
  }
}

impl fmt::Display for Severity {
  fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.pad(self.as_str())
  }
}
