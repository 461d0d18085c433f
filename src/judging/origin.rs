//! The origin of a text: what policy asks about it and what the ledger keeps.
#![forbid(unsafe_code)]

use crate::{
  config::Config,
  detect::{
    Text,
    effects::{KnownSlot, asks_to_keep, licence, licence_for},
    model::{Context, Kind},
    policy::Party,
  },
  memory::BlockId,
  provenance::{
    Attestation, Attribution, Evidence, Request, Source, Trust, evidence::MAX_EVIDENCE_CHARS,
    trust_of,
  },
  store::{Item, ItemOrigin, Ledger, OriginRecord, Revision, Sighting},
};

/// What is known about the origin of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
  /// The source of the text, `unknown` until attribution.
  pub source: Source,
  /// The trust in the source.
  pub trust: Trust,
  /// Whether the source was observed, and is thus independent evidence.
  pub observed: bool,
  /// How the source is known.
  pub attestation: Attestation,
  /// The agent's session that wrote it.
  pub session: Option<String>,
  /// The evidence, and whether the agent's records must still be asked.
  pub trail: OriginRecord,
  /// The owner's request when the text was written, and the material that it was made from, if known.
  pub request: Option<Request>,
  /// Whether comments of memfw in the text are those of another installation, which guarded the file before.
  pub is_taken_over: bool,
}

impl Origin {
  /// A source with this trust and without evidence.
  pub fn assumed(source: Source, trust: Trust) -> Self {
    Self {
      source,
      trust,
      observed: false,
      attestation: Attestation::SelfReported,
      session: None,
      trail: OriginRecord::default(),
      request: None,
      is_taken_over: false,
    }
  }

  /// Adds the owner's request, if the ledger has it. An unreadable request counts as none: that is
  /// stricter.
  #[must_use]
  pub fn with_request(mut self, ledger: &Ledger) -> Self {
    if let (None, Some(hash)) = (&self.request, self.trail.request) {
      self.request = ledger.request(hash).ok().flatten();
    }
    self
  }

  /// The origin of text that was not observed.
  pub fn unknown() -> Self {
    Self::assumed(Source::unknown(), Trust::Untrusted)
  }

  /// The origin of text from before memfw.
  pub fn baseline() -> Self {
    Self::assumed(Source::baseline(), Trust::Verified)
  }

  /// The origin of new text, or of text from before memfw, by the configured trust rules. With a
  /// `sighting`, the version in which new text was first seen, the agent's records are to be asked.
  pub fn seen(config: &Config, is_baseline: bool, sighting: Option<Sighting>) -> Self {
    let mut origin = if is_baseline { Self::baseline() } else { Self::unknown() };
    origin.trust = trust_of(&config.trust_rules, &origin.source, &[]);
    origin.trail = sighting.map(OriginRecord::asked).unwrap_or_default();
    origin
  }

  /// The origin by the agent's records. They are not asked again, regardless of the evidence.
  pub fn attributed(config: &Config, said: &Attribution, trail: &OriginRecord) -> Self {
    let source = said.source.clone();
    let trust = trust_of(&config.trust_rules, &source, &said.fed_by);
    let mut evidence = said.evidence.clone();
    // Names come from outside, so their length is limited before they are stored.
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
      is_taken_over: false,
    }
  }

  /// The origin of a revision.
  pub fn of_revision(revision: &Revision) -> Self {
    Self {
      source: revision.source.clone(),
      trust: revision.trust,
      observed: is_observed(&revision.source, revision.attestation),
      attestation: revision.attestation,
      session: revision.session.clone(),
      trail: revision.trail.clone(),
      request: None,
      is_taken_over: false,
    }
  }

  /// Whether a later answer of the records with this origin may replace an earlier one. Only evidence may
  /// raise trust, or replace evidence.
  pub fn may_replace(&self, before: &Self) -> bool {
    let is_nothing = before.source.kind() == "unknown";
    self.observed || !before.observed && (is_nothing || self.trust <= before.trust)
  }

  /// Whether both say the same about who wrote a text.
  pub fn is_like(&self, other: &Self) -> bool {
    (&self.source, self.trust, self.attestation) == (&other.source, other.trust, other.attestation)
  }

  /// The party that the text comes from.
  pub fn party(&self) -> Party {
    Party::of(&self.source, self.trust, self.observed, asks_to_keep(licence(self.asked())))
  }

  /// The part of the origin that the model gets: nothing if the source was not observed.
  pub fn context<'a>(&'a self, text: &Text<'_>, known: &'a [KnownSlot]) -> Context<'a> {
    // A source that was only claimed must not change the model's judgement.
    let kind = if self.observed { Kind::of(&self.source) } else { Kind::Unknown };
    Context { kind, asked: licence_for(self.asked(), text), known }
  }

  /// The owner's request in that turn.
  fn asked(&self) -> &str {
    self.request.as_ref().map_or("", |request| &request.asked)
  }

  /// Whether the text was observed to come from outside.
  pub fn is_foreign(&self) -> bool {
    matches!(self.party(), Party::Outside | Party::Hostile | Party::Asked)
  }

  /// The origin of an item that a person has reviewed; so its source is not evidence any more.
  pub fn of_item(item: &Item) -> Self {
    Self {
      source: item.source.clone(),
      trust: item.trust,
      observed: false,
      attestation: item.attestation,
      session: item.session.clone(),
      trail: item.trail.clone(),
      request: None,
      is_taken_over: false,
    }
  }

  /// The origin of an item that no person has reviewed yet.
  pub fn of_held(item: &Item) -> Self {
    Self { observed: is_observed(&item.source, item.attestation), ..Self::of_item(item) }
  }

  /// Writes the origin to a revision.
  pub fn fill(&self, revision: &mut Revision) {
    revision.source = self.source.clone();
    revision.trust = self.trust;
    revision.attestation = self.attestation;
    revision.session.clone_from(&self.session);
    revision.trail = self.trail.clone();
  }

  /// This origin as that of an item of the ledger.
  pub fn for_item(&self, id: &BlockId) -> ItemOrigin {
    ItemOrigin {
      id: id.clone(),
      source: self.source.clone(),
      trust: self.trust,
      attestation: self.attestation,
      session: self.session.clone(),
      trail: self.trail.clone(),
    }
  }
}

/// A foreign name as the ledger keeps it: short, and on one line.
fn plain(name: &str) -> String {
  // A line end in a foreign name could forge a line of the log.
  let clean = name.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c });
  clean.take(MAX_EVIDENCE_CHARS).collect()
}

/// Whether the source was observed: an unknown source is no evidence about a text.
fn is_observed(source: &Source, attestation: Attestation) -> bool {
  is_somebody(source) && attestation >= Attestation::ToolObserved
}

/// Whether the source is known: these three kinds only mean that it is not.
pub fn is_somebody(source: &Source) -> bool {
  !matches!(source.kind(), "unknown" | "external-edit" | "baseline")
}

/// Whether a source can be allowed something: a person without a name could be anybody.
pub fn can_be_allowed(source: &Source) -> bool {
  let is_nameless = source.kind() == "user" && source.as_str().ends_with(":unknown");
  is_somebody(source) && !is_nameless
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
