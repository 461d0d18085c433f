//! The version of the protocol, and the limits of a request: everything that is read is hostile.
#![forbid(unsafe_code)]

/// The version of the protocol. A change that an old plugin cannot ignore gets a new number.
pub const VERSION: u32 = 1;
/// Longest line that is read, in bytes: a file of the largest size that an agent writes in one call, escaped, and
/// what it had read (a choice).
pub const MAX_LINE_BYTES: usize = 8 << 20;
/// Longest text of a change, in bytes (a choice; MEMORY.md has some 20 kB).
pub const MAX_TEXT_BYTES: usize = 1 << 20;
/// Longest text of a change that is judged before the write, in bytes: it takes about as long as a plugin waits (a
/// choice). The daemon judges a longer one after the write.
pub const MAX_JUDGED_BYTES: usize = 64 << 10;
/// Longest content of a file for whose change that is so (a choice).
pub const MAX_JUDGED_FILE_BYTES: usize = 256 << 10;
/// Most edits of one call.
pub const MAX_EDITS: usize = 256;
/// Longest name, id, address or command of a call, in bytes.
pub const MAX_NAME_BYTES: usize = 4096;
/// Most pieces of material that one call can name.
pub const MAX_HEARD: usize = 64;
/// Longest passage of one piece, in bytes.
pub const MAX_PASSAGE_BYTES: usize = 64 << 10;
/// Most texts of one `recall`: the files of a start, or the results of a search.
pub const MAX_TEXTS: usize = 128;
/// Bytes of all texts of one `recall` that the plugin sends itself.
pub const MAX_RECALL_BYTES: usize = 1 << 20;
/// Longest name of a way by which text reaches a model, in bytes.
pub const MAX_VIA_BYTES: usize = 64;
/// Longest text that is handed out, in bytes: more than an agent gives a model of one file (20,000 characters) or
/// of one result (100,000).
pub const MAX_HANDED_BYTES: usize = 256 << 10;
/// Bytes of all texts of one reply.
pub const MAX_REPLY_BYTES: usize = 2 << 20;
/// Longest words of a person in a chat, in bytes: a command and an id.
pub const MAX_CHAT_WORDS_BYTES: usize = 256;
/// The longest that a plugin may wait for the answer to a person, in milliseconds: a decision waits for programs
/// that have the file open.
pub const MAX_CHAT_DEADLINE_MS: u32 = 30_000;
/// How long a plugin waits for a verdict if it does not say, in milliseconds.
pub const DEADLINE_MS: u32 = 50;
/// The longest that a plugin may wait, in milliseconds.
pub const MAX_DEADLINE_MS: u32 = 5000;
