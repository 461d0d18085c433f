//! Other programs and memfw while memfw holds the lease of a file: the daemon is stopped at a point
//! under the lease and continues later, or far too late.

use {
  crate::{
    crash::{Kind, Pen},
    support::{AT_ONCE, Guarded, NEVER, clean, eventually, marks, needle, pace, poison},
  },
  memfw::failpoint::Point,
  std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
  },
};

const FILE: &str = "memory/notes.md";
const BEFORE: &str = "# Notes\n\n- old\n";
/// Shorter than the time after which nothing is written under a lease (0.5 s), and longer.
const SHORT: Duration = Duration::from_millis(150);
const LATE: Duration = Duration::from_millis(800);

/// Points at which the lease of the file is held. A redaction, and a change of length.
const LEASED: [Point; 12] = [
  Point::RedactBeforeJournal,
  Point::RedactAfterJournal,
  Point::OverwriteBefore,
  Point::OverwriteAfter,
  Point::RedactAfterSync,
  Point::PassBeforeRecord,
  Point::PassAfterRecord,
  Point::MarkBeforeJournal,
  Point::MarkAfterJournal,
  Point::ReshapeAfterWrite,
  Point::MarkAfterFollow,
  Point::MarkAfterRecord,
];

/// A guarded file whose poison is being taken out, and a daemon that is stopped at a point.
fn stopped(point: Point, config: &str) -> Guarded {
  let mut guarded = Guarded::new(config).memory(FILE, BEFORE);
  guarded.start();
  guarded.settle();
  guarded.stop();
  let path = guarded.path(FILE);
  guarded.spawn_at(&format!("{}:1:stop", point.as_str()));
  guarded.daemon().wait_for_log("started");
  let text = format!("{}\n{}\n", clean(1), poison(1));
  Pen::new(Kind::Append, &path).add(&text);
  guarded.daemon().wait_for_log(&format!("failpoint {}", point.as_str()));
  guarded
}

/// Descriptors of a process that lead to a file.
fn descriptors(pid: u32, path: &Path) -> usize {
  let entries = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
  entries
    .filter(|entry| fs::read_link(entry.as_ref().unwrap().path()).is_ok_and(|to| to == path))
    .count()
}

/// Leases that a process holds, by the kernel's own list.
fn leases(pid: u32) -> usize {
  let list = fs::read_to_string("/proc/locks").unwrap();
  let owner = pid.to_string();
  list
    .lines()
    .filter(|line| line.contains(" LEASE ") && line.split_whitespace().any(|word| word == owner))
    .count()
}

#[test]
#[ignore = "takes minutes: just leases"]
fn a_leased_file_is_open_once_and_no_second_lease_is_held() {
  for point in LEASED {
    let mut guarded = stopped(point, AT_ONCE);
    let path = guarded.path(FILE);
    if !marks::reshapes(&path) {
      println!("skipped: files are not leased here");
      return;
    }
    let pid = guarded.daemon().pid();
    assert_eq!(descriptors(pid, &path), 1, "{point:?}: a second open would wait for itself");
    assert!(leases(pid) <= 1, "{point:?}: a second lease");
    guarded.daemon().go_on();
    guarded.settle();
    assert_eq!(leases(pid), 0, "{point:?}: a lease is kept at rest");
    assert!(guarded.holding("workspace", &needle(1)).is_empty(), "{point:?}");
    guarded.stop();
  }
}

/// A writer opens and changes the file while the daemon is stopped at a point for a time.
fn assert_outlives(point: Point, kind: Kind, time: Duration) {
  let context = format!("{point:?}, {kind:?}, {time:?}");
  let mut guarded = stopped(point, AT_ONCE);
  let path = guarded.path(FILE);
  let done = AtomicBool::new(false);
  std::thread::scope(|scope| {
    let writer = scope.spawn(|| {
      // Its open breaks the lease: the kernel signals the daemon and makes the writer wait.
      Pen::new(kind, &path).add(&format!("{}\n", clean(2)));
      done.store(true, Ordering::SeqCst);
    });
    pace(time);
    guarded.daemon().go_on();
    writer.join().unwrap();
  });
  assert!(!guarded.daemon().has_ended(), "{context}: the broken lease ended the daemon");
  guarded.settle();
  let bytes = guarded.read(FILE);
  assert_eq!(marks::count(&bytes, needle(1).as_bytes()), 0, "{context}:\n{}", marks::show(&bytes));
  for n in [1, 2] {
    let found = marks::count(&bytes, clean(n).as_bytes());
    assert_eq!(found, 1, "{context}:\n{}", marks::show(&bytes));
  }
  assert_eq!(guarded.waiting().len(), 1, "{context}");
  guarded.approve_all();
  guarded.settle();
  guarded.stop();
  let lines = [BEFORE, &clean(1), "\n", &poison(1), "\n"].concat();
  let new = format!("{}\n", clean(2));
  let expected =
    if kind == Kind::Prepend { format!("{new}{lines}") } else { format!("{lines}{new}") };
  let found = marks::strip(&guarded.read(FILE));
  marks::assert_same(&found, expected.as_bytes(), &context);
}

#[test]
#[ignore = "takes minutes: just leases"]
fn a_lease_that_is_broken_by_an_opener_is_survived_and_loses_nothing() {
  for point in LEASED {
    assert_outlives(point, Kind::Append, SHORT);
  }
}

#[test]
#[ignore = "takes minutes: just leases"]
fn a_daemon_that_goes_on_late_writes_only_where_it_has_compared_again() {
  for point in [Point::RedactBeforeJournal, Point::RedactAfterJournal, Point::MarkAfterJournal] {
    for kind in [Kind::Append, Kind::Prepend] {
      assert_outlives(point, kind, LATE);
    }
  }
}

/// The kernel breaks a lease by force when its holder does not answer; others then write before it does.
#[test]
#[ignore = "takes minutes: just leases"]
fn a_daemon_that_was_stopped_until_its_lease_was_taken_away_changes_nothing_of_others() {
  let patience = fs::read_to_string("/proc/sys/fs/lease-break-time").unwrap();
  let patience = Duration::from_secs(patience.trim().parse().unwrap());
  std::thread::scope(|scope| {
    for point in [Point::RedactAfterJournal, Point::MarkAfterJournal] {
      for kind in [Kind::Append, Kind::Prepend] {
        scope.spawn(move || assert_outlives(point, kind, patience + LATE));
      }
    }
  });
}

/// An overlay file system that is unmounted when this is dropped.
struct Overlay(PathBuf);

impl Overlay {
  fn new(at: &Path, layers: &Path) -> Option<Self> {
    let [lower, upper, work] = ["lower", "upper", "work"].map(|name| layers.join(name));
    for dir in [&lower, &upper, &work] {
      fs::create_dir(dir).unwrap();
    }
    let options = format!(
      "lowerdir={},upperdir={},workdir={}",
      lower.display(),
      upper.display(),
      work.display()
    );
    let args = ["-t", "overlay", "overlay", "-o", &options].map(OsStr::new);
    let mounted = Command::new("mount").args(args).arg(at).output();
    mounted.is_ok_and(|output| output.status.success()).then(|| Self(at.to_owned()))
  }
}

impl Drop for Overlay {
  fn drop(&mut self) {
    Command::new("umount").arg("-l").arg(&self.0).status().ok();
  }
}

/// A mapping whose descriptor is closed does not prevent a lease there, and a file that gets
/// shorter under it kills the process that reads the mapping.
#[test]
#[ignore = "takes minutes: just leases"]
fn on_an_overlay_a_file_keeps_its_length_whatever_leaves_it() {
  let layers = tempfile::tempdir().unwrap();
  let mut guarded = Guarded::new(AT_ONCE);
  let Some(_overlay) = Overlay::new(&guarded.path(""), layers.path()) else {
    println!("skipped: no overlay file system can be mounted here");
    return;
  };
  guarded = guarded.memory(FILE, BEFORE);
  guarded.start();
  let path = guarded.path(FILE);
  let mut length = BEFORE.len();
  for n in 0..4 {
    let text = format!("{}\n{}\n", clean(n), poison(n));
    Pen::new(Kind::Append, &path).add(&text);
    length += text.len();
    eventually("the poison leaves", || {
      marks::count(&guarded.read(FILE), needle(n).as_bytes()) == 0
    });
    guarded.settle();
    assert_eq!(guarded.read(FILE).len(), length, "{}", marks::show(&guarded.read(FILE)));
  }
  guarded.approve_all();
  guarded.settle();
  assert_eq!(guarded.read(FILE).len(), length);
  let status = guarded.memfw(&["status"]).stdout;
  assert!(status.contains("overlay"), "{status}");
  guarded.stop();
}

#[test]
#[ignore = "takes minutes: just leases"]
fn a_daemon_at_rest_holds_nothing() {
  let mut guarded = Guarded::new(NEVER).memory(FILE, BEFORE);
  guarded.start();
  Pen::new(Kind::Append, &guarded.path(FILE)).add(&format!("{}\n", poison(1)));
  eventually("the poison leaves", || guarded.holding("workspace", &needle(1)).is_empty());
  let path = guarded.path(FILE);
  let pid = guarded.daemon().pid();
  eventually("the file is closed", || descriptors(pid, &path) == 0);
  assert_eq!(leases(pid), 0);
  guarded.stop();
}
