//! Watching over skills: they are checked at the start, after an event about one of their places in a watched
//! directory, and once a minute.
//!
//! The checks run on a thread of their own, and no dirty file waits for them. The timer exists while one of the places
//! exists, or could come to exist without an event. Nothing of a skill is changed: what is new, changed or flagged is
//! told.
#![forbid(unsafe_code)]

use std::{
  collections::HashMap,
  panic::{AssertUnwindSafe, catch_unwind},
  path::{Path, PathBuf},
  sync::mpsc::{Receiver, TryRecvError, channel},
  thread,
  time::Duration,
};

use tokio::sync::mpsc::UnboundedSender;

use super::{
  action::{Action, Surroundings},
  service::seconds,
  skill_check::{
    CheckedSkill, Judged, SkillJudge, SkillList, SkillPlaces, check_skill, gaps_in_words,
    may_exist, news,
  },
};
use crate::{
  detect::rules::Rules,
  engine::{EngineError, Event},
  plural,
  skill::{MAIN, PublicKey},
  store::{PartKind, SkillCheck, SkillRow},
};

/// How often skills are checked (a choice: a program of a skill may change without an event).
const EVERY: Duration = Duration::from_mins(1);
/// The pause after an event (a choice): an installation writes many files.
const SETTLED: Duration = Duration::from_secs(1);

/// The result of one round.
struct Round {
  skills: Vec<CheckedSkill>,
  /// Known skills that are not there any more.
  gone: Vec<PathBuf>,
  /// Why there may be further skills.
  gaps: Vec<String>,
  judged: HashMap<PathBuf, Judged>,
}

/// The checks of skills.
#[derive(Default)]
pub(super) struct Skills {
  places: SkillPlaces,
  /// Wakes the loop; without it [`Self::work`] waits for the thread.
  wake: Option<UnboundedSender<()>>,
  due: Option<Duration>,
  running: Option<Receiver<Round>>,
  /// Whether the running round has other places or criteria than those that count now.
  is_stale: bool,
  /// Findings of the last round, so that only changed skills are judged again.
  judged: HashMap<PathBuf, Judged>,
  /// How many skills there were in the last round.
  n_checked: usize,
  /// Whether there is a timer, because skills are there or could come without an event.
  is_timed: bool,
}

impl Skills {
  /// Skills in these places, which are checked at once.
  pub(super) fn of(places: SkillPlaces) -> Self {
    Self { places, due: Some(Duration::ZERO), ..Self::default() }
  }

  /// Makes the end of each round wake the loop.
  pub(super) fn wake_by(&mut self, wake: UnboundedSender<()>) {
    self.wake = Some(wake);
  }

  /// Goes on with other places, and with criteria that may be others.
  pub(super) fn configure(&mut self, places: SkillPlaces, now: Duration) {
    self.judged.clear();
    self.is_stale = self.running.is_some();
    (self.places, self.due) = (places, Some(now));
  }

  /// The places.
  pub(super) const fn places(&self) -> &SkillPlaces {
    &self.places
  }

  /// Notes an event about a path.
  pub(super) fn note(&mut self, path: &Path, now: Duration) {
    if self.places.roots.iter().any(|root| root.starts_with(path) || path.starts_with(root)) {
      let due = now + SETTLED;
      self.due = Some(self.due.map_or(due, |known| known.min(due)));
    }
  }

  /// Whether there is something to do now.
  pub(super) fn is_due(&self, now: Duration) -> bool {
    self.running.is_some() || self.due.is_some_and(|due| due <= now)
  }

  /// Whether no round is running.
  pub(super) const fn is_idle(&self) -> bool {
    self.running.is_none()
  }

  /// How long until the next round; the end of a running one wakes the loop.
  pub(super) fn next_due(&self, now: Duration) -> Option<Duration> {
    match &self.running {
      None => self.due.map(|due| due.saturating_sub(now)),
      Some(_) => self.wake.is_none().then_some(Duration::ZERO),
    }
  }

  /// How this wakes the process, for `status`.
  pub(super) fn wakeup(&self) -> Option<String> {
    let what = match self.n_checked as u64 {
      0 => "looks for skills".to_owned(),
      n => format!("checks {}", plural::count(n, "skill")),
    };
    self.is_timed.then(|| format!("{what} every {}", seconds(EVERY)))
  }

  /// Starts a round that is due, or hands over what a round has found.
  pub(super) fn work(
    &mut self,
    around: &Surroundings<'_>,
    rules: Rules,
  ) -> Result<Vec<Action>, EngineError> {
    let Some(running) = &self.running else {
      self.due = None;
      let started = self.start(around, rules);
      if started.is_err() {
        self.due = Some(around.now + EVERY);
      }
      return started;
    };
    let round = if self.wake.is_some() {
      match running.try_recv() {
        Err(TryRecvError::Empty) => return Ok(vec![]),
        round => round.ok(),
      }
    } else {
      running.recv().ok()
    };
    self.running = None;
    self.set_timer(&around.watching.watcher.watched(), around.now);
    if std::mem::take(&mut self.is_stale) {
      // A new round is due.
      return Ok(vec![]);
    }
    let Some(round) = round else {
      tracing::error!(target: "memfw", "the check of the skills has failed");
      return Ok(vec![]);
    };
    self.n_checked = round.skills.len();
    let actions = news_of(around, &round)?;
    self.judged = round.judged;
    Ok(actions)
  }

  /// Makes the next round due in a minute, if skills are there, or could come without an event.
  fn set_timer(&mut self, watched: &[PathBuf], now: Duration) {
    let is_unseen =
      |root: &PathBuf| root.parent().is_none_or(|dir| watched.iter().all(|watched| watched != dir));
    self.is_timed = self.places.exist() || self.places.roots.iter().any(is_unseen);
    if self.is_timed {
      let due = now + EVERY;
      self.due = Some(self.due.map_or(due, |known| known.min(due)));
    }
  }

  fn start(&mut self, around: &Surroundings<'_>, rules: Rules) -> Result<Vec<Action>, EngineError> {
    let ledger = around.engine.ledger();
    let known = ledger.skills()?.into_iter().filter(|skill| skill.is_present);
    let known: Vec<PathBuf> = known.map(|skill| skill.dir).collect();
    if !self.places.exist() && known.is_empty() && !self.places.is_unread {
      self.n_checked = 0;
      self.set_timer(&around.watching.watcher.watched(), around.now);
      return Ok(vec![Action::Recover(PartKind::Skills.into())]);
    }
    let keys = ledger.public_keys()?;
    let (config, model) = (around.engine.config().clone(), around.engine.model());
    let judge = SkillJudge { config, rules, model };
    let (places, judged) = (self.places.clone(), std::mem::take(&mut self.judged));
    let (sender, running) = channel();
    let wake = self.wake.clone();
    let run = move || {
      // Skills are hostile input; a panic in a reader of them must not end the daemon.
      let round = || checked(&places, known, &keys, &judge, &judged);
      if let Ok(round) = catch_unwind(AssertUnwindSafe(round)) {
        sender.send(round).unwrap_or_default();
      }
      drop(sender);
      if let Some(wake) = wake {
        wake.send(()).unwrap_or_default();
      }
    };
    match thread::Builder::new().name("skills".to_owned()).spawn(run) {
      Ok(_) => self.running = Some(running),
      Err(error) => {
        tracing::error!(target: "memfw", %error, "the skills cannot be checked now");
        self.due = Some(around.now + EVERY);
      }
    }
    Ok(vec![])
  }
}

/// Checks all skills. While not all can be found, those that were known are checked as long as they exist.
fn checked(
  places: &SkillPlaces,
  known: Vec<PathBuf>,
  keys: &[PublicKey],
  judge: &SkillJudge,
  judged: &HashMap<PathBuf, Judged>,
) -> Round {
  let SkillList { mut dirs, gaps } = places.skills();
  let is_kept = |dir: &PathBuf| {
    (!gaps.is_empty() || places.is_unread) && may_exist(dir.join(MAIN).symlink_metadata())
  };
  let unfound = known.into_iter().filter(|dir| !dirs.contains(dir));
  let (kept, gone): (Vec<_>, Vec<_>) = unfound.partition(is_kept);
  dirs.extend(kept);
  let check = |dir: &PathBuf| check_skill(dir, places.besides, keys, judge, judged.get(dir)).ok();
  let skills: Vec<CheckedSkill> = dirs.iter().filter_map(check).collect();
  let judged = skills.iter().map(|CheckedSkill { check, findings }| {
    (check.dir.clone(), (check.manifest.hash(), findings.clone()))
  });
  let judged = judged.collect();
  Round { skills, gone, gaps, judged }
}

/// What a round has found that the ledger does not know.
fn news_of(around: &Surroundings<'_>, round: &Round) -> Result<Vec<Action>, EngineError> {
  let ledger = around.engine.ledger();
  let known = ledger.skills()?;
  let mut actions = vec![match round.gaps.as_slice() {
    [] => Action::Recover(PartKind::Skills.into()),
    gaps => Action::Degrade(PartKind::Skills.into(), gaps_in_words(gaps)),
  }];
  for CheckedSkill { check, .. } in &round.skills {
    let row = known.iter().find(|row| row.dir == check.dir);
    if row.is_some_and(|row| is_known(row, check)) {
      continue;
    }
    let older = row.map(|row| ledger.skill_manifest(row.manifest)).transpose()?.flatten();
    let events = news(row, check, older.as_ref()).into_iter().map(|(kind, text)| {
      Event::new(kind).path(&check.dir).detail(text).count(check.n_findings as usize)
    });
    actions.push(Action::RecordSkill(Box::new(check.clone()), events.collect()));
  }
  let is_present = |dir: &&PathBuf| known.iter().any(|row| row.dir == **dir && row.is_present);
  let gone = round.gone.iter().filter(is_present);
  actions.extend(gone.map(|dir| Action::LoseSkill(dir.clone())));
  Ok(actions)
}

/// Whether a check has found what the ledger has.
fn is_known(row: &SkillRow, found: &SkillCheck) -> bool {
  row.is_present
    && row.manifest == found.manifest.hash()
    && (row.state, row.n_findings) == (found.state(Some(row)), found.n_findings)
    && (row.name.as_str(), row.signature.as_str()) == (&*found.name, found.signature.as_str())
    && row.codes == found.codes
    && row.signed_by.as_deref() == found.signature.key()
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn a_round_is_due_at_once_and_soon_after_an_event() {
    let places = SkillPlaces { roots: vec!["/w/skills".into()], ..SkillPlaces::default() };
    let mut skills = Skills::of(places);
    let at = Duration::from_secs;
    assert!(skills.is_due(at(0)) && skills.is_idle());
    skills.due = None;
    assert_eq!(skills.next_due(at(5)), None, "there is no timer without skills");
    for path in ["/w/memory", "/w/skill", "/x"] {
      skills.note(Path::new(path), at(5));
      assert_eq!(skills.next_due(at(5)), None, "{path}");
    }
    for path in ["/w/skills", "/w/skills/a/SKILL.md", "/w"] {
      skills.due = None;
      skills.note(Path::new(path), at(5));
      assert_eq!(skills.next_due(at(5)), Some(SETTLED), "{path}");
    }
    skills.note(Path::new("/w/skills"), at(5) + SETTLED / 2);
    assert!(skills.is_due(at(6)), "further events do not put it off");
    assert_eq!(skills.wakeup(), None);
    skills.is_timed = true;
    assert_eq!(skills.wakeup().as_deref(), Some("looks for skills every 60 s"));
    skills.n_checked = 2;
    assert_eq!(skills.wakeup().as_deref(), Some("checks 2 skills every 60 s"));
  }

  #[test]
  fn there_is_a_timer_while_a_place_could_come_unseen() {
    let places = SkillPlaces { roots: vec!["/none/w/skills".into()], ..SkillPlaces::default() };
    let mut skills = Skills { places, ..Skills::default() };
    let now = Duration::from_secs(5);
    skills.set_timer(&["/none/w".into()], now);
    assert_eq!((skills.next_due(now), skills.wakeup()), (None, None));
    skills.places.roots.push("/none/.agents/skills".into());
    skills.set_timer(&["/none/w".into()], now);
    assert_eq!(skills.next_due(now), Some(EVERY));
    assert!(skills.wakeup().is_some());
  }

  #[test]
  fn a_round_of_other_places_does_not_count() {
    let mut skills = Skills::of(SkillPlaces::default());
    skills.configure(SkillPlaces::default(), Duration::ZERO);
    assert!(!skills.is_stale);
    skills.running = Some(channel().1);
    skills.configure(SkillPlaces::default(), Duration::from_secs(7));
    assert!(skills.is_stale && skills.due == Some(Duration::from_secs(7)));
  }
}
