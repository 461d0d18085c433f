//! Runs another program once: an argument vector, never a shell; with a time limit, and without its
//! output except for the beginning of its error message.
#![forbid(unsafe_code)]

use std::{
  ffi::OsString,
  io::{self, Read},
  os::unix::process::CommandExt as _,
  process::{Child, Command, Stdio},
  sync::mpsc::{Receiver, TryRecvError, channel},
  thread,
  time::Duration,
};

use rustix::process::{Pid, Signal, kill_process_group};

use super::{Clock as _, SystemClock, pause};

/// How often a running program is polled.
const LOOK: Duration = Duration::from_millis(50);
/// How long to wait for the rest of an error message once the program has ended.
const REST: Duration = Duration::from_millis(500);
/// Largest number of bytes of an error message that are read.
const MAX_COMPLAINT: u64 = 4096;
/// Largest number of its characters that are reported.
const MAX_TOLD: usize = 200;

/// A running program.
#[derive(Debug)]
pub struct Subprocess {
  outcome: Receiver<Result<(), String>>,
}

impl Subprocess {
  /// Starts a program with its arguments and a time limit.
  pub fn start(words: Vec<OsString>, limit: Duration) -> Self {
    let (sender, outcome) = channel();
    // If no thread can be started, the receiver finds the channel closed.
    let run = move || sender.send(run(&words, limit)).unwrap_or_default();
    drop(thread::Builder::new().name("subprocess".to_owned()).spawn(run));
    Self { outcome }
  }

  /// The result; `None` while the program runs. An error is a sentence.
  pub fn outcome(&self) -> Option<Result<(), String>> {
    match self.outcome.try_recv() {
      Ok(outcome) => Some(outcome),
      Err(TryRecvError::Empty) => None,
      Err(TryRecvError::Disconnected) => Some(Err("it could not be started".to_owned())),
    }
  }
}

/// Runs a program with its arguments and waits for its end, which must be a success within the time
/// limit. An error is a sentence.
pub fn run(words: &[OsString], limit: Duration) -> Result<(), String> {
  watch(words, limit, None).map(drop)
}

/// Like [`run`], and returns the output, of which at most `most` bytes are read; a longer output is
/// an error.
pub fn output(words: &[OsString], limit: Duration, most: u64) -> Result<Vec<u8>, String> {
  watch(words, limit, Some(most))
}

/// Starts a program with its arguments and does not wait for its end: it may be one that a person uses for hours. An
/// error is a sentence.
pub fn leave_running(words: &[OsString]) -> Result<(), String> {
  let Some((program, args)) = words.split_first() else {
    return Err("no program is named".to_owned());
  };
  let mut command = Command::new(program);
  command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
  // An interrupt at the terminal is not meant for it.
  command.process_group(0);
  let started = command.spawn().map(drop);
  started.map_err(|error| format!("`{}` cannot be run: {error}", program.display()))
}

fn watch(words: &[OsString], limit: Duration, most: Option<u64>) -> Result<Vec<u8>, String> {
  let Some((program, args)) = words.split_first() else {
    return Err("no program is named".to_owned());
  };
  let name = program.display().to_string();
  let mut command = Command::new(program);
  let stdout = if most.is_some() { Stdio::piped() } else { Stdio::null() };
  command.args(args).stdin(Stdio::null()).stdout(stdout).stderr(Stdio::piped());
  // Its own process group, so that its children end with it.
  command.process_group(0);
  let mut child = command.spawn().map_err(|error| format!("`{name}` cannot be run: {error}"))?;
  let (sender, complaint) = channel();
  if let Some(stderr) = child.stderr.take() {
    let listen = move || sender.send(complaint_of(stderr)).unwrap_or_default();
    drop(thread::Builder::new().name("subprocess".to_owned()).spawn(listen));
  }
  let (sender, printed) = channel();
  if let (Some(stdout), Some(most)) = (child.stdout.take(), most) {
    let listen = move || sender.send(printed_to(stdout, most)).unwrap_or_default();
    drop(thread::Builder::new().name("subprocess".to_owned()).spawn(listen));
  }
  let started = SystemClock.monotonic();
  loop {
    match child.try_wait() {
      Ok(Some(status)) if status.success() => {
        let Some(most) = most else { return Ok(vec![]) };
        // A child of the program may keep its output open.
        let bytes = printed.recv_timeout(REST).unwrap_or_default();
        end_group(&child);
        return bytes.ok_or_else(|| {
          format!("`{name}` printed more than {most} bytes, or kept its output open after its end")
        });
      }
      Ok(Some(status)) => {
        let why = complaint.recv_timeout(REST).unwrap_or_default();
        let colon = if why.is_empty() { "" } else { ": " };
        return Err(format!("`{name}` failed ({status}){colon}{why}"));
      }
      Ok(None) if SystemClock.monotonic().saturating_sub(started) < limit => pause(LOOK),
      Ok(None) => {
        end(&mut child);
        return Err(format!("`{name}` took longer than {} s", limit.as_secs()));
      }
      Err(error) => {
        end(&mut child);
        return Err(format!("`{name}`: {error}"));
      }
    }
  }
}

/// The output of a program; `None` if it is longer than `most` bytes.
fn printed_to(mut stdout: impl Read, most: u64) -> Option<Vec<u8>> {
  let mut bytes = Vec::new();
  (&mut stdout).take(most.saturating_add(1)).read_to_end(&mut bytes).ok()?;
  io::copy(&mut stdout, &mut io::sink()).ok();
  (bytes.len() as u64 <= most).then_some(bytes)
}

fn end_group(child: &Child) {
  if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
    // It may have ended by itself in the meantime.
    kill_process_group(group, Signal::KILL).ok();
  }
}

fn end(child: &mut Child) {
  end_group(child);
  child.wait().ok();
}

/// The first line of an error message that is not empty. The message is another program's text; the
/// rest is read and discarded, so that the program does not block on a full pipe.
fn complaint_of(mut stderr: impl Read) -> String {
  let mut bytes = Vec::new();
  (&mut stderr).take(MAX_COMPLAINT).read_to_end(&mut bytes).ok();
  io::copy(&mut stderr, &mut io::sink()).ok();
  let mut lines = bytes.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
  let line = lines.find(|line| !line.is_empty()).unwrap_or_default();
  let text: String = line.utf8_chunks().map(|chunk| chunk.valid()).collect();
  text.chars().filter(|c| !c.is_control()).take(MAX_TOLD).collect()
}

#[cfg(test)]
mod tests {
  use super::*;

  fn sh(script: &str, limit: Duration) -> Result<(), String> {
    run(&["sh", "-c", script].map(OsString::from), limit)
  }

  const LONG: Duration = Duration::from_secs(30);

  #[test]
  fn success_and_failure_are_reported() {
    assert_eq!(sh("yes | head -c 100000; exit 0", LONG), Ok(()));
    let why = sh("printf '\\n a\\033[31m b \\nc' >&2; exit 3", LONG).unwrap_err();
    assert_eq!(why, "`sh` failed (exit status: 3): a[31m b");
    let why = run(&["/no/such/program".into()], LONG).unwrap_err();
    assert!(why.starts_with("`/no/such/program` cannot be run"), "{why}");
    assert!(run(&[], LONG).is_err());
    // More output than a pipe holds does not block the program.
    assert_eq!(sh("head -c 1000000 /dev/zero >&2", LONG), Ok(()));
  }

  #[test]
  fn output_is_read_up_to_a_limit() {
    let out = |script: &str, limit| output(&["sh", "-c", script].map(OsString::from), limit, 1000);
    assert_eq!(out("printf abc; printf x >&2", LONG), Ok(b"abc".to_vec()));
    assert_eq!(out("cat", LONG), Ok(vec![]), "nothing comes in");
    let why = out("head -c 5000000 /dev/zero", LONG).unwrap_err();
    assert_eq!(why, "`sh` printed more than 1000 bytes, or kept its output open after its end");
    assert!(out("yes", Duration::from_millis(200)).unwrap_err().contains("took longer"));
    assert!(out("printf abc; exit 1", LONG).is_err());
    // Processes that it leaves behind do not block memfw.
    out("printf abc; sleep 100 &", LONG).unwrap_err();
  }

  #[test]
  fn arguments_are_no_script() {
    let words = ["sh", "-c", "test \"$1\" = '$(exit 1); `x`'", "sh", "$(exit 1); `x`"];
    assert_eq!(run(&words.map(OsString::from), LONG), Ok(()));
  }

  #[test]
  fn one_that_takes_too_long_is_ended_with_what_it_has_started() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("late");
    let script = format!("(sleep 2; touch {}) & wait", file.display());
    let why = sh(&script, Duration::from_millis(100)).unwrap_err();
    assert!(why.contains("took longer"), "{why}");
    // Killing the group has ended its children: none is left to write.
    let left = sh("sleep 3", LONG);
    assert!(left.is_ok() && !file.exists());
  }
}
