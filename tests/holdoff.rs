//! OpenClaw's own tools read a file back after writing it: the poison must still be there then, and
//! taken out right afterwards. Their record of the file follows memfw's edits.

use {
  crate::support::{AT_ONCE, Guarded, Writer, clean, eventually, marks, needle, poison},
  rusqlite::Connection,
  serde_json::Value,
  sha2::{Digest as _, Sha256},
  std::{
    fs::{self, OpenOptions},
    os::unix::{
      ffi::OsStrExt as _,
      fs::{FileExt as _, MetadataExt as _},
    },
    path::PathBuf,
    time::{Duration, Instant},
  },
};

/// After its close, OpenClaw's tool opens the file again within 0.22 to 0.41 ms.
const READ_BACK: Duration = Duration::from_micros(300);
/// How long a write with a record may stay when no program reads it back.
const HOLD_OFF: Duration = Duration::from_millis(50);
/// Tries of checks that depend on this test being scheduled in time.
const TRIES: usize = 12;

/// A write of a test.
pub(crate) struct Written {
  /// When the file was closed.
  pub(crate) closed: Instant,
  /// The file's time then.
  stamp: (i64, i64),
}

fn stamp(found: &fs::Metadata) -> (i64, i64) {
  (found.mtime(), found.mtime_nsec())
}

/// A state directory as OpenClaw 2026.9.6 lays it out, with its workspace, and memfw on it.
pub(crate) struct State {
  pub(crate) guarded: Guarded,
  pub(crate) database: Connection,
}

impl State {
  pub(crate) fn new(config: &str) -> Self {
    let mut guarded = Guarded::new(config).env("OPENCLAW_STATE_DIR", "[TMP]");
    guarded = guarded.memory("MEMORY.md", "# Memory\n\n- old\n");
    fs::create_dir(guarded.tmp().join("state")).unwrap();
    let database = Connection::open(guarded.tmp().join("state/openclaw.sqlite")).unwrap();
    database
      .execute_batch(
        "PRAGMA journal_mode = WAL;
         CREATE TABLE plugin_state_entries (plugin_id TEXT NOT NULL, namespace TEXT NOT NULL,
         entry_key TEXT NOT NULL, value_json TEXT NOT NULL, created_at INTEGER NOT NULL,
         expires_at INTEGER, PRIMARY KEY (plugin_id, namespace, entry_key)) STRICT;",
      )
      .unwrap();
    let state = Self { guarded, database };
    state.record(&state.guarded.read("MEMORY.md"));
    state
  }

  pub(crate) fn file(&self) -> PathBuf {
    self.guarded.path("MEMORY.md")
  }

  /// Writes the row about `MEMORY.md` for these bytes, as OpenClaw's tools do before they write.
  fn record(&self, bytes: &[u8]) {
    let workspace =
      hex(self.guarded.path("").parent().unwrap().join("workspace").as_os_str().as_bytes());
    let json = format!(
      r#"{{"version":1,"workspaceKey":"{workspace}","relativePath":"MEMORY.md","fileHash":"{}","originClass":"agent","observedAt":1795231178617}}"#,
      hex(bytes)
    );
    self
      .database
      .execute(
        "INSERT OR REPLACE INTO plugin_state_entries
         VALUES ('core:memory-artifact-provenance', 'workspace-files', ?1, ?2, 0, NULL)",
        (format!("{workspace}:{}", hex(b"MEMORY.md")), json),
      )
      .unwrap();
  }

  /// Hash and class in the row.
  fn row(&self) -> (String, String) {
    let json: String = self
      .database
      .query_row("SELECT value_json FROM plugin_state_entries", [], |row| row.get(0))
      .unwrap();
    let row: Value = serde_json::from_str(&json).unwrap();
    (row["fileHash"].as_str().unwrap().to_owned(), row["originClass"].as_str().unwrap().to_owned())
  }

  /// Adds a line as OpenClaw's tool does: the row first, then the file in place.
  pub(crate) fn tool_adds(&self, text: &str) -> Written {
    let mut bytes = fs::read(self.file()).unwrap();
    bytes.extend_from_slice(format!("{text}\n").as_bytes());
    self.record(&bytes);
    self.write(&bytes)
  }

  /// Writes the file in place.
  fn write(&self, bytes: &[u8]) -> Written {
    let file = OpenOptions::new().write(true).open(self.file()).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    // While it is open here, memfw does not edit it.
    let stamp = stamp(&file.metadata().unwrap());
    drop(file);
    Written { closed: Instant::now(), stamp }
  }

  /// How long after such a write the file is edited; it is not opened for that.
  fn edited_after(&self, written: &Written) -> Duration {
    while stamp(&self.file().metadata().unwrap()) == written.stamp {
      assert!(written.closed.elapsed() < Duration::from_secs(20), "it was never taken out");
      std::hint::spin_loop();
    }
    written.closed.elapsed()
  }

  #[track_caller]
  fn assert_followed(&self) {
    let (hash, class) = self.row();
    assert_eq!(hash, hex(&fs::read(self.file()).unwrap()), "the record is about another version");
    assert_eq!(class, "agent", "the class is not memfw's to change");
  }
}

fn hex(bytes: &[u8]) -> String {
  let digits: Vec<String> =
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
  digits.concat()
}

/// Waits in a busy loop, because sleeping is too coarse.
pub(crate) fn spin_until(end: Instant) {
  while Instant::now() < end {
    std::hint::spin_loop();
  }
}

#[test]
fn a_verifying_read_still_sees_what_was_written() {
  let mut state = State::new(AT_ONCE);
  state.guarded.start();
  let mut seen = 0;
  for n in 0..TRIES {
    let closed = state.tool_adds(&poison(n)).closed;
    spin_until(closed + READ_BACK);
    let read = fs::read(state.file()).unwrap();
    let in_time = closed.elapsed() < HOLD_OFF;
    let is_there = marks::find(&read, needle(n).as_bytes()).is_some();
    // A run in which this test was not scheduled for so long does not count.
    assert!(is_there || !in_time, "gone {:?} after the write", closed.elapsed());
    seen += usize::from(is_there);
    state.guarded.settle();
    let left = state.guarded.holding("workspace", &needle(n));
    assert!(left.is_empty(), "the poison stays after the verifying read");
    state.assert_followed();
  }
  assert!(seen > TRIES / 2, "only {seen} of {TRIES} reads came in time");
  assert_eq!(state.guarded.waiting().len(), TRIES);
  state.guarded.stop();
}

#[test]
fn the_poison_goes_right_after_the_verifying_read() {
  let mut state = State::new(AT_ONCE);
  state.guarded.start();
  let mut best = Duration::MAX;
  for n in 0..TRIES {
    let written = state.tool_adds(&poison(n));
    spin_until(written.closed + READ_BACK);
    fs::read(state.file()).unwrap();
    best = best.min(state.edited_after(&written));
    state.guarded.settle();
  }
  assert!(best < HOLD_OFF, "even the fastest of {TRIES} took {best:?}");
  state.guarded.stop();
}

#[test]
fn without_a_verifying_read_the_poison_goes_all_the_same() {
  let mut state = State::new(AT_ONCE);
  state.guarded.start();
  let written = state.tool_adds(&poison(1));
  let gone = state.edited_after(&written);
  assert!(gone >= HOLD_OFF / 2, "it was gone after {gone:?}, before any tool could have read it");
  state.guarded.settle();
  assert!(state.guarded.holding("workspace", &needle(1)).is_empty());
  state.assert_followed();
  state.guarded.stop();
}

#[test]
fn a_write_without_a_record_is_taken_out_at_once() {
  let mut state = State::new(AT_ONCE);
  state.guarded.start();
  let mut best = Duration::MAX;
  for n in 0..TRIES {
    let text = [fs::read(state.file()).unwrap(), format!("{}\n", poison(n)).into()].concat();
    best = best.min(state.edited_after(&state.write(&text)));
    state.guarded.settle();
    assert!(state.guarded.holding("workspace", &needle(n)).is_empty());
  }
  assert!(best < HOLD_OFF, "even the fastest of {TRIES} took {best:?}");
  state.guarded.stop();
}

#[test]
fn the_record_of_a_clean_write_follows_the_markers() {
  let mut state = State::new(AT_ONCE);
  state.guarded.start();
  for n in 0..5 {
    state.tool_adds(&clean(n));
    state.guarded.settle();
    let found = fs::read(state.file()).unwrap();
    marks::assert_marked(&state.file(), &found, &clean(n));
    state.assert_followed();
  }
  state.guarded.stop();
}

#[test]
fn what_somebody_else_edited_is_never_taken_for_the_agents() {
  let mut state = State::new(AT_ONCE);
  state.guarded.start();
  let recorded = state.row();
  // Another program writes: the record stays about the version before, and no text is wrapped.
  Writer::Shell.add(&state.file(), format!("{}\n{}\n", clean(1), poison(1)).as_bytes());
  state.guarded.settle();
  assert!(state.guarded.holding("workspace", &needle(1)).is_empty());
  assert_eq!(state.row(), recorded);
  let found = state.guarded.read("MEMORY.md");
  assert!(!marks::is_wrapped(&found, &clean(1)), "{}", marks::show(&found));
  let status = state.guarded.ok(&["status"]);
  assert!(status.contains("edited by another program"), "it says why nothing is marked: {status}");
  state.guarded.stop();
}

#[test]
fn a_ledger_of_unknown_form_is_reported_and_nothing_is_marked() {
  let mut state = State::new(AT_ONCE);
  let version = "UPDATE plugin_state_entries SET value_json = replace(value_json, '\"version\":1', '\"version\":9')";
  state.database.execute(version, []).unwrap();
  state.guarded.start();
  Writer::Shell.add(&state.file(), format!("{}\n{}\n", clean(1), poison(1)).as_bytes());
  eventually("the poison is out", || state.guarded.holding("workspace", &needle(1)).is_empty());
  state.guarded.settle();
  let found = state.guarded.read("MEMORY.md");
  assert!(!marks::is_wrapped(&found, &clean(1)), "{}", marks::show(&found));
  let status = state.guarded.memfw(&["status"]);
  assert!(status.stdout.contains("ledger of unknown form"), "{status:?}");
  state.guarded.stop();
}
