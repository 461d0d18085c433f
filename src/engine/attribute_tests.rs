//! Asking records that are made up: what comes into the ledger, what leaves the file, and when.
#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "the files here are temporary ones of the tests")]

use std::{fs, time::Duration};

use super::{
  Attributing, Hint, LazyOutcome, Outcome,
  attribute::PATIENCE,
  testing::{OVERRIDE, TRIGGER, World, said, web},
};
use crate::{
  config::Config,
  provenance::{
    Attestation, Attribution, Evidence, Outlook, Source, SourcePattern, State, Trust, TrustRule,
    Written,
  },
  store::{EventFilter, ItemFilter, Pending},
};

const NEW: &str = "- Ann likes the window seat.\n";

#[test]
fn what_the_records_say_comes_into_the_ledger_and_markers_wait_for_it() {
  let mut world = World::new(Config { reshape_idle: Duration::ZERO, ..Config::default() });
  world.adopt("# Memory\n\n- Bob likes tea.\n");
  world.write(&format!("# Memory\n\n- Bob likes tea.\n{NEW}"));
  assert!(matches!(world.pass(), Outcome::Done { reshape_due: true, .. }));
  let row = world.file();
  assert!(row.pending.contains(Pending::ATTRIBUTE));
  let engine = &mut world.engine;
  assert_eq!(engine.lazy(&world.target, Duration::ZERO).unwrap(), LazyOutcome::Done);
  assert!(!world.read().contains("memfw:"), "a marker would not know what to say");

  world.records.outlook(Outlook::Later);
  assert_eq!(world.attribute(), Attributing::Later);
  assert_eq!(world.sources(), ["baseline verified", "unknown untrusted"]);
  let mut owner = said("user:owner", Attestation::ContentHashed);
  owner.session = Some("s1".to_owned());
  owner.evidence = Evidence {
    written: Some(Written { tool: "edit".into(), at: 5, session: Some("s1".into()) }),
    ledger_hash: true,
    ..Evidence::default()
  };
  world.records.answer(NEW.trim(), owner);
  world.records.outlook(Outlook::Final);
  assert_eq!(world.attribute(), Attributing::Done { reshape_due: true });
  assert_eq!(world.sources(), ["baseline verified", "user:owner trusted"]);
  let block = world.blocks().pop().unwrap();
  let revision = block.revisions.last().unwrap();
  assert_eq!(
    (revision.attestation, revision.session.as_deref()),
    (Attestation::ContentHashed, Some("s1"))
  );
  assert!(revision.trail.evidence_json.contains("edit") && !revision.trail.due);
  assert!(revision.trail.sighting.is_some());
  assert_eq!(world.file().pending.without(Pending::RETRY), Pending::RESHAPE);
  let asked = world.records.asked();
  assert!(asked.iter().all(|text| text == NEW), "{asked:?}");
  world.lazy();
  let text = world.read();
  assert!(text.contains("source=user:owner trust=trusted"), "{text}");
  assert!(text.contains("session=s1") && text.contains("att=content-hashed"), "{text}");
}

#[test]
fn what_nobody_tells_in_time_is_taken_as_it_is() {
  let mut world = World::new(Config::default());
  world.adopt("- Bob likes tea.\n");
  world.write(&format!("- Bob likes tea.\n{NEW}"));
  world.pass();
  world.records.outlook(Outlook::Later);
  world.records.answer(NEW.trim(), Attribution::without_evidence(Source::new("external-edit")));
  assert_eq!(world.attribute(), Attributing::Later);
  world.clock.advance(PATIENCE);
  assert!(matches!(world.attribute(), Attributing::Done { .. }));
  assert_eq!(world.sources(), ["baseline verified", "external-edit untrusted"]);
  assert!(!world.file().pending.contains(Pending::ATTRIBUTE));
}

#[test]
fn a_restart_asks_the_same_question_again() {
  let mut world = World::new(Config::default());
  world.adopt("- Bob likes tea.\n");
  world.write(&format!("- Bob likes tea.\n{NEW}{OVERRIDE}"));
  world.pass();
  assert!(!world.read().contains(OVERRIDE));
  world.records.outlook(Outlook::Later);
  world.attribute();
  let before = world.records.take_questions();
  world.restart();
  assert_eq!(world.engine.attributions_due().unwrap(), [world.target.clone()]);
  world.attribute();
  let after = world.records.take_questions();
  assert_eq!(before, after);
  let texts: Vec<_> = after.iter().flat_map(|one| one.texts.clone()).collect();
  assert!(texts.contains(&NEW.to_owned()) && texts.contains(&OVERRIDE.to_owned()), "{texts:?}");
}

#[test]
fn records_that_cannot_be_read_are_a_degradation_and_asked_again_at_the_next_change() {
  let mut world = World::new(Config::default());
  world.adopt("- Bob likes tea.\n");
  world.write(&format!("- Bob likes tea.\n{NEW}"));
  world.pass();
  world.records.outlook(Outlook::Unreadable("the database is locked".to_owned()));
  assert_eq!(world.attribute(), Attributing::Unreadable);
  assert!(world.degradations().iter().any(|text| text.contains("the database is locked")));
  assert!(!world.file().pending.contains(Pending::ATTRIBUTE), "nobody waits for it");
  assert_eq!(world.engine.attributions_due().unwrap().len(), 1);
  world.write(&format!("- Bob likes tea.\n{NEW}- Ann likes the aisle.\n"));
  world.pass();
  assert!(world.file().pending.contains(Pending::ATTRIBUTE));
  world.records.outlook(Outlook::Final);
  world.records.answer(NEW.trim(), said("agent", Attestation::ContentHashed));
  world.records.answer("- Ann likes the aisle.", said("exec", Attestation::ToolObserved));
  assert!(matches!(world.attribute(), Attributing::Done { .. }));
  assert_eq!(world.sources(), ["baseline verified", "agent verified", "exec untrusted"]);
  assert!(world.degradations().is_empty());
}

#[test]
fn text_that_stayed_for_want_of_evidence_leaves_when_its_source_is_seen() {
  // By such a rule nobody's word counts as the owner's, until somebody else is seen to have written it.
  let rule = |source: &str, trust| TrustRule { source: SourcePattern::new(source).unwrap(), trust };
  let trust_rules = vec![rule("unknown", Trust::Trusted)];
  let mut world = World::new(Config { trust_rules, ..Config::default() });
  world.adopt("- Bob likes tea.\n");
  world.write(&format!("- Bob likes tea.\n{NEW}\n{OVERRIDE}"));
  world.pass();
  assert!(world.read().contains(OVERRIDE), "only flagged");
  world.records.answer(NEW.trim(), said("user:owner", Attestation::ToolObserved));
  world.records.answer(OVERRIDE.trim(), web("evil.example"));
  world.attribute();
  let text = world.read();
  assert!(!text.contains(OVERRIDE) && text.contains(NEW), "{text}");
  let items = world.engine.ledger().items(&ItemFilter::waiting()).unwrap();
  let [item] = &items[..] else { panic!("{items:?}") };
  assert_eq!((item.source.as_str(), item.trust), ("web_fetch:evil.example", Trust::Untrusted));
  assert_eq!((item.attestation, item.status), (Attestation::ContentHashed, State::Quarantined));
  assert!(!item.trail.due);
  assert_eq!(world.sources(), ["baseline verified", "user:owner trusted"]);
  assert!(matches!(world.attribute(), Attributing::Done { .. }));
  // It comes back: out again, as the same item.
  world.write(&format!("- Bob likes tea.\n{NEW}\n{OVERRIDE}"));
  world.pass();
  assert!(!world.read().contains(OVERRIDE));
  let items = world.engine.ledger().items(&ItemFilter::waiting()).unwrap();
  assert_eq!((items.len(), items[0].occurrences), (1, 2));
}

#[test]
fn only_the_lines_of_the_source_leave_an_entry_that_others_wrote() {
  let rule = TrustRule { source: SourcePattern::new("unknown").unwrap(), trust: Trust::Trusted };
  let mut world = World::new(Config { trust_rules: vec![rule], ..Config::default() });
  world.adopt("- Bob likes tea\n  and cake.\n- Ann reads.\n");
  let poison = format!("  {OVERRIDE}");
  world.write(&format!("- Bob likes tea\n  and cake.\n{poison}- Ann reads.\n"));
  world.pass();
  assert!(world.read().contains(OVERRIDE));
  world.records.answer(OVERRIDE.trim(), web("evil.example"));
  world.attribute();
  let text = world.read();
  assert!(!text.contains(OVERRIDE) && text.contains("  and cake.\n"), "{text}");
  assert_eq!(world.sources(), ["baseline verified", "baseline verified"]);
}

#[test]
fn a_flag_for_want_of_evidence_goes_when_the_owner_was_seen_to_say_it() {
  let mut world = World::new(Config::default());
  world.adopt("- Bob likes tea.\n");
  world.write(&format!("- Bob likes tea.\n{TRIGGER}"));
  world.pass();
  assert_eq!(world.blocks().pop().unwrap().state, State::Flagged);
  world.records.answer(TRIGGER.trim(), said("user:owner", Attestation::ToolObserved));
  world.attribute();
  let block = world.blocks().pop().unwrap();
  assert_eq!((block.state, block.codes.len()), (State::Validated, 0));
}

#[test]
fn what_was_taken_out_and_came_from_the_owner_stays_out_and_is_told_once() {
  let mut world = World::new(Config::default());
  world.adopt("- Bob likes tea.\n");
  world.write(&format!("- Bob likes tea.\n{OVERRIDE}"));
  world.pass();
  world.records.answer(OVERRIDE.trim(), said("user:owner", Attestation::ContentHashed));
  world.attribute();
  world.attribute();
  assert!(!world.read().contains(OVERRIDE));
  let items = world.engine.ledger().items(&ItemFilter::waiting()).unwrap();
  assert_eq!((items[0].trust, items[0].status), (Trust::Trusted, State::Quarantined));
  let filter = EventFilter { event: Some("found-trusted".into()), ..EventFilter::default() };
  let told = world.engine.ledger().events(&filter).unwrap();
  assert_eq!(told.len(), 1);
  assert_eq!(told[0].attestation, Some(Attestation::ContentHashed));
}

#[test]
fn a_subagent_is_no_more_trusted_than_what_fed_it() {
  let mut world = World::new(Config::default());
  world.adopt("- Bob likes tea.\n");
  world.write(&format!("- Bob likes tea.\n{NEW}"));
  world.pass();
  let mut sub = said("subagent:research", Attestation::ToolObserved);
  sub.fed_by = vec![Source::new("user:owner"), Source::new("moltbook:x")];
  world.records.answer(NEW.trim(), sub);
  world.attribute();
  assert_eq!(world.sources(), ["baseline verified", "subagent:research hostile"]);
}

#[test]
fn blocks_of_one_write_and_two_sources_have_a_marker_each() {
  let mut world = World::new(Config { reshape_idle: Duration::ZERO, ..Config::default() });
  world.adopt("- Bob likes tea.\n");
  world.write(&format!("- Bob likes tea.\n{NEW}- One.\n- Two.\n"));
  world.pass();
  let markers = |world: &World| -> Vec<_> {
    world
      .blocks()
      .into_iter()
      .map(|row| (row.marker.clone() == Some(row.id.clone()), row.marker))
      .collect()
  };
  assert_eq!(markers(&world).iter().filter(|(own, _)| *own).count(), 1);
  world.records.answer(NEW.trim(), said("user:owner", Attestation::ToolObserved));
  world.records.answer("- One.", web("a.example"));
  world.records.answer("- Two.", web("a.example"));
  world.attribute();
  let after = markers(&world);
  assert_eq!(after.iter().filter(|(own, _)| *own).count(), 2, "{after:?}");
  assert_eq!(after[2].1, after[3].1);
  world.lazy();
  let text = world.read();
  assert_eq!(text.matches("<!-- /memfw -->").count(), 2, "{text}");
}

#[test]
fn a_file_that_changed_meanwhile_is_looked_at_first() {
  let mut world = World::new(Config::default());
  world.adopt("- Bob likes tea.\n");
  world.write(&format!("- Bob likes tea.\n{NEW}"));
  world.pass();
  fs::write(world.target.path(), format!("- Bob likes tea.\n- Other.\n{NEW}")).unwrap();
  assert_eq!(world.attribute(), Attributing::NotNow);
  let hint = Hint { waited: Duration::from_secs(1), ..Hint::default() };
  world.engine.pass(&world.target, &hint).unwrap();
  world.records.answer(NEW.trim(), said("agent", Attestation::ToolObserved));
  assert!(matches!(world.attribute(), Attributing::Done { .. }));
  assert_eq!(
    world.sources(),
    ["baseline verified", "unknown untrusted", "agent verified"],
    "each by the version in which it was first seen"
  );
  assert_eq!(world.records.take_questions().len(), 2);
}

#[test]
fn a_name_that_is_too_long_for_a_marker_costs_no_marker() {
  let mut world = World::new(Config { reshape_idle: Duration::ZERO, ..Config::default() });
  world.adopt("- Bob likes tea.\n");
  world.write(&format!("- Bob likes tea.\n{NEW}"));
  world.pass();
  let mut long =
    said(&format!("user:telegram:{}", "\u{1f980}".repeat(300)), Attestation::ToolObserved);
  long.session = Some("\u{1f980}\n".repeat(300));
  world.records.answer(NEW.trim(), long);
  world.attribute();
  world.lazy();
  let text = world.read();
  assert!(
    text.contains("source=user trust=untrusted") && text.contains("<!-- /memfw -->"),
    "{text}"
  );
}
