//! The question which lines or sentences of an item return: its numbered text, and what the choice means. Pure.
#![forbid(unsafe_code)]

use super::{super::parts::numbered, card::Card, screen::Look};
use crate::{
  memory::parts::{Numbers, Undivided, Unit, divide},
  terminal::{escape::terminal, output::Style},
};

/// The most rows of a text that are shown.
const MAX_ROWS: usize = 400;

/// A choice of a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
  /// What the text is divided into.
  pub unit: Unit,
  /// Which of them return.
  pub numbers: Numbers,
}

/// The numbered text, and the question.
pub fn question(card: &Card, unit: Unit, look: Look) -> String {
  let text = card.text.as_deref().unwrap_or_default();
  let other = match unit {
    Unit::Line if Unit::Sentence.of(text).len() > 1 => "s: sentences; ",
    Unit::Sentence if Unit::Line.of(text).len() > 1 => "l: lines; ",
    Unit::Line | Unit::Sentence => "",
  };
  let rows = rows(text, unit, look, |_| true);
  format!("{rows}Which {}s come back? (such as 1,3-4; {other}- not now) ", unit.as_str())
}

/// The answer to [`question`]: another unit, or a choice with what it means and whether it is meant; or what is wrong
/// with it.
pub fn answer(card: &Card, unit: Unit, line: &str, look: Look) -> Result<Answer, String> {
  match line {
    "s" => return Ok(Answer::Other(Unit::Sentence)),
    "l" => return Ok(Answer::Other(Unit::Line)),
    _ => {}
  }
  let text = card.text.as_deref().unwrap_or_default();
  let word = unit.as_str();
  let numbers: Numbers =
    line.parse().map_err(|error| format!("`{}` is {error}", terminal(line)))?;
  match divide(text, unit, &numbers) {
    Ok(_) => {}
    Err(Undivided::NoSuch { number, .. }) => return Err(format!("there is no {word} {number}")),
    Err(Undivided::All) => return Err(format!("these are all {word}s: a approves the whole text")),
  }
  let back = rows(text, unit, look, |number| numbers.contains(number));
  let out = rows(text, unit, look, |number| !numbers.contains(number));
  let name = |style, name| look.paint(style, name);
  let (back_name, out_name) =
    (name(Style::Green, "Comes back"), name(Style::Yellow, "Stays out, sealed"));
  let question =
    format!("  {back_name}\n{back}  {out_name}\n{out}Restore this part? (y, Enter: no) ");
  Ok(Answer::Chosen(Chosen { unit, numbers }, question))
}

/// What a person answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
  /// To divide the text into these instead.
  Other(Unit),
  /// These, and the question whether that is meant.
  Chosen(Chosen, String),
}

/// The rows of those units that `is_shown`.
fn rows(text: &[u8], unit: Unit, look: Look, is_shown: impl Fn(usize) -> bool) -> String {
  let paint = |text: &str| look.paint(Style::Dim, text);
  let rows = numbered(text, unit, look.columns_at(2), (paint, is_shown));
  let left = rows.len().saturating_sub(MAX_ROWS);
  let mut shown = String::new();
  for row in rows.iter().take(MAX_ROWS) {
    shown.extend(["  ", row, "\n"]);
  }
  if left > 0 {
    shown.push_str("  ... and more, which is not shown\n");
  }
  shown
}
