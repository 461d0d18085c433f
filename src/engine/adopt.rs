//! First scans of many files at a time: content from before memfw is read, judged on all processors,
//! and recorded in one transaction.
//!
//! Adoption changes no byte of a file, so no write order is needed (I2). A crash loses one batch at
//! most, and the next start adopts those files. A file that needs more than that (open elsewhere, not
//! writable, known, or with something to take out) is left to [`super::pass`].
#![forbid(unsafe_code)]

use std::{
  num::NonZero,
  path::PathBuf,
  thread::{self, available_parallelism},
};

use super::{
  Engine, EngineError, Outcome, Target,
  record::{Due, block_events},
};
use crate::{
  config::Config,
  detect::{
    BaselineAction, Text,
    model::{self, Context, Depth},
    rules::RuleSet,
  },
  files::{Fs, Stamp},
  judging::{
    blocks::judge_fresh,
    facts::FileFacts,
    judge::Layer2,
    judge_context::JudgeContext,
    origin::Origin,
    slices::LARGE,
    treatment::Treatment,
    view::{COARSE, View},
  },
  memory::{BlockId, ContentHash, Document, Known, MarkerMode, compare},
  os::random,
  store::{ADOPTED_DIGITS, BlockRow, FileStatus, Pending, ScanRecord},
};

/// The most files of one batch. A signal waits for one batch at most.
pub const BATCH: usize = 64;
/// The most bytes of one batch, apart from its last file. All of them are in memory at once, with
/// everything computed from them.
const BATCH_BYTES: usize = 1 << 20;
/// The most threads. With more of them, they would wait for the one that reads and writes.
const MAX_THREADS: usize = 8;

/// A file that was read.
struct Read {
  /// Its index in the list of targets.
  index: usize,
  path: PathBuf,
  /// How its text is treated.
  treatment: Treatment,
  bytes: Vec<u8>,
  stamp: Stamp,
  /// When it was read, at the earliest, in microseconds UTC.
  at: i64,
}

/// The result of judging such a file.
struct Judged {
  view: View,
  rows: Vec<BlockRow>,
}

impl<F: Fs> Engine<F> {
  /// Adopts files of a first scan. The answers belong to the first targets, at least one of them; the
  /// other targets were not examined. `None` is a file for [`Engine::pass`].
  pub fn adopt(&mut self, targets: &[Target]) -> Result<Vec<Option<Outcome>>, EngineError> {
    // An approval applies to a text anywhere, and poison must be taken out: `pass` does both.
    if self.config.baseline_action == BaselineAction::Quarantine || self.ledger.has_exceptions()? {
      return Ok(vec![None; targets.len()]);
    }
    let _writing = self.files.lock()?;
    let (looked, reads) = self.read_quiet(targets)?;
    let mut outcomes: Vec<Option<Outcome>> = vec![None; looked];
    let started = self.clock.monotonic();
    let at = self.now();
    let how = How { config: &self.config, rules: self.judge.rules(), model: self.judge.model() };
    let judged = judge_all(reads, how, at);
    let events: Vec<_> = judged
      .iter()
      .map(|(read, one)| block_events(&read.path, &one.view, &one.rows, true))
      .collect();
    let event_rows: Vec<Vec<_>> =
      events.iter().map(|events| events.iter().map(super::Event::row).collect()).collect();
    let mut scans = Vec::with_capacity(judged.len());
    for ((read, one), events) in judged.iter().zip(&event_rows) {
      let Some(target) = targets.get(read.index) else { continue };
      // Baseline blocks get no markers, so there is nothing to reshape. A change within one tick of
      // the file's clock leaves an equal stamp, so a young file is read again.
      let recheck = !read.stamp.is_settled(read.at) || read.stamp.is_ahead(read.at);
      let due = Due { reshape: false, recheck };
      scans.push(ScanRecord {
        path: &read.path,
        workspace: &target.root,
        stamp: Some(super::stamp_row(&read.stamp)),
        hash: Some(one.view.hash),
        status: FileStatus::Watched,
        note: None,
        blocks: &one.rows,
        adopted: true,
        known: Pending::ALL,
        pending: due.pending() | one.view.reading_due(),
        marker_mode: MarkerMode::None.as_str(),
        unmarked: one.view.document.is_coarse().then_some(COARSE),
        events,
        at,
      });
      if let Some(outcome) = outcomes.get_mut(read.index) {
        *outcome = Some(due.done());
      }
    }
    // One transaction per batch: each commit waits for the disk.
    self.ledger.adopt(&scans)?;
    for (read, one) in &judged {
      if let Some(target) = targets.get(read.index) {
        self.link.note_adopted(&mut self.ledger, target, one.view.hash)?;
      }
    }
    let took_ms = self.clock.monotonic().saturating_sub(started).as_secs_f64() * 1e3;
    // Logged after the commit, so that the log never has more events than the ledger.
    events.iter().flatten().for_each(|event| event.log(Some(took_ms)));
    Ok(outcomes)
  }

  /// Reads the files that can be read without any effect on other programs. Also returns how many
  /// targets were examined.
  fn read_quiet(&mut self, targets: &[Target]) -> Result<(usize, Vec<Read>), EngineError> {
    let rules = self.files.rules();
    for target in targets {
      // Errors of a workspace are reported by `pass`.
      self.files.open_root(&target.root).ok();
    }
    let mut reads = Vec::with_capacity(targets.len());
    let mut bytes = 0;
    for (index, (target, path)) in targets.iter().zip(self.unknown(targets)?).enumerate() {
      if bytes >= BATCH_BYTES {
        return Ok((index, reads));
      }
      let Some(path) = path else { continue };
      let at = self.now();
      if let Some((text, stamp)) = self.files.glance(target, &rules) {
        // A large file is judged in slices that other work can interrupt.
        if self.judge.has_interrupt() && text.len() >= LARGE {
          continue;
        }
        bytes += text.len();
        let treatment = self.treatment(target);
        reads.push(Read { index, path, treatment, bytes: text, stamp, at });
      }
    }
    Ok((targets.len(), reads))
  }

  /// The path of each target that the ledger does not know; `None` for a known one.
  fn unknown(&self, targets: &[Target]) -> Result<Vec<Option<PathBuf>>, EngineError> {
    let view = self.ledger.snapshot()?;
    let path_of = |target: &Target| {
      let path = target.path();
      let known = view.file(&path)?.is_some() || !view.placeholder_ids(&path)?.is_empty();
      Ok((!known).then_some(path))
    };
    targets.iter().map(path_of).collect()
  }
}

/// What is needed to judge.
#[derive(Clone, Copy)]
struct How<'a> {
  config: &'a Config,
  rules: &'a RuleSet,
  model: Layer2,
}

/// Judges files on all processors, and leaves out those that need `pass`.
fn judge_all(reads: Vec<Read>, how: How<'_>, at: i64) -> Vec<(Read, Judged)> {
  let n_threads = available_parallelism().map_or(1, NonZero::get).min(MAX_THREADS);
  let size = reads.len().div_ceil(n_threads).max(1);
  let mut parts: Vec<Vec<Read>> = Vec::new();
  let mut left = reads.into_iter();
  while left.len() > 0 {
    parts.push(left.by_ref().take(size).collect());
  }
  // This thread judges a part itself instead of waiting for the others.
  let own = parts.pop().unwrap_or_default();
  let judge_part = move |part: Vec<Read>| -> Vec<(Read, Judged)> {
    part
      .into_iter()
      .filter_map(|mut read| {
        let judged = judge(std::mem::take(&mut read.bytes), read.treatment, how, at)?;
        Some((read, judged))
      })
      .collect()
  };
  thread::scope(|scope| {
    let others: Vec<_> =
      parts.into_iter().map(|part| scope.spawn(move || judge_part(part))).collect();
    let own = judge_part(own);
    // Files of a failed thread are judged by `pass`.
    let others = others.into_iter().filter_map(|thread| thread.join().ok());
    others.flatten().chain(own).collect()
  })
}

/// Judges a baseline; `None` if something must be taken out, or the system gives no random numbers.
fn judge(
  bytes: Vec<u8>,
  treatment: Treatment,
  How { config, rules, model }: How<'_>,
  at: i64,
) -> Option<Judged> {
  let document = Document::parse(&bytes, &Known::default());
  let comparison = compare(&document, &[]);
  let origin = Origin::seen(config, true, None);
  // The encoder reads notable text later, when all files are guarded.
  let mut assess = |text: &Text<'_>, rules, context: &Context<'_>| {
    Some(model::assess(model?, text, rules, Depth::Heads, context))
  };
  let mut cx = JudgeContext::new(&origin, treatment, config, rules, &mut assess);
  cx.reads_on = true;
  let judgements = judge_fresh(&bytes, &document, &comparison, &mut cx);
  // A redaction needs a lease and a durable seal, which only `pass` takes.
  if judgements.iter().flatten().any(|one| one.decision.leaves()) {
    return None;
  }
  let hash = ContentHash::of(&bytes);
  let facts = FileFacts::default();
  let bytes = bytes.into();
  let view = View { bytes, hash, document, facts, comparison, judgements, origin, is_undo: false };
  let mut ids = Ids::default();
  let rows = view.rows(at, || ids.draw()).ok()?;
  Some(Judged { view, rows })
}

/// Ids that are so long that they need no look-up.
#[derive(Default)]
struct Ids(Vec<[u8; 8]>);

impl Ids {
  fn draw(&mut self) -> Result<BlockId, EngineError> {
    if self.0.is_empty() {
      let random: [u8; 64 * 8] = random::array()?;
      self.0.extend(random.as_chunks::<8>().0);
    }
    let random = self.0.pop().ok_or(EngineError::NoFreeId)?;
    Ok(BlockId::from_random(random, ADOPTED_DIGITS))
  }
}
