//! `memfw completions`: a short shell script that asks `memfw complete` what can come next.
//!
//! Commands and options come from the tree that also gives the help. Values come from the ledger (ids,
//! files) and from the table of configuration keys, selected by the value names of the help (`ID`,
//! `FILE`, `KEY`). The ledger is only read, and an error gives no candidates and no message.
//!
//! Invariant: strangers may have chosen the names of files. A name with invisible characters is not
//! offered, and any other name is escaped so that the shell reads it as one word.
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

/// The most candidates that are offered; a person reads no more.
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
  /// The shell
  #[arg(value_name = "SHELL")]
  pub shell: Shell,
}

/// `memfw complete`
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = "Example: memfw complete bash 1 -- memfw quar")]
pub struct CompleteArgs {
  /// The shell
  #[arg(value_name = "SHELL")]
  pub shell: Shell,

  /// The index of the word being typed, from 0
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

/// Prints the candidates for the current word, one per line; zsh and fish get a tab and a description.
pub fn run(context: &Context, args: CompleteArgs, tree: clap::Command) -> Result<Status, Failure> {
  let CompleteArgs { shell, index, mut words } = args;
  words.truncate(index.saturating_add(1));
  words.resize(index.min(words.len()).saturating_add(1), OsString::new());
  // Bash and fish pass the word as it was typed, with its quotes; the script for zsh removes the quotes.
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
  // An error gives no candidates.
  let found = complete(&mut tree, words, last, here.as_deref()).unwrap_or_default();
  let lines = found.iter().filter_map(|candidate| line(shell, candidate));
  for line in lines.take(MAX_OFFERED) {
    context.out.line(&line)?;
  }
  Ok(Status::Yes)
}

/// The line for one candidate; `None` if the candidate cannot be offered.
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
