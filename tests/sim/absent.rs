//! What goes while memfw runs, and comes back: its ledger, and the workspace.
#![forbid(unsafe_code)]

use std::{
  borrow::Cow,
  path::{Path, PathBuf},
};

use memfw::engine::Target;

use super::{
  control::Control,
  disk::Disk,
  events::Heard,
  fs::{EMPTY, ROOT},
  schedule::Schedule,
  stage::Gone,
  world::World,
};

/// Where a workspace is that was moved away, or whose file system is not mounted.
const ELSEWHERE: &str = "/sim/elsewhere";

/// What of a world is not in its place.
#[derive(Debug, Default)]
pub(crate) struct Absent {
  /// Calls until the ledger goes.
  pub(crate) ledger_in: Option<usize>,
  /// Since when the ledger is away.
  ledger: Option<Since>,
  /// Calls until the workspace goes.
  pub(crate) root_in: Option<usize>,
}

#[derive(Clone, Copy, Debug)]
struct Since {
  /// The engine's call before which it went.
  call: u64,
  /// The last operation that had been begun.
  op: i64,
}

impl Absent {
  /// Whether everything is in its place.
  pub(crate) fn is_nothing(&self, disk: &Disk) -> bool {
    self.ledger.is_none() && disk.is_away.is_none()
  }
}

/// Whether a countdown ends with this call.
fn ends(left: &mut Option<usize>) -> bool {
  let is_last = *left == Some(0);
  *left = left.and_then(|left| left.checked_sub(1));
  is_last
}

impl Disk {
  /// Where the file is that belongs at a path of the workspace.
  pub(crate) fn at<'p>(&self, path: &'p Path) -> Cow<'p, Path> {
    let rel = path.strip_prefix(ROOT).ok().filter(|_| self.is_away.is_some());
    rel.map_or(Cow::Borrowed(path), |rel| Cow::Owned(Path::new(ELSEWHERE).join(rel)))
  }

  /// Whether there is no directory in which this path could be made. Nobody may write into an empty mount point.
  pub(crate) fn refuses(&self, path: &Path) -> bool {
    self.is_away.is_some() && path.starts_with(ROOT)
  }

  fn move_names(&mut self, from: &str, to: &str) {
    let moved =
      |path: &Path| path.strip_prefix(from).map_or(path.to_owned(), |rel| Path::new(to).join(rel));
    for names in [&mut self.names, &mut self.durable_names] {
      *names = std::mem::take(names).into_iter().map(|(path, ino)| (moved(&path), ino)).collect();
    }
    for (path, _) in &mut self.unsynced {
      *path = moved(path);
    }
  }

  /// The workspace goes, as a whole and durably; `empty` leaves a directory in its place.
  fn root_goes(&mut self, empty: bool) {
    self.move_names(ROOT, ELSEWHERE);
    self.is_away = Some(empty);
  }

  fn root_comes_back(&mut self) {
    self.is_away = None;
    self.move_names(ELSEWHERE, ROOT);
  }
}

impl World {
  /// Where the file of a memory file is now.
  pub(crate) fn ino_of(&self, path: &Path) -> Option<usize> {
    self.disk.lookup(&self.disk.at(path))
  }

  /// The content of a memory file, wherever it is now.
  pub(crate) fn content_of(&self, path: &Path) -> Option<&[u8]> {
    self.disk.content(&self.disk.at(path))
  }

  /// Something may go with this call of the engine.
  pub(crate) fn may_go(&mut self) {
    if ends(&mut self.absent.ledger_in) {
      self.ledger_goes();
    }
    if ends(&mut self.absent.root_in) {
      self.root_goes();
    }
  }

  pub(crate) fn ledger_goes(&mut self) {
    if self.absent.ledger.is_some() {
      return;
    }
    let (how, what) = *self.twist.pick(&[
      (Gone::Moved, "ledger moved away"),
      (Gone::Deleted, "ledger deleted"),
      (Gone::Emptied, "ledger replaced by an empty one"),
      (Gone::Other, "ledger replaced by another one"),
      (Gone::Log, "log of the ledger moved away"),
    ]);
    self.note(what);
    if self.control != Control::BlindToPlace {
      self.oracle.stage.take_away(how);
    }
    let op = self.oracle.stage.log.last_op();
    self.absent.ledger = Some(Since { call: self.n_calls, op });
  }

  pub(crate) fn ledger_comes_back(&mut self) {
    self.absent.ledger_in = None;
    if self.absent.ledger.take().is_some() {
      self.oracle.stage.bring_back();
      self.say(|| "the ledger is back".to_owned());
    }
  }

  /// Nothing is overwritten whose bytes are in no ledger that is found later. Only what was begun before the
  /// ledger went, with the same request, may be on its way.
  pub(crate) fn judge_place(&mut self) {
    let Some(since) = self.absent.ledger else { return };
    if since.call <= self.oracle.asked_at || self.oracle.stage.log.last_op() > since.op {
      self.oracle.violation("L1: a memory file is written while the ledger is away");
    }
  }

  pub(crate) fn root_goes(&mut self) {
    if self.disk.is_away.is_none() {
      let empty = self.twist.one_in(2);
      self.note(if empty { "workspace goes; an empty directory stays" } else { "workspace goes" });
      self.disk.root_goes(empty);
    }
  }

  pub(crate) fn root_comes_back(&mut self) {
    self.absent.root_in = None;
    if self.disk.is_away.is_some() {
      self.disk.root_comes_back();
      self.say(|| "the workspace is back".to_owned());
      self.hear(Heard::Rescan);
    }
  }
}

impl Schedule<'_> {
  /// The daemon hears that the workspace went or came.
  pub(super) fn forget_root(&mut self) {
    if let Some(engine) = &mut self.engine {
      engine.files().forget_root(Path::new(ROOT));
    }
  }

  /// The daemon's ledger goes for a while.
  pub(super) fn without_ledger(&mut self, target: &Target) {
    {
      let mut world = self.world.borrow_mut();
      if world.twist.one_in(2) {
        world.ledger_goes();
      } else {
        let calls = world.twist.below(40);
        world.absent.ledger_in = Some(calls);
      }
    }
    for _ in 0..=self.below(4) {
      self.look(target, false);
      self.look(target, true);
    }
    self.world.borrow_mut().ledger_comes_back();
  }

  /// The workspace goes for a while, in which the daemon may end and start again.
  pub(super) fn without_root(&mut self, target: &Target) {
    {
      let mut world = self.world.borrow_mut();
      if world.twist.one_in(2) {
        world.root_goes();
      } else {
        let calls = world.twist.below(40);
        world.absent.root_in = Some(calls);
      }
    }
    if self.one_in(2) {
      self.forget_root();
    }
    for _ in 0..=self.below(3) {
      match self.below(5) {
        0 => {
          let n = self.below(12);
          self.world.borrow_mut().run(n);
        }
        1 => drop(self.look(target, true)),
        2 => {
          let power = self.one_in(3);
          self.kill(power);
        }
        _ => drop(self.look(target, false)),
      }
      self.forget_root();
    }
    self.world.borrow_mut().root_comes_back();
    self.forget_root();
  }
}

/// The place of a path below an empty mount point, where nothing is.
pub(crate) fn in_empty(rel: &Path) -> PathBuf {
  Path::new(EMPTY).join(rel)
}
