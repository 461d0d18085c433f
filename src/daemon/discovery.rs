//! What is guarded where nobody named it: found through the agent framework's own configuration, and
//! found anew when that changes.
//!
//! The daemon does not know what these files say; it only sees that one of them has changed, and asks
//! again whoever does.
#![forbid(unsafe_code)]

use std::{
  collections::BTreeSet,
  path::{Path, PathBuf},
  time::Duration,
};

use super::{Guard, Helpers, Reload, health::told, unread::Unread};
use crate::{engine::EngineError, files::Shapes, provenance::AgentRecords};

/// How long a changed configuration is left alone before it is read: writers change it in steps.
const REREAD_AFTER: Duration = Duration::from_millis(250);
/// The key under which stands what could not be found.
const KEY: &str = "discovery";

/// What was found.
pub struct Discovery {
  /// The directories to guard, workspaces first.
  pub workspaces: Vec<PathBuf>,
  /// Which of them are no workspaces.
  pub shapes: Shapes,
  /// Whether a person has named them, so that each has to be there.
  pub is_named: bool,
  /// The agent framework's records about them.
  pub agent: Box<dyn AgentRecords>,
  /// The files that this follows from, in directories without links.
  pub files: Vec<PathBuf>,
  /// What could not be found out, a sentence each: memory may be unguarded.
  pub notes: Vec<String>,
  /// What can be run after a quarantine.
  pub helpers: Helpers,
  /// Whether what is not among the workspaces needs no guard. While a configuration cannot be read, what
  /// was found before stays guarded.
  pub is_complete: bool,
}

/// What is known of it while the daemon runs.
#[derive(Debug, Default)]
pub(super) struct Sources {
  files: Vec<PathBuf>,
  dirs: BTreeSet<PathBuf>,
  /// When they are read again.
  due: Option<Duration>,
  /// When they are, because something about them could not be found out.
  unread: Unread<()>,
}

impl Sources {
  /// Whether a directory is watched for their sake.
  pub(super) fn is_watched(&self, dir: &Path) -> bool {
    self.dirs.contains(dir)
  }

  /// How long until they are read again.
  pub(super) fn next_due(&self, now: Duration) -> Option<Duration> {
    let due = self.due.map(|due| due.saturating_sub(now));
    due.into_iter().chain(self.unread.next_due(now)).min()
  }
}

impl Guard {
  /// Remembers what the guarded workspaces follow from, and what could not be found.
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
        // What failed once need not change for it to be readable again.
        let now = self.now();
        self.sources.unread.failed(&(), now);
        self.engine.degrade(KEY, &text)
      }
    }
  }

  /// Watches the directories of these files, as far as they are there. That one appears can mean that
  /// its file did.
  pub(super) fn watch_sources(&mut self) {
    let wanted: BTreeSet<PathBuf> =
      self.sources.files.iter().filter_map(|file| file.parent()).map(Path::to_owned).collect();
    for dir in self.sources.dirs.clone() {
      if !wanted.contains(&dir) && !self.workspaces.iter().any(|root| dir.starts_with(root)) {
        self.watcher.remove(&dir);
      }
    }
    self.sources.dirs = wanted;
    let watched = self.watcher.watched();
    for dir in self.sources.dirs.clone() {
      if watched.binary_search(&dir).is_err() && dir.is_dir() {
        match self.watcher.add(&dir) {
          Ok(()) => self.sources.due = Some(self.now() + REREAD_AFTER),
          Err(error) => {
            tracing::warn!(target: "memfw", %error, "changes of the agent's configuration are not seen");
          }
        }
      }
    }
  }

  /// Something happened to a path.
  pub(super) fn note_source(&mut self, path: &Path) {
    // The first event counts: whatever comes later makes events of its own.
    if self.sources.due.is_none() && self.sources.files.iter().any(|file| file == path) {
      self.sources.due = Some(self.now() + REREAD_AFTER);
    }
  }

  /// Finds anew what is to be guarded, if that is due.
  pub fn rediscover(&mut self, source: &dyn Reload) {
    let now = self.now();
    let is_again = !self.sources.unread.take(now).is_empty();
    if self.sources.due.is_none_or(|due| due > now) && !is_again {
      return;
    }
    self.sources.due = None;
    self.report(|guard| match source.discover(guard.engine.config()) {
      Ok(found) => guard.take_found(found),
      Err(why) => {
        let now = guard.now();
        guard.sources.unread.failed(&(), now);
        guard.engine.degrade(KEY, &why)
      }
    });
  }

  fn take_found(&mut self, mut found: Discovery) -> Result<(), EngineError> {
    self.keep_known(&mut found);
    if (&found.workspaces, &found.shapes) == (&self.workspaces, &self.shapes) {
      self.engine.set_agent(found.agent);
      self.set_helpers(found.helpers)?;
      return self.set_sources(found.files, found.notes);
    }
    let config = self.engine.config().clone();
    self.configure(config, found)
  }

  /// What was guarded stays so while it cannot be told what is used.
  pub(super) fn keep_known(&self, found: &mut Discovery) {
    if !found.is_complete {
      let known = self.workspaces.iter().filter(|root| !found.workspaces.contains(root));
      let known: Vec<PathBuf> = known.cloned().collect();
      found.workspaces.extend(known);
      found.shapes.extend(&self.shapes);
    }
  }
}
