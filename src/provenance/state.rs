//! The state of a block between the first sight of it and the decision about it.
#![forbid(unsafe_code)]

/// The state of a block in the ledger.
#[derive(
  Clone,
  Copy,
  Debug,
  PartialEq,
  Eq,
  Hash,
  strum::Display,
  strum::EnumString,
  strum::IntoStaticStr,
  strum::VariantArray,
)]
#[strum(
  serialize_all = "kebab-case",
  parse_err_ty = UnknownState,
  parse_err_fn = UnknownState::new
)]
pub enum State {
  /// Seen, not completely judged.
  Unvalidated,
  /// Judged, without findings.
  Validated,
  /// Judged, with findings, and still in the file.
  Flagged,
  /// Taken out because of its content; waits for a person.
  Quarantined,
  /// Taken out because of the policy; waits for a person.
  Held,
  /// A person restored it.
  Approved,
  /// A person rejected it.
  Rejected,
  /// A person replaced it by a correct text. No command does so yet; a word of `--json` and `--status`, so that programs
  /// handle it before memfw uses it.
  Corrected,
  /// Its bytes were deleted on request.
  Forgotten,
  /// A person approved a part of it; its parts are items of their own.
  Split,
}

/// A word that is no state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown state `{word}`: it is one of {}", words())]
pub struct UnknownState {
  word: String,
}

impl UnknownState {
  fn new(word: &str) -> Self {
    Self { word: word.to_owned() }
  }
}

fn words() -> String {
  State::ALL.iter().map(|state| state.as_str()).collect::<Vec<_>>().join(", ")
}

impl State {
  /// All states.
  pub const ALL: &'static [Self] = <Self as strum::VariantArray>::VARIANTS;

  /// The word used in JSON, logs and on the command line.
  pub fn as_str(self) -> &'static str {
    self.into()
  }

  /// Whether the bytes are out of the file and wait for a decision of a person.
  pub const fn is_waiting(self) -> bool {
    matches!(self, Self::Quarantined | Self::Held)
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn a_wrong_word_is_answered_with_the_right_ones() {
    assert_eq!("held".parse::<State>(), Ok(State::Held));
    let error = "bogus".parse::<State>().unwrap_err().to_string();
    assert!(error.starts_with("unknown state `bogus`: it is one of unvalidated, "), "{error}");
  }
}
