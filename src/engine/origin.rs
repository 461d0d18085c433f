//! Where a text came from, as far as the engine knows: what policy asks and what the ledger keeps.
#![forbid(unsafe_code)]

use crate::{
  config::Config,
  detect::{
    effects::{KnownSlot, asks_to_keep},
    model::{Context, Kind},
    policy::Party,
  },
  provenance::{
    Attestation, Attribution, Evidence, Request, Source, Trust, evidence::MAX_EVIDENCE_CHARS,
    trust_of,
  },
  store::{Item, OriginRecord, Revision, Sighting},
};

/// What is known about a text apart from the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
  /// Where it came from.
  pub source: Source,
  /// How far that is trusted.
  pub trust: Trust,
  /// Whether it was observed, so that it is a second kind of evidence.
  pub observed: bool,
  /// How it is known.
  pub attestation: Attestation,
  /// The agent's session that wrote it.
  pub session: Option<String>,
  /// What it rests on, and whether the agent's records are still to be asked.
  pub trail: OriginRecord,
  /// What the owner had asked for when it was written, and what it was made from, where that is known.
  pub request: Option<Request>,
}

impl Origin {
  /// A source with this trust that nothing speaks for.
  pub fn assumed(source: Source, trust: Trust) -> Self {
    Self {
      source,
      trust,
      observed: false,
      attestation: Attestation::SelfReported,
      session: None,
      trail: OriginRecord::default(),
      request: None,
    }
  }

  /// Nobody saw who wrote it.
  pub fn unknown() -> Self {
    Self::assumed(Source::unknown(), Trust::Untrusted)
  }

  /// It was there before memfw.
  pub fn baseline() -> Self {
    Self::assumed(Source::baseline(), Trust::Verified)
  }

  /// New text, or what was there before memfw, by the rules in force. About new text the agent's records
  /// are to be asked, where it is told in which version it was first seen.
  pub fn seen(config: &Config, is_baseline: bool, sighting: Option<Sighting>) -> Self {
    let mut origin = if is_baseline { Self::baseline() } else { Self::unknown() };
    origin.trust = trust_of(&config.trust_rules, &origin.source, &[]);
    origin.trail = sighting.map(OriginRecord::asked).unwrap_or_default();
    origin
  }

  /// What the agent's records say. Whatever they rest on, they are not asked again.
  pub fn attributed(config: &Config, said: &Attribution, trail: &OriginRecord) -> Self {
    let source = said.source.clone();
    let trust = trust_of(&config.trust_rules, &source, &said.fed_by);
    let mut evidence = said.evidence.clone();
    evidence.fed_by = said.fed_by.iter().map(|one| Evidence::capped(one.as_str())).collect();
    let evidence = if evidence == Evidence::default() {
      String::new()
    } else {
      serde_json::to_string(&evidence).unwrap_or_default()
    };
    let observed = is_observed(&source, said.attestation);
    let request = said.request.clone().filter(|request| !request.is_empty());
    Self {
      source,
      trust,
      observed,
      attestation: said.attestation,
      session: said.session.as_deref().map(plain),
      trail: OriginRecord {
        evidence_json: evidence,
        sighting: trail.sighting,
        due: false,
        request: request.as_ref().map(Request::hash),
      },
      request,
    }
  }

  /// What a revision of a block says.
  pub fn of_revision(revision: &Revision) -> Self {
    Self {
      source: revision.source.clone(),
      trust: revision.trust,
      observed: is_observed(&revision.source, revision.attestation),
      attestation: revision.attestation,
      session: revision.session.clone(),
      trail: revision.trail.clone(),
      request: None,
    }
  }

  /// Whose words the text is.
  pub fn party(&self) -> Party {
    let asked = self.request.as_ref().is_some_and(|request| asks_to_keep(&request.asked));
    Party::of(&self.source, self.trust, self.observed, asked)
  }

  /// What the model is told about the text besides it: nothing where nobody saw who wrote it.
  pub fn context<'a>(&'a self, known: &'a [KnownSlot]) -> Context<'a> {
    let kind = if self.observed { Kind::of(&self.source) } else { Kind::Unknown };
    let asked = self.request.as_ref().map_or("", |request| request.asked.as_str());
    Context { kind, asked, known }
  }

  /// Whether somebody outside was seen to say it.
  pub fn is_foreign(&self) -> bool {
    matches!(self.party(), Party::Outside | Party::Hostile | Party::Asked)
  }

  /// What is known of something that was taken out of a file. A person has looked at it, so it is no
  /// evidence any more.
  pub fn of_item(item: &Item) -> Self {
    Self {
      source: item.source.clone(),
      trust: item.trust,
      observed: false,
      attestation: item.attestation,
      session: item.session.clone(),
      trail: item.trail.clone(),
      request: None,
    }
  }

  /// What is known of something that was taken out of a file and that nobody has looked at yet.
  pub fn of_held(item: &Item) -> Self {
    Self { observed: is_observed(&item.source, item.attestation), ..Self::of_item(item) }
  }

  /// Puts what is known into a revision.
  pub fn fill(&self, revision: &mut Revision) {
    revision.source = self.source.clone();
    revision.trust = self.trust;
    revision.attestation = self.attestation;
    revision.session.clone_from(&self.session);
    revision.trail = self.trail.clone();
  }
}

/// A name of others as it is kept: on one line, and short.
fn plain(name: &str) -> String {
  let clean = name.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c });
  clean.take(MAX_EVIDENCE_CHARS).collect()
}

/// Whether somebody saw the source: that nobody knows who wrote a text is no evidence about it.
fn is_observed(source: &Source, attestation: Attestation) -> bool {
  is_somebody(source) && attestation >= Attestation::ToolObserved
}

/// Whether the source names somebody: these three only say that nobody knows.
pub fn is_somebody(source: &Source) -> bool {
  !matches!(source.kind(), "unknown" | "external-edit" | "baseline")
}

#[cfg(test)]
mod tests {
  use super::*;
  use crate::provenance::{SourcePattern, TrustRule};

  #[test]
  fn only_what_somebody_saw_is_evidence() {
    let config = Config::default();
    let of = |source, attestation| {
      let said = Attribution { attestation, ..Attribution::without_evidence(Source::new(source)) };
      Origin::attributed(&config, &said, &OriginRecord::default()).observed
    };
    assert!(of("web_fetch:a.example", Attestation::ToolObserved));
    assert!(of("web_fetch:a.example", Attestation::ContentHashed));
    assert!(!of("web_fetch:a.example", Attestation::SelfReported));
    assert!(!of("external-edit", Attestation::ContentHashed));
    assert!(!of("unknown", Attestation::ToolObserved));
  }

  #[test]
  fn rules_and_what_fed_it_say_how_far_a_text_is_trusted() {
    let rule = TrustRule { source: SourcePattern::new("unknown").unwrap(), trust: Trust::Hostile };
    let config = Config { trust_rules: vec![rule], ..Config::default() };
    assert_eq!(Origin::seen(&config, false, None).trust, Trust::Hostile);
    assert_eq!(Origin::seen(&config, true, None).trust, Trust::Verified);
    let sub = Attribution {
      fed_by: vec![Source::new("agent"), Source::unknown()],
      ..Attribution::without_evidence(Source::new("subagent:r"))
    };
    let origin = Origin::attributed(&config, &sub, &OriginRecord::default());
    let fed_by = r#"{"fed_by":["agent","unknown"]}"#;
    assert_eq!((origin.trust, origin.trail.evidence_json.as_str()), (Trust::Hostile, fed_by));
    let seen = Attribution {
      evidence: Evidence { ledger_hash: true, ..Evidence::default() },
      ..Attribution::without_evidence(Source::new("agent"))
    };
    let origin = Origin::attributed(&config, &seen, &OriginRecord::default());
    assert_eq!(origin.trail.evidence_json, r#"{"ledger_hash":true}"#);
  }
}
