//! How much of a user's rules is taken. Each number is a choice: many times what the built-in rules
//! need, and small enough that a file cannot slow every judgement down.
#![forbid(unsafe_code)]

/// Files of rules, at most.
pub const MAX_USER_FILES: usize = 64;
/// Bytes of one file, at most.
pub const MAX_USER_BYTES: u64 = 256 * 1024;
/// Rules of all files together, at most.
pub const MAX_USER_RULES: usize = 256;
/// Words of one rule or one class, at most.
pub const MAX_WORDS: usize = 1024;
/// Examples of one rule, at most.
pub const MAX_EXAMPLES: usize = 64;
/// Bytes of one example, at most.
pub const MAX_EXAMPLE_BYTES: usize = 8 * 1024;
/// Characters of `why`, at most: it is a line of `memfw quarantine show`.
pub const MAX_WHY_CHARS: usize = 300;
