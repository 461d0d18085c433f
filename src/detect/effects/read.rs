//! Reads the effects of a text, sentence by sentence.
#![forbid(unsafe_code)]

use std::ops::Range;

use super::{
  asked::{asks_for_others, licence},
  effect::{Effect, FoundEffect, Strength},
  frame::{Frame, Frames, Step, builtin},
  known::{self, Setting},
  slot::{Slot, SlotKind},
  values,
};
use crate::detect::{
  Text,
  rules::{
    engine::{ends_clause, is_quoted},
    lexicon::{Class, Classes, WordMatch, classes_in, floor},
    report, sentences,
  },
};

/// Effects of one text, at most. A text may choose what comes first in it, so the plainest are kept.
const MAX_EFFECTS: usize = 256;
/// A longer text is read in pieces of about this many bytes, so that no part of it takes the room of another.
const PIECE: usize = 32 * 1024;
/// What two pieces share, in bytes: more than a sentence is long.
const SHARED: usize = 1024;
/// A negation reaches this many bytes ahead.
const NEGATION_BYTES: usize = 56;
/// A negation reaches this many bytes ahead to another one that it takes back ("never again stop").
const DOUBLE_NEGATION_BYTES: usize = 8;
/// Slots of one effect, at most.
const MAX_SLOTS: usize = 8;

/// What the entry in `bytes` would do, in order of its sentences; each effect once a sentence, as plainly as it
/// is said there. Spans lie in `bytes`, on the edges of characters.
pub fn read(bytes: &[u8], setting: &Setting<'_>) -> Vec<FoundEffect> {
  read_in(&Text::new(bytes), setting)
}

/// The same as [`read`] for a text that other layers read, too.
pub fn read_in(entry: &Text<'_>, setting: &Setting<'_>) -> Vec<FoundEffect> {
  let frames = builtin();
  let normalized = entry.normalized();
  let mut found: Vec<FoundEffect> = Vec::new();
  for view in &normalized.views {
    for piece in pieces(&view.text) {
      let back = |span: &Range<usize>| {
        let span = span.start + piece.start..span.end + piece.start;
        normalized.raw.span(&view.map.span(&span))
      };
      for mut one in read_text(view.text.get(piece.clone()).unwrap_or_default(), frames) {
        one.span = back(&one.span);
        for slot in &mut one.slots {
          slot.span = back(&slot.span);
        }
        add(one, &mut found);
      }
    }
  }
  keep_plainest(&mut found);
  if found.iter().any(|one| !one.slots.is_empty()) {
    known::compare(&mut found, entry.bytes(), setting);
  }
  if !found.is_empty() && !setting.asked.is_empty() {
    let is_unasked = asks_for_others(setting.asked);
    for one in &mut found {
      one.is_unasked = is_unasked(one.effect);
    }
  }
  found.sort_by_key(|one| (one.span.start, one.span.end, one.effect));
  found
}

/// Where to read a text in pieces: they begin and end with a line, or with a word in longer lines, and share the
/// sentences at their edges.
fn pieces(text: &str) -> Vec<Range<usize>> {
  let mut pieces = Vec::new();
  let mut start = 0;
  while text.len() - start > PIECE + SHARED {
    let most = floor(text, start + PIECE + SHARED);
    let within = text.get(start + PIECE / 2..most).unwrap_or_default();
    let cut = within.rfind('\n').or_else(|| within.rfind(' ')).map(|at| start + PIECE / 2 + at + 1);
    let end = cut.unwrap_or(most);
    pieces.push(start..end);
    let next = floor(text, end - SHARED);
    let word = text.get(next..end).and_then(|shared| shared.find(char::is_whitespace));
    start = word.map_or(next, |at| next + at);
  }
  pieces.push(start..text.len());
  pieces
}

/// Adds an effect. Another view, or the part that two pieces share, may have it already, or less plainly.
fn add(one: FoundEffect, found: &mut Vec<FoundEffect>) {
  let is_same =
    |known: &&mut FoundEffect| known.effect == one.effect && overlap(&known.span, &one.span);
  match found.iter_mut().find(is_same) {
    Some(known) if known.strength < one.strength => *known = one,
    Some(_) => {}
    None => found.push(one),
  }
  if found.len() >= 2 * MAX_EFFECTS {
    keep_plainest(found);
  }
}

fn keep_plainest(found: &mut Vec<FoundEffect>) {
  if found.len() > MAX_EFFECTS {
    found.sort_by_key(|one| std::cmp::Reverse(one.strength));
    found.truncate(MAX_EFFECTS);
  }
}

/// The part of the owner's words that licenses this entry of a source: [`licence`], or no words
/// where they ask to keep other kinds of things than the entry would set.
pub fn licence_for<'a>(asked: &'a str, entry: &Text<'_>) -> &'a str {
  let licence = licence(asked);
  if licence.is_empty() {
    return licence;
  }
  let is_unasked = asks_for_others(licence);
  let found = read_in(entry, &Setting::default());
  let would_set = |one: &FoundEffect| one.effect.sets_value() && is_unasked(one.effect);
  if found.iter().any(would_set) { "" } else { licence }
}

fn overlap(a: &Range<usize>, b: &Range<usize>) -> bool {
  a.start < b.end && b.start < a.end
}

/// One sentence with the words and slots in it.
struct Sentence<'a> {
  text: &'a str,
  range: Range<usize>,
  words: &'a [WordMatch],
  classes: Classes,
  /// The words that make a report.
  reports: Vec<Range<usize>>,
  /// Whether the sentence before attributes this one to another person.
  introduced: bool,
}

fn read_text(text: &str, frames: &Frames) -> Vec<FoundEffect> {
  let mut words = frames.lexicon.scan(text);
  let slots = values::slots_of(text);
  if words.is_empty() && slots.is_empty() {
    return Vec::new();
  }
  for slot in &slots {
    shapes_of(text, slot, |shape| push(&mut words, frames, shape, &slot.span));
  }
  values::pipes(text, |span| push(&mut words, frames, "@pipe", &span));
  values::code_spans(text, |span| push(&mut words, frames, "@code", &span));
  values::filled_images(text, |span| push(&mut words, frames, "@filled", &span));
  let mut persons = Vec::new();
  values::persons(text, |span| {
    push(&mut words, frames, "@person", &span);
    persons.push(span);
  });
  words.sort_by_key(|word| (word.start, word.end));
  let mut found = Vec::new();
  let (mut next, mut next_slot) = (0, 0);
  let mut reporting: Option<Range<usize>> = None;
  for range in sentences(text) {
    let first = next;
    let classes = classes_in(&words, &mut next, &range);
    let first_slot = next_slot;
    while slots.get(next_slot).is_some_and(|slot| slot.span.start < range.end) {
      next_slot += 1;
    }
    // The owner of an address or an account chooses its name.
    let here = slots.get(first_slot..next_slot).unwrap_or_default();
    let is_value = |word: &WordMatch| {
      here
        .iter()
        .any(|slot| slot.span.start < word.end as usize && (word.start as usize) < slot.span.end)
    };
    let in_sentence = words.get(first..next).unwrap_or_default();
    let reports: Vec<Range<usize>> = in_sentence
      .iter()
      .filter(|word| word.class == frames.report && !is_value(word))
      .map(|word| word.start as usize..word.end as usize)
      .filter(|word| !report::is_of_torn_comment(text, word))
      .filter(|word| !report::is_struck_out(text, &range, word))
      .collect();
    let introduced = reporting.is_some_and(|before| report::introduces(text, &before, range.start));
    reporting = (!reports.is_empty()).then(|| range.clone());
    let sentence = Sentence {
      text,
      words: words.get(first..next).unwrap_or_default(),
      classes,
      reports,
      introduced,
      range,
    };
    let before = found.len();
    read_sentence(&sentence, frames, &mut found);
    for one in found.get_mut(before..).unwrap_or_default() {
      one.slots = slots_for(one.effect, here, &persons, text, &sentence.range);
    }
  }
  found
}

fn push(words: &mut Vec<WordMatch>, frames: &Frames, shape: &str, span: &Range<usize>) {
  let at = super::frame::SHAPES.iter().position(|name| *name == shape);
  if let Some(class) = at.and_then(|at| frames.shapes.get(at)) {
    words.push(WordMatch { class: *class, start: span.start as u32, end: span.end as u32 });
  }
}

/// The shapes that a slot has in frames.
fn shapes_of(text: &str, slot: &Slot, mut has: impl FnMut(&'static str)) {
  match slot.kind {
    SlotKind::Iban | SlotKind::Card | SlotKind::Wallet => has("@account"),
    SlotKind::Email => {
      has("@email");
      has("@reach");
    }
    SlotKind::Url | SlotKind::Domain | SlotKind::Host | SlotKind::Registry => {
      has("@place");
      has("@reach");
    }
    SlotKind::Ip => has("@place"),
    SlotKind::Cidr => {
      has("@place");
      if matches!(slot.value.as_str(), "0.0.0.0/0" | "::/0") {
        has("@world");
      }
    }
    SlotKind::Phone | SlotKind::Handle => has("@reach"),
    SlotKind::Path => has("@path"),
    SlotKind::Package => has("@package"),
    SlotKind::Amount => has("@amount"),
    SlotKind::Person | SlotKind::Role | SlotKind::Time => {}
  }
  if slot.kind == SlotKind::Ip && text.get(slot.span.clone()) == Some("0.0.0.0") {
    has("@world");
  }
}

fn read_sentence(sentence: &Sentence<'_>, frames: &Frames, found: &mut Vec<FoundEffect>) {
  let before = found.len();
  for class in sentence.classes.common(&frames.anchors) {
    let numbers = frames.by_anchor.get(usize::from(class)).map(Vec::as_slice).unwrap_or_default();
    for number in numbers {
      let Some(frame) = frames.list.get(usize::from(*number)) else { continue };
      let here = found.get_mut(before..).unwrap_or_default();
      let known = here.iter_mut().find(|one| one.effect == frame.effect);
      if known.as_ref().is_some_and(|one| one.strength >= frame.strength) {
        continue;
      }
      let Some(strength) = strength_of(frame, frames, sentence) else { continue };
      match known {
        Some(one) if one.strength < strength => {
          one.strength = strength;
          one.why.clone_from(&frame.why);
        }
        Some(_) => {}
        None => found.push(FoundEffect {
          effect: frame.effect,
          span: whole_row(sentence),
          strength,
          slots: Vec::new(),
          why: frame.why.clone(),
          is_unasked: false,
        }),
      }
    }
  }
}

/// A row of a table goes as a whole; otherwise the sentence.
fn whole_row(sentence: &Sentence<'_>) -> Range<usize> {
  let Range { start, end } = sentence.range;
  let line = sentence.text.get(..start).and_then(|text| text.rfind('\n')).map_or(0, |at| at + 1);
  let is_row = sentence.text.get(line..end).is_some_and(|text| text.trim_start().starts_with('|'));
  if !is_row {
    return start..end;
  }
  let rest = sentence.text.get(end..).unwrap_or_default();
  line..end + rest.find('\n').unwrap_or(rest.len())
}

/// How plainly a sentence says what the frame is about; `None` where it does not.
fn strength_of(frame: &Frame, frames: &Frames, sentence: &Sentence<'_>) -> Option<Strength> {
  if sentence.classes.intersects(&frame.not) {
    return None;
  }
  let has = |step: &Step| step.iter().any(|class| contains(&sentence.classes, *class));
  if !frame.all.iter().all(has) || !frame.seq.iter().all(has) {
    return None;
  }
  let place = place_of(frame, frames, sentence)?;
  if frame.negated && is_negated(frames, sentence, place) {
    return None;
  }
  let excused = (frame.reported && is_reported(sentence, place))
    || (frame.quoted && is_quoted(sentence.text, &sentence.range, place));
  if excused {
    return Some(Strength::Weak);
  }
  // A claim or wish that the entry reports is not the entry's own.
  let claimed = contains(&sentence.classes, frames.claim);
  Some(if claimed { frame.strength.min(Strength::Plain) } else { frame.strength })
}

/// Whether the phrase at `place` is part of a report about another person's acts or wishes.
fn is_reported(sentence: &Sentence<'_>, place: usize) -> bool {
  let covers = |word| report::covers(sentence.text, &sentence.range, word, place);
  sentence.introduced || sentence.reports.iter().any(covers)
}

fn contains(classes: &Classes, class: Class) -> bool {
  let mut one = Classes::default();
  one.insert(class);
  classes.intersects(&one)
}

/// Where the frame begins in the sentence: the start of its sequence, or of the first word of `all`.
fn place_of(frame: &Frame, frames: &Frames, sentence: &Sentence<'_>) -> Option<usize> {
  let Some((first, rest)) = frame.seq.split_first() else {
    return words_of(sentence, frame.all.first()?).map(|word| word.start as usize).next();
  };
  // Start of the sequence, and where the step so far ends.
  let mut reached: Vec<(usize, usize)> = words_of(sentence, first)
    .map(|word| (word.start as usize, word.end as usize))
    .filter(|(start, _)| !frame.start || is_lead(frames, sentence, *start))
    .collect();
  for step in rest {
    reached = words_of(sentence, step)
      .filter_map(|word| {
        let at = word.start as usize;
        let from = reached.iter().find(|(_, end)| *end <= at && at - end <= frame.gap)?;
        Some((from.0, word.end as usize))
      })
      .collect();
  }
  reached.first().map(|(start, _)| *start)
}

/// The words of a sentence that are of one of the classes of a step.
fn words_of<'a>(
  sentence: &'a Sentence<'_>,
  step: &'a Step,
) -> impl Iterator<Item = &'a WordMatch> + 'a {
  sentence.words.iter().filter(move |word| step.contains(&word.class))
}

/// Whether only a label, a bullet and words like "always" are before `place` in its clause.
fn is_lead(frames: &Frames, sentence: &Sentence<'_>, place: usize) -> bool {
  let before = sentence.text.get(sentence.range.start..place).unwrap_or_default();
  let from = before
    .rfind([':', ';', ',', '→', '>', '|', '—', '–', '，', '：', '、'])
    .map_or(0, |at| at + before.get(at..).and_then(|t| t.chars().next()).map_or(1, char::len_utf8));
  let mut at = sentence.range.start + from;
  for word in sentence.words {
    if word.class != frames.lead || (word.start as usize) < at || word.end as usize > place {
      continue;
    }
    if !is_blank(sentence.text.get(at..word.start as usize)) {
      return false;
    }
    at = word.end as usize;
  }
  is_blank(sentence.text.get(at..place))
}

fn is_blank(text: Option<&str>) -> bool {
  text.is_some_and(|text| !text.chars().any(char::is_alphanumeric))
}

/// Whether a negation is shortly before `place`, in the clause of `place`, and is not taken back.
fn is_negated(frames: &Frames, sentence: &Sentence<'_>, place: usize) -> bool {
  let negators = || sentence.words.iter().filter(|word| word.class == frames.negator);
  // "Never stop" forbids to stop, and so forbids nothing else.
  let is_forbidden = |word: &WordMatch| {
    let takes_back = sentence
      .words
      .iter()
      .any(|back| back.class == frames.unnegate && back.start < word.end && word.start < back.end);
    takes_back
      && negators().any(|before| {
        before.end <= word.start && (word.start - before.end) as usize <= DOUBLE_NEGATION_BYTES
      })
  };
  negators().any(|word| {
    let end = word.end as usize;
    if end > place || place - end > NEGATION_BYTES || is_forbidden(word) {
      return false;
    }
    let gap = sentence.text.get(end..place).unwrap_or_default();
    !ends_clause(gap)
      && !sentence.words.iter().any(|back| {
        back.class == frames.unnegate && back.start as usize >= end && back.end as usize <= place
      })
  })
}

/// The slots of a sentence that an effect depends on.
fn slots_for(
  effect: Effect,
  here: &[Slot],
  persons: &[Range<usize>],
  text: &str,
  sentence: &Range<usize>,
) -> Vec<Slot> {
  use SlotKind as K;
  let turns_on: &[SlotKind] = match effect {
    Effect::Payment => &[K::Iban, K::Card, K::Wallet, K::Handle, K::Email, K::Url, K::Domain],
    Effect::Contact => &[K::Email, K::Phone, K::Handle, K::Url, K::Domain],
    Effect::Endpoint => &[K::Url, K::Domain, K::Host, K::Ip, K::Cidr, K::Registry],
    Effect::Permission => {
      &[K::Email, K::Url, K::Domain, K::Host, K::Ip, K::Cidr, K::Handle, K::Phone, K::Path]
    }
    Effect::Identity => &[K::Email, K::Domain, K::Handle, K::Phone],
    Effect::Command => &[K::Url, K::Domain, K::Package, K::Registry, K::Path],
    Effect::Disclosure | Effect::Trigger => {
      &[K::Email, K::Url, K::Domain, K::Host, K::Ip, K::Wallet, K::Iban, K::Phone, K::Handle]
    }
    Effect::StandingOrder | Effect::Promotion => &[K::Email, K::Url, K::Domain, K::Handle],
    Effect::Secrecy | Effect::Suppression | Effect::SafetyFact => &[],
  };
  let mut slots: Vec<Slot> =
    here.iter().filter(|slot| turns_on.contains(&slot.kind)).take(MAX_SLOTS).cloned().collect();
  if matches!(effect, Effect::Identity | Effect::Permission) {
    let inside = |span: &&Range<usize>| span.start >= sentence.start && span.end <= sentence.end;
    let named = persons.iter().filter(inside).take(2);
    slots.extend(named.filter_map(|span| values::person(text, span.clone())));
    slots.sort_by_key(|slot| slot.span.start);
  }
  slots
}
