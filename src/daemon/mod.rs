//! The daemon: one loop, one closed event enum, no state that a restart loses.
//!
//! Everything that can wake the process is a variant of [`Event`] or a due time of the [`Queue`]; with
//! nothing pending there is no timer. An event carries no content: it only marks a path as dirty, and
//! nothing is opened while the stamp of the path is that of the ledger. Signals are seen before files.
#![forbid(unsafe_code)]

pub mod guard;
pub mod health;
pub mod queue;
mod readers;

use std::{path::PathBuf, time::Duration};

use tokio::{
  signal::unix::{Signal, SignalKind, signal},
  sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
};

pub use guard::Guard;
pub use health::{Health, Phase};
pub use queue::Queue;

use crate::{
  engine::{Engine, EngineError, EventKind},
  os::{RealFs, WatchEvent, Watcher, systemd},
};

/// Everything that can wake the daemon apart from its own due times.
#[derive(Debug)]
pub enum Event {
  /// Something about a watched directory.
  Watch(WatchEvent),
  /// SIGTERM or SIGINT: finish the operation in hand and stop.
  Terminate,
}

/// What the daemon is asked to do.
#[derive(Clone, Debug)]
pub struct Options {
  /// The workspaces to guard.
  pub workspaces: Vec<PathBuf>,
  /// Process what is pending and stop.
  pub once: bool,
}

/// Why the daemon could not run.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
  /// The engine.
  #[error(transparent)]
  Engine(#[from] EngineError),
  /// The watcher could not be made.
  #[error("cannot watch directories: {0}")]
  Watch(String),
  /// The loop could not be made.
  #[error("cannot start the event loop: {0}")]
  Loop(#[from] std::io::Error),
}

/// Runs until SIGTERM, or with `once` until nothing is pending. The caller holds the daemon lock.
pub fn run(engine: Engine<RealFs>, options: Options) -> Result<(), DaemonError> {
  let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
  runtime.block_on(serve(engine, options))
}

async fn serve(engine: Engine<RealFs>, options: Options) -> Result<(), DaemonError> {
  let (sender, mut events) = unbounded_channel();
  // Handlers first: a SIGTERM during the first scan must end it in order, too.
  let mut signals = Signals::new()?;
  let watcher = watcher(sender)?;
  let mut guard = Guard::new(engine, watcher, options.workspaces);
  guard.start()?;
  loop {
    if signals.terminated() {
      break;
    }
    drain(&mut guard, &mut events);
    // One piece of work at a time, so that a signal or an event never waits for the whole queue.
    if guard.work()? {
      tokio::task::yield_now().await;
      continue;
    }
    if guard.finish_start()? {
      tell_systemd(systemd::ready());
      tell_systemd(systemd::status(&guard.status_line()));
    }
    if options.once && guard.is_idle() {
      break;
    }
    match next(&mut events, &mut signals, guard.next_due()).await {
      Some(Event::Watch(event)) => guard.seen(&event),
      Some(Event::Terminate) => break,
      None => {}
    }
  }
  tell_systemd(systemd::stopping());
  guard.stop(EventKind::Stopped)?;
  Ok(())
}

/// All events that are there already, so that an open that followed a close is known before the file
/// is processed.
fn drain(guard: &mut Guard, events: &mut UnboundedReceiver<WatchEvent>) {
  while let Ok(event) = events.try_recv() {
    guard.seen(&event);
  }
}

/// The next event, or `None` when the next due time came first.
async fn next(
  events: &mut UnboundedReceiver<WatchEvent>,
  signals: &mut Signals,
  due: Option<Duration>,
) -> Option<Event> {
  let timer = async {
    match due {
      Some(due) => tokio::time::sleep(due).await,
      None => std::future::pending().await,
    }
  };
  tokio::select! {
    biased;
    () = signals.wait() => Some(Event::Terminate),
    event = events.recv() => event.map(Event::Watch),
    () = timer => None,
  }
}

fn watcher(sender: UnboundedSender<WatchEvent>) -> Result<Watcher, DaemonError> {
  // The channel is unbounded on purpose: an event that was dropped is a file that is not guarded.
  let forward = Box::new(move |event| {
    // The receiver is gone only while the daemon stops.
    sender.send(event).ok();
  });
  Watcher::new(forward).map_err(|error| DaemonError::Watch(error.to_string()))
}

/// A service manager that cannot be told anything is no reason to stop guarding.
fn tell_systemd(told: std::io::Result<()>) {
  if let Err(error) = told {
    tracing::debug!(target: "memfw", %error, "the service manager was not told");
  }
}

/// SIGTERM and SIGINT.
struct Signals {
  terminate: Signal,
  interrupt: Signal,
}

impl Signals {
  fn new() -> std::io::Result<Self> {
    Ok(Self {
      terminate: signal(SignalKind::terminate())?,
      interrupt: signal(SignalKind::interrupt())?,
    })
  }

  async fn wait(&mut self) {
    tokio::select! {
      _ = self.terminate.recv() => {}
      _ = self.interrupt.recv() => {}
    }
  }

  /// Whether one of them has come, without waiting.
  fn terminated(&mut self) -> bool {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    self.terminate.poll_recv(&mut context).is_ready()
      || self.interrupt.poll_recv(&mut context).is_ready()
  }
}
