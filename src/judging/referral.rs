//! Layer 3 in a judgement: whether the judge is asked about fresh lines, and which of their words an answer is
//! based on.
#![forbid(unsafe_code)]

use std::ops::Range;

use super::{
  judge_context::{Heard, JudgeContext},
  judgement::Consulted,
};
use crate::{
  detect::{
    Finding, PolicyInput,
    effects::{FoundEffect, KnownSlot, Novelty},
    policy,
    reading::{KeptQuestion, Question, Reading},
  },
  memory::Block,
};

/// The most values of trusted memory that a question contains.
const MAX_KNOWN: usize = 4;

/// The span of the words on which an answer about these fresh lines is based, in bytes of the file.
/// Where the answer does not say it, the span is all fresh lines without the heading, which has no
/// effect of its own.
pub(super) fn place(
  file: &[u8],
  block: &Block,
  fresh: &[Range<usize>],
  reading: &Reading,
) -> Option<Range<usize>> {
  let bytes = || {
    let of =
      |span: Range<usize>| span.clone().zip(file.get(span).unwrap_or_default().iter().copied());
    fresh.iter().cloned().flat_map(of)
  };
  let quoted = reading.lines.as_ref().and_then(|lines| {
    // The entry begins with the first line that has text.
    let mut line = 0;
    let begun = bytes().skip_while(|(_, byte)| byte.is_ascii_whitespace());
    let lines_of = begun.map(|(at, byte)| {
      let of = line;
      line += u32::from(byte == b'\n');
      (of, at)
    });
    let mut within = lines_of.filter(|(of, _)| lines.contains(of)).map(|(_, at)| at);
    let first = within.next()?;
    Some(first..within.last().unwrap_or(first) + 1)
  });
  quoted.or_else(|| {
    let (first, last) = (fresh.first()?, fresh.last()?);
    let body = block.lines.get(block.body).map_or(first.start, |line| line.span.start);
    let start = if body < last.end { first.start.max(body) } else { first.start };
    Some(start..last.end)
  })
}

/// Looks up the judge's answer about the fresh lines of a block.
pub(super) fn consult(
  file: &[u8],
  fresh: &[Range<usize>],
  findings: &[Finding],
  input: &PolicyInput<'_>,
  cx: &mut JudgeContext<'_>,
) -> (Option<Reading>, Consulted) {
  let nothing = (None, Consulted::Nobody);
  let (Some(first), Some(last)) = (fresh.first(), fresh.last()) else { return nothing };
  let Some(hear) = cx.consult.as_mut() else { return nothing };
  if !policy::wants_reading(findings, first.start..last.end, input) {
    return nothing;
  }
  // Invalid UTF-8 is replaced, so that an entry cannot prevent its reading.
  let mut entry = String::new();
  for chunk in fresh.iter().filter_map(|span| file.get(span.clone())).flat_map(<[u8]>::utf8_chunks)
  {
    entry.push_str(chunk.valid());
    entry.extend((!chunk.invalid().is_empty()).then_some('\u{fffd}'));
  }
  let entry = entry.trim();
  if entry.is_empty() {
    return nothing;
  }
  let asked = cx.origin.request.as_ref().map_or("", |request| request.asked.as_str());
  let known = contradicted(entry, input.effects, cx.slots);
  let question = Question { asked, source: cx.origin.source.as_str(), entry, known: &known };
  match hear(&question) {
    Heard::Answer(reading) if !question.heeds(&reading) => nothing,
    Heard::Answer(reading) => {
      let ruling = reading.ruling;
      (Some(reading), Consulted::Answer(ruling))
    }
    Heard::Ask => {
      let kept = Box::new(KeptQuestion::new(&question));
      (None, Consulted::Question(question.hash(), kept))
    }
    Heard::Silence => nothing,
  }
}

/// The values of trusted memory that contradict the entry, without private ones.
fn contradicted(entry: &str, effects: &[FoundEffect], known: &[KnownSlot]) -> Vec<String> {
  let entry = entry.to_lowercase();
  let slots = effects.iter().flat_map(|effect| &effect.slots);
  let mut found = Vec::new();
  for slot in slots.filter(|slot| slot.novelty == Novelty::Contradicts) {
    let told = known.iter().filter(|one| !one.is_private);
    let same = told.filter(|one| one.kind == slot.kind && one.value != slot.value);
    for one in same.filter(|one| one.topic.iter().any(|word| entry.contains(word.as_str()))) {
      let text = format!("{}: {}", one.topic.join(" "), one.value);
      if found.len() < MAX_KNOWN && !found.contains(&text) {
        found.push(text);
      }
    }
  }
  found
}
