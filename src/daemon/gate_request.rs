//! Gate requests: the questions of the gate about files for which readers wait, and the answers.
//!
//! There is one gate at a time: a new connection replaces the old one.
#![forbid(unsafe_code)]

use std::{
  collections::VecDeque,
  io,
  path::{Path, PathBuf},
  sync::{Arc, atomic::AtomicBool},
  time::Duration,
};

use tokio::sync::mpsc::UnboundedSender;

use super::{
  action::{Action, Surroundings},
  gate::{FromGate, GateHealth, accept},
};
use crate::{
  config::Config,
  engine::{EventKind, Passed},
  gate::message::{ToDaemon, ToGate},
  os::socket::{Channel, Listener, address},
  plural,
  store::{PartKind, StateKey},
};

/// How long the gate may take to connect after a start: it tries to reach the daemon twice a second.
const COMING: Duration = Duration::from_secs(3);
/// First and longest pause between two checks of a file for which a reader waits.
const FIRST_LOOK: Duration = Duration::from_millis(1);
const LAST_LOOK: Duration = Duration::from_millis(20);
/// How soon sending is tried again when the gate's socket is full.
const SEND_AGAIN: Duration = Duration::from_millis(2);
/// The most messages that wait to be sent; a gate that lets more pile up counts as lost.
const MAX_OUTBOX: usize = 100_000;
/// The most questions kept at once. The gate asks one question for each file with waiting readers, and
/// it holds fewer such files than this.
const MAX_QUESTIONS: usize = 1024;

/// The questions of the gate, and the connection to it; empty if the configuration wants no gate.
#[derive(Debug, Default)]
pub(super) struct GateRequests {
  listener: Option<Listener>,
  link: Option<(u64, Channel)>,
  questions: VecDeque<Question>,
  /// The question whose file is checked now.
  checking: Option<Question>,
  /// Messages that are not sent yet, in order.
  outbox: VecDeque<ToGate>,
  /// When sending is tried again.
  send_at: Option<Duration>,
  /// When the gate must have connected.
  expected_by: Option<Duration>,
  /// Up to which [`super::watching::Watching::generation`] the gate knows the watched directories.
  told: u64,
  max_wait: Duration,
  health: GateHealth,
}

/// A question of the gate about a file for which readers wait.
#[derive(Debug)]
struct Question {
  id: u32,
  path: PathBuf,
  due: Duration,
  pause: Duration,
  /// When the gate lets its readers through without an answer.
  until: Duration,
  /// Whether the gate was told that the daemon works on the file.
  is_told: bool,
}

impl GateRequests {
  /// Listens for the gate if the configuration enables it. `data` is memfw's data directory; `asked` is set
  /// for each message, and everything that the gate says goes to `sender`.
  pub(super) fn listen(
    config: &Config,
    data: &Path,
    asked: &Arc<AtomicBool>,
    sender: UnboundedSender<FromGate>,
    now: Duration,
  ) -> io::Result<Self> {
    let mut this = Self { max_wait: config.gate_max_wait, ..Self::default() };
    if !config.gate_enabled {
      return Ok(this);
    }
    this.expected_by = Some(now + COMING);
    match Listener::bind(&address(data)) {
      Ok(listener) => {
        let (shared, asked) = (listener.share(), Arc::clone(asked));
        let accepting = move || accept(&shared, &sender, &asked);
        std::thread::Builder::new().name("gate".to_owned()).spawn(accepting)?;
        this.listener = Some(listener);
      }
      Err(error) => {
        tracing::error!(target: "memfw", %error, "cannot listen for the gate");
      }
    }
    Ok(this)
  }

  /// Says that the gate is not connected yet, or that it is not enabled. `at` is in microseconds UTC.
  pub(super) fn start(&mut self, at: i64) -> Vec<Action> {
    self.health.since = at;
    if self.expected_by.is_none() {
      return vec![Action::Remove(StateKey::Gate)];
    }
    let mut actions = vec![self.stored()];
    if self.listener.is_none() {
      self.expected_by = None;
      actions.push(degrade("the gate's socket cannot be made: readers do not wait"));
    }
    actions
  }

  /// Handles a connection or a message of the gate.
  pub(super) fn hear(&mut self, said: FromGate, around: &Surroundings<'_>) -> Vec<Action> {
    match said {
      FromGate::Came(number, channel) => self.welcome(number, channel, around),
      FromGate::Message(number, message) if self.is_linked(number) => self.answer(message, around),
      FromGate::Gone(number) if self.is_linked(number) => self.lose("the gate has disconnected"),
      FromGate::Message(..) | FromGate::Gone(_) => vec![],
    }
  }

  /// Wants one file checked for which a reader waits, if such a question is due.
  pub(super) fn work(&mut self, around: &Surroundings<'_>) -> Vec<Action> {
    let now = around.now;
    let mut actions = Vec::new();
    if self.expected_by.is_some_and(|by| now >= by) {
      self.expected_by = None;
      actions.push(degrade("the gate is not running: readers do not wait"));
    }
    if self.link.is_some() && self.told != around.watching.generation {
      self.told = around.watching.generation;
      self.outbox.extend(watched(around).map(|(dir, root)| ToGate::Watch { root, dir }));
      actions.extend(self.flush(now));
    } else if self.send_at.is_some_and(|at| now >= at) {
      actions.extend(self.flush(now));
    }
    let due = self.questions.iter().position(|question| question.due <= now);
    if let Some(question) = due.and_then(|index| self.questions.remove(index)) {
      actions.push(Action::CheckForGate(question.path.clone()));
      self.checking = Some(question);
    }
    actions
  }

  /// Answers the question whose file was checked.
  pub(super) fn answered(&mut self, answer: Passed, now: Duration) -> Vec<Action> {
    let Some(mut question) = self.checking.take() else { return vec![] };
    let id = question.id;
    match answer {
      Passed::At(stamp) => self.send(ToGate::Passed { id, stamp }, now),
      Passed::Never => self.send(ToGate::Aside { id }, now),
      // The gate has let the readers through by now.
      Passed::NotYet if now >= question.until => vec![],
      Passed::NotYet => {
        question.due = now + question.pause;
        question.pause = (question.pause * 2).min(LAST_LOOK);
        let is_told = std::mem::replace(&mut question.is_told, true);
        self.questions.push_back(question);
        // Without this message the gate takes the daemon for hung, and lets the readers through.
        if is_told { vec![] } else { self.send(ToGate::NotYet { id }, now) }
      }
    }
  }

  /// How long until the gate needs work.
  pub(super) fn next_due(&self, now: Duration) -> Option<Duration> {
    let questions = self.questions.iter().map(|question| question.due);
    questions.chain(self.expected_by).chain(self.send_at).min().map(|due| due.saturating_sub(now))
  }

  /// Closes the listener and says that the gate is gone.
  pub(super) fn stop(&mut self) -> Vec<Action> {
    let Some(listener) = self.listener.take() else { return vec![] };
    listener.close();
    self.health.connected = false;
    vec![self.stored()]
  }

  fn is_linked(&self, number: u64) -> bool {
    self.link.as_ref().is_some_and(|(linked, _)| *linked == number)
  }

  fn welcome(&mut self, number: u64, channel: Channel, around: &Surroundings<'_>) -> Vec<Action> {
    if let Some((_, old)) = self.link.take() {
      old.close();
    }
    self.questions.clear();
    self.outbox.clear();
    self.expected_by = None;
    self.health = GateHealth {
      connected: true,
      pid: Some(channel.peer().pid),
      since: around.engine.clock().now(),
      ..GateHealth::default()
    };
    self.link = Some((number, channel));
    // A new gate knows no directory.
    self.told = 0;
    let mut actions = vec![self.stored(), Action::Recover(PartKind::Gate.into())];
    actions.extend(self.send(ToGate::Hello { max_wait: self.max_wait }, around.now));
    actions
  }

  fn answer(&mut self, message: ToDaemon, around: &Surroundings<'_>) -> Vec<Action> {
    let now = around.now;
    match message {
      ToDaemon::Ask { id, path } => {
        if self.questions.len() >= MAX_QUESTIONS {
          self.questions.pop_front();
        }
        let until = now + self.max_wait;
        let question = Question { id, path, due: now, pause: FIRST_LOOK, until, is_told: false };
        self.questions.push_back(question);
        return vec![];
      }
      ToDaemon::Gated { n } => self.health.directories = n,
      ToDaemon::NotGated { dir } => {
        self.health.ungated = Some(crate::engine::event::shown(&dir));
      }
      ToDaemon::LetThrough { n, why } => {
        self.health.let_through = self.health.let_through.saturating_add(n.into());
        self.health.let_through_at = Some(around.engine.clock().now());
        self.health.why = Some(why.to_string());
        let text =
          format!("the gate let {} through unjudged: {why}", plural::count(n.into(), "read"));
        return vec![Action::Tell(EventKind::Degraded, text), self.stored()];
      }
      ToDaemon::Bye => return self.lose("the gate was stopped"),
    }
    vec![self.stored()]
  }

  fn lose(&mut self, what: &str) -> Vec<Action> {
    if let Some((_, channel)) = self.link.take() {
      channel.close();
    }
    self.questions.clear();
    self.outbox.clear();
    self.send_at = None;
    self.health.connected = false;
    vec![self.stored(), degrade(&format!("{what}: readers do not wait"))]
  }

  fn send(&mut self, message: ToGate, now: Duration) -> Vec<Action> {
    self.outbox.push_back(message);
    self.flush(now)
  }

  /// Sends the waiting messages until the gate's socket is full.
  fn flush(&mut self, now: Duration) -> Vec<Action> {
    self.send_at = None;
    while let (Some(message), Some((_, channel))) = (self.outbox.front(), &self.link) {
      match channel.send(&message.encode()) {
        Ok(()) => {
          self.outbox.pop_front();
        }
        Err(error)
          if error.kind() == io::ErrorKind::WouldBlock && self.outbox.len() < MAX_OUTBOX =>
        {
          self.send_at = Some(now + SEND_AGAIN);
          return vec![];
        }
        Err(_) => return self.lose("the gate does not listen"),
      }
    }
    vec![]
  }

  fn stored(&self) -> Action {
    Action::Store(StateKey::Gate, serde_json::to_string(&self.health).unwrap_or_default())
  }
}

fn degrade(why: &str) -> Action {
  Action::Degrade(PartKind::Gate.into(), why.to_owned())
}

/// The watched directories of workspaces, each with whether it is a workspace's root.
fn watched<'a>(around: &'a Surroundings<'_>) -> impl Iterator<Item = (PathBuf, bool)> + 'a {
  let directories = around.directories;
  let roots = directories.workspaces.iter();
  // The gate guards workspaces only.
  let roots: Vec<&PathBuf> = roots.filter(|root| !directories.shapes.is_elsewhere(root)).collect();
  let watched = around.watching.watcher.watched().into_iter();
  watched
    .filter(move |dir| roots.iter().any(|root| dir.starts_with(root)))
    .map(|dir| (directories.workspaces.contains(&dir), dir))
    .map(|(is_root, dir)| (dir, is_root))
}
