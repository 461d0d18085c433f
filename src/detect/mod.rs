//! What a text would do to the agent that reads it. Pure.
//!
//! Findings say what was seen; only `policy` decides.

pub mod code;
pub mod finding;

pub use code::Code;
pub use finding::{Finding, Layer, RuleKind, Severity};
