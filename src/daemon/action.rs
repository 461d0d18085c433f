//! What a part of the daemon wants done. Parts read the engine and decide; the daemon alone changes it.
#![forbid(unsafe_code)]

use std::time::Duration;

use zeroize::Zeroizing;

use super::{
  Daemon,
  attribution_worker::{Matter, Reply},
  directories::Directories,
};
use crate::{
  engine::{Engine, EngineError, Event, EventKind, Target},
  files::RealFs,
  store::StateKey,
};

/// What a part reads to decide.
pub(super) struct Surroundings<'a> {
  pub(super) engine: &'a Engine<RealFs>,
  pub(super) directories: &'a Directories,
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
  /// Record an event with this text, and log it.
  Tell(EventKind, String),
  /// Ask the agent's records whether its index holds these texts of a file; `true` where the agent was told to
  /// renew the index already.
  AskIndex(Target, bool, Vec<Zeroizing<Vec<u8>>>),
}

impl Daemon {
  /// What the parts read.
  pub(super) fn surroundings(&self) -> Surroundings<'_> {
    Surroundings {
      engine: &self.engine,
      directories: &self.directories,
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
  ) -> bool {
    let mut is_done = false;
    self.report(|daemon| {
      let mut taken = std::mem::take(part(daemon));
      let actions = step(&mut taken, &daemon.surroundings());
      *part(daemon) = taken;
      let actions = actions?;
      is_done = !actions.is_empty();
      daemon.carry_out(actions)
    });
    is_done
  }

  /// Does what a part wants done.
  pub(super) fn carry_out(&mut self, actions: Vec<Action>) -> Result<(), EngineError> {
    for action in actions {
      match action {
        Action::Degrade(key, why) => self.engine.degrade(&key, &why)?,
        Action::Recover(key) => self.engine.recovered(&key)?,
        Action::Store(key, json) => {
          let at = self.engine.clock().now();
          self.engine.ledger_mut().set_state(&key, &json, at)?;
        }
        Action::Tell(kind, text) => self.engine.tell(Event::new(kind).detail(text))?,
        Action::AskIndex(target, is_asked, texts) => {
          let (agent, of, now) = (self.engine.agent(), target.clone(), self.now());
          self.attribution_worker.ask(target, Matter::Index(is_asked), now, move || {
            let texts: Vec<&[u8]> = texts.iter().map(|text| text.as_slice()).collect();
            Reply::Index(agent.still_indexed(&of.root, &of.rel, &texts))
          });
        }
      }
    }
    Ok(())
  }
}
