//! What was decided about one block, and by whom.
#![forbid(unsafe_code)]

use std::ops::Range;

use super::judge::Origin;
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
  /// What policy says.
  pub decision: Decision,
  /// What was found in the fresh lines, spans in bytes of the file.
  pub findings: Vec<Finding>,
  /// Whether the text was there before memfw and stays as it is, whatever was found.
  pub spared: bool,
  /// Whether a person approved this very text.
  pub approved: bool,
  /// The fresh lines that a person approved where there are others, in bytes of the file.
  pub excused: Vec<Range<usize>>,
  /// Where it came from, where that is known better than of the rest of the file.
  pub origin: Option<Origin>,
  /// The earlier approvals that it rests on.
  pub excused_by: Vec<ExceptionKey>,
  /// What the model thinks of the fresh lines; `None` where it was not asked.
  pub assessment: Option<Assessment>,
  /// The lines that go where something has to, as indices into those of the block; `None` for all fresh ones.
  pub lines: Option<Vec<usize>>,
  /// Who brought what goes, where that is not who brought the fresh lines.
  pub taken_from: Option<Origin>,
  /// What a model that reads has to do with it.
  pub consulted: Consulted,
}

/// What a model that reads has to do with a judgement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Consulted {
  /// Nothing: it is not asked.
  #[default]
  Nobody,
  /// It is to be asked this; the hash is that of the whole question.
  Question(ContentHash, Box<KeptQuestion>),
  /// Its answer was heard.
  Answer(Ruling),
}

impl BlockJudgement {
  /// This judgement on what known lines say together, which leave, and the one on the `fresh` lines beside them:
  /// what a person has allowed of the one does not let the other stay.
  pub(super) fn beside(mut self, own: Self, fresh: impl FnOnce() -> Vec<usize>) -> Self {
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

  /// The layer whose word it is: the model's where nothing else would have said so much.
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

  /// Whether the encoder is still to read it.
  pub fn wants_encoder(&self, trust: Trust) -> bool {
    let stays = !self.decision.leaves() && !self.approved;
    let unread = self.assessment.as_ref().filter(|found| stays && found.depth < Depth::Encoder);
    unread.is_some_and(|found| policy::wants_encoder(trust, found.probabilities))
  }
}
