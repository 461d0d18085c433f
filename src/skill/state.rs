//! What memfw thinks of a skill: one word, which follows from facts alone.
#![forbid(unsafe_code)]

use crate::hash::ContentHash;

/// The state of a skill.
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
pub enum SkillState {
  /// Nobody has decided about it, nothing was found in it, and it is as it was when it was first seen.
  New,
  /// The owner trusts exactly these files, or a key that the owner trusts has signed them.
  Trusted,
  /// It is not as the owner trusted it, or as it was first seen.
  Changed,
  /// Its text has findings, its signature is broken, or not all of it can be checked.
  Flagged,
}

impl SkillState {
  /// All states.
  pub const ALL: &'static [Self] = <Self as strum::VariantArray>::VARIANTS;

  /// The word used in the ledger, in JSON and on the command line.
  pub fn as_str(self) -> &'static str {
    self.into()
  }

  /// Whether the owner should look at it.
  pub const fn needs_owner(self) -> bool {
    matches!(self, Self::Changed | Self::Flagged)
  }
}

/// The facts from which the state follows.
#[derive(Clone, Copy, Debug)]
pub struct Standing {
  /// The manifest of its files.
  pub manifest: ContentHash,
  /// The manifest that the owner trusted last, or else that of the first sight.
  pub base: ContentHash,
  /// Whether the owner trusts the base.
  pub is_base_trusted: bool,
  /// Whether the text has findings, or the signature of a trusted key is about other files.
  pub has_findings: bool,
  /// Whether the content of every file is in the manifest.
  pub is_whole: bool,
  /// Whether a key that the owner trusts has signed all files.
  pub is_signed: bool,
}

impl Standing {
  /// The state. A decision of the owner about exactly these files covers what was found in them; a signature does
  /// not, because whether its holder still has the key alone is not known. Neither covers files that are not in the
  /// manifest: they may change without a difference.
  pub fn state(&self) -> SkillState {
    let is_as_base = self.manifest == self.base;
    if is_as_base && self.is_base_trusted && self.is_whole {
      SkillState::Trusted
    } else if self.has_findings || !self.is_whole {
      SkillState::Flagged
    } else if self.is_signed {
      SkillState::Trusted
    } else if is_as_base {
      SkillState::New
    } else {
      SkillState::Changed
    }
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn only_a_decision_about_these_files_covers_findings() {
    let hash = |text: &str| ContentHash::of(text.as_bytes());
    let clean = Standing {
      manifest: hash("a"),
      base: hash("a"),
      is_base_trusted: false,
      has_findings: false,
      is_whole: true,
      is_signed: false,
    };
    let found = Standing { has_findings: true, ..clean };
    let other = Standing { base: hash("b"), ..clean };
    for (standing, state) in [
      (clean, SkillState::New),
      (Standing { is_base_trusted: true, ..clean }, SkillState::Trusted),
      (Standing { is_base_trusted: true, ..found }, SkillState::Trusted),
      (Standing { is_base_trusted: true, is_whole: false, ..clean }, SkillState::Flagged),
      (Standing { is_signed: true, ..clean }, SkillState::Trusted),
      (Standing { is_signed: true, ..other }, SkillState::Trusted),
      (found, SkillState::Flagged),
      (Standing { is_signed: true, ..found }, SkillState::Flagged),
      (Standing { is_whole: false, ..clean }, SkillState::Flagged),
      (other, SkillState::Changed),
      (Standing { is_base_trusted: true, ..other }, SkillState::Changed),
      (Standing { has_findings: true, is_base_trusted: true, ..other }, SkillState::Flagged),
    ] {
      assert_eq!(standing.state(), state, "{standing:?}");
    }
    for state in SkillState::ALL {
      assert_eq!(state.as_str().parse(), Ok(*state));
    }
  }
}
