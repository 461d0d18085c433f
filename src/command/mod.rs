//! The command line: one file per command, and code that several commands share.
//!
//! A command is `run(&Context, its arguments) -> Result<Status, Failure>`: yes, no, or why there is no
//! answer, which become exit status 0, 1 and 2. To add a command, add its variant to [`args::Command`]
//! and its arm to [`dispatch`].
#![forbid(unsafe_code)]

pub mod args;
pub mod audit;
pub mod complete;
pub mod config;
pub mod demo;
pub mod dispatch;
pub mod doctor;
pub mod eval;
pub mod explain;
pub mod gate;
pub mod init;
pub mod judge;
pub mod link;
pub mod log;
pub mod man;
pub mod markers;
pub mod openclaw;
pub mod overview;
pub mod policy;
pub mod provenance;
pub mod quarantine;
pub mod recall;
pub mod report;
pub mod restore;
pub mod run;
pub mod scan;
pub mod service;
pub mod settle;
pub mod shared;
pub mod skills;
pub mod stats;
pub mod status;
pub mod suggest;
pub mod top;

pub use {
  args::{Args, Command},
  dispatch::run_line,
};
