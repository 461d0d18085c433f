//! The results of the encoder, by content and context: each text is read once for each source and
//! request.
#![forbid(unsafe_code)]

use std::path::PathBuf;

use rusqlite::{OptionalExtension as _, Row, params};

use super::{Durability, Ledger, Micros, Pending, StateKey, StoreError, column};
use crate::{
  detect::model::{Assessment, Context, Depth, Nearest, Probabilities},
  memory::ContentHash,
};

/// The name of the encoder as a layer.
const ENCODER: &str = "encoder";
/// The layer of a text that the encoder leaves out.
const HEADS: &str = "heads";

/// A text, and the context that the model was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScoreKey {
  text: ContentHash,
  /// Empty without context.
  context: Option<ContentHash>,
}

impl ScoreKey {
  /// The key of a text. Text that is not from outside is read without context.
  pub fn new(text: &[u8], context: &Context<'_>) -> Self {
    let words = context.words();
    let context = context.is_outside().then(|| ContentHash::of(words.as_bytes()));
    Self { text: ContentHash::of(text), context }
  }

  fn context(&self) -> &[u8] {
    self.context.as_ref().map_or(&[], |hash| &hash.0)
  }
}

impl Ledger {
  /// The score of a text by this version of the model, if it has read it.
  pub fn score(&self, key: ScoreKey, model: &str) -> Result<Option<Assessment>, StoreError> {
    self.read(|conn| {
      let found = conn
        .prepare_cached(
          "SELECT injection, poison, start, stop, nearest, likeness, authority, layer FROM score
           WHERE hash = ?1 AND context = ?2 AND model = ?3",
        )?
        .query_row(params![key.text.0, key.context(), model], assessment)
        .optional()?;
      Ok(found)
    })
  }

  /// Stores the scores of texts. Scores of the heads are stored only where the encoder leaves the text out.
  pub fn note_scores(
    &mut self,
    model: &str,
    scores: &[(ScoreKey, Assessment)],
    at: Micros,
  ) -> Result<(), StoreError> {
    self.write(Durability::Seen, |tx, _| {
      let mut statement = tx.prepare_cached(
        "INSERT OR REPLACE INTO score
           (hash, context, layer, model, injection, poison, authority, start, stop, nearest, likeness, at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
      )?;
      for (key, found) in scores.iter().filter(|(_, found)| found.depth > Depth::Heads) {
        let Assessment { probabilities, authority, sentence, nearest, .. } = found;
        statement.execute(params![
          key.text.0,
          key.context(),
          if found.depth == Depth::Encoder { ENCODER } else { HEADS },
          model,
          f64::from(probabilities.injection),
          f64::from(probabilities.poison),
          authority.map(f64::from),
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

  /// Records the version of the model that scores from now on. Scores of another version are
  /// deleted, and files with text from sources of little trust are read again; returns whether
  /// there was another version.
  pub fn take_model(&mut self, model: &str, at: Micros) -> Result<bool, StoreError> {
    if self.state(&StateKey::Model)?.is_some_and(|(json, _)| json == word(model)) {
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
    // Last, so that a crash in between leads to another deletion and not to old scores.
    self.set_state(&StateKey::Model, &word(model), at)?;
    Ok(true)
  }

  /// Makes the next start read all text of little trust again, because this start could not.
  pub fn forget_model(&mut self) -> Result<(), StoreError> {
    self.remove_state(&StateKey::Model)
  }

  /// Files with text that the encoder must still read, each with its workspace.
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
  let authority: Option<f64> = row.get(6)?;
  let (name, likeness): (Option<String>, Option<f64>) = (row.get(4)?, row.get(5)?);
  Ok(Assessment {
    probabilities: Probabilities {
      injection: row.get::<_, f64>(0)? as f32,
      poison: row.get::<_, f64>(1)? as f32,
    },
    authority: authority.map(|authority| authority as f32),
    sentence: start.zip(stop).map(|(start, stop)| start.max(0) as usize..stop.max(start) as usize),
    nearest: name.zip(likeness).map(|(name, likeness)| Nearest { name, likeness: likeness as f32 }),
    depth: if row.get_ref(7)?.as_str()? == ENCODER { Depth::Encoder } else { Depth::HeadsAlone },
  })
}

#[cfg(test)]
mod tests {
  use std::path::Path;

  use super::*;
  use crate::{
    detect::model::Kind,
    provenance::Trust,
    store::tests::{Home, block, scan},
  };

  fn alone(text: &[u8]) -> ScoreKey {
    ScoreKey::new(text, &Context::default())
  }

  fn found(poison: f32, depth: Depth) -> Assessment {
    let probabilities = Probabilities { injection: 0.25, poison };
    let nearest = Some(Nearest { name: "a swap".into(), likeness: 0.5 });
    Assessment { probabilities, authority: None, sentence: Some(3..9), nearest, depth }
  }

  #[test]
  fn a_text_is_known_to_the_model_that_read_it() {
    let mut ledger = Home::new().ledger();
    let (one, other) = (alone(b"one"), alone(b"other"));
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
  fn a_text_is_read_again_behind_another_source_or_question() {
    let mut ledger = Home::new().ledger();
    let page = Context { kind: Kind::Page, asked: "the hours", ..Context::default() };
    let keys = [
      alone(b"one"),
      ScoreKey::new(b"one", &page),
      ScoreKey::new(b"one", &Context { kind: Kind::Mail, ..page }),
      ScoreKey::new(b"one", &Context { asked: "the price", ..page }),
    ];
    for (at, key) in keys.iter().enumerate() {
      assert_eq!(ledger.score(*key, "v1").unwrap(), None);
      let authority = (at > 0).then_some(at as f32 / 4.0);
      let said = Assessment { authority, ..found(0.5, Depth::Encoder) };
      ledger.note_scores("v1", &[(*key, said)], 7).unwrap();
    }
    let authority = |key: &ScoreKey| ledger.score(*key, "v1").unwrap().unwrap().authority;
    let found = keys.each_ref().map(authority);
    assert_eq!(found, [None, Some(0.25), Some(0.5), Some(0.75)]);
    let owner = Context { kind: Kind::Owner, ..page };
    assert_eq!(ScoreKey::new(b"one", &owner), alone(b"one"), "it is not asked of the owner");
  }

  #[test]
  fn another_model_reads_again_what_is_little_trusted() {
    let mut ledger = Home::new().ledger();
    let mut trusted = [block("aaaaa1", 0)];
    trusted[0].revisions[0].trust = Trust::Verified;
    ledger.record(&scan("/w/a.md", &trusted, 1)).unwrap();
    ledger.record(&scan("/w/b.md", &[block("aaaaa2", 0)], 1)).unwrap();
    let hash = alone(b"one");
    assert!(ledger.take_model("v1", 2).unwrap());
    ledger.note_scores("v1", &[(hash, found(0.5, Depth::Encoder))], 3).unwrap();
    assert_eq!(ledger.scores_due().unwrap(), [("/w".into(), "/w/b.md".into())]);
    ledger.change_pending(Path::new("/w/b.md"), Pending::MODEL, Pending::RESHAPE).unwrap();
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
