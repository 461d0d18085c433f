//! Text from before memfw stays unchanged, byte for byte.

use {
  crate::support::{AT_ONCE, Guarded, clean, files_below, id, needle, poison, trees},
  memfw::files::memory_layout::is_memory,
  serde_json::Value,
  std::path::{Path, PathBuf},
};

/// The trees of a directory that hold memory.
pub(crate) fn trees_in(dir: &Path) -> Vec<PathBuf> {
  let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
  let mut trees: Vec<PathBuf> =
    entries.filter(|path| path.is_dir() && !memory_of(path).is_empty()).collect();
  trees.sort();
  trees
}

/// The memory files of a tree.
pub(crate) fn memory_of(tree: &Path) -> Vec<PathBuf> {
  files_below(tree).into_keys().filter(|path| is_memory(path)).collect()
}

/// Guards a tree for a while and fails if a byte of it changed.
pub(crate) fn assert_left_alone(tree: &Path, config: &str) {
  let mut guarded = Guarded::new(config).tree(tree);
  let before = guarded.files();
  guarded.start();
  guarded.settle();
  let status: Value = guarded.json(&["status", "--json"]);
  assert_eq!(status["files"], memory_of(tree).len(), "{}: {status:#}", tree.display());
  guarded.stop();
  for (file, bytes) in guarded.files() {
    assert!(before.get(&file) == Some(&bytes), "{} of {}", file.display(), tree.display());
  }
  assert_eq!(guarded.files().len(), before.len(), "nothing of memfw's lies in the workspace");
}

#[test]
fn memory_trees_are_left_alone() {
  for tree in trees_in(&trees()) {
    assert_left_alone(&tree, AT_ONCE);
    assert_left_alone(&tree, "");
  }
}

#[test]
fn poison_that_was_there_before_is_announced_and_stays() {
  let before = format!("# Memory\n\n{}\n{}\n", clean(1), poison(1));
  for config in [AT_ONCE, ""] {
    let mut guarded = Guarded::new(config).memory("MEMORY.md", &before);
    guarded.start();
    guarded.settle();
    let flagged = guarded.listed("flagged");
    assert_eq!(flagged.len(), 1, "{flagged:#?}");
    assert_eq!(flagged[0]["source"], "baseline");
    assert_eq!(flagged[0]["line"], 4);
    assert_eq!(guarded.waiting(), Vec::<Value>::new());
    for words in [&["status", "--json"][..], &["status", "--json", "--wait", "5"]] {
      let status: Value = guarded.json(words);
      assert_eq!((&status["flagged"], &status["waiting"]), (&1.into(), &0.into()), "{status:#}");
    }
    guarded.stop();
    // A second start knows the file and does not change it either.
    guarded.start();
    guarded.settle();
    guarded.stop();
    assert_eq!(guarded.read("MEMORY.md"), before.as_bytes());
    assert_eq!(guarded.listed("flagged").iter().map(id).collect::<Vec<_>>(), [id(&flagged[0])]);
  }
}

#[test]
fn poison_that_was_there_before_leaves_where_the_configuration_says_so() {
  let before = format!("# Memory\n\n{}\n{}\n", clean(1), poison(1));
  let config = "[baseline]\naction = \"quarantine\"\n";
  let mut guarded = Guarded::new(config).memory("MEMORY.md", before);
  guarded.start();
  guarded.settle();
  assert_eq!(guarded.holding("workspace", &needle(1)), Vec::<PathBuf>::new());
  assert_eq!(guarded.waiting().len(), 1);
  guarded.stop();
}

#[test]
fn a_file_that_appears_after_the_first_scan_is_no_baseline() {
  let mut guarded = Guarded::new("").memory("MEMORY.md", "# Memory\n");
  guarded.start();
  guarded.stop();
  // Written while no daemon ran: judged like any new text at the next start.
  std::fs::create_dir_all(guarded.path("memory")).unwrap();
  std::fs::write(guarded.path("memory/2026-11-22.md"), format!("{}\n", poison(1))).unwrap();
  guarded.start();
  guarded.settle();
  assert_eq!(guarded.holding("workspace", &needle(1)), Vec::<PathBuf>::new());
  assert_eq!(guarded.waiting().len(), 1);
  guarded.stop();
}

#[test]
fn run_once_adopts_then_processes_what_is_pending() {
  let guarded = Guarded::new(AT_ONCE).memory("MEMORY.md", "# Memory\n\n- old\n");
  assert_eq!(guarded.memfw(&["run", "--once"]).status, 0);
  assert_eq!(guarded.read("MEMORY.md"), b"# Memory\n\n- old\n");
  let text = format!("# Memory\n\n- old\n{}\n{}\n", clean(1), poison(1));
  std::fs::write(guarded.path("MEMORY.md"), text).unwrap();
  let settle = guarded.memfw(&["settle"]);
  assert_eq!(settle.status, 2, "without a daemon something pending is an error: {settle:?}");
  assert_eq!(guarded.memfw(&["run", "--once"]).status, 0);
  assert_eq!(guarded.memfw(&["settle"]).status, 0);
  assert_eq!(guarded.holding("workspace", &needle(1)), Vec::<PathBuf>::new());
  assert_eq!(guarded.waiting().len(), 1);
  crate::support::marks::assert_marked(
    &guarded.path("MEMORY.md"),
    &guarded.read("MEMORY.md"),
    &clean(1),
  );
}

#[test]
fn several_workspaces_are_guarded_at_once() {
  let guarded = Guarded::new("").memory("MEMORY.md", "# One\n");
  let other = guarded.tmp().join("other");
  std::fs::create_dir_all(other.join("memory")).unwrap();
  let mut daemon = guarded
    .test()
    .args(["run", "--workspace", "[TMP]/workspace", "--workspace", "[TMP]/other"])
    .start();
  daemon.wait_for_log("started");
  for (n, file) in [(1, guarded.path("MEMORY.md")), (2, other.join("memory/x.md"))] {
    crate::support::Writer::Shell.add(&file, format!("\n{}\n", poison(n)).as_bytes());
  }
  guarded.settle();
  assert_eq!(guarded.waiting().len(), 2);
  assert_eq!(guarded.holding("workspace", &needle(1)), Vec::<PathBuf>::new());
  assert_eq!(guarded.holding("other", &needle(2)), Vec::<PathBuf>::new());
  assert_eq!(daemon.terminate().code(), Some(0));
}

#[test]
fn neighbours_have_ids_that_differ_at_once() {
  let items = (0..60).map(clean).collect::<Vec<_>>().join("\n") + "\n";
  let mut guarded = Guarded::new("").memory("MEMORY.md", &items);
  guarded.start();
  guarded.stop();
  let path = guarded.path("MEMORY.md");
  let found = guarded.json(&["provenance", path.to_str().unwrap(), "--json"]);
  let ids: Vec<&str> = found.as_array().unwrap().iter().map(id).collect();
  assert_eq!(ids.len(), 60);
  // Sequential ids would all share their first digits with the next one.
  assert!(!ids.is_sorted() && !ids.iter().rev().is_sorted(), "{ids:?}");
}
