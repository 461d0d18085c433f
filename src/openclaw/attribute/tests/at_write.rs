//! What a plugin knows about the origin of a text before it is written, compared with what the transcripts say after
//! it: every entry that real runs wrote.
#![forbid(unsafe_code)]

use std::{collections::BTreeMap, fmt::Write as _, path::Path};

use super::{
  paraphrases::trust,
  recorded::{Entry, WORKSPACE, entries},
  store::{Store, read},
};
use crate::{
  openclaw::{
    observed::{Observed, Pending},
    transcript::{Call, Message, Record},
  },
  provenance::Attribution,
};

/// The part of the turn that a plugin has seen when the call that wrote an entry began: of tools everything, of people
/// only whether the owner began the turn. `None` if no call of a tool for files wrote it: what a command writes is
/// known only after it has run, and of another program there is no call.
fn seen(entry: &Entry, store: &Store) -> Option<(Observed, String)> {
  let id = entry.session.as_ref()?;
  let (session, records) = store.sessions.iter().find(|(session, _)| session.id == *id)?;
  let escaped = serde_json::to_string(&entry.text).unwrap();
  let (at, writer) = records.iter().enumerate().find_map(|(at, record)| {
    let Message::Assistant { calls, .. } = &record.message else { return None };
    let writes = |call: &&Call| {
      ["write", "edit", "apply_patch"].contains(&call.tool.as_str())
        && call.arguments.to_string().contains(escaped.trim_matches('"'))
    };
    Some((at, calls.iter().find(writes)?.clone()))
  })?;
  let before = &records[..at];
  let is_user = |record: &Record| matches!(record.message, Message::User { .. });
  let turn = before.iter().rposition(is_user).unwrap_or(0);
  let mut observed = Observed::new(id, &session.key, None, Path::new(WORKSPACE));
  let mut calls: BTreeMap<&str, &Call> = BTreeMap::new();
  for record in &before[turn..] {
    match &record.message {
      Message::User { owner: Some(owner), .. } => observed.message("", Some(*owner), None),
      Message::Assistant { calls: made, .. } => {
        calls.extend(made.iter().map(|call| (call.id.as_str(), call)));
      }
      Message::Tool(outcome) => {
        let arguments = calls.get(outcome.call.as_str()).map(|call| &call.arguments);
        let subject = ["url", "path", "command", "query", "name"]
          .into_iter()
          .find_map(|name| arguments.and_then(|all| all[name].as_str()))
          .unwrap_or_default();
        observed.answer(&outcome.tool, subject, &outcome.text, outcome.is_error, outcome.network);
      }
      _ => {}
    }
  }
  Some((observed, writer.tool))
}

fn at_write(entry: &Entry, store: &Store) -> Option<Attribution> {
  let (observed, tool) = seen(entry, store)?;
  Some(observed.attribute(&Pending {
    workspace: Path::new(WORKSPACE),
    file: Path::new(&entry.file),
    tool: &tool,
    text: &entry.text,
    at: entry.changed_at,
    owner_devices: &[],
  }))
}

#[derive(Default)]
struct Row {
  entries: usize,
  right_after: usize,
  unseen: usize,
  right: usize,
  equal: usize,
  lower: usize,
  higher: usize,
}

#[test]
fn at_the_write_no_entry_is_trusted_more_than_by_the_transcripts() {
  let mut rows: BTreeMap<(String, u64, String), Row> = BTreeMap::new();
  for entry in entries() {
    let store = entry.store();
    let answer = entry.ask(entry.row(), &store);
    let after = &answer.attributions[0];
    let row = rows.entry((entry.version.clone(), entry.turn, entry.source.clone())).or_default();
    row.entries += 1;
    row.right_after += usize::from(after.source.as_str() == entry.source);
    let Some(before) = at_write(&entry, &store) else {
      row.unseen += 1;
      continue;
    };
    row.right += usize::from(before.source.as_str() == entry.source);
    let [then, now] = [&before, after].map(|one| trust(&one.source, &one.fed_by));
    match then.cmp(&now) {
      std::cmp::Ordering::Equal => row.equal += 1,
      std::cmp::Ordering::Less => row.lower += 1,
      std::cmp::Ordering::Greater => row.higher += 1,
    }
    assert!(then <= now, "{}: {before:#?}", entry.text);
  }
  let mut table = "| sample | true origin | entries | right by transcripts | not seen before the write | right at the \
                   write | equal trust | lower | higher |\n|---|---|---|---|---|---|---|---|---|\n"
    .to_owned();
  for ((version, turn, source), row) in &rows {
    let Row { entries, right_after, unseen, right, equal, lower, higher } = row;
    writeln!(
      table,
      "| {version}, turn {turn} | `{source}` | {entries} | {right_after} | {unseen} | {right} | {equal} | {lower} | \
       {higher} |"
    )
    .unwrap();
  }
  println!("{table}");
  assert!(rows.values().map(|row| row.entries).sum::<usize>() == 23);
  let docs = read("../../../docs/attribution.md");
  assert!(docs.contains(&table), "docs/attribution.md has another table than\n{table}");
}
