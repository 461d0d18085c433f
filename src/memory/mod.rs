//! Memory as text: blocks, markers, placeholders, and the plan that follows from text and facts. Pure.
//!
//! Nothing here fails on input: any bytes are divided into segments without gaps, and irregularities are
//! returned as values.

pub mod around;
pub mod bare;
pub mod block;
mod builder;
pub mod coarse;
pub mod comments;
pub mod compare;
pub mod consecutive;
pub mod cut;
pub mod document;
pub mod facts;
pub mod gap;
mod grown;
pub mod id;
pub mod known;
mod lead;
pub mod likeness;
pub mod line;
pub mod line_hash;
pub mod loss;
pub mod markdown;
pub mod marker;
mod outline;
pub mod parts;
pub mod placeholder;
pub mod plan;
mod pool;
mod present_lines;
mod relisted;
pub mod reshape;
#[cfg(test)]
mod tests;

pub use around::Around;
pub use bare::bare;
pub use block::Block;
pub use comments::{Continued, Known};
pub use compare::{Comparison, Fate, Inherited, compare, compare_text};
pub use document::{Document, Segment, SegmentKind};
pub use facts::{Facts, MarkerMode};
pub use gap::Gap;
pub use id::{BlockId, ContentHash};
pub use known::{KnownBlock, KnownLine};
pub use line::Line;
pub use line_hash::LineHash;
pub use markdown::{BlockKind, Enclosure};
pub use marker::Marker;
pub use plan::{Action, Judged, Plan, Redaction, RedactionKind, plan};
