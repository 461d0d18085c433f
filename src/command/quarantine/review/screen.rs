//! One item as a person sees it: text for a terminal of any width, with or without colours. Pure.
//!
//! Output is never repainted: it reads the same over ssh, in a screen reader, and in a file.
#![forbid(unsafe_code)]

use super::card::{Around, Card};
use crate::{
  plural::times,
  provenance::{Source, State},
  terminal::{
    escape::{Escape, terminal},
    output::Style,
    preview::{Preview, one_line, prose},
    time,
  },
};

/// Rows of a text that are shown at first; a choice: with everything around them, a screen of 24 rows.
const FIRST_ROWS: usize = 8;
/// The most rows that are shown on request.
const ALL_ROWS: usize = 400;
/// The minimum and maximum width, in columns.
const COLUMNS: (usize, usize) = (60, 100);

/// How to show an item.
#[derive(Clone, Copy, Debug)]
pub struct Look {
  /// Columns of the terminal.
  pub columns: usize,
  /// Whether colours are wanted.
  pub colour: bool,
  /// The current time, microseconds UTC.
  pub now: i64,
}

impl Look {
  fn columns(self) -> usize {
    self.columns.clamp(COLUMNS.0, COLUMNS.1)
  }

  /// `text` in a style, if colours are wanted.
  pub fn paint(self, style: Style, text: &str) -> String {
    style.paint(text, self.colour)
  }

  /// Escaped prose, wrapped and indented by so many spaces.
  fn indented(self, spaces: usize, text: &str) -> Vec<String> {
    let rows = prose(text, self.columns() - spaces);
    rows.into_iter().map(|row| format!("{:spaces$}{row}", "")).collect()
  }

  /// Foreign text on one row, escaped and cut to the width that is left after so many columns.
  fn cut(self, columns: usize, text: &[u8]) -> String {
    Escape::default().max_width(self.columns().saturating_sub(columns)).apply(one_line(text))
  }
}

/// The item with number `n` of `all`; `whole` shows all of its text.
pub fn screen(card: &Card, (n, all): (usize, usize), look: Look, whole: bool) -> String {
  let mut rows = vec![title(card, n, all, look)];
  rows.extend(look.indented(2, &terminal(format!("{}:{}", card.file, card.line))));
  rows.extend(look.indented(2, &story(card)));
  rows.push(String::new());
  rows.push(format!("  {} (score {:.2})", look.paint(Style::Bold, "Why"), card.score));
  for (code, whys) in &card.reasons {
    let excused = if card.allowed.contains(code) { " (allowed for its source)" } else { "" };
    rows.extend(look.indented(4, &format!("{code}: {}{excused}", code.title())));
    for why in whys {
      rows.extend(look.indented(6, &terminal(why)));
    }
  }
  rows.push(String::new());
  rows.extend(text(card, look, whole));
  rows.extend(around(card, look));
  rows.push(String::new());
  rows.join("\n") + "\n"
}

/// The possible decisions and their keys, in one or two rows.
pub fn keys(card: &Card, look: Look) -> String {
  let out = if card.in_file { "take out" } else { "reject" };
  let mut keys = vec![("a", "approve"), ("r", out), ("l", "later")];
  if !card.to_allow().is_empty() {
    keys.push(("s", "allow source"));
  }
  keys.extend([("t", "text"), ("b", "back"), ("?", "help"), ("q", "quit")]);
  let words: Vec<String> =
    keys.iter().map(|(key, what)| format!("{} {what}", look.paint(Style::Cyan, key))).collect();
  words.join("  ") + "\n"
}

/// What each key does, in detail.
pub fn help(card: &Card, look: Look) -> String {
  let (out, why) = if card.in_file {
    ("take out", "It is taken out of its file and waits in quarantine, sealed.")
  } else {
    (
      "reject",
      "It stays out for good. Its sealed text is deleted after `quarantine.rejected_days`.",
    )
  };
  let source = terminal(card.source.as_str());
  let allow = if card.to_allow().is_empty() {
    "Not here: the source of this text is not known, or is already allowed all of these codes."
      .to_owned()
  } else {
    format!(
      "Excuse a code in all text that comes from {source} from now on, with a reason, for some days or for \
       good. This item still waits."
    )
  };
  let approve = if card.in_file {
    "It is fine: it stays, and is not flagged again."
  } else {
    "It is fine: the exact bytes are restored in their place, and this text is not taken out \
    again there."
  };
  let all = [
    ("a", "approve", approve),
    ("r", out, why),
    ("l", "later", "Nothing changes; the next item."),
    ("s", "allow source", allow.as_str()),
    ("t", "text", "The whole text, escaped."),
    ("b", "back", "The previous item."),
    ("q", "quit", "Postpone the rest; so do Ctrl-C and the end of the input."),
  ];
  let mut rows = Vec::new();
  for (key, name, what) in all {
    rows.push(format!("  {} {}", look.paint(Style::Cyan, key), look.paint(Style::Bold, name)));
    rows.extend(look.indented(4, what));
  }
  rows.push(String::new());
  let id = &card.id;
  rows.push("  As commands:".to_owned());
  rows.extend(look.indented(4, &format!("memfw approve {id} --reason TEXT")));
  let take = if card.in_file { "quarantine add" } else { "reject" };
  rows.extend(look.indented(4, &format!("memfw {take} {id} --reason TEXT")));
  rows.extend(look.indented(4, "memfw policy allow SOURCE CODE... --reason TEXT --days N"));
  rows.extend(look.indented(4, &format!("memfw explain {id}")));
  rows.push(String::new());
  rows.join("\n") + "\n"
}

fn title(card: &Card, n: usize, all: usize, look: Look) -> String {
  let style = if card.status == State::Flagged { Style::Plain } else { Style::Yellow };
  let since = time::short(card.at, look.now);
  format!(
    "[{n} of {all}] {}  {}{}",
    look.paint(Style::Bold, card.id.as_str()),
    look.paint(style, card.status.as_str()),
    look.paint(Style::Dim, &format!(", {since}"))
  )
}

/// Where the item came from, in one sentence, and how far the source is trusted.
fn story(card: &Card) -> String {
  let sentence = match &card.evidence {
    Some(line) if line != "nothing on record" => capital(&terminal(line)),
    _ => unseen(&card.source),
  };
  let source = terminal(card.source.as_str());
  let again = match card.occurrences {
    0 | 1 => String::new(),
    n => format!(" It came back {} and was taken out again.", times(u64::from(n) - 1)),
  };
  format!("{sentence}. Source {source}: {}, {}.{again}", card.trust, card.attestation)
}

/// A sentence about a source that was not observed.
fn unseen(source: &Source) -> String {
  match (source.kind(), source.detail()) {
    ("unknown", _) => "It is not known who wrote it".to_owned(),
    ("external-edit", _) => "A program other than the agent wrote it".to_owned(),
    ("baseline", _) => "It was there before memfw".to_owned(),
    ("agent", _) => "The agent wrote it by itself".to_owned(),
    ("user", Some("owner")) => "You wrote it, or said it to the agent".to_owned(),
    ("web_fetch" | "browser", Some(host)) => format!("It comes from the page {}", terminal(host)),
    ("file" | "memory", Some(name)) => format!("It comes from the file {}", terminal(name)),
    _ => format!("It comes from {}", terminal(source.as_str())),
  }
}

fn capital(text: &str) -> String {
  let mut letters = text.chars();
  letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn text(card: &Card, look: Look, whole: bool) -> Vec<String> {
  let Some(bytes) = &card.text else {
    let why = "its bytes are not available: they were deleted, or the file has changed since";
    return look.indented(2, &format!("Text: {why}"));
  };
  let bar = look.paint(Style::Dim, "|");
  let max = if whole { ALL_ROWS } else { FIRST_ROWS };
  let (shown, left) =
    Preview::new(bytes, &card.spans).rows(look.columns() - "    | ".len(), max, look.colour);
  let mut rows = vec![format!("  {}", look.paint(Style::Bold, "Text"))];
  rows.extend(shown.iter().map(|row| format!("    {bar} {row}").trim_end().to_owned()));
  if left > 0 {
    let more = if whole { "and more, which is not shown" } else { "and more: t shows it" };
    rows.push(format!("    {bar} {}", look.paint(Style::Dim, more)));
  }
  rows
}

fn around(card: &Card, look: Look) -> Vec<String> {
  let Around { above, below } = &card.around;
  if above.is_empty() && below.is_empty() {
    return vec![];
  }
  let line = |(n, text): &(usize, Vec<u8>)| {
    let row = format!("{n:>7} {}", look.cut(8, text));
    look.paint(Style::Dim, row.trim_end())
  };
  let mut rows = vec![format!("  {}", look.paint(Style::Bold, "Around it"))];
  rows.extend(above.iter().map(line));
  let here = if card.in_file { "it is here" } else { "it was here" };
  rows.push(format!("{:>7} {}", "*", look.paint(Style::Yellow, here)));
  rows.extend(below.iter().map(line));
  rows
}
