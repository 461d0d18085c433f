//! The evidence for the origin of a text, as one line for people.
#![forbid(unsafe_code)]

use crate::{
  provenance::{Attestation, Evidence, Source, State, Trust},
  terminal::{escape::terminal, time},
};

/// A source as people read it, escaped: with its trust, and how it is known. Text from before memfw was neither
/// verified nor reported by anybody, and nobody reported an unknown source.
pub fn origin(source: &Source, trust: Trust, attestation: Attestation) -> String {
  if source.is_baseline() {
    return format!("{source}, it was there before memfw");
  }
  let name = terminal(source.as_str());
  match attestation {
    Attestation::SelfReported if is_nobody(source) => format!("{name}, {trust}"),
    _ => format!("{name}, {trust}, {attestation}"),
  }
}

/// Whether nobody is named as the source of a text.
fn is_nobody(source: &Source) -> bool {
  matches!(source.as_str(), "unknown" | "external-edit")
}

/// The trust of a source as people read it; text from before memfw has the trust that the owner's rules give it, and
/// nobody has verified it.
pub fn trust_words(source: &str, trust: Trust) -> &'static str {
  if source == "baseline" { "-" } else { trust.as_str() }
}

/// The state of a text of this source as people read it; nobody has validated text from before memfw.
pub fn state_words(source: &Source, state: State) -> &'static str {
  if source.is_baseline() && state == State::Validated { "-" } else { state.as_str() }
}

/// The sources other than its own that limit the trust of a text, from the JSON of a row of the ledger.
/// Others have chosen the names; they are not escaped.
pub fn fed_by(json: &str) -> Vec<String> {
  serde_json::from_str::<Evidence>(json).map(|evidence| evidence.fed_by).unwrap_or_default()
}

/// The evidence in the JSON of a row of the ledger, as one line; `None` if there is none. Others have
/// chosen the names in it; they are not escaped.
pub fn line(json: &str) -> Option<String> {
  let evidence: Evidence = serde_json::from_str(json).ok()?;
  Some(evidence.line(&time::rfc3339))
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn what_nobody_reported_or_verified_is_not_said_to_be() {
    let words =
      |source: &str, attestation| origin(&Source::new(source), Trust::Verified, attestation);
    let observed = Attestation::ToolObserved;
    for (source, attestation, expected) in [
      ("baseline", Attestation::SelfReported, "baseline, it was there before memfw"),
      ("unknown", Attestation::SelfReported, "unknown, verified"),
      ("external-edit", Attestation::SelfReported, "external-edit, verified"),
      ("agent", Attestation::SelfReported, "agent, verified, self-reported"),
      ("agent", observed, "agent, verified, tool-observed"),
      ("unknown", Attestation::HumanConfirmed, "unknown, verified, human-confirmed"),
    ] {
      assert_eq!(words(source, attestation), expected);
    }
    assert_eq!(trust_words("baseline", Trust::Verified), "-");
    assert_eq!(state_words(&Source::baseline(), State::Validated), "-");
    assert_eq!(state_words(&Source::baseline(), State::Flagged), "flagged");
    assert_eq!(state_words(&Source::unknown(), State::Validated), "validated");
  }
}
