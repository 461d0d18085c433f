//! The messages: what a plugin asks, and what memfw replies.
#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};

use super::{
  change::Change,
  chat::{Chat, News, Told},
  recall::{Inject, Recall, Recalled},
};

/// A line of a plugin.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Request {
  /// Chosen by the plugin; the reply repeats it.
  pub id: u64,
  /// How long the plugin waits, in milliseconds; [`super::limits::DEADLINE_MS`] if it does not say.
  #[serde(default)]
  pub deadline_ms: Option<u32>,
  /// What it asks.
  #[serde(flatten)]
  pub body: Body,
}

/// What a plugin asks.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Body {
  /// Begins a session.
  Hello(Hello),
  /// Asks whether a tool call may write.
  Check(Box<Call>),
  /// Asks in which form memory may reach the model.
  Recall(Box<Recall>),
  /// Says which run got the texts of earlier requests.
  Inject(Box<Inject>),
  /// Says how the owner answered the question that followed from a check.
  Resolved(Resolved),
  /// What a person asks in a chat.
  Chat(Box<Chat>),
  /// Asks what the owner is to be told.
  News,
}

/// The handshake.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct Hello {
  /// The version that the plugin speaks.
  pub version: u32,
  /// The name and release of the plugin, for the log.
  #[serde(default)]
  pub client: String,
}

/// A tool call that would write to a file.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct Call {
  /// The tool as the agent names it.
  pub tool: String,
  /// The file: absolute, below `~/`, or relative to the workspace.
  pub path: String,
  /// What it would change there.
  pub change: Option<Change>,
  /// The workspace of the agent, if the plugin knows it.
  pub workspace: Option<String>,
  /// The agent.
  pub agent: Option<String>,
  /// The run of the agent that the call belongs to.
  pub run: Option<String>,
  /// The key of the session.
  pub session: Option<String>,
  /// The id of the session.
  pub session_id: Option<String>,
  /// The channel that the request came through.
  pub channel: Option<String>,
  /// The sender, as the channel names them.
  pub sender: Option<String>,
  /// Whether the agent knows that the sender is the owner; `None` if it does not know.
  pub sender_is_owner: Option<bool>,
  /// What started the run: `user`, `cron`, `heartbeat`, `memory`, ...
  pub trigger: Option<String>,
  /// What came into the run so far, oldest first.
  pub heard: Vec<Heard>,
}

/// How the owner answered the question that followed from a check.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct Resolved {
  /// The id of the check.
  pub check: u64,
  /// The answer.
  pub decision: OwnerAnswer,
}

/// The answers, as the agent names them.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum OwnerAnswer {
  /// This write may happen.
  AllowOnce,
  /// It may happen, and so may others like it.
  AllowAlways,
  /// It may not.
  Deny,
  /// Nobody answered in time.
  Timeout,
  /// The run ended first.
  Cancelled,
  /// Something that this memfw does not know.
  #[default]
  #[serde(other)]
  Unknown,
}

/// The kinds of material.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum HeardKind {
  /// Words that somebody gave to the agent.
  #[default]
  Message,
  /// What a tool answered.
  Tool,
}

/// A piece of what the agent has read.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct Heard {
  /// A message or an answer.
  pub kind: HeardKind,
  /// The tool that answered.
  pub tool: String,
  /// The file, address or command that the tool was given.
  pub subject: String,
  /// The text, or its beginning.
  pub passage: String,
  /// SHA-256 of the whole text, in hex; it shows whether the passage is the whole.
  pub sha256: String,
  /// The length of the whole text, in bytes.
  pub bytes: u64,
  /// Whether the tool failed.
  pub is_error: bool,
  /// Whether the agent knows that the answer came from the network.
  pub network: bool,
  /// Of a message: whether the sender is the owner.
  pub owner: Option<bool>,
  /// Of a message: the sender, as the channel names them.
  pub sender: Option<String>,
}

/// A line of memfw.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub struct Reply {
  /// The id of the request; `None` if it could not be read.
  pub id: Option<u64>,
  /// What memfw says.
  #[serde(flatten)]
  pub body: Answer,
}

/// What memfw says.
#[derive(Clone, Debug, Serialize, PartialEq)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Answer {
  /// The handshake is done.
  Hello {
    /// The version of the protocol.
    version: u32,
    /// The release of memfw.
    memfw: String,
    /// What happens to poisoned writes: `refuse`, `quarantine` or `ask`.
    mode: String,
    /// How long a plugin should wait for a verdict, in milliseconds.
    deadline_ms: u32,
  },
  /// Whether the call may write.
  Verdict {
    /// The decision.
    decision: Decision,
    /// Whether the text was judged; if not, the daemon judges it after the write.
    judged: bool,
    /// Why it was not judged, or was allowed nevertheless.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    /// Why it may not write.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<Box<Reason>>,
  },
  /// The texts in the form in which they may reach the model.
  Recalled {
    /// One for each that was asked for, in order.
    texts: Vec<Recalled>,
  },
  /// It is on record which run got the texts.
  Injected {
    /// How many entries.
    entries: u64,
  },
  /// The answer of the owner is on record.
  Noted {
    /// Whether memfw knows the check.
    known: bool,
  },
  /// What a person is told in a chat.
  Told(Told),
  /// What the owner is to be told.
  News(News),
  /// The request was not carried out.
  Error(Failed),
}

/// A verdict on a call.
#[derive(Clone, Copy, Debug, Serialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
  /// It may write.
  Allow,
  /// It may not.
  Refuse,
  /// The owner is to be asked.
  Ask,
}

/// Why a call may not write, in a form that a model can act on. It repeats no text of the call: a reason is read
/// by a model, and by people.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub struct Reason {
  /// What was refused.
  pub what: String,
  /// The finding codes, the strongest first.
  pub codes: Vec<String>,
  /// The score, 0 to 1.
  pub score: f32,
  /// The kind of the source that the text came from.
  pub source: String,
  /// How to write it instead.
  pub rephrase: String,
  /// How the owner can allow it.
  pub allow: String,
  /// The items that wait for the owner; empty if the text could not be sealed.
  pub items: Vec<String>,
  /// All of it in a few sentences, for the model.
  pub text: String,
}

/// Why a request was not carried out.
#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
pub struct Failed {
  /// The kind of failure.
  pub code: Fault,
  /// A sentence for people.
  pub message: String,
}

/// The kinds of failures. A plugin lets the call go on after each of them.
#[derive(Clone, Copy, Debug, Serialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
  /// The line is no request.
  BadRequest,
  /// Something in it is longer than its limit.
  TooLarge,
  /// The first request must be `hello`.
  NoHello,
  /// This memfw does not speak that version.
  Version,
  /// It took longer than the plugin waits.
  Deadline,
  /// memfw cannot judge now.
  Unavailable,
  /// Only the owner may ask that.
  NotOwner,
}

impl Reply {
  /// A failure.
  pub fn failed(id: Option<u64>, code: Fault, message: impl Into<String>) -> Self {
    Self { id, body: Answer::Error(Failed { code, message: message.into() }) }
  }

  /// A call may write.
  pub fn allowed(id: u64, judged: bool, note: Option<String>) -> Self {
    let body = Answer::Verdict { decision: Decision::Allow, judged, note, reason: None };
    Self { id: Some(id), body }
  }

  /// A call may not write, or not before the owner was asked.
  pub fn stopped(id: u64, decision: Decision, reason: Reason) -> Self {
    let reason = Some(Box::new(reason));
    Self { id: Some(id), body: Answer::Verdict { decision, judged: true, note: None, reason } }
  }

  /// The reply as a line, with its line end.
  #[cfg(test)]
  pub(super) fn to_line(&self) -> String {
    let mut line = serde_json::to_string(self).unwrap_or_default();
    line.push('\n');
    line
  }
}
