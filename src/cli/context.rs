//! What every command is given: where memfw lives, where its answer goes, what the flags say.
//!
//! The environment is read once, by [`Surroundings::read`]; commands never ask it.
#![forbid(unsafe_code)]

use {
  super::{
    config::{ConfigError, load},
    failure::Failure,
    log::{LogSetup, is_stamped},
    output::Out,
  },
  crate::config::{Config, Effective, LogLevel, Origin},
  directories::ProjectDirs,
  std::{
    ffi::OsString,
    io::{self, IsTerminal as _},
    path::{Path, PathBuf},
  },
};

/// The name of the configuration file in its directory.
const CONFIG_FILE: &str = "config.toml";

/// The variable that stands for `--log-level` where that is not given.
const LOG_VARIABLE: &str = "MEMFW_LOG";

/// What the environment of the process says.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
  /// The configuration directory; `None` where there is no home directory.
  pub config_dir: Option<PathBuf>,
  /// What `~` stands for.
  pub home: Option<PathBuf>,
  /// `NO_COLOR` is set and not empty, or the terminal cannot (`TERM=dumb`).
  pub no_colour: bool,
  /// `MEMFW_LOG`, the log level where no flag says it.
  pub log_level: Option<OsString>,
  /// `JOURNAL_STREAM`.
  pub journal_stream: Option<OsString>,
  /// `NOTIFY_SOCKET`.
  pub notify_socket: Option<OsString>,
}

impl Surroundings {
  /// Reads the environment; `MEMFW_HOME` puts configuration and data under one
  /// directory, each into its own.
  #[expect(clippy::disallowed_methods, reason = "the one place where the command line reads it")]
  pub fn read() -> Self {
    let get = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let project = || ProjectDirs::from("", "", env!("CARGO_PKG_NAME"));
    Self {
      config_dir: get("MEMFW_HOME")
        .map(|dir| PathBuf::from(dir).join("config"))
        .or_else(|| Some(project()?.config_dir().to_path_buf())),
      home: get("HOME").map(PathBuf::from),
      no_colour: get("NO_COLOR").is_some() || get("TERM").is_some_and(|term| term == "dumb"),
      log_level: get(LOG_VARIABLE),
      journal_stream: get("JOURNAL_STREAM"),
      notify_socket: get("NOTIFY_SOCKET"),
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
}

impl Context {
  /// Where the configuration file is, or would be.
  pub fn config_file(&self) -> Result<PathBuf, Failure> {
    match &self.surroundings.config_dir {
      Some(dir) => Ok(dir.join(CONFIG_FILE)),
      None => {
        Err(Failure::unavailable("there is no home directory").hint("set `HOME` or `MEMFW_HOME`"))
      }
    }
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
  fn level_asked(&self) -> Result<Option<(LogLevel, Origin)>, Failure> {
    if let Some(level) = self.log_level {
      return Ok(Some((level, Origin::Flag("--log-level"))));
    }
    let Some(word) = &self.surroundings.log_level else { return Ok(None) };
    let level = word.to_string_lossy().parse().map_err(|expected| {
      Failure::usage(format!("`{LOG_VARIABLE}` is `{}`, {expected}", word.display()))
    })?;
    Ok(Some((level, Origin::Environment(LOG_VARIABLE))))
  }

  /// What the file says, without the flags; the defaults where there is no file.
  fn configured(&self, file: &Path) -> Result<Effective, ConfigError> {
    Ok(load(file, self.surroundings.home.as_deref())?.unwrap_or_default())
  }

  /// Starts logging as the configuration asks; for commands that log.
  pub fn start_log(&self, config: &Config) -> Result<(), Failure> {
    let Surroundings { no_colour, journal_stream, notify_socket, .. } = &self.surroundings;
    let stamped = is_stamped(journal_stream.as_deref(), notify_socket.as_deref());
    LogSetup {
      level: config.log_level,
      format: config.log_format,
      time: !stamped,
      colour: io::stderr().is_terminal() && !no_colour,
    }
    .start()
  }
}
