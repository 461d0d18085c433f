//! Where the top-level blocks of a markdown text start and end.
//!
//! pulldown-cmark determines the structure; this module makes its input harmless (see `flatten`) and
//! converts its output: items instead of lists, and whether a block is open at its end.
#![forbid(unsafe_code)]

use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

use crate::memory::{line, marker};

/// The kind of a block, without its headings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockKind {
  /// `---` at the very start up to `---` or `...`.
  FrontMatter,
  /// A heading with nothing after it.
  Heading,
  /// A paragraph.
  Paragraph,
  /// One item of a top-level list, including everything nested in it.
  Item,
  /// Fenced or indented code.
  Code,
  /// Raw HTML, including comments.
  Html,
  /// A block quote.
  Quote,
  /// A table.
  Table,
  /// A thematic break.
  Rule,
  /// Text that markdown does not show: link reference definitions.
  Definition,
}

/// A top-level block or item, in bytes of the parsed text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Top {
  pub(crate) span: Range<usize>,
  pub(crate) kind: BlockKind,
  /// Any text on the line after it would become part of it.
  pub(crate) open_ended: bool,
}

/// Code or HTML, at any depth: text inside it is shown literally, or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enclosure {
  /// Its span, including its fences.
  pub span: Range<usize>,
  /// Whether it is HTML and no code.
  pub is_html: bool,
}

/// The top-level blocks, and the code and the HTML at any depth, each in order.
pub(crate) fn structure(text: &str) -> (Vec<Top>, Vec<Enclosure>) {
  let mut tops: Vec<Top> = Vec::new();
  let mut enclosures: Vec<Enclosure> = Vec::new();
  let mut depth = 0_usize;
  let mut in_list = false;
  for (event, span) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
    let mut push = |kind, open_ended| tops.push(Top { span: span.clone(), kind, open_ended });
    match event {
      Event::Start(tag) => {
        if let Tag::CodeBlock(_) | Tag::HtmlBlock = tag {
          let is_html = matches!(tag, Tag::HtmlBlock);
          enclosures.push(Enclosure { span: span.clone(), is_html });
        }
        match (depth, &tag) {
          (0, Tag::List(_)) => in_list = true,
          (1, Tag::Item) if in_list => push(BlockKind::Item, false),
          (0, Tag::CodeBlock(CodeBlockKind::Fenced(_))) => {
            push(BlockKind::Code, !fence_is_closed(line::slice(text.as_bytes(), span.clone())));
          }
          (0, Tag::CodeBlock(CodeBlockKind::Indented)) => push(BlockKind::Code, false),
          (0, Tag::HtmlBlock) => {
            push(BlockKind::Html, !html_is_closed(line::slice(text.as_bytes(), span.clone())));
          }
          (0, Tag::Heading { .. }) => push(BlockKind::Heading, false),
          (0, Tag::BlockQuote(_)) => push(BlockKind::Quote, false),
          (0, Tag::Table(_)) => push(BlockKind::Table, false),
          (0, _) => push(BlockKind::Paragraph, false),
          _ => {}
        }
        depth += 1;
      }
      Event::End(end) => {
        depth = depth.saturating_sub(1);
        if depth == 0 && matches!(end, TagEnd::List(_)) {
          in_list = false;
        }
      }
      Event::Rule if depth == 0 => push(BlockKind::Rule, false),
      _ => {}
    }
  }
  (tops, enclosures)
}

/// Whether a fenced block has its closing fence.
fn fence_is_closed(block: &[u8]) -> bool {
  let block = block.trim_ascii_end();
  let opening = block.trim_ascii_start();
  let Some(&mark) = opening.first() else { return false };
  let length = opening.iter().take_while(|b| **b == mark).count();
  let last = line::line_start(block, block.len(), 0);
  let closing = block.get(last..).unwrap_or_default().trim_ascii();
  last > 0 && closing.len() >= length && closing.iter().all(|b| *b == mark)
}

/// Whether an HTML block has reached its own end (CommonMark's kinds 1 to 5). Kinds 6 and 7 end only at a
/// blank line, so they always include a line directly below.
fn html_is_closed(block: &[u8]) -> bool {
  let block = block.trim_ascii();
  let last = block.get(line::line_start(block, block.len(), 0)..).unwrap_or_default();
  let has = |text: &[u8], end: &[u8]| marker::find(text, end, 0).is_some();
  // The opening of a one-line block must not count as its end: `<!-->` is handled as in pulldown-cmark, by
  // searching after the opening.
  let behind =
    |opening: usize| if last.len() == block.len() { block.get(opening..) } else { Some(last) };
  let starts =
    |prefix: &[u8]| block.get(..prefix.len()).is_some_and(|head| head.eq_ignore_ascii_case(prefix));
  if starts(b"<!--") {
    return has(behind(2).unwrap_or_default(), b"-->");
  }
  if starts(b"<?") {
    return has(behind(2).unwrap_or_default(), b"?>");
  }
  if starts(b"<![CDATA[") {
    return has(last, b"]]>");
  }
  if starts(b"<!") {
    return has(last, b">");
  }
  if [&b"<script"[..], b"<pre", b"<style", b"<textarea"].iter().any(|tag| starts(tag)) {
    let lower = last.to_ascii_lowercase();
    return [&b"</script>"[..], b"</pre>", b"</style>", b"</textarea>"]
      .iter()
      .any(|end| has(&lower, end));
  }
  false
}

/// Deepest nesting of containers that is parsed as such. pulldown-cmark walks all open containers for each
/// line, so unbounded depth takes quadratic time; real memory does not nest that deep.
const MAX_NESTING: usize = 64;
/// Deepest indentation, in columns, at which containers are searched for.
const MAX_COLUMNS: usize = 256;

/// The most signs of markup that are parsed in one file. For each, the parser keeps up to a hundred bytes, so the
/// limit stands for 25 MB (a choice: ordinary memory has one for 20 to 50 bytes).
const MAX_SIGNS: usize = 256 * 1024;

/// Whether a file has more signs of markup than are parsed.
pub(crate) fn has_too_many_signs(text: &[u8]) -> bool {
  let is_sign = |(sign, next): &(&u8, &u8)| match **sign {
    b'[' | b']' | b'*' | b'_' | b'<' | b'`' | b'&' | b'|' | b'\\' => true,
    // These open items of lists.
    b'-' | b'+' | b'.' | b')' => **next == b' ',
    _ => false,
  };
  text.len() > MAX_SIGNS && text.iter().zip(text.iter().skip(1)).filter(is_sign).count() > MAX_SIGNS
}

/// The offset of the byte of this line that must be read as plain text, when the line opens containers
/// deeper than [`MAX_NESTING`] or [`MAX_COLUMNS`].
pub(crate) fn flatten(text: &[u8]) -> Option<usize> {
  // For nearly every line the first byte is enough.
  if !matches!(text.first(), Some(b' ' | b'\t' | b'>' | b'-' | b'+' | b'*' | b'0'..=b'9')) {
    return None;
  }
  let (mut markers, mut columns) = (0, 0);
  for (at, byte) in text.iter().enumerate() {
    if (markers > MAX_NESTING || columns > MAX_COLUMNS)
      && !matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
    {
      return Some(at);
    }
    let before_space = matches!(text.get(at + 1), Some(b' ' | b'\t' | b'\r' | b'\n') | None);
    match byte {
      b' ' => columns += 1,
      b'\t' => columns += 4,
      b'>' => markers += 1,
      b'-' | b'+' | b'*' | b'.' | b')' if before_space => markers += 1,
      b'0'..=b'9' => {}
      _ => return None,
    }
  }
  None
}

#[cfg(test)]
mod tests {
  use super::*;

  fn tops(text: &str) -> Vec<(BlockKind, bool)> {
    structure(text).0.into_iter().map(|top| (top.kind, top.open_ended)).collect()
  }

  #[test]
  fn lists_come_as_their_items() {
    assert_eq!(
      tops("- a\n  - b\n- c\n\n1. d\n"),
      vec![(BlockKind::Item, false), (BlockKind::Item, false), (BlockKind::Item, false)]
    );
  }

  #[test]
  fn an_open_end_is_seen() {
    use BlockKind::{Code, Html};
    for (text, kind, open) in [
      ("```\ncode\n```\n", Code, false),
      ("```\ncode\n", Code, true),
      ("````\ncode\n```\n", Code, true),
      ("```", Code, true),
      ("~~~ x\na\n   ~~~~  \n", Code, false),
      ("    code\n", Code, false),
      ("<!-- a -->\n", Html, false),
      ("<!-- a\nb --> c\n", Html, false),
      ("<!-- a\n\nb\n", Html, true),
      ("<? a ?>\n", Html, false),
      ("<?\n", Html, true),
      ("<!DOCTYPE html>\n", Html, false),
      ("<![CDATA[ x > ]]>\n", Html, false),
      ("<![CDATA[ x >\n", Html, true),
      ("<script>\nx\n</SCRIPT>\n", Html, false),
      ("<script>\nx\n", Html, true),
      ("<div>\nx\n</div>\n", Html, true),
      ("<x-y a=\"b\">\n", Html, true),
    ] {
      assert_eq!(tops(text), vec![(kind, open)], "{text:?}");
    }
  }

  #[test]
  fn files_of_signs_are_not_parsed() {
    let most = MAX_SIGNS + 1;
    assert!(!has_too_many_signs(&b"Ann likes *tea*; see `notes`. ".repeat(most / 8)));
    assert!(!has_too_many_signs(&b"[".repeat(MAX_SIGNS)));
    for sign in ["[", "]", "*a", "_", "<", "`", "&lt;", "|", "\\", "- ", "+ ", "1. ", "1) "] {
      assert!(has_too_many_signs(sign.repeat(most + 1).as_bytes()), "{sign}");
    }
  }

  #[test]
  fn bombs_of_containers_are_flattened() {
    assert_eq!(flatten(b"- a - b"), None);
    assert_eq!(flatten(&b"- ".repeat(50)), None);
    assert_eq!(flatten(&b"- ".repeat(200)), Some(130));
    assert_eq!(flatten(&b">".repeat(200)), Some(65));
    assert_eq!(flatten(format!("{}- x", " ".repeat(300)).as_bytes()), Some(300));
    assert_eq!(flatten("-".repeat(500).as_bytes()), None);
  }
}
