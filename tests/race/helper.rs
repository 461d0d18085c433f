//! Writers in other languages, as processes of their own: one that maps memory, which is unsafe in Rust,
//! and whose process ends when a mapping is cut short under it; and those that agents run in node.
#![forbid(unsafe_code)]

use {
  super::way::Way,
  serde_json::json,
  std::{
    env,
    ffi::OsString,
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Duration,
  },
};

/// `-S` and `-E` so that no module of the machine is loaded.
const PYTHON: [&str; 4] = ["python3", "-E", "-S", "-c"];
const MAPPER: &str = include_str!("mapper.py");
/// The directory that `tests/node/prepare.sh` has made.
const NODE: &str = "MEMFW_NODE_WRITERS";

/// A running helper; it ends when it is dropped.
pub(crate) struct Helper {
  way: Way,
  child: Child,
  requests: ChildStdin,
  answers: BufReader<ChildStdout>,
}

impl Helper {
  /// The helper of a way to write that needs one.
  pub(crate) fn of(way: Way) -> Option<Self> {
    if !way.needs_helper() {
      return None;
    }
    let [python, rest @ ..] = PYTHON;
    let mut command = if way == Way::Mapped {
      let mut command = Command::new(python);
      command.args(rest).arg(MAPPER);
      command
    } else {
      let mut command = Command::new("node");
      command.arg(node().unwrap().join("writers.mjs"));
      command
    };
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let requests = child.stdin.take().unwrap();
    let answers = BufReader::new(child.stdout.take().unwrap());
    Some(Self { way, child, requests, answers })
  }

  /// Adds `text` to a file, with `gap` before the last step. Returns how often it had to try again,
  /// or why it could not write.
  pub(crate) fn add(&mut self, file: &Path, text: &[u8], gap: Duration) -> Result<usize, String> {
    let text = std::str::from_utf8(text).unwrap();
    let gap = gap.as_secs_f64() * 1e3;
    let request = json!({ "way": self.way.name(), "file": file, "text": text, "gap": gap });
    let sent = writeln!(self.requests, "{request}");
    let mut answer = String::new();
    let read = self.answers.read_line(&mut answer);
    if let Some(why) = answer.strip_prefix("error ") {
      return Err(why.trim_end().to_owned());
    }
    let again = answer.strip_prefix("ok ").and_then(|again| again.trim_end().parse().ok());
    match again {
      Some(again) if sent.is_ok() && read.is_ok() => Ok(again),
      _ => panic!("`{}` died ({:?}): {answer:?}", self.way.name(), self.child.wait()),
    }
  }
}

impl Drop for Helper {
  fn drop(&mut self) {
    self.child.kill().unwrap_or_default();
    drop(self.child.wait());
  }
}

/// Whether memory can be mapped here.
pub(crate) fn can_map() -> bool {
  let [python, rest @ ..] = PYTHON;
  let probe = Command::new(python).args(rest).arg("import ctypes, json").output();
  probe.is_ok_and(|output| output.status.success())
}

/// Where the writers in node are, if they were prepared.
pub(crate) fn node() -> Option<PathBuf> {
  env::var_os(NODE).filter(|dir| *dir != OsString::new()).map(PathBuf::from)
}
