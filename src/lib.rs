//! memfw, a memory firewall for AI agents.
//!
//! The map of the crate, in the order in which things depend on each other (nothing depends upwards;
//! `tests/tidy.rs` holds the direction):
//!
//! - core, pure (no files, no clock, no environment, no failure on input):
//!   [`plural`] (a number with its noun), [`hash`] (the name of content), [`provenance`] (source, trust, attestation), [`memory`] (text and facts to a
//!   plan),
//!   [`detect`] (normaliser, rules, policy), [`recall`] (what an agent may read), [`eval`] (how well
//!   detection does on labelled text), [`stats`] (what became of blocks, counted), [`seal`] (encryption of
//!   quarantined bytes), [`link`] (the protocol between a plugin inside the agent and memfw), [`skill`] (the files of
//!   a skill, their hashes and signatures);
//! - shells, which do not know each other: [`config`], [`store`] (SQLite ledger),
//!   [`os`] (files, leases, watching, paths), [`net`] (what is asked over the network, if a user wants it),
//!   [`openclaw`] (the agent framework's own records), [`terminal`] (what commands print with);
//! - [`judging`]: which text must be taken out, and why; it reads the ledger and no file;
//! - [`engine`]: one file, from dirty to done; the same for daemon, command line and tests;
//! - [`gate`]: readers wait until the daemon has passed what they would read;
//! - [`daemon`]: the loop, one closed event enum;
//! - [`app`]: the parts put together: configuration, ledger, engine, daemon, the agent framework;
//! - [`command`]: the command line, one file per command;
//! - [`failpoint`]: where tests have the process die; empty in the product.

// The tests of the crate include a file of the integration tests, which names the crate.
#[cfg(test)]
extern crate self as memfw;

pub mod app;
pub mod command;
pub mod config;
pub mod daemon;
pub mod detect;
pub mod engine;
pub mod eval;
pub mod failpoint;
pub mod files;
pub mod gate;
#[cfg(test)]
#[path = "../tests/support/harness.rs"]
#[expect(dead_code, reason = "the unit tests build engines, and no daemon")]
mod harness;
pub mod hash;
pub mod judging;
pub mod link;
pub mod memory;
pub mod net;
pub mod openclaw;
pub mod os;
pub mod plural;
pub mod provenance;
pub mod recall;
pub mod seal;
pub mod skill;
pub mod stats;
pub mod store;
pub mod terminal;
