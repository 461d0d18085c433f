//! All tests that run the real binary; one program, because linking SQLite is most of its cost.
#![cfg(test)]
#![forbid(unsafe_code)]
#![expect(
  clippy::disallowed_methods,
  reason = "tests play the agent: they write memory, look at files and wait for processes"
)]

mod config;
mod sim;
mod support;
