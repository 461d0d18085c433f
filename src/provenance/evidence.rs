//! The evidence of an attribution, in a form that a person can check.
//!
//! Names and addresses in it come from transcripts and are hostile: they are capped here and escaped
//! by the code that prints them. Evidence holds no text of a memory file or of a page.
#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};

/// Longest name, address or tool in evidence, in characters.
pub const MAX_EVIDENCE_CHARS: usize = 200;
/// Sources that limit the trust of a text are named up to this many, in a line for people.
const MAX_SHOWN: usize = 8;

/// The observations about the origin of a text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Evidence {
  /// The call that wrote it.
  #[serde(skip_serializing_if = "Option::is_none")]
  pub written: Option<Written>,
  /// The material that the text comes from.
  #[serde(skip_serializing_if = "Option::is_none")]
  pub fed: Option<Fed>,
  /// Other material in the agent's context in that turn, least trusted first; at most eight.
  #[serde(skip_serializing_if = "Vec::is_empty")]
  pub also: Vec<String>,
  /// Sources that also limit the trust of the text, as in [`super::Attribution::fed_by`].
  #[serde(skip_serializing_if = "Vec::is_empty")]
  pub fed_by: Vec<String>,
  /// Whether the agent's ledger has the hash of the version in which the text was first seen.
  #[serde(skip_serializing_if = "std::ops::Not::not")]
  pub ledger_hash: bool,
  /// Further facts for the person, in memfw's own words.
  #[serde(skip_serializing_if = "Option::is_none")]
  pub note: Option<String>,
}

impl Evidence {
  /// A name or an address in the form for evidence: one line of limited length.
  pub fn capped(name: &str) -> String {
    let clean = name.trim().chars().map(|c| if c.is_control() { '\u{fffd}' } else { c });
    clean.take(MAX_EVIDENCE_CHARS).collect()
  }

  /// One line for people: "fetched from example.com at 14:02, written by edit in session 315857cc at
  /// 14:03, 83 % of its words from that page". `time` prints microseconds UTC. The caller escapes it.
  pub fn line(&self, time: &dyn Fn(i64) -> String) -> String {
    let mut parts = Vec::new();
    if let Some(fed) = &self.fed {
      parts.push(format!("{} at {}", fed.how(), time(fed.at)));
    }
    if let Some(written) = &self.written {
      let session = written.session.as_deref().map(|id| id.chars().take(8).collect::<String>());
      let session = session.map_or_else(String::new, |id| format!(" in session {id}"));
      parts.push(format!("written by {}{session} at {}", written.tool, time(written.at)));
    }
    if let Some((fed, share)) = self.fed.as_ref().and_then(|fed| Some((fed, fed.share?))) {
      let percent = (share.clamp(0.0, 1.0) * 100.0).round();
      parts.push(format!("{percent} % of its words from {}", fed.what()));
    }
    if !self.fed_by.is_empty() {
      let shown = self.fed_by.get(..MAX_SHOWN).unwrap_or(&self.fed_by).join(", ");
      let more = match self.fed_by.len().saturating_sub(MAX_SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
      };
      parts.push(format!("trust limited because the session also read {shown}{more}"));
    }
    if let Some((first, others)) = self.also.split_first() {
      let more =
        if others.is_empty() { String::new() } else { format!(" and {} more", others.len()) };
      parts.push(format!("{first}{more} in the same turn"));
    }
    if self.ledger_hash {
      parts.push("the agent's ledger has the hash of this version".to_owned());
    }
    parts.extend(self.note.clone());
    if parts.is_empty() { "nothing on record".to_owned() } else { parts.join(", ") }
  }
}

impl Fed {
  /// How the agent got the material.
  fn how(&self) -> String {
    let (kind, detail) = self.source.split_once(':').unwrap_or((&self.source, ""));
    match (kind, detail) {
      ("user", "owner") => "said by the owner".to_owned(),
      ("user", from) => format!("said by {from}"),
      ("web_fetch" | "browser", host) if !host.is_empty() => format!("fetched from {host}"),
      ("web_search", _) => "found by a web search".to_owned(),
      ("file" | "memory", name) if !name.is_empty() => format!("read from {name}"),
      ("exec", _) => "printed by a command".to_owned(),
      ("agent", _) => "worded by the agent itself".to_owned(),
      _ => format!("from {}", self.source),
    }
  }

  /// The material that the words were compared with.
  fn what(&self) -> &'static str {
    match self.source.split(':').next() {
      Some("user") => "that message",
      Some("web_fetch" | "browser") => "that page",
      Some("file" | "memory") => "that file",
      _ => "there",
    }
  }
}

/// The call that wrote a text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Written {
  /// The tool: `edit`, `write`, `apply_patch`, `exec`, ...; `memory flush` where the records have no call.
  pub tool: String,
  /// The time, in microseconds UTC.
  pub at: i64,
  /// The id of the session, shortened to the cap.
  #[serde(skip_serializing_if = "Option::is_none")]
  pub session: Option<String>,
}

/// The material that a text comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fed {
  /// The source, as in [`super::Source`].
  pub source: String,
  /// When the agent got it, in microseconds UTC.
  pub at: i64,
  /// The share of the text's words that the material has, 0 to 1; `None` where it was not compared.
  #[serde(skip_serializing_if = "Option::is_none")]
  pub share: Option<f64>,
}

#[cfg(test)]
mod tests {
  use super::*;

  /// Minutes of the first hour of 1970.
  fn clock(micros: i64) -> String {
    format!("14:{:02}", micros / 60_000_000)
  }

  #[test]
  fn evidence_is_one_line_for_people() {
    let written =
      Written { tool: "edit".into(), at: 180_000_000, session: Some("315857cc-1b16-46b9".into()) };
    let fed = Fed { source: "web_fetch:example.com".into(), at: 120_000_000, share: Some(0.834) };
    let evidence = Evidence { written: Some(written), fed: Some(fed), ..Evidence::default() };
    assert_eq!(
      evidence.line(&clock),
      "fetched from example.com at 14:02, written by edit in session 315857cc at 14:03, \
       83 % of its words from that page"
    );
    assert_eq!(Evidence::default().line(&clock), "nothing on record");
    let fed_by = vec!["web_fetch:a.example".to_owned(), "unknown".to_owned()];
    let evidence = Evidence { fed_by, ..Evidence::default() };
    assert_eq!(
      evidence.line(&clock),
      "trust limited because the session also read web_fetch:a.example, unknown"
    );
  }

  #[test]
  fn hostile_names_stay_short_and_on_one_line() {
    let name = Evidence::capped(&format!("a\n\u{1b}[2J{}", "x".repeat(9000)));
    assert_eq!(name.chars().count(), MAX_EVIDENCE_CHARS);
    assert!(!name.chars().any(char::is_control));
  }
}
