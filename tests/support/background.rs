//! A command that runs beside the test, as the daemon does.

use {
  super::{DEADLINE, Test},
  rustix::process::{Pid, Signal, kill_process},
  std::{
    io::Read,
    process::{Child, ExitStatus},
    sync::{Arc, Mutex},
    thread::JoinHandle,
    time::{Duration, Instant},
  },
};

/// A running command with what it has written so far; killed when dropped.
pub(crate) struct Background {
  child: Child,
  stdout: Stream,
  stderr: Stream,
}

impl Background {
  /// Takes over a child whose output streams are pipes.
  pub(crate) fn new(mut child: Child) -> Self {
    let stdout = Stream::read(child.stdout.take().unwrap());
    let stderr = Stream::read(child.stderr.take().unwrap());
    Self { child, stdout, stderr }
  }

  /// The current content of standard output; everything once the command has ended.
  pub(crate) fn stdout(&self) -> Vec<u8> {
    self.stdout.so_far()
  }

  /// The current content of standard error; everything once the command has ended.
  pub(crate) fn stderr(&self) -> Vec<u8> {
    self.stderr.so_far()
  }

  /// Waits until standard error holds `text`, as the log line of an event.
  #[track_caller]
  pub(crate) fn wait_for_log(&mut self, text: &str) {
    let looked = Instant::now();
    while !contains(&self.stderr(), text) {
      let ended = self.child.try_wait().unwrap();
      if ended.is_some() {
        self.join();
      }
      let log = self.stderr();
      let late = ended.is_some() || looked.elapsed() > DEADLINE;
      assert!(
        contains(&log, text) || !late,
        "`{text}` never appeared (ended: {ended:?}) in:\n{}",
        log.escape_ascii().to_string().replace("\\n", "\n")
      );
      pause();
    }
  }

  /// Its process id.
  pub(crate) fn pid(&self) -> u32 {
    self.child.id()
  }

  /// Whether the command has ended.
  pub(crate) fn has_ended(&mut self) -> bool {
    self.child.try_wait().unwrap().is_some()
  }

  /// Asks the command to end, as a service manager does, and waits for it.
  #[track_caller]
  pub(crate) fn terminate(&mut self) -> ExitStatus {
    self.signal(Signal::TERM);
    self.wait()
  }

  /// Ends the command at once, as a power cut does, and waits for it.
  #[track_caller]
  pub(crate) fn kill(&mut self) -> ExitStatus {
    self.signal(Signal::KILL);
    self.wait()
  }

  /// Waits for the end of the command; kills it and fails after the deadline.
  #[track_caller]
  pub(crate) fn wait(&mut self) -> ExitStatus {
    let started = Instant::now();
    loop {
      if let Some(status) = self.child.try_wait().unwrap() {
        self.join();
        return status;
      }
      assert!(started.elapsed() < DEADLINE, "the command does not end");
      pause();
    }
  }

  /// Continues a stopped command.
  #[cfg(all(debug_assertions, linux))]
  pub(crate) fn go_on(&mut self) {
    self.signal(Signal::CONT);
  }

  /// Runs a closure while the command is stopped.
  pub(crate) fn while_stopped(&self, what: impl FnOnce()) {
    let pid = Pid::from_child(&self.child);
    kill_process(pid, Signal::STOP).unwrap();
    let state = format!("/proc/{}/stat", pid.as_raw_nonzero());
    // Each of its threads stops where it is next scheduled.
    eventually("it is stopped", || std::fs::read_to_string(&state).unwrap().contains(") T "));
    what();
    kill_process(pid, Signal::CONT).unwrap();
  }

  /// Sends a signal, unless the command has ended.
  pub(crate) fn signal(&mut self, signal: Signal) {
    // Once the child was waited for, its id may belong to another process.
    if matches!(self.child.try_wait(), Ok(None)) {
      kill_process(Pid::from_child(&self.child), signal).unwrap_or_default();
    }
  }

  fn join(&mut self) {
    self.stdout.join();
    self.stderr.join();
  }
}

impl Drop for Background {
  fn drop(&mut self) {
    if matches!(self.child.try_wait(), Ok(None)) {
      self.child.kill().unwrap_or_default();
      drop(self.child.wait());
    }
  }
}

/// Waits until `condition` holds; fails with `what` after the deadline.
#[track_caller]
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
  let started = Instant::now();
  while !condition() {
    assert!(started.elapsed() < DEADLINE, "{what}: not within {DEADLINE:?}");
    pause();
  }
}

/// The time between two checks of a condition.
fn pause() {
  std::thread::sleep(Duration::from_millis(2));
}

fn contains(bytes: &[u8], text: &str) -> bool {
  bytes.windows(text.len().max(1)).any(|window| window == text.as_bytes())
}

/// A pipe that is read in a thread, so that the command never waits for the test.
struct Stream {
  bytes: Arc<Mutex<Vec<u8>>>,
  reader: Option<JoinHandle<()>>,
}

impl Stream {
  fn read(mut pipe: impl Read + Send + 'static) -> Self {
    let bytes = Arc::new(Mutex::new(Vec::new()));
    let shared = Arc::clone(&bytes);
    let reader = std::thread::spawn(move || {
      let mut buffer = [0; 4096];
      while let Ok(read @ 1..) = pipe.read(&mut buffer) {
        shared.lock().unwrap().extend_from_slice(&buffer[..read]);
      }
    });
    Self { bytes, reader: Some(reader) }
  }

  fn so_far(&self) -> Vec<u8> {
    self.bytes.lock().unwrap().clone()
  }

  fn join(&mut self) {
    if let Some(reader) = self.reader.take() {
      reader.join().unwrap();
    }
  }
}

#[test]
fn a_command_beside_the_test_is_heard_and_ended() {
  let test = Test::new().config("nonsense = 1\n").args(["config", "check"]);
  let mut running = test.start();
  running.wait_for_log("unknown key `nonsense`");
  eventually("it ends", || running.has_ended());
  assert_eq!(running.terminate().code(), Some(2), "a signal that comes too late changes nothing");
  assert_eq!(running.stdout(), b"");
  // Killed or faster than the signal: in both cases it has ended when `kill` returns.
  let mut killed = test.start();
  let status = killed.kill();
  assert_eq!(killed.wait(), status);
}

#[test]
#[should_panic(expected = "never appeared")]
fn a_command_that_ends_without_its_log_line_is_reported() {
  Test::new().args(["config", "path"]).start().wait_for_log("ready");
}

#[test]
fn a_command_sees_only_its_own_world() {
  Test::new()
    .memory("memory/2026-11-21.md", "- [TMP]\r\n")
    .stdin("not read\n".repeat(100_000))
    .args(["config", "path"])
    .stdout("[TMP]/memfw/config/config.toml\n")
    .expect_file("memory/2026-11-21.md", "- [TMP]\r\n")
    .run();
}
