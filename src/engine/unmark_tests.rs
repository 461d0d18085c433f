//! Tests of the removal and the return of markers.
#![forbid(unsafe_code)]

use std::time::Duration;

use proptest::prelude::*;

use super::super::{
  marker_preference,
  testing::{OVERRIDE, World},
};
use crate::{
  config::{Config, Markers},
  store::{Pending, StateKey},
};

fn want(world: &mut World, wanted: bool) {
  let at = world.engine.clock().now();
  marker_preference::want(world.engine.ledger_mut(), wanted, at).unwrap();
}

fn want_in(world: &mut World, path: &std::path::Path, wanted: bool) {
  let at = world.engine.clock().now();
  marker_preference::want_in(world.engine.ledger_mut(), path, wanted, at).unwrap();
}

/// Lines of memory that get markers, and some that look like markers.
const LINES: &[&str] = &[
  "- Ann likes the window seat on night trains.",
  "- The office closes at six.",
  "  - on Fridays at four",
  "",
  "",
  "## Plans",
  "A paragraph about nothing in particular.",
  "```",
  "> a quotation",
  "1. first",
  "| a | b |",
  "<!-- somebody's comment -->",
  "hard  ",
];

/// Does all that a daemon does about a change.
fn take_in(world: &mut World) {
  world.pass();
  world.attribute();
  world.lazy();
}

/// A file to which these lines were added after its baseline, with its markers; and its content without
/// markers.
fn marked(mode: Markers, adds: &[Vec<usize>], end: &str) -> (World, String) {
  let mut world = World::new(Config { markers: mode, ..Config::default() });
  let mut text = format!("# Memory{end}{end}- old{end}");
  world.adopt(&text);
  for lines in adds {
    // Like an agent: the current content, including markers, and more.
    let more = lines.iter().map(|at| format!("{}{end}", LINES[*at])).collect::<Vec<_>>().concat();
    let now = world.read() + &more;
    text += &more;
    world.write(&now);
    take_in(&mut world);
  }
  (world, text)
}

fn remark(world: &mut World) -> super::Remarked {
  world.clock.advance_wall(Duration::from_secs(1));
  let target = world.target.clone();
  world.engine.remark(&target).unwrap()
}

proptest! {
  #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

  #[test]
  fn what_is_left_is_what_would_be_there_without_memfw(
    adds in prop::collection::vec(prop::collection::vec(0..LINES.len(), 1..5), 1..4),
    mode in prop::sample::select(vec![Markers::Wrap, Markers::Id]),
    end in prop::sample::select(vec!["\n", "\r\n"]),
  ) {
    let (mut world, text) = marked(mode, &adds, end);
    let with = world.read();
    want(&mut world, false);
    let done = remark(&mut world);
    prop_assert_eq!(&world.read(), &text);
    prop_assert_eq!((done.marks, done.placeholders.len(), done.why), (0, 0, None));
    prop_assert_eq!(done.changed, with != text);
    // No later pass adds them again.
    world.lazy();
    world.restart();
    take_in(&mut world);
    prop_assert_eq!(&world.read(), &text);
    want(&mut world, true);
    remark(&mut world);
    prop_assert_eq!(&world.read(), &with);
  }
}

#[test]
fn one_file_can_differ_from_all_others() {
  let (mut world, text) = marked(Markers::Wrap, &[vec![0]], "\n");
  let path = world.target.path();
  let with = world.read();
  assert_ne!(with, text);
  let asked = |world: &World| marker_preference::is_unmarked(world.engine.ledger(), &path).unwrap();
  want_in(&mut world, &path, false);
  assert!(
    asked(&world)
      && !marker_preference::is_unmarked(world.engine.ledger(), "/other.md".as_ref()).unwrap()
  );
  remark(&mut world);
  assert_eq!(world.read(), text);
  want(&mut world, false);
  assert!(
    asked(&world)
      && marker_preference::is_unmarked(world.engine.ledger(), "/other.md".as_ref()).unwrap()
  );
  want_in(&mut world, &path, true);
  assert!(
    !asked(&world)
      && marker_preference::is_unmarked(world.engine.ledger(), "/other.md".as_ref()).unwrap()
  );
  remark(&mut world);
  assert_eq!(world.read(), with);
  want(&mut world, true);
  let wishes = world.engine.ledger().states().unwrap();
  assert!(
    !wishes.iter().any(|(key, ..)| matches!(key, StateKey::Unmarked | StateKey::UnmarkedFile(_))),
    "{wishes:?}"
  );
}

#[test]
fn new_text_gets_no_marker_while_none_are_wanted_and_its_own_afterwards() {
  let (mut world, mut text) = marked(Markers::Wrap, &[vec![0]], "\n");
  want(&mut world, false);
  remark(&mut world);
  text += "- Bob takes the day train.\n";
  world.write(&text);
  take_in(&mut world);
  assert!(!world.file().pending.contains(Pending::RESHAPE), "nothing is due");
  assert_eq!(world.file().unmarked.as_deref(), Some(marker_preference::WHY));
  assert_eq!(world.read(), text);
  want(&mut world, true);
  let done = remark(&mut world);
  assert_eq!((done.marks, done.why), (4, None), "{}", world.read());
}

#[test]
fn placeholders_stay_and_the_text_can_still_come_back() {
  let (mut world, text) = marked(Markers::Wrap, &[vec![0]], "\n");
  let with = world.read();
  world.write(&format!("{with}{OVERRIDE}- The office closes at six.\n"));
  take_in(&mut world);
  want(&mut world, false);
  let done = remark(&mut world);
  let [(line, id)] = &done.placeholders[..] else { panic!("{done:?}") };
  let left = format!("{text}<!-- memfw:{id} quarantined -->\n- The office closes at six.\n");
  assert_eq!(world.read(), left);
  assert_eq!(left.lines().nth(line - 1).unwrap(), format!("<!-- memfw:{id} quarantined -->"));
  world.clock.advance_wall(Duration::from_secs(1));
  world.engine.approve(id.as_str(), "ann", None).unwrap();
  assert_eq!(world.read(), format!("{text}{OVERRIDE}- The office closes at six.\n"));
}
