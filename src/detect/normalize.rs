//! Views of a text: unchanged, as it reads, what it hides, what it encodes.
//!
//! The raw view always comes first and always exists. Every other view maps back to it, and it maps
//! back to the input bytes. Time is linear in the input; the number of views is bounded.
#![forbid(unsafe_code)]

mod alphabets;
mod ansi;
mod cipher;
mod decode;
mod division;
mod encoded;
mod fold;
mod glyphs;
mod html;
mod invisible;
mod joined;
mod language;
mod leet;
mod numbers;
mod obfuscation;
mod pairs;
mod pieces;
mod script;
mod shape;
mod spaced_letters;
mod spelled;
mod strings;
mod undone;
mod unpack;
mod view;
mod words;

#[cfg(test)]
mod tests;

use std::{borrow::Cow, ops::Range};

use undone::Worth;
pub use view::{Map, View, ViewKind};

use super::{Code, Finding, Layer, RuleKind, Severity};

/// Hidden texts that get a view of their own, at most; what is beyond is judged in the raw view.
const MAX_HIDDEN: usize = 512;
/// How often decoded text is looked through for encoded text again.
const MAX_DEPTH: usize = 2;
/// Views of one text, at most. What is beyond is a finding, because a text may choose what comes first.
const MAX_VIEWS: usize = 1024;
/// Hidden texts shorter than this many bytes instruct nobody.
const MIN_HIDDEN: usize = 8;

/// Everything that the normaliser makes of a text.
#[derive(Debug)]
pub struct Normalized<'a> {
  /// The views, raw first.
  pub views: Vec<View<'a>>,
  /// What it saw itself. Spans are in bytes of the input.
  pub findings: Vec<Finding>,
  /// From the raw view to the bytes of the input.
  pub raw: Map,
}

/// Makes the views of `bytes`.
pub fn normalize(bytes: &[u8]) -> Normalized<'_> {
  let (raw, raw_map) = view::lossy(bytes);
  let mut out = Normalized { views: Vec::with_capacity(2), findings: Vec::new(), raw: raw_map };
  let text: &str = &raw;
  let mut hidden = Vec::new();
  let mut disguised = Vec::new();
  if !text.is_ascii() {
    disguised = unicode_findings(&mut out, text, &mut hidden);
  }
  let mut rest = Vec::new();
  if !fold::is_plain(text) {
    fold_into(&mut out, text, &disguised, &mut hidden, &mut rest);
  }
  let (mut says, mut is_cut) = encoded::passages(text);
  if let Some(folded) = rest.first().filter(|_| !text.is_ascii() || text.contains('&')) {
    // Signs between the letters, or in place of them, are removed there.
    let (read, is_cut_there) = encoded::passages(&folded.text);
    is_cut |= is_cut_there;
    let read =
      read.into_iter().map(|one| encoded::Passage { span: folded.map.span(&one.span), ..one });
    let new: Vec<_> = read.filter(|one| says.iter().all(|known| known.text != one.text)).collect();
    says.extend(new);
    if is_written_twice(text, &folded.text) && fold::folded(&folded.text) != folded.text {
      let why = "characters are written as others that are written as others in turn";
      let worth = Worth::Encoded(Severity::Low);
      let (span, text) = (0..text.len(), folded.text.to_string());
      says.push(encoded::Passage { span, text, why, worth });
    }
  }
  for one in says {
    is_cut |= decoded_into(&mut out, one, MAX_DEPTH, &mut rest);
  }
  for part in hidden.into_iter().take(MAX_HIDDEN) {
    let (says, is_cut_there) = encoded::passages(&part.text);
    is_cut |= is_cut_there;
    for one in says {
      let one = encoded::Passage { span: part.within.clone(), ..one };
      is_cut |= decoded_into(&mut out, one, MAX_DEPTH, &mut rest);
    }
    rest.push(View { kind: ViewKind::Hidden, text: Cow::Owned(part.text), map: part.map });
  }
  if is_cut {
    let why = "more is encoded or disguised than what is read";
    out.note(Code::TextTooLarge, Severity::Medium, RuleKind::Trigger, 0..text.len(), why);
  }
  out.views.push(View { kind: ViewKind::Raw, text: raw, map: Map::Shift(0) });
  out.views.append(&mut rest);
  out
}

/// Whether entities, or letters of full width, may be meant as entities or markup. Chinese and Japanese use
/// signs of full width, and now and then a letter.
fn is_written_twice(text: &str, folded: &str) -> bool {
  let wide = |c: &char| matches!(c, '\u{ff10}'..='\u{ff19}' | '\u{ff21}'..='\u{ff3a}' | '\u{ff41}'..='\u{ff5a}');
  text.contains("&#") || folded.contains("&#") || text.chars().filter(wide).nth(7).is_some()
}

/// A text that a reader does not see.
struct HiddenText {
  text: String,
  map: Map,
  within: Range<usize>,
}

fn unicode_findings(
  out: &mut Normalized<'_>,
  text: &str,
  hidden: &mut Vec<HiddenText>,
) -> Vec<Range<usize>> {
  let smuggled = invisible::smuggled(text);
  let many = smuggled.zero_width.len() >= 3;
  for span in smuggled.zero_width {
    let severity = if many { Severity::Medium } else { Severity::Low };
    out.note(
      Code::ZeroWidth,
      severity,
      RuleKind::Trigger,
      span,
      "characters without width are inside words",
    );
  }
  for span in smuggled.bidi {
    out.note(
      Code::BidiControl,
      Severity::Medium,
      RuleKind::Trigger,
      span,
      "directional controls show the text in another order than it is read",
    );
  }
  for (spelled, span) in smuggled.spelled {
    let spells = spelled.chars().filter(|c| c.is_alphabetic()).count() >= 4;
    let (severity, kind) = if spells {
      (Severity::High, RuleKind::Signature)
    } else {
      (Severity::Medium, RuleKind::Trigger)
    };
    out.note(
      Code::TagCharacters,
      severity,
      kind,
      span.clone(),
      "text is spelled in characters without a glyph",
    );
    hidden.push(HiddenText { text: spelled, map: Map::Whole(span.clone()), within: span });
  }
  if let Some(span) = glyphs::pictures(text) {
    let why = "words are spelled with pictures of letters";
    out.note(Code::DisguisedText, Severity::Info, RuleKind::Trigger, span, why);
  }
  let disguised = script::disguised(text, |c| invisible::classify(c).is_some()).words;
  for span in disguised.iter().take(64) {
    out.note(
      Code::MixedScript,
      Severity::Medium,
      RuleKind::Trigger,
      span.clone(),
      "a word is spelled with look-alike letters of another script",
    );
  }
  disguised
}

fn fold_into<'a>(
  out: &mut Normalized<'a>,
  text: &str,
  disguised: &[Range<usize>],
  hidden: &mut Vec<HiddenText>,
  rest: &mut Vec<View<'a>>,
) {
  let folded = fold::fold(text, 0, disguised);
  for (span, effect) in folded.escapes {
    let (severity, why) = match effect {
      ansi::Effect::Colour => (Severity::Low, "the text contains terminal colour codes"),
      ansi::Effect::Control => {
        (Severity::Medium, "terminal control sequences change what a reader sees")
      }
    };
    out.note(Code::AnsiEscape, severity, RuleKind::Trigger, span, why);
  }
  for span in folded.concealed {
    out.note(
      Code::HiddenCss,
      Severity::Medium,
      RuleKind::Trigger,
      span.clone(),
      "an element is styled so that nobody sees its text",
    );
    push_hidden(text, span, hidden);
  }
  for span in folded.comments {
    push_hidden(text, span, hidden);
  }
  rest.push(View { kind: ViewKind::Folded, text: Cow::Owned(folded.text), map: folded.map });
}

fn push_hidden(text: &str, span: Range<usize>, hidden: &mut Vec<HiddenText>) {
  if span.len() < MIN_HIDDEN || hidden.len() >= MAX_HIDDEN {
    return;
  }
  let Some(part) = text.get(span.clone()) else { return };
  let folded = fold::fold_alone(part, span.start);
  hidden.push(HiddenText { text: folded.text, map: folded.map, within: span });
}

/// Adds a view of what a passage says, and of what is hidden or encoded in that in turn; returns whether there
/// is more than that.
fn decoded_into(
  out: &mut Normalized<'_>,
  passage: encoded::Passage,
  depth: usize,
  rest: &mut Vec<View<'_>>,
) -> bool {
  let encoded::Passage { span, text, why, worth } = passage;
  let kind = match worth {
    Worth::Encoded(severity) => {
      out.note(Code::EncodedText, severity, RuleKind::Trigger, span.clone(), why);
      ViewKind::Decoded
    }
    Worth::Disguised => {
      out.note(Code::DisguisedText, Severity::Info, RuleKind::Trigger, span.clone(), why);
      ViewKind::Decoded
    }
    Worth::Nothing => ViewKind::Joined,
  };
  let readings = if kind == ViewKind::Joined { vec![text] } else { encoded::readings(&text) };
  let mut is_cut = false;
  for text in readings {
    if rest.len() >= MAX_VIEWS {
      return true;
    }
    // Nearly every text has words side by side.
    if depth > 1 && kind == ViewKind::Decoded {
      let (says, is_cut_there) = encoded::passages(&text);
      is_cut |= is_cut_there;
      for one in says {
        let one = encoded::Passage { span: span.clone(), ..one };
        is_cut |= decoded_into(out, one, depth - 1, rest);
      }
    }
    rest.push(View { kind, text: Cow::Owned(text), map: Map::Whole(span.clone()) });
  }
  is_cut
}

impl Normalized<'_> {
  fn note(
    &mut self,
    code: Code,
    severity: Severity,
    kind: RuleKind,
    span: Range<usize>,
    why: &str,
  ) {
    let span = self.raw.span(&span);
    self.findings.push(Finding {
      code,
      layer: Layer::Rules,
      severity,
      kind,
      span,
      why: why.to_owned(),
      rule: None,
    });
  }
}
