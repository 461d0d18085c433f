//! A review as a state machine: items and what a person types come in, text to show and decisions come out.
//! Pure: who reads keys, prints text and carries out decisions is [`super`].
//!
//! Invariant: nothing is decided about an item that was not shown, and only by a key of its own.
#![forbid(unsafe_code)]

use super::{
  card::Card,
  screen::{self, Look},
};
use crate::{detect::Code, memory::BlockId, provenance::Source, terminal::output::Style};

/// Longest reason that is kept, in characters; a choice: it has to fit a line of the audit.
const MAX_REASON: usize = 300;
/// Most days that an exception may hold for, as on the command line.
const MAX_DAYS: u32 = 36_500;

/// What comes next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wants {
  /// This item is to be looked up, and given to [`Session::show`] or [`Session::skip`].
  Card(BlockId),
  /// A key, for [`Session::key`].
  Key,
  /// A line, for [`Session::line`].
  Line,
  /// Nothing: it is over.
  Nothing,
}

/// What a person decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
  /// Bring it back, or clear its flag.
  Approve {
    /// The item.
    id: BlockId,
    /// Why.
    reason: Option<String>,
  },
  /// Refuse it.
  Reject {
    /// The item.
    id: BlockId,
    /// Why.
    reason: Option<String>,
  },
  /// Take it out of its file.
  TakeOut {
    /// The item.
    id: BlockId,
    /// Why.
    reason: Option<String>,
  },
  /// Excuse codes for all text of its source.
  Allow {
    /// The item at which this came up.
    id: BlockId,
    /// Its source.
    source: Source,
    /// What is excused.
    codes: Vec<Code>,
    /// Why.
    reason: Option<String>,
    /// For how many days; `None` for good.
    days: Option<u32>,
  },
}

/// What a key or a line leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
  /// Text to show; then see what is wanted.
  Show(String),
  /// To be carried out, and answered by [`Session::acted`] or [`Session::failed`].
  Do(Act),
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Ask {
  /// What to do about the item.
  Verb,
  /// Why it is approved.
  Reason,
  /// Which codes the source is allowed.
  Codes,
  /// Why.
  AllowReason(Vec<Code>),
  /// For how long.
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

  /// What comes next.
  pub fn wants(&self) -> Wants {
    match (self.ids.get(self.at), &self.card) {
      (None, _) => Wants::Nothing,
      _ if self.is_over => Wants::Nothing,
      (Some(id), None) => Wants::Card(id.clone()),
      (Some(_), Some(_)) if self.ask == Ask::Verb => Wants::Key,
      (Some(_), Some(_)) => Wants::Line,
    }
  }

  /// Takes an item that was looked up; what to show of it.
  pub fn show(&mut self, card: Card) -> String {
    let shown = screen::screen(&card, (self.at + 1, self.ids.len()), self.look, false);
    let keys = screen::keys(&card, self.look);
    (self.card, self.ask) = (Some(card), Ask::Verb);
    format!("{shown}{keys}{PROMPT}")
  }

  /// Goes past an item that needs no review any more, or cannot be reviewed; what to say.
  pub fn skip(&mut self, why: &str) -> String {
    let id = self.ids.get(self.at).map_or("", |id| id.as_str());
    let said = format!("{id}: {why}\n\n");
    self.next();
    said
  }

  /// A key was pressed. What was typed behind it is the reason, or the answer to the question that it leads to.
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

  /// A line was typed in answer to a question; `-` takes the question back.
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

  /// A decision was carried out, and this is to be said. Whether the item is decided by it.
  pub fn acted(&mut self, said: &str, is_decided: bool) -> String {
    self.ask = Ask::Verb;
    if is_decided {
      self.n_decided += 1;
      self.next();
    } else {
      // It is shown once more, as it stands now.
      self.card = None;
    }
    format!("{}\n\n", self.look.paint(Style::Green, said))
  }

  /// A decision could not be carried out, for this reason: the item is still the one to decide about.
  pub fn failed(&mut self, why: &str) -> String {
    self.ask = Ask::Verb;
    let keys = self.card.as_ref().map(|card| screen::keys(card, self.look)).unwrap_or_default();
    format!("{}\n{keys}{PROMPT}", self.look.paint(Style::Red, why))
  }

  /// Nobody is there any more, or has enough.
  pub const fn end(&mut self) {
    self.is_over = true;
  }

  /// How many items were decided, and how many of the others were not come to.
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
        let why = "Nobody knows whose text this is, or its source is allowed all of that already.";
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
      "All text of {source} is excused for {}.\nWhy? (Enter: no reason; - not now) ",
      words.join(" ")
    );
    self.asks(Ask::AllowReason(codes), &text)
  }
}

/// Where a key is waited for.
const PROMPT: &str = "> ";

/// A reason as it is kept: on one line, and not too long; none where nothing was typed.
fn reason(text: &str) -> Option<String> {
  let text: String = text.trim().chars().filter(|c| !c.is_control()).take(MAX_REASON).collect();
  Some(text).filter(|text| !text.is_empty())
}

/// The codes that numbers from 1 or `all` stand for; `None` where they stand for none.
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
