//! A large file is judged in slices: between two blocks it is asked whether something else is to be done first.
//!
//! What was found in blocks until then is kept by their content, so that the next turn goes on where this one
//! ended, whatever the file is by then.
#![forbid(unsafe_code)]

use std::{
  cell::{Cell, RefCell},
  collections::HashMap,
  path::{Path, PathBuf},
  sync::Arc,
  time::Duration,
};

use super::{Engine, judge::Origin};
use crate::{
  detect::{Finding, model::Assessment},
  files::Fs,
  memory::ContentHash,
  os::Clock,
};

/// How long a file is judged before somebody else may go first.
pub const SLICE: Duration = Duration::from_millis(10);
/// A file of fewer bytes is judged in one go.
pub const LARGE: usize = 64 * 1024;
/// Texts of which it is kept what was found in them; a file has no more blocks.
const MAX_KEPT: usize = 2 * crate::memory::coarse::MAX_BLOCKS;

/// Says whether something else is to be done first.
pub type Interrupt = Arc<dyn Fn() -> bool + Send + Sync>;

/// What was found in texts of one file, as long as it is not done with.
#[derive(Default)]
pub struct Memo {
  path: PathBuf,
  origin: Option<Origin>,
  /// Spans in bytes of the text.
  findings: HashMap<ContentHash, Vec<Finding>>,
  assessed: HashMap<(ContentHash, u32), Option<Assessment>>,
}

/// One turn at a large file.
pub struct Slice<'a> {
  memo: &'a RefCell<Memo>,
  interrupt: Option<&'a Interrupt>,
  clock: &'a dyn Clock,
  until: Cell<Duration>,
  is_cut: Cell<bool>,
}

impl<'a> Slice<'a> {
  /// `began`: when the file was read. As long as it took to get here it is judged in any case, or there were
  /// more reading than judging.
  pub fn new(
    memo: &'a RefCell<Memo>,
    (path, origin): (&Path, &Origin),
    interrupt: Option<&'a Interrupt>,
    clock: &'a dyn Clock,
    began: Duration,
  ) -> Self {
    let mut of = memo.borrow_mut();
    if of.path != path {
      *of = Memo { path: path.to_owned(), ..Memo::default() };
    }
    if of.origin.as_ref() != Some(origin) {
      of.assessed.clear();
      of.origin = Some(origin.clone());
    }
    drop(of);
    let now = clock.monotonic();
    let until = Cell::new(now + SLICE.max(now.saturating_sub(began)));
    Self { memo, interrupt, clock, until, is_cut: Cell::new(false) }
  }

  /// Whether the rest has to wait.
  pub(super) fn is_over(&self) -> bool {
    let Some(interrupt) = self.interrupt else { return false };
    let now = self.clock.monotonic();
    if self.is_cut.get() || now < self.until.get() {
      return self.is_cut.get();
    }
    self.until.set(now + SLICE);
    self.is_cut.set(interrupt());
    self.is_cut.get()
  }

  /// Whether blocks were left out.
  pub(super) fn is_cut(&self) -> bool {
    self.is_cut.get()
  }

  /// What is found in a text, found once.
  pub(super) fn findings(&self, text: &[u8], find: impl FnOnce() -> Vec<Finding>) -> Vec<Finding> {
    let key = ContentHash::of(text);
    if let Some(found) = self.memo.borrow().findings.get(&key) {
      return found.clone();
    }
    let found = find();
    let kept = &mut self.memo.borrow_mut().findings;
    if kept.len() < MAX_KEPT {
      kept.insert(key, found.clone());
    }
    found
  }

  /// What the model thinks of a text, asked once.
  pub(super) fn assessed(
    &self,
    text: &[u8],
    rules: f32,
    ask: impl FnOnce() -> Option<Assessment>,
  ) -> Option<Assessment> {
    let key = (ContentHash::of(text), rules.to_bits());
    if let Some(found) = self.memo.borrow().assessed.get(&key) {
      return found.clone();
    }
    let found = ask();
    let kept = &mut self.memo.borrow_mut().assessed;
    if kept.len() < MAX_KEPT {
      kept.insert(key, found.clone());
    }
    found
  }
}

impl<F: Fs> Engine<F> {
  /// Has this asked while a large file is judged. Where the answer is yes, the file is left as it is
  /// ([`super::EngineError::Preempted`]) and goes on from there the next time.
  pub fn set_interrupt(&mut self, interrupt: Interrupt) {
    self.interrupt = Some(interrupt);
  }

  /// Forgets what was found: the rules are others, or the file is done with.
  pub(super) fn forget_slices(&self) {
    *self.memo.borrow_mut() = Memo::default();
  }
}
