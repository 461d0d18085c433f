//! Codes that a person allowed for all text of one source, with reason and optional end. Approvals
//! of single texts are in `exception`.
#![forbid(unsafe_code)]

use rusqlite::{Row, params};

use super::{
  Durability, Ledger, Micros, NewEvent, StoreError,
  column::{self, word},
  event,
};
use crate::{detect::Code, provenance::Source};

/// One code that is allowed for one source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceException {
  /// The source, exactly.
  pub source: Source,
  /// The allowed code.
  pub code: Code,
  /// The reason, in the words of that person.
  pub reason: String,
  /// The person.
  pub made_by: String,
  /// When it begins.
  pub created_at: Micros,
  /// When it ends; `None` for never.
  pub expires_at: Option<Micros>,
  /// When it was last used.
  pub used_at: Option<Micros>,
  /// How often it was used.
  pub uses: u64,
}

impl SourceException {
  /// Whether it still applies.
  pub fn holds(&self, at: Micros) -> bool {
    self.expires_at.is_none_or(|end| at < end)
  }
}

/// A new allowance.
#[derive(Clone, Copy, Debug)]
pub struct NewSourceException<'a> {
  /// The source, exactly.
  pub source: &'a Source,
  /// The allowed codes.
  pub codes: &'a [Code],
  /// The reason, in the words of that person.
  pub reason: &'a str,
  /// The person.
  pub made_by: &'a str,
  /// When it ends; `None` for never.
  pub expires_at: Option<Micros>,
}

impl Ledger {
  /// Allows these codes for all text of a source, with the events. A repeated allowance replaces
  /// the old one.
  pub fn except_source(
    &mut self,
    new: &NewSourceException<'_>,
    events: &[NewEvent],
    at: Micros,
  ) -> Result<(), StoreError> {
    // A person's decision is rare, and must survive a power cut.
    self.write(Durability::Synced, |tx, _| {
      let mut statement = tx.prepare_cached(
        "INSERT INTO source_exception (source, code, reason, made_by, created_at, expires_at, uses)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0)
         ON CONFLICT (source, code) DO UPDATE SET reason = ?3, made_by = ?4, expires_at = ?6",
      )?;
      for code in new.codes {
        let (source, code) = (new.source.as_str(), code.as_str());
        statement.execute(params![source, code, new.reason, new.made_by, at, new.expires_at])?;
      }
      event::append(tx, events, at)?;
      Ok(())
    })
  }

  /// Withdraws an allowance, with the events; returns whether there was one.
  pub fn withdraw_source_exception(
    &mut self,
    source: &Source,
    code: Code,
    events: &[NewEvent],
    at: Micros,
  ) -> Result<bool, StoreError> {
    self.write(Durability::Synced, |tx, _| {
      let n = tx
        .prepare_cached("DELETE FROM source_exception WHERE source = ?1 AND code = ?2")?
        .execute([source.as_str(), code.as_str()])?;
      if n > 0 {
        event::append(tx, events, at)?;
      }
      Ok(n > 0)
    })
  }

  /// All allowances, oldest first, including expired ones.
  pub fn source_exceptions(&self) -> Result<Vec<SourceException>, StoreError> {
    self.read(|conn| {
      let mut statement = conn.prepare_cached(&select("ORDER BY created_at, source, code"))?;
      let rows = statement.query_map([], row)?.collect::<Result<_, _>>()?;
      Ok(rows)
    })
  }

  /// The allowances that apply to a source at this time.
  pub fn exceptions_for(
    &self,
    source: &Source,
    at: Micros,
  ) -> Result<Vec<SourceException>, StoreError> {
    self.read(|conn| {
      let mut statement = conn.prepare_cached(&select("WHERE source = ?1 ORDER BY code"))?;
      let rows = statement.query_map([source.as_str()], row)?.collect::<Result<Vec<_>, _>>()?;
      Ok(rows.into_iter().filter(|one| one.holds(at)).collect())
    })
  }

  /// Records that these were used.
  pub fn use_source_exceptions(
    &mut self,
    source: &Source,
    codes: &[Code],
    at: Micros,
  ) -> Result<(), StoreError> {
    self.write(Durability::Seen, |tx, _| {
      let mut statement = tx.prepare_cached(
        "UPDATE source_exception SET used_at = ?3, uses = uses + 1 WHERE source = ?1 AND code = ?2",
      )?;
      for code in codes {
        statement.execute(params![source.as_str(), code.as_str(), at])?;
      }
      Ok(())
    })
  }
}

fn select(rest: &str) -> String {
  format!(
    "SELECT source, code, reason, made_by, created_at, expires_at, used_at, uses
     FROM source_exception {rest}"
  )
}

fn row(row: &Row<'_>) -> rusqlite::Result<SourceException> {
  Ok(SourceException {
    source: column::source(row, 0)?,
    code: word(row, 1)?,
    reason: row.get(2)?,
    made_by: row.get(3)?,
    created_at: row.get(4)?,
    expires_at: row.get(5)?,
    used_at: row.get(6)?,
    uses: row.get::<_, i64>(7)? as u64,
  })
}

#[cfg(test)]
mod tests {
  use super::*;
  use crate::store::{EventFilter, EventKind, tests::Home};

  #[test]
  fn a_source_is_excused_for_its_codes_until_their_end() {
    let mut ledger = Home::new().ledger();
    let source = Source::new("web_fetch:docs.example.com");
    let new = NewSourceException {
      source: &source,
      codes: &[Code::CommandReference, Code::UrlReference],
      reason: "our own manual",
      made_by: "ann",
      expires_at: Some(10),
    };
    let event = NewEvent::new(EventKind::Allowed);
    ledger.except_source(&new, std::slice::from_ref(&event), 1).unwrap();
    let excused = |ledger: &Ledger, source: &Source, at| -> Vec<Code> {
      ledger.exceptions_for(source, at).unwrap().into_iter().map(|one| one.code).collect()
    };
    let both = [Code::CommandReference, Code::UrlReference];
    assert_eq!(excused(&ledger, &source, 9), both);
    assert_eq!(excused(&ledger, &source, 10), []);
    for other in ["web_fetch", "web_fetch:example.com", "web_fetch:docs.example.com.evil.org"] {
      assert_eq!(excused(&ledger, &Source::new(other), 9), [], "{other}");
    }
    let longer = NewSourceException { codes: &[Code::UrlReference], expires_at: None, ..new };
    ledger.except_source(&longer, &[], 5).unwrap();
    assert_eq!(excused(&ledger, &source, 10), [Code::UrlReference]);
    ledger.use_source_exceptions(&source, &[Code::UrlReference], 12).unwrap();
    let all = ledger.source_exceptions().unwrap();
    let [command, url] = &all[..] else { panic!("{all:?}") };
    assert_eq!((command.code, command.used_at, command.uses), (Code::CommandReference, None, 0));
    assert_eq!((url.created_at, url.used_at, url.uses), (1, Some(12), 1));
    assert_eq!((url.reason.as_str(), url.made_by.as_str()), ("our own manual", "ann"));
    let gone = [NewEvent::new(EventKind::Withdrawn)];
    assert!(ledger.withdraw_source_exception(&source, Code::UrlReference, &gone, 13).unwrap());
    assert!(!ledger.withdraw_source_exception(&source, Code::UrlReference, &gone, 14).unwrap());
    assert_eq!(ledger.source_exceptions().unwrap().len(), 1);
    assert_eq!(ledger.events(&EventFilter::default()).unwrap().len(), 2, "each word is told once");
  }
}
