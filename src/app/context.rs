//! What every command gets: memfw's directories, the output, and the values of the flags.
//!
//! [`Surroundings::read`] reads the environment once; commands never read it.
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

/// The variable that replaces `--log-level` where that flag is absent.
const LOG_VARIABLE: &str = "MEMFW_LOG";

/// The variables that switch colours on or off, in addition to those that `Env` always has.
const COLOUR_VARIABLES: [&str; 2] = ["CLICOLOR", "CLICOLOR_FORCE"];

/// The variable with which the service manager says that it adds the time.
const JOURNAL: &str = "JOURNAL_STREAM";

/// The environment of the process.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
  /// The variables that memfw uses.
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

  /// The directory that `~` means.
  pub fn home(&self) -> Option<PathBuf> {
    self.env.path("HOME")
  }

  /// When colours are used, by the conventions of other programs, the strongest first:
  /// `NO_COLOR`, `CLICOLOR_FORCE`, `CLICOLOR=0`; a `dumb` terminal has no colours.
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

/// What every command gets.
pub struct Context {
  /// The environment.
  pub surroundings: Surroundings,
  /// The output for answers.
  pub out: Out,
  /// The lowest level that `--log-level` asks for; `None` without the flag.
  pub log_level: Option<LogLevel>,
  /// `--preset`.
  pub preset: Option<Preset>,
}

impl Context {
  /// memfw's own directories; this function creates none.
  pub fn home(&self) -> Result<Home, Failure> {
    Home::find(&self.surroundings.env).map_err(|error| Failure::unavailable(error.to_string()))
  }

  /// The path of the configuration file, whether or not it exists.
  pub fn config_file(&self) -> Result<PathBuf, Failure> {
    Ok(self.home()?.config.join(CONFIG_FILE))
  }

  /// The name of the person who decides, for the audit.
  pub fn user(&self) -> String {
    let name = self.surroundings.env.get("USER").map(|name| name.to_string_lossy().into_owned());
    name.unwrap_or_else(|| format!("uid {}", user::effective_uid()))
  }

  /// The configuration in force: the file, if there is one, overridden by environment and flags.
  pub fn config(&self) -> Result<Effective, Failure> {
    let mut effective = self.configured(&self.config_file()?)?;
    if let Some((level, origin)) = self.level_asked()? {
      effective.config.log_level = level;
      effective.set_origin("log.level", origin);
    }
    Ok(effective)
  }

  /// The log level that flag or environment set, and which of them.
  fn level_asked(&self) -> Result<Option<(LogLevel, ValueOrigin)>, Failure> {
    if let Some(level) = self.log_level {
      return Ok(Some((level, ValueOrigin::Flag("--log-level"))));
    }
    if self.out.is_quiet() {
      return Ok(Some((LogLevel::Warn, ValueOrigin::Flag("--quiet"))));
    }
    let Some(word) = self.surroundings.env.get(LOG_VARIABLE) else { return Ok(None) };
    let level = word.to_string_lossy().parse().map_err(|expected| {
      Failure::usage(format!("`{LOG_VARIABLE}` is `{}`, {expected}", word.display()))
    })?;
    Ok(Some((level, ValueOrigin::Environment(LOG_VARIABLE))))
  }

  /// The configuration in the file, without the flags; the defaults where there is no file.
  fn configured(&self, file: &Path) -> Result<Effective, ConfigError> {
    Ok(load(file, self.preset, self.surroundings.home().as_deref())?.0)
  }

  /// Starts logging as configured; for commands that log.
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
