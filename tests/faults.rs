//! The real daemon where system calls fail: the nth open, read, write, truncation or sync of a
//! memory file or of the ledger. No text is lost, and due work is done as soon as calls succeed
//! again, by this daemon or by the next one.
//!
//! `cargo test` lets some calls fail, `just faults` the first ones of each kind, one by one.
#![cfg(all(target_os = "linux", target_env = "gnu"))]

use {
  crate::support::{AT_ONCE, Guarded, Output, Writer, clean, eventually, id, needle, poison},
  std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
    time::{Duration, Instant},
  },
};

const EIO: i32 = 5;
const EMFILE: i32 = 24;
const ENOSPC: i32 = 28;
/// Half of the bytes are written, and the daemon is killed.
const TORN: i32 = 0;
/// Half of the bytes are written, and the call reports it.
const SHORT: i32 = -1;
/// None of the bytes are written, and the call reports success: no program can notice this.
const LOST: i32 = -2;

/// There is no space: only writes that make the file longer count, and fail.
const FULL: i32 = -3;

const MEMORY: &str = "workspace/";
const LEDGER: &str = "memfw/data/ledger";

/// The library that makes calls fail, compiled once; `None`, with a message, where there is no
/// compiler.
fn shim() -> Option<&'static Path> {
  static SHIM: OnceLock<Option<PathBuf>> = OnceLock::new();
  let compiled = || {
    let path =
      Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("shim-{}.so", std::process::id()));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/faults/shim.c");
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&path).arg(source).arg("-ldl");
    let Ok(output) = cc.output() else {
      println!("skipped: there is no C compiler");
      return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(path)
  };
  SHIM.get_or_init(compiled).as_deref()
}

/// A call that fails.
#[derive(Clone, Copy)]
struct Fault {
  call: &'static str,
  errno: i32,
  skip: usize,
  count: usize,
}

impl Fault {
  const fn new(call: &'static str, errno: i32, skip: usize, count: usize) -> Self {
    Self { call, errno, skip, count }
  }

  /// The variables that the library reads.
  fn variables(&self, guarded: &Guarded, dir: &str) -> Vec<(&'static str, String)> {
    let tmp = guarded.tmp().canonicalize().unwrap();
    let shim = shim().expect("it was compiled");
    vec![
      ("LD_PRELOAD", shim.display().to_string()),
      ("FAULT_CALL", self.call.to_owned()),
      ("FAULT_BELOW", tmp.join(dir).display().to_string()),
      ("FAULT_SKIP", self.skip.to_string()),
      ("FAULT_COUNT", self.count.to_string()),
      ("FAULT_ERRNO", self.errno.to_string()),
      ("FAULT_LOG", log(guarded).display().to_string()),
    ]
  }
}

fn log(guarded: &Guarded) -> PathBuf {
  guarded.tmp().join("faults")
}

/// Whether a call has failed; may be called only once.
fn has_failed(guarded: &Guarded) -> bool {
  let has = fs::metadata(log(guarded)).is_ok_and(|found| found.len() > 0);
  fs::remove_file(log(guarded)).ok();
  has
}

/// A workspace, and the words before a daemon in which calls below `dir` fail.
fn faulty(dir: &str, fault: &Fault) -> Guarded {
  faulty_with(AT_ONCE, dir, fault)
}

fn faulty_with(config: &str, dir: &str, fault: &Fault) -> Guarded {
  let guarded = Guarded::new(config).memory("MEMORY.md", format!("# Memory\n\n{}\n", clean(0)));
  let set: Vec<String> =
    fault.variables(&guarded, dir).iter().map(|(name, value)| format!("{name}={value}")).collect();
  let words: Vec<&str> = ["env"].into_iter().chain(set.iter().map(String::as_str)).collect();
  guarded.before(&words)
}

fn stands(guarded: &Guarded, n: usize) -> bool {
  !guarded.holding("workspace", &needle(n)).is_empty()
}

/// The texts that are missing or doubled after poison 1 was approved and poison 2 was not, in file
/// and quarantine.
fn wrong(guarded: &Guarded) -> Vec<String> {
  let text = String::from_utf8(guarded.read("MEMORY.md")).unwrap();
  let lines = [clean(0), clean(1), clean(2), poison(1)];
  let count = |line: &String| text.matches(line).count();
  let mut wrong: Vec<String> = lines
    .iter()
    .filter(|line| count(line) != 1)
    .map(|line| format!("{}: {line}", count(line)))
    .collect();
  if !guarded.sealed().values().any(|text| text.contains(&poison(2))) {
    wrong.push(format!("not sealed: {}", poison(2)));
  }
  wrong
}

/// Takes poison out and restores it while calls below `dir` fail. Returns whether a call failed.
fn survives(dir: &str, fault: &Fault) -> bool {
  let Fault { call, errno, skip, count } = fault;
  let what = format!("{call} {errno} after {skip}, {count} times, below {dir}");
  let mut guarded = faulty(dir, fault);
  guarded.spawn();
  let mut ended = Vec::new();
  let mut goes_on = |guarded: &mut Guarded, is_done: &dyn Fn(&Guarded) -> bool, why: &str| {
    eventually(&format!("{why}: {what}"), || {
      // A service manager starts it again.
      if guarded.daemon().has_ended() {
        ended.push(guarded.log());
        assert!(ended.len() <= *count, "it ended again: {what}\n{}", ended.join("\n--\n"));
        guarded.kill();
        guarded.spawn();
      }
      is_done(guarded)
    });
    assert!(!guarded.log().contains("is damaged"), "{what}\n{}", guarded.log());
  };
  goes_on(&mut guarded, &|guarded| guarded.memfw(&["settle", "1"]).status == 0, "it starts");
  let file = guarded.path("MEMORY.md");
  Writer::Shell.add(&file, format!("\n{}\n{}\n", poison(1), clean(1)).as_bytes());
  goes_on(&mut guarded, &|guarded| !stands(guarded, 1), "poison leaves");
  Writer::Shell.add(&file, format!("\n{}\n{}\n", poison(2), clean(2)).as_bytes());
  goes_on(&mut guarded, &|guarded| !stands(guarded, 2), "poison leaves");
  goes_on(&mut guarded, &|guarded| guarded.waiting().len() == 2, "both wait");
  let item = guarded
    .waiting()
    .into_iter()
    .find(|item| guarded.sealed().get(id(item)).is_some_and(|text| text.contains(&needle(1))));
  let item = id(&item.expect(&what)).to_owned();
  let _ = guarded.memfw(&["quarantine", "approve", &item]);
  goes_on(&mut guarded, &|guarded| stands(guarded, 1), "it comes back");
  goes_on(&mut guarded, &|guarded| guarded.memfw(&["settle", "1"]).status == 0, "it comes to rest");
  guarded.stop();
  assert_eq!(wrong(&guarded), [""; 0], "{what}");
  has_failed(&guarded)
}

/// Runs all faults; each kind of call must have failed at least once.
fn all_survive(dir: &str, faults: &[Fault]) {
  if shim().is_none() {
    return;
  }
  let mut failed: Vec<&str> = Vec::new();
  for fault in faults {
    if survives(dir, fault) {
      failed.push(fault.call);
    }
  }
  for fault in faults {
    assert!(failed.contains(&fault.call), "no {} failed", fault.call);
  }
}

#[test]
fn calls_on_memory_files_may_fail() {
  all_survive(
    MEMORY,
    &[
      Fault::new("pread64", EIO, 0, 1),
      Fault::new("pread64", EIO, 3, 2),
      Fault::new("pwrite64", EIO, 0, 1),
      Fault::new("pwrite64", ENOSPC, 1, 2),
      Fault::new("fdatasync", EIO, 0, 1),
      Fault::new("fdatasync", EIO, 1, 3),
    ],
  );
}

#[test]
fn calls_on_the_ledger_may_fail() {
  all_survive(
    LEDGER,
    &[
      Fault::new("pwrite64", EIO, 30, 1),
      Fault::new("pwrite64", ENOSPC, 60, 20),
      Fault::new("pread64", EIO, 5, 1),
      Fault::new("pread64", EIO, 40, 1),
      Fault::new("fsync", EIO, 5, 1),
      Fault::new("open", EMFILE, 2, 1),
    ],
  );
}

#[test]
fn a_write_may_be_torn() {
  let fault = |skip| Fault::new("pwrite64", TORN, skip, 1);
  all_survive(MEMORY, &[fault(0), fault(1), fault(2)]);
}

#[test]
fn a_write_may_be_short() {
  all_survive(MEMORY, &[Fault::new("pwrite64", SHORT, 0, 4)]);
  all_survive(LEDGER, &[Fault::new("pwrite64", SHORT, 20, 40)]);
}

#[test]
fn approved_text_is_tried_ever_more_rarely_while_the_disk_is_full_and_comes_back_when_it_is_not() {
  const TIMES: usize = 7;
  if shim().is_none() {
    return;
  }
  let fault = Fault::new("pwrite64", FULL, 0, TIMES);
  let mut guarded = faulty_with("markers = \"none\"\n[files]\nidle_ms = 0\n", MEMORY, &fault);
  guarded.start();
  let file = guarded.path("MEMORY.md");
  Writer::Shell.add(&file, format!("\n{}\n{}\n", poison(1), clean(1)).as_bytes());
  guarded.wait_for_items(1);
  guarded.settle();
  let n_failed = || fs::metadata(log(&guarded)).map_or(0, |found| found.len());
  assert_eq!(n_failed(), 0, "the placeholder is shorter");
  let item = id(&guarded.waiting()[0]).to_owned();
  // The daemon tries as soon as the decision is in the ledger, while the command still runs.
  let started = Instant::now();
  let output = said(&guarded, &["quarantine", "approve", &item], MEMORY, &fault);
  assert!(output.status == 2 && output.stderr.contains("No space left on device"), "{output:?}");
  let status = guarded.memfw(&["status"]).stdout;
  assert!(status.contains("1 not restored yet"), "{status}");
  eventually("it comes back", || stands(&guarded, 1));
  assert_eq!(n_failed(), TIMES as u64);
  // The pauses of the daemon are 0.1, 0.2, 0.4, 0.8, 1.6 and 3.2 seconds.
  assert!(started.elapsed() > Duration::from_secs(4), "{:?}", started.elapsed());
  guarded.settle();
  guarded.stop();
  let text = String::from_utf8(guarded.read("MEMORY.md")).unwrap();
  assert_eq!(text.matches(&poison(1)).count(), 1, "{text}");
}

/// Each kind of call, and how many of its calls come between two that are tried.
///
/// Memory files are opened and truncated by calls that no library sees; the simulation lets those
/// fail.
const KINDS: [(&str, &str, i32, usize); 14] = [
  (MEMORY, "pwrite64", FULL, 1),
  (MEMORY, "pread64", EIO, 1),
  (MEMORY, "pwrite64", EIO, 1),
  (MEMORY, "pwrite64", ENOSPC, 1),
  (MEMORY, "pwrite64", SHORT, 1),
  (MEMORY, "pwrite64", TORN, 1),
  (MEMORY, "fdatasync", EIO, 1),
  (LEDGER, "open", EIO, 1),
  (LEDGER, "open", EMFILE, 1),
  (LEDGER, "pread64", EIO, 5),
  (LEDGER, "pwrite64", EIO, 9),
  (LEDGER, "pwrite64", ENOSPC, 9),
  (LEDGER, "pwrite64", TORN, 9),
  (LEDGER, "fsync", EIO, 2),
];

/// The nth call of each kind fails, for as many n as `MEMFW_FAULTS` says.
#[test]
#[ignore = "takes minutes: just faults"]
fn any_call_may_fail() {
  let rounds = std::env::var("MEMFW_FAULTS").map_or(3, |n| n.parse().expect("a number"));
  if shim().is_none() {
    return;
  }
  let mut failed: BTreeMap<(&str, &str, i32), usize> = BTreeMap::new();
  for (dir, call, errno, stride) in KINDS {
    let n = (0..rounds).filter(|n| survives(dir, &Fault::new(call, errno, n * stride, 1))).count();
    failed.insert((dir, call, errno), n);
  }
  for ((dir, call, errno), n) in failed {
    println!("{dir} {call} {errno}: {n} failed of {rounds}");
    assert!(n > 0, "no {call} {errno} failed below {dir}");
  }
}

/// The output of a command while calls below `dir` fail.
fn said(guarded: &Guarded, args: &[&str], dir: &str, fault: &Fault) -> Output {
  let mut test = guarded.test().args(args);
  for (name, value) in fault.variables(guarded, dir) {
    test = test.env(name, value);
  }
  test.output()
}

#[test]
fn a_ledger_that_cannot_be_read_is_not_called_damaged() {
  if shim().is_none() {
    return;
  }
  let mut guarded = Guarded::new(AT_ONCE).memory("MEMORY.md", "# Memory\n");
  guarded.start();
  for n in 0..5 {
    Writer::Shell.add(&guarded.path("MEMORY.md"), format!("{}\n", poison(n)).as_bytes());
  }
  guarded.wait_for_items(5);
  guarded.stop();
  let is_damage = |output: &Output| {
    let text = output.stdout.clone() + &output.stderr;
    text.contains("damaged") || text.contains("malformed") || text.contains("in database")
  };
  let commands: [&[&str]; 3] = [&["status"], &["quarantine", "list"], &["doctor"]];
  // Once, and permanently.
  for count in [1, 1_000_000] {
    let mut n_failed = 0;
    for skip in [0, 1, 2, 3, 5, 8, 12, 16, 20, 24] {
      for args in commands {
        let output = said(&guarded, args, LEDGER, &Fault::new("pread64", EIO, skip, count));
        let what = format!("{args:?}, {count} times after {skip}: {output:?}");
        assert!(!is_damage(&output), "{what}");
        let has_failed = has_failed(&guarded);
        n_failed += usize::from(has_failed);
        assert!(has_failed || output.status < 2, "{what}");
      }
    }
    assert!(n_failed > 20, "only {n_failed} failed");
  }
  // The control: a damaged ledger is reported as damaged.
  let path = guarded.tmp().join("memfw/data/ledger.sqlite");
  let mut bytes = fs::read(&path).unwrap();
  bytes[4096 * 4..4096 * 24].fill(0xa5);
  fs::write(&path, bytes).unwrap();
  for args in commands {
    let output = guarded.memfw(args);
    assert!(is_damage(&output), "{args:?}: {output:?}");
  }
}

/// A negative control: without the library no call fails, so the tests above see those that do.
#[test]
fn a_call_that_nobody_makes_fails_never() {
  if shim().is_none() {
    return;
  }
  let none = Fault::new("fsync", EIO, 1_000_000, 1);
  assert!(!survives(MEMORY, &none));
}

/// Negative controls: the checks of the tests above notice written text that is nowhere.
#[test]
fn bytes_that_a_disk_loses_are_missed() {
  if shim().is_none() {
    return;
  }
  // The redaction is lost, and so is each one that the daemon makes when it reads the poison again.
  let mut guarded = faulty(MEMORY, &Fault::new("pwrite64", LOST, 0, 1_000_000));
  guarded.start();
  let file = guarded.path("MEMORY.md");
  let text = |n: usize| format!("\n{}\n{}\n", poison(n), clean(n));
  Writer::Shell.add(&file, text(1).as_bytes());
  eventually("it is sealed", || !guarded.waiting().is_empty());
  eventually("it was lost", || fs::metadata(log(&guarded)).is_ok_and(|found| found.len() > 0));
  assert!(stands(&guarded, 1), "it is still there");
  guarded.kill();
  // Text that is neither in the file nor sealed, and doubled text.
  let found = [clean(0), clean(1), clean(1), poison(1)].map(|line| format!("{line}\n"));
  fs::write(&file, found.concat()).unwrap();
  let missed =
    [format!("2: {}", clean(1)), format!("0: {}", clean(2)), format!("not sealed: {}", poison(2))];
  assert_eq!(wrong(&guarded), missed);
}
