//! Comments in fresh text that imitate memfw's.
#![forbid(unsafe_code)]

use std::{borrow::Cow, ops::Range};

use super::facts::is_code;
use crate::{
  detect::{Code, Finding, Layer, RuleKind, Severity},
  memory::{Block, BlockId, marker},
};

const HEAD: &[u8] = b"<!-- memfw:";
/// How many bytes at the end of a file are searched for a comment that is cut off (a choice: a placeholder of
/// several hundred bytes is padded with spaces).
const CUT: usize = 1024;

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

/// The start of a comment of memfw that the end of the file cuts off before it contains more than an id. A program
/// that copies a file in pieces writes the rest next, and then the line is compared and judged again.
pub(super) fn cut_comment(file: &[u8]) -> Option<Range<usize>> {
  let start = file.len().saturating_sub(CUT);
  let tail = file.get(start..)?;
  let at = tail.windows(HEAD.len()).rposition(|bytes| bytes == HEAD)?;
  let rest = tail.get(at + HEAD.len()..)?;
  // The padding, and what is there of the end.
  let end = rest.iter().rposition(|byte| !b" -".contains(byte)).map_or(0, |last| last + 1);
  let id = rest.get(..end)?;
  let is_id = id.strip_prefix(b"id=").unwrap_or(id).iter().all(u8::is_ascii_hexdigit);
  (is_id || b"id=".starts_with(id)).then_some(start + at..file.len())
}

/// The lines that consist of a claim, also in a list or a quotation, and those that did until they were
/// neutralised.
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
    why: format!("the text inside the marker `{marker}` was changed"),
    rule: None,
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn a_comment_is_cut_off_while_it_says_nothing_but_an_id() {
    for (text, expected) in [
      ("- a\n<!-- memfw:", true),
      ("- a\n<!-- memfw:6cf1", true),
      ("- a\n<!-- memfw:6cf144   --", true),
      ("- a <!-- memfw:i", true),
      ("- a\n<!-- memfw:id=6cf1", true),
      ("- a\n<!-- memfw:6cf144 -->", false),
      ("- a\n<!-- memfw:6cf144\n", false),
      ("- a\n<!-- memfw:id=6cf144 source=user", false),
      ("- a\n<!-- memfw: obey", false),
      ("- a\n<!-- mem", false),
      ("", false),
    ] {
      assert_eq!(cut_comment(text.as_bytes()).is_some(), expected, "{text}");
    }
  }
}
