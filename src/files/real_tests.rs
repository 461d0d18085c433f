//! Hostile targets, permissions, and the contract of an open file on the real kernel.

use std::{
  fs::{self, OpenOptions},
  os::unix::{ffi::OsStrExt as _, fs::symlink, net::UnixListener},
  process::Command,
};

use super::*;
#[cfg(linux)]
use {
  crate::{
    files::{
      lease::tests::wait_until,
      rewrite::{Reshaped, reshape},
    },
    os::SystemClock,
  },
  std::time::Duration,
};

pub(crate) const RULES: TargetRules = TargetRules { max_bytes: 1 << 20, owners: Vec::new() };
/// All ways of resolving a path must give equal answers.
pub(crate) const WAYS: &[RealFs] = &[
  #[cfg(linux)]
  RealFs { resolver: Resolver::Kernel, ceiling: Rung::Lease },
  RealFs { resolver: Resolver::Stepwise, ceiling: Rung::Lease },
];

#[expect(clippy::disallowed_methods, reason = "the tests' own files")]
pub(crate) fn write(path: &Path, text: &str) {
  fs::create_dir_all(path.parent().unwrap()).unwrap();
  fs::write(path, text).unwrap();
}

#[expect(clippy::disallowed_methods, reason = "the tests' own files")]
fn read(path: &Path) -> String {
  fs::read_to_string(path).unwrap()
}

fn tree() -> tempfile::TempDir {
  let dir = tempfile::tempdir().unwrap();
  write(&dir.path().join("MEMORY.md"), "- a\n");
  write(&dir.path().join("memory/day.md"), "- b\n");
  dir
}

/// The refusal of one path, by each way.
#[track_caller]
fn refusal(dir: &Path, rel: impl AsRef<Path>, rules: &TargetRules) -> String {
  let mut refusals = WAYS.iter().map(|way| {
    let root = way.open_root(dir).unwrap();
    format!("{:?}", way.open(&root, rel.as_ref(), rules).unwrap_err().refusal)
  });
  let first = refusals.next().unwrap();
  assert!(refusals.all(|refusal| refusal == first), "not all ways answer {first}");
  first
}

#[track_caller]
fn open(dir: &Path, rel: impl AsRef<Path>) -> RealFile {
  let fs = RealFs::default();
  fs.open(&fs.open_root(dir).unwrap(), rel.as_ref(), &RULES).unwrap()
}

/// Takes the lease, which a child of another test may delay: between fork and exec it has all
/// descriptors of this process, also those that were just closed here.
#[cfg(linux)]
fn take_lease(file: &mut RealFile) {
  wait_until("lease", || file.try_lease().unwrap());
}

#[test]
fn paths_that_lead_out_are_refused_before_the_kernel_sees_them() {
  let dir = tree();
  for rel in ["", "..", "../x", "memory/../../x", "/etc/passwd", ".", "./MEMORY.md", "memory/.."] {
    assert_eq!(refusal(dir.path(), rel, &RULES), "Escapes", "{rel}");
  }
}

#[test]
fn only_regular_files_are_opened_and_pipes_are_not_waited_for() {
  let dir = tree();
  let memory = dir.path().join("memory");
  assert!(Command::new("mkfifo").arg(memory.join("fifo.md")).status().unwrap().success());
  let _socket = UnixListener::bind(memory.join("socket.md")).unwrap();
  fs::create_dir(memory.join("dir.md")).unwrap();
  assert_eq!(refusal(dir.path(), "memory/fifo.md", &RULES), "NotRegular(Fifo)");
  assert_eq!(refusal(dir.path(), "memory/socket.md", &RULES), "NotRegular(Socket)");
  assert_eq!(refusal(dir.path(), "memory/dir.md", &RULES), "NotRegular(Directory)");
  assert_eq!(refusal(dir.path(), "memory/absent.md", &RULES), "Absent");
  assert_eq!(refusal(dir.path(), "MEMORY.md/x.md", &RULES), "Absent");
  assert_eq!(refusal(Path::new("/dev"), "null", &RULES), "NotRegular(Device)");
  assert_eq!(refusal(Path::new("/"), "proc/version", &RULES), "OtherMount");
}

#[test]
fn links_are_followed_nowhere_but_in_the_configured_root() {
  let outside = tree();
  let dir = tree();
  symlink(outside.path().join("MEMORY.md"), dir.path().join("memory/link.md")).unwrap();
  symlink("day.md", dir.path().join("memory/near.md")).unwrap();
  symlink("nowhere", dir.path().join("memory/dangling.md")).unwrap();
  symlink(outside.path().join("memory"), dir.path().join("memory/away")).unwrap();
  for rel in ["link.md", "near.md", "dangling.md", "away/day.md", "away/absent.md"] {
    assert_eq!(refusal(dir.path(), Path::new("memory").join(rel), &RULES), "Symlink", "{rel}");
  }
  for way in WAYS {
    let root = way.open_root(dir.path()).unwrap();
    assert_eq!(way.kind(&root, Path::new("memory/link.md")).unwrap(), Some(Kind::Symlink));
    assert!(way.stamp(&root, Path::new("memory/away/day.md")).is_err());
    let error = way.list(&root, Path::new("memory/away"), 9).unwrap_err();
    assert!(matches!(error, FsError::Refused { refusal: Refusal::Symlink, .. }), "{error}");
  }

  let alias = outside.path().join("alias");
  symlink(dir.path(), &alias).unwrap();
  let root = RealFs::default().open_root(&alias).unwrap();
  assert_eq!(root.path(), dir.path().canonicalize().unwrap());
}

#[test]
fn a_root_must_be_a_directory_and_is_noticed_when_replaced() {
  let dir = tree();
  let refused = |rel: &str| {
    format!("{:?}", RealFs::default().open_root(&dir.path().join(rel)).unwrap_err().refusal)
  };
  assert_eq!(refused("MEMORY.md"), "NotRegular(File)");
  assert_eq!(refused("absent"), "Absent");

  let fs = RealFs::default();
  let path = dir.path().join("memory");
  let root = fs.open_root(&path).unwrap();
  assert!(root.is_current());
  let moved = dir.path().join("moved");
  assert!(Command::new("mv").arg(&path).arg(&moved).status().unwrap().success());
  assert!(!root.is_current());
  fs::create_dir(&path).unwrap();
  assert!(!root.is_current());
  // The opened root stays the directory that was checked.
  assert!(fs.stamp(&root, Path::new("day.md")).unwrap().is_some());
}

#[test]
fn a_file_over_the_cap_is_refused_unread() {
  let dir = tree();
  let huge = OpenOptions::new().write(true).open(dir.path().join("memory/day.md")).unwrap();
  huge.set_len(1 << 40).unwrap();
  let expected = format!("TooLarge {{ size: {}, limit: {} }}", 1_u64 << 40, 1 << 20);
  assert_eq!(refusal(dir.path(), "memory/day.md", &RULES), expected);
  huge.set_len(1 << 20).unwrap();
  let file = open(dir.path(), "memory/day.md");
  assert_eq!(file.read_all().unwrap().len(), 1 << 20);
  // It grows after it was opened.
  huge.set_len((1 << 20) + 1).unwrap();
  assert!(matches!(file.read_all(), Err(FsError::TooLarge { .. })));
}

#[test]
fn a_hard_link_is_read_and_never_written() {
  let dir = tree();
  fs::hard_link(dir.path().join("MEMORY.md"), dir.path().join("other")).unwrap();
  for way in WAYS {
    let root = way.open_root(dir.path()).unwrap();
    let file = way.open(&root, Path::new("MEMORY.md"), &RULES).unwrap();
    assert_eq!(file.access(), Touch::ReadOnly(Reason::HardLinked(2)));
    assert_eq!(file.read_all().unwrap(), b"- a\n");
    assert!(matches!(file.pwrite(0, b"x"), Err(FsError::ReadOnly { .. })));
    assert!(matches!(file.append(b"x"), Err(FsError::ReadOnly { .. })));
    assert!(matches!(file.truncate(0), Err(FsError::ReadOnly { .. })));
  }
  assert_eq!(read(&dir.path().join("other")), "- a\n");

  // A link that appears after the file was opened is noticed by a recheck, and stays noticed.
  let mut file = open(dir.path(), "memory/day.md");
  assert_eq!(file.access(), Touch::Full);
  fs::hard_link(dir.path().join("memory/day.md"), dir.path().join("day2")).unwrap();
  let linked = Touch::ReadOnly(Reason::HardLinked(2));
  assert_eq!(file.recheck(&RULES).unwrap(), linked);
  assert!(file.pwrite(0, b"x").is_err());
}

#[test]
fn any_bytes_can_be_a_name() {
  let dir = tree();
  for name in [&b"new\nline.md"[..], b"\xff\xfe.md", b"\x1b[2J.md", b" .md"] {
    let rel = Path::new("memory").join(OsStr::from_bytes(name));
    write(&dir.path().join(&rel), "- c\n");
    assert_eq!(open(dir.path(), &rel).read_all().unwrap(), b"- c\n");
  }
  let fs = RealFs::default();
  let root = fs.open_root(dir.path()).unwrap();
  let listing = fs.list(&root, Path::new("memory"), 100).unwrap();
  assert_eq!(listing.entries.len(), 5);
  assert!(listing.entries.iter().all(|entry| entry.kind == Kind::File));
  assert!(!listing.truncated);
  let listing = fs.list(&root, Path::new("memory"), 4).unwrap();
  assert_eq!((listing.entries.len(), listing.truncated), (4, true));
}

#[test]
fn an_open_file_reads_writes_cuts_and_appends_within_its_limits() {
  let dir = tree();
  let path = dir.path().join("MEMORY.md");
  let file = open(dir.path(), "MEMORY.md");
  file.append(b"- b\n").unwrap();
  file.pwrite(2, b"A").unwrap();
  assert_eq!(read(&path), "- A\n- b\n");
  assert_eq!(file.pread(4, 100).unwrap(), b"- b\n");
  assert_eq!(file.pread(100, 100).unwrap(), b"");
  assert_eq!(file.pread(0, usize::MAX).unwrap().len(), 8);
  // Appending does not change where later writes go.
  file.pwrite(0, b"*").unwrap();
  assert!(file.truncate(9).is_err(), "extended by truncating");
  file.truncate(4).unwrap();
  file.sync().unwrap();
  assert_eq!(read(&path), "* A\n");
  let fs = RealFs::default();
  let root = fs.open_root(dir.path()).unwrap();
  assert_eq!(fs.stamp(&root, Path::new("MEMORY.md")).unwrap(), Some(file.stamp().unwrap()));
}

#[test]
fn the_stamp_changes_with_each_write_and_the_inode_with_a_rename() {
  let dir = tree();
  let fs = RealFs::default();
  let root = fs.open_root(dir.path()).unwrap();
  let rel = Path::new("MEMORY.md");
  let file = open(dir.path(), rel);
  let first = file.stamp().unwrap();
  file.append(b"- b\n").unwrap();
  assert_ne!(file.stamp().unwrap(), first);
  write(&dir.path().join("new"), "- c\n");
  let renamed =
    Command::new("mv").arg(dir.path().join("new")).arg(dir.path().join(rel)).status().unwrap();
  assert!(renamed.success());
  let at_path = fs.stamp(&root, rel).unwrap().unwrap();
  assert!(!at_path.same_file(&file.stamp().unwrap()));
  assert_eq!(fs.stamp(&root, Path::new("absent")).unwrap(), None);
}

#[cfg(linux)]
#[test]
fn an_open_waits_until_a_lease_is_given_back() {
  let dir = tree();
  let rel = Path::new("MEMORY.md");
  let mut file = open(dir.path(), rel);
  take_lease(&mut file);
  let fs = RealFs::default();
  let root = fs.open_root(dir.path()).unwrap();
  let open_within = |patience| fs.open_within(&root, rel, &RULES, patience, &SystemClock);
  assert!(open_within(Duration::from_millis(5)).unwrap_err().refusal.is_transient());
  // A final refusal is returned at once, even with patience.
  let absent = Path::new("absent");
  let refusal = fs.open_within(&root, absent, &RULES, Duration::MAX, &SystemClock).unwrap_err();
  assert!(matches!(refusal.refusal, Refusal::Absent), "{refusal}");
  drop(file);
  let given_back = |what: &dyn Fn()| {
    let mut file = open(dir.path(), rel);
    take_lease(&mut file);
    std::thread::scope(|scope| {
      scope.spawn(move || {
        wait_until("question", || !file.is_undisturbed());
        file.release();
      });
      what();
    });
  };
  given_back(&|| drop(open_within(Duration::from_mins(1)).unwrap()));
  given_back(&|| {
    let found = crate::os::paths::read_own(&dir.path().join(rel), 99).unwrap();
    assert_eq!(found.unwrap(), b"- a\n");
  });
}

#[cfg(linux)]
#[test]
fn a_lease_is_aged_released_and_taken_again() {
  let dir = tree();
  let mut file = open(dir.path(), "MEMORY.md");
  assert_eq!(file.leased_for(), None);
  take_lease(&mut file);
  assert!(file.is_undisturbed());
  let age = file.leased_for().unwrap();
  assert!(file.try_lease().unwrap());
  assert!(file.leased_for().unwrap() >= age, "asking again must not make it young");
  // A second open from here would wait for this process; with O_NONBLOCK it is refused instead.
  let fs = RealFs::default();
  let root = fs.open_root(dir.path()).unwrap();
  let error = fs.open(&root, Path::new("MEMORY.md"), &RULES).unwrap_err();
  assert!(error.refusal.is_transient(), "{error}");
  assert!(!file.is_undisturbed());
  // A stamp needs no open, and writing through the leased file works.
  assert!(fs.stamp(&root, Path::new("MEMORY.md")).unwrap().is_some());
  file.append(b"- b\n").unwrap();
  file.release();
  assert_eq!(file.leased_for(), None);

  let other = open(dir.path(), "MEMORY.md");
  assert!(!file.try_lease().unwrap());
  assert_eq!(file.leased_for(), None);
  drop(other);
  take_lease(&mut file);
  drop(file);
  open(dir.path(), "MEMORY.md");
}

#[cfg(linux)]
#[test]
fn an_appender_that_waited_for_a_reshape_lands_behind_it() {
  let dir = tree();
  let path = dir.path().join("MEMORY.md");
  let (base, new) = (&b"- a\n"[..], &b"<!-- m -->\n- a\n<!-- /m -->\n"[..]);
  let mut file = open(dir.path(), "MEMORY.md");
  let before = file.stamp().unwrap();
  take_lease(&mut file);
  let mut writer =
    Command::new("sh").args(["-c", "echo '- b' >> \"$1\"", "sh"]).arg(&path).spawn().unwrap();
  wait_until("lease break", || !file.is_undisturbed());
  let done = reshape(&file, base, new);
  file.release();
  assert!(writer.wait().unwrap().success());
  if let Err(FsError::NotLeased { .. }) = done {
    println!("skipped: this machine stalled for half a second");
    return;
  }
  assert!(matches!(done.unwrap(), Reshaped::Done));
  assert_eq!(read(&path), "<!-- m -->\n- a\n<!-- /m -->\n- b\n");
  assert!(file.stamp().unwrap().same_file(&before), "the inode changed");
  assert!(matches!(reshape(&file, new, base), Err(FsError::NotLeased { .. })));
}

#[test]
fn on_the_lowest_rung_no_lease_is_asked_for() {
  let dir = tree();
  let open = |fs: RealFs| {
    let root = fs.open_root(dir.path()).unwrap();
    (fs.rung(&root), fs.open(&root, Path::new("MEMORY.md"), &RULES).unwrap())
  };
  let (rung, mut file) = open(RealFs::default().up_to(Rung::NoLease));
  assert_eq!(rung, Rung::NoLease);
  assert!(matches!(file.try_lease(), Err(FsError::LeaseUnsupported { .. })));
  drop(file);
  let (rung, mut file) = open(RealFs::default().up_to(Rung::EqualLengthOnly));
  if cfg!(linux) {
    assert_eq!(rung, Rung::EqualLengthOnly);
    assert!(file.try_lease().unwrap());
  } else {
    // Only the lowest rung is left.
    assert_eq!(rung, Rung::NoLease);
    assert!(matches!(file.try_lease(), Err(FsError::LeaseUnsupported { .. })));
  }
}

#[cfg(linux)]
#[test]
fn files_that_cannot_be_written_are_read_only_with_the_reason() {
  let dir = tree();
  let path = dir.path().join("MEMORY.md");
  let script = "cp /bin/sleep \"$1\" && chmod 755 \"$1\" && exec \"$1\" 60";
  let mut running = Command::new("sh").args(["-c", script, "sh"]).arg(&path).spawn().unwrap();
  let executing = || {
    let exe = fs::read_link(format!("/proc/{}/exe", running.id()));
    exe.is_ok_and(|exe| exe == path.canonicalize().unwrap())
  };
  wait_until("execution", executing);
  assert_eq!(open(dir.path(), "MEMORY.md").access(), Touch::ReadOnly(Reason::Executing));
  running.kill().unwrap();
  running.wait().unwrap();

  let path = dir.path().join("memory/day.md");
  let chattr = |flag: &str| Command::new("chattr").arg(flag).arg(&path).output();
  if chattr("+i").is_ok_and(|done| done.status.success()) {
    let access = open(dir.path(), "memory/day.md").access();
    assert!(chattr("-i").unwrap().status.success());
    assert_eq!(access, Touch::ReadOnly(Reason::Immutable));
  } else {
    println!("skipped: no immutable files here (chattr +i failed)");
  }
}

#[test]
fn a_file_is_made_only_where_nothing_is_and_never_through_a_link() {
  let dir = tree();
  let outside = tempfile::tempdir().unwrap();
  symlink(outside.path(), dir.path().join("memory/away")).unwrap();
  symlink(outside.path().join("x.md"), dir.path().join("memory/link.md")).unwrap();
  for way in WAYS {
    let root = way.open_root(dir.path()).unwrap();
    for (rel, expected) in [
      ("MEMORY.md", "Io("),
      ("memory/day.md", "Io("),
      ("memory/link.md", "Io("),
      ("memory/away/x.md", "Symlink"),
      ("memory/none/x.md", "Absent"),
      ("memory/day.md/x.md", "NotRegular"),
      ("../x.md", "Escapes"),
      ("/x.md", "Escapes"),
      ("", "Escapes"),
    ] {
      let refusal = format!("{:?}", way.create(&root, Path::new(rel)).unwrap_err().refusal);
      assert!(refusal.starts_with(expected) || refusal == "Absent", "{rel}: {refusal}");
    }
    for rel in ["memory.md", "memory/new.md"] {
      way.create(&root, Path::new(rel)).unwrap();
      let made = dir.path().join(rel);
      let found = rustix::fs::lstat(&made).unwrap();
      assert_eq!((found.st_size, found.st_mode & 0o7777, found.st_nlink), (0, 0o600, 1));
      assert_eq!(open(dir.path(), rel).access(), Touch::Full);
      #[expect(clippy::disallowed_methods, reason = "the tests' own files")]
      fs::remove_file(made).unwrap();
    }
  }
  assert_eq!(read(&dir.path().join("MEMORY.md")), "- a\n");
  assert_eq!(outside.path().read_dir().unwrap().count(), 0);
}

#[test]
fn a_file_is_not_made_in_a_directory_of_somebody_else() {
  if !rustix::process::geteuid().is_root() {
    println!("skipped: only root can give a directory away");
    return;
  }
  let dir = tree();
  let other = rustix::process::Uid::from_raw(65_534);
  rustix::fs::chown(dir.path().join("memory"), Some(other), None).unwrap();
  let fs = RealFs::default();
  let root = fs.open_root(dir.path()).unwrap();
  let refusal = fs.create(&root, Path::new("memory/new.md")).unwrap_err().refusal;
  assert!(matches!(refusal, Refusal::ForeignDirectory(65_534)), "{refusal:?}");
  assert!(!dir.path().join("memory/new.md").exists());
}
