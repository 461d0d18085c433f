//! How long memfw waits for other programs.
#![forbid(unsafe_code)]

use std::time::Duration;

/// How long to wait for a lease on a file that another program has open, before memfw reads and redacts
/// it without one (docs/adr/0002: a choice; from the first refusal to about 4 ms was tried).
pub const UNLEASED_AFTER: Duration = Duration::from_millis(5);

/// How long an agent's tool verifies its write on an idle machine (docs/adr/0002, measured 0.2-0.6 ms).
pub const HOLD_OFF: Duration = Duration::from_millis(50);

/// How long to wait for the verifying read of a tool whose write is on record. The read always comes;
/// an earlier edit makes the tool fail. With seven busy processes on two cores the read took longer than
/// [`HOLD_OFF`] in 2 of 17 runs (a choice: fifty times the slowest scheduling that was seen).
pub const VERIFY_WITHIN: Duration = Duration::from_secs(3);

/// The longest time for which a file that is changed again and again can delay a redaction by such reads (a choice:
/// two of them).
pub const MAX_VERIFY_WAIT: Duration = Duration::from_secs(6);

/// How long a reshape waits after a tool has written a file and may verify it, or has read it and may
/// write it. A reshape is never urgent, so this is a choice, ten times [`HOLD_OFF`]: on a loaded machine
/// a verifying read came more than 20 ms after its write, and the tool failed because it found markers.
pub const VERIFIED_AFTER: Duration = Duration::from_millis(500);

/// How long to wait for the writer of an incomplete last line with poison, who may write in pieces and
/// close the file after each. Later pieces are still judged with the line that they continue.
pub const TAIL_GRACE: Duration = Duration::from_millis(20);

/// The longest time for which a writer can delay a redaction by never finishing a line.
pub const MAX_TAIL_WAIT: Duration = Duration::from_millis(500);

/// An incomplete last line counts as complete when the file has not changed for this long and no lease
/// was granted.
pub const TAIL_COMPLETE_AFTER: Duration = Duration::from_millis(500);

/// The minimum age of a stamp that memfw trusts (docs/adr/0002: before Linux 6.13 file times advance by
/// 1 to 10 ms).
pub const RACY: Duration = Duration::from_millis(20);

/// Without events for the closing of files (everywhere but on Linux), a file counts as closed after
/// this time without a change.
pub const CLOSE_TICK: Duration = if cfg!(linux) { Duration::ZERO } else { RACY };
