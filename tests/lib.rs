//! All tests that run the real binary; one program, because linking SQLite is most of its cost.
#![cfg(test)]
#![forbid(unsafe_code)]
#![expect(
  clippy::disallowed_methods,
  reason = "tests play the agent: they write memory, look at files and wait for processes"
)]
#![expect(clippy::string_slice, reason = "ids and answers that are cut here are ASCII")]

mod agent_comments;
mod attribution_worker;
mod bad_input;
mod come_back;
mod config;
mod config_set;
mod crash;
mod demo;
mod discovery;
mod docs;
mod doctor;
mod embedding;
mod eval;
mod excused;
#[cfg(linux)]
mod faults;
mod figures;
mod first_scan;
mod follow;
#[cfg(linux)]
mod gate;
mod guard;
mod holdoff;
mod hostile;
mod hostile_tree;
mod init;
mod judge;
mod kept_open;
mod ladder;
#[cfg(all(debug_assertions, linux))]
mod leases;
mod ledger_place;
mod life;
mod link;
mod link_chat;
mod link_own;
mod link_reads;
mod link_refusals;
mod load;
mod losses;
mod markers;
mod notifications;
mod numbers;
mod openclaw;
mod outage;
mod output;
mod overview;
mod packages;
mod parts;
#[cfg(all(debug_assertions, linux))]
mod powerloss;
mod race;
mod recall;
mod replaced;
mod restore;
mod review;
mod reviewing;
mod rules;
mod sarif;
mod scan;
mod schemas;
mod service;
mod service_files;
mod shell;
mod sim;
mod skills;
mod support;
mod top;
mod transcripts;
#[cfg(linux)]
mod unheard;
mod unseen;
mod waking;
mod walk;
mod workspaces;
mod writers;
