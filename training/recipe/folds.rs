//! Scores of lines by heads that have seen neither their author nor their source.

use std::{collections::BTreeMap, error::Error};

use memfw::{
  detect::{
    JudgeOptions, PolicyInput, decide,
    exemplar::{Exemplars, KnownAttacks},
    judge,
    model::{Heads, Logits, Reading},
  },
  provenance::Trust,
};
use serde_json::json;

use crate::{
  data::Item,
  heads::{Settings, train},
};

/// A line and what was made of it.
pub(crate) struct Scored<'i> {
  /// The line.
  pub(crate) item: &'i Item,
  /// The part that it was left out with; `None` for a line of other sources.
  pub(crate) part: Option<usize>,
  /// The highest of its views.
  pub(crate) reading: Reading,
  /// How strong the findings of the rules are, from 0 to 1.
  pub(crate) rules: f32,
  /// How like the nearest known attack it is, from 0 to 1.
  pub(crate) likeness: f32,
}

/// Scores all lines: `items` left out part by part, `dev` by heads that saw all `items`.
pub(crate) fn score<'i>(
  items: &'i [Item],
  dev: &'i [Item],
  parts: usize,
  settings: &Settings,
) -> Vec<Scored<'i>> {
  let part_of = divide(items, parts);
  let known = KnownAttacks::new(Exemplars::built_in());
  let mut scored = Vec::with_capacity(items.len() + dev.len());
  for part in 0..parts {
    let is_out = |item: &&Item| part_of.get(item.group.as_str()) == Some(&part);
    let (out, kept): (Vec<&Item>, Vec<&Item>) = items.iter().partition(is_out);
    if out.is_empty() {
      continue;
    }
    let heads = train(&kept, settings);
    scored.extend(out.into_iter().map(|item| one(item, Some(part), &heads, &known)));
  }
  if !dev.is_empty() {
    let heads = train(&items.iter().collect::<Vec<_>>(), settings);
    scored.extend(dev.iter().map(|item| one(item, None, &heads, &known)));
  }
  scored
}

/// Authors and sources in parts of about the same size: the largest first, each into the part that
/// has the fewest lines of its sort so far. Authors and sources are spread apart from each other.
fn divide(items: &[Item], parts: usize) -> BTreeMap<&str, usize> {
  let mut sizes: BTreeMap<(&str, u8), usize> = BTreeMap::new();
  for item in items {
    let sort = if item.is_written() { 2 } else { u8::from(item.is_attack) };
    *sizes.entry((&item.group, sort)).or_default() += 1;
  }
  let mut sorted: Vec<((&str, u8), usize)> = sizes.into_iter().collect();
  sorted.sort_by_key(|((group, sort), size)| (std::cmp::Reverse(*size), *group, *sort));
  let mut filled: BTreeMap<u8, Vec<usize>> = BTreeMap::new();
  let mut part_of: BTreeMap<&str, usize> = BTreeMap::new();
  for ((group, sort), size) in sorted {
    let filled = filled.entry(sort).or_insert_with(|| vec![0; parts]);
    let least = (0..parts).min_by_key(|part| filled[*part]).unwrap_or(0);
    let part = *part_of.entry(group).or_insert(least);
    filled[part] += size;
  }
  part_of
}

fn one<'i>(item: &'i Item, part: Option<usize>, heads: &Heads, known: &KnownAttacks) -> Scored<'i> {
  let mut readings = item.views.iter().map(|view| heads.read(view));
  let mut reading = readings.next().unwrap_or_else(|| heads.read(""));
  for other in readings {
    reading.whole = reading.whole.max(other.whole);
    reading.sentence = reading.sentence.max(other.sentence);
  }
  let findings = judge(item.text.as_bytes(), &JudgeOptions::default());
  let rules = decide(&findings, &PolicyInput::default()).score;
  let near = |view: &String| known.nearest(view, Trust::Hostile).map(|near| near.similarity);
  let likeness = item.views.iter().filter_map(near).fold(0.0, f32::max);
  Scored { item, part, reading, rules, likeness }
}

/// One JSON object a line: `id`, `label`, `set`, `kind`, `lang`, `pair`, `group`, `part`, `rules`,
/// `likeness`, `bytes`, and `heads` with the four logits.
pub(crate) fn lines(scored: &[Scored<'_>]) -> Result<String, Box<dyn Error>> {
  let mut out = String::new();
  for Scored { item, part, reading, rules, likeness } in scored {
    let pair = |Logits { injection, poison }: Logits| json!([injection, poison]);
    let line = json!({
      "id": item.id, "label": u8::from(item.is_attack), "set": item.set, "kind": item.kind,
      "lang": item.lang, "pair": item.pair, "group": item.group, "part": part, "rules": rules,
      "likeness": likeness, "bytes": item.views.first().map_or(0, String::len),
      "heads": { "whole": pair(reading.whole), "sentence": pair(reading.sentence) },
    });
    out.push_str(&serde_json::to_string(&line)?);
    out.push('\n');
  }
  Ok(out)
}
