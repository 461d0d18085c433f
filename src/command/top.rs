//! `memfw top`: one screen with what comes in, from where, what was taken out, and what waits.
//!
//! `view` has the content, `layout` turns it into rows of any width and height, and `live` shows the rows until
//! a key ends it. The command only reads, except that a review of an item begins from here. Where there is no
//! terminal, the content is printed once.
#![forbid(unsafe_code)]

mod backend;
mod keys;
mod layout;
mod live;
mod refresh;
mod view;

use clap::Args as ClapArgs;
use rustix::termios::isatty;

use crate::{
  app::{context::Context, exit::Status},
  terminal::failure::Failure,
};
use refresh::Refresh;

/// `memfw top`
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = "Example: memfw top --once")]
pub struct TopArgs {
  /// Print the screen once and exit, as where there is no terminal
  #[arg(long)]
  pub once: bool,
}

/// Carries the command out.
pub fn run(context: &Context, args: &TopArgs) -> Result<Status, Failure> {
  if !args.once && has_screen(context) {
    return live::run(context);
  }
  let view = Refresh::new(context).view()?;
  let out = &context.out;
  for row in layout::plain(&view, out.columns()) {
    let text: String = row.iter().map(|(piece, style)| out.paint(*style, piece)).collect();
    out.line(&text)?;
  }
  Ok(Status::Yes)
}

/// Whether a person sits at a terminal that can move its cursor.
fn has_screen(context: &Context) -> bool {
  let is_dumb = context.surroundings.env.get("TERM").is_none_or(|term| term == "dumb");
  context.out.is_terminal() && isatty(std::io::stdin()) && !is_dumb
}
