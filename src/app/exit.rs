//! How a command ends when it could tell.
#![forbid(unsafe_code)]

use std::process::ExitCode;

/// The answer of a command that could tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
  /// Yes, or fine: exit status 0.
  Yes,
  /// The answer is no: exit status 1.
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
