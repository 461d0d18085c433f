//! What introduces a text: a heading above it, or an introducing line; and whether a line is continued by
//! the next one.
#![forbid(unsafe_code)]

use super::{LineHash, line::line_hash};

/// The rank of a heading that begins with `#`.
pub(crate) fn rank_of(text: &[u8]) -> Option<usize> {
  let rank = text.iter().take_while(|&&byte| byte == b'#').count();
  (rank > 0).then_some(rank)
}

/// The rank of a heading that is underlined with this character.
pub(crate) fn underline(text: &[u8]) -> Option<usize> {
  match text.first() {
    Some(b'=') if text.iter().all(|&byte| byte == b'=') => Some(1),
    Some(b'-') if text.iter().all(|&byte| byte == b'-') => Some(2),
    _ => None,
  }
}

/// How a block of HTML introduces the text after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HtmlLead {
  /// The rank of the highest heading in it.
  pub(crate) rank: Option<usize>,
  /// Whether it contains the title of a foldable element.
  pub(crate) has_title: bool,
  /// How many foldable elements begin in it, and end.
  pub(crate) opened: usize,
  pub(crate) closed: usize,
}

impl HtmlLead {
  pub(crate) fn of(html: &[u8]) -> Self {
    let mut lead = Self::default();
    for tag in html.split(|&byte| byte == b'<').skip(1) {
      let end = tag.iter().position(|byte| !byte.is_ascii_alphanumeric() && *byte != b'/');
      let name = tag.get(..end.unwrap_or(tag.len())).unwrap_or_default().to_ascii_lowercase();
      match &name[..] {
        [b'h', rank @ b'1'..=b'6'] => {
          let rank = usize::from(rank - b'0');
          lead.rank = Some(lead.rank.map_or(rank, |highest| highest.min(rank)));
        }
        b"summary" => lead.has_title = true,
        b"details" => lead.opened += 1,
        b"/details" => lead.closed += 1,
        _ => {}
      }
    }
    lead
  }
}

/// The most elements that are open at one place (a choice: no person nests deeper by hand).
const MAX_OPEN: usize = 64;

/// Elements that change the meaning of their content. Foldable elements are covered by their title instead,
/// and elements whose end is optional would be open up to the end of the file.
const HOLDING: [&[u8]; 18] = [
  b"article",
  b"aside",
  b"blockquote",
  b"center",
  b"del",
  b"dialog",
  b"div",
  b"fieldset",
  b"figure",
  b"footer",
  b"header",
  b"ins",
  b"noscript",
  b"q",
  b"s",
  b"section",
  b"strike",
  b"template",
];

/// The elements of HTML that are open at a place, the outermost first, each with the hash of its tag.
#[derive(Debug, Default)]
pub(crate) struct OpenElements(Vec<(&'static [u8], [u8; LineHash::SHORT])>);

impl OpenElements {
  /// Reads the next line of HTML.
  pub(crate) fn read(&mut self, html: &[u8]) {
    for tag in html.split(|&byte| byte == b'<').skip(1) {
      let tag = tag.split(|&byte| byte == b'>').next().unwrap_or_default();
      let (ends, tag) = tag.strip_prefix(b"/").map_or((false, tag), |tag| (true, tag));
      let end = tag.iter().position(|byte| !byte.is_ascii_alphanumeric()).unwrap_or(tag.len());
      let name = tag.get(..end).unwrap_or_default();
      let Some(&name) = HOLDING.iter().find(|one| name.eq_ignore_ascii_case(one)) else { continue };
      if !ends {
        if self.0.len() < MAX_OPEN {
          self.0.push((name, line_hash(tag).short()));
        }
      } else if let Some(at) = self.0.iter().rposition(|(open, _)| *open == name) {
        self.0.truncate(at);
      }
    }
  }

  /// The hashes of the tags.
  pub(crate) fn into_hashes(self) -> impl Iterator<Item = [u8; LineHash::SHORT]> {
    self.0.into_iter().map(|(_, hash)| hash)
  }
}

/// Whether a line above a list may be its title: no sign ends a sentence in it.
pub(crate) fn is_title(text: &[u8]) -> bool {
  let text = unclosed(text);
  let ends = matches!(text.last(), None | Some(b'.' | b'!' | b'?' | b';' | b','));
  !ends && !["。", "！", "？", "।", "؟", "…"].iter().any(|sign| text.ends_with(sign.as_bytes()))
}

/// A text without the emphasis, quotes and brackets that close at its end.
fn unclosed(text: &[u8]) -> &[u8] {
  let is_closing = |byte: &u8| byte.is_ascii_whitespace() || b"*_`~\"')]}>".contains(byte);
  let end = text.iter().rposition(|byte| !is_closing(byte)).map_or(0, |at| at + 1);
  text.get(..end).unwrap_or_default()
}

/// Whether a text ends with a sign after which its sentence continues.
pub(crate) fn goes_on(text: &[u8]) -> bool {
  let text = unclosed(text);
  matches!(text.last(), Some(b',' | b':' | b';' | b'-'))
    || ["、", "，", "：", "；", "–", "—"].iter().any(|sign| text.ends_with(sign.as_bytes()))
}

/// Whether a line introduces the following text: it ends with a colon, possibly followed by other signs, or
/// is emphasised as a whole.
pub(crate) fn introduces(text: &[u8]) -> bool {
  // Nearly every line has none of these signs, so the rest of the check is rarely needed.
  if !text.iter().any(|byte| b":*_<".contains(byte) || !byte.is_ascii()) {
    return false;
  }
  let text: String = text.utf8_chunks().map(|chunk| chunk.valid()).collect();
  let said = said(&text);
  let line = without_note(said.trim());
  let Some((at, last)) = line.char_indices().rfind(|(_, c)| c.is_alphanumeric()) else {
    return false;
  };
  let signs = line.get(at + last.len_utf8()..).unwrap_or_default();
  let is_set = |mark: &str| {
    line.strip_prefix(mark).is_some_and(|rest| !rest.starts_with(char::is_whitespace))
      && signs.contains(mark)
  };
  let is_tagged = text.trim().starts_with('<') && text.trim().ends_with('>');
  signs.contains([':', '：', '–', '—']) || is_set("*") || is_set("_") || is_tagged
}

/// A line as a reader sees it: without tags and link targets.
fn said(line: &str) -> String {
  let (mut out, mut rest) = (String::with_capacity(line.len()), line);
  while let Some(at) = rest.find(['<', ']']) {
    let (head, tail) = rest.split_at(at);
    out.push_str(head);
    let close = if tail.starts_with('<') {
      '>'
    } else if tail.starts_with("](") {
      ')'
    } else {
      ']'
    };
    // If nothing closes one, no later one is closed either.
    let Some(end) = tail.find(close) else { return out + tail };
    rest = tail.get(end + 1..).unwrap_or_default();
  }
  out + rest
}

/// A line without a bracketed note at its end.
fn without_note(line: &str) -> &str {
  let bare = line.trim_end_matches(|c: char| !c.is_alphanumeric() && c != ')');
  let open = bare.strip_suffix(')').and_then(|rest| rest.rfind('('));
  open.and_then(|at| line.get(..at)).map_or(line, str::trim_end)
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn a_line_introduces_what_follows_when_it_ends_so_or_is_set_apart() {
    for line in [
      "Orders:",
      "Orders：",
      "Orders: 👇",
      "Orders:<br>",
      "Orders:<br/> ",
      "Orders:\\",
      "Orders :-",
      "Orders: (Ann)",
      "[Orders:](x)",
      "> Orders:",
      "- Orders:",
      "**Orders:**",
      "Orders —",
      "“Orders:”",
      "**Orders**",
      "__Orders__",
      "*Orders*",
      "_Orders_",
      "**Orders** (Ann)",
      "**Orders** 👇",
      "<b>Orders</b>",
      "<p><i>Orders</i></p>",
    ] {
      assert!(introduces(line.as_bytes()), "{line}");
    }
    for line in [
      "Orders",
      "Orders.",
      "Orders (a: b)",
      "Orders at 12:30",
      "**Orders** are here",
      "* Orders",
      "***",
      "---",
      "snake_case",
      "a * b",
      "<br>",
      "</details>",
      "<https://a.example/>",
      "[Orders](https://a.example)",
      "<b>Orders</b> are here",
      "[Orders]",
      "Schöne Grüße",
      "👇",
    ] {
      assert!(!introduces(line.as_bytes()), "{line}");
    }
  }

  #[test]
  fn headings_in_html_are_distinguished_from_other_tags() {
    let lead = |html: &str| {
      let HtmlLead { rank, has_title, opened, closed } = HtmlLead::of(html.as_bytes());
      (rank, has_title, opened, closed)
    };
    for (html, expected) in [
      ("<h2>A</h2>", (Some(2), false, 0, 0)),
      ("<div>\n<H3 id=x\n>A</H3>\n<h1>B</h1></div>", (Some(1), false, 0, 0)),
      ("<details open><summary>A</summary>", (None, true, 1, 0)),
      ("</details>\n<details>", (None, false, 1, 1)),
      ("<hr><header><h10><h7>h1", (None, false, 0, 0)),
    ] {
      assert_eq!(lead(html), expected, "{html}");
    }
  }
}
