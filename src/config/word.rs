//! Settings that are one word out of a few.
#![forbid(unsafe_code)]

use std::{fmt, path::Path, str::FromStr};

pub use crate::detect::{BaselineAction, Scope, Sensitivity, policy::Hold};

/// A closed set of words, each written in one way in configuration, JSON and on the command line.
pub(super) trait Word: Copy + 'static {
  /// All words, in the order in which messages list them.
  const ALL: &'static [Self];

  /// The word as it is written.
  fn word(self) -> &'static str;
}

macro_rules! words {
  ($( $(#[doc = $about:literal])+ $type:ident { $( $(#[doc = $meaning:literal])+ $variant:ident = $word:literal, )+ } )+) => { $(
    $(#[doc = $about])+
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum $type {
      $( $(#[doc = $meaning])+ $variant, )+
    }

    impl $type {
      /// All of them.
      pub const ALL: &[Self] = &[$( Self::$variant ),+];

      /// The word as it is written.
      pub const fn as_str(self) -> &'static str {
        match self {
          $( Self::$variant => $word, )+
        }
      }
    }

    impl Word for $type {
      const ALL: &'static [Self] = Self::ALL;

      fn word(self) -> &'static str {
        self.as_str()
      }
    }

    impl fmt::Display for $type {
      fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
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
    /// As much as the file can bear.
    Auto = "auto",
    /// A comment pair around what was written together.
    Wrap = "wrap",
    /// One short comment an entry.
    Id = "id",
    /// Nothing; provenance lives in the ledger alone.
    None = "none",
  }

  /// The highest rung of the fallback ladder by which files are edited.
  Protocol {
    /// What the file system can do.
    Auto = "auto",
    /// Overwritten at equal length under a lease, never reshaped.
    EqualLengthOnly = "equal-length-only",
    /// Compared and overwritten at equal length without a lease, never reshaped, and polled.
    NoLease = "no-lease",
  }

  /// A file of a workspace that is put before the model as instructions, and that the agent can write.
  InstructionFile {
    /// What the agent is to do.
    Agents = "AGENTS.md",
    /// Who it is.
    Soul = "SOUL.md",
    /// What it is called.
    Identity = "IDENTITY.md",
    /// Whom it works for; the personal ones below `users/` count as this one.
    User = "USER.md",
    /// Its tools.
    Tools = "TOOLS.md",
    /// What it does when it is woken.
    Heartbeat = "HEARTBEAT.md",
    /// What it does when it starts.
    Boot = "BOOT.md",
    /// What it does the first time.
    Bootstrap = "BOOTSTRAP.md",
    /// Its diary of consolidation.
    Dreams = "DREAMS.md",
  }

  /// How people are told what was done.
  NotifyVia {
    /// They are not.
    None = "none",
    /// By a message through the agent framework.
    Message = "message",
    /// By an event in the agent's own session.
    Event = "event",
    /// By a notice on their desktop.
    Desktop = "desktop",
    /// By a program of theirs.
    Command = "command",
  }

  /// Values for several keys at once, which stand below what is set key by key.
  Preset {
    /// Only strong evidence counts, and messages are rare.
    Quiet = "quiet",
    /// The defaults.
    Balanced = "balanced",
    /// Little evidence is enough, and more files are treated like memory.
    Strict = "strict",
  }

  /// When the agent framework may trust a file again that it has dropped.
  Follow {
    /// When edits of ours were all that was in the way.
    Edits = "edits",
    /// Also when all that is left of a tainted write was judged, and nothing was found.
    Validated = "validated",
  }

  /// How notes outside of the workspaces are treated that the agent searches.
  ExtraPaths {
    /// Findings in them are flagged and stay.
    Report = "report",
    /// Poison is taken out of them.
    Quarantine = "quarantine",
    /// They are not looked at.
    Ignore = "ignore",
  }

  /// The least severe log line that is written.
  LogLevel {
    /// Protection is reduced or data at risk: act.
    Error = "error",
    /// Unexpected, but recovered.
    Warn = "warn",
    /// What was done.
    Info = "info",
    /// Each file.
    Debug = "debug",
    /// Everything.
    Trace = "trace",
  }

  /// Who makes the vectors by which a text is compared with known attacks.
  EmbeddingProvider {
    /// memfw itself.
    Local = "local",
    /// An endpoint that is asked like OpenAI's.
    OpenAi = "openai",
    /// Ollama.
    Ollama = "ollama",
  }

  /// Who reads new entries from outside and says whether they may stay.
  JudgeVia {
    /// Nobody.
    Off = "off",
    /// A server that is asked like OpenAI's.
    Endpoint = "endpoint",
    /// The agent framework's own model.
    Agent = "agent",
    /// Whoever takes questions from the queue.
    Queue = "queue",
  }

  /// How log lines are written.
  LogFormat {
    /// For people.
    Text = "text",
    /// One object a line.
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

core_words!(BaselineAction, Hold, Scope, Sensitivity);

impl InstructionFile {
  /// Which of them a path relative to a workspace is: a file of its root, or `users/ID/USER.md`.
  pub fn of(rel: &Path) -> Option<Self> {
    let mut parts = rel.components().map(|part| part.as_os_str().to_str());
    match [parts.next(), parts.next(), parts.next(), parts.next()] {
      // The agent reads it in any case.
      [Some(Some(name)), None, ..] if name.eq_ignore_ascii_case("dreams.md") => Some(Self::Dreams),
      [Some(Some(name)), None, ..] => find(name),
      [Some(Some("users")), Some(Some(_)), Some(Some("USER.md")), None] => Some(Self::User),
      _ => None,
    }
  }
}

/// The member that is written like `text`.
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
  fn instruction_files_are_told_by_their_place() {
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
