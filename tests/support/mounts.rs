//! A mount namespace for tests that need a mount; it ends with the test.

use std::{
  io::{BufRead as _, BufReader},
  process::{Child, Command, Stdio},
};

/// A process that keeps the namespace alive; its mounts are not visible outside.
pub(crate) struct Mounts {
  holder: Child,
}

impl Mounts {
  /// A namespace in which `setup` was run by a shell; `None`, with a line that says why, where that
  /// does not work.
  pub(crate) fn new(unshare: &[&str], setup: &str) -> Option<Self> {
    let script = format!("{{ {setup} ; }} >&2 && echo ready && exec sleep 600");
    let spawned = Command::new("unshare")
      .args(unshare)
      .args(["sh", "-c", &script])
      .stdin(Stdio::null())
      .stdout(Stdio::piped())
      .stderr(Stdio::piped())
      .spawn();
    let Ok(mut holder) = spawned else {
      eprintln!("skipped: there is no `unshare`");
      return None;
    };
    let mut line = String::new();
    BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
    if line == "ready\n" {
      return Some(Self { holder });
    }
    let output = holder.wait_with_output().unwrap();
    let why = String::from_utf8_lossy(&output.stderr).into_owned();
    eprintln!("skipped: `unshare {}` and mounting does not work here: {why}", unshare.join(" "));
    None
  }

  /// Runs a script of the shell in the namespace.
  #[track_caller]
  pub(crate) fn run(&self, script: &str) {
    let words = self.enter();
    let status = Command::new(&words[0]).args(&words[1..]).args(["sh", "-c", script]).status();
    assert!(status.unwrap().success(), "{script}");
  }

  /// The words before a command that is to run in the namespace.
  pub(crate) fn enter(&self) -> Vec<String> {
    let pid = self.holder.id().to_string();
    ["nsenter", "--target", &pid, "--mount", "--"].map(str::to_owned).into()
  }

  /// The path at which the files of the namespace are visible from outside.
  pub(crate) fn root(&self) -> String {
    format!("/proc/{}/root", self.holder.id())
  }
}

impl Drop for Mounts {
  fn drop(&mut self) {
    self.holder.kill().unwrap_or_default();
    drop(self.holder.wait());
  }
}
