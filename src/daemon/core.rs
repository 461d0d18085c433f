//! The core of the daemon: what each of its parts may use and change. It starts no work by itself.
#![forbid(unsafe_code)]

use std::{
  path::{Path, PathBuf},
  time::Duration,
};

use super::{
  adoption::Adoption,
  directories::Directories,
  error::DaemonError,
  health::{Health, Phase},
  outage::Outage,
  queue::{Kind, Queue},
  watching::Watching,
};
use crate::{
  engine::{Engine, EngineError, Target, event::shown},
  files::RealFs,
  plural,
  store::{PartKind, StateKey, StoreError},
};

/// What each part of the daemon may use and change.
pub(super) struct Core {
  pub(super) engine: Engine<RealFs>,
  pub(super) fs: RealFs,
  pub(super) directories: Directories,
  pub(super) watching: Watching,
  pub(super) queue: Queue,
  /// The directories whose content at the start becomes the baseline.
  pub(super) adoption: Adoption,
  pub(super) outage: Outage,
  pub(super) health: Health,
  /// Which content of the configuration file was read last, valid or not.
  pub(super) configuration: String,
  /// Why nothing can be sealed, and so nothing is redacted.
  pub(super) report_only: Option<String>,
}

impl Core {
  pub(super) fn now(&self) -> Duration {
    self.engine.clock().monotonic()
  }

  /// Whether the start-up scan is in progress.
  pub(super) fn is_starting(&self) -> bool {
    self.health.phase == Phase::Starting
  }

  /// Queues a step of a file.
  pub(super) fn enqueue(&mut self, kind: Kind, target: Target) {
    let now = self.now();
    match kind {
      Kind::Urgent => self.queue.dirty(target, now),
      Kind::Lazy => self.queue.reshape(target, now),
      Kind::Attribute => self.queue.attribute(target, now),
      Kind::Scored => self.queue.scored(target, now),
      Kind::Model => self.queue.read(target, now),
      Kind::Judge => self.queue.consult(target, now),
    }
  }

  /// Queues a step of a file, if the file is still guarded.
  pub(super) fn enqueue_guarded(&mut self, kind: Kind, target: Target) {
    if self.directories.workspaces.contains(&target.root) {
      self.enqueue(kind, target);
    }
  }

  /// Forgets what was noted about a file until it is processed.
  pub(super) fn forget(&mut self, target: &Target) {
    self.queue.ended(target);
    self.watching.readers.forget(target);
    self.adoption.forget(target);
  }

  /// Forgets a directory that is not guarded any more.
  pub(super) fn forget_root(&mut self, root: &Path) -> Result<(), EngineError> {
    self.directories.locks.forget(root);
    self.adoption.forget_root(&mut self.engine, root)?;
    for target in self.queue.dirty_targets().filter(|target| target.root == root) {
      self.outage.unblock(target);
    }
    self.queue.retain(|target| target.root != root);
    self.watching.readers.forget_root(root);
    // Degradations of the directory have no meaning any more.
    let root = shown(root);
    for (key, ..) in self.engine.ledger().states()? {
      let StateKey::Degraded(part) = &key else { continue };
      if part.kind() != PartKind::Left && part.is_in(&root) {
        self.engine.ledger_mut().remove_state(&key)?;
      }
    }
    Ok(())
  }

  /// Whether this installation may write into a directory. After an outage, in which the locks were given back,
  /// the lock is taken first: another installation may guard the directory now.
  pub(super) fn may_write(&mut self, root: &Path) -> Result<bool, EngineError> {
    let locks = &self.directories.locks;
    let is_ours = self.directories.workspaces.iter().any(|one| one == root);
    if locks.is_foreign(root) || locks.is_held(root) || !is_ours {
      return Ok(!locks.is_foreign(root));
    }
    self.own(root)
  }

  /// Completes interrupted edits, except in directories that another installation guards.
  pub(super) fn recover(&mut self) -> Result<usize, EngineError> {
    let foreign: Vec<PathBuf> = self.directories.locks.foreign().cloned().collect();
    self.engine.recover_outside(&foreign)
  }

  /// Counts memfw's own opens, because they also cause events.
  pub(super) fn count_opens(&mut self) {
    for opened in self.engine.files().take_opens() {
      self.watching.readers.opened_by_us(&opened);
    }
  }

  /// Runs something on an event, which has no caller to return an error to: the error is logged, and
  /// after an outage a rescan finds what was not noted.
  pub(super) fn report(&mut self, what: impl FnOnce(&mut Self) -> Result<(), EngineError>) {
    match what(self) {
      Ok(()) => {}
      Err(EngineError::Store(error)) if error.is_outage() => self.begin_outage(&error),
      Err(error) => tracing::error!(target: "memfw", %error, "an event could not be stored"),
    }
  }

  /// Handles an error that means an outage, in which a later try may succeed; returns any other error.
  pub(super) fn absorb(&mut self, error: DaemonError) -> Result<(), DaemonError> {
    match error {
      DaemonError::Engine(EngineError::Store(error)) if error.is_outage() => {
        self.begin_outage(&error);
        Ok(())
      }
      error => Err(error),
    }
  }

  pub(super) fn begin_outage(&mut self, error: &StoreError) {
    let now = self.now();
    self.outage.begin(error, now);
    if self.outage.is_moved() {
      // Another installation that has its ledger may guard meanwhile.
      self.directories.locks.release_all();
    }
  }

  /// Ends the outage once no file is blocked. Returns whether this call ended it: events during the outage
  /// may not have been recorded, so the caller must have everything rescanned.
  pub(super) fn end_outage(&mut self) -> bool {
    self.outage.end(&mut self.engine).unwrap_or_else(|error| {
      self.begin_outage(&error);
      false
    })
  }

  /// Takes the lock of a directory, and reports a directory that another installation guards. Returns
  /// whether this installation may write there.
  pub(super) fn own(&mut self, root: &Path) -> Result<bool, EngineError> {
    self.directories.locks.own(&mut self.engine, root)
  }

  /// One line about what is guarded.
  pub(super) fn status_line(&self) -> String {
    let at = self.engine.clock().now();
    let n_files = self.engine.ledger().counts(at).map_or(0, |counts| counts.files);
    let files = plural::count(n_files, "file");
    format!("guarding {files} in {}", self.health.workspaces.join(", "))
  }

  pub(super) fn write_health(&mut self) -> Result<(), EngineError> {
    let json = serde_json::to_string(&self.health).unwrap_or_default();
    let at = self.engine.clock().now();
    self.engine.ledger_mut().set_state(&StateKey::Daemon, &json, at)?;
    Ok(())
  }
}
