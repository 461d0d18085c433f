//! State other than files and items that must survive a restart: one JSON text per key.
#![forbid(unsafe_code)]

use std::{convert::Infallible, fmt, str::FromStr};

use rusqlite::OptionalExtension as _;

use super::{Durability, Ledger, Micros, Part, StoreError};

/// A key of the table `state`. Paths are in the form in which memfw shows them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum StateKey {
  /// The daemon's report about itself.
  Daemon,
  /// How long poison could be read.
  Exposure,
  /// The report of the gate.
  Gate,
  /// The last event about which the owner was notified.
  Notified,
  /// Up to where the owner was told in a chat.
  ToldInChat,
  /// The form of the markers in all files.
  MarkerForm,
  /// The ledger is newer than its key.
  LostLedger,
  /// Since when layer 3 is asked.
  JudgedSince,
  /// The model that scored the texts.
  Model,
  /// The sources about which layer 3 is not asked.
  JudgeExcluded,
  /// The baseline of this workspace was adopted.
  Adopted(String),
  /// The baseline of this workspace is being adopted.
  Adopting(String),
  /// This workspace is no longer guarded, and no person has confirmed that.
  Left(String),
  /// Markers are not wanted in any file.
  Unmarked,
  /// Whether markers are not wanted in this file.
  UnmarkedFile(String),
  /// Protection is reduced, with the part that it concerns.
  Degraded(Part),
  /// A key that this version does not know.
  Unknown(String),
}

/// The keys without a subject, with their words.
const PLAIN: [(StateKey, &str); 11] = [
  (StateKey::Daemon, "daemon"),
  (StateKey::Exposure, "exposure"),
  (StateKey::Gate, "gate"),
  (StateKey::Notified, "notified"),
  (StateKey::ToldInChat, "told-in-chat"),
  (StateKey::MarkerForm, "markers"),
  (StateKey::LostLedger, "lost-ledger"),
  (StateKey::Model, "model"),
  (StateKey::JudgedSince, "judged-since"),
  (StateKey::JudgeExcluded, "judge-excluded"),
  (StateKey::Unmarked, "unmarked"),
];

/// A constructor of keys with a subject.
type WithSubject = fn(String) -> StateKey;

/// The keys with a subject, with their words.
const WITH_SUBJECT: [(WithSubject, &str); 5] = [
  (StateKey::Adopted, "adopted"),
  (StateKey::Adopting, "adopting"),
  (StateKey::Left, "left"),
  (StateKey::UnmarkedFile, "unmarked"),
  (|part| StateKey::Degraded(Part::read(&part)), "degraded"),
];

impl StateKey {
  /// The key for a reduction of protection.
  pub fn degraded(part: impl Into<Part>) -> Self {
    Self::Degraded(part.into())
  }
}

impl fmt::Display for StateKey {
  fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (word, subject) = match self {
      Self::Adopted(subject) => ("adopted", subject),
      Self::Adopting(subject) => ("adopting", subject),
      Self::Left(subject) => ("left", subject),
      Self::UnmarkedFile(subject) => ("unmarked", subject),
      Self::Degraded(part) => return write!(f, "degraded:{part}"),
      Self::Unknown(key) => return f.write_str(key),
      plain => {
        let word = PLAIN.iter().find(|(key, _)| key == plain).map(|(_, word)| *word);
        return f.write_str(word.unwrap_or_default());
      }
    };
    write!(f, "{word}:{subject}")
  }
}

impl FromStr for StateKey {
  type Err = Infallible;

  fn from_str(text: &str) -> Result<Self, Infallible> {
    if let Some((key, _)) = PLAIN.iter().find(|(_, word)| *word == text) {
      return Ok(key.clone());
    }
    let key = text.split_once(':').and_then(|(word, subject)| {
      let (make, _) = WITH_SUBJECT.iter().find(|(_, known)| *known == word)?;
      Some(make(subject.to_owned()))
    });
    Ok(key.unwrap_or_else(|| Self::Unknown(text.to_owned())))
  }
}

impl Ledger {
  /// Stores the newest value of a key.
  pub fn set_state(&mut self, key: &StateKey, json: &str, at: Micros) -> Result<(), StoreError> {
    self.write(Durability::Seen, |tx, _| {
      tx.prepare_cached(
        "INSERT INTO state (key, json, at) VALUES (?1, ?2, ?3)
         ON CONFLICT (key) DO UPDATE SET json = ?2, at = ?3",
      )?
      .execute((key.to_string(), json, at))?;
      Ok(())
    })
  }

  /// The newest value of a key, and its time.
  pub fn state(&self, key: &StateKey) -> Result<Option<(String, Micros)>, StoreError> {
    self.read(|conn| {
      let found = conn
        .prepare_cached("SELECT json, at FROM state WHERE key = ?1")?
        .query_row([key.to_string()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
      Ok(found)
    })
  }

  /// Removes a key.
  pub fn remove_state(&mut self, key: &StateKey) -> Result<(), StoreError> {
    self.write(Durability::Seen, |tx, _| {
      tx.prepare_cached("DELETE FROM state WHERE key = ?1")?.execute([key.to_string()])?;
      Ok(())
    })
  }

  /// All keys with their newest values and times, in the order of their words.
  pub fn states(&self) -> Result<Vec<(StateKey, String, Micros)>, StoreError> {
    self.read(|conn| {
      let mut statement = conn.prepare_cached("SELECT key, json, at FROM state ORDER BY key")?;
      let rows = statement.query_map([], |row| {
        let key: String = row.get(0)?;
        let Ok(key) = key.parse();
        Ok((key, row.get(1)?, row.get(2)?))
      })?;
      Ok(rows.collect::<Result<_, _>>()?)
    })
  }
}

#[cfg(test)]
mod tests {
  use super::*;
  use crate::store::tests::Home;

  #[test]
  fn the_newest_value_counts() {
    let mut ledger = Home::new().ledger();
    assert_eq!(ledger.state(&StateKey::Daemon).unwrap(), None);
    ledger.set_state(&StateKey::Daemon, "{}", 1).unwrap();
    ledger.set_state(&StateKey::Daemon, r#"{"done":true}"#, 2).unwrap();
    let adopted = StateKey::Adopted("/w".into());
    ledger.set_state(&adopted, "1", 3).unwrap();
    assert_eq!(ledger.state(&StateKey::Daemon).unwrap(), Some((r#"{"done":true}"#.into(), 2)));
    let keys: Vec<StateKey> = ledger.states().unwrap().into_iter().map(|(key, ..)| key).collect();
    assert_eq!(keys, [adopted.clone(), StateKey::Daemon]);
    ledger.remove_state(&adopted).unwrap();
    assert_eq!(ledger.states().unwrap().len(), 1);
  }

  #[test]
  fn each_key_comes_back_from_its_text() {
    let subjects = WITH_SUBJECT.iter().map(|(make, _)| make("file:/w/a:b".into()));
    let plain = PLAIN.iter().map(|(key, _)| key.clone());
    for key in plain.chain(subjects).chain([StateKey::Unknown("later".into())]) {
      let text = key.to_string();
      assert!(!text.is_empty());
      assert_eq!(text.parse(), Ok(key));
    }
    for ((make, word), subject) in WITH_SUBJECT.iter().zip(["a", "b", "c", "d", "e"]) {
      assert_eq!(make(subject.into()).to_string(), format!("{word}:{subject}"));
    }
  }
}
