//! The rule engine: rules are data in `rules/*.toml`, embedded and compiled once.
//!
//! One pass finds all words of all rules; a rule is looked at only in a sentence that has its anchor
//! word, and its pattern runs only there. Only linear-time patterns, so no text can stall it.
//!
//! A rule file has word classes and rules (docs/detection.md says the same to users):
//!
//! ```toml
//! [[class]]
//! name = "fruit"            # words that mean the same to a rule
//! words = ["apple", "pear*"]
//! prose = false             # true: a word inside an address or a path does not count
//! confirm = '\bpears?\b'    # optional: what must match around a word
//!
//! [[rule]]
//! id = "my-rule"            # unique
//! code = "concealment"      # a code of docs/findings.md
//! severity = "medium"       # info, low, medium, high, critical
//! kind = "trigger"          # trigger asks for a closer look, signature may quarantine alone
//! scope = "strict"          # strict, or relaxed (the default): runs in both scopes
//! modes = ["write"]         # default: all of write, recall, document
//! all = ["fruit"]           # classes that must be there; the first is the anchor
//! any = []                  # of these, one
//! not = []                  # of these, none
//! words = [["eat", "ate"]]  # groups that must be there, as unnamed classes before `all`
//! pattern = 'eat.{0,9}pear' # and a pattern, case-insensitive
//! reach = "sentence"        # or near: the sentences before and after count too
//! guards = ["negated"]      # negated, quoted, reported; default: all for signatures
//! why = "..."               # in plain words, shown to people
//! hits = ["eat the pear"]   # run as tests
//! misses = ["never eat a pear"]
//! ```
#![forbid(unsafe_code)]

pub mod caps;
mod classes;
pub(in crate::detect) mod engine;
mod examples;
pub(in crate::detect) mod lexicon;
mod load;
pub mod report;
mod rule;
mod sentence;
mod trie;

use std::sync::{Arc, OnceLock};

pub use engine::{Hit, Hits, RuleSet};
pub use load::NamedText;
use load::load;
pub(in crate::detect) use load::place;
pub(crate) use rule::words;
pub use rule::{Guards, Mode, Reach, Rule, RuleError, Scope, UnknownWord};
pub use sentence::sentences;

/// The embedded rule files, in the order in which they are loaded.
pub const FILES: &[(&str, &str)] = &[
  ("rules/classes.toml", include_str!("../../rules/classes.toml")),
  ("rules/override.toml", include_str!("../../rules/override.toml")),
  ("rules/exfiltration.toml", include_str!("../../rules/exfiltration.toml")),
  ("rules/concealment.toml", include_str!("../../rules/concealment.toml")),
  ("rules/takeover.toml", include_str!("../../rules/takeover.toml")),
  ("rules/memory.toml", include_str!("../../rules/memory.toml")),
  ("rules/framework.toml", include_str!("../../rules/framework.toml")),
  ("rules/triggers.toml", include_str!("../../rules/triggers.toml")),
];

/// The rules in force: the embedded ones, or these together with a user's. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Rules(Option<Arc<RuleSet>>);

impl Rules {
  /// The embedded rules and a user's files, which may use and widen the embedded classes. The error
  /// has all problems of the files at once.
  pub fn with(files: &[NamedText<'_>]) -> Result<Self, Vec<RuleError>> {
    if files.is_empty() {
      return Ok(Self::default());
    }
    Ok(Self(Some(Arc::new(load(FILES, files)?))))
  }

  /// The rule set in force.
  pub fn set(&self) -> &RuleSet {
    match &self.0 {
      Some(rules) => rules,
      None => builtin(),
    }
  }
}

/// The embedded rules.
pub fn builtin() -> &'static RuleSet {
  static RULES: OnceLock<RuleSet> = OnceLock::new();
  RULES.get_or_init(embedded)
}

/// The embedded rules, built again; patterns are compiled when they are first needed.
///
/// # Panics
/// Never in a released build: a test loads every embedded file.
pub fn embedded() -> RuleSet {
  load(FILES, &[]).unwrap_or_else(|errors| {
    let first = errors.first().map_or(String::new(), ToString::to_string);
    unreachable!("embedded rules are tested: {first}")
  })
}

#[cfg(test)]
mod tests;
