//! Which of two sources is the safer answer.
#![forbid(unsafe_code)]

use crate::provenance::Source;

/// The place of a source among all, least trusted first. Trust itself is a matter of configuration;
/// this only says which of several candidates is named, and the others are named beside it.
pub(super) fn rank(source: &Source) -> u8 {
  match source.kind() {
    "moltbook" => 0,
    "webhook" | "email" | "external" => 10,
    // Text that a person passes on from a page is attributed to the page if the agent read the page
    // as well.
    "user" if source.detail().is_some_and(|detail| detail.ends_with(":others")) => 22,
    "user" if source.detail() != Some("owner") => 15,
    "web_fetch" | "browser" | "web_search" => 20,
    "mcp" | "skill" | "plugin" | "tool" => 30,
    "inter-session" | "session-event" | "cron" => 35,
    "subagent" => 40,
    "exec" => 45,
    "file" | "import" => 50,
    "external-edit" => 60,
    "unknown" => 62,
    "memory" => 70,
    "agent" => 80,
    "user" => 90,
    _ => 25,
  }
}

/// Whether a source is neither OpenClaw's own agent nor its owner.
pub(super) fn is_foreign(source: &Source) -> bool {
  rank(source) < 70
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn only_the_owner_is_the_owner() {
    let owner = rank(&Source::new("user:owner"));
    for text in ["user:telegram:owner", "user:owner:x", "user", "agent", "web_fetch:owner"] {
      assert!(rank(&Source::new(text)) < owner, "{text}");
    }
    assert!(is_foreign(&Source::new("something-new")));
    assert!(!is_foreign(&Source::new("agent")));
  }
}
