//! SIGHUP: a valid configuration takes effect, an invalid one changes nothing; likewise the rules.
#![forbid(unsafe_code)]

use std::{path::PathBuf, sync::Arc};

use super::{Daemon, Discovery, health::encode, moved::adopting_key};
use crate::{
  config::Config,
  detect::rules::Rules,
  engine::{self, EngineError, Event, EventKind, event::shown},
  files::RealFs,
  store::{Ledger, StateKey},
};

/// The key of the degradation when the user's rules are invalid.
pub(super) const RULES: &str = "rules";

/// The source of configuration, rules and key. Errors are sentences for a person.
pub trait Reload {
  /// Reads the configuration.
  fn configuration(&self) -> Result<Config, String>;
  /// Finds the directories to guard under a configuration.
  fn discover(&self, config: &Config) -> Result<Discovery, String>;
  /// Reads the rules.
  fn rules(&self) -> Result<Rules, String>;
  /// Gives the ledger its key.
  fn unlock(&self, ledger: &mut Ledger) -> Result<(), String>;
}

impl Daemon {
  /// Reads configuration, rules and a missing key again.
  pub fn reload(&mut self, source: &dyn Reload) {
    // The rules come first, because the new configuration may cause files to be judged again.
    let rules = source.rules();
    self.report(|daemon| daemon.take_rules(rules));
    let read = source.configuration().and_then(|config| Ok((source.discover(&config)?, config)));
    self.report(|daemon| match read {
      Ok((mut found, config)) => {
        daemon.keep_known(&mut found);
        daemon.configure(config, found)
      }
      Err(why) => daemon
        .engine
        .degrade("configuration", &format!("the changed configuration is invalid: {why}")),
    });
    if self.report_only.is_some() {
      self.report(|daemon| daemon.unlock(source));
    }
    // The configuration may have switched versions on or off.
    self.report(|daemon| {
      daemon.housekeeping.set_due_versions(daemon.engine.versions_due()?);
      Ok(())
    });
  }

  /// Replaces the rules by valid new ones; known text is not judged again.
  fn take_rules(&mut self, rules: Result<Rules, String>) -> Result<(), EngineError> {
    match rules {
      Ok(rules) => {
        self.engine.judge().set_rules(rules);
        self.bad_rules = None;
        self.engine.recovered(RULES)
      }
      Err(why) => {
        let why =
          format!("your changed rules are invalid, and the previous rules stay in use: {why}");
        self.bad_rules = Some(why.clone());
        self.engine.degrade(RULES, &why)
      }
    }
  }

  /// Tries to get the missing key, and then completes what was not possible without it.
  fn unlock(&mut self, source: &dyn Reload) -> Result<(), EngineError> {
    match source.unlock(self.engine.ledger_mut()) {
      Ok(()) => {
        self.report_only = None;
        self.engine.recovered("key")?;
        self.recover()?;
        self.rescan_later(None);
        Ok(())
      }
      Err(why) => self.engine.degrade("key", &super::state::reports_only(&why)),
    }
  }

  pub(super) fn configure(&mut self, config: Config, found: Discovery) -> Result<(), EngineError> {
    let Discovery { workspaces, shapes, is_named, agent, files, notes, helpers, is_complete: _ } =
      found;
    let old = self.engine.config();
    let later = old.log_level != config.log_level || old.log_format != config.log_format;
    self.fs = RealFs::default().up_to(engine::ceiling(&config));
    self.engine.configure(Arc::new(config), self.fs);
    self.engine.set_agent(agent);
    self.set_helpers(helpers)?;
    let gone: Vec<PathBuf> = self
      .directories
      .workspaces
      .iter()
      .filter(|root| !workspaces.contains(root))
      .cloned()
      .collect();
    self.directories.workspaces = workspaces;
    self.engine.files().set_shapes(shapes.clone());
    (self.directories.shapes, self.directories.is_named) = (shapes, is_named);
    self.set_sources(files, notes)?;
    for root in &gone {
      self.leave(root)?;
    }
    self.note_left(&gone)?;
    self.health.workspaces = self.directories.workspaces.iter().map(|path| encode(path)).collect();
    self.health.is_named = self.directories.is_named;
    self.write_health()?;
    // Limits and owners may have changed, so everything is scanned as at a start.
    let roots = self.directories.workspaces.clone();
    self.first_scan(&roots)?;
    self.engine.recovered("configuration")?;
    let line = self.status_line();
    let note = if later { "; `[log]` takes effect at the next start" } else { "" };
    self.engine.tell(Event::new(EventKind::Reloaded).detail(format!("{line}{note}")))
  }

  /// Ends the guard of a directory.
  fn leave(&mut self, root: &std::path::Path) -> Result<(), EngineError> {
    for dir in self.watching.watcher.watched() {
      if dir.starts_with(root)
        && !self.directories.workspaces.iter().any(|other| dir.starts_with(other))
      {
        self.watching.watcher.remove(&dir);
      }
    }
    let now = self.now();
    self.directories.polls.set(root, None, now);
    self.directories.rooms.remove(root);
    self.directories.incomplete.remove(root);
    self.directories.locks.forget(root);
    self.directories.retries.succeeded(root);
    self.open_files.forget_root(root);
    self.unwritten.forget_root(root);
    if self.adoption.roots.remove(root) {
      self.engine.ledger_mut().remove_state(&adopting_key(root))?;
    }
    for target in self.queue.dirty_targets().filter(|target| target.root == root) {
      self.outage.unblock(target);
    }
    self.queue.retain(|target| target.root != root);
    self.adoption.first.retain(|target| target.root != root);
    self.adoption.baseline.retain(|target| target.root != root);
    self.watching.readers.forget_root(root);
    // Degradations of the directory have no meaning any more.
    let (workspace, lock, files) = {
      let root = shown(root);
      let files = ["file", "agent-record"].map(|kind| format!("{kind}:{root}/"));
      (format!("workspace:{root}"), format!("lock:{root}"), files)
    };
    for (key, ..) in self.engine.ledger().states()? {
      let StateKey::Degraded(part) = &key else { continue };
      if *part == workspace || *part == lock || files.iter().any(|of| part.starts_with(of)) {
        self.engine.ledger_mut().remove_state(&key)?;
      }
    }
    Ok(())
  }
}
