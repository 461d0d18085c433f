//! SIGHUP: a valid configuration takes effect, an invalid one changes nothing; likewise the rules.
#![forbid(unsafe_code)]

use std::{path::PathBuf, sync::Arc};

use super::{Discovery, Guard, health::encode, moved::adopting_key};
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

impl Guard {
  /// Reads configuration, rules and a missing key again.
  pub fn reload(&mut self, source: &dyn Reload) {
    // The rules come first, because the new configuration may cause files to be judged again.
    let rules = source.rules();
    self.report(|guard| guard.take_rules(rules));
    let read = source.configuration().and_then(|config| Ok((source.discover(&config)?, config)));
    self.report(|guard| match read {
      Ok((mut found, config)) => {
        guard.keep_known(&mut found);
        guard.configure(config, found)
      }
      Err(why) => guard
        .engine
        .degrade("configuration", &format!("the changed configuration does not hold: {why}")),
    });
    if self.report_only.is_some() {
      self.report(|guard| guard.unlock(source));
    }
    // The configuration may have switched versions on or off.
    self.report(|guard| {
      guard.unkept = guard.engine.versions_due()?;
      Ok(())
    });
  }

  /// Replaces the rules by valid new ones; known text is not judged again.
  fn take_rules(&mut self, rules: Result<Rules, String>) -> Result<(), EngineError> {
    match rules {
      Ok(rules) => {
        self.engine.set_rules(rules);
        self.bad_rules = None;
        self.engine.recovered(RULES)
      }
      Err(why) => {
        let why = format!("your changed rules do not hold, those from before guard: {why}");
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
        self.engine.recover()?;
        self.look_again(None);
        Ok(())
      }
      Err(why) => self.engine.degrade("key", &super::guard::reports_only(&why)),
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
    let gone: Vec<PathBuf> =
      self.workspaces.iter().filter(|root| !workspaces.contains(root)).cloned().collect();
    self.workspaces = workspaces;
    self.engine.set_shapes(shapes.clone());
    (self.shapes, self.is_named) = (shapes, is_named);
    self.set_sources(files, notes)?;
    for root in &gone {
      self.leave(root)?;
    }
    self.note_left(&gone)?;
    self.health.workspaces = self.workspaces.iter().map(|path| encode(path)).collect();
    self.health.is_named = self.is_named;
    self.write_health()?;
    // Limits and owners may have changed, so everything is scanned as at a start.
    let roots = self.workspaces.clone();
    self.look_first(&roots)?;
    self.engine.recovered("configuration")?;
    let line = self.status_line();
    let note = if later { "; `[log]` takes effect at the next start" } else { "" };
    self.engine.tell(Event::new(EventKind::Reloaded).detail(format!("{line}{note}")))
  }

  /// Ends the guard of a directory.
  fn leave(&mut self, root: &std::path::Path) -> Result<(), EngineError> {
    for dir in self.watcher.watched() {
      if dir.starts_with(root) && !self.workspaces.iter().any(|other| dir.starts_with(other)) {
        self.watcher.remove(&dir);
      }
    }
    let now = self.now();
    self.polls.set(root, None, now);
    self.rooms.remove(root);
    self.troubled.remove(root);
    self.locks.forget(root);
    self.retries.succeeded(root);
    self.held.forget_root(root);
    if self.adopting.remove(root) {
      self.engine.ledger_mut().remove_state(&adopting_key(root))?;
    }
    for target in self.queue.dirty_targets().filter(|target| target.root == root) {
      self.trouble.unblock(target);
    }
    self.queue.retain(|target| target.root != root);
    self.first.retain(|target| target.root != root);
    self.baseline.retain(|target| target.root != root);
    self.readers.forget_root(root);
    // Degradations of the directory have no meaning any more.
    let (workspace, lock, file) = {
      let root = shown(root);
      (format!("workspace:{root}"), format!("lock:{root}"), format!("file:{root}/"))
    };
    for (key, ..) in self.engine.ledger().states()? {
      let StateKey::Degraded(part) = &key else { continue };
      if *part == workspace || *part == lock || part.starts_with(&file) {
        self.engine.ledger_mut().remove_state(&key)?;
      }
    }
    Ok(())
  }
}
