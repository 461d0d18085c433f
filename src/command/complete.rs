//! `memfw completions`: a short script for a shell, which asks `memfw complete` what can stand next.
//!
//! Commands and options come from the same tree as the help; ids, files and keys from the ledger and the
//! table of keys, by the names that values have in the help (`ID`, `FILE`, `KEY`). The ledger is only
//! read, and what cannot be told is left out without a word.
//!
//! Invariant: names of files are those of strangers. One that holds what cannot be seen is not offered,
//! and none reaches a shell in a form that it would take for more than a word.
#![forbid(unsafe_code)]

pub mod lookup;
mod quote;

use std::{ffi::OsString, sync::Arc};

use clap::{Args as ClapArgs, ValueEnum};
use clap_complete::engine::{CompletionCandidate, complete};

use crate::{
  app::{context::Context, exit::Status},
  terminal::{escape::is_hidden, failure::Failure},
};
use lookup::{Lookup, with_lookup};

/// Longest list that is offered; a person reads no more.
const MAX_OFFERED: usize = 200;

/// A shell for which there is a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Shell {
  /// GNU bash
  #[value(help = clap::builder::Resettable::Reset)]
  Bash,
  /// Zsh
  #[value(help = clap::builder::Resettable::Reset)]
  Zsh,
  /// Fish
  #[value(help = clap::builder::Resettable::Reset)]
  Fish,
}

impl Shell {
  const fn script(self) -> &'static str {
    match self {
      Self::Bash => include_str!("complete/memfw.bash"),
      Self::Zsh => include_str!("complete/memfw.zsh"),
      Self::Fish => include_str!("complete/memfw.fish"),
    }
  }
}

/// `memfw completions`
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = "Example: echo 'source <(memfw completions bash)' >> ~/.bashrc")]
pub struct CompletionsArgs {
  /// For which shell
  #[arg(value_name = "SHELL")]
  pub shell: Shell,
}

/// `memfw complete`
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = "Example: memfw complete bash 1 -- memfw quar")]
pub struct CompleteArgs {
  /// For which shell
  #[arg(value_name = "SHELL")]
  pub shell: Shell,

  /// Which of the words is being typed, from 0
  #[arg(value_name = "INDEX")]
  pub index: usize,

  /// The command line so far
  #[arg(value_name = "WORD", last = true)]
  pub words: Vec<OsString>,
}

/// Prints the script for a shell.
pub fn print(context: &Context, args: &CompletionsArgs) -> Result<Status, Failure> {
  context.out.text(args.shell.script())?;
  Ok(Status::Yes)
}

/// Prints what can stand next, one a line; in zsh and fish with a word about it behind a tab.
pub fn run(context: &Context, args: CompleteArgs, tree: clap::Command) -> Result<Status, Failure> {
  let CompleteArgs { shell, index, mut words } = args;
  words.truncate(index.saturating_add(1));
  words.resize(index.min(words.len()).saturating_add(1), OsString::new());
  // Bash and fish hand on what was typed, with its quotes; the script for zsh takes them away.
  if shell != Shell::Zsh
    && let Some(typed) = words.last_mut()
  {
    let Some(plain) = quote::unquoted(typed) else { return Ok(Status::Yes) };
    *typed = plain;
  }
  let lookup = Arc::new(Lookup::new(&context.surroundings.env, shell, &words));
  let mut tree = with_lookup(tree, &lookup);
  let here = std::env::current_dir().ok();
  let last = words.len() - 1;
  // Where nothing can be told, nothing is offered.
  let found = complete(&mut tree, words, last, here.as_deref()).unwrap_or_default();
  let lines = found.iter().filter_map(|candidate| line(shell, candidate));
  for line in lines.take(MAX_OFFERED) {
    context.out.line(&line)?;
  }
  Ok(Status::Yes)
}

/// The line for one candidate; `None` for one that cannot be offered.
fn line(shell: Shell, candidate: &CompletionCandidate) -> Option<String> {
  let value = candidate.get_value().to_str().filter(|value| !value.chars().any(is_hidden))?;
  if shell == Shell::Bash {
    return quote::for_bash(value);
  }
  let about = candidate.get_help().map(ToString::to_string).unwrap_or_default();
  let about: String = about.lines().next().unwrap_or_default().to_owned();
  let about = crate::terminal::escape::terminal(about);
  Some(if about.is_empty() { value.to_owned() } else { format!("{value}\t{about}") })
}

#[cfg(test)]
mod tests {
  use super::*;

  fn offered(shell: Shell, value: &str, about: &str) -> Option<String> {
    line(shell, &CompletionCandidate::new(value).help(Some(about.to_owned().into())))
  }

  #[test]
  fn a_line_is_a_value_and_a_word_about_it() {
    assert_eq!(offered(Shell::Zsh, "a1b2c3", "why\nmore").as_deref(), Some("a1b2c3\twhy"));
    assert_eq!(offered(Shell::Fish, "a1b2c3", "").as_deref(), Some("a1b2c3"));
    assert_eq!(offered(Shell::Bash, "a1b2c3", "why").as_deref(), Some("a1b2c3"));
  }

  #[test]
  fn hostile_names_are_no_lines_and_no_commands() {
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
      for name in ["a\nb", "a\tb", "\x1b[2J", "a\u{202e}b", "zero\u{200b}width"] {
        assert_eq!(offered(shell, name, ""), None, "{shell:?} {name:?}");
      }
    }
    let quoted = offered(Shell::Bash, "$(touch x); `y`", "").unwrap();
    assert_eq!(quoted, "\\$\\(touch\\ x\\)\\;\\ \\`y\\`");
    assert_eq!(offered(Shell::Zsh, "id", "\u{202e}").as_deref(), Some("id\t\\u{202e}"));
  }
}
