//! Chooses the lines to take out of a block: no more than those that have the effect.
//!
//! A finding may need text of several writers. Then the part of the least trusted one is taken out;
//! among equally trusted parts the one that is most suspicious alone, and among those the newest. The
//! owner's text always stays. The rest is judged alone before anything else is spared.
#![forbid(unsafe_code)]

use std::{cmp::Reverse, ops::Range};

use super::{facts::is_owner, origin::Origin};
use crate::{
  detect::{
    effects::{self, FoundEffect},
    policy::Party,
  },
  memory::{
    Block, BlockKind,
    line::{self, LineKind},
    plan::starts_entry,
  },
  provenance::Trust,
  store::BlockRow,
};

/// A line of at least this many bytes without punctuation at its end continues in the next one: writers
/// who wrap lines do so beyond this length, and statements on lines of their own are mostly shorter (a
/// choice).
const WRAPPED: usize = 40;

/// The most sentences of a text that are compared to find the suspicious one (a choice: the model takes
/// a few milliseconds for each).
const MAX_UNITS: usize = 16;

/// How suspicious some lines are alone, ordered first by whether they have an unambiguous effect. For
/// texts of several writers the rules are compared before the model, because the model knows too little
/// about a sentence that was cut in two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Strength {
  has_effect: bool,
  by_rules: u32,
  by_all: u32,
}

impl Strength {
  /// From the results of rules and model, each from 0 to 1.
  pub fn new(by_rules: f32, by_model: f32) -> Self {
    // Thousandths, so that they can be compared.
    let thousandths = |one: f32| (one * 1000.0) as u32;
    let by_all = thousandths(by_rules.max(by_model));
    Self { has_effect: false, by_rules: thousandths(by_rules), by_all }
  }

  /// Adds the effects of the lines.
  #[must_use]
  pub fn with(mut self, effects: &[FoundEffect]) -> Self {
    self.has_effect = effects.iter().any(|one| one.strength == effects::Strength::Blatant);
    self
  }
}

/// The origin of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Brought {
  /// The index of the known block that had it; `None` for the text that is judged.
  pub known: Option<usize>,
  /// The revision of that block.
  pub revision: u32,
  trust: Trust,
  /// Whether it always stays, because the owner said it, or a person approved it.
  is_owner: bool,
  /// Whether it is known to come from outside, and no person has approved it.
  is_outside: bool,
  at: i64,
}

impl Brought {
  /// The origin of a line in the text that is judged.
  pub fn judged(origin: &Origin) -> Self {
    Self::judged_as(origin.trust, origin.party())
  }

  /// The origin of a judged line that comes from `party`.
  pub fn judged_as(trust: Trust, party: Party) -> Self {
    let (is_owner, is_outside) = (party == Party::Owner, party.is_outside());
    Self { known: None, revision: 0, trust, is_owner, is_outside, at: i64::MAX }
  }

  /// The origin of a line that a revision of a known block brought.
  pub fn by(row: &BlockRow, known: usize, revision: u32) -> Option<Self> {
    let one = row.revision(revision)?;
    let is_owner = is_owner(one);
    let is_outside = !is_owner && Origin::of_revision(one).party().is_outside();
    Some(Self { known: Some(known), revision, trust: one.trust, is_owner, is_outside, at: one.at })
  }

  /// The trust in the line's source.
  pub const fn trust(&self) -> Trust {
    self.trust
  }

  /// Whether the line is known to come from outside. Such a line excuses no other line.
  pub const fn is_outside(&self) -> bool {
    self.is_outside
  }

  fn is_with(&self, other: &Self) -> bool {
    (self.known, self.revision) == (other.known, other.revision)
  }
}

/// The chosen lines.
#[derive(Debug, PartialEq, Eq)]
pub struct Choice {
  /// The lines, as indices into those of the block.
  pub lines: Vec<usize>,
  /// The origin of the first part.
  pub of: Brought,
}

/// The lines of a block with findings because of which something must be taken out.
pub struct Candidates<'a> {
  /// The bytes of the file.
  pub file: &'a [u8],
  /// The block, for its lines and headings.
  pub block: &'a Block,
  /// The origin of each line; `None` for blank ones.
  pub brought: &'a [Option<Brought>],
  /// The spans of the deciding findings, in bytes of the file.
  pub spans: &'a [Range<usize>],
}

impl Candidates<'_> {
  /// Chooses the lines; `None` if all text that is judged must be taken out. `strength` says how
  /// suspicious some lines are alone, and `leaves` whether something must still be taken out if only
  /// these lines are left.
  pub fn choose(
    &self,
    strength: &mut dyn FnMut(&[usize]) -> Strength,
    leaves: &mut dyn FnMut(&[usize]) -> bool,
  ) -> Option<Choice> {
    let touched: Vec<(usize, Brought)> = self.touched().collect();
    let mut parts: Vec<(Brought, Vec<usize>)> = Vec::new();
    for (index, by) in touched {
      match parts.iter_mut().find(|(other, _)| other.is_with(&by)) {
        Some((_, lines)) => lines.push(index),
        None => parts.push((by, vec![index])),
      }
    }
    if parts.iter().any(|(by, _)| !by.is_owner) {
      // The owner's text is taken out only if nobody else contributed to the finding.
      parts.retain(|(by, _)| !by.is_owner);
    }
    let is_one = parts.len() == 1;
    let mut weigh = |lines: &[usize]| if is_one { Strength::default() } else { strength(lines) };
    let mut parts: Vec<_> =
      parts.into_iter().map(|(by, lines)| (weigh(&lines), by, lines)).collect();
    parts.sort_by_key(|(weight, by, _)| (by.trust, Reverse(*weight), Reverse(by.at)));
    let mut first = parts.first().map(|(_, by, _)| *by);
    let mut taken: Vec<usize> = Vec::new();
    for (_, by, lines) in &parts {
      let mut units: Vec<Range<usize>> = Vec::new();
      for &index in lines {
        // Each sentence is examined once, however many of its lines have findings.
        if units.last().is_none_or(|last| index >= last.end) {
          units.push(self.unit(index, by));
        }
      }
      if by.known.is_none()
        && let Some(lines) = self.worst_of(&units, &taken, strength, leaves)
      {
        return Some(Choice { lines, of: first? });
      }
      taken.extend(units.into_iter().flatten());
      if self.suffices(&mut taken, leaves) {
        return Some(Choice { lines: taken, of: first? });
      }
    }
    // The cause is not in these places, or not there alone.
    for (by, lines) in self.by_strength(&taken, strength) {
      let of = *first.get_or_insert(by);
      taken.extend(lines);
      if self.suffices(&mut taken, leaves) {
        return Some(Choice { lines: taken, of });
      }
    }
    let first = first?;
    // The judged text is taken out whole, with all lines that contribute to it.
    let others = parts.iter().any(|(_, by, _)| by.known.is_some());
    others.then(|| {
      let judged = |by: &Brought| by.known.is_none() && !by.is_owner;
      let whole = self.said().filter(|&index| self.by(index).is_some_and(|by| judged(&by)));
      taken.extend(whole);
      taken.sort_unstable();
      taken.dedup();
      Choice { lines: taken, of: first }
    })
  }

  /// Some of the sentences with findings, the most suspicious first, if the others may stay: without
  /// full stops, a finding may extend over lines that have nothing to do with it.
  fn worst_of(
    &self,
    units: &[Range<usize>],
    taken: &[usize],
    strength: &mut dyn FnMut(&[usize]) -> Strength,
    leaves: &mut dyn FnMut(&[usize]) -> bool,
  ) -> Option<Vec<usize>> {
    if !(2..=MAX_UNITS).contains(&units.len()) {
      return None;
    }
    let mut worst: Vec<(Strength, Vec<usize>)> = units
      .iter()
      .map(|unit| unit.clone().collect())
      .map(|unit: Vec<_>| (strength(&unit), unit))
      .collect();
    worst.sort_by_key(|(weight, _)| Reverse(*weight));
    // At least one sentence must be left, or nothing would have been spared.
    worst.pop();
    let mut lines = taken.to_vec();
    worst.into_iter().find_map(|(_, unit)| {
      lines.extend(unit);
      self.suffices(&mut lines, leaves).then(|| lines.clone())
    })
  }

  /// Whether the rest without these lines may stay.
  fn suffices(&self, taken: &mut Vec<usize>, leaves: &mut dyn FnMut(&[usize]) -> bool) -> bool {
    taken.sort_unstable();
    taken.dedup();
    let rest: Vec<usize> =
      self.said().filter(|index| taken.binary_search(index).is_err()).collect();
    self.may_stay(&rest, taken) && !leaves(&rest)
  }

  /// The sentences of the judged text that are not in `taken`, the most suspicious first; none if there
  /// are too many to compare.
  fn by_strength(
    &self,
    taken: &[usize],
    strength: &mut dyn FnMut(&[usize]) -> Strength,
  ) -> Vec<(Brought, Vec<usize>)> {
    let mut units: Vec<(Brought, Vec<usize>)> = Vec::new();
    for index in self.said().filter(|index| *index >= self.block.body) {
      let is_left = taken.binary_search(&index).is_err();
      let is_asked = |by: &Brought| by.known.is_none() && !by.is_owner && is_left;
      let Some(by) = self.by(index).filter(is_asked) else { continue };
      if units.last().and_then(|(_, lines)| lines.last()).is_some_and(|last| *last >= index) {
        continue;
      }
      if units.len() == MAX_UNITS {
        return vec![];
      }
      units.push((by, self.unit(index, &by).collect()));
    }
    if units.len() < 2 {
      return vec![];
    }
    let mut units: Vec<_> =
      units.into_iter().map(|(by, lines)| (strength(&lines), by, lines)).collect();
    units.sort_by_key(|(weight, _, _)| Reverse(weight.by_all));
    units.into_iter().map(|(_, by, lines)| (by, lines)).collect()
  }

  fn by(&self, index: usize) -> Option<Brought> {
    self.brought.get(index).copied().flatten()
  }

  /// The lines that are not blank.
  fn said(&self) -> impl Iterator<Item = usize> {
    let lines = self.block.lines.iter().enumerate();
    lines.filter(|(_, line)| line.kind != LineKind::Blank).map(|(index, _)| index)
  }

  fn touched(&self) -> impl Iterator<Item = (usize, Brought)> {
    self.said().filter_map(|index| {
      let line = &self.block.lines.get(index)?.span;
      let is_in =
        |span: &Range<usize>| span.start < line.end && line.start < span.end.max(span.start + 1);
      let by = self.by(index)?;
      self.spans.iter().any(is_in).then_some((index, by))
    })
  }

  /// Whether the rest of a block is still a valid block with text of its writer.
  fn may_stay(&self, rest: &[usize], taken: &[usize]) -> bool {
    let line = |index: &usize| self.block.lines.get(*index);
    let judged = |index: &&usize| self.by(**index).is_some_and(|by| by.known.is_none());
    let is_text = |index: &usize| line(index).is_some_and(|one| one.kind == LineKind::Text);
    let has_judged = taken.iter().any(|index| judged(&index));
    if has_judged
      && !rest.iter().filter(judged).any(is_text)
      && rest.iter().any(|index| judged(&index))
    {
      return false;
    }
    if rest.is_empty() {
      return false;
    }
    let all_judged = self.said().all(|index| judged(&&index));
    let ends = [self.said().find(|index| *index >= self.block.body), self.said().last()];
    let at_end = ends.iter().flatten().any(|end| taken.contains(end));
    match self.block.kind {
      // memfw's comment within it would end it, or would not be a comment.
      BlockKind::FrontMatter | BlockKind::Html => !all_judged,
      BlockKind::Code => !(all_judged && at_end),
      BlockKind::Table => {
        let head = self.said().filter(|index| *index >= self.block.body).take(2);
        !head.into_iter().any(|index| taken.contains(&index))
      }
      _ => true,
    }
  }

  /// The sentence that a line belongs to, as far as it has one writer.
  fn unit(&self, index: usize, by: &Brought) -> Range<usize> {
    let is_of = |index: usize| self.by(index).is_some_and(|other| other.is_with(by));
    let (mut start, mut end) = (index, index + 1);
    while let Some(before) = start.checked_sub(1).filter(|before| is_of(*before)) {
      if !self.goes_on(before, start) {
        break;
      }
      start = before;
    }
    while is_of(end) && self.goes_on(end - 1, end) {
      end += 1;
    }
    start..end
  }

  /// Whether a sentence continues from one line in the next.
  fn goes_on(&self, line: usize, next: usize) -> bool {
    let text = |index: usize| {
      let one = self.block.lines.get(index).filter(|_| index >= self.block.body)?;
      Some(line::content(line::slice(self.file, one.span.clone())).trim_ascii())
    };
    let (Some(line), Some(next)) = (text(line), text(next)) else { return false };
    let is_own = |text: &[u8]| {
      starts_entry(text) || matches!(text.first(), None | Some(b'|')) || text.starts_with(b"```")
    };
    if is_own(next) || line.starts_with(b"|") || line.starts_with(b"```") {
      return false;
    }
    let marks: [&[u8]; 4] = ["。".as_bytes(), "！".as_bytes(), "？".as_bytes(), "।".as_bytes()];
    let bare = line.trim_ascii_end();
    let bare = bare.strip_suffix(b"\"").or(bare.strip_suffix(b")")).unwrap_or(bare);
    let ends = matches!(bare.last(), Some(b'.' | b'!' | b'?' | b';'))
      || marks.iter().any(|mark| bare.ends_with(mark));
    !ends && (line.len() >= WRAPPED || next.first().is_some_and(u8::is_ascii_lowercase))
  }
}

/// The origin of each line of a block in which the revisions in `judged` have the new `origin`.
pub fn brought(
  row: &BlockRow,
  block: &Block,
  index: usize,
  judged: &[u32],
  origin: &Origin,
) -> Vec<Option<Brought>> {
  let lines = block.lines.iter().zip(&row.lines);
  let by = |number: u32| {
    if judged.contains(&number) {
      Some(Brought::judged(origin))
    } else {
      Brought::by(row, index, number)
    }
  };
  lines.map(|(line, known)| by(known.revision).filter(|_| line.kind != LineKind::Blank)).collect()
}
