//! The calls that may have written a text, over all sessions that were at work then.
#![forbid(unsafe_code)]

use std::{collections::HashSet, rc::Rc};

use super::{
  super::{
    ledger_row::LedgerRow,
    transcript::{Message, Record, Session, Window},
  },
  material::{SessionStart, origin},
  writes::{Lines, Place, Write, writes},
};
use crate::provenance::Question;

/// How long before a change its call may have been made, and how long after it may be answered.
const BEFORE: i64 = 15 * 60 * 1_000_000;
const AFTER: i64 = 10 * 60 * 1_000_000;
/// How much later than the text was seen its call may have been noted, in microseconds.
const NOTED_LATE: i64 = 5_000_000;
/// Most sessions that are looked at.
pub(super) const MAX_SESSIONS: usize = 64;
/// Most calls that are taken for the same lines; of equal ones the least trusted counts.
const MAX_EQUAL: usize = 4;

/// The most other calls that may have made a text out of another, the latest first.
const MAX_RIVALS: usize = 16;
/// Most calls that one text is made of; further lines get no call.
const MAX_PICKS: usize = 32;

/// One session that was at work.
#[derive(Debug)]
pub(super) struct Scene {
  pub(super) session: Session,
  pub(super) records: Rc<[Record]>,
}

/// All sessions that were at work.
#[derive(Debug, Default)]
pub(super) struct Scenes {
  pub(super) all: Vec<Scene>,
  /// Whether OpenClaw's ledger names the first one as the writer of this very version.
  pub(super) first_is_ledgers: bool,
  /// How the keys of the writer's agent begin, where OpenClaw's ledger names a session as the writer of
  /// this very version that has no records (any more).
  pub(super) private: Option<String>,
  /// Whether no session was left out.
  pub(super) are_all: bool,
  /// Whether OpenClaw has any records at all.
  pub(super) has_records: bool,
}

impl Scenes {
  /// Those of the agent that wrote in a session without records.
  pub(super) fn of_agent(&self) -> impl Iterator<Item = &Scene> {
    let prefix = self.private.as_deref().unwrap_or_default();
    self.all.iter().filter(move |scene| scene.session.key.starts_with(prefix))
  }
}

/// Their calls.
#[derive(Debug)]
pub(super) struct Search<'s> {
  pub(super) scenes: &'s Scenes,
  /// For each session, its calls that may have written to the file.
  writes: Vec<Vec<Write<'s>>>,
}

/// What wrote a text, or some lines of it.
#[derive(Debug)]
pub(super) struct Pick<'p, 's> {
  /// The lines.
  pub(super) text: String,
  pub(super) by: By<'p, 's>,
  /// Calls that ran when the file was changed and may have made the text out of what was there,
  /// where it is not sure that the one above made it then. It is trusted no more than the text that
  /// those calls had read.
  pub(super) rivals: Vec<(&'s Scene, &'p Write<'s>)>,
}

/// Who wrote.
#[derive(Debug)]
pub(super) enum By<'p, 's> {
  /// A call that was given the text.
  Call(&'s Scene, &'p Write<'s>),
  /// A command that names the file and ran then, but does not have the text.
  Output(&'s Scene, &'p Write<'s>),
  /// A session that OpenClaw's ledger names; there is no call on record.
  Ledger(&'s Scene),
  /// A session without any records: a private copy of another session.
  Private,
  /// No call on record wrote it.
  Nobody,
}

/// Whether more may still come on record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Open {
  No,
  /// Only what was noted late.
  Briefly,
  Yes,
}

/// When the calls and their answers can be, for a question.
pub(super) fn window(question: &Question<'_>) -> Window {
  let (seen, changed) = (question.seen_at, question.changed_at);
  Window {
    from: seen.min(changed).saturating_sub(BEFORE),
    to: seen.max(changed).saturating_add(AFTER),
  }
}

/// The latest moment at which a call that wrote may have been noted, in microseconds UTC.
pub(super) fn latest_call(question: &Question<'_>) -> i64 {
  question.seen_at.max(question.changed_at).saturating_add(NOTED_LATE)
}

impl<'s> Search<'s> {
  pub(super) fn new(scenes: &'s Scenes, question: &Question<'_>) -> Self {
    let latest = latest_call(question);
    let of = |scene: &'s Scene| {
      let home = scene.session.workspace.as_deref().unwrap_or(question.workspace);
      let place = Place { home, workspace: question.workspace, file: question.file };
      let mut found = writes(&scene.records, &place);
      found.retain(|write| write.at <= latest);
      found
    };
    Self { scenes, writes: scenes.all.iter().map(of).collect() }
  }

  fn pairs(&self) -> impl Iterator<Item = (&'s Scene, &Write<'s>)> {
    let scenes = self.scenes.all.iter().zip(&self.writes);
    scenes.flat_map(|(scene, writes)| writes.iter().map(move |write| (scene, write)))
  }

  fn ledger(&self) -> Option<&'s Scene> {
    self.scenes.all.first().filter(|_| self.scenes.first_is_ledgers)
  }

  /// What wrote `text`: for each of its lines at least one answer.
  pub(super) fn picks(&self, text: &str, question: &Question<'_>) -> Vec<Pick<'_, 's>> {
    let lines = Lines::new(text);
    let changed_at = question.changed_at;
    let mut open: Vec<bool> = vec![true; lines.len()];
    let mut found: Vec<(Vec<bool>, &'s Scene, &Write<'s>)> = self
      .pairs()
      .map(|(scene, write)| (write.lines(&lines), scene, write))
      .filter(|(has, ..)| has.contains(&true))
      .collect();
    let mut picks = Vec::new();
    while !found.is_empty() && open.contains(&true) && picks.len() < MAX_PICKS {
      let n_new =
        |has: &[bool]| has.iter().zip(&open).filter(|(has, open)| **has && **open).count();
      let key = |(has, scene, write): &(Vec<bool>, &Scene, &Write<'_>)| {
        let is_ledgers =
          self.ledger().is_some_and(|ledgers| ledgers.session.id == scene.session.id);
        (n_new(has), !write.failed(), write.was_running(changed_at), is_ledgers, write.certainty())
      };
      let Some(best) = found.iter().map(key).max().filter(|best| best.0 > 0) else { break };
      let equal: Vec<_> = found.iter().filter(|one| key(one) == best).collect();
      // The latest of equal ones, and no more than a few of them.
      let mut taken = vec![false; lines.len()];
      for (has, scene, write) in equal.into_iter().rev().take(MAX_EQUAL) {
        picks.push(self.pick(lines.text(has, &open), By::Call(scene, write), question));
        taken.iter_mut().zip(has).for_each(|(taken, has)| *taken |= has);
      }
      open.iter_mut().zip(&taken).for_each(|(open, taken)| *open &= !taken);
      found.retain(|(has, ..)| has.iter().zip(&open).any(|(has, open)| *has && *open));
    }
    if open.contains(&true) || lines.len() == 0 {
      let rest = if lines.len() == 0 { text.to_owned() } else { lines.text(&open, &open) };
      picks.push(self.pick(rest, self.without_text(&lines, &open, question), question));
    }
    picks
  }

  fn pick<'p>(&'p self, text: String, by: By<'p, 's>, question: &Question<'_>) -> Pick<'p, 's> {
    let lines = Lines::new(&text);
    let (changed_at, seen_at) = (question.changed_at, question.seen_at);
    let own = match by {
      By::Call(_, write) | By::Output(_, write) => Some(write),
      _ => None,
    };
    // A program that changes a file may set its time as well, but not the time at which memfw saw
    // it.
    let is_sure = own.is_some_and(|write| {
      write.surely_ran(changed_at) && write.was_running(seen_at) && write.has_all(&lines)
    });
    let is_told = matches!(by, By::Ledger(_) | By::Private);
    let mut rivals: Vec<_> = self
      .pairs()
      .filter(|(_, write)| {
        !is_sure && !is_told && !own.is_some_and(|own| std::ptr::eq(own, *write))
      })
      .filter(|(_, write)| write.was_running(changed_at) || write.was_running(seen_at))
      .filter(|(_, write)| !write.failed() && write.may_have_made(&lines))
      .collect();
    rivals.sort_by_key(|(_, write)| std::cmp::Reverse(write.at));
    rivals.truncate(MAX_RIVALS);
    Pick { text, by, rivals }
  }

  /// Who wrote lines that no call was given as they are.
  fn without_text(&self, lines: &Lines<'_>, open: &[bool], question: &Question<'_>) -> By<'_, 's> {
    let running = || self.pairs().filter(|(_, write)| write.was_running(question.changed_at));
    let has_parts = |write: &Write<'_>| {
      let mut open = open.iter().enumerate().filter(|(_, open)| **open);
      !write.failed() && open.all(|(line, _)| write.has_part_of(lines.get(line)))
    };
    if let Some((scene, write)) = running().filter(|(_, write)| has_parts(write)).last() {
      return By::Call(scene, write);
    }
    if let Some((scene, write)) = running().filter(|(_, write)| write.is_naming_command()).last() {
      return By::Output(scene, write);
    }
    // A program that a command installs or fetches may write as well, without a record.
    let installs =
      |write: &Write<'_>| write.runs_foreign_code() && write.surely_ran(question.changed_at);
    match (self.ledger(), running().filter(|(_, write)| installs(write)).last()) {
      (Some(scene), _) => By::Ledger(scene),
      (None, Some((scene, write))) => By::Output(scene, write),
      (None, None) if self.scenes.private.is_some() => By::Private,
      (None, None) => By::Nobody,
    }
  }

  /// Whether more about a pick may still come on record.
  pub(super) fn open(&self, pick: &Pick<'_, 's>, question: &Question<'_>) -> Open {
    let is_open = match pick.by {
      By::Call(scene, write) | By::Output(scene, write) => {
        let is_unanswered = write.answer.is_none() && !scene.went_on_after(write.at);
        // Calls that ran then may have changed the text that this call wrote before.
        let is_older = !write.was_running(question.changed_at) && pick.rivals.is_empty();
        is_unanswered || is_older && !self.scenes.all.iter().all(|scene| scene.went_on(question))
      }
      By::Ledger(scene) => !scene.went_on(question),
      By::Private => !self.scenes.of_agent().any(|scene| scene.went_on(question)),
      By::Nobody if self.scenes.all.is_empty() => false,
      // A call is on record before it runs.
      By::Nobody if !self.scenes.all.iter().any(Scene::has_open_call) => return Open::Briefly,
      By::Nobody => true,
    };
    if is_open { Open::Yes } else { Open::No }
  }

  /// Whether OpenClaw saw nothing foreign in the turn that made this version.
  pub(super) fn clean_turn(&self, row: &LedgerRow) -> Option<bool> {
    let scene = self.ledger()?;
    if origin(&scene.session) != SessionStart::Person {
      return Some(false);
    }
    // The row is written just before the file, while the call runs.
    let at = row.observed_at?;
    let writes = self.writes.first()?.iter();
    let write = writes.filter(|write| write.was_running(at) && write.answer.is_some()).last()?;
    Some(!write.is_marked)
  }

  /// Whole lines that clean calls took out of the file, when it was changed.
  pub(super) fn replaced(&self, question: &Question<'_>) -> Vec<String> {
    let then = self.pairs().filter(|(scene, write)| {
      write.was_running(question.changed_at) && !write.is_command && is_clean(scene, write)
    });
    then.flat_map(|(_, write)| write.removed()).cloned().collect()
  }
}

/// Whether OpenClaw saw nothing foreign when this session made this call, and the call is done.
fn is_clean(scene: &Scene, write: &Write<'_>) -> bool {
  let is_done = write.answer.is_some() && !write.failed();
  is_done && !write.is_marked && origin(&scene.session) == SessionStart::Person
}

impl Pick<'_, '_> {
  /// Whether a call wrote it in whose turn OpenClaw saw nothing foreign.
  pub(super) fn is_clean(&self) -> bool {
    let mut rivals = self.rivals.iter();
    matches!(self.by, By::Call(scene, write) if is_clean(scene, write))
      && rivals.all(|(scene, write)| is_clean(scene, write))
  }
}

impl Scene {
  /// Whether anything came on record well after the change.
  fn went_on(&self, question: &Question<'_>) -> bool {
    let last = self.records.last().map_or(i64::MIN, |record| record.at);
    last > question.changed_at.saturating_add(NOTED_LATE)
  }

  /// Whether a call runs that has no answer yet.
  fn has_open_call(&self) -> bool {
    let mut answered: HashSet<&str> = HashSet::new();
    self.records.iter().rev().any(|record| match &record.message {
      Message::Tool(outcome) => {
        answered.insert(&outcome.call);
        false
      }
      Message::Assistant { calls, .. } => {
        calls.iter().any(|call| !answered.contains(call.id.as_str()))
          && !self.went_on_after(record.at)
      }
      _ => false,
    })
  }

  /// Whether a person spoke after `at`: a call that was not answered until then never will be.
  fn went_on_after(&self, at: i64) -> bool {
    self.records.iter().any(|record| {
      record.at > at && matches!(record.message, Message::User { .. } | Message::Reset)
    })
  }
}
