//! Selects what is handed out, by trust and state.
#![forbid(unsafe_code)]

use std::collections::HashSet;

use super::{
  excerpt::{Blocked, Content, Excerpt, Excerpts, Known},
  frame, terms,
};
use crate::{
  detect::Code,
  memory::BlockId,
  provenance::{State, Trust},
};

/// What is handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
  /// The least trust of a text that is handed out.
  pub min_trust: Trust,
  /// Whether text is handed out that was not judged yet.
  pub include_unvalidated: bool,
}

/// What is handed out of some files, in their order or by rank.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selection<'a> {
  /// Entries, and lines for those that are blocked.
  pub items: Vec<Item<'a>>,
  /// How much is not handed out.
  pub left_out: LeftOut,
}

/// An entry, or the line in its place.
#[derive(Clone, Debug, PartialEq)]
pub enum Item<'a> {
  /// An entry of which something is handed out.
  Entry(Entry<'a>),
  /// An entry that is blocked.
  Blocked {
    /// Its file.
    file: &'a str,
    /// Its line.
    line: usize,
    /// Its id and state.
    blocked: Blocked,
  },
}

/// An entry of which something is handed out.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry<'a> {
  /// Its file.
  pub file: &'a str,
  /// Its excerpts that are handed out; at least one.
  pub shown: Vec<Shown<'a>>,
  /// How well it matches the query; a smaller number is a better match.
  pub score: Option<f64>,
}

/// An excerpt that is handed out.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown<'a> {
  /// The excerpt.
  pub excerpt: &'a Excerpt,
  /// Its position among the excerpts of its file.
  pub position: usize,
  /// Its text.
  pub text: &'a [u8],
  /// What is known about it; `None` if it was not judged.
  pub known: Option<&'a Known>,
  /// What its frame says; `None` for text that is handed out unchanged.
  pub frame: Option<String>,
}

/// How many texts are not handed out, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
  /// Blocked entries, where the result of a query does not name them.
  pub blocked: usize,
  /// Texts that were not judged yet.
  pub not_judged: usize,
  /// Texts of less trust than requested.
  pub below_trust: usize,
  /// Entries beyond the number that was requested.
  pub beyond_max: usize,
  /// Entries that were not searched, because there are too many.
  pub not_searched: usize,
  /// Files that could not be read.
  pub unread_files: usize,
}

/// What becomes of an excerpt.
enum Treatment<'a> {
  Shown(Shown<'a>),
  Blocked(Blocked),
  NotJudged,
  BelowTrust,
}

impl Rules {
  fn treat(self, position: usize, excerpt: &Excerpt) -> Treatment<'_> {
    let shown =
      |text, known, frame| Treatment::Shown(Shown { excerpt, position, text, known, frame });
    match &excerpt.content {
      Content::Blocked(blocked) => Treatment::Blocked(blocked.clone()),
      Content::Unknown { withheld: true, .. } => Treatment::NotJudged,
      Content::Unknown { .. } if !self.include_unvalidated => Treatment::NotJudged,
      // The source of such a text is not known, and an unknown source is untrusted.
      Content::Unknown { .. } if self.min_trust > Trust::Untrusted => Treatment::BelowTrust,
      Content::Unknown { text, .. } => shown(text, None, Some(frame::NOT_JUDGED.to_owned())),
      Content::Known { text, known } => match standing(known) {
        Standing::Blocked => Treatment::Blocked(blocked(known)),
        Standing::NotJudged if !self.include_unvalidated => Treatment::NotJudged,
        // A person who approved a text has read it.
        Standing::Approved => shown(text, Some(known), None),
        _ if known.trust < self.min_trust => Treatment::BelowTrust,
        Standing::NotJudged => shown(text, Some(known), Some(frame::NOT_JUDGED.to_owned())),
        Standing::Judged if known.trust >= Trust::Verified => shown(text, Some(known), None),
        Standing::Judged | Standing::Flagged => shown(text, Some(known), Some(frame::words(known))),
      },
    }
  }
}

/// What the state of a text allows.
enum Standing {
  Judged,
  Flagged,
  Approved,
  NotJudged,
  Blocked,
}

fn standing(known: &Known) -> Standing {
  match known.state {
    State::Quarantined | State::Held | State::Rejected | State::Forgotten | State::Split => {
      Standing::Blocked
    }
    _ if known.approved => Standing::Approved,
    State::Flagged if known.codes.contains(&Code::LeftInPlace) => Standing::Blocked,
    State::Flagged => Standing::Flagged,
    State::Unvalidated => Standing::NotJudged,
    State::Validated | State::Approved | State::Corrected => Standing::Judged,
  }
}

fn blocked(known: &Known) -> Blocked {
  let codes = known.codes.iter().copied().filter(|code| *code != Code::LeftInPlace).collect();
  Blocked { id: known.id.clone(), state: known.state, codes }
}

impl<'a> Selection<'a> {
  /// Everything in these files that may be handed out, in their order.
  pub fn of(files: &'a [Excerpts], rules: Rules) -> Self {
    let mut selection = Self::default();
    for file in files {
      let mut named: HashSet<BlockId> = HashSet::new();
      let mut entry: Option<usize> = None;
      for (position, excerpt) in file.list.iter().enumerate() {
        match rules.treat(position, excerpt) {
          Treatment::Shown(shown) => {
            match selection.items.last_mut() {
              Some(Item::Entry(last)) if entry == Some(excerpt.entry) => last.shown.push(shown),
              _ => selection.items.push(Item::Entry(Entry {
                file: &file.file,
                shown: vec![shown],
                score: None,
              })),
            }
            entry = Some(excerpt.entry);
          }
          Treatment::Blocked(blocked) => {
            // A placeholder may be copied to any number of places.
            if named.insert(blocked.id.clone()) {
              let line = excerpt.start_line;
              selection.items.push(Item::Blocked { file: &file.file, line, blocked });
              entry = None;
            }
          }
          Treatment::NotJudged => selection.left_out.not_judged += 1,
          Treatment::BelowTrust => selection.left_out.below_trust += 1,
        }
      }
    }
    selection
  }

  /// The text of each entry by its position among the items, for a search; at most `max_bytes` together. The
  /// rest is counted as not searched.
  #[expect(clippy::disallowed_methods, reason = "no offset of the copy is used")]
  pub fn texts(&mut self, max_bytes: usize) -> Vec<(usize, String)> {
    let mut texts = Vec::new();
    let mut n_bytes = 0;
    for (at, item) in self.items.iter().enumerate() {
      let Item::Entry(entry) = item else { continue };
      n_bytes += entry.shown.iter().map(|shown| shown.text.len()).sum::<usize>();
      if n_bytes > max_bytes {
        self.left_out.not_searched += 1;
        continue;
      }
      let text: Vec<String> = entry
        .shown
        .iter()
        .map(|shown| terms::searchable(&String::from_utf8_lossy(shown.text)))
        .collect();
      texts.push((at, text.concat()));
    }
    texts
  }

  /// Only the entries with these positions, in this order. Blocked entries are counted and not named: whether
  /// one of them matches would say something about its text.
  #[must_use]
  pub fn ranked(self, hits: &[(usize, f64)]) -> Self {
    let Self { items, mut left_out } = self;
    let mut entries: Vec<Option<Entry<'a>>> = Vec::with_capacity(items.len());
    for item in items {
      entries.push(match item {
        Item::Entry(entry) => Some(entry),
        Item::Blocked { .. } => {
          left_out.blocked += 1;
          None
        }
      });
    }
    let hits = hits.iter().filter_map(|(at, score)| {
      let entry = entries.get_mut(*at)?.take()?;
      Some(Item::Entry(Entry { score: Some(*score), ..entry }))
    });
    Self { items: hits.collect(), left_out }
  }

  /// At most `max` entries, the first ones.
  #[must_use]
  pub fn at_most(mut self, max: usize) -> Self {
    let mut n_entries = 0;
    let left_out = &mut self.left_out;
    self.items.retain(|item| {
      let is_entry = matches!(item, Item::Entry(_));
      n_entries += usize::from(is_entry);
      left_out.beyond_max += usize::from(is_entry && n_entries > max);
      !is_entry || n_entries <= max
    });
    self
  }

  /// The entries.
  pub fn entries(&self) -> impl Iterator<Item = &Entry<'a>> {
    self.items.iter().filter_map(|item| match item {
      Item::Entry(entry) => Some(entry),
      Item::Blocked { .. } => None,
    })
  }
}

impl Entry<'_> {
  /// Its first line that is handed out.
  pub fn line(&self) -> usize {
    self.shown.first().map_or(0, |shown| shown.excerpt.start_line)
  }
}

impl LeftOut {
  /// The counts in words for a line of memfw; `None` if nothing is left out.
  pub fn words(&self) -> Option<String> {
    let counts = [
      (self.blocked, "blocked"),
      (self.not_judged, "not judged yet"),
      (self.below_trust, "of less trust than requested"),
      (self.beyond_max, "beyond the number requested"),
      (self.not_searched, "not searched"),
      (self.unread_files, "files that could not be read"),
    ];
    let words: Vec<String> =
      counts.iter().filter(|(n, _)| *n > 0).map(|(n, why)| format!("{n} {why}")).collect();
    (!words.is_empty()).then(|| format!("left out: {}", words.join(", ")))
  }
}
