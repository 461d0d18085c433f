//! Losses: what counts as one, and what a person's decision does.
#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "the files here are temporary ones of the tests")]

use std::{fs, path::Path, sync::Arc, time::Duration};

use super::{
  Engine, Hint, Outcome, Target,
  testing::{OVERRIDE, World},
};
use crate::{
  config::Config,
  engine::EventKind,
  files::RealFs,
  os::Clock as _,
  store::{EventFilter, Loss, LossState, Retention},
};

const HOUR: Duration = Duration::from_hours(1);

/// So many lines, numbered from `from`.
fn lines(from: usize, n: usize) -> String {
  (from..from + n).map(|n| format!("- Ann likes train number {n}.\n")).collect::<Vec<_>>().concat()
}

impl World {
  /// Processes all changes of a file, and measures it.
  fn step(&mut self, rel: &str, text: Option<&str>) {
    let target = Target::new(&self.target.root, Path::new(rel));
    fs::create_dir_all(target.path().parent().unwrap()).unwrap();
    match text {
      Some(text) => fs::write(target.path(), text).unwrap(),
      None => fs::remove_file(target.path()).unwrap(),
    }
    self.clock.advance_wall(Duration::from_secs(1));
    self.seen(&target);
    self.measure();
  }

  fn seen(&mut self, target: &Target) {
    let hint = Hint { waited: HOUR, opened_since_close: true, ..Hint::default() };
    while matches!(
      self.engine.pass(target, &hint).unwrap(),
      Outcome::Busy | Outcome::Changed | Outcome::HoldOff(_)
    ) {
      self.clock.pause(Duration::from_millis(1));
    }
    self.engine.keep_present(target).unwrap();
  }

  fn measure(&mut self) {
    while self.engine.measure_next().unwrap() {}
  }

  fn losses(&self) -> Vec<Loss> {
    self.engine.ledger().waiting_losses().unwrap()
  }

  /// The losses that wait: how many lines, of how many.
  fn lost(&self) -> Vec<(u64, u64)> {
    self.losses().iter().map(|loss| (loss.found.lost, loss.found.lines)).collect()
  }

  /// The loss that waits.
  #[track_caller]
  fn loss(&self) -> Loss {
    let [loss] = <[Loss; 1]>::try_from(self.losses()).unwrap();
    loss
  }

  fn n_of_kind(&self, kind: EventKind) -> usize {
    let filter = EventFilter { event: Some(kind), ..EventFilter::default() };
    self.engine.ledger().events(&filter).unwrap().len()
  }

  fn text(&self, rel: &str) -> String {
    fs::read_to_string(self.target.root.join(rel)).unwrap()
  }
}

fn world() -> World {
  World::new(Config { markers: crate::config::Markers::None, ..Config::default() })
}

fn engine(world: &mut World) -> &mut Engine<RealFs> {
  &mut world.engine
}

#[test]
fn most_of_a_file_at_once_is_a_loss_and_its_return_ends_it() {
  let mut world = world();
  world.step("MEMORY.md", Some(&lines(0, 20)));
  world.step("MEMORY.md", Some(&lines(0, 10)));
  assert_eq!(world.lost(), [], "half of it is not more than half");
  world.step("MEMORY.md", Some(&lines(0, 20)));
  world.step("MEMORY.md", Some("- A summary.\n"));
  assert_eq!(world.lost(), [(20, 20)]);
  assert_eq!((world.n_of_kind(EventKind::Lost), world.loss().found.state), (1, LossState::Lost));
  world.step("MEMORY.md", Some("- A shorter one.\n"));
  assert_eq!(
    (world.lost(), world.n_of_kind(EventKind::Lost)),
    (vec![(20, 20)], 1),
    "it is told once"
  );
  world.step("MEMORY.md", Some(&lines(0, 18)));
  assert_eq!((world.lost(), world.n_of_kind(EventKind::LossEnded)), (vec![], 1));
  world.step("small.md", Some(&lines(0, 9)));
  world.step("small.md", Some("\n"));
  assert_eq!(world.lost(), [], "a few lines are none");
}

#[test]
fn small_steps_within_a_day_are_one_loss() {
  let mut world = world();
  for n in (0..=20).rev() {
    world.step("MEMORY.md", Some(&format!("# Notes\n{}", lines(0, n * 2))));
    world.clock.advance_wall(HOUR / 2);
  }
  assert_eq!(world.lost(), [(40, 41)]);
  let mut slow = self::world();
  for n in (0..=20).rev() {
    slow.step("MEMORY.md", Some(&format!("# Notes\n{}{}", lines(0, n * 2), lines(100, 20))));
    slow.clock.advance_wall(HOUR * 20);
  }
  assert_eq!(slow.lost(), [], "a few lines a day are no loss");
}

#[test]
fn a_move_is_none_until_the_text_is_gone_there_too() {
  let mut world = world();
  world.step("MEMORY.md", Some(&format!("# Notes\n{}", lines(0, 30))));
  world.step("memory/trains.md", Some(&lines(500, 400)));
  world.step("MEMORY.md", Some("# Notes\n"));
  assert_eq!(world.lost(), [(30, 31)]);
  // The second half of the move comes later.
  world.step("memory/trains.md", Some(&format!("{}{}", lines(500, 400), lines(0, 30))));
  assert_eq!((world.lost(), world.n_of_kind(EventKind::LossEnded)), (vec![], 1));
  // 30 of 430 lines are no loss of that file.
  world.step("memory/trains.md", Some(&lines(500, 400)));
  assert_eq!(world.lost(), [(30, 31)]);
  assert_eq!(world.loss().path, world.target.root.join("MEMORY.md"));
  let mut world = self::world();
  world.step("memory/trains.md", Some("# Trains\n"));
  world.step("MEMORY.md", Some(&lines(0, 30)));
  world.step("memory/trains.md", Some(&lines(0, 30)));
  world.step("MEMORY.md", Some("# Notes\n"));
  assert_eq!((world.lost(), world.n_of_kind(EventKind::Lost)), (vec![], 0));
  world.step("memory/trains.md", None);
  assert_eq!(world.lost().len(), 2, "both files had it");
}

#[test]
fn a_renamed_file_has_lost_nothing() {
  let mut world = world();
  world.step("MEMORY.md", Some(&lines(0, 30)));
  let (from, to) = (world.target.path(), world.target.root.join("memory/old.md"));
  fs::create_dir_all(to.parent().unwrap()).unwrap();
  fs::rename(from, to).unwrap();
  let target = world.target.clone();
  world.seen(&target);
  let renamed = Target::new(&target.root, Path::new("memory/old.md"));
  world.seen(&renamed);
  world.measure();
  assert_eq!(world.lost(), []);
}

#[test]
fn a_file_that_is_deleted_again_is_a_loss_again() {
  let mut world = world();
  world.step("MEMORY.md", Some(&lines(0, 30)));
  for n in 1..=3 {
    world.step("MEMORY.md", None);
    let loss = world.loss();
    assert_eq!((loss.found.lost, loss.found.after), (30, None), "deletion {n}");
    engine(&mut world).approve_loss(&loss, "ann", None).unwrap();
    assert_eq!(world.lost(), []);
    // The same bytes again.
    world.step("MEMORY.md", Some(&lines(0, 30)));
    assert_eq!(world.lost(), []);
  }
  assert_eq!(world.n_of_kind(EventKind::Lost), 3);
}

#[test]
fn an_approved_loss_is_what_later_versions_are_compared_with() {
  let mut world = world();
  world.step("MEMORY.md", Some(&lines(0, 60)));
  world.step("MEMORY.md", Some(&lines(0, 20)));
  let loss = world.loss();
  engine(&mut world).approve_loss(&loss, "ann", Some("tidied")).unwrap();
  world.step("MEMORY.md", Some(&lines(0, 15)));
  assert_eq!(world.lost(), []);
  world.step("MEMORY.md", Some(&lines(0, 5)));
  assert_eq!(world.lost(), [(15, 20)]);
  let error = engine(&mut world).undo_loss(&loss, "ann", None).unwrap_err();
  assert!(
    error.to_string().contains("already") || error.to_string().contains("no decision"),
    "{error}"
  );
  let second = world.loss();
  let second = engine(&mut world).approve_loss(&second, "ann", None).unwrap();
  engine(&mut world).undo_loss(&second, "ann", None).unwrap();
  world.measure();
  assert_eq!(world.lost(), [(15, 20)], "the first decision still counts");
  // Taken back, the first one has lost these lines, too.
  let decided = world.engine.ledger().loss(loss.id.as_str()).unwrap().unwrap();
  engine(&mut world).undo_loss(&decided, "ann", None).unwrap();
  world.measure();
  assert_eq!((world.lost(), world.loss().id), (vec![(55, 60)], loss.id));
}

#[test]
fn lines_that_are_lost_in_many_steps_are_found_whatever_fills_their_place() {
  let mut world = world();
  world.step("memory/2026-11-20.md", Some("# Day\n"));
  world.step("memory/2026-11-20.md", Some(&lines(0, 100)));
  let filler = |n| format!("- {} number {n} of them.\n", "a rather long line ".repeat(9));
  let mut fill = String::new();
  for n in 1..=98 {
    fill.push_str(&filler(n));
    world.step("memory/2026-11-20.md", Some(&format!("{}{fill}", lines(n, 100 - n))));
  }
  let [(lost, of)] = world.lost()[..] else { panic!("{:?}", world.lost()) };
  assert!(lost >= 80 && of <= 110, "{lost} of {of}");
}

#[test]
fn another_loss_of_a_file_waits_beside_the_first() {
  let mut world = world();
  world.step("MEMORY.md", Some(&lines(0, 30)));
  world.step("MEMORY.md", Some("- A summary.\n"));
  let first = world.loss();
  world.step("MEMORY.md", Some(&lines(500, 60)));
  world.step("MEMORY.md", Some("- Nothing.\n"));
  assert_eq!(world.lost(), [(30, 30), (60, 60)]);
  // Each is decided about alone.
  let [one, other] = <[Loss; 2]>::try_from(world.losses()).unwrap();
  assert_eq!((&one.id, one.found.base), (&first.id, first.found.base));
  engine(&mut world).approve_loss(&other, "ann", None).unwrap();
  engine(&mut world).reject_loss(&one, "ann", None).unwrap();
  assert_eq!(world.text("MEMORY.md"), lines(0, 30));
  world.measure();
  assert_eq!(world.lost(), []);
  // What writes and removes text all the time fills no list.
  for n in 1..40 {
    world.step("MEMORY.md", Some(&lines(n * 1000, 20)));
    world.step("MEMORY.md", Some("- Nothing.\n"));
  }
  assert_eq!(world.losses().len(), 8);
}

#[test]
fn lines_that_vanish_after_a_move_are_found_however_many_others_were_moved() {
  let mut world = world();
  world.step("MEMORY.md", Some(&lines(0, 30)));
  world.step("memory/moved.md", Some(&lines(0, 30)));
  world.step("MEMORY.md", Some("# Notes\n"));
  let (mut rest, mut all) = (String::new(), String::new());
  for n in 1..=40 {
    let text = lines(n * 1000, 12);
    all.push_str(&text);
    world.step("memory/all.md", Some(&all));
    world.step("memory/decoy.md", Some(&text));
    rest.push_str(&text);
  }
  assert_eq!(world.lost(), [], "all of it was moved");
  assert_eq!(world.text("memory/all.md"), rest);
  world.step("memory/moved.md", Some("# Empty\n"));
  let files: Vec<_> = world.losses().into_iter().map(|loss| loss.path).collect();
  assert!(files.contains(&world.target.root.join("MEMORY.md")), "{files:?}");
}

#[test]
fn what_a_program_removes_right_after_a_rejection_is_a_loss_again() {
  let mut world = world();
  world.step("MEMORY.md", Some(&lines(0, 30)));
  world.step("MEMORY.md", Some("- A summary.\n"));
  let loss = world.loss();
  let (done, restored) = engine(&mut world).reject_loss(&loss, "ann", None).unwrap();
  assert_eq!((done.restored, restored.left), (Some(loss.found.base), Some(loss.found.base)));
  // The first thing that memfw sees after the restore.
  world.step("MEMORY.md", Some("- Another summary.\n"));
  assert_eq!(world.lost(), [(30, 30)]);
  assert_ne!(world.loss().id, loss.id);
}

#[test]
fn a_loss_that_is_being_rejected_is_not_approved_and_one_that_is_measured_again_is_rejected() {
  let mut world = world();
  world.step("MEMORY.md", Some(&lines(0, 60)));
  world.step("MEMORY.md", Some(&lines(0, 20)));
  let read = world.loss();
  // The daemon measures it meanwhile.
  world.step("MEMORY.md", Some(&lines(0, 10)));
  assert_ne!(world.loss(), read);
  let mut begun = world.loss();
  begun.found.state = LossState::Restoring;
  assert!(engine(&mut world).ledger_mut().change_loss(&begun, &[], 1).unwrap());
  let restoring = world.loss();
  let error = engine(&mut world).approve_loss(&restoring, "ann", None).unwrap_err().to_string();
  assert!(error.contains("is being rejected"), "{error}");
  let (done, _) = engine(&mut world).reject_loss(&read, "ann", None).unwrap();
  assert_eq!((done.found.state, world.text("MEMORY.md")), (LossState::Rejected, lines(0, 60)));
}

#[test]
fn an_approval_of_a_row_that_has_changed_is_refused() {
  let mut world = world();
  world.step("MEMORY.md", Some(&lines(0, 60)));
  world.step("MEMORY.md", Some(&lines(0, 20)));
  let read = world.loss();
  world.step("MEMORY.md", Some(&lines(0, 2)));
  assert_eq!(world.lost(), [(58, 60)]);
  let error = engine(&mut world).approve_loss(&read, "ann", None).unwrap_err().to_string();
  assert!(error.contains("has changed meanwhile"), "{error}");
  assert_eq!(world.text("MEMORY.md"), lines(0, 2));
  assert_eq!(world.loss().found.state, LossState::Lost);
}

#[test]
fn a_rejection_restores_and_is_undone_exactly() {
  let mut world = world();
  world.step("MEMORY.md", Some(&lines(0, 30)));
  world.step("MEMORY.md", Some("- A summary.\n"));
  let loss = world.loss();
  let (done, _) = engine(&mut world).reject_loss(&loss, "ann", None).unwrap();
  assert_eq!((done.found.state, world.text("MEMORY.md")), (LossState::Rejected, lines(0, 30)));
  world.measure();
  assert_eq!(world.lost(), []);
  let undone = engine(&mut world).undo_loss(&done, "ann", None).unwrap();
  assert_eq!(
    (undone.found, world.text("MEMORY.md")),
    (loss.found.clone(), "- A summary.\n".into())
  );
  world.measure();
  assert_eq!(world.loss().id, loss.id, "the same loss waits");

  let again = world.loss();
  let (done, _) = engine(&mut world).reject_loss(&again, "ann", None).unwrap();
  world.step("MEMORY.md", Some(&format!("{}- more\n", lines(0, 30))));
  let error = engine(&mut world).undo_loss(&done, "ann", None).unwrap_err().to_string();
  assert!(error.contains("has changed since it was restored"), "{error}");
  world.step("MEMORY.md", Some("- A summary.\n"));
  assert_eq!(world.lost(), [(31, 31)], "a restored file can lose again");
}

#[test]
fn a_deleted_file_comes_back_and_is_not_removed_by_memfw() {
  let mut world = world();
  world.step("MEMORY.md", Some(&lines(0, 30)));
  world.step("MEMORY.md", None);
  let loss = world.loss();
  let (done, restored) = engine(&mut world).reject_loss(&loss, "ann", None).unwrap();
  assert!(restored.created);
  assert_eq!(world.text("MEMORY.md"), lines(0, 30));
  let error = engine(&mut world).undo_loss(&done, "ann", None).unwrap_err().to_string();
  assert!(error.contains("removes no memory file"), "{error}");
  world.step("MEMORY.md", None);
  assert_eq!(world.lost(), [(30, 30)]);
  let undone = engine(&mut world).undo_loss(&done, "ann", None).unwrap();
  assert_eq!((world.loss().id, undone.found.state), (loss.id, LossState::Lost), "one loss waits");
}

#[test]
fn quarantined_lines_are_not_lost_and_do_not_come_back() {
  let mut world = world();
  world.adopt(&format!("# Notes\n{}{OVERRIDE}", lines(0, 12)));
  let target = world.target.clone();
  world.seen(&target);
  for n in 0..12 {
    // As a model that reads the text later does.
    let line = world.text("MEMORY.md").lines().position(|line| line.starts_with("- Ann")).unwrap();
    engine(&mut world).quarantine_line(&target, line + 1, "ann", None).unwrap();
    world.seen(&target);
    world.measure();
    assert_eq!(world.lost(), [], "line {n}");
  }
  let mut world = self::world();
  world.adopt(&format!("{}{OVERRIDE}", lines(0, 30)));
  let target = world.target.clone();
  world.seen(&target);
  let poisoned = 31;
  engine(&mut world).quarantine_line(&target, poisoned, "ann", None).unwrap();
  world.step("MEMORY.md", Some("- A summary.\n"));
  assert_eq!(world.lost(), [(30, 30)], "without the line in quarantine");
  let loss = world.loss();
  engine(&mut world).reject_loss(&loss, "ann", None).unwrap();
  let text = world.text("MEMORY.md");
  assert!(text.contains("train number 29") && !text.contains("Ignore all previous"), "{text}");
}

#[test]
fn what_a_person_restores_is_no_loss() {
  let mut world = world();
  world.step("MEMORY.md", Some("- A summary.\n"));
  world.step("MEMORY.md", Some(&lines(0, 30)));
  let target = world.target.clone();
  let short = world.engine.ledger().versions(&target.path()).unwrap()[1].hash;
  engine(&mut world).restore(&target, short, "ann").unwrap();
  world.seen(&target);
  world.measure();
  assert_eq!((world.lost(), world.text("MEMORY.md")), (vec![], "- A summary.\n".to_owned()));
}

#[test]
fn the_version_of_a_loss_is_kept_until_a_decision() {
  let mut world = world();
  world.step("MEMORY.md", Some(&lines(0, 30)));
  world.step("MEMORY.md", Some("- A summary.\n"));
  world.clock.advance_wall(HOUR * 24 * 60);
  while engine(&mut world).retain().unwrap() {}
  let loss = world.loss();
  assert!(world.engine.ledger().is_version_kept(loss.found.base).unwrap());
  world.step("MEMORY.md", Some("- Another one.\n"));
  assert_eq!(world.lost(), [(30, 30)], "it waits, however long ago it was");
  // A person who switches versions off loses none that waits.
  engine(&mut world).ledger_mut().forget_versions().unwrap();
  let text = world.engine.ledger().version_bytes(loss.found.base).unwrap();
  assert_eq!(text.as_slice(), lines(0, 30).as_bytes());
  let off = Config { version_mb: 0, ..Config::clone(&world.engine.config) };
  engine(&mut world).configure(Arc::new(off), RealFs::default());
  while engine(&mut world).retain().unwrap() {}
  assert!(world.engine.ledger().is_version_kept(loss.found.base).unwrap());
  engine(&mut world).configure(Arc::new(Config::default()), RealFs::default());
  // Nobody fills the disk with losses.
  let full = Retention { max_age: i64::MAX, max_bytes: 1 };
  engine(&mut world).ledger_mut().prune_versions(&full, 1).unwrap();
  let loss = world.loss();
  let error = engine(&mut world).reject_loss(&loss, "ann", None).unwrap_err().to_string();
  assert!(error.contains("is not kept any more"), "{error}");
  world.step("MEMORY.md", Some("- A third one.\n"));
  assert_eq!(world.losses().len(), 1, "it still waits for an approval");
  let loss = world.loss();
  engine(&mut world).approve_loss(&loss, "ann", None).unwrap();
}

#[test]
fn without_versions_and_when_switched_off_nothing_is_measured() {
  for config in [
    Config { version_mb: 0, ..Config::default() },
    Config { loss_percent: 100, ..Config::default() },
  ] {
    let mut world = World::new(config);
    world.step("MEMORY.md", Some(&lines(0, 30)));
    world.step("MEMORY.md", None);
    assert_eq!(world.lost(), []);
    assert_eq!(world.engine.ledger().next_unmeasured(0).unwrap(), None);
  }
}

#[test]
fn an_interrupted_rejection_is_completed() {
  let mut world = world();
  world.step("MEMORY.md", Some(&lines(0, 30)));
  world.step("MEMORY.md", Some("- A summary.\n"));
  let target = world.target.clone();
  let loss = world.loss();
  let mut begun = loss.clone();
  begun.found.state = LossState::Restoring;
  begun.reviewed = Some((1, "ann".to_owned()));
  // Killed before the file was changed: another rejection does it.
  assert!(engine(&mut world).ledger_mut().change_loss(&begun, &[], 1).unwrap());
  world.measure();
  let waiting = world.loss();
  assert_eq!((waiting.found.state, waiting.found.state.shown()), (LossState::Restoring, "lost"));
  // Killed after that: the next check completes it.
  engine(&mut world).restore(&target, loss.found.base, "ann").unwrap();
  world.seen(&target);
  world.measure();
  let done = world.engine.ledger().loss(loss.id.as_str()).unwrap().unwrap();
  assert_eq!((done.found.state, done.restored), (LossState::Rejected, Some(loss.found.base)));
  engine(&mut world).undo_loss(&done, "ann", None).unwrap();
  assert_eq!(world.text("MEMORY.md"), "- A summary.\n");
  let waiting = world.loss();
  let (done, _) = engine(&mut world).reject_loss(&waiting, "ann", None).unwrap();
  assert_eq!((done.found.state, world.text("MEMORY.md")), (LossState::Rejected, lines(0, 30)));
}
