//! A review as a state machine: items and typed keys come in, text to show and decisions come out. Pure:
//! [`super`] reads keys, prints text and carries out decisions.
//!
//! Invariant: an item is decided only after it was shown, and only by a key that was pressed for it.
#![forbid(unsafe_code)]

use super::{
  card::Card,
  screen::{self, Look},
};
use crate::{detect::Code, memory::BlockId, provenance::Source, terminal::output::Style};

/// The longest reason that is kept, in characters; a choice: it must fit a line of the audit.
const MAX_REASON: usize = 300;
/// The most days of an exception, as on the command line.
const MAX_DAYS: u32 = 36_500;

/// The input that the session needs next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wants {
  /// The facts about this item, for [`Session::show`], or a reason for [`Session::skip`].
  Card(BlockId),
  /// A key, for [`Session::key`].
  Key,
  /// A line, for [`Session::line`].
  Line,
  /// Nothing: the review is over.
  Nothing,
}

/// A person's decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
  /// Put the item back, or clear its flag.
  Approve {
    /// The item.
    id: BlockId,
    /// The person's reason, at most 300 characters; `None` if none was typed.
    reason: Option<String>,
  },
  /// Reject the item.
  Reject {
    /// The item.
    id: BlockId,
    /// The person's reason, at most 300 characters; `None` if none was typed.
    reason: Option<String>,
  },
  /// Take the item out of its file.
  TakeOut {
    /// The item.
    id: BlockId,
    /// The person's reason, at most 300 characters; `None` if none was typed.
    reason: Option<String>,
  },
  /// Allow codes in all text of its source.
  Allow {
    /// The item at which this was decided.
    id: BlockId,
    /// The source of that item, to which the codes are allowed.
    source: Source,
    /// The codes that the person chose, never empty.
    codes: Vec<Code>,
    /// The person's reason, at most 300 characters; `None` if none was typed.
    reason: Option<String>,
    /// For how many days; `None`: without an end.
    days: Option<u32>,
  },
}

/// The result of a key or a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
  /// Text to show; then call [`Session::wants`] again.
  Show(String),
  /// A decision to carry out; then call [`Session::acted`] or [`Session::failed`].
  Do(Act),
}

/// The open question.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Ask {
  /// What to do about the item.
  Verb,
  /// Why it is approved.
  Reason,
  /// Which codes to allow for the source.
  Codes,
  /// Why to allow them.
  AllowReason(Vec<Code>),
  /// For how long to allow them.
  Days(Vec<Code>, Option<String>),
}

/// A review.
#[derive(Clone, Debug)]
pub struct Session {
  ids: Vec<BlockId>,
  at: usize,
  card: Option<Card>,
  ask: Ask,
  look: Look,
  n_decided: usize,
  is_over: bool,
}

impl Session {
  /// A review of these items, in this order.
  pub const fn new(ids: Vec<BlockId>, look: Look) -> Self {
    Self { ids, at: 0, card: None, ask: Ask::Verb, look, n_decided: 0, is_over: false }
  }

  /// The input that the session needs next.
  pub fn wants(&self) -> Wants {
    match (self.ids.get(self.at), &self.card) {
      (None, _) => Wants::Nothing,
      _ if self.is_over => Wants::Nothing,
      (Some(id), None) => Wants::Card(id.clone()),
      (Some(_), Some(_)) if self.ask == Ask::Verb => Wants::Key,
      (Some(_), Some(_)) => Wants::Line,
    }
  }

  /// Takes the facts about an item; returns the text to show.
  pub fn show(&mut self, card: Card) -> String {
    let shown = screen::screen(&card, (self.at + 1, self.ids.len()), self.look, false);
    let keys = screen::keys(&card, self.look);
    (self.card, self.ask) = (Some(card), Ask::Verb);
    format!("{shown}{keys}{PROMPT}")
  }

  /// Skips an item that cannot be reviewed or needs no review any more; returns the text to show.
  pub fn skip(&mut self, why: &str) -> String {
    let id = self.ids.get(self.at).map_or("", |id| id.as_str());
    let said = format!("{id}: {why}\n\n");
    self.next();
    said
  }

  /// Takes a key. `rest` was typed after it: the reason, or the answer to the key's question.
  pub fn key(&mut self, key: char, rest: &str) -> Step {
    let Some(card) = &self.card else { return Step::Show(String::new()) };
    let id = card.id.clone();
    match key.to_ascii_lowercase() {
      'a' => {
        let step = self.asks(Ask::Reason, "Why is it fine? (Enter: no reason; - not now) ");
        if rest.is_empty() { step } else { self.line(rest) }
      }
      'r' if card.in_file => Step::Do(Act::TakeOut { id, reason: reason(rest) }),
      'r' => Step::Do(Act::Reject { id, reason: reason(rest) }),
      'l' | ' ' => {
        self.next();
        Step::Show(format!("{id}: later\n\n"))
      }
      's' => self.ask_codes(),
      't' => {
        let place = (self.at + 1, self.ids.len());
        let shown = screen::screen(card, place, self.look, true);
        Step::Show(format!("\n{shown}{}{PROMPT}", screen::keys(card, self.look)))
      }
      'b' => {
        self.at = self.at.saturating_sub(1);
        self.card = None;
        Step::Show("\n".to_owned())
      }
      '?' | 'h' => {
        let help = screen::help(card, self.look);
        Step::Show(format!("\n{help}{}{PROMPT}", screen::keys(card, self.look)))
      }
      'q' => {
        self.end();
        Step::Show("\n".to_owned())
      }
      _ => Step::Show(format!("{}{PROMPT}", screen::keys(card, self.look))),
    }
  }

  /// Takes a line, the answer to a question; `-` cancels the question.
  pub fn line(&mut self, line: &str) -> Step {
    let Some(card) = &self.card else { return Step::Show(String::new()) };
    let line = line.trim();
    let reason = reason(line);
    if line == "-" {
      let keys = screen::keys(card, self.look);
      self.ask = Ask::Verb;
      return Step::Show(format!("{keys}{PROMPT}"));
    }
    match std::mem::replace(&mut self.ask, Ask::Verb) {
      Ask::Verb => Step::Show(PROMPT.to_owned()),
      Ask::Reason => Step::Do(Act::Approve { id: card.id.clone(), reason }),
      Ask::Codes => match chosen(line, &card.to_allow()) {
        Some(codes) => self.ask_why(codes),
        None => self.ask_codes(),
      },
      Ask::AllowReason(codes) => {
        self.asks(Ask::Days(codes, reason), "For how many days? (Enter: for good; - not now) ")
      }
      Ask::Days(codes, reason) => {
        let (id, source) = (card.id.clone(), card.source.clone());
        match line.parse::<u32>() {
          _ if line.is_empty() => Step::Do(Act::Allow { id, source, codes, reason, days: None }),
          Ok(days) if (1..=MAX_DAYS).contains(&days) => {
            Step::Do(Act::Allow { id, source, codes, reason, days: Some(days) })
          }
          _ => self.asks(Ask::Days(codes, reason), "A number of days, or Enter for good: "),
        }
      }
    }
  }

  /// A decision was carried out: `said` describes it, `is_decided` says whether the item is done.
  /// Returns the text to show.
  pub fn acted(&mut self, said: &str, is_decided: bool) -> String {
    self.ask = Ask::Verb;
    if is_decided {
      self.n_decided += 1;
      self.next();
    } else {
      // The item is shown again, in its new state.
      self.card = None;
    }
    format!("{}\n\n", self.look.paint(Style::Green, said))
  }

  /// A decision could not be carried out, so the item is still open. Returns the text to show.
  pub fn failed(&mut self, why: &str) -> String {
    self.ask = Ask::Verb;
    let keys = self.card.as_ref().map(|card| screen::keys(card, self.look)).unwrap_or_default();
    format!("{}\n{keys}{PROMPT}", self.look.paint(Style::Red, why))
  }

  /// Ends the review: the input has ended, or the person quits.
  pub const fn end(&mut self) {
    self.is_over = true;
  }

  /// How many items were decided, and how many were not.
  pub fn tally(&self) -> (usize, usize) {
    (self.n_decided, self.ids.len().saturating_sub(self.n_decided))
  }

  fn next(&mut self) {
    self.at += 1;
    (self.card, self.ask) = (None, Ask::Verb);
  }

  fn asks(&mut self, ask: Ask, question: &str) -> Step {
    self.ask = ask;
    Step::Show(question.to_owned())
  }

  fn ask_codes(&mut self) -> Step {
    let Some(card) = &self.card else { return Step::Show(String::new()) };
    let codes = card.to_allow();
    match &codes[..] {
      [] => {
        let why = "The source of this text is not known, or is already allowed all of these codes.";
        Step::Show(format!("{why}\n{PROMPT}"))
      }
      [_] => self.ask_why(codes),
      _ => {
        let list: Vec<String> =
          codes.iter().enumerate().map(|(n, code)| format!("  {} {code}\n", n + 1)).collect();
        let text = format!("{}Which? (numbers, or all; - not now) ", list.concat());
        self.asks(Ask::Codes, &text)
      }
    }
  }

  fn ask_why(&mut self, codes: Vec<Code>) -> Step {
    let Some(card) = &self.card else { return Step::Show(String::new()) };
    let words: Vec<&str> = codes.iter().map(|code| code.as_str()).collect();
    let source = crate::terminal::escape::terminal(card.source.as_str());
    let text = format!(
      "All text from {source} will be excused for {}.\nWhy? (Enter: no reason; - not now) ",
      words.join(" ")
    );
    self.asks(Ask::AllowReason(codes), &text)
  }
}

/// Shown where a key is expected.
const PROMPT: &str = "> ";

/// A reason as it is stored: on one line, and not too long; `None` if nothing was typed.
fn reason(text: &str) -> Option<String> {
  let text: String = text.trim().chars().filter(|c| !c.is_control()).take(MAX_REASON).collect();
  Some(text).filter(|text| !text.is_empty())
}

/// The codes that the numbers from 1 or `all` select; `None` if the line selects none.
fn chosen(line: &str, codes: &[Code]) -> Option<Vec<Code>> {
  if line == "all" {
    return Some(codes.to_vec());
  }
  let numbers = line.split(|c: char| c == ',' || c.is_whitespace()).filter(|word| !word.is_empty());
  let code = |word: &str| codes.get(word.parse::<usize>().ok()?.checked_sub(1)?).copied();
  let mut chosen: Vec<Code> = numbers.map(code).collect::<Option<_>>()?;
  chosen.sort_unstable();
  chosen.dedup();
  (!chosen.is_empty()).then_some(chosen)
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
