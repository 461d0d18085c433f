//! The order of questions: files take turns, and within a file its sources, so that a flood of
//! entries takes neither time nor space from others.
#![forbid(unsafe_code)]

use rusqlite::Connection;

/// The waiting questions, each with its turn among those of its file, in which the sources take
/// turns; of two sources the one with the smaller `tie` comes first.
pub(super) fn turns(tie: &'static str) -> String {
  format!(
    "SELECT hash, since, row_number() OVER (PARTITION BY path ORDER BY of_source, {tie}, hash) AS turn FROM (
       SELECT q.hash, q.at AS since, f.path,
         row_number() OVER (PARTITION BY f.path, q.source ORDER BY q.at, q.hash) AS of_source
       FROM question q LEFT JOIN question_file f ON f.hash = q.hash WHERE q.state = 'waiting')"
  )
}

/// Drops the last turns beyond the capacity of the queue; returns how many.
pub(super) fn refuse(conn: &Connection, most: i64) -> rusqlite::Result<usize> {
  let n_waiting: i64 = conn
    .prepare_cached("SELECT count(*) FROM question WHERE state = 'waiting'")?
    .query_row([], |row| row.get(0))?;
  if n_waiting <= most {
    return Ok(0);
  }
  let sql = format!(
    "DELETE FROM question WHERE hash IN (SELECT hash FROM ({}) GROUP BY hash
       ORDER BY min(turn), min(since), hash LIMIT -1 OFFSET ?1)",
    turns("since")
  );
  conn.prepare_cached(&sql)?.execute([most])
}
