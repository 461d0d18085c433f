//! Tests of the class of a file, against a model of a framework that lowers classes. With memfw's edits
//! the framework must trust only what it would trust without them if the removed text had never been
//! written.
#![forbid(unsafe_code)]

use std::time::Duration;

use super::{
  Hint, Outcome,
  testing::{OVERRIDE, World, said, web},
};
use crate::{
  config::{Config, Follow},
  memory::ContentHash,
  provenance::{Attestation, Attribution, Evidence, Outlook, Written},
};

const FULL: &str = "agent";
const DROPPED: &str = "untrusted";

/// A tool of the framework puts on record what it is about to write, based on what it has read.
pub(super) fn record(
  row: Option<&(ContentHash, String)>,
  read: &str,
  new: &str,
  tainted: bool,
) -> (ContentHash, String) {
  let is_own =
    row.is_none_or(|(hash, class)| class == FULL && *hash == ContentHash::of(read.as_bytes()));
  let class = if is_own && !tainted { FULL } else { DROPPED };
  (ContentHash::of(new.as_bytes()), class.to_owned())
}

impl World {
  /// A tool writes a new text, based on the text that it had read.
  fn tool(&mut self, read: &str, new: &str, tainted: bool) {
    let path = self.target.path();
    let row = record(self.records.book().rows.get(&path), read, new, tainted);
    self.records.book().rows.insert(path, row);
    self.write(new);
  }

  fn class(&self) -> Option<String> {
    self.records.book().rows.get(&self.target.path()).map(|(_, class)| class.clone())
  }

  /// Whether the record is about the current bytes.
  fn is_followed(&self) -> bool {
    let hash = ContentHash::of(self.read().as_bytes());
    self.records.book().rows.get(&self.target.path()).is_some_and(|(row, _)| *row == hash)
  }

  fn done(&mut self) {
    self.pass();
    self.attribute();
  }
}

fn at_once() -> Config {
  Config { reshape_idle: Duration::ZERO, ..Config::default() }
}

fn written(source: &str) -> Attribution {
  let call = Written { tool: "edit".into(), at: 1, session: None };
  let evidence = Evidence { written: Some(call), ledger_hash: true, ..Evidence::default() };
  Attribution { evidence, ..said(source, Attestation::ContentHashed) }
}

/// A file that the framework has on record with the full class.
fn trusted(config: Config) -> World {
  let mut world = World::new(config);
  world.adopt("- Bob likes tea.\n");
  let before = world.read();
  world.tool(&before, "- Bob likes tea.\n- Ann reads.\n", false);
  world.records.answer("Ann reads", written("user:owner"));
  world.done();
  assert_eq!(world.class().as_deref(), Some(FULL));
  world
}

#[test]
fn the_class_comes_back_when_all_of_a_tainted_write_has_left() {
  let mut world = trusted(at_once());
  let before = world.read();
  world.tool(&before, &format!("{before}{OVERRIDE}"), true);
  assert_eq!(world.class().as_deref(), Some(DROPPED));
  world.records.answer(OVERRIDE.trim(), web("evil.example"));
  world.done();
  assert!(!world.read().contains(OVERRIDE));
  assert_eq!((world.class().as_deref(), world.is_followed()), (Some(FULL), true));
  // The framework's own next write starts from there.
  let before = world.read();
  world.tool(&before, &format!("{before}- One more.\n"), false);
  world.done();
  assert_eq!(world.class().as_deref(), Some(FULL));
}

#[test]
fn a_first_write_that_left_again_leaves_the_class_of_a_first_write() {
  let mut world = World::new(at_once());
  world.adopt("- Bob likes tea.\n");
  world.tool("- Bob likes tea.\n", &format!("- Bob likes tea.\n{OVERRIDE}"), true);
  world.done();
  assert_eq!((world.class().as_deref(), world.is_followed()), (Some(FULL), true));
}

#[test]
fn what_is_left_of_a_tainted_write_keeps_the_class_down_until_a_person_or_a_rule_lets_it_up() {
  for follow in [Follow::Edits, Follow::Validated] {
    let mut world = trusted(Config { agent_follow: follow, ..at_once() });
    let before = world.read();
    world.tool(&before, &format!("{before}- The page says so.\n\n{OVERRIDE}"), true);
    world.records.answer("The page says", web("evil.example"));
    world.records.answer(OVERRIDE.trim(), web("evil.example"));
    world.done();
    assert!(!world.read().contains(OVERRIDE) && world.is_followed());
    let expected = if follow == Follow::Edits { DROPPED } else { FULL };
    assert_eq!(world.class().as_deref(), Some(expected), "{follow}");
  }
}

#[test]
fn a_tainted_write_that_changed_what_was_there_keeps_the_class_down() {
  let mut world = trusted(at_once());
  let before = world.read();
  let changed = before.replace("- Ann reads.\n", "");
  world.tool(&before, &format!("{changed}{OVERRIDE}"), true);
  world.done();
  assert!(!world.read().contains(OVERRIDE));
  assert_eq!(world.class().as_deref(), Some(DROPPED));
}

#[test]
fn a_hand_edit_in_between_is_not_laundered() {
  let mut world = trusted(at_once());
  let before = world.read();
  world.write(&format!("{before}- By hand.\n"));
  world.done();
  let before = world.read();
  world.tool(&before, &format!("{before}{OVERRIDE}"), true);
  world.done();
  assert!(!world.read().contains(OVERRIDE));
  assert_eq!(world.class().as_deref(), Some(DROPPED));
}

#[test]
fn a_tainted_write_of_which_nothing_was_taken_out_keeps_the_class_down() {
  let mut world = trusted(at_once());
  let before = world.read();
  world.tool(&before, &format!("{before}\n"), true);
  world.done();
  assert_eq!(world.class().as_deref(), Some(DROPPED));
}

#[test]
fn a_tool_that_had_read_an_older_version_of_memfw_loses_nothing() {
  let mut world = trusted(at_once());
  let read = world.read();
  world.lazy();
  assert_ne!(world.read(), read, "markers were written");
  assert_eq!(world.class().as_deref(), Some(FULL));
  world.tool(&read, &format!("{read}- One more.\n"), false);
  assert_eq!(world.class().as_deref(), Some(DROPPED), "it stumbled over our markers");
  world.records.answer("One more", written("agent"));
  world.records.book().clean_turn = Some(true);
  world.done();
  assert_eq!((world.class().as_deref(), world.is_followed()), (Some(FULL), true));
}

#[test]
fn a_line_of_somebody_else_beside_it_is_not_laundered_with_it() {
  let mut world = trusted(at_once());
  let read = world.read();
  world.lazy();
  world.tool(&read, &format!("{read}- By hand.\n- One more.\n"), false);
  world.records.answer("One more", written("agent"));
  world.records.answer(
    "By hand",
    Attribution::without_evidence(crate::provenance::Source::new("external-edit")),
  );
  world.records.book().clean_turn = Some(true);
  world.done();
  assert_eq!(world.class().as_deref(), Some(DROPPED));
}

/// A tool changes a line of the version before memfw's markers; `removes` is what it says that it
/// removed.
fn stale_change(world: &mut World, removes: &str, also: &str) {
  let read = world.read();
  world.lazy();
  assert_ne!(world.read(), read, "markers were written");
  let new = read.replace("- Ann reads.\n", "- Ann reads a lot.\n").replace(also, "");
  world.tool(&read, &new, false);
  assert_eq!(world.class().as_deref(), Some(DROPPED), "it stumbled over our markers");
  world.records.answer("Ann reads a lot", written("agent"));
  world.records.book().clean_turn = Some(true);
  world.records.book().replaced = vec![removes.to_owned()];
  world.done();
}

#[test]
fn a_tool_that_changed_a_line_of_an_older_version_of_memfw_loses_nothing() {
  let mut world = trusted(at_once());
  stale_change(&mut world, "- Ann reads.", "no such line");
  assert_eq!((world.class().as_deref(), world.is_followed()), (Some(FULL), true));
}

#[test]
fn a_line_that_somebody_else_took_out_beside_it_keeps_the_class_down() {
  for (removes, also) in [("- Ann reads.", "- Bob likes tea.\n"), ("- Cy swims.", "no such line")] {
    let mut world = trusted(at_once());
    stale_change(&mut world, removes, also);
    assert_eq!(world.class().as_deref(), Some(DROPPED), "{removes} {also}");
  }
}

/// Three writes after an edit of memfw, whose records come late. `tainted` is the write whose turn is
/// not clean.
fn three_writes(tainted: Option<usize>) -> World {
  let mut world = trusted(at_once());
  let mut text = world.read();
  world.lazy();
  world.records.outlook(Outlook::Later);
  for n in 0..3 {
    let read = text.clone();
    text = format!("{text}- More {n}.\n");
    world.tool(&read, &text, tainted == Some(n));
    world.records.answer(&format!("More {n}"), written("agent"));
    world.done();
  }
  assert_eq!(world.class().as_deref(), Some(DROPPED));
  world.records.outlook(Outlook::Final);
  world.records.book().clean_turn = Some(true);
  world.records.book().tainted = tainted.map(|n| format!("More {n}"));
  world.attribute();
  world
}

#[test]
fn the_class_comes_back_over_several_writes_that_the_records_tell_of_late() {
  let world = three_writes(None);
  assert_eq!((world.class().as_deref(), world.is_followed()), (Some(FULL), true));
}

#[test]
fn a_write_that_is_on_record_before_it_is_in_the_file_costs_nothing() {
  let mut world = trusted(at_once());
  let read = world.read();
  let poisoned = format!("{read}{OVERRIDE}");
  world.tool(&read, &poisoned, false);
  world.records.answer("Ignore", written("agent"));
  world.records.answer("One more", written("agent"));
  world.records.book().clean_turn = Some(true);
  // The tool has read the poison, and puts its next write on record just after the poison was taken
  // out.
  let path = world.target.path();
  world.records.book().ahead =
    Some((path.clone(), poisoned.clone(), format!("{poisoned}- One more.\n")));
  world.pass();
  assert_eq!(world.class().as_deref(), Some(DROPPED));
  world.write(&format!("{poisoned}- One more.\n"));
  world.done();
  assert!(world.read().contains("One more") && !world.read().contains(OVERRIDE));
  assert_eq!((world.class().as_deref(), world.is_followed()), (Some(FULL), true));
}

#[test]
fn one_tainted_write_of_several_keeps_the_class_down() {
  for n in 0..3 {
    assert_eq!(three_writes(Some(n)).class().as_deref(), Some(DROPPED), "{n}");
  }
}

#[test]
fn a_turn_that_was_not_clean_keeps_the_class_down() {
  for clean_turn in [None, Some(false)] {
    let mut world = trusted(at_once());
    let read = world.read();
    world.lazy();
    world.tool(&read, &format!("{read}- One more.\n"), true);
    world.records.answer("One more", written("web_fetch:a.example"));
    world.records.book().clean_turn = clean_turn;
    world.done();
    assert_eq!(world.class().as_deref(), Some(DROPPED));
  }
}

#[test]
fn a_version_that_we_edited_is_still_found_by_its_record() {
  let mut world = trusted(at_once());
  world.records.take_questions();
  let before = world.read();
  let new = format!("{before}- The page says so.\n\n{OVERRIDE}");
  world.tool(&before, &new, true);
  world.done();
  let asked = world.records.take_questions();
  assert_eq!(asked[0].version, ContentHash::of(new.as_bytes()));
  assert_eq!(asked[0].on_record, ContentHash::of(world.read().as_bytes()));
}

/// A small generator of pseudo-random numbers (splitmix64); a seed reproduces a walk.
struct Dice(u64);

impl Dice {
  fn below(&mut self, n: u64) -> u64 {
    self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = self.0;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) % n
  }
}

/// The model without memfw, and without the writes of which memfw left nothing.
struct Without {
  text: String,
  row: Option<(ContentHash, String)>,
}

impl Without {
  fn tool(&mut self, line: &str, tainted: bool) {
    let new = format!("{}{line}", self.text);
    self.row = Some(record(self.row.as_ref(), &self.text, &new, tainted));
    self.text = new;
  }
}

/// Walks, and steps of each; a step takes a few milliseconds of real file work.
const WALKS: u64 = 30;
const STEPS: u64 = 10;

#[test]
fn the_framework_never_trusts_more_than_it_would_without_us() {
  let mut n_given_back = 0;
  for seed in 0..WALKS {
    let mut dice = Dice(seed);
    let mut world = World::new(at_once());
    world.adopt("- Bob likes tea.\n");
    world.records.answer("by tool", written("agent"));
    world.records.answer("by page", written("web_fetch:a.example"));
    world.records.answer("Ignore", web("evil.example"));
    let mut without = Without { text: "- Bob likes tea.\n".to_owned(), row: None };
    let mut trace = vec![format!("seed {seed}")];
    let mut stale = world.read();
    for step in 0..STEPS {
      let before = world.read();
      let what = dice.below(9);
      trace.push(format!("{what}"));
      world.records.book().clean_turn = Some(matches!(what, 0 | 1 | 8));
      match what {
        0 | 1 => {
          let line = format!("- {step} by tool.\n");
          world.tool(&before, &format!("{before}{line}"), false);
          without.tool(&line, false);
        }
        2 => {
          let line = format!("- {step} by page.\n");
          world.tool(&before, &format!("{before}{line}"), true);
          without.tool(&line, true);
        }
        // memfw takes all of it out again, so the model does not contain it.
        3 | 4 => world.tool(&before, &format!("{before}{OVERRIDE}"), true),
        5 => {
          let line = format!("- {step} by page.\n");
          world.tool(&before, &format!("{before}{line}\n{OVERRIDE}"), true);
          without.tool(&line, true);
        }
        6 => {
          let line = format!("- {step} by hand.\n");
          world.write(&format!("{before}{line}"));
          without.text += &line;
        }
        7 => world.lazy(),
        // A tool writes text that is based on the version before memfw's edit.
        _ => {
          let line = format!("- {step} by tool.\n");
          let older = if marks_out(&stale) == marks_out(&before) { &stale } else { &before };
          world.tool(older, &format!("{older}{line}"), false);
          without.tool(&line, false);
        }
      }
      if what != 7 {
        stale = world.read();
      }
      let dropped = world.class().as_deref() == Some(DROPPED);
      world.done();
      let trusts = |class: Option<&str>| class.is_none_or(|class| class == FULL);
      let (with, without) = (world.class(), without.row.as_ref().map(|(_, class)| class.as_str()));
      n_given_back += usize::from(dropped && trusts(with.as_deref()));
      assert!(
        !trusts(with.as_deref()) || trusts(without),
        "{with:?} instead of {without:?}: {}\n{}",
        trace.join(" "),
        world.read()
      );
    }
  }
  assert!(n_given_back > 10, "the class went back {n_given_back} times only");
}

/// The lines of a text without markers, placeholders and blank lines.
fn marks_out(text: &str) -> Vec<&str> {
  text.lines().filter(|line| !line.contains("memfw") && !line.trim().is_empty()).collect()
}

#[test]
fn a_record_that_could_not_follow_follows_when_it_can_be_read() {
  let mut world = trusted(at_once());
  let read = world.read();
  world.records.answer(OVERRIDE.trim(), web("evil.example"));
  world.records.book().is_busy = true;
  world.tool(&read, &format!("{read}{OVERRIDE}"), false);
  world.pass();
  assert!(!world.read().contains(OVERRIDE) && !world.is_followed());
  assert_eq!(world.degradations().len(), 1);
  world.records.outlook(Outlook::Unreadable("the database is locked".to_owned()));
  world.attribute();
  assert_eq!(world.degradations().len(), 2);
  // The file does not change.
  world.records.book().is_busy = false;
  world.records.outlook(Outlook::Final);
  world.attribute();
  assert!(world.is_followed() && world.degradations().is_empty());
}

#[test]
fn a_file_that_is_touched_again_and_again_waits_for_no_reader_without_end() {
  let mut world = World::new(Config::default());
  world.adopt("# Memory\n");
  let text = format!("# Memory\n\n{OVERRIDE}");
  let row = (ContentHash::of(text.as_bytes()), "agent".to_owned());
  world.records.book().rows.insert(world.target.path(), row);
  for (after, is_held) in [(0, true), (4, true), (3, false)] {
    world.clock.advance_monotonic(Duration::from_secs(after));
    // Each time it has just been changed, and has the same bytes.
    world.write(&text);
    let hint = Hint { waited: Duration::from_secs(1), ..Hint::default() };
    let outcome = world.engine.pass(&world.target, &hint).unwrap();
    assert_eq!(matches!(outcome, Outcome::HoldOff(_)), is_held, "{after} s: {outcome:?}");
    assert_eq!(world.read().contains(OVERRIDE), is_held, "{after} s");
  }
}

#[test]
fn a_version_that_comes_back_waits_for_its_reader_again() {
  for between in ["# Memory\n", "# Memory\n\n- Likes tea.\n"] {
    let mut world = World::new(Config::default());
    world.adopt("# Memory\n");
    let text = format!("# Memory\n\n{OVERRIDE}");
    let row = (ContentHash::of(text.as_bytes()), "agent".to_owned());
    world.records.book().rows.insert(world.target.path(), row);
    for (text, is_held) in [(text.as_str(), true), (between, false), (&text, true)] {
      world.write(text);
      let hint = Hint { waited: Duration::from_secs(1), ..Hint::default() };
      let outcome = world.engine.pass(&world.target, &hint).unwrap();
      assert_eq!(
        matches!(outcome, Outcome::HoldOff(_)),
        is_held,
        "{between:?}, {text:?}: {outcome:?}"
      );
      world.clock.advance_monotonic(Duration::from_secs(8));
    }
  }
}
