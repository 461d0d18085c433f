//! What a source is allowed, and what it is not.
#![forbid(unsafe_code)]

use super::{
  review::Approval,
  testing::{OVERRIDE, TRIGGER, World, said, web},
};
use crate::{
  config::Config,
  detect::Code,
  provenance::{Attestation, Source, State, Trust},
  store::{EventFilter, ItemFilter},
};

const BEFORE: &str = "- Bob likes tea.\n";
const WORD: Approval<'static> = Approval { by: "ann", reason: Some("our manual"), until: None };

fn world() -> World {
  let mut world =
    World::new(Config { reshape_idle: std::time::Duration::ZERO, ..Config::default() });
  world.adopt(BEFORE);
  world
}

/// The codes of what waits.
fn waiting(world: &World) -> Vec<Vec<Code>> {
  let items = world.engine.ledger().items(&ItemFilter::waiting()).unwrap();
  items.into_iter().map(|item| item.codes).collect()
}

fn source() -> Source {
  Source::new("web_fetch:docs.example")
}

/// What layer 1 finds in the poison of these tests.
fn codes_of_override() -> Vec<Code> {
  let mut world = world();
  world.write(&format!("{BEFORE}{OVERRIDE}"));
  world.pass();
  waiting(&world).remove(0)
}

#[test]
fn text_of_an_allowed_source_goes_back_once_it_is_known_whose_it_is() {
  let mut world = world();
  world.engine.allow(&source(), &codes_of_override(), WORD).unwrap();
  world.write(&format!("{BEFORE}{OVERRIDE}"));
  world.pass();
  assert!(!world.read().contains(OVERRIDE), "at first nobody knows whose it is");
  world.records.answer(OVERRIDE.trim(), web("docs.example"));
  world.attribute();
  assert!(waiting(&world).is_empty());
  assert!(!world.engine.bring_back_again(&world.target.clone()).unwrap());
  assert_eq!(world.read(), format!("{BEFORE}{OVERRIDE}"));
  let events = world.engine.ledger().events(&EventFilter::default()).unwrap();
  let approved = events.iter().find(|event| event.event == "approved").unwrap();
  assert!(approved.detail.contains("by memfw: `web_fetch:docs.example` is allowed that"));
  let used = world.engine.ledger().source_exceptions().unwrap();
  assert!(used.iter().all(|one| one.uses == 1 && one.used_at.is_some()), "{used:?}");
  // It stays, also when it is looked at again.
  world.write(&format!("{BEFORE}{OVERRIDE}- Ann likes the aisle.\n"));
  world.pass();
  assert!(world.read().contains(OVERRIDE) && waiting(&world).is_empty());
}

#[test]
fn nobody_else_and_nothing_else_is_allowed() {
  let codes = codes_of_override();
  for (name, said, allowed) in [
    ("another page", web("evil.example"), &codes[..]),
    ("a claim", said("web_fetch:docs.example", Attestation::SelfReported), &codes[..]),
    ("another code", web("docs.example"), &[Code::UrlReference][..]),
  ] {
    let mut world = world();
    world.engine.allow(&source(), allowed, WORD).unwrap();
    world.write(&format!("{BEFORE}{OVERRIDE}"));
    world.pass();
    world.records.answer(OVERRIDE.trim(), said);
    world.attribute();
    assert_eq!(waiting(&world), [codes.clone()], "{name}");
    assert!(!world.read().contains(OVERRIDE), "{name}");
  }
}

#[test]
fn its_end_ends_it_and_so_does_taking_it_back() {
  let codes = codes_of_override();
  for is_expired in [true, false] {
    let mut world = world();
    let until = is_expired.then_some(1);
    world.engine.allow(&source(), &codes, Approval { until, ..WORD }).unwrap();
    if !is_expired {
      for code in &codes {
        let ledger = &mut world.engine.ledger;
        assert!(ledger.withdraw_source_exception(&source(), *code, &[], 2).unwrap());
      }
    }
    world.write(&format!("{BEFORE}{OVERRIDE}"));
    world.pass();
    world.records.answer(OVERRIDE.trim(), web("docs.example"));
    world.attribute();
    assert_eq!(waiting(&world).len(), 1, "{is_expired}");
  }
}

#[test]
fn a_flag_goes_when_its_source_is_allowed_it() {
  for is_allowed in [false, true] {
    let mut world = world();
    world.write(&format!("{BEFORE}{TRIGGER}"));
    world.pass();
    let flagged = world.blocks().pop().unwrap();
    assert_eq!(flagged.state, State::Flagged);
    if is_allowed {
      world.engine.allow(&source(), &flagged.codes, WORD).unwrap();
    }
    world.records.answer(TRIGGER.trim(), web("docs.example"));
    world.attribute();
    let block = world.blocks().pop().unwrap();
    let revision = block.revisions.last().unwrap();
    assert_eq!((revision.source.clone(), revision.trust), (source(), Trust::Untrusted));
    let expected = if is_allowed { State::Validated } else { State::Flagged };
    assert_eq!(block.state, expected);
    let uses: u64 =
      world.engine.ledger().source_exceptions().unwrap().iter().map(|one| one.uses).sum();
    assert_eq!(uses > 0, is_allowed);
  }
}

#[test]
fn nobody_is_no_source_that_can_be_allowed() {
  let mut world = world();
  for name in ["unknown", "external-edit", "baseline"] {
    let refused = world.engine.allow(&Source::new(name), &[Code::UrlReference], WORD);
    assert!(refused.unwrap_err().to_string().contains("names nobody"), "{name}");
  }
  assert!(world.engine.allow(&source(), &[Code::ManualQuarantine], WORD).is_err());
  assert!(world.engine.ledger().source_exceptions().unwrap().is_empty());
}
