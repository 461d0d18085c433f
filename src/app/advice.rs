//! What to type first: the one advice of all commands where memfw has never run.
#![forbid(unsafe_code)]

/// The command that sets memfw up.
pub const FIRST: &str = "memfw init";
/// What a person does who has not set memfw up.
pub const BEGIN: &str = "`memfw init` begins, `memfw demo` shows it";
