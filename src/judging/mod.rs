//! Judges text: which lines of a version must be taken out, and why.
//!
//! The room reads the ledger and no file. [`judge::Judge`] has the criteria: a version is read
//! ([`read_version`]), and its fresh lines are judged ([`blocks`]). The version with its judgements is a
//! [`view::View`], from which its [`rows`] in the ledger follow.
#![forbid(unsafe_code)]

pub mod approvals;
pub mod approved;
pub mod assess;
pub mod blocks;
pub mod claim;
pub mod decide;
pub mod facts;
pub mod judge;
pub mod judge_context;
pub mod judgement;
pub mod label;
pub mod lapse;
pub mod layer1;
pub mod origin;
pub mod placeholder_cache;
pub mod precedent;
pub mod read_version;
pub mod referral;
pub mod rows;
pub mod slices;
pub mod spans;
pub mod taken;
pub mod text;
pub mod together;
pub mod treatment;
pub mod unit;
pub mod view;
