//! The origin of a memory, the trust in that origin, and how memfw knows it. Pure.
//!
//! This room never uses what a text says about itself: the shells observe a source and
//! pass it in.

pub mod agent;
pub mod attestation;
pub mod attribution;
pub mod evidence;
pub mod overlap;
pub mod passage;
pub mod request;
pub mod rules;
mod sieve;
pub mod source;
pub mod state;
pub mod trust;
pub mod words;

pub use agent::{AgentRecords, Classes, Followed, NoAgent, Standing};
pub use attestation::Attestation;
pub use attribution::{Answer, Attribution, Outlook, Question, Remembered};
pub use evidence::{Evidence, Fed, Written};
pub use request::Request;
pub use rules::{SourcePattern, TrustRule, matches_pattern, trust_of};
pub use source::{MAX_SOURCE_CHARS, Source};
pub use state::State;
pub use trust::Trust;
