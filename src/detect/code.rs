//! The closed list of finding codes.
#![forbid(unsafe_code)]

use std::{fmt, str::FromStr};

macro_rules! codes {
  ($($(#[$doc:meta])* $variant:ident = $word:literal, $title:literal;)*) => {
    /// What a finding is. Each code is a heading in docs/findings.md, and the same word everywhere:
    /// rules, JSON, log, docs, command line.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Code { $($(#[$doc])* $variant,)* }

    impl Code {
      /// All codes, in the order of docs/findings.md.
      pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

      /// The kebab-case word.
      pub const fn as_str(self) -> &'static str {
        match self { $(Self::$variant => $word,)* }
      }

      /// What it means, in a few plain words.
      pub const fn title(self) -> &'static str {
        match self { $(Self::$variant => $title,)* }
      }
    }
  };
}

codes! {
  /// A memfw comment that the ledger does not know, or that stands where it cannot.
  ForgedMarker = "forged-marker", "a provenance comment that memfw did not write";
  /// Markers from another installation, at a first scan.
  ForeignMarkers = "foreign-markers", "provenance comments of another installation";
  /// A marked block whose bytes changed.
  EditedBlock = "edited-block", "a marked block was edited";
  /// Text that continues the line of a quarantined one.
  QuarantineContinued = "quarantine-continued", "the rest of a line that is in quarantine";
  /// Put there by a person with `memfw quarantine add`.
  ManualQuarantine = "manual-quarantine", "put into quarantine by a person";
}

impl fmt::Display for Code {
  fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.pad(self.as_str())
  }
}

/// The text is no known code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown finding code `{0}`")]
pub struct UnknownCode(pub String);

impl FromStr for Code {
  type Err = UnknownCode;

  fn from_str(text: &str) -> Result<Self, Self::Err> {
    Self::ALL
      .iter()
      .copied()
      .find(|code| code.as_str() == text)
      .ok_or_else(|| UnknownCode(text.to_owned()))
  }
}
