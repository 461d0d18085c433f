//! Finds out at start what the file system of a directory allows.
//!
//! The answer is the rung of the fallback ladder that `status` shows.
//! The probe is an unnamed file (`O_TMPFILE`) that is never linked, so it leaves nothing.
#![forbid(unsafe_code)]

use std::path::Path;

/// How files in a directory can be edited.
#[derive(
  Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::Display, strum::IntoStaticStr,
)]
#[strum(serialize_all = "kebab-case")]
pub enum Rung {
  /// No lease: compare and overwrite at equal length, no reshaping.
  NoLease,
  /// Leases that do not see every mapping: overwrite at equal length under a lease, no reshaping.
  EqualLengthOnly,
  /// The whole protocol.
  Lease,
}

impl Rung {
  /// The word for JSON and status.
  pub fn as_str(self) -> &'static str {
    self.into()
  }
}

/// What was found out about a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
  /// The name of its file system's type, or its number in hexadecimal.
  pub fs_type: String,
  /// How its files can be edited.
  pub rung: Rung,
  /// Whether other machines or programs may change its files without an event here.
  pub needs_polling: bool,
  /// Whether two changes in a row can have equal file times, as before Linux 6.13.
  pub coarse_times: bool,
  /// One line for a person: type, rung and, below the highest, why.
  pub description: String,
}

impl Probe {
  /// The probe, limited to this rung by the configuration.
  #[must_use]
  pub(super) fn up_to(self, ceiling: Rung) -> Self {
    if ceiling >= self.rung {
      return self;
    }
    Self {
      description: format!("{}: {ceiling}; set by `files.protocol`", self.fs_type),
      rung: ceiling,
      // The lowest rung is for files that other machines share, so it is polled in any case.
      needs_polling: self.needs_polling || ceiling == Rung::NoLease,
      ..self
    }
  }
}

/// The known abilities of a file system type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
  Local,
  /// Untested.
  Unknown,
  /// Does not see a mapping whose descriptor is closed, and grants a lease in spite of it.
  Overlay,
  /// Writers outside this kernel are possible, and a granted lease does not bind them.
  Remote,
}

/// How long the lease of a new file is tried for; a program that inspects opened files is done sooner.
#[cfg(linux)]
const PATIENCE_MS: u32 = 50;

/// `f_type` numbers of linux/magic.h (and of the file systems' own sources), with the class.
const TYPES: [(u64, &str, Class); 26] = [
  (0xEF53, "ext4", Class::Local),
  (0x5846_5342, "xfs", Class::Local),
  (0x9123_683E, "btrfs", Class::Local),
  (0x0102_1994, "tmpfs", Class::Local),
  (0x8584_58F6, "ramfs", Class::Local),
  (0xF2F5_2010, "f2fs", Class::Local),
  (0xCA45_1A4E, "bcachefs", Class::Local),
  (0x2FC1_2FC1, "zfs", Class::Local),
  (0x4D44, "vfat", Class::Local),
  (0x2011_BAB0, "exfat", Class::Local),
  (0x7366_746E, "ntfs3", Class::Local),
  (0xF15F, "ecryptfs", Class::Local),
  (0x7371_7368, "squashfs", Class::Local),
  (0xE0F5_E1E2, "erofs", Class::Local),
  (0x794C_7630, "overlay", Class::Overlay),
  (0x6969, "nfs", Class::Remote),
  (0x6573_5546, "fuse", Class::Remote),
  (0x0102_1997, "9p", Class::Remote),
  (0xFF53_4D42, "cifs", Class::Remote),
  (0xFE53_4D42, "smb2", Class::Remote),
  (0x517B, "smb", Class::Remote),
  (0x00C3_6400, "ceph", Class::Remote),
  (0x5346_414F, "afs", Class::Remote),
  (0x786F_4256, "vboxsf", Class::Remote),
  (0xBACB_ACBC, "vmhgfs", Class::Remote),
  (0x0116_1970, "gfs2", Class::Remote),
];

/// What was seen in a directory.
struct Observed {
  /// The number of the type of its file system.
  number: Option<u64>,
  /// Whether a new file there gets a write lease, or why not.
  lease: Result<(), String>,
  coarse_times: bool,
}

/// Probes a directory. Never fails: an ability that cannot be determined counts as absent.
pub fn probe(dir: &Path) -> Probe {
  describe(ask(dir))
}

fn describe(seen: Observed) -> Probe {
  let Observed { number, lease, coarse_times } = seen;
  let known = number.and_then(|number| TYPES.iter().find(|(magic, ..)| *magic == number));
  let fs_type = match (known, number) {
    (Some((_, name, _)), _) => (*name).to_owned(),
    (None, Some(number)) => format!("type {number:#x}"),
    (None, None) => "unknown".to_owned(),
  };
  let class = known.map_or(Class::Unknown, |(.., class)| *class);
  // If not even the type is known, other hosts may write there.
  let needs_polling = class == Class::Remote || number.is_none();
  let (rung, why) = match (class, lease) {
    (Class::Remote, _) => (
      Rung::NoLease,
      "; others may write past a lease, so files are polled and not reshaped".into(),
    ),
    (_, Err(why)) => (Rung::NoLease, format!("; {why}")),
    (Class::Overlay, Ok(())) => (
      Rung::EqualLengthOnly,
      "; leases do not see every mapping, so files are not reshaped".to_owned(),
    ),
    (Class::Unknown, Ok(())) => {
      (Rung::EqualLengthOnly, "; its leases are untested, so files are not reshaped".to_owned())
    }
    (Class::Local, Ok(())) => (Rung::Lease, String::new()),
  };
  let description = format!("{fs_type}: {rung}{why}");
  Probe { fs_type, rung, needs_polling, coarse_times, description }
}

/// The kernel setting that allows leases.
#[cfg(linux)]
const LEASES_ENABLE: &str = "/proc/sys/fs/leases-enable";
/// Pairs of changes that measure the resolution of file times. A pair takes some microseconds and
/// a tick of the kernel at least one millisecond, so at most one pair has a tick between its changes.
#[cfg(linux)]
const PAIRS: usize = 3;

#[cfg(linux)]
fn ask(dir: &Path) -> Observed {
  use std::os::fd::AsFd as _;

  use rustix::fs::{Mode, OFlags};

  use super::lease::{self, Grant};
  use crate::os::paths::read_own;

  // Some types are negative where the field is a signed 32-bit one.
  let number = rustix::fs::statfs(dir).ok().map(|found| found.f_type as u64 & 0xFFFF_FFFF);
  // With `O_EXCL` the file can never get a name.
  let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC | OFlags::EXCL;
  let file = match rustix::fs::open(dir, flags, Mode::RUSR | Mode::WUSR) {
    Ok(file) => file,
    Err(errno) => {
      let error = std::io::Error::from(errno);
      let lease = Err(format!("leases cannot be tested ({error})"));
      return Observed { number, lease, coarse_times: true };
    }
  };
  let off =
    read_own(Path::new(LEASES_ENABLE), 16).ok().flatten().is_some_and(|text| text == b"0\n");
  let lease = match patiently(|| lease::acquire(file.as_fd())) {
    _ if off => Err("leases are switched off (`fs.leases-enable`)".to_owned()),
    Ok(Grant::Granted) => {
      lease::release(file.as_fd());
      Ok(())
    }
    Ok(Grant::Busy) => Err("a lease on a new file was refused".to_owned()),
    Ok(Grant::Unsupported(error)) | Err(error) => Err(format!("no leases ({error})")),
  };
  let change = || {
    rustix::io::pwrite(&file, b"x", 0)?;
    rustix::fs::fstat(&file).map(|stat| (stat.st_ctime, stat.st_ctime_nsec))
  };
  // Times that cannot be measured count as coarse.
  let coarse_times = (0..PAIRS).any(|_| change().ok().is_none_or(|one| change().ok() == Some(one)));
  Observed { number, lease, coarse_times }
}

/// Asks again while another process has the unnamed file open: a program that inspects all opened files
/// (the gate, a virus scanner), or a child of memfw that is being started.
#[cfg(linux)]
fn patiently(
  mut ask: impl FnMut() -> std::io::Result<super::lease::Grant>,
) -> std::io::Result<super::lease::Grant> {
  for _ in 0..PATIENCE_MS {
    match ask() {
      Ok(super::lease::Grant::Busy) => crate::os::pause(std::time::Duration::from_millis(1)),
      answer => return answer,
    }
  }
  ask()
}

/// There are no leases.
#[cfg(not(linux))]
fn ask(_dir: &Path) -> Observed {
  Observed { number: None, lease: Err("this system has no leases".to_owned()), coarse_times: true }
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn the_rung_follows_from_type_and_lease() {
    let rung = |number, lease: Result<(), &str>| {
      let lease = lease.map_err(str::to_owned);
      let found = describe(Observed { number, lease, coarse_times: false });
      (found.description, found.rung, found.needs_polling)
    };
    assert_eq!(rung(Some(0xEF53), Ok(())), ("ext4: lease".into(), Rung::Lease, false));
    assert_eq!(
      rung(Some(0xEF53), Err("no leases (x)")),
      ("ext4: no-lease; no leases (x)".into(), Rung::NoLease, false)
    );
    assert_eq!(rung(Some(0x794C_7630), Ok(())).1, Rung::EqualLengthOnly);
    assert_eq!(rung(Some(0x794C_7630), Err("x")).1, Rung::NoLease);
    for remote in [0x6969, 0x6573_5546, 0x0102_1997, 0xFF53_4D42] {
      // A lease that FUSE grants does not count.
      let (_, found, polls) = rung(Some(remote), Ok(()));
      assert_eq!((found, polls), (Rung::NoLease, true), "{remote:#x}");
    }
    let (text, found, polls) = rung(None, Err("this system has no leases"));
    assert_eq!(text, "unknown: no-lease; this system has no leases");
    assert_eq!((found, polls), (Rung::NoLease, true));
    let (text, found, _) = rung(Some(0x1234), Ok(()));
    assert!(text.starts_with("type 0x1234: equal-length-only; "), "{text}");
    assert_eq!(found, Rung::EqualLengthOnly);
  }

  #[test]
  fn a_ceiling_only_lowers() {
    let found =
      |number| describe(Observed { number: Some(number), lease: Ok(()), coarse_times: false });
    assert_eq!(found(0xEF53).up_to(Rung::Lease), found(0xEF53));
    let lowered = found(0xEF53).up_to(Rung::EqualLengthOnly);
    assert_eq!((lowered.rung, lowered.needs_polling), (Rung::EqualLengthOnly, false));
    let lowest = found(0xEF53).up_to(Rung::NoLease);
    assert_eq!((lowest.rung, lowest.needs_polling), (Rung::NoLease, true));
    assert_eq!(lowest.description, "ext4: no-lease; set by `files.protocol`");
    assert_eq!(found(0x6969).up_to(Rung::EqualLengthOnly), found(0x6969));
  }

  #[test]
  fn no_type_is_listed_twice() {
    let mut numbers: Vec<_> = TYPES.iter().map(|(number, ..)| *number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), TYPES.len());
  }

  #[test]
  #[cfg(linux)]
  fn probing_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let found = probe(dir.path());
    assert_eq!(found.rung, Rung::Lease, "{}", found.description);
    assert_eq!(dir.path().read_dir().unwrap().count(), 0);

    let absent = probe(&dir.path().join("absent"));
    assert_eq!((absent.fs_type.as_str(), absent.rung), ("unknown", Rung::NoLease));
  }
}
