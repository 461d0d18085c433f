//! Completes the hashes of lines that an older version recorded with 8 bytes.
#![forbid(unsafe_code)]

use std::collections::HashMap;

use rusqlite::params;

use super::{
  BlockRow, Durability, Ledger, StoreError, baseline,
  block::present,
  block_row::{HASH_LEN, join_lines},
};
use crate::memory::LineHash;

impl BlockRow {
  /// Whether an older version has recorded one of its lines.
  pub fn has_short_hashes(&self) -> bool {
    self.lines.iter().any(|line| line.hash.is_short())
  }

  /// Completes short hashes by those of lines, by their first bytes.
  pub fn complete_hashes(&mut self, whole: &HashMap<[u8; LineHash::SHORT], LineHash>) {
    for line in self.lines.iter_mut().filter(|line| line.hash.is_short()) {
      line.hash = whole.get(&line.hash.short()).copied().unwrap_or(line.hash);
    }
  }
}

impl Ledger {
  /// Whether an older version has recorded lines of the current blocks of a file.
  pub fn has_short_hashes(&self, file: i64) -> Result<bool, StoreError> {
    self.read(|conn| {
      let sql =
        "SELECT EXISTS (SELECT 1 FROM block WHERE file = ?1 AND present = 1 AND line_hash < ?2)
                   OR EXISTS (SELECT 1 FROM baseline WHERE file = ?1 AND line_hash < ?2)";
      Ok(conn.prepare_cached(sql)?.query_row(params![file, HASH_LEN], |row| row.get(0))?)
    })
  }

  /// Completes the hashes of the current blocks of a file by those of its lines. A line that is not among them is not
  /// known any more.
  pub fn complete_hashes(
    &mut self,
    file: i64,
    whole: &HashMap<[u8; LineHash::SHORT], LineHash>,
  ) -> Result<(), StoreError> {
    self.write(Durability::Seen, |tx, _| {
      for mut stored in present(tx, file)? {
        stored.row.complete_hashes(whole);
        tx.prepare_cached("UPDATE block SET lines = ?2, line_hash = ?3 WHERE key = ?1")?
          .execute(params![stored.key, join_lines(&stored.row.lines), HASH_LEN])?;
      }
      baseline::rewrite(tx, file, |row| row.complete_hashes(whole))
    })
  }
}

#[cfg(test)]
impl Ledger {
  /// Leaves the ledger as an older version did: with short hashes, and no stamps after the migration.
  pub(crate) fn shorten_hashes(&mut self) {
    let shortened = |blob: &[u8], n_rest: usize| -> Vec<u8> {
      let lines = blob.chunks(LineHash::LEN + n_rest);
      lines.flat_map(|one| [&one[..LineHash::SHORT], &one[LineHash::LEN..]].concat()).collect()
    };
    let done = self.write(Durability::Seen, |tx, _| {
      let files: Vec<i64> = tx
        .prepare("SELECT id FROM file")?
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
      for file in files {
        for stored in present(tx, file)? {
          tx.prepare("UPDATE block SET lines = ?2, line_hash = 8 WHERE key = ?1")?
            .execute(params![stored.key, shortened(&join_lines(&stored.row.lines), 8)])?;
        }
        let mut blobs = tx.prepare("SELECT blocks FROM baseline WHERE file = ?1")?;
        let blob: Option<Vec<u8>> =
          blobs.query_map([file], |row| row.get(0))?.next().transpose()?;
        let (mut rest, mut old) = (&blob.unwrap_or_default()[..], Vec::new());
        while !rest.is_empty() {
          let (head, lines) = rest.split_at(6 + 16 + 64);
          let n = u32::from_be_bytes(head[18..22].try_into().unwrap()) as usize;
          let (lines, left) = lines.split_at(n * LineHash::LEN);
          old.extend([head.to_vec(), shortened(lines, 0)].concat());
          rest = left;
        }
        tx.prepare("UPDATE baseline SET blocks = ?2, line_hash = 8 WHERE file = ?1")?
          .execute(params![file, old])?;
      }
      tx.execute(
        "UPDATE file SET dev = NULL, ino = NULL, size = NULL, mtime_ns = NULL, ctime_ns = NULL",
        [],
      )?;
      Ok(())
    });
    done.unwrap();
  }
}
