//! What fed a sub-agent: the session that spawned it, and what that session had read then.
#![forbid(unsafe_code)]

use serde_json::Value;

use super::{
  Inquiry,
  choose::{Decision, choose},
  material::{Role, SessionStart, source},
  rank::{is_foreign, rank},
};
use crate::{
  openclaw::transcript::{Call, Message, Record, Session},
  provenance::{Request, Source},
};

/// Longest chain of sub-agents that is followed.
const MAX_DEPTH: usize = 4;

/// Who spawned a sub-agent, and what was handed over to it.
#[derive(Debug)]
pub(super) struct Parent {
  /// What the sub-agent is called.
  pub(super) name: String,
  /// What fed the task that it was given, least trusted first; never empty.
  pub(super) fed_by: Vec<Source>,
  /// What the owner had asked for when the task was handed over.
  pub(super) asked: String,
}

impl Inquiry<'_> {
  /// What the session that spawned `child` handed over to it.
  pub(super) fn parent(&mut self, child: &Session, depth: usize) -> Parent {
    let name = child.key.rsplit(':').next().unwrap_or_default();
    let mut parent = Parent {
      name: name.chars().take(8).collect(),
      fed_by: vec![Source::unknown()],
      asked: String::new(),
    };
    let Some(key) = child.parent_key.as_deref().filter(|_| depth < MAX_DEPTH) else {
      return parent;
    };
    let Some(session) = self.note(self.sessions.session(key)) else { return parent };
    let records = self.history_of(&session);
    let Some((index, call, answer)) = spawn(&records, &child.key) else { return parent };
    let argument = |name: &str| call.arguments.get(name).and_then(Value::as_str);
    if let Some(label) = argument("label").or_else(|| argument("name")) {
      label.clone_into(&mut parent.name);
    }
    let before = self.context(&session, &records, index, None);
    let task = argument("task").or_else(|| argument("prompt")).unwrap_or_default();
    let mut decision = choose(task, &before);
    // A sub-agent that is not isolated has all that its parent had.
    if answer.get("context").and_then(Value::as_str).is_none_or(|context| context != "isolated") {
      let inherited = before.materials.iter().filter(|m| m.role == Role::Foreign && m.in_turn);
      decision.fed_by.extend(inherited.map(|material| material.source.clone()));
    }
    match &before.origin {
      SessionStart::Person | SessionStart::Unlisted => {}
      SessionStart::Hook(hook) => decision.started_by(hook),
      SessionStart::Cron => decision.started_by(&Source::new("cron")),
      SessionStart::Subagent => {
        let grandparent = self.parent(&session, depth + 1);
        decision.fed_by.extend(grandparent.fed_by);
        decision.request.asked = grandparent.asked;
      }
    }
    parent.asked = decision.request.asked;
    parent.fed_by = decision.fed_by;
    parent.fed_by.push(decision.source);
    parent.fed_by.sort_by_key(rank);
    parent.fed_by.dedup();
    parent
  }
}

impl Decision {
  /// A sub-agent wrote it: trusted no more than what fed that one and than its task.
  pub(super) fn delegated(&mut self, parent: &Parent) {
    let own = std::mem::replace(&mut self.source, source("subagent", Some(&parent.name)));
    if is_foreign(&own) {
      self.fed_by.push(own.clone());
      self.fed = Some(own);
    }
    self.fed_by.extend(parent.fed_by.iter().cloned());
    self.request = Request::new(&parent.asked, &self.request.passage);
    self.fed_by.sort_by_key(rank);
    self.fed_by.dedup();
  }
}

/// The call that spawned the session with this key: its record, itself, and the details of its answer.
fn spawn<'r>(records: &'r [Record], key: &str) -> Option<(usize, &'r Call, &'r Value)> {
  let answer = records.iter().rev().find_map(|record| match &record.message {
    Message::Tool(outcome) => {
      let named = outcome.details.get("childSessionKey").and_then(Value::as_str);
      let is_it = named.map_or_else(|| outcome.text.contains(key), |named| named == key);
      (is_it && outcome.tool == "sessions_spawn").then_some(outcome)
    }
    _ => None,
  })?;
  records.iter().enumerate().rev().find_map(|(index, record)| match &record.message {
    Message::Assistant { calls, .. } => {
      let call = calls.iter().find(|call| call.id == answer.call)?;
      Some((index, call, &answer.details))
    }
    _ => None,
  })
}
