//! What an installation of OpenClaw has of the plugin, and which protection is missing.
//!
//! Only files of OpenClaw and of memfw are read, by names that memfw knows.
#![forbid(unsafe_code)]

use serde_json::{Value, json};

use super::plugin_files::{FILES, ID, installed};
use crate::{
  app::{agent::installations, context::Context},
  config::{Config, JudgeVia, LinkWrites, NotifyVia},
  openclaw::{Installation, plugin_settings::PluginSettings},
  os::{LinkLock, paths},
};

/// Largest file of an installed plugin that is read, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// What is said of files that are not those of this program.
const OTHER: &str = "of another memfw: install it again with `memfw openclaw install`";

/// A part of the plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
  Writes,
  Reads,
  Chat,
  Notices,
  Judge,
}

impl Part {
  const ALL: [Self; 5] = [Self::Writes, Self::Reads, Self::Chat, Self::Notices, Self::Judge];

  const fn as_str(self) -> &'static str {
    match self {
      Self::Writes => "writes",
      Self::Reads => "reads",
      Self::Chat => "chat",
      Self::Notices => "notices",
      Self::Judge => "judge",
    }
  }

  /// What it gives.
  const fn words(self) -> &'static str {
    match self {
      Self::Writes => "verdicts before the write",
      Self::Reads => "frames around what the agent reads",
      Self::Chat => "`/memfw` in chats",
      Self::Notices => "notices in a chat",
      Self::Judge => "answers to the judge's questions",
    }
  }
}

/// What an installation of OpenClaw has of the plugin.
pub(in crate::command) struct PluginState {
  /// Whether it is installed.
  pub(super) is_installed: bool,
  /// Whether its files are those of this program.
  is_current: bool,
  /// Whether a child of it runs.
  is_running: bool,
  /// The key of OpenClaw's configuration because of which OpenClaw does not load it.
  pub(super) disabled_by: Option<&'static str>,
  /// The configured mode.
  pub(super) mode: LinkWrites,
  /// The parts that the two configurations ask for.
  wanted: Vec<Part>,
}

impl PluginState {
  /// The command that says all of it.
  pub(in crate::command) const COMMAND: &str = "memfw openclaw status";

  /// What this installation has.
  pub(in crate::command) fn of(context: &Context, one: &Installation) -> Self {
    let dir = installed(one);
    let read = |name: &str| paths::read_own(&dir.join(name), MAX_FILE).ok().flatten();
    let is_same = |(name, text): &(&str, &str)| read(name).as_deref() == Some(text.as_bytes());
    let is_installed = read("openclaw.plugin.json").is_some();
    let data = context.home().map(|home| home.data);
    let config = context.config().unwrap_or_default().config;
    let settings = PluginSettings::of(&one.settings, ID);
    Self {
      is_installed,
      is_current: is_installed && FILES.iter().all(is_same),
      is_running: data.is_ok_and(|data| LinkLock::is_held(&data)),
      disabled_by: settings.disabled_by,
      mode: config.link_writes,
      wanted: wanted(&config, &settings),
    }
  }

  /// Those of all installations that have the plugin.
  pub(in crate::command) fn all(context: &Context) -> Vec<(Installation, Self)> {
    let Ok(found) = context.config() else { return vec![] };
    let all = installations(&context.surroundings.env, &found.config).into_iter();
    let with_state = |one: Installation| (Self::of(context, &one), one);
    all
      .map(with_state)
      .filter(|(state, _)| state.is_installed)
      .map(|(state, one)| (one, state))
      .collect()
  }

  /// The parts that are asked for and do not work now.
  fn missing(&self) -> &[Part] {
    if self.is_installed && self.is_running && self.disabled_by.is_none() {
      &[]
    } else {
      &self.wanted
    }
  }

  /// Whether it is installed and protects less than it is asked to.
  pub(in crate::command) fn is_troubled(&self) -> bool {
    self.is_installed && (!self.is_current || !self.missing().is_empty())
  }

  /// The state for programs.
  pub(in crate::command) fn to_json(&self) -> Value {
    let state = |part: &Part| match (self.wanted.contains(part), self.missing().contains(part)) {
      (false, _) => "off",
      (true, true) => "missing",
      (true, false) => "on",
    };
    let parts = Part::ALL.iter().map(|part| (part.as_str().to_owned(), Value::from(state(part))));
    json!({
      "installed": self.is_installed,
      "current": self.is_installed.then_some(self.is_current),
      "running": self.is_installed.then_some(self.is_running),
      "enabled": self.is_installed.then_some(self.disabled_by.is_none()),
      "writes": self.mode.as_str(),
      "parts": self.is_installed.then(|| Value::Object(parts.collect())),
    })
  }

  /// Why it lacks something; `None` if it does not.
  fn fault(&self) -> Option<String> {
    if let Some(key) = self.disabled_by {
      Some(format!("OpenClaw does not load it: `{key}` in its configuration"))
    } else if self.is_running {
      None
    } else {
      Some("no `memfw link` runs".to_owned())
    }
  }

  /// One line for people.
  pub(in crate::command) fn line(&self) -> String {
    if !self.is_installed {
      return "not installed: no write is refused; memfw openclaw install".to_owned();
    }
    let found = match self.fault() {
      Some(why) if self.disabled_by.is_some() => format!("installed, and {why}"),
      Some(why) => {
        format!("installed, and {why}; it starts with OpenClaw's gateway or the agent's next run")
      }
      None => format!(
        "installed and running; {}",
        match self.mode {
          LinkWrites::Quarantine => "`link.writes` is `quarantine`: no write is refused",
          LinkWrites::Refuse => "poisoned writes are refused",
          LinkWrites::Ask => "the owner is asked about poisoned writes",
        }
      ),
    };
    if self.is_current { found } else { format!("{found}; {OTHER}") }
  }

  /// What is missing, in words; `None` if nothing is.
  pub(in crate::command) fn missing_line(&self) -> Option<String> {
    let missing: Vec<&str> = self.missing().iter().map(|part| part.words()).collect();
    (self.is_installed && !missing.is_empty())
      .then(|| format!("{}; the daemon takes poison out after the write", missing.join(", ")))
  }

  /// All that is wrong with it, in one line; `None` if nothing is.
  pub(in crate::command) fn trouble(&self) -> Option<String> {
    let missing: Vec<&str> = self.missing().iter().map(|part| part.words()).collect();
    let missing = (!missing.is_empty()).then(|| format!("missing: {}", missing.join(", ")));
    let other = (!self.is_current).then(|| OTHER.to_owned());
    let parts: Vec<String> = [self.fault(), missing, other].into_iter().flatten().collect();
    self.is_troubled().then(|| parts.join("; "))
  }
}

/// The parts that the two configurations ask for.
fn wanted(config: &Config, settings: &PluginSettings) -> Vec<Part> {
  let is_sent = !matches!(config.notify_via, NotifyVia::Message | NotifyVia::Event);
  let is_wanted = |part: &Part| match part {
    Part::Writes => config.link_writes != LinkWrites::Quarantine,
    Part::Reads => settings.reads,
    Part::Chat => true,
    Part::Notices => settings.notices && settings.has_owner_chat && is_sent,
    Part::Judge => settings.judge && config.judge_via == JudgeVia::Queue,
  };
  Part::ALL.into_iter().filter(is_wanted).collect()
}

#[cfg(test)]
mod tests {
  use super::*;

  fn state(is_current: bool, is_running: bool, disabled_by: Option<&'static str>) -> PluginState {
    let settings = PluginSettings {
      reads: true,
      notices: true,
      has_owner_chat: true,
      ..PluginSettings::default()
    };
    let config = Config::default();
    let (mode, wanted) = (config.link_writes, wanted(&config, &settings));
    PluginState { is_installed: true, is_current, is_running, disabled_by, mode, wanted }
  }

  #[test]
  fn what_is_missing_is_named() {
    assert!(!state(true, true, None).is_troubled());
    assert_eq!(state(true, true, None).missing_line(), None);
    assert_eq!(state(true, true, None).trouble(), None);
    assert_eq!(state(false, true, None).trouble().as_deref(), Some(OTHER));
    for one in [state(true, false, None), state(true, true, Some("plugins.enabled"))] {
      assert!(one.is_troubled());
      let missing = one.missing_line().unwrap();
      assert_eq!(
        missing,
        "frames around what the agent reads, `/memfw` in chats, notices in a chat; the daemon takes poison out \
         after the write"
      );
      let parts = json!({ "writes": "off", "reads": "missing", "chat": "missing", "notices": "missing", "judge": "off" });
      assert_eq!(one.to_json()["parts"], parts);
    }
    let absent = PluginState { is_installed: false, ..state(false, false, None) };
    assert!(!absent.is_troubled());
    assert_eq!((absent.missing_line(), &absent.to_json()["parts"]), (None, &Value::Null));
  }

  #[test]
  fn only_what_is_configured_can_be_missing() {
    let all = PluginSettings {
      reads: true,
      notices: true,
      judge: true,
      has_owner_chat: true,
      disabled_by: None,
    };
    let config =
      Config { link_writes: LinkWrites::Ask, judge_via: JudgeVia::Queue, ..Config::default() };
    assert_eq!(wanted(&config, &all), Part::ALL);
    let told = Config { notify_via: NotifyVia::Message, ..Config::default() };
    assert_eq!(wanted(&told, &all), [Part::Reads, Part::Chat]);
    assert_eq!(wanted(&config, &PluginSettings::default()), [Part::Writes, Part::Chat]);
  }
}
