//! Puts the engine together for commands and for the daemon.
#![forbid(unsafe_code)]

use std::{path::Path, sync::Arc};

use super::{agent, context::Context};
use crate::{
  config::Config,
  detect::model::Model,
  engine::{Engine, EngineError, ceiling},
  files::{Fs as _, MemoryFile as _, RealFs, TargetRules, Workspace},
  os::{DaemonLock, Home, Shown, SystemClock, WorkspaceLock, paths::LEASE_PATIENCE},
  store::Ledger,
  terminal::failure::{Failure, unavailable},
};

impl Context {
  /// The engine with a writable ledger, a key that is made at first use, locks, and the agent's records.
  pub fn engine(&self, config: &Config) -> Result<Engine<RealFs>, Failure> {
    let home = self.home()?;
    home.create().map_err(unavailable)?;
    self.check_locks(config, &home)?;
    let mut ledger = self.ledger_to_write()?;
    self.unlock(&mut ledger)??;
    let mut engine = self.engine_on(ledger, config)?;
    engine.judge().set_rules(self.rules()?);
    Ok(engine)
  }

  /// A failure where another installation of memfw guards one of the workspaces: it would take comments that a
  /// command of this installation writes for forged. Beside its own daemon, which holds the locks, a command
  /// works as usual.
  fn check_locks(&self, config: &Config, home: &Home) -> Result<(), Failure> {
    let own = DaemonLock::holder(&home.data).ok().flatten().and_then(|holder| holder.pid);
    for root in self.workspaces(config, &[]).unwrap_or_default() {
      let Some(taken) = WorkspaceLock::taken(&root, own) else { continue };
      let pid = taken.pid.and_then(|pid| u32::try_from(pid).ok());
      if own.is_some() && (pid.is_none() || pid == own) {
        continue;
      }
      let who = pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default();
      let why =
        format!("{} is guarded by another memfw{who} with a ledger of its own", Shown(&root));
      return Err(Failure::unavailable(why).hint("use that one's `MEMFW_HOME`, or stop it"));
    }
    Ok(())
  }

  /// The engine on an open ledger, with the built-in rules.
  pub fn engine_on(&self, ledger: Ledger, config: &Config) -> Result<Engine<RealFs>, Failure> {
    let data = self.home()?.data;
    let agent = agent::records(&self.surroundings.env, config);
    let clock = Arc::new(SystemClock);
    let mut engine =
      Engine::new(file_system(config), ledger, agent, clock, Arc::new(config.clone()), data);
    engine.files().set_shapes(self.shapes(config));
    Ok(engine.with_model(Model::embedded()))
  }
}

/// The file system with the configured restrictions.
pub fn file_system(config: &Config) -> RealFs {
  RealFs::default().up_to(ceiling(config))
}

/// The bytes of a file of a workspace; `None` where memfw cannot read them, which `status` reports.
pub fn read_file(workspace: &Workspace<RealFs>, rel: &Path, max_bytes: u64) -> Option<Vec<u8>> {
  let rules = TargetRules { max_bytes, owners: vec![] };
  let root = workspace.root();
  RealFs::default()
    .open_within(root, rel, &rules, LEASE_PATIENCE, &SystemClock)
    .ok()?
    .read_all()
    .ok()
}

impl From<EngineError> for Failure {
  fn from(error: EngineError) -> Self {
    match error {
      EngineError::Store(error) => error.into(),
      EngineError::Refused { error, hint } => Self::unavailable(error).maybe_hint(hint),
      error => unavailable(error),
    }
  }
}
