//! What can happen to a block, and how often it did.
#![forbid(unsafe_code)]

/// What happened to a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
  /// It stays, without findings.
  Kept,
  /// It stays, with findings.
  Flagged,
  /// It was flagged, and a layer that read it later found nothing in it.
  Cleared,
  /// It was taken out.
  Quarantined,
  /// It came back and was taken out again.
  Returned,
  /// A person restored it, or cleared its flag.
  Approved {
    /// Whether memfw had found something in it, and not the person who took it out.
    is_false_alarm: bool,
  },
  /// A person rejected it.
  Rejected,
  /// Baseline blocks of a file; the flagged blocks among them were reported directly before, with
  /// an equal time.
  Adopted(u64),
}

/// Numbers of events, by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
  /// Blocks that stay without findings.
  pub kept: u64,
  /// Those among them that were there before memfw.
  pub baseline: u64,
  /// Blocks that stay with findings.
  pub flagged: u64,
  /// Blocks that were taken out.
  pub quarantined: u64,
  /// How often such a block came back.
  pub returned: u64,
  /// Blocks that a person restored or cleared.
  pub approved: u64,
  /// Those among them in which memfw had found something.
  pub false_alarms: u64,
  /// Blocks that a person rejected.
  pub rejected: u64,
}

impl Counts {
  /// Judged blocks. A block that came back is not counted again.
  pub const fn seen(&self) -> u64 {
    self.kept + self.flagged + self.quarantined
  }

  /// Whether nothing is counted.
  pub fn is_empty(&self) -> bool {
    *self == Self::default()
  }

  /// Counts `n` blocks, which were there before memfw if they are `adopted`.
  pub(super) fn add(&mut self, what: What, n: u64, is_adopted: bool) {
    match what {
      What::Adopted(_) => self.baseline = self.baseline.saturating_add(n),
      What::Cleared if is_adopted => self.baseline = self.baseline.saturating_add(n),
      What::Approved { is_false_alarm: true } => {
        self.false_alarms = self.false_alarms.saturating_add(n);
      }
      _ => {}
    }
    let count = match what {
      What::Cleared => {
        self.flagged = self.flagged.saturating_sub(n);
        &mut self.kept
      }
      What::Kept | What::Adopted(_) => &mut self.kept,
      What::Flagged => &mut self.flagged,
      What::Quarantined => &mut self.quarantined,
      What::Returned => &mut self.returned,
      What::Approved { .. } => &mut self.approved,
      What::Rejected => &mut self.rejected,
    };
    *count = count.saturating_add(n);
  }

  /// The order for people: findings first, then decisions about them, then the rest.
  pub(super) const fn rank(&self) -> (u64, u64, u64) {
    (self.quarantined + self.returned + self.flagged, self.approved + self.rejected, self.kept)
  }
}
