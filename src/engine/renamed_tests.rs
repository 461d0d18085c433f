//! Tests that the knowledge about a file moves along when the file is renamed, but not when it is
//! copied.
#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "the files here are temporary ones of the tests")]

use std::{fs, path::Path};

use super::{
  Target,
  layer2_tests::Script,
  testing::{OVERRIDE, World},
};
use crate::{
  config::{Config, Markers},
  memory::BlockId,
  provenance::State,
  store::{EventKind, FileStatus, ItemFilter, Pending},
};

const NOTES: &str = "# Memory\n\n- Ann likes the window seat.\n";

impl World {
  /// A file with markers and the placeholder of a poisoned line.
  fn with_placeholder() -> (Self, BlockId) {
    let mut world = Self::new(Config { markers: Markers::Wrap, ..Config::default() });
    world.adopt("# Memory\n");
    world.write(NOTES);
    world.pass();
    world.attribute();
    world.lazy();
    let marked = world.read();
    assert!(marked.contains("memfw:") && marked.len() > NOTES.len(), "{marked}");
    world.write(&format!("{marked}{OVERRIDE}"));
    world.pass();
    world.attribute();
    world.lazy();
    let items = world.engine.ledger().items(&ItemFilter::waiting()).unwrap();
    let id = items.into_iter().next().expect("it is taken out").id;
    (world, id)
  }

  /// Renames the file and scans both names, in this order.
  fn rename(&mut self, rel: &str, is_old_first: bool) {
    let before = self.target.clone();
    self.target = Target::new(&before.root, Path::new(rel));
    fs::create_dir_all(self.target.path().parent().unwrap()).unwrap();
    fs::rename(before.path(), self.target.path()).unwrap();
    if is_old_first {
      self.pass_at(&before);
    }
    self.pass();
    if !is_old_first {
      self.pass_at(&before);
    }
  }

  fn pass_at(&mut self, target: &Target) {
    let here = std::mem::replace(&mut self.target, target.clone());
    self.pass();
    self.target = here;
  }

  fn n_events(&self, kind: EventKind) -> usize {
    self.events().iter().filter(|event| **event == kind).count()
  }

  fn events(&self) -> Vec<EventKind> {
    let filter = crate::store::EventFilter::default();
    let events = self.engine.ledger().events(&filter).unwrap();
    events.into_iter().map(|event| event.event).collect()
  }
}

#[test]
fn markers_and_placeholders_stay_what_they_are() {
  for is_old_first in [false, true] {
    let (mut world, id) = World::with_placeholder();
    let (former, before) = (world.target.path(), world.read());
    world.rename("memory/archive/2026.md", is_old_first);
    world.lazy();
    assert_eq!(world.read(), before, "not a byte of it changes");
    assert_eq!(
      (world.n_events(EventKind::Renamed), world.n_events(EventKind::ForgedMarker)),
      (1, 0)
    );
    let item = world.engine.ledger().item(id.as_str()).unwrap();
    assert_eq!((item.path, item.status), (world.target.path(), State::Quarantined));
    assert!(world.engine.ledger().file(&former).unwrap().is_none());
    assert_eq!(world.file().status, FileStatus::Watched);
    // The ledger knows its lines, and an approval works there.
    world.engine.approve(id.as_str(), "ann", None).unwrap();
    assert!(world.read().contains(OVERRIDE));
    world.pass();
    world.lazy();
    assert!(world.read().contains(OVERRIDE), "{}", world.read());
  }
}

#[test]
fn what_was_approved_stays_approved_there_and_nowhere_else() {
  let mut world = World::new(Config::default());
  world.adopt("# Memory\n");
  let text = format!("{NOTES}{OVERRIDE}");
  world.write(&text);
  world.pass();
  let id = world.engine.ledger().items(&ItemFilter::waiting()).unwrap().remove(0).id;
  world.engine.approve(id.as_str(), "ann", None).unwrap();
  assert_eq!(world.read(), text);
  world.pass();
  let first = world.target.clone();
  world.write(&format!("{text}\n- The shop opens at nine.\n"));
  world.pass();
  assert!(world.read().starts_with(&text), "{}", world.read());
  for (name, is_old_first) in [("memory/one.md", true), ("memory/two.md", false)] {
    world.rename(name, is_old_first);
    // A line is added, so that the whole file is compared with the context of the approval.
    world.write(&format!("{}\n- The office closes at six.\n", world.read()));
    world.pass();
    assert!(world.read().starts_with(&text), "{}", world.read());
  }
  assert_eq!(world.n_events(EventKind::Renamed), 2);
  // Another file has the name now, as with daily notes: an approval in one does not apply to a later
  // one.
  for day in 1..4 {
    world.target = first.clone();
    world.write(&text);
    world.pass();
    let items = world.engine.ledger().items(&ItemFilter::waiting()).unwrap();
    let [item] = &items[..] else { panic!("day {day}: {}", world.read()) };
    let id = item.id.clone();
    world.engine.approve(id.as_str(), "ann", None).unwrap();
    world.pass();
    assert_eq!(world.read(), text);
    world.rename(&format!("memory/{day}.md"), day == 2);
    assert_eq!(world.read(), text);
  }
}

#[test]
fn what_a_person_refused_stays_refused_under_the_old_name() {
  let mut world = World::new(Config::default());
  world.adopt("# Memory\n");
  world.write(NOTES);
  world.pass();
  let first = world.target.clone();
  world.engine.quarantine_line(&first, 3, "ann", None).unwrap();
  assert!(!world.read().contains("window seat"), "{}", world.read());
  world.rename("memory/old.md", true);
  world.target = first;
  world.write(NOTES);
  world.pass();
  assert!(!world.read().contains("window seat"), "{}", world.read());
}

#[test]
fn what_was_still_to_be_read_is_read_under_the_new_name() {
  for is_old_first in [false, true] {
    let mut world = World::with(Config::default(), Some(Script::new()));
    world.adopt("# Memory\n");
    world.write("# Memory\n\n- The loud drum is played on Fridays.\n");
    world.pass();
    assert!(world.file().pending.contains(Pending::MODEL));
    world.rename("memory/a.md", is_old_first);
    assert!(world.file().pending.contains(Pending::MODEL), "{is_old_first}");
  }
}

#[test]
fn a_note_does_not_become_the_long_term_memory_unread() {
  let mut world = World::new(Config::default());
  world.turn_to("memory/research.md");
  world.adopt(NOTES);
  world.rename("MEMORY.md", true);
  assert_eq!(world.n_events(EventKind::Renamed), 0);
}

#[test]
fn a_file_goes_away_and_comes_back() {
  let (mut world, _) = World::with_placeholder();
  let before = world.read();
  world.rename("memory/away.md", true);
  world.rename("MEMORY.md", false);
  world.lazy();
  assert_eq!((world.read(), world.n_events(EventKind::Renamed)), (before, 2));
}

#[test]
fn a_copy_and_a_file_that_is_alike_are_files_of_their_own() {
  let (mut world, _) = World::with_placeholder();
  let first = world.target.clone();
  let before = world.read();
  world.turn_to("memory/copy.md");
  world.write(&before);
  world.pass();
  assert_eq!(world.n_events(EventKind::Renamed), 0);
  assert!(world.engine.ledger().file(&first.path()).unwrap().is_some());

  let mut world = World::new(Config::default());
  world.adopt(NOTES);
  let first = world.target.clone();
  // The inode of a deleted file may be used for the next one, but not while the file is open.
  let deleted = fs::File::open(first.path()).unwrap();
  fs::remove_file(first.path()).unwrap();
  world.turn_to("memory/alike.md");
  world.write(NOTES);
  world.pass();
  assert_eq!(world.n_events(EventKind::Renamed), 0);
  drop(deleted);
}

#[test]
fn a_file_that_only_reports_findings_is_judged_where_it_takes_part_in_memory() {
  let mut world = World::new(Config::default());
  world.turn_to("AGENTS.md");
  world.adopt("# Agents\n");
  world.write(&format!("# Agents\n\n{OVERRIDE}"));
  world.pass();
  assert!(world.read().contains(OVERRIDE), "here it is only reported");
  world.rename("memory/agents.md", false);
  assert!(!world.read().contains(OVERRIDE), "{}", world.read());
}

/// Changes to the files `a`, `b` and `c`, of which the last does not exist at first, and the original
/// text of each of the three afterwards.
type Case = (&'static str, fn(&Path), [Option<char>; 3]);

const CASES: [Case; 6] = [
  (
    "swapped",
    |dir| shift(dir, &[("a", "t"), ("b", "a"), ("t", "b")]),
    [Some('b'), Some('a'), None],
  ),
  ("over a known note", |dir| shift(dir, &[("a", "b")]), [None, Some('a'), None]),
  (
    "one after the other",
    |dir| shift(dir, &[("b", "c"), ("a", "b")]),
    [None, Some('a'), Some('b')],
  ),
  ("round", |dir| shift(dir, &[("b", "c"), ("a", "b"), ("c", "a")]), [Some('b'), Some('a'), None]),
  (
    "an empty one in its place",
    |dir| {
      shift(dir, &[("a", "c")]);
      fs::write(dir.join("a.md"), "").unwrap();
    },
    [None, Some('b'), Some('a')],
  ),
  (
    "copied over a known note",
    |dir| {
      fs::copy(dir.join("a.md"), dir.join("b.md")).unwrap();
      fs::remove_file(dir.join("a.md")).unwrap();
    },
    [None, Some('a'), None],
  ),
];

fn shift(dir: &Path, renames: &[(&str, &str)]) {
  for (from, to) in renames {
    fs::rename(dir.join(format!("{from}.md")), dir.join(format!("{to}.md"))).unwrap();
  }
}

#[test]
fn a_file_that_takes_the_name_of_a_known_one_stays_what_it_is() {
  const NAMES: [&str; 3] = ["memory/a.md", "memory/b.md", "memory/c.md"];
  for (name, change, expected) in CASES {
    for order in [[0, 1, 2], [1, 0, 2], [2, 1, 0]] {
      let mut world = World::new(Config { markers: Markers::Wrap, ..Config::default() });
      let mut texts = Vec::new();
      for name in &NAMES[..2] {
        world.turn_to(name);
        world.adopt(&format!("# Note {name}\n"));
        world.write(&format!("# Note {name}\n\n- This is in {name}.\n"));
        world.pass();
        world.attribute();
        world.lazy();
        let marked = world.read();
        // The same text is taken out of both of them.
        world.write(&format!("{marked}{OVERRIDE}"));
        world.pass();
        world.attribute();
        world.lazy();
        texts.push(world.read());
      }
      assert!(texts.iter().all(|text| text.contains(" quarantined")), "{texts:?}");
      let n_items = world.engine.ledger().items(&ItemFilter::waiting()).unwrap().len();
      change(&world.target.root.join("memory"));
      for _ in 0..2 {
        for index in order {
          world.target = Target::new(&world.target.root, Path::new(NAMES[index]));
          world.pass();
          if world.target.path().exists() {
            world.attribute();
            world.lazy();
          }
        }
      }
      for (rel, text) in NAMES.iter().zip(expected) {
        let Some(text) = text else { continue };
        let found = fs::read_to_string(world.target.root.join(rel)).unwrap();
        let text = &texts[usize::from(text == 'b')];
        assert_eq!(&found, text, "{name}, {order:?}: {rel}");
        let path = world.target.root.join(rel);
        let ids = world.engine.ledger().placeholder_ids(&path).unwrap();
        let stands = |id: &BlockId| text.contains(&format!("memfw:{id} quarantined"));
        assert!(ids.keys().any(stands), "{name}, {order:?}: {rel} has its item");
      }
      assert_eq!(world.n_events(EventKind::ForgedMarker), 0, "{name}, {order:?}");
      let items = world.engine.ledger().items(&ItemFilter::waiting()).unwrap();
      assert_eq!(items.len(), n_items, "{name}, {order:?}: none is lost, and none is new");
    }
  }
}
