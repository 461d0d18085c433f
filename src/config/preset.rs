//! Presets: other defaults for a few keys, selected by one word.
//!
//! A preset overrides the defaults and is overridden by single keys, so choosing one never loses a
//! setting. `balanced` has no values of its own: it is the defaults.
#![forbid(unsafe_code)]

use {
  super::{
    key::{Config, Key, find},
    setting::Rules,
    word::Preset,
  },
  toml::de::DeValue,
};

/// The values of one key in the presets, as TOML.
#[derive(Clone, Copy, Debug)]
pub struct Part {
  /// The name of the key.
  pub key: &'static str,
  /// The value in `quiet`, if it is not the default.
  pub quiet: Option<&'static str>,
  /// The value in `strict`, if it is not the default.
  pub strict: Option<&'static str>,
}

impl Part {
  /// The value in a preset, if the preset has one.
  pub const fn of(&self, preset: Preset) -> Option<&'static str> {
    match preset {
      Preset::Quiet => self.quiet,
      Preset::Balanced => None,
      Preset::Strict => self.strict,
    }
  }
}

/// Everything that presets change, in the order of the keys. The values are choices: `quiet`
/// requires more evidence and notifies once a day, `strict` does the opposite. No preset changes
/// two guarantees: poison is taken out of memory, and everything is in the ledger.
pub static PARTS: &[Part] = &[
  // These two contain the agent's knowledge; people maintain the other instruction files by hand.
  Part { key: "files.quarantine", quiet: None, strict: Some("[\"USER.md\", \"DREAMS.md\"]") },
  Part { key: "agent.extra_paths", quiet: None, strict: Some("\"quarantine\"") },
  Part { key: "baseline.action", quiet: None, strict: Some("\"quarantine\"") },
  Part { key: "detection.sensitivity", quiet: Some("\"low\""), strict: Some("\"high\"") },
  Part { key: "notify.interval_s", quiet: Some("86400"), strict: Some("60") },
];

/// Applies the values of a preset to a configuration; returns the keys that it has set.
pub(super) fn apply(preset: Preset, config: &mut Config) -> Vec<&'static Key> {
  config.preset = preset;
  let set = |part: &Part| {
    let (key, text) = (find(part.key)?, part.of(preset)?);
    let value = DeValue::parse(text).ok()?;
    let rules = Rules { name: key.name, bounds: key.bounds.clone(), home: None };
    (key.read)(config, &value, &rules).ok().map(|()| key)
  };
  PARTS.iter().filter_map(set).collect()
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn every_value_is_one_that_its_key_takes_and_no_default() {
    for preset in [Preset::Quiet, Preset::Strict] {
      let mut config = Config::default();
      let set: Vec<&str> = apply(preset, &mut config).iter().map(|key| key.name).collect();
      let said = PARTS.iter().filter(|part| part.of(preset).is_some()).map(|part| part.key);
      assert_eq!(set, said.collect::<Vec<_>>(), "{preset}");
      for name in set {
        let key = find(name).unwrap();
        assert_ne!(key.value(&config), key.value(&Config::default()), "{preset}: {name}");
      }
    }
  }

  #[test]
  fn balanced_is_the_defaults() {
    let mut config = Config::default();
    assert!(apply(Preset::Balanced, &mut config).is_empty());
    assert_eq!(config, Config::default());
  }
}
