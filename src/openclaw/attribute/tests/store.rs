//! Sessions in memory, from recorded messages or made up by a test.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::openclaw::transcript::{
  Call, Message, Outcome, ReadResult, Record, Sender, Session, Sessions, Stores, Window,
};

/// Where the fixtures are.
pub(super) fn fixtures() -> PathBuf {
  Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/openclaw/attribution")
}

#[expect(clippy::disallowed_methods, reason = "a test reads its fixtures")]
pub(super) fn read(path: &str) -> String {
  std::fs::read_to_string(fixtures().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// All sessions that there are.
#[derive(Clone, Debug, Default)]
pub(super) struct Store {
  pub(super) sessions: Vec<(Session, Vec<Record>)>,
  /// What cannot be read.
  pub(super) problems: Vec<String>,
}

impl Sessions for Store {
  fn active(&self, window: Window) -> ReadResult<Vec<Session>> {
    let latest = |records: &[Record]| {
      let inside = records.iter().filter(|r| (window.from..=window.to).contains(&r.at));
      inside.map(|record| record.at).max()
    };
    let mut found: Vec<(i64, Session)> = self
      .sessions
      .iter()
      .filter_map(|(session, records)| Some((latest(records)?, session.clone())))
      .collect();
    found.sort_by_key(|(at, _)| -at);
    let found = found.into_iter().map(|(_, session)| session).collect();
    ReadResult { found, problems: self.problems.clone() }
  }

  fn session(&self, id_or_key: &str) -> ReadResult<Option<Session>> {
    let all = || self.sessions.iter().map(|(session, _)| session);
    let found = all().find(|session| session.id == id_or_key || session.key == id_or_key);
    ReadResult { found: found.cloned(), problems: vec![] }
  }

  fn records(&self, id: &str, window: Window, limit: usize) -> ReadResult<Vec<Record>> {
    let Some((_, records)) = self.sessions.iter().find(|(session, _)| session.id == id) else {
      return ReadResult::default();
    };
    let is_user = |record: &Record| {
      matches!(&record.message, Message::User { provenance, .. }
        if provenance.as_deref() != Some("internal_system"))
    };
    let end = records.partition_point(|record| record.at <= window.to);
    let first = records.partition_point(|record| record.at < window.from);
    let start = records[..first.min(end)].iter().rposition(is_user).unwrap_or(0);
    let start = start.max(end.saturating_sub(limit));
    ReadResult { found: records[start..end].to_vec(), problems: vec![] }
  }
}

impl Store {
  /// All that one version of OpenClaw wrote down, up to a moment.
  pub(super) fn recorded(version: &str, until: i64) -> Self {
    let dir = fixtures().parent().unwrap().join(version);
    let stores = Stores::open(&dir);
    let all = Window { from: i64::MIN, to: until };
    let sessions = read_well(stores.active(all)).into_iter().map(|session| {
      let records = read_well(stores.records(&session.id, all, 10_000));
      (session, records)
    });
    let sessions: Vec<_> = sessions.collect();
    assert!(!sessions.is_empty(), "{} has no sessions", dir.display());
    Self { sessions, problems: vec![] }
  }
}

fn read_well<T>(found: ReadResult<T>) -> T {
  assert_eq!(found.problems, [""; 0]);
  found.found
}

/// A talk that a test makes up, message by message, a second apart.
#[derive(Clone, Debug)]
pub(super) struct Talk {
  pub(super) session: Session,
  pub(super) records: Vec<Record>,
  pub(super) at: i64,
}

/// The second in which made-up talks begin.
pub(super) const START: i64 = 1_795_000_000_000_000;

impl Talk {
  pub(super) fn new(id: &str, key: &str) -> Self {
    let session = Session {
      id: id.to_owned(),
      key: key.to_owned(),
      agent: "main".to_owned(),
      ..Session::default()
    };
    Self { session, records: vec![], at: START }
  }

  pub(super) fn main() -> Self {
    Self::new("11111111-aaaa", "agent:main:main")
  }

  /// Adds a message.
  pub(super) fn say(mut self, message: Message) -> Self {
    self.at += 1_000_000;
    let seq = self.records.len() as i64;
    self.records.push(Record { seq, at: self.at, message });
    self
  }

  pub(super) fn later(mut self, seconds: i64) -> Self {
    self.at += seconds * 1_000_000;
    self
  }

  pub(super) fn owner(self, text: &str) -> Self {
    self.user(text, Some(true), None)
  }

  pub(super) fn user(self, text: &str, owner: Option<bool>, sender: Option<&str>) -> Self {
    let sender = sender.map(|name| Sender { username: Some(name.to_owned()), ..Sender::default() });
    self.say(Message::User {
      text: text.to_owned(),
      context: String::new(),
      owner,
      sender,
      provenance: None,
    })
  }

  fn next_id(&self) -> String {
    format!("call{:04}", self.records.len())
  }

  pub(super) fn call(self, tool: &str, arguments: Value) -> Self {
    let id = self.next_id();
    let calls = vec![Call { id, tool: tool.to_owned(), arguments }];
    self.say(Message::Assistant { calls, tainted: false, run: None })
  }

  /// The answer to the last call.
  pub(super) fn answer(self, text: &str, details: Value) -> Self {
    let (id, tool) = self
      .records
      .iter()
      .rev()
      .find_map(|record| match &record.message {
        Message::Assistant { calls, .. } => calls.last().map(|c| (c.id.clone(), c.tool.clone())),
        _ => None,
      })
      .unwrap();
    let network = matches!(tool.as_str(), "web_fetch" | "web_search" | "browser");
    self.say(Message::Tool(Outcome {
      call: id,
      tool,
      text: text.to_owned(),
      details,
      is_error: false,
      network,
    }))
  }

  pub(super) fn fetch(self, url: &str, text: &str) -> Self {
    let answer = json!({"url": url, "finalUrl": url, "text": wrapped(text)}).to_string();
    self.call("web_fetch", json!({"url": url})).answer(&answer, json!({"finalUrl": url}))
  }

  pub(super) fn read(self, path: &str, text: &str) -> Self {
    self.call("read", json!({"path": path})).answer(text, Value::Null)
  }

  /// The agent writes lines to the end of MEMORY.md.
  pub(super) fn writes(self, text: &str) -> Self {
    let edits = json!([{"oldText": "# Memory\n", "newText": format!("# Memory\n{text}\n")}]);
    self
      .call("edit", json!({"path": "MEMORY.md", "edits": edits}))
      .answer("Successfully replaced 1 block(s) in MEMORY.md.", Value::Null)
  }

  pub(super) fn exec(self, command: &str, output: &str) -> Self {
    self.call("exec", json!({"command": command})).answer(output, json!({"exitCode": 0}))
  }

  /// When the last message was said.
  pub(super) fn now(&self) -> i64 {
    self.at
  }
}

/// Content as OpenClaw wraps it.
pub(super) fn wrapped(text: &str) -> String {
  format!(
    "<<<EXTERNAL_UNTRUSTED_CONTENT id=\"53334e990b151cd2\">>>\nSource: Web Fetch\n---\n{text}\n\
     <<<END_EXTERNAL_UNTRUSTED_CONTENT id=\"53334e990b151cd2\">>>"
  )
}
