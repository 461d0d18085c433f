//! The real daemon where system calls fail: the nth read, write or sync of a memory file or of the ledger.
//! Nothing is lost, and what is due is done as soon as calls succeed again, by this daemon or by the next one.
#![cfg(all(target_os = "linux", target_env = "gnu"))]

use {
  crate::support::{AT_ONCE, Guarded, Writer, clean, eventually, id, needle, poison},
  std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
  },
};

const EIO: i32 = 5;
const ENOSPC: i32 = 28;
/// Half of the bytes are written, and the daemon is gone.
const TORN: i32 = 0;

/// The library that makes calls fail, compiled once; `None`, said aloud, where there is no compiler.
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
struct Fault {
  call: &'static str,
  errno: i32,
  skip: usize,
  count: usize,
}

/// Takes poison out and brings it back while calls below `dir` fail. Returns whether one did.
fn survives(dir: &str, fault: &Fault) -> bool {
  let Fault { call, errno, skip, count } = fault;
  let what = format!("{call} {errno} after {skip}, {count} times, below {dir}");
  let guarded = Guarded::new(AT_ONCE).memory("MEMORY.md", format!("# Memory\n\n{}\n", clean(0)));
  let log = guarded.tmp().join("faults");
  let set = [
    format!("LD_PRELOAD={}", shim().expect("it was compiled").display()),
    format!("FAULT_CALL={call}"),
    format!("FAULT_BELOW={}", guarded.tmp().canonicalize().unwrap().join(dir).display()),
    format!("FAULT_SKIP={skip}"),
    format!("FAULT_COUNT={count}"),
    format!("FAULT_ERRNO={errno}"),
    format!("FAULT_LOG={}", log.display()),
  ];
  let words: Vec<&str> = ["env"].into_iter().chain(set.iter().map(String::as_str)).collect();
  let mut guarded = guarded.before(&words);
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
  };
  let stands = |guarded: &Guarded, n: usize| !guarded.holding("workspace", &needle(n)).is_empty();
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
  let text = String::from_utf8(guarded.read("MEMORY.md")).unwrap();
  for line in [clean(0), clean(1), clean(2), poison(1)] {
    assert_eq!(text.matches(&line).count(), 1, "{what}\n{line}\n{text}");
  }
  assert!(guarded.sealed().values().any(|text| text.contains(&poison(2))), "{what}");
  fs::metadata(&log).is_ok_and(|found| found.len() > 0)
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
  let fault = |call, errno, skip, count| Fault { call, errno, skip, count };
  all_survive(
    "workspace/",
    &[
      fault("pread64", EIO, 0, 1),
      fault("pread64", EIO, 3, 2),
      fault("pwrite64", EIO, 0, 1),
      fault("pwrite64", ENOSPC, 1, 2),
      fault("fdatasync", EIO, 0, 1),
      fault("fdatasync", EIO, 1, 3),
    ],
  );
}

#[test]
fn calls_on_the_ledger_may_fail() {
  let fault = |call, errno, skip, count| Fault { call, errno, skip, count };
  all_survive(
    "memfw/data/ledger",
    &[
      fault("pwrite64", EIO, 30, 1),
      fault("pwrite64", ENOSPC, 60, 20),
      fault("pread64", EIO, 40, 1),
      fault("fsync", EIO, 5, 1),
    ],
  );
}

#[test]
fn a_write_may_be_torn() {
  let fault = |skip| Fault { call: "pwrite64", errno: TORN, skip, count: 1 };
  all_survive("workspace/", &[fault(0), fault(1), fault(2)]);
}

/// A negative control: without the library no call fails, so the tests above see those that do.
#[test]
fn a_call_that_nobody_makes_fails_never() {
  if shim().is_none() {
    return;
  }
  let none = Fault { call: "fsync", errno: EIO, skip: 1_000_000, count: 1 };
  assert!(!survives("workspace/", &none));
}
