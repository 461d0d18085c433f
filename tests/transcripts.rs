//! Both readers of OpenClaw's transcripts, compared with OpenClaw's own records one by one.

#[path = "transcripts/hostile.rs"]
mod hostile;

use std::{collections::BTreeMap, fs, path::PathBuf};

use memfw::openclaw::transcript::{
  Call, Message, Outcome, ReadResult, Record, Session, Sessions, Stores, Window,
};
use serde_json::Value;

const ALL: Window = Window { from: i64::MIN, to: i64::MAX };

fn fixture(name: &str) -> PathBuf {
  PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures/openclaw").join(name)
}

/// The decoded records of a version by session, in order.
fn decoded(version: &str) -> BTreeMap<String, Vec<Value>> {
  let mut sessions: BTreeMap<String, Vec<Value>> = BTreeMap::new();
  for entry in fs::read_dir(fixture("transcripts")).unwrap() {
    let path = entry.unwrap().path();
    if !path.file_name().unwrap().to_str().unwrap().starts_with(&format!("{version}-")) {
      continue;
    }
    for line in fs::read_to_string(&path).unwrap().lines() {
      let line: Value = serde_json::from_str(line).unwrap();
      sessions.entry(word(&line, "session_id").unwrap()).or_default().push(line);
    }
  }
  for lines in sessions.values_mut() {
    lines.sort_by_key(|line| line["seq"].as_i64().unwrap());
  }
  sessions
}

fn word(value: &Value, key: &str) -> Option<String> {
  value[key].as_str().map(str::to_owned)
}

/// The expected reading of a decoded record; written for these records alone, independent of the
/// parser.
fn expected(line: &Value) -> Option<(i64, Message)> {
  let (event, message) = (&line["event"], &line["event"]["message"]);
  let at: jiff::Timestamp = event["timestamp"].as_str().unwrap().parse().unwrap();
  let text = || match &message["content"] {
    Value::String(text) => text.clone(),
    parts => word(&parts[0], "text").unwrap(),
  };
  let read = match message["role"].as_str()? {
    "user" => Message::User {
      text: text(),
      context: String::new(),
      owner: message["__openclaw"]["senderIsOwner"].as_bool(),
      sender: None,
      provenance: word(&message["provenance"], "kind"),
    },
    "assistant" => Message::Assistant {
      calls: message["content"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|part| part["type"] == "toolCall")
        .map(|part| Call {
          id: word(part, "id").unwrap(),
          tool: word(part, "name").unwrap(),
          arguments: part["arguments"].clone(),
        })
        .collect(),
      tainted: message["__openclaw"]["turnTainted"] == true,
      run: word(&message["__openclaw"], "runId"),
    },
    "toolResult" => Message::Tool(Outcome {
      call: word(message, "toolCallId").unwrap(),
      tool: word(message, "toolName").unwrap(),
      text: text(),
      details: message["details"].clone(),
      is_error: message["isError"] == true,
      network: message["__openclaw"]["resultContentSource"] == "network",
    }),
    role => panic!("a role that was not there before: {role}"),
  };
  Some((at.as_microsecond(), read))
}

#[track_caller]
fn whole<T>(found: ReadResult<T>) -> T {
  assert_eq!(found.problems, [""; 0]);
  found.found
}

#[test]
fn every_record_is_read_as_it_was_written() {
  for (version, sessions, records) in [("2026.9.6", 5, 39), ("2026.7.1-2", 2, 24)] {
    let stores = Stores::open(&fixture(version));
    let decoded = decoded(version);
    assert_eq!(decoded.len(), sessions);
    let mut n = 0;
    for (id, lines) in &decoded {
      let wanted: Vec<(i64, Message)> = lines.iter().filter_map(expected).collect();
      let read = whole(stores.records(id, ALL, 10_000));
      assert!(read.is_sorted_by_key(|record| record.seq));
      let read: Vec<(i64, Message)> =
        read.into_iter().map(|record| (record.at, record.message)).collect();
      assert_eq!(read, wanted, "{version} {id}");
      n += wanted.len();
    }
    assert_eq!(n, records, "{version}");
    assert_eq!(whole(stores.active(ALL)).len(), sessions);
    assert_eq!(fs::read_dir(fixture(version).join("agents/main")).unwrap().count(), 1);
  }
}

/// The records around the moment at which `text` was written, and the session.
fn around(version: &str, written: &str) -> (Session, Vec<Record>) {
  let at = written.parse::<jiff::Timestamp>().unwrap().as_microsecond();
  let window = Window { from: at, to: at + 1_000_000 };
  let stores = Stores::open(&fixture(version));
  let mut active = whole(stores.active(window));
  assert_eq!(active.len(), 1, "{active:?}");
  let records = whole(stores.records(&active[0].id, window, 100));
  (active.remove(0), records)
}

fn tools(records: &[Record]) -> Vec<&str> {
  let outcomes = records.iter().filter_map(|record| match &record.message {
    Message::Tool(outcome) => Some(outcome.tool.as_str()),
    _ => None,
  });
  outcomes.collect()
}

#[test]
fn a_moment_finds_its_session_and_its_turn_alone() {
  let (session, records) = around("2026.9.6", "2026-11-21T03:19:38.6Z");
  assert_eq!((session.key.as_str(), session.agent.as_str()), ("agent:main:main", "main"));
  assert!(matches!(&records[0].message, Message::User { owner: Some(true), .. }), "{records:?}");
  assert_eq!(tools(&records), ["web_fetch", "edit"]);
  let (session, records) = around("2026.7.1-2", "2026-11-21T03:21:48.7Z");
  assert_eq!(session.key, "agent:main:explicit:5b0f6f0e-3c1f-4a55-9d0a-7c3d2f1e8a10");
  assert!(matches!(&records[0].message, Message::User { owner: None, .. }), "{records:?}");
  assert_eq!(tools(&records), ["web_fetch", "exec"]);
}

#[test]
fn a_webhook_run_and_a_sub_agent_are_known_as_such() {
  let (hook, records) = around("2026.9.6", "2026-11-21T03:20:29Z");
  assert_eq!(hook.hook_source.as_deref(), Some("webhook"));
  assert_eq!(hook.created_via.as_deref(), Some("cron"));
  assert!(hook.key.starts_with("agent:main:cron:"), "{hook:?}");
  assert_eq!(tools(&records), ["write"]);
  let stores = Stores::open(&fixture("2026.9.6"));
  let child = "agent:main:subagent:8bb42c7e-8ca1-4823-87aa-91349540d37e";
  let child = whole(stores.session(child)).unwrap();
  assert_eq!(child.id, "91b453c6-b1b5-4774-b9b8-de67ece95d65");
  assert_eq!(child.created_via.as_deref(), Some("spawn"));
  let parent = whole(stores.session(child.parent_key.as_deref().unwrap())).unwrap();
  assert_eq!(parent.id, "0d7c6a52-9f4e-4d1b-8f27-2b6f5c9e1a34");
  assert_eq!(parent.participants, ["cli"]);
  assert_eq!(whole(stores.session("agent:main:none")), None);
  assert_eq!(whole(stores.session("../../../etc/passwd")), None);
}

#[test]
fn the_latest_records_are_kept_where_there_are_too_many() {
  for version in ["2026.9.6", "2026.7.1-2"] {
    let stores = Stores::open(&fixture(version));
    for session in whole(stores.active(ALL)) {
      let all = whole(stores.records(&session.id, ALL, 1000));
      let some = whole(stores.records(&session.id, ALL, 3));
      assert_eq!(some, all[all.len() - 3..]);
      assert_eq!(whole(stores.records(&session.id, ALL, 0)), []);
    }
  }
}
