//! `memfw status --short`: one short line for a prompt or a bar.
//!
//! It reads the daemon's lock and the ledger, walks no directory, starts no program, and asks no process anything: a
//! prompt must not wait.
#![forbid(unsafe_code)]

use crate::{
  app::{context::Context, daemon_state::DaemonState, exit::Status},
  os::{Clock as _, SystemClock, alarm, is_halted},
  store::{Counts, Ledger, StateKey},
  terminal::{failure::Failure, output::Style},
};

/// What the line says about protection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
  Ok,
  Reduced,
  Starting,
  Stopped,
  Off,
}

impl Word {
  const fn as_str(self) -> &'static str {
    match self {
      Self::Ok => "ok",
      Self::Reduced => "reduced",
      Self::Starting => "starting",
      Self::Stopped => "stopped",
      Self::Off => "off",
    }
  }

  const fn style(self) -> Style {
    match self {
      Self::Ok => Style::Green,
      Self::Starting => Style::Yellow,
      Self::Reduced | Self::Stopped | Self::Off => Style::Red,
    }
  }
}

/// Carries the command out.
pub(super) fn run(context: &Context) -> Result<Status, Failure> {
  let (word, n_waiting) = match look(context) {
    Ok(found) => found,
    Err(failure) => {
      // A bar shows the line, whatever becomes of the message.
      context.out.line("memfw: unknown")?;
      return Err(failure);
    }
  };
  let word_shown = context.out.paint(word.style(), word.as_str());
  context.out.line(&line(&word_shown, n_waiting))?;
  Ok(if word == Word::Ok { Status::Yes } else { Status::No })
}

fn line(word: &str, n_waiting: u64) -> String {
  match n_waiting {
    0 => format!("memfw: {word}"),
    n => format!("memfw: {word}, {n} waiting"),
  }
}

/// The word, and how many items wait for a person.
fn look(context: &Context) -> Result<(Word, u64), Failure> {
  let ledger = context.ledger_to_read()?;
  let daemon = DaemonState::find(context, ledger.as_ref())?;
  let n = match &ledger {
    Some(ledger) => ledger.counts(SystemClock.now()).map(|counts: Counts| counts.for_a_person())?,
    None => 0,
  };
  let word = match daemon.pid {
    None if ledger.is_none() => Word::Off,
    None => Word::Stopped,
    Some(pid) if is_halted(pid) => Word::Stopped,
    Some(_) if !daemon.is_guarding() => Word::Starting,
    Some(_) if is_reduced(context, ledger.as_ref())? => Word::Reduced,
    Some(_) => Word::Ok,
  };
  Ok((word, n))
}

/// Whether the daemon has noted that protection is reduced.
fn is_reduced(context: &Context, ledger: Option<&Ledger>) -> Result<bool, Failure> {
  let states = ledger.map(Ledger::states).transpose()?.unwrap_or_default();
  let is_noted = states.iter().any(|(key, ..)| matches!(key, StateKey::Degraded(_)));
  // The line that the daemon could not write into the ledger.
  Ok(is_noted || alarm::raised(&context.home()?.data).is_some())
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn the_line_is_short() {
    assert_eq!(line("ok", 0), "memfw: ok");
    assert_eq!(line("reduced", 12), "memfw: reduced, 12 waiting");
  }
}
