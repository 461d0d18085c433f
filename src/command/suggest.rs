//! Suggests commands for an unknown command.
//!
//! clap suggests similar words; this module finds commands below other commands, for a user who types
//! `memfw approve` and means `memfw quarantine approve`.
#![forbid(unsafe_code)]

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::config::nearest;

/// The commands below others that were probably meant, as they are typed; only with exactly this name if
/// clap has a suggestion.
pub fn nested(error: &clap::Error, tree: &clap::Command) -> Vec<String> {
  let is_answered = error.get(ContextKind::SuggestedSubcommand).is_some();
  let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidSubcommand) else {
    return Vec::new();
  };
  if error.kind() != ErrorKind::InvalidSubcommand {
    return Vec::new();
  }
  let below: Vec<(&str, &str)> = tree
    .get_subcommands()
    .flat_map(|group| group.get_subcommands().map(move |one| (group.get_name(), one.get_name())))
    .collect();
  let mut names = below.iter().map(|(_, name)| *name);
  // The exact word below another command is a better guess than a similar word from clap.
  let exact = names.clone().find(|name| name == typed);
  let Some(name) = exact.or_else(|| nearest(typed, names.by_ref()).filter(|_| !is_answered)) else {
    return Vec::new();
  };
  let meant = below.iter().filter(|(_, below)| *below == name);
  meant.map(|(group, name)| format!("{} {group} {name}", tree.get_name())).collect()
}

#[cfg(test)]
mod tests {
  use super::*;
  use crate::command::Args;
  use clap::{CommandFactory as _, Parser as _};

  fn meant(line: &str) -> Vec<String> {
    let error = Args::try_parse_from(line.split(' ')).unwrap_err();
    nested(&error, &Args::command())
  }

  #[test]
  fn a_command_is_found_below_another_one() {
    assert_eq!(meant("memfw export a1b2c3"), ["memfw quarantine export"]);
    assert_eq!(meant("memfw withdraw a1b2c3"), ["memfw policy withdraw"]);
    assert_eq!(meant("memfw config reject"), ["memfw quarantine reject"]);
    assert_eq!(meant("memfw telemetry"), [""; 0]);
    assert_eq!(meant("memfw statsu"), [""; 0], "clap has said it");
    assert_eq!(meant("memfw scan --no-such-option"), [""; 0]);
  }
}
