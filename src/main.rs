//! The binary: arguments and environment are read once, the library does the rest.
#![forbid(unsafe_code)]

use memfw::{app::Surroundings, command::run_line};
use std::process::ExitCode;

fn main() -> ExitCode {
  run_line(std::env::args_os(), Surroundings::read())
}
