//! The records of a session, whichever store they come from.
#![forbid(unsafe_code)]

use std::path::PathBuf;

use serde_json::Value;

/// Written to the context of a message, and to the end of an answer, that had parts without text: pictures and
/// the like, whose words are not on record.
pub const UNSEEN: &str = "[a part without text]";

/// A stretch of time, both ends included, in microseconds UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
  /// From here on.
  pub from: i64,
  /// Up to here.
  pub to: i64,
}

/// One session and what OpenClaw knows about it as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Session {
  /// The id, which names its transcript.
  pub id: String,
  /// Its key: `agent:main:main`, `agent:main:subagent:...`, `agent:main:cron:...`.
  pub key: String,
  /// The agent that it belongs to.
  pub agent: String,
  /// Where that agent works, without links in its path, where that is known.
  pub workspace: Option<PathBuf>,
  /// The channel that it talks through (`telegram`), where it is one.
  pub channel: Option<String>,
  /// Whether a person at this machine and a person on a channel talk in it.
  pub is_shared: bool,
  /// `direct`, `group`, ... as OpenClaw says.
  pub chat_type: Option<String>,
  /// Who is at the other end, as the channel names them.
  pub peer: Option<String>,
  /// `webhook`, `gmail`, ...: the session was started by content from outside.
  pub hook_source: Option<String>,
  /// How it came to be: `operator`, `spawn`, `channel`, `cron`, ...
  pub created_via: Option<String>,
  /// The key of the session that spawned it.
  pub parent_key: Option<String>,
  /// Who gave it words, as OpenClaw counted them, by the channel's ids; at most sixteen.
  pub participants: Vec<String>,
}

/// Whether a channel is this machine.
pub fn is_local_channel(channel: &str) -> bool {
  matches!(channel, "cli" | "tui" | "webchat" | "local" | "internal")
}

/// Who sent a message, as the channel told OpenClaw. Only the id is given by the channel itself;
/// the other two are chosen by the sender and prove nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sender {
  /// The channel's id of the sender.
  pub id: Option<String>,
  /// The user name, without an at sign.
  pub username: Option<String>,
  /// The name that people see.
  pub name: Option<String>,
}

impl Sender {
  /// Whether it is a program of OpenClaw's own on this machine, in which a person types.
  pub fn is_local_client(&self) -> bool {
    let id = self.id.as_deref().unwrap_or_default();
    matches!(id, "openclaw-control-ui" | "openclaw-tui" | "gateway-client" | "cli" | "webchat-ui")
  }
}

/// What was found, and what could not be read on the way. A problem is a sentence for `status`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReadResult<T> {
  /// What was found, also where there were problems.
  pub found: T,
  /// What could not be read; empty where all could.
  pub problems: Vec<String>,
}

/// One record of a session.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
  /// Its place in the session; later records have larger numbers.
  pub seq: i64,
  /// When it was written, in microseconds UTC.
  pub at: i64,
  /// What it says.
  pub message: Message,
}

/// What a record says, as far as attribution asks.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
  /// Words that were given to the agent.
  User {
    /// The words, cut at the cap of the reader, without what OpenClaw put around them.
    text: String,
    /// What OpenClaw put around the words: names, the history of a group, replied and forwarded
    /// messages, events. It may contain words of others; it is empty where OpenClaw put nothing
    /// around the words.
    context: String,
    /// Whether OpenClaw took the sender for the owner; `None` where it does not say.
    owner: Option<bool>,
    /// The sender, where the channel named one.
    sender: Option<Sender>,
    /// `external_user`, `inter_session`, `internal_system`, ...: what OpenClaw says about where it is from.
    provenance: Option<String>,
  },
  /// What the agent said and which tools it called.
  Assistant {
    /// The calls, in order.
    calls: Vec<Call>,
    /// Whether OpenClaw marked the turn as tainted by outside content.
    tainted: bool,
    /// The run that it belongs to.
    run: Option<String>,
  },
  /// What a tool answered.
  Tool(Outcome),
  /// What OpenClaw or a plugin put before the agent in addition: recalled memory, runtime context, the
  /// output of a command that a person ran, the summary of another branch. No turn begins with it.
  Injected {
    /// `custom:<type>`, `bash` or `branch`.
    kind: String,
    /// The text, cut at the cap of the reader.
    text: String,
  },
  /// There is a record that cannot be read (too long, damaged): what it said is not known.
  Unread {
    /// Why, in memfw's own words.
    why: String,
  },
  /// A summary replaced earlier records: the agent may still have their content.
  Compaction {
    /// The summary, cut at the cap of the reader.
    summary: String,
  },
  /// The context was cleared.
  Reset,
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
  /// Its id, which the answer repeats.
  pub id: String,
  /// The name of the tool, as the model called it.
  pub tool: String,
  /// What it was called with.
  pub arguments: Value,
}

/// The answer of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
  /// The id of the call that is answered.
  pub call: String,
  /// The name of the tool, as the answer says.
  pub tool: String,
  /// Its text, cut at the cap of the reader.
  pub text: String,
  /// `details` as OpenClaw keeps them (`patch`, `diff`, `changed`, ...); null where there are none.
  pub details: Value,
  /// Whether it failed.
  pub is_error: bool,
  /// Whether OpenClaw noted that the answer came from the network.
  pub network: bool,
}

/// Sessions that can be read. All answers are capped; what cannot be read is a problem beside the
/// answer, never a panic.
pub trait Sessions {
  /// Sessions that have records in `window`, the latest first.
  fn active(&self, window: Window) -> ReadResult<Vec<Session>>;

  /// One session by id or by key; `None` where there is none.
  fn session(&self, id_or_key: &str) -> ReadResult<Option<Session>>;

  /// Records of one session up to the end of `window`, oldest first: all from its start on, and those
  /// before it back to a message of a user (of any but `internal_system` provenance), that one
  /// included; at most `limit` of them, the latest kept. Where the first record is not such a message,
  /// the session begins there, or the limit was met.
  fn records(&self, id: &str, window: Window, limit: usize) -> ReadResult<Vec<Record>>;
}
