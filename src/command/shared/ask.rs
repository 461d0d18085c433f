//! Asks the person at the terminal.
#![forbid(unsafe_code)]

use std::io::{self, BufRead as _, IsTerminal as _};

use crate::{
  app::context::Context,
  terminal::failure::{Failure, of_input},
};

/// Whether somebody can answer.
pub fn is_possible(context: &Context) -> bool {
  context.out.is_terminal() && io::stdin().is_terminal()
}

/// A question before a change of several items.
#[derive(Clone, Debug)]
pub struct BeforeChange<'a> {
  /// What would happen, for the error where nobody can answer: `3 items would be decided about`.
  pub would: &'a str,
  /// The question: `approve 3 items?`.
  pub question: &'a str,
  /// What is said if it is not done: `nothing was changed`.
  pub nothing: &'a str,
  /// What to do where nobody can answer.
  pub hint: &'a str,
}

/// Asks before a change, and says that nothing was done if the person does not agree. Where nobody can
/// answer, that is an error.
pub fn before_change(context: &Context, ask: &BeforeChange<'_>) -> Result<bool, Failure> {
  let BeforeChange { would, question, nothing, hint } = ask;
  if !is_possible(context) {
    return Err(Failure::usage(format!("{would}; {nothing}")).hint(*hint));
  }
  let is_agreed = agreed(context, question)?;
  if !is_agreed {
    context.out.line(nothing)?;
  }
  Ok(is_agreed)
}

/// Asks a question that yes or no answers; anything but yes is no.
pub fn agreed(context: &Context, question: &str) -> Result<bool, Failure> {
  context.out.text(&format!("{question} [y/N] "))?;
  context.out.flush()?;
  let mut answer = String::new();
  io::stdin().lock().read_line(&mut answer).map_err(|error| of_input(&error))?;
  Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
