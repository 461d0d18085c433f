//! The configuration file: from text to a validated [`Config`]. Pure: no files, no environment.
//!
//! A document is read in two steps. [`Raw`] compares the parsed TOML with the table of known keys
//! and records unknown keys; [`Effective`] turns the values into a [`Config`] and records the
//! origin of each. Both collect all problems instead of stopping at the first, because a user with
//! three mistyped keys wants to see all three. (For this reason serde does not read the document:
//! its `deny_unknown_fields` reports one error.)
//!
//! Names, types, defaults and documentation of all keys are defined once, in [`key`]; the example
//! file, the defaults and the list of known keys are generated from it and cannot diverge.
//! [`preset`] has other defaults for some keys, and [`edit`] changes one value of a document.
#![forbid(unsafe_code)]

pub mod edit;
pub mod effective;
pub mod example;
mod file_pattern;
pub mod key;
mod nearest;
pub mod preset;
pub mod problem;
pub mod raw;
mod setting;
mod trust;
pub mod word;

pub use effective::{Effective, ValueOrigin};
pub use example::example;
pub use file_pattern::FilePattern;
pub use key::{Config, KEYS, Key, find};
pub use nearest::nearest;
pub use preset::{PARTS, Part};
pub use problem::ConfigProblem;
pub use raw::Raw;
pub use setting::Owner;
pub use word::{
  BaselineAction, EmbeddingProvider, ExtraPaths, Follow, Hold, InstructionFile, JudgeVia,
  LinkWrites, LogFormat, LogLevel, Markers, NotifyVia, Preset, Protocol, Scope, Sensitivity,
};
