//! Questions to the agent's records, on a thread of their own: a store of some gigabytes, or one on a slow
//! disk, may take its time, and no file that has to be cleaned waits for it.
//!
//! One question is out at a time; the others wait in the queue, which knows no file twice. An answer that
//! does not come is told, and its thread ends with the process.
#![forbid(unsafe_code)]

use std::{
  panic::{AssertUnwindSafe, catch_unwind},
  sync::{
    Arc,
    mpsc::{Receiver, TryRecvError, channel},
  },
  thread,
  time::Duration,
};

use tokio::sync::mpsc::UnboundedSender;

use super::queue::Waiting;
use crate::{
  engine::{Target, attribute::AttributionRequest},
  provenance::{AgentRecords, Answer},
};

/// After this time it is told that there is no answer (a choice: one over 200 MB takes milliseconds).
const LATE: Duration = Duration::from_secs(30);

/// What was asked about a file.
#[derive(Clone, Debug)]
pub(super) enum Matter {
  /// Who wrote what is new in it.
  Origin(Waiting, Arc<AttributionRequest>),
  /// Whether the agent's index holds what was taken out; whether it was asked to be renewed already.
  Index(bool),
}

/// What the records said; nothing where the question could not be asked to its end.
#[derive(Debug)]
pub(super) enum Reply {
  Origin(Vec<Answer>),
  Index(Option<bool>),
  Nothing,
}

/// A question that is out.
struct Out {
  target: Target,
  matter: Matter,
  since: Duration,
  is_told: bool,
  reply: Receiver<Reply>,
}

/// Who asks.
#[derive(Default)]
pub(super) struct AttributionWorker {
  /// Wakes the loop; without it an answer is waited for where it is taken.
  wake: Option<UnboundedSender<()>>,
  out: Option<Out>,
}

impl AttributionWorker {
  /// Answers are announced here, and not waited for any more.
  pub(super) fn wake_by(&mut self, wake: UnboundedSender<()>) {
    self.wake = Some(wake);
  }

  /// Whether a question is out: another one has to wait.
  pub(super) fn is_busy(&self) -> bool {
    self.out.is_some()
  }

  /// Asks, of the records as they are now.
  pub(super) fn ask(
    &mut self,
    target: Target,
    matter: Matter,
    now: Duration,
    question: impl FnOnce() -> Reply + Send + 'static,
  ) {
    let (sender, reply) = channel();
    let wake = self.wake.clone();
    let run = move || {
      // Records are hostile; a fault in their reader must not end the guard.
      let reply = catch_unwind(AssertUnwindSafe(question)).unwrap_or(Reply::Nothing);
      sender.send(reply).unwrap_or_default();
      if let Some(wake) = wake {
        wake.send(()).unwrap_or_default();
      }
    };
    // Where no thread can be had, the receiver finds its other end gone.
    drop(thread::Builder::new().name("asker".to_owned()).spawn(run));
    self.out = Some(Out { target, matter, since: now, is_told: false, reply });
  }

  /// The answer, if it is there.
  pub(super) fn take(&mut self) -> Option<(Target, Matter, Reply)> {
    let out = self.out.as_ref()?;
    let reply = if self.wake.is_some() {
      match out.reply.try_recv() {
        Err(TryRecvError::Empty) => return None,
        reply => reply.unwrap_or(Reply::Nothing),
      }
    } else {
      out.reply.recv().unwrap_or(Reply::Nothing)
    };
    self.out.take().map(|out| (out.target, out.matter, reply))
  }

  /// How long until it has to be told that there is no answer.
  pub(super) fn next_due(&self, now: Duration) -> Option<Duration> {
    let out = self.out.as_ref()?;
    if self.wake.is_none() {
      return Some(Duration::ZERO);
    }
    (!out.is_told).then(|| (out.since + LATE).saturating_sub(now))
  }

  /// Whether it has to be told now; once for each question.
  pub(super) fn is_late(&mut self, now: Duration) -> bool {
    let late = self.out.as_mut().filter(|out| !out.is_told && now >= out.since + LATE);
    late.is_some_and(|out| {
      out.is_told = true;
      true
    })
  }
}

/// The question who wrote it.
pub(super) fn origin(
  agent: Arc<dyn AgentRecords>,
  asking: Arc<AttributionRequest>,
) -> impl FnOnce() -> Reply + Send + 'static {
  move || Reply::Origin(asking.ask(&*agent))
}
