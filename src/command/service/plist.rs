//! An agent of launchd with the facts of this machine.
//!
//! The file in the source is the template; the lines that name a home directory are rewritten, and
//! variables are added.
#![forbid(unsafe_code)]

use std::{ffi::OsStr, fmt::Write as _};

use super::facts::{Facts, Unsayable};

/// The home directory in the template.
const HOME: &str = "/Users/you";
/// This program in the template.
const PROGRAM: &str = "/Users/you/.cargo/bin/memfw";
/// New variables are added after this one.
const VARIABLE: &str = "<key>RTEN_NUM_THREADS</key>";

/// The file for this machine.
pub fn render(template: &str, facts: &Facts) -> Result<String, Unsayable> {
  let mut text = String::new();
  let mut before = "";
  for line in template.lines() {
    let indent = line.split('<').next().unwrap_or_default();
    let value =
      line.trim().strip_prefix("<string>").and_then(|line| line.strip_suffix("</string>"));
    let value = match value {
      Some(PROGRAM) => Some(escaped(facts.program.as_os_str())?),
      Some(value) => match value.strip_prefix(HOME) {
        Some(rest) => Some(escaped(facts.home.as_os_str())? + rest),
        None => None,
      },
      None => None,
    };
    match value {
      Some(value) => writeln!(text, "{indent}<string>{value}</string>"),
      None => writeln!(text, "{line}"),
    }
    .unwrap_or_default();
    if before.trim() == VARIABLE {
      for (name, value) in &facts.variables {
        let (name, value) = (escaped(OsStr::new(name))?, escaped(value)?);
        writeln!(text, "{indent}<key>{name}</key>\n{indent}<string>{value}</string>")
          .unwrap_or_default();
      }
    }
    before = line;
  }
  Ok(text)
}

/// Escapes a text for XML.
fn escaped(text: &OsStr) -> Result<String, Unsayable> {
  let Some(text) = text.to_str() else {
    return Err(Unsayable(text.to_string_lossy().into_owned()));
  };
  // XML 1.0 has neither control characters nor these two.
  if text.chars().any(|c| c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}')) {
    return Err(Unsayable(text.to_owned()));
  }
  Ok(text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;"))
}

#[cfg(test)]
mod tests {
  use super::*;
  use crate::command::service::{
    facts::Sandbox,
    supervisor::{LABEL, Supervisor},
  };

  fn facts() -> Facts {
    Facts {
      program: PROGRAM.into(),
      home: HOME.into(),
      before: vec![],
      variables: vec![],
      workspaces: vec![],
      writable: vec![],
      sandbox: Sandbox::Whole,
    }
  }

  #[test]
  fn the_file_of_the_source_is_what_is_installed() {
    let supervisor = Supervisor::Launchd;
    assert_eq!(supervisor.render(&facts()).unwrap(), supervisor.template());
    assert!(supervisor.template().contains(&format!("<string>{LABEL}</string>")));
  }

  #[test]
  fn paths_and_variables_are_put_in_as_text() {
    let mut facts = facts();
    facts.home = "/Users/ann".into();
    facts.program = "/opt/<a & b>/memfw".into();
    facts.variables.push(("PATH".to_owned(), "/x:/usr/bin".into()));
    let text = Supervisor::Launchd.render(&facts).unwrap();
    assert!(text.contains("    <string>/opt/&lt;a &amp; b&gt;/memfw</string>\n"), "{text}");
    let variables =
      "    <string>1</string>\n    <key>PATH</key>\n    <string>/x:/usr/bin</string>\n  </dict>";
    assert!(text.contains(variables), "{text}");
    assert_eq!(text.matches("<string>/Users/ann/Library/Logs/memfw.log</string>").count(), 2);
    assert!(!text.contains(&format!("<string>{HOME}")));
    facts.program = "/a\u{1}/memfw".into();
    assert!(Supervisor::Launchd.render(&facts).is_err());
  }
}
