//! The commented example of the configuration file.
//!
//! Explanations begin with `##`, and each key with its default begins with one `#`: removing that
//! `#` sets the key to its default.
#![forbid(unsafe_code)]

use super::key::{Config, KEYS};

/// The example with every key, its documentation and its default; a valid configuration.
pub fn example() -> String {
  let defaults = Config::default();
  let mut text =
    String::from("## Configuration of memfw. A key that is left out keeps its default.\n");
  let mut section = "";
  for key in KEYS {
    text.push('\n');
    if key.section() != section {
      section = key.section();
      text.extend(["[", section, "]\n"]);
    }
    for line in key.about {
      text.extend(["##", line, "\n"]);
    }
    text.extend(["# ", key.leaf(), " = ", &key.value(&defaults).to_string(), "\n"]);
  }
  text
}

#[cfg(test)]
mod tests {
  use {
    super::{
      super::effective::{Effective, ValueOrigin},
      *,
    },
    std::path::Path,
  };

  #[test]
  fn the_example_is_valid_and_sets_nothing() {
    let effective = Effective::parse(&example(), None).unwrap();
    assert!(effective.values().all(|(_, _, origin)| origin == ValueOrigin::Default));
  }

  #[test]
  fn the_uncommented_example_sets_every_key_to_its_default() {
    let text: String =
      example().split_inclusive('\n').map(|line| line.strip_prefix("# ").unwrap_or(line)).collect();
    let effective = Effective::parse(&text, Some(Path::new("/home/ann"))).unwrap();
    assert_eq!(effective.config, Config::default());
    for (key, _, origin) in effective.values() {
      assert!(matches!(origin, ValueOrigin::File { .. }), "`{}` is not in the example", key.name);
    }
  }

  #[test]
  fn lines_fit_a_terminal_nearly() {
    for line in example().lines() {
      assert!(line.chars().count() <= 100, "{line}");
    }
  }
}
