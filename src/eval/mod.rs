//! The quality of detection on labelled text: counts, intervals, curves, floors. Pure.
//!
//! A [`Case`] is a labelled line, and an [`Outcome`] the result of detection; a [`Tally`] takes
//! both, one by one, and returns a [`Report`]. This room judges no text and reads no file.

pub mod case;
pub mod curve;
pub mod floors;
pub mod latency;
pub mod mistakes;
pub mod pairs;
pub mod report;
pub mod scenario;
pub mod share;
pub mod svg;
pub mod tally;

pub use case::Case;
pub use floors::{FloorError, Floors};
pub use report::{Report, Setup};
pub use scenario::Scenario;
pub use share::Share;
pub use tally::{Outcome, Tally};
