//! Settings that are one word out of a few.
#![forbid(unsafe_code)]

use std::{path::Path, str::FromStr};

use crate::provenance::Trust;

pub use crate::detect::{BaselineAction, Scope, Sensitivity, policy::Hold};

/// A closed set of words, each with one spelling in configuration, JSON and on the command line.
pub(super) trait Word: Copy + 'static {
  /// All words, in the order in which messages list them.
  const ALL: &'static [Self];

  /// The spelling of the word.
  fn word(self) -> &'static str;
}

macro_rules! words {
  ($( $(#[doc = $about:literal])+ $type:ident { $( $(#[doc = $meaning:literal])+ $variant:ident = $word:literal, )+ } )+) => { $(
    $(#[doc = $about])+
    #[derive(
      Clone, Copy, Debug, PartialEq, Eq, Hash, strum::Display, strum::IntoStaticStr, strum::VariantArray,
    )]

    pub enum $type {
      $( $(#[doc = $meaning])+ #[strum(serialize = $word)] $variant, )+
    }

    impl $type {
      /// All of them.
      pub const ALL: &[Self] = <Self as strum::VariantArray>::VARIANTS;

      /// The spelling of the word.
      pub fn as_str(self) -> &'static str {
        self.into()
      }
    }

    impl Word for $type {
      const ALL: &'static [Self] = Self::ALL;

      fn word(self) -> &'static str {
        self.as_str()
      }
    }

    impl FromStr for $type {
      type Err = String;

      fn from_str(text: &str) -> Result<Self, Self::Err> {
        find(text).ok_or_else(|| format!("expected {}", list::<Self>()))
      }
    }
  )+ };
}

words! {
  /// How provenance is written into memory files.
  Markers {
    /// As many as the file allows.
    Auto = "auto",
    /// A comment pair around blocks that were written together.
    Wrap = "wrap",
    /// One short comment per entry.
    Id = "id",
    /// Nothing; provenance is only in the ledger.
    None = "none",
  }

  /// The highest rung of the protocol ladder by which files are edited.
  Protocol {
    /// As the file system allows.
    Auto = "auto",
    /// Overwriting at equal length under a lease, no reshaping.
    EqualLengthOnly = "equal-length-only",
    /// Comparing and overwriting at equal length without a lease, no reshaping, and polling.
    NoLease = "no-lease",
  }

  /// A file of a workspace that is put into the prompt as instructions, and that the agent can
  /// write.
  InstructionFile {
    /// Instructions for the agent.
    Agents = "AGENTS.md",
    /// The agent's persona.
    Soul = "SOUL.md",
    /// The agent's name.
    Identity = "IDENTITY.md",
    /// The person that the agent works for; the personal files below `users/` count as this one.
    User = "USER.md",
    /// The agent's tools.
    Tools = "TOOLS.md",
    /// Instructions for when the agent is woken.
    Heartbeat = "HEARTBEAT.md",
    /// Instructions for the agent's start.
    Boot = "BOOT.md",
    /// Instructions for the agent's first start.
    Bootstrap = "BOOTSTRAP.md",
    /// The agent's diary of consolidation.
    Dreams = "DREAMS.md",
  }

  /// What a plugin inside the agent does with a write of poison to memory.
  LinkWrites {
    /// The write happens, and the daemon takes the poison out.
    Quarantine = "quarantine",
    /// The call fails with a reason.
    Refuse = "refuse",
    /// The agent asks the owner first.
    Ask = "ask",
  }

  /// How people are notified.
  NotifyVia {
    /// No notification.
    None = "none",
    /// By a message through the agent framework.
    Message = "message",
    /// By an event in the agent's own session.
    Event = "event",
    /// By a desktop notification.
    Desktop = "desktop",
    /// By the user's own program.
    Command = "command",
  }

  /// Values for several keys at once, which single keys override.
  Preset {
    /// Only strong evidence counts, and messages are rare.
    Quiet = "quiet",
    /// The defaults.
    Balanced = "balanced",
    /// Little evidence is enough, and more files are treated like memory.
    Strict = "strict",
  }

  /// When the agent framework may trust a dropped file again.
  Follow {
    /// If memfw's own edits were the only reason.
    Edits = "edits",
    /// Also if the rest of a tainted write was judged and has no findings.
    Validated = "validated",
  }

  /// How notes outside the workspaces that the agent searches are treated.
  ExtraPaths {
    /// Findings in them are flagged and stay.
    Report = "report",
    /// Poison is taken out of them.
    Quarantine = "quarantine",
    /// They are not read.
    Ignore = "ignore",
  }

  /// The least severe log line that is written.
  LogLevel {
    /// Protection is reduced or data at risk: act.
    Error = "error",
    /// Unexpected, but recovered.
    Warn = "warn",
    /// An action that worked.
    Info = "info",
    /// Each file.
    Debug = "debug",
    /// Everything.
    Trace = "trace",
  }

  /// Which provider computes the vectors by which a text is compared with known attacks.
  EmbeddingProvider {
    /// memfw itself.
    Local = "local",
    /// An endpoint with OpenAI's API.
    OpenAi = "openai",
    /// Ollama.
    Ollama = "ollama",
  }

  /// Which judge reads new entries from outside and says whether they may stay.
  JudgeVia {
    /// No judge.
    Off = "off",
    /// A server with OpenAI's API.
    Endpoint = "endpoint",
    /// The agent framework's own model.
    Agent = "agent",
    /// Another program that takes questions from the queue.
    Queue = "queue",
  }

  /// How log lines are written.
  LogFormat {
    /// For people.
    Text = "text",
    /// One object per line.
    Json = "json",
  }
}

/// Words that the pure core owns, because it decides by them.
macro_rules! core_words {
  ($($type:ident),+) => { $(
    impl Word for $type {
      const ALL: &'static [Self] = Self::ALL;

      fn word(self) -> &'static str {
        self.as_str()
      }
    }
  )+ };
}

core_words!(BaselineAction, Hold, Scope, Sensitivity, Trust);

impl InstructionFile {
  /// The instruction file that a path relative to a workspace is: a file of its root, or
  /// `users/ID/USER.md`.
  pub fn of(rel: &Path) -> Option<Self> {
    let mut parts = rel.components().map(|part| part.as_os_str().to_str());
    match [parts.next(), parts.next(), parts.next(), parts.next()] {
      // The agent reads this file in any case.
      [Some(Some(name)), None, ..] if name.eq_ignore_ascii_case("dreams.md") => Some(Self::Dreams),
      [Some(Some(name)), None, ..] => find(name),
      [Some(Some("users")), Some(Some(_)), Some(Some("USER.md")), None] => Some(Self::User),
      _ => None,
    }
  }
}

/// The member with the spelling `text`.
pub(super) fn find<W: Word>(text: &str) -> Option<W> {
  W::ALL.iter().copied().find(|word| word.word() == text)
}

/// All words for a message: `` `a`, `b` or `c` ``.
pub(super) fn list<W: Word>() -> String {
  list_of(&W::ALL.iter().map(|word| word.word()).collect::<Vec<_>>())
}

/// Words for a message, in their order.
pub(super) fn list_of(words: &[&str]) -> String {
  let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
  match words.split_last() {
    Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
    _ => words.concat(),
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn words_round_trip() {
    for &level in LogLevel::ALL {
      assert_eq!(level.as_str().parse(), Ok(level));
    }
    for &markers in Markers::ALL {
      assert_eq!(markers.as_str().parse(), Ok(markers));
    }
  }

  #[test]
  fn instruction_files_are_known_by_their_place() {
    for (path, expected) in [
      ("AGENTS.md", Some(InstructionFile::Agents)),
      ("dreams.md", Some(InstructionFile::Dreams)),
      ("DrEaMs.md", Some(InstructionFile::Dreams)),
      ("users/ann/USER.md", Some(InstructionFile::User)),
      ("users/USER.md", None),
      ("users/ann/SOUL.md", None),
      ("users/ann/x/USER.md", None),
      ("memory/AGENTS.md", None),
      ("MEMORY.md", None),
    ] {
      assert_eq!(InstructionFile::of(Path::new(path)), expected, "{path}");
    }
  }

  #[test]
  fn a_wrong_word_is_answered_with_the_right_ones() {
    assert_eq!("loud".parse::<LogFormat>(), Err("expected `text` or `json`".to_owned()));
    assert_eq!("AUTO".parse::<Markers>().unwrap_err(), "expected `auto`, `wrap`, `id` or `none`");
  }
}
