//! Tests that of two decisions about one item the first counts, where the second was begun before it.
#![forbid(unsafe_code)]

use super::{
  EngineError,
  review::{Approval, Placed},
  testing::{OVERRIDE, World},
};
use crate::{
  config::{Config, Markers},
  memory::{BlockId, parts::Unit},
  provenance::State,
  store::{Item, ItemFilter},
};

const WORD: Approval<'static> = Approval { by: "bob", reason: None, until: None, at_end: false };

/// A file with an entry of which all lines wait, and the item as somebody read it.
fn guarded() -> (World, Item) {
  let mut world = World::new(Config { markers: Markers::None, ..Config::default() });
  let entry = "- Alpha tea at noon.\n  Beta secret line.\n  Gamma train at nine.\n";
  world.adopt(&format!("# Notes\n\n- old\n{entry}- new\n"));
  let id = world.engine.quarantine_line(&world.target.clone(), 4, "ann", None).unwrap();
  world.settle();
  let item = world.engine.ledger().item(id.as_str()).unwrap();
  (world, item)
}

fn split(world: &mut World, id: &BlockId) {
  let lines = "1".parse().unwrap();
  world.engine.approve_parts(id.as_str(), (Unit::Line, &lines), WORD).unwrap();
}

fn refused<T: std::fmt::Debug>(done: Result<T, EngineError>) -> String {
  done.unwrap_err().to_string()
}

#[test]
fn an_approval_does_nothing_after_another_decision() {
  type Decide = fn(&mut World, &BlockId);
  let cases: [(Decide, &str); 4] = [
    (split, "divided already"),
    (|world, id| drop(world.engine.reject(id.as_str(), "ann", None).unwrap()), "already rejected"),
    (|world, id| drop(world.engine.approve(id.as_str(), "ann", None).unwrap()), "already approved"),
    (|world, id| drop(world.engine.delete(id.as_str(), "ann", None).unwrap()), "already deleted"),
  ];
  for (decide, says) in cases {
    let (mut world, read) = guarded();
    decide(&mut world, &read.id);
    world.settle();
    let (text, now) = (world.read(), world.engine.ledger().item(read.id.as_str()).unwrap());
    let exceptions = world.engine.ledger().exceptions().unwrap();
    let error = refused(world.engine.put_back(&read, WORD));
    assert!(error.contains(says), "{error}");
    world.settle();
    assert_eq!(world.read(), text, "{says}");
    assert_eq!(world.engine.ledger().item(read.id.as_str()).unwrap(), now);
    assert_eq!(world.engine.ledger().exceptions().unwrap(), exceptions);
    if now.status != State::Forgotten {
      // What was decided first is taken back as if nothing else had been tried.
      world.engine.undo(Some(read.id.as_str()), "ann", None).unwrap();
      world.settle();
      assert_eq!(world.engine.put_back(&read, WORD).unwrap(), Placed::AtPlaceholder);
    }
  }
}

#[test]
fn a_decision_is_taken_back_once() {
  let (mut world, read) = guarded();
  let out = world.read();
  split(&mut world, &read.id);
  let divided = world.engine.ledger().item(read.id.as_str()).unwrap();
  world.engine.undo_split(&divided, "ann", None).unwrap();
  let error = refused(world.engine.undo_split(&divided, "bob", None));
  assert!(error.ends_with("is quarantined: there is no decision to undo"), "{error}");
  // Approved as a whole meanwhile: the parts of before are not joined once more.
  world.engine.approve(read.id.as_str(), "ann", None).unwrap();
  assert!(world.engine.undo_split(&divided, "bob", None).is_err());
  let text = world.read();
  assert!(text.contains("Beta"), "{text}");
  world.engine.undo(None, "ann", None).unwrap();
  world.settle();
  assert_eq!(world.read(), out);
}

#[test]
fn a_part_that_was_rejected_meanwhile_is_not_joined() {
  let (mut world, read) = guarded();
  split(&mut world, &read.id);
  let divided = world.engine.ledger().item(read.id.as_str()).unwrap();
  let rest = world.engine.ledger().items(&ItemFilter::waiting()).unwrap().remove(0);
  world.engine.reject(rest.id.as_str(), "ann", None).unwrap();
  let error = refused(world.engine.undo_split(&divided, "bob", None));
  assert_eq!(error, format!("`{}`, a part of `{}`, is rejected", rest.id, read.id));
  let error = refused(world.engine.put_back(&rest, WORD));
  assert_eq!(error, format!("`{}` is already rejected", rest.id));
}

#[test]
fn who_knows_of_a_rejection_may_approve() {
  let mut world = World::new(Config { markers: Markers::None, ..Config::default() });
  world.adopt("- tea\n");
  world.write(&format!("- tea\n{OVERRIDE}"));
  world.pass();
  let id = world.engine.ledger().items(&ItemFilter::waiting()).unwrap().remove(0).id;
  world.engine.reject(id.as_str(), "ann", None).unwrap();
  world.engine.approve_as(id.as_str(), Approval { at_end: true, ..WORD }).unwrap();
  assert_eq!(world.engine.ledger().item(id.as_str()).unwrap().status, State::Approved);
}
