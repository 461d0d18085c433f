//! Fresh lines to findings to decisions: which layer says what, and what policy makes of it.
#![forbid(unsafe_code)]

use std::{borrow::Cow, ops::Range, path::Path};

use crate::{
  config::{Config, ExtraPaths, InstructionFile},
  detect::{
    self, Action, Code, Decision, Finding, JudgeOptions, Layer, PolicyInput, RuleKind, Severity,
    Verdict,
    model::{Assessment, Depth, Probabilities},
    policy,
    rules::RuleSet,
  },
  memory::{Block, BlockId, Comparison, ContentHash, Document, Fate, line, marker},
  provenance::Trust,
};

pub use super::origin::Origin;

/// How the text of a file is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
  /// Poison is taken out.
  Memory,
  /// It is full of instructions by nature: findings are flagged and stay.
  Report,
  /// Nothing is looked for.
  Ignore,
}

impl Treatment {
  /// How the configuration has a file treated; the path is relative to its directory, which may be
  /// `elsewhere` than in a workspace.
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
  /// Where it came from, where that is known better than of the rest of the file.
  pub origin: Option<Origin>,
  /// The earlier approvals that it rests on, by the hash of what was approved.
  pub excused_by: Vec<ContentHash>,
  /// What the model thinks of the fresh lines; `None` where it was not asked.
  pub assessment: Option<Assessment>,
}

impl BlockJudgement {
  /// The layer whose word it is: the model's where nothing else would have said so much.
  pub fn layer(&self) -> Layer {
    let said = |layer: Layer, least: Severity| {
      self.findings.iter().any(|finding| {
        (finding.layer == Layer::Model) == (layer == Layer::Model) && finding.severity >= least
      })
    };
    let by_rules = if self.decision.verdict == Verdict::Quarantine {
      self.findings.iter().any(|finding| finding.kind == RuleKind::Signature)
    } else {
      said(Layer::Rules, Severity::Low)
    };
    if by_rules || !said(Layer::Model, Severity::Info) { Layer::Rules } else { Layer::Model }
  }

  /// Whether the encoder is still to read it.
  pub fn wants_encoder(&self, trust: Trust) -> bool {
    let stays = self.decision.action != Action::Quarantine && !self.approved;
    let unread = self.assessment.as_ref().filter(|found| stays && found.depth < Depth::Encoder);
    unread.is_some_and(|found| policy::wants_encoder(trust, found.probabilities))
  }
}

/// Joins the parts of a block and remembers where each byte came from.
pub struct BlockText {
  bytes: Vec<u8>,
  /// Start in `bytes`, span in the file.
  parts: Vec<(usize, Range<usize>)>,
}

impl BlockText {
  /// The text of `block` in `file`.
  pub fn new(file: &[u8], block: &Block) -> Self {
    Self::of_spans(file, &block.parts)
  }

  /// The text of these spans of `file`.
  pub fn of_spans(file: &[u8], spans: &[Range<usize>]) -> Self {
    let mut bytes = Vec::new();
    let mut parts = Vec::new();
    for part in spans {
      if let Some(text) = file.get(part.clone()) {
        parts.push((bytes.len(), part.clone()));
        bytes.extend_from_slice(text);
      }
    }
    Self { bytes, parts }
  }

  /// The text of the block with this index; empty where there is none.
  pub fn of(file: &[u8], document: &Document, index: usize) -> Vec<u8> {
    document.blocks().get(index).map(|block| Self::new(file, block).bytes).unwrap_or_default()
  }

  /// The joined bytes.
  pub fn bytes(&self) -> &[u8] {
    &self.bytes
  }

  /// A span of the joined bytes as a span of the file (holes in between included).
  pub fn to_file(&self, span: &Range<usize>) -> Range<usize> {
    let at = |offset: usize| {
      self
        .parts
        .iter()
        .rev()
        .find(|(start, _)| *start <= offset)
        .map_or(0, |(start, part)| part.start + (offset - start).min(part.len()))
    };
    let last = span.end.saturating_sub(1).max(span.start);
    at(span.start)..(at(last) + usize::from(span.end > span.start))
  }
}

/// What was decided about the same bytes before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Precedent {
  /// Nothing.
  None,
  /// A person approved them: these codes are excused. The origin is that of what was approved.
  Excused(Vec<Code>, Option<Origin>),
  /// They are in quarantine, for these codes.
  Quarantined(Vec<Code>),
}

/// Text that a person has just brought back.
#[derive(Clone, Debug)]
pub struct Restored {
  /// Where it stands in the file.
  pub span: Range<usize>,
  /// Where it came from.
  pub origin: Origin,
}

/// What the judgement of a whole file needs besides its text.
pub struct Court<'a> {
  /// Where fresh lines came from.
  pub origin: &'a Origin,
  /// How text of this file is treated.
  pub treatment: Treatment,
  /// The configuration in force.
  pub config: &'a Config,
  /// The rules in force.
  pub rules: &'a RuleSet,
  /// The rest of lines of which the beginning is in quarantine.
  pub continued: &'a [Range<usize>],
  /// What a person has just brought back.
  pub restored: Option<&'a Restored>,
  /// Codes that a person excused for all text of this origin.
  pub allowed: &'a [Code],
  /// What was decided about the same bytes before, with and without their last line end; `None` where nothing
  /// was ever decided.
  pub precedent: Option<&'a mut dyn FnMut(&ContentHash) -> Precedent>,
  /// What the model thinks of a text in which the rules see so much; `None` where there is no model.
  pub assess: &'a mut dyn FnMut(&[u8], f32) -> Option<Assessment>,
  /// Whether the encoder reads afterwards what only the heads have looked at.
  pub reads_on: bool,
}

/// Judges the blocks of a document that have fresh lines, in order; `None` for the others.
pub fn judge_fresh(
  file: &[u8],
  document: &Document,
  comparison: &Comparison,
  court: &mut Court<'_>,
) -> Vec<Option<BlockJudgement>> {
  let mut foreign = false;
  let blocks = document.blocks().iter().zip(&comparison.fates);
  blocks
    .map(|(block, fate)| {
      let fresh: Vec<Range<usize>> = match fate {
        Fate::Unchanged { .. } | Fate::Moved { .. } => return None,
        Fate::Inserted => block.lines.iter().map(|line| line.span.clone()).collect(),
        Fate::Edited { fresh, .. } => fresh
          .iter()
          .filter_map(|&index| block.lines.get(index))
          .map(|line| line.span.clone())
          .collect(),
      };
      if fresh.is_empty() {
        return None;
      }
      let mut findings = findings(file, block, &fresh, court);
      let assessment = assessment(file, &fresh, &findings, court);
      if court.origin.source.is_baseline() {
        one_foreign(&mut findings, &mut foreign);
      }
      if let (Fate::Edited { .. }, Some(marker)) = (fate, &block.marker) {
        findings.push(edited(block, marker));
      }
      Some(judge_block(file, &fresh, findings, assessment, court))
    })
    .collect()
}

/// What is found in a block, as far as it touches fresh lines; spans in bytes of the file.
fn findings(file: &[u8], block: &Block, fresh: &[Range<usize>], court: &Court<'_>) -> Vec<Finding> {
  if court.treatment == Treatment::Ignore {
    return vec![];
  }
  let text = BlockText::new(file, block);
  let options =
    JudgeOptions { scope: court.config.scope, rules: Some(court.rules), ..JudgeOptions::default() };
  let (bytes, comments) = without_markers(text.bytes());
  detect::judge(&bytes, &options)
    .into_iter()
    .chain(comments.into_iter().map(forged))
    .map(|finding| Finding { span: text.to_file(&finding.span), ..finding })
    .filter(|finding| fresh.iter().any(|line| overlaps(line, &finding.span)))
    .collect()
}

/// Judges these lines of a block as if they were fresh.
pub(super) fn judge_lines(
  file: &[u8],
  block: &Block,
  fresh: &[Range<usize>],
  court: &mut Court<'_>,
) -> BlockJudgement {
  let findings = findings(file, block, fresh, court);
  let assessment = assessment(file, fresh, &findings, court);
  judge_block(file, fresh, findings, assessment, court)
}

/// What the model thinks of the fresh lines, spans in bytes of the file. It sees nothing else: what stood
/// there before was judged when it came.
fn assessment(
  file: &[u8],
  fresh: &[Range<usize>],
  findings: &[Finding],
  court: &mut Court<'_>,
) -> Option<Assessment> {
  if court.treatment == Treatment::Ignore {
    return None;
  }
  let text = BlockText::of_spans(file, fresh);
  let mut found = (court.assess)(text.bytes(), policy::strength(findings))?;
  found.sentence = found.sentence.map(|span| text.to_file(&span));
  Some(found)
}

fn judge_block(
  file: &[u8],
  fresh: &[Range<usize>],
  findings: Vec<Finding>,
  assessment: Option<Assessment>,
  court: &mut Court<'_>,
) -> BlockJudgement {
  let quarantine = |codes, findings| BlockJudgement {
    decision: Decision {
      verdict: Verdict::Quarantine,
      action: Action::Quarantine,
      score: 1.0,
      codes,
    },
    findings,
    spared: false,
    approved: false,
    origin: None,
    excused_by: vec![],
    assessment: None,
  };
  let restored =
    court.restored.filter(|restored| fresh.iter().any(|line| overlaps(line, &restored.span)));
  // A person has read it.
  let assessment = assessment.filter(|_| restored.is_none());
  let mut findings: Vec<Finding> = match restored {
    Some(restored) => {
      findings.into_iter().filter(|finding| !overlaps(&restored.span, &finding.span)).collect()
    }
    None => findings,
  };
  let continued = court.continued;
  let rest = continued.iter().find(|rest| fresh.iter().any(|line| overlaps(line, rest)));
  let approved_rest = rest.is_some_and(|rest| {
    let text = file.get(rest.clone()).unwrap_or_default();
    matches!(settled(text, court), Some((Precedent::Excused(..), _)))
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
    return quarantine(vec![Code::QuarantineContinued], vec![finding]);
  }
  // The question is asked of each run of fresh lines, for that is what a person decides about.
  let mut excused: Vec<Code> = court.allowed.to_vec();
  let mut excused_by: Vec<ContentHash> = Vec::new();
  let mut approved = restored.is_some();
  let mut origin = restored.map(|restored| restored.origin.clone());
  let runs = runs(fresh);
  let mut approved_origins: Vec<Option<Origin>> = Vec::new();
  for run in &runs {
    let Some((precedent, hash)) = settled(file.get(run.clone()).unwrap_or_default(), court) else {
      break;
    };
    match precedent {
      Precedent::None => {}
      Precedent::Excused(codes, source) => {
        approved = true;
        // What a person brings back at this moment is no use of an earlier word.
        excused_by.extend(restored.is_none().then_some(hash));
        excused.extend(codes);
        approved_origins.push(source);
      }
      Precedent::Quarantined(codes) => return quarantine(codes, vec![]),
    }
  }
  // A line beside something that was approved has another origin.
  if restored.is_none() && approved_origins.len() == runs.len() {
    origin = approved_origins.into_iter().flatten().min_by_key(|origin| origin.trust);
  }
  let mut input = PolicyInput {
    trust: court.origin.trust,
    source_observed: court.origin.observed,
    sensitivity: court.config.sensitivity,
    baseline: court.origin.source.is_baseline(),
    baseline_action: court.config.baseline_action,
    instructions: court.treatment == Treatment::Report,
    excused: &excused,
    probabilities: assessment.as_ref().map(|found| found.probabilities).unwrap_or_default(),
    read: assessment.as_ref().is_some_and(|found| found.depth == Depth::Encoder),
  };
  if let (Some(found), Some(first), Some(last)) = (&assessment, fresh.first(), fresh.last()) {
    findings.extend(policy::likely(found, first.start..last.end, &input));
    let reads_on = court.reads_on
      && found.depth < Depth::Encoder
      && policy::wants_encoder(input.trust, found.probabilities);
    if reads_on && policy::decide(&findings, &input).verdict < Verdict::Quarantine {
      // What has to go goes at once; of everything else the encoder has the last word, and until then
      // nothing is said that it may take back.
      findings.retain(|finding| finding.layer != Layer::Model);
      input.probabilities = Probabilities::default();
      input.read = true;
    }
  }
  let decision = policy::decide(&findings, &input);
  let spared = (input.baseline || input.instructions) && decision.action != Action::Quarantine;
  BlockJudgement { decision, findings, spared, approved, origin, excused_by, assessment }
}

/// What was decided about these bytes, or else about the same text with other line ends, and the hash
/// under which it stands; `None` where nothing was ever decided.
fn settled(bytes: &[u8], court: &mut Court<'_>) -> Option<(Precedent, ContentHash)> {
  let ask = court.precedent.as_mut()?;
  let hash = ContentHash::of(bytes);
  Some(match ask(&hash) {
    Precedent::None => {
      let hash = line::norm_hash(bytes);
      (ask(&hash), hash)
    }
    precedent => (precedent, hash),
  })
}

/// Markers that were there before memfw are those of another installation: one finding a file, and
/// no evidence of anything.
fn one_foreign(findings: &mut Vec<Finding>, said: &mut bool) {
  findings.retain_mut(|finding| {
    if finding.code != Code::ForgedMarker {
      return true;
    }
    finding.code = Code::ForeignMarkers;
    finding.severity = Severity::Low;
    "the ledger knows none of its provenance comments".clone_into(&mut finding.why);
    !std::mem::replace(said, true)
  });
}

/// The text with lines that have the very form of a marker blanked, and where they are. Such a line
/// says nothing but who wrote what, and that is a lie to be neutralised and not an order to be sealed;
/// one with fields of its own is text like any other.
fn without_markers(bytes: &[u8]) -> (Cow<'_, [u8]>, Vec<Range<usize>>) {
  let mut found = Vec::new();
  let mut blanked = Cow::Borrowed(bytes);
  let mut start = 0;
  for line in bytes.split_inclusive(|&byte| byte == b'\n') {
    let span = start..start + line.len();
    start = span.end;
    let bare = line.trim_ascii();
    let claims = marker::is_bare(bare);
    if (claims || marker::is_neutralised(bare))
      && let Some(line) = blanked.to_mut().get_mut(span.clone())
    {
      line.iter_mut().filter(|byte| !byte.is_ascii_whitespace()).for_each(|byte| *byte = b' ');
    }
    if claims {
      found.push(span);
    }
  }
  (blanked, found)
}

fn forged(span: Range<usize>) -> Finding {
  Finding {
    code: Code::ForgedMarker,
    layer: Layer::Rules,
    severity: Severity::Medium,
    kind: RuleKind::Trigger,
    span,
    why: "it claims to be a provenance comment of memfw's, and the ledger does not know it"
      .to_owned(),
    rule: None,
  }
}

fn edited(block: &Block, marker: &BlockId) -> Finding {
  let start = block.parts.first().map_or(0, |part| part.start);
  Finding {
    code: Code::EditedBlock,
    layer: Layer::Rules,
    severity: Severity::Info,
    kind: RuleKind::Trigger,
    span: start..start,
    why: format!("what stands under the marker `{marker}` was changed"),
    rule: None,
  }
}

/// Joins line spans that touch into runs.
pub fn runs(lines: &[Range<usize>]) -> Vec<Range<usize>> {
  let mut runs: Vec<Range<usize>> = Vec::new();
  for line in lines {
    match runs.last_mut() {
      Some(run) if run.end == line.start => run.end = line.end,
      _ => runs.push(line.clone()),
    }
  }
  runs
}

fn overlaps(a: &Range<usize>, b: &Range<usize>) -> bool {
  a.start < b.end.max(b.start + 1) && b.start < a.end
}
