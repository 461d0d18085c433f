//! What OpenClaw's configuration says about a plugin: whether OpenClaw loads it (2026.9.6:
//! `src/plugins/config-activation-shared.ts`), and its own settings.
#![forbid(unsafe_code)]

use serde_json::Value;

use super::settings::Settings;

/// What the configuration says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginSettings {
  /// The key because of which OpenClaw does not load it.
  pub disabled_by: Option<&'static str>,
  /// Whether it hands out what the agent reads.
  pub reads: bool,
  /// Whether it sends notices.
  pub notices: bool,
  /// Whether it answers questions of the judge.
  pub judge: bool,
  /// Whether an owner has a chat to which it may send.
  pub has_owner_chat: bool,
}

impl PluginSettings {
  /// What it says about the plugin with this id; what cannot be read says nothing.
  pub fn of(settings: &Settings, id: &str) -> Self {
    let is_no = |keys: &[&str]| settings.at(keys) == Some(&Value::Bool(false));
    let list = |keys: &[&str]| settings.at(keys).and_then(Value::as_array);
    let has = |list: &Vec<Value>| {
      list.iter().filter_map(Value::as_str).any(|one| one.trim().eq_ignore_ascii_case(id))
    };
    let disabled_by = if is_no(&["plugins", "enabled"]) {
      Some("plugins.enabled")
    } else if list(&["plugins", "deny"]).is_some_and(has) {
      Some("plugins.deny")
    } else if is_no(&["plugins", "entries", id, "enabled"]) {
      Some("plugins.entries.memfw.enabled")
    } else if list(&["plugins", "allow"]).is_some_and(|list| !list.is_empty() && !has(list)) {
      Some("plugins.allow")
    } else {
      None
    };
    let is_on = |key: &str| !is_no(&["plugins", "entries", id, "config", key]);
    let owners = list(&["commands", "ownerAllowFrom"]);
    Self {
      disabled_by,
      reads: is_on("reads"),
      notices: is_on("notices"),
      judge: is_on("judge"),
      has_owner_chat: owners.is_some_and(|list| list.iter().filter_map(Value::as_str).any(is_chat)),
    }
  }
}

/// Whether an owner is named by an address that is only theirs, as the plugin reads it (`notices.ts`).
fn is_chat(owner: &str) -> bool {
  owner.trim().strip_prefix("telegram:").is_some_and(|id| {
    let is_number = id.bytes().all(|byte| byte.is_ascii_digit());
    is_number && (1..=16).contains(&id.len()) && !id.starts_with('0')
  })
}

#[cfg(test)]
mod tests {
  use super::*;
  use crate::os::paths;

  fn of(text: &str) -> PluginSettings {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("openclaw.json");
    paths::write_private(&file, text.as_bytes()).unwrap();
    PluginSettings::of(&Settings::read(&file), "memfw")
  }

  #[test]
  fn a_plugin_is_loaded_unless_a_key_says_otherwise() {
    for (text, by) in [
      ("{}", None),
      ("not json", None),
      ("{plugins: {entries: {memfw: {enabled: true}}, allow: [], deny: ['other']}}", None),
      ("{plugins: {allow: ['Memfw ']}}", None),
      ("{plugins: {enabled: false}}", Some("plugins.enabled")),
      ("{plugins: {deny: ['memfw']}}", Some("plugins.deny")),
      ("{plugins: {entries: {memfw: {enabled: false}}}}", Some("plugins.entries.memfw.enabled")),
      ("{plugins: {allow: ['other']}}", Some("plugins.allow")),
    ] {
      assert_eq!(of(text).disabled_by, by, "{text}");
    }
  }

  #[test]
  fn its_parts_are_on_unless_they_are_switched_off() {
    let on =
      PluginSettings { reads: true, notices: true, judge: true, ..PluginSettings::default() };
    assert_eq!(of("{}"), on);
    let off =
      "{plugins: {entries: {memfw: {config: {reads: false, notices: false, judge: false}}}}}";
    assert_eq!(of(off), PluginSettings::default());
    for (owner, has_owner_chat) in [
      ("telegram:42", true),
      (" telegram:42 ", true),
      ("telegram:042", false),
      ("telegram:-42", false),
      ("telegram:", false),
      ("telegram:42:7", false),
      ("discord:42", false),
      ("*", false),
    ] {
      let text = format!("{{commands: {{ownerAllowFrom: [5, '{owner}']}}}}");
      assert_eq!(of(&text).has_owner_chat, has_owner_chat, "{owner}");
    }
  }
}
