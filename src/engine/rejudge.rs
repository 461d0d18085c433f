//! Lets policy decide again when the source of a text has become known. Text that must be taken out
//! then is redacted like any other.
#![forbid(unsafe_code)]

use std::{
  collections::{BTreeMap, BTreeSet, HashMap},
  ops::Range,
  sync::Arc,
  time::Duration,
};

use super::{
  Engine, EngineError, Hint, Target, UNLEASED_AFTER, VERIFY_WITHIN,
  edit::{Lease, Locked, lease_within},
  inferred::is_inferred,
  redact::Redacted,
};
use crate::{
  detect::{Action, Code, Verdict},
  files::{Fs, MemoryFile, Touch},
  judging::{
    approvals::Version,
    facts::FileFacts,
    judge::Beside,
    judgement::BlockJudgement,
    origin::Origin,
    precedent::allowed_to,
    rows::{self, lines_of},
    unit::{Brought, brought},
    view::View,
  },
  memory::{Block, BlockId, ContentHash, Document, Fate, line::LineKind},
  os::WriteLock,
  provenance::{Request, State},
  store::{BlockRow, FileRow, Ledger, Revision, Sighting},
};

/// The blocks of a file while the answers of the records are added to them.
pub(super) struct Known {
  before: Vec<BlockRow>,
  rows: Vec<BlockRow>,
  /// The numbers of the revisions with a new answer, by the index of their block.
  told: BTreeMap<usize, Vec<u32>>,
  /// The blocks with an answer, also with one that says nothing new, by index.
  answered: BTreeSet<usize>,
  /// Whether the encoder has not read some of the text with its new source.
  pub(super) unread: bool,
  /// The owner's requests by their hashes; new ones are not in the ledger yet.
  requests: HashMap<ContentHash, Request>,
}

/// A block of which something must be taken out of the file.
pub(super) struct Removal {
  pub(super) id: BlockId,
  /// The lines, as indices into those of the block; `None` for the whole block.
  pub(super) lines: Option<Vec<usize>>,
  pub(super) judgement: BlockJudgement,
}

impl Known {
  pub(super) fn new(rows: Vec<BlockRow>) -> Self {
    let (told, answered, requests) = (BTreeMap::new(), BTreeSet::new(), HashMap::new());
    Self { before: rows.clone(), rows, told, answered, unread: false, requests }
  }

  /// Sets the origin of a revision that still waits for it, or whose origin is only inferred; says whether
  /// that changed its origin.
  pub(super) fn fill(
    &mut self,
    id: &BlockId,
    number: u32,
    sighting: Sighting,
    origin: &Origin,
  ) -> bool {
    let Some((index, row)) = self.rows.iter_mut().enumerate().find(|(_, row)| row.id == *id) else {
      return false;
    };
    let waits =
      |one: &Revision| one.trail.sighting == Some(sighting) && (one.trail.due || is_inferred(one));
    let Some(revision) = row.revisions.get_mut(number as usize).filter(|one| waits(one)) else {
      return false;
    };
    let before = Origin::of_revision(revision);
    let is_answered = !revision.trail.due;
    if is_answered && !origin.may_replace(&before) {
      return false;
    }
    origin.fill(revision);
    self.requests.extend(origin.request.as_ref().map(|request| (request.hash(), request.clone())));
    self.answered.insert(index);
    let is_news = !is_answered || !origin.is_like(&before);
    if is_news {
      self.told.entry(index).or_default().push(number);
    }
    is_news
  }

  /// Clears the questions about lines that do not exist any more.
  pub(super) fn forget_dead(&mut self) {
    for row in &mut self.rows {
      let live: Vec<u32> = row.live().map(|one| one.number).collect();
      for revision in row.revisions.iter_mut().filter(|one| !live.contains(&one.number)) {
        revision.trail.due = false;
      }
    }
  }

  pub(super) fn rows(&self) -> &[BlockRow] {
    &self.rows
  }

  /// The rows that have changed.
  pub(super) fn changed(&self) -> Vec<BlockRow> {
    let pairs = self.before.iter().zip(&self.rows);
    pairs.filter(|(before, row)| before != row).map(|(_, row)| row.clone()).collect()
  }

  /// Renews the markers: blocks of one run share a marker if they have the same source.
  pub(super) fn renew_markers(&mut self) {
    let mut run: Option<(Option<BlockId>, BlockRow)> = None;
    for (index, row) in self.rows.iter_mut().enumerate() {
      let is_new = row.revisions.len() == 1 && self.answered.contains(&index);
      let Some(marker) = row.marker.clone().filter(|_| is_new) else {
        run = None;
        continue;
      };
      if let Some((old, last)) = &run
        && old.as_ref() == Some(&marker)
      {
        row.marker =
          if has_same_origin(last, row) { last.marker.clone() } else { Some(row.id.clone()) };
      }
      run = Some((Some(marker), row.clone()));
    }
  }
}

fn has_same_origin(one: &BlockRow, other: &BlockRow) -> bool {
  one.revisions.iter().zip(&other.revisions).all(|(one, other)| {
    (&one.source, one.trust, one.attestation, &one.session)
      == (&other.source, other.trust, other.attestation, &other.session)
  })
}

impl<F: Fs> Engine<F> {
  /// Lets policy decide about the blocks whose source became known, and updates their rows. A removal
  /// stays due until it is written.
  pub(super) fn judge_again(
    &mut self,
    target: &Target,
    row: &FileRow,
    bytes: &Arc<Vec<u8>>,
    known: &mut Known,
    writing: &WriteLock,
  ) -> Result<Vec<Removal>, EngineError> {
    let view = self.view_known(target, Some(row), Arc::clone(bytes))?;
    known.renew_markers();
    let is_foreign = known.told.iter().any(|(&index, numbers)| {
      let revisions = known.rows.get(index).into_iter().flat_map(|row| &row.revisions);
      let mut told = revisions.filter(|one| numbers.contains(&one.number));
      told.any(|one| Origin::of_revision(one).is_foreign())
    });
    // Only the values of foreign text are compared.
    let slots = if is_foreign {
      self.trusted_slots(target, &known.before, &view, Some(writing))?
    } else {
      vec![]
    };
    let mut removals = Vec::new();
    for (&index, told) in &known.told {
      let (Some(before), Some(after), Some(block)) =
        (known.before.get(index), known.rows.get_mut(index), view.document.blocks().get(index))
      else {
        continue;
      };
      // A person's decision is final, and does not affect the lines beside that text.
      let numbers: Vec<u32> =
        told.iter().copied().filter(|&number| !after.is_approved(number)).collect();
      let numbers = numbers.as_slice();
      let origin_of = |row: &BlockRow| {
        let revisions = row.revisions.iter().filter(|one| numbers.contains(&one.number));
        let origins = revisions.map(Origin::of_revision);
        let mut worst = origins.min_by_key(|origin| (origin.trust, !origin.observed))?;
        let hash = worst.trail.request;
        worst.request = hash.and_then(|hash| known.requests.get(&hash).cloned());
        Some(worst.with_request(&self.ledger))
      };
      let (Some(was), Some(origin)) = (origin_of(before), origin_of(after)) else { continue };
      let same =
        (was.trust, was.observed, was.party()) == (origin.trust, origin.observed, origin.party());
      if same {
        continue;
      }
      let fresh: Vec<_> = lines_of(after, block, numbers).map(|line| line.span.clone()).collect();
      let allowed = allowed_to(&self.ledger, &origin, self.now())?;
      let brought = brought(after, block, index, numbers, &origin);
      let beside = Beside { origin: &origin, allowed: &allowed, slots: &slots, is_out: false };
      let judgement =
        self.judge_lines(target, (bytes, &view.document), (block, &fresh, &brought), &beside)?;
      self.decisions().note_allowed(&origin, &allowed, &judgement)?;
      known.unread |= judgement.wants_encoder(origin.trust);
      let says = |line: &&crate::memory::Line| line.kind != LineKind::Blank;
      let n_fresh = lines_of(after, block, numbers).filter(says).count();
      let is_whole = n_fresh == block.lines.iter().filter(says).count();
      let is_open = |known: &crate::store::BlockLine| !after.is_approved(known.revision);
      let lines = block.lines.iter().zip(&after.lines);
      let n_open = lines.filter(|(line, known)| says(line) && is_open(known)).count();
      if judgement.decision.leaves() {
        for revision in after.revisions.iter_mut().filter(|one| numbers.contains(&one.number)) {
          // Until the text is taken out, a crash must lead to the question again.
          revision.trail.due = true;
        }
        let lines = block.lines.iter().zip(&after.lines).enumerate();
        let told = lines.filter(|(_, (_, known))| numbers.contains(&known.revision));
        let lines = (!is_whole).then(|| told.map(|(index, _)| index).collect());
        removals.push(Removal { id: after.id.clone(), lines, judgement });
      } else if judgement.decision.verdict != Verdict::Pass {
        rows::judged(after, &judgement, block);
      } else if n_fresh == n_open && after.state == State::Flagged {
        // The only reason for the flag was the unknown source.
        after.clear(State::Validated);
      }
    }
    rows::divide(&mut known.rows);
    Ok(removals)
  }

  /// The judgement on these lines of a block with this origin.
  pub(super) fn judge_lines(
    &self,
    target: &Target,
    (bytes, document): (&[u8], &Document),
    lines: (&Block, &[Range<usize>], &[Option<Brought>]),
    beside: &Beside<'_>,
  ) -> Result<BlockJudgement, EngineError> {
    let path = target.path();
    let version = Version { path: &path, bytes, document };
    let of = (&version, self.treatment(target), self.is_judged_by_model(target));
    Ok(self.judge.lines(&self.ledger, of, lines, beside)?)
  }

  /// Whether a file whose blocks have these rows needs a lazy pass.
  pub(super) fn is_marking_due(
    &mut self,
    target: &Target,
    row: &FileRow,
    bytes: &Arc<Vec<u8>>,
    rows: Vec<BlockRow>,
  ) -> Result<bool, EngineError> {
    if row.note.is_some() || !self.files.may_reshape(&target.root) {
      return Ok(false);
    }
    let View { facts, .. } = self.view_known(target, Some(row), Arc::clone(bytes))?;
    // The new rows take the place of these.
    let facts = FileFacts { rows: vec![], known: vec![], ..facts };
    let view = View::renewed(Arc::clone(bytes), rows, &facts);
    Ok(self.reshape_of(target, &view, &view.facts.rows).0.is_some())
  }

  /// Takes the removals out of the file; `false` if that has to wait.
  pub(super) fn take_out(
    &mut self,
    target: &Target,
    version: ContentHash,
    removals: &[Removal],
  ) -> Result<bool, EngineError> {
    let started = self.clock.monotonic();
    self.recover_file(&target.path())?;
    let writing = self.lock_file(&target.path())?;
    self.files.close(target);
    let Ok(mut file) = self.files.open(target)? else { return Ok(false) };
    if let Touch::ReadOnly(_) = file.access() {
      leave_in_place(&mut self.ledger, target, removals, self.clock.now())?;
      return Ok(true);
    }
    // Waits for a lease as long as a redaction does.
    let leased = lease_within(&mut file, &*self.clock, UNLEASED_AFTER)? == Lease::Held;
    let locked = Locked::new(&writing, leased);
    let stamp = file.stamp()?;
    let bytes = file.read_all()?;
    let is_same = ContentHash::of(&bytes) == version && self.files.is_on_path(target, &file)?;
    let quiet = self.files.since_change(&stamp, Duration::ZERO);
    // The tool that wrote the file may be about to verify it.
    let verifies = quiet < VERIFY_WITHIN
      && !(leased && self.files.was_read(target))
      && self.link.is_on_record(target, version);
    if !is_same || verifies {
      return Ok(false);
    }
    let row = self.ledger.file(&target.path())?;
    let mut view = self.view_known(target, row.as_ref(), bytes)?;
    let whole = apply_removals(&mut view, removals);
    let plan = view.urgent();
    // After this, the rows do not keep the same bytes in the file if they come back, even by a power
    // cut.
    for one in removals.iter().filter(|one| whole.contains(&one.id)) {
      let at = self.now();
      let state = match one.judgement.decision.action {
        Action::Hold => State::Held,
        _ => State::Quarantined,
      };
      self.ledger.decide(&one.id, state, "memfw", at, &[])?;
    }
    let done = self.redact(target, &mut file, locked, &view, &plan.redactions, started)?;
    let is_done = matches!(done, Redacted::Done { .. });
    if let Redacted::Done { edit, .. } = done {
      // The following pass records the new content.
      edit.finish_unrecorded(self, &target.path())?;
    }
    self.has_departed |= is_done;
    drop(file);
    drop(writing);
    // Longer than any wait of a pass, so that this pass does not put the file off.
    let waited = VERIFY_WITHIN.max(UNLEASED_AFTER);
    self.pass(target, &Hint { waited, opened_since_close: true, ..Hint::default() })?;
    Ok(is_done)
  }
}

impl Removal {
  /// The lines to take out, if the block contains other text. The rest keeps its state and its sources.
  fn part(&self, block: &Block) -> Option<&Vec<usize>> {
    let lines = self.judgement.lines.as_ref().or(self.lines.as_ref())?;
    let mut said = block.lines.iter().enumerate().filter(|(_, line)| line.kind != LineKind::Blank);
    said.any(|(index, _)| lines.binary_search(&index).is_err()).then_some(lines)
  }
}

/// Prepares a view for the plan: text to take out becomes fresh with a verdict, and all other text
/// stays. Returns the blocks that are taken out whole.
fn apply_removals(view: &mut View, removals: &[Removal]) -> Vec<BlockId> {
  let mut whole = Vec::new();
  view.judgements.iter_mut().for_each(|judgement| *judgement = None);
  for (index, fate) in view.comparison.fates.iter_mut().enumerate() {
    let Some(known) = fate.known() else { continue };
    let Some(row) = view.facts.rows.get(known) else { continue };
    let Some(one) = removals.iter().find(|one| one.id == row.id) else { continue };
    let part = view.document.blocks().get(index).and_then(|block| one.part(block));
    *fate = match part {
      None => {
        whole.push(one.id.clone());
        Fate::Inserted
      }
      Some(lines) => Fate::Edited { known, fresh: lines.clone() },
    };
    if let Some(judgement) = view.judgements.get_mut(index) {
      *judgement = Some(one.judgement.clone());
    }
  }
  whole
}

/// Flags the removals in a file that may not be written, and clears their questions.
fn leave_in_place(
  ledger: &mut Ledger,
  target: &Target,
  removals: &[Removal],
  at: i64,
) -> Result<(), EngineError> {
  let path = target.path();
  let Some((_, mut rows)) = ledger.provenance(&path)? else { return Ok(()) };
  rows.retain(|row| removals.iter().any(|one| one.id == row.id));
  for row in &mut rows {
    // The records have answered; only the removal is left, for which `LeftInPlace` is the mark.
    row.revisions.iter_mut().for_each(|revision| revision.trail.due = false);
    if let Some(one) = removals.iter().find(|one| one.id == row.id) {
      row.state = State::Flagged;
      row.score = row.score.max(one.judgement.decision.score);
      row.codes.extend(&one.judgement.decision.codes);
      // It is taken out when the file can be written.
      row.codes.push(Code::LeftInPlace);
      row.codes.sort_unstable();
      row.codes.dedup();
    }
  }
  ledger.attribute(&crate::store::AttributionRecord {
    path: &path,
    blocks: &rows,
    items: &[],
    requests: &[],
    done: crate::store::Pending::ATTRIBUTE,
    due: crate::store::Pending::NONE,
    events: &[],
    at,
  })?;
  Ok(())
}
