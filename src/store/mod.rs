//! The ledger: what memfw knows about files, blocks, quarantined items, open file operations and
//! events, in one SQLite database.
//!
//! This room reads no clock, opens no memory file and judges nothing. Times are microseconds UTC
//! given by the caller, who also converts them.
//!
//! Invariants:
//! - The database contains bytes of memory files only as seals (`crate::seal`); everything else
//!   about them is hashes, numbers and memfw's own words.
//! - [`Ledger::quarantine`] and [`Ledger::begin`] return only when their rows would survive a power
//!   cut.
//! - A scan never deletes rows of blocks and items: text that left a file keeps its history.
//! - Every public method is one transaction or one read; several processes may work at once.
//!
//! No other code in this process may open the database file or its `-wal` and `-shm` with a plain
//! file handle: closing such a handle drops the locks that SQLite holds (POSIX advisory locks).
#![forbid(unsafe_code)]

mod agent_record;
mod attribution;
pub mod backup;
mod baseline;
mod block;
mod block_change;
mod block_row;
mod column;
mod confirm;
mod count;
mod decision;
mod delta;
mod error;
mod event;
mod exception;
mod figures;
mod file;
mod fresh_seal;
pub mod full_text;
mod id;
mod injected;
mod item;
mod kind;
mod line_hash;
mod loss;
mod migrate;
pub mod newest;
mod observe;
mod op;
mod open;
mod part;
mod part_of;
mod place;
mod quarantine;
mod question;
#[cfg(test)]
mod question_tests;
mod record;
mod renamed;
mod request;
mod retain;
mod score;
mod skill;
mod skill_key;
mod source_exception;
mod split;
mod stamp;
mod state;
mod taken_out;
#[cfg(test)]
mod tests;
mod trail;
mod turn;
mod unanswered;
mod undo;
mod version;

use std::{
  fmt,
  ops::Deref,
  path::{Path, PathBuf},
  sync::Arc,
};

use rusqlite::{Connection, Transaction, TransactionBehavior};

pub use agent_record::{AgentRecord, ClassDowngrade};
pub use attribution::{AttributionRecord, DueItem, ItemOrigin};
pub use backup::Backup;
pub use baseline::ADOPTED_DIGITS;
pub use block_row::{BlockLine, BlockRow, Place, Revision};
pub use count::{Counts, Extent};
pub use error::StoreError;
pub use event::{EventAction, EventFilter, EventRow, NewEvent};
pub use exception::{Exception, ExceptionKey, NewApproval};
pub use figures::TrustDay;
pub use file::{FileRow, FileStatus, Inode, Pending};
pub use injected::{Injection, ReadBy};
pub use item::{Item, ItemFilter};
pub use kind::EventKind;
pub use loss::{Loss, LossState, Measured, Span, Unmeasured};
pub use op::{Images, NewOp, Op, OpId, OpKind};
pub use part::{Part, PartKind};
pub use part_of::PartOf;
pub use quarantine::{Admission, Admitted, Existing, NewItem};
pub use question::{Budget, HandedOut, NewQuestion, Next, QuestionCounts, QuestionState};
pub use record::ScanRecord;
pub use renamed::Rename;
pub use retain::{Dropped, Keep};
pub use score::ScoreKey;
pub use skill::{SkillCheck, SkillRow};
pub use skill_key::SkillKey;
pub use source_exception::{NewSourceException, SourceException};
pub use split::NewPart;
pub use stamp::Stamp;
pub use state::StateKey;
pub use taken_out::{Before, TakenOut};
pub use trail::{OriginRecord, Sighting};
pub use version::{NewVersion, PRUNED_AT_ONCE, Retention, Version, VersionTotals, Writer};

use crate::{
  failpoint::{Point, hit, unsafe_ledger},
  seal::{MasterKey, NameKey},
};
use confirm::confirmed;
use error::Fault;

/// Microseconds since 1970, UTC.
pub type Micros = i64;

/// One connection to the ledger.
#[derive(Debug)]
pub struct Ledger {
  conn: Connection,
  path: PathBuf,
  access: Access,
  key: Option<MasterKey>,
  durability: Durability,
  /// Where its files were when it was opened; `None` for one that is only read.
  place: Option<place::Place>,
  observer: Option<Observer>,
}

/// The purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
  /// Reads and writes; creates and migrates the database.
  ReadWrite,
  /// Only reads; creates and changes nothing, and works where nothing can be written.
  ReadOnly,
}

/// When a commit counts as done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Durability {
  /// When other connections see it; a power cut may undo the last commits (`synchronous=NORMAL`).
  Seen,
  /// When it is on disk (`synchronous=FULL`).
  Synced,
}

impl Durability {
  fn as_str(self) -> &'static str {
    match self {
      // The control of the tests of power loss; never in the product.
      _ if unsafe_ledger() => "OFF",
      Self::Seen => "NORMAL",
      Self::Synced => "FULL",
    }
  }
}

/// Called for each commit, with whether it was synced (`synchronous=FULL`): only then is it sure to
/// survive a power cut.
#[derive(Clone)]
struct Observer(Arc<dyn Fn(bool) + Send + Sync>);

impl Observer {
  fn committed(&self, synced: bool) {
    (self.0)(synced);
  }
}

impl fmt::Debug for Observer {
  fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str("Observer")
  }
}

impl Ledger {
  /// The path of the database.
  pub fn path(&self) -> &Path {
    &self.path
  }

  /// The key for tags of names in markers; `None` without the master key.
  pub fn name_key(&self) -> Option<NameKey> {
    self.key.as_ref().map(MasterKey::name_key)
  }

  /// Whether seals can be made and opened.
  pub fn has_key(&self) -> bool {
    self.key.is_some()
  }

  /// A view in which several reads are consistent, even if other processes write in the meantime. Hold it
  /// briefly: the write-ahead log cannot shrink while it is held. A second view, taken while the first is
  /// held, shares the first and ends with it.
  pub fn snapshot(&self) -> Result<Snapshot<'_>, StoreError> {
    let view = self.read(|conn| {
      if !conn.is_autocommit() {
        return Ok(None);
      }
      let view = conn.unchecked_transaction()?;
      // A deferred transaction begins with its first read.
      view.query_row("SELECT 1 FROM sqlite_schema LIMIT 1", [], |_| Ok(()))?;
      Ok(Some(view))
    })?;
    Ok(Snapshot { ledger: self, _view: view })
  }

  /// Moves everything from the write-ahead log into the database file and truncates the log, as far
  /// as readers allow. For idle times and the end of a daemon.
  pub fn checkpoint(&mut self) -> Result<(), StoreError> {
    self.read(|conn| Ok(conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?))
  }

  /// The problems that SQLite finds in the database file; empty if none. Reads the whole file.
  pub fn damage(&self) -> Result<Vec<String>, StoreError> {
    let problems = self.read(|conn| Ok(confirm::problems(conn, 20)?))?;
    confirm::unless_unread(problems, &self.path)
  }

  /// An error if the database, or its write-ahead log, is no longer at its path: later readers would not
  /// see what is written.
  pub fn check_place(&self) -> Result<(), StoreError> {
    let is_written = self.access == Access::ReadWrite;
    if is_written && self.place.as_ref().is_some_and(place::Place::is_elsewhere) {
      return Err(StoreError::Moved { path: self.path.clone() });
    }
    Ok(())
  }

  /// Records that there was a transaction, and that everything up to now is durable if it was.
  fn note_newest(&self, is_durable: bool) {
    let newest = if is_durable { self.newest_event().unwrap_or(0) } else { 0 };
    // An older copy stays one until the daemon has reported it. The time of the file is that of the transaction.
    newest::note(&self.path, |noted| noted.unwrap_or(0).max(newest));
  }

  /// Records that this ledger is the one that counts from now on, although it is an older copy.
  pub fn accept_as_newest(&self) -> Result<(), StoreError> {
    let newest = self.newest_event()?;
    newest::note(&self.path, |_| newest);
    Ok(())
  }

  /// Whether this ledger is an older copy of the one that was here last.
  pub fn is_older_copy(&self) -> Result<bool, StoreError> {
    match newest::noted(&self.path) {
      Some(noted) => Ok(self.newest_event()? < noted),
      None => Ok(false),
    }
  }

  fn newest_event(&self) -> Result<i64, StoreError> {
    self.read(|conn| Ok(newest::newest_event(conn)?))
  }

  fn read<'a, T>(
    &'a self,
    query: impl FnOnce(&'a Connection) -> Result<T, Fault>,
  ) -> Result<T, StoreError> {
    query(&self.conn).map_err(|fault| confirmed(fault.at(&self.path), &self.conn, &self.path))
  }

  /// One write transaction, all or nothing. The durability is set only here, so that no method can
  /// inherit the durability of another one.
  fn write<T>(
    &mut self,
    durability: Durability,
    change: impl FnOnce(&Transaction<'_>, Option<&MasterKey>) -> Result<T, Fault>,
  ) -> Result<T, StoreError> {
    if self.access == Access::ReadOnly {
      return Err(StoreError::ReadOnly { path: self.path.clone() });
    }
    self.check_place()?;
    let conn = &mut self.conn;
    let key = self.key.as_ref();
    let current = &mut self.durability;
    let run = || {
      if *current != durability {
        // SQLite ignores this inside a transaction, so it comes before.
        conn.pragma_update(None, "synchronous", durability.as_str())?;
        *current = durability;
      }
      // Immediate, because a read that turns into a write later cannot wait for its turn.
      let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
      migrate::check(&tx, &self.path)?;
      let value = change(&tx, key)?;
      hit(Point::StoreBeforeCommit);
      tx.commit()?;
      hit(Point::StoreAfterCommit);
      Ok(value)
    };
    let done = run();
    let value =
      done.map_err(|fault: Fault| confirmed(fault.at(&self.path), &self.conn, &self.path))?;
    // After a durable write, the memory file is overwritten: the record must be in the current ledger.
    if durability == Durability::Synced {
      self.check_place()?;
    }
    self.note_newest(durability == Durability::Synced);
    if let Some(observer) = &self.observer {
      observer.committed(durability == Durability::Synced);
    }
    Ok(value)
  }
}

/// Several reads in one view: dereferences to the ledger.
#[derive(Debug)]
pub struct Snapshot<'a> {
  ledger: &'a Ledger,
  _view: Option<Transaction<'a>>,
}

impl Deref for Snapshot<'_> {
  type Target = Ledger;

  fn deref(&self) -> &Ledger {
    self.ledger
  }
}
