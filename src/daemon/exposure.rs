//! Exposure: how long poison could be read, measured at each redaction and kept for `status`.
//!
//! The time runs from the first change that the last pass did not cover to the redaction with its
//! durable copy, so it is at least as long as the poison was there. The change counts from its event, or
//! from the kernel's stamp if that is older. Only text written while this daemon ran counts; older text
//! is found and reported at the start.
#![forbid(unsafe_code)]

use std::{
  collections::{HashMap, VecDeque},
  time::Duration,
};

use serde::{Deserialize, Serialize};

use crate::{
  engine::Target,
  store::{Ledger, StateKey},
};

/// How many redactions are kept; the 99th percentile needs about a hundred.
pub const MAX_KEPT: usize = 128;

/// The latest exposures.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exposure {
  /// In microseconds, oldest first; at most [`MAX_KEPT`].
  us: VecDeque<u64>,
  #[serde(skip)]
  is_loaded: bool,
  /// When the daemon started, on the monotonic clock.
  #[serde(skip)]
  started: Duration,
  /// When each open file was last read as a whole, on the monotonic clock.
  #[serde(skip)]
  looks: HashMap<Target, Duration>,
}

impl Exposure {
  /// Without measurements, for a daemon that starts at this time on the monotonic clock.
  pub(super) fn since(started: Duration) -> Self {
    Self { started, ..Self::default() }
  }

  /// Parses the row of the ledger.
  pub fn parse(json: &str) -> Self {
    serde_json::from_str(json).unwrap_or_default()
  }

  /// The number of redactions.
  pub fn n(&self) -> usize {
    self.us.len()
  }

  /// The time that `percent` of the redactions did not exceed; `None` without any.
  pub fn percentile(&self, percent: usize) -> Option<Duration> {
    let mut sorted: Vec<u64> = self.us.iter().copied().collect();
    sorted.sort_unstable();
    let rank = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(rank).copied().map(Duration::from_micros)
  }

  /// Notes when a file was read as a whole although a program has it open.
  pub(super) fn looked(&mut self, target: &Target, at: Duration) {
    self.looks.insert(target.clone(), at);
  }

  /// Forgets a file that was processed.
  pub(super) fn forget(&mut self, target: &Target) {
    self.looks.remove(target);
  }

  /// Adds what the engine measured at redactions of a file that is dirty since `dirty`, on the monotonic clock.
  /// Returns the row to be stored, if it has changed.
  pub(super) fn note(
    &mut self,
    fresh: Vec<Duration>,
    target: &Target,
    dirty: Duration,
    ledger: &Ledger,
    now: Duration,
  ) -> Option<String> {
    if !self.is_loaded {
      let kept = ledger.state(&StateKey::Exposure).ok().flatten();
      self.us = kept.map(|(json, _)| Self::parse(&json).us).unwrap_or_default();
      self.is_loaded = true;
    }
    let before = self.us.len();
    let seen = now.saturating_sub(self.started);
    let since = self.looks.get(target).map_or(dirty, |look| dirty.max(*look));
    for exposure in fresh.into_iter().filter(|exposure| *exposure <= seen) {
      self.add(exposure.max(now.saturating_sub(since)));
    }
    if self.us.len() == before && before != MAX_KEPT {
      return None;
    }
    Some(serde_json::to_string(self).unwrap_or_default())
  }

  fn add(&mut self, exposure: Duration) {
    self.us.push_back(u64::try_from(exposure.as_micros()).unwrap_or(u64::MAX));
    while self.us.len() > MAX_KEPT {
      self.us.pop_front();
    }
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn percentiles_are_of_the_latest_redactions() {
    let mut exposure = Exposure::default();
    assert_eq!(exposure.percentile(50), None);
    for n in 1..=100 {
      exposure.add(Duration::from_micros(n));
    }
    assert_eq!(exposure.percentile(50), Some(Duration::from_micros(50)));
    assert_eq!(exposure.percentile(99), Some(Duration::from_micros(99)));
    assert_eq!(exposure.percentile(100), Some(Duration::from_micros(100)));
    for _ in 0..MAX_KEPT {
      exposure.add(Duration::from_micros(7));
    }
    assert_eq!((exposure.n(), exposure.percentile(99)), (MAX_KEPT, Some(Duration::from_micros(7))));
    let json = serde_json::to_string(&exposure).unwrap();
    assert_eq!(Exposure::parse(&json), exposure);
    assert_eq!(Exposure::parse("nonsense").n(), 0);
  }
}
