//! The model worker: the encoder reads texts on a thread of its own, so that nothing urgent waits for
//! it.
//!
//! The thread starts with the first text and has low priority. The loop records the scores. A text that
//! cannot be scored is a degradation, and nothing waits for its score any longer.
#![forbid(unsafe_code)]

use std::{
  cmp::Reverse,
  collections::{BTreeMap, BTreeSet},
  panic::{AssertUnwindSafe, catch_unwind},
  sync::mpsc::{Receiver, Sender, channel},
  thread,
};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::{
  action::{Action, Surroundings},
  queue::Kind,
};
use crate::{
  detect::model::Assessor,
  engine::{EngineError, Scored, Scoring, ScoringRun, Target, pending},
  os,
  store::{Ledger, Pending},
};

/// The most files whose texts are at the thread: while one is read, the next is ready. The texts of all
/// notes at a first start would not fit into the memory that memfw may use.
const MOST_AWAY: usize = 2;

/// The thread and its channels.
pub(super) struct ModelWorker {
  /// Where texts go, once the thread has begun.
  texts: Option<Sender<Scoring>>,
  said: UnboundedSender<Scored>,
  /// The receiver, until the loop takes it.
  heard: Option<UnboundedReceiver<Scored>>,
  /// The files whose texts are at the thread, each once: reading a file causes an event about it.
  away: BTreeSet<Target>,
  /// Scores that are not recorded yet.
  back: BTreeMap<Target, Scored>,
}

impl Default for ModelWorker {
  fn default() -> Self {
    let (said, heard) = unbounded_channel();
    Self { texts: None, said, heard: Some(heard), away: BTreeSet::new(), back: BTreeMap::new() }
  }
}

impl ModelWorker {
  pub(super) fn is_idle(&self) -> bool {
    self.away.is_empty()
  }

  /// The receiver of scores, for the loop; it can be taken once.
  pub(super) fn scores(&mut self) -> UnboundedReceiver<Scored> {
    // A second receiver never gets anything.
    self.heard.take().unwrap_or_else(|| unbounded_channel().1)
  }

  /// Takes the scores of a file from the thread.
  pub(super) fn hear(&mut self, scored: Scored, around: &Surroundings<'_>) -> Vec<Action> {
    let target = scored.target.clone();
    self.away.remove(&target);
    if !around.directories.workspaces.contains(&target.root) {
      return vec![];
    }
    self.back.insert(target.clone(), scored);
    vec![Action::Queue(Kind::Scored, target)]
  }

  /// Whether a file has text to read, whose origin is known.
  pub(super) fn is_wanted(&self, ledger: &Ledger, target: &Target) -> Result<bool, EngineError> {
    let is_due =
      !self.away.contains(target) && pending::is_pending(ledger, target, Pending::MODEL)?;
    Ok(is_due && !pending::is_pending(ledger, target, Pending::ATTRIBUTE)?)
  }

  /// Whether the thread reads this file now.
  pub(super) fn is_reading(&self, target: &Target) -> bool {
    self.away.contains(target)
  }

  /// Scores of a file that are to be recorded.
  pub(super) fn take_back(&mut self, target: &Target) -> Option<Scored> {
    self.back.remove(target)
  }

  /// Keeps scores until they can be recorded.
  pub(super) fn keep_back(&mut self, target: &Target, scored: Scored) {
    self.back.insert(target.clone(), scored);
  }

  /// Whether the thread has enough to read.
  pub(super) fn is_busy(&self) -> bool {
    self.away.len() >= MOST_AWAY
  }

  /// Gives the texts of a file to the thread.
  pub(super) fn give(&mut self, model: &'static dyn Assessor, scoring: Scoring) {
    self.away.insert(scoring.target().clone());
    let texts = self.texts.get_or_insert_with(|| begin(model, self.said.clone()));
    if let Err(unsent) = texts.send(scoring) {
      // The thread could not be started.
      self.texts = None;
      let why = "the thread that reads texts cannot run";
      // The loop holds the receiver as long as it runs.
      self.said.send(ScoringRun::new(unsent.0).unread(model, why)).ok();
    }
  }
}

/// Starts the thread.
fn begin(model: &'static dyn Assessor, said: UnboundedSender<Scored>) -> Sender<Scoring> {
  let (sender, texts) = channel::<Scoring>();
  let work = move || {
    os::thread::yield_to_others();
    let mut runs: Vec<ScoringRun> = Vec::new();
    while take_new(&mut runs, &texts) {
      // The file with the fewest texts comes first, so that a large one delays no other.
      runs.sort_by_key(|run| Reverse(run.n_left()));
      let Some(mut run) = runs.pop() else { continue };
      let scored = match catch_unwind(AssertUnwindSafe(|| run.step(model))) {
        Ok(true) => {
          runs.push(run);
          continue;
        }
        Ok(false) => run.finish(model),
        Err(_) => run.unread(model, "reading a text failed"),
      };
      if said.send(scored).is_err() {
        return;
      }
    }
  };
  let begun = thread::Builder::new().name("encoder".to_owned()).spawn(work);
  if let Err(error) = begun {
    tracing::error!(target: "memfw", %error, "the thread that reads texts cannot run");
  }
  sender
}

/// Takes the texts that have come, and waits for some if there are none; returns `false` when none can come any
/// more.
fn take_new(runs: &mut Vec<ScoringRun>, texts: &Receiver<Scoring>) -> bool {
  if runs.is_empty() {
    match texts.recv() {
      Ok(scoring) => runs.push(ScoringRun::new(scoring)),
      Err(_) => return false,
    }
  }
  runs.extend(texts.try_iter().map(ScoringRun::new));
  true
}
