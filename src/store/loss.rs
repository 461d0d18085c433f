//! Losses: memory files from which another program removed much, each for a person to decide about.
//!
//! A row refers to versions by their hashes, and has no text. As long as nobody has decided, its base is not pruned.
//!
//! Invariant: a row changes only if it is still as it was read ([`Ledger::change_loss`]).
#![forbid(unsafe_code)]

use std::{
  collections::HashSet,
  path::{Path, PathBuf},
};

use rusqlite::{Connection, OptionalExtension as _, Params, Row, params};

use super::{
  Durability, Ledger, Micros, NewEvent, StoreError,
  column::{self, word},
  error::Fault,
  event, id,
  item::ITEMS,
};
use crate::memory::{BlockId, ContentHash};

/// The most versions of a file that are looked at, the newest first.
const NEWEST: i64 = 4096;
/// How many versions between the newest and the oldest a file is compared with. Of text that leaves in many steps, one
/// of them has all but a step of them (a choice: a sixteenth of the steps on average).
const SAMPLES: usize = 8;
/// The most bytes of these versions together; reading more takes too long.
const MAX_SAMPLED_BYTES: i64 = 2_000_000;

/// What became of a loss.
#[derive(
  Clone, Copy, Debug, PartialEq, Eq, Hash, strum::Display, strum::EnumString, strum::IntoStaticStr,
)]
#[strum(serialize_all = "kebab-case")]
pub enum LossState {
  /// The lines are in other guarded files: nothing is lost as long as they are there.
  Moved,
  /// It waits for a person.
  Lost,
  /// A person has rejected it, and the file is being restored; until it is, it waits.
  Restoring,
  /// A person accepts it.
  Approved,
  /// A person has rejected it, and the file was restored.
  Rejected,
}

impl LossState {
  /// The word used in the database.
  pub fn as_str(self) -> &'static str {
    self.into()
  }

  /// Whether it waits for a person.
  pub const fn is_waiting(self) -> bool {
    matches!(self, Self::Lost | Self::Restoring)
  }

  /// The word for people, in JSON and on the command line.
  pub fn shown(self) -> &'static str {
    if self.is_waiting() { Self::Lost.as_str() } else { self.as_str() }
  }
}

/// What was found about a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured {
  /// Whether the lines are lost, or only moved.
  pub state: LossState,
  /// The version that had the lines.
  pub base: ContentHash,
  /// The version without them; `None` if the file is gone.
  pub after: Option<ContentHash>,
  /// Since when the file is like that.
  pub since: Micros,
  /// The number of its newest version then.
  pub newest: i64,
  /// How many lines of the base are lost.
  pub lost: u64,
  /// How many lines the base has.
  pub lines: u64,
}

/// A loss of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
  /// Its id.
  pub id: BlockId,
  /// The file in the ledger.
  pub file: i64,
  /// Its path.
  pub path: PathBuf,
  /// Its workspace.
  pub workspace: PathBuf,
  /// What was found.
  pub found: Measured,
  /// When it was first found.
  pub found_at: Micros,
  /// When and by whom it was decided.
  pub reviewed: Option<(Micros, String)>,
  /// The version that a rejection left in the file.
  pub restored: Option<ContentHash>,
  pub(super) revision: i64,
}

/// A file that has changed since it was last measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmeasured {
  /// The file in the ledger.
  pub file: i64,
  n: i64,
}

/// The versions of a file among which lines may have been lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
  /// The path of the file.
  pub path: PathBuf,
  /// The current version; `None` if the file is gone.
  pub after: Option<ContentHash>,
  /// Since when.
  pub since: Micros,
  /// The number of its newest version.
  pub newest: i64,
  /// The version before, the one with the most bytes, the oldest, and some in between; each once.
  pub before: Vec<ContentHash>,
}

impl Ledger {
  /// The losses in these states, oldest first.
  pub fn losses(&self, states: &[LossState]) -> Result<Vec<Loss>, StoreError> {
    let words: Vec<&str> = states.iter().map(|state| state.as_str()).collect();
    let words = serde_json::Value::from(words).to_string();
    self.read(|conn| {
      let rest = "WHERE loss.state IN (SELECT value FROM json_each(?1)) ORDER BY found_at, loss.id";
      Ok(loss_rows(conn, rest, [words])?)
    })
  }

  /// The losses that wait for a person, oldest first.
  pub fn waiting_losses(&self) -> Result<Vec<Loss>, StoreError> {
    self.losses(&[LossState::Lost, LossState::Restoring])
  }

  /// The loss with this id prefix; `None` if it is the id of an item, or of nothing.
  pub fn loss(&self, prefix: &str) -> Result<Option<Loss>, StoreError> {
    self.read(|conn| {
      let among = format!("SELECT id FROM ({ITEMS}) UNION ALL SELECT id FROM loss");
      match id::resolve(conn, &among, prefix) {
        Ok(id) => Ok(conn.prepare_cached(&by_id())?.query_row([id.as_str()], loss_row).optional()?),
        Err(Fault::Store(StoreError::UnknownId { .. })) => Ok(None),
        Err(error) => Err(error),
      }
    })
  }

  /// The loss about which a person decided last, and when.
  pub fn last_decided_loss(&self) -> Result<Option<Loss>, StoreError> {
    self.read(|conn| {
      let rest = "WHERE loss.state IN ('approved', 'rejected') ORDER BY reviewed_at DESC LIMIT 1";
      Ok(conn.prepare_cached(&select(rest))?.query_row([], loss_row).optional()?)
    })
  }

  /// Losses without a decision that were found since a time, the oldest first.
  pub fn open_losses(&self, since: Micros) -> Result<Vec<Loss>, StoreError> {
    self.read(|conn| {
      let rest = "WHERE loss.state IN ('moved', 'lost', 'restoring') AND found_at >= ?1
                  ORDER BY found_at, loss.id";
      Ok(loss_rows(conn, rest, [since])?)
    })
  }

  /// The losses of a file without a decision, the oldest first.
  pub fn open_losses_of(&self, file: i64) -> Result<Vec<Loss>, StoreError> {
    self.read(|conn| {
      let rest = "WHERE loss.file = ?1 AND loss.state IN ('moved', 'lost', 'restoring')
                  ORDER BY found_at, loss.id";
      Ok(loss_rows(conn, rest, [file])?)
    })
  }

  /// Records a new loss, with the events.
  pub fn add_loss(
    &mut self,
    id: &BlockId,
    file: i64,
    found: &Measured,
    events: &[NewEvent],
    at: Micros,
  ) -> Result<(), StoreError> {
    self.write(Durability::Synced, |tx, _| {
      tx.prepare_cached(
        "INSERT INTO loss (id, file, state, base, after, since, newest, lost, lines, found_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
      )?
      .execute(params![
        id.as_str(),
        file,
        found.state.as_str(),
        found.base.0,
        found.after.map(|hash| hash.0),
        found.since,
        found.newest,
        found.lost as i64,
        found.lines as i64,
        at
      ])?;
      event::append(tx, events, at)
    })
  }

  /// Writes a changed row back, with the events, if nobody else has changed it since it was read; says whether it
  /// did. An approval is from then on where the file is measured from.
  pub fn change_loss(
    &mut self,
    loss: &Loss,
    events: &[NewEvent],
    at: Micros,
  ) -> Result<bool, StoreError> {
    let Loss { id, file, found, reviewed, restored, revision, .. } = loss;
    self.write(Durability::Synced, |tx, _| {
      if matches!(found.state, LossState::Approved | LossState::Restoring) {
        // For a person who takes the decision back.
        tx.prepare_cached(
          "UPDATE loss SET (former_since, former_newest) =
             (SELECT since, newest FROM loss_start WHERE loss_start.file = loss.file)
           WHERE id = ?1 AND revision = ?2 AND state = 'lost'",
        )?
        .execute(params![id.as_str(), revision])?;
      }
      let (reviewed_at, reviewed_by) = reviewed.clone().unzip();
      let changed = tx
        .prepare_cached(
          "UPDATE loss SET state = ?3, base = ?4, after = ?5, since = ?6, newest = ?7, lost = ?8, lines = ?9,
             reviewed_at = ?10, reviewed_by = ?11, restored = ?12, revision = revision + 1
           WHERE id = ?1 AND revision = ?2",
        )?
        .execute(params![
          id.as_str(),
          revision,
          found.state.as_str(),
          found.base.0,
          found.after.map(|hash| hash.0),
          found.since,
          found.newest,
          found.lost as i64,
          found.lines as i64,
          reviewed_at,
          reviewed_by,
          restored.map(|hash| hash.0),
        ])?;
      if changed == 0 {
        return Ok(false);
      }
      if found.state == LossState::Approved {
        start_at(tx, *file, found.since, found.newest)?;
      }
      event::append(tx, events, at)?;
      Ok(true)
    })
  }

  /// Takes the decision about a loss back, with the events, like [`Self::change_loss`]: the file is measured from
  /// where it was before, and again.
  pub fn undecide_loss(
    &mut self,
    loss: &Loss,
    events: &[NewEvent],
    at: Micros,
  ) -> Result<bool, StoreError> {
    self.write(Durability::Synced, |tx, _| {
      let changed = tx
        .prepare_cached(
          "UPDATE loss SET state = 'lost', reviewed_at = NULL, reviewed_by = NULL, restored = NULL,
             revision = revision + 1
           WHERE id = ?1 AND revision = ?2",
        )?
        .execute(params![loss.id.as_str(), loss.revision])?;
      if changed == 0 {
        return Ok(false);
      }
      tx.execute("DELETE FROM loss_start WHERE file = ?1", [loss.file])?;
      tx.execute(
        "INSERT INTO loss_start (file, since, newest)
         SELECT file, former_since, former_newest FROM loss WHERE id = ?1 AND former_since IS NOT NULL",
        [loss.id.as_str()],
      )?;
      has_changed(tx, loss.file, true)?;
      event::append(tx, events, at)?;
      Ok(true)
    })
  }

  /// Deletes a loss that is none any more, with the events, if nobody has changed it since it was read.
  pub fn end_loss(
    &mut self,
    loss: &Loss,
    events: &[NewEvent],
    at: Micros,
  ) -> Result<bool, StoreError> {
    self.write(Durability::Seen, |tx, _| {
      let gone = tx
        .prepare_cached("DELETE FROM loss WHERE id = ?1 AND revision = ?2")?
        .execute(params![loss.id.as_str(), loss.revision])?;
      if gone > 0 {
        event::append(tx, events, at)?;
      }
      Ok(gone > 0)
    })
  }

  /// The next file after `last` that has changed since it was measured, in turn: a file that changes all the time
  /// keeps no other waiting.
  pub fn next_unmeasured(&self, last: i64) -> Result<Option<Unmeasured>, StoreError> {
    self.read(|conn| {
      let sql =
        "SELECT id, unmeasured FROM file WHERE unmeasured > 0 ORDER BY id <= ?1, id LIMIT 1";
      let row = |row: &Row<'_>| Ok(Unmeasured { file: row.get(0)?, n: row.get(1)? });
      Ok(conn.prepare_cached(sql)?.query_row([last], row).optional()?)
    })
  }

  /// Records that a file was measured; if it changed meanwhile, it is measured once more.
  pub fn set_measured(&mut self, measured: &Unmeasured) -> Result<(), StoreError> {
    self.write(Durability::Seen, |tx, _| {
      tx.prepare_cached("UPDATE file SET unmeasured = 0 WHERE id = ?1 AND unmeasured = ?2")?
        .execute(params![measured.file, measured.n])?;
      Ok(())
    })
  }

  /// Records that no file needs to be measured.
  pub fn forget_unmeasured(&mut self) -> Result<(), StoreError> {
    self.write(Durability::Seen, |tx, _| {
      tx.execute("UPDATE file SET unmeasured = 0 WHERE unmeasured > 0", [])?;
      Ok(())
    })
  }

  /// The versions that a file had since a time, as far as no person has decided about them; `None` if its current
  /// content is not kept.
  pub fn loss_span(&self, file: i64, since: Micros) -> Result<Option<Span>, StoreError> {
    self.snapshot()?.read(|conn| span(conn, file, since))
  }

  /// The current contents of all other guarded files with their lengths, the newest first.
  pub fn contents_beside(&self, file: i64) -> Result<Vec<(ContentHash, u64)>, StoreError> {
    self.read(|conn| {
      let mut statement = conn.prepare_cached(
        "SELECT content.hash, content.len FROM version
         JOIN content ON content.id = version.content JOIN file ON file.id = version.file
         WHERE replaced_at IS NULL AND file.id <> ?1 AND file.status = 'watched'
         GROUP BY content.id ORDER BY max(version.id) DESC",
      )?;
      let rows = statement
        .query_map([file], |row| Ok((column::hash(row, 0)?, row.get::<_, i64>(1)? as u64)))?;
      Ok(rows.collect::<Result<_, _>>()?)
    })
  }

  /// Whether the content of a version is still kept.
  pub fn is_version_kept(&self, hash: ContentHash) -> Result<bool, StoreError> {
    self.read(|conn| {
      Ok(conn.prepare_cached("SELECT 1 FROM content WHERE hash = ?1")?.exists([hash.0])?)
    })
  }

  /// Measures a file from its newest version on, because a person has chosen that version.
  pub fn measure_from_here(&mut self, path: &Path) -> Result<(), StoreError> {
    self.write(Durability::Seen, |tx, _| {
      let newest: Option<(i64, Micros, i64)> = tx
        .prepare_cached(
          "SELECT file, coalesce(replaced_at, seen_at), id FROM version
           WHERE file = (SELECT id FROM file WHERE path = ?1) ORDER BY id DESC LIMIT 1",
        )?
        .query_row([column::path_bytes(path)], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
      newest.map_or(Ok(()), |(file, since, newest)| Ok(start_at(tx, file, since, newest)?))
    })
  }
}

/// Notes that a file has changed, if lines may have been lost by that. `had_version` says whether it had another
/// version before; text that comes into a new file may be what another file has lost.
pub(super) fn has_changed(
  conn: &Connection,
  file: i64,
  had_version: bool,
) -> rusqlite::Result<usize> {
  conn
    .prepare_cached(
      "UPDATE file SET unmeasured = unmeasured + 1 WHERE id = ?1
         AND (?2 OR EXISTS (SELECT 1 FROM loss WHERE state IN ('moved', 'lost', 'restoring')))",
    )?
    .execute(params![file, had_version])
}

fn start_at(conn: &Connection, file: i64, since: Micros, newest: i64) -> rusqlite::Result<()> {
  conn
    .prepare_cached("INSERT OR REPLACE INTO loss_start (file, since, newest) VALUES (?1, ?2, ?3)")?
    .execute(params![file, since, newest])
    .map(drop)
}

/// A version: its number, content, length, when it was seen, and when it was replaced.
type Seen = (i64, ContentHash, i64, Micros, Option<Micros>);

fn span(conn: &Connection, file: i64, since: Micros) -> Result<Option<Span>, Fault> {
  let start: Option<(Micros, i64)> = conn
    .prepare_cached("SELECT since, newest FROM loss_start WHERE file = ?1")?
    .query_row([file], |row| Ok((row.get(0)?, row.get(1)?)))
    .optional()?;
  let (decided, last) = start.unwrap_or((Micros::MIN, i64::MAX));
  let (path, is_gone, is_kept): (PathBuf, bool, bool) = conn
    .prepare_cached(
      "SELECT path, status = 'missing', status = 'watched' AND kept IS hash FROM file WHERE id = ?1",
    )?
    .query_row([file], |row| Ok((column::path(row, 0)?, row.get(1)?, row.get(2)?)))?;
  let mut statement = conn.prepare_cached(
    "SELECT version.id, hash, len, seen_at, replaced_at FROM version
     JOIN content ON content.id = version.content
     WHERE file = ?1 ORDER BY version.id DESC LIMIT ?2",
  )?;
  let row = |row: &Row<'_>| -> rusqlite::Result<Seen> {
    Ok((row.get(0)?, column::hash(row, 1)?, row.get(2)?, row.get(3)?, row.get(4)?))
  };
  let found: Vec<Seen> =
    statement.query_map(params![file, NEWEST], row)?.collect::<Result<_, _>>()?;
  let Some(&(newest, current, _, seen_at, replaced_at)) = found.first() else { return Ok(None) };
  let after = replaced_at.is_none().then_some(current);
  if !(is_gone && after.is_none() || is_kept && after.is_some()) {
    return Ok(None);
  }
  let counts = |(id, _, _, _, until): &&Seen| {
    until.is_some_and(|until| until > since && (*id > last || until > decided))
  };
  let counted: Vec<&Seen> = found.iter().filter(counts).collect();
  let largest = counted.iter().max_by_key(|one| (one.2, one.0)).copied();
  let oldest = conn
    .prepare_cached(
      "SELECT hash FROM version JOIN content ON content.id = version.content
       WHERE file = ?1 AND replaced_at > ?2 AND (version.id > ?3 OR replaced_at > ?4)
       ORDER BY replaced_at LIMIT 1",
    )?
    .query_row(params![file, since, last, decided], |row| column::hash(row, 0))
    .optional()?;
  let mut left = MAX_SAMPLED_BYTES;
  let sampled = (1..=SAMPLES).filter_map(|n| counted.get(counted.len() * n / (SAMPLES + 1)));
  let fits = |one: &&&Seen| {
    let fits = one.2 <= left;
    left -= if fits { one.2 } else { 0 };
    fits
  };
  let between: Vec<ContentHash> = sampled.filter(fits).map(|one| one.1).collect();
  let ends = [counted.first().map(|one| one.1), largest.map(|one| one.1), oldest];
  let mut seen = HashSet::new();
  let before = ends.into_iter().flatten().chain(between);
  let before = before.filter(|hash| Some(*hash) != after && seen.insert(*hash)).collect();
  Ok(Some(Span { path, after, since: replaced_at.unwrap_or(seen_at), newest, before }))
}

fn by_id() -> String {
  select("WHERE loss.id = ?1")
}

fn select(rest: &str) -> String {
  format!(
    "SELECT loss.id, file.id, path, workspace, state, base, after, since, newest, lost, lines, found_at,
       reviewed_at, reviewed_by, restored, revision
     FROM loss JOIN file ON file.id = loss.file {rest}"
  )
}

/// The losses that the rest of a query chooses.
fn loss_rows(conn: &Connection, rest: &str, params: impl Params) -> rusqlite::Result<Vec<Loss>> {
  conn.prepare_cached(&select(rest))?.query_map(params, loss_row)?.collect()
}

fn loss_row(row: &Row<'_>) -> rusqlite::Result<Loss> {
  let (at, by): (Option<Micros>, Option<String>) = (row.get(12)?, row.get(13)?);
  Ok(Loss {
    id: word(row, 0)?,
    file: row.get(1)?,
    path: column::path(row, 2)?,
    workspace: column::path(row, 3)?,
    found: Measured {
      state: word(row, 4)?,
      base: column::hash(row, 5)?,
      after: column::optional_hash(row, 6)?,
      since: row.get(7)?,
      newest: row.get(8)?,
      lost: row.get::<_, i64>(9)? as u64,
      lines: row.get::<_, i64>(10)? as u64,
    },
    found_at: row.get(11)?,
    reviewed: at.zip(by),
    restored: column::optional_hash(row, 14)?,
    revision: row.get(15)?,
  })
}
