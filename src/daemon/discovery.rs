//! Discovery: directories that no person named are found through the agent framework's configuration,
//! and found again when that configuration changes.
//!
//! The daemon does not read these files; it sees that one has changed, and calls [`Reload::discover`].
#![forbid(unsafe_code)]

use std::{
  collections::BTreeSet,
  path::{Path, PathBuf},
  time::Duration,
};

use super::{Daemon, Helpers, Reload, health::told, unread::Unread};
use crate::{engine::EngineError, files::Shapes, provenance::AgentRecords};

/// The pause before a changed configuration is read (a choice): it is often written in steps.
const REREAD_AFTER: Duration = Duration::from_millis(250);
/// The key of the degradation when something could not be found out.
const KEY: &str = "discovery";

/// The result of a discovery.
pub struct Discovery {
  /// The directories to guard, workspaces first.
  pub workspaces: Vec<PathBuf>,
  /// Which directories are not workspaces.
  pub shapes: Shapes,
  /// Whether a person named the directories, so that each of them must exist.
  pub is_named: bool,
  /// The agent framework's records about them.
  pub agent: Box<dyn AgentRecords>,
  /// The configuration files from which the directories were found, in directories without symbolic
  /// links.
  pub files: Vec<PathBuf>,
  /// What could not be found out, a sentence each: memory may be unguarded.
  pub notes: Vec<String>,
  /// The programs that can run after a quarantine.
  pub helpers: Helpers,
  /// Whether directories that are not listed need no guard. While a configuration cannot be read, the
  /// directories found before stay guarded.
  pub is_complete: bool,
}

/// The configuration files, while the daemon runs.
#[derive(Debug, Default)]
pub(super) struct Sources {
  files: Vec<PathBuf>,
  /// What could not be found out before the start.
  notes: Vec<String>,
  dirs: BTreeSet<PathBuf>,
  /// When they are read again after a change.
  due: Option<Duration>,
  /// When they are read again because something could not be found out.
  unread: Unread<()>,
}

impl Sources {
  /// The files, and what could not be found out.
  pub(super) fn new(files: Vec<PathBuf>, notes: Vec<String>) -> Self {
    Self { files, notes, ..Self::default() }
  }

  /// The files and notes that the daemon was started with.
  pub(super) fn first(&self) -> (Vec<PathBuf>, Vec<String>) {
    (self.files.clone(), self.notes.clone())
  }

  /// Whether a directory is watched because of these files.
  pub(super) fn is_watched(&self, dir: &Path) -> bool {
    self.dirs.contains(dir)
  }

  /// How long until they are read again.
  pub(super) fn next_due(&self, now: Duration) -> Option<Duration> {
    let due = self.due.map(|due| due.saturating_sub(now));
    due.into_iter().chain(self.unread.next_due(now)).min()
  }
}

impl Daemon {
  /// Sets the configuration files, and what could not be found out.
  pub(super) fn set_sources(
    &mut self,
    files: Vec<PathBuf>,
    notes: Vec<String>,
  ) -> Result<(), EngineError> {
    self.sources.files = files;
    self.watch_sources();
    match told(notes) {
      None => {
        self.sources.unread = Unread::default();
        self.engine.recovered(KEY)
      }
      Some(text) => {
        // A file that could not be read may become readable without a change.
        let now = self.now();
        self.sources.unread.failed(&(), now);
        self.engine.degrade(KEY, &text)
      }
    }
  }

  /// Watches the directories of these files, as far as they exist. When such a directory appears, its
  /// file may have appeared, too.
  pub(super) fn watch_sources(&mut self) {
    let wanted: BTreeSet<PathBuf> =
      self.sources.files.iter().filter_map(|file| file.parent()).map(Path::to_owned).collect();
    for dir in self.sources.dirs.clone() {
      if !wanted.contains(&dir)
        && !self.directories.workspaces.iter().any(|root| dir.starts_with(root))
      {
        self.watching.watcher.remove(&dir);
      }
    }
    self.sources.dirs = wanted;
    let watched = self.watching.watcher.watched();
    for dir in self.sources.dirs.clone() {
      if watched.binary_search(&dir).is_err() && dir.is_dir() {
        match self.watching.watcher.add(&dir) {
          Ok(()) => self.sources.due = Some(self.now() + REREAD_AFTER),
          Err(error) => {
            tracing::warn!(
              target: "memfw", %error,
              "changes of the agent's configuration are not detected"
            );
          }
        }
      }
    }
  }

  /// Notes an event about a path.
  pub(super) fn note_source(&mut self, path: &Path) {
    // The first event sets the time: later writes cause events of their own.
    if self.sources.due.is_none() && self.sources.files.iter().any(|file| file == path) {
      self.sources.due = Some(self.now() + REREAD_AFTER);
    }
  }

  /// Runs the discovery again, if it is due.
  pub fn rediscover(&mut self, source: &dyn Reload) {
    let now = self.now();
    let is_again = !self.sources.unread.take(now).is_empty();
    if self.sources.due.is_none_or(|due| due > now) && !is_again {
      return;
    }
    self.sources.due = None;
    self.report(|daemon| match source.discover(daemon.engine.config()) {
      Ok(found) => daemon.take_found(found),
      Err(why) => {
        let now = daemon.now();
        daemon.sources.unread.failed(&(), now);
        daemon.engine.degrade(KEY, &why)
      }
    });
  }

  fn take_found(&mut self, mut found: Discovery) -> Result<(), EngineError> {
    self.keep_known(&mut found);
    if (&found.workspaces, &found.shapes)
      == (&self.directories.workspaces, &self.directories.shapes)
    {
      self.engine.set_agent(found.agent);
      self.set_helpers(found.helpers)?;
      return self.set_sources(found.files, found.notes);
    }
    let config = self.engine.config().clone();
    self.configure(config, found)
  }

  /// Keeps the known directories guarded while the discovery is incomplete.
  pub(super) fn keep_known(&self, found: &mut Discovery) {
    if !found.is_complete {
      let known =
        self.directories.workspaces.iter().filter(|root| !found.workspaces.contains(root));
      let known: Vec<PathBuf> = known.cloned().collect();
      found.workspaces.extend(known);
      found.shapes.extend(&self.directories.shapes);
    }
  }
}
