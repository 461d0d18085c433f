//! What is missing of the plugin inside the agent, for `memfw status`.
#![forbid(unsafe_code)]

use serde_json::{Value, json};

use crate::{app::context::Context, command::openclaw::PluginState, engine::event::shown};

/// The installations of the agent that have the plugin, each by its state directory.
pub(super) struct Plugins(Vec<(String, PluginState)>);

impl Plugins {
  /// Finds them.
  pub(super) fn find(context: &Context) -> Self {
    let all = PluginState::all(context).into_iter();
    Self(all.map(|(one, state)| (shown(&one.layout.state_dir), state)).collect())
  }

  /// All of them.
  pub(super) fn to_json(&self) -> Value {
    let one =
      |(dir, state): &(String, PluginState)| json!({ "state_dir": dir, "plugin": state.to_json() });
    self.0.iter().map(one).collect()
  }

  /// A line for each that lacks something.
  pub(super) fn lines(&self) -> Vec<String> {
    let line = |(dir, state): &(String, PluginState)| {
      let place = if self.0.len() > 1 { format!("in {dir}: ") } else { String::new() };
      Some(format!("{place}{}: {}", state.trouble()?, PluginState::COMMAND))
    };
    self.0.iter().filter_map(line).collect()
  }
}
