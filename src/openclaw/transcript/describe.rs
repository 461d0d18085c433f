//! What a database says about a session as a whole: four tables, each asked by its key.
#![forbid(unsafe_code)]

use super::{
  database::{DatabaseError, text},
  entry::Entry,
  model::Session,
  tables::{MAX_NAME, SqliteStore, column, has},
};

/// Longest description of a session that is looked into.
const MAX_ENTRY: i64 = 512 * 1024;
/// Most participants of a session.
const MAX_PARTICIPANTS: i64 = 16;

/// A session, and the keys of its rows in other tables.
struct Known {
  session: Session,
  conversation: Option<String>,
}

impl SqliteStore {
  /// What the tables say about a session; what one of them does not say stays empty.
  pub(super) fn describe(&self, id: &str, problems: &mut Vec<String>) -> Session {
    let session = Session { id: id.to_owned(), agent: self.agent.clone(), ..Session::default() };
    let mut known = Known { session, conversation: None };
    for read in
      [Self::read_window, Self::read_node, Self::read_conversation, Self::read_participants]
    {
      if let Err(error) = read(self, &mut known) {
        problems.push(error.to_string());
      }
    }
    known.session
  }

  fn read_window(&self, known: &mut Known) -> Result<(), DatabaseError> {
    let columns = &self.tables.windows;
    if !has(columns, &["session_id"]) {
      return Ok(());
    }
    let sql = format!(
      "SELECT {}, {}, {}, {}, {}, {}, {} FROM {} WHERE session_id = ?1",
      column(columns, "session_key"),
      column(columns, "channel"),
      column(columns, "chat_type"),
      column(columns, "hook_external_content_source"),
      column(columns, "primary_conversation_id"),
      column(columns, "spawned_by"),
      column(columns, "parent_session_key"),
      self.tables.windows_name,
    );
    let found = self.database.one(&sql, [&known.session.id], |row| {
      let column = |at| text(row, at, MAX_NAME);
      Ok([column(0)?, column(1)?, column(2)?, column(3)?, column(4)?, column(5)?, column(6)?])
    })?;
    let Some([key, channel, chat_type, hook, conversation, spawned_by, parent]) = found else {
      return Ok(());
    };
    let session = &mut known.session;
    session.key = key.unwrap_or_default();
    session.channel = channel;
    session.chat_type = chat_type;
    session.hook_source = hook;
    session.parent_key = spawned_by.or(parent);
    known.conversation = conversation;
    Ok(())
  }

  fn read_node(&self, known: &mut Known) -> Result<(), DatabaseError> {
    let columns = &self.tables.nodes;
    let by_key = has(columns, &["session_key"]) && !known.session.key.is_empty();
    if !by_key && !has(columns, &[self.current()]) {
      return Ok(());
    }
    let entry = column(columns, "entry_json");
    let sql = format!(
      "SELECT {}, {}, {}, {}, CASE WHEN octet_length({entry}) <= {MAX_ENTRY} THEN {entry} END
       FROM {} WHERE {} = ?1 LIMIT 1",
      column(columns, "session_key"),
      column(columns, "created_via"),
      column(columns, "spawned_by"),
      column(columns, "parent_session_key"),
      self.tables.nodes_name,
      if by_key { "session_key" } else { self.current() },
    );
    let asked = if by_key { &known.session.key } else { &known.session.id };
    let found = self.database.one(&sql, [asked], |row| {
      let column = |at| text(row, at, MAX_NAME);
      let entry = text(row, 4, MAX_ENTRY as usize)?;
      Ok(([column(0)?, column(1)?, column(2)?, column(3)?], entry))
    })?;
    let Some(([key, via, spawned_by, parent], entry)) = found else { return Ok(()) };
    let entry = entry.and_then(|entry| Entry::parse(&entry)).unwrap_or_default();
    let session = &mut known.session;
    if session.key.is_empty() {
      session.key = key.unwrap_or_default();
    }
    session.created_via = via;
    session.parent_key = session.parent_key.take().or(spawned_by).or(parent);
    entry.complete(session);
    Ok(())
  }

  fn read_conversation(&self, known: &mut Known) -> Result<(), DatabaseError> {
    let columns = &self.tables.conversations;
    let Some(id) = &known.conversation else { return Ok(()) };
    if !has(columns, &["conversation_id"]) {
      return Ok(());
    }
    let sql = format!(
      "SELECT {}, {}, {} FROM conversations WHERE conversation_id = ?1",
      column(columns, "channel"),
      column(columns, "kind"),
      column(columns, "peer_id"),
    );
    let found = self.database.one(&sql, [id], |row| {
      let column = |at| text(row, at, MAX_NAME);
      Ok([column(0)?, column(1)?, column(2)?])
    })?;
    let Some([channel, kind, peer]) = found else { return Ok(()) };
    let session = &mut known.session;
    session.channel = session.channel.take().or(channel);
    session.chat_type = session.chat_type.take().or(kind);
    session.peer = peer.or_else(|| session.peer.take());
    Ok(())
  }

  fn read_participants(&self, known: &mut Known) -> Result<(), DatabaseError> {
    if !has(&self.tables.participants, &["session_key", "actor_id"]) {
      return Ok(());
    }
    let sql = format!(
      "SELECT actor_id FROM session_participants WHERE session_key = ?1 LIMIT {MAX_PARTICIPANTS}"
    );
    let found = self.database.all(&sql, [&known.session.key], |row| text(row, 0, MAX_NAME))?;
    known.session.participants = found.into_iter().flatten().collect();
    Ok(())
  }
}
