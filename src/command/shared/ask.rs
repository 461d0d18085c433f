//! Asks the person at the terminal.
#![forbid(unsafe_code)]

use std::io::{self, BufRead as _, IsTerminal as _};

use crate::{app::context::Context, terminal::failure::Failure};

/// Whether somebody can answer.
pub fn is_possible(context: &Context) -> bool {
  context.out.is_terminal() && io::stdin().is_terminal()
}

/// Asks a question that yes or no answers; anything but yes is no.
pub fn agreed(context: &Context, question: &str) -> Result<bool, Failure> {
  context.out.text(&format!("{question} [y/N] "))?;
  context.out.flush()?;
  let mut answer = String::new();
  io::stdin().lock().read_line(&mut answer)?;
  Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
