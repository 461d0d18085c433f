//! Why a page or metrics were not written, for a person.
#![forbid(unsafe_code)]

use std::path::Path;

use crate::{
  engine::event::shown,
  os::report_file::PageError,
  terminal::failure::{Failure, reason, unavailable},
};

/// The failure for an error of writing to `path`; `hint` says what to name in place of another program's file.
pub fn unwritten(error: &PageError, path: &Path, hint: &str) -> Failure {
  match error {
    PageError::Foreign(_) => {
      Failure::unavailable(format!("cannot write `{}`: {error}", shown(path))).hint(hint)
    }
    PageError::Io { operation, path, error } => {
      Failure::unavailable(format!("cannot {operation} `{}`: {}", shown(path), reason(error)))
    }
    PageError::Own(error) => unavailable(error),
  }
}
