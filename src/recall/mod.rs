//! What an agent may read of guarded memory, and in which form. Pure.
//!
//! The input is the text of memory files, cut into [`Excerpt`]s with what the ledger knows about each. The
//! [`Rules`] select from them, and [`Sheet`] prints the selection: trusted text unchanged, other text in a
//! frame that names its origin, and one line for an entry that is blocked. No file and no ledger is read here.
//!
//! Invariant: no byte of a blocked entry is in the output, because [`Content::Blocked`] has no text.
//! Invariant: only memfw writes a frame: in text of memory, the beginning of a frame is changed
//! ([`look_alike`]), and every line of a framed text begins with [`frame::PREFIX`].
//! Invariant: the output depends only on the input, so equal files and an equal ledger give equal bytes.

pub mod excerpt;
pub mod frame;
pub mod look_alike;
pub mod origin;
pub mod selection;
pub mod sheet;
pub mod terms;
pub mod withheld;

#[cfg(test)]
mod tests;

pub use excerpt::{Blocked, Content, Excerpt, Excerpts, Known};
pub use selection::{Entry, Item, LeftOut, Rules, Selection, Shown};
pub use sheet::Sheet;
pub use terms::Terms;
pub use withheld::Withheld;
