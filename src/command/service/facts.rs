//! The facts about this machine in a service file, from the environment, the configuration and the agent
//! that was found; nothing is changed.
#![forbid(unsafe_code)]

use std::{
  ffi::OsString,
  io,
  path::{Path, PathBuf},
};

use super::{supervisor::Supervisor, unit::Unit};
use crate::{
  app::{
    agent::service,
    configuration::load,
    context::{CONFIG_FILE, Context, Surroundings},
  },
  config::Config,
  terminal::{
    failure::{Failure, reason},
    output::Out,
  },
};

/// Where a service looks for programs, after the directory of the agent's program.
const USUAL_PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// Directories whose files are private to a service with `PrivateTmp=`.
const TEMPORARY: [&str; 2] = ["/tmp", "/var/tmp"];

/// How much of the sandbox a service of a user has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sandbox {
  /// All of it.
  Whole,
  /// The service manager cannot make a user namespace.
  NoNamespaces,
  /// The configuration names other owners, whom a user namespace would hide.
  OtherOwners,
}

impl Sandbox {
  /// Why a part of the sandbox is left out; a sentence.
  pub const fn why(self) -> Option<&'static str> {
    match self {
      Self::Whole => None,
      Self::NoNamespaces => Some("this service manager cannot make user namespaces"),
      Self::OtherOwners => {
        Some("`files.owners` names other users, whom a user namespace would hide")
      }
    }
  }
}

/// The values in a service file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
  /// This program.
  pub program: PathBuf,
  /// The home directory of the guarded user.
  pub home: PathBuf,
  /// Units that start after memfw.
  pub before: Vec<String>,
  /// Variables that memfw needs.
  pub variables: Vec<(String, OsString)>,
  /// The guarded directories.
  pub workspaces: Vec<PathBuf>,
  /// Writable directories, none below another.
  pub writable: Vec<PathBuf>,
  /// How much of the sandbox the service has.
  pub sandbox: Sandbox,
}

impl Facts {
  /// Gathers the facts for one service.
  pub fn gather(context: &Context, unit: &Unit) -> Result<Self, Failure> {
    let env = context.surroundings.env.clone().with("HOME", unit.home.as_os_str());
    let config = match unit.user {
      None => context.config()?.config,
      Some(_) => theirs(unit)?.unwrap_or_default(),
    };
    let agent = service::facts(&env, &config);
    let inside = Context {
      surroundings: Surroundings { env: env.clone() },
      out: Out::to(Box::new(io::sink()), false, 0),
      log_level: None,
      preset: None,
    };
    let workspaces = inside.discover(&config, &[])?.workspaces;
    let mut variables = Vec::new();
    if let Some(dir) = agent.program.as_deref().and_then(Path::parent) {
      let mut path = OsString::from(dir);
      path.push(":");
      path.push(USUAL_PATH);
      variables.push(("PATH".to_owned(), path));
    }
    let mut own = vec!["MEMFW_HOME"];
    // Another user's service does not use the directories of the user who installs it.
    own.extend(["XDG_CONFIG_HOME", "XDG_DATA_HOME"].iter().filter(|_| unit.user.is_none()));
    for name in own {
      let Some(dir) = env.path(name) else { continue };
      let dir = std::path::absolute(&dir).unwrap_or(dir);
      variables.push((name.to_owned(), dir.into_os_string()));
    }
    variables.extend(agent.variables.into_iter().map(|(name, value)| (name.to_owned(), value)));
    let all = [agent.writable, workspaces.clone(), vec![unit.own.data.clone()]].concat();
    Ok(Self {
      program: program()?,
      home: unit.home.clone(),
      before: agent.before,
      variables,
      workspaces,
      writable: outermost(all),
      sandbox: sandbox(unit.supervisor, &config),
    })
  }

  /// Whether a writable path is in a directory that would otherwise be private to the service.
  pub fn shares_temporary_files(&self) -> bool {
    self.writable.iter().any(|path| TEMPORARY.iter().any(|dir| path.starts_with(dir)))
  }

  /// The writable paths, and the directories for temporary files if they stay shared.
  pub fn all_writable(&self) -> Vec<PathBuf> {
    let shared = TEMPORARY.iter().filter(|_| self.shares_temporary_files()).map(PathBuf::from);
    outermost(self.writable.iter().cloned().chain(shared))
  }
}

/// The configuration of another user.
fn theirs(unit: &Unit) -> Result<Option<Config>, Failure> {
  let file = unit.own.config.join(CONFIG_FILE);
  let (effective, exists) = load(&file, None, Some(&unit.home))?;
  Ok(exists.then_some(effective.config))
}

fn sandbox(supervisor: Supervisor, config: &Config) -> Sandbox {
  match supervisor {
    Supervisor::User if !config.owners.is_empty() => Sandbox::OtherOwners,
    _ => Sandbox::Whole,
  }
}

/// The path of this program, not of a link to it.
fn program() -> Result<PathBuf, Failure> {
  let failed = |why: String| {
    Failure::unavailable(format!("memfw cannot find its own program: {why}"))
      .hint("start it by its absolute path")
  };
  let path = std::env::current_exe().map_err(|error| failed(reason(&error)))?;
  // If the file of a running program was replaced, this path has another name.
  if path.is_file() { Ok(path) } else { Err(failed(format!("`{}` is gone", path.display()))) }
}

/// The paths in their order, without those below another path.
fn outermost(paths: impl IntoIterator<Item = PathBuf>) -> Vec<PathBuf> {
  let mut found: Vec<PathBuf> = Vec::new();
  for path in paths {
    if !found.iter().any(|known| path.starts_with(known)) {
      found.retain(|known| !known.starts_with(&path));
      found.push(path);
    }
  }
  found
}

#[cfg(test)]
mod tests {
  use super::*;
  use crate::config::Owner;

  #[test]
  fn what_lies_below_another_path_is_not_named_again() {
    let paths = |list: &[&str]| list.iter().map(PathBuf::from).collect::<Vec<_>>();
    assert_eq!(
      outermost(paths(&["/a/b", "/c", "/a/bc", "/a/b/c", "/c", "/a/b"])),
      paths(&["/a/b", "/c", "/a/bc"])
    );
    assert_eq!(outermost(paths(&["/a/b", "/c", "/a"])), paths(&["/c", "/a"]));
  }

  #[test]
  fn other_owners_are_not_hidden_from_a_service() {
    let config = Config { owners: vec![Owner::Uid(1000)], ..Config::default() };
    assert_eq!(sandbox(Supervisor::User, &config), Sandbox::OtherOwners);
    assert_eq!(sandbox(Supervisor::System, &config), Sandbox::Whole);
    assert_eq!(sandbox(Supervisor::User, &Config::default()), Sandbox::Whole);
  }
}
