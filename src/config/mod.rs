//! The configuration file: from text to a validated [`Config`]. Pure: no files, no environment.
//!
//! A document is read in two steps. [`Raw`] walks the parsed TOML against the table of known keys
//! and notes what it does not know; [`Effective`] turns the values into a [`Config`] and remembers
//! where each came from. Both collect problems instead of stopping at the first, because somebody
//! who mistyped three keys wants to hear of three. (That is also why serde does not read the
//! document: its `deny_unknown_fields` knows one error.)
//!
//! Names, types, defaults and documentation of all keys stand once, in [`key`]; the example file,
//! the defaults and the list of known keys are made from it and cannot drift apart. [`preset`] has
//! other defaults for some of them, and [`edit`] changes one value of a document.
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
  LogFormat, LogLevel, Markers, NotifyVia, Preset, Protocol, Scope, Sensitivity,
};
