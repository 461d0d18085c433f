//! Which lines of memory were handed to which run of an agent: hashes and names, never text.
//!
//! Lines are known by their hash, not by their entry: an entry that is taken out later may be cut in another
//! way, and gets an id of its own.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, HashSet};

use rusqlite::{Connection, params};

use super::{Durability, Ledger, Micros, NewEvent, StoreError, event};
use crate::memory::ContentHash;

/// Largest number of kept rows; the oldest are deleted first (a choice: months of a busy agent).
const MAX_KEPT: i64 = 20_000;

/// Text that a run got.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Injection {
  /// The run, as the agent names it.
  pub run: String,
  /// The session.
  pub session: String,
  /// The agent.
  pub agent: String,
  /// How it got the text: `start`, or the name of a tool.
  pub via: String,
  /// The hashes of the lines.
  pub lines: Vec<[u8; 8]>,
}

/// A session whose runs got a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadBy {
  /// The session.
  pub session: String,
  /// The agent.
  pub agent: String,
  /// How many runs.
  pub runs: usize,
  /// When one of them got it first.
  pub first: Micros,
  /// When one of them got it last.
  pub last: Micros,
}

impl Ledger {
  /// Adds what a run got, with the event.
  pub fn add_injection(
    &mut self,
    one: &Injection,
    event: &NewEvent,
    at: Micros,
  ) -> Result<(), StoreError> {
    let mut lines = one.lines.clone();
    lines.sort_unstable();
    lines.dedup();
    let lines = lines.concat();
    let hash = ContentHash::of(&lines);
    self.write(Durability::Seen, |tx, _| {
      tx.prepare_cached("INSERT OR IGNORE INTO injected_set (hash, lines) VALUES (?1, ?2)")?
        .execute(params![hash.0, lines])?;
      tx.prepare_cached(
        "INSERT INTO injected (at, run, session, agent, via, lines)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
      )?
      .execute(params![at, one.run, one.session, one.agent, one.via, hash.0])?;
      tx.prepare_cached("DELETE FROM injected WHERE id <= (SELECT max(id) FROM injected) - ?1")?
        .execute([MAX_KEPT])?;
      event::append(tx, std::slice::from_ref(event), at)
    })
  }

  /// The sessions whose runs got any of these lines, the one that got them first before others.
  pub fn read_by(&self, lines: &[[u8; 8]]) -> Result<Vec<ReadBy>, StoreError> {
    self.read(|conn| {
      let mut sets = conn.prepare_cached("SELECT hash, lines FROM injected_set")?;
      let mut rows = sets.query([])?;
      let mut found: Vec<Vec<u8>> = Vec::new();
      while let Some(row) = rows.next()? {
        let set = row.get_ref(1)?.as_blob().unwrap_or_default();
        let (set, _) = set.as_chunks::<8>();
        if lines.iter().any(|line| set.binary_search(line).is_ok()) {
          found.push(row.get(0)?);
        }
      }
      let mut by: BTreeMap<(String, String), (HashSet<String>, Micros, Micros)> = BTreeMap::new();
      let mut runs =
        conn.prepare_cached("SELECT session, agent, run, at FROM injected WHERE lines = ?1")?;
      for hash in found {
        let mut rows = runs.query([hash])?;
        while let Some(row) = rows.next()? {
          let at: Micros = row.get(3)?;
          let seen = by.entry((row.get(0)?, row.get(1)?)).or_insert((HashSet::new(), at, at));
          seen.0.insert(row.get(2)?);
          (seen.1, seen.2) = (seen.1.min(at), seen.2.max(at));
        }
      }
      let session =
        |((session, agent), (runs, first, last)): ((String, String), (HashSet<_>, _, _))| ReadBy {
          session,
          agent,
          runs: runs.len(),
          first,
          last,
        };
      let mut sessions: Vec<ReadBy> = by.into_iter().map(session).collect();
      sessions.sort_by_key(|one| one.first);
      Ok(sessions)
    })
  }
}

/// Deletes some of what is older than a time, and sets that no row names any more; returns how many rows.
pub(super) fn sweep(conn: &Connection, before: Micros, limit: i64) -> rusqlite::Result<u64> {
  let gone = conn.execute(
    "DELETE FROM injected WHERE id IN (SELECT id FROM injected WHERE at < ?1 ORDER BY at LIMIT ?2)",
    params![before, limit],
  )? as u64;
  let unused = "SELECT hash FROM injected_set s
                WHERE NOT EXISTS (SELECT 1 FROM injected i WHERE i.lines = s.hash) LIMIT ?1";
  conn.execute(&format!("DELETE FROM injected_set WHERE hash IN ({unused})"), [limit])?;
  Ok(gone)
}

/// Whether there is something to sweep.
pub(super) fn has_old(conn: &Connection, before: Micros) -> rusqlite::Result<bool> {
  let sql = "SELECT EXISTS (SELECT 1 FROM injected WHERE at < ?1)";
  conn.prepare_cached(sql)?.query_row([before], |row| row.get(0))
}

#[cfg(test)]
mod tests {
  use super::*;
  use crate::store::{EventFilter, EventKind, Keep, tests::Home};

  fn line(n: u8) -> [u8; 8] {
    [n; 8]
  }

  fn injection(run: &str, session: &str, lines: &[u8]) -> Injection {
    Injection {
      run: run.to_owned(),
      session: session.to_owned(),
      agent: "main".to_owned(),
      via: "start".to_owned(),
      lines: lines.iter().copied().map(line).collect(),
    }
  }

  #[test]
  fn a_line_names_the_sessions_that_read_it() {
    let mut ledger = Home::new().ledger();
    let event = NewEvent::new(EventKind::Injected);
    for (at, one) in [
      (10, injection("r1", "one", &[3, 1, 1])),
      (20, injection("r2", "one", &[1, 3])),
      (30, injection("r2", "one", &[9])),
      (40, injection("r3", "two", &[1, 2])),
    ] {
      ledger.add_injection(&one, &event, at).unwrap();
    }
    let by = |n: u8| -> Vec<(String, usize, i64, i64)> {
      let found = ledger.read_by(&[line(n), line(200)]).unwrap();
      found.into_iter().map(|one| (one.session, one.runs, one.first, one.last)).collect()
    };
    assert_eq!(by(3), [("one".to_owned(), 2, 10, 20)]);
    assert_eq!(by(1), [("one".to_owned(), 2, 10, 20), ("two".to_owned(), 1, 40, 40)]);
    assert_eq!(by(9), [("one".to_owned(), 1, 30, 30)]);
    assert_eq!(by(7), []);
    let sets = |ledger: &Ledger| {
      ledger.read(|conn| {
        Ok(conn.query_row("SELECT count(*) FROM injected_set", [], |row| row.get::<_, i64>(0))?)
      })
    };
    assert_eq!(sets(&ledger).unwrap(), 3, "equal sets are stored once");
    assert_eq!(ledger.events(&EventFilter::default()).unwrap().len(), 4);
    // What is old goes, with the sets that nothing names any more.
    let keep = Keep { events_since: 35, events: 100, routine: &[], rejected_since: 0 };
    ledger.retain(&keep).unwrap();
    assert_eq!(sets(&ledger).unwrap(), 1);
    assert_eq!(ledger.read_by(&[line(1)]).unwrap().len(), 1);
  }
}
