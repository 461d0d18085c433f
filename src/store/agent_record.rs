//! The agent's record of a file when memfw last read it: what memfw must know to restore the class
//! after its own edit, and only then.
#![forbid(unsafe_code)]

use std::path::Path;

use rusqlite::{OptionalExtension as _, Row, params};

use super::{Durability, FileRow, Ledger, Micros, StoreError, column, column::path_bytes};
use crate::memory::ContentHash;

/// The stored record of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentRecord {
  /// The hash of the file.
  pub version: ContentHash,
  /// The last version that another program had written; memfw's edits led from it to this one.
  pub base: ContentHash,
  /// The hash on record; `None` for no record.
  pub recorded: Option<ContentHash>,
  /// The class on record, in the agent's own word.
  pub class: Option<String>,
  /// When memfw's last edit made this version; `None` if another program had written it.
  pub edited_at: Option<Micros>,
  /// The write that cost the file its class, while there is a class to restore.
  pub downgrade: Option<ClassDowngrade>,
}

/// A write that cost a file its class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassDowngrade {
  /// The version that it made.
  pub version: ContentHash,
  /// The class before it.
  pub former: String,
  /// Whether an edit of memfw came directly before it.
  pub after_edit: bool,
  /// Whether it only added text.
  pub only_adds: bool,
  /// Versions by other programs since the last version that had its class, including this one, of
  /// which the records have not shown yet that the agent's own tools wrote them.
  pub unproven: Vec<ContentHash>,
  /// Hashes of lines that left the file in these versions, of which the records have not shown yet
  /// that the agent's own tools removed them.
  pub gone: Vec<[u8; 8]>,
}

impl AgentRecord {
  /// A class downgrade that further writes may belong to.
  pub fn open_downgrade(&self) -> Option<ClassDowngrade> {
    self.downgrade.clone().filter(|downgrade| downgrade.after_edit || self.is_behind())
  }

  /// Whether there was a record, but for other bytes than those of the file.
  pub fn is_behind(&self) -> bool {
    self.recorded.is_some_and(|recorded| recorded != self.version)
  }

  /// Whether the record was about exactly the bytes of the file.
  pub fn is_about_file(&self) -> bool {
    self.recorded == Some(self.version)
  }
}

impl Ledger {
  /// The stored record of a file.
  pub fn agent_record(&self, path: &Path) -> Result<Option<AgentRecord>, StoreError> {
    self.read(|conn| {
      let sql = "SELECT s.version, s.base, s.recorded, s.class, s.edited_at, s.fallen, s.former, s.after_edit,
                   s.only_adds, s.unproven, s.gone
                 FROM standing s JOIN file f ON f.id = s.file WHERE f.path = ?1";
      let found = conn
        .prepare_cached(sql)?
        .query_row([path_bytes(path)], |row| {
          let fallen = column::optional_hash(row, 5)?;
          let former: Option<String> = row.get(6)?;
          let downgrade = fallen.zip(former).map(|(version, former)| downgrade(row, version, former));
          Ok(AgentRecord {
            version: column::hash(row, 0)?,
            base: column::hash(row, 1)?,
            recorded: column::optional_hash(row, 2)?,
            class: row.get(3)?,
            edited_at: row.get(4)?,
            downgrade: downgrade.transpose()?,
          })
        })
        .optional()?;
      Ok(found)
    })
  }

  /// Files with their stored records, by path.
  pub fn agent_records(&self) -> Result<Vec<(FileRow, AgentRecord)>, StoreError> {
    let view = self.snapshot()?;
    let mut all = Vec::new();
    for file in view.files()? {
      if let Some(record) = view.agent_record(&file.path)? {
        all.push((file, record));
      }
    }
    Ok(all)
  }

  /// Whether something that was first seen in this version of a file was taken out of it.
  pub fn was_taken_from(&self, path: &Path, version: ContentHash) -> Result<bool, StoreError> {
    self.read(|conn| {
      let sql = "SELECT 1 FROM quarantine WHERE path = ?1 AND version = ?2";
      Ok(conn.prepare_cached(sql)?.exists(params![path_bytes(path), version.0])?)
    })
  }

  /// Replaces the stored record of a file; does nothing for an unknown file.
  pub fn set_agent_record(&mut self, path: &Path, record: &AgentRecord) -> Result<(), StoreError> {
    let downgrade = record.downgrade.as_ref();
    self.write(Durability::Seen, |tx, _| {
      tx.prepare_cached(
        "INSERT OR REPLACE INTO standing (file, version, base, recorded, class, edited_at, fallen,
           former, after_edit, only_adds, unproven, gone)
         SELECT id, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12 FROM file WHERE path = ?1",
      )?
      .execute(params![
        path_bytes(path),
        record.version.0,
        record.base.0,
        record.recorded.map(|hash| hash.0),
        record.class,
        record.edited_at,
        downgrade.map(|downgrade| downgrade.version.0),
        downgrade.map(|downgrade| downgrade.former.as_str()),
        downgrade.map(|downgrade| downgrade.after_edit),
        downgrade.map(|downgrade| downgrade.only_adds),
        downgrade.map(|downgrade| downgrade
          .unproven
          .iter()
          .flat_map(|hash| hash.0)
          .collect::<Vec<u8>>()),
        downgrade.map(|downgrade| downgrade.gone.concat()),
      ])?;
      Ok(())
    })
  }
}

/// The remaining columns of a class downgrade.
fn downgrade(
  row: &Row<'_>,
  version: ContentHash,
  former: String,
) -> rusqlite::Result<ClassDowngrade> {
  let flag = |index| row.get::<_, Option<bool>>(index).map(Option::unwrap_or_default);
  let bytes = |index| row.get::<_, Option<Vec<u8>>>(index).map(Option::unwrap_or_default);
  Ok(ClassDowngrade {
    version,
    former,
    after_edit: flag(7)?,
    only_adds: flag(8)?,
    unproven: chunks(&bytes(9)?).map(ContentHash).collect(),
    gone: chunks(&bytes(10)?).collect(),
  })
}

/// The chunks of a column whose length the schema restricts to whole chunks.
fn chunks<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = [u8; N]> {
  bytes.chunks_exact(N).filter_map(|chunk| chunk.try_into().ok())
}

#[cfg(test)]
mod tests {
  use super::*;
  use crate::store::tests::{Home, scan};

  #[test]
  fn the_newest_note_about_a_file_comes_back() {
    let mut ledger = Home::new().ledger();
    let path = Path::new("/w/a.md");
    let version = ContentHash::of(b"a");
    let bare = AgentRecord {
      version,
      base: ContentHash::of(b"0"),
      recorded: None,
      class: None,
      edited_at: None,
      downgrade: None,
    };
    ledger.set_agent_record(path, &bare).unwrap();
    assert_eq!(ledger.agent_record(path).unwrap(), None, "no such file");
    ledger.record(&scan("/w/a.md", &[], 1)).unwrap();
    ledger.set_agent_record(path, &bare).unwrap();
    assert_eq!(ledger.agent_record(path).unwrap(), Some(bare.clone()));
    let full = AgentRecord {
      recorded: Some(version),
      class: Some("untrusted".into()),
      edited_at: Some(7),
      downgrade: Some(ClassDowngrade {
        version: ContentHash::of(b"b"),
        former: "agent".into(),
        after_edit: true,
        only_adds: false,
        unproven: vec![ContentHash::of(b"b"), ContentHash::of(b"c")],
        gone: vec![[1; 8], [2; 8], [3; 8]],
      }),
      ..bare
    };
    ledger.set_agent_record(path, &full).unwrap();
    assert!(full.is_about_file());
    assert_eq!(ledger.agent_record(path).unwrap(), Some(full));
  }
}
