//! The gate's loop: it asks the daemon, keeps deadlines, and reports readers that waited in vain.
//!
//! One thread with one closed enum of events, as in the daemon. While no reader waits and the
//! daemon is connected, the watchdog has the only timer.
#![forbid(unsafe_code)]

use std::{
  path::{Path, PathBuf},
  sync::{Arc, Mutex},
  time::Duration,
};

use tokio::{
  signal::unix::{SignalKind, signal},
  sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
};

use super::{
  READ_BACK, Why,
  event::{Event, Held},
  message::{ToDaemon, ToGate},
  reader_thread::{Shared, lock},
  waiting::{Arrival, Waiting},
  writers::Writers,
};
use crate::{
  files::{
    Stamp,
    gate::{Barrier, GateError},
  },
  os::{Clock as _, SystemClock, lock::holds_write_lock, socket::Channel, systemd, user},
  plural,
};

/// How long readers wait before the daemon has sent its bound.
pub const MAX_WAIT: Duration = Duration::from_secs(2);
/// How often the gate tries to connect while no daemon answers.
const RETRY: Duration = Duration::from_millis(500);
/// A reader thread that reads for longer is blocked by a lease, and a second thread takes over.
const STUCK: Duration = Duration::from_millis(100);
/// Reader threads that may be blocked by leases at one time before the gate ends, which opens it.
const MAX_STUCK: u32 = 32;
/// Shortest time between two equal alarms.
const QUIET: Duration = Duration::from_secs(10);

/// The options of the gate.
#[derive(Clone, Debug)]
pub struct Options {
  /// The socket of the daemon.
  pub socket: PathBuf,
  /// memfw's data directory, where the write lock is.
  pub data: PathBuf,
  /// Only directories in these are gated, for any owner; empty means all directories that the
  /// daemon names and that belong to the gate's own user.
  pub only: Vec<PathBuf>,
}

/// Makes readers wait until SIGTERM.
pub fn run(barrier: Barrier, options: Options) -> Result<(), GateError> {
  let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
  runtime.map_err(GateError::Events)?.block_on(serve(barrier, options))
}

async fn serve(barrier: Barrier, options: Options) -> Result<(), GateError> {
  let (sender, mut events) = unbounded_channel();
  let mut terminate = signal(SignalKind::terminate()).map_err(GateError::Events)?;
  let mut interrupt = signal(SignalKind::interrupt()).map_err(GateError::Events)?;
  let mut event_loop = EventLoop::open(barrier, options, sender)?;
  tell(systemd::ready());
  event_loop.look_for_daemon();
  let result = loop {
    let timer = async {
      match event_loop.next_due() {
        Some(due) => tokio::time::sleep(due.saturating_sub(SystemClock.monotonic())).await,
        None => std::future::pending().await,
      }
    };
    let woken = tokio::select! {
      biased;
      _ = terminate.recv() => break Ok(()),
      _ = interrupt.recv() => break Ok(()),
      event = next(&mut events) => Some(event),
      () = timer => None,
    };
    if let Some(event) = woken
      && let Err(error) = event_loop.take(event)
    {
      break Err(error);
    }
    if let Err(error) = event_loop.tick() {
      break Err(error);
    }
  };
  tell(systemd::stopping());
  event_loop.close(result.is_ok());
  result
}

/// The next event; the loop itself holds a sender, so the channel never closes.
async fn next(events: &mut UnboundedReceiver<Event>) -> Event {
  match events.recv().await {
    Some(event) => event,
    None => std::future::pending().await,
  }
}

/// A connection to the daemon.
struct Link {
  number: u32,
  channel: Channel,
}

struct EventLoop {
  options: Options,
  shared: Arc<Shared>,
  writers: Arc<Mutex<Writers>>,
  waiting: Waiting<Held>,
  link: Option<Link>,
  n_links: u32,
  retry_at: Duration,
  /// When to check on a reader thread, while one is reading.
  look_at: Option<Duration>,
  alarm: Alarm,
  watchdog: Option<(Duration, Duration)>,
  sender: UnboundedSender<Event>,
}

/// Readers that waited in vain, and whether this was reported.
#[derive(Default)]
struct Alarm {
  unlogged: u32,
  unsent: u32,
  why: Option<Why>,
  said_at: Option<Duration>,
}

impl EventLoop {
  fn open(
    barrier: Barrier,
    options: Options,
    sender: UnboundedSender<Event>,
  ) -> Result<Self, GateError> {
    let shared = Arc::new(Shared::new(barrier, sender.clone()));
    let writers = Arc::new(Mutex::new(Writers::default()));
    let note = {
      let (shared, writers) = (Arc::clone(&shared), Arc::clone(&writers));
      move || note_writers(&shared, &writers)
    };
    shared.start_recorder(note).map_err(GateError::Events)?;
    shared.start_reader().map_err(GateError::Events)?;
    let now = SystemClock.monotonic();
    let watchdog = systemd::watchdog_interval().map(|interval| (interval, now));
    Ok(Self {
      options,
      shared,
      writers,
      waiting: Waiting::new(MAX_WAIT),
      link: None,
      n_links: 0,
      retry_at: now,
      look_at: None,
      alarm: Alarm::default(),
      watchdog,
      sender,
    })
  }

  fn take(&mut self, event: Event) -> Result<(), GateError> {
    match event {
      Event::Came(held) => self.receive(held, None),
      Event::Lost => self.raise(1, Why::Lost),
      Event::Active => {
        self.look_at.get_or_insert(SystemClock.monotonic() + STUCK);
      }
      Event::Heard(number, message) => {
        if self.link.as_ref().is_some_and(|link| link.number == number) {
          match message {
            Ok(message) => self.take_message(message),
            Err(error) => {
              tracing::error!(target: "memfw", %error, "the daemon sent an invalid message");
              self.hang_up();
            }
          }
        }
      }
      Event::Gone(number) => {
        if self.link.as_ref().is_some_and(|link| link.number == number) {
          tracing::error!(target: "memfw", "the daemon has disconnected, readers do not wait");
          self.hang_up();
          self.look_for_daemon();
        }
      }
      Event::Broken(why) => return Err(GateError::Events(std::io::Error::other(why))),
    }
    Ok(())
  }

  /// A process wants to read bytes that may not be passed. `until` is the deadline of a reader that
  /// has already waited.
  fn receive(&mut self, held: Held, until: Option<Duration>) {
    let Some(stamp) = held.reader.stamp() else { return self.shared.barrier.allow(held.reader) };
    // A process that holds the write lock must not wait for the daemon, or both would wait.
    if holds_write_lock(&self.options.data, held.reader.pid()) || self.is_writer(&held, &stamp) {
      return self.shared.barrier.allow(held.reader);
    }
    let now = SystemClock.monotonic();
    if self.link.is_none() {
      self.look_for_daemon();
    }
    let Some(link) = &self.link else { return self.let_through(held, Why::NoDaemon) };
    let path = held.path.clone();
    match self.waiting.arrive((stamp.dev, stamp.ino), held, until, now) {
      Arrival::Waits => {}
      Arrival::LetThrough(held, why) => self.let_through(held, why),
      Arrival::Ask(id) => {
        if link.channel.send(&ToDaemon::Ask { id, path }.encode()).is_err() {
          // A full buffer is treated like a daemon that does not answer; the deadline handles both.
          tracing::debug!(target: "memfw", "a question could not be sent");
        }
      }
    }
  }

  /// Whether this is the verifying read of the process that has just written the file.
  fn is_writer(&self, held: &Held, stamp: &Stamp) -> bool {
    let wall = SystemClock.now().saturating_mul(1000);
    let age = wall.saturating_sub(stamp.ctime_ns);
    let just_now = u128::try_from(age).is_ok_and(|age| age <= READ_BACK.as_nanos());
    if !just_now {
      return false;
    }
    note_writers(&self.shared, &self.writers);
    let now = SystemClock.monotonic();
    lock(&self.writers).is_only((stamp.dev, stamp.ino), held.reader.pid(), now, MAX_WAIT)
  }

  fn take_message(&mut self, message: ToGate) {
    let now = SystemClock.monotonic();
    if self.waiting.heard(now) {
      tracing::info!(target: "memfw", "the daemon answers again, readers wait");
    }
    match message {
      ToGate::Hello { max_wait } => {
        self.waiting.set_max_wait(max_wait);
        let max_wait_ms = max_wait.as_millis();
        tracing::info!(target: "memfw", max_wait_ms, "the daemon answers");
        self.send_alarm();
      }
      ToGate::Watch { root, dir } => self.watch(&dir, root),
      ToGate::Passed { id, stamp } => {
        let file = (stamp.dev, stamp.ino);
        self.waiting.passed(file);
        let readers = self.waiting.answered(id);
        // While its stamp may still be that of a later change, the file is asked about again.
        if stamp.is_settled(SystemClock.now()) {
          self.shared.remember(stamp);
        }
        // Read the writers first: then no write is missing from the stamp.
        note_writers(&self.shared, &self.writers);
        for (until, held) in readers {
          if held.reader.stamp() == Some(stamp) {
            lock(&self.writers).passed(file);
            self.shared.barrier.allow(held.reader);
          } else {
            self.receive(held, Some(until));
          }
        }
      }
      // This only shows that the daemon is alive: the readers keep waiting.
      ToGate::NotYet { .. } => {}
      ToGate::Aside { id } => {
        for (_, held) in self.waiting.answered(id) {
          self.shared.barrier.allow(held.reader);
        }
      }
    }
  }

  fn watch(&mut self, dir: &Path, root: bool) {
    let named = self.options.only.iter().any(|only| dir.starts_with(only));
    if !named && !self.options.only.is_empty() {
      return;
    }
    match self.shared.watch(dir, root, named) {
      Ok(false) => {}
      Ok(true) => {
        let n = u32::try_from(self.shared.barrier.watched().len()).unwrap_or(u32::MAX);
        tracing::info!(target: "memfw", dir = %crate::os::Shown(dir), "readers wait");
        let directories = plural::choose(n.into(), "directory", "directories");
        tell(systemd::status(&format!("readers of {n} {directories} wait")));
        self.send(&ToDaemon::Gated { n });
      }
      Err(error) => {
        tracing::error!(target: "memfw", %error, "readers of a directory do not wait");
        self.send(&ToDaemon::NotGated { dir: dir.to_owned() });
      }
    }
  }

  fn look_for_daemon(&mut self) {
    let now = SystemClock.monotonic();
    if self.link.is_some() || now < self.retry_at {
      return;
    }
    self.retry_at = now + RETRY;
    let Ok(channel) = Channel::connect(&self.options.socket) else { return };
    let peer = channel.peer();
    if peer.uid != user::effective_uid() {
      tracing::error!(
        target: "memfw", uid = peer.uid,
        "another program listens on the daemon's socket"
      );
      return;
    }
    self.n_links = self.n_links.wrapping_add(1);
    let number = self.n_links;
    let (from, to) = (channel.clone(), self.sender.clone());
    let spawned = std::thread::Builder::new().name("daemon".to_owned()).spawn(move || {
      while let Ok(Some(bytes)) = from.receive() {
        to.send(Event::Heard(number, ToGate::decode(&bytes))).ok();
      }
      to.send(Event::Gone(number)).ok();
    });
    if spawned.is_err() {
      return;
    }
    self.shared.daemon.store(peer.pid, std::sync::atomic::Ordering::SeqCst);
    self.shared.forget();
    self.waiting.restart(now);
    self.link = Some(Link { number, channel });
    let n = u32::try_from(self.shared.barrier.watched().len()).unwrap_or(u32::MAX);
    self.send(&ToDaemon::Gated { n });
  }

  fn hang_up(&mut self) {
    if let Some(link) = self.link.take() {
      link.channel.close();
    }
    self.shared.daemon.store(0, std::sync::atomic::Ordering::SeqCst);
    self.shared.forget();
    for held in self.waiting.leave() {
      self.let_through(held, Why::NoDaemon);
    }
  }

  fn send(&self, message: &ToDaemon) {
    if let Some(link) = &self.link {
      // A daemon that does not read is noticed by its silence, and will hear of the next change.
      link.channel.send(&message.encode()).ok();
    }
  }

  /// Lets a process read bytes that were not passed, and counts it.
  fn let_through(&mut self, held: Held, why: Why) {
    self.shared.barrier.allow(held.reader);
    self.raise(1, why);
  }

  fn raise(&mut self, n: u32, why: Why) {
    self.alarm.unlogged = self.alarm.unlogged.saturating_add(n);
    self.alarm.unsent = self.alarm.unsent.saturating_add(n);
    self.alarm.why = Some(why);
  }

  /// Reports new alarms, at a limited rate.
  fn say_alarm(&mut self, now: Duration) {
    let due = self.alarm.said_at.is_none_or(|at| now >= at + QUIET);
    if let (1.., Some(why), true) = (self.alarm.unlogged, self.alarm.why, due) {
      let readers = self.alarm.unlogged;
      tracing::error!(target: "memfw", readers, why = %why, "readers were let through unjudged");
      self.alarm.unlogged = 0;
      self.alarm.said_at = Some(now);
      self.send_alarm();
    }
  }

  fn send_alarm(&mut self) {
    if let (1.., Some(why), Some(link)) = (self.alarm.unsent, self.alarm.why, &self.link)
      && link.channel.send(&ToDaemon::LetThrough { n: self.alarm.unsent, why }.encode()).is_ok()
    {
      self.alarm.unsent = 0;
    }
  }

  /// Handles everything that is due.
  fn tick(&mut self) -> Result<(), GateError> {
    let now = SystemClock.monotonic();
    for (held, why) in self.waiting.overdue(now) {
      self.let_through(held, why);
    }
    self.say_alarm(now);
    self.look_for_daemon();
    if self.look_at.is_some_and(|at| now >= at) {
      self.replace_blocked_reader(now)?;
    }
    if let Some((interval, due)) = &mut self.watchdog
      && now >= *due
    {
      *due = now + *interval;
      tell(systemd::watchdog());
    }
    Ok(())
  }

  /// Leaves a reader thread that is blocked by a lease, and starts another one.
  fn replace_blocked_reader(&mut self, now: Duration) -> Result<(), GateError> {
    let since = self.shared.reading_since();
    self.look_at = since.map(|_| now + STUCK);
    if since.is_some_and(|since| now.saturating_sub(since) >= STUCK) {
      if self.shared.n_threads() > MAX_STUCK {
        return Err(GateError::Events(std::io::Error::other("too many files are under a lease")));
      }
      tracing::warn!(target: "memfw", "a file has been under a lease for long, its reader waits");
      self.shared.start_reader().map_err(GateError::Events)?;
    }
    Ok(())
  }

  fn next_due(&self) -> Option<Duration> {
    let alarm =
      (self.alarm.unlogged > 0).then_some(self.alarm.said_at).flatten().map(|at| at + QUIET);
    let retry = self.link.is_none().then_some(self.retry_at);
    let watchdog = self.watchdog.map(|(_, due)| due);
    [self.waiting.next_deadline(), alarm, retry, self.look_at, watchdog].into_iter().flatten().min()
  }

  /// Lets all waiting readers through; the kernel does that for later ones.
  fn close(&mut self, in_order: bool) {
    for held in self.waiting.leave() {
      self.shared.barrier.allow(held.reader);
    }
    if in_order {
      self.send(&ToDaemon::Bye);
    }
  }
}

/// Reads from the kernel which processes have written. What the daemon wrote is already judged.
fn note_writers(shared: &Shared, writers: &Mutex<Writers>) {
  // Held while reading, so that two readers of the kernel's queue cannot change the order.
  let mut writers = lock(writers);
  let (found, lost) = shared.barrier.writers();
  let now = SystemClock.monotonic();
  let daemon = shared.daemon.load(std::sync::atomic::Ordering::SeqCst);
  for (file, pid) in found.into_iter().filter(|(_, pid)| *pid != daemon) {
    writers.note(file, pid, now, MAX_WAIT);
  }
  if lost {
    writers.lost(now, MAX_WAIT);
  }
}

/// The gate also works without a service manager.
fn tell(told: std::io::Result<()>) {
  if let Err(error) = told {
    tracing::debug!(target: "memfw", %error, "the service manager was not notified");
  }
}
