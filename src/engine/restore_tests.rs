//! Tests that a restored version brings no text back that is in quarantine.
#![forbid(unsafe_code)]

use super::{
  review::Approval,
  testing::{OVERRIDE, World},
};
use crate::{
  config::{Config, Markers},
  memory::{BlockId, ContentHash, parts::Unit, placeholder},
  provenance::State,
  store::ItemFilter,
};

const ENTRY: &str = "- Alpha tea at noon.\n  Beta secret line.\n  Gamma train at nine.\n";

fn file_of(middle: &str) -> String {
  format!("# Notes\n\n- old\n{middle}- new\n")
}

/// A guarded file with the entry, and the version of it.
fn guarded() -> (World, ContentHash) {
  let mut world = World::new(Config { markers: Markers::None, ..Config::default() });
  world.adopt(&file_of(ENTRY));
  let version = keep(&mut world);
  (world, version)
}

/// Keeps the content of the file, and returns its version.
fn keep(world: &mut World) -> ContentHash {
  world.engine.keep_present(&world.target.clone()).unwrap();
  world.engine.ledger().versions(&world.target.path()).unwrap()[0].hash
}

fn quarantine(world: &mut World) -> BlockId {
  let id = world.engine.quarantine_line(&world.target.clone(), 4, "ann", None).unwrap();
  world.settle();
  id
}

fn restore(world: &mut World, version: ContentHash) -> Vec<BlockId> {
  let restored = world.engine.restore(&world.target.clone(), version, "ann").unwrap();
  world.settle();
  restored.quarantined
}

fn is_out(world: &World) {
  let text = world.read();
  for word in ["Alpha", "Beta", "Gamma"] {
    assert!(!text.contains(word), "{text}");
  }
}

#[test]
fn what_was_taken_out_by_hand_stays_out_of_a_restored_version() {
  let (mut world, version) = guarded();
  let id = quarantine(&mut world);
  let out = world.read();
  world.write("# Notes\n");
  world.settle();
  assert_eq!(restore(&mut world, version), std::slice::from_ref(&id));
  assert_eq!(world.read(), out);
  world.engine.approve(id.as_str(), "ann", None).unwrap();
  world.settle();
  assert_eq!(world.read(), file_of(ENTRY));
}

#[test]
fn what_was_approved_and_taken_back_stays_out_of_a_restored_version() {
  let (mut world, _) = guarded();
  let id = quarantine(&mut world);
  let out = world.read();
  world.engine.approve(id.as_str(), "ann", None).unwrap();
  world.settle();
  let version = keep(&mut world);
  world.engine.undo(None, "ann", None).unwrap();
  world.settle();
  assert_eq!(world.read(), out);
  world.write("# Notes\n");
  world.settle();
  assert_eq!(restore(&mut world, version), std::slice::from_ref(&id));
  assert_eq!(world.read(), out);
  // A program that writes what it had read brings it back neither.
  world.write(&file_of(ENTRY));
  world.settle();
  assert_eq!(world.read(), out);
  assert_eq!(world.engine.ledger().item(id.as_str()).unwrap().status, State::Quarantined);
}

#[test]
fn parts_that_were_approved_and_taken_back_stay_out_of_a_restored_version() {
  let (mut world, _) = guarded();
  let id = quarantine(&mut world);
  let word = Approval { by: "ann", reason: None, until: None, at_end: false };
  let lines = "1,3".parse().unwrap();
  world.engine.approve_parts(id.as_str(), (Unit::Line, &lines), word).unwrap();
  world.settle();
  let version = keep(&mut world);
  world.engine.undo(None, "ann", None).unwrap();
  world.settle();
  world.write("# Notes\n");
  world.settle();
  restore(&mut world, version);
  is_out(&world);
  assert!(world.read().contains("- old\n"), "{}", world.read());
  let approved = Approval { at_end: true, ..word };
  world.engine.approve_as(id.as_str(), approved).unwrap();
  world.settle();
  assert_eq!(world.read().matches("Alpha").count(), 1, "{}", world.read());
}

#[test]
fn what_was_rejected_and_poison_stay_out_of_a_restored_version_together() {
  let (mut world, _) = guarded();
  world.write(&file_of(&format!("{ENTRY}{OVERRIDE}")));
  world.settle();
  let poison = world.engine.ledger().items(&ItemFilter::waiting()).unwrap().remove(0).id;
  let version = keep(&mut world);
  let id = quarantine(&mut world);
  world.engine.reject(id.as_str(), "ann", None).unwrap();
  world.settle();
  restore(&mut world, version);
  is_out(&world);
  let compact = |id| format!("{}\n", placeholder::compact(id));
  assert_eq!(world.read(), file_of(&[compact(&id), compact(&poison)].concat()));
}

#[test]
fn a_copy_that_nobody_took_out_is_restored() {
  let mut world = World::new(Config { markers: Markers::None, ..Config::default() });
  world.adopt(&format!("{}\n## Later\n\n{ENTRY}", file_of(ENTRY)));
  let both = keep(&mut world);
  let id = quarantine(&mut world);
  let out = world.read();
  let one = keep(&mut world);
  for version in [both, one] {
    world.write("# Notes\n");
    world.settle();
    restore(&mut world, version);
    assert_eq!(world.read(), out);
    assert_eq!(world.read().matches("Alpha").count(), 1);
  }
  assert_eq!(world.engine.ledger().items(&ItemFilter::waiting()).unwrap().len(), 1);
  world.engine.approve(id.as_str(), "ann", None).unwrap();
}

#[test]
fn a_sentence_that_stays_out_does_not_come_back_with_its_line() {
  const LINE: &str = "- Ann likes tea at noon. Beta has a secret line.\n";
  for is_restored in [true, false] {
    let mut world = World::new(Config { markers: Markers::None, ..Config::default() });
    world.adopt(&file_of(LINE));
    let version = keep(&mut world);
    let id = quarantine(&mut world);
    let word = Approval { by: "ann", reason: None, until: None, at_end: false };
    world.engine.approve_parts(id.as_str(), (Unit::Sentence, &"1".parse().unwrap()), word).unwrap();
    world.settle();
    let parts = world.engine.ledger().parts_of(&id).unwrap();
    let back = |world: &mut World| {
      if is_restored {
        restore(world, version);
      } else {
        world.write(&file_of(LINE));
        world.settle();
      }
      (world.read().contains("noon"), world.read().contains("secret"))
    };
    assert_eq!(back(&mut world), (true, false), "{}", world.read());
    world.engine.reject(parts[1].id.as_str(), "ann", None).unwrap();
    world.write("# Notes\n");
    world.settle();
    assert!(!back(&mut world).1, "{}", world.read());
  }
}

#[test]
fn an_entry_that_the_file_has_is_not_taken_for_one_that_was_taken_out() {
  const MILK: &str = "- Buy milk\n";
  let mut world = World::new(Config { markers: Markers::None, ..Config::default() });
  world.adopt(&file_of(MILK));
  let version = keep(&mut world);
  world.write(&format!("{}{MILK}", file_of(MILK)));
  world.settle();
  world.engine.quarantine_line(&world.target.clone(), 6, "ann", None).unwrap();
  world.settle();
  assert_eq!(restore(&mut world, version), []);
  assert_eq!(world.read(), file_of(MILK));
}
