//! All tests that run the real binary; one program, because linking SQLite is most of its cost.
#![cfg(test)]
#![forbid(unsafe_code)]
#![expect(
  clippy::disallowed_methods,
  reason = "tests play the agent: they write memory, look at files and wait for processes"
)]
#![expect(clippy::string_slice, reason = "ids and answers that are cut here are ASCII")]

mod bad_input;
mod config;
mod crash;
mod demo;
mod guard;
mod holdoff;
mod hostile;
mod hostile_tree;
#[cfg(feature = "failpoints")]
mod leases;
mod markers;
#[cfg(feature = "failpoints")]
mod powerloss;
mod review;
mod scan;
mod sim;
mod support;
mod workspaces;
mod writers;
