//! The known facts about a text: the kind of its source, what the owner had asked, which
//! values are known.
#![forbid(unsafe_code)]

use crate::{detect::effects::KnownSlot, provenance::Source};

/// The kinds of sources, which training reads as well.
const KINDS: &str = include_str!("kinds.txt");
/// Bytes of the owner's request that are read: far more than the encoder reads.
pub const MAX_ASKED: usize = 1024;

/// The kinds of sources that the model distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Kind {
  /// The owner of the agent.
  Owner,
  /// The agent, or one of its own.
  Agent,
  /// Another person who writes to the agent.
  Person,
  /// A page, or what was searched for.
  Page,
  /// A mail that the agent received or read.
  Mail,
  /// An event that started a session without a person.
  Webhook,
  /// A file of this machine that the agent read.
  File,
  /// What a command or tool answered.
  Output,
  /// Nothing is on record.
  #[default]
  Unknown,
}

impl Kind {
  /// All of them.
  pub const ALL: [Self; 9] = [
    Self::Owner,
    Self::Agent,
    Self::Person,
    Self::Page,
    Self::Mail,
    Self::Webhook,
    Self::File,
    Self::Output,
    Self::Unknown,
  ];

  /// The kind of a source: of the longest beginning of it that the table has.
  pub fn of(source: &Source) -> Self {
    let lines = KINDS.lines().filter(|line| !line.starts_with('#'));
    let begins = |name: &str| {
      let rest = source.as_str().strip_prefix(name);
      rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
    };
    let fitting = lines.filter_map(|line| line.split_once('\t')).filter(|(name, _)| begins(name));
    let longest = fitting.max_by_key(|(name, _)| name.len());
    let word = longest.map_or("", |(_, word)| word);
    Self::ALL.into_iter().find(|kind| kind.word() == word).unwrap_or_default()
  }

  /// The word for the kind that the model reads.
  pub const fn word(self) -> &'static str {
    match self {
      Self::Owner => "owner",
      Self::Agent => "agent",
      Self::Person => "person",
      Self::Page => "web page",
      Self::Mail => "mail",
      Self::Webhook => "webhook",
      Self::File => "file",
      Self::Output => "output",
      Self::Unknown => "unknown",
    }
  }

  /// Whether words of this kind come from outside.
  pub const fn is_outside(self) -> bool {
    matches!(
      self,
      Self::Person | Self::Page | Self::Mail | Self::Webhook | Self::File | Self::Output
    )
  }
}

/// The known facts about a text.
#[derive(Clone, Copy, Debug, Default)]
pub struct Context<'a> {
  /// The kind of its source; unknown where the source was not observed.
  pub kind: Kind,
  /// What the owner had asked in the turn that wrote it; empty for a background run.
  pub asked: &'a str,
  /// The values that trusted memory holds; empty where they are not available.
  pub known: &'a [KnownSlot],
}

impl Context<'_> {
  /// Whether the authority of the text is assessed: it comes from outside.
  pub const fn is_outside(&self) -> bool {
    self.kind.is_outside()
  }

  /// What the encoder reads before the text.
  pub fn words(&self) -> String {
    format!("{}. asked: {}", self.kind.word(), self.asked)
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn the_kind_is_that_of_the_longest_beginning() {
    for (source, kind) in [
      ("user:owner", Kind::Owner),
      ("user:telegram:@owner", Kind::Person),
      ("user:ownership", Kind::Person),
      ("web_fetch:a.example", Kind::Page),
      ("webhook:gmail", Kind::Mail),
      ("webhook:ci", Kind::Webhook),
      ("webhooks", Kind::Unknown),
      ("mail:ann@a.example", Kind::Mail),
      ("chat:owner", Kind::Owner),
      ("chat:other", Kind::Person),
      ("file:docs/owner", Kind::File),
      ("exec:ls", Kind::Output),
      ("subagent:r", Kind::Agent),
      ("external-edit", Kind::Unknown),
      ("something:else", Kind::Unknown),
    ] {
      assert_eq!(Kind::of(&Source::new(source)), kind, "{source}");
    }
  }

  #[test]
  fn every_word_of_the_table_is_a_kind() {
    let lines = KINDS.lines().filter(|line| !line.starts_with('#'));
    let mut n = 0;
    for line in lines {
      let (name, word) = line.split_once('\t').unwrap();
      assert_eq!(Kind::of(&Source::new(name)).word(), word);
      n += 1;
    }
    assert!(n > 20);
  }
}
