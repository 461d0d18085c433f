//! Writes to the ledger what the link has answered, after the answer and in a thread of its own: another program
//! may hold the ledger for seconds, and no call waits for it.
#![forbid(unsafe_code)]

use std::{
  io,
  sync::{
    Arc,
    atomic::{AtomicBool, Ordering::SeqCst},
    mpsc::{SyncSender, TrySendError, sync_channel},
  },
  thread::JoinHandle,
};

use super::{
  input::start,
  reads::{Handed, record},
};
use crate::{
  app::context::Context,
  config::Config,
  engine::{Event, Foreseen, Target},
  link::RunNames,
  memory::BlockId,
  os::{Clock as _, SystemClock},
  terminal::{failure::Failure, output::Out},
};

/// The most entries that wait (a choice: while the ledger is held, calls of seconds).
const MAX_WAITING: usize = 32;
/// How often an entry is tried; each time waits for the ledger for some seconds (a choice).
const ATTEMPTS: u32 = 3;

/// What is written.
pub(super) enum Entry {
  /// Refused texts are sealed.
  Sealed(Box<Sealed>),
  /// Sealed texts were tried once more.
  Again(Vec<BlockId>),
  /// Something happened.
  Told(Event),
  /// Runs have got entries of memory.
  Reads(Vec<(RunNames, Handed)>),
}

/// Texts that were refused.
pub(super) struct Sealed {
  pub(super) target: Target,
  pub(super) foreseen: Foreseen,
  /// The ids that the plugin was told.
  pub(super) ids: Vec<BlockId>,
  pub(super) took_ms: f64,
  /// Set if they could not be sealed.
  pub(super) is_lost: Arc<AtomicBool>,
}

/// The thread.
pub(super) struct Recorder {
  entries: SyncSender<Entry>,
  thread: JoinHandle<()>,
  is_ending: Arc<AtomicBool>,
}

impl Recorder {
  /// Starts it.
  pub(super) fn start(context: &Context, config: &Config) -> Result<Self, Failure> {
    let Context { surroundings, log_level, preset, .. } = context;
    let (surroundings, log_level, preset) = (surroundings.clone(), *log_level, *preset);
    let config = config.clone();
    let is_ending = Arc::<AtomicBool>::default();
    let is_over = Arc::clone(&is_ending);
    let (entries, work) = sync_channel::<Entry>(MAX_WAITING);
    let thread = start("link-recorder", move || {
      let out = Out::to(Box::new(io::sink()), false, 80);
      let context = Context { surroundings, out, log_level, preset };
      // The plugin is gone: the process does not stay for minutes.
      let mut is_given_up = false;
      for entry in work {
        if is_given_up {
          lost(&entry, "the link ends");
          continue;
        }
        let mut written = write(&context, &config, &entry);
        for _ in 1..ATTEMPTS {
          if written.is_err() && !is_over.load(SeqCst) {
            written = write(&context, &config, &entry);
          }
        }
        if let Err(failure) = written {
          is_given_up = is_over.load(SeqCst);
          lost(&entry, &failure.error);
        }
      }
    })?;
    Ok(Self { entries, thread, is_ending })
  }

  /// Writes an entry later.
  pub(super) fn take(&self, entry: Entry) {
    if let Err(TrySendError::Full(entry) | TrySendError::Disconnected(entry)) =
      self.entries.try_send(entry)
    {
      lost(&entry, "too much waits to be written");
    }
  }

  /// Ends it, after everything that waits was tried.
  pub(super) fn finish(self) {
    self.is_ending.store(true, SeqCst);
    drop(self.entries);
    self.thread.join().ok();
  }
}

fn lost(entry: &Entry, why: &str) {
  match entry {
    Entry::Sealed(one) => {
      one.is_lost.store(true, SeqCst);
      tracing::warn!(error = why, "a refused text could not be sealed");
    }
    Entry::Reads(_) => tracing::warn!(error = why, "what a run has read could not be recorded"),
    Entry::Again(_) | Entry::Told(_) => {
      tracing::warn!(error = why, "a refusal could not be recorded");
    }
  }
}

fn write(context: &Context, config: &Config, entry: &Entry) -> Result<(), Failure> {
  match entry {
    Entry::Sealed(one) => {
      let Sealed { target, foreseen, ids, took_ms, .. } = &**one;
      context.engine(config)?.seal_attempt(target, foreseen, ids, *took_ms)?;
    }
    Entry::Again(ids) => context.ledger_to_write()?.seen_again(ids, SystemClock.now())?,
    Entry::Told(event) => event.tell(&mut context.ledger_to_write()?, SystemClock.now())?,
    Entry::Reads(due) => {
      let mut ledger = context.ledger_to_write()?;
      for (of, handed) in due {
        record(&mut ledger, of, handed, SystemClock.now())?;
      }
    }
  }
  Ok(())
}
