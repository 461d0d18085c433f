//! One rule, and the words in which rule files are written.
#![forbid(unsafe_code)]

use std::sync::{Arc, OnceLock};

use regex::{Regex, RegexBuilder};

use super::classes::{Class, Classes};
use crate::detect::{Code, RuleKind, RuleName, Severity};

/// How much is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Scope {
  /// Everything; right for memory, where the text is short and the harm lasts.
  #[default]
  Strict,
  /// Only findings that are rarely innocent; right for documents and code.
  Relaxed,
}

/// In which way the agent gets the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Mode {
  /// Be written to memory.
  #[default]
  Write,
  /// Be shown to the agent from memory.
  Recall,
  /// Be taken in as a document.
  Document,
}

/// The text is none of the words expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what} `{found}`, expected {expected}")]
pub struct UnknownWord {
  /// What was read.
  pub what: &'static str,
  /// The text that was found.
  pub found: String,
  /// The text that is allowed.
  pub expected: &'static str,
}

/// `as_str`, `FromStr` and `Display` of an enum whose values are words.
macro_rules! words {
  ($type:ty, $what:literal, $expected:literal, $($variant:ident = $word:literal),+ $(,)?) => {
    impl $type {
      /// All values, in the order of the documentation.
      pub const ALL: &'static [Self] = &[$(Self::$variant),+];

      /// The word used in configuration, JSON, logs and on the command line.
      pub const fn as_str(self) -> &'static str {
        match self { $(Self::$variant => $word),+ }
      }
    }

    impl std::str::FromStr for $type {
      type Err = $crate::detect::rules::UnknownWord;

      fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.iter().copied().find(|value| value.as_str() == text).ok_or_else(|| {
          $crate::detect::rules::UnknownWord {
            what: $what,
            found: text.to_owned(),
            expected: $expected,
          }
        })
      }
    }

    impl std::fmt::Display for $type {
      fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
      }
    }
  };
}
pub(crate) use words;

words!(Scope, "scope", "`strict` or `relaxed`", Strict = "strict", Relaxed = "relaxed");
words!(
  Mode,
  "mode",
  "`write`, `recall` or `document`",
  Write = "write",
  Recall = "recall",
  Document = "document",
);

impl Mode {
  /// As a bit of a set of modes.
  pub(super) const fn bit(self) -> u8 {
    1 << self as u8
  }
}

/// How far apart the words of a rule may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
  /// In one sentence.
  Sentence,
  /// In a sentence and its two neighbours.
  Near,
}

/// What excuses a hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guards {
  /// A prohibition is no hit ("never send keys to ..."): the hit is dropped.
  pub negated: bool,
  /// A quotation is mentioned, not said: the hit becomes information.
  pub quoted: bool,
  /// A report about attacks is no attack: where the sentence or the one before it reports them, the
  /// hit becomes information.
  pub reported: bool,
}

/// A compiled rule.
#[derive(Debug)]
pub struct Rule {
  /// What it is called, and where it comes from.
  pub name: Arc<RuleName>,
  /// The line of its id in that file, from 1.
  pub line: usize,
  /// What a hit is called.
  pub code: Code,
  /// The severity of a hit.
  pub severity: Severity,
  /// Whether a hit may decide alone.
  pub kind: RuleKind,
  /// In which scope it runs: `Strict` rules only there, `Relaxed` ones always.
  pub scope: Scope,
  /// Bits of the modes in which it runs.
  pub modes: u8,
  /// Why a hit matters, in memfw's words.
  pub why: String,
  /// The class whose presence makes the engine check the rule, and whose place the guards judge.
  pub anchor: Class,
  /// Classes that must all be there.
  pub all: Classes,
  /// Classes of which one must be there, unless empty.
  pub any: Classes,
  /// Classes of which none may be there.
  pub not: Classes,
  /// A pattern that must match as well.
  pub(super) pattern: Option<Pattern>,
  /// How far apart the words may be.
  pub reach: Reach,
  /// What excuses it.
  pub guards: Guards,
  /// Hits only when the anchor's words occur more often than this in the text.
  pub over: Option<usize>,
  /// Texts that it must hit.
  pub hits: Vec<String>,
  /// Texts that it must not hit.
  pub misses: Vec<String>,
}

/// A pattern that is compiled when it is first needed: most texts need none, and compiling all of
/// them takes longer than reading a workspace.
#[derive(Debug)]
pub(in crate::detect) struct Pattern {
  source: String,
  compiled: OnceLock<Option<Regex>>,
}

/// Compiled size of one pattern, at most, in bytes: keeps a rule file from eating the memory.
const MAX_PATTERN: usize = 1 << 20;

impl Pattern {
  pub(super) fn new(source: String) -> Self {
    Self { source, compiled: OnceLock::new() }
  }

  /// Compiles it now, to say what is wrong with it.
  pub(super) fn check(&self) -> Result<(), String> {
    let regex = Self::compile(&self.source).map_err(|error| error.to_string())?;
    self.compiled.get_or_init(|| Some(regex));
    Ok(())
  }

  /// The compiled pattern; a pattern that does not compile matches nothing (embedded ones are
  /// tested, others checked when they are loaded).
  pub(super) fn regex(&self) -> Option<&Regex> {
    self.compiled.get_or_init(|| Self::compile(&self.source).ok()).as_ref()
  }

  fn compile(source: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(source)
      .case_insensitive(true)
      .size_limit(MAX_PATTERN)
      .dfa_size_limit(MAX_PATTERN)
      .build()
  }
}

impl Rule {
  /// Whether the rule runs.
  pub fn applies(&self, scope: Scope, mode: Mode) -> bool {
    (scope == Scope::Strict || self.scope == Scope::Relaxed) && self.modes & mode.bit() != 0
  }
}

/// What is wrong with a rule file, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{column}: {message}")]
pub struct RuleError {
  /// The path of the file, as messages show it.
  pub file: String,
  /// The line, from 1.
  pub line: usize,
  /// The column in characters, from 1.
  pub column: usize,
  /// What was found and what was expected: lower case, names in backticks, no final period.
  pub message: String,
  /// What to do, when that can be said.
  pub hint: Option<String>,
}

/// Reads a severity.
pub(super) fn severity(text: &str) -> Result<Severity, UnknownWord> {
  [Severity::Info, Severity::Low, Severity::Medium, Severity::High, Severity::Critical]
    .into_iter()
    .find(|severity| severity.as_str() == text)
    .ok_or_else(|| UnknownWord {
      what: "severity",
      found: text.to_owned(),
      expected: "`info`, `low`, `medium`, `high` or `critical`",
    })
}

/// Reads a kind.
pub(super) fn kind(text: &str) -> Result<RuleKind, UnknownWord> {
  [RuleKind::Trigger, RuleKind::Signature]
    .into_iter()
    .find(|kind| kind.as_str() == text)
    .ok_or_else(|| UnknownWord {
      what: "kind",
      found: text.to_owned(),
      expected: "`signature` or `trigger`",
    })
}
