//! From which probabilities on the model counts.
#![forbid(unsafe_code)]

use crate::{detect::model::Depth, provenance::Trust};

/// From which probability on the model counts, for a source of one trust.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Threshold {
  /// The trust of the sources to which these limits apply.
  pub trust: Trust,
  /// While only the heads have looked.
  pub heads: Limits,
  /// Where the encoder has looked as well.
  pub encoder: Limits,
}

/// Limits of the higher of the two probabilities.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
  /// From here on a text is flagged.
  pub flag: f32,
  /// From here on it is quarantined, where there is evidence of another kind; `None` for never.
  pub quarantine: Option<f32>,
}

impl Threshold {
  const fn new(trust: Trust, heads: Limits, encoder: Limits) -> Self {
    Self { trust, heads, encoder }
  }

  /// The limits for a text that was looked at so closely.
  pub const fn at(&self, depth: Depth) -> Limits {
    match depth {
      Depth::Heads | Depth::HeadsAlone => self.heads,
      Depth::Encoder => self.encoder,
    }
  }
}

/// The thresholds at sensitivity `medium`: the probabilities above which one, five, fifteen and five hundred
/// of ten thousand harmless blocks of real workspaces lie that the model was not trained on, for a source
/// that is trusted, verified, untrusted and hostile. With the next stricter rate a text is quarantined where
/// there is other evidence. Fifteen and not
/// fifty for untrusted sources: above 0.50 lie 3 % of talk about security and 2 % of business mail, and
/// workspaces are not all that such a source writes about. `train-heads fuse` measures them, and
/// docs/detection.md has what each rests on, with intervals.
pub const THRESHOLDS: [Threshold; 4] = [
  Threshold::new(Trust::Trusted, limits(0.76, None), limits(0.79, None)),
  Threshold::new(Trust::Verified, limits(0.71, Some(0.76)), limits(0.74, Some(0.79))),
  Threshold::new(Trust::Untrusted, limits(0.62, Some(0.71)), limits(0.50, Some(0.74))),
  Threshold::new(Trust::Hostile, limits(0.20, Some(0.62)), limits(0.11, Some(0.50))),
];

const fn limits(flag: f32, quarantine: Option<f32>) -> Limits {
  Limits { flag, quarantine }
}
