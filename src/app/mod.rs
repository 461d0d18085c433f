//! The parts of memfw put together, for commands and for the daemon: where its files are, configuration, ledger,
//! engine, rules, the agent framework, and who is asked over the network.
//!
//! [`Context`] is what every command is given; most of the files here add to it.
#![forbid(unsafe_code)]

pub mod agent;
pub mod configuration;
pub mod context;
pub mod daemon;
pub mod daemon_state;
pub mod desktop;
pub mod embedding;
pub mod engine;
pub mod exit;
pub mod judge_client;
pub mod judge_report;
pub mod keys;
pub mod ledger;
pub mod logging;
pub mod paths;
pub mod rules;
pub mod workspaces;

pub use {
  context::{Context, Surroundings},
  exit::Status,
};
