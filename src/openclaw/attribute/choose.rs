//! Where a text comes from, among everything that the agent had read.
//!
//! Invariant: never upwards. The owner is named only where nothing foreign would explain the text as
//! well; where several sources do, or none does, the least trusted is named, and the others are named
//! beside it so that the text is trusted no more than any of them.
#![forbid(unsafe_code)]

use std::cmp::Ordering;

use super::{
  heading::without_plain_headings,
  material::{Material, Role},
  owner::has_said,
  questions::statements,
  rank::{is_foreign, rank},
  turns::Context,
};
use crate::provenance::{
  Request, Source,
  overlap::{Cover, Text},
  passage::passage,
  words::{is_bare, squeezed},
};

/// Share of a sentence that the owner's words must explain while the turn holds foreign text.
const OWNER_WELL: f32 = 0.85;
/// Share of the neighbourhoods of its words that must be the owner's, too.
const OWNER_NEIGHBOURS: f32 = 0.2;
/// Share that is enough where the turn holds no foreign text.
const OWNER_ALONE: f32 = 0.3;
/// By how much the share of one source must exceed that of another to explain a text better.
pub(super) const MARGIN: f32 = 0.15;
/// What a foreign material may explain beyond the owner's words.
const MAX_GAIN: f32 = 0.1;
/// Share that a material of this turn must explain to be notable.
const NOTABLE: f32 = 0.3;
/// Share that a material of an earlier turn must explain to be notable.
const NOTABLE_EARLIER: f32 = 0.45;
/// Which part of a text from memory makes the memory's own origin count.
pub(super) const FROM_MEMORY: f32 = 0.25;
/// Most sources that are named beside another. Which of them is the least trusted is a matter of configuration,
/// so that a turn which reads many must not push one out.
pub(super) const MAX_BESIDE: usize = 64;
/// Most names of what else was in the turn.
const MAX_ALSO: usize = 8;
/// Most bytes of material that are compared, the latest first.
const MAX_COMPARED_BYTES: usize = 1024 * 1024;
/// Shortest text, in letters and digits, whose copy proves where it is from.
const MIN_COPY_CHARS: usize = 20;

/// What the comparison found.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Decision {
  pub(super) source: Source,
  /// Sources whose trust the text cannot exceed either, least trusted first.
  pub(super) fed_by: Vec<Source>,
  /// Which part of the text's words the source has; `None` where nothing was compared.
  pub(super) share: Option<f32>,
  /// When the agent got the source's text, in microseconds UTC.
  pub(super) at: Option<i64>,
  /// Whether the source contains the text exactly.
  pub(super) is_copy: bool,
  /// What else the agent had read in that turn.
  pub(super) also: Vec<String>,
  /// The source of the words where it is not the source of the text: what fed a sub-agent.
  pub(super) fed: Option<Source>,
  /// What the owner had asked for in that turn, and what of the source explains the text.
  pub(super) request: Request,
}

impl Decision {
  /// A source that nothing more is known about.
  pub(super) fn of(source: Source) -> Self {
    Self {
      source,
      fed_by: vec![],
      share: None,
      at: None,
      is_copy: false,
      also: vec![],
      fed: None,
      request: Request::default(),
    }
  }

  /// Only the trigger of the session asked for anything in it.
  pub(super) fn started_by(&mut self, starter: &Source) {
    if !is_foreign(&self.source) {
      self.source = starter.clone();
    } else if self.source != *starter && !self.fed_by.contains(starter) {
      self.fed_by.insert(0, starter.clone());
    }
  }
}

/// All materials of one source.
struct Group<'c> {
  source: &'c Source,
  role: Role,
  in_turn: bool,
  taints: bool,
  /// Whether some of it is not on record, so that nothing can be said about its words.
  is_lost: bool,
  at: i64,
  cover: Cover,
}

/// Where `text` comes from.
pub(super) fn choose(text: &str, context: &Context<'_>) -> Decision {
  let text = &*without_plain_headings(text);
  let words = Text::new(text);
  // A date is in many texts and shows no source.
  let is_bare = is_bare(text);
  let is_guarded = context.is_marked || context.materials.iter().any(|m| m.role == Role::Foreign);
  let has_said = is_guarded && has_said(text, context);
  // What the owner said sentence by sentence may be part of a request as well.
  let groups = groups(&words, context, is_guarded && !has_said);
  let unknown = Source::unknown();
  let owner = cover_of(&words, &groups, |group| matches!(group.role, Role::Owner | Role::Task));
  let mut tainting: Vec<&Source> =
    groups.iter().filter(|g| g.taints && g.in_turn).map(|g| g.source).collect();
  // OpenClaw saw something that is not on record in a form that is known here.
  if context.is_marked && tainting.is_empty() {
    tainting.push(&unknown);
  }
  tainting.sort_by_key(|source| rank(source));

  let mut named: Vec<&Source> = Vec::new();
  let mut own_weight = 0.0;
  let may_be_owners = !is_guarded || has_said;
  let mut is_owners = true;
  for unit in 0..words.n_units() {
    if words.weight(unit) <= 0.0 {
      continue;
    }
    if may_be_owners && !words.is_cut() && explained_by_owner(&words, &owner, &groups, unit) {
      own_weight += words.weight(unit);
      continue;
    }
    let found = if is_bare { vec![] } else { explaining(&words, &owner, &groups, unit) };
    if found.is_empty() {
      named.extend(&tainting);
      is_owners = false;
    }
    named.extend(found);
  }
  if own_weight <= 0.0 && named.is_empty() {
    named.extend(&tainting);
  }
  named.sort_by_key(|source| rank(source));
  if !named.is_empty() {
    let mut beside: Vec<&Source> =
      groups.iter().filter(|group| may_have_fed(&words, group)).map(|group| group.source).collect();
    beside.sort_by_key(|source| rank(source));
    named.extend(beside);
  }
  dedup(&mut named);

  let mut decision = match named.split_first() {
    Some((first, others)) => Decision {
      fed_by: others.iter().take(MAX_BESIDE).map(|source| (*source).clone()).collect(),
      ..Decision::of((*first).clone())
    },
    None => own(&words, &owner, &groups, is_guarded, is_owners && own_weight > 0.0),
  };
  fill(&mut decision, text, &words, &groups, context);
  decision
}

/// The share of a text's words that the agent had read.
pub(super) fn support(text: &str, context: &Context<'_>) -> f32 {
  let words = Text::new(text);
  let groups = groups(&words, context, false);
  let is_lost = groups.iter().any(|group| group.is_lost);
  // Material that is not on record may have contained the whole text.
  if is_lost { 1.0 } else { words.share_of_all(&cover_of(&words, &groups, |_| true)) }
}

/// Whether a foreign text may come from this group as well: the group is in the turn, and it shares
/// notable words or is not on record.
fn may_have_fed(words: &Text, group: &Group<'_>) -> bool {
  let is_notable = |unit| words.weight(unit) > 0.0 && words.share(&group.cover, unit) >= NOTABLE;
  let shares = (0..words.n_units()).any(is_notable);
  group.role == Role::Foreign && group.in_turn && group.taints && (group.is_lost || shares)
}

/// The owner or the agent: nothing foreign explains the text, and the turn is clean.
fn own(
  words: &Text,
  owner: &Cover,
  groups: &[Group<'_>],
  is_guarded: bool,
  is_owners: bool,
) -> Decision {
  let has_owner = groups.iter().any(|group| group.role == Role::Owner);
  // Numbers and negations that the owner did not say make it another text.
  let is_firm = || (0..words.n_units()).all(|unit| words.has_all_firm_words(owner, unit));
  let is_owners = has_owner
    && (is_owners || (!is_guarded && words.share_of_all(owner) >= OWNER_ALONE && is_firm()));
  let source = Source::new(if is_owners { "user:owner" } else { "agent" });
  let mut fed_by: Vec<Source> = Vec::new();
  if !is_owners {
    // The agent may say in its own words what it read before the owner spoke last.
    let earlier = groups.iter().filter(|group| group.taints).map(|group| group.source);
    fed_by.extend(earlier.min_by_key(|source| rank(source)).cloned());
  }
  for group in groups.iter().filter(|group| group.role == Role::Memory) {
    let gain: f32 = (0..words.n_units())
      .map(|unit| words.gain(&group.cover, owner, unit) * words.weight(unit))
      .sum();
    let total: f32 = (0..words.n_units()).map(|unit| words.weight(unit)).sum();
    if total > 0.0 && gain / total >= FROM_MEMORY {
      fed_by.push(group.source.clone());
    }
  }
  fed_by.truncate(MAX_BESIDE);
  Decision { fed_by, ..Decision::of(source) }
}

/// Fills in the share, the time and the other sources.
fn fill(
  decision: &mut Decision,
  text: &str,
  words: &Text,
  groups: &[Group<'_>],
  context: &Context<'_>,
) {
  let of_source = |material: &&Material<'_>| material.source == decision.source;
  if let Some(group) = groups.iter().find(|group| *group.source == decision.source) {
    decision.share = Some(words.share_of_all(&group.cover).min(1.0));
    decision.at = Some(group.at);
    let text = squeezed(text);
    let mut left = MAX_COMPARED_BYTES;
    let mut copies = context.materials.iter().rev().filter(of_source).take_while(|material| {
      let has_room = left > 0;
      left = left.saturating_sub(material.text.len());
      has_room
    });
    decision.is_copy = text.chars().count() >= MIN_COPY_CHARS
      && copies.any(|material| squeezed(&material.text).contains(&text));
  }
  let explaining = context.materials.iter().rev().filter(of_source);
  let explaining = explaining.map(|material| material.text.as_ref());
  decision.request = Request::new(&context.asked(), &passage(text, explaining));
  let mut also: Vec<(u8, String)> = Vec::new();
  for material in context.materials.iter().filter(|m| m.in_turn && m.role == Role::Foreign) {
    let is_named = material.source == decision.source;
    also.extend((!is_named).then(|| (rank(&material.source), material.source.to_string())));
    also.extend(material.also.iter().map(|name| (rank(&material.source), name.clone())));
  }
  also.sort();
  also.dedup();
  decision.also = also.into_iter().map(|(_, name)| name).take(MAX_ALSO).collect();
}

/// Whether the owner's words explain a unit, and nothing foreign does as well.
fn explained_by_owner(words: &Text, owner: &Cover, groups: &[Group<'_>], unit: usize) -> bool {
  let share = words.share(owner, unit);
  share >= OWNER_WELL
    && words.has_all_firm_words(owner, unit)
    && words.neighbours(owner, unit) >= OWNER_NEIGHBOURS
    && groups.iter().filter(|group| group.role == Role::Foreign).all(|group| {
      !(group.is_lost && group.source.kind() != "attachment")
        && words.share(&group.cover, unit) + MARGIN <= share
        && words.gain(&group.cover, owner, unit) <= MAX_GAIN
    })
}

/// The foreign sources that explain a unit: the best, those about as good, and those that add to it.
fn explaining<'c>(
  words: &Text,
  owner: &Cover,
  groups: &[Group<'c>],
  unit: usize,
) -> Vec<&'c Source> {
  let is_notable = |group: &&Group<'_>| {
    let share = words.share(&group.cover, unit);
    if group.in_turn {
      share >= NOTABLE
    } else {
      let adds = words.gain(&group.cover, owner, unit) >= MARGIN;
      share >= NOTABLE_EARLIER && (adds || share + MARGIN > words.share(owner, unit))
    }
  };
  let foreign = || groups.iter().filter(|group| group.role == Role::Foreign);
  let by_share = |a: &&Group<'_>, b: &&Group<'_>| {
    let (a, b) = (words.share(&a.cover, unit), words.share(&b.cover, unit));
    a.partial_cmp(&b).unwrap_or(Ordering::Equal)
  };
  let Some(best) = foreign().filter(is_notable).max_by(by_share) else { return vec![] };
  let top = words.share(&best.cover, unit);
  let beside = foreign().filter(|group| {
    words.share(&group.cover, unit) + MARGIN > top
      || words.gain(&group.cover, &best.cover, unit) >= MARGIN
  });
  beside.map(|group| group.source).collect()
}

/// The materials by source, each compared with the text.
fn groups<'c>(words: &Text, context: &'c Context<'_>, is_guarded: bool) -> Vec<Group<'c>> {
  let mut groups: Vec<Group<'c>> = Vec::new();
  let mut left = MAX_COMPARED_BYTES;
  for material in context.materials.iter().rev() {
    let place = groups
      .iter()
      .position(|group| *group.source == material.source && group.role == material.role);
    let place = place.unwrap_or_else(|| {
      groups.push(Group {
        source: &material.source,
        role: material.role,
        in_turn: false,
        taints: false,
        is_lost: false,
        at: material.at,
        cover: words.nothing(),
      });
      groups.len() - 1
    });
    let Some(group) = groups.get_mut(place) else { continue };
    group.in_turn |= material.in_turn;
    group.taints |= material.taints;
    let is_lost = material.text.is_empty() || material.is_partial;
    group.is_lost |= material.in_turn && material.taints && is_lost;
    if left == 0 {
      continue;
    }
    left = left.saturating_sub(material.text.len());
    if is_guarded && material.role == Role::Owner {
      for sentence in statements(&material.text) {
        group.cover.add(&words.cover(sentence));
      }
    } else {
      group.cover.add(&words.cover(&material.text));
    }
  }
  groups
}

fn cover_of(words: &Text, groups: &[Group<'_>], of: impl Fn(&Group<'_>) -> bool) -> Cover {
  let mut cover = words.nothing();
  for group in groups.iter().filter(|group| of(group)) {
    cover.add(&group.cover);
  }
  cover
}

fn dedup(sources: &mut Vec<&Source>) {
  let mut seen = std::collections::BTreeSet::new();
  sources.retain(|source| seen.insert(*source));
}

/// The less trusted of two decisions about parts of one text; the other source is added to
/// `fed_by`.
pub(super) fn merge(one: Decision, other: Decision) -> Decision {
  let (mut least, other) =
    if rank(&other.source) < rank(&one.source) { (other, one) } else { (one, other) };
  if other.source != least.source && (is_foreign(&other.source) || !is_foreign(&least.source)) {
    least.fed_by.push(other.source);
  }
  for source in other.fed_by {
    if source != least.source && !least.fed_by.contains(&source) {
      least.fed_by.push(source);
    }
  }
  least.fed_by.sort_by_key(rank);
  least.fed_by.dedup();
  least.fed_by.truncate(MAX_BESIDE);
  for name in other.also {
    if !least.also.contains(&name) && least.also.len() < MAX_ALSO {
      least.also.push(name);
    }
  }
  least.is_copy &= other.is_copy;
  least.request = of_both(least.request, &other.request);
  least
}

/// What was asked for where a text is made of two: it must have been the same for both.
pub(super) fn of_both(least: Request, other: &Request) -> Request {
  let asked = if least.asked == other.asked { least.asked } else { String::new() };
  Request { asked, ..least }
}
