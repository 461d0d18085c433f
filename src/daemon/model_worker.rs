//! The model worker: the encoder reads texts on a thread of its own, so that nothing urgent waits for
//! it.
//!
//! The thread starts with the first text and has low priority. The loop records the scores. A text that
//! cannot be scored is a degradation, and nothing waits for its score any longer.
#![forbid(unsafe_code)]

use std::{
  collections::{BTreeMap, BTreeSet},
  panic::{AssertUnwindSafe, catch_unwind},
  sync::mpsc::{Sender, channel},
  thread,
};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::{
  Daemon,
  queue::{Kind, Waiting},
};
use crate::{
  detect::model::Assessor,
  engine::{EngineError, Reading, Scored, Scoring, Target},
  os,
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

  /// Whether the thread has enough to read.
  pub(super) fn is_busy(&self) -> bool {
    self.away.len() >= MOST_AWAY
  }

  /// Gives the texts of a file to the thread.
  fn give(&mut self, model: &'static dyn Assessor, scoring: Scoring) {
    self.away.insert(scoring.target().clone());
    let texts = self.texts.get_or_insert_with(|| begin(model, self.said.clone()));
    if let Err(unsent) = texts.send(scoring) {
      // The thread could not be started.
      self.texts = None;
      let why = "the thread that reads texts cannot run";
      // The loop holds the receiver as long as it runs.
      self.said.send(unsent.0.unread(model, why)).ok();
    }
  }
}

/// Starts the thread.
fn begin(model: &'static dyn Assessor, said: UnboundedSender<Scored>) -> Sender<Scoring> {
  let (sender, texts) = channel::<Scoring>();
  let work = move || {
    os::thread::yield_to_others();
    while let Ok(scoring) = texts.recv() {
      let read = catch_unwind(AssertUnwindSafe(|| scoring.run(model)));
      let scored = read.unwrap_or_else(|_| scoring.unread(model, "reading a text failed"));
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

impl Daemon {
  /// The receiver of scores, for the loop; it can be taken once.
  pub(super) fn scores(&mut self) -> UnboundedReceiver<Scored> {
    // A second receiver never gets anything.
    self.model_worker.heard.take().unwrap_or_else(|| unbounded_channel().1)
  }

  /// Takes the scores of a file.
  pub(super) fn take_scores(&mut self, scored: Scored) {
    let target = scored.target.clone();
    self.model_worker.away.remove(&target);
    if !self.directories.workspaces.contains(&target.root) {
      return;
    }
    self.model_worker.back.insert(target.clone(), scored);
    let now = self.now();
    self.queue.scored(target, now);
  }

  /// After a pass: requests scores for new text, once its origin is known.
  pub(super) fn request_scores(&mut self, target: &Target) -> Result<(), EngineError> {
    if self.is_reading_due(target)? {
      let now = self.now();
      if self.is_starting() {
        self.queue.read(target.clone(), now);
      } else {
        self.queue.read_first(target.clone(), now);
      }
      return Ok(());
    }
    self.consult_about(target)
  }

  fn is_reading_due(&self, target: &Target) -> Result<bool, EngineError> {
    let is_due =
      !self.model_worker.away.contains(target) && self.engine.is_reading_pending(target)?;
    Ok(is_due && !self.engine.is_attribution_pending(target)?)
  }

  /// At a start, and after an adoption: requests scores for all text without one.
  pub(super) fn request_all_scores(&mut self) -> Result<(), EngineError> {
    for target in self.engine.scores_due()? {
      if self.directories.workspaces.contains(&target.root) && self.is_reading_due(&target)? {
        let now = self.now();
        self.queue.read(target, now);
      }
    }
    Ok(())
  }

  /// Gives the texts of one file to the thread, or records their scores.
  pub(super) fn read(&mut self, target: &Target, waiting: Waiting) -> Result<(), EngineError> {
    let Some(model) = self.engine.model() else { return Ok(()) };
    if self.model_worker.away.contains(target) {
      return Ok(());
    }
    let reading = match self.model_worker.back.remove(target) {
      None => self.engine.scoring(target),
      Some(scored) => {
        let reading = self.engine.scored(&scored);
        if reading.is_err() {
          // The scores are recorded when the ledger can be written again.
          self.model_worker.back.insert(target.clone(), scored);
        }
        if self.engine.take_departed() {
          self.notifications.stir();
        }
        reading
      }
    };
    self.count_opens();
    match reading? {
      Reading::Nothing { reshape_due } => {
        self.request_reshape(target, reshape_due);
        self.consult_about(target)?;
      }
      Reading::Texts(scoring) => self.model_worker.give(model, scoring),
      // The attribution comes first and requests the scores afterwards.
      Reading::NotNow if self.engine.is_attribution_pending(target)? => {}
      Reading::NotNow => {
        let now = self.now();
        self.queue.back_off(Kind::Model, target.clone(), waiting, now);
      }
    }
    Ok(())
  }
}
