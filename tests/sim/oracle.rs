//! What must be true: the invariants of the file protocol, asked in each write of the engine and at
//! the end of a schedule. Each violation begins with the name of its invariant.
//!
//! The oracle reads the ledger through a connection of its own, so it sees what is committed and
//! nothing that the engine only believes.
#![forbid(unsafe_code)]

use std::{
  collections::{BTreeMap, BTreeSet},
  ops::Range,
  path::{Path, PathBuf},
  rc::Rc,
  time::Duration,
};

use memfw::{
  config::Config,
  detect::{Action, Text, model::Context},
  files::{Rung, lease},
  judging::{
    blocks::judge_fresh, judge_context::JudgeContext, origin::Origin, treatment::Treatment,
  },
  memory::{Document, Known, compare},
  store::{Item, ItemFilter, Op, OpKind},
};

use super::{book::Book, disk::PAGE, stage::Stage};

/// What has to be true, and where it was not.
pub(crate) struct Oracle {
  /// How often each line has to be there: in the memory files, or in quarantine.
  pub(crate) expected: BTreeMap<u32, u32>,
  /// The lines that a person wanted back, with each of the items in which they were, and how often:
  /// where the placeholder is gone, each time adds them once.
  pub(crate) approved: BTreeMap<(u32, String), u32>,
  /// Lines of versions that a person wanted back, and how often they stand in one at most.
  pub(crate) restored: BTreeMap<u32, u32>,
  /// The lines of versions whose restore was interrupted, and how often they stand in one at most. What another program
  /// wrote before the recovery is kept beside them, if it cannot be told from a part of the version.
  pub(crate) interrupted: BTreeMap<u32, u32>,
  /// Lines that a power loss left more often than their writers meant, and how often: pages of two versions
  /// of a writer.
  pub(crate) doubled: BTreeMap<u32, u32>,
  /// Files of which a person wanted a version back: what was there is kept as a version.
  pub(crate) restored_files: BTreeSet<PathBuf>,
  /// The bytes of the items that a person wanted back.
  pub(crate) approved_plains: BTreeMap<String, Vec<u8>>,
  /// Whether a writer left NUL bytes itself (a hole behind a cut, or one that a power loss left).
  pub(crate) nul_by_writer: bool,
  /// The last operation that had been begun when the engine was asked for what it does now. What it does
  /// about that one or an earlier one is recovery, which any pass may begin with, so images need not match
  /// exactly.
  pub(crate) op_at_asking: i64,
  /// Whether it does what a person asked for.
  pub(crate) for_person: bool,
  pub(crate) violations: Vec<String>,
  n_said: usize,
  /// How many changes of writers there had been when the engine wrote last.
  pub(crate) changes_at_write: u64,
  /// The engine's call before which it was asked for what it does now.
  pub(crate) asked_at: u64,
  /// How often the engine wrote without regard for verifying reads: because a person or a crash asked
  /// for it, or because without a lease it cannot know what was written since it read.
  pub(crate) n_blind_writes: u64,
  pub(crate) stage: Rc<Stage>,
  items: Cached<Item>,
  ops: Cached<Op>,
  /// Sealed bytes by id; they never change.
  seals: BTreeMap<String, Vec<u8>>,
}

/// Rows, and after how many commits they were read.
type Cached<T> = (u64, Rc<Vec<T>>);

/// A write of the engine, just carried out.
pub(crate) struct Write<'a> {
  pub(crate) path: &'a Path,
  /// Whether the lease was still held.
  pub(crate) leased: bool,
  /// How long the file was when the lease was granted, in bytes.
  pub(crate) leased_len: Option<usize>,
  /// How old it was when the engine looked last.
  pub(crate) age: Option<Duration>,
  pub(crate) rung: Rung,
  /// How many mappings there were.
  pub(crate) maps: usize,
  /// Whether the file was none that may be written when the engine was asked for this.
  pub(crate) unsafe_target: bool,
  pub(crate) at: usize,
  /// `None` for a cut at `at`.
  pub(crate) bytes: Option<&'a [u8]>,
  pub(crate) before: &'a [u8],
  pub(crate) after: &'a [u8],
}

impl Oracle {
  pub(crate) fn new(stage: Rc<Stage>) -> Self {
    Self {
      expected: BTreeMap::new(),
      approved: BTreeMap::new(),
      restored: BTreeMap::new(),
      interrupted: BTreeMap::new(),
      doubled: BTreeMap::new(),
      restored_files: BTreeSet::new(),
      approved_plains: BTreeMap::new(),
      nul_by_writer: false,
      op_at_asking: 0,
      for_person: false,
      violations: Vec::new(),
      n_said: 0,
      changes_at_write: 0,
      asked_at: 0,
      n_blind_writes: 0,
      stage,
      items: (u64::MAX, Rc::default()),
      ops: (u64::MAX, Rc::default()),
      seals: BTreeMap::new(),
    }
  }

  pub(crate) fn violation(&mut self, what: impl Into<String>) {
    self.violations.push(what.into());
  }

  /// The violations since this was asked last.
  pub(crate) fn unsaid(&mut self) -> &[String] {
    let unsaid = self.n_said..self.violations.len();
    self.n_said = unsaid.end;
    &self.violations[unsaid]
  }

  /// The items of the quarantine, in an order that does not depend on their random ids.
  pub(crate) fn items(&mut self) -> Rc<Vec<Item>> {
    let commits = self.stage.log.commits();
    if self.items.0 != commits {
      let mut items = self.stage.witness.items(&ItemFilter::default()).unwrap();
      items.retain(|item| !item.in_file);
      items.sort_by(|a, b| {
        (a.quarantined_at, &a.path, a.line, a.hash.0, a.n).cmp(&(
          b.quarantined_at,
          &b.path,
          b.line,
          b.hash.0,
          b.n,
        ))
      });
      self.items = (commits, Rc::new(items));
    }
    Rc::clone(&self.items.1)
  }

  /// The operations that were begun and not finished.
  pub(crate) fn ops(&mut self) -> Rc<Vec<Op>> {
    let commits = self.stage.log.commits();
    if self.ops.0 != commits {
      self.ops = (commits, Rc::new(self.stage.witness.open_ops().unwrap()));
    }
    Rc::clone(&self.ops.1)
  }

  /// The sealed bytes of an item.
  pub(crate) fn plain(&mut self, item: &Item) -> Vec<u8> {
    if let Some(known) = self.seals.get(item.id.as_str()) {
      return known.clone();
    }
    let plain = self.stage.witness.unseal(&item.id).unwrap().to_vec();
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

  /// Whether a NUL byte in a file is not one of an interrupted reshape, which its recovery has to
  /// repair.
  pub(crate) fn is_hole_of_a_writer(&mut self, path: &Path, content: &[u8]) -> bool {
    let ops = self.ops();
    let images = ops.iter().filter(|op| op.kind == OpKind::Reshape && op.path == path);
    let lengths = images.filter_map(|op| op.images.as_ref());
    let end = lengths.map(|images| images.before.len().max(images.after.len())).max().unwrap_or(0);
    content.iter().skip(end).any(|&byte| byte == 0)
  }

  /// All that can be said about one write of the engine; what kind of write it was.
  pub(crate) fn judge(&mut self, book: &Book, write: &Write<'_>) -> Option<&'static str> {
    if write.unsafe_target {
      self.violation("I6: what is written is linked, foreign or no regular file");
    }
    if write.leased && write.age.is_some_and(|age| age >= lease::LIMIT) {
      self.violation(format!("I5: written under a lease of {:?}", write.age));
    }
    let appends = write.at == write.before.len();
    if write.before.len() != write.after.len() && !write.leased && !appends {
      self.violation("I3: the length was changed without a lease");
    }
    // What the engine itself has added under its lease, before an error, nobody can have mapped.
    let is_own = write.leased && write.leased_len.is_some_and(|len| write.after.len() >= len);
    let cut = write.bytes.is_none() && !is_own;
    if cut && (write.rung != Rung::Lease || write.maps > 0) {
      self.violation("I3: a file was cut where somebody may have mapped it");
    }
    let all = self.ops();
    let ops: Vec<&Op> = all.iter().filter(|op| op.path == write.path).collect();
    let last_op = self.op_at_asking;
    let is_old = |op: &Op| number(op) <= last_op;
    let mut recovering = false;
    let mut partial = false;
    let mut sealed_now = false;
    let mut kind = None;
    let what = write.bytes.map_or("cut".to_owned(), |bytes| bytes.escape_ascii().to_string());
    let meant = || ops.iter().filter(|op| is_meant(op, write, is_old(op)));
    // One that could not be finished may be left from an earlier time.
    let op = meant().find(|op| is_compared(op, write, is_old(op))).or_else(|| meant().next_back());
    if let Some(op) = op {
      recovering = is_old(op);
      let images = op.images.as_ref().filter(|_| op.kind == OpKind::Reshape);
      partial = if recovering {
        write.bytes.is_some_and(|bytes| write.at + bytes.len() < write.after.len())
      } else {
        images.is_some_and(|images| {
          images.before.as_slice() != write.after && images.after.as_slice() != write.after
        })
      };
    }
    if recovering || self.for_person || !write.leased {
      self.n_blind_writes += 1;
    }
    match op {
      None => self.violation(format!("I2: {what:?} at {} has no row", write.at)),
      Some(op) => {
        kind = Some(match op.kind {
          _ if recovering => "write of a recovery",
          OpKind::Redact if write.leased => "redaction leased",
          OpKind::Redact => "redaction without a lease",
          OpKind::Restore => "restore",
          OpKind::Reshape => "reshape",
          OpKind::Neutralise => "neutralise",
        });
        if number(op) > self.stage.log.sure_op() {
          self.violation(format!("I2: the row of {what:?} at {} is not durable", write.at));
        }
        if op.kind == OpKind::Redact {
          let before = op.images.as_ref().map(|images| images.before.to_vec()).unwrap_or_default();
          let items = self.items();
          sealed_now = items.iter().any(|item| self.plain(item) == before);
          if !sealed_now {
            self.violation("I2: redacted bytes are not in quarantine");
          }
        }
        if !is_compared(op, write, recovering) {
          self.violation(format!("I3: {what:?} at {} is over bytes not compared", write.at));
        }
      }
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
      return kind;
    }
    let sealed = self.sealed(book);
    for line in was.keys().filter(|line| !is.contains_key(line)) {
      // What no writer wrote may have become whole by chance, half way through a recovery.
      if self.expected.get(line).is_some_and(|n| *n > 0)
        && !sealed.contains(line)
        && !held.contains(line)
        && !self.is_sealed_in_pieces(&book.lines[*line as usize].text)
      {
        if sealed_now {
          // Its writer was not done: one part is sealed, and the other is still there.
          self.expected.remove(line);
          continue;
        }
        let text = &book.lines[*line as usize].text;
        if recovering && op.is_some_and(|op| is_taken_for_half_written(op, write, text)) {
          self.expected.remove(line);
          continue;
        }
        self.violation(format!("I1: {} is overwritten and nowhere else", book.show(*line)));
      }
    }
    for (&line, &n) in is.iter().filter(|(line, _)| !was.contains_key(line)) {
      let whole = sealed.contains(&line) || held.contains(&line);
      let parts = self.approved_parts(&book.lines[line as usize].text);
      // What was approved comes back in its place, and may end a line of which the rest was there.
      let comes_back = op.is_some_and(|op| op.kind == OpKind::Restore) && !parts.is_empty();
      if partial && !whole && !comes_back {
        // Half of a change of length may make a line whole by chance, under a lease, where nobody sees it.
        continue;
      }
      if whole || !parts.is_empty() {
        self.expected.insert(line, n);
        // A part that a person wanted back makes whole what was taken out in pieces.
        for id in parts {
          self.approved.entry((line, id)).or_insert(1);
        }
      } else {
        self.violation(format!("I3: {} was written by the engine out of nothing", book.show(line)));
      }
    }
    kind
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
    self.approved.iter().filter(|((approved, _), _)| *approved == line).map(|(_, n)| n).sum()
  }

  /// I4: what came back is one item with more occurrences; equal ones are numbered from 0.
  pub(crate) fn judge_items(&mut self) {
    let items = self.items();
    let mut numbers: BTreeMap<(&Path, Vec<u8>), BTreeSet<u32>> = BTreeMap::new();
    let mut n = 0;
    for item in items.iter() {
      let plain = self.plain(item);
      n += usize::from(!numbers.entry((&item.path, plain)).or_default().insert(item.n));
    }
    let gaps = numbers.values().filter(|set| set.iter().zip(0..).any(|(a, b)| *a != b)).count();
    if n > 0 || gaps > 0 {
      self.violation(format!("I4: {n} items twice, {gaps} misnumbered"));
    }
  }

  /// The lines of all versions of files of which one was brought back.
  fn kept(&self, book: &Book) -> BTreeSet<u32> {
    let witness = &self.stage.witness;
    let versions = self.restored_files.iter().flat_map(|path| witness.versions(path).unwrap());
    versions
      .flat_map(|version| book.count(&witness.version_bytes(version.hash).unwrap()).into_keys())
      .collect()
  }

  /// Whether poison that nobody approved is in a text so that the rules take it out.
  pub(crate) fn has_poison(&self, book: &Book, content: &[u8]) -> bool {
    book.places(content).iter().any(|(line, place)| {
      book.lines[*line as usize].poison
        && self.n_approved(*line) == 0
        && (is_alone(content, place) || leaves(content, place))
    })
  }

  /// I1 at the end: each line is there, once, or in quarantine; poison only in quarantine. `readable` are
  /// the files that may be read. How much poison the rules leave in place.
  pub(crate) fn judge_end(
    &mut self,
    book: &Book,
    visible: &BTreeMap<u32, u32>,
    readable: &[&[u8]],
  ) -> u64 {
    let sealed = self.sealed(book);
    let expected = self.expected.clone();
    let kept = self.kept(book);
    for (&line, &wanted) in &expected {
      let n = visible.get(&line).copied().unwrap_or(0);
      let text = &book.lines[line as usize].text;
      let of = |counts: &BTreeMap<u32, u32>| counts.get(&line).copied().unwrap_or(0);
      let most = of(&self.restored).max(of(&self.doubled)).max(wanted) + of(&self.interrupted);
      if n < wanted
        && !kept.contains(&line)
        && !sealed.contains(&line)
        && !self.is_sealed_in_pieces(text)
      {
        self.violation(format!("I1: {} is lost", book.show(line)));
      }
      // Two items may hold the same line, and a person may want both back.
      if n > most + self.n_approved(line) {
        let name = book.show(line);
        self.violation(format!("I1: {name} is there {n} times instead of {wanted}"));
      }
    }
    let mut n_spared = 0;
    for content in readable {
      for (line, place) in book.places(content) {
        if !book.lines[line as usize].poison || self.n_approved(line) > 0 {
          continue;
        }
        // Writers without a lock mix their lines, and a writer's line in the middle of another may be no
        // poison to the rules, which is not the protocol's fault. One of its own is.
        if is_alone(content, &place) || leaves(content, &place) {
          self.violation(format!("P2: {} can be read", book.show(line)));
        } else {
          n_spared += 1;
        }
      }
    }
    n_spared
  }
}

/// Whether nothing but a list or quote mark is on the same line.
fn is_alone(content: &[u8], place: &Range<usize>) -> bool {
  let head = content[..place.start].rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
  let tail = content[place.end..].split(|byte| *byte == b'\n').next().unwrap_or_default();
  matches!(head, b"" | b"- " | b"> ") && tail.trim_ascii_end().is_empty()
}

/// Whether the rules take a line out of a text of which nothing is known.
fn leaves(content: &[u8], place: &Range<usize>) -> bool {
  let document = Document::parse(content, &Known::default());
  let comparison = compare(&document, &[]);
  let (origin, config) = (Origin::unknown(), Config::default());
  let mut assess = |_: &Text<'_>, _: f32, _: &Context<'_>| None;
  let rules = memfw::detect::rules::builtin();
  let mut court = JudgeContext::new(&origin, Treatment::Memory, &config, rules, &mut assess);
  let judgements = judge_fresh(content, &document, &comparison, &mut court);
  document.blocks().iter().zip(judgements).any(|(block, judgement)| {
    block.parts.iter().any(|part| part.start < place.end && place.start < part.end)
      && judgement.is_some_and(|judgement| judgement.decision.action == Action::Quarantine)
  })
}

fn number(op: &Op) -> i64 {
  op.id.to_string().parse().unwrap()
}

/// Whether a recovery had to take the start of a line for its own: up to the length that the file had before a reshape
/// the file is as a reshape would have left it that was cut off there, and the line begins before that and ends behind
/// it. Then its end is what another program appended, for all that the bytes say.
fn is_taken_for_half_written(op: &Op, write: &Write<'_>, text: &[u8]) -> bool {
  let Some(images) = op.images.as_ref().filter(|_| op.kind == OpKind::Reshape) else {
    return false;
  };
  let cut = images.before.len();
  let (Some(head), Some(appended)) = (write.before.get(..cut), write.before.get(cut..)) else {
    return false;
  };
  let mut starts = write.before.windows(text.len()).enumerate().filter(|(_, part)| *part == text);
  images.after.starts_with(head)
    && write.after.ends_with(appended)
    && starts.all(|(start, _)| (start + 1..start + text.len()).contains(&cut))
}

/// Whether an operation that is on record is about a write: its place, and what is put there.
fn is_meant(op: &Op, write: &Write<'_>, recovering: bool) -> bool {
  let Some(images) = &op.images else { return false };
  if op.kind == OpKind::Reshape {
    if added(images.before.as_slice(), images.after.as_slice(), write) {
      return true;
    }
    let stands = |image: &[u8]| match write.bytes {
      Some(bytes) => image.get(write.at..write.at + bytes.len()) == Some(bytes),
      None => image.len() == write.at,
    };
    return recovering || stands(&images.after) || stands(&images.before);
  }
  place(op, write, recovering).is_some()
}

/// Where in the images of an operation the bytes of a write are. A writer may have moved a torn range since:
/// the recovery puts it right where it is then, if each byte there is that of one image.
fn place(op: &Op, write: &Write<'_>, recovering: bool) -> Option<usize> {
  let (bytes, images) = (write.bytes?, op.images.as_ref()?);
  let (before, after) = (&images.before[..], &images.after[..]);
  let fits = |at: &usize| after.get(*at..*at + bytes.len()) == Some(bytes);
  let is_torn = |at: &usize| {
    let start = write.at.checked_sub(*at);
    let old = start.and_then(|start| write.before.get(start..start + after.len()));
    old.is_some_and(|old| before.len() == after.len() && is_of_both(old, before, after))
  };
  let stayed = write.at.checked_sub(op.offset as usize).filter(fits);
  let starts = 0..(after.len() + 1).saturating_sub(bytes.len()) * usize::from(recovering);
  stayed.or_else(|| starts.into_iter().find(|at| fits(at) && is_torn(at)))
}

fn is_of_both(old: &[u8], before: &[u8], after: &[u8]) -> bool {
  old.iter().zip(before.iter().zip(after)).all(|(o, (b, a))| o == b || o == a)
}

/// Whether a write is an addition at the end, which overwrites nothing, and which somebody else's may
/// have come before.
fn added(before: &[u8], after: &[u8], write: &Write<'_>) -> bool {
  let more = after.strip_prefix(before).filter(|_| write.at == write.before.len());
  more.zip(write.bytes).is_some_and(|(more, bytes)| more.starts_with(bytes))
}

/// Whether what was at the place of a write was what the operation says.
fn is_compared(op: &Op, write: &Write<'_>, recovering: bool) -> bool {
  let Some(images) = &op.images else { return false };
  let (before, after) = (&images.before[..], &images.after[..]);
  if op.kind == OpKind::Reshape {
    return added(before, after, write)
      || write.leased && (recovering || is_state(write.before, before, after));
  }
  let (Some(bytes), Some(at)) = (write.bytes, place(op, write, recovering)) else { return false };
  let part = at..at + bytes.len();
  let old = write.before.get(write.at..write.at + bytes.len()).unwrap_or_default();
  let Some((before, after)) = before.get(part.clone()).zip(after.get(part)) else {
    return before.is_empty() && old.is_empty();
  };
  old == before || recovering && is_of_both(old, before, after)
}

/// Whether an interrupted change of length can have left this file: it has the length of an image or ends
/// with a page, or anywhere, and each byte is that of one image.
pub(crate) fn is_torn(op: &Op, file: &[u8], anywhere: bool) -> bool {
  let Some(images) = op.images.as_ref().filter(|_| op.kind == OpKind::Reshape) else {
    return false;
  };
  let (before, after) = (&images.before[..], &images.after[..]);
  let len = file.len();
  (len == before.len() || len == after.len() || len.is_multiple_of(PAGE) || anywhere)
    && is_state(file, before, after)
}

/// Whether a file is as a reshape finds it, or as one of its writes leaves it that may have failed on the
/// way: then the old bytes are put back, and each byte that is there is that of one image.
fn is_state(file: &[u8], before: &[u8], after: &[u8]) -> bool {
  file == before
    || file.len() >= before.len().min(after.len())
      && file.len() <= before.len().max(after.len())
      && file
        .iter()
        .enumerate()
        .all(|(at, byte)| before.get(at) == Some(byte) || after.get(at) == Some(byte))
}
