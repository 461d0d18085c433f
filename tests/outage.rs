//! The ledger cannot be written, or text cannot be sealed: memfw redacts no text, reports it, and
//! redacts as soon as possible. No text is ever lost.

use {
  crate::support::{Guarded, Writer, clean, eventually, id, marks, needle, poison},
  rusqlite::Connection,
  rustix::process::Signal,
  std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt as _,
    time::Instant,
  },
};

const LEDGER: &str = "memfw/data/ledger.sqlite";
const KEY: &str = "memfw/data/master.key";

fn append(guarded: &Guarded, text: &str) {
  Writer::Shell.add(&guarded.path("MEMORY.md"), text.as_bytes());
}

fn stands(guarded: &Guarded, n: usize) -> bool {
  !guarded.holding("workspace", &needle(n)).is_empty()
}

/// Every poison up to `n` is in the file or sealed.
#[track_caller]
fn assert_nothing_lost(guarded: &Guarded, n: usize) {
  let sealed = guarded.sealed();
  for n in 0..n {
    let kept = sealed.values().any(|text| text.contains(&needle(n)));
    assert!(kept || stands(guarded, n), "{n} is lost");
  }
}

#[test]
fn on_a_full_disk_nothing_is_redacted_until_there_is_room() {
  const MANY: usize = 300;
  let guarded = Guarded::new("").memory("MEMORY.md", "# Memory\n");
  let mount = "mkdir -p \"$TMP/memfw/data\" && mount -t tmpfs -o size=16m none \"$TMP/memfw/data\"";
  let Some(mut guarded) = guarded.mounts(mount) else { return };
  guarded.start();
  append(&guarded, &format!("{}\n", poison(0)));
  eventually("there is room at first", || !stands(&guarded, 0));
  guarded.in_mounts("cat /dev/zero > \"$TMP/memfw/data/fill\" 2> /dev/null || true");
  let many = (1..MANY).map(|n| format!("\n{}\n", poison(n))).collect::<Vec<_>>().concat();
  append(&guarded, &many);
  guarded.wait_for_log("nothing is redacted until the ledger can be written again");
  assert!(stands(&guarded, MANY - 1));
  let output = guarded.memfw(&["status"]);
  assert_eq!(output.status, 1, "{output:?}");
  assert!(
    output.stdout.contains("nothing is redacted until the ledger can be written"),
    "{output:?}"
  );
  assert_nothing_lost(&guarded, MANY);
  // A daemon that is killed now starts again as soon as there is space, and not before.
  guarded.kill();
  guarded.spawn();
  guarded.wait_for_log("protection is reduced");
  guarded.in_mounts("rm \"$TMP/memfw/data/fill\"");
  guarded.wait_for_log("started");
  eventually("it is made up for", || (0..MANY).all(|n| !stands(&guarded, n)));
  guarded.settle();
  assert_nothing_lost(&guarded, MANY);
  assert_eq!(guarded.waiting().len(), MANY);
  eventually("it is whole again", || guarded.memfw(&["status"]).status == 0);
  guarded.stop();
}

#[test]
fn a_locked_ledger_is_waited_for_and_readers_do_not_wait_with_us() {
  let mut guarded = Guarded::new("").memory("MEMORY.md", "# Memory\n");
  guarded.start();
  let other = Connection::open(guarded.tmp().join(LEDGER)).unwrap();
  other.execute_batch("BEGIN EXCLUSIVE").unwrap();
  append(&guarded, &format!("{}\n", poison(1)));
  let mut longest = std::time::Duration::ZERO;
  eventually("it is said", || {
    let start = Instant::now();
    assert!(stands(&guarded, 1));
    longest = longest.max(start.elapsed());
    guarded.log().contains("nothing is redacted until the ledger can be written again")
  });
  // A lease is never kept for as long as the kernel would break it, nor for the usual 5 s of SQLite.
  assert!(longest.as_secs() < 3, "a reader waited for {longest:?}");
  let output = guarded.memfw(&["status"]);
  assert_eq!(output.status, 1, "{output:?}");
  assert!(
    output.stdout.contains("is locked by another program; nothing is redacted"),
    "{output:?}"
  );
  assert!(stands(&guarded, 1));
  other.execute_batch("ROLLBACK").unwrap();
  eventually("it is made up for", || !stands(&guarded, 1));
  guarded.wait_for_log("the ledger can be written again");
  eventually("it is whole again", || guarded.memfw(&["status"]).status == 0);
  // The audit has both events.
  let audit = guarded.ok(&["audit"]);
  assert!(audit.contains("degraded") && audit.contains("restored"), "{audit}");
  assert_nothing_lost(&guarded, 0);
  guarded.stop();
}

#[test]
fn a_ledger_that_is_locked_at_the_start_is_waited_for() {
  let mut guarded = Guarded::new("").memory("MEMORY.md", "# Memory\n");
  guarded.start();
  guarded.stop();
  append(&guarded, &format!("{}\n", poison(1)));
  let other = Connection::open(guarded.tmp().join(LEDGER)).unwrap();
  other.execute_batch("BEGIN EXCLUSIVE").unwrap();
  guarded.spawn();
  guarded.wait_for_log("protection is reduced");
  let output = guarded.memfw(&["status"]);
  assert_eq!(output.status, 1, "{output:?}");
  assert!(stands(&guarded, 1));
  other.execute_batch("ROLLBACK").unwrap();
  guarded.wait_for_log("started");
  eventually("it is made up for", || !stands(&guarded, 1));
  guarded.stop();
}

#[test]
fn where_nothing_can_be_written_the_daemon_says_so_and_does_not_start() {
  if !rustix::process::geteuid().is_root() {
    eprintln!("skipped: only root can run the daemon as somebody else");
    return;
  }
  let mut guarded = Guarded::new("").memory("MEMORY.md", "# Memory\n");
  guarded.start();
  guarded.stop();
  let data = guarded.tmp().join("memfw/data");
  for path in [guarded.tmp().to_owned(), guarded.tmp().join("memfw"), data.clone()] {
    fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
  }
  let output = guarded.uid(65534).memfw(&["run", "--once"]);
  assert_eq!(output.status, 2, "{output:?}");
  assert!(output.stderr.contains("[TMP]/memfw/data"), "{output:?}");
}

/// A workspace with sealed text, whose daemon has ended and whose key is gone; and the key.
fn without_key() -> (Guarded, Vec<u8>) {
  let mut guarded = Guarded::new("").memory("MEMORY.md", "# Memory\n");
  guarded.start();
  append(&guarded, &format!("{}\n", poison(0)));
  guarded.settle();
  guarded.stop();
  let key = fs::read(guarded.tmp().join(KEY)).unwrap();
  fs::remove_file(guarded.tmp().join(KEY)).unwrap();
  (guarded, key)
}

fn put_key(guarded: &Guarded, key: &[u8]) {
  let path = guarded.tmp().join(KEY);
  fs::write(&path, key).unwrap();
  fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
}

#[test]
fn without_its_key_a_daemon_reports_and_touches_nothing() {
  let (mut guarded, key) = without_key();
  append(&guarded, &format!("\n{}\n", poison(1)));
  for wrong in [None, Some([7; 32])] {
    if let Some(wrong) = wrong {
      put_key(&guarded, &wrong);
    }
    guarded.start();
    let before = guarded.read("MEMORY.md");
    let output = guarded.memfw(&["status"]);
    assert_eq!(output.status, 1, "{output:?}");
    for part in ["poison is in `[TMP]/workspace/MEMORY.md`", "stays in its file", "key"] {
      assert!(output.stdout.contains(part), "`{part}` is not in {output:?}");
    }
    // Later text is judged and reported, too, and clean text is recorded.
    Writer::Shell.add(&guarded.path("memory.md"), format!("{}\n", clean(1)).as_bytes());
    fs::create_dir_all(guarded.path("memory")).unwrap();
    let name = format!("memory/{}.md", wrong.is_some());
    Writer::Shell.add(&guarded.path(&name), format!("{}\n", poison(2)).as_bytes());
    guarded.wait_for_log(&format!("{name}` ("));
    assert_eq!(guarded.read("MEMORY.md"), before);
    assert!(stands(&guarded, 1) && stands(&guarded, 2));
    guarded.stop();
  }
  put_key(&guarded, &[7; 32]);
  guarded.start();
  put_key(&guarded, &key);
  guarded.signal(Signal::HUP);
  eventually("all of it is made up for", || !stands(&guarded, 1) && !stands(&guarded, 2));
  guarded.settle();
  assert_eq!(guarded.memfw(&["status"]).status, 0, "{}", guarded.log());
  assert_nothing_lost(&guarded, 3);
  let item = id(&guarded.waiting()[0]).to_owned();
  guarded.ok(&["quarantine", "approve", &item]);
  assert!(stands(&guarded, 0));
  guarded.stop();
}

#[test]
fn a_broken_ledger_is_reported_with_the_way_out_and_nothing_is_lost() {
  let (mut guarded, key) = without_key();
  put_key(&guarded, &key);
  append(&guarded, &format!("\n{}\n", poison(1)));
  let ledger = guarded.tmp().join(LEDGER);
  for part in ["-wal", "-shm"] {
    fs::remove_file(guarded.tmp().join(format!("{LEDGER}{part}"))).unwrap_or_default();
  }
  let mut bytes = fs::read(&ledger).unwrap();
  let end = bytes.len();
  bytes[1024..end].fill(0xA5);
  fs::write(&ledger, &bytes).unwrap();
  let output = guarded.memfw(&["run"]);
  assert_eq!(output.status, 2, "{output:?}");
  assert!(output.stderr.contains("ledger.sqlite.corrupt-"), "{output:?}");
  assert_eq!(fs::read(&ledger).unwrap(), bytes, "it is left unchanged");
  assert!(stands(&guarded, 1));
  // The advice works: what was there before is the new baseline, and placeholders are text. What came while the
  // ledger was broken is judged as new.
  let before = guarded.read("MEMORY.md");
  fs::rename(&ledger, guarded.tmp().join(format!("{LEDGER}.corrupt-1"))).unwrap();
  guarded.start();
  eventually("it is judged", || !stands(&guarded, 1));
  let (now, known) = (guarded.read("MEMORY.md"), marks::find(&before, b"quarantined").unwrap());
  assert_eq!(now.get(..known), before.get(..known), "the placeholder of the lost ledger stays");
  append(&guarded, &format!("\n{}\n", poison(2)));
  eventually("it guards", || !stands(&guarded, 2));
  guarded.stop();
}
