//! The judgement on one block, and the layer that decided.
#![forbid(unsafe_code)]

use std::ops::Range;

use super::origin::Origin;
use crate::{
  detect::{
    Action, Decision, Finding, Layer, RuleKind, Severity,
    model::{Assessment, Depth},
    policy,
    reading::{KeptQuestion, Ruling},
  },
  memory::ContentHash,
  provenance::Trust,
  store::ExceptionKey,
};

/// The judgement on one block of the document; blocks without fresh lines have none.
#[derive(Clone, Debug)]
pub struct BlockJudgement {
  /// The decision of policy.
  pub decision: Decision,
  /// The findings in the fresh lines; spans in bytes of the file.
  pub findings: Vec<Finding>,
  /// Whether the text is from before memfw and stays unchanged, whatever was found.
  pub spared: bool,
  /// Whether a person approved exactly this text.
  pub approved: bool,
  /// The approved lines among the fresh ones, if not all are approved, in bytes of the file.
  pub excused: Vec<Range<usize>>,
  /// The origin of the block, if it is known better than that of the rest of the file.
  pub origin: Option<Origin>,
  /// The earlier approvals that the judgement used.
  pub excused_by: Vec<ExceptionKey>,
  /// The model's assessment of the fresh lines; `None` without one.
  pub assessment: Option<Assessment>,
  /// The lines to take out, as indices into those of the block; `None` for all fresh ones.
  pub lines: Option<Vec<usize>>,
  /// The origin of the lines to take out, if it differs from that of the fresh lines.
  pub taken_from: Option<Origin>,
  /// The part of the judge in the judgement.
  pub consulted: Consulted,
}

/// The part of the judge in a judgement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Consulted {
  /// The judge is not asked.
  #[default]
  Nobody,
  /// The judge is to be asked this; the hash is that of the whole question.
  Question(ContentHash, Box<KeptQuestion>),
  /// The judge has given this answer.
  Answer(Ruling),
}

impl BlockJudgement {
  /// A judgement that is this decision and nothing else; it takes out all fresh lines.
  pub const fn of(decision: Decision) -> Self {
    Self {
      decision,
      findings: vec![],
      spared: false,
      approved: false,
      excused: vec![],
      origin: None,
      excused_by: vec![],
      assessment: None,
      lines: None,
      taken_from: None,
      consulted: Consulted::Nobody,
    }
  }

  /// Joins this judgement on known lines that must be taken out for what they say together with `own`,
  /// the one on the `fresh` lines beside them. An approval that covers one of the two does not keep the
  /// other in the file.
  #[must_use]
  pub fn beside(mut self, own: Self, fresh: impl FnOnce() -> Vec<usize>) -> Self {
    if !own.decision.leaves() {
      return self;
    }
    let mut lines = own.lines.unwrap_or_else(fresh);
    lines.extend(self.lines.take().unwrap_or_default());
    lines.sort_unstable();
    lines.dedup();
    self.lines = Some(lines);
    self.findings.extend(own.findings);
    self.decision.codes.extend(own.decision.codes);
    self.decision.codes.sort_unstable();
    self.decision.codes.dedup();
    self
  }

  /// The layer that decided: the model only if no other layer would have decided the same.
  pub fn layer(&self) -> Layer {
    let signed = |one: &Finding| one.kind == RuleKind::Signature;
    if self.consulted == Consulted::Answer(Ruling::Take) && !self.findings.iter().any(signed) {
      return Layer::Judge;
    }
    let of_effects = |one: &Finding| one.layer == Layer::Effects && one.severity >= Severity::High;
    if self.decision.action == Action::Hold && self.findings.iter().any(of_effects) {
      return Layer::Effects;
    }
    let said = |layer: Layer, least: Severity| {
      self.findings.iter().any(|finding| {
        (finding.layer == Layer::Model) == (layer == Layer::Model) && finding.severity >= least
      })
    };
    let by_rules = if self.decision.leaves() {
      self.findings.iter().any(|finding| finding.kind == RuleKind::Signature)
    } else {
      said(Layer::Rules, Severity::Low)
    };
    if by_rules || !said(Layer::Model, Severity::Info) { Layer::Rules } else { Layer::Model }
  }

  /// Whether the encoder still has to read the block.
  pub fn wants_encoder(&self, trust: Trust) -> bool {
    let stays = !self.decision.leaves() && !self.approved;
    let unread = self.assessment.as_ref().filter(|found| stays && found.depth == Depth::Heads);
    unread.is_some_and(|found| policy::wants_encoder(trust, found.probabilities))
  }
}
