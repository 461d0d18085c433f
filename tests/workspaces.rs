//! The promises of `guard` and `writers` in short form, on all memory trees of a directory that the
//! environment names. Trees that are too large to come with the sources are tested so.

use {
  crate::{
    guard::{assert_left_alone, memory_of, trees_in},
    support::{AT_ONCE, Guarded, Writer, marks},
    writers::assert_guarded,
  },
  std::{
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
  },
};

/// The variable with the directory.
const DIRECTORY: &str = "MEMFW_WORKSPACES";
/// Trees at a time: each has one daemon.
const ABREAST: usize = 2;

#[test]
fn all_trees_of_a_directory_are_guarded() {
  let Some(dir) = std::env::var_os(DIRECTORY) else {
    println!("skipped: {DIRECTORY} names no directory with memory trees");
    return;
  };
  let trees = trees_in(Path::new(&dir));
  assert!(!trees.is_empty(), "no memory trees in {}", Path::new(&dir).display());
  let next = AtomicUsize::new(0);
  let work = || {
    while let Some(tree) = trees.get(next.fetch_add(1, Ordering::Relaxed)) {
      assert_guarded_whole(tree);
    }
  };
  thread::scope(|scope| {
    for _ in 0..ABREAST {
      scope.spawn(work);
    }
  });
}

/// Checks that a tree is not changed at first, and then guarded under each writer.
fn assert_guarded_whole(tree: &Path) {
  println!("{}", tree.display());
  assert_left_alone(tree, AT_ONCE);
  assert_left_alone(tree, "");
  let mut guarded = Guarded::new(AT_ONCE).tree(tree);
  let (files, before) = (memory_of(tree), guarded.files());
  guarded.start();
  for (n, writer) in Writer::ALL.into_iter().enumerate() {
    // Spread over the tree, because its files end in many ways.
    let file = &files[n * files.len() / Writer::ALL.len()];
    assert_guarded(&guarded, file, writer, n);
  }
  guarded.stop();
  for (file, bytes) in guarded.files() {
    let original = before.get(&file).expect("a file of memfw's lies in the workspace");
    assert!(marks::strip(&bytes).starts_with(original), "{}", file.display());
  }
}
