//! Where the ledgers of one thread are: real SQLite databases on a memory disk, taken from schedule to
//! schedule, and what a power loss takes from them.
//!
//! Connections outlive schedules and kills, for opening one costs more than a short schedule. What
//! replaces the database under them is what SQLite itself is made for: a write-ahead log that is
//! shorter than its index says, and an index that does not open, as after a crash.
#![forbid(unsafe_code)]

use std::{
  cell::RefCell,
  ffi::OsString,
  fs::{self, File, OpenOptions},
  os::unix::fs::FileExt as _,
  path::{Path, PathBuf},
  sync::{Arc, Mutex, MutexGuard},
  time::Duration,
};

use memfw::{
  seal::MasterKey,
  store::{Access, Ledger},
};
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension as _};

use super::rng::Rng;

/// The key of all simulated ledgers.
pub(crate) const KEY: [u8; 32] = [7; 32];

/// Sizes of the headers of a log and of each of its frames (SQLite file format, 4.1).
const HEAD: u64 = 32;
const FRAME_HEAD: u64 = 24;
/// The header of the log's index: two copies, and what is known about checkpoints (walformat, 2.1).
const INDEX_HEAD: [u8; 136] = [0; 136];

/// Who has a ledger of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
  Daemon,
  Command,
}

/// The ledgers of one thread.
pub(crate) struct Stage {
  ledgers: RefCell<[Option<Ledger>; 2]>,
  /// Sees what is committed, and nothing that an engine only believes.
  pub(crate) witness: Ledger,
  pub(crate) log: Arc<Log>,
  dir: tempfile::TempDir,
}

/// A place in the write-ahead log: its round, and an offset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Place {
  round: [u8; 8],
  end: u64,
}

/// The write-ahead log and what of it is sure to survive.
pub(crate) struct Log {
  path: PathBuf,
  template: Vec<u8>,
  database: File,
  frames: File,
  index: File,
  /// A connection of nobody: looks, and is in the way.
  probe: Mutex<Connection>,
  state: Mutex<State>,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
  commits: u64,
  synced: u64,
  /// The last operation, and after how many commits that was asked.
  last_op: (u64, i64),
  sure: Place,
  sure_op: i64,
  unsynced: Option<Unsynced>,
  blocked: bool,
}

/// What a ledger says that waits for no commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unsynced {
  /// That it does not wait.
  Said,
  /// That it has waited.
  Hidden,
}

impl Stage {
  /// In memory where that can be had: a schedule commits some dozen times.
  pub(crate) fn new() -> Self {
    let builder = || tempfile::Builder::new().prefix("memfw-sim-").to_owned();
    let dir = builder().tempdir_in("/dev/shm").or_else(|_| builder().tempdir()).unwrap();
    let path = dir.path().join("ledger.db");
    drop(open(&path, Access::ReadWrite));
    let template = fs::read(&path).unwrap();
    let daemon = open(&path, Access::ReadWrite);
    let witness = open(&path, Access::ReadOnly);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let probe = Connection::open_with_flags(&path, flags).unwrap();
    probe.busy_timeout(Duration::ZERO).unwrap();
    drop(witness.files().unwrap());
    let handle = |path: &Path| OpenOptions::new().read(true).write(true).open(path).unwrap();
    let log = Arc::new(Log {
      template,
      database: handle(&path),
      frames: handle(&beside(&path, "-wal")),
      index: handle(&beside(&path, "-shm")),
      probe: Mutex::new(probe),
      state: Mutex::default(),
      path,
    });
    let this = Self { ledgers: RefCell::default(), witness, log, dir };
    this.give_back(Who::Daemon, this.observed(daemon));
    this
  }

  /// memfw's data directory.
  pub(crate) fn data(&self) -> &Path {
    self.dir.path()
  }

  /// A ledger for an engine: the connection of the last one, or one that is opened again.
  pub(crate) fn take(&self, who: Who, anew: bool) -> Ledger {
    let old = self.ledgers.borrow_mut()[who as usize].take();
    match old.filter(|_| !anew) {
      Some(ledger) => ledger,
      None => self.observed(open(&self.log.path, Access::ReadWrite)),
    }
  }

  pub(crate) fn give_back(&self, who: Who, ledger: Ledger) {
    ledger.limit_growth(None).unwrap();
    self.ledgers.borrow_mut()[who as usize] = Some(ledger);
  }

  fn observed(&self, mut ledger: Ledger) -> Ledger {
    let log = Arc::clone(&self.log);
    ledger.observe(Arc::new(move |synced| log.committed(synced)));
    ledger.set_patience(Duration::ZERO);
    ledger
  }
}

fn open(path: &Path, access: Access) -> Ledger {
  Ledger::open(path, access, Some(MasterKey::new(KEY))).unwrap()
}

fn beside(ledger: &Path, end: &str) -> PathBuf {
  let mut name = OsString::from(ledger);
  name.push(end);
  name.into()
}

/// How a ledger goes while it is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gone {
  Moved,
  /// It has another name, as a backup made of it with a hard link has.
  Deleted,
  /// An empty file is in its place.
  Emptied,
  /// Another ledger is in its place.
  Other,
  /// Its write-ahead log is moved away.
  Log,
}

impl Stage {
  fn aside(&self) -> (PathBuf, PathBuf) {
    (beside(&self.log.path, "-aside"), beside(&self.log.path, "-wal-aside"))
  }

  /// The ledger goes. A program that has it open goes on with the file that it was.
  pub(crate) fn take_away(&self, how: Gone) {
    let (path, (aside, log_aside)) = (&self.log.path, self.aside());
    match how {
      Gone::Log => fs::rename(beside(path, "-wal"), log_aside).unwrap(),
      Gone::Deleted => {
        fs::hard_link(path, &aside).unwrap();
        fs::remove_file(path).unwrap();
      }
      Gone::Moved | Gone::Emptied | Gone::Other => fs::rename(path, aside).unwrap(),
    }
    // No other file than the ledger itself may be opened and closed here: see `store`.
    match how {
      Gone::Emptied => fs::write(path, b"").unwrap(),
      Gone::Other => fs::write(path, &self.log.template).unwrap(),
      Gone::Moved | Gone::Deleted | Gone::Log => {}
    }
  }

  /// Brings the ledger back as it was.
  pub(crate) fn bring_back(&self) {
    let (aside, log_aside) = self.aside();
    if aside.exists() {
      fs::rename(aside, &self.log.path).unwrap();
    }
    if log_aside.exists() {
      fs::rename(log_aside, beside(&self.log.path, "-wal")).unwrap();
    }
  }
}

impl Log {
  fn state(&self) -> MutexGuard<'_, State> {
    self.state.lock().unwrap()
  }

  /// How many commits there were: what was read before the last one may be old.
  pub(crate) fn commits(&self) -> u64 {
    self.state().commits
  }

  /// How many of them were waited for.
  pub(crate) fn synced(&self) -> u64 {
    self.state().synced
  }

  /// The last operation whose row is sure to survive a power loss.
  pub(crate) fn sure_op(&self) -> i64 {
    self.state().sure_op
  }

  /// From now on no commit is waited for, whatever the engine asks for.
  pub(crate) fn forget_to_wait(&self, unsynced: Unsynced) {
    self.state().unsynced = Some(unsynced);
  }

  fn committed(&self, synced: bool) {
    let mut state = self.state();
    state.commits += 1;
    state.synced += u64::from(synced);
    if !synced || state.unsynced == Some(Unsynced::Said) {
      return;
    }
    state.sure_op = self.find_last_op();
    state.last_op = (state.commits, state.sure_op);
    if state.unsynced.is_none() {
      state.sure = self.end();
    }
  }

  /// The last operation that was begun.
  pub(crate) fn last_op(&self) -> i64 {
    let mut state = self.state();
    if state.last_op.0 != state.commits {
      state.last_op = (state.commits, self.find_last_op());
    }
    state.last_op.1
  }

  fn find_last_op(&self) -> i64 {
    let probe = self.probe.lock().unwrap();
    let mut query =
      probe.prepare_cached("SELECT seq FROM sqlite_sequence WHERE name = 'op'").unwrap();
    query.query_row([], |row| row.get(0)).optional().unwrap().unwrap_or(0)
  }

  /// Where the log ends now, as its index says.
  fn end(&self) -> Place {
    let mut head = [0; 48];
    self.index.read_exact_at(&mut head, 0).unwrap();
    let number =
      |at: usize| u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let frame = FRAME_HEAD + u64::from(u16::from_ne_bytes([head[14], head[15]]));
    let mut round = [0; 8];
    round.copy_from_slice(&head[32..40]);
    Place { round, end: HEAD + u64::from(number(16)) * frame }
  }

  /// Another program holds the ledger's write lock, or lets go of it.
  pub(crate) fn block(&self, wanted: bool) {
    let mut state = self.state();
    if state.blocked != wanted {
      let probe = self.probe.lock().unwrap();
      probe.execute_batch(if wanted { "BEGIN IMMEDIATE" } else { "ROLLBACK" }).unwrap();
      state.blocked = wanted;
    }
  }

  /// Whether somebody is in the middle of a write transaction.
  pub(crate) fn is_being_written(&self) -> bool {
    if self.state().blocked {
      return false;
    }
    let probe = self.probe.lock().unwrap();
    let begun =
      probe.execute_batch("BEGIN IMMEDIATE").and_then(|()| probe.execute_batch("ROLLBACK"));
    // While the ledger is away, nothing can be begun.
    begun.is_err_and(|error| error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy))
  }

  /// Strikes out all operations as if they were finished.
  pub(crate) fn strike_out(&self) {
    self.block(false);
    self.probe.lock().unwrap().execute("DELETE FROM op", []).unwrap();
    self.state().commits += 1;
  }

  /// Gives all items other numbers.
  pub(crate) fn renumber(&self) {
    self.block(false);
    self.probe.lock().unwrap().execute("UPDATE quarantine SET n = n + 1000", []).unwrap();
    self.state().commits += 1;
  }

  /// How often each kind of end of an interrupted operation was recorded.
  pub(crate) fn recoveries(&self) -> Vec<(String, u64)> {
    let probe = self.probe.lock().unwrap();
    let sql = "SELECT detail, count(*) FROM event WHERE event = 'recovered' GROUP BY detail";
    let mut query = probe.prepare_cached(sql).unwrap();
    let rows = query.query_map([], |row| Ok((row.get(0)?, row.get::<_, i64>(1)? as u64))).unwrap();
    rows.map(Result::unwrap).collect()
  }

  /// An empty ledger again. No engine may be in the middle of anything.
  pub(crate) fn reset(&self) {
    self.block(false);
    *self.state() = State::default();
    self.database.write_all_at(&self.template, 0).unwrap();
    self.database.set_len(self.template.len() as u64).unwrap();
    self.cut(0);
  }

  /// Cuts the log, and makes its index one that has to be made again.
  fn cut(&self, end: u64) {
    self.frames.set_len(end).unwrap();
    self.index.write_all_at(&INDEX_HEAD, 0).unwrap();
  }

  /// A power loss: commits that nobody waited for are lost from some point on. Returns how many that were.
  pub(crate) fn lose(&self, rng: &mut Rng) -> usize {
    self.block(false);
    self.state().commits += 1;
    let (end, sure) = (self.end(), self.state().sure);
    // In another round of the log everything of the round before is in the database itself.
    let sure = if sure.round == end.round { sure.end } else { HEAD };
    let mut ends = vec![sure.max(HEAD)];
    let mut log = vec![0; end.end as usize];
    if end.end <= HEAD || self.frames.read_exact_at(&mut log, 0).is_err() {
      return 0;
    }
    let page = u64::from(u32::from_be_bytes([log[8], log[9], log[10], log[11]]));
    let mut at = HEAD;
    while at < end.end {
      let frame = at as usize;
      at += FRAME_HEAD + page;
      // The size of the database after a commit; 0 in other frames.
      if log[frame + 4..frame + 8] != [0; 4] && at > sure {
        ends.push(at);
      }
    }
    let kept = rng.below(ends.len());
    let keep = ends[kept];
    if keep < end.end && keep > HEAD && rng.one_in(2) {
      // What comes later reached the disk, but for one byte: pages arrive in any order.
      let at = keep + rng.next() % (end.end - keep).min(page);
      self.frames.write_all_at(&[!log[at as usize]], at).unwrap();
      self.cut(end.end);
    } else {
      self.cut(if keep == HEAD { 0 } else { keep });
    }
    ends.len() - 1 - kept
  }
}
