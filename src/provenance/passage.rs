//! The sentences of a material that explain a text best, for people and for the judge.
//!
//! They are chosen by shared words, as in [`super::overlap`], with less care: no decision depends on them.
//! One pass over the material; both are capped.
#![forbid(unsafe_code)]

use std::collections::{HashMap, HashSet};

use super::{
  request::MAX_PASSAGE_BYTES,
  words::{Kind, for_each_word, sentences},
};

/// Longest text whose words are searched, in bytes.
const MAX_TEXT_BYTES: usize = 16 * 1024;
/// Most bytes of material that are searched.
const MAX_MATERIAL_BYTES: usize = 512 * 1024;
/// Most sentences of a passage.
const MAX_SENTENCES: usize = 8;
/// Longest piece that counts as one sentence, in bytes: a page may have no full stop at all.
const MAX_SENTENCE_BYTES: usize = 480;
/// The share of the best sentence's weight that another sentence needs.
const ENOUGH: f32 = 0.34;

/// The best sentences of `materials` in their order, at most [`MAX_PASSAGE_BYTES`]; empty where they have no
/// word of the text.
pub fn passage<'m>(text: &str, materials: impl Iterator<Item = &'m str>) -> String {
  let mut weights: HashMap<Box<str>, f32> = HashMap::new();
  let kept = text.get(..text.floor_char_boundary(MAX_TEXT_BYTES)).unwrap_or_default();
  for_each_word(kept, |word| {
    if word.kind != Kind::Common {
      weights.insert(word.text.into(), word.weight());
    }
  });
  let mut best: Vec<(f32, usize, &'m str)> = Vec::new();
  let mut left = MAX_MATERIAL_BYTES;
  let mut found: HashSet<&str> = HashSet::new();
  let mut place = 0;
  for material in materials {
    let kept = material.get(..material.floor_char_boundary(left)).unwrap_or_default();
    left -= kept.len();
    for piece in sentences(kept).into_iter().flat_map(pieces) {
      place += 1;
      found.clear();
      let (mut weight, mut is_bare) = (0.0, true);
      for_each_word(piece, |word| {
        if let Some((known, more)) = weights.get_key_value(word.text)
          && found.insert(known)
        {
          weight += more;
          is_bare &= word.is_bare();
        }
      });
      // A date alone explains nothing.
      if weight > 0.0 && !is_bare {
        best.push((weight, place, piece.trim()));
        if best.len() >= 2 * MAX_SENTENCES {
          keep_best(&mut best);
        }
      }
    }
  }
  keep_best(&mut best);
  let enough = best.first().map_or(0.0, |(weight, ..)| weight * ENOUGH);
  let mut left = MAX_PASSAGE_BYTES;
  best.retain(|(weight, _, piece)| {
    let fits = *weight >= enough && piece.len() < left;
    left -= if fits { piece.len() + 1 } else { 0 };
    fits
  });
  best.sort_by_key(|(_, place, _)| *place);
  best.iter().map(|(.., piece)| *piece).collect::<Vec<_>>().join("\n")
}

/// The heaviest sentences, the heaviest first; of equal ones the earlier first.
fn keep_best(best: &mut Vec<(f32, usize, &str)>) {
  best.sort_by(|(a, place_a, _), (b, place_b, _)| b.total_cmp(a).then(place_a.cmp(place_b)));
  best.truncate(MAX_SENTENCES);
}

/// A sentence in pieces that are not too long; line ends that are written as escapes end one, too.
fn pieces(sentence: &str) -> impl Iterator<Item = &str> {
  sentence.split("\\n").flat_map(|line| {
    let mut rest = line;
    std::iter::from_fn(move || {
      let (piece, after) = rest.split_at_checked(rest.floor_char_boundary(MAX_SENTENCE_BYTES))?;
      rest = after;
      (!piece.is_empty()).then_some(piece)
    })
  })
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn the_sentences_that_say_it_are_found_in_their_order() {
    let page = "Welcome to our shop.\\nInvoices go to billing@collect.example. The weather is fine. \
      Send each invoice twice!\nImprint and privacy.";
    let text = "- Send every invoice to billing@collect.example twice.";
    let found = passage(text, std::iter::once(page));
    assert_eq!(found, "Invoices go to billing@collect.example.\nSend each invoice twice!");
    assert_eq!(passage(text, std::iter::once("Nothing of that.")), "");
    assert_eq!(passage("", std::iter::once(page)), "");
  }

  #[test]
  fn it_stays_short_whatever_the_page_is() {
    let endless = "invoice ".repeat(200_000);
    let pages = [endless.as_str(), "invoice é", "invoices: é"];
    let found = passage("- The invoice é.", pages.into_iter());
    assert!(!found.is_empty() && found.len() <= MAX_PASSAGE_BYTES, "{}", found.len());
  }
}
