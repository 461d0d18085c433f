//! Reads a version of a file: parses it, and compares it with what the ledger knows.
#![forbid(unsafe_code)]

use std::{
  collections::{HashMap, HashSet},
  ops::Range,
  path::Path,
  sync::Arc,
};

use super::{approvals::Approvals, facts::FileFacts, placeholder_cache::PlaceholderCache};
use crate::{
  detect::Code,
  memory::{self, BlockId, Comparison, Document, LineHash, compare_text, id::MAX_ID_DIGITS},
  provenance::State,
  store::{BlockRow, FileRow, Ledger, StoreError},
};

/// The most former blocks that are recognised when they come back; a writer that empties a file and
/// fills it again brings all of them at once.
const MAX_FORMER: u32 = 20_000;

/// How long a writer may continue an unfinished line after that line was taken out, in microseconds (a
/// choice: writers that write in pieces do so within milliseconds).
const CONTINUED_FOR: i64 = 10_000_000;

/// A version of a file, before it is judged.
pub struct ReadVersion {
  /// Its content.
  pub bytes: Arc<Vec<u8>>,
  /// The segments and blocks of `bytes`.
  pub document: Document,
  /// The ledger's facts about the file.
  pub facts: FileFacts,
  /// The fate of each block since the known version.
  pub comparison: Comparison,
  /// The rests of lines whose beginning was taken out a moment ago.
  pub continued: Vec<Range<usize>>,
  /// Whether earlier decisions may apply to its text.
  pub has_decisions: bool,
}

/// The inputs for reading a version.
pub struct Reader<'a> {
  /// The ledger, for reading.
  pub ledger: &'a Ledger,
  /// The placeholders of items.
  pub placeholders: &'a mut PlaceholderCache,
  /// Microseconds since the epoch.
  pub now: i64,
}

impl Reader<'_> {
  /// Reads the bytes of a file with this path and row. In a `writable` file, text that could not be
  /// taken out before counts as unknown.
  pub fn read(
    self,
    (path, row): (&Path, Option<&FileRow>),
    bytes: Arc<Vec<u8>>,
    writable: bool,
  ) -> Result<ReadVersion, StoreError> {
    let Self { ledger, placeholders: cache, now } = self;
    let placeholders = ledger.placeholder_ids(path)?;
    let mut redacted = HashMap::new();
    // Only items whose id is in the text are unsealed, because unsealing all would be slow.
    for id in ids_in(&bytes).into_iter().filter(|id| placeholders.contains_key(id)) {
      // Without its bytes only the line of the placeholder itself is recognised, which is enough.
      if let Some(form) = cache.of(ledger, &id) {
        redacted.insert(id, form);
      }
    }
    let (mut rows, mut former, mut markers) = (vec![], vec![], HashSet::new());
    if let Some(row) = row {
      rows = ledger.blocks(row.id)?;
      former = ledger.former_blocks(row.id, MAX_FORMER)?;
      markers = ledger.marker_ids(path)?;
    }
    // They are removed before the comparison, so that single lines of them are not known either.
    rows.retain(|row| vouches(row, writable));
    former.retain(|row| vouches(row, writable));
    // Text that was restored and taken out again is in quarantine: a new copy of it is not known.
    if !former.is_empty() && !placeholders.is_empty() {
      let out = ledger.hashes_out(path)?;
      former.retain(|row| !out.contains(&row.hash));
    }
    // A withdrawn or expired approval applies to text in the file, but not to new copies.
    if former.iter().any(is_approved) && ledger.has_lost_approval(path, now)? {
      former.retain(|row| !is_approved(row));
    }
    // Former blocks may keep short hashes for good.
    let is_short = rows.iter().any(BlockRow::has_short_hashes);
    let mut facts = FileFacts::new(rows, former, markers, &placeholders, redacted);
    if is_short {
      let whole = whole_hashes(&Document::parse(&bytes, &facts.ids));
      facts.complete_hashes(&whole);
    }
    let document = facts.read(&bytes);
    let approvals = Approvals::new(ledger, now);
    facts.gaps = ledger.gaps(path)?;
    facts.gone.extend(approvals.spare_placeholders(&document, &bytes, &placeholders)?);
    let comparison = compare_text(&bytes, &document, &facts.known);
    let continued = continued(ledger, &document, now)?;
    let has_decisions =
      !placeholders.is_empty() || ledger.has_exceptions()? || ledger.was_renamed(path)?;
    Ok(ReadVersion { bytes, document, facts, comparison, continued, has_decisions })
  }
}

/// The hashes of the lines of a file by their first bytes; nothing where two lines begin alike.
pub fn whole_hashes(document: &Document) -> HashMap<[u8; LineHash::SHORT], LineHash> {
  let mut whole: HashMap<_, Option<LineHash>> = HashMap::new();
  for line in document.blocks().iter().flat_map(|block| &block.lines) {
    let found = whole.entry(line.hash.short()).or_insert(Some(line.hash));
    *found = found.filter(|found| *found == line.hash);
  }
  whole.into_iter().filter_map(|(short, whole)| Some((short, whole?))).collect()
}

/// Whether this row allows its text to be in a file. Text that had to be taken out and was not, by a
/// person's decision or because the file was not writable, is not allowed by its row.
fn vouches(row: &BlockRow, writable: bool) -> bool {
  let left = row.state == State::Flagged && row.codes.contains(&Code::LeftInPlace);
  !(row.state.is_waiting() || left && writable)
}

/// Whether a person has approved one of its lines.
fn is_approved(row: &BlockRow) -> bool {
  row.revisions.iter().any(|revision| revision.approved)
}

/// The text after the placeholders of unfinished lines that were taken out a moment ago: the writer
/// continues the line. Later text belongs to another line.
fn continued(
  ledger: &Ledger,
  document: &Document,
  now: i64,
) -> Result<Vec<Range<usize>>, StoreError> {
  let mut rest = Vec::new();
  // A placeholder may be copied to any number of lines.
  let mut asked: HashMap<&BlockId, bool> = HashMap::new();
  for continued in document.continued() {
    let is_young = if let Some(is_young) = asked.get(&continued.id) {
      *is_young
    } else {
      let item = ledger.item(continued.id.as_str())?;
      let age = now.saturating_sub(item.seen_at);
      let is_young = item.status.is_waiting() && !item.terminated && age <= CONTINUED_FOR;
      asked.insert(&continued.id, is_young);
      is_young
    };
    if is_young {
      rest.push(continued.rest.clone());
    }
  }
  Ok(rest)
}

/// The ids after `memfw:` anywhere in the text.
pub fn ids_in(bytes: &[u8]) -> HashSet<BlockId> {
  const WORD: &[u8] = b"memfw:";
  let mut found = HashSet::new();
  let mut at = 0;
  while let Some(start) = memory::marker::find(bytes, WORD, at) {
    at = start + WORD.len();
    let digits = bytes.get(at..).unwrap_or_default();
    // One digit more than allowed, so that a longer run of digits is not read as an id.
    let n = digits.iter().take(MAX_ID_DIGITS + 1).take_while(|b| b.is_ascii_hexdigit()).count();
    let id = digits.get(..n).and_then(|digits| std::str::from_utf8(digits).ok());
    found.extend(id.and_then(|id| id.parse().ok()));
  }
  found
}
