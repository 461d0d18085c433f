//! Comments in fresh text that claim to be memfw's.
#![forbid(unsafe_code)]

use std::{borrow::Cow, ops::Range};

use super::facts::is_code;
use crate::{
  detect::{Code, Finding, Layer, RuleKind, Severity},
  memory::{Block, BlockId, marker},
};

/// Markers that were there before memfw are those of another installation: one finding a file, and
/// no evidence of anything.
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

/// The text with lines that have the very form of a marker blanked, and where they are. Such a line
/// says nothing but who wrote what, and that is a lie to be neutralised and not an order to be sealed;
/// one with fields of its own is text like any other.
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

/// The lines that say nothing but that they are markers, in a list or a quotation as well, and those that said
/// so until they were neutralised.
pub(super) fn claims(bytes: &[u8]) -> impl Iterator<Item = Range<usize>> + '_ {
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
    why: format!("what stands under the marker `{marker}` was changed"),
    rule: None,
  }
}
