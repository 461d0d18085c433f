//! A writer that stores through a shared mapping, as a process of its own: mapping memory is unsafe in
//! Rust, and a mapping that is cut short under its owner ends the process that has it.
#![forbid(unsafe_code)]

use std::{
  io::{BufRead as _, BufReader, Write as _},
  path::Path,
  process::{Child, ChildStdin, ChildStdout, Command, Stdio},
  time::Duration,
};

/// The program; `-S` and `-E` so that nothing of the machine's own is loaded.
const INTERPRETER: [&str; 4] = ["python3", "-E", "-S", "-c"];
const PROGRAM: &str = include_str!("mapper.py");

/// A running mapper; it ends when it is dropped.
pub(crate) struct Mapper {
  child: Child,
  requests: ChildStdin,
  answers: BufReader<ChildStdout>,
}

impl Mapper {
  /// Whether there is an interpreter for it.
  pub(crate) fn is_there() -> bool {
    let [python, rest @ ..] = INTERPRETER;
    let probe = Command::new(python).args(rest).arg("import ctypes, json").output();
    probe.is_ok_and(|output| output.status.success())
  }

  pub(crate) fn start() -> Self {
    let [python, rest @ ..] = INTERPRETER;
    let mut command = Command::new(python);
    command.args(rest).arg(PROGRAM).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let requests = child.stdin.take().unwrap();
    let answers = BufReader::new(child.stdout.take().unwrap());
    Self { child, requests, answers }
  }

  /// Adds `text` to a file, with `gap` between the mapping and the store.
  pub(crate) fn add(&mut self, file: &Path, text: &[u8], gap: Duration) {
    let text = std::str::from_utf8(text).unwrap();
    let request = serde_json::json!({ "file": file, "text": text, "gap": gap.as_secs_f64() });
    let sent = writeln!(self.requests, "{request}");
    let mut answer = String::new();
    let read = self.answers.read_line(&mut answer);
    if sent.is_err() || read.is_err() || answer != "ok\n" {
      panic!("the mapping writer died ({:?}): {answer:?}", self.child.wait());
    }
  }
}

impl Drop for Mapper {
  fn drop(&mut self) {
    self.child.kill().unwrap_or_default();
    drop(self.child.wait());
  }
}
