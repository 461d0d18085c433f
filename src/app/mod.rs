//! Puts the parts of memfw together for commands and for the daemon: paths, configuration, ledger, engine, rules,
//! the agent framework, and the endpoints on the network.
//!
//! Every command gets a [`Context`]; most files here add methods to it.
#![forbid(unsafe_code)]

pub mod advice;
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
pub mod log_queue;
pub mod logging;
pub mod lost_ledger;
pub mod paths;
pub mod rules;
pub mod workspaces;

pub use {
  context::{Context, Surroundings},
  exit::Status,
};
