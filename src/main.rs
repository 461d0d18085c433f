//! The binary: arguments and environment are read once, the library does the rest.
#![forbid(unsafe_code)]

use {
  memfw::cli::{Surroundings, run},
  std::process::ExitCode,
};

fn main() -> ExitCode {
  run(std::env::args_os(), Surroundings::read())
}
