//! Tests of edits of real files, with a file system that fails on request.
#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "the files here are temporary ones of the tests")]

use std::{
  fs::{self, File},
  path::{Path, PathBuf},
  sync::Arc,
};

use tempfile::TempDir;

use super::*;
use crate::{
  config::{Config, Markers},
  engine::{
    Hint, LazyOutcome, Outcome,
    faulty_fs::{Faults, FaultyFs},
    recover::PATIENCE,
    review::Approval,
    testing::{OVERRIDE, Records},
  },
  files::{
    RealFs,
    rewrite::{Recovery, recover_reshape},
  },
  harness::{Ahead, Harness, ledger_in},
  provenance::State,
  store::{
    Access, EventFilter, EventKind, Item, ItemFilter, Ledger, NewOp, OpKind, Pending, StateKey,
  },
};

const EIO: i32 = 5;
const ENOSPC: i32 = 28;

struct World {
  engine: Engine<FaultyFs>,
  target: Target,
  faults: Faults,
  clock: Arc<Ahead>,
  dir: TempDir,
}

impl World {
  /// A workspace with one file from before memfw.
  fn new(text: &str) -> Self {
    let dir = TempDir::new().unwrap();
    let root = dir.path().canonicalize().unwrap().join("workspace");
    let data = dir.path().join("data");
    fs::create_dir(&root).unwrap();
    fs::create_dir(&data).unwrap();
    let (faults, clock) = (Faults::default(), Arc::<Ahead>::default());
    let fs = FaultyFs(RealFs::default(), faults.clone());
    let engine = Harness::new(fs, &data)
      .clock(Arc::clone(&clock) as Arc<_>)
      .config(Config { markers: Markers::Wrap, ..Config::default() })
      .agent(Box::new(Records::default()))
      .engine();
    let target = Target::new(&root, Path::new("MEMORY.md"));
    let mut this = Self { engine, target, faults, clock, dir };
    this.write(text);
    let hint = Hint { waited: Duration::from_secs(1), adopting: true, ..Hint::default() };
    this.engine.pass(&this.target, &hint).unwrap();
    this.clock.advance(Duration::from_secs(1));
    this
  }

  fn path(&self) -> PathBuf {
    self.target.path()
  }

  fn write(&self, text: impl AsRef<[u8]>) {
    fs::write(self.path(), text).unwrap();
  }

  fn read(&self) -> String {
    fs::read_to_string(self.path()).unwrap()
  }

  fn try_pass(&mut self) -> Result<Outcome, EngineError> {
    let hint = Hint { waited: Duration::from_secs(1), opened_since_close: true, ..Hint::default() };
    self.engine.pass(&self.target, &hint)
  }

  /// Scans the file until it is done.
  fn pass(&mut self) -> Outcome {
    for _ in 0..100 {
      match self.try_pass().unwrap() {
        Outcome::Busy | Outcome::Changed | Outcome::HoldOff(_) => {
          self.clock.pause(Duration::from_millis(1));
        }
        outcome => return outcome,
      }
    }
    panic!("the file is never done")
  }

  /// Does what the daemon does for an idle file, until there is nothing left to do.
  fn settle(&mut self) {
    for _ in 0..10 {
      self.clock.advance(Duration::from_secs(1));
      self.pass();
      self.engine.attribute(&self.target, Duration::ZERO).unwrap();
      let done = self.engine.write_due(&self.target, Duration::ZERO).unwrap();
      let row = self.engine.ledger().file(&self.path()).unwrap().unwrap();
      let is_due =
        row.pending.contains(Pending::RESHAPE) || row.pending.contains(Pending::ATTRIBUTE);
      if done == LazyOutcome::Done && !is_due {
        return;
      }
    }
    panic!("it never settles: {}", self.read())
  }

  /// Creates the state after a crash in a replacement of one text by another: the journal, and a part
  /// of the new text.
  fn tear(&mut self, before: &str, after: &str, cut: usize) {
    let path = self.path();
    Self::tear_in(self.engine.ledger_mut(), &path, (before, after), cut);
  }

  fn tear_in(ledger: &mut Ledger, path: &Path, (before, after): (&str, &str), cut: usize) {
    let op = NewOp {
      kind: OpKind::Reshape,
      path,
      dev: 0,
      ino: 0,
      offset: 0,
      before: before.as_bytes(),
      after: after.as_bytes(),
    };
    ledger.begin(&op, 1).unwrap();
    let torn = [&after.as_bytes()[..cut], &before.as_bytes()[cut..]].concat();
    let found = recover_reshape(&torn, before.as_bytes(), after.as_bytes());
    assert_eq!(found, Recovery::Rewrite(after.as_bytes().to_vec()), "the text is torn");
    fs::write(path, torn).unwrap();
  }

  /// A person takes out the block with this line.
  fn quarantine(&mut self, line: &str) {
    let number = self.read().lines().position(|one| one == line).unwrap() + 1;
    self.engine.quarantine_line(&self.target, number, "ann", None).unwrap();
  }

  fn is_waiting(&mut self) -> bool {
    matches!(self.try_pass(), Err(EngineError::Interrupted { .. }))
  }

  fn items(&self) -> Vec<Item> {
    let items = self.engine.ledger().items(&ItemFilter::default()).unwrap();
    items.into_iter().filter(|item| !item.in_file).collect()
  }

  fn text_of(&self, item: &Item) -> String {
    String::from_utf8(self.engine.ledger().unseal(&item.id).unwrap().to_vec()).unwrap()
  }
}

/// A text of more than two pages, and the same text with more lines near the beginning.
fn texts() -> (String, String) {
  let facts: Vec<String> =
    (0..200).map(|n| format!("- old fact number {n} about something\n")).collect();
  let facts = facts.concat();
  let before = format!("# Memory\n\n- tea\n{facts}");
  let after = before.replace("- tea\n", "- tea\n<!-- a comment of some length -->\n- one\n- two\n");
  (before, after)
}

fn torn() -> (World, String) {
  let (before, after) = texts();
  let mut world = World::new(&before);
  world.tear(&before, &after, 4096);
  (world, after)
}

#[test]
fn a_file_on_which_another_program_keeps_a_lease_is_reported() {
  let mut world = World::new("# Memory\n");
  let degraded = |world: &World| {
    let states = world.engine.ledger().states().unwrap();
    states.iter().any(|(key, why, _)| {
      matches!(key, StateKey::Degraded(_)) && why.contains("another program has a lease on it")
    })
  };
  world.write(format!("# Memory\n\n{OVERRIDE}"));
  world.faults.0.lock().unwrap().is_leased = true;
  assert_eq!(world.try_pass().unwrap(), Outcome::Changed);
  assert!(!degraded(&world), "it may be there for a moment");
  world.clock.advance(Duration::from_secs(11));
  assert_eq!(world.try_pass().unwrap(), Outcome::Changed);
  assert!(degraded(&world));
  world.faults.0.lock().unwrap().is_leased = false;
  world.pass();
  assert!(!world.read().contains(OVERRIDE));
  assert_eq!(world.engine.files.leased_for(&world.target), Duration::ZERO);
}

#[test]
fn an_edit_that_dies_while_a_pass_waits_for_the_lock_is_completed_first() {
  let (before, after) = texts();
  let mut world = World::new(&before);
  // Otherwise the stamp of the file is the one that the ledger knows.
  world.write(&before);
  let (path, data) = (world.path(), world.dir.path().join("data"));
  let texts = (before, after.clone());
  let dies = move || {
    let mut ledger = ledger_in(&data, Access::ReadWrite);
    World::tear_in(&mut ledger, &path, (&texts.0, &texts.1), 4096);
  };
  world.faults.0.lock().unwrap().after_stamp = Some(Box::new(dies));
  world.pass();
  assert_eq!(world.read(), after);
  assert!(world.items().is_empty(), "no text was taken for somebody else's");
  let recovered = EventFilter { event: Some(EventKind::Recovered), ..EventFilter::default() };
  let said = world.engine.ledger().events(&recovered).unwrap().remove(0).detail;
  assert_eq!(said, "torn; completed");
}

#[test]
fn a_torn_edit_waits_while_its_file_is_away() {
  let (mut world, after) = torn();
  let (path, away) = (world.path(), world.path().with_extension("away"));
  fs::rename(&path, &away).unwrap();
  world.engine.recover().unwrap();
  assert!(world.is_waiting());
  fs::rename(&away, &path).unwrap();
  world.pass();
  assert_eq!(world.read(), after);
  assert!(!world.engine.ledger().has_open_ops().unwrap());
  assert!(world.items().is_empty());
}

#[test]
fn a_torn_edit_waits_while_its_workspace_is_away() {
  let (mut world, after) = torn();
  let away = world.target.root.with_extension("away");
  fs::rename(&world.target.root, &away).unwrap();
  let root = world.target.root.clone();
  world.engine.files().forget_root(&root);
  world.engine.recover().unwrap();
  world.clock.advance(Duration::from_mins(1));
  assert!(matches!(world.try_pass(), Err(EngineError::Root(_))));
  fs::rename(&away, &world.target.root).unwrap();
  world.pass();
  assert_eq!(world.read(), after);
}

#[test]
fn a_torn_edit_waits_while_its_file_is_linked_or_open_elsewhere() {
  let (mut world, after) = torn();
  let link = world.target.root.join("link");
  fs::hard_link(world.path(), &link).unwrap();
  assert!(world.is_waiting());
  fs::remove_file(&link).unwrap();
  world.pass();
  assert_eq!(world.read(), after);

  let (mut world, after) = torn();
  let reader = File::open(world.path()).unwrap();
  assert!(world.is_waiting());
  assert!(world.is_waiting());
  drop(reader);
  world.pass();
  assert_eq!(world.read(), after);
  assert!(world.items().is_empty());
}

#[test]
fn what_only_the_journal_holds_becomes_an_item_when_its_file_stays_away() {
  let (mut world, _) = torn();
  fs::remove_file(world.path()).unwrap();
  assert!(world.is_waiting());
  world.clock.advance(PATIENCE);
  assert_eq!(world.try_pass().unwrap(), Outcome::Gone);
  assert!(!world.engine.ledger().has_open_ops().unwrap());
  let items = world.items();
  let [item] = items.as_slice() else { panic!("{items:?}") };
  let text = world.text_of(item);
  assert!(text.contains("- tea\n") && text.contains("- old fact number 199 "), "{text}");
}

#[test]
fn a_torn_edit_of_a_file_that_stays_open_elsewhere_keeps_what_is_gone_from_it() {
  let (mut world, _) = torn();
  let (torn, (before, _)) = (world.read(), texts());
  let reader = File::open(world.path()).unwrap();
  let mut n = 0;
  while world.is_waiting() {
    world.clock.advance(Duration::from_secs(1));
    n += 1;
    assert!(n <= 11, "it waits without end");
  }
  drop(reader);
  assert!(n > 5, "it gave up at once");
  let kept: String = world.items().iter().map(|item| world.text_of(item)).collect();
  let gone = before.lines().filter(|line| !torn.lines().any(|one| one == *line));
  for line in gone {
    assert!(kept.contains(line), "`{line}` is nowhere: {kept}");
  }
  let filter = EventFilter { event: Some(EventKind::Recovered), ..EventFilter::default() };
  let events = world.engine.ledger().events(&filter).unwrap();
  let said: Vec<&str> = events.iter().map(|event| event.detail.as_str()).collect();
  assert!(said.len() == 1 && said[0].contains("half changed"), "{said:?}");
}

#[test]
fn after_an_error_nobody_waits_for_a_descriptor_of_memfw() {
  let mut world = World::new("# Memory\n\n- tea\n");
  world.write(format!("# Memory\n\n- tea\n\n{OVERRIDE}"));
  world.faults.fail("write", EIO, 1);
  assert!(matches!(world.try_pass(), Err(EngineError::Fs(FsError::Io { .. }))));
  world.pass();
  assert!(!world.read().contains(OVERRIDE));
  assert_eq!(world.faults.0.lock().unwrap().n_refused, 0, "our own descriptor was in the way");
}

#[test]
fn what_could_not_be_made_durable_is_written_again() {
  let mut world = World::new("# Memory\n\n- tea\n");
  world.write(format!("# Memory\n\n- tea\n\n{OVERRIDE}"));
  world.faults.fail("sync", EIO, 1);
  assert!(world.try_pass().is_err());
  assert!(!world.read().contains(OVERRIDE), "it is not to be read");
  assert!(world.engine.ledger().has_open_ops().unwrap(), "and it is not forgotten");
  let n_writes = world.faults.0.lock().unwrap().n_writes;
  world.pass();
  assert!(world.faults.0.lock().unwrap().n_writes > n_writes, "it was synced and not written");
  assert!(!world.engine.ledger().has_open_ops().unwrap());
}

#[test]
fn a_version_is_recorded_only_when_it_is_durable() {
  let mut world = World::new("# Memory\n\n- tea\n");
  world.write(format!("# Memory\n\n- tea\n\n{} and more\n\n- after\n", OVERRIDE.trim_end()));
  world.pass();
  let hash = |world: &World| world.engine.ledger().file(&world.path()).unwrap().unwrap().hash;
  let (before, text) = (hash(&world), world.read());
  world.clock.advance(Duration::from_secs(1));
  world.pass();
  world.engine.attribute(&world.target, Duration::ZERO).unwrap();
  world.faults.fail("sync", EIO, 1);
  assert!(world.engine.write_due(&world.target, Duration::ZERO).is_err());
  assert_ne!(world.read(), text, "markers are written");
  assert_eq!(hash(&world), before, "and not recorded");
  world.settle();
  assert_ne!(hash(&world), before);
}

#[test]
fn a_restore_is_out_of_the_journal_before_text_is_taken_out_of_the_version() {
  let mut world = World::new("# Memory\n\n- tea\n");
  let secret = "The code of the garage is kept under the flower pot.";
  world.write(format!("# Memory\n\n- tea\n\n{secret}\n\n- after\n"));
  world.settle();
  let versions = world.engine.ledger().versions(&world.path()).unwrap();
  let version = versions.first().unwrap().hash;
  world.quarantine(secret);
  world.settle();
  // The version is written, and the redaction in it fails.
  world.faults.fail_after(1, "write", EIO);
  world.engine.restore(&world.target, version, "ann").unwrap_err();
  let kinds: Vec<OpKind> =
    world.engine.ledger().open_ops().unwrap().iter().map(|op| op.kind).collect();
  // After a power cut, both images of a restore would differ from a file in which something was redacted.
  assert_eq!(kinds, [OpKind::Redact]);
  world.settle();
  let text = world.read();
  assert!(!text.contains(secret) && text.matches("- after").count() == 1, "{text}");
}

#[test]
fn a_redaction_by_hand_is_recorded_even_if_the_stamp_does_not_show_it() {
  let mut world = World::new("# Memory\n\n- tea\n");
  let secret = "The code of the garage is kept under the flower pot.";
  world.write(format!("# Memory\n\n- tea\n\n{secret}\n"));
  world.settle();
  // File times in steps of two seconds, and a clock that was set back.
  let stamp = world.engine.files.stamp(&world.target).unwrap();
  assert!(stamp.is_some());
  world.faults.0.lock().unwrap().stamp = stamp;
  world.quarantine(secret);
  let row = world.engine.ledger().file(&world.path()).unwrap().unwrap();
  assert_eq!(row.hash, Some(ContentHash::of(world.read().as_bytes())));
  assert!(row.pending.contains(Pending::RESHAPE), "the placeholder is to be compacted");
}

#[test]
fn a_change_whose_stamp_came_before_the_clock_was_set_back_is_seen() {
  let mut world = World::new("# Memory\n\n- tea\n");
  let hour = Duration::from_hours(1);
  world.clock.advance_wall(hour);
  world.settle();
  let stamp = world.engine.files.stamp(&world.target).unwrap().unwrap();
  // File times of whole seconds.
  let ns = (world.engine.now() / 1_000_000 - 10) * 1_000_000_000;
  let stamp = Stamp { mtime_ns: ns, ctime_ns: ns, ..stamp };
  world.faults.0.lock().unwrap().stamp = Some(stamp);
  world.settle();
  assert_eq!(world.pass(), Outcome::Unchanged { reshape_due: false, recheck: false });
  world.clock.set_back(Duration::from_secs(10));
  world.write("# Memory\n\n- cat\n");
  assert!(matches!(world.pass(), Outcome::Done { .. }));
  let row = world.engine.ledger().file(&world.path()).unwrap().unwrap();
  assert_eq!(row.hash, Some(ContentHash::of(b"# Memory\n\n- cat\n")));
}

#[test]
fn approved_text_comes_back_by_itself_when_there_is_room_again() {
  let mut world = World::new("# Memory\n\n- tea\n");
  let poison = format!("{} {}\n", OVERRIDE.trim_end(), "and so on ".repeat(20));
  world.write(format!("# Memory\n\n- tea\n\n{poison}\n- after\n"));
  world.settle();
  assert!(!world.read().contains(&poison));
  let id = world.items().remove(0).id.to_string();
  world.faults.fail("write", ENOSPC, 1);
  let approval = Approval { by: "ann", reason: None, until: None, at_end: false };
  let error = world.engine.approve_as(&id, approval).unwrap_err().to_string();
  assert!(error.contains("No space left on device"), "{error}");
  assert!(!world.read().contains(&poison));
  assert_eq!(world.engine.ledger().awaited_items().unwrap(), 1);
  // Long after the time for which an approved placeholder is usually watched.
  world.clock.advance(Duration::from_hours(1));
  world.settle();
  assert_eq!(world.read().matches(&poison).count(), 1, "{}", world.read());
  assert_eq!(world.engine.ledger().awaited_items().unwrap(), 0);
}

#[test]
fn approved_text_comes_back_again_however_long_memfw_was_down() {
  let mut world = World::new("# Memory\n\n- tea\n");
  world.write(format!("# Memory\n\n- tea\n\n{OVERRIDE}\n- after\n"));
  world.settle();
  let (older, id) = (world.read(), world.items().remove(0).id.to_string());
  let approval = Approval { by: "ann", reason: None, until: None, at_end: false };
  world.engine.approve_as(&id, approval).unwrap();
  assert!(world.read().contains(OVERRIDE));
  // A program saves an older version, and what brings the text back again is interrupted before its write.
  world.write(&older);
  world.pass();
  world.faults.fail("write", EIO, 1);
  world.engine.write_due(&world.target, Duration::ZERO).unwrap_err();
  assert_eq!(world.engine.ledger().awaited_items().unwrap(), 1, "`status` shows it meanwhile");
  world.clock.advance_wall(Duration::from_hours(1));
  world.settle();
  assert!(world.read().contains(OVERRIDE), "{}", world.read());
  assert_eq!(world.engine.ledger().awaited_items().unwrap(), 0);
}

#[test]
fn an_undo_that_finds_no_room_leaves_its_text_out() {
  let mut world = World::new("# Memory\n\n- tea\n");
  let secret =
    format!("The code of the garage is kept under the flower pot{}.", " and so on".repeat(20));
  world.write(format!("# Memory\n\n- tea\n\n{secret}\n\n- after\n"));
  world.settle();
  world.quarantine(&secret);
  world.settle();
  let id = world.items().remove(0).id;
  world.faults.fail("write", ENOSPC, 1);
  world.engine.undo(Some(id.as_str()), "ann", None).unwrap_err();
  assert_eq!(world.engine.ledger().item(id.as_str()).unwrap().status, State::Quarantined);
  assert_eq!(world.engine.ledger().exceptions().unwrap(), [], "nothing is approved");
  world.settle();
  assert!(!world.read().contains(&secret), "nobody restores it later: {}", world.read());
  world.engine.undo(Some(id.as_str()), "ann", None).unwrap();
  assert_eq!(world.read().matches(&secret).count(), 1, "{}", world.read());
}

#[test]
fn an_approval_that_dies_before_its_decision_brings_nothing_back() {
  let mut world = World::new("# Memory\n\n- tea\n");
  world.write(format!("# Memory\n\n- tea\n\n{OVERRIDE}"));
  world.pass();
  let item = world.items().remove(0);
  let (text, path) = (world.read(), world.path());
  let offset = text.len() - OVERRIDE.len();
  // As a program leaves it that is killed between its journal and its decision.
  let op = NewOp {
    kind: OpKind::Restore,
    path: &path,
    dev: 0,
    ino: 0,
    offset: offset as u64,
    before: &text.as_bytes()[offset..],
    after: OVERRIDE.as_bytes(),
  };
  world.engine.ledger_mut().begin(&op, 1).unwrap();
  assert_eq!(world.engine.recover().unwrap(), 1);
  assert_eq!(world.read(), text);
  world.engine.approve(item.id.as_str(), "ann", None).unwrap();
  world.settle();
  assert_eq!(world.read().matches(OVERRIDE).count(), 1, "{}", world.read());
}

#[test]
fn a_later_decision_about_the_same_file_brings_approved_text_back_as_well() {
  let mut world = World::new("# Memory\n\n- tea\n");
  let second = OVERRIDE.replace("keys", "passwords");
  world.write(format!("# Memory\n\n{OVERRIDE}\n- tea\n\n{second}\n- after\n"));
  world.settle();
  let items = world.items();
  assert_eq!(items.len(), 2, "{}", world.read());
  let text =
    String::from_utf8(world.engine.ledger().unseal(&items[0].id).unwrap().to_vec()).unwrap();
  world.faults.fail("write", ENOSPC, 1);
  world.engine.approve(items[0].id.as_str(), "ann", None).unwrap_err();
  assert_eq!(world.engine.ledger().awaited_items().unwrap(), 1);
  world.engine.reject(items[1].id.as_str(), "ann", None).unwrap();
  // Without a mark the daemon does not look at the file.
  let row = world.engine.ledger().file(&world.path()).unwrap().unwrap();
  if row.pending.contains(Pending::RESHAPE) {
    world.settle();
  }
  assert_eq!(world.read().matches(&text).count(), 1, "{}", world.read());
  assert_eq!(world.engine.ledger().awaited_items().unwrap(), 0);
}

#[test]
fn an_undo_that_is_interrupted_after_its_write_leaves_the_text_approved() {
  let mut world = World::new("# Memory\n\n- tea\n");
  world.write(format!("# Memory\n\n- tea\n\n{OVERRIDE}"));
  world.settle();
  let id = world.items().remove(0).id.to_string();
  world.engine.approve(&id, "ann", None).unwrap();
  world.settle();
  // Long after the time for which an approved placeholder is usually watched.
  world.clock.advance(Duration::from_hours(1));
  world.faults.fail("sync", EIO, 1);
  world.engine.undo(Some(&id), "ann", None).unwrap_err();
  assert!(!world.read().contains(OVERRIDE), "{}", world.read());
  world.settle();
  assert_eq!(world.read().matches(OVERRIDE).count(), 1, "{}", world.read());
  assert_eq!(world.engine.ledger().awaited_items().unwrap(), 0);
  world.engine.undo(Some(&id), "ann", None).unwrap();
  world.settle();
  assert!(!world.read().contains(OVERRIDE), "{}", world.read());
}

#[test]
fn a_torn_range_is_compared_once_more_before_it_is_written() {
  let mut world = World::new("# Memory\n\n- tea\n");
  let (before, after) = ("- one two three four\n", "<!-- note: abcdef -->");
  let torn = [&after.as_bytes()[..18], &before.as_bytes()[18..]].concat();
  let text = [b"# Memory\n\n", &torn[..], b"- tea\n"].concat();
  let path = world.path();
  let op = NewOp {
    kind: OpKind::Neutralise,
    path: &path,
    dev: 0,
    ino: 0,
    offset: 10,
    before: before.as_bytes(),
    after: after.as_bytes(),
  };
  world.engine.ledger_mut().begin(&op, 1).unwrap();
  world.write(&text);
  let moved = [b"- somebody wrote this line here meanwhile\n", &text[..]].concat();
  {
    let mut script = world.faults.0.lock().unwrap();
    script.no_leases = true;
    script.after_read = Some((world.path(), moved));
  }
  assert!(world.is_waiting());
  assert!(world.read().starts_with("- somebody wrote this line here meanwhile\n# Memory\n"));
  world.faults.0.lock().unwrap().no_leases = false;
  world.pass();
  assert!(world.read().contains(after), "{}", world.read());
}
