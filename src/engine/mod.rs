//! Processes one memory file from change to end, for the daemon, the command line and the tests alike.
//!
//! The engine owns the ledger and the access to the files. The engine does not decide (policy does),
//! does not wait for events (the daemon does), and never changes a byte whose former content is not
//! durable in the ledger. It changes a file by five plans, all by the journalled edit of `edit`: a redaction
//! ([`pass`], [`redact`]: urgent, equal length, in place), markers ([`lazy`]: the file is idle), an approval
//! ([`put_back`]), a restore ([`restore`]: an earlier version), and recovery ([`recover`]: an edit that a crash
//! interrupted). [`review`] carries out a person's decisions with these plans.
#![forbid(unsafe_code)]

pub mod adopt;
mod agent_link;
#[cfg(test)]
mod agent_link_tests;
#[cfg(test)]
mod allowed_tests;
pub mod attribute;
#[cfg(test)]
mod attribute_tests;
mod attributed_text;
pub mod attribution_request;
pub mod bulk;
pub mod consult;
#[cfg(test)]
mod consult_tests;
mod core;
#[cfg(test)]
mod decided_tests;
pub mod decisions;
mod degraded;
mod edit;
pub mod error;
pub mod event;
#[cfg(test)]
mod faulty_fs;
mod file_memory;
pub mod files;
pub mod foresee;
pub mod gate_check;
mod given_back;
#[cfg(test)]
mod grown_tests;
mod ids;
mod inferred;
mod join;
pub mod judge_queue;
mod keep_version;
mod landing;
#[cfg(test)]
mod lapse_tests;
pub mod layer2;
#[cfg(test)]
mod layer2_tests;
pub mod lazy;
#[cfg(test)]
mod line_hash_tests;
pub mod loss_check;
pub mod loss_decision;
mod loss_round;
#[cfg(test)]
mod loss_tests;
mod lost;
pub mod marker_preference;
mod open_edits;
mod outcome;
#[cfg(test)]
mod parts_tests;
pub mod pass;
pub mod pending;
mod pieces;
mod prepare;
pub mod put_back;
#[cfg(test)]
mod put_back_tests;
pub mod readable;
pub mod record;
pub mod recover;
pub mod redact;
mod rejudge;
mod remembered;
mod renamed;
#[cfg(test)]
mod renamed_tests;
mod replaced;
pub mod restore;
#[cfg(test)]
mod restore_tests;
mod restored_text;
pub mod retain;
pub mod review;
#[cfg(test)]
mod rows_tests;
pub mod scoring;
pub mod settled;
#[cfg(test)]
mod source_tests;
pub mod split;
#[cfg(test)]
mod split_tests;
mod stamp;
mod target;
#[cfg(test)]
mod testing;
mod text_copy;
#[cfg(test)]
mod together_tests;
mod trusted;
pub mod undo;
mod undo_take_out;
#[cfg(test)]
mod undo_tests;
pub mod unmark;
mod verifying_read;
pub mod versions;
pub mod view;
mod waits;

pub use self::core::Engine;
pub use crate::judging::judge::Layer2;
pub use attribute::Attributing;
pub use consult::Consulting;
pub use error::{Consequence, EngineError};
pub use event::{Event, EventKind};
pub use files::ceiling;
pub use foresee::Foreseen;
pub use gate_check::Passed;
pub use layer2::Reading;
pub use lazy::LazyOutcome;
pub use outcome::{Hint, Outcome};
pub use scoring::{Scored, Scoring, ScoringRun};
pub use stamp::stamp_row;
pub use target::Target;
pub use waits::{
  CLOSE_TICK, HOLD_OFF, MAX_TAIL_WAIT, MAX_VERIFY_WAIT, RACY, TAIL_COMPLETE_AFTER, TAIL_GRACE,
  UNLEASED_AFTER, VERIFIED_AFTER, VERIFY_WITHIN,
};
