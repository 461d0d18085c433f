//! The pager: a program that shows a long list piece by piece.
//!
//! It is `PAGER`, split at spaces and never given to a shell, or `less` where that is not set; `cat` or
//! an absent program mean no pager. The text for the pager is already escaped.
#![forbid(unsafe_code)]

use std::{
  ffi::OsString,
  io::Write as _,
  path::PathBuf,
  process::{Command, Stdio},
};

use tokio::{
  runtime::{Builder, Runtime},
  signal::unix::{Signal, SignalKind, signal},
};

use crate::os::{Env, program};

/// The variables that the pager depends on, in addition to `TERM` and `PATH`.
pub const VARIABLES: [&str; 3] = ["PAGER", "LESS", "PATH"];

/// Options of `less` by default: end if all fits, show colours, leave the text on the screen.
const LESS: &str = "FRX";

/// A program and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pager {
  program: PathBuf,
  args: Vec<String>,
  /// Whether `less` gets the default options.
  is_told: bool,
}

impl Pager {
  /// The pager that the environment names, if any.
  pub fn find(env: &Env) -> Option<Self> {
    if env.get("TERM").is_some_and(|term| term == "dumb") {
      return None;
    }
    let words = env.get("PAGER").map_or(Some("less"), |words| words.to_str())?;
    let mut words = words.split_whitespace();
    let program = program::find(env, words.next()?)?;
    if program.file_name().is_some_and(|name| name == "cat") {
      return None;
    }
    let args = words.map(str::to_owned).collect();
    Some(Self { program, args, is_told: env.get("LESS").is_none() })
  }

  /// Shows a text until the reader leaves; returns whether the pager could be started.
  pub fn show(&self, text: &[u8]) -> bool {
    // An interrupt is for the pager; if memfw ended, the shell would take the terminal from the pager.
    let _listening = listen();
    let mut command = Command::new(&self.program);
    command.args(&self.args).stdin(Stdio::piped());
    // The text may quote hostile text, so no program may be started from within the pager.
    command.env("LESSSECURE", "1");
    if self.is_told {
      command.env("LESS", OsString::from(LESS));
    }
    let Ok(mut child) = command.spawn() else { return false };
    if let Some(mut stdin) = child.stdin.take() {
      // Leaving before the end is no error.
      stdin.write_all(text).ok();
    }
    child.wait().is_ok()
  }
}

/// Ignores interrupts while this value exists.
fn listen() -> Option<(Runtime, Signal)> {
  let runtime = Builder::new_current_thread().enable_all().build().ok()?;
  let inside = runtime.enter();
  let heard = signal(SignalKind::interrupt()).ok()?;
  drop(inside);
  Some((runtime, heard))
}

#[cfg(test)]
mod tests {
  use super::*;

  fn find(pairs: &[(&str, &str)]) -> Option<Vec<String>> {
    let path = [("PATH", "/usr/bin:/bin")];
    let pager = Pager::find(&Env::from_pairs(path.iter().chain(pairs).copied()))?;
    let program = pager.program.file_name().unwrap().to_str().unwrap().to_owned();
    Some([program].into_iter().chain(pager.args).collect())
  }

  #[test]
  fn it_is_what_is_asked_for_and_no_shell_reads_it() {
    assert_eq!(find(&[("PAGER", "head -n 3; $(x)")]).unwrap(), ["head", "-n", "3;", "$(x)"]);
    for none in ["cat", "/bin/cat -v", " ", "no-such-program", "./head"] {
      assert_eq!(find(&[("PAGER", none)]), None, "{none}");
    }
    assert_eq!(find(&[("PAGER", "head"), ("TERM", "dumb")]), None);
  }

  #[test]
  fn a_reader_who_leaves_early_is_no_failure() {
    let pager =
      Pager { program: "/bin/sh".into(), args: vec!["-c".into(), "exit 0".into()], is_told: true };
    assert!(pager.show(&vec![b'\n'; 1 << 20]));
    assert!(!Pager { program: "/no/such/program".into(), ..pager }.show(b"x"));
  }
}
