//! Names whose target changes from one moment to the next, faster than a program can check twice.

use {
  super::{OUTSIDE, assert_guards, make, spy::Spy, world},
  crate::support::{Guarded, clean, eventually, marks, needle, poison},
  rustix::fs::{CWD, FileType, RenameFlags, renameat_with},
  std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
  },
};

/// Swaps that each loop makes at least.
const SWAPS: usize = 3_000;
/// Blocks of poison that are taken out of a file beside it meanwhile.
const ROUNDS: usize = 3;
/// The first poison of new directories.
const NEW: usize = 500;

/// Exchanges two names as fast as possible while poison beside them is taken out.
fn while_swapping(guarded: &Guarded, one: &Path, other: &Path) {
  let stop = AtomicBool::new(false);
  let swaps = AtomicUsize::new(0);
  std::thread::scope(|scope| {
    scope.spawn(|| {
      while !stop.load(Ordering::SeqCst) || swaps.load(Ordering::SeqCst) < SWAPS {
        renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).unwrap();
        swaps.fetch_add(1, Ordering::SeqCst);
      }
    });
    // Ended even if an assertion fails, or the scope would wait for ever.
    let _stop = OnDrop(&stop);
    for n in 0..ROUNDS {
      assert_beside(guarded, n);
      assert_in_new_directory(guarded, n);
    }
  });
  println!("{} swaps", swaps.load(Ordering::SeqCst));
}

struct OnDrop<'a>(&'a AtomicBool);

impl Drop for OnDrop<'_> {
  fn drop(&mut self) {
    self.0.store(true, Ordering::SeqCst);
  }
}

/// Without `settle`: names that are swapped all the time never settle.
fn assert_beside(guarded: &Guarded, n: usize) {
  let text = format!("{}\n{}\n", clean(n), poison(n));
  crate::support::Writer::Shell.add(&guarded.path("MEMORY.md"), text.as_bytes());
  eventually("the poison beside it leaves", || {
    marks::find(&guarded.read("MEMORY.md"), needle(n).as_bytes()).is_none()
  });
}

/// A directory that appears meanwhile is guarded.
fn assert_in_new_directory(guarded: &Guarded, n: usize) {
  let dir = guarded.path(format!("memory/new-{n}"));
  fs::create_dir(&dir).unwrap();
  let file = dir.join("a.md");
  fs::write(&file, "# New\n").unwrap();
  let text = format!("{}\n", poison(NEW + n));
  crate::support::Writer::Shell.add(&file, text.as_bytes());
  eventually("the poison in a new directory leaves", || {
    marks::find(&fs::read(&file).unwrap(), needle(NEW + n).as_bytes()).is_none()
  });
}

#[test]
fn a_file_and_a_link_that_are_swapped_lead_nowhere() {
  let (mut guarded, outside) = world();
  let secret = outside.join("secret.md");
  let (file, link) = (guarded.path("memory/swap.md"), guarded.path("memory/.swap"));
  fs::write(&file, "# Swap\n").unwrap();
  symlink(&secret, &link).unwrap();
  let mut spy = Spy::new();
  spy.watch(&secret);
  guarded.start();
  while_swapping(&guarded, &file, &link);
  assert_guards(&guarded, ROUNDS);
  assert_eq!(spy.seen(), Vec::<String>::new(), "the link was followed");
  assert_eq!(guarded.waiting().len(), 2 * ROUNDS + 1);
  guarded.stop();
}

#[test]
fn a_directory_and_a_link_that_are_swapped_lead_nowhere() {
  let (mut guarded, outside) = world();
  let (dir, link) = (guarded.path("memory/sub"), guarded.path("memory/.sub"));
  fs::create_dir(&dir).unwrap();
  // Equal names inside and outside, so that a walk that left the workspace would find them.
  fs::write(dir.join("secret.md"), "# Sub\n").unwrap();
  symlink(&outside, &link).unwrap();
  let mut spy = Spy::new();
  spy.watch(&outside.join("secret.md"));
  guarded.start();
  while_swapping(&guarded, &dir, &link);
  assert_guards(&guarded, ROUNDS);
  assert_eq!(spy.seen(), Vec::<String>::new(), "the link was followed");
  assert_eq!(fs::read_dir(&outside).unwrap().count(), 2);
  assert_eq!(guarded.waiting().len(), 2 * ROUNDS + 1);
  guarded.stop();
}

#[test]
fn a_file_and_a_pipe_that_are_swapped_stop_nothing() {
  let (mut guarded, _) = world();
  let (file, pipe) = (guarded.path("memory/swap.md"), guarded.path("memory/.swap"));
  fs::write(&file, "# Swap\n").unwrap();
  assert!(make(&pipe, FileType::Fifo));
  let mut spy = Spy::new();
  spy.watch(&pipe);
  guarded.start();
  while_swapping(&guarded, &file, &pipe);
  assert_guards(&guarded, ROUNDS);
  assert_eq!(spy.seen(), Vec::<String>::new(), "the pipe was opened");
  guarded.stop();
}

#[test]
fn two_files_that_are_swapped_stay_apart() {
  let (mut guarded, _) = world();
  let (one, other) = (guarded.path("memory/one.md"), guarded.path("memory/other.md"));
  guarded.start();
  fs::write(&one, format!("# One\n\n{}\n", poison(100))).unwrap();
  fs::write(&other, format!("# Other\n\n{}\n", clean(100))).unwrap();
  while_swapping(&guarded, &one, &other);
  guarded.settle();
  let both = [fs::read(&one).unwrap(), fs::read(&other).unwrap()].concat();
  assert_eq!(marks::count(&both, clean(100).as_bytes()), 1, "{}", marks::show(&both));
  assert_eq!(marks::count(&both, needle(100).as_bytes()), 0, "{}", marks::show(&both));
  guarded.stop();
}

#[test]
fn a_directory_that_becomes_a_link_between_two_events_is_reported() {
  let (mut guarded, outside) = world();
  guarded = guarded.memory("memory/sub/secret.md", "# Sub\n");
  let sub = guarded.path("memory/sub");
  let mut spy = Spy::new();
  spy.watch(&outside.join("secret.md"));
  guarded.start();
  guarded.settle();
  fs::rename(&sub, guarded.tmp().join("home/moved")).unwrap();
  symlink(&outside, &sub).unwrap();
  assert_guards(&guarded, 1);
  super::assert_reported(&guarded, "memory/sub", "symbolic link");
  // A directory that was moved out of the workspace is not guarded there.
  let moved = guarded.tmp().join("home/moved/secret.md");
  fs::write(&moved, format!("{}\n", poison(OUTSIDE))).unwrap();
  assert_guards(&guarded, 2);
  assert_eq!(fs::read(&moved).unwrap(), format!("{}\n", poison(OUTSIDE)).as_bytes());
  // Moved back, it is guarded again.
  fs::remove_file(&sub).unwrap();
  fs::rename(guarded.tmp().join("home/moved"), &sub).unwrap();
  eventually("poison that came in with it leaves", || {
    guarded.holding("workspace", &needle(OUTSIDE)).is_empty()
  });
  assert_eq!(spy.seen(), Vec::<String>::new());
  assert_eq!(
    fs::read(outside.join("secret.md")).unwrap(),
    format!("{}\n", poison(OUTSIDE)).as_bytes()
  );
  guarded.stop();
}

#[test]
fn the_memory_directory_becomes_a_link_and_a_directory_again() {
  let (mut guarded, outside) = world();
  let memory = guarded.path("memory");
  let mut spy = Spy::new();
  spy.watch(&outside.join("secret.md"));
  guarded.start();
  guarded.settle();
  let kept = guarded.path("kept");
  fs::rename(&memory, &kept).unwrap();
  symlink(&outside, &memory).unwrap();
  assert_beside(&guarded, 1);
  super::assert_reported(&guarded, "memory", "symbolic link");
  fs::remove_file(&memory).unwrap();
  fs::rename(&kept, &memory).unwrap();
  assert_guards(&guarded, 2);
  let status = guarded.memfw(&["status"]);
  assert_eq!(status.status, 0, "{status:?}");
  assert_eq!(spy.seen(), Vec::<String>::new());
  guarded.stop();
}
