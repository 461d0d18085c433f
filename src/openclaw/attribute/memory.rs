//! Text that comes from memory itself: memfw's ledger has the origin of that memory.
//!
//! What a page brought into one file is before the agent again at the next start, without any call on
//! record, and a turn without anything foreign may copy it.
#![forbid(unsafe_code)]

use super::{
  Inquiry,
  choose::{Decision, FROM_MEMORY, MAX_BESIDE},
  material::Role,
  rank::{is_foreign, rank},
  turns::Context,
};
use crate::provenance::{Remembered, Request, Source, overlap::Text};

/// Share of a text that a remembered text must explain to be its source.
pub(super) const IS_COPY: f32 = 0.6;
/// How many words a text must share with a remembered one: "Lessons:" is in many notes (a choice).
const MIN_SHARED: usize = 2;
/// Share of a text that may come from memory that the ledger does not know.
const UNKNOWN: f32 = 0.15;

impl Inquiry<'_> {
  /// Gives a text of the agent or the owner that repeats memory of little trust the origin of that
  /// memory.
  pub(super) fn follow_memory(&self, text: &str, before: &Context<'_>, decision: &mut Decision) {
    self.forget_own_memory(text, before, decision);
    if is_foreign(&decision.source) || self.question.memory.is_empty() {
      return;
    }
    // A date above an entry is in every note of that month, and does not identify the entry.
    let entries: Vec<&str> =
      text.lines().filter(|line| !line.trim_start().starts_with('#')).collect();
    let words = Text::new(&entries.join("\n"));
    let total: f32 = (0..words.n_units()).map(|unit| words.weight(unit)).sum();
    if total <= 0.0 {
      return;
    }
    let mut said = words.nothing();
    for material in before.materials.iter().filter(|m| matches!(m.role, Role::Owner | Role::Task)) {
      said.add(&words.cover(&material.text));
    }
    let mut found: Vec<(f32, &Remembered, &Source)> = Vec::new();
    for one in self.question.memory {
      let Some(worst) = worst(one) else { continue };
      let cover = words.cover(&one.text);
      let gain = |unit| words.gain(&cover, &said, unit) * words.weight(unit);
      let gained = (0..words.n_units()).map(gain).sum::<f32>() / total;
      if gained >= FROM_MEMORY && cover.n_words() >= MIN_SHARED {
        found.push((gained, one, worst));
      }
    }
    found.sort_by_key(|(_, _, source)| rank(source));
    let best = found.iter().max_by(|a, b| a.0.total_cmp(&b.0));
    if let Some((gained, one, worst)) = best
      && *gained >= IS_COPY
      && decision.source.as_str() == "agent"
    {
      decision.source = (*worst).clone();
      decision.share = Some(gained.min(1.0));
      // Who had asked for it there has asked for these words, however they are written now.
      let asked = [one.asked.as_str(), &decision.request.asked];
      let asked =
        asked.into_iter().filter(|words| !words.is_empty()).collect::<Vec<_>>().join("\n");
      decision.request = Request::new(&asked, &one.text);
    }
    for (_, _, source) in found {
      if *source != decision.source && !decision.fed_by.contains(source) {
        decision.fed_by.push(source.clone());
      }
    }
    decision.fed_by.sort_by_key(rank);
    decision.fed_by.truncate(MAX_BESIDE);
  }

  /// Text that the agent read in memory and that the ledger knows as the owner's, the agent's or as what was there
  /// before memfw is trusted as that, and not as some file: tidying memory takes nothing from it.
  fn forget_own_memory(&self, text: &str, before: &Context<'_>, decision: &mut Decision) {
    let is_memory = |source: &Source| source.kind() == "memory";
    if !decision.fed_by.iter().any(is_memory) {
      return;
    }
    let words = Text::new(text);
    let (mut known, mut read) = (words.nothing(), words.nothing());
    for one in self.question.memory.iter().filter(|one| worst(one).is_none()) {
      known.add(&words.cover(&one.text));
    }
    for material in &before.materials {
      match material.role {
        Role::Owner | Role::Task => known.add(&words.cover(&material.text)),
        Role::Memory => read.add(&words.cover(&material.text)),
        Role::Foreign => {}
      }
    }
    let gains = (0..words.n_units()).any(|unit| words.gain(&read, &known, unit) >= UNKNOWN);
    if !gains {
      decision.fed_by.retain(|source| !is_memory(source));
    }
  }
}

/// The least trusted source of a remembered text, where that is not the owner's or the agent's.
pub(super) fn worst(one: &Remembered) -> Option<&Source> {
  let all = std::iter::once(&one.source).chain(&one.fed_by);
  let is_others = |source: &&Source| is_foreign(source) && source.kind() != "baseline";
  all.min_by_key(|source| rank(source)).filter(is_others)
}
