//! What the context head sees of a text: its n-grams and the known facts about it.
//!
//! The n-grams are those of `features`; its words are also crossed with the kind of source. Of what the owner
//! had asked there are the words, whether there are any, whether they ask to keep something, and how many words
//! of the text are among them. Of the effects there are kind, strength and whether their values are known.
//! Training and run time use this one file.
//!
//! Invariant: the time is linear in text and question, and the hashes are the same on every machine.
#![forbid(unsafe_code)]

use super::{
  context::{Context, Kind},
  features::{self, Shape},
};
use crate::detect::effects::{FoundEffect, asks_to_keep};

/// The n-grams of the text, and words alone for what is crossed.
const WORDS: Shape = Shape { words: 2, gaps: false, least: 3, most: 0 };
const ASKED: Shape = Shape { words: 1, gaps: false, least: 3, most: 0 };
/// Steps of the share of words that were asked for.
const STEPS: usize = 5;

/// Which parts of the context are used: all, except in measurements of the value of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
  /// The kind of source.
  pub kind: bool,
  /// What was asked.
  pub asked: bool,
  /// Effects, with their strength.
  pub effects: bool,
  /// Whether the values that the effects depend on are known.
  pub slots: bool,
}

impl Parts {
  /// All of them.
  pub const ALL: Self = Self { kind: true, asked: true, effects: true, slots: true };
}

/// What is known about the texts of one context, hashed once.
#[derive(Clone, Debug)]
pub struct Prepared {
  parts: Parts,
  kind: Kind,
  /// Features of the context alone.
  own: Vec<u32>,
  /// The words of what was asked, ascending.
  asked: Vec<u32>,
}

impl Prepared {
  /// Hashes what is known.
  pub fn new(context: &Context<'_>, effects: &[FoundEffect], parts: Parts) -> Self {
    let (mut own, mut asked) = (Vec::new(), Vec::new());
    if parts.kind {
      own.push(of(Group::Kind, context.kind as u32));
    }
    if parts.asked {
      features::extract(context.asked, ASKED, &mut asked);
      own.extend(asked.iter().map(|word| of(Group::Asked, *word)));
      own.push(of(Group::Empty, u32::from(context.asked.trim().is_empty())));
      own.push(of(Group::Keep, u32::from(asks_to_keep(context.asked))));
    }
    let kind = if parts.kind { context.kind } else { Kind::Unknown };
    let mut add = |group, number: u32| {
      own.push(of(group, number));
      own.push(crossed(of(group, number), kind));
    };
    for found in effects {
      let FoundEffect { effect, strength, .. } = found;
      if parts.effects {
        add(Group::Effect, *effect as u32);
        add(Group::Strength, *effect as u32 * 8 + *strength as u32);
      }
      if parts.slots {
        for slot in &found.slots {
          add(Group::Slot, slot.kind as u32 * 8 + slot.novelty as u32);
          add(Group::Novelty, *effect as u32 * 8 + slot.novelty as u32);
        }
      }
    }
    Self { parts, kind, own, asked }
  }

  /// Hashes of all features of `text` in this context, each once, ascending; `out` is cleared. Returns the
  /// number of words.
  pub fn extract(
    &self,
    text: &str,
    shape: Shape,
    out: &mut Vec<u32>,
    spare: &mut Vec<u32>,
  ) -> usize {
    let n_words = features::extract(text, shape, out);
    features::extract(text, WORDS, spare);
    if self.parts.kind {
      out.extend(spare.iter().map(|word| crossed(*word, self.kind)));
    }
    if self.parts.asked {
      features::extract(text, ASKED, spare);
      let said = spare.iter().filter(|word| self.asked.binary_search(word).is_ok()).count();
      let share = (said * STEPS).checked_div(spare.len()).unwrap_or(0) as u32;
      out.push(of(Group::Share, share));
      out.push(crossed(of(Group::Share, share), self.kind));
    }
    out.extend(&self.own);
    out.sort_unstable();
    out.dedup();
    n_words
  }
}

/// Groups of features that are hashed separately.
#[derive(Clone, Copy)]
enum Group {
  Kind = 64,
  Asked,
  Empty,
  Keep,
  Share,
  Effect,
  Strength,
  Slot,
  Novelty,
  Crossed,
}

fn of(group: Group, number: u32) -> u32 {
  features::joined(group as u64, u64::from(number))
}

fn crossed(feature: u32, kind: Kind) -> u32 {
  features::joined(Group::Crossed as u64 + 16 * (1 + kind as u64), u64::from(feature))
}

#[cfg(test)]
mod tests {
  use super::*;

  fn features(context: &Context<'_>, text: &str) -> Vec<u32> {
    let (mut out, mut spare) = (Vec::new(), Vec::new());
    Prepared::new(context, &[], Parts::ALL).extract(text, Shape::CHOSEN, &mut out, &mut spare);
    out
  }

  #[test]
  fn everything_that_is_known_makes_a_difference_and_the_text_stays_in_sight() {
    let text = "The bakery opens at seven on weekdays";
    let plain = Context::default();
    let page = Context { kind: Kind::Page, ..plain };
    let asked = Context { asked: "remember when the bakery opens", ..page };
    let mut alone = Vec::new();
    features::extract(text, Shape::CHOSEN, &mut alone);
    let all = [plain, page, asked].map(|context| features(&context, text));
    for (at, one) in all.iter().enumerate() {
      assert!(alone.iter().all(|feature| one.binary_search(feature).is_ok()));
      assert!(one.windows(2).all(|pair| pair[0] < pair[1]));
      assert!(all.iter().skip(at + 1).all(|other| other != one));
    }
  }

  #[test]
  fn the_share_of_words_that_were_asked_for_counts() {
    let asked = "what are the opening hours of the bakery";
    let context = Context { kind: Kind::Page, asked, ..Context::default() };
    let has = |text: &str, share| features(&context, text).contains(&of(Group::Share, share));
    assert!(has("opening hours bakery", 5));
    assert!(has("send the money to another account instead", 0));
    assert!(has("", 0));
  }
}
