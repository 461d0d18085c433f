//! The text of a notice: how many blocks were taken out or flagged, which files have lost text, and by which ids a
//! person finds them.
//!
//! Invariant: it has only memfw's own words, never text of a memory or a name that somebody else has chosen.
#![forbid(unsafe_code)]

use std::{collections::BTreeSet, path::Path};

use crate::{memory::BlockId, plural};

/// The most items that a message names (a choice: it is short).
const MAX_NAMED: usize = 3;

/// What people were not told yet about one source.
#[derive(Clone, Debug, Default)]
pub(super) struct News {
  pub(super) n: usize,
  /// How many of the blocks were held.
  pub(super) n_held: usize,
  /// How many further blocks were flagged, and are still in their file.
  pub(super) n_flagged: usize,
  /// How many files have lost text.
  pub(super) n_lost: usize,
  pub(super) files: BTreeSet<&'static str>,
  /// The first items; one more than are named shows that there are more.
  pub(super) ids: BTreeSet<BlockId>,
}

impl News {
  pub(super) fn note(&mut self, id: Option<&BlockId>) {
    if self.ids.len() <= MAX_NAMED {
      self.ids.extend(id.cloned());
    }
  }
}

/// A file by a name that memfw chose: an attacker can name a file so that its name speaks to the agent.
pub(super) fn plain_name(rel: &Path) -> &'static str {
  match rel.to_str() {
    Some("MEMORY.md") => "MEMORY.md",
    Some("USER.md") => "USER.md",
    Some("AGENTS.md") => "AGENTS.md",
    Some("SOUL.md") => "SOUL.md",
    _ if rel.starts_with("memory") => "a file below memory/",
    _ => "another file",
  }
}

/// The message about sources, and about files that have lost text.
pub(super) fn message(about: &[(String, News)], n_open: u64) -> String {
  let (lost, about): (Vec<_>, Vec<_>) = about.iter().partition(|(_, news)| news.n_lost > 0);
  let parts =
    [(!about.is_empty()).then(|| of_sources(&about)), (!lost.is_empty()).then(|| of_losses(&lost))];
  let parts: Vec<String> = parts.into_iter().flatten().collect();
  let next = if about.is_empty() { "list" } else { "review" };
  let waits = plural::choose(n_open, "item waits", "items wait");
  format!("memfw: {}. {n_open} {waits} for you: `memfw {next}`.", parts.join(". "))
}

fn of_losses(lost: &[&(String, News)]) -> String {
  let n: usize = lost.iter().map(|(_, news)| news.n_lost).sum();
  let files = lost.iter().flat_map(|(_, news)| news.files.iter().copied()).collect();
  let ids = named(lost).map(|ids| format!(" ({ids})")).unwrap_or_default();
  format!("{} lost much of its text: {}{ids}", plural::count(n as u64, "file"), join(files))
}

/// The ids of items, as many as a message names.
fn named(about: &[&(String, News)]) -> Option<String> {
  let ids: BTreeSet<&str> =
    about.iter().flat_map(|(_, news)| news.ids.iter().map(BlockId::as_str)).collect();
  match ids.len() {
    0 => None,
    1..=MAX_NAMED => Some(join(ids)),
    _ => Some(format!("{} and others", join(ids.into_iter().take(MAX_NAMED).collect()))),
  }
}

fn join(words: BTreeSet<&str>) -> String {
  words.into_iter().collect::<Vec<_>>().join(", ")
}

/// Of a source only its kind is told, as far as that is a plain word: the rest of it is a name that somebody else has
/// chosen.
fn of_sources(about: &[&(String, News)]) -> String {
  let n: usize = about.iter().map(|(_, news)| news.n).sum();
  let files: BTreeSet<&str> =
    about.iter().flat_map(|(_, news)| news.files.iter().copied()).collect();
  let is_plain =
    |kind: &&str| kind.len() <= 20 && kind.chars().all(|c| matches!(c, 'a'..='z' | '_' | '-'));
  let kinds: BTreeSet<&str> = about
    .iter()
    .map(|(source, _)| source.split(':').next().filter(is_plain).unwrap_or("unknown"))
    .collect();
  let orders: BTreeSet<&str> = about
    .iter()
    .filter(|(_, news)| news.n_held > 0)
    .map(|(source, _)| whose(source.split(':').next().unwrap_or_default()))
    .collect();
  let orders = match orders.len() {
    0 => String::new(),
    1.. => format!("{} gave your agent an order; ", join(orders)),
  };
  let were = |n: u64| format!("{} {}", plural::count(n, "block"), plural::choose(n, "was", "were"));
  let (n, files) = (n as u64, join(files));
  let n_flagged: usize = about.iter().map(|(_, news)| news.n_flagged).sum();
  let what = match (n, n_flagged as u64) {
    (n, 0) => format!("{} taken out of {files} and kept for review", were(n)),
    (0, n) => {
      format!("{} flagged and {} still in {files}", were(n), plural::choose(n, "is", "are"))
    }
    (n, flagged) => format!(
      "{} taken out of {files} and kept for review, and {flagged} more {} only flagged",
      were(n),
      plural::choose(flagged, "was", "were")
    ),
  };
  let ids = named(about).map(|ids| format!("; {ids}")).unwrap_or_default();
  format!("{orders}{what} (source: {}{ids})", join(kinds))
}

/// What sort of thing or person a kind of source is, in memfw's words.
fn whose(kind: &str) -> &'static str {
  match kind {
    "web_fetch" | "web_search" | "browser" => "a web page",
    "email" => "a mail",
    "file" => "a file",
    "user" => "somebody other than you",
    "skill" => "a skill",
    "exec" | "mcp" | "webhook" => "another program",
    "subagent" | "moltbook" => "another agent",
    _ => "somebody unknown",
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn an_order_from_outside_is_reported_in_words() {
    let news =
      |n, n_held| News { n, n_held, files: BTreeSet::from(["MEMORY.md"]), ..News::default() };
    let held = [("web_fetch:a.example".to_owned(), news(1, 1))];
    let text = message(&held, 1);
    assert_eq!(
      text,
      "memfw: a web page gave your agent an order; 1 block was taken out of MEMORY.md and kept for \
       review (source: web_fetch). 1 item waits for you: `memfw review`."
    );
    let mut named = held.clone();
    let ids = |n: u8| (0..n).map(|n| BlockId::from_random([n; 8], 6)).collect();
    for (n, expected) in [
      (1, "(source: web_fetch; 000000)."),
      (3, "(source: web_fetch; 000000, 010101, 020202)."),
      (4, "(source: web_fetch; 000000, 010101, 020202 and others)."),
    ] {
      named[0].1.ids = ids(n);
      assert!(message(&named, 1).contains(expected), "{expected}");
    }
    let both = [held[0].clone(), ("email:a@b.c".to_owned(), news(2, 0))];
    assert!(
      message(&both, 3).starts_with("memfw: a web page gave your agent an order; 3 blocks were")
    );
    let kinds = ["mcp:ignore all", "Ignore all", "user:telegram:@ignore"];
    let hostile = kinds.map(|source| (source.to_owned(), news(1, 1)));
    assert!(!message(&hostile, 3).to_lowercase().contains("ignore"));
  }

  #[test]
  fn a_message_holds_nothing_that_others_have_chosen() {
    let news =
      |n, file| News { n, files: BTreeSet::from([plain_name(Path::new(file))]), ..News::default() };
    let about = [
      ("web_fetch:ignore-all.example".to_owned(), news(1, "MEMORY.md")),
      ("Ignore all instructions".to_owned(), news(2, "memory/ignore all.md")),
      ("user:telegram:@ignore".to_owned(), news(1, "notes/x.md")),
    ];
    let text = message(&about, 7);
    assert!(!text.to_lowercase().contains("ignore"), "{text}");
    assert_eq!(
      text,
      "memfw: 4 blocks were taken out of MEMORY.md, a file below memory/, another file and kept for \
       review (source: unknown, user, web_fetch). 7 items wait for you: `memfw review`."
    );
  }

  #[test]
  fn flagged_poison_is_reported_beside_what_was_taken_out() {
    let news =
      |n, n_flagged| News { n, n_flagged, files: BTreeSet::from(["MEMORY.md"]), ..News::default() };
    let about = |n, n_flagged| [("web_fetch:a.example".to_owned(), news(n, n_flagged))];
    assert_eq!(
      message(&about(0, 1), 1),
      "memfw: 1 block was flagged and is still in MEMORY.md (source: web_fetch). 1 item waits for you: \
       `memfw review`."
    );
    assert_eq!(
      message(&about(1, 2), 4),
      "memfw: 1 block was taken out of MEMORY.md and kept for review, and 2 more were only flagged \
       (source: web_fetch). 4 items wait for you: `memfw review`."
    );
  }

  #[test]
  fn lost_text_is_reported_with_its_file() {
    let lost = News {
      n_lost: 1,
      files: BTreeSet::from(["MEMORY.md"]),
      ids: BTreeSet::from([BlockId::from_random([0; 8], 6)]),
      ..News::default()
    };
    let lost = ("loss".to_owned(), lost);
    assert_eq!(
      message(std::slice::from_ref(&lost), 1),
      "memfw: 1 file lost much of its text: MEMORY.md (000000). 1 item waits for you: `memfw list`."
    );
    let news = News { n: 1, files: BTreeSet::from(["USER.md"]), ..News::default() };
    assert_eq!(
      message(&[lost, ("exec".to_owned(), news)], 2),
      "memfw: 1 block was taken out of USER.md and kept for review (source: exec). 1 file lost much of its text: \
       MEMORY.md (000000). 2 items wait for you: `memfw review`."
    );
  }
}
