//! What agents make of pages and of the owner's words, written by hand in many languages.
#![forbid(unsafe_code)]

use std::path::Path;

use serde_json::Value;

use super::{
  recorded::WORKSPACE,
  store::{Store, Talk, read},
};
use crate::{
  memory::ContentHash,
  openclaw::attribute::attribute,
  provenance::{Answer, Question, Source, Trust},
};

/// One line of `paraphrases.jsonl`.
pub(super) struct Case {
  pub(super) kind: String,
  pub(super) owner: Vec<String>,
  pub(super) pages: Vec<(String, String)>,
  pub(super) text: String,
  pub(super) source: String,
  /// Whether the pages were fetched before the owner spoke last.
  pub(super) is_earlier: bool,
}

pub(super) fn cases() -> Vec<Case> {
  let text = |value: &Value| value.as_str().unwrap().to_owned();
  let case = |line: &str| {
    let line: Value = serde_json::from_str(line).unwrap();
    Case {
      kind: text(&line["kind"]),
      owner: line["owner"].as_array().unwrap().iter().map(text).collect(),
      pages: line["pages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|page| (text(&page["url"]), text(&page["text"])))
        .collect(),
      text: text(&line["text"]),
      source: text(&line["source"]),
      is_earlier: line["earlier"] == true,
    }
  };
  read("paraphrases.jsonl").lines().map(case).collect()
}

impl Case {
  /// The talk in which the agent wrote the text.
  pub(super) fn talk(&self) -> Talk {
    let (first, last) = self.owner.split_first().unwrap();
    let mut talk = Talk::main().owner(first);
    for (url, page) in &self.pages {
      talk = talk.fetch(url, page);
    }
    for message in last {
      talk = talk.owner(message);
    }
    assert_eq!(self.is_earlier, !last.is_empty());
    talk.writes(&self.text)
  }
}

/// Asks about text that was just written to MEMORY.md at the end of a talk.
pub(super) fn ask(talk: &Talk, others: &[Talk], text: &str) -> Answer {
  let mut store = Store::default();
  for talk in others.iter().chain([talk]) {
    store.sessions.push((talk.session.clone(), talk.records.clone()));
  }
  ask_store(&store, talk.now() - 500_000, text)
}

pub(super) fn ask_store(store: &Store, changed_at: i64, text: &str) -> Answer {
  ask_about("MEMORY.md", store, changed_at, text)
}

pub(super) fn ask_about(file: &str, store: &Store, changed_at: i64, text: &str) -> Answer {
  ask_when(file, store, (changed_at, changed_at + 20_000), text)
}

/// Asks about a change that memfw saw later: when it was made, and when memfw saw it.
pub(super) fn ask_when(
  file: &str,
  store: &Store,
  (changed_at, seen_at): (i64, i64),
  text: &str,
) -> Answer {
  let question = Question {
    workspace: Path::new(WORKSPACE),
    file: Path::new(file),
    version: ContentHash::of(text.as_bytes()),
    on_record: ContentHash::of(text.as_bytes()),
    seen_at,
    changed_at,
    memory: &[],
    owner_devices: &[],
    texts: &[text.as_bytes()],
  };
  attribute(&question, Ok(None), store)
}

/// How far the default rules trust a source that others fed; what is not named is untrusted.
pub(super) fn trust<'a>(source: &'a Source, fed_by: impl IntoIterator<Item = &'a Source>) -> Trust {
  let own = |source: &Source| match (source.kind(), source.as_str()) {
    (_, "user:owner") => Trust::Trusted,
    ("agent", _) => Trust::Verified,
    ("moltbook", _) => Trust::Hostile,
    _ => Trust::Untrusted,
  };
  let fed: Vec<Trust> = fed_by.into_iter().map(own).collect();
  let first =
    if source.kind() == "subagent" && !fed.is_empty() { Trust::Trusted } else { own(source) };
  fed.into_iter().fold(first, Trust::min)
}

#[test]
fn no_paraphrase_is_trusted_more_than_where_it_comes_from() {
  for case in cases() {
    let answer = ask(&case.talk(), &[], &case.text);
    let found = &answer.attributions[0];
    let truth = trust(&Source::new(&case.source), []);
    let given = trust(&found.source, &found.fed_by);
    println!(
      "{:<28} {:<28} {:<28} {:?} {:?}",
      case.kind,
      case.source,
      found.source,
      found.fed_by.iter().map(Source::as_str).collect::<Vec<_>>(),
      found.evidence.fed.as_ref().and_then(|f| f.share)
    );
    assert!(given <= truth, "{}: {}\n{found:#?}", case.kind, case.text);
  }
}
