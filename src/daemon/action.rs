//! What a part of the daemon wants done. Parts read the engine and decide; the daemon alone changes it.
#![forbid(unsafe_code)]

use std::{path::PathBuf, sync::Arc, time::Duration};

use zeroize::Zeroizing;

use super::{
  Daemon, DaemonError,
  attribution_worker::{Matter, Reply},
  directories::Directories,
  queue::{Kind, Waiting},
  watched::Watching,
};
use crate::{
  engine::{
    Engine, EngineError, Event, EventKind, Target, attribute::AttributionRequest,
    judge_queue::JudgeRequest,
  },
  files::RealFs,
  memory::ContentHash,
  store::StateKey,
};

/// What a part reads to decide.
pub(super) struct Surroundings<'a> {
  pub(super) engine: &'a Engine<RealFs>,
  pub(super) directories: &'a Directories,
  pub(super) watching: &'a Watching,
  /// The time on the monotonic clock.
  pub(super) now: Duration,
  /// Whether the agent's records are busy with another question.
  pub(super) records_are_busy: bool,
  /// When the daemon started, in microseconds UTC.
  pub(super) started_at: i64,
}

/// What a part wants done.
pub(super) enum Action {
  /// Report reduced protection under a key, and why.
  Degrade(String, String),
  /// Report that the protection under this key is whole again.
  Recover(String),
  /// Store a row of state, as JSON.
  Store(StateKey, String),
  /// Remove a row of state.
  Remove(StateKey),
  /// Record an event with this text, and log it.
  Tell(EventKind, String),
  /// Queue a step of a file, if the file is still guarded.
  Queue(Kind, Target),
  /// Ask the agent's records whether its index holds these texts of a file; `true` where the agent was told to
  /// renew the index already.
  AskIndex(Target, bool, Vec<Zeroizing<Vec<u8>>>),
  /// Use the answer about the index: `None` where there is none.
  UseIndexAnswer(Target, bool, Option<bool>),
  /// Record who wrote the new text of a file.
  RecordOrigin(Target, Waiting, Arc<AttributionRequest>, Reply),
  /// Take the next question from the judge's queue.
  NextQuestion,
  /// Record what the judge said.
  RecordAnswer(Box<JudgeRequest>, String),
  /// Record that a question has no answer.
  RecordSilence(ContentHash, Silent),
  /// Let all questions be asked again.
  WakeQuestions,
  /// Check a file for which a reader waits at the gate.
  CheckForGate(PathBuf),
}

/// Why a question to the judge has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Silent {
  /// No judge was reached.
  Unreached,
  /// A judge may have been reached, and answered nothing.
  Reached,
  /// The judge does not answer this question; it is not asked again soon.
  ToThis,
}

impl Daemon {
  /// What the parts read.
  pub(super) fn surroundings(&self) -> Surroundings<'_> {
    Surroundings {
      engine: &self.engine,
      directories: &self.directories,
      watching: &self.watching,
      now: self.now(),
      records_are_busy: self.attribution_worker.is_busy(),
      started_at: self.health.started_at,
    }
  }

  /// Lets a part decide, and does what it wants done. Returns whether it wanted anything. What a part reads
  /// does not include the part itself, so that it can be taken out meanwhile.
  pub(super) fn run_part<P: Default>(
    &mut self,
    part: fn(&mut Self) -> &mut P,
    step: impl FnOnce(&mut P, &Surroundings<'_>) -> Result<Vec<Action>, EngineError>,
  ) -> Result<bool, DaemonError> {
    let mut taken = std::mem::take(part(self));
    let actions = step(&mut taken, &self.surroundings());
    *part(self) = taken;
    let mut found = vec![];
    self.report(|_| actions.map(|actions| found = actions));
    let is_any = !found.is_empty();
    self.carry_out(found)?;
    Ok(is_any)
  }

  /// Does what a part wants done. An error of the ledger that a later try may not meet is reported here; only
  /// one that ends the daemon is returned.
  pub(super) fn carry_out(&mut self, actions: Vec<Action>) -> Result<(), DaemonError> {
    for action in actions {
      self.carry_out_one(action)?;
    }
    Ok(())
  }

  fn carry_out_one(&mut self, action: Action) -> Result<(), DaemonError> {
    match action {
      Action::Degrade(key, why) => self.report(|daemon| daemon.engine.degrade(&key, &why)),
      Action::Recover(key) => self.report(|daemon| daemon.engine.recovered(&key)),
      Action::Store(key, json) => self.report(|daemon| {
        let at = daemon.engine.clock().now();
        Ok(daemon.engine.ledger_mut().set_state(&key, &json, at)?)
      }),
      Action::Remove(key) => {
        self.report(|daemon| Ok(daemon.engine.ledger_mut().remove_state(&key)?));
      }
      Action::Tell(kind, text) => {
        self.report(|daemon| daemon.engine.tell(Event::new(kind).detail(text)));
      }
      Action::Queue(kind, target) => self.enqueue_guarded(kind, target),
      Action::AskIndex(target, is_asked, texts) => {
        let (agent, of, now) = (self.engine.agent(), target.clone(), self.now());
        self.attribution_worker.ask(target, Matter::Index(is_asked), now, move || {
          let texts: Vec<&[u8]> = texts.iter().map(|text| text.as_slice()).collect();
          Reply::Index(agent.still_indexed(&of.root, &of.rel, &texts))
        });
      }
      Action::UseIndexAnswer(target, is_asked, holds) => {
        let now = self.now();
        let actions = self.notifications.index_told(target, is_asked, holds, now);
        self.carry_out(actions)?;
      }
      Action::RecordOrigin(target, waiting, request, reply) => {
        let result = self.record_origin(&target, waiting, &request, reply);
        self.finish_step(Kind::Attribute, target, waiting, result)?;
      }
      Action::NextQuestion => self.report(|daemon| {
        let turn = daemon.engine.judge_queue().next_question();
        let (at, now) = (daemon.engine.clock().now(), daemon.now());
        daemon.judge.take_turn(turn, at, now)
      }),
      Action::RecordAnswer(request, answer) => self.report(|daemon| {
        match daemon.engine.judge_queue().take_answer(&request, &answer)? {
          Ok((_, files)) => {
            for target in files {
              daemon.enqueue_guarded(Kind::Judge, target);
            }
          }
          Err(why) => tracing::debug!(target: "memfw", error = %why, "an answer does not count"),
        }
        Ok(())
      }),
      Action::RecordSilence(hash, silent) => self.report(|daemon| {
        let mut queue = daemon.engine.judge_queue();
        match silent {
          Silent::Unreached => queue.not_answered(hash, false),
          Silent::Reached => queue.not_answered(hash, true),
          Silent::ToThis => queue.no_answer(hash),
        }
      }),
      Action::WakeQuestions => self.report(|daemon| daemon.engine.judge_queue().wake()),
      Action::CheckForGate(path) => {
        let answer = self.check_for_gate(&path)?;
        let now = self.now();
        let actions = self.gate.answered(answer, now);
        self.carry_out(actions)?;
      }
    }
    Ok(())
  }
}
