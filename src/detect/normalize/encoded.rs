//! What a text says in another form: encoded words and words in disguise, and all that can be read in
//! what comes out.
#![forbid(unsafe_code)]

use std::ops::Range;

use super::{decode, disguise, fold, invisible};

/// A passage that says something else than it shows.
pub(super) struct Passage {
  /// Where it stands.
  pub span: Range<usize>,
  /// What it says.
  pub text: String,
  /// What a finding says about it.
  pub why: &'static str,
}

/// All such passages of `text`.
pub(super) fn passages(text: &str) -> Vec<Passage> {
  let decoded = decode::decoded(text).into_iter().map(|word| Passage {
    span: word.span,
    text: word.text,
    why: "an encoded word decodes to language",
  });
  let undone = disguise::undone(text).into_iter().map(|one| Passage {
    span: one.span,
    text: one.text,
    why: one.how.why(),
  });
  decoded.chain(undone).collect()
}

/// How a decoded text reads: folded, what is spelled in it without a glyph, and as it stands where a fold
/// would lose the gaps between its words.
pub(super) fn readings(text: &str) -> Vec<String> {
  let first = folded(text);
  let mut readings = Vec::with_capacity(4);
  if !fold::is_plain(text) {
    let spelled = invisible::smuggled(text).spelled.into_iter().map(|(spelled, _)| spelled);
    readings.extend(spelled);
    // Entities may spell entities.
    readings.extend([folded(&first), text.to_owned()]);
  }
  readings.insert(0, first);
  readings.dedup();
  readings
}

/// The folded view of a text without the way back.
pub(super) fn folded(text: &str) -> String {
  fold::fold_alone(text, 0).text
}
