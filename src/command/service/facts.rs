//! What a service file says about this machine, gathered from the environment, the configuration and what
//! is found of the agent; nothing is changed.
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

/// Where a service looks for programs besides the directory of the agent's own.
const USUAL_PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// Directories whose files are private to a service with `PrivateTmp=`.
const TEMPORARY: [&str; 2] = ["/tmp", "/var/tmp"];

/// How far a service of a user is shut in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sandbox {
  /// In all that the file says.
  Whole,
  /// The service manager cannot make a user namespace.
  NoNamespaces,
  /// The configuration names other owners, whom a user namespace would hide.
  OtherOwners,
}

impl Sandbox {
  /// Why some of it is left out; a sentence.
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

/// What is put into a service file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
  /// This program.
  pub program: PathBuf,
  /// The home directory of whoever is guarded.
  pub home: PathBuf,
  /// Units that start after it.
  pub before: Vec<String>,
  /// Variables that it needs.
  pub variables: Vec<(String, OsString)>,
  /// What is guarded.
  pub workspaces: Vec<PathBuf>,
  /// What may be written, none below another.
  pub writable: Vec<PathBuf>,
  /// How far it is shut in.
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
    // Those of whoever installs it for somebody else are not theirs.
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

  /// Whether something that is guarded lies where a service would otherwise have files of its own.
  pub fn shares_temporary_files(&self) -> bool {
    self.writable.iter().any(|path| TEMPORARY.iter().any(|dir| path.starts_with(dir)))
  }

  /// What may be written, with the shared directories for temporary files where they stay shared.
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

/// This program, wherever the link to it stands.
fn program() -> Result<PathBuf, Failure> {
  let failed = |why: String| {
    Failure::unavailable(format!("memfw cannot find its own program: {why}"))
      .hint("start it by its absolute path")
  };
  let path = std::env::current_exe().map_err(|error| failed(reason(&error)))?;
  // A program that was replaced while it runs has another name here.
  if path.is_file() { Ok(path) } else { Err(failed(format!("`{}` is gone", path.display()))) }
}

/// The paths without those that lie below another, in their order.
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
