//! What must be true: the invariants of the file protocol, asked in each write of the engine and at
//! the end of a schedule.
//!
//! The oracle reads the ledger through a connection of its own, so it sees what is committed and
//! nothing that the engine only believes.
#![forbid(unsafe_code)]

use std::{
  collections::{BTreeMap, BTreeSet},
  path::{Path, PathBuf},
};

use memfw::{
  os::Rung,
  seal::MasterKey,
  store::{Access, Item, ItemFilter, Ledger, Op, OpKind},
};

use super::{book::Book, log};

/// The key of all simulated ledgers.
pub(crate) const KEY: [u8; 32] = [7; 32];

/// What has to be true, and where it was not.
pub(crate) struct Oracle {
  /// How often each line has to be there: in the memory files, or in quarantine.
  pub(crate) expected: BTreeMap<u32, u32>,
  /// The lines that a person wanted back, with each of the items in which they were.
  pub(crate) approved: BTreeSet<(u32, String)>,
  /// The bytes of the items that a person wanted back.
  pub(crate) approved_plains: BTreeMap<String, Vec<u8>>,
  /// Whether a writer left NUL bytes itself (a hole behind a cut).
  pub(crate) nul_by_writer: bool,
  /// Whether the engine is ending what a crash interrupted, so that images need not match exactly.
  pub(crate) recovering: bool,
  pub(crate) violations: Vec<String>,
  /// How many changes of writers there had been when the engine wrote last.
  pub(crate) changes_at_write: u64,
  /// How much of the ledger's log is sure to survive a power loss: what was there when the engine
  /// wrote last, for it waits for its rows before it does.
  pub(crate) sure_log: u64,
  ledger: PathBuf,
  witness: Option<Ledger>,
  /// Sealed bytes by id; they never change.
  seals: BTreeMap<String, Vec<u8>>,
}

/// A write of the engine, before it is carried out.
pub(crate) struct Write<'a> {
  pub(crate) path: &'a Path,
  pub(crate) leased: bool,
  pub(crate) rung: Rung,
  pub(crate) at: usize,
  /// `None` for a cut at `at`.
  pub(crate) bytes: Option<&'a [u8]>,
  pub(crate) before: &'a [u8],
  pub(crate) after: &'a [u8],
}

impl Oracle {
  pub(crate) fn new(ledger: PathBuf) -> Self {
    Self {
      expected: BTreeMap::new(),
      approved: BTreeSet::new(),
      approved_plains: BTreeMap::new(),
      nul_by_writer: false,
      recovering: false,
      violations: Vec::new(),
      changes_at_write: 0,
      sure_log: 0,
      ledger,
      witness: None,
      seals: BTreeMap::new(),
    }
  }

  pub(crate) fn violation(&mut self, what: impl Into<String>) {
    self.violations.push(what.into());
  }

  /// Lets go of the ledger, which is about to be replaced.
  pub(crate) fn forget(&mut self) {
    self.witness = None;
    self.seals.clear();
  }

  pub(crate) fn all_is_durable(&mut self) {
    self.sure_log = log::end(&self.ledger);
  }

  fn witness(&mut self) -> &Ledger {
    let Self { witness, ledger, .. } = self;
    witness.get_or_insert_with(|| {
      Ledger::open(ledger, Access::ReadOnly, Some(MasterKey::new(KEY))).unwrap()
    })
  }

  /// The items of the quarantine.
  pub(crate) fn items(&mut self) -> Vec<Item> {
    let mut items = self.witness().items(&ItemFilter::default()).unwrap();
    items.retain(|item| !item.in_file);
    items
  }

  /// The sealed bytes of an item.
  pub(crate) fn plain(&mut self, item: &Item) -> Vec<u8> {
    if let Some(known) = self.seals.get(item.id.as_str()) {
      return known.clone();
    }
    let plain = self.witness().unseal(&item.id).unwrap().to_vec();
    self.seals.insert(item.id.as_str().to_owned(), plain.clone());
    plain
  }

  /// The lines that are in quarantine, whole.
  pub(crate) fn sealed(&mut self, book: &Book) -> BTreeSet<u32> {
    let items = self.items();
    items.iter().flat_map(|item| book.count(&self.plain(item)).into_keys()).collect()
  }

  /// Whether a line is in quarantine in pieces: the end of one item, whole items, the start of the
  /// last one. That is what becomes of a line that was written and taken out bit by bit.
  fn is_sealed_in_pieces(&mut self, text: &[u8]) -> bool {
    fn goes_on(text: &[u8], plains: &[Vec<u8>]) -> bool {
      plains.iter().any(|plain| {
        plain.starts_with(text)
          || !plain.is_empty()
            && text.strip_prefix(&plain[..]).is_some_and(|rest| goes_on(rest, plains))
      })
    }
    let items = self.items();
    let plains: Vec<Vec<u8>> = items.iter().map(|item| self.plain(item)).collect();
    (1..text.len()).any(|at| {
      let (head, rest) = text.split_at(at);
      plains.iter().any(|plain| plain.ends_with(head)) && goes_on(rest, &plains)
    })
  }

  /// I2 and I3: what the engine may overwrite, and that nothing is lost by it.
  pub(crate) fn judge(&mut self, book: &Book, write: &Write<'_>) {
    let ops: Vec<Op> = self.witness().open_ops().unwrap();
    let ops: Vec<Op> = ops.into_iter().filter(|op| op.path == write.path).collect();
    let same_length = write.before.len() == write.after.len();
    if !same_length && !write.leased {
      self.violation("the length was changed without a lease");
    }
    if write.bytes.is_none() && write.rung != Rung::Lease {
      self.violation("a file was cut where mappings of it may be out of sight");
    }
    let recovering = self.recovering;
    let mut sealed_now = false;
    match ops.iter().find(|op| covers(op, write, recovering)) {
      None => {
        let what = write.bytes.map_or("cut".to_owned(), |bytes| bytes.escape_ascii().to_string());
        self.violation(format!("I2: {what:?} at {} has no durable row", write.at));
      }
      Some(op) if op.kind == OpKind::Redact => {
        let before = op.images.as_ref().map(|images| images.before.to_vec()).unwrap_or_default();
        let items = self.items();
        sealed_now = items.iter().any(|item| self.plain(item) == before);
        if !sealed_now {
          self.violation("I2: redacted bytes are not in quarantine");
        }
      }
      Some(_) => {}
    }
    let (was, is) = (book.count(write.before), book.count(write.after));
    let mut held = BTreeSet::new();
    for images in ops.iter().filter_map(|op| op.images.as_ref()) {
      held.extend(book.count(&images.before).into_keys());
      held.extend(book.count(&images.after).into_keys());
    }
    let changed = was.iter().any(|(line, _)| !is.contains_key(line))
      || is.iter().any(|(line, _)| !was.contains_key(line));
    if !changed {
      return;
    }
    let sealed = self.sealed(book);
    for line in was.keys().filter(|line| !is.contains_key(line)) {
      if !sealed.contains(line)
        && !held.contains(line)
        && !self.is_sealed_in_pieces(&book.lines[*line as usize].text)
      {
        if sealed_now {
          // Its writer was not done: one part is sealed, and the other still stands there.
          self.expected.remove(line);
          continue;
        }
        self.violation(format!("I1: {} is overwritten and nowhere else", book.show(*line)));
      }
    }
    for (&line, &n) in is.iter().filter(|(line, _)| !was.contains_key(line)) {
      let parts = self.approved_parts(&book.lines[line as usize].text);
      if sealed.contains(&line) || held.contains(&line) || !parts.is_empty() {
        self.expected.insert(line, n);
        // A part that a person wanted back makes whole what was taken out in pieces.
        self.approved.extend(parts.into_iter().map(|id| (line, id)));
      } else {
        self.violation(format!("{} was written by the engine out of nothing", book.show(line)));
      }
    }
  }

  /// The approved items that hold the start, the end or the middle of a line.
  fn approved_parts(&self, text: &[u8]) -> Vec<String> {
    let holds = |plain: &[u8]| {
      let bare = plain.trim_ascii();
      (1..text.len()).any(|at| plain.starts_with(&text[at..]) || bare.ends_with(&text[..at]))
        || !bare.is_empty() && text.windows(bare.len()).any(|part| part == bare)
    };
    let held = self.approved_plains.iter().filter(|(_, plain)| holds(plain));
    held.map(|(id, _)| id.clone()).collect()
  }

  fn n_approved(&self, line: u32) -> u32 {
    self.approved.iter().filter(|(approved, _)| *approved == line).count() as u32
  }

  /// I1 at the end: each line is there, once, or in quarantine; poison only in quarantine.
  pub(crate) fn judge_end(&mut self, book: &Book, visible: &BTreeMap<u32, u32>) {
    let sealed = self.sealed(book);
    let expected = self.expected.clone();
    for (&line, &wanted) in &expected {
      let n = visible.get(&line).copied().unwrap_or(0);
      let text = &book.lines[line as usize].text;
      if n < wanted && !sealed.contains(&line) && !self.is_sealed_in_pieces(text) {
        self.violation(format!("I1: {} is lost", book.show(line)));
      }
      // Two items may hold the same line, and a person may want both back.
      if n > wanted + self.n_approved(line) {
        let name = book.show(line);
        self.violation(format!("I1: {name} is there {n} times instead of {wanted}"));
      }
    }
    for &line in visible.keys() {
      if book.lines[line as usize].poison && self.n_approved(line) == 0 {
        self.violation(format!("{} can be read", book.show(line)));
      }
    }
  }
}

/// Whether an operation that is on record explains a write.
fn covers(op: &Op, write: &Write<'_>, recovering: bool) -> bool {
  let Some(images) = &op.images else { return false };
  let (before, after) = (&images.before[..], &images.after[..]);
  if op.kind == OpKind::Reshape {
    return write.leased && (recovering || is_state(write.before, before, after));
  }
  let Some(bytes) = write.bytes else { return false };
  let Some(old) = write.before.get(write.at..write.at + bytes.len()) else { return false };
  op.offset == write.at as u64
    && after == bytes
    && before.len() == old.len()
    && (old == before
      || recovering && old.iter().zip(before.iter().zip(after)).all(|(o, (b, a))| o == b || o == a))
}

/// Whether a file is as a reshape finds it, or as its first write leaves it.
fn is_state(file: &[u8], before: &[u8], after: &[u8]) -> bool {
  file == before
    || file.len() == before.len()
      && file.starts_with(after)
      && file[after.len()..] == before[after.len()..]
}
