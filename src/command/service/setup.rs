//! The service of one manager, for `memfw init`, which sets it up together with the configuration.
//!
//! Invariant: nothing is changed before [`ServiceSetup::install`] or [`ServiceSetup::remove`].
#![forbid(unsafe_code)]

use std::path::Path;

use super::{
  args::TargetArgs, control::Control, installable, is_there, put_in_place, report, standing,
  supervisor::Supervisor, take_away, unit::Unit,
};
use crate::{
  app::context::Context,
  os::{managed_file::FileState, user::effective_uid},
  terminal::failure::Failure,
};

/// The name of the user whose number is 0, where the environment does not name the user.
const ROOT: &str = "root";

/// The service of one manager, installed or not.
#[derive(Clone, Debug)]
pub struct ServiceSetup {
  unit: Unit,
}

impl ServiceSetup {
  /// The service of this user.
  pub fn find(context: &Context, manager: Supervisor) -> Result<Self, Failure> {
    let name = || match context.surroundings.env.get("USER") {
      Some(name) => name.to_string_lossy().into_owned(),
      None if effective_uid() == 0 => ROOT.to_owned(),
      None => context.user(),
    };
    let user = (manager == Supervisor::System).then(name);
    Ok(Self { unit: Unit::of(context, &TargetArgs { manager, user })? })
  }

  /// The service manager.
  pub const fn manager(&self) -> Supervisor {
    self.unit.supervisor
  }

  /// The file of the service.
  pub fn file(&self) -> &Path {
    &self.unit.file
  }

  /// Whether the file is there, and is memfw's.
  pub fn is_installed(&self) -> bool {
    matches!(self.unit.placed().look(), Ok(FileState::Ours(_)))
  }

  /// Whether the file is the one that memfw would write, and the service starts by itself and runs.
  pub fn is_in_place(&self, context: &Context) -> bool {
    let unit = &self.unit;
    let (Ok(found), Ok(control)) = (unit.placed().look(), Control::find(context, unit)) else {
      return false;
    };
    let is_current = matches!(standing(context, unit, &found), Ok(report::Standing::Current(_)));
    let job = unit.job();
    let starts = unit.supervisor.asks_whether_it_will(&job);
    is_current
      && control.says_yes(&unit.supervisor.asks_whether_it_runs(&job))
      && starts.is_none_or(|words| control.says_yes(&words))
  }

  /// Why the service cannot be installed or started.
  pub fn check_install(&self, context: &Context) -> Result<(), Failure> {
    installable(context, &self.unit, self.unit.supervisor.asks_for_its_version()).map(drop)
  }

  /// Why the service cannot be removed.
  pub fn check_removal(&self) -> Result<(), Failure> {
    super::allow(&self.unit, "uninstall")?;
    is_there(&self.unit).map(drop)
  }

  /// Writes the file and starts the service; prints each change.
  pub fn install(&self, context: &Context) -> Result<(), Failure> {
    put_in_place(context, &self.unit).map(drop)
  }

  /// Stops the service and removes the file; prints each change.
  pub fn remove(&self, context: &Context) -> Result<(), Failure> {
    take_away(context, &self.unit).map(drop)
  }

  /// Prints how the service guards while its user is logged out, if it does not.
  pub fn print_logged_out(&self, context: &Context) -> Result<(), Failure> {
    report::logged_out(context, &self.unit)
  }
}
