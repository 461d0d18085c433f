//! Chooses what is taken out of a text: the smallest part without which the rest may stay.
#![forbid(unsafe_code)]

use std::{cell::RefCell, collections::HashSet, ops::Range};

use super::{
  judge_context::JudgeContext,
  layer1::reads_effects,
  layer1::{effects_in, from_outside},
  origin::Origin,
  spans::{lines_in, overlaps, touches},
  text::BareText,
  text::BlockText,
  unit::{Brought, Candidates, Strength},
};
use crate::{
  detect::{
    self, Code, Finding, JudgeOptions, Layer, PolicyInput, Severity, Text, effects::Setting,
    model::Depth, policy,
  },
  memory::{Block, Line, line::LineKind},
};

/// The most bytes of a block that are judged again to find the part that may stay, summed over all
/// attempts (a choice: 100 ms). Of a longer block, everything that was judged is taken out.
pub(super) const MAX_JUDGED_AGAIN: usize = 1 << 21;

/// The spans because of which a text must be taken out.
pub(super) fn places(findings: &[Finding], input: &PolicyInput<'_>) -> Vec<Range<usize>> {
  let decides = |finding: &&Finding| policy::decide(std::slice::from_ref(*finding), input).leaves();
  let mut deciding: Vec<&Finding> = findings.iter().filter(decides).collect();
  if deciding.is_empty() {
    // None of the findings decides alone.
    deciding = findings.iter().filter(|one| one.severity > Severity::Info).collect();
  }
  // This finding says that the text gives somebody power, but not where in the text.
  deciding.retain(|finding| finding.code != Code::LikelyAuthority);
  deciding.into_iter().map(|one| one.span.clone()).collect()
}

/// A text with a decision.
pub(super) struct Case<'a> {
  /// The bytes of its file.
  pub file: &'a [u8],
  /// The block of the file in which the text is.
  pub block: &'a Block,
  /// The lines that were judged.
  pub fresh: &'a [Range<usize>],
  /// The origin of each line of the block.
  pub brought: &'a [Option<Brought>],
  /// The facts for policy.
  pub input: &'a PolicyInput<'a>,
  /// Whether a person has excused a finding.
  pub is_excused: &'a dyn Fn(&Finding) -> bool,
}

impl Case<'_> {
  /// The lines to take out for these findings, and their origin if it differs from that of the text.
  /// The lines are `None` for all of it. `assesses` says whether the model is asked about the rest.
  pub(super) fn taken(
    &self,
    findings: &[Finding],
    assesses: bool,
    cx: &mut JudgeContext<'_>,
  ) -> (Option<Vec<usize>>, Option<Origin>) {
    let Self { file, block, brought, .. } = *self;
    let spans = places(findings, self.input);
    let known = cx.known;
    let (scope, rules, slots) = (cx.config.scope, cx.rules, cx.slots);
    let reads_on = cx.reads_on;
    let judged = cx.origin;
    let assess = RefCell::new(&mut *cx.assess);
    let look = |lines: &[usize]| {
      let text = self.text(lines);
      let from_outside = &*from_outside(&text, block, brought);
      let rules = Some(rules);
      let options = JudgeOptions { scope, rules, from_outside, ..JudgeOptions::default() };
      let found = detect::judge(text.bytes(), &options).into_iter();
      found.map(|one| Finding { span: text.to_file(&one.span), ..one }).collect::<Vec<_>>()
    };
    let strength = &mut |lines: &[usize]| {
      let by_rules = policy::strength(&look(lines));
      let text = self.text(lines);
      let said = Text::new(text.bytes());
      let context = judged.context(&said, slots);
      let found = (assess.borrow_mut())(&said, by_rules, &context);
      let effects = effects_in(&BareText::of(&text).read(), &Setting::default());
      Strength::new(by_rules, found.map_or(0.0, |found| found.suspicion())).with(&effects)
    };
    let origin_of = |by: &Brought| {
      let row = by.known.and_then(|index| known.get(index));
      row
        .and_then(|row| row.revision(by.revision))
        .map_or_else(|| judged.clone(), Origin::of_revision)
    };
    let mut left = MAX_JUDGED_AGAIN;
    // Text that the judge named is taken out whole, because the judge was not asked about parts of it.
    let named: Vec<&Range<usize>> =
      findings.iter().filter(|one| one.layer == Layer::Judge).map(|one| &one.span).collect();
    let is_named = |index: &usize| {
      let line = self.block.lines.get(*index).filter(|line| line.kind != LineKind::Blank);
      let touches = |line: &Line| named.iter().any(|span| overlaps(span, &line.span));
      self.is_fresh(*index) && line.is_some_and(touches)
    };
    let leaves = &mut |rest: &[usize]| {
      if rest.iter().any(is_named) {
        return true;
      }
      // When the budget is used up, the rest counts as bad: too much taken out can be restored, and
      // poison that stays can be read.
      let Some(more) = left.checked_sub(1) else { return true };
      left = more.saturating_sub(self.block.parts.iter().map(Range::len).sum());
      // In the rest, only findings count that touch judged text or one of the spans.
      let is_in = |finding: &Finding| {
        touches(self.fresh, &finding.span) || spans.iter().any(|span| overlaps(span, &finding.span))
      };
      let counts = |finding: &Finding| is_in(finding) && !(self.is_excused)(finding);
      let findings: Vec<Finding> = look(rest).into_iter().filter(counts).collect();
      let fresh: Vec<usize> = rest.iter().filter(|index| self.is_fresh(**index)).copied().collect();
      let text = self.text(&fresh);
      let all = text.to_file(&(0..text.bytes().len()));
      let least = self.least_trusted(&fresh);
      let said = Text::new(text.bytes());
      let found = least.filter(|_| assesses).and_then(|by| {
        let origin = origin_of(&by);
        let context = origin.context(&said, slots);
        (assess.borrow_mut())(&said, policy::strength(&findings), &context)
      });
      // Each part is judged as the text of its origin, and the common text of several origins as that
      // of the least trusted.
      self.parties(rest).into_iter().any(|by| {
        let origin = origin_of(&by);
        let is_theirs = |span: &Range<usize>| self.whose(rest, span) == Some(by);
        let mut findings: Vec<Finding> =
          findings.iter().filter(|finding| is_theirs(&finding.span)).cloned().collect();
        let found = found.as_ref().filter(|_| least == Some(by));
        let input = PolicyInput {
          trust: origin.trust,
          source_observed: origin.observed,
          baseline: origin.source.is_baseline(),
          party: origin.party().with(&findings),
          probabilities: found.map(|found| found.probabilities).unwrap_or_default(),
          read: found.is_some_and(|found| found.depth == Depth::Encoder),
          authority: found.and_then(|found| found.authority),
          ..*self.input
        };
        if let Some(found) = found {
          findings.extend(policy::likely(found, all.clone(), &input));
        }
        if assesses && reads_effects(input.party, reads_on) {
          let asked = origin.request.as_ref().map_or("", |request| &request.asked);
          let mut effects =
            effects_in(&BareText::of(&text).read(), &Setting { asked, known: slots });
          effects.retain(|effect| is_theirs(&effect.span));
          let found = policy::usurped(&effects, all.clone(), &input).into_iter();
          findings.extend(found.filter(|finding| !(self.is_excused)(finding)));
        }
        policy::decide(&findings, &input).leaves()
      })
    };
    let candidates = Candidates { file, block, brought, spans: &spans };
    let Some(chosen) = candidates.choose(strength, leaves) else { return (None, None) };
    let row = chosen.of.known.and_then(|index| known.get(index));
    let of = row.and_then(|row| row.revision(chosen.of.revision)).map(Origin::of_revision);
    (Some(chosen.lines), of)
  }

  fn text(&self, lines: &[usize]) -> BlockText {
    let lines = lines.iter().filter_map(|&index| self.block.lines.get(index));
    let spans: Vec<Range<usize>> = lines.map(|line| line.span.clone()).collect();
    BlockText::of_spans(self.file, &spans)
  }

  /// The origins of these lines, each once.
  fn parties(&self, lines: &[usize]) -> Vec<Brought> {
    let mut all: Vec<Brought> = Vec::new();
    let mut seen = HashSet::new();
    for by in lines.iter().filter_map(|&index| self.brought.get(index).copied().flatten()) {
      if seen.insert((by.known, by.revision)) {
        all.push(by);
      }
    }
    all
  }

  fn least_trusted(&self, lines: &[usize]) -> Option<Brought> {
    self.parties(lines).into_iter().min_by_key(Brought::trust)
  }

  /// The least trusted origin of the lines, among `lines`, that a span touches.
  fn whose(&self, lines: &[usize], span: &Range<usize>) -> Option<Brought> {
    let mut touched = lines_in(self.block, span);
    touched.retain(|index| lines.binary_search(index).is_ok());
    self.least_trusted(&touched)
  }

  fn is_fresh(&self, index: usize) -> bool {
    let line = self.block.lines.get(index);
    line.is_some_and(|line| touches(self.fresh, &line.span))
  }
}
