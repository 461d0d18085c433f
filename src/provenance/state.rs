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
#[strum(serialize_all = "kebab-case")]
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
  /// A person replaced it by a correct text.
  Corrected,
  /// Its bytes were deleted on request.
  Forgotten,
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
