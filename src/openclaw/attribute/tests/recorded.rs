//! The true origin of every entry that real runs wrote, and of the same runs changed.
#![forbid(unsafe_code)]

use std::path::Path;

use serde_json::Value;

use super::store::{Store, fixtures, read};
use crate::{
  memory::{ContentHash, id::from_hex},
  openclaw::{Layout, OpenClawRecords, attribute::attribute, ledger_row::LedgerRow},
  provenance::{AgentRecords as _, Answer, Attestation, Outlook, Question},
};

pub(super) const WORKSPACE: &str = "/home/claw/.openclaw/workspace";

/// One entry of `expected.json`.
pub(super) struct Entry {
  pub(super) version: String,
  pub(super) turn: u64,
  pub(super) file: String,
  pub(super) text: String,
  pub(super) source: String,
  pub(super) session: Option<String>,
  pub(super) changed_at: i64,
  raw: Value,
}

/// All entries that were written while memfw would have looked on.
pub(super) fn entries() -> Vec<Entry> {
  let all: Vec<Value> = serde_json::from_str(&read("expected.json")).unwrap();
  let entry = |raw: Value| {
    let text = |name: &str| raw[name].as_str().map(str::to_owned);
    let (version, turn) = (text("version").unwrap(), raw["turn"].as_u64().unwrap());
    let source = match raw["origin"].as_str().unwrap() {
      "preexisting" => return None,
      "user" => "user:owner".to_owned(),
      "web_fetch" if version == "2026.9.6" => "web_fetch:127.0.0.1".to_owned(),
      "web_fetch" => "web_fetch:status.example.com".to_owned(),
      "webhook" => "webhook".to_owned(),
      "subagent" => "subagent:release-summary".to_owned(),
      "external_edit" => "external-edit".to_owned(),
      other => panic!("unknown origin {other}"),
    };
    let at =
      text("written_at").unwrap_or_else(|| read(&format!("after-turn/{version}/{turn}/time")));
    let at: jiff::Timestamp = at.trim().parse().unwrap();
    Some(Entry {
      file: text("file").unwrap(),
      text: text("text").unwrap(),
      session: text("session_id"),
      changed_at: at.as_microsecond(),
      version,
      turn,
      source,
      raw,
    })
  };
  all.into_iter().filter_map(entry).collect()
}

impl Entry {
  /// The file's hash after the turn.
  #[expect(clippy::disallowed_methods, reason = "a test reads its fixtures")]
  pub(super) fn hash(&self) -> ContentHash {
    let path = format!("after-turn/{}/{}/{}", self.version, self.turn, self.file);
    ContentHash::of(&std::fs::read(fixtures().join(path)).unwrap())
  }

  /// What was on record some seconds after the write.
  pub(super) fn store(&self) -> Store {
    Store::recorded(&self.version, self.changed_at + 3_000_000)
  }

  /// OpenClaw's row about the file after the turn.
  pub(super) fn row(&self) -> Option<LedgerRow> {
    if self.version != "2026.9.6" {
      return None;
    }
    let rows = read(&format!("after-turn/{}/{}/ledger.json", self.version, self.turn));
    let rows: Vec<Value> = serde_json::from_str(&rows).unwrap();
    let row = rows.into_iter().find(|row| row["relativePath"] == self.file.as_str())?;
    let text = |name: &str| row[name].as_str().map(str::to_owned);
    Some(LedgerRow {
      hash: ContentHash::from_slice(&from_hex(row["fileHash"].as_str().unwrap()).unwrap()).unwrap(),
      class: text("originClass"),
      json: row.to_string(),
      session_id: text("sessionId"),
      session_key: text("sessionKey"),
      observed_at: row["observedAt"].as_i64().map(|ms| ms * 1000),
    })
  }

  pub(super) fn ask(&self, row: Option<LedgerRow>, store: &Store) -> Answer {
    let question = Question {
      workspace: Path::new(WORKSPACE),
      file: Path::new(&self.file),
      version: self.hash(),
      on_record: self.hash(),
      seen_at: self.changed_at + 40_000,
      changed_at: self.changed_at,
      memory: &[],
      owner_devices: &[],
      texts: &[self.text.as_bytes()],
    };
    attribute(&question, Ok(row), store)
  }
}

#[test]
fn the_engine_gets_the_same_from_the_stores_as_they_are() {
  for entry in entries() {
    let state_dir = fixtures().parent().unwrap().join(&entry.version);
    let layout = Layout { state_dir, workspace: WORKSPACE.into() };
    let answer = OpenClawRecords::new(layout).attribute(&Question {
      workspace: Path::new(WORKSPACE),
      file: Path::new(&entry.file),
      version: entry.hash(),
      on_record: entry.hash(),
      seen_at: entry.changed_at + 40_000,
      changed_at: entry.changed_at,
      memory: &[],
      owner_devices: &[],
      texts: &[entry.text.as_bytes()],
    });
    assert_eq!(answer.attributions[0].source.as_str(), entry.source, "{}", entry.text);
  }
}

#[test]
fn every_recorded_entry_has_its_true_origin() {
  let entries = entries();
  assert_eq!(entries.len(), 23);
  for entry in entries {
    let store = entry.store();
    let answer = entry.ask(entry.row(), &store);
    let found = &answer.attributions[0];
    let shown = format!("{} turn {}: {}\n{found:#?}", entry.version, entry.turn, entry.text);
    assert_eq!(found.source.as_str(), entry.source, "{shown}");
    assert_eq!(found.session, entry.session, "{shown}");
    if entry.source != "external-edit" {
      assert_eq!(answer.outlook, Outlook::Final, "{shown}");
      let written = found.evidence.written.as_ref().unwrap();
      assert_eq!(written.tool, entry.raw["tool"].as_str().unwrap(), "{shown}");
    }
    let is_ledgers = entry.raw["ledger_hash_matches"] == true;
    assert_eq!(found.evidence.ledger_hash, is_ledgers, "{shown}");
    // A turn is clean when OpenClaw saw nothing foreign in it, which it would not in a webhook.
    let is_clean = entry.raw["openclaw_turn_tainted"] == false && entry.source.starts_with("user:");
    if is_ledgers {
      assert_eq!(found.attestation, Attestation::ContentHashed, "{shown}");
      assert_eq!(answer.clean_turn, Some(is_clean), "{shown}");
    } else {
      let is_told = is_clean && entry.row().is_some();
      assert_eq!(answer.clean_turn, is_told.then_some(true), "{shown}");
    }
  }
}
