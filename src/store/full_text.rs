//! Ranks texts by their words, with SQLite's FTS5 in memory: nothing is stored.
#![forbid(unsafe_code)]

use std::path::Path;

use rusqlite::{Connection, params};

use super::{StoreError, error::Fault};

/// A text that matches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ranked {
  /// Its position among the texts.
  pub position: usize,
  /// How well it matches, by BM25; a smaller number is a better match.
  pub score: f64,
}

/// The at most `n` texts that best match an expression of FTS5, the best first, equal ones in their order.
/// The caller limits the texts, and quotes each word of the expression.
pub fn rank<'t>(
  texts: impl IntoIterator<Item = &'t str>,
  expression: &str,
  n: usize,
) -> Result<Vec<Ranked>, StoreError> {
  ranked(texts, expression, n).map_err(|fault| fault.at(Path::new(":memory:")))
}

fn ranked<'t>(
  texts: impl IntoIterator<Item = &'t str>,
  expression: &str,
  n: usize,
) -> Result<Vec<Ranked>, Fault> {
  let conn = Connection::open_in_memory()?;
  // Without its content, the index is the only copy.
  conn.execute_batch(
    "CREATE VIRTUAL TABLE entry
     USING fts5(text, content = '', tokenize = 'porter unicode61 remove_diacritics 2');
     BEGIN",
  )?;
  let mut insert = conn.prepare("INSERT INTO entry (rowid, text) VALUES (?1, ?2)")?;
  for (position, text) in texts.into_iter().enumerate() {
    insert.execute(params![position as i64, text])?;
  }
  drop(insert);
  conn.execute_batch("COMMIT")?;
  let mut statement = conn.prepare(
    "SELECT rowid, bm25(entry) AS score FROM entry WHERE entry MATCH ?1 ORDER BY score, rowid LIMIT ?2",
  )?;
  let limit = i64::try_from(n).unwrap_or(i64::MAX);
  let rows = statement.query_map(params![expression, limit], |row| {
    Ok(Ranked { position: row.get::<_, i64>(0)? as usize, score: row.get(1)? })
  })?;
  Ok(rows.collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
  use super::*;

  fn found(expression: &str, n: usize) -> Vec<usize> {
    let texts = [
      "The dentist is on Monday.",
      "Flights to Lisbon.",
      "flight flight flight",
      "Zürich 東  京  都",
    ];
    let ranked = rank(texts, expression, n).unwrap();
    ranked.iter().map(|one| one.position).collect()
  }

  #[test]
  fn the_best_match_comes_first() {
    assert_eq!(found("\"flight\"", 9), [2, 1]);
    assert_eq!(found("\"flight\"", 1), [2]);
    assert_eq!(found("\"dentists\" OR \"zurich\"", 9), [3, 0], "the shorter text first");
    assert_eq!(found("\"東 京\"", 9), [3]);
    assert_eq!(found("\"nothing\"", 9), [0; 0]);
  }

  #[test]
  fn equal_matches_keep_their_order() {
    let ranked = rank(["a note", "a note", "a note"], "\"note\"", 9).unwrap();
    assert_eq!(ranked.iter().map(|one| one.position).collect::<Vec<_>>(), [0, 1, 2]);
  }
}
