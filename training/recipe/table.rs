//! What came out, set by set, at one operating point.

use memfw::detect::model::Logits;

use crate::{
  folds::Scored,
  measure::{Share, threshold},
};

/// Share of real workspace blocks that may be flagged.
const BUDGET: f64 = 0.005;
/// What each head gets of it.
const PER_HEAD: f64 = 0.5;

type Test = fn(&Scored<'_>) -> bool;

/// Groups of lines that are reported, and which lines belong to them.
const GROUPS: &[(&str, Test)] = &[
  ("ws (left out, and dev)", |one| is_workspace(one)),
  ("left out: injection", |one| left_out(one) && one.item.is_attack && is_injection(one)),
  ("left out: jailbreak", |one| left_out(one) && one.item.kind == "jailbreak"),
  ("left out: task injection", |one| left_out(one) && one.item.kind == "task_injection"),
  ("left out: encoded", |one| left_out(one) && one.item.set.starts_with("derived")),
  ("left out: poison, English", |one| left_out(one) && poison(one) && one.item.lang == "en"),
  ("left out: poison, other", |one| left_out(one) && poison(one) && one.item.lang != "en"),
  ("left out: twins, English", |one| left_out(one) && twin(one) && one.item.lang == "en"),
  ("left out: twins, other", |one| left_out(one) && twin(one) && one.item.lang != "en"),
  ("left out: hard benign", |one| left_out(one) && hard(one)),
  ("left out: security talk", |one| left_out(one) && one.item.set == "sec_talk"),
  ("left out: other benign", |one| {
    left_out(one)
      && !one.item.is_attack
      && !one.item.is_written()
      && !is_workspace(one)
      && one.item.set != "sec_talk"
  }),
  ("dev: deepset", |one| dev(one, "deepset") && one.item.is_attack),
  ("dev: deepset, harmless", |one| dev(one, "deepset") && !one.item.is_attack),
  ("dev: llm_guard_tests", |one| dev(one, "llm_guard_tests") && one.item.is_attack),
  ("dev: prompt_guard_tests", |one| dev(one, "prompt_guard_tests") && one.item.is_attack),
  ("dev: piguard_pint", |one| dev(one, "piguard_pint") && one.item.is_attack),
  ("dev: piguard_pint, harmless", |one| dev(one, "piguard_pint") && !one.item.is_attack),
  ("dev: embedded", |one| dev(one, "embedded_dev")),
  ("dev: encoded", |one| dev(one, "derived_encoded_dev")),
  ("dev: poison, English", |one| dev(one, "written_dev") && poison(one) && one.item.lang == "en"),
  ("dev: poison, other", |one| dev(one, "written_dev") && poison(one) && one.item.lang != "en"),
  ("dev: twins, English", |one| dev(one, "written_dev") && twin(one) && one.item.lang == "en"),
  ("dev: twins, other", |one| dev(one, "written_dev") && twin(one) && one.item.lang != "en"),
  ("dev: hard benign", |one| dev(one, "written_dev") && hard(one)),
  ("dev: notes (til_simonw)", |one| dev(one, "til_simonw")),
  ("dev: ws_dev", |one| dev(one, "ws_dev")),
];

fn is_workspace(one: &Scored<'_>) -> bool {
  matches!(one.item.set.as_str(), "ws_train" | "ws_dev")
}

fn left_out(one: &Scored<'_>) -> bool {
  one.part.is_some()
}

fn dev(one: &Scored<'_>, set: &str) -> bool {
  one.part.is_none() && one.item.set == set
}

fn poison(one: &Scored<'_>) -> bool {
  one.item.is_attack && one.item.is_written()
}

fn twin(one: &Scored<'_>) -> bool {
  !one.item.is_attack && one.item.is_written() && one.item.pair.is_some()
}

fn hard(one: &Scored<'_>) -> bool {
  !one.item.is_attack && one.item.is_written() && one.item.pair.is_none()
}

fn is_injection(one: &Scored<'_>) -> bool {
  !one.item.is_written()
    && !matches!(one.item.kind.as_str(), "jailbreak" | "task_injection")
    && !one.item.set.starts_with("derived")
}

/// How the four logits of a line are made into two.
fn highest(one: &Scored<'_>) -> Logits {
  one.reading.whole.max(one.reading.sentence)
}

/// Percent flagged of each group: by the injection head, by the poison head, by either; each head has
/// half of the budget.
pub(crate) fn report(scored: &[Scored<'_>]) -> String {
  let mut out: Vec<String> = Vec::new();
  for (name, read) in [
    ("highest of whole and sentences", highest as fn(&Scored<'_>) -> Logits),
    ("whole", |one| one.reading.whole),
  ] {
    let spaces = scored.iter().filter(|one| is_workspace(one)).map(read);
    let (injection, poison): (Vec<f32>, Vec<f32>) =
      spaces.map(|logits| (logits.injection, logits.poison)).unzip();
    let at = Logits {
      injection: threshold(&injection, BUDGET * PER_HEAD),
      poison: threshold(&poison, BUDGET * PER_HEAD),
    };
    out.push(format!("\n{name}: thresholds {:.2} and {:.2}", at.injection, at.poison));
    out.push(format!("{:30} {:>6} {:>9} {:>6} {:>6}", "", "n", "injection", "poison", "either"));
    for (group, belongs) in GROUPS {
      let lines: Vec<Logits> = scored.iter().filter(|one| belongs(one)).map(read).collect();
      if lines.is_empty() {
        continue;
      }
      let share = |flagged: &dyn Fn(&Logits) -> bool| Share::of(lines.iter().map(flagged));
      let by_injection = share(&|logits| logits.injection > at.injection);
      let by_poison = share(&|logits| logits.poison > at.poison);
      let by_either = share(&|logits| logits.injection > at.injection || logits.poison > at.poison);
      let (low, high) = by_either.interval();
      out.push(format!(
        "{group:30} {:6} {:9.1} {:6.1} {:6.1}  [{low:.1}, {high:.1}]",
        lines.len(),
        by_injection.percent(),
        by_poison.percent(),
        by_either.percent(),
      ));
    }
    let (left, dev) = (ranked(scored, read, true), ranked(scored, read, false));
    out.push(format!(
      "pairs ranked right: left out {:.1}, dev {:.1}",
      left.percent(),
      dev.percent()
    ));
  }
  out.join("\n")
}

/// In how many pairs the attack comes out above its twin.
fn ranked(scored: &[Scored<'_>], read: fn(&Scored<'_>) -> Logits, is_left_out: bool) -> Share {
  let mut pairs: std::collections::BTreeMap<&str, [Option<f32>; 2]> =
    std::collections::BTreeMap::new();
  for one in scored.iter().filter(|one| left_out(one) == is_left_out) {
    if let Some(name) = &one.item.pair {
      pairs.entry(name).or_default()[usize::from(one.item.is_attack)] = Some(read(one).poison);
    }
  }
  Share::of(pairs.values().filter_map(|[twin, attack]| Some(attack.as_ref()? > twin.as_ref()?)))
}
