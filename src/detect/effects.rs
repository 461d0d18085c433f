//! What an entry would do: effects, and the slots that they depend on. Pure.
//!
//! Effects say what was read; only `policy` decides what follows from them, by the origin of the text. What is
//! read as [`Strength::Blatant`] is the rule for texts from outside: it needs no probability.

pub mod asked;
pub mod effect;
mod examples;
mod frame;
mod host;
pub mod known;
mod number;
pub mod read;
pub mod slot;
pub mod values;

pub use asked::{asks_to_keep, licence};
pub use effect::{Effect, FoundEffect, Strength};
pub use examples::wrong_examples;
pub use host::registrable;
pub use known::{Setting, known_slots};
pub use read::{licence_for, read, read_in};
pub use slot::{KnownSlot, Novelty, Slot, SlotKind};
pub use values::slots;

#[cfg(test)]
mod tests;
