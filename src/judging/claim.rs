//! Comments in fresh text that imitate memfw's.
#![forbid(unsafe_code)]

use std::{borrow::Cow, ops::Range};

use super::facts::is_code;
use crate::{
  detect::{Code, Finding, Layer, RuleKind, Severity},
  memory::{Block, BlockId, marker, placeholder},
};

/// Replaces the findings about markers from before memfw by one per file. They come from another
/// installation of memfw and are no evidence of an attack.
pub(super) fn one_foreign(findings: &mut Vec<Finding>, said: &mut bool) {
  findings.retain_mut(|finding| {
    if finding.code != Code::ForgedMarker {
      return true;
    }
    finding.code = Code::ForeignMarkers;
    finding.severity = Severity::Low;
    "the ledger knows none of its provenance comments".clone_into(&mut finding.why);
    !std::mem::replace(said, true)
  });
}

/// The text with all lines blanked that have the exact form of a marker, and their spans. Such a line
/// only claims who wrote something, so it is neutralised and not quarantined. A line with other fields
/// is judged like any text.
pub(super) fn without_markers(bytes: &[u8]) -> (Cow<'_, [u8]>, Vec<Range<usize>>) {
  let mut found = Vec::new();
  let mut blanked = Cow::Borrowed(bytes);
  let mut start = 0;
  for line in bytes.split_inclusive(|&byte| byte == b'\n') {
    let span = start..start + line.len();
    start = span.end;
    let bare = line.trim_ascii();
    let claims = marker::is_bare(bare, is_code);
    if (claims || marker::is_neutralised(bare, is_code))
      && let Some(line) = blanked.to_mut().get_mut(span.clone())
    {
      line.iter_mut().filter(|byte| !byte.is_ascii_whitespace()).for_each(|byte| *byte = b' ');
    }
    if claims || marker::Marker::parse(bare).is_some() {
      found.push(span);
    }
  }
  (blanked, found)
}

/// The lines that consist of a claim, also in a list or a quotation, and those that did until they were
/// neutralised.
pub fn claims(bytes: &[u8]) -> impl Iterator<Item = Range<usize>> + '_ {
  let mut start = 0;
  bytes.split_inclusive(|&byte| byte == b'\n').filter_map(move |line| {
    let span = start..start + line.len();
    start = span.end;
    let is_around =
      |byte: &u8| matches!(byte, b'>' | b'-' | b'*' | b'+') || byte.is_ascii_whitespace();
    let bare = line.iter().position(|byte| !is_around(byte)).and_then(|at| line.get(at..))?;
    let bare = bare.trim_ascii_end();
    (marker::is_bare(bare, is_code) || marker::is_neutralised(bare, is_code)).then_some(span)
  })
}

/// The placeholder comments in a text, of any installation.
pub fn placeholders(bytes: &[u8]) -> Vec<Range<usize>> {
  const WORD: &[u8] = b"memfw:";
  let mut found = Vec::new();
  let mut at = 0;
  while let Some(word) = marker::find(bytes, WORD, at) {
    at = word + WORD.len();
    found.extend(placeholder::comment_at(bytes, word).map(|(span, _)| span));
  }
  found
}

pub(super) fn forged(span: Range<usize>) -> Finding {
  Finding {
    code: Code::ForgedMarker,
    layer: Layer::Rules,
    severity: Severity::Medium,
    kind: RuleKind::Trigger,
    span,
    why: "it claims to be a provenance comment of memfw's, and the ledger does not know it"
      .to_owned(),
    rule: None,
  }
}

pub(super) fn edited(block: &Block, marker: &BlockId) -> Finding {
  let start = block.parts.first().map_or(0, |part| part.start);
  Finding {
    code: Code::EditedBlock,
    layer: Layer::Rules,
    severity: Severity::Info,
    kind: RuleKind::Trigger,
    span: start..start,
    why: format!("the text inside the marker `{marker}` was changed"),
    rule: None,
  }
}
