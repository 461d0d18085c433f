//! The daemon: one loop, one closed event enum, and no state that a restart loses.
//!
//! Only an [`Event`] or a due time of the [`Queue`] wakes the process; with nothing pending there is no
//! timer. An event carries no content: it only marks a path as dirty. No file is opened while its stamp
//! equals the one in the ledger. Signals are handled before files.
#![forbid(unsafe_code)]

mod action;
mod adoption;
mod asked_again;
mod attribution_worker;
mod core;
mod directories;
pub mod discovery;
mod dispatch;
mod error;
pub mod exposure;
mod first_scan;
pub mod gate;
mod gate_request;
pub mod health;
mod housekeeping;
mod interrupt;
pub mod judge;
mod listen;
mod marker_form;
mod model_worker;
pub mod moved;
pub mod notice;
mod notifications;
mod open_files;
mod outage;
mod passes;
pub mod poll;
pub mod queue;
mod readers;
pub mod reload;
mod rescan;
mod service;
mod shared;
mod signals;
pub mod skill_check;
mod skills;
pub mod state;
mod steps;
mod summary;
mod unwritten;
mod watching;

use std::{os::fd::OwnedFd, sync::Arc, time::Duration};

use tokio::{
  io::{Interest, unix::AsyncFd},
  sync::mpsc::{Receiver, UnboundedReceiver, channel, error::TrySendError, unbounded_channel},
};

pub use discovery::Discovery;
pub use error::DaemonError;
pub use health::{Health, Phase};
pub use notifications::Helpers;
pub use queue::Queue;
pub use reload::Reload;
use service::{Service, tell};
use signals::{Asked, Signals};
pub use state::{Daemon, Options};

use crate::{
  engine::{Engine, EventKind, Scored},
  files::{RealFs, Watcher, mounts},
  os::systemd,
};

/// What can wake the daemon, apart from its own due times.
#[derive(Debug)]
pub enum Event {
  /// The watcher has events to take.
  Watch,
  /// A file system was mounted or unmounted somewhere.
  Mounts,
  /// The agent's records or the judge (layer 3) have answered.
  Answered,
  /// A connection or a message of the gate.
  Gate(gate::FromGate),
  /// The model has scored texts of a file.
  Scored(Scored),
  /// SIGTERM or SIGINT: finish the current operation and stop.
  Terminate,
  /// SIGHUP: read the configuration again.
  Reload,
}

/// Why the daemon ended in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
  /// A signal asked for it; work may be left.
  Signal,
  /// Nothing was pending.
  Settled,
}

/// Runs until SIGTERM, or with `once` until nothing is pending. `source` is where configuration and key are read
/// from on a reload. The caller holds the daemon lock.
pub fn run(
  engine: Engine<RealFs>,
  options: Options,
  once: bool,
  source: &dyn Reload,
) -> Result<Ending, DaemonError> {
  let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
  let runtime = runtime.map_err(DaemonError::Loop)?;
  runtime.block_on(serve(engine, options, once, source))
}

async fn serve(
  engine: Engine<RealFs>,
  options: Options,
  once: bool,
  source: &dyn Reload,
) -> Result<Ending, DaemonError> {
  // The signal handlers come first, so that a SIGTERM during the first scan also stops the daemon in
  // order.
  let mut signals = Signals::new().map_err(DaemonError::Signals)?;
  let (answerer, answered) = unbounded_channel();
  let mut events = Events { watched: None, mounts: watch_mounts(), answered };
  let watcher = Watcher::new().map_err(|error| DaemonError::Watch(error.to_string()))?;
  let mut daemon = Daemon::new(engine, watcher, options);
  daemon.passes.interrupts.hear_signals().map_err(DaemonError::Signals)?;
  if !once {
    daemon.steps.judge.wake_by(answerer.clone());
  }
  daemon.ask_elsewhere(answerer);
  let (asker, mut asked) = unbounded_channel();
  // The gate must know the daemon before the daemon opens a file, or it treats the daemon as any other
  // reader.
  if !once {
    daemon.listen_for_gate(asker)?;
  }
  if !once {
    daemon.follow_configuration(source);
  }
  let mut scored = daemon.steps.model_worker.scores();
  let mut service = Service::new(daemon.core.now());
  let mut is_under_way = false;
  let ending = loop {
    service.progress(daemon.core.now(), daemon.core.is_starting());
    if signals.terminated() {
      break Ending::Signal;
    }
    let is_all = daemon.listen();
    if events.mounts.try_recv().is_ok() {
      daemon.rescans.mounts_changed(&mut daemon.core);
    }
    daemon.core.outage.follow(daemon.core.engine.ledger(), daemon.core.now())?;
    daemon.rediscover(source);
    if daemon.reread_configuration(source) && !daemon.core.is_starting() {
      tell(systemd::status(&daemon.core.status_line()));
    }
    while let Ok(scored) = scored.try_recv() {
      daemon.hear_scores(scored).or_else(|error| daemon.core.absorb(error))?;
    }
    while let Ok(said) = asked.try_recv() {
      daemon.hear_gate(said).or_else(|error| daemon.core.absorb(error))?;
    }
    // One piece of work per turn, so that a signal or an event never waits for the whole queue.
    let turn = if is_under_way {
      daemon.turn()
    } else {
      daemon.start().and_then(|()| daemon.start_gate()).map(|()| true)
    };
    let is_more = match turn {
      Ok(worked) => {
        is_under_way = true;
        worked || !is_all
      }
      Err(error) => {
        daemon.core.absorb(error)?;
        false
      }
    };
    // Not only when there is nothing left to do: writers can keep the daemon busy for any time.
    match daemon.finish_start() {
      Ok(true) => {
        tell(systemd::ready());
        tell(systemd::status(&daemon.core.status_line()));
      }
      Ok(false) => {
        if let Some(line) = daemon.tell_progress() {
          tell(systemd::status(&line));
        }
      }
      Err(error) => daemon.core.absorb(error)?,
    }
    if is_more {
      tokio::task::yield_now().await;
      continue;
    }
    if once {
      if let Some(why) = daemon.core.outage.text() {
        return Err(DaemonError::Outage(why.to_owned()));
      }
      if daemon.is_idle() {
        if let Some(why) = daemon.core.directories.guarded_elsewhere() {
          return Err(DaemonError::Outage(why));
        }
        break Ending::Settled;
      }
    }
    daemon.refresh(service.wakeup());
    let now = daemon.core.now();
    let due = [daemon.next_due(), service.next_due(now)];
    let due = due.into_iter().flatten().min();
    events.follow(&daemon).map_err(|error| DaemonError::Watch(error.to_string()))?;
    let event = next(&mut events, &mut asked, &mut scored, &mut signals, due).await;
    daemon.woke();
    match event {
      Some(Event::Mounts) => daemon.rescans.mounts_changed(&mut daemon.core),
      Some(Event::Gate(said)) => {
        daemon.hear_gate(said).or_else(|error| daemon.core.absorb(error))?;
      }
      Some(Event::Scored(scored)) => {
        daemon.hear_scores(scored).or_else(|error| daemon.core.absorb(error))?;
      }
      Some(Event::Terminate) => break Ending::Signal,
      Some(Event::Reload) => {
        tell(systemd::reloading());
        daemon.reload(source);
        // During the first scan, `finish_start` says that the daemon is ready.
        if !daemon.core.is_starting() {
          tell(systemd::ready());
          tell(systemd::status(&daemon.core.status_line()));
        }
      }
      // The next turn reads what the watcher or the worker has to say.
      Some(Event::Watch | Event::Answered) | None => {}
    }
  };
  tell(systemd::stopping());
  daemon.stop_gate().or_else(|error| daemon.core.absorb(error))?;
  daemon.stop(EventKind::Stopped);
  Ok(ending)
}

/// The sources of events.
struct Events {
  /// The watcher's descriptor; `None` while inotify is not available to the watcher.
  watched: Option<AsyncFd<Arc<OwnedFd>>>,
  mounts: Receiver<()>,
  answered: UnboundedReceiver<()>,
}

impl Events {
  /// Registers the watcher's descriptor as soon as there is one.
  fn follow(&mut self, daemon: &Daemon) -> std::io::Result<()> {
    if self.watched.is_none()
      && let Some(descriptor) = daemon.core.watching.watcher.descriptor()
    {
      // Its replacement is unsafe to call, because a type's descriptor may change; that of an `OwnedFd`
      // does not.
      #[expect(deprecated, reason = "the only form that safe code can call")]
      let watched = AsyncFd::with_interest(descriptor, Interest::READABLE)?;
      self.watched = Some(watched);
    }
    Ok(())
  }
}

/// Waits until the directories have events that came after the last call.
async fn happened(watched: Option<&AsyncFd<Arc<OwnedFd>>>) -> std::io::Result<()> {
  let Some(watched) = watched else { return std::future::pending().await };
  // The loop takes all events before the next wait, so only later events need to wake it.
  watched.readable().await?.clear_ready();
  Ok(())
}

/// The next event, or `None` when the next due time came first.
async fn next(
  events: &mut Events,
  asked: &mut UnboundedReceiver<gate::FromGate>,
  scored: &mut UnboundedReceiver<Scored>,
  signals: &mut Signals,
  due: Option<Duration>,
) -> Option<Event> {
  let timer = async {
    match due {
      Some(due) => tokio::time::sleep(due).await,
      None => std::future::pending().await,
    }
  };
  let Events { watched, mounts, answered } = events;
  tokio::select! {
    biased;
    asked = signals.wait() => Some(match asked {
      Asked::Terminate => Event::Terminate,
      Asked::Reload => Event::Reload,
    }),
    happened = happened(watched.as_ref()) => happened.ok().map(|()| Event::Watch),
    Some(()) = mounts.recv() => Some(Event::Mounts),
    Some(said) = asked.recv() => Some(Event::Gate(said)),
    Some(scored) = scored.recv() => Some(Event::Scored(scored)),
    Some(()) = answered.recv() => Some(Event::Answered),
    () = timer => None,
  }
}

/// Starts watching the mount table. Several changes before the next receive count as one.
fn watch_mounts() -> Receiver<()> {
  let (sender, receiver) = channel(1);
  let changed = Box::new(move || !matches!(sender.try_send(()), Err(TrySendError::Closed(()))));
  if let Err(error) = mounts::watch(changed) {
    tracing::warn!(target: "memfw", %error, "mounts over memory will not be noticed");
  }
  receiver
}
