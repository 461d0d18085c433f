//! What layer 1 finds in a block: the findings of the rules, and the effects.
#![forbid(unsafe_code)]

use std::ops::Range;

use super::{
  claim::forged,
  judge_context::JudgeContext,
  spans::touches,
  text::{BlockReading, BlockText},
  treatment::Treatment,
  unit::Brought,
};
use crate::{
  detect::{
    self, Finding, JudgeOptions,
    effects::{self, FoundEffect},
    policy::Party,
  },
  memory::Block,
};

/// The parts of a text of a block that are known to come from outside.
pub(super) fn from_outside(
  text: &BlockText,
  block: &Block,
  brought: &[Option<Brought>],
) -> Vec<Range<usize>> {
  let lines = block.lines.iter().zip(brought);
  let lines = lines.filter(|(_, by)| by.is_some_and(|by| by.is_outside()));
  lines.flat_map(|(line, _)| text.of_file(&line.span)).collect()
}

/// The findings in a block; spans in bytes of the file.
pub(super) fn found(
  reading: &BlockReading<'_>,
  block: &Block,
  brought: &[Option<Brought>],
  cx: &JudgeContext<'_>,
) -> Vec<Finding> {
  if cx.treatment == Treatment::Ignore {
    return vec![];
  }
  let BlockReading { of, text, claims } = reading;
  let outside = from_outside(of, block, brought);
  let (scope, rules) = (cx.config.scope, Some(cx.rules));
  let options = JudgeOptions { scope, rules, from_outside: &outside, ..JudgeOptions::default() };
  let find = || {
    let found = detect::judge_text(text, &options).into_iter();
    found.chain(claims.iter().cloned().map(forged)).collect()
  };
  let found: Vec<Finding> = match cx.slice {
    Some(slice) => slice.findings(of.bytes(), &outside, find),
    None => find(),
  };
  found.into_iter().map(|finding| Finding { span: of.to_file(&finding.span), ..finding }).collect()
}

/// The effects of a text; spans in bytes of the file.
pub(super) fn effects_in(
  reading: &BlockReading<'_>,
  setting: &effects::Setting<'_>,
) -> Vec<FoundEffect> {
  let mut found = effects::read_in(&reading.text, setting);
  for one in &mut found {
    one.span = reading.of.to_file(&one.span);
    for slot in &mut one.slots {
      slot.span = reading.of.to_file(&slot.span);
    }
  }
  found
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
