//! What the agent is about to read: which text of memory a plugin may hand to the model, and which run has got it.
#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};

use super::limits::{
  MAX_NAME_BYTES, MAX_PASSAGE_BYTES, MAX_RECALL_BYTES, MAX_TEXTS, MAX_VIA_BYTES,
};

/// Where a request belongs: the run, the session and the agent, as the agent's framework names them.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct RunNames {
  /// The workspace of the agent, if the plugin knows it.
  pub workspace: Option<String>,
  /// The agent.
  pub agent: Option<String>,
  /// The run of the agent; absent if it is not known yet.
  pub run: Option<String>,
  /// The key of the session.
  pub session: Option<String>,
  /// The id of the session.
  pub session_id: Option<String>,
}

impl RunNames {
  /// Whether each name keeps its limit.
  pub fn is_within_limits(&self) -> bool {
    let names = [&self.workspace, &self.agent, &self.run, &self.session, &self.session_id];
    names.into_iter().flatten().all(|name| name.len() <= MAX_NAME_BYTES)
  }
}

/// Texts of memory that would reach the model.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct Recall {
  /// The run that would read them.
  #[serde(flatten)]
  pub of: RunNames,
  /// How they would reach the model: `start`, or the name of a tool.
  pub via: String,
  /// Whether they are the results of a search, of which only so many are handed out.
  pub is_search: bool,
  /// The texts, in their order.
  pub texts: Vec<Wanted>,
}

/// A text of memory, or a part of one.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct Wanted {
  /// Its file; empty for a text that is in no file.
  pub path: String,
  /// Its first line, from 1; the whole file if it is absent.
  pub from: Option<u64>,
  /// How many lines it has.
  pub lines: Option<u64>,
  /// The text as the agent has it, for a text that memfw does not guard.
  pub text: Option<String>,
}

impl Recall {
  /// What is longer than its limit.
  pub fn over_limit(&self) -> Option<&'static str> {
    let is_long = |text: &Wanted| {
      text.path.len() > MAX_NAME_BYTES
        || text.text.as_ref().is_some_and(|text| text.len() > MAX_PASSAGE_BYTES)
    };
    let n_bytes: usize =
      self.texts.iter().filter_map(|one| one.text.as_ref()).map(String::len).sum();
    let is_over = self.texts.len() > MAX_TEXTS || n_bytes > MAX_RECALL_BYTES;
    if !self.of.is_within_limits() || self.via.len() > MAX_VIA_BYTES {
      Some("a name")
    } else {
      (is_over || self.texts.iter().any(is_long)).then_some("texts")
    }
  }
}

/// The run that got the texts of earlier requests, which did not name it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct Inject {
  /// The run.
  #[serde(flatten)]
  pub of: RunNames,
  /// The ids of the requests.
  pub recalls: Vec<u64>,
}

impl Inject {
  /// What is longer than its limit.
  pub fn over_limit(&self) -> Option<&'static str> {
    if self.of.is_within_limits() {
      (self.recalls.len() > MAX_TEXTS).then_some("recalls")
    } else {
      Some("a name")
    }
  }
}

/// What may be done with a text.
#[derive(Clone, Copy, Debug, Serialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Handing {
  /// Only `text` may reach the model.
  Replace,
  /// memfw does not guard it, and the plugin leaves it as it is.
  Keep,
  /// There are as many results as may be handed out already.
  Drop,
}

/// A text in the form in which it may reach the model.
#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
pub struct Recalled {
  /// What to do with it.
  pub handing: Handing,
  /// The text; absent unless it replaces the text of the agent.
  #[serde(skip_serializing_if = "Option::is_none")]
  pub text: Option<String>,
  /// How many entries are handed out, with or without a frame.
  pub entries: usize,
  /// How many of them have a frame.
  pub framed: usize,
  /// How many entries are blocked.
  pub blocked: usize,
}

impl Recalled {
  /// A text about which there is nothing to say.
  pub const fn as_it_is(handing: Handing) -> Self {
    Self { handing, text: None, entries: 0, framed: 0, blocked: 0 }
  }
}
