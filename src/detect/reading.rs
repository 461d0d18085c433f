//! Layer 3: what is asked of a model that reads, and what its answer says. Pure.
//!
//! The text in question is data in a frame whose ends no outsider can know. An answer counts only
//! where it is strictly what was asked for, quotes the entry, and is right about two entries of
//! memfw's in the same frame. Everything else is no answer, and no answer changes nothing. What
//! follows from an answer is decided by `policy` alone.

#![forbid(unsafe_code)]

mod canary;
mod mask;
mod prompt;
mod question;
mod ruling;
mod words;

pub use mask::mask;
pub use prompt::{NoAnswer, Nonce, Prompt};
pub use question::{KeptQuestion, Question};
pub use ruling::{Reading, Ruling};

/// Who answers, for `memfw eval` and tests.
pub trait Reader: Sync + std::fmt::Debug {
  /// The answer; `None` where there is none that counts.
  fn read(&self, question: &Question<'_>) -> Option<Reading>;
}

#[cfg(test)]
mod tests;
