//! The gate on the real kernel: readers wait for the daemon, but not for long.
//!
//! Needs `CAP_SYS_ADMIN` and fanotify permission events; elsewhere each test says that it was skipped.
//! Only directories of the test's own are ever gated, and a gate dies with its test.

use crate::{
  holdoff::{State, spin_until},
  support::{AT_ONCE, Background, Guarded, NEVER, clean, eventually, marks, needle, poison},
};
use memfw::{
  files::lease,
  os::socket::{Channel, address},
};
use rustix::process::Signal;
use serde_json::Value;
use std::{
  fs::{self, File, OpenOptions},
  io::{BufRead as _, BufReader, Write as _},
  os::{
    fd::AsFd as _,
    unix::fs::{FileExt as _, PermissionsExt as _},
  },
  path::{Path, PathBuf},
  process::{Child, ChildStdin, ChildStdout, Command, Stdio},
  sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
  time::{Duration, Instant},
};

/// Files to which poison is written in turn.
const FILES: usize = 50;
/// A wait so long that no test mistakes its end for an answer of the daemon.
const LONG: &str = "30000";
/// A limit for immediate work even on a busy machine, and far less than [`LONG`].
const SOON: Duration = Duration::from_secs(10);

/// A workspace with a daemon and a gate.
struct Gated {
  // Dropped first: without it no reader waits.
  gate: Option<Background>,
  guarded: Guarded,
}

impl Gated {
  /// `None` where the kernel or the rights of this process do not allow a gate.
  fn new(config: &str, max_wait_ms: &str) -> Option<Self> {
    let config = format!("{config}[gate]\nenabled = true\nmax_wait_ms = {max_wait_ms}\n");
    Self::on(Guarded::new(&config).memory("MEMORY.md", "# Memory\n\n- old\n"))
  }

  fn on(mut guarded: Guarded) -> Option<Self> {
    for n in 0..FILES {
      guarded = guarded.memory(&format!("memory/{n}.md"), "# Notes\n");
    }
    guarded.start();
    let mut gated = Self { gate: None, guarded };
    if !gated.open() {
      return None;
    }
    // A version that was passed once is not asked about again, even if the daemon ends.
    for n in 0..FILES {
      fs::read(gated.note(n)).unwrap();
    }
    Some(gated)
  }

  /// Starts the gate and waits until both directories are gated.
  fn open(&mut self) -> bool {
    let mut gate = self.guarded.test().args(["gate"]).start();
    // The report of the previous gate is there, too.
    let is_open =
      || self.gate_says("connected", &true.into()) && self.gate_says("directories", &2.into());
    eventually("the gate", || gate.has_ended() || is_open());
    if gate.has_ended() {
      let log = String::from_utf8_lossy(&gate.stderr()).into_owned();
      let cannot = ["`CAP_SYS_ADMIN`", "no fanotify permission events"];
      assert!(cannot.iter().any(|why| log.contains(why)), "the gate does not start: {log}");
      eprintln!("skipped, readers cannot be made to wait here: {log}");
      return false;
    }
    self.gate = Some(gate);
    true
  }

  fn status(&self) -> Value {
    serde_json::from_str(&self.guarded.memfw(&["status", "--json"]).stdout).unwrap()
  }

  fn gate_says(&self, key: &str, value: &Value) -> bool {
    &self.status()["gate"][key] == value
  }

  /// What `status` says about reduced protection.
  fn degradations(&self) -> String {
    self.status()["degradations"].to_string()
  }

  fn note(&self, n: usize) -> PathBuf {
    self.guarded.path(format!("memory/{}.md", n % FILES))
  }

  fn gate(&mut self) -> &mut Background {
    self.gate.as_mut().unwrap()
  }

  #[track_caller]
  fn assert_nobody_was_let_through(&self) {
    let status = self.status();
    assert_eq!(status["gate"]["let_through"], 0, "{status:#}");
    assert_eq!(status["degradations"], Value::Array(vec![]), "{status:#}");
  }
}

/// A process that writes and does not read: one shell for all writes.
struct Pen {
  child: Child,
  orders: ChildStdin,
  answers: BufReader<ChildStdout>,
}

impl Pen {
  fn new() -> Self {
    let script =
      r#"while read -r file && read -r line; do printf '%s\n' "$line" >> "$file"; echo; done"#;
    let mut child = Command::new("sh")
      .args(["-c", script])
      .stdin(Stdio::piped())
      .stdout(Stdio::piped())
      .spawn()
      .unwrap();
    let orders = child.stdin.take().unwrap();
    let answers = BufReader::new(child.stdout.take().unwrap());
    Self { child, orders, answers }
  }

  /// Adds a line; when this returns, the file is closed.
  fn add(&mut self, file: &Path, line: &str) {
    write!(self.orders, "{}\n{line}\n", file.display()).unwrap();
    self.answers.read_line(&mut String::new()).unwrap();
  }
}

impl Drop for Pen {
  fn drop(&mut self) {
    self.child.kill().unwrap_or_default();
    self.child.wait().unwrap();
  }
}

fn holds(bytes: &[u8], n: usize) -> bool {
  marks::find(bytes, needle(n).as_bytes()).is_some()
}

/// Numbers of all poison in a text.
fn poisons(bytes: &[u8]) -> Vec<usize> {
  let text = String::from_utf8_lossy(bytes);
  text.split("backup-").skip(1).filter_map(|rest| rest.get(..4)?.parse().ok()).collect()
}

/// Writes poison and reads at once; the number of reads that saw it. A second reader reads all the
/// time: it may only see poison that was written after its read began.
fn poisoned_reads(guarded: &Guarded, tries: usize) -> usize {
  let files: Vec<PathBuf> = (0..FILES).map(|n| guarded.path(format!("memory/{n}.md"))).collect();
  let written = AtomicUsize::new(0);
  let is_over = AtomicBool::new(false);
  let mut pen = Pen::new();
  std::thread::scope(|scope| {
    let racer = scope.spawn(|| {
      let mut seen = 0;
      for file in files.iter().cycle().take_while(|_| !is_over.load(SeqCst)) {
        let before = written.load(SeqCst);
        seen += poisons(&fs::read(file).unwrap()).into_iter().filter(|n| *n < before).count();
      }
      seen
    });
    let mut seen = 0;
    for n in 0..tries {
      let file = &files[n % FILES];
      pen.add(file, &poison(n));
      written.store(n + 1, SeqCst);
      seen += usize::from(holds(&fs::read(file).unwrap(), n));
    }
    is_over.store(true, SeqCst);
    seen + racer.join().unwrap()
  })
}

#[test]
fn nobody_reads_poison_that_was_written_before() {
  let Some(gated) = Gated::new(NEVER, LONG) else { return };
  assert_eq!(poisoned_reads(&gated.guarded, 1000), 0);
  gated.assert_nobody_was_let_through();
  assert_eq!(gated.guarded.waiting().len(), 1000);
}

#[test]
fn without_a_gate_poison_is_read() {
  let mut guarded = Guarded::new(NEVER);
  for n in 0..FILES {
    guarded = guarded.memory(&format!("memory/{n}.md"), "# Notes\n");
  }
  guarded.start();
  let seen = poisoned_reads(&guarded, 200);
  assert!(seen > 0, "the test of the gate proves nothing");
  eventually("the last redactions", || guarded.waiting().len() == 200);
  let status = || guarded.json(&["status", "--json"]);
  eventually("the exposure", || !status()["exposure"].is_null());
  let status: Value = status();
  let exposure = &status["exposure"];
  assert!((1..=128).contains(&exposure["redactions"].as_u64().unwrap()), "{status:#}");
  assert!(exposure["p50_us"].as_u64() <= exposure["p99_us"].as_u64(), "{status:#}");
  assert!(exposure["p50_us"].as_u64() > Some(0), "{status:#}");
  assert!(guarded.ok(&["status"]).contains("  exposure    p50 "));
}

#[test]
fn a_descriptor_from_before_the_write_reads_no_poison() {
  let Some(gated) = Gated::new(NEVER, LONG) else { return };
  let mut pen = Pen::new();
  for n in 0..60 {
    let open = File::open(gated.note(n)).unwrap();
    pen.add(&gated.note(n), &poison(n));
    let mut bytes = vec![0; 1 << 16];
    let length = open.read_at(&mut bytes, 0).unwrap();
    assert!(length > 100 && !holds(&bytes[..length], n), "write {n} was read");
  }
  gated.assert_nobody_was_let_through();
}

#[test]
fn the_verifying_read_of_the_writer_passes_and_others_wait() {
  let config = format!("{NEVER}[gate]\nenabled = true\nmax_wait_ms = {LONG}\n");
  let State { guarded, database } = State::new(&config);
  let Some(gated) = Gated::on(guarded) else { return };
  let Gated { gate, guarded } = gated;
  let state = State { guarded, database };
  let mut seen = 0;
  for n in 0..20 {
    let began = Instant::now();
    let closed = state.tool_adds(&poison(n)).closed;
    // Another reader, which reads before the writer has verified.
    let other = Command::new("cat").arg(state.file()).stdout(Stdio::piped()).spawn().unwrap();
    spin_until(closed + Duration::from_micros(300));
    let read = fs::read(state.file()).unwrap();
    // A run on a machine that stalled for longer than memfw waits does not count.
    let in_time = began.elapsed() < Duration::from_millis(45);
    let log = || state.guarded.log().lines().rev().take(6).collect::<Vec<_>>().join("\n");
    assert!(holds(&read, n) || !in_time, "gone {:?} after the write:\n{}", closed.elapsed(), log());
    seen += usize::from(holds(&read, n));
    let other = other.wait_with_output().unwrap().stdout;
    assert!(other.starts_with(b"# Memory") && !holds(&other, n), "somebody else read write {n}");
    // Later the writer is a reader like any other.
    spin_until(closed + Duration::from_millis(60));
    assert!(!holds(&fs::read(state.file()).unwrap(), n), "the writer read it again");
  }
  assert!(seen > 0, "the machine never let this test run in time");
  Gated { gate, guarded: state.guarded }.assert_nobody_was_let_through();
}

/// A reader in a thread of its own: the bytes that it read, and the time that it took.
fn reader(file: &Path) -> std::thread::JoinHandle<(Vec<u8>, Duration)> {
  let file = file.to_owned();
  std::thread::spawn(move || {
    let started = Instant::now();
    (fs::read(file).unwrap(), started.elapsed())
  })
}

/// Waits until a reader waits at the gate, where it sleeps in the kernel.
#[track_caller]
fn wait_for_waiters(n: usize) {
  let waits = |dir: &Path| {
    let called = fs::read_to_string(dir.join("wchan")).unwrap_or_default();
    called.contains("fanotify")
  };
  let own = PathBuf::from("/proc/self/task");
  eventually("a reader at the gate", || {
    let tasks = fs::read_dir(&own).unwrap().filter_map(Result::ok);
    tasks.filter(|task| waits(&task.path())).count() >= n
  });
}

#[test]
fn a_reader_goes_on_when_the_daemon_dies() {
  let Some(mut gated) = Gated::new(NEVER, LONG) else { return };
  gated.guarded.daemon().signal(Signal::STOP);
  let mut pen = Pen::new();
  pen.add(&gated.note(1), &poison(1));
  let reader = reader(&gated.note(1));
  wait_for_waiters(1);
  let killed = Instant::now();
  gated.guarded.kill();
  let (bytes, _) = reader.join().unwrap();
  assert!(killed.elapsed() < SOON, "it waited for {:?}", killed.elapsed());
  assert!(holds(&bytes, 1), "with nobody to take it out it is there");
  gated.gate().wait_for_log("no daemon was running");
  // Without a daemon no reader waits.
  let started = Instant::now();
  fs::read(gated.note(1)).unwrap();
  assert!(started.elapsed() < SOON);
  assert!(gated.degradations().contains("nothing is guarded"), "{}", gated.degradations());
  // The next daemon finds the gate, and gets its report.
  gated.guarded.start();
  eventually("the alarm", || gated.degradations().contains("no daemon was running"));
  pen.add(&gated.note(2), &poison(2));
  assert!(!holds(&fs::read(gated.note(2)).unwrap(), 2));
}

#[test]
fn a_reader_waits_for_a_daemon_that_hangs_only_so_long() {
  // Long enough for a busy machine to take poison out within it.
  let Some(mut gated) = Gated::new(NEVER, "3000") else { return };
  gated.guarded.daemon().signal(Signal::STOP);
  let mut pen = Pen::new();
  for n in 1..4 {
    pen.add(&gated.note(n), &poison(n));
  }
  let (_, waited) = reader(&gated.note(1)).join().unwrap();
  assert!(waited >= Duration::from_secs(3) && waited < SOON, "it waited for {waited:?}");
  gated.gate().wait_for_log("the daemon did not answer");
  // Only the first reader waits for a silent daemon.
  let (_, next) = reader(&gated.note(2)).join().unwrap();
  assert!(next < Duration::from_secs(2), "the next one waited for {next:?}");
  gated.guarded.daemon().signal(Signal::CONT);
  gated.gate().wait_for_log("the daemon answers again");
  eventually("the alarm", || gated.degradations().contains("the daemon did not answer"));
  assert!(!holds(&fs::read(gated.note(1)).unwrap(), 1));
  pen.add(&gated.note(4), &poison(4));
  assert!(!holds(&fs::read(gated.note(4)).unwrap(), 4), "readers wait again");
}

#[test]
fn a_file_that_cannot_be_passed_is_not_taken_for_a_daemon_that_hangs() {
  // Long enough for a daemon on a busy machine to answer that it is working.
  let Some(mut gated) = Gated::new(NEVER, "3000") else { return };
  let mut pen = Pen::new();
  pen.add(&gated.note(1), &poison(1));
  eventually("the redaction", || gated.guarded.waiting().len() == 1);
  // Without its key the daemon can take no text out.
  gated.guarded.stop();
  fs::remove_file(gated.guarded.tmp().join("memfw/data/master.key")).unwrap();
  gated.guarded.start();
  eventually("the gate", || gated.gate_says("directories", &2.into()));
  pen.add(&gated.note(2), &poison(2));
  let (bytes, waited) = reader(&gated.note(2)).join().unwrap();
  assert!(holds(&bytes, 2) && waited >= Duration::from_secs(3), "it waited for {waited:?}");
  gated.gate().wait_for_log("a file was not passed in time");
  // Others are asked about and passed as before.
  pen.add(&gated.note(3), &clean(3));
  assert!(reader(&gated.note(3)).join().unwrap().0.ends_with(format!("{}\n", clean(3)).as_bytes()));
  eventually("the alarm", || gated.degradations().contains("a file was not passed in time"));
  let log = String::from_utf8_lossy(&gated.gate().stderr()).into_owned();
  assert!(!log.contains("the daemon did not answer"), "{log}");
}

#[test]
fn readers_go_on_when_the_gate_dies_and_status_says_so() {
  let Some(mut gated) = Gated::new(NEVER, LONG) else { return };
  gated.guarded.daemon().signal(Signal::STOP);
  let mut pen = Pen::new();
  pen.add(&gated.note(1), &poison(1));
  let reader = reader(&gated.note(1));
  wait_for_waiters(1);
  let killed = Instant::now();
  gated.gate().kill();
  reader.join().unwrap();
  assert!(killed.elapsed() < SOON, "it waited for {:?}", killed.elapsed());
  gated.guarded.daemon().signal(Signal::CONT);
  let gone = "the gate has disconnected: readers do not wait";
  eventually("the word", || gated.degradations().contains(gone));
  let status = || gated.guarded.memfw(&["status"]).stdout;
  eventually("the exposure", || status().contains("  exposure    p50 "));
  // The next gate restores protection, and a gate that ends in an orderly way reports its end.
  assert!(gated.open());
  assert_eq!(gated.degradations(), "[]");
  assert_eq!(gated.gate().terminate().code(), Some(0));
  eventually("the word", || gated.degradations().contains("the gate was stopped"));
  let status = gated.status();
  assert_eq!(status["gate"]["connected"], false, "{status:#}");
}

#[test]
fn daemon_and_commands_never_wait_for_each_other() {
  // Markers at once: the daemon reads and writes under leases all the time.
  let Some(mut gated) = Gated::new(AT_ONCE, LONG) else { return };
  let mut pen = Pen::new();
  // Who waits for a lease waits for as long as the kernel does before it breaks one: 45 s.
  let mut longest = Duration::ZERO;
  for n in 0..12 {
    let started = Instant::now();
    for line in ["", &clean(n), &poison(n)] {
      pen.add(&gated.note(n), line);
    }
    pen.add(&gated.note(n + 1), &poison(n + 100));
    gated.guarded.approve_all();
    let read = fs::read(gated.note(n)).unwrap();
    assert!(read.starts_with(b"# Notes") || read.starts_with(b"<!--"), "{n}");
    longest = longest.max(started.elapsed());
  }
  gated.guarded.settle();
  gated.guarded.approve_all();
  gated.guarded.settle();
  for n in 0..12 {
    assert!(holds(&fs::read(gated.note(n)).unwrap(), n), "approval {n} is lost");
  }
  assert!(longest < Duration::from_secs(40), "a lease was waited for, or a reader: {longest:?}");
  gated.assert_nobody_was_let_through();
  gated.guarded.stop();
}

#[test]
fn other_files_and_new_ones_are_not_waited_for() {
  let Some(mut gated) = Gated::new(NEVER, LONG) else { return };
  for name in ["README.md", "memory/notes.txt", "memory/.hidden.md"] {
    fs::write(gated.guarded.path(name), "text\n").unwrap();
  }
  gated.guarded.daemon().signal(Signal::STOP);
  let started = Instant::now();
  for name in ["README.md", "memory/notes.txt", "memory/.hidden.md"] {
    fs::write(gated.guarded.path(name), "other text\n").unwrap();
    assert_eq!(fs::read(gated.guarded.path(name)).unwrap(), b"other text\n");
  }
  // Versions that were passed before, and files without bytes, are not asked about.
  assert_eq!(fs::read(gated.note(3)).unwrap(), b"# Notes\n");
  fs::write(gated.guarded.path("memory/new.md"), "- new\n").unwrap();
  assert!(started.elapsed() < SOON, "something waited for {:?}", started.elapsed());
}

#[test]
fn fifty_readers_wait_together_and_none_reads_poison() {
  let Some(mut gated) = Gated::new(NEVER, LONG) else { return };
  gated.guarded.daemon().signal(Signal::STOP);
  let mut pen = Pen::new();
  for n in 0..FILES {
    pen.add(&gated.note(n), &poison(n));
  }
  let readers: Vec<_> = (0..50).map(|n| (n % FILES, reader(&gated.note(n)))).collect();
  wait_for_waiters(50);
  gated.guarded.daemon().signal(Signal::CONT);
  for (n, reader) in readers {
    let (bytes, _) = reader.join().unwrap();
    assert!(bytes.len() > 100 && !holds(&bytes, n), "poison {n} was read");
  }
  gated.assert_nobody_was_let_through();
}

#[test]
fn new_directories_are_gated_and_what_moves_into_place_is_too() {
  let Some(gated) = Gated::new(NEVER, LONG) else { return };
  let dir = gated.guarded.path("memory/2026/11");
  fs::create_dir_all(&dir).unwrap();
  eventually("the directories", || gated.gate_says("directories", &4.into()));
  let mut pen = Pen::new();
  for n in 0..20 {
    let file = dir.join(format!("{n}.md"));
    pen.add(&file, &poison(n));
    assert!(!holds(&fs::read(&file).unwrap(), n), "write {n} was read");
    let (temporary, file) = (dir.join("x.tmp"), gated.note(n));
    pen.add(&temporary, &poison(n + 50));
    fs::rename(&temporary, &file).unwrap();
    assert!(!holds(&fs::read(&file).unwrap(), n + 50), "rename {n} was read");
  }
  gated.assert_nobody_was_let_through();
}

#[test]
fn a_file_under_a_foreign_lease_holds_up_its_own_reader_alone() {
  let Some(mut gated) = Gated::new(NEVER, LONG) else { return };
  let leased = OpenOptions::new().read(true).write(true).open(gated.note(1)).unwrap();
  eventually("a lease", || {
    matches!(lease::acquire(leased.as_fd()).unwrap(), lease::Grant::Granted)
  });
  let mut cat = Command::new("cat").arg(gated.note(1)).stdout(Stdio::null()).spawn().unwrap();
  gated.gate().wait_for_log("a file has been under a lease");
  let started = Instant::now();
  let mut pen = Pen::new();
  for n in 2..6 {
    pen.add(&gated.note(n), &poison(n));
    assert!(!holds(&fs::read(gated.note(n)).unwrap(), n));
  }
  assert!(started.elapsed() < SOON, "others waited for {:?}", started.elapsed());
  assert!(cat.try_wait().unwrap().is_none(), "the lease holds nobody up");
  lease::release(leased.as_fd());
  assert!(cat.wait().unwrap().success());
}

#[test]
fn garbage_on_the_socket_hurts_nobody() {
  let Some(mut gated) = Gated::new(NEVER, LONG) else { return };
  let socket = address(&gated.guarded.tmp().join("memfw/data"));
  assert_eq!(socket.metadata().unwrap().permissions().mode() & 0o777, 0o600);
  for garbage in [&b""[..], b"a", b"nonsense", b"a\x01\0\0\0/etc/shadow", &[0xff; 4000]] {
    let peer = Channel::connect(&socket).unwrap();
    peer.send(garbage).unwrap_or_default();
    // An answer says at most that the reader need not wait.
    drop(peer);
  }
  // A later gate replaces an earlier one; a gate that was replaced connects again.
  let pid = Value::from(gated.gate().pid());
  eventually("the gate", || {
    gated.gate_says("pid", &pid) && gated.gate_says("directories", &2.into())
  });
  let mut pen = Pen::new();
  let mut n = 0;
  eventually("a gate that works", || {
    n += 1;
    pen.add(&gated.note(n), &poison(n));
    !holds(&fs::read(gated.note(n)).unwrap(), n)
  });
  gated.guarded.stop();
}

#[test]
fn a_gate_keeps_no_rights_and_becomes_the_user_of_the_daemon() {
  if !rustix::process::geteuid().is_root() {
    eprintln!("skipped: only root can become another user");
    return;
  }
  let config = format!("{NEVER}[gate]\nenabled = true\nmax_wait_ms = {LONG}\n");
  let guarded =
    Guarded::new(&config).memory("MEMORY.md", "# Memory\n").memory("memory/0.md", "x\n");
  let nobody = Command::new("chown").args(["-R", "65534:65534"]).arg(guarded.tmp()).status();
  assert!(nobody.unwrap().success());
  let mut guarded = guarded.uid(65534);
  guarded.start();
  // The daemon's own user cannot start one.
  let refused = guarded.memfw(&["gate"]);
  assert_eq!(refused.status, 2, "{refused:?}");
  assert!(refused.stderr.starts_with("error: the gate needs `CAP_SYS_ADMIN`"), "{refused:?}");
  assert!(refused.stderr.contains("hint: start it as a system service"), "{refused:?}");
  let mut gate = guarded.test().by_root().args(["gate"]).start();
  let status =
    || -> Value { serde_json::from_str(&guarded.memfw(&["status", "--json"]).stdout).unwrap() };
  eventually("the gate", || gate.has_ended() || status()["gate"]["directories"] == 2);
  assert!(!gate.has_ended(), "{}", String::from_utf8_lossy(&gate.stderr()));
  let kept = fs::read_to_string(format!("/proc/{}/status", gate.pid())).unwrap();
  for line in [
    "Uid:\t65534\t65534\t65534\t65534",
    "Gid:\t65534\t65534\t65534\t65534",
    "Groups:\t \n",
    "CapPrm:\t0000000000000000",
    "CapEff:\t0000000000000000",
    "NoNewPrivs:\t1",
  ] {
    assert!(kept.contains(line), "{line:?} is not in\n{kept}");
  }
  let mut pen = Pen::new();
  let note = guarded.path("memory/0.md");
  pen.add(&note, &poison(1));
  assert!(!holds(&fs::read(&note).unwrap(), 1));
  assert_eq!(gate.terminate().code(), Some(0));
  guarded.stop();
}

#[test]
fn a_gate_that_was_asked_for_and_does_not_come_is_missed() {
  let mut guarded = Guarded::new("[gate]\nenabled = true\n").memory("MEMORY.md", "# Memory\n");
  guarded.start();
  let status = || guarded.memfw(&["status"]);
  eventually("the word", || status().stdout.contains("the gate is not running"));
  assert_eq!(status().status, 1);
  guarded.stop();
  let without = Guarded::new("").test().args(["gate"]).output();
  assert_eq!(without.status, 2, "{without:?}");
  assert!(without.stderr.contains("hint: start the daemon of the same user first"), "{without:?}");
}
