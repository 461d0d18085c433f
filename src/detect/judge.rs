//! Layer 1 as a whole: views, rules on every view, tags, one sorted list of findings.
//!
//! Invariants: spans lie within the input; `why` never holds text of the input; the cost is linear
//! and the number of findings bounded, whatever the bytes are.
#![forbid(unsafe_code)]

use std::{ops::Range, sync::Arc};

use super::{
  Code, Finding, Layer, RuleKind, Severity,
  normalize::ViewKind,
  rules::{self, Hit, Hits, Mode, Rule, RuleSet, Scope},
  text::{MAX_TEXT, Text},
};

mod tags;

/// Findings of one text, at most; the worst are kept.
pub const MAX_FINDINGS: usize = 256;

/// How a text is judged: the scope, the mode, its tags and the rules.
#[derive(Clone, Copy, Debug, Default)]
pub struct JudgeOptions<'a> {
  /// How much to look for.
  pub scope: Scope,
  /// Whether the text is written, recalled or taken in as a document.
  pub mode: Mode,
  /// Tags that came beside the text.
  pub tags: &'a [String],
  /// The rules; the embedded ones where there are none.
  pub rules: Option<&'a RuleSet>,
  /// The parts of the text that come from outside. A heading or a sentence in them, such as "Examples of
  /// attacks", makes no report of the text after it: its author would excuse an order of his own.
  pub from_outside: &'a [Range<usize>],
}

/// The findings in `bytes`, sorted by place.
pub fn judge(bytes: &[u8], options: &JudgeOptions<'_>) -> Vec<Finding> {
  judge_text(&Text::new(bytes), options)
}

/// The findings in a text that other layers read, too; sorted by place.
pub fn judge_text(text: &Text<'_>, options: &JudgeOptions<'_>) -> Vec<Finding> {
  let rules = match options.rules {
    Some(rules) => rules,
    None => rules::builtin(),
  };
  let normalized = text.normalized();
  let mut findings = Vec::new();
  let mut raw_hits: Vec<(usize, Range<usize>)> = Vec::new();
  for view in &normalized.views {
    let may_introduce = |sentence: &Range<usize>| {
      let span = normalized.raw.span(&view.map.span(sentence));
      !options.from_outside.iter().any(|part| overlap(part, &span))
    };
    let Hits { hits, dropped } =
      rules.scan_where(&view.text, options.scope, options.mode, &may_introduce);
    findings.extend(dropped.map(|span| too_much(normalized.raw.span(&view.map.span(&span)))));
    for hit in hits {
      let Some(rule) = rules.rules().get(hit.rule) else { continue };
      let span = normalized.raw.span(&view.map.span(&hit.span));
      match view.kind {
        ViewKind::Raw => raw_hits.push((hit.rule, span.clone())),
        // A finding of the raw view is not repeated, and not without its excuse.
        ViewKind::Folded | ViewKind::Joined
          if raw_hits.iter().any(|(r, s)| *r == hit.rule && overlap(s, &span)) =>
        {
          continue;
        }
        // Only findings that do not occur by chance; the raw view has the rest.
        ViewKind::Joined
          if hit.excused || rule.kind != RuleKind::Signature || rule.severity < Severity::High =>
        {
          continue;
        }
        _ => {}
      }
      findings.extend(out_of_sight(view.kind, rule, &hit, &span));
      findings.push(finding(rule, &hit, span));
    }
  }
  tags::judge_tags(rules, normalized, options, &mut findings);
  findings.extend_from_slice(&normalized.findings);
  let length = text.bytes().len();
  if length > MAX_TEXT {
    findings.push(Finding {
      why: "the text is too large; the rest was not judged".to_owned(),
      ..too_much(MAX_TEXT..length)
    });
  }
  merge(findings)
}

/// The finding that a range has more findings than are kept.
fn too_much(span: Range<usize>) -> Finding {
  Finding {
    code: Code::TextTooLarge,
    layer: Layer::Rules,
    severity: Severity::Medium,
    kind: RuleKind::Trigger,
    span,
    why: "the rules matched too often; only the worst findings are kept".to_owned(),
    rule: None,
  }
}

fn finding(rule: &Rule, hit: &Hit, span: Range<usize>) -> Finding {
  let (severity, kind) = if hit.excused {
    (rule.severity.min(Severity::Info), RuleKind::Trigger)
  } else {
    (rule.severity, rule.kind)
  };
  Finding {
    code: rule.code,
    layer: Layer::Rules,
    severity,
    kind,
    span,
    why: rule.why.clone(),
    rule: Some(Arc::clone(&rule.name)),
  }
}

/// A rule that hits where no reader looks says more than the same rule in plain sight.
fn out_of_sight(kind: ViewKind, rule: &Rule, hit: &Hit, span: &Range<usize>) -> Option<Finding> {
  if hit.excused || rule.severity < Severity::Medium {
    return None;
  }
  let (code, why) = match kind {
    ViewKind::Hidden => {
      (Code::HiddenInstruction, "an instruction is where a reader does not see it")
    }
    ViewKind::Decoded => (Code::EncodedInstruction, "an encoded word contains an instruction"),
    ViewKind::Joined => (Code::EncodedInstruction, "separate words form an instruction together"),
    ViewKind::Raw | ViewKind::Folded => return None,
  };
  Some(Finding {
    code,
    layer: Layer::Rules,
    severity: Severity::High,
    kind: RuleKind::Signature,
    span: span.clone(),
    why: why.to_owned(),
    rule: Some(Arc::clone(&rule.name)),
  })
}

fn overlap(a: &Range<usize>, b: &Range<usize>) -> bool {
  a.start < b.end && b.start < a.end
}

/// Sorted by place, one finding a code and place, the worst one.
fn merge(mut findings: Vec<Finding>) -> Vec<Finding> {
  findings.sort_by(|a, b| {
    (a.code, a.span.start, b.kind, b.severity, b.span.end).cmp(&(
      b.code,
      b.span.start,
      a.kind,
      a.severity,
      a.span.end,
    ))
  });
  let mut merged: Vec<Finding> = Vec::with_capacity(findings.len().min(MAX_FINDINGS));
  for finding in findings {
    match merged.last_mut() {
      Some(last)
        if last.code == finding.code
          && (overlap(&last.span, &finding.span) || last.span == finding.span) =>
      {
        last.span.end = last.span.end.max(finding.span.end);
        if (finding.kind, finding.severity) > (last.kind, last.severity) {
          last.kind = finding.kind;
          last.severity = finding.severity;
          last.why = finding.why;
          last.rule = finding.rule;
        }
      }
      _ => merged.push(finding),
    }
  }
  if merged.len() > MAX_FINDINGS {
    merged.sort_by_key(|finding| std::cmp::Reverse((finding.kind, finding.severity)));
    let dropped = merged.split_off(MAX_FINDINGS - 1);
    let dropped = dropped.iter().filter(|one| one.severity > Severity::Info).map(|one| &one.span);
    let span = dropped.cloned().reduce(|a, b| a.start.min(b.start)..a.end.max(b.end));
    merged.extend(span.map(too_much));
  }
  merged.sort_by_key(|finding| (finding.span.start, finding.span.end, finding.code));
  merged
}
