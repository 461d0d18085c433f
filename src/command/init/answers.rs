//! The answers that `memfw init` asks for, in the form in which a person types them and flags have them, and the
//! keys of the configuration that they set.
//!
//! Invariant: an answer that is displayed and read again is an equal answer, as long as no word of it contains a
//! space; an answer that is not changed is never read from its text.
#![forbid(unsafe_code)]

use std::{fmt, str::FromStr};

use toml::Value;

use crate::{
  command::service::supervisor::Supervisor,
  config::{Config, JudgeVia, Key, Markers, NotifyVia, Preset, edit, find},
};

/// What starts memfw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceAnswer {
  /// A service manager.
  Manager(Supervisor),
  /// The person.
  None,
}

/// How a person is notified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotifyAnswer {
  /// Not at all.
  None,
  /// By a notification on the desktop.
  Desktop,
  /// By an event in the agent's session.
  Event,
  /// By a message through the agent framework.
  Message {
    /// The channel.
    channel: String,
    /// The recipient.
    target: String,
  },
  /// By a program.
  Command(Vec<String>),
}

/// Who reads new entries from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JudgeAnswer {
  /// Nobody.
  Off,
  /// The agent framework's model; an empty name is its usual one.
  Agent(String),
  /// A server.
  Endpoint {
    /// Its address.
    url: String,
    /// Its model.
    model: String,
  },
  /// A program that takes questions.
  Queue,
}

/// All answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answers {
  /// How strict memfw is.
  pub preset: Preset,
  /// What starts memfw.
  pub service: ServiceAnswer,
  /// How a person is notified.
  pub notify: NotifyAnswer,
  /// Which comments files get.
  pub markers: Markers,
  /// Who reads new entries from outside.
  pub judge: JudgeAnswer,
}

impl Answers {
  /// The current values, with this service.
  pub fn of(config: &Config, service: ServiceAnswer) -> Self {
    let notify = match config.notify_via {
      NotifyVia::None => NotifyAnswer::None,
      NotifyVia::Desktop => NotifyAnswer::Desktop,
      NotifyVia::Event => NotifyAnswer::Event,
      NotifyVia::Message => NotifyAnswer::Message {
        channel: config.notify_channel.clone(),
        target: config.notify_target.clone(),
      },
      NotifyVia::Command => NotifyAnswer::Command(config.notify_command.clone()),
    };
    let judge = match config.judge_via {
      JudgeVia::Off => JudgeAnswer::Off,
      JudgeVia::Queue => JudgeAnswer::Queue,
      JudgeVia::Agent => JudgeAnswer::Agent(config.judge_model.clone()),
      JudgeVia::Endpoint => {
        JudgeAnswer::Endpoint { url: config.judge_url.clone(), model: config.judge_model.clone() }
      }
    };
    Self { preset: config.preset, service, notify, markers: config.markers, judge }
  }

  /// The keys that these answers set, with their values.
  fn settings(&self) -> Vec<(&'static str, Value)> {
    let text = |text: &str| Value::String(text.to_owned());
    let mut set =
      vec![("preset", text(self.preset.as_str())), ("markers", text(self.markers.as_str()))];
    let via = match &self.notify {
      NotifyAnswer::None => NotifyVia::None,
      NotifyAnswer::Desktop => NotifyVia::Desktop,
      NotifyAnswer::Event => NotifyVia::Event,
      NotifyAnswer::Message { channel, target } => {
        set.extend([("notify.channel", text(channel)), ("notify.target", text(target))]);
        NotifyVia::Message
      }
      NotifyAnswer::Command(words) => {
        let words = words.iter().map(|word| text(word)).collect();
        set.push(("notify.command", Value::Array(words)));
        NotifyVia::Command
      }
    };
    set.push(("notify.via", text(via.as_str())));
    let via = match &self.judge {
      JudgeAnswer::Off => JudgeVia::Off,
      JudgeAnswer::Queue => JudgeVia::Queue,
      JudgeAnswer::Agent(model) => {
        set.push(("judge.model", text(model)));
        JudgeVia::Agent
      }
      JudgeAnswer::Endpoint { url, model } => {
        set.extend([("judge.url", text(url)), ("judge.model", text(model))]);
        JudgeVia::Endpoint
      }
    };
    set.push(("judge.via", text(via.as_str())));
    set
  }

  /// What these answers change about a configuration; `workspaces` replaces the guarded directories.
  pub fn changes(&self, config: &Config, workspaces: Option<&[String]>) -> Vec<Change> {
    let mut settings = self.settings();
    if let Some(dirs) = workspaces {
      let dirs = dirs.iter().cloned().map(Value::String).collect();
      settings.insert(0, ("workspaces", Value::Array(dirs)));
    }
    let change = |(name, value): (&str, Value)| {
      let key = find(name)?;
      let was = key.value(config);
      (was != value).then_some(Change { key, was, value })
    };
    settings.into_iter().filter_map(change).collect()
  }
}

/// A key of the configuration that gets another value.
#[derive(Debug)]
pub struct Change {
  /// The key.
  pub key: &'static Key,
  /// Its value so far.
  pub was: Value,
  /// Its new value.
  pub value: Value,
}

impl Change {
  /// The document with these changes; the error is the key that cannot be set in it.
  pub fn apply_all(changes: &[Self], document: &str) -> Result<String, &'static str> {
    changes.iter().try_fold(document.to_owned(), |text, change| {
      edit::set(&text, change.key, &change.value.to_string()).ok_or(change.key.name)
    })
  }
}

impl fmt::Display for ServiceAnswer {
  fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match self {
      Self::Manager(manager) => manager.fmt(f),
      Self::None => f.write_str("none"),
    }
  }
}

impl fmt::Display for NotifyAnswer {
  fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match self {
      Self::None => f.write_str("none"),
      Self::Desktop => f.write_str("desktop"),
      Self::Event => f.write_str("event"),
      Self::Message { channel, target } => write!(f, "message {channel} {target}"),
      Self::Command(words) => write!(f, "command {}", words.join(" ")),
    }
  }
}

impl fmt::Display for JudgeAnswer {
  fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match self {
      Self::Off => f.write_str("off"),
      Self::Agent(model) if model.is_empty() => f.write_str("agent"),
      Self::Agent(model) => write!(f, "agent {model}"),
      Self::Endpoint { url, model } => write!(f, "endpoint {url} {model}"),
      Self::Queue => f.write_str("queue"),
    }
  }
}

impl FromStr for ServiceAnswer {
  type Err = String;

  fn from_str(text: &str) -> Result<Self, Self::Err> {
    let managers = [Supervisor::User, Supervisor::System, Supervisor::Launchd];
    match text.trim() {
      "none" => Ok(Self::None),
      word => managers
        .into_iter()
        .find(|manager| manager.as_str() == word)
        .map(Self::Manager)
        .ok_or_else(|| "expected `user`, `system`, `launchd` or `none`".to_owned()),
    }
  }
}

impl FromStr for NotifyAnswer {
  type Err = String;

  fn from_str(text: &str) -> Result<Self, Self::Err> {
    match *text.split_whitespace().collect::<Vec<_>>() {
      ["none"] => Ok(Self::None),
      ["desktop"] => Ok(Self::Desktop),
      ["event"] => Ok(Self::Event),
      ["message", channel, target] => {
        Ok(Self::Message { channel: channel.to_owned(), target: target.to_owned() })
      }
      ["message", ..] => {
        Err("type the channel and the recipient: `message CHANNEL RECIPIENT`".to_owned())
      }
      ["command"] => Err("type the program and its arguments: `command PROGRAM`".to_owned()),
      ["command", ref words @ ..] => {
        Ok(Self::Command(words.iter().map(|&word| word.to_owned()).collect()))
      }
      _ => Err("expected `none`, `desktop`, `event`, `message` or `command`".to_owned()),
    }
  }
}

impl FromStr for JudgeAnswer {
  type Err = String;

  fn from_str(text: &str) -> Result<Self, Self::Err> {
    match *text.split_whitespace().collect::<Vec<_>>() {
      ["off"] => Ok(Self::Off),
      ["queue"] => Ok(Self::Queue),
      ["agent"] => Ok(Self::Agent(String::new())),
      ["agent", model] => Ok(Self::Agent(model.to_owned())),
      ["endpoint", url, model] => {
        Ok(Self::Endpoint { url: url.to_owned(), model: model.to_owned() })
      }
      ["endpoint", ..] => Err("type the address and the model: `endpoint URL MODEL`".to_owned()),
      _ => Err("expected `off`, `agent`, `endpoint` or `queue`".to_owned()),
    }
  }
}

#[cfg(test)]
mod tests {
  use super::*;
  use crate::config::{Effective, PARTS};

  #[test]
  fn an_answer_is_read_as_it_is_shown() {
    for text in ["none", "desktop", "event", "message telegram -100", "command say -v anna"] {
      assert_eq!(text.parse::<NotifyAnswer>().unwrap().to_string(), text);
    }
    for text in ["off", "queue", "agent", "agent big", "endpoint http://127.0.0.1:1/v1 small"] {
      assert_eq!(text.parse::<JudgeAnswer>().unwrap().to_string(), text);
    }
    for text in ["user", "system", "launchd", "none"] {
      assert_eq!(text.parse::<ServiceAnswer>().unwrap().to_string(), text);
    }
    for text in ["", "message", "message a", "message a b c", "command", "desktop now"] {
      assert!(text.parse::<NotifyAnswer>().is_err(), "{text}");
    }
    for text in ["", "endpoint", "endpoint a", "off now", "agent a b"] {
      assert!(text.parse::<JudgeAnswer>().is_err(), "{text}");
    }
    assert!("".parse::<ServiceAnswer>().is_err());
  }

  #[test]
  fn present_values_change_nothing() {
    for text in [
      "",
      "preset = \"strict\"\nmarkers = \"id\"\n[notify]\nvia = \"command\"\ncommand = [\"sh\", \"a b\"]\n",
      "[notify]\nvia = \"message\"\n[judge]\nvia = \"agent\"\nmodel = \"m\"\n",
      "[notify]\nchannel = \"kept\"\n[judge]\nurl = \"https://kept\"\n",
    ] {
      let config = Effective::parse(text, None).unwrap().config;
      let changes = Answers::of(&config, ServiceAnswer::None).changes(&config, None);
      assert!(changes.is_empty(), "{text}: {changes:?}");
    }
  }

  #[test]
  fn each_answer_sets_its_keys_and_no_other() {
    let config = Config::default();
    let answers = Answers {
      preset: Preset::Strict,
      markers: Markers::Id,
      notify: "message telegram @ann".parse().unwrap(),
      judge: "endpoint http://127.0.0.1:1/v1 small".parse().unwrap(),
      ..Answers::of(&config, ServiceAnswer::None)
    };
    let changes = answers.changes(&config, Some(&["/a".to_owned()]));
    let text = Change::apply_all(&changes, "# mine\n").unwrap();
    let expected = "workspaces = [\"/a\"]\npreset = \"strict\"\nmarkers = \"id\"\n";
    assert!(text.starts_with("# mine\n") && text.contains(expected), "{text}");
    let after = Effective::parse(&text, None).unwrap().config;
    assert_eq!(Answers::of(&after, ServiceAnswer::None), answers);
    assert!(answers.changes(&after, None).is_empty());
    assert_eq!(Change::apply_all(&changes, "= broken"), Err("workspaces"));
  }

  #[test]
  fn no_preset_changes_what_another_answer_sets() {
    // Otherwise the values to change would depend on the order of the changes.
    let answers = [("message a b", "endpoint u m"), ("command a", "agent m")];
    for (notify, judge) in answers {
      let answers = Answers {
        notify: notify.parse().unwrap(),
        judge: judge.parse().unwrap(),
        ..Answers::of(&Config::default(), ServiceAnswer::None)
      };
      for (key, _) in answers.settings() {
        assert!(PARTS.iter().all(|part| part.key != key), "{key}");
      }
    }
  }
}
