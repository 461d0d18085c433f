//! How well detection does on labelled text: counts, intervals, curves, floors. Pure.
//!
//! A [`Case`] is a labelled line, an [`Outcome`] is what detection made of it; a [`Tally`] takes
//! both, one by one, and ends as a [`Report`]. Nothing here judges a text or reads a file.

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
