//! Notifications: what follows a quarantine outside of the file. People are told, and the agent's index
//! is checked.
//!
//! Both work from the ledger's events, so that events of earlier runs are handled as well. One program
//! runs at a time, and no file waits for it. A message holds only memfw's own words: how many blocks, of
//! which kind of source, in which file, by which ids; never text of a memory, of a page or of a sender.
#![forbid(unsafe_code)]

use std::{
  collections::{BTreeMap, BTreeSet},
  ffi::OsString,
  path::{Path, PathBuf},
  time::Duration,
};

use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::{
  action::{Action, Surroundings},
  judge::Via,
  notice::{News, message, plain_name},
};
use crate::{
  engine::{EngineError, EventKind, Target, event::shown},
  judging::origin::can_be_allowed,
  memory::BlockId,
  os::subprocess::Subprocess,
  provenance::{Attestation, State, Trust},
  store::{EventFilter, EventRow, Item, ItemFilter, Ledger, Part, PartKind, StateKey, StoreError},
};

/// How long the agent has to renew its index by itself (a choice); it takes two seconds, and more when
/// busy.
const INDEX_AFTER: Duration = Duration::from_mins(1);
/// How often an index that still holds quarantined text is checked (a choice).
const INDEX_EVERY: Duration = Duration::from_mins(10);
/// The time limit of a program that sends a message (a choice).
const LIMIT: Duration = Duration::from_secs(30);
/// The time limit of a program that renews an index (a choice).
const INDEX_LIMIT: Duration = Duration::from_mins(5);
/// How often a running program is checked for its end (a choice).
const LOOK: Duration = Duration::from_millis(250);
/// The most sources of which the last message is remembered; further ones share an entry (a choice).
const MAX_SOURCES: usize = 64;
/// The most events that are read at a time.
const MAX_EVENTS: u32 = 10_000;
/// From which score on a flagged text looks like poison: that of a trigger of severity medium
/// (`detect/policy.rs`).
const POISON: f32 = 0.45;
/// The name under which losses are told, like that of a source.
const LOSSES: &str = "loss";
/// The most flagged blocks of which it is remembered that people were told (a choice).
const MAX_TOLD_FLAGS: usize = 4096;

/// The programs that can be run, each as an argument vector.
#[derive(Clone, Debug, Default)]
pub struct Helpers {
  /// Tells people; the message is one more argument. `None` where nobody wants to be told; the error says
  /// why it cannot be done.
  pub notify: Option<Result<Vec<OsString>, String>>,
  /// Renews the index of a workspace.
  pub reindex: BTreeMap<PathBuf, Vec<OsString>>,
  /// How to ask the judge (layer 3). `None` if it is off; the error says why it cannot be asked.
  pub judge: Option<Result<Via, String>>,
}

/// Up to where people were notified, as stored in the ledger.
#[derive(Debug, Default, Serialize, Deserialize)]
struct NotifiedUntil {
  /// The id of the last event that was handled.
  last: i64,
  /// When people were last notified about each source, microseconds UTC.
  at: BTreeMap<String, i64>,
}

/// A pending check of the agent's index.
#[derive(Debug)]
struct Check {
  due: Duration,
  /// Whether the agent was already asked to renew the index.
  asked: bool,
}

enum Running {
  Message,
  Index(PathBuf),
}

/// The pending notifications and index checks.
#[derive(Default)]
pub(super) struct Notifications {
  pub(super) helpers: Helpers,
  /// Whether there may be new events.
  stirred: bool,
  told: Option<NotifiedUntil>,
  news: BTreeMap<String, News>,
  /// The flagged blocks that were news already: a flag is recorded, and then its source.
  told_flags: BTreeSet<BlockId>,
  checks: BTreeMap<Target, Check>,
  running: Option<(Running, Subprocess)>,
}

impl Notifications {
  pub(super) fn new(helpers: Helpers) -> Self {
    Self { helpers, ..Self::default() }
  }

  /// Goes on with other programs, and looks at what happened before.
  pub(super) fn configure(&mut self, helpers: Helpers) -> Action {
    let wrong = helpers.notify.clone().and_then(Result::err);
    self.helpers = helpers;
    self.stirred = true;
    match wrong {
      Some(why) => Action::Degrade(PartKind::Notify.into(), why),
      None => Action::Recover(PartKind::Notify.into()),
    }
  }

  /// Notes that a text was redacted.
  pub(super) fn stir(&mut self) {
    self.stirred = true;
  }

  /// Notes that the source of a text became known, or that the model has read it: a flagged text may be
  /// news by now.
  pub(super) fn stir_flags(&mut self) {
    self.stirred |= self.helpers.notify.is_some();
  }

  /// Takes the next step, and returns what it needs done: nothing if no step was due.
  pub(super) fn work(&mut self, around: &Surroundings<'_>) -> Result<Vec<Action>, EngineError> {
    let mut actions = self.end_program();
    if actions.is_empty() {
      actions = self.take_events(around)?;
    }
    if actions.is_empty() {
      actions = self.tell(around)?;
    }
    if actions.is_empty() {
      actions = self.check_index(around)?;
    }
    Ok(actions)
  }

  /// How long until the next step is due.
  pub(super) fn next_due(&self, around: &Surroundings<'_>) -> Option<Duration> {
    if self.stirred {
      return Some(Duration::ZERO);
    }
    if self.running.is_some() {
      return Some(LOOK);
    }
    let checks = self.checks.values().filter(|_| !around.records_are_busy);
    let check = checks.map(|check| check.due.saturating_sub(around.now)).min();
    let message = match &self.helpers.notify {
      Some(Ok(_)) => self.news.keys().map(|source| self.until_next_notice(source, around)).min(),
      _ => None,
    };
    [check, message].into_iter().flatten().min()
  }

  /// Reads the events since the last call. On the first run, events before the start are ignored.
  fn take_events(&mut self, around: &Surroundings<'_>) -> Result<Vec<Action>, EngineError> {
    if !std::mem::take(&mut self.stirred) {
      return Ok(vec![]);
    }
    let ledger = around.engine.ledger();
    let mut told = self.told.take();
    if told.is_none() {
      let known = ledger.state(&StateKey::Notified)?;
      told = known.and_then(|(json, _)| serde_json::from_str::<NotifiedUntil>(&json).ok());
    }
    // On the first run, what happened before the start is no news, on later ones either.
    let since = told.is_none().then_some(around.started_at);
    let mut told = told.unwrap_or_default();
    let events = match since {
      Some(_) => {
        let filter = EventFilter { since, limit: Some(MAX_EVENTS), ..EventFilter::default() };
        ledger.events(&filter)?
      }
      // By their numbers, because the ledger finds these without looking at earlier events.
      None => ledger.events_after(told.last, MAX_EVENTS)?,
    };
    let notifies_of_flags = self.notifies_of_flags(around);
    for event in &events {
      match event.event {
        EventKind::Quarantined | EventKind::Held | EventKind::Returned => {
          self.take_event(event, around);
        }
        EventKind::Lost => self.take_loss(event, around),
        // A source that becomes known may be from outside, and the model may have read the text meanwhile.
        EventKind::Flagged | EventKind::Attributed if notifies_of_flags => {
          self.take_flag(event, around)?;
        }
        _ => {}
      }
    }
    told.last = events.iter().map(|event| event.id).fold(told.last, i64::max);
    // There may be more than were read.
    self.stirred = since.is_none() && events.len() == MAX_EVENTS as usize;
    if since.is_some() {
      let newest = EventFilter { limit: Some(1), ..EventFilter::default() };
      let newest = ledger.events(&newest)?.first().map_or(0, |event| event.id);
      told.last = told.last.max(newest);
    }
    let action = stored(&told);
    self.told = Some(told);
    Ok(vec![action])
  }

  fn take_event(&mut self, event: &EventRow, around: &Surroundings<'_>) {
    let target = event.path.as_deref().and_then(|path| around.directories.target(path));
    let Some(target) = target else { return };
    if self.helpers.notify.is_some() {
      let news = self.news_about(event.source.as_ref().map_or("unknown", |source| source.as_str()));
      news.n += 1;
      news.n_held += usize::from(event.event == EventKind::Held);
      news.files.insert(plain_name(&target.rel));
      news.note(event.block.as_ref());
    }
    // An agent without an index needs no check.
    if around.engine.agent().still_indexed(&target.root, &target.rel, &[]).is_some() {
      let due = around.now + INDEX_AFTER;
      self.checks.insert(target, Check { due, asked: false });
    }
  }

  /// A file that has lost text.
  fn take_loss(&mut self, event: &EventRow, around: &Surroundings<'_>) {
    let target = event.path.as_deref().and_then(|path| around.directories.target(path));
    let Some(target) = target.filter(|_| self.helpers.notify.is_some()) else { return };
    let news = self.news_about(LOSSES);
    news.n_lost += 1;
    news.files.insert(plain_name(&target.rel));
    news.note(event.block.as_ref());
  }

  /// Whether people want to be told of flagged text.
  fn notifies_of_flags(&self, around: &Surroundings<'_>) -> bool {
    self.helpers.notify.is_some() && around.engine.config().notify_flagged
  }

  /// A block that was flagged, or whose source became known: news once, if it looks like poison from
  /// outside.
  fn take_flag(&mut self, event: &EventRow, around: &Surroundings<'_>) -> Result<(), EngineError> {
    let target = event.path.as_deref().and_then(|path| around.directories.target(path));
    let (Some(target), Some(id)) = (target, &event.block) else { return Ok(()) };
    let item = match around.engine.ledger().item(id.as_str()) {
      Ok(item) => item,
      // The block has no findings, or is gone.
      Err(StoreError::UnknownId { .. } | StoreError::AmbiguousId { .. }) => return Ok(()),
      Err(error) => return Err(error.into()),
    };
    if item.id != *id || !is_poison_from_outside(&item) || !self.told_flags.insert(item.id.clone())
    {
      return Ok(());
    }
    if self.told_flags.len() > MAX_TOLD_FLAGS {
      self.told_flags.pop_first();
    }
    let news = self.news_about(item.source.as_str());
    news.n_flagged += 1;
    news.files.insert(plain_name(&target.rel));
    news.note(Some(&item.id));
    Ok(())
  }

  /// What is to be told about a source.
  fn news_about(&mut self, source: &str) -> &mut News {
    let is_known = self.news.contains_key(source);
    let source = if is_known || self.news.len() < MAX_SOURCES { source } else { "others" };
    self.news.entry(source.to_owned()).or_default()
  }

  /// How long until people may be notified about a source again.
  fn until_next_notice(&self, source: &str, around: &Surroundings<'_>) -> Duration {
    let last = self.told.as_ref().and_then(|told| told.at.get(source));
    let since = last.map(|at| around.engine.clock().now().saturating_sub(*at));
    let interval = Duration::from_secs(around.engine.config().notify_interval_s);
    // A clock that was set back must not delay messages for longer than the interval.
    match since.map(u64::try_from) {
      Some(Ok(since)) => interval.saturating_sub(Duration::from_micros(since)),
      Some(Err(_)) | None => Duration::ZERO,
    }
  }

  /// Sends one message about all sources that are due.
  fn tell(&mut self, around: &Surroundings<'_>) -> Result<Vec<Action>, EngineError> {
    if self.running.is_some() || self.news.is_empty() {
      return Ok(vec![]);
    }
    let Some(Ok(mut words)) = self.helpers.notify.clone() else { return Ok(vec![]) };
    let due: Vec<String> = self
      .news
      .keys()
      .filter(|source| self.until_next_notice(source, around).is_zero())
      .cloned()
      .collect();
    if due.is_empty() {
      return Ok(vec![]);
    }
    let at = around.engine.clock().now();
    let n_open = around.engine.ledger().counts(at)?.for_a_person();
    let mut about: Vec<(String, News)> = Vec::new();
    let told = self.told.get_or_insert_default();
    for source in due {
      let news = self.news.remove(&source).unwrap_or_default();
      told.at.insert(source.clone(), at);
      about.push((source, news));
    }
    while told.at.len() > MAX_SOURCES {
      let oldest = told.at.iter().min_by_key(|(_, at)| **at).map(|(source, _)| source.clone());
      oldest.map(|source| told.at.remove(&source));
    }
    words.push(message(&about, n_open).into());
    self.running = Some((Running::Message, Subprocess::start(words, LIMIT)));
    Ok(vec![stored(told)])
  }

  /// Handles the end of a program.
  fn end_program(&mut self) -> Vec<Action> {
    let Some(outcome) = self.running.as_ref().and_then(|(_, subprocess)| subprocess.outcome())
    else {
      return vec![];
    };
    let action = match (self.running.take().map(|(what, _)| what), outcome) {
      (Some(Running::Message), Ok(())) => Action::Recover(PartKind::Notify.into()),
      (Some(Running::Message), Err(why)) => {
        let why = format!("a message about a quarantine was not sent: {why}");
        Action::Degrade(PartKind::Notify.into(), why)
      }
      (Some(Running::Index(root)), Ok(())) => Action::Recover(index_part(&root)),
      (Some(Running::Index(root)), Err(why)) => {
        let text = format!("the agent's index of `{}` was not rebuilt: {why}", shown(&root));
        Action::Degrade(index_part(&root), text)
      }
      (None, _) => return vec![],
    };
    vec![action]
  }

  /// Starts a check whether quarantined text is gone from the agent's index.
  fn check_index(&mut self, around: &Surroundings<'_>) -> Result<Vec<Action>, EngineError> {
    let due = self.checks.iter().find(|(_, check)| check.due <= around.now);
    let due = due.filter(|_| !around.records_are_busy);
    let Some((target, asked)) = due.map(|(target, check)| (target.clone(), check.asked)) else {
      return Ok(vec![]);
    };
    let texts = taken_out_of(around.engine.ledger(), &target)?;
    if texts.is_empty() {
      return Ok(self.index_answered(target, asked, Some(false), around.now));
    }
    // The check is not due again before its answer has come.
    self.checks.insert(target.clone(), Check { due: around.now + INDEX_EVERY, asked });
    Ok(vec![Action::AskIndex(target, asked, texts)])
  }

  /// Handles the answer of a check: an index that holds the text is renewed first, and reported if that
  /// did not help.
  pub(super) fn index_answered(
    &mut self,
    target: Target,
    asked: bool,
    holds: Option<bool>,
    now: Duration,
  ) -> Vec<Action> {
    let part = target.part(PartKind::Index);
    if holds != Some(true) {
      self.checks.remove(&target);
      return vec![Action::Recover(part)];
    }
    if let (false, None, Some(words)) =
      (asked, &self.running, self.helpers.reindex.get(&target.root))
    {
      let subprocess = Subprocess::start(words.clone(), INDEX_LIMIT);
      self.running = Some((Running::Index(target.root.clone()), subprocess));
      self.checks.insert(target, Check { due: now + INDEX_AFTER, asked: true });
      return vec![];
    }
    let text =
      format!("the agent's index still holds quarantined text of `{}`", shown(&target.path()));
    self.checks.insert(target, Check { due: now + INDEX_EVERY, asked });
    vec![Action::Degrade(part, text)]
  }
}

/// The row that says up to where people were told.
fn stored(told: &NotifiedUntil) -> Action {
  Action::Store(StateKey::Notified, serde_json::to_string(told).unwrap_or_default())
}

/// The waiting texts that are out of a file.
fn taken_out_of(ledger: &Ledger, target: &Target) -> Result<Vec<Zeroizing<Vec<u8>>>, EngineError> {
  let filter = ItemFilter { path: Some(target.path()), ..ItemFilter::waiting() };
  let mut texts = Vec::new();
  for item in ledger.items(&filter)?.into_iter().filter(|item| !item.in_file) {
    match ledger.unseal(&item.id) {
      Ok(text) => texts.push(text),
      // A person had it deleted meanwhile, or its seal does not open.
      Err(error) if error.is_of_one_record() => {}
      Err(error) => return Err(error.into()),
    }
  }
  Ok(texts)
}

fn index_part(root: &Path) -> Part {
  PartKind::Index.of(shown(root))
}

/// Whether a block is flagged in its file, looks like poison, and comes from outside, as far as somebody
/// has seen that.
fn is_poison_from_outside(item: &Item) -> bool {
  item.in_file
    && item.status == State::Flagged
    && item.score >= POISON
    && matches!(item.trust, Trust::Untrusted | Trust::Hostile)
    && item.attestation >= Attestation::ToolObserved
    && can_be_allowed(&item.source)
}
