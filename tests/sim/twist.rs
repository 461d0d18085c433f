//! What a schedule may have in addition to what every schedule has. It is drawn from a stream of its own, so a plain
//! schedule of a seed is today what it was when the seed was written down.
#![forbid(unsafe_code)]

use super::rng::Rng;

/// What a seed means.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
  /// Nothing else.
  Plain,
  /// Some of it, as the second stream says.
  Twisted,
  /// As the second stream said before a ledger and a workspace could go, and before the daemon could be one that
  /// hears events alone.
  Staying,
  /// Exactly this, for a control.
  With(Twists),
}

impl Kind {
  /// Half of the seeds are plain.
  pub(crate) fn of(seed: u64) -> Self {
    if seed.is_multiple_of(2) { Self::Plain } else { Self::Twisted }
  }
}

/// What a schedule has in addition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Twists {
  /// Writers that overwrite at equal length, and costs of calls.
  pub(crate) any: bool,
  /// In which steps file times advance, in nanoseconds: whole seconds, as on ext4 with inodes of 128 bytes, or
  /// every second one, as on vfat.
  pub(crate) step_ns: Option<i64>,
  /// The n-th call of one kind fails, and a failed `fsync` may leave pages clean that are not on the disk.
  pub(crate) faults: bool,
  /// Files of several pages, and writes that end at any page of theirs, or within one.
  pub(crate) tears: bool,
  /// The ledger is moved, deleted or replaced under the daemon, and comes back.
  pub(crate) ledger: bool,
  /// The workspace goes and comes back.
  pub(crate) roots: bool,
  /// Files of several pages from the start, and a power loss after many an edit that was finished: what a sync of the
  /// file is for.
  pub(crate) power: bool,
  /// The engine is asked about no file of which no event told, and no poll.
  pub(crate) events: bool,
}

/// Keeps the second stream apart from the first one.
const SECOND: u64 = 0x5eed_0000_0000_0002;

/// The second stream of a seed.
pub(crate) fn stream(seed: u64) -> Rng {
  Rng::new(seed ^ SECOND)
}

impl Twists {
  /// What a schedule has.
  pub(crate) fn draw(kind: Kind, rng: &mut Rng) -> Self {
    let goes = matches!(kind, Kind::Twisted);
    match kind {
      Kind::Plain => Self::default(),
      Kind::With(twists) => Self { any: true, ..twists },
      Kind::Twisted | Kind::Staying => Self {
        any: true,
        step_ns: rng.one_in(3).then(|| *rng.pick(&[1_000_000_000, 2_000_000_000])),
        faults: rng.one_in(3),
        tears: rng.one_in(3),
        ledger: rng.one_in(3) && goes,
        roots: rng.one_in(3) && goes,
        power: false,
        events: rng.one_in(2) && goes,
      },
    }
  }
}
