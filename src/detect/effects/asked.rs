//! Whether the owner's words ask to keep something.
#![forbid(unsafe_code)]

use super::frame::builtin;
use crate::detect::rules::lexicon::WordMatch;

/// Bytes of the owner's words that are read.
const MAX_ASKED: usize = 16 * 1024;

/// Whether the owner asked to keep, note or learn what a source says, in any of the languages of
/// `rules/effects`.
pub fn asks_to_keep(asked: &str) -> bool {
  let words = read(asked);
  words.iter().any(|word| is_keep(word, &words))
}

/// What of the owner's words licenses a source to do more than inform: all of them, or nothing where they ask to
/// keep what it says and do not say what. "Read the page and note it" allows no new account to pay to; "save their
/// new account" does.
pub fn licence(asked: &str) -> &str {
  let words = read(asked);
  let kind = builtin().asked_kind;
  let is_vague = words.iter().any(|word| is_keep(word, &words))
    && !words.iter().any(|word| word.class == kind && !is_keep(word, &words));
  if is_vague { "" } else { asked }
}

fn read(asked: &str) -> Vec<WordMatch> {
  let mut end = asked.len().min(MAX_ASKED);
  while !asked.is_char_boundary(end) {
    end -= 1;
  }
  builtin().lexicon.scan(asked.get(..end).unwrap_or_default())
}

/// Whether a word asks to keep. "Is the note ready?" asks for a note, and "the saved one" says which.
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
