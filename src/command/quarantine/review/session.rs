//! A review as a state machine: items and typed keys come in, text to show and decisions come out. Pure:
//! [`super`] reads keys, prints text and carries out decisions.
//!
//! Invariant: an item is decided only after it was shown, and only by a key that was pressed for it; or after a
//! question that lists it.
#![forbid(unsafe_code)]

use std::path::PathBuf;

use super::{
  card::Card,
  part::{self, Answer, Chosen},
  screen::{self, Look},
};
use crate::{
  detect::Code,
  memory::{BlockId, parts::Unit},
  provenance::Source,
  terminal::output::{Style, count},
};

/// The longest reason that is kept, in characters; a choice: it must fit a line of the audit.
const MAX_REASON: usize = 300;
/// The most items that a question lists (a choice: the question stays on a screen).
const MAX_LISTED: usize = 12;
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
  /// A key, for [`Session::key`], after the last item; or the end, if nobody types at a terminal.
  Last,
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
  /// Put a part of the item back.
  ApprovePart {
    /// The item.
    id: BlockId,
    /// The part.
    chosen: Chosen,
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
  /// Take the decision about the item back.
  Undo {
    /// The item.
    id: BlockId,
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

/// What items have in common about which one decision can be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Like {
  /// Their file.
  pub path: PathBuf,
  /// The most severe code.
  pub code: Option<Code>,
  /// Whether they are in their file.
  pub in_file: bool,
}

impl Like {
  fn of(card: &Card) -> Self {
    let code = card.reasons.first().map(|reason| reason.code);
    Self { path: card.path.clone(), code, in_file: card.in_file }
  }
}

/// What became of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Became {
  /// It is decided, and has this id now.
  Decided(BlockId),
  /// It was divided: a part of it is decided, and these parts wait.
  Divided(Vec<BlockId>),
  /// Its decision was taken back, and it has this id now.
  Open(BlockId),
  /// Nothing about it was decided.
  Unchanged,
}

/// The result of a key or a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
  /// Text to show; then call [`Session::wants`] again.
  Show(String),
  /// A decision to carry out; then call [`Session::acted`] or [`Session::failed`].
  Do(Act),
  /// Look which of these items are like that, for [`Session::found`].
  Find(Like, Vec<BlockId>),
  /// Decisions to carry out; then call [`Session::repeated`].
  DoAll(Vec<Act>),
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
  /// Which lines or sentences come back.
  Part(Unit),
  /// Whether this choice is meant.
  PartChosen(Chosen),
  /// Whether to decide alike about these.
  Repeat(Vec<BlockId>),
}

/// The last decision, which can be made again.
#[derive(Clone, Debug)]
struct Last {
  act: Act,
  like: Like,
}

/// A review.
#[derive(Clone, Debug)]
pub struct Session {
  ids: Vec<BlockId>,
  at: usize,
  card: Option<Card>,
  ask: Ask,
  look: Look,
  /// The decided items, the last decision last.
  decided: Vec<BlockId>,
  last: Option<Last>,
  is_over: bool,
}

impl Session {
  /// A review of these items, in this order.
  pub fn new(ids: Vec<BlockId>, look: Look) -> Self {
    let decided = Vec::new();
    Self { ids, at: 0, card: None, ask: Ask::Verb, look, decided, last: None, is_over: false }
  }

  /// Whether the item was decided in this review, so that it can be shown again.
  pub fn was_decided(&self, id: &BlockId) -> bool {
    self.decided.contains(id)
  }

  /// The input that the session needs next.
  pub fn wants(&self) -> Wants {
    match (self.ids.get(self.at), &self.card) {
      _ if self.is_over => Wants::Nothing,
      // What was decided can still be taken back.
      (None, _) if self.latest().is_some() => Wants::Last,
      (None, _) => Wants::Nothing,
      (Some(id), None) => Wants::Card(id.clone()),
      (Some(_), Some(_)) if self.ask == Ask::Verb => Wants::Key,
      (Some(_), Some(_)) => Wants::Line,
    }
  }

  /// Takes the facts about an item; returns the text to show.
  pub fn show(&mut self, card: Card) -> String {
    let shown = screen::screen(&card, (self.at + 1, self.ids.len()), self.look, false);
    (self.card, self.ask) = (Some(card), Ask::Verb);
    format!("{shown}{}", self.keys())
  }

  /// The keys of the item, and the prompt.
  fn keys(&self) -> String {
    let Some(card) = &self.card else { return PROMPT.to_owned() };
    let is_decided = self.decided.contains(&card.id);
    format!("{}{PROMPT}", screen::keys(card, self.look, is_decided, self.last.is_some()))
  }

  /// Skips an item that cannot be reviewed or needs no review any more; returns the text to show.
  pub fn skip(&mut self, why: &str) -> String {
    let id = self.ids.get(self.at).map_or("", |id| id.as_str());
    let said = format!("{id}: {why}\n\n");
    self.next();
    said
  }

  /// The question after the last item.
  pub fn last_question(&self) -> String {
    let key = |key| self.look.paint(Style::Cyan, key);
    format!(
      "{} undo the last decision  {} back  {} quit\n{PROMPT}",
      key("u"),
      key("b"),
      key("Enter")
    )
  }

  /// The item that was decided last of those that are still decided.
  fn latest(&self) -> Option<&BlockId> {
    self.decided.last()
  }

  /// Takes a key after the last item.
  fn last_key(&mut self, key: char) -> Step {
    match key.to_ascii_lowercase() {
      'u' => {
        let Some(id) = self.latest().cloned() else { return Step::Show(String::new()) };
        self.at = self.ids.iter().position(|one| *one == id).unwrap_or(self.at);
        return Step::Do(Act::Undo { id });
      }
      'b' => self.at = self.at.saturating_sub(1),
      'q' | '\r' | '\n' => self.end(),
      _ => {}
    }
    Step::Show("\n".to_owned())
  }

  /// Takes a key. `rest` was typed after it: the reason, or the answer to the key's question.
  pub fn key(&mut self, key: char, rest: &str) -> Step {
    if self.wants() == Wants::Last {
      return self.last_key(key);
    }
    let Some(card) = &self.card else { return Step::Show(String::new()) };
    let id = card.id.clone();
    let is_decided = self.decided.contains(&id);
    match if key == 'R' { key } else { key.to_ascii_lowercase() } {
      'R' => match &self.last {
        Some(last) => {
          let open = self.ids.iter().filter(|id| !self.decided.contains(*id)).cloned().collect();
          Step::Find(last.like.clone(), open)
        }
        None => {
          Step::Show(format!("Nothing is decided yet that could be repeated.\n{}", self.keys()))
        }
      },
      'u' if is_decided => Step::Do(Act::Undo { id }),
      'a' | 'r' | 's' | 'p' if is_decided => Step::Show(self.keys()),
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
      'p' => {
        let step = self.ask_part(card.unit());
        if rest.is_empty() || self.ask == Ask::Verb { step } else { self.line(rest) }
      }
      't' => {
        let place = (self.at + 1, self.ids.len());
        let shown = screen::screen(card, place, self.look, true);
        Step::Show(format!("\n{shown}{}", self.keys()))
      }
      'b' => {
        self.at = self.at.saturating_sub(1);
        self.card = None;
        Step::Show("\n".to_owned())
      }
      '?' | 'h' => {
        let details = screen::details(card, self.look);
        Step::Show(format!("\n{details}{}", self.keys()))
      }
      'q' => {
        self.end();
        Step::Show("\n".to_owned())
      }
      _ => Step::Show(self.keys()),
    }
  }

  /// Takes the items that are like the last decided one, with the beginning of their texts; returns the
  /// question to show.
  pub fn found(&mut self, alike: Vec<(BlockId, String)>) -> String {
    let Some(last) = self.last.as_ref().filter(|_| !alike.is_empty()) else {
      return format!("No other item has that file and code.\n{}", self.keys());
    };
    let verb = match last.act {
      Act::Approve { .. } => "Approve",
      Act::TakeOut { .. } => "Take out",
      _ => "Reject",
    };
    let mut text = String::new();
    for (id, words) in alike.iter().take(MAX_LISTED) {
      text.push_str(&self.look.listed(id.as_str(), words));
    }
    if let more @ 1.. = alike.len().saturating_sub(MAX_LISTED) {
      text.extend(["  and ", &more.to_string(), " more\n"]);
    }
    let n = count(alike.len() as u64, "item");
    text.extend([verb, " ", &n, " of this file and code as well? (y, Enter: no) "]);
    self.ask = Ask::Repeat(alike.into_iter().map(|(id, _)| id).collect());
    text
  }

  /// Takes a line, the answer to a question; `-` cancels the question.
  pub fn line(&mut self, line: &str) -> Step {
    let Some(card) = &self.card else { return Step::Show(String::new()) };
    let line = line.trim();
    let reason = reason(line);
    if line == "-" {
      self.ask = Ask::Verb;
      return Step::Show(self.keys());
    }
    match std::mem::replace(&mut self.ask, Ask::Verb) {
      Ask::Verb => Step::Show(PROMPT.to_owned()),
      Ask::Reason => Step::Do(Act::Approve { id: card.id.clone(), reason }),
      Ask::Codes => match chosen(line, &card.to_allow()) {
        Some(codes) => self.ask_why(codes),
        None => self.ask_codes(),
      },
      Ask::Repeat(ids) => match (&self.last, line) {
        (Some(last), "y" | "Y" | "yes") => {
          Step::DoAll(ids.into_iter().map(|id| again(&last.act, id)).collect())
        }
        _ => Step::Show(self.keys()),
      },
      Ask::Part(unit) => match part::answer(card, unit, line, self.look) {
        _ if line.is_empty() => Step::Show(self.keys()),
        Ok(Answer::Other(unit)) => self.ask_part(Some(unit)),
        Ok(Answer::Chosen(chosen, question)) => self.asks(Ask::PartChosen(chosen), &question),
        Err(why) => {
          self.asks(Ask::Part(unit), &format!("{why}.\nWhich {}s? (- not now) ", unit.as_str()))
        }
      },
      Ask::PartChosen(chosen) if matches!(line, "y" | "Y" | "yes") => {
        Step::Do(Act::ApprovePart { id: card.id.clone(), chosen })
      }
      Ask::PartChosen(_) => Step::Show(self.keys()),
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

  /// A decision about the shown item was carried out: `said` describes it. Returns the text to show.
  pub fn acted(&mut self, act: &Act, said: &str, became: Became) -> String {
    self.ask = Ask::Verb;
    match became {
      Became::Decided(id) => {
        let like = self.card.as_ref().map(Like::of);
        self.last = like.map(|like| Last { act: act.clone(), like });
        self.decided.push(id.clone());
        if let Some(at) = self.ids.get_mut(self.at) {
          *at = id;
        }
        self.next();
      }
      Became::Divided(parts) => {
        self.decided.extend(self.ids.get(self.at).cloned());
        // What stays out is the next to decide about.
        let at = self.ids.len().min(self.at + 1);
        self.ids.splice(at..at, parts);
        self.next();
      }
      Became::Open(now) => {
        if let Some(id) = self.ids.get_mut(self.at) {
          self.decided.retain(|decided| decided != id);
          *id = now;
        }
        // The item is shown again, in its new state.
        self.card = None;
      }
      Became::Unchanged => self.card = None,
    }
    format!("{}\n\n", self.look.paint(Style::Green, said))
  }

  /// Repeated decisions were carried out: the former and the present id of each decided item, and what is to
  /// be said. Returns the text to show.
  pub fn repeated(&mut self, done: Vec<(BlockId, BlockId)>, said: &str) -> String {
    self.ask = Ask::Verb;
    for (former, now) in done {
      if let Some(id) = self.ids.iter_mut().find(|id| **id == former) {
        *id = now.clone();
      }
      self.decided.push(now);
    }
    if self.ids.get(self.at).is_some_and(|id| self.decided.contains(id)) {
      self.next();
    } else {
      self.card = None;
    }
    format!("{said}\n")
  }

  /// A decision could not be carried out, so the item is still open. Returns the text to show.
  pub fn failed(&mut self, why: &str) -> String {
    self.ask = Ask::Verb;
    format!("{}\n{}", self.look.paint(Style::Red, why), self.keys())
  }

  /// Ends the review: the input has ended, or the person quits.
  pub const fn end(&mut self) {
    self.is_over = true;
  }

  /// How many items were decided, and how many were not.
  pub fn tally(&self) -> (usize, usize) {
    let n_decided = self.decided.len();
    (n_decided, self.ids.len().saturating_sub(n_decided))
  }

  /// Goes on to the next item that is not decided.
  fn next(&mut self) {
    self.at += 1;
    while self.ids.get(self.at).is_some_and(|id| self.decided.contains(id)) {
      self.at += 1;
    }
    (self.card, self.ask) = (None, Ask::Verb);
  }

  fn asks(&mut self, ask: Ask, question: &str) -> Step {
    self.ask = ask;
    Step::Show(question.to_owned())
  }

  fn ask_part(&mut self, unit: Option<Unit>) -> Step {
    let Some(card) = &self.card else { return Step::Show(String::new()) };
    let Some(unit) = unit else {
      let why = if card.in_file {
        "All of it is in its file."
      } else {
        "It is one sentence, or its text is not available."
      };
      return Step::Show(format!("{why}\n{}", self.keys()));
    };
    let question = part::question(card, unit, self.look);
    self.asks(Ask::Part(unit), &question)
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

/// A decision like another one, about another item.
fn again(act: &Act, id: BlockId) -> Act {
  match act {
    Act::Approve { reason, .. } => Act::Approve { id, reason: reason.clone() },
    Act::TakeOut { reason, .. } => Act::TakeOut { id, reason: reason.clone() },
    Act::Reject { reason, .. } => Act::Reject { id, reason: reason.clone() },
    Act::Undo { .. } | Act::Allow { .. } | Act::ApprovePart { .. } => act.clone(),
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
