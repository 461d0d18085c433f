//! SIGHUP, or a changed configuration file: a valid configuration takes effect, an invalid one changes nothing; likewise the rules.
#![forbid(unsafe_code)]

use std::{path::PathBuf, sync::Arc};

use super::{
  discovery::Discovery,
  health::encode,
  moved::note_left,
  state::{Daemon, reports_only},
};
use crate::{
  config::Config,
  detect::rules::Rules,
  engine::{self, EngineError, Event, EventKind},
  files::RealFs,
  store::{Ledger, PartKind},
};

/// The source of configuration, rules and key. Errors are sentences for a person.
pub trait Reload {
  /// The configuration file, whether or not it exists.
  fn file(&self) -> Option<PathBuf>;
  /// What tells one content of the configuration file from another.
  fn version(&self) -> String;
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
    let version = source.version();
    self.core.configuration.clone_from(&version);
    // The rules come first, because the new configuration may cause files to be judged again.
    let rules = source.rules();
    let taken = self.take_rules(rules);
    self.core.report(|_| taken);
    let read = source.configuration().and_then(|config| Ok((source.discover(&config)?, config)));
    let configured = match read {
      Ok((mut found, config)) => {
        found.keep_known(&self.core.directories);
        found.skills.keep(self.skills.places());
        // `memfw config set` waits for this.
        self.core.health.configuration = Some(version);
        self.configure(config, found)
      }
      Err(why) => {
        let why =
          format!("the changed configuration is invalid, and the previous one stays in use: {why}");
        self.core.engine.degrade(PartKind::Configuration, &why)
      }
    };
    self.core.report(|_| configured);
    if self.core.report_only.is_some() {
      let unlocked = self.unlock(source);
      self.core.report(|_| unlocked);
    }
    // The configuration may have switched versions on or off.
    self.core.report(|core| {
      let now = core.now();
      self.steps.housekeeping.set_due_versions(core.engine.versions_due()?, now);
      Ok(())
    });
  }

  /// Follows the configuration file from now on.
  pub fn follow_configuration(&mut self, source: &dyn Reload) {
    let version = source.version();
    self.core.configuration.clone_from(&version);
    self.core.health.configuration = Some(version);
    if let Some(file) = source.file() {
      self.rescans.sources.follow_own(&mut self.core, file);
    }
  }

  /// Reads the configuration again, if its file has another content. Returns whether it did.
  pub fn reread_configuration(&mut self, source: &dyn Reload) -> bool {
    if !self.rescans.sources.take_own(self.core.now()) {
      return false;
    }
    // A link may lead elsewhere now.
    if let Some(file) = source.file() {
      self.rescans.sources.follow_own(&mut self.core, file);
    }
    let is_other = source.version() != self.core.configuration;
    if is_other {
      self.reload(source);
    }
    is_other
  }

  /// Replaces the rules by valid new ones; known text is not judged again.
  fn take_rules(&mut self, rules: Result<Rules, String>) -> Result<(), EngineError> {
    match rules {
      Ok(rules) => {
        self.core.engine.judge().set_rules(rules);
        self.bad_rules = None;
        self.core.engine.recovered(PartKind::Rules)
      }
      Err(why) => {
        let why =
          format!("your changed rules are invalid, and the previous rules stay in use: {why}");
        self.bad_rules = Some(why.clone());
        self.core.engine.degrade(PartKind::Rules, &why)
      }
    }
  }

  /// Tries to get the missing key, and then completes what was not possible without it.
  fn unlock(&mut self, source: &dyn Reload) -> Result<(), EngineError> {
    match source.unlock(self.core.engine.ledger_mut()) {
      Ok(()) => {
        self.core.report_only = None;
        self.core.engine.recovered(PartKind::Key)?;
        self.core.recover()?;
        self.rescans.rescan_later(&self.core, None);
        Ok(())
      }
      Err(why) => self.core.engine.degrade(PartKind::Key, &reports_only(&why)),
    }
  }

  pub(super) fn configure(&mut self, config: Config, found: Discovery) -> Result<(), EngineError> {
    let Discovery {
      workspaces,
      shapes,
      is_named,
      agent,
      files,
      notes,
      distrust,
      helpers,
      skills,
      is_complete: _,
      unreadable: _,
    } = found;
    let old = self.core.engine.config();
    let later = old.log_level != config.log_level || old.log_format != config.log_format;
    let core = &mut self.core;
    core.fs = RealFs::default().up_to(engine::ceiling(&config));
    core.engine.configure(Arc::new(config), core.fs);
    core.engine.set_agent(agent);
    self.steps.set_helpers(core, helpers)?;
    self.skills.configure(skills, core.now());
    let gone: Vec<PathBuf> = core
      .directories
      .workspaces
      .iter()
      .filter(|root| !workspaces.contains(root))
      .cloned()
      .collect();
    core.directories.workspaces = workspaces;
    core.engine.files().set_shapes(shapes.clone());
    (core.directories.shapes, core.directories.is_named) = (shapes, is_named);
    self.rescans.sources.set(core, files, notes, distrust)?;
    for root in &gone {
      self.rescans.forget_root(core, root);
      self.passes.forget_root(root);
      core.forget_root(root)?;
    }
    note_left(core, &gone)?;
    core.health.workspaces = core.directories.workspaces.iter().map(|path| encode(path)).collect();
    core.health.is_named = core.directories.is_named;
    core.write_health()?;
    // Limits and owners may have changed, so everything is scanned as at a start.
    let roots = core.directories.workspaces.clone();
    self.rescans.first_scan(core, &roots)?;
    self.first_scan.begin(core.adoption.first.len(), core.now());
    core.engine.recovered(PartKind::Configuration)?;
    let line = core.status_line();
    let note = if later { "; `[log]` takes effect at the next start" } else { "" };
    core.engine.tell(Event::new(EventKind::Reloaded).detail(format!("{line}{note}")))
  }

  /// Runs the discovery again, if it is due.
  pub fn rediscover(&mut self, source: &dyn Reload) {
    let now = self.core.now();
    if !self.rescans.sources.take(now) {
      return;
    }
    let taken = match source.discover(self.core.engine.config()) {
      Ok(found) => self.take_found(found),
      Err(why) => self.rescans.sources.failed(&mut self.core, &why),
    };
    self.core.report(|_| taken);
  }

  fn take_found(&mut self, mut found: Discovery) -> Result<(), EngineError> {
    let core = &mut self.core;
    found.keep_known(&core.directories);
    found.skills.keep(self.skills.places());
    if (&found.workspaces, &found.shapes)
      == (&core.directories.workspaces, &core.directories.shapes)
    {
      core.engine.set_agent(found.agent);
      self.steps.set_helpers(core, found.helpers)?;
      self.skills.configure(found.skills, core.now());
      return self.rescans.sources.set(core, found.files, found.notes, found.distrust);
    }
    let config = core.engine.config().clone();
    self.configure(config, found)
  }
}
