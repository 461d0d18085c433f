//! The questions to a judge: each is stored once, sealed while it waits; later its answer is
//! stored. Also the number of asked questions, for the budget.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension as _, params};
use zeroize::Zeroizing;

use super::{
  Durability, Ledger, Micros, Pending, StoreError, column,
  column::{optional_word, path_bytes, word},
  error::Fault,
  fresh_seal::seal_fresh,
  turn,
};
use crate::{
  detect::{
    effects::Effect,
    reading::{Reading, Ruling},
    rules::words,
  },
  memory::ContentHash,
  seal,
  seal::{Purpose, SealContext},
};

/// Largest number of waiting questions; further entries are not asked about (a choice: the budget
/// of some days).
pub(super) const MAX_WAITING: i64 = 2_000;
/// Largest number of stored answers; the oldest are deleted first.
const MAX_KEPT: i64 = 50_000;
/// How often the time to answer is doubled for a question without a response: up to about five hours, so
/// that it takes no more than forty turns in the week that it waits (a choice).
const MAX_DOUBLINGS: i64 = 6;
/// How long a question waits, at most. By then, the agent has long acted on the text (a choice).
const WAITS_FOR: Micros = 7 * 24 * HOUR;
/// How long the first reader of a question may take before another reader gets it.
pub(super) const ANSWER_WITHIN: Micros = 300 * 1_000_000;
const HOUR: Micros = 3_600 * 1_000_000;
/// The hours for which the number of questions is stored.
const MAX_HOURS: i64 = 48;

/// How far a question has come; stored as a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum QuestionState {
  /// It has no accepted answer yet.
  Waiting,
  /// Its answer is known.
  Answered,
  /// It got no accepted answer and is not asked again.
  Failed,
}

words!(
  QuestionState,
  "state of a question",
  "`waiting`, `answered` or `failed`",
  Waiting = "waiting",
  Answered = "answered",
  Failed = "failed"
);

/// A question to be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewQuestion {
  /// Its hash, by which equal questions are stored once.
  pub hash: ContentHash,
  /// The source of its entry.
  pub source: String,
  /// Its text.
  pub bytes: Zeroizing<Vec<u8>>,
}

/// The budget of questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
  /// Questions in an hour, at most.
  pub per_hour: u64,
  /// In a day (UTC).
  pub per_day: u64,
}

/// A question that is being answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandedOut {
  /// Its hash, which the answer names.
  pub hash: ContentHash,
  /// Its text.
  pub bytes: Zeroizing<Vec<u8>>,
  /// The nonce of its prompt.
  pub nonce: [u8; 16],
}

/// The next question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
  /// This one is handed out.
  Question(HandedOut),
  /// None now; one from this time on, if any waits.
  Later(Option<Micros>),
  /// One waits, but the budget is used up until this time.
  Spent(Micros),
}

/// The figures of the judge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuestionCounts {
  /// Questions that wait.
  pub waiting: u64,
  /// Questions asked in this hour.
  pub asked_hour: u64,
  /// Asked today (UTC), like the following figures.
  pub asked_day: u64,
  /// Questions with an accepted answer.
  pub answered_day: u64,
  /// Questions without an accepted answer.
  pub failed_day: u64,
  /// Entries that were not asked about because too many questions waited.
  pub refused_day: u64,
}

/// A row of the question with this hash prefix: hash, state, seal, nonce.
type QuestionRow = ([u8; 32], QuestionState, Option<Vec<u8>>, Option<[u8; 16]>);

impl Ledger {
  /// Stores the questions about entries of a file that are not known yet. With `all_of`, these are
  /// all questions about this version, and the file need not be checked again, unless one was
  /// answered in the meantime or the file has another version. Returns whether that is so.
  pub fn put_questions(
    &mut self,
    path: &Path,
    questions: &[NewQuestion],
    all_of: Option<ContentHash>,
    at: Micros,
  ) -> Result<bool, StoreError> {
    if questions.is_empty() && all_of.is_none() {
      return Ok(false);
    }
    self.write(Durability::Seen, |tx, key| {
      let mut is_answered = false;
      for question in questions {
        let state: Option<QuestionState> = tx
          .prepare_cached("SELECT state FROM question WHERE hash = ?1")?
          .query_row([question.hash.0], |row| word(row, 0))
          .optional()?;
        is_answered |= state == Some(QuestionState::Answered);
        if state.is_none() {
          let key = key.ok_or(StoreError::NoKey)?;
          let id = question.hash.to_hex();
          let sealed = seal_fresh(key, &context(&id, question.hash), &question.bytes)?;
          tx.prepare_cached(
            "INSERT INTO question (hash, state, sealed, tries, next_at, at, source)
             VALUES (?1, 'waiting', ?2, 0, ?3, ?3, ?4)",
          )?
          .execute(params![question.hash.0, sealed, at, question.source])?;
        }
        tx.prepare_cached(
          "INSERT OR IGNORE INTO question_file (hash, path)
           SELECT hash, ?2 FROM question WHERE hash = ?1 AND state = 'waiting'",
        )?
        .execute(params![question.hash.0, path_bytes(path)])?;
      }
      let n_refused = turn::refuse(tx, MAX_WAITING)?;
      if n_refused > 0 {
        count(tx, at, "refused", n_refused)?;
      }
      let Some(hash) = all_of.filter(|_| !is_answered) else { return Ok(false) };
      let sql = "UPDATE file SET pending = pending & ~?2 WHERE path = ?1 AND hash = ?3";
      let done = Pending::JUDGE.bits();
      Ok(tx.prepare_cached(sql)?.execute(params![path_bytes(path), done, hash.0])? > 0)
    })
  }

  /// Hands out a question with a fresh `nonce`, and counts it: all files have equal chances, within
  /// a file all sources, and of a source the question that has waited longest is taken.
  pub fn next_question(
    &mut self,
    budget: Budget,
    nonce: [u8; 16],
    at: Micros,
  ) -> Result<Next, StoreError> {
    if let next @ Next::Later(_) = self.has_question(at)? {
      return Ok(next);
    }
    self.write(Durability::Seen, |tx, key| {
      let key = key.ok_or(StoreError::NoKey)?;
      expire(tx, at)?;
      let found: Option<([u8; 32], Vec<u8>)> = tx
        .prepare_cached(&format!(
          "SELECT hash, sealed FROM question JOIN ({}) USING (hash) WHERE next_at <= ?1
           ORDER BY turn, random() LIMIT 1",
          turn::turns("random()")
        ))?
        .query_row([at], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
      let Some((hash, sealed)) = found else { return Ok(Next::Later(next_at(tx)?)) };
      if let Some(until) = spent_until(tx, budget, at)? {
        return Ok(Next::Spent(until));
      }
      let hash = ContentHash(hash);
      let id = hash.to_hex();
      let Ok(bytes) = seal::open(key, &context(&id, hash), &sealed) else {
        // A question that cannot be opened would block the others.
        give_up(tx, "hash = ?1", &[&hash.0])?;
        return Ok(Next::Later(next_at(tx)?));
      };
      // The count is corrected when an answer is recorded, or when no reader could be reached.
      tx.prepare_cached(
        "UPDATE question SET nonce = ?2, silent = silent + 1, next_at = ?3 + (?4 << min(silent, ?5))
         WHERE hash = ?1",
      )?
      .execute(params![hash.0, nonce, at, ANSWER_WITHIN, MAX_DOUBLINGS])?;
      count(tx, at, "asked", 1)?;
      Ok(Next::Question(HandedOut { hash, bytes, nonce }))
    })
  }

  /// Whether any question waits.
  pub fn has_questions(&self) -> Result<bool, StoreError> {
    self.read(|conn| Ok(next_at(conn)?.is_some()))
  }

  /// Most calls find nothing, and need not wait for the write lock for that.
  fn has_question(&self, at: Micros) -> Result<Next, StoreError> {
    self.read(|conn| match next_at(conn)? {
      // Not `Later` only means that the budget must be checked.
      Some(due) if due <= at => Ok(Next::Spent(due)),
      later => Ok(Next::Later(later)),
    })
  }

  /// The question with this hash prefix, as it was last handed out.
  pub fn handed_out(
    &self,
    digits: &str,
  ) -> Result<Option<(QuestionState, Option<HandedOut>)>, StoreError> {
    if digits.len() < 8 || !digits.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    {
      return Ok(None);
    }
    // Two rows are enough to see that a prefix is ambiguous.
    let found: Vec<QuestionRow> = self.read(|conn| {
      let mut statement = conn.prepare_cached(
        "SELECT hash, state, sealed, nonce FROM question
         WHERE substr(lower(hex(hash)), 1, length(?1)) = ?1 LIMIT 2",
      )?;
      let rows = statement
        .query_map([digits], |row| Ok((row.get(0)?, word(row, 1)?, row.get(2)?, row.get(3)?)))?;
      Ok(rows.collect::<Result<_, _>>()?)
    })?;
    let Ok([(hash, state, sealed, nonce)]) = <[QuestionRow; 1]>::try_from(found) else {
      return Ok(None);
    };
    let (Some(sealed), Some(nonce)) = (sealed, nonce) else { return Ok(Some((state, None))) };
    let key = self.key.as_ref().ok_or(StoreError::NoKey)?;
    let hash = ContentHash(hash);
    let id = hash.to_hex();
    let bytes = seal::open(key, &context(&id, hash), &sealed)
      .map_err(|source| StoreError::Unsealable { id: id.clone(), source })?;
    Ok(Some((state, Some(HandedOut { hash, bytes, nonce }))))
  }

  /// Records an accepted answer. The text of the question is deleted, and the files with its entry
  /// must be checked again; returns these, each with its workspace.
  pub fn answer_question(
    &mut self,
    hash: ContentHash,
    reading: &Reading,
    at: Micros,
  ) -> Result<Vec<(PathBuf, PathBuf)>, StoreError> {
    self.write(Durability::Seen, |tx, _| {
      let changed = tx
        .prepare_cached(
          "UPDATE question SET state = 'answered', sealed = NULL, nonce = NULL, ruling = ?2, effect = ?3,
             at = ?4, first_line = ?5, last_line = ?6
           WHERE hash = ?1 AND state = 'waiting'",
        )?
        .execute(params![
          hash.0,
          reading.ruling.as_str(),
          reading.effect.map(Effect::as_str),
          at,
          reading.lines.as_ref().map(|lines| *lines.start()),
          reading.lines.as_ref().map(|lines| *lines.end()),
        ])?;
      // A second answer changes nothing.
      if changed == 0 {
        return Ok(vec![]);
      }
      count(tx, at, "answered", 1)?;
      tx.prepare_cached(
        "UPDATE file SET pending = pending | ?2
         WHERE path IN (SELECT path FROM question_file WHERE hash = ?1)",
      )?
      .execute(params![hash.0, Pending::JUDGE.bits()])?;
      let found = tx
        .prepare_cached(
          "SELECT f.workspace, f.path FROM file f JOIN question_file q ON q.path = f.path
           WHERE q.hash = ?1 ORDER BY f.path",
        )?
        .query_map([hash.0], |row| Ok((column::path(row, 0)?, column::path(row, 1)?)))?
        .collect::<Result<_, _>>()?;
      tx.prepare_cached("DELETE FROM question_file WHERE hash = ?1")?.execute([hash.0])?;
      Ok(found)
    })
  }

  /// The stored facts about a question: its state, and its answer if there is one. Of the words that the
  /// answer quotes, only their place is stored.
  pub fn reading(
    &self,
    hash: ContentHash,
  ) -> Result<Option<(QuestionState, Option<Reading>)>, StoreError> {
    self.read(|conn| {
      let found = conn
        .prepare_cached(
          "SELECT state, ruling, effect, first_line, last_line FROM question WHERE hash = ?1",
        )?
        .query_row([hash.0], |row| {
          let ruling: Option<Ruling> = optional_word(row, 1)?;
          let effect = optional_word(row, 2)?;
          let (first, last): (Option<u32>, Option<u32>) = (row.get(3)?, row.get(4)?);
          let lines = first.zip(last).map(|(first, last)| first..=last);
          let reading =
            ruling.map(|ruling| Reading { ruling, effect, quote: String::new(), lines });
          Ok((word(row, 0)?, reading))
        })
        .optional()?;
      Ok(found)
    })
  }

  /// Drops the waiting questions, because the judge was switched off or restricted. With `again`
  /// their files are checked once more, so that allowed questions are stored again.
  pub fn drop_questions(&mut self, again: bool) -> Result<(), StoreError> {
    if self.read(|conn| Ok(next_at(conn)?))?.is_none() {
      return Ok(());
    }
    self.write(Durability::Seen, |tx, _| {
      let due = if again { Pending::JUDGE } else { Pending::NONE };
      tx.execute(
        "UPDATE file SET pending = pending | ?1 WHERE path IN (SELECT path FROM question_file)",
        [due.bits()],
      )?;
      tx.execute("DELETE FROM question WHERE state = 'waiting'", [])?;
      Ok(())
    })
  }

  /// The figures of the judge.
  pub fn question_counts(&self, at: Micros) -> Result<QuestionCounts, StoreError> {
    self.read(|conn| {
      let waiting: i64 =
        conn.query_row("SELECT count(*) FROM question WHERE state = 'waiting'", [], |row| {
          row.get(0)
        })?;
      let hour = at.div_euclid(HOUR);
      let day = hour - hour.rem_euclid(24);
      let mut counts = conn
        .prepare_cached(
          "SELECT coalesce(sum(asked) FILTER (WHERE hour = ?1), 0), coalesce(sum(asked), 0),
             coalesce(sum(answered), 0), coalesce(sum(failed), 0), coalesce(sum(refused), 0)
           FROM question_hour WHERE hour BETWEEN ?2 AND ?1",
        )?
        .query_row(params![hour, day], |row| {
          let number = |index| row.get::<_, i64>(index).map(|n| n.max(0) as u64);
          Ok(QuestionCounts {
            waiting: 0,
            asked_hour: number(0)?,
            asked_day: number(1)?,
            answered_day: number(2)?,
            failed_day: number(3)?,
            refused_day: number(4)?,
          })
        })?;
      counts.waiting = waiting.max(0) as u64;
      Ok(counts)
    })
  }

  /// Files to check for questions to a judge, each with its workspace.
  pub fn judging_due(&self) -> Result<Vec<(PathBuf, PathBuf)>, StoreError> {
    self.read(|conn| {
      let mut statement = conn.prepare_cached(
        "SELECT workspace, path FROM file WHERE pending & ?1 <> 0 AND status = 'watched' ORDER BY path",
      )?;
      let rows = statement.query_map([Pending::JUDGE.bits()], |row| {
        Ok((column::path(row, 0)?, column::path(row, 1)?))
      })?;
      Ok(rows.collect::<Result<_, _>>()?)
    })
  }
}

fn context(id: &str, hash: ContentHash) -> SealContext<'_> {
  // Without a path, because several files may share a question.
  SealContext { purpose: Purpose::Question, id, path: b"", hash }
}

/// When the first waiting question may be handed out.
fn next_at(conn: &Connection) -> rusqlite::Result<Option<Micros>> {
  let sql = "SELECT min(next_at) FROM question WHERE state = 'waiting'";
  conn.prepare_cached(sql)?.query_row([], |row| row.get(0))
}

/// When the budget allows the next question; `None` if it does now.
fn spent_until(conn: &Connection, budget: Budget, at: Micros) -> rusqlite::Result<Option<Micros>> {
  let hour = at.div_euclid(HOUR);
  let day = hour - hour.rem_euclid(24);
  let asked = |from: i64| -> rusqlite::Result<i64> {
    let sql = "SELECT coalesce(sum(asked), 0) FROM question_hour WHERE hour BETWEEN ?1 AND ?2";
    conn.prepare_cached(sql)?.query_row([from, hour], |row| row.get(0))
  };
  let is_spent = |asked: i64, most: u64| asked.max(0) as u64 >= most;
  Ok(if is_spent(asked(day)?, budget.per_day) {
    Some((day + 24).saturating_mul(HOUR))
  } else if is_spent(asked(hour)?, budget.per_hour) {
    Some((hour + 1).saturating_mul(HOUR))
  } else {
    None
  })
}

/// Adds to a figure of this hour, and deletes hours that are no longer needed.
pub(super) fn count(
  conn: &Connection,
  at: Micros,
  figure: &'static str,
  n: usize,
) -> rusqlite::Result<()> {
  let hour = at.div_euclid(HOUR);
  conn
    .prepare_cached(
      "INSERT OR IGNORE INTO question_hour (hour, asked, answered, failed, refused) VALUES (?1, 0, 0, 0, 0)",
    )?
    .execute([hour])?;
  let sql = format!("UPDATE question_hour SET {figure} = {figure} + ?2 WHERE hour = ?1");
  conn.prepare_cached(&sql)?.execute(params![hour, n as i64])?;
  // Including hours in the future, from before a clock was set back.
  conn
    .prepare_cached("DELETE FROM question_hour WHERE hour NOT BETWEEN ?1 - ?2 AND ?1")?
    .execute([hour, MAX_HOURS])?;
  Ok(())
}

/// Gives up questions that have waited for too long.
fn expire(conn: &Connection, at: Micros) -> Result<(), Fault> {
  give_up(conn, "at < ?1", &[&at.saturating_sub(WAITS_FOR)])
}

pub(super) fn give_up(
  conn: &Connection,
  which: &str,
  values: &[&dyn rusqlite::ToSql],
) -> Result<(), Fault> {
  let sql = format!(
    "UPDATE question SET state = 'failed', sealed = NULL, nonce = NULL WHERE state = 'waiting' AND ({which})"
  );
  conn.prepare_cached(&sql)?.execute(values)?;
  conn
    .prepare_cached(
      "DELETE FROM question_file WHERE hash IN (SELECT hash FROM question WHERE state = 'failed')",
    )?
    .execute([])?;
  Ok(())
}

/// Answers that are no longer used and older than this, or beyond the cap.
const OLD: &str =
  "SELECT hash FROM question WHERE state <> 'waiting' AND (at < ?1 OR at < coalesce(
  (SELECT at FROM question ORDER BY at DESC LIMIT 1 OFFSET ?2), at))";

/// Deletes at most `limit` answers from before `since`, or beyond the cap; returns how many.
pub(super) fn sweep(conn: &Connection, since: Micros, limit: i64) -> rusqlite::Result<u64> {
  let sql = format!("DELETE FROM question WHERE hash IN ({OLD} LIMIT ?3)");
  Ok(conn.prepare_cached(&sql)?.execute(params![since, MAX_KEPT, limit])? as u64)
}

/// Whether [`sweep`] would find something.
pub(super) fn has_old(conn: &Connection, since: Micros) -> rusqlite::Result<bool> {
  conn.prepare_cached(&format!("{OLD} LIMIT 1"))?.exists(params![since, MAX_KEPT])
}
