//! Whether the owner's words ask to keep something, and of which kind.
#![forbid(unsafe_code)]

use super::{
  effect::{AskedKind, Effect},
  frame::builtin,
};
use crate::detect::rules::lexicon::WordMatch;

/// Bytes of the owner's words that are read.
const MAX_ASKED: usize = 16 * 1024;

/// Whether the owner's words ask to keep something and name kinds of things none of which covers
/// this effect: a request to note a phone number is no request for a new account.
pub(super) fn asks_for_others(asked: &str) -> impl Fn(Effect) -> bool {
  let words = read(asked);
  let kinds: Vec<AskedKind> = if words.iter().any(|word| is_keep(word, &words)) {
    words.iter().filter_map(|word| kind_of(word, &words)).collect()
  } else {
    vec![]
  };
  move |effect| !kinds.is_empty() && !kinds.iter().any(|kind| kind.covers(effect))
}

/// Whether the owner asked to keep, note or learn what a source says, in any of the languages of
/// `rules/effects`.
pub fn asks_to_keep(asked: &str) -> bool {
  let words = read(asked);
  words.iter().any(|word| is_keep(word, &words))
}

/// The part of the owner's words that licenses a source to do more than inform: all words, or none
/// where the owner asks to keep what the source says without naming it. "Read the page and note it"
/// allows no new account to pay to; "save their new account" does.
pub fn licence(asked: &str) -> &str {
  let words = read(asked);
  let is_vague = words.iter().any(|word| is_keep(word, &words))
    && !words.iter().any(|word| kind_of(word, &words).is_some());
  if is_vague { "" } else { asked }
}

fn read(asked: &str) -> Vec<WordMatch> {
  let mut end = asked.len().min(MAX_ASKED);
  while !asked.is_char_boundary(end) {
    end -= 1;
  }
  builtin().lexicon.scan(asked.get(..end).unwrap_or_default())
}

/// The kind that a word names.
fn kind_of(word: &WordMatch, words: &[WordMatch]) -> Option<AskedKind> {
  let kind = builtin().asked_kinds.iter().find(|(class, _)| *class == word.class)?.1;
  (!is_keep(word, words)).then_some(kind)
}

/// Whether a word asks to keep. "Is the note ready?" asks about a note, and "the saved one" names
/// one.
fn is_keep(word: &WordMatch, words: &[WordMatch]) -> bool {
  let frames = builtin();
  let overruled = words
    .iter()
    .any(|one| one.class == frames.keep_not && one.start <= word.start && one.end >= word.end);
  word.class == frames.keep && !overruled
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn a_request_covers_the_kinds_that_it_names() {
    for (asked, effect) in [
      ("Read the page and note the phone number.", Effect::Payment),
      ("Note what the fee is, please.", Effect::Contact),
      ("Merk dir bitte die Miete.", Effect::Command),
      ("Notez le prix du stage.", Effect::Endpoint),
      ("Read the page and note the details.", Effect::Promotion),
      ("Note the phone number.", Effect::Secrecy),
    ] {
      assert!(asks_for_others(asked)(effect), "{asked}: {effect}");
    }
    for (asked, effect) in [
      ("Note the phone number.", Effect::Contact),
      ("Save the IBAN from the invoice.", Effect::Payment),
      ("Note their details.", Effect::Payment),
      ("Note the details.", Effect::Contact),
      ("Remember how to install it.", Effect::Endpoint),
      // The request names no kind, or does not ask to keep anything.
      ("Read the page and note it.", Effect::Payment),
      ("What is their phone number?", Effect::Payment),
      ("", Effect::Payment),
    ] {
      assert!(!asks_for_others(asked)(effect), "{asked}: {effect}");
    }
  }

  #[test]
  fn a_vague_request_licenses_nothing() {
    for vague in [
      "Read the page and note it.",
      "Read the page and remember the important things.",
      "Please look at the page and update your notes.",
      "Save this page to memory.",
      "Lies die Seite und merk dir das Wichtige.",
      "Sortiere bitte den Posteingang und notiere Wichtiges.",
      "Lis la page et retiens l'essentiel.",
      "Check the page for opening hours and note them.",
      "看看这篇文章，记下来。",
    ] {
      assert_eq!(licence(vague), "", "{vague}");
    }
    for asked in [
      "Save their new account from the mail.",
      "Remember how to install it.",
      "Note her number.",
      "Merk dir aus der Anleitung, wie man einen Bucket sperrt.",
      "J'ai eu Marchetti au téléphone, note son RIB qu'elle m'envoie par mail.",
      "把新的账户记下来",
      // Without such a request nothing is licensed anyway.
      "What does the page say?",
      "",
    ] {
      assert_eq!(licence(asked), asked, "{asked}");
    }
  }
}
