//! Texts that the encoder reads, on a thread of their own: nothing urgent waits for it.
//!
//! The thread begins with the first text and has little priority. What it has said is taken down by the
//! loop, like every other work on a file. A text that cannot be read is a degradation, and no reason to
//! wait for it for ever.
#![forbid(unsafe_code)]

use std::{
  collections::{BTreeMap, BTreeSet},
  panic::{AssertUnwindSafe, catch_unwind},
  sync::mpsc::{Sender, channel},
  thread,
};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::{
  Guard,
  queue::{Kind, Waiting},
};
use crate::{
  detect::model::Assessor,
  engine::{EngineError, Reading, Scored, Scoring, Target},
  os,
};

/// Files of which texts are on their way, at most: while one is read, the next is there. The texts of all
/// notes at a first start do not fit into the memory that memfw wants to have.
const MOST_AWAY: usize = 2;

/// The thread and what goes there and comes back.
pub(super) struct ModelWorker {
  /// Where texts go, once the thread has begun.
  texts: Option<Sender<Scoring>>,
  said: UnboundedSender<Scored>,
  /// Taken by the loop.
  heard: Option<UnboundedReceiver<Scored>>,
  /// The files of which texts are on their way, each once: to look at one is an event about it.
  away: BTreeSet<Target>,
  /// What came back and is not taken down yet.
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

  /// Whether it has enough to read.
  pub(super) fn is_busy(&self) -> bool {
    self.away.len() >= MOST_AWAY
  }

  /// Has the texts of a file read.
  fn give(&mut self, model: &'static dyn Assessor, scoring: Scoring) {
    self.away.insert(scoring.target().clone());
    let texts = self.texts.get_or_insert_with(|| begin(model, self.said.clone()));
    if let Err(unsent) = texts.send(scoring) {
      // There is no such thread: it could not be begun.
      self.texts = None;
      let why = "the thread that reads texts cannot run";
      // The loop holds the other end as long as it runs.
      self.said.send(unsent.0.unread(model, why)).ok();
    }
  }
}

/// Begins the thread.
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

impl Guard {
  /// What the thread says; for the loop, once.
  pub(super) fn scores(&mut self) -> UnboundedReceiver<Scored> {
    // Nothing is ever said to a second one.
    self.scorer.heard.take().unwrap_or_else(|| unbounded_channel().1)
  }

  /// Texts of a file were read.
  pub(super) fn hear_scored(&mut self, scored: Scored) {
    let target = scored.target.clone();
    self.scorer.away.remove(&target);
    if !self.workspaces.contains(&target.root) {
      return;
    }
    self.scorer.back.insert(target.clone(), scored);
    let now = self.now();
    self.queue.scored(target, now);
  }

  /// A file was looked at: what is new in it is read closely, once it is known who wrote it.
  pub(super) fn read_closely(&mut self, target: &Target) -> Result<(), EngineError> {
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
    let is_due = !self.scorer.away.contains(target) && self.engine.is_reading_pending(target)?;
    Ok(is_due && !self.engine.is_attribution_pending(target)?)
  }

  /// At a start, and when a workspace was adopted: what was not read before.
  pub(super) fn read_all(&mut self) -> Result<(), EngineError> {
    for target in self.engine.scores_due()? {
      if self.workspaces.contains(&target.root) && self.is_reading_due(&target)? {
        let now = self.now();
        self.queue.read(target, now);
      }
    }
    Ok(())
  }

  /// Has the texts of one file read, or takes down what was said about them.
  pub(super) fn read(&mut self, target: &Target, waiting: Waiting) -> Result<(), EngineError> {
    let Some(model) = self.engine.model() else { return Ok(()) };
    if self.scorer.away.contains(target) {
      return Ok(());
    }
    let reading = match self.scorer.back.remove(target) {
      None => self.engine.scoring(target),
      Some(scored) => {
        let reading = self.engine.scored(&scored);
        if reading.is_err() {
          // It is said once more when the ledger can be written.
          self.scorer.back.insert(target.clone(), scored);
        }
        if self.engine.take_departed() {
          self.errands.stir();
        }
        reading
      }
    };
    self.count_opens();
    match reading? {
      Reading::Nothing { reshape_due } => {
        self.mark_after(target, reshape_due);
        self.consult_about(target)?;
      }
      Reading::Texts(scoring) => self.scorer.give(model, scoring),
      // Who wrote it is found out first; then it is read.
      Reading::NotNow if self.engine.is_attribution_pending(target)? => {}
      Reading::NotNow => {
        let now = self.now();
        self.queue.back_off(Kind::Model, target.clone(), waiting, now);
      }
    }
    Ok(())
  }
}
