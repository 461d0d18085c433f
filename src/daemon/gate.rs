//! The daemon's side of the gate: it listens, answers questions, and reports the state of the gate.
//!
//! A thread accepts connections and passes messages on; the loop does everything else. There is one gate
//! at a time: a new connection replaces the old one. Only the daemon's own user and root may connect.
//! The gate learns paths and stamps, and nothing else.
#![forbid(unsafe_code)]

use std::{
  collections::VecDeque,
  io,
  path::PathBuf,
  sync::{
    Arc,
    atomic::{AtomicBool, Ordering::SeqCst},
  },
  time::Duration,
};

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::UnboundedSender;

use super::{Daemon, DaemonError};
use crate::{
  engine::{EngineError, Event, EventKind, Passed},
  gate::message::{ToDaemon, ToGate},
  os::{
    socket::{Channel, Listener, address},
    user,
  },
  store::StateKey,
};

/// The key of the degradation.
const DEGRADED: &str = "gate";
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

/// The state of the gate, for `status`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateHealth {
  /// Whether the gate is connected.
  pub connected: bool,
  /// The gate's process id.
  pub pid: Option<i32>,
  /// Since when the gate has been in this state, in microseconds since the epoch.
  pub since: i64,
  /// In how many directories readers wait at the gate.
  pub directories: u32,
  /// A watched directory whose readers do not wait at the gate.
  #[serde(default)]
  pub ungated: Option<String>,
  /// How many reads of unjudged bytes the gate let through since it connected.
  pub let_through: u64,
  /// When the gate last reported such reads, in microseconds since the epoch.
  pub let_through_at: Option<i64>,
  /// Why the gate let them through.
  pub why: Option<String>,
}

/// What the accepting thread passes to the loop; the number is that of the connection.
#[derive(Debug)]
pub enum Said {
  /// A connection was accepted.
  Came(u64, Channel),
  /// A message arrived.
  Message(u64, ToDaemon),
  /// A connection ended.
  Gone(u64),
}

/// The link to the gate; empty if the configuration wants no gate.
#[derive(Debug, Default)]
pub struct GateLink {
  listener: Option<Listener>,
  link: Option<(u64, Channel)>,
  questions: VecDeque<Question>,
  /// Messages that are not sent yet, in order.
  outbox: VecDeque<ToGate>,
  /// When sending is tried again.
  send_at: Option<Duration>,
  /// When the gate must have connected.
  expected_by: Option<Duration>,
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

impl GateLink {
  /// No gate.
  pub fn none() -> Self {
    Self::default()
  }

  /// Listens for the gate if the configuration enables it.
  pub fn listen(daemon: &mut Daemon, sender: UnboundedSender<Said>) -> Result<Self, DaemonError> {
    let now = daemon.now();
    let engine = daemon.engine();
    let mut link = Self { max_wait: engine.config().gate_max_wait, ..Self::default() };
    if !engine.config().gate_enabled {
      return Ok(link);
    }
    link.expected_by = Some(now + COMING);
    match Listener::bind(&address(engine.data())) {
      Ok(listener) => {
        let (shared, asked) = (listener.share(), daemon.is_asked());
        let accepting = move || accept(&shared, &sender, &asked);
        std::thread::Builder::new().name("gate".to_owned()).spawn(accepting)?;
        link.listener = Some(listener);
      }
      Err(error) => {
        tracing::error!(target: "memfw", %error, "cannot listen for the gate");
      }
    }
    Ok(link)
  }

  /// Records that the gate is not connected yet, or that it is not enabled.
  pub fn start(&mut self, daemon: &mut Daemon) -> Result<(), EngineError> {
    self.health.since = daemon.engine().clock().now();
    if self.expected_by.is_none() {
      return daemon.engine().ledger_mut().remove_state(&StateKey::Gate).map_err(EngineError::from);
    }
    self.write(daemon)?;
    if self.listener.is_none() {
      self.expected_by = None;
      daemon.engine().degrade(DEGRADED, "the gate's socket cannot be made: readers do not wait")?;
    }
    Ok(())
  }

  /// Handles a connection or a message of the gate.
  pub fn hear(&mut self, daemon: &mut Daemon, said: Said) -> Result<(), EngineError> {
    daemon.is_asked().store(false, SeqCst);
    match said {
      Said::Came(number, channel) => self.welcome(daemon, number, channel),
      Said::Message(number, message) if self.is_linked(number) => self.answer(daemon, message),
      Said::Gone(number) if self.is_linked(number) => {
        self.lose(daemon, "the gate has disconnected")
      }
      Said::Message(..) | Said::Gone(_) => Ok(()),
    }
  }

  /// Checks one file for which a reader waits, if such a question is due. Returns whether one was.
  pub fn work(&mut self, daemon: &mut Daemon) -> Result<bool, DaemonError> {
    let now = daemon.now();
    if self.expected_by.is_some_and(|by| now >= by) {
      self.expected_by = None;
      daemon.engine().degrade(DEGRADED, "the gate is not running: readers do not wait")?;
    }
    if self.link.is_some()
      && let Some(directories) = daemon.new_directories()
    {
      self.outbox.extend(directories.into_iter().map(|(dir, root)| ToGate::Watch { root, dir }));
      self.flush(daemon)?;
    } else if self.send_at.is_some_and(|at| now >= at) {
      self.flush(daemon)?;
    }
    let Some(index) = self.questions.iter().position(|question| question.due <= now) else {
      return Ok(false);
    };
    let Some(mut question) = self.questions.remove(index) else { return Ok(false) };
    let answer = daemon.check_for_gate(&question.path)?;
    let now = daemon.now();
    let id = question.id;
    match answer {
      Passed::At(stamp) => self.send(daemon, ToGate::Passed { id, stamp })?,
      Passed::Never => self.send(daemon, ToGate::Aside { id })?,
      // The gate has let the readers through by now.
      Passed::NotYet if now >= question.until => {}
      Passed::NotYet => {
        question.due = now + question.pause;
        question.pause = (question.pause * 2).min(LAST_LOOK);
        let is_told = std::mem::replace(&mut question.is_told, true);
        self.questions.push_back(question);
        // Without this message the gate takes the daemon for hung, and lets the readers through.
        if !is_told {
          self.send(daemon, ToGate::NotYet { id })?;
        }
      }
    }
    Ok(true)
  }

  /// How long until the gate needs work.
  pub fn next_due(&self, now: Duration) -> Option<Duration> {
    let questions = self.questions.iter().map(|question| question.due);
    questions.chain(self.expected_by).chain(self.send_at).min().map(|due| due.saturating_sub(now))
  }

  /// Closes the listener and records that the gate is gone.
  pub fn stop(&mut self, daemon: &mut Daemon) -> Result<(), EngineError> {
    if let Some(listener) = self.listener.take() {
      listener.close();
      self.health.connected = false;
      self.write(daemon)?;
    }
    Ok(())
  }

  fn is_linked(&self, number: u64) -> bool {
    self.link.as_ref().is_some_and(|(linked, _)| *linked == number)
  }

  fn welcome(
    &mut self,
    daemon: &mut Daemon,
    number: u64,
    channel: Channel,
  ) -> Result<(), EngineError> {
    if let Some((_, old)) = self.link.take() {
      old.close();
    }
    self.questions.clear();
    self.outbox.clear();
    self.expected_by = None;
    self.health = GateHealth {
      connected: true,
      pid: Some(channel.peer().pid),
      since: daemon.engine().clock().now(),
      ..GateHealth::default()
    };
    self.link = Some((number, channel));
    self.write(daemon)?;
    daemon.engine().recovered(DEGRADED)?;
    daemon.tell_directories_again();
    self.send(daemon, ToGate::Hello { max_wait: self.max_wait })
  }

  fn answer(&mut self, daemon: &mut Daemon, message: ToDaemon) -> Result<(), EngineError> {
    let now = daemon.now();
    match message {
      ToDaemon::Ask { id, path } => {
        if self.questions.len() >= MAX_QUESTIONS {
          self.questions.pop_front();
        }
        let until = now + self.max_wait;
        let question = Question { id, path, due: now, pause: FIRST_LOOK, until, is_told: false };
        self.questions.push_back(question);
        Ok(())
      }
      ToDaemon::Gated { n } => {
        self.health.directories = n;
        self.write(daemon)
      }
      ToDaemon::NotGated { dir } => {
        self.health.ungated = Some(crate::engine::event::shown(&dir));
        self.write(daemon)
      }
      ToDaemon::LetThrough { n, why } => {
        let at = daemon.engine().clock().now();
        self.health.let_through = self.health.let_through.saturating_add(n.into());
        self.health.let_through_at = Some(at);
        self.health.why = Some(why.to_string());
        let text = format!("the gate let {n} reads through unjudged: {why}");
        daemon.engine().tell(Event::new(EventKind::Degraded).detail(text))?;
        self.write(daemon)
      }
      ToDaemon::Bye => self.lose(daemon, "the gate was stopped"),
    }
  }

  fn lose(&mut self, daemon: &mut Daemon, what: &str) -> Result<(), EngineError> {
    if let Some((_, channel)) = self.link.take() {
      channel.close();
    }
    self.questions.clear();
    self.outbox.clear();
    self.send_at = None;
    self.health.connected = false;
    self.write(daemon)?;
    daemon.engine().degrade(DEGRADED, &format!("{what}: readers do not wait"))
  }

  fn send(&mut self, daemon: &mut Daemon, message: ToGate) -> Result<(), EngineError> {
    self.outbox.push_back(message);
    self.flush(daemon)
  }

  /// Sends the waiting messages until the gate's socket is full.
  fn flush(&mut self, daemon: &mut Daemon) -> Result<(), EngineError> {
    self.send_at = None;
    while let (Some(message), Some((_, channel))) = (self.outbox.front(), &self.link) {
      match channel.send(&message.encode()) {
        Ok(()) => {
          self.outbox.pop_front();
        }
        Err(error)
          if error.kind() == io::ErrorKind::WouldBlock && self.outbox.len() < MAX_OUTBOX =>
        {
          self.send_at = Some(daemon.now() + SEND_AGAIN);
          return Ok(());
        }
        Err(_) => return self.lose(daemon, "the gate does not listen"),
      }
    }
    Ok(())
  }

  fn write(&self, daemon: &mut Daemon) -> Result<(), EngineError> {
    let json = serde_json::to_string(&self.health).unwrap_or_default();
    let at = daemon.engine().clock().now();
    daemon.engine().ledger_mut().set_state(&StateKey::Gate, &json, at)?;
    Ok(())
  }
}

/// Accepts connections of the own user and root, and passes on their messages.
fn accept(listener: &Listener, sender: &UnboundedSender<Said>, asked: &Arc<AtomicBool>) {
  let mut number = 0;
  while let Ok(channel) = listener.accept() {
    let peer = channel.peer();
    if peer.uid != 0 && peer.uid != user::effective_uid() {
      tracing::warn!(
        target: "memfw", uid = peer.uid, pid = peer.pid,
        "a process of another user connected as a gate"
      );
      continue;
    }
    number += 1;
    let (from, to, asked) = (channel.clone(), sender.clone(), Arc::clone(asked));
    // The loop must hear of a connection before its messages.
    if sender.send(Said::Came(number, channel)).is_err() {
      return;
    }
    let spawned = std::thread::Builder::new().name("gate".to_owned()).spawn(move || {
      while let Ok(Some(bytes)) = from.receive() {
        // A message that cannot be decoded ends the connection.
        let Ok(message) = ToDaemon::decode(&bytes) else { break };
        asked.store(true, SeqCst);
        if to.send(Said::Message(number, message)).is_err() {
          return;
        }
      }
      from.close();
      to.send(Said::Gone(number)).ok();
    });
    if spawned.is_err() {
      sender.send(Said::Gone(number)).ok();
    }
  }
}
