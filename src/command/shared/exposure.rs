//! The lines of `status` about exposure: how long poison was readable, or that readers wait at the
//! gate.
#![forbid(unsafe_code)]

use std::time::Duration;

use serde_json::{Value, json};

use super::duration::{FOR_P99, duration};
use crate::{
  daemon::{exposure::Exposure, gate::GateHealth},
  store::{Ledger, StateKey},
  terminal::{failure::Failure, output::count, time},
};

/// How long a read that was let through unjudged makes `status` degraded, in microseconds: an hour, in
/// which an operator or a monitor sees it; afterwards only the audit lists it.
const ALARM: i64 = 3_600_000_000;

/// How long a gate may take to gate the directories that the daemon named, in microseconds.
const COMING: i64 = 3_000_000;

/// The known facts about the reading of memory.
#[derive(Debug, Default)]
pub struct Reading {
  exposure: Exposure,
  gate: Option<GateHealth>,
}

impl Reading {
  /// Reads the facts from the ledger.
  pub fn find(ledger: &Ledger) -> Result<Self, Failure> {
    let exposure = ledger.state(&StateKey::Exposure)?.map(|(json, _)| Exposure::parse(&json));
    let gate =
      ledger.state(&StateKey::Gate)?.and_then(|(json, _)| serde_json::from_str(&json).ok());
    Ok(Self { exposure: exposure.unwrap_or_default(), gate })
  }

  /// How protection is reduced.
  pub fn degradations(&self, now: i64) -> Vec<String> {
    let Some(gate) = &self.gate else { return Vec::new() };
    let mut found = Vec::new();
    if let (Some(at), Some(why)) = (gate.let_through_at, &gate.why)
      && now.saturating_sub(at) < ALARM
    {
      let n = count(gate.let_through, "read");
      found.push(format!(
        "the gate let {n} through unjudged, the last {}: {why}",
        time::short(at, now)
      ));
    }
    if gate.connected && gate.directories == 0 && now.saturating_sub(gate.since) > COMING {
      found.push("the gate makes no readers wait: its log says why".to_owned());
    }
    if let Some(dir) = gate.ungated.as_ref().filter(|_| gate.connected) {
      found.push(format!("readers of `{dir}` do not wait: the log of the gate says why"));
    }
    found
  }

  /// One line for a person.
  pub fn line(&self, now: i64) -> String {
    let measured = match (self.exposure.percentile(50), self.exposure.percentile(99)) {
      (Some(half), Some(most)) => {
        let n = self.exposure.n() as u64;
        // Of fewer redactions, the 99th percentile is the slowest one.
        let name = if n >= FOR_P99 { "p99" } else { "slowest" };
        format!("p50 {}, {name} {} over the last {}", ms(half), ms(most), count(n, "redaction"))
      }
      _ => "nothing was redacted yet".to_owned(),
    };
    match &self.gate {
      Some(gate) if gate.connected && gate.directories > 0 => format!(
        "none: readers wait at the gate, connected {} (without it: {measured})",
        time::short(gate.since, now)
      ),
      _ => measured,
    }
  }

  /// The median, the 99th percentile, and over how many redactions.
  pub fn figures(&self) -> (Option<Duration>, Option<Duration>, usize) {
    (self.exposure.percentile(50), self.exposure.percentile(99), self.exposure.n())
  }

  /// The keys `exposure` and `gate`.
  pub fn to_json(&self) -> (Value, Value) {
    let us = |percent| self.exposure.percentile(percent).map(|time| time.as_micros() as u64);
    let exposure = us(50)
      .map(|half| json!({ "p50_us": half, "p99_us": us(99), "redactions": self.exposure.n() }));
    let gate = self.gate.as_ref().map(|gate| {
      json!({
        "connected": gate.connected,
        "pid": gate.pid,
        "since": time::rfc3339(gate.since),
        "directories": gate.directories,
        "let_through": gate.let_through,
        "let_through_at": gate.let_through_at.map(time::rfc3339),
        "why": gate.why,
      })
    });
    (exposure.unwrap_or_default(), gate.unwrap_or_default())
  }
}

fn ms(time: Duration) -> String {
  duration(time.as_secs_f64() * 1e6)
}

#[cfg(test)]
mod tests {
  use super::*;

  const NOW: i64 = 1_800_000_000_000_000;

  fn reading(us: &str, gate: GateHealth) -> Reading {
    Reading { exposure: Exposure::parse(&format!("{{\"us\":{us}}}")), gate: Some(gate) }
  }

  #[test]
  fn exposure_is_reported_with_and_without_a_gate() {
    let gone = reading("[900,1000,250000]", GateHealth::default());
    assert_eq!(gone.line(NOW), "p50 1.0 ms, slowest 250 ms over the last 3 redactions");
    let there = GateHealth { connected: true, directories: 2, since: NOW, ..GateHealth::default() };
    let line = reading("[]", there).line(NOW);
    assert!(line.starts_with("none: readers wait at the gate, "), "{line}");
    assert!(line.ends_with("(without it: nothing was redacted yet)"), "{line}");
    // A gate that gates nothing yet protects nothing.
    let early = GateHealth { connected: true, ..GateHealth::default() };
    let early = reading("[]", early);
    assert_eq!(early.line(NOW), "nothing was redacted yet");
    let found = early.degradations(NOW);
    assert!(found.len() == 1 && found[0].contains("no readers wait"), "{found:?}");
  }

  #[test]
  fn a_read_that_was_let_through_is_a_degradation_for_an_hour() {
    let gate = GateHealth {
      let_through: 3,
      let_through_at: Some(NOW),
      why: Some("the daemon did not answer".to_owned()),
      ..GateHealth::default()
    };
    let reading = reading("[]", gate);
    let found = reading.degradations(NOW + 1);
    assert!(found.len() == 1 && found[0].contains("3 reads"), "{found:?}");
    assert_eq!(reading.degradations(NOW + ALARM), [""; 0]);
  }
}
