//! Losses in `memfw status`: how many wait, and why none can be found.
#![forbid(unsafe_code)]

use serde_json::{Value, json};

use crate::{config::Config, engine::loss_check::tolerance, plural::choose};

/// The losses of memory files.
pub(super) struct LossCounts {
  pub(super) n_waiting: u64,
  /// Why none is found.
  off: Option<&'static str>,
}

impl LossCounts {
  pub(super) const fn of(config: &Config, n_waiting: u64) -> Self {
    let off = if tolerance(config).is_off() {
      Some("`losses.max_percent` is 100")
    } else if config.version_mb == 0 {
      Some("versions are switched off, `versions.max_mb` is 0")
    } else {
      None
    };
    Self { n_waiting, off }
  }

  pub(super) fn to_json(&self) -> Value {
    json!({ "waiting": self.n_waiting, "off": self.off })
  }

  /// The line for people, if there is something to say.
  pub(super) fn line(&self) -> Option<String> {
    let waiting = match self.n_waiting {
      0 => None,
      n => Some(format!("{n} {} text: memfw list", choose(n, "file lost", "files lost"))),
    };
    let off = self.off.map(|why| format!("not noticed: {why}"));
    let all: Vec<String> = waiting.into_iter().chain(off).collect();
    (!all.is_empty()).then(|| all.join("; "))
  }
}
