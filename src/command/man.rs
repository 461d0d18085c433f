//! `memfw man`: manual pages from the tree that also gives the help.
//!
//! Pages have no date and nothing of this machine, so that a package is the same wherever it is built.
#![forbid(unsafe_code)]

use std::{fs, path::PathBuf};

use clap::{Args as ClapArgs, ValueHint};

use crate::{
  app::{context::Context, exit::Status},
  terminal::{
    escape::terminal,
    failure::{Failure, of_output, reason},
  },
};

/// `memfw man`
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = "Example: memfw man ~/.local/share/man/man1")]
pub struct ManArgs {
  /// Write a page for each command into this directory; without it, print the page of memfw itself
  #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
  pub dir: Option<PathBuf>,
}

/// Carries the command out.
pub fn run(context: &Context, args: &ManArgs, tree: clap::Command) -> Result<Status, Failure> {
  let tree = tree.disable_help_subcommand(true);
  let Some(dir) = &args.dir else {
    let mut page = Vec::new();
    clap_mangen::Man::new(tree).render(&mut page).map_err(|error| of_output(&error))?;
    context.out.bytes(&page)?;
    return Ok(Status::Yes);
  };
  let failed = |error| {
    let why = reason(&error);
    Failure::unavailable(format!("cannot write manual pages into `{}`: {why}", dir.display()))
  };
  fs::create_dir_all(dir).map_err(failed)?;
  clap_mangen::generate_to(tree, dir).map_err(failed)?;
  let shown = terminal(dir.display().to_string());
  context.out.note(&format!("the manual pages are in {shown}; `man memfw` shows the first"))?;
  Ok(Status::Yes)
}
