//! Why a command has no answer: one form for all errors that a person sees.
//!
//! Errors are lower case, with names in backticks and without a final period; a hint says what to
//! type next. Both are escaped when they are printed, so hostile names may occur in them.
#![forbid(unsafe_code)]

use {
  super::escape::terminal,
  std::{
    fmt,
    io::{self, Write as _},
  },
};

/// The kind of a failure; all but a broken pipe exit with status 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
  /// The command line asks for something impossible.
  Usage,
  /// The configuration is invalid.
  Config,
  /// Something that the command needs is absent or unreadable.
  Unavailable,
  /// A bug in memfw itself.
  Internal,
  /// The reader of the output has closed it, which is no error: success.
  BrokenPipe,
}

/// An error with hints, and further errors of its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
  /// The kind, which decides the exit status.
  pub kind: FailureKind,
  /// What was found and what was expected.
  pub error: String,
  /// What to do, one line each.
  pub hints: Vec<String>,
  /// Further errors, printed after this one.
  pub also: Vec<Failure>,
}

impl Failure {
  fn new(kind: FailureKind, error: impl Into<String>) -> Self {
    Self { kind, error: error.into(), hints: Vec::new(), also: Vec::new() }
  }

  /// The command line asks for something impossible.
  pub fn usage(error: impl Into<String>) -> Self {
    Self::new(FailureKind::Usage, error)
  }

  /// The configuration is invalid.
  pub fn config(error: impl Into<String>) -> Self {
    Self::new(FailureKind::Config, error)
  }

  /// Something that the command needs is absent or unreadable.
  pub fn unavailable(error: impl Into<String>) -> Self {
    Self::new(FailureKind::Unavailable, error)
  }

  /// A bug in memfw itself.
  pub fn internal(error: impl Into<String>) -> Self {
    Self::new(FailureKind::Internal, error)
  }

  /// Adds a hint.
  #[must_use]
  pub fn hint(mut self, hint: impl Into<String>) -> Self {
    self.hints.push(hint.into());
    self
  }

  /// Adds a hint, if there is one.
  #[must_use]
  pub fn maybe_hint(self, hint: Option<impl Into<String>>) -> Self {
    match hint {
      Some(hint) => self.hint(hint),
      None => self,
    }
  }

  /// The first of several failures, which carries the others; `None` when there are none.
  pub fn all(failures: impl IntoIterator<Item = Self>) -> Option<Self> {
    let mut failures = failures.into_iter();
    let mut first = failures.next()?;
    first.also.extend(failures);
    Some(first)
  }
}

impl fmt::Display for Failure {
  /// The lines for standard error, each with its line end.
  fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "error: {}", terminal(&self.error))?;
    for hint in &self.hints {
      writeln!(f, "hint: {}", terminal(hint))?;
    }
    if self.kind == FailureKind::Internal {
      writeln!(
        f,
        "hint: this is a bug in memfw; please report it with the command that you typed"
      )?;
    }
    for failure in &self.also {
      failure.fmt(f)?;
    }
    Ok(())
  }
}

/// The failure for an error of writing to standard output. It is no `From`: an error of a file names the file.
pub fn of_output(error: &io::Error) -> Failure {
  match error.kind() {
    io::ErrorKind::BrokenPipe => Failure::new(FailureKind::BrokenPipe, "broken pipe"),
    _ => Failure::unavailable(format!("cannot write the output: {}", reason(error))),
  }
}

/// The failure for an error of reading standard input.
pub fn of_input(error: &io::Error) -> Failure {
  Failure::unavailable(format!("cannot read standard input: {}", reason(error)))
}

/// The failure for an error; its further lines become hints.
pub fn unavailable(error: impl fmt::Display) -> Failure {
  let text = error.to_string();
  let mut lines = text.lines();
  let mut failure = Failure::unavailable(lines.next().unwrap_or_default());
  for line in lines {
    failure = failure.hint(line.trim_start_matches("hint: "));
  }
  failure
}

/// The reason of an error of the operating system in lower case, without its number.
pub fn reason(error: &io::Error) -> String {
  let text = error.to_string();
  let text = text.split_once(" (os error").map_or(text.as_str(), |(text, _)| text);
  let mut letters = text.chars();
  letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

/// Writes to standard error; a failure to do so cannot be reported.
pub fn complain(text: &str) {
  io::stderr().write_all(text.as_bytes()).unwrap_or_default();
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn errors_come_with_their_hints_and_neighbours() {
    let failure = Failure::all([
      Failure::config("unknown key `a`").hint("did you mean `b`?"),
      Failure::config("unknown key `c`").maybe_hint(None::<String>),
    ])
    .unwrap();
    assert_eq!(
      failure.to_string(),
      "error: unknown key `a`\nhint: did you mean `b`?\nerror: unknown key `c`\n"
    );
    assert_eq!(Failure::all([]), None);
  }

  #[test]
  fn hostile_names_cannot_forge_lines_or_colours() {
    let failure = Failure::usage("no file `a\nerror: \x1b[31m`").hint("\u{202e}");
    assert_eq!(failure.to_string(), "error: no file `a\\nerror: \\u{1b}[31m`\nhint: \\u{202e}\n");
  }

  #[test]
  fn reasons_of_the_system_are_plain() {
    assert_eq!(reason(&io::Error::from_raw_os_error(2)), "no such file or directory");
    assert_eq!(reason(&io::Error::other("Odd thing")), "odd thing");
  }

  #[test]
  fn a_broken_pipe_is_distinguished() {
    let pipe = of_output(&io::Error::from(io::ErrorKind::BrokenPipe));
    assert_eq!(pipe.kind, FailureKind::BrokenPipe);
    assert_eq!(of_output(&io::Error::from_raw_os_error(28)).kind, FailureKind::Unavailable);
  }
}
