//! Tests that each part of the engine works without the others.
#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "the files here are temporary ones of the tests")]

use std::{fs, path::Path, sync::Arc, time::Duration};

use tempfile::TempDir;

use super::{
  Target, agent_link::AgentLink, files::Files, testing::OVERRIDE, testing::Records,
  versions::Versions,
};
use crate::{
  config::Config,
  files::{MemoryFile as _, RealFs},
  harness::{Ahead, ledger_in},
  judging::{
    judge::Judge, origin::Origin, placeholder_cache::PlaceholderCache, read_version::Reader,
    treatment::Treatment,
  },
  memory::ContentHash,
  store::{Access, NewVersion, Writer},
};

/// A day, in microseconds.
const DAY: i64 = 86_400_000_000;

/// A workspace with one file, and memfw's data directory.
fn dirs(text: &str) -> (TempDir, Target) {
  let dir = TempDir::new().unwrap();
  let root = dir.path().canonicalize().unwrap().join("workspace");
  fs::create_dir(&root).unwrap();
  fs::create_dir(dir.path().join("data")).unwrap();
  fs::write(root.join("MEMORY.md"), text).unwrap();
  (dir, Target::new(&root, Path::new("MEMORY.md")))
}

#[test]
fn files_are_opened_and_locked_without_a_ledger() {
  let (dir, target) = dirs("- tea\n");
  let data = dir.path().join("data");
  let clock = Arc::<Ahead>::default();
  let files =
    || Files::new(RealFs::default(), Arc::clone(&clock) as Arc<_>, Arc::default(), data.clone());
  let mut files_of_one = files();
  let file = files_of_one.open(&target).unwrap().unwrap();
  assert_eq!(file.read_all().unwrap(), b"- tea\n");
  assert!(files_of_one.stamp(&target).unwrap().is_some());
  assert_eq!(files_of_one.leased_for(&target), Duration::ZERO);
  let missing = Target::new(&target.root, Path::new("memory/none.md"));
  assert!(files_of_one.open(&missing).unwrap().is_err());
  assert_eq!(files_of_one.stamp(&missing).unwrap(), None);
  // One process at a time edits files.
  let lock = files_of_one.lock().unwrap();
  let read = files().read_under(&target, Some(ContentHash::of(b"- tea\n")), &lock).unwrap();
  assert_eq!(read.as_deref(), Some(&b"- tea\n"[..]));
  let other = files().read_under(&target, Some(ContentHash::of(b"- milk\n")), &lock).unwrap();
  assert_eq!(other, None);
}

#[test]
fn the_agents_records_are_read_without_a_file() {
  let target = Target::new(Path::new("/w"), Path::new("MEMORY.md"));
  let records = Records::default();
  let clock = Arc::<Ahead>::default();
  let link = AgentLink::new(Box::new(records.clone()), clock, Arc::default());
  let (old, new) = (ContentHash::of(b"old"), ContentHash::of(b"new"));
  assert!(!link.is_on_record(&target, old));
  records.book().rows.insert(target.path(), (old, "agent".to_owned()));
  assert!(link.is_on_record(&target, old) && !link.is_on_record(&target, new));
}

#[test]
fn text_is_judged_without_an_engine() {
  let dir = TempDir::new().unwrap();
  let ledger = ledger_in(dir.path(), Access::ReadWrite);
  let config = Arc::new(Config::default());
  let judge = Judge::new(Arc::<Ahead>::default(), config);
  let mut placeholders = PlaceholderCache::default();
  let path = Path::new("/w/MEMORY.md");
  let text = format!("# Memory\n\n- tea\n{OVERRIDE}").into_bytes();
  let reader = Reader { ledger: &ledger, placeholders: &mut placeholders, now: 1 };
  let read = reader.read((path, None), text.into(), true).unwrap();
  let origin = Origin::unknown();
  let file = (path, Treatment::Memory);
  let judged = judge.fresh(&ledger, file, &read, (&origin, None), true, Duration::ZERO).unwrap();
  let leaves: Vec<bool> =
    judged.iter().map(|one| one.as_ref().is_some_and(|one| one.decision.leaves())).collect();
  assert_eq!(leaves, [false, true], "the heading belongs to the first item");
  assert!(!judge.reads_on(), "there is no model");
}

#[test]
fn versions_are_kept_and_pruned_without_an_engine() {
  let (dir, target) = dirs("- tea\n");
  let mut ledger = ledger_in(&dir.path().join("data"), Access::ReadWrite);
  let path = target.path();
  ledger.set_status(&path, &target.root, crate::store::FileStatus::Watched, None).unwrap();
  let versions = Versions::new(Arc::new(Config { version_days: 1, ..Config::default() }));
  for (n, text) in ["- one\n", "- two\n", "- three\n"].into_iter().enumerate() {
    let seen_at = i64::try_from(n).unwrap();
    let new = NewVersion {
      path: &path,
      file_hash: ContentHash::of(text.as_bytes()),
      bytes: text.as_bytes(),
      writer: Writer::Other,
      seen_at,
    };
    // A clock that is years ahead removes nothing here.
    versions.keep(&mut ledger, &new, seen_at + 1000 * DAY).unwrap();
  }
  assert_eq!(ledger.versions(&path).unwrap().len(), 3);
  assert_eq!(versions.prune(&mut ledger, 10).unwrap(), 0);
  assert_eq!(versions.prune(&mut ledger, 2 * DAY).unwrap(), 2, "the newest one stays");
  assert_eq!(ledger.versions(&path).unwrap().len(), 1);
}
