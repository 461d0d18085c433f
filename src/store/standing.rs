//! How the agent's records stood to a file when it was looked at last: what has to be known to let its
//! class go back after an edit of ours, and only then.
#![forbid(unsafe_code)]

use std::path::Path;

use rusqlite::{OptionalExtension as _, params};

use super::{Durability, Ledger, Micros, StoreError, column, column::path_bytes};
use crate::memory::ContentHash;

/// The note about one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Noted {
  /// What the file held.
  pub version: ContentHash,
  /// The hash on record; `None` for no record.
  pub recorded: Option<ContentHash>,
  /// The class on record, in the agent's own word.
  pub class: Option<String>,
  /// When an edit of ours made this version; `None` where somebody else had written it.
  pub edited_at: Option<Micros>,
  /// What cost the file its class, while there is a class to go back to.
  pub fall: Option<Fall>,
}

/// A write that cost a file its class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fall {
  /// The version that it left.
  pub version: ContentHash,
  /// The class before it.
  pub former: String,
}

impl Noted {
  /// Whether the record was about the very bytes that the file held.
  pub fn is_about_file(&self) -> bool {
    self.recorded == Some(self.version)
  }
}

impl Ledger {
  /// The note about a file.
  pub fn noted(&self, path: &Path) -> Result<Option<Noted>, StoreError> {
    self.read(|conn| {
      let sql = "SELECT s.version, s.recorded, s.class, s.edited_at, s.fallen, s.former
                 FROM standing s JOIN file f ON f.id = s.file WHERE f.path = ?1";
      let found = conn
        .prepare_cached(sql)?
        .query_row([path_bytes(path)], |row| {
          let fallen = column::optional_hash(row, 4)?;
          let former: Option<String> = row.get(5)?;
          Ok(Noted {
            version: column::hash(row, 0)?,
            recorded: column::optional_hash(row, 1)?,
            class: row.get(2)?,
            edited_at: row.get(3)?,
            fall: fallen.zip(former).map(|(version, former)| Fall { version, former }),
          })
        })
        .optional()?;
      Ok(found)
    })
  }

  /// Takes the place of the note about a file; nothing for a file that is not known.
  pub fn note(&mut self, path: &Path, noted: &Noted) -> Result<(), StoreError> {
    let fall = noted.fall.as_ref();
    self.write(Durability::Seen, |tx, _| {
      tx.prepare_cached(
        "INSERT OR REPLACE INTO standing (file, version, recorded, class, edited_at, fallen, former)
         SELECT id, ?2, ?3, ?4, ?5, ?6, ?7 FROM file WHERE path = ?1",
      )?
      .execute(params![
        path_bytes(path),
        noted.version.0,
        noted.recorded.map(|hash| hash.0),
        noted.class,
        noted.edited_at,
        fall.map(|fall| fall.version.0),
        fall.map(|fall| fall.former.as_str()),
      ])?;
      Ok(())
    })
  }
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
    let bare = Noted { version, recorded: None, class: None, edited_at: None, fall: None };
    ledger.note(path, &bare).unwrap();
    assert_eq!(ledger.noted(path).unwrap(), None, "no such file");
    ledger.record(&scan("/w/a.md", &[], 1)).unwrap();
    ledger.note(path, &bare).unwrap();
    assert_eq!(ledger.noted(path).unwrap(), Some(bare.clone()));
    let full = Noted {
      recorded: Some(version),
      class: Some("untrusted".into()),
      edited_at: Some(7),
      fall: Some(Fall { version: ContentHash::of(b"b"), former: "agent".into() }),
      ..bare
    };
    ledger.note(path, &full).unwrap();
    assert!(full.is_about_file());
    assert_eq!(ledger.noted(path).unwrap(), Some(full));
  }
}
