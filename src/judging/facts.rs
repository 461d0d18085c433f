//! Converts rows of the ledger to the types of the pure core, and back.
#![forbid(unsafe_code)]

use std::collections::{HashMap, HashSet};

use super::{label::Labels, origin::Origin};
use crate::{
  detect::{Code, policy::Party},
  memory::{BlockId, Document, Gap, Known, KnownBlock, KnownLine, LineHash, Marker},
  os::clock::rfc3339,
  provenance::{Attestation, Source, State, Trust},
  store::{BlockRow, Revision},
};

/// The ledger's facts about one file.
#[derive(Clone, Debug, Default)]
pub struct FileFacts {
  /// The blocks of the last version, in order, then former ones that may return.
  pub rows: Vec<BlockRow>,
  /// The rows in the core's type; same indices.
  pub known: Vec<KnownBlock>,
  /// The ids of this file's markers and placeholders.
  pub ids: Known,
  /// Placeholders that the next lazy pass removes.
  pub gone: HashSet<BlockId>,
  /// Placeholders that the next lazy pass inserts again, because a rejection was undone.
  pub gaps: Vec<(BlockId, Gap)>,
}

impl FileFacts {
  /// Creates the facts from the rows of current blocks, the rows of former blocks, the ids that markers
  /// may have, and the states of the items that were taken out of the file.
  pub fn new(
    mut rows: Vec<BlockRow>,
    former: Vec<BlockRow>,
    markers: HashSet<BlockId>,
    placeholders: &HashMap<BlockId, State>,
    redacted: HashMap<BlockId, Vec<u8>>,
  ) -> Self {
    let mut known: Vec<KnownBlock> = rows.iter().map(|row| known_block(row, false)).collect();
    known.extend(former.iter().map(|row| known_block(row, true)));
    rows.extend(former);
    let of_row = |row: &BlockRow| {
      let named = row
        .revisions
        .iter()
        .flat_map(|revision| [Some(revision.source.as_str().to_owned()), revision.session.clone()]);
      named.flatten().collect::<Vec<_>>()
    };
    let names = rows.iter().filter(|row| row.marker.is_some()).flat_map(of_row).collect();
    let gone = placeholders
      .iter()
      .filter(|(_, state)| matches!(state, State::Rejected | State::Forgotten))
      .map(|(id, _)| id.clone())
      .collect();
    let placeholders = placeholders.keys().cloned().collect();
    Self {
      rows,
      known,
      ids: Known {
        markers,
        placeholders,
        redacted,
        is_flag: Some(is_code),
        begins_flag: Some(begins_code),
        names,
      },
      gone,
      gaps: Vec::new(),
    }
  }

  /// Completes the hashes of lines that an older version recorded; former blocks are left, because their lines are not
  /// in the file.
  pub fn complete_hashes(&mut self, whole: &HashMap<[u8; LineHash::SHORT], LineHash>) {
    let known = self.known.iter_mut().take_while(|known| !known.former);
    for (row, known) in self.rows.iter_mut().zip(known) {
      row.complete_hashes(whole);
      *known = known_block(row, false);
    }
  }

  /// Parses a version of the file.
  pub fn read(&self, bytes: &[u8]) -> Document {
    self.read_with(bytes, &self.ids)
  }

  /// Parses a version of the file with the placeholders that memfw has just written, by id.
  pub fn read_redacted<'a>(
    &self,
    bytes: &[u8],
    written: impl IntoIterator<Item = (&'a BlockId, &'a [u8])>,
  ) -> Document {
    let mut ids = self.ids.clone();
    for (id, redacted) in written {
      ids.placeholders.insert(id.clone());
      ids.redacted.insert(id.clone(), redacted.to_vec());
    }
    self.read_with(bytes, &ids)
  }

  fn read_with(&self, bytes: &[u8], ids: &Known) -> Document {
    let mut document = Document::parse(bytes, ids);
    document.divide(bytes, &self.known);
    document
  }

  /// The text of each marker, by id. The first block names the marker, and its content comes from the
  /// least trusted revision that still has a line in its blocks. Names that others chose are never
  /// written to the file.
  pub fn tags(rows: &[BlockRow], labels: &Labels) -> HashMap<BlockId, Marker> {
    let mut tags: HashMap<BlockId, Marker> = HashMap::new();
    for row in rows {
      let Some(marker) = &row.marker else { continue };
      let Some(worst) = row.live().filter(|r| !r.source.is_baseline()).min_by_key(|r| r.trust)
      else {
        continue;
      };
      let flags: &[Code] = if row.state == State::Flagged { &row.codes } else { &[] };
      if let Some(tag) = tags.get_mut(marker) {
        if worst.trust < tag.trust {
          name(tag, worst, labels);
        }
        for code in flags {
          if !tag.flags.iter().any(|flag| flag == code.as_str()) {
            tag.flags.push(code.as_str().to_owned());
          }
        }
        continue;
      }
      let mut tag = Marker {
        flags: flags.iter().map(|code| code.as_str().to_owned()).collect(),
        ..Marker::new(marker.clone(), Source::unknown(), worst.trust, rfc3339(worst.at))
      };
      name(&mut tag, worst, labels);
      tags.insert(marker.clone(), tag);
    }
    tags
  }
}

/// Writes the source of this revision to a marker.
fn name(tag: &mut Marker, revision: &Revision, labels: &Labels) {
  tag.source = labels.source(&revision.source);
  tag.trust = revision.trust;
  tag.session = revision.session.as_deref().and_then(|session| labels.session(session));
  // A marker without `att` means that the source was not observed.
  tag.att = Some(revision.attestation).filter(|att| *att > Attestation::SelfReported);
}

/// Whether a word is the code of a finding; markers have codes as flags.
pub fn is_code(word: &str) -> bool {
  word.parse::<Code>().is_ok()
}

/// Whether a word is the beginning of such a code.
fn begins_code(word: &str) -> bool {
  Code::ALL.iter().any(|code| code.as_str().starts_with(word))
}

/// Whether the text of a revision stays in any context, because the owner said it or a person approved
/// it.
pub(super) fn is_owner(revision: &Revision) -> bool {
  revision.approved || Origin::of_revision(revision).party() == Party::Owner
}

/// A row as the type that the core compares.
pub fn known_block(row: &BlockRow, former: bool) -> KnownBlock {
  // Without its revision, the origin of a line is unknown, so the line gets the least trust.
  let trust = |number: u32| row.revision(number).map_or(Trust::Hostile, |revision| revision.trust);
  KnownBlock {
    id: row.id.clone(),
    hash: row.hash,
    norm_hash: row.norm_hash,
    lines: row
      .lines
      .iter()
      .map(|line| KnownLine {
        hash: line.hash,
        revision: line.revision,
        trust: trust(line.revision),
        is_owner: row.revision(line.revision).is_some_and(is_owner),
      })
      .collect(),
    marker: row.marker.clone(),
    former,
  }
}
