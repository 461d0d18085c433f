//! Directories that another installation of memfw guards. Each ledger would take the other's comments
//! for forged, so only one installation may write. The other waits, and takes over when the lock is
//! free.
#![forbid(unsafe_code)]

use std::{
  collections::{BTreeSet, HashMap},
  path::{Path, PathBuf},
  time::Duration,
};

use super::service::seconds;
use crate::{
  engine::{Engine, EngineError, event::shown},
  files::{RealFs, Stamp},
  os::{WorkspaceLock, workspace_lock::Taken},
  store::PartKind,
};

/// How often the lock is tried while another installation has it (a choice: nothing reports that it is
/// free).
const EVERY: Duration = Duration::from_secs(2);

/// The locks of the guarded directories.
#[derive(Debug, Default)]
pub(super) struct Locks {
  held: HashMap<PathBuf, WorkspaceLock>,
  foreign: BTreeSet<PathBuf>,
  /// When a directory was first found to be guarded by another installation, in microseconds UTC. It stays
  /// after this installation has taken over.
  foreign_since: HashMap<PathBuf, i64>,
  due: Duration,
}

impl Locks {
  /// Whether another installation guards a directory.
  pub(super) fn is_foreign(&self, root: &Path) -> bool {
    self.foreign.contains(root)
  }

  /// The directories that another installation guards.
  pub(super) fn foreign(&self) -> impl Iterator<Item = &PathBuf> {
    self.foreign.iter()
  }

  /// How this wakes the process, for `status`.
  pub(super) fn wakeups(&self) -> impl Iterator<Item = String> {
    self.foreign.iter().map(|root| {
      let (root, every) = (shown(root), seconds(EVERY));
      format!("checks every {every} whether another memfw still guards `{root}`")
    })
  }

  /// Whether a file with this stamp was written while another installation guarded its directory.
  pub(super) fn is_of_others(&self, root: &Path, stamp: &Stamp) -> bool {
    self.foreign_since.get(root).is_some_and(|since| stamp.ctime_ns / 1_000 >= *since)
  }

  /// Notes that these directories were guarded under another ledger since this time.
  pub(super) fn guarded_by_others(&mut self, roots: &[PathBuf], since: i64) {
    for root in roots {
      self.foreign_since.entry(root.clone()).or_insert(since);
    }
  }

  /// Whether another installation has guarded a directory since this one started.
  pub(super) fn was_foreign(&self, root: &Path) -> bool {
    self.foreign_since.contains_key(root)
  }

  /// Whether this installation has the lock of a directory.
  pub(super) fn is_held(&self, root: &Path) -> bool {
    self.held.contains_key(root)
  }

  /// Gives back the lock of a directory.
  pub(super) fn release(&mut self, root: &Path) {
    self.held.remove(root);
  }

  /// Gives back all locks.
  pub(super) fn release_all(&mut self) {
    self.held.clear();
  }

  /// Forgets a directory that is not guarded any more.
  pub(super) fn forget(&mut self, root: &Path) {
    self.held.remove(root);
    self.foreign.remove(root);
    self.foreign_since.remove(root);
  }

  /// How long until the locks are tried again.
  pub(super) fn next_due(&self, now: Duration) -> Option<Duration> {
    (!self.foreign.is_empty()).then(|| self.due.saturating_sub(now))
  }

  /// Takes the lock of a directory, and reports a directory that another installation guards. Returns
  /// whether this installation may write there.
  pub(super) fn own(
    &mut self,
    engine: &mut Engine<RealFs>,
    root: &Path,
  ) -> Result<bool, EngineError> {
    let part = PartKind::Lock.of(shown(root));
    match self.take(root) {
      Ok(()) => {
        self.foreign.remove(root);
        engine.recovered(part)?;
        Ok(true)
      }
      Err(taken) => {
        let at = engine.clock().now();
        self.foreign.insert(root.to_owned());
        self.foreign_since.entry(root.to_owned()).or_insert(at);
        self.due = engine.clock().monotonic() + EVERY;
        engine.degrade(part, &already_guarded(root, taken))?;
        Ok(false)
      }
    }
  }

  /// The given directories into which this installation may write.
  pub(super) fn owned(
    &mut self,
    engine: &mut Engine<RealFs>,
    roots: &[PathBuf],
  ) -> Result<Vec<PathBuf>, EngineError> {
    let mut owned = Vec::new();
    for root in roots {
      if self.own(engine, root)? {
        owned.push(root.clone());
      }
    }
    Ok(owned)
  }

  /// The directories of other installations whose locks are to be tried now.
  pub(super) fn take_due(&mut self, now: Duration) -> Vec<PathBuf> {
    if self.foreign.is_empty() || now < self.due {
      return vec![];
    }
    self.due = now + EVERY;
    self.foreign.iter().cloned().collect()
  }

  /// Takes the lock of a directory. If the lock cannot be opened, no installation counts as its holder.
  fn take(&mut self, root: &Path) -> Result<(), Taken> {
    if self.held.get(root).is_some_and(|lock| lock.is_of(root)) {
      return Ok(());
    }
    self.held.remove(root);
    match WorkspaceLock::acquire(root) {
      Ok(Ok(lock)) => {
        if !lock.is_held() {
          tracing::debug!(target: "memfw", file = shown(root), "the workspace cannot be locked");
        }
        self.held.insert(root.to_owned(), lock);
      }
      Ok(Err(taken)) => return Err(taken),
      Err(_) => {}
    }
    Ok(())
  }
}

/// The text of the degradation for a directory that another installation guards.
fn already_guarded(root: &Path, taken: Taken) -> String {
  let who = taken.pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default();
  format!(
    "`{}` is guarded by another memfw{who} with a ledger of its own: this one writes nothing \
    there, and takes over when the other one ends",
    shown(root)
  )
}
