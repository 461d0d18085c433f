//! The one command that mends what is wrong, and the checks of programs that memfw starts.
#![forbid(unsafe_code)]

use std::path::Path;

use super::{Check, Health, add, hint};
use crate::{
  app::{agent, context::Context},
  command::service,
  config::{Config, NotifyVia},
  os::{Env, program},
};

/// What repairs everything that is safe to repair.
pub(super) const FIX: &str = "memfw doctor --fix";
/// Opens the configuration file in the editor.
pub(super) const EDIT: &str = "$EDITOR \"$(memfw config path)\"";

/// Package managers, with the command that installs `notify-send`.
const INSTALL_NOTIFY_SEND: [(&str, &str); 4] = [
  ("apt-get", "sudo apt-get install libnotify-bin"),
  ("dnf", "sudo dnf install libnotify"),
  ("pacman", "sudo pacman -S libnotify"),
  ("apk", "sudo apk add libnotify"),
];

/// The last line of the report.
pub(super) fn conclusion(checks: &[Check]) -> String {
  let wrong: Vec<&Check> = checks.iter().filter(|check| check.health == Health::Wrong).collect();
  if wrong.is_empty() {
    return "nothing is wrong".to_owned();
  }
  // What needs no decision comes first; the next report has the rest.
  let commands = || wrong.iter().filter_map(|check| check.command.as_deref());
  let command = commands().find(|command| *command == FIX).or_else(|| commands().next());
  command.map_or_else(
    || "next: no command mends this; the hint says what does".to_owned(),
    |command| format!("next: {command}"),
  )
}

/// The command that starts the daemon: as a service, where one is installed.
pub(in crate::command) fn start(context: &Context) -> &'static str {
  // A second installation changes nothing about the file, and starts the service.
  if service::is_installed(context) { "memfw service install" } else { "memfw run" }
}

/// Why nobody is notified of a quarantine under a configuration; `None` where notices are off.
pub(in crate::command) fn notifier(env: &Env, config: &Config) -> Option<Result<(), String>> {
  let via = config.notify_via;
  let words = agent::discover(env, config).helpers.notify?;
  Some(words.and_then(|words| {
    let name = words.into_iter().next().unwrap_or_default();
    if program::find(env, &name.to_string_lossy()).is_some() {
      return Ok(());
    }
    let name = Path::new(&name).display();
    Err(format!("`notify.via` is `{via}` and its program `{name}` was not found"))
  }))
}

/// The program that tells a person about a quarantine.
pub(super) fn notices(context: &Context, checks: &mut Vec<Check>) {
  // `configuration` reports an invalid configuration.
  let Ok(effective) = context.config() else { return };
  let (env, config) = (&context.surroundings.env, &effective.config);
  let via = config.notify_via;
  let Some(found) = notifier(env, config) else { return };
  let Err(why) = found else {
    add(
      checks,
      "notices",
      Health::Fine,
      format!("`notify.via` is `{via}`, and its program is there"),
    );
    return;
  };
  add(checks, "notices", Health::Wrong, format!("nobody is told about a quarantine: {why}"));
  let command = match via {
    NotifyVia::Desktop => installation(env),
    NotifyVia::Message | NotifyVia::Command => EDIT,
    _ => "memfw config set notify.via none",
  };
  hint(checks, Some(command));
  if let Some(check) = checks.last_mut() {
    check.command = Some(command.to_owned());
  }
}

/// The command that installs `notify-send` here.
fn installation(env: &Env) -> &'static str {
  let known = INSTALL_NOTIFY_SEND.iter().find(|(name, _)| program::find(env, name).is_some());
  known.map_or("memfw config set notify.via none", |(_, command)| command)
}

#[cfg(test)]
mod tests {
  use super::*;

  fn check(health: Health, command: Option<&str>) -> Check {
    let command = command.map(str::to_owned);
    Check { what: "x", health, text: String::new(), hint: None, command }
  }

  #[test]
  fn one_command_is_named_and_the_safe_one_first() {
    let fine = check(Health::Fine, None);
    let noted = check(Health::Note, Some("memfw run"));
    assert_eq!(conclusion(&[fine, noted]), "nothing is wrong");
    let by_hand = || check(Health::Wrong, None);
    let stopped = || check(Health::Wrong, Some("memfw run"));
    let open = check(Health::Wrong, Some(FIX));
    let none = "next: no command mends this; the hint says what does";
    assert_eq!(conclusion(&[by_hand()]), none);
    assert_eq!(conclusion(&[by_hand(), stopped()]), "next: memfw run");
    assert_eq!(conclusion(&[stopped(), open]), "next: memfw doctor --fix");
  }
}
