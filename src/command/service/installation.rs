//! The facts about this machine in a service file, from the environment, the configuration and the agent
//! that was found; nothing is changed.
#![forbid(unsafe_code)]

use std::{
  ffi::OsString,
  io,
  path::{Path, PathBuf},
};

use super::{
  facts::{Facts, Sandbox, outermost},
  supervisor::Supervisor,
  unit::Unit,
};
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

/// Gathers the facts for one service.
pub(super) fn facts(context: &Context, unit: &Unit) -> Result<Facts, Failure> {
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
  Ok(Facts {
    program: program()?,
    home: unit.home.clone(),
    before: agent.before,
    variables,
    workspaces,
    writable: outermost(all),
    sandbox: sandbox(unit.supervisor, &config),
  })
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

#[cfg(test)]
mod tests {
  use super::*;
  use crate::config::Owner;

  #[test]
  fn other_owners_are_not_hidden_from_a_service() {
    let config = Config { owners: vec![Owner::Uid(1000)], ..Config::default() };
    assert_eq!(sandbox(Supervisor::User, &config), Sandbox::OtherOwners);
    assert_eq!(sandbox(Supervisor::System, &config), Sandbox::Whole);
    assert_eq!(sandbox(Supervisor::User, &Config::default()), Sandbox::Whole);
  }
}
