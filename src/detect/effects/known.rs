//! Compares values with the owner's words and with trusted memory.
#![forbid(unsafe_code)]

use super::{
  effect::FoundEffect,
  frame::builtin,
  slot::{KnownSlot, Novelty, Slot, SlotKind},
  values,
};
use crate::detect::rules::sentences;

/// The known facts with which a text is read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Setting<'a> {
  /// The owner's words of the turn; empty where there are none.
  pub asked: &'a str,
  /// What trusted memory holds ([`known_slots`]).
  pub known: &'a [KnownSlot],
}

/// Values of one text, at most.
const MAX_KNOWN: usize = 2048;
/// Words of one topic, at most.
const MAX_TOPIC: usize = 16;
/// Shorter words name nothing, except where they are capitals or of a script without spaces.
const MIN_WORD: usize = 4;
/// Bytes of the owner's words that are read.
const MAX_ASKED: usize = 16 * 1024;

/// The values that a trusted text holds, each with the words beside it that name its owner or
/// purpose.
pub fn known_slots(text: &str) -> Vec<KnownSlot> {
  let slots = values::slots_of(text);
  let mut known: Vec<KnownSlot> = Vec::new();
  let mut next = 0;
  let mut heading: Vec<String> = Vec::new();
  for range in sentences(text) {
    let sentence = text.get(range.clone()).unwrap_or_default();
    let first = next;
    while slots.get(next).is_some_and(|slot| slot.span.start < range.end) {
      next += 1;
    }
    let here = slots.get(first..next).unwrap_or_default();
    if sentence.starts_with('#') {
      heading = topic(sentence, range.start, here);
    }
    if here.is_empty() {
      continue;
    }
    let mut words = topic(sentence, range.start, here);
    words.extend(heading.iter().cloned());
    words.sort();
    words.dedup();
    words.truncate(MAX_TOPIC);
    for slot in here {
      if known.len() >= MAX_KNOWN {
        return known;
      }
      let (value, topic) = (slot.value.clone(), words.clone());
      known.push(KnownSlot { kind: slot.kind, value, topic, is_private: false });
    }
  }
  known
}

/// The words of a sentence that name something: not those of any frame, not those of every sentence, and not
/// those of a value. Folded to lower case.
fn topic(sentence: &str, start: usize, slots: &[Slot]) -> Vec<String> {
  let frames = builtin();
  let common = frames.lexicon.scan(sentence);
  let mut words = Vec::new();
  let mut from: Option<usize> = None;
  for (at, c) in sentence.char_indices().chain([(sentence.len(), ' ')]) {
    if c.is_alphanumeric() {
      from.get_or_insert(at);
      continue;
    }
    let Some(begin) = from.take() else { continue };
    let Some(word) = sentence.get(begin..at) else { continue };
    let chars = word.chars().count();
    let is_short = chars < MIN_WORD && !word.chars().next().is_some_and(char::is_uppercase);
    let is_common = common.iter().any(|one| {
      one.start as usize == begin || (one.start as usize <= begin && one.end as usize >= at)
    });
    let is_value =
      slots.iter().any(|slot| slot.span.start < start + at && start + begin < slot.span.end);
    let is_name = word.chars().all(char::is_alphabetic) && chars >= 2;
    if is_name && !is_short && !is_common && !is_value && words.len() < MAX_TOPIC {
      words.push(word.to_lowercase());
    }
  }
  words
}

/// Sets [`Slot::novelty`] of every slot in `found`. `bytes` is the text in which they were found.
pub(super) fn compare(found: &mut [FoundEffect], bytes: &[u8], setting: &Setting<'_>) {
  if setting.asked.is_empty() && setting.known.is_empty() {
    return;
  }
  let mut end = setting.asked.len().min(MAX_ASKED);
  while !setting.asked.is_char_boundary(end) {
    end -= 1;
  }
  let asked = values::slots_of(setting.asked.get(..end).unwrap_or_default());
  for one in found {
    let sentence = bytes.get(one.span.clone()).and_then(|bytes| std::str::from_utf8(bytes).ok());
    let about = match (sentence, setting.known.is_empty()) {
      (Some(text), false) => topic(text, one.span.start, &one.slots),
      _ => Vec::new(),
    };
    // A value that is known in one form is known in the others: a page by its host.
    for slot in &mut one.slots {
      slot.novelty = novelty(slot, &asked, setting, &about);
    }
    settle_addresses(&mut one.slots);
  }
}

fn novelty(slot: &Slot, asked: &[Slot], setting: &Setting<'_>, about: &[String]) -> Novelty {
  let is = |kind: SlotKind, value: &str| kind == slot.kind && value == slot.value;
  let in_words = slot.kind == SlotKind::Person && says(setting.asked, &slot.value);
  if in_words
    || asked.iter().any(|one| is(one.kind, &one.value))
    || setting.known.iter().any(|one| is(one.kind, &one.value))
  {
    return Novelty::Known;
  }
  let comparable = !matches!(
    slot.kind,
    SlotKind::Amount
      | SlotKind::Time
      | SlotKind::Path
      | SlotKind::Person
      | SlotKind::Package
      | SlotKind::Url
  );
  let contradicts = comparable
    && setting
      .known
      .iter()
      .any(|one| one.kind == slot.kind && one.topic.iter().any(|word| about.contains(word)));
  if contradicts { Novelty::Contradicts } else { Novelty::New }
}

fn says(text: &str, word: &str) -> bool {
  text.to_lowercase().split(|c: char| !c.is_alphanumeric()).any(|one| one == word)
}

/// One address has a host, a registrable domain and perhaps a page: where the host is known, so is
/// all of it; a known domain does not make another host of it known.
fn settle_addresses(slots: &mut [Slot]) {
  let hosts: Vec<_> = slots
    .iter()
    .filter(|slot| slot.kind == SlotKind::Host)
    .map(|slot| (slot.span.clone(), slot.novelty))
    .collect();
  for slot in slots.iter_mut() {
    if let SlotKind::Url | SlotKind::Registry | SlotKind::Domain = slot.kind
      && let Some((_, novelty)) = hosts.iter().find(|(span, _)| *span == slot.span)
      && *novelty == Novelty::Known
    {
      slot.novelty = Novelty::Known;
    }
  }
}
