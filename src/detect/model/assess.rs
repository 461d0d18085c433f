//! Layer 2 over all readings of a block: as it reads, what it hides, what it encodes.
#![forbid(unsafe_code)]

use std::borrow::Cow;

use super::{Assessment, Context, Depth, Health, Probabilities, context::MAX_ASKED};
use crate::detect::{
  Text,
  normalize::{View, ViewKind, normalize},
};

/// Hidden and encoded texts that the encoder reads, at most; the heads read all of them. Nothing else of
/// a text makes work that is not in proportion to its length.
const MAX_DEEP: usize = 8;

/// Who says how likely a text is to be an attack.
pub trait Assessor: Send + Sync {
  /// What it thinks of a text as it reads, folded. `rules` is how strong the findings of the rules in it
  /// are, from 0 to 1. `context` has the other known facts about it.
  fn assess(&self, text: &str, rules: f32, depth: Depth, context: &Context<'_>) -> Assessment;

  /// Which weights it has: the results of another version do not count.
  fn version(&self) -> &str;

  /// Whether all of it can be used, as far as that is known; the encoder is looked at when it is needed.
  fn health(&self) -> Health;
}

/// What layer 2 thinks of a text: the highest of all readings. The sentence is in bytes of the
/// text. The owner's request is read like the text.
pub fn assess(
  assessor: &dyn Assessor,
  text: &Text<'_>,
  rules: f32,
  depth: Depth,
  context: &Context<'_>,
) -> Assessment {
  let asked = if context.is_outside() { folded(context.asked) } else { Cow::Borrowed("") };
  let context = &Context { asked: &asked, ..*context };
  let normalized = text.normalized();
  let is_folded = normalized.views.iter().any(|view| view.kind == ViewKind::Folded);
  // The raw view contains or hides everything that the folded view contains.
  let says_new = |view: &&View<'_>| match view.kind {
    ViewKind::Raw => !is_folded,
    // Nearly every text has words side by side, and no list that is run together was ever trained on.
    ViewKind::Joined => false,
    _ => true,
  };
  let read = normalized.views.iter().filter(says_new);
  let aside = |view: &View<'_>| matches!(view.kind, ViewKind::Hidden | ViewKind::Decoded);
  let mut n_deep = 0;
  let mut all = read.map(|view| {
    n_deep += usize::from(aside(view));
    let depth = if n_deep > MAX_DEEP { Depth::Heads } else { depth };
    let mut found = assessor.assess(&view.text, rules, depth, context);
    found.sentence =
      found.sentence.or_else(|| aside(view).then_some(0..view.text.len())).map(|sentence| {
        let raw = view.map.span(&sentence);
        normalized.raw.span(&raw)
      });
    found
  });
  let Some(first) = all.next() else { return assessor.assess("", rules, depth, context) };
  all.fold(first, join)
}

/// What layer 2 thinks of a text: given the result of the heads, `wanted` decides whether the
/// encoder reads it as well.
pub fn look(
  assessor: &dyn Assessor,
  text: &Text<'_>,
  rules: f32,
  context: &Context<'_>,
  wanted: impl FnOnce(Probabilities) -> bool,
) -> Assessment {
  let glance = assess(assessor, text, rules, Depth::Heads, context);
  if wanted(glance.probabilities) {
    assess(assessor, text, rules, Depth::Encoder, context)
  } else {
    glance
  }
}

/// A text as it reads, cut to what is looked at.
pub fn folded(text: &str) -> Cow<'_, str> {
  let text = text.get(..text.floor_char_boundary(MAX_ASKED)).unwrap_or_default();
  let normalized = normalize(text.as_bytes());
  let folded = normalized.views.iter().find(|view| view.kind == ViewKind::Folded);
  folded.map_or(Cow::Borrowed(text), |view| Cow::Owned(view.text.to_string()))
}

/// The higher probability of each kind; place and explanation are those of the higher one of all. The
/// depth is that of `one`.
fn join(one: Assessment, other: Assessment) -> Assessment {
  let depth = one.depth;
  let mut probabilities = one.probabilities;
  probabilities.injection = probabilities.injection.max(other.probabilities.injection);
  probabilities.poison = probabilities.poison.max(other.probabilities.poison);
  let authority = [one.authority, other.authority].into_iter().flatten().reduce(f32::max);
  let most = if other.probabilities.most() > one.probabilities.most() { other } else { one };
  Assessment { probabilities, authority, depth, ..most }
}

#[cfg(test)]
mod tests {
  use super::*;
  use crate::detect::model::Kind;

  /// Fears one word.
  struct Fears(&'static str);

  impl Assessor for Fears {
    fn assess(&self, text: &str, _: f32, depth: Depth, context: &Context<'_>) -> Assessment {
      let sentence = text.find(self.0).map(|at| at..at + self.0.len());
      let injection = if sentence.is_some() { 0.9 } else { 0.1 };
      let probabilities = Probabilities { injection, poison: 0.2 };
      let authority = context.is_outside().then_some(injection);
      Assessment { probabilities, authority, sentence, nearest: None, depth }
    }

    fn version(&self) -> &'static str {
      "1"
    }

    fn health(&self) -> Health {
      Health::default()
    }
  }

  fn found(text: &str) -> (f32, Option<&str>) {
    let context = Context { kind: Kind::Page, ..Context::default() };
    let bytes = Text::new(text.as_bytes());
    let found = assess(&Fears("grue"), &bytes, 0.0, Depth::Encoder, &context);
    assert_eq!(found.authority, Some(found.probabilities.injection), "the highest of all readings");
    assert_eq!(found.depth, Depth::Encoder);
    (found.probabilities.injection, found.sentence.and_then(|span| text.get(span)))
  }

  #[test]
  fn what_is_hidden_or_encoded_counts_and_its_place_is_in_the_input() {
    assert_eq!(found("A line about nothing."), (0.1, None));
    assert_eq!(found("Ann: a grue lives here."), (0.9, Some("grue")));
    let full = "Ann: a \u{ff47}\u{ff52}\u{ff55}\u{ff45} lives here.";
    assert_eq!(found(full), (0.9, Some("\u{ff47}\u{ff52}\u{ff55}\u{ff45}")));
    let hidden = "Fine.\n\n<!-- a grue lives behind the door -->\n";
    assert!(found(hidden).0 > 0.8);
    let encoded = "Token: YSBncnVlIGxpdmVzIGJlaGluZCB0aGUgZG9vciBvZiB0aGUgaG91c2U=";
    assert_eq!(
      found(encoded),
      (0.9, Some("YSBncnVlIGxpdmVzIGJlaGluZCB0aGUgZG9vciBvZiB0aGUgaG91c2U="))
    );
  }
}
