//! The file systems of the matrix. They are mounted in a mount namespace of their own, in which
//! this test program runs once more: when that program ends, however it ends, the mount is gone.
#![forbid(unsafe_code)]

use {
  super::{AT, ON},
  std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
  },
  tempfile::TempDir,
};

/// Mounts `$1` and runs the rest; 77 when it cannot be mounted.
const MOUNT: &str = "eval \"$1\" || exit 77; shift; exec \"$@\"";
/// The exit status for that.
const NOT_MOUNTED: i32 = 77;
/// The exit status of a test program with failures.
const FAILED: i32 = 101;
/// Bytes of an image; XFS wants at least 300 MiB.
const IMAGE: u64 = 512 << 20;
/// `f_type` of tmpfs, from linux/magic.h.
const TMPFS: u64 = 0x0102_1994;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
  /// The directory for temporary files, on any file system.
  Temp,
  /// `/dev/shm`.
  Tmpfs,
  /// With its upper layer in the temporary directory.
  Overlay,
  /// On an image, through a loop device.
  Xfs,
  /// On an image, through a loop device.
  Btrfs,
}

impl Place {
  /// The places of a comma-separated list.
  pub(crate) fn of(list: &str) -> Vec<Self> {
    let place = |word: &str| match word {
      "temp" => Self::Temp,
      "tmpfs" => Self::Tmpfs,
      "overlay" => Self::Overlay,
      "xfs" => Self::Xfs,
      "btrfs" => Self::Btrfs,
      other => panic!("{ON}: there is no `{other}`, only temp, tmpfs, overlay, xfs and btrfs"),
    };
    list.split(',').map(place).collect()
  }

  /// A directory there that needs no mount, or why there is none.
  pub(crate) fn directory(self) -> Option<Result<PathBuf, String>> {
    let shm = Path::new("/dev/shm");
    match self {
      Self::Temp => Some(Ok("/tmp".into())),
      Self::Tmpfs if kind(shm) == Some(TMPFS) => Some(Ok(shm.to_owned())),
      Self::Tmpfs => Some(Err("/dev/shm is no tmpfs".to_owned())),
      _ => None,
    }
  }

  /// Runs a test of this program on a mount of its own; why it could not be run, if it could not.
  pub(crate) fn run_there(self, test: &str) -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
      return Err("only root can mount".to_owned());
    }
    let stage = TempDir::new().unwrap();
    let at = stage.path().join("mounted");
    fs::create_dir(&at).unwrap();
    let mount = self.prepare(stage.path(), &at)?;
    let status = Command::new("unshare")
      .args(["--mount", "--propagation", "private", "sh", "-c", MOUNT, "sh", &mount])
      .arg(env::current_exe().unwrap())
      .args(["--exact", test, "--nocapture"])
      .env(AT, &at)
      .status()
      .map_err(|error| format!("unshare: {error}"))?;
    match status.code() {
      Some(0) => Ok(()),
      Some(NOT_MOUNTED) => Err(format!("`{mount}` failed")),
      Some(FAILED) | None => panic!("{self:?} fails, see above ({status})"),
      Some(_) => Err(format!("no mount namespace ({status})")),
    }
  }

  /// Creates the file system; returns the command that mounts it.
  fn prepare(self, stage: &Path, at: &Path) -> Result<String, String> {
    let (stage, at) = (stage.display(), at.display());
    let mkfs = match self {
      Self::Xfs => "mkfs.xfs",
      Self::Btrfs => "mkfs.btrfs",
      _ => {
        let [lower, upper, work] = ["lower", "upper", "work"].map(|dir| format!("{stage}/{dir}"));
        for dir in [&lower, &upper, &work] {
          fs::create_dir(dir).unwrap();
        }
        return Ok(format!(
          "mount -t overlay overlay -o lowerdir={lower},upperdir={upper},workdir={work} {at}"
        ));
      }
    };
    let image = format!("{stage}/image");
    fs::File::create(&image).unwrap().set_len(IMAGE).unwrap();
    match Command::new(mkfs).args(["-q", &image]).status() {
      Ok(status) if status.success() => Ok(format!("mount -o loop {image} {at}")),
      answer => Err(format!("{mkfs}: {answer:?}")),
    }
  }
}

/// `f_type` of the file system of a path.
fn kind(path: &Path) -> Option<u64> {
  rustix::fs::statfs(path).ok().map(|found| found.f_type as u64 & 0xFFFF_FFFF)
}
