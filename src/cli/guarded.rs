//! What commands about guarded memory share: the home directory, the ledger, the engine, the
//! workspaces, and places in files as people write them.
#![forbid(unsafe_code)]

use std::{
  path::{Path, PathBuf},
  sync::Arc,
};

use super::{config, context::Context, failure::Failure, openclaw};
use crate::{
  config::{Config, nearest},
  daemon::Discovery,
  detect::model::Model,
  engine::{Engine, EngineError, ceiling},
  files::{Fs as _, MemoryFile as _, RealFs, Shapes, TargetRules, Workspace},
  os::{DaemonLock, Home, Shown, SystemClock, WorkspaceLock, key, paths::LEASE_PATIENCE},
  seal::MasterKey,
  store::{Access, Ledger, StoreError},
};

/// The name of the ledger in the data directory.
pub const LEDGER: &str = "ledger.sqlite";
/// The name of the file with the master key in the data directory.
pub const KEY: &str = "master.key";

/// The bytes of a file of a workspace; `None` where they cannot be had, which `status` tells.
pub fn read(workspace: &Workspace<RealFs>, rel: &Path, max_bytes: u64) -> Option<Vec<u8>> {
  let rules = TargetRules { max_bytes, owners: vec![] };
  let root = workspace.root();
  RealFs::default()
    .open_within(root, rel, &rules, LEASE_PATIENCE, &SystemClock)
    .ok()?
    .read_all()
    .ok()
}

impl Context {
  /// memfw's own directories; nothing is made.
  pub fn home(&self) -> Result<Home, Failure> {
    Home::find(&self.surroundings.env).map_err(|error| Failure::unavailable(error.to_string()))
  }

  /// The ledger, to read; `None` where memfw has never run.
  pub fn ledger_to_read(&self) -> Result<Option<Ledger>, Failure> {
    let path = self.home()?.data.join(LEDGER);
    match Ledger::open(&path, Access::ReadOnly, None) {
      Ok(ledger) => Ok(Some(ledger)),
      Err(StoreError::Missing { .. }) => Ok(None),
      Err(error) => Err(error.into()),
    }
  }

  /// The ledger, to read; a failure with advice where memfw has never run.
  pub fn ledger(&self) -> Result<Ledger, Failure> {
    self.ledger_to_read()?.ok_or_else(|| {
      Failure::unavailable("memfw has not guarded anything yet")
        .hint("start it with `memfw run`, or try `memfw demo`")
    })
  }

  /// The ledger, to read, with its key, so that sealed bytes can be shown.
  pub fn ledger_with_key(&self) -> Result<Ledger, Failure> {
    let home = self.home()?;
    let mut ledger = self.ledger()?;
    if let Some(key) = key::load(&home.data.join(KEY)).map_err(unavailable)? {
      ledger.unlock(MasterKey::new(*key))?;
    }
    Ok(ledger)
  }

  /// The engine: ledger to write, key made at first use, locks, records of the agent.
  pub fn engine(&self, config: &Config) -> Result<Engine<RealFs>, Failure> {
    let home = self.home()?;
    home.create().map_err(unavailable)?;
    self.check_locks(config, &home)?;
    let mut ledger = self.ledger_to_write()?;
    self.unlock(&mut ledger)??;
    let mut engine = self.engine_on(ledger, config)?;
    engine.set_rules(self.rules()?);
    Ok(engine)
  }

  /// A failure where another installation of memfw guards one of the workspaces: what a command writes there,
  /// that one takes for forged. Beside its own daemon, which holds the locks, a command works as ever.
  fn check_locks(&self, config: &Config, home: &Home) -> Result<(), Failure> {
    let own = DaemonLock::holder(&home.data).ok().flatten().and_then(|holder| holder.pid);
    for root in self.workspaces(config, &[]).unwrap_or_default() {
      let Some(taken) = WorkspaceLock::taken(&root) else { continue };
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

  /// The ledger, to write, still without its key.
  pub fn ledger_to_write(&self) -> Result<Ledger, Failure> {
    Ok(self.open_ledger()??)
  }

  /// The same; the inner error tells what is wrong with the ledger itself.
  pub fn open_ledger(&self) -> Result<Result<Ledger, StoreError>, Failure> {
    let path = self.home()?.data.join(LEDGER);
    Ok(Ledger::open(&path, Access::ReadWrite, None))
  }

  /// Gives the ledger its key, which is made at first use; the inner failure is that the key which
  /// belongs to this ledger cannot be had.
  pub fn unlock(&self, ledger: &mut Ledger) -> Result<Result<(), Failure>, Failure> {
    let path = self.home()?.data.join(KEY);
    let key = match key::load_or_create(&path, ledger.needs_key()?) {
      Ok(key) => key,
      Err(error) => return Ok(Err(unavailable(error))),
    };
    match ledger.unlock(MasterKey::new(*key)) {
      Ok(()) => Ok(Ok(())),
      Err(error @ StoreError::WrongKey { .. }) => Ok(Err(error.into())),
      Err(error) => Err(error.into()),
    }
  }

  /// The engine on an open ledger, with the rules that are built in.
  pub fn engine_on(&self, ledger: Ledger, config: &Config) -> Result<Engine<RealFs>, Failure> {
    let data = self.home()?.data;
    let agent = openclaw::records(&self.surroundings.env, config);
    let clock = Arc::new(SystemClock);
    let mut engine =
      Engine::new(file_system(config), ledger, agent, clock, Arc::new(config.clone()), data);
    engine.set_shapes(self.shapes(config));
    Ok(engine.with_model(Model::embedded()))
  }

  /// The workspaces to guard, in the order flags, configuration, the agent's own; without links in
  /// their paths where they exist.
  pub fn workspaces(&self, config: &Config, flags: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    Ok(self.discover(config, flags)?.workspaces)
  }

  /// Which of the guarded directories are no workspaces.
  pub fn shapes(&self, config: &Config) -> Shapes {
    // Where nothing is known to be guarded, nothing is elsewhere.
    self.discover(config, &[]).map(|found| found.shapes).unwrap_or_default()
  }

  /// The same with all that it follows from.
  pub fn discover(&self, config: &Config, flags: &[PathBuf]) -> Result<Discovery, Failure> {
    let mut found = openclaw::discover(&self.surroundings.env, config);
    let named = if flags.is_empty() { &config.workspaces[..] } else { flags };
    if !named.is_empty() {
      found.workspaces = named.to_vec();
      // What could not be found is not asked for.
      (found.notes, found.is_complete, found.is_named) = (vec![], true, true);
      found.shapes = Shapes::default();
    }
    if found.workspaces.is_empty() {
      return Err(Failure::unavailable("no workspace is known").hint(
        "name one: `memfw run --workspace DIR`, or `workspaces = [...]` in the configuration",
      ));
    }
    let mut workspaces: Vec<PathBuf> = Vec::new();
    for path in &found.workspaces {
      let path = resolved(path);
      if !workspaces.contains(&path) {
        workspaces.push(path);
      }
    }
    found.notes.extend(self.config_file().ok().and_then(|file| config::distrust(&file)));
    found.shapes.retain(|root| !workspaces.iter().any(|path| path == root));
    workspaces.extend(found.shapes.roots().cloned());
    found.workspaces = workspaces;
    Ok(found)
  }
}

/// The file system as the configuration lets it be used.
pub fn file_system(config: &Config) -> RealFs {
  RealFs::default().up_to(ceiling(config))
}

/// The path without links where it exists, else made absolute.
pub fn resolved(path: &Path) -> PathBuf {
  path
    .canonicalize()
    .or_else(|_error| std::path::absolute(path))
    .unwrap_or_else(|_error| path.to_owned())
}

/// `FILE` or `FILE:LINE`. A file whose very name ends so is meant where it exists.
pub fn place(text: &str) -> (PathBuf, Option<usize>) {
  if let (Some((file, line)), false) = (text.rsplit_once(':'), Path::new(text).exists())
    && let Ok(line) = line.parse::<usize>()
  {
    return (resolved(Path::new(file)), Some(line));
  }
  (resolved(Path::new(text)), None)
}

/// The guarded file that was probably meant by the path of none: of the same name, or of a near one.
pub fn meant(ledger: &Ledger, path: &Path) -> Option<PathBuf> {
  let name = path.file_name()?.to_str()?;
  let files = ledger.files().ok()?;
  let named = |name: &str| {
    files.iter().map(|file| &file.path).find(|path| path.file_name().is_some_and(|it| it == name))
  };
  let names = files.iter().filter_map(|file| file.path.file_name()?.to_str());
  named(name).or_else(|| named(nearest(name, names)?)).cloned()
}

/// The failure that an error tells, with its further lines as hints.
pub fn unavailable(error: impl std::fmt::Display) -> Failure {
  let text = error.to_string();
  let mut lines = text.lines();
  let mut failure = Failure::unavailable(lines.next().unwrap_or_default());
  for line in lines {
    failure = failure.hint(line.trim_start_matches("hint: "));
  }
  failure
}

impl From<StoreError> for Failure {
  fn from(error: StoreError) -> Self {
    Self::unavailable(error.to_string()).maybe_hint(error.hint())
  }
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
