//! How the origin of a text is known, as stored: its evidence, the version of its file in which the
//! text was first seen, and whether attribution is pending.
#![forbid(unsafe_code)]

use rusqlite::Row;

use super::{Micros, column};
use crate::memory::ContentHash;

/// The version of its file in which a text was first seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sighting {
  /// The hash of the whole file, as its writer had left it.
  pub version: ContentHash,
  /// The modification time of the file then.
  pub changed_at: Micros,
}

/// How the origin of a text is known. By default attribution is neither done nor pending.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct OriginRecord {
  /// The evidence, as JSON of [`crate::provenance::Evidence`]; empty for none.
  pub evidence_json: String,
  /// The version in which it was first seen.
  pub sighting: Option<Sighting>,
  /// Whether attribution is pending.
  pub due: bool,
  /// The hash of the owner's request ([`super::Ledger::request`]).
  pub request: Option<ContentHash>,
}

impl OriginRecord {
  /// The record of a text first seen in this version, with pending attribution.
  pub fn asked(sighting: Sighting) -> Self {
    Self { sighting: Some(sighting), due: true, ..Self::default() }
  }

  /// The version and the time stamp as columns: both or none.
  pub(super) fn columns(&self) -> (Option<[u8; 32]>, Option<Micros>) {
    self.sighting.map(|seen| (seen.version.0, seen.changed_at)).unzip()
  }

  /// From five columns that begin at `first`: evidence, version, time stamp, due, request.
  pub(super) fn from_row(row: &Row<'_>, first: usize) -> rusqlite::Result<Self> {
    let version = column::optional_hash(row, first + 1)?;
    let changed_at: Option<Micros> = row.get(first + 2)?;
    let sighting =
      version.zip(changed_at).map(|(version, changed_at)| Sighting { version, changed_at });
    Ok(Self {
      evidence_json: row.get(first)?,
      sighting,
      due: row.get(first + 3)?,
      request: column::optional_hash(row, first + 4)?,
    })
  }
}
