//! What the agent is about to read: the text of memory by trust, and which run has got which lines.
//!
//! The files and the ledger are read as `memfw recall` reads them. What a run has got is written to the ledger
//! after the reply, so that no run waits for it.
#![forbid(unsafe_code)]

use std::{
  collections::{HashMap, VecDeque},
  ops::RangeInclusive,
  path::PathBuf,
  slice,
};

use super::CallJudge;
use crate::{
  command::recall::bytes_of,
  config::Config,
  engine::{Event, EventKind, readable::Readable},
  link::{
    Call, Handing, Inject, Recall, Recalled, Reply, RunNames, Wanted,
    limits::{MAX_HANDED_BYTES, MAX_REPLY_BYTES},
    message::{Answer, Fault},
  },
  memory::line::{LineKind, line_end, line_hash},
  os::{Clock as _, SystemClock},
  provenance::Trust,
  recall::{Excerpts, Item, LeftOut, Rules, Selection, Sheet, frame},
  store::{Injection, Ledger},
  terminal::{escape::lossy, failure::Failure},
};

/// How many requests without a run are remembered (a choice: a run names those of its start at once).
const MAX_REMEMBERED: usize = 64;
/// The longest name of a run that the ledger keeps, in characters (a choice: those of agents have up to 100).
const MAX_NAME_CHARS: usize = 200;
/// A line with fewer bytes is in too many texts to tell anything (a choice).
const MIN_LINE_BYTES: usize = 4;

/// What was handed out.
#[derive(Clone, Debug, Default)]
pub(super) struct Handed {
  via: String,
  entries: u64,
  lines: Vec<[u8; 8]>,
}

/// What was handed out and is not in the ledger yet.
#[derive(Debug, Default)]
pub(super) struct Reads {
  /// By the id of its request, for requests whose run is not known yet.
  waiting: VecDeque<(u64, Handed)>,
  /// With its run.
  due: Vec<(RunNames, Handed)>,
}

/// What is known about a file that is asked for.
enum Found {
  Excerpts(Excerpts),
  /// It is guarded, and cannot be read now.
  Unread,
  /// memfw knows nothing about it.
  Unknown,
}

impl CallJudge<'_> {
  /// The texts in the form in which they may reach the model.
  pub(super) fn recall(&mut self, id: u64, recall: &Recall) -> Result<Reply, Failure> {
    let config = self.context.config().map_or_else(|_| self.config.clone(), |now| now.config);
    let places = match &self.places {
      Ok(places) => places,
      Err(why) => return Ok(Reply::failed(Some(id), Fault::Unavailable, why.as_str())),
    };
    let path = |wanted: &Wanted| {
      let (workspace, agent) = (recall.of.workspace.clone(), recall.of.agent.clone());
      let path = wanted.path.clone();
      let call = Call { path, workspace, agent, ..Call::default() };
      let (root, rel) = places.memory_file(&call, &call.path)?;
      Some(root.join(rel))
    };
    let paths: Vec<Option<PathBuf>> =
      recall.texts.iter().map(|one| if one.path.is_empty() { None } else { path(one) }).collect();
    let rules = Rules {
      min_trust: config.recall_min_trust,
      include_unvalidated: config.recall_include_unvalidated,
    };
    let ledger = self.engine()?.ledger();
    let mut files = Files::new(ledger, rules)?;
    let mut handed = Handed { via: recall.via.clone(), ..Handed::default() };
    let mut texts = Vec::with_capacity(recall.texts.len());
    let (mut n_results, mut n_bytes) = (0, 0);
    for (wanted, path) in recall.texts.iter().zip(paths) {
      let found = match path {
        Some(path) => files.find(path, &config)?,
        None => &Found::Unknown,
      };
      let one = if recall.is_search && n_results >= config.recall_max_results {
        Recalled::as_it_is(Handing::Drop)
      } else {
        text_of(found, wanted, rules, &mut handed)
      };
      n_results += u64::from(one.entries > 0);
      n_bytes += one.text.as_ref().map_or(0, String::len);
      let is_too_much = n_bytes > MAX_REPLY_BYTES;
      texts.push(if is_too_much {
        only(LeftOut { beyond_max: 1, ..LeftOut::default() })
      } else {
        one
      });
    }
    drop(files);
    if recall.of.run.is_some() {
      self.reads.due.push((recall.of.clone(), handed));
    } else {
      self.reads.waiting.push_back((id, handed));
      if self.reads.waiting.len() > MAX_REMEMBERED {
        self.reads.waiting.pop_front();
      }
    }
    Ok(Reply { id: Some(id), body: Answer::Recalled { texts } })
  }

  /// Notes which run got the texts of earlier requests.
  pub(super) fn inject(&mut self, id: u64, inject: &Inject) -> Reply {
    if inject.of.run.is_none() {
      return Reply::failed(Some(id), Fault::BadRequest, "the run is missing");
    }
    let waiting = std::mem::take(&mut self.reads.waiting);
    let (these, others) = waiting.into_iter().partition(|(id, _)| inject.recalls.contains(id));
    self.reads.waiting = others;
    let mut all = Handed::default();
    let these: VecDeque<(u64, Handed)> = these;
    for (_, one) in these {
      all.via = one.via;
      all.entries += one.entries;
      all.lines.extend(one.lines);
    }
    let entries = all.entries;
    self.reads.due.push((inject.of.clone(), all));
    Reply { id: Some(id), body: Answer::Injected { entries } }
  }

  /// What is due to be written to the ledger.
  pub(super) fn take_reads(&mut self) -> Vec<(RunNames, Handed)> {
    let due = std::mem::take(&mut self.reads.due);
    due.into_iter().filter(|(_, handed)| handed.entries > 0).collect()
  }
}

pub(super) fn record(
  ledger: &mut Ledger,
  of: &RunNames,
  handed: &Handed,
  at: i64,
) -> Result<(), Failure> {
  let session = name(of.session.as_deref().or(of.session_id.as_deref()).unwrap_or("unknown"));
  let one = Injection {
    run: name(of.run.as_deref().unwrap_or("unknown")),
    session,
    agent: name(of.agent.as_deref().unwrap_or("unknown")),
    via: name(&handed.via),
    lines: handed.lines.clone(),
  };
  let n = usize::try_from(handed.entries).unwrap_or(usize::MAX);
  let event = Event::new(EventKind::Injected)
    .session(&one.session)
    .count(n)
    .detail(format!("run {}, by {}", one.run, one.via));
  ledger.add_injection(&one, &event.row(), at)?;
  event.log(None);
  Ok(())
}

/// A name that somebody else chose, in a form that is safe wherever it is shown.
fn name(text: &str) -> String {
  let is_plain = |c: char| c.is_ascii_alphanumeric() || "._:-+@/#".contains(c);
  text.chars().take(MAX_NAME_CHARS).map(|c| if is_plain(c) { c } else { '?' }).collect()
}

/// The files that a request names, each read once.
struct Files<'l> {
  ledger: &'l Ledger,
  readable: Readable<'l>,
  found: HashMap<PathBuf, Found>,
}

impl<'l> Files<'l> {
  fn new(ledger: &'l Ledger, rules: Rules) -> Result<Self, Failure> {
    let mut readable = Readable::new(ledger, SystemClock.now())?;
    if rules.include_unvalidated {
      // Where texts cannot be compared, all of them count as withheld.
      readable.compare_withheld()?;
    }
    Ok(Self { ledger, readable, found: HashMap::new() })
  }

  fn find(&mut self, path: PathBuf, config: &Config) -> Result<&Found, Failure> {
    if !self.found.contains_key(&path) {
      let found = match self.ledger.file(&path)? {
        None => Found::Unknown,
        Some(row) => match bytes_of(&row, config) {
          Ok(Some(bytes)) => Found::Excerpts(self.readable.excerpts(&row, bytes)?),
          Ok(None) => Found::Unknown,
          Err(_) => Found::Unread,
        },
      };
      self.found.insert(path.clone(), found);
    }
    Ok(self.found.get(&path).unwrap_or(&Found::Unknown))
  }
}

/// The form in which one text may reach the model.
fn text_of(found: &Found, wanted: &Wanted, rules: Rules, handed: &mut Handed) -> Recalled {
  match found {
    Found::Excerpts(excerpts) => {
      let part = match range(wanted) {
        Some(lines) => &excerpts.within(lines),
        None => excerpts,
      };
      let selection = Selection::of(slice::from_ref(part), rules);
      let shown = || selection.entries().flat_map(|entry| &entry.shown);
      for one in shown() {
        handed.lines.extend(hashes(one.text));
      }
      let entries = selection.entries().count();
      handed.entries += entries as u64;
      let is_blocked = |item: &&Item<'_>| matches!(item, Item::Blocked { .. });
      Recalled {
        handing: Handing::Replace,
        text: Some(capped(lossy(&Sheet::of_part(&selection)))),
        entries,
        framed: shown().filter(|one| one.frame.is_some()).count(),
        blocked: selection.items.iter().filter(is_blocked).count(),
      }
    }
    Found::Unread => only(LeftOut { unread_files: 1, ..LeftOut::default() }),
    Found::Unknown => match &wanted.text {
      None => Recalled::as_it_is(Handing::Keep),
      // The source of such a text is not known, and an unknown source is untrusted.
      Some(_) if rules.min_trust > Trust::Untrusted => {
        only(LeftOut { below_trust: 1, ..LeftOut::default() })
      }
      Some(text) => Recalled {
        handing: Handing::Replace,
        text: Some(capped(frame::framed(None, frame::NOT_GUARDED, text.as_bytes()))),
        entries: 1,
        framed: 1,
        blocked: 0,
      },
    },
  }
}

/// Only the line that says what is left out.
fn only(left_out: LeftOut) -> Recalled {
  let text = left_out.words().map(|words| format!("{}\n", frame::note(None, &words)));
  Recalled { text, ..Recalled::as_it_is(Handing::Replace) }
}

fn range(wanted: &Wanted) -> Option<RangeInclusive<usize>> {
  let from = usize::try_from(wanted.from?).unwrap_or(usize::MAX);
  let lines = wanted.lines.map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX));
  Some(from..=from.saturating_add(lines.max(1) - 1))
}

/// A text that is not longer than what is handed out, cut at the end of a line.
fn capped(mut text: String) -> String {
  if text.len() > MAX_HANDED_BYTES {
    let mut end = MAX_HANDED_BYTES;
    while !text.is_char_boundary(end) {
      end -= 1;
    }
    text.truncate(end);
    text.truncate(text.rfind('\n').map_or(end, |at| at + 1));
    text.push('\n');
    text.push_str(&frame::note(None, "the rest is left out, because it is too long"));
    text.push('\n');
  }
  text
}

/// The hashes of the lines of a text that tell something.
pub(in crate::command) fn hashes(text: &[u8]) -> Vec<[u8; 8]> {
  let mut found = Vec::new();
  let mut at = 0;
  while at < text.len() {
    let end = line_end(text, at);
    let line = text.get(at..end).unwrap_or_default();
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.len() >= MIN_LINE_BYTES && LineKind::of(line) == LineKind::Text {
      found.push(line_hash(line).short());
    }
    at = end;
  }
  found
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn a_range_has_at_least_one_line_and_no_overflow() {
    let wanted = |from, lines| Wanted { from, lines, ..Wanted::default() };
    assert_eq!(range(&wanted(None, Some(3))), None);
    assert_eq!(range(&wanted(Some(3), Some(2))), Some(3..=4));
    assert_eq!(range(&wanted(Some(3), Some(0))), Some(3..=3));
    assert_eq!(range(&wanted(Some(u64::MAX), Some(9))), Some(usize::MAX..=usize::MAX));
    assert_eq!(range(&wanted(Some(2), None)), Some(2..=usize::MAX));
  }

  #[test]
  fn a_long_text_is_cut_at_a_line_and_says_so() {
    let long = "> ä b\n".repeat(MAX_HANDED_BYTES / 4);
    let short = capped(long);
    assert!(short.len() < MAX_HANDED_BYTES + 100);
    assert!(short.ends_with("> ä b\n\n[memfw: the rest is left out, because it is too long]\n"));
    assert_eq!(capped("- a\n".to_owned()), "- a\n");
  }

  #[test]
  fn lines_are_known_by_their_text() {
    assert_eq!(hashes(b"- Ann likes tea.\r\n\n---\n- x\n- Bob\n").len(), 2);
    assert_eq!(hashes(b"- Bob\n"), hashes(b"- Bob"));
    assert_eq!(name("agent:main:main\n[memfw"), "agent:main:main??memfw");
  }
}
