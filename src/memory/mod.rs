//! Memory as text: blocks, markers, placeholders, and the plan that follows from text and facts. Pure.
//!
//! Nothing here fails on input: whatever the bytes are, they are tiled into segments, and what is odd
//! about them comes back as values.

pub mod id;

pub use id::{BlockId, ContentHash};
