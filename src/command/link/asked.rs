//! The questions to the owner that followed from a check, until the answer comes. Both are on record, so that a
//! write that never happened is in the audit.
#![forbid(unsafe_code)]

use std::{collections::VecDeque, path::Path};

use crate::{
  engine::{Event, EventKind, Foreseen},
  link::message::{OwnerAnswer, Resolved},
};

/// The most questions that wait for an answer; the oldest goes first (a choice: each has a person wait).
const MAX_ASKED: usize = 64;

/// What waits for an answer.
#[derive(Default)]
pub(super) struct Asked(VecDeque<(u64, Event)>);

impl Asked {
  /// Notes that the owner is asked because of a check, and returns the event.
  pub(super) fn begin(&mut self, check: u64, foreseen: &Foreseen, path: &Path) -> Event {
    self.note(check, foreseen.event(EventKind::OwnerAnswered, path));
    let event = foreseen.event(EventKind::OwnerAsked, path);
    event
      .detail("the text is not sealed; the daemon judges the file after the write, if it happens")
  }

  fn note(&mut self, check: u64, event: Event) {
    if self.0.len() >= MAX_ASKED {
      self.0.pop_front();
    }
    self.0.push_back((check, event));
  }

  /// The event of the answer; `None` if no such check waits for one.
  pub(super) fn end(&mut self, resolved: Resolved) -> Option<Event> {
    let at = self.0.iter().position(|(check, _)| *check == resolved.check)?;
    let (_, event) = self.0.remove(at)?;
    Some(event.detail(match resolved.decision {
      OwnerAnswer::AllowOnce | OwnerAnswer::AllowAlways => "the write was allowed",
      OwnerAnswer::Deny => "the write was denied",
      OwnerAnswer::Timeout => "nobody answered in time, so the write was denied",
      OwnerAnswer::Cancelled => "the run ended before an answer, so nothing was written",
      OwnerAnswer::Unknown => "the answer is not known to this memfw",
    }))
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn an_answer_counts_once_and_old_questions_are_forgotten() {
    let mut asked = Asked::default();
    let event = || Event::new(EventKind::OwnerAnswered);
    let denied = |check| Resolved { check, decision: OwnerAnswer::Deny };
    asked.note(1, event());
    let detail = asked.end(denied(1)).map(|event| event.row().detail);
    assert_eq!(detail.as_deref(), Some("the write was denied"));
    assert!(asked.end(denied(1)).is_none());
    for check in 0..=MAX_ASKED as u64 {
      asked.note(check, event());
    }
    assert!(asked.end(denied(0)).is_none());
    assert!(asked.end(denied(MAX_ASKED as u64)).is_some());
  }
}
