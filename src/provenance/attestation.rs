//! How memfw knows the source of a block.
#![forbid(unsafe_code)]

/// How memfw knows a source, weakest first.
#[derive(
  Clone,
  Copy,
  Debug,
  PartialEq,
  Eq,
  PartialOrd,
  Ord,
  Hash,
  strum::Display,
  strum::EnumString,
  strum::IntoStaticStr,
  strum::VariantArray,
)]
#[strum(serialize_all = "kebab-case")]
pub enum Attestation {
  /// Not observed; the default.
  SelfReported,
  /// The agent's records show the write and the sources that fed it.
  ToolObserved,
  /// The file hash matches the agent's ledger row, or the text matches the fetched material.
  ContentHashed,
  /// A person named the source. No command does so yet: the order of the levels, and the words of `--json`, have had it
  /// from the beginning.
  HumanConfirmed,
  /// Its audit entry is covered by a signed checkpoint that is kept elsewhere. The audit has no checkpoints yet; a
  /// part of the contract for the same reason.
  Anchored,
}

impl Attestation {
  /// All levels, weakest first.
  pub const ALL: &'static [Self] = <Self as strum::VariantArray>::VARIANTS;

  /// The word used in markers, JSON, logs and configuration.
  pub fn as_str(self) -> &'static str {
    self.into()
  }
}
