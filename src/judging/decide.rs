//! Decides about lines of a block by what the layers found, earlier decisions, and the answer of the judge.
#![forbid(unsafe_code)]

use std::ops::Range;

use super::{
  claim::claims,
  judge_context::{JudgeContext, Precedent},
  judgement::{BlockJudgement, Consulted},
  origin::Origin,
  referral,
  spans::{lines_in, overlaps, touches},
  taken::Case,
  text::BlockReading,
  treatment::Treatment,
  unit::Brought,
};
use crate::{
  detect::{
    Action, Code, Decision, Finding, Layer, PolicyInput, RuleKind, Severity, Text, Verdict,
    effects::FoundEffect,
    model::{Assessment, Depth, Probabilities},
    policy,
  },
  memory::{Block, ContentHash, line},
  store::ExceptionKey,
};

/// The results of the layers for a block; spans in bytes of the file.
pub(super) struct LayerResults {
  pub(super) findings: Vec<Finding>,
  pub(super) effects: Vec<FoundEffect>,
  pub(super) assessment: Option<Assessment>,
}

/// The model's assessment of the fresh lines of a block; spans in bytes of the file. The model reads only
/// fresh lines, because the others were judged when they were new.
pub(super) fn assessment(
  file: &[u8],
  (fresh, block): (&[Range<usize>], &BlockReading<'_>),
  findings: &[Finding],
  cx: &mut JudgeContext<'_>,
) -> Option<Assessment> {
  if cx.treatment == Treatment::Ignore {
    return None;
  }
  let mut text = cx.text(file, fresh);
  if cx.origin.is_taken_over {
    let claims: Vec<_> = claims(text.bytes()).collect();
    for claim in claims {
      text.blank(claim);
    }
  }
  if line::is_blank(text.bytes()) {
    return None;
  }
  let mut ask = |text: &Text<'_>| {
    let context = cx.origin.context(text, cx.slots);
    (cx.assess)(text, policy::strength(findings), &context)
  };
  // Nearly always all lines are fresh, and the rules have read them.
  let is_read = block.text.bytes() == text.bytes();
  let mut found = if is_read { ask(&block.text) } else { ask(&Text::new(text.bytes())) }?;
  found.sentence = found.sentence.map(|span| text.to_file(&span));
  Some(found)
}

/// Decides about fresh lines of a block by their findings and the model's assessment. `brought` gives
/// the origin of each line of the block.
pub(super) fn judge_found(
  file: &[u8],
  block: &Block,
  fresh: &[Range<usize>],
  brought: &[Option<Brought>],
  seen: LayerResults,
  cx: &mut JudgeContext<'_>,
) -> BlockJudgement {
  let LayerResults { findings, mut effects, assessment } = seen;
  let quarantine = |codes, findings, span: &Range<usize>| BlockJudgement {
    findings,
    lines: Some(lines_in(block, span)),
    ..BlockJudgement::of(Decision {
      verdict: Verdict::Quarantine,
      action: Action::Quarantine,
      // Not an estimate: these bytes, or their beginning, are in quarantine already.
      score: 1.0,
      codes,
    })
  };
  let restored =
    cx.restored.filter(|restored| fresh.iter().any(|line| overlaps(line, &restored.span)));
  // A person has read the restored text.
  if let Some(restored) = restored {
    effects.retain(|effect| !overlaps(&restored.span, &effect.span));
  }
  let assessment = assessment.filter(|_| restored.is_none());
  let mut findings: Vec<Finding> = match restored {
    Some(restored) => {
      findings.into_iter().filter(|finding| !overlaps(&restored.span, &finding.span)).collect()
    }
    None => findings,
  };
  let continued = cx.continued;
  let (from, to) =
    (fresh.first().map_or(usize::MAX, |line| line.start), fresh.last().map_or(0, |line| line.end));
  let mut near =
    continued.iter().skip(continued.partition_point(|rest| rest.end.max(rest.start + 1) <= from));
  let rest = near.by_ref().take_while(|rest| rest.start < to).find(|rest| touches(fresh, rest));
  let approved_rest = rest.is_some_and(|rest| {
    let text = file.get(rest.clone()).unwrap_or_default();
    matches!(settled(text, rest, cx), Some(Precedent::Excused(..)))
  });
  if let (Some(rest), None, false) = (rest, restored, approved_rest) {
    let finding = Finding {
      code: Code::QuarantineContinued,
      layer: Layer::Rules,
      severity: Severity::High,
      kind: RuleKind::Signature,
      span: rest.clone(),
      why: "it continues a line whose beginning is in quarantine".to_owned(),
      rule: None,
    };
    return quarantine(vec![Code::QuarantineContinued], vec![finding], rest);
  }
  // The precedent is looked up for each run of fresh lines, because a person decides about a run.
  let mut excuses: Vec<(Range<usize>, Vec<Code>)> = Vec::new();
  let mut excused_by: Vec<ExceptionKey> = Vec::new();
  let mut origin = restored.map(|restored| restored.origin.clone());
  let runs = runs(block, fresh);
  let mut approved_origins: Vec<Option<Origin>> = Vec::new();
  for run in &runs {
    let text = file.get(run.clone()).unwrap_or_default();
    let Some(precedent) = settled(text, run, cx) else { break };
    match precedent {
      Precedent::None => {}
      Precedent::Excused(exceptions, source) => {
        excuses.push((run.clone(), exceptions.iter().flat_map(|one| one.codes.clone()).collect()));
        // The restore that is in progress does not use an earlier approval.
        if restored.is_none() {
          excused_by.extend(exceptions.into_iter().map(|one| one.key));
        }
        approved_origins.push(source);
      }
      Precedent::Quarantined(codes) => return quarantine(codes, vec![], run),
    }
  }
  // An approval of one line does not cover another line, or what both say together.
  let is_excused = |finding: &Finding| {
    let covers =
      |span: &Range<usize>| span.start <= finding.span.start && finding.span.end <= span.end;
    excuses.iter().any(|(span, codes)| covers(span) && codes.contains(&finding.code))
  };
  let is_restored =
    restored.is_some_and(|restored| fresh.iter().all(|line| overlaps(line, &restored.span)));
  let approved = is_restored || !runs.is_empty() && approved_origins.len() == runs.len();
  // A line beside approved text has another origin.
  if restored.is_none() && approved_origins.len() == runs.len() {
    origin = approved_origins.into_iter().flatten().min_by_key(|origin| origin.trust);
  }
  let answer;
  let mut consulted = Consulted::Nobody;
  let mut input = PolicyInput {
    trust: cx.origin.trust,
    source_observed: cx.origin.observed,
    sensitivity: cx.config.sensitivity,
    baseline: cx.origin.source.is_baseline(),
    baseline_action: cx.config.baseline_action,
    instructions: cx.treatment == Treatment::Report,
    excused: cx.allowed,
    probabilities: assessment.as_ref().map(|found| found.probabilities).unwrap_or_default(),
    read: assessment.as_ref().is_some_and(|found| found.depth == Depth::Encoder),
    party: cx.origin.party().with(&findings),
    effects: &effects,
    authority: assessment.as_ref().and_then(|found| found.authority),
    hold: cx.config.hold,
    reading: None,
    may_release: cx.config.judge_may_release,
  };
  // The judge is not asked about text that a person has decided about.
  let mut may_consult = !approved && restored.is_none();
  if let (Some(found), Some(first), Some(last)) = (&assessment, fresh.first(), fresh.last()) {
    findings.extend(policy::likely(found, first.start..last.end, &input));
    let reads_on = cx.reads_on
      && found.depth == Depth::Heads
      && policy::wants_encoder(input.trust, found.probabilities);
    if reads_on && !policy::decide(&findings, &input).leaves() {
      // Text that must be taken out is taken out at once, and what the rules found is reported at once:
      // the encoder may have much to read first. Only the findings of the heads wait for the encoder.
      findings.retain(|finding| finding.layer != Layer::Model);
      // The gain of power waits for the encoder, too; only blatant cases do not.
      input.authority = None;
      input.probabilities = Probabilities::default();
      // At a first start all notes of a person are judged, nobody has just written them, and the encoder
      // withdraws most of what triggers find in them.
      input.read = input.baseline;
    }
    may_consult &= !reads_on;
  }
  if let (Some(first), Some(last)) = (fresh.first(), fresh.last()) {
    findings.extend(policy::usurped(&effects, first.start..last.end, &input));
  }
  findings.retain(|finding| !is_excused(finding));
  if may_consult {
    (answer, consulted) = referral::consult(file, fresh, &findings, &input, cx);
    input.reading = answer.as_ref();
    let place = input.reading.and_then(|reading| referral::place(file, block, fresh, reading));
    let ruled = |(reading, place)| policy::ruled(reading, place, &input);
    findings.extend(input.reading.zip(place).and_then(ruled));
    findings.retain(|finding| !is_excused(finding));
  }
  let decision = policy::decide(&findings, &input);
  let spared = (input.baseline || input.instructions) && !decision.leaves();
  let case = Case { file, block, fresh, brought, input: &input, is_excused: &is_excused };
  let (lines, taken_from) =
    if decision.leaves() { case.taken(&findings, restored.is_none(), cx) } else { (None, None) };
  let excused = if approved { vec![] } else { excuses.into_iter().map(|(span, _)| span).collect() };
  BlockJudgement {
    decision,
    findings,
    spared,
    approved,
    excused,
    origin,
    excused_by,
    assessment,
    lines,
    taken_from,
    consulted,
  }
}

/// The precedent of these bytes in this place, or else of the same text with other line ends; `None` if
/// there are no decisions at all.
fn settled(bytes: &[u8], run: &Range<usize>, cx: &mut JudgeContext<'_>) -> Option<Precedent> {
  let ask = cx.precedent.as_mut()?;
  Some(match ask(&ContentHash::of(bytes), run) {
    Precedent::None => ask(&line::norm_hash(bytes), run),
    precedent => precedent,
  })
}

/// Joins adjacent line spans of a block into runs. Text that was appended to a line that stays is a run
/// of its own.
fn runs(block: &Block, lines: &[Range<usize>]) -> Vec<Range<usize>> {
  let tails: Vec<usize> =
    block.lines.iter().filter(|line| line.is_tail).map(|line| line.span.start).collect();
  let is_tail = |at: usize| tails.binary_search(&at).is_ok();
  let mut runs: Vec<Range<usize>> = Vec::new();
  for line in lines {
    match runs.last_mut() {
      Some(run) if run.end == line.start && !is_tail(run.start) => run.end = line.end,
      _ => runs.push(line.clone()),
    }
  }
  runs
}
