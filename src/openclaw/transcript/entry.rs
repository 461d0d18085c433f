//! What OpenClaw wrote down about a session as a whole: an entry of `sessions.json`, later `entry_json`.
//!
//! Both stores have equal members; only those that attribution needs are read.
#![forbid(unsafe_code)]

use serde_json::{Map, Value};

use super::{
  json,
  model::{Session, is_local_channel},
  parse,
};

/// The members that are read.
pub(super) const MEMBERS: &[&str] = &[
  "sessionId",
  "sessionFile",
  "channel",
  "provider",
  "lastChannel",
  "lastTo",
  "chatType",
  "origin",
  "deliveryContext",
  "hookExternalContentSource",
  "createdVia",
  "spawnedBy",
  "parentSessionKey",
  "updatedAt",
];

/// The members of an entry that are read.
#[derive(Clone, Debug, Default)]
pub(super) struct Entry {
  members: Map<String, Value>,
}

impl Entry {
  /// The entry that a JSON text says; `None` where it says none.
  pub(super) fn parse(text: &str) -> Option<Self> {
    json::members(text, MEMBERS).ok().map(Self::new)
  }

  /// The entry of these members.
  pub(super) fn new(members: Map<String, Value>) -> Self {
    Self { members }
  }

  /// A member that is a short word.
  pub(super) fn word(&self, key: &str) -> Option<String> {
    let value = self.members.get(key)?;
    if value.is_string() { parse::named_value(value) } else { None }
  }

  /// When the session was used last, in microseconds UTC.
  pub(super) fn used_at(&self) -> Option<i64> {
    parse::micros(self.members.get("updatedAt")?.as_i64()?)
  }

  /// Fills in what a session does not say yet.
  pub(super) fn complete(&self, session: &mut Session) {
    let nested =
      |outer: &str, key: &str| self.members.get(outer).and_then(|value| parse::named(value, key));
    let fill = |place: &mut Option<String>, found: &mut dyn Iterator<Item = Option<String>>| {
      if place.is_none() {
        *place = found.flatten().next();
      }
    };
    let channels = [
      self.word("channel"),
      self.word("provider"),
      nested("origin", "provider"),
      nested("deliveryContext", "channel"),
      self.word("lastChannel"),
    ];
    // A session that several channels share belongs to no single channel, whichever was used last.
    let channels: Vec<String> = channels.into_iter().flatten().collect();
    let is_local = |channel: &&String| is_local_channel(channel);
    session.is_shared |=
      channels.iter().any(|one| is_local(&one)) && !channels.iter().all(|one| is_local(&one));
    let first = channels.iter().find(|one| !is_local(one)).or(channels.first()).cloned();
    fill(&mut session.channel, &mut [first].into_iter());
    let types = [self.word("chatType"), nested("origin", "chatType")];
    fill(&mut session.chat_type, &mut types.into_iter());
    let peers = [nested("origin", "from"), nested("deliveryContext", "to"), self.word("lastTo")];
    fill(&mut session.peer, &mut peers.into_iter());
    fill(&mut session.hook_source, &mut [self.word("hookExternalContentSource")].into_iter());
    fill(&mut session.created_via, &mut [self.word("createdVia")].into_iter());
    let parents = [self.word("spawnedBy"), self.word("parentSessionKey")];
    fill(&mut session.parent_key, &mut parents.into_iter());
    // `telegram:123` on `telegram` is 123.
    if let (Some(channel), Some(peer)) = (&session.channel, &session.peer)
      && let Some(bare) =
        peer.strip_prefix(channel.as_str()).and_then(|peer| peer.strip_prefix(':'))
    {
      session.peer = Some(bare.to_owned());
    }
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn a_session_is_completed_and_never_overwritten() {
    let text = r#"{"sessionId":"s","chatType":"direct","origin":{"provider":"telegram","from":"telegram:42"},
      "hookExternalContentSource":"webhook","spawnedBy":"agent:main:main","skillsSnapshot":{"x":[1]}}"#;
    let entry = Entry::parse(text).unwrap();
    let mut session = Session { chat_type: Some("group".to_owned()), ..Session::default() };
    entry.complete(&mut session);
    let wanted = Session {
      channel: Some("telegram".to_owned()),
      chat_type: Some("group".to_owned()),
      peer: Some("42".to_owned()),
      hook_source: Some("webhook".to_owned()),
      parent_key: Some("agent:main:main".to_owned()),
      ..Session::default()
    };
    assert_eq!(session, wanted);
    assert_eq!(entry.word("sessionId").as_deref(), Some("s"));
    assert!(Entry::parse("[]").is_none());
  }
}
