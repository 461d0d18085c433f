//! Fits the fusion to logits of lines that neither the heads nor the encoder were trained on, and
//! says how well its probabilities hold.
//!
//! Two files are joined by `id`: what `folds --out` wrote, and what `python -m encoder logits` wrote
//! (`encoder.whole` and `encoder.sentence`, each injection then poison). Lines that the encoder was
//! trained on are not in the second one, and lines of dev only measure.

use std::{collections::BTreeMap, error::Error, fs, path::Path};

use memfw::detect::model::{
  Logits,
  fusion::{Evidence, Fusion, Inputs, Kinds, Opinion, Weights, inputs},
};
use serde::Deserialize;

use crate::measure::{Share, threshold};

/// The share of attacks at which probabilities are calibrated: a choice, for nobody knows the true
/// one. Another share moves all log odds by one number.
const PRIOR: f64 = 0.1;
/// The share of workspace lines among the harmless ones, for they are what a daemon sees.
const WORKSPACE: f64 = 0.6;
/// Holds weights near zero; in lines.
const HOLD: f64 = 1.0;
/// Rounds over all weights; they stand still after about 100.
const ROUNDS: usize = 200;
/// Parts for measuring: each is scored by parameters that were fitted on the others.
const PARTS: usize = 8;
/// Share of real workspace blocks that may be flagged.
const BUDGET: f64 = 0.005;
/// The shares for which thresholds are asked: of trusted, verified, untrusted and hostile sources, and one
/// step further (`src/detect/policy.rs`).
const RATES: [f64; 6] = [0.0001, 0.0005, 0.0015, 0.005, 0.05, 0.15];

/// What can be left out, to see what it is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Part {
  /// The findings of the rules
  Rules,
  /// The likeness to the nearest known attack
  Likeness,
  /// The n-gram heads
  Heads,
  /// The encoder
  Encoder,
  /// What either says of the most suspicious sentence
  Sentences,
}

impl Part {
  /// Where it stands in [`Inputs`].
  const fn places(self) -> &'static [usize] {
    match self {
      Self::Rules => &[2],
      Self::Likeness => &[3],
      Self::Heads => &[4, 5, 6, 7],
      Self::Encoder => &[3, 8, 9, 10, 11],
      Self::Sentences => &[5, 7, 9, 11],
    }
  }
}

/// A line of either file.
#[derive(Deserialize)]
struct Line {
  id: String,
  label: u8,
  set: String,
  #[serde(default)]
  kind: String,
  #[serde(default)]
  lang: String,
  pair: Option<String>,
  #[serde(default)]
  group: String,
  #[serde(default)]
  rules: f32,
  #[serde(default)]
  likeness: f32,
  #[serde(default)]
  bytes: usize,
  heads: Option<Two>,
  encoder: Option<Two>,
}

/// Injection and poison of the whole, and of the sentence.
#[derive(Clone, Copy, Deserialize)]
struct Two {
  whole: [f32; 2],
  sentence: [f32; 2],
}

impl From<Two> for Opinion {
  fn from(two: Two) -> Self {
    let logits = |[injection, poison]: [f32; 2]| Logits { injection, poison };
    Self { whole: logits(two.whole), sentence: logits(two.sentence) }
  }
}

/// A line that can be fitted to.
struct Example {
  inputs: Inputs,
  is_attack: bool,
  is_written: bool,
  is_workspace: bool,
  is_dev: bool,
  part: usize,
  line: Line,
}

/// Fits both sets of parameters without some of the inputs, and reports. Without a file of the encoder, its parameters are those
/// of the heads with the encoder's weights at zero.
pub(crate) fn fuse(
  heads: &Path,
  encoder: Option<&Path>,
  left_out: &[Part],
) -> Result<(Fusion, String), Box<dyn Error>> {
  let lines = read(heads)?;
  let opinions: BTreeMap<String, Two> = match encoder {
    Some(path) => {
      read(path)?.into_iter().filter_map(|line| Some((line.id, line.encoder?))).collect()
    }
    None => BTreeMap::new(),
  };
  let mut report = Vec::new();
  let without = examples(lines, None, left_out)?;
  let heads_only = fit_kinds(&without, None);
  describe(&mut report, "without the encoder", &without);
  let with = examples(read(heads)?, Some(&opinions), left_out)?;
  let both = if with.is_empty() {
    heads_only.clone()
  } else {
    describe(&mut report, "the same lines without the encoder", &examples_of(&with));
    describe(&mut report, "with the encoder", &with);
    fit_kinds(&with, None)
  };
  Ok((
    Fusion { version: 2, prior: PRIOR as f32, heads: heads_only, encoder: both },
    report.join("\n"),
  ))
}

fn read(path: &Path) -> Result<Vec<Line>, Box<dyn Error>> {
  let text = fs::read_to_string(path)?;
  text.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
}

/// The lines that both files have.
fn examples(
  lines: Vec<Line>,
  opinions: Option<&BTreeMap<String, Two>>,
  left_out: &[Part],
) -> Result<Vec<Example>, Box<dyn Error>> {
  let mut parts: BTreeMap<String, usize> = BTreeMap::new();
  let mut made = Vec::new();
  for line in lines {
    let heads = line.heads.ok_or_else(|| format!("{} has no logits of the heads", line.id))?;
    let encoder = match opinions {
      None => None,
      Some(opinions) => match opinions.get(&line.id) {
        Some(opinion) => Some((*opinion).into()),
        None => continue,
      },
    };
    // While only the heads have looked nobody asks for it.
    let likeness = if encoder.is_some() { line.likeness } else { 0.0 };
    let Line { rules, bytes, .. } = line;
    let seen = Evidence { heads: heads.into(), encoder, rules, likeness, bytes };
    let mut inputs = inputs(&seen);
    for place in left_out.iter().flat_map(|part| part.places()) {
      inputs[*place] = 0.0;
    }
    let next = parts.len() % PARTS;
    made.push(Example {
      inputs,
      is_attack: line.label == 1,
      is_written: line.set.starts_with("written"),
      is_workspace: matches!(line.set.as_str(), "ws_train" | "ws_dev"),
      is_dev: line.set.ends_with("_dev") || DEV.contains(&line.set.as_str()),
      part: *parts.entry(line.group.clone()).or_insert(next),
      line,
    });
  }
  Ok(made)
}

/// Sets of dev whose names do not say so.
const DEV: &[&str] = &[
  "deepset",
  "llm_guard_tests",
  "piguard_pint",
  "prompt_guard_tests",
  "secureclaw_examples",
  "til_simonw",
  "security_talk_heldout",
  "business_mail_heldout",
];

/// The same examples as if the encoder had not looked.
fn examples_of(examples: &[Example]) -> Vec<Example> {
  examples
    .iter()
    .map(|one| {
      let mut inputs = one.inputs;
      inputs[3] = 0.0;
      inputs[8..].fill(0.0);
      let line = Line {
        id: one.line.id.clone(),
        set: one.line.set.clone(),
        kind: one.line.kind.clone(),
        lang: one.line.lang.clone(),
        pair: one.line.pair.clone(),
        group: one.line.group.clone(),
        ..one.line
      };
      Example { inputs, line, ..*one }
    })
    .collect()
}

/// Both kinds, from all examples that are not dev and not in the part that is left out.
fn fit_kinds(examples: &[Example], left_out: Option<usize>) -> Kinds {
  let fit_one = |is_poison: bool| {
    let kept: Vec<&Example> = examples
      .iter()
      .filter(|one| !one.is_dev && Some(one.part) != left_out && concerns(one, is_poison))
      .collect();
    Weights::from_inputs(&fit(&kept, &shares(&kept)))
  };
  Kinds { injection: fit_one(false), poison: fit_one(true) }
}

/// Whether an example says something about a kind: harmless lines do about both.
fn concerns(one: &Example, is_poison: bool) -> bool {
  !one.is_attack || one.is_written == is_poison
}

/// How much each example counts, so that attacks and workspaces have the shares that they should.
fn shares(examples: &[&Example]) -> Vec<f64> {
  let class = |one: &Example| match (one.is_attack, one.is_workspace) {
    (true, _) => 0,
    (false, true) => 1,
    (false, false) => 2,
  };
  let mut counts = [0.0_f64; 3];
  for one in examples {
    counts[class(one)] += 1.0;
  }
  let wanted = [PRIOR, (1.0 - PRIOR) * WORKSPACE, (1.0 - PRIOR) * (1.0 - WORKSPACE)];
  let n = examples.len() as f64;
  examples.iter().map(|one| n * wanted[class(one)] / counts[class(one)].max(1.0)).collect()
}

/// Logistic regression by Newton steps on one weight at a time; all weights but those of bias and
/// length stay at zero or above.
fn fit(examples: &[&Example], counts: &[f64]) -> Inputs {
  let mut weights = [0.0_f64; 12];
  let mut logits = vec![0.0_f64; examples.len()];
  for _ in 0..ROUNDS {
    for (at, weight) in weights.iter_mut().enumerate() {
      let hold = if at == 0 { 0.0 } else { HOLD };
      let mut slope = hold * *weight;
      let mut bend = hold + 1e-9;
      for ((one, count), logit) in examples.iter().zip(counts).zip(&logits) {
        let input = f64::from(one.inputs[at]);
        let p = 1.0 / (1.0 + (-logit).exp());
        slope += count * (p - f64::from(u8::from(one.is_attack))) * input;
        bend += count * p * (1.0 - p) * input * input;
      }
      let least = if at < 2 { f64::NEG_INFINITY } else { 0.0 };
      // Half a unit at most: far from the minimum a Newton step overshoots.
      let next = (*weight - (slope / bend).clamp(-0.5, 0.5)).max(least);
      let moved = next - *weight;
      *weight = next;
      if moved != 0.0 {
        for (logit, one) in logits.iter_mut().zip(examples) {
          *logit += moved * f64::from(one.inputs[at]);
        }
      }
    }
  }
  weights.map(|weight| (weight * 1e4).round() as f32 / 1e4)
}

/// Measures by parts, then says it.
fn describe(out: &mut Vec<String>, name: &str, examples: &[Example]) {
  let parts: Vec<Kinds> = (0..PARTS).map(|part| fit_kinds(examples, Some(part))).collect();
  let all = fit_kinds(examples, None);
  let probability = |one: &Example| {
    let kinds = if one.is_dev { &all } else { &parts[one.part] };
    [&kinds.injection, &kinds.poison].map(|weights| sigmoid(f64::from(weights.logit(&one.inputs))))
  };
  let found: Vec<[f64; 2]> = examples.iter().map(probability).collect();
  out.push(format!("\n## {name}: {} lines\n", examples.len()));
  for (at, kind) in ["injection", "poison"].into_iter().enumerate() {
    let chosen: Vec<(&Example, f64)> = examples
      .iter()
      .zip(&found)
      .filter(|(one, _)| !one.is_dev && concerns(one, at == 1))
      .map(|(one, found)| (one, found[at]))
      .collect();
    calibration(out, kind, &chosen);
  }
  operating_point(out, examples, &found);
  thresholds(out, examples, &found);
}

/// The probability, the higher one of both kinds, over which each share of workspace blocks lies, and what
/// else does.
fn thresholds(out: &mut Vec<String>, examples: &[Example], found: &[[f64; 2]]) {
  let most = |found: &[f64; 2]| found[0].max(found[1]) as f32;
  let real: Vec<f32> = examples
    .iter()
    .zip(found)
    .filter(|(one, _)| one.is_workspace)
    .map(|(_, found)| most(found))
    .collect();
  for rate in RATES {
    let at = threshold(&real, rate);
    let flagged = Share::of(real.iter().map(|one| *one > at));
    let (low, high) = flagged.interval();
    out.push(format!(
      "{:.2} % of {} workspace blocks [{low:.2}, {high:.2}]: above {at:.3}",
      flagged.percent(),
      flagged.all
    ));
    for (name, belongs) in GROUPS {
      let chosen = examples.iter().zip(found).filter(|(one, _)| belongs(one));
      let share = Share::of(chosen.map(|(_, found)| most(found) > at));
      if share.all > 0 {
        out.push(format!("  {name:30} {:6.1}", share.percent()));
      }
    }
  }
}

/// Log loss, Brier score, expected calibration error, and the curve.
fn calibration(out: &mut Vec<String>, kind: &str, chosen: &[(&Example, f64)]) {
  let counts = shares(&chosen.iter().map(|(one, _)| *one).collect::<Vec<_>>());
  let all: f64 = counts.iter().sum();
  let (mut log_loss, mut brier) = (0.0, 0.0);
  let mut sorted: Vec<(f64, f64, f64)> = Vec::with_capacity(chosen.len());
  for ((one, p), count) in chosen.iter().zip(&counts) {
    let truth = f64::from(u8::from(one.is_attack));
    let right = if one.is_attack { *p } else { 1.0 - p };
    log_loss -= count * right.max(1e-9).ln();
    brier += count * (p - truth).powi(2);
    sorted.push((*p, truth, *count));
  }
  sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
  let edges = [0.0, 0.01, 0.03, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.97, 1.01];
  let mut error = 0.0;
  let mut curve = Vec::new();
  for pair in edges.windows(2) {
    let inside = sorted.iter().filter(|(p, ..)| (pair[0]..pair[1]).contains(p));
    let (said, true_, count) = inside.fold((0.0, 0.0, 0.0), |(a, b, c), (p, truth, count)| {
      (a + p * count, b + truth * count, c + count)
    });
    if count > 0.0 {
      error += (said - true_).abs() / all;
      curve.push(format!("{:.3}:{:.3}", said / count, true_ / count));
    }
  }
  out.push(format!(
    "{kind}: log loss {:.4}, Brier {:.4}, calibration error {error:.4}; said:true {}",
    log_loss / all,
    brier / all,
    curve.join(" "),
  ));
}

/// Groups of lines that are reported at the budget.
type Test = fn(&Example) -> bool;
const GROUPS: &[(&str, Test)] = &[
  ("workspaces", |one| one.is_workspace),
  ("left out: injection", |one| !one.is_dev && one.is_attack && !one.is_written),
  ("left out: poison, English", |one| !one.is_dev && poison(one) && one.line.lang == "en"),
  ("left out: poison, other", |one| !one.is_dev && poison(one) && one.line.lang != "en"),
  ("left out: twins", |one| !one.is_dev && twin(one)),
  ("left out: hard benign", |one| {
    !one.is_dev && !one.is_attack && one.is_written && one.line.pair.is_none()
  }),
  ("left out: security talk", |one| one.line.set == "sec_talk"),
  ("dev: deepset", |one| one.is_attack && one.line.set == "deepset"),
  ("dev: deepset, harmless", |one| !one.is_attack && one.line.set == "deepset"),
  ("dev: llm_guard_tests", |one| one.is_attack && one.line.set == "llm_guard_tests"),
  ("dev: prompt_guard_tests", |one| one.is_attack && one.line.set == "prompt_guard_tests"),
  ("dev: piguard_pint", |one| one.is_attack && one.line.set == "piguard_pint"),
  ("dev: embedded", |one| one.line.set == "embedded_dev"),
  ("dev: encoded", |one| one.line.set == "derived_encoded_dev"),
  ("dev: poison, English", |one| one.is_dev && poison(one) && one.line.lang == "en"),
  ("dev: poison, other", |one| one.is_dev && poison(one) && one.line.lang != "en"),
  ("dev: twins", |one| one.is_dev && twin(one)),
  ("dev: hard benign", |one| {
    one.is_dev && !one.is_attack && one.is_written && one.line.pair.is_none()
  }),
  ("dev: notes", |one| one.line.set == "til_simonw"),
  ("held out: security talk", |one| one.line.set == "security_talk_heldout"),
  ("held out: business mail", |one| one.line.set == "business_mail_heldout"),
];

fn poison(one: &Example) -> bool {
  one.is_attack && one.is_written
}

fn twin(one: &Example) -> bool {
  !one.is_attack && one.is_written && one.line.pair.is_some()
}

/// What is flagged where the budget of workspace blocks is spent, half on each kind.
fn operating_point(out: &mut Vec<String>, examples: &[Example], found: &[[f64; 2]]) {
  let at: Vec<f32> = (0..2)
    .map(|kind| {
      let real = examples.iter().zip(found).filter(|(one, _)| one.is_workspace);
      threshold(&real.map(|(_, found)| found[kind] as f32).collect::<Vec<_>>(), BUDGET / 2.0)
    })
    .collect();
  out.push(format!("flagged above {:.4} (injection) or {:.4} (poison):", at[0], at[1]));
  for (name, belongs) in GROUPS {
    let chosen = examples.iter().zip(found).filter(|(one, _)| belongs(one));
    let share =
      Share::of(chosen.map(|(_, found)| found[0] as f32 > at[0] || found[1] as f32 > at[1]));
    if share.all > 0 {
      let (low, high) = share.interval();
      out.push(format!("{name:30} {:6} {:6.1}  [{low:.1}, {high:.1}]", share.all, share.percent()));
    }
  }
}

fn sigmoid(logit: f64) -> f64 {
  1.0 / (1.0 + (-logit).exp())
}
