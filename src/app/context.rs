//! What every command is given: where memfw lives, where its answer goes, what the flags say.
//!
//! The environment is read once, by [`Surroundings::read`]; commands never ask it.
#![forbid(unsafe_code)]

use super::{
  agent,
  configuration::{ConfigError, load},
  keys,
  logging::{LogSetup, is_stamped},
};
use crate::{
  config::{Config, Effective, LogLevel, Preset, ValueOrigin},
  os::{Env, Home, user},
  terminal::{
    failure::Failure,
    output::{Colours, Out},
    pager,
  },
};
use std::{
  io::{self, IsTerminal as _},
  path::{Path, PathBuf},
};

/// The name of the configuration file in its directory.
pub const CONFIG_FILE: &str = "config.toml";

/// The variable that stands for `--log-level` where that is not given.
const LOG_VARIABLE: &str = "MEMFW_LOG";

/// The variables that say whether colours are wanted, besides those that `Env` always has.
const COLOUR_VARIABLES: [&str; 2] = ["CLICOLOR", "CLICOLOR_FORCE"];

/// The variable by which the service manager says that it adds the time.
const JOURNAL: &str = "JOURNAL_STREAM";

/// What the environment of the process says.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
  /// The variables that count.
  pub env: Env,
}

impl Surroundings {
  /// Reads the environment, once.
  pub fn read() -> Self {
    let further: Vec<&str> = [JOURNAL, LOG_VARIABLE, keys::EMBEDDING, keys::JUDGE, "USER"]
      .into_iter()
      .chain(COLOUR_VARIABLES)
      .chain(pager::VARIABLES)
      .chain(agent::VARIABLES.iter().copied())
      .collect();
    Self { env: Env::capture(&further) }
  }

  /// What `~` stands for.
  pub fn home(&self) -> Option<PathBuf> {
    self.env.path("HOME")
  }

  /// When colours are wanted, in the words that programs have agreed on, the strongest first:
  /// `NO_COLOR`, `CLICOLOR_FORCE`, `CLICOLOR=0`; a terminal that is `dumb` has none.
  pub fn colours(&self) -> Colours {
    let is = |name: &str, word: &str| self.env.get(name).is_some_and(|value| value == word);
    if self.env.get("NO_COLOR").is_some() {
      Colours::Never
    } else if self.env.get("CLICOLOR_FORCE").is_some() && !is("CLICOLOR_FORCE", "0") {
      Colours::Always
    } else if is("CLICOLOR", "0") || is("TERM", "dumb") {
      Colours::Never
    } else {
      Colours::OnTerminals
    }
  }
}

/// What every command is given.
pub struct Context {
  /// What the environment says.
  pub surroundings: Surroundings,
  /// Where the answer goes.
  pub out: Out,
  /// `--log-level`.
  pub log_level: Option<LogLevel>,
  /// `--quiet`, `--balanced`, `--strict`.
  pub preset: Option<Preset>,
}

impl Context {
  /// memfw's own directories; nothing is made.
  pub fn home(&self) -> Result<Home, Failure> {
    Home::find(&self.surroundings.env).map_err(|error| Failure::unavailable(error.to_string()))
  }

  /// Where the configuration file is, or would be.
  pub fn config_file(&self) -> Result<PathBuf, Failure> {
    Ok(self.home()?.config.join(CONFIG_FILE))
  }

  /// Who decides, for the audit.
  pub fn user(&self) -> String {
    let name = self.surroundings.env.get("USER").map(|name| name.to_string_lossy().into_owned());
    name.unwrap_or_else(|| format!("uid {}", user::effective_uid()))
  }

  /// The configuration that holds: the file, where there is one, under environment and flags.
  pub fn config(&self) -> Result<Effective, Failure> {
    let mut effective = self.configured(&self.config_file()?)?;
    if let Some((level, origin)) = self.level_asked()? {
      effective.config.log_level = level;
      effective.set_origin("log.level", origin);
    }
    Ok(effective)
  }

  /// The log level that is asked for outside of the file, and how.
  fn level_asked(&self) -> Result<Option<(LogLevel, ValueOrigin)>, Failure> {
    if let Some(level) = self.log_level {
      return Ok(Some((level, ValueOrigin::Flag("--log-level"))));
    }
    let Some(word) = self.surroundings.env.get(LOG_VARIABLE) else { return Ok(None) };
    let level = word.to_string_lossy().parse().map_err(|expected| {
      Failure::usage(format!("`{LOG_VARIABLE}` is `{}`, {expected}", word.display()))
    })?;
    Ok(Some((level, ValueOrigin::Environment(LOG_VARIABLE))))
  }

  /// What the file says, without the flags; the defaults where there is no file.
  fn configured(&self, file: &Path) -> Result<Effective, ConfigError> {
    Ok(load(file, self.preset, self.surroundings.home().as_deref())?.0)
  }

  /// Starts logging as the configuration asks; for commands that log.
  pub fn start_log(&self, config: &Config) -> Result<(), Failure> {
    let env = &self.surroundings.env;
    let stamped = is_stamped(env.get(JOURNAL), env.get("NOTIFY_SOCKET"));
    LogSetup {
      level: config.log_level,
      format: config.log_format,
      time: !stamped,
      colour: self.surroundings.colours().on(io::stderr().is_terminal()),
    }
    .start()
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn colours_follow_the_environment() {
    use Colours::{Always, Never, OnTerminals};
    for (pairs, expected) in [
      (&[][..], OnTerminals),
      (&[("NO_COLOR", "1")][..], Never),
      (&[("NO_COLOR", "")][..], OnTerminals),
      (&[("CLICOLOR", "0")][..], Never),
      (&[("CLICOLOR", "1")][..], OnTerminals),
      (&[("CLICOLOR_FORCE", "1")][..], Always),
      (&[("CLICOLOR_FORCE", "0")][..], OnTerminals),
      (&[("CLICOLOR_FORCE", "1"), ("CLICOLOR", "0"), ("TERM", "dumb")][..], Always),
      (&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")][..], Never),
      (&[("TERM", "dumb")][..], Never),
    ] {
      let env = Env::from_pairs(pairs.iter().copied());
      assert_eq!(Surroundings { env }.colours(), expected, "{pairs:?}");
    }
  }
}
