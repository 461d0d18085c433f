//! Skills: directories of instructions and programs that an agent follows, as values: which files they have,
//! how two states of one differ, who signed them, and what follows for the owner.
//!
//! The room reads no file and judges no text. All of a skill is hostile: its paths are bytes that are escaped
//! before anybody sees them, and no path of its content is ever opened.
#![forbid(unsafe_code)]

mod manifest;
mod name;
mod signature;
mod state;

pub use manifest::{Difference, Entry, EntryKind, Excess, Manifest};
pub use name::declared_name;
pub use signature::{LIST, PublicKey, SIGNATURE, Signature, check};
pub use state::{SkillState, Standing};

/// The file that makes a directory a skill.
pub const MAIN: &str = "SKILL.md";
