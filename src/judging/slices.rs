//! Judges a large file in slices: between two blocks, more urgent work can interrupt the judgement.
//!
//! The findings so far are kept by the content of the blocks, so the next turn continues there, even if
//! the file has changed.
#![forbid(unsafe_code)]

use std::{
  cell::{Cell, RefCell},
  collections::HashMap,
  ops::Range,
  path::{Path, PathBuf},
  sync::Arc,
  time::Duration,
};

use super::origin::Origin;
use crate::{
  detect::{Finding, Text, model::Assessment},
  memory::ContentHash,
  os::Clock,
  store::ScoreKey,
};

/// How long new text of a file is judged before other work may go first.
pub const SLICE: Duration = Duration::from_millis(10);
/// A smaller file, in bytes, is judged at once.
pub const LARGE: usize = 64 * 1024;
/// The most texts whose findings are kept; a file has no more blocks.
const MAX_KEPT: usize = 2 * crate::memory::coarse::MAX_BLOCKS;

/// Decides whether other work must be done first.
pub type Interrupt = Arc<dyn Fn() -> bool + Send + Sync>;

/// The findings in one file, until its judgement is complete.
#[derive(Default)]
pub struct Memo {
  path: PathBuf,
  origin: Option<Origin>,
  /// Spans in bytes of the text.
  findings: HashMap<ContentHash, Vec<Finding>>,
  assessed: HashMap<(ContentHash, u32), Option<Assessment>>,
}

/// The keys by which the encoder's results for the texts of one file are kept, until all of them are known.
///
/// A text must be read for its key, because the words of the owner count only where they ask for what it says.
#[derive(Default)]
pub struct KeyMemo {
  path: PathBuf,
  /// By the text, and by what else decides.
  keys: HashMap<(ContentHash, ContentHash), ScoreKey>,
}

impl KeyMemo {
  /// Continues with a file, or begins with another one.
  pub(super) fn of(&mut self, path: &Path) {
    if self.path != path {
      *self = Self { path: path.to_owned(), keys: HashMap::new() };
    }
  }

  /// The key of a text of this origin, computed once.
  pub fn key(&mut self, text: &[u8], origin: &Origin, turn: &Turn) -> ScoreKey {
    let compute = || ScoreKey::new(text, &origin.context(&Text::new(text), &[]));
    let Some(request) = &origin.request else { return compute() };
    let (request, source) = (request.hash(), origin.source.as_str().as_bytes());
    let origin = [request.0.as_slice(), source, &[u8::from(origin.observed)]];
    let of = (ContentHash::of(text), ContentHash::of_parts(origin));
    *self.keys.entry(of).or_insert_with(|| {
      turn.comes_further();
      compute()
    })
  }
}

/// How long one turn at a large file lasts.
pub struct Turn {
  /// `None` if nothing may go first.
  interrupt: Option<Interrupt>,
  clock: Arc<dyn Clock>,
  began: Duration,
  /// When other work may go first; `None` until there is something new to judge.
  until: Cell<Option<Duration>>,
  is_cut: Cell<bool>,
}

impl Turn {
  /// Creates a turn. `began` is the time when the file was read: new text is judged for at least as long as
  /// it took to reach it, by reading the file and by repeating earlier turns. Otherwise most of the time
  /// would be spent on that, and a turn that takes longer than a slice would make no progress.
  pub(super) const fn new(
    interrupt: Option<Interrupt>,
    clock: Arc<dyn Clock>,
    began: Duration,
  ) -> Self {
    Self { interrupt, clock, began, until: Cell::new(None), is_cut: Cell::new(false) }
  }

  /// Whether the rest must wait.
  pub fn is_over(&self) -> bool {
    let Some(interrupt) = &self.interrupt else { return false };
    let now = self.clock.monotonic();
    if self.is_cut.get() || self.until.get().is_none_or(|until| now < until) {
      return self.is_cut.get();
    }
    self.until.set(Some(now + SLICE));
    self.is_cut.set(interrupt());
    self.is_cut.get()
  }

  /// Notes that something new is judged.
  pub fn comes_further(&self) {
    if self.until.get().is_none() {
      let now = self.clock.monotonic();
      self.until.set(Some(now + SLICE.max(now.saturating_sub(self.began))));
    }
  }
}

/// One turn at the judgement of the new text of a large file.
pub struct Slice<'a> {
  memo: &'a RefCell<Memo>,
  turn: Turn,
}

impl<'a> Slice<'a> {
  /// Creates a slice for this turn.
  pub(super) fn new(memo: &'a RefCell<Memo>, (path, origin): (&Path, &Origin), turn: Turn) -> Self {
    let mut of = memo.borrow_mut();
    if of.path != path {
      *of = Memo { path: path.to_owned(), ..Memo::default() };
    }
    // The model's result depends on the origin, the findings of the rules do not.
    if of.origin.as_ref() != Some(origin) {
      of.assessed.clear();
      of.origin = Some(origin.clone());
    }
    drop(of);
    Self { memo, turn }
  }

  /// Whether the remaining blocks must wait.
  pub(super) fn is_over(&self) -> bool {
    self.turn.is_over()
  }

  /// Whether blocks were left out.
  pub(super) fn is_cut(&self) -> bool {
    self.turn.is_cut.get()
  }

  /// The findings in a text, computed once. The parts of it that come from outside matter, too.
  pub(super) fn findings(
    &self,
    text: &[u8],
    from_outside: &[Range<usize>],
    find: impl FnOnce() -> Vec<Finding>,
  ) -> Vec<Finding> {
    let mut parts = vec![text.to_vec()];
    for part in from_outside {
      parts.extend([part.start.to_be_bytes().to_vec(), part.end.to_be_bytes().to_vec()]);
    }
    let key = ContentHash::of_parts(parts.iter().map(Vec::as_slice));
    if let Some(found) = self.memo.borrow().findings.get(&key) {
      return found.clone();
    }
    self.turn.comes_further();
    let found = find();
    let kept = &mut self.memo.borrow_mut().findings;
    if kept.len() < MAX_KEPT {
      kept.insert(key, found.clone());
    }
    found
  }

  /// The model's assessment of a text, computed once.
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
    self.turn.comes_further();
    let found = ask();
    let kept = &mut self.memo.borrow_mut().assessed;
    if kept.len() < MAX_KEPT {
      kept.insert(key, found.clone());
    }
    found
  }
}

#[cfg(test)]
mod tests {
  use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

  use super::*;
  use crate::provenance::Request;

  /// A clock that goes on by four milliseconds whenever it is read.
  #[derive(Debug, Default)]
  struct Steps(AtomicU64);

  impl Clock for Steps {
    fn now(&self) -> i64 {
      0
    }

    fn monotonic(&self) -> Duration {
      Duration::from_millis(self.0.fetch_add(4, SeqCst))
    }
  }

  /// How many texts are judged in a turn, out of a hundred.
  fn judged(interrupt: Option<Interrupt>) -> usize {
    let turn = Turn::new(interrupt, Arc::new(Steps::default()), Duration::ZERO);
    let goes_on = |_: &usize| {
      let goes_on = !turn.is_over();
      turn.comes_further();
      goes_on
    };
    (0..100).take_while(goes_on).count()
  }

  #[test]
  fn a_key_is_computed_in_one_turn_and_kept_for_the_next() {
    let request = Request::new("Keep the address of the garden.", "");
    let origin = Origin { observed: true, request: Some(request), ..Origin::unknown() };
    let texts: Vec<String> = (0..50).map(|n| format!("Garden {n} is in Elm Street.")).collect();
    let mut memo = KeyMemo::default();
    let mut n_turns = 0;
    let keys = loop {
      n_turns += 1;
      memo.of(Path::new("/w/MEMORY.md"));
      let turn = Turn::new(Some(Arc::new(|| true)), Arc::new(Steps::default()), Duration::ZERO);
      let mut key = |text: &String| {
        let goes_on = !turn.is_over();
        goes_on.then(|| memo.key(text.as_bytes(), &origin, &turn))
      };
      let keys: Vec<ScoreKey> = texts.iter().map_while(&mut key).collect();
      if keys.len() == texts.len() {
        break keys;
      }
    };
    assert!((5..=texts.len()).contains(&n_turns), "{n_turns}");
    for (text, key) in texts.iter().zip(keys) {
      let text = text.as_bytes();
      assert_eq!(key, ScoreKey::new(text, &origin.context(&Text::new(text), &[])));
    }
    memo.of(Path::new("/w/USER.md"));
    assert!(memo.keys.is_empty());
  }

  #[test]
  fn a_turn_ends_after_a_slice_if_other_work_waits() {
    assert_eq!(judged(Some(Arc::new(|| true))), 3);
    assert_eq!(judged(Some(Arc::new(|| false))), 100);
    assert_eq!(judged(None), 100);
  }
}
