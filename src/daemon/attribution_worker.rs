//! The attribution worker: questions to the agent's records run on a thread of their own. A store of
//! gigabytes, or one on a slow disk, takes its time, and no dirty file waits for it.
//!
//! There is one open question at a time; the others wait in the queue, which holds each file once. A
//! missing answer is reported, and the thread then ends with the process.
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

use super::{
  action::{Action, Surroundings},
  queue::Waiting,
};
use crate::{
  engine::{Target, attribution_request::AttributionRequest},
  provenance::{AgentRecords, Answer},
  store::PartKind,
};

/// After this time a missing answer is reported (a choice: an answer from a store of 200 MB takes
/// milliseconds).
const LATE: Duration = Duration::from_secs(30);

/// What a question is about.
#[derive(Clone, Debug)]
pub(super) enum Matter {
  /// Who wrote the new text of a file.
  Origin(Waiting, Arc<AttributionRequest>),
  /// Whether the agent's index still holds removed text; the flag says whether the agent was already
  /// asked to renew the index.
  Index(bool),
}

/// The answer of the records; `Nothing` if the question failed.
#[derive(Debug)]
pub(super) enum Reply {
  Origin(Vec<Answer>),
  Index(Option<bool>),
  Nothing,
}

/// The open question.
struct Out {
  target: Target,
  matter: Matter,
  since: Duration,
  is_told: bool,
  reply: Receiver<Reply>,
}

/// The thread's side that the loop sees.
#[derive(Default)]
pub(super) struct AttributionWorker {
  /// Wakes the loop; without it [`Self::take`] waits for the answer.
  wake: Option<UnboundedSender<()>>,
  out: Option<Out>,
}

impl AttributionWorker {
  /// Makes each answer wake the loop, so that [`Self::take`] does not wait.
  pub(super) fn wake_by(&mut self, wake: UnboundedSender<()>) {
    self.wake = Some(wake);
  }

  /// Whether a question is open, so that another one must wait.
  pub(super) fn is_busy(&self) -> bool {
    self.out.is_some()
  }

  /// Asks a question; the thread reads the records as they are now.
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
      // The records are hostile input; a panic in their reader must not end the daemon.
      let reply = catch_unwind(AssertUnwindSafe(question)).unwrap_or(Reply::Nothing);
      sender.send(reply).unwrap_or_default();
      if let Some(wake) = wake {
        wake.send(()).unwrap_or_default();
      }
    };
    // If no thread can be started, the receiver finds its sender gone.
    drop(thread::Builder::new().name("asker".to_owned()).spawn(run));
    self.out = Some(Out { target, matter, since: now, is_told: false, reply });
  }

  /// Reports a missing answer, or hands over the answer that has come.
  pub(super) fn work(&mut self, around: &Surroundings<'_>) -> Vec<Action> {
    let mut actions = Vec::new();
    if self.is_late(around.now) {
      let why = "the agent's records have not answered a question for half a minute";
      actions.push(Action::Degrade(PartKind::AgentRecords.into(), why.to_owned()));
    }
    let Some((target, matter, reply)) = self.take() else { return actions };
    actions.push(Action::Recover(PartKind::AgentRecords.into()));
    if !around.directories.workspaces.contains(&target.root) {
      return actions;
    }
    match (matter, reply) {
      (Matter::Index(asked), Reply::Index(holds)) => {
        actions.push(Action::UseIndexAnswer(target, asked, holds));
      }
      // Without an answer the question is asked again later.
      (Matter::Index(_), _) => {}
      (Matter::Origin(waiting, request), reply) => {
        let answers = match reply {
          Reply::Origin(answers) => Some(answers),
          Reply::Index(_) | Reply::Nothing => None,
        };
        actions.push(Action::RecordOrigin(target, waiting, request, answers));
      }
    }
    actions
  }

  /// The answer, if it has come.
  fn take(&mut self) -> Option<(Target, Matter, Reply)> {
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

  /// How long until a missing answer must be reported.
  pub(super) fn next_due(&self, now: Duration) -> Option<Duration> {
    let out = self.out.as_ref()?;
    if self.wake.is_none() {
      return Some(Duration::ZERO);
    }
    (!out.is_told).then(|| (out.since + LATE).saturating_sub(now))
  }

  /// Whether a missing answer must be reported now; true once per question.
  fn is_late(&mut self, now: Duration) -> bool {
    let late = self.out.as_mut().filter(|out| !out.is_told && now >= out.since + LATE);
    late.is_some_and(|out| {
      out.is_told = true;
      true
    })
  }
}

/// The question who wrote the new text of a file.
pub(super) fn origin(
  agent: Arc<dyn AgentRecords>,
  asking: Arc<AttributionRequest>,
) -> impl FnOnce() -> Reply + Send + 'static {
  move || Reply::Origin(asking.ask(&*agent))
}
