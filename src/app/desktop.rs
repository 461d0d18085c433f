//! A notice on the desktop: the program that shows it, as an argument vector.
//!
//! No shell and no script gets the message as code: it is one more argument.
#![forbid(unsafe_code)]

use std::ffi::OsString;

use crate::os::{Env, program};

/// The program that shows notices, where `notify-send` exists and a desktop session runs.
const LINUX: &[&str] = &["notify-send", "--app-name=memfw", "--", "memfw"];
/// The program for macOS; its script is a constant, and the message is an argument.
const MACOS: &[&str] = &[
  "osascript",
  "-e",
  "on run words",
  "-e",
  "display notification (item 1 of words) with title \"memfw\"",
  "-e",
  "end run",
];

/// The arguments before the message, or why there is no notice.
pub fn words(env: &Env) -> Result<Vec<OsString>, String> {
  let words = if cfg!(target_os = "macos") { MACOS } else { LINUX };
  let name = words.first().copied().unwrap_or_default();
  let program = program::find(env, name)
    .ok_or_else(|| format!("`notify.via` is `desktop` and `{name}` was not found in PATH"))?;
  let rest = words.iter().skip(1).map(OsString::from);
  Ok([program.into_os_string()].into_iter().chain(rest).collect())
}
