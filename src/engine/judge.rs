//! Judges fresh lines: the layers give findings, and policy decides by them.
#![forbid(unsafe_code)]

use std::{ops::Range, path::Path};

use super::{
  claim::{claims, edited, one_foreign},
  consult,
  layer1::{effects_in, found},
  slices::Slice,
  taken::Case,
  text::{BlockReading, Said},
  together,
  unit::Brought,
};

use crate::{
  config::{Config, ExtraPaths, InstructionFile},
  detect::{
    Action, Code, Decision, Finding, Layer, PolicyInput, RuleKind, Severity, Text, Verdict,
    effects::{self, FoundEffect},
    model::{Assessment, Depth, Probabilities},
    policy::{self, Party},
  },
  memory::{Block, Comparison, ContentHash, Document, Fate, line},
  store::ExceptionKey,
};

pub use super::{
  judge_context::{AskPrecedent, Assess, Consult, JudgeContext, Precedent, RestoredText},
  judgement::{BlockJudgement, Consulted},
  origin::Origin,
  text::BlockText,
};

/// How the text of a file is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
  /// Poison is taken out.
  Memory,
  /// It contains many instructions by nature: findings are flagged and stay.
  Report,
  /// It is not searched.
  Ignore,
}

impl Treatment {
  /// How a file is treated by the configuration. The path is relative to its directory; with
  /// `elsewhere` that directory is not a workspace.
  pub fn of(rel: &Path, elsewhere: bool, config: &Config) -> Self {
    if elsewhere {
      return match config.agent_extra_paths {
        ExtraPaths::Report => Self::Report,
        ExtraPaths::Quarantine => Self::Memory,
        ExtraPaths::Ignore => Self::Ignore,
      };
    }
    match InstructionFile::of(rel) {
      None => Self::Memory,
      Some(file) if config.files_quarantine.contains(&file) => Self::Memory,
      Some(file) if config.files_ignore.contains(&file) => Self::Ignore,
      Some(_) => Self::Report,
    }
  }
}

/// Judges the blocks of a document that have fresh lines, in order; `None` for the others.
pub fn judge_fresh(
  file: &[u8],
  document: &Document,
  comparison: &Comparison,
  cx: &mut JudgeContext<'_>,
) -> Vec<Option<BlockJudgement>> {
  let mut foreign = false;
  let blocks = document.blocks().iter().zip(&comparison.fates).enumerate();
  blocks
    .map(|(index, (block, fate))| {
      // The remaining blocks are judged in the next turn.
      if cx.slice.is_some_and(Slice::is_over) {
        return None;
      }
      let fresh: Vec<Range<usize>> = match fate {
        Fate::Unchanged { .. } | Fate::Moved { .. } => return None,
        Fate::Inserted => block.lines.iter().map(|line| line.span.clone()).collect(),
        Fate::Edited { fresh, .. } => fresh
          .iter()
          .filter_map(|&index| block.lines.get(index))
          .map(|line| line.span.clone())
          .collect(),
      };
      let whole = cx.text(file, &block.parts);
      let said = Said::of(&whole);
      let reading = said.read();
      let brought = together::brought(block, index, comparison, cx);
      let all = found(&reading, block, &brought, cx);
      let is_fresh = |finding: &Finding| touches(&fresh, &finding.span);
      let (mut findings, others): (Vec<Finding>, Vec<Finding>) =
        all.into_iter().partition(is_fresh);
      let composed = together::judge(file, block, &others, &brought, fresh.is_empty(), cx);
      if fresh.is_empty() {
        return composed;
      }
      let (goes, stays): (Option<_>, Option<_>) =
        if composed.as_ref().is_some_and(|one| one.decision.leaves()) {
          (composed, None)
        } else {
          (None, composed)
        };
      findings.extend(stays.into_iter().flat_map(|one| one.findings));
      let effects = effects_of(&reading, &fresh, cx);
      let assessment = assessment(file, (&fresh, &reading), &findings, cx);
      if cx.origin.source.is_baseline() || cx.origin.is_taken_over {
        one_foreign(&mut findings, &mut foreign);
      }
      if let (Fate::Edited { .. }, Some(marker)) = (fate, &block.marker) {
        findings.push(edited(block, marker));
      }
      let seen = LayerResults { findings, effects, assessment };
      let own = judge_found(file, block, &fresh, &brought, seen, cx);
      Some(match goes {
        Some(composed) => {
          composed.beside(own, || fresh.iter().flat_map(|span| lines_in(block, span)).collect())
        }
        None => own,
      })
    })
    .collect()
}

/// Judges these lines of a block as if they were fresh.
pub(super) fn judge_lines(
  file: &[u8],
  block: &Block,
  fresh: &[Range<usize>],
  brought: &[Option<Brought>],
  cx: &mut JudgeContext<'_>,
) -> BlockJudgement {
  let whole = cx.text(file, &block.parts);
  let said = Said::of(&whole);
  let reading = said.read();
  let mut findings = found(&reading, block, brought, cx);
  findings.retain(|finding| touches(fresh, &finding.span));
  let effects = effects_of(&reading, fresh, cx);
  let assessment = assessment(file, (fresh, &reading), &findings, cx);
  let seen = LayerResults { findings, effects, assessment };
  judge_found(file, block, fresh, brought, seen, cx)
}

/// The results of the layers for a block; spans in bytes of the file.
pub(super) struct LayerResults {
  pub(super) findings: Vec<Finding>,
  pub(super) effects: Vec<FoundEffect>,
  pub(super) assessment: Option<Assessment>,
}

/// The effects of the fresh lines of a block, read in the whole block. The owner and the agent may have
/// any effect, so their text is not read for effects.
pub(super) fn effects_of(
  reading: &BlockReading<'_>,
  fresh: &[Range<usize>],
  cx: &JudgeContext<'_>,
) -> Vec<FoundEffect> {
  if cx.treatment == Treatment::Ignore || !reads_effects(cx.origin.party(), cx.reads_on) {
    return vec![];
  }
  let mut found = effects_in(reading, &setting(cx));
  found.retain(|one| touches(fresh, &one.span));
  found
}

/// Whether the effects of a text of this party matter. If the party is unknown, effects only add to the
/// suspicion of the model, so nothing urgent waits for them when the encoder reads later.
pub(super) fn reads_effects(party: Party, reads_on: bool) -> bool {
  !(party.has_all_powers() || reads_on && party == Party::Unknown)
}

/// The values with which the values of a text are compared.
pub(super) fn setting<'a>(cx: &JudgeContext<'a>) -> effects::Setting<'a> {
  let asked = cx.origin.request.as_ref().map_or("", |request| &request.asked);
  effects::Setting { asked, known: cx.slots }
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
    (answer, consulted) = consult::consult(file, fresh, &findings, &input, cx);
    input.reading = answer.as_ref();
    let place = input.reading.and_then(|reading| consult::place(file, block, fresh, reading));
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

/// The indices of the lines of a block that a span touches.
pub(super) fn lines_in(block: &Block, span: &Range<usize>) -> Vec<usize> {
  let first = block.lines.partition_point(|line| line.span.end <= span.start);
  let lines = block.lines.iter().enumerate().skip(first);
  let touched = lines.take_while(|(_, line)| line.span.start < span.end.max(span.start + 1));
  touched.map(|(index, _)| index).collect()
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

/// Whether a span touches one of these lines, which are sorted.
pub(super) fn touches(lines: &[Range<usize>], span: &Range<usize>) -> bool {
  let first = lines.partition_point(|line| line.end <= span.start);
  lines.get(first).is_some_and(|line| overlaps(line, span))
}

pub(super) fn overlaps(a: &Range<usize>, b: &Range<usize>) -> bool {
  a.start < b.end.max(b.start + 1) && b.start < a.end
}
