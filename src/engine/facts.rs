//! From rows of the ledger to what the pure core asks for, and back.
#![forbid(unsafe_code)]

use std::collections::{HashMap, HashSet};

use crate::{
  detect::Code,
  memory::{BlockId, Known, KnownBlock, KnownLine, Marker, marker::MAX_MARKER_BYTES},
  os::clock::rfc3339,
  provenance::{Attestation, Source, State, Trust},
  store::{BlockRow, Revision},
};

/// What the ledger knows about one file.
#[derive(Clone, Debug, Default)]
pub struct FileFacts {
  /// The blocks of the last version, in order, then former ones that may come back.
  pub rows: Vec<BlockRow>,
  /// The same, as the core wants them; same indices.
  pub known: Vec<KnownBlock>,
  /// Ids that are markers or placeholders of this file.
  pub ids: Known,
  /// Placeholders that go with the next lazy pass.
  pub gone: HashSet<BlockId>,
}

impl FileFacts {
  /// Facts from the rows of blocks that are in the file and that were there once, from the ids that markers
  /// may carry, and from the states of the items that were taken out of the file.
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
    let gone = placeholders
      .iter()
      .filter(|(_, state)| matches!(state, State::Rejected | State::Forgotten))
      .map(|(id, _)| id.clone())
      .collect();
    let placeholders = placeholders.keys().cloned().collect();
    Self { rows, known, ids: Known { markers, placeholders, redacted }, gone }
  }

  /// What to write for each marker id: the first block names the marker, and the least trusted
  /// revision of which a line is left in its blocks decides what it says.
  pub fn tags(rows: &[BlockRow]) -> HashMap<BlockId, Marker> {
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
          name(tag, worst);
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
        ..Marker::new(marker.clone(), worst.source.clone(), worst.trust, rfc3339(worst.at))
      };
      name(&mut tag, worst);
      tags.insert(marker.clone(), tag);
    }
    for tag in tags.values_mut() {
      // Names come from others, and a marker that is too long is none.
      if tag.print().len() > MAX_MARKER_BYTES {
        tag.source = Source::new(tag.source.kind());
        tag.session = None;
      }
      if tag.print().len() > MAX_MARKER_BYTES {
        tag.source = Source::unknown();
        tag.trust = tag.trust.min(Trust::Untrusted);
      }
    }
    tags
  }
}

/// Has a marker say where this revision came from.
fn name(tag: &mut Marker, revision: &Revision) {
  tag.source = revision.source.clone();
  tag.trust = revision.trust;
  tag.session.clone_from(&revision.session);
  // That nobody saw it is what a marker says without a word.
  tag.att = Some(revision.attestation).filter(|att| *att > Attestation::SelfReported);
}

/// A row as the core compares it.
pub fn known_block(row: &BlockRow, former: bool) -> KnownBlock {
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
      })
      .collect(),
    marker: row.marker.clone(),
    former,
  }
}
