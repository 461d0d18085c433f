//! Where a memory came from, how far that origin is trusted, and how the origin is known. Pure.
//!
//! Nothing here ever looks at what a text says about itself: a source is observed by the shells and
//! handed in.

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
