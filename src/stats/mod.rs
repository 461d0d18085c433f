//! Counts of what happened to memory: how many blocks were written, what was decided, and how
//! trusted memory was on each day.
//!
//! Pure: the caller passes the events of the ledger, oldest first. This room reads neither ledger
//! nor clock, and every size is capped.
#![forbid(unsafe_code)]

mod counts;
mod stock;
mod summary;
mod tally;

pub use counts::{Counts, What};
pub use stock::{Level, MAX_DAYS, Move, levels};
pub use summary::{Day, summary};
pub use tally::{Figures, Happening, Line, MAX_NAMES, Tally};

/// Microseconds of a day.
pub const DAY: i64 = 86_400_000_000;

/// The day of a time, counted from 1970.
pub const fn day(at: i64) -> i64 {
  at.div_euclid(DAY)
}
