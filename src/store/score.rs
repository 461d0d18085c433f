//! What layer 2 said about texts that it has read closely, by content: each text is read once.
#![forbid(unsafe_code)]

use std::path::PathBuf;

use rusqlite::{OptionalExtension as _, Row, params};

use super::{Durability, Ledger, Micros, Pending, StoreError, column};
use crate::{
  detect::model::{Assessment, Depth, Nearest, Probabilities},
  memory::ContentHash,
};

/// The word for the part of the model that reads closely.
const ENCODER: &str = "encoder";
/// The key under which stands which version of the model has scored what is here.
const MODEL: &str = "model";

impl Ledger {
  /// What this version of the model said about a text, if it has read it.
  pub fn score(&self, hash: ContentHash, model: &str) -> Result<Option<Assessment>, StoreError> {
    self.read(|conn| {
      let found = conn
        .prepare_cached(
          "SELECT injection, poison, start, stop, nearest, likeness FROM score
           WHERE hash = ?1 AND model = ?2",
        )?
        .query_row(params![hash.0, model], assessment)
        .optional()?;
      Ok(found)
    })
  }

  /// Writes down what a version of the model said about texts. What was looked at less closely is not
  /// worth a row.
  pub fn note_scores(
    &mut self,
    model: &str,
    scores: &[(ContentHash, Assessment)],
    at: Micros,
  ) -> Result<(), StoreError> {
    self.write(Durability::Seen, |tx, _| {
      let mut statement = tx.prepare_cached(
        "INSERT OR REPLACE INTO score
           (hash, layer, model, injection, poison, start, stop, nearest, likeness, at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
      )?;
      for (hash, found) in scores.iter().filter(|(_, found)| found.depth == Depth::Encoder) {
        let Assessment { probabilities, sentence, nearest, .. } = found;
        statement.execute(params![
          hash.0,
          ENCODER,
          model,
          f64::from(probabilities.injection),
          f64::from(probabilities.poison),
          sentence.as_ref().map(|span| span.start as i64),
          sentence.as_ref().map(|span| span.end as i64),
          nearest.as_ref().map(|nearest| &nearest.name),
          nearest.as_ref().map(|nearest| f64::from(nearest.likeness)),
          at,
        ])?;
      }
      Ok(())
    })
  }

  /// Takes note of the version of the model that scores from now on. What another one said is forgotten,
  /// and files with text from sources of little trust are to be read again; whether there was another.
  pub fn take_model(&mut self, model: &str, at: Micros) -> Result<bool, StoreError> {
    if self.health(MODEL)?.is_some_and(|(json, _)| json == word(model)) {
      return Ok(false);
    }
    self.write(Durability::Seen, |tx, _| {
      tx.prepare_cached("DELETE FROM score WHERE model <> ?1")?.execute([model])?;
      tx.prepare_cached(
        "UPDATE file SET pending = pending | ?1 WHERE status = 'watched' AND id IN (
           SELECT b.file FROM block b JOIN revision r ON r.block = b.key
           WHERE b.present = 1 AND b.state IN ('validated', 'flagged', 'unvalidated')
             AND r.trust IN ('untrusted', 'hostile'))",
      )?
      .execute([Pending::MODEL.bits()])?;
      Ok(())
    })?;
    self.set_health(MODEL, &word(model), at)?;
    Ok(true)
  }

  /// Has the next start read everything of little trust again, for this one could not.
  pub fn forget_model(&mut self) -> Result<(), StoreError> {
    self.remove_health(MODEL)
  }

  /// Files with text that the model is still to read, each with its workspace.
  pub fn scores_due(&self) -> Result<Vec<(PathBuf, PathBuf)>, StoreError> {
    self.read(|conn| {
      let mut statement = conn.prepare_cached(
        "SELECT workspace, path FROM file WHERE pending & ?1 <> 0 AND status = 'watched' ORDER BY path",
      )?;
      let rows = statement.query_map([Pending::MODEL.bits()], |row| {
        Ok((column::path(row, 0)?, column::path(row, 1)?))
      })?;
      Ok(rows.collect::<Result<_, _>>()?)
    })
  }
}

fn word(model: &str) -> String {
  serde_json::Value::from(model).to_string()
}

fn assessment(row: &Row<'_>) -> rusqlite::Result<Assessment> {
  let (start, stop): (Option<i64>, Option<i64>) = (row.get(2)?, row.get(3)?);
  let (name, likeness): (Option<String>, Option<f64>) = (row.get(4)?, row.get(5)?);
  Ok(Assessment {
    probabilities: Probabilities {
      injection: row.get::<_, f64>(0)? as f32,
      poison: row.get::<_, f64>(1)? as f32,
    },
    sentence: start.zip(stop).map(|(start, stop)| start.max(0) as usize..stop.max(start) as usize),
    nearest: name.zip(likeness).map(|(name, likeness)| Nearest { name, likeness: likeness as f32 }),
    depth: Depth::Encoder,
  })
}

#[cfg(test)]
mod tests {
  use std::path::Path;

  use super::*;
  use crate::{
    provenance::Trust,
    store::tests::{Home, block, scan},
  };

  fn found(poison: f32, depth: Depth) -> Assessment {
    let probabilities = Probabilities { injection: 0.25, poison };
    let nearest = Some(Nearest { name: "a swap".into(), likeness: 0.5 });
    Assessment { probabilities, sentence: Some(3..9), nearest, depth }
  }

  #[test]
  fn a_text_is_known_to_the_model_that_read_it() {
    let mut ledger = Home::new().ledger();
    let (one, other) = (ContentHash::of(b"one"), ContentHash::of(b"other"));
    let scores = [(one, found(0.5, Depth::Encoder)), (other, found(0.5, Depth::Heads))];
    ledger.note_scores("v1", &scores, 7).unwrap();
    assert_eq!(ledger.score(one, "v1").unwrap(), Some(found(0.5, Depth::Encoder)));
    assert_eq!(ledger.score(one, "v2").unwrap(), None);
    assert_eq!(ledger.score(other, "v1").unwrap(), None, "it was not read closely");
    let bare = Assessment { sentence: None, nearest: None, ..found(0.75, Depth::Encoder) };
    ledger.note_scores("v2", &[(one, bare.clone())], 8).unwrap();
    assert_eq!(ledger.score(one, "v2").unwrap(), Some(bare));
    assert_eq!(ledger.score(one, "v1").unwrap(), None);
  }

  #[test]
  fn another_model_reads_again_what_is_little_trusted() {
    let mut ledger = Home::new().ledger();
    let mut trusted = [block("aaaaa1", 0)];
    trusted[0].revisions[0].trust = Trust::Verified;
    ledger.record(&scan("/w/a.md", &trusted, 1)).unwrap();
    ledger.record(&scan("/w/b.md", &[block("aaaaa2", 0)], 1)).unwrap();
    let hash = ContentHash::of(b"one");
    assert!(ledger.take_model("v1", 2).unwrap());
    ledger.note_scores("v1", &[(hash, found(0.5, Depth::Encoder))], 3).unwrap();
    assert_eq!(ledger.scores_due().unwrap(), [("/w".into(), "/w/b.md".into())]);
    ledger.set_pending(Path::new("/w/b.md"), Pending::RESHAPE).unwrap();
    assert!(!ledger.take_model("v1", 4).unwrap());
    assert!(ledger.scores_due().unwrap().is_empty());
    assert!(ledger.score(hash, "v1").unwrap().is_some());

    assert!(ledger.take_model("v2", 5).unwrap());
    assert_eq!(ledger.scores_due().unwrap(), [("/w".into(), "/w/b.md".into())]);
    let pending = ledger.file(Path::new("/w/b.md")).unwrap().unwrap().pending;
    assert_eq!(pending, Pending::RESHAPE | Pending::MODEL);
    assert_eq!(ledger.score(hash, "v1").unwrap(), None);
  }
}
