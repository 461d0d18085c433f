//! The exit status of a command that has an answer.
#![forbid(unsafe_code)]

use std::process::ExitCode;

/// The answer of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
  /// Yes, or no problem: exit status 0.
  Yes,
  /// No: exit status 1.
  No,
}

impl From<Status> for ExitCode {
  fn from(status: Status) -> Self {
    match status {
      Status::Yes => Self::SUCCESS,
      Status::No => Self::FAILURE,
    }
  }
}
