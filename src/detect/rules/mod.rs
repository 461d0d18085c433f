//! The rule engine: rules are data in `rules/*.toml`, embedded and compiled once.
//!
//! One pass finds all words of all rules; a rule is looked at only in a sentence that has its anchor
//! word, and its pattern runs only there. Only linear-time patterns, so no text can stall it.
//!
//! A rule file has word classes and rules:
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
//! why = "..."               # in words of ours, shown to people
//! hits = ["eat the pear"]   # run as tests
//! misses = ["never eat a pear"]
//! ```
#![forbid(unsafe_code)]

mod engine;
mod lexicon;
mod load;
mod rule;
mod sentence;
mod trie;

use std::sync::OnceLock;

pub use engine::{Hit, RuleSet};
pub use load::load;
use load::load_with;
pub(crate) use rule::words;
pub use rule::{Guards, Mode, Reach, Rule, RuleError, Scope, UnknownWord};

/// The embedded rule files, in the order in which they are loaded.
pub const FILES: &[(&str, &str)] = &[
  ("classes.toml", include_str!("../../../rules/classes.toml")),
  ("override.toml", include_str!("../../../rules/override.toml")),
  ("exfiltration.toml", include_str!("../../../rules/exfiltration.toml")),
  ("concealment.toml", include_str!("../../../rules/concealment.toml")),
  ("takeover.toml", include_str!("../../../rules/takeover.toml")),
  ("memory.toml", include_str!("../../../rules/memory.toml")),
  ("framework.toml", include_str!("../../../rules/framework.toml")),
  ("triggers.toml", include_str!("../../../rules/triggers.toml")),
];

/// The embedded rules.
pub fn builtin() -> &'static RuleSet {
  static RULES: OnceLock<RuleSet> = OnceLock::new();
  RULES.get_or_init(embedded)
}

/// The embedded rules, made anew; patterns are compiled when they are first needed.
///
/// # Panics
/// Never in a released build: a test loads every embedded file.
pub fn embedded() -> RuleSet {
  load_with(FILES, false).unwrap_or_else(|errors| {
    let first = errors.first().map_or(String::new(), ToString::to_string);
    unreachable!("embedded rules are tested: {first}")
  })
}

/// The embedded rules and a user's files, which may use and widen the embedded classes.
pub fn with_user_files(files: &[(&str, &str)]) -> Result<RuleSet, Vec<RuleError>> {
  let all: Vec<(&str, &str)> = FILES.iter().chain(files).copied().collect();
  load(&all)
}

#[cfg(test)]
mod tests;
