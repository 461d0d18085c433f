//! What a text would do to the agent that reads it. Pure.
//!
//! Findings say what was seen; only `policy` decides.

pub mod code;
pub mod effects;
pub mod exemplar;
pub mod finding;
pub mod judge;
pub mod model;
pub mod normalize;
pub mod policy;
pub mod reading;
pub mod rules;
pub mod text;

pub use code::Code;
pub use finding::{Finding, KeptFindings, Layer, RuleKind, RuleName, Severity};
pub use judge::{JudgeOptions, judge, judge_text};
pub use policy::{Action, BaselineAction, Decision, PolicyInput, Sensitivity, Verdict, decide};
pub use rules::{Mode, Scope};
pub use text::Text;

#[cfg(test)]
mod tests;
