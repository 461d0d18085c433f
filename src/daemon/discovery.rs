//! Discovery: directories that no person named are found through the agent framework's configuration,
//! and found again when that configuration changes.
//!
//! The daemon does not read these files; it sees that one has changed, and then
//! [`super::Reload::discover`] is called.
#![forbid(unsafe_code)]

use std::{
  collections::BTreeSet,
  path::{Path, PathBuf},
  time::Duration,
};

use super::{
  asked_again::{AskedAgain, UNREAD},
  core::Core,
  directories::Directories,
  health::joined,
  notifications::Helpers,
  skill_check::SkillPlaces,
};
use crate::{
  engine::{EngineError, event::shown},
  files::Shapes,
  provenance::AgentRecords,
  store::PartKind,
};

/// The pause before a changed configuration is read (a choice): it is often written in steps.
const REREAD_AFTER: Duration = Duration::from_millis(250);

/// The longest time for which further changes of memfw's own configuration put its reading off (a choice).
const LONGEST_DEBOUNCE: Duration = Duration::from_secs(2);

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
  /// Those of the notes that also matter if a person named the directories: agents, limits and records come
  /// from the configuration in any case.
  pub unreadable: Vec<String>,
  /// Why the configuration of memfw may not be the owner's, so that not all of it is in force.
  pub distrust: Option<String>,
  /// The programs that can run after a quarantine.
  pub helpers: Helpers,
  /// Where skills lie.
  pub skills: SkillPlaces,
  /// Whether directories that are not listed need no guard. While a configuration cannot be read, the
  /// directories found before stay guarded.
  pub is_complete: bool,
}

impl Discovery {
  /// Keeps the known directories guarded while the discovery is incomplete.
  pub(super) fn keep_known(&mut self, directories: &Directories) {
    if !self.is_complete {
      let known = directories.workspaces.iter().filter(|root| !self.workspaces.contains(root));
      let known: Vec<PathBuf> = known.cloned().collect();
      self.workspaces.extend(known);
      self.shapes.extend(&directories.shapes);
    }
  }
}

/// The configuration files, while the daemon runs.
#[derive(Debug)]
pub(super) struct Sources {
  files: Vec<PathBuf>,
  /// What could not be found out before the start.
  notes: Vec<String>,
  /// As in [`Discovery`], before the start.
  distrust: Option<String>,
  dirs: BTreeSet<PathBuf>,
  /// When they are read again after a change.
  due: Option<Duration>,
  /// When they are read again because something could not be found out.
  unread: AskedAgain<()>,
  /// memfw's own configuration file, and the file that it is a link to.
  own: Vec<PathBuf>,
  /// When that file is read again after a change, and since when it changes.
  own_due: Option<(Duration, Duration)>,
}

impl Default for Sources {
  fn default() -> Self {
    Self {
      files: vec![],
      notes: vec![],
      distrust: None,
      dirs: BTreeSet::new(),
      due: None,
      unread: AskedAgain::at(&UNREAD),
      own: vec![],
      own_due: None,
    }
  }
}

impl Sources {
  /// The files, what could not be found out, and why the configuration of memfw may not be the owner's.
  pub(super) fn new(files: Vec<PathBuf>, notes: Vec<String>, distrust: Option<String>) -> Self {
    Self { files, notes, distrust, ..Self::default() }
  }

  /// Notes what the daemon was started with.
  pub(super) fn start(&mut self, core: &mut Core) -> Result<(), EngineError> {
    self.set(core, self.files.clone(), self.notes.clone(), self.distrust.clone())
  }

  /// Whether a directory is watched because of these files.
  pub(super) fn is_watched(&self, dir: &Path) -> bool {
    self.dirs.contains(dir)
  }

  /// How long until they are read again.
  pub(super) fn next_due(&self, now: Duration) -> Option<Duration> {
    let own = self.own_due.map(|(due, _)| due);
    let due = [self.due, own].into_iter().flatten().map(|due| due.saturating_sub(now));
    due.chain(self.unread.next_due(now)).min()
  }

  /// Sets the configuration files, what could not be found out, and why the configuration of memfw may not be the
  /// owner's.
  pub(super) fn set(
    &mut self,
    core: &mut Core,
    files: Vec<PathBuf>,
    notes: Vec<String>,
    distrust: Option<String>,
  ) -> Result<(), EngineError> {
    self.files = files;
    self.watch(core);
    let notes = joined(notes);
    if notes.is_none() && distrust.is_none() {
      self.unread = AskedAgain::at(&UNREAD);
    }
    match &distrust {
      None => core.engine.recovered(PartKind::ConfigurationOwner)?,
      // The owner and the mode of a file change without an event about its content.
      Some(why) => {
        let now = core.now();
        self.unread.failed(&(), now);
        core.engine.degrade(PartKind::ConfigurationOwner, why)?;
      }
    }
    match notes {
      None => core.engine.recovered(PartKind::Discovery),
      // A file that could not be read may become readable without a change.
      Some(text) => self.failed(core, &text),
    }
  }

  /// Watches the directories of these files, as far as they exist. When such a directory appears, its
  /// file may have appeared, too.
  pub(super) fn watch(&mut self, core: &mut Core) {
    let wanted: BTreeSet<PathBuf> = self
      .files
      .iter()
      .chain(&self.own)
      .filter_map(|file| file.parent())
      .map(Path::to_owned)
      .collect();
    for dir in self.dirs.clone() {
      if !wanted.contains(&dir) && core.directories.is_outside(&dir) {
        core.watching.watcher.remove(&dir);
      }
    }
    self.dirs = wanted;
    let watched = core.watching.watcher.watched();
    for dir in self.dirs.clone() {
      if watched.binary_search(&dir).is_err() && dir.is_dir() {
        match core.watching.watcher.add(&dir) {
          Ok(()) => {
            let now = core.now();
            self.due = Some(now + REREAD_AFTER);
            self.note_own(now);
          }
          Err(error) => {
            tracing::warn!(
              target: "memfw", %error, file = shown(&dir),
              "changes of a configuration are not detected"
            );
          }
        }
      }
    }
  }

  /// Notes an event about a path.
  pub(super) fn note(&mut self, path: &Path, now: Duration) {
    // The first event sets the time: later writes cause events of their own.
    if self.due.is_none() && self.files.iter().any(|file| file == path) {
      self.due = Some(now + REREAD_AFTER);
    }
    if self.own.iter().any(|file| file == path) {
      self.note_own(now);
    }
  }

  /// memfw's own configuration may have changed. It is read once the writes end: half of a file may be valid.
  fn note_own(&mut self, now: Duration) {
    if !self.own.is_empty() {
      let since = self.own_due.map_or(now, |(_, since)| since);
      self.own_due = Some(((now + REREAD_AFTER).min(since + LONGEST_DEBOUNCE), since));
    }
  }

  /// Watches memfw's own configuration file, and the file that it is a link to.
  pub(super) fn follow_own(&mut self, core: &mut Core, file: PathBuf) {
    let real = file.canonicalize().ok().filter(|real| *real != file);
    // Events have the real path of their directory.
    let there = file.parent().and_then(|dir| dir.canonicalize().ok());
    let named = there.zip(file.file_name()).map(|(dir, name)| dir.join(name));
    self.own = [Some(named.unwrap_or(file)), real].into_iter().flatten().collect();
    self.own.dedup();
    self.watch(core);
  }

  /// Whether memfw's own configuration is to be read again now; the caller must do so.
  pub(super) fn take_own(&mut self, now: Duration) -> bool {
    self.own_due.take_if(|(due, _)| *due <= now).is_some()
  }

  /// Whether they are to be read again now; the caller must do so.
  pub(super) fn take(&mut self, now: Duration) -> bool {
    let is_again = !self.unread.take(now).is_empty();
    if self.due.is_none_or(|due| due > now) && !is_again {
      return false;
    }
    self.due = None;
    true
  }

  /// Notes that they could not be read, and why.
  pub(super) fn failed(&mut self, core: &mut Core, why: &str) -> Result<(), EngineError> {
    let now = core.now();
    self.unread.failed(&(), now);
    core.engine.degrade(PartKind::Discovery, why)
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn a_configuration_is_read_when_its_writes_end_or_go_on_for_long() {
    let at = Duration::from_millis;
    let mut sources = Sources { own: vec![PathBuf::from("/c/config.toml")], ..Sources::default() };
    sources.note(Path::new("/c/other"), at(0));
    assert_eq!(sources.next_due(at(0)), None);
    for ms in [1_000, 1_100, 1_200] {
      sources.note(Path::new("/c/config.toml"), at(ms));
    }
    assert!(!sources.take_own(at(1_449)));
    assert_eq!(sources.next_due(at(1_449)), Some(at(1)));
    assert!(sources.take_own(at(1_450)));
    assert!(!sources.take_own(at(9_000)));
    let mut now = 10_000;
    while !sources.take_own(at(now)) {
      sources.note(Path::new("/c/config.toml"), at(now));
      now += 100;
      assert!(now < 20_000, "it is never read");
    }
    assert_eq!(now, 12_000);
  }
}
