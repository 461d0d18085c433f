//! Skills: which files each had when it was last checked, what was found in it, and what the owner decided.
//!
//! Of a skill's text the ledger has hashes, paths of files, and the name that the skill gives itself.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension as _, Row, params, types::Type};

use super::{
  Durability, Ledger, Micros, NewEvent, StoreError,
  column::{self, path_bytes},
  error::Fault,
  event,
};
use crate::{
  detect::Code,
  memory::ContentHash,
  skill::{Manifest, Signature, SkillState, Standing},
};

/// What a check of a skill has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillCheck {
  /// Its directory, without links.
  pub dir: PathBuf,
  /// What it calls itself, or the name of its directory.
  pub name: String,
  /// Its files.
  pub manifest: Manifest,
  /// In how many blocks of its text there are findings.
  pub n_findings: u64,
  /// The codes of the findings.
  pub codes: Vec<Code>,
  /// Who signed it.
  pub signature: Signature,
}

/// A skill that the ledger knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillRow {
  /// Its directory, without links.
  pub dir: PathBuf,
  /// What it calls itself, or the name of its directory.
  pub name: String,
  /// Its state at the last check.
  pub state: SkillState,
  /// Whether it was there at the last check.
  pub is_present: bool,
  /// When it was first seen.
  pub first_seen_at: Micros,
  /// When its files were last found different.
  pub changed_at: Micros,
  /// The hash of its manifest at the last check.
  pub manifest: ContentHash,
  /// The hash of the manifest with which its files are compared: what the owner trusted last, or else the first
  /// sight.
  pub base: ContentHash,
  /// When and by whom the base was trusted; `None` if it is not trusted.
  pub trusted: Option<(Micros, String)>,
  /// In how many blocks of its text there were findings.
  pub n_findings: u64,
  /// The codes of the findings.
  pub codes: Vec<Code>,
  /// The word for its signature.
  pub signature: String,
  /// The id of the trusted key that made the signature.
  pub signed_by: Option<String>,
}

impl SkillCheck {
  /// The state that follows from what is known about the skill.
  pub fn state(&self, known: Option<&SkillRow>) -> SkillState {
    let manifest = self.manifest.hash();
    Standing {
      manifest,
      base: known.map_or(manifest, |known| known.base),
      is_base_trusted: known.is_some_and(|known| known.trusted.is_some()),
      has_findings: self.n_findings > 0 || matches!(self.signature, Signature::Broken(..)),
      is_whole: self.manifest.is_whole(),
      is_signed: self.signature.is_valid(),
    }
    .state()
  }
}

impl Ledger {
  /// All skills, in the order of their directories.
  pub fn skills(&self) -> Result<Vec<SkillRow>, StoreError> {
    self.read(|conn| {
      let mut statement = conn.prepare_cached(&select("ORDER BY dir"))?;
      let rows = statement.query_map([], row)?.collect::<Result<_, _>>()?;
      Ok(rows)
    })
  }

  /// The skill in a directory.
  pub fn skill(&self, dir: &Path) -> Result<Option<SkillRow>, StoreError> {
    self.read(|conn| Ok(one(conn, dir)?))
  }

  /// The manifest of a hash; `None` if no skill has it.
  pub fn skill_manifest(&self, hash: ContentHash) -> Result<Option<Manifest>, StoreError> {
    self.read(|conn| Ok(manifest(conn, hash)?))
  }

  /// Records what a check has found, with the events; returns the state that follows.
  pub fn record_skill(
    &mut self,
    found: &SkillCheck,
    events: &[NewEvent],
    at: Micros,
  ) -> Result<SkillState, StoreError> {
    self.write(Durability::Seen, |tx, _| {
      let known = one(tx, &found.dir)?;
      let state = put(tx, found, known.as_ref(), at)?;
      event::append(tx, events, at)?;
      Ok(state)
    })
  }

  /// Records that a skill is gone, with the events.
  pub fn lose_skill(
    &mut self,
    dir: &Path,
    events: &[NewEvent],
    at: Micros,
  ) -> Result<(), StoreError> {
    self.write(Durability::Seen, |tx, _| {
      tx.prepare_cached("UPDATE skill SET is_present = 0 WHERE dir = ?1")?
        .execute([path_bytes(dir)])?;
      event::append(tx, events, at)
    })
  }

  /// Records that a person trusts the files that a check has found, with the events.
  pub fn trust_skill(
    &mut self,
    found: &SkillCheck,
    by: &str,
    events: &[NewEvent],
    at: Micros,
  ) -> Result<(), StoreError> {
    // A person's decision is rare, and must survive a power cut.
    self.write(Durability::Synced, |tx, _| {
      let known = one(tx, &found.dir)?;
      put(tx, found, known.as_ref(), at)?;
      tx.prepare_cached(
        "UPDATE skill SET base = manifest, trusted_at = ?2, trusted_by = ?3, state = ?4 WHERE dir = ?1",
      )?
      .execute(params![path_bytes(&found.dir), at, by, SkillState::Trusted.as_str()])?;
      drop_unused(tx)?;
      event::append(tx, events, at)
    })
  }

  /// Withdraws a person's trust in a skill, with the events; its files are still compared with those that were
  /// trusted. Returns whether there was such trust.
  pub fn distrust_skill(
    &mut self,
    dir: &Path,
    events: &[NewEvent],
    at: Micros,
  ) -> Result<bool, StoreError> {
    self.write(Durability::Synced, |tx, _| {
      let Some(known) = one(tx, dir)?.filter(|known| known.trusted.is_some()) else {
        return Ok(false);
      };
      let files = manifest(tx, known.manifest)?;
      let state = Standing {
        manifest: known.manifest,
        base: known.base,
        is_base_trusted: false,
        has_findings: known.n_findings > 0 || known.signature == "broken",
        is_whole: files.is_some_and(|files| files.is_whole()),
        is_signed: known.signature == "valid",
      }
      .state();
      tx.prepare_cached(
        "UPDATE skill SET trusted_at = NULL, trusted_by = NULL, state = ?2 WHERE dir = ?1",
      )?
      .execute(params![path_bytes(dir), state.as_str()])?;
      event::append(tx, events, at)?;
      Ok(true)
    })
  }
}

/// Writes the row of a checked skill.
fn put(
  conn: &Connection,
  found: &SkillCheck,
  known: Option<&SkillRow>,
  at: Micros,
) -> Result<SkillState, Fault> {
  let (text, state) = (found.manifest.to_text(), found.state(known));
  let hash = ContentHash::of(text.as_bytes());
  conn
    .prepare_cached("INSERT OR IGNORE INTO skill_manifest (hash, files) VALUES (?1, ?2)")?
    .execute(params![hash.0, text])?;
  conn
    .prepare_cached(
      "INSERT INTO skill (dir, name, state, is_present, first_seen_at, changed_at, manifest, base,
         findings, codes, signature, signed_by)
       VALUES (?1, ?2, ?3, 1, ?4, ?4, ?5, ?5, ?6, ?7, ?8, ?9)
       ON CONFLICT (dir) DO UPDATE SET name = ?2, state = ?3, is_present = 1,
         changed_at = iif(manifest = ?5, changed_at, ?4), manifest = ?5,
         findings = ?6, codes = ?7, signature = ?8, signed_by = ?9",
    )?
    .execute(params![
      path_bytes(&found.dir),
      found.name,
      state.as_str(),
      at,
      hash.0,
      i64::try_from(found.n_findings).unwrap_or(i64::MAX),
      column::join_codes(&found.codes),
      found.signature.as_str(),
      found.signature.key(),
    ])?;
  drop_unused(conn)?;
  Ok(state)
}

/// Deletes manifests that no skill has any more.
fn drop_unused(conn: &Connection) -> rusqlite::Result<()> {
  conn
    .prepare_cached(
      "DELETE FROM skill_manifest WHERE hash NOT IN
         (SELECT manifest FROM skill UNION ALL SELECT base FROM skill)",
    )?
    .execute([])
    .map(drop)
}

fn manifest(conn: &Connection, hash: ContentHash) -> rusqlite::Result<Option<Manifest>> {
  let text: Option<String> = conn
    .prepare_cached("SELECT files FROM skill_manifest WHERE hash = ?1")?
    .query_row([hash.0], |row| row.get(0))
    .optional()?;
  Ok(text.and_then(|text| Manifest::from_text(&text)))
}

fn one(conn: &Connection, dir: &Path) -> rusqlite::Result<Option<SkillRow>> {
  conn.prepare_cached(&select("WHERE dir = ?1"))?.query_row([path_bytes(dir)], row).optional()
}

fn select(rest: &str) -> String {
  format!(
    "SELECT dir, name, state, is_present, first_seen_at, changed_at, manifest, base, trusted_at, trusted_by,
       findings, codes, signature, signed_by
     FROM skill {rest}"
  )
}

fn row(row: &Row<'_>) -> rusqlite::Result<SkillRow> {
  let trusted_at: Option<Micros> = row.get(8)?;
  let trusted_by: Option<String> = row.get(9)?;
  let n_findings: i64 = row.get(10)?;
  Ok(SkillRow {
    dir: column::path(row, 0)?,
    name: row.get(1)?,
    state: column::word(row, 2)?,
    is_present: row.get(3)?,
    first_seen_at: row.get(4)?,
    changed_at: row.get(5)?,
    manifest: column::hash(row, 6)?,
    base: column::hash(row, 7)?,
    trusted: trusted_at.zip(trusted_by),
    n_findings: u64::try_from(n_findings).map_err(|error| column::bad(10, Type::Integer, error))?,
    codes: column::codes(row, 11)?,
    signature: row.get(12)?,
    signed_by: row.get(13)?,
  })
}

#[cfg(test)]
mod tests {
  use super::*;
  use crate::{
    skill::{Entry, EntryKind},
    store::{EventFilter, EventKind, tests::Home},
  };

  fn check(text: &str, n_findings: u64) -> SkillCheck {
    let mut manifest = Manifest::default();
    manifest.insert(b"SKILL.md", Entry::of(EntryKind::File, text.as_bytes()));
    let codes = if n_findings > 0 { vec![Code::Concealment] } else { vec![] };
    SkillCheck {
      dir: "/w/skills/weather".into(),
      name: "weather".to_owned(),
      manifest,
      n_findings,
      codes,
      signature: Signature::None,
    }
  }

  fn n_manifests(ledger: &Ledger) -> i64 {
    let sql = "SELECT count(*) FROM skill_manifest";
    ledger.read(|conn| Ok(conn.query_row(sql, [], |row| row.get(0))?)).unwrap()
  }

  #[test]
  fn a_skill_is_compared_with_its_first_sight_and_then_with_what_was_trusted() {
    let mut ledger = Home::new().ledger();
    let dir = Path::new("/w/skills/weather");
    let event = [NewEvent::new(EventKind::SkillNew)];
    assert_eq!(ledger.record_skill(&check("a", 0), &event, 1).unwrap(), SkillState::New);
    assert_eq!(ledger.record_skill(&check("a", 0), &[], 2).unwrap(), SkillState::New);
    assert_eq!(ledger.record_skill(&check("b", 0), &[], 3).unwrap(), SkillState::Changed);
    let row = ledger.skill(dir).unwrap().unwrap();
    assert_eq!((row.first_seen_at, row.changed_at, row.is_present), (1, 3, true));
    assert_eq!(ledger.skill_manifest(row.base).unwrap(), Some(check("a", 0).manifest));
    assert_eq!(ledger.record_skill(&check("c", 2), &[], 4).unwrap(), SkillState::Flagged);
    assert_eq!(n_manifests(&ledger), 2, "what nothing is compared with is deleted");
    ledger
      .trust_skill(&check("c", 2), "ann", &[NewEvent::new(EventKind::SkillTrusted)], 5)
      .unwrap();
    let row = ledger.skill(dir).unwrap().unwrap();
    assert_eq!((row.state, row.trusted), (SkillState::Trusted, Some((5, "ann".to_owned()))));
    assert_eq!((row.n_findings, row.codes), (2, vec![Code::Concealment]));
    assert_eq!(ledger.record_skill(&check("a", 0), &[], 6).unwrap(), SkillState::Changed);
    assert_eq!(ledger.record_skill(&check("c", 2), &[], 7).unwrap(), SkillState::Trusted);
    assert!(ledger.distrust_skill(dir, &[], 8).unwrap());
    assert_eq!(ledger.skill(dir).unwrap().unwrap().state, SkillState::Flagged);
    assert!(!ledger.distrust_skill(dir, &event, 9).unwrap());
    ledger.lose_skill(dir, &[NewEvent::new(EventKind::SkillGone)], 10).unwrap();
    assert!(!ledger.skills().unwrap()[0].is_present);
    assert_eq!(ledger.events(&EventFilter::default()).unwrap().len(), 3);
  }

  #[test]
  fn a_signature_counts_until_there_are_findings() {
    let mut ledger = Home::new().ledger();
    let signed =
      |text, n| SkillCheck { signature: Signature::Valid("0A".into()), ..check(text, n) };
    assert_eq!(ledger.record_skill(&signed("a", 0), &[], 1).unwrap(), SkillState::Trusted);
    assert_eq!(ledger.record_skill(&signed("b", 0), &[], 2).unwrap(), SkillState::Trusted);
    assert_eq!(ledger.skills().unwrap()[0].signed_by.as_deref(), Some("0A"));
    assert_eq!(ledger.record_skill(&signed("b", 1), &[], 3).unwrap(), SkillState::Flagged);
    assert_eq!(ledger.record_skill(&check("b", 0), &[], 4).unwrap(), SkillState::Changed);
  }
}
