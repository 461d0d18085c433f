//! Trees that were laid out to trap memfw: things that are no plain files under the names of memory,
//! names that break what prints them, mounts, locks on files, and far too much of everything.
//!
//! Each is there at a start or appears while the daemon runs. The daemon must not hang on it, open
//! it, or write through it; `status` must name it; and poison beside it must be taken out at once.

mod case;
mod spy;
mod swapped;

use {
  crate::support::{AT_ONCE, Guarded, Writer, clean, eventually, marks, needle, poison},
  rustix::fs::{CWD, FileType, Mode, makedev, mknodat},
  spy::Spy,
  std::{
    ffi::OsStr,
    fs::{self, Permissions},
    os::unix::{
      ffi::OsStrExt as _,
      fs::{PermissionsExt as _, symlink},
      net::UnixListener,
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
  },
};

/// The file beside the traps.
const PLAIN: &str = "memory/plain.md";
/// Poison that memfw must not read.
const OUTSIDE: usize = 9_000;
/// Files of the large tree, and how to ask for more of them.
const FILES: usize = 2_000;
const FILES_VARIABLE: &str = "MEMFW_TREE_FILES";
/// Memory that the daemon may need for it: a bound against growth without end, ten times what was
/// measured for a hundred thousand files.
const MAX_RESIDENT_KIB: u64 = 1_000_000;

/// An object with the name of a memory file, or of a directory of them.
struct Trap {
  file: &'static str,
  /// The reason that `status` gives.
  why: &'static str,
  /// Makes it; false where that is not possible here.
  set: fn(at: &Path, outside: &Path) -> bool,
  /// Whether its target must not be opened.
  closed: bool,
}

const TRAPS: &[Trap] = &[
  Trap {
    file: "memory/pipe.md",
    why: "named pipe",
    set: |at, _| make(at, FileType::Fifo),
    closed: true,
  },
  Trap {
    file: "memory/socket.md",
    why: "socket",
    set: |at, _| UnixListener::bind(at).is_ok(),
    closed: true,
  },
  Trap {
    file: "memory/device.md",
    why: "device",
    set: |at, _| make(at, FileType::CharacterDevice),
    closed: true,
  },
  Trap {
    file: "memory/link.md",
    why: "symbolic link",
    set: |at, outside| symlink(outside.join("secret.md"), at).is_ok(),
    closed: true,
  },
  Trap {
    file: "memory/dangling.md",
    why: "symbolic link",
    set: |at, outside| symlink(outside.join("nothing"), at).is_ok(),
    closed: false,
  },
  Trap {
    file: "memory/round.md",
    why: "symbolic link",
    set: |at, _| symlink("round.md", at).is_ok(),
    closed: false,
  },
  Trap {
    file: "memory/linked",
    why: "symbolic link",
    set: |at, outside| symlink(outside, at).is_ok(),
    closed: false,
  },
  Trap {
    file: "memory/sparse.md",
    why: "more than the limit",
    set: |at, _| sparse(at),
    closed: true,
  },
  Trap {
    file: "memory/twin.md",
    why: "hard links",
    set: |at, outside| fs::hard_link(outside.join("twin.txt"), at).is_ok(),
    closed: false,
  },
];

fn make(at: &Path, kind: FileType) -> bool {
  // The device is /dev/zero, which never ends.
  let device = if kind == FileType::CharacterDevice { makedev(1, 5) } else { 0 };
  mknodat(CWD, at, kind, Mode::from_raw_mode(0o600), device).is_ok()
}

/// A file of 1 TiB that holds nothing, or as large as the file system allows.
fn sparse(at: &Path) -> bool {
  let file = fs::File::create(at).unwrap();
  file.set_len(1 << 40).or_else(|_| file.set_len(1 << 34)).is_ok()
}

/// A guarded workspace and an unguarded directory beside it.
fn world() -> (Guarded, PathBuf) {
  let guarded = Guarded::new(AT_ONCE).memory("MEMORY.md", "# Memory\n").memory(PLAIN, "# Plain\n");
  let outside = guarded.tmp().join("home/outside");
  fs::create_dir(&outside).unwrap();
  for name in ["secret.md", "twin.txt"] {
    fs::write(outside.join(name), format!("{}\n", poison(OUTSIDE))).unwrap();
  }
  (guarded, outside)
}

/// Poison beside the traps is taken out while they exist.
#[track_caller]
fn assert_guards(guarded: &Guarded, n: usize) {
  Writer::Shell.add(&guarded.path(PLAIN), format!("{}\n{}\n", clean(n), poison(n)).as_bytes());
  eventually("the poison beside it leaves", || {
    marks::find(&guarded.read(PLAIN), needle(n).as_bytes()).is_none()
  });
  guarded.settle();
  let found = guarded.read(PLAIN);
  assert!(marks::find(&found, clean(n).as_bytes()).is_some(), "{}", marks::show(&found));
}

/// `status` names a path and why it is not guarded.
#[track_caller]
fn assert_reported(guarded: &Guarded, file: &str, why: &str) {
  let mut answer = String::new();
  // Several problems of one workspace are in one line.
  let told =
    |answer: &str| answer.split(['\n', ';']).any(|part| part.contains(file) && part.contains(why));
  eventually(&format!("status says `{why}` about {file}"), || {
    answer = guarded.memfw(&["status"]).stdout;
    told(&answer)
  });
}

/// Sets all traps, before the daemon starts or while it runs.
fn assert_traps(running: bool) {
  let (mut guarded, outside) = world();
  let mut spy = Spy::new();
  spy.watch(&outside.join("secret.md"));
  if running {
    guarded.start();
  }
  let mut set = Vec::new();
  for trap in TRAPS {
    let at = guarded.path(trap.file);
    if !(trap.set)(&at, &outside) {
      println!("skipped: {} cannot be made here", trap.file);
      continue;
    }
    if trap.closed && !at.is_symlink() {
      spy.watch(&at);
    }
    set.push(trap);
  }
  fs::create_dir(guarded.path("memory/dir.md")).unwrap();
  fs::write(guarded.path("memory/dir.md/inner.md"), "# Inner\n").unwrap();
  if !running {
    guarded.start();
  }
  assert_guards(&guarded, 1);
  for trap in &set {
    assert_reported(&guarded, trap.file, trap.why);
  }
  // A directory may have the name of a file; its files are memory.
  Writer::Shell.add(&guarded.path("memory/dir.md/inner.md"), format!("{}\n", poison(2)).as_bytes());
  eventually("poison leaves the directory", || {
    marks::find(&guarded.read("memory/dir.md/inner.md"), needle(2).as_bytes()).is_none()
  });
  guarded.settle();
  assert_eq!(spy.seen(), Vec::<String>::new(), "what must not be opened was");
  for name in ["secret.md", "twin.txt"] {
    let found = fs::read(outside.join(name)).unwrap();
    assert_eq!(found, format!("{}\n", poison(OUTSIDE)).as_bytes(), "{name}");
  }
  assert_eq!(fs::read_dir(&outside).unwrap().count(), 2, "something was made outside");
  // Only the second name of the hard link may be judged, because it is in the workspace.
  let waiting = guarded.waiting();
  assert_eq!(waiting.len(), 2, "{waiting:#?}");
  for item in guarded.listed("flagged") {
    assert_eq!(item["file"], Guarded::named("memory/twin.md"));
  }
  guarded.stop();
}

#[test]
fn traps_that_are_there_at_a_start_are_reported_and_left_alone() {
  assert_traps(false);
}

#[test]
fn traps_that_appear_are_reported_and_left_alone() {
  assert_traps(true);
}

#[test]
fn a_trap_that_becomes_a_plain_file_is_guarded_at_once() {
  let (mut guarded, outside) = world();
  guarded.start();
  for (n, trap) in TRAPS.iter().filter(|trap| trap.file != "memory/linked").enumerate() {
    let at = guarded.path(trap.file);
    if !(trap.set)(&at, &outside) {
      continue;
    }
    assert_reported(&guarded, trap.file, trap.why);
    fs::remove_file(&at).unwrap();
    fs::write(&at, format!("{}\n", poison(n))).unwrap();
    eventually(&format!("{} is guarded", trap.file), || {
      marks::find(&fs::read(&at).unwrap(), needle(n).as_bytes()).is_none()
    });
    guarded.settle();
    let status = guarded.json(&["status", "--json"]);
    assert_eq!(status["unguarded"], serde_json::json!([]), "{}: {status:#}", trap.file);
  }
  guarded.stop();
}

#[test]
fn any_name_that_a_file_can_have_is_guarded_and_printed_harmlessly() {
  let (mut guarded, _) = world();
  guarded.start();
  let long = [b"n".repeat(252), b".md".to_vec()].concat();
  let names: [&[u8]; 9] = [
    b"new\nline.md",
    b"\xff\xfe\x80.md",
    b"escape\x1b[2J\x1b]0;x\x07.md",
    b"a..md",
    b"%2e%2e%2fsecret.md",
    "\u{202e}dm.lrtl.md".as_bytes(),
    b"-rf.md",
    b" .md",
    &long,
  ];
  let path = |name: &[u8]| guarded.path("memory").join(OsStr::from_bytes(name));
  for (n, name) in names.iter().enumerate() {
    fs::write(path(name), format!("{}\n", poison(n))).unwrap();
  }
  // A name that begins with a dot is read by the agent like any other.
  fs::write(guarded.path("memory/..md"), format!("{}\n", poison(100))).unwrap();
  for (n, name) in names.iter().enumerate() {
    eventually(&format!("`{}` is guarded", name.escape_ascii()), || {
      marks::find(&fs::read(path(name)).unwrap(), needle(n).as_bytes()).is_none()
    });
  }
  guarded.settle();
  assert_eq!(guarded.waiting().len(), names.len() + 1);
  let cleaned = fs::read(guarded.path("memory/..md")).unwrap();
  assert!(marks::find(&cleaned, needle(100).as_bytes()).is_none(), "{}", marks::show(&cleaned));
  for args in [&["status"][..], &["quarantine", "list"], &["audit"]] {
    let shown = guarded.memfw(args).stdout;
    let harmless =
      |c: char| c == '\n' || !(c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c));
    assert!(shown.chars().all(harmless) && !shown.contains("new\nline"), "{shown:?}");
  }
  guarded.approve_all();
  for (n, name) in names.iter().enumerate() {
    let found = marks::strip(&fs::read(path(name)).unwrap());
    assert_eq!(found, format!("{}\n", poison(n)).as_bytes(), "{}", name.escape_ascii());
  }
  guarded.stop();
}

#[test]
fn a_tree_that_is_too_deep_is_reported_and_the_rest_is_guarded() {
  let (mut guarded, _) = world();
  // Deeper than a path can be long; each step is made from the one before.
  let mut at =
    rustix::fs::open(guarded.path("memory"), rustix::fs::OFlags::PATH, Mode::empty()).unwrap();
  for _ in 0..600 {
    rustix::fs::mkdirat(&at, "deeper-and", Mode::from_raw_mode(0o755)).unwrap();
    at = rustix::fs::openat(&at, "deeper-and", rustix::fs::OFlags::PATH, Mode::empty()).unwrap();
  }
  guarded.start();
  assert_guards(&guarded, 1);
  assert_reported(&guarded, "memory/deeper-and", "nested more than");
  guarded.stop();
}

#[test]
fn a_file_that_is_locked_by_its_mode_is_reported_under_a_dropped_uid() {
  let (guarded, _) = world();
  let Some(mut guarded) = guarded.memory("memory/closed.md", "# Closed\n").played_by_nobody()
  else {
    return;
  };
  fs::set_permissions(guarded.path("memory/closed.md"), Permissions::from_mode(0o000)).unwrap();
  guarded.start();
  assert_guards(&guarded, 1);
  assert_reported(&guarded, "memory/closed.md", "permission denied");
  // Writable, and then no longer; in between it is guarded.
  let path = guarded.path("memory/closed.md");
  fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
  Writer::Shell.add(&path, format!("{}\n", poison(2)).as_bytes());
  eventually("it is guarded", || {
    marks::find(&fs::read(&path).unwrap(), needle(2).as_bytes()).is_none()
  });
  guarded.settle();
  fs::set_permissions(&path, Permissions::from_mode(0o400)).unwrap();
  assert_reported(&guarded, "memory/closed.md", "permissions do not allow writing");
  assert_guards(&guarded, 3);
  guarded.stop();
}

/// Makes a file immutable for as long as this lives.
struct Immutable(PathBuf);

impl Immutable {
  fn new(path: PathBuf) -> Option<Self> {
    let set = run("chattr", &[OsStr::new("+i"), path.as_os_str()]);
    if !set {
      println!("skipped: nothing can be made immutable here");
    }
    set.then_some(Self(path))
  }
}

impl Drop for Immutable {
  fn drop(&mut self) {
    run("chattr", &[OsStr::new("-i"), self.0.as_os_str()]);
  }
}

fn run(program: &str, args: &[&OsStr]) -> bool {
  let mut command = Command::new(program);
  let status = command.args(args).stdout(Stdio::null()).stderr(Stdio::null()).status();
  status.is_ok_and(|status| status.success())
}

#[test]
fn an_immutable_file_is_judged_reported_and_left_alone() {
  let (mut guarded, _) = world();
  let path = guarded.path("memory/immutable.md");
  fs::write(&path, "# Immutable\n").unwrap();
  guarded.start();
  guarded.settle();
  let Some(immutable) = Immutable::new(path.clone()) else { return };
  // That makes no event; the next walk of the tree finds it.
  fs::create_dir(guarded.path("memory/new")).unwrap();
  assert_reported(&guarded, "memory/immutable.md", "immutable");
  assert_guards(&guarded, 1);
  drop(immutable);
  Writer::Shell.add(&path, format!("{}\n", poison(2)).as_bytes());
  eventually("it is guarded again", || {
    marks::find(&fs::read(&path).unwrap(), needle(2).as_bytes()).is_none()
  });
  guarded.settle();
  assert!(!guarded.memfw(&["status"]).stdout.contains("immutable.md"));
  guarded.stop();
}

/// A mount that is removed when this is dropped.
struct Mounted(PathBuf);

impl Mounted {
  fn new(args: &[&OsStr], at: &Path) -> Option<Self> {
    let mut all = args.to_vec();
    all.push(at.as_os_str());
    let mounted = run("mount", &all);
    if !mounted {
      println!("skipped: nothing can be mounted here");
    }
    mounted.then(|| Self(at.to_owned()))
  }

  fn bind(from: &Path, at: &Path) -> Option<Self> {
    Self::new(&[OsStr::new("--bind"), from.as_os_str()], at)
  }

  fn tmpfs(at: &Path) -> Option<Self> {
    Self::new(&["-t", "tmpfs", "none"].map(OsStr::new), at)
  }
}

impl Drop for Mounted {
  fn drop(&mut self) {
    run("umount", &[OsStr::new("-l"), self.0.as_os_str()]);
  }
}

#[test]
fn mounts_in_the_workspace_are_reported_and_not_entered() {
  let (mut guarded, outside) = world();
  let places = ["memory/bound.md", "memory/bound", "memory/other"];
  fs::write(guarded.path(places[0]), "# Bound\n").unwrap();
  for place in &places[1..] {
    fs::create_dir(guarded.path(place)).unwrap();
  }
  let Some(_file) = Mounted::bind(&outside.join("secret.md"), &guarded.path(places[0])) else {
    return;
  };
  let Some(_dir) = Mounted::bind(&outside, &guarded.path(places[1])) else { return };
  let Some(_tmpfs) = Mounted::tmpfs(&guarded.path(places[2])) else { return };
  fs::write(guarded.path("memory/other/x.md"), format!("{}\n", poison(OUTSIDE))).unwrap();
  let mut spy = Spy::new();
  spy.watch(&outside.join("secret.md"));
  spy.watch(&guarded.path("memory/other/x.md"));
  guarded.start();
  assert_guards(&guarded, 1);
  for place in places {
    assert_reported(&guarded, place, "another mount");
  }
  assert_eq!(spy.seen(), Vec::<String>::new());
  guarded.stop();
}

#[test]
fn a_mount_over_a_guarded_directory_is_not_entered_and_what_it_hid_is_guarded_again() {
  let (mut guarded, _) = world();
  guarded = guarded.memory("memory/sub/a.md", "# Sub\n");
  guarded.start();
  guarded.settle();
  let Some(mount) = Mounted::tmpfs(&guarded.path("memory/sub")) else { return };
  let file = guarded.path("memory/sub/a.md");
  fs::write(&file, format!("{}\n", poison(OUTSIDE))).unwrap();
  let mut spy = Spy::new();
  spy.watch(&file);
  assert_guards(&guarded, 1);
  // A mount makes no event; the next walk of the tree finds it.
  fs::create_dir(guarded.path("memory/new")).unwrap();
  assert_reported(&guarded, "memory/sub", "another mount");
  assert_eq!(spy.seen(), Vec::<String>::new());
  assert_eq!(fs::read(&file).unwrap(), format!("{}\n", poison(OUTSIDE)).as_bytes());
  drop(spy);
  drop(mount);
  Writer::Shell.add(&file, format!("{}\n", poison(2)).as_bytes());
  eventually("what was hidden is guarded again", || {
    marks::find(&fs::read(&file).unwrap(), needle(2).as_bytes()).is_none()
  });
  guarded.stop();
}

#[test]
fn a_workspace_that_is_a_bind_mount_is_guarded() {
  let (mut guarded, _) = world();
  let Some(mount) = Mounted::bind(&guarded.path(""), &guarded.path("")) else { return };
  guarded.start();
  assert_guards(&guarded, 1);
  guarded.stop();
  drop(mount);
}

#[test]
fn a_very_large_tree_is_guarded_in_bounded_time_and_memory() {
  let n_files = std::env::var(FILES_VARIABLE).ok().and_then(|n| n.parse().ok()).unwrap_or(FILES);
  let (mut guarded, _) = world();
  for n in 0..n_files {
    let dir = guarded.path(format!("memory/{:03}", n / 1000));
    if n % 1000 == 0 {
      fs::create_dir(&dir).unwrap();
    }
    fs::write(dir.join(format!("{n:06}.md")), format!("# Note {n}\n\n{}\n", clean(n))).unwrap();
  }
  let started = Instant::now();
  guarded.start_patiently();
  let first = started.elapsed();
  let resident = resident(&guarded);
  assert_guards(&guarded, 1);
  guarded.stop();
  let started = Instant::now();
  guarded.start_patiently();
  let second = started.elapsed();
  println!("{n_files} files: first start {first:?}, second {second:?}, {resident} KiB at most");
  assert!(resident < MAX_RESIDENT_KIB, "{resident} KiB");
  assert!(second < first, "a known tree takes {second:?}, a new one {first:?}");
  // Written all at once while it runs.
  for n in 0..n_files / 10 {
    let path = guarded.path(format!("memory/{:03}/{:06}.md", n / 1000, n));
    fs::write(path, format!("{}\n", poison(10_000 + n))).unwrap();
  }
  assert_guards(&guarded, 2);
  assert!(guarded.holding("workspace", "evil.com").is_empty());
  guarded.stop();
}

/// The most memory that the daemon had so far.
fn resident(guarded: &Guarded) -> u64 {
  let status = guarded.json(&["status", "--json"]);
  let text = fs::read_to_string(format!("/proc/{}/status", status["pid"])).unwrap();
  let line = text.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
  line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_directory_that_is_too_deep_is_reported_while_memfw_runs_until_it_is_gone() {
  let (mut guarded, _outside) = world();
  guarded.start();
  let deepest = format!("memory/{}", vec!["d"; 15].join("/"));
  fs::create_dir_all(guarded.path(&deepest)).unwrap();
  guarded.settle();
  assert_eq!(guarded.memfw(&["status"]).status, 0, "`memory` and fifteen directories are guarded");
  fs::create_dir(guarded.path(format!("{deepest}/e"))).unwrap();
  fs::write(guarded.path(format!("{deepest}/e/x.md")), format!("{}\n", poison(OUTSIDE))).unwrap();
  guarded.wait_for_log("no file in it is guarded");
  let shown = guarded.memfw(&["status"]);
  let said = "is nested more than 16 directories deep: no file in it is guarded";
  assert!(shown.status == 1 && shown.stdout.contains(said), "{shown:?}");
  fs::remove_dir_all(guarded.path(format!("{deepest}/e"))).unwrap();
  eventually("it is whole again", || guarded.memfw(&["status"]).status == 0);
  guarded.stop();
}
