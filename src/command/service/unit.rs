//! Which service is meant: its user, its name, and the path of its file.
#![forbid(unsafe_code)]

use std::path::PathBuf;

use super::{
  args::TargetArgs,
  supervisor::{Job, Supervisor},
};
use crate::{
  app::context::Context,
  os::{
    Home,
    managed_file::Placed,
    user::{self, effective_uid},
  },
  terminal::failure::{Failure, unavailable},
};

/// The words that identify a file of memfw.
pub const MARK: &str = "This file belongs to memfw: ";

/// A service, installed or not.
#[derive(Clone, Debug)]
pub struct Unit {
  /// The service manager.
  pub supervisor: Supervisor,
  /// The name of the service.
  pub name: String,
  /// The file of the service.
  pub file: PathBuf,
  /// The user of the service, if it is not the user who runs the command.
  pub user: Option<String>,
  /// The home directory of the service's user.
  pub home: PathBuf,
  /// The memfw directories of the service's user.
  pub own: Home,
}

impl Unit {
  /// The service that the arguments select.
  pub fn of(context: &Context, args: &TargetArgs) -> Result<Self, Failure> {
    let supervisor = args.manager;
    let user = match (supervisor, &args.user) {
      (Supervisor::System, None) => {
        return Err(
          Failure::usage("a system service needs `--user`, the user whose memory it guards")
            .hint("memfw service install --manager system --user NAME"),
        );
      }
      (Supervisor::System, Some(name)) if !is_plain(name) => {
        return Err(Failure::usage(format!("`{name}` is not a user name")));
      }
      (Supervisor::System, Some(name)) => Some(name.clone()),
      (_, Some(_)) => {
        return Err(
          Failure::usage("`--user` is only for `--manager system`; other services run as you")
            .hint("memfw service install --manager system --user NAME"),
        );
      }
      (_, None) => None,
    };
    let env = &context.surroundings.env;
    let (home, own) = if let Some(name) = &user {
      let home = user::home(name).map_err(unavailable)?;
      let is_named = env.get("MEMFW_HOME").is_some();
      let own = if is_named { context.home()? } else { Home::below(&home) };
      (home, own)
    } else {
      let home = context
        .surroundings
        .home()
        .ok_or_else(|| Failure::unavailable("no home directory is known").hint("set `HOME`"))?;
      (home, context.home()?)
    };
    let name = supervisor.name(user.as_deref());
    let file = supervisor.file(&home, user.as_deref());
    Ok(Self { supervisor, name, file, user, home, own })
  }

  /// The file of the service, to inspect, write or remove.
  pub fn placed(&self) -> Placed {
    Placed { path: self.file.clone(), mark: MARK }
  }

  /// The values that commands about the service need.
  pub fn job(&self) -> Job<'_> {
    Job { name: &self.name, file: &self.file, uid: effective_uid() }
  }

  /// The `memfw service` command with this verb, for this service.
  pub fn command(&self, verb: &str) -> String {
    let supervisor = self.supervisor;
    match &self.user {
      Some(user) => format!("sudo memfw service {verb} --manager {supervisor} --user {user}"),
      None if supervisor == Supervisor::native() => format!("memfw service {verb}"),
      None => format!("memfw service {verb} --manager {supervisor}"),
    }
  }
}

/// Whether a name is safe as a part of the name of a unit.
fn is_plain(name: &str) -> bool {
  name.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
    && name.len() <= 64
    && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'))
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn names_of_users_are_plain() {
    for name in ["ann", "_svc", "a.b-c1"] {
      assert!(is_plain(name), "{name}");
    }
    for name in ["", "-a", "a/b", "..", "a b", "a%n", "é"] {
      assert!(!is_plain(name), "{name}");
    }
  }

  #[test]
  fn every_file_bears_the_mark() {
    for supervisor in [Supervisor::User, Supervisor::System, Supervisor::Launchd] {
      let marked = supervisor.template().lines().filter(|line| line.contains(MARK));
      assert_eq!(marked.count(), 1, "{supervisor}");
    }
  }
}
