//! Trains the context head, fits the fusion of authority, and says what each part is worth and where the limits
//! lie.
//!
//! The head scores each author by weights that did not see them. The encoder has seen all authors but those that
//! are left out, so with the encoder the fusion is fitted to these, and measured author by author with parameters
//! that were fitted to the others.

use std::{collections::BTreeMap, error::Error, fs, path::Path};

use memfw::detect::{
  JudgeOptions, judge,
  model::{
    Assessor as _, AuthorityEvidence, AuthorityFusion, Context, ContextHead, Logits, Model,
    Opinion, Parts, Spoken,
    authority::{AuthorityInputs, AuthorityWeights, RISING, authority_inputs},
    context_features::Prepared,
    digest::Files,
    features::Shape,
  },
  policy,
};

use serde::Deserialize;

use crate::{
  adagrad::{Examples, Pace, learn},
  limits, logistic,
  measure::{Share, threshold},
  scenarios::Entry,
};

/// The share of what must go at which probabilities are calibrated: a choice, for nobody knows the true one.
const PRIOR: f64 = 0.1;
/// Bits of a hash that the head uses.
const BITS: u8 = 17;
/// In how many parts authors are divided.
const PARTS: usize = 5;
/// Shares of what stays at which it is said what is found.
const RATES: [f64; 4] = [0.02, 0.035, 0.05, 0.10];
const PACE: Pace = Pace { rounds: 12, step: 0.5, hold: 0.3, seed: 20_261_123 };

/// What comes of it.
pub(crate) struct Made {
  pub(crate) head: Vec<u8>,
  pub(crate) fusion: AuthorityFusion,
  pub(crate) report: String,
}

/// An entry from outside and what the fusion sees of it.
pub(crate) struct Example<'e> {
  pub(crate) entry: &'e Entry,
  inputs: AuthorityInputs,
}

/// What the encoder says of an entry (`python -m encoder.authority logits`): of all of it and of its most
/// suspicious sentence; injection, then poison.
#[derive(Deserialize)]
struct Close {
  id: String,
  authority: [f32; 2],
  whole: [f32; 2],
  sentence: [f32; 2],
}

fn close(path: &Path) -> Result<BTreeMap<String, Close>, Box<dyn Error>> {
  let text = fs::read_to_string(path)?;
  let lines = text.lines().map(|line| {
    let close: Close = serde_json::from_str(line)?;
    Ok((close.id.clone(), close))
  });
  lines.collect()
}

pub(crate) fn make(
  entries: &[Entry],
  models: &Path,
  logits: &Path,
) -> Result<Made, Box<dyn Error>> {
  let logits = close(logits)?;
  let mut out = Vec::new();
  let authors = authors(entries);
  let outside: Vec<&Entry> = entries.iter().filter(|one| is_asked_about(one)).collect();
  let n_take = outside.iter().filter(|one| one.is_take).count();
  out.push(format!(
    "{} authors; from outside, judged item by item: {n_take} that must go, {} that stay",
    authors.len(),
    outside.len() - n_take
  ));
  learning_curve(&mut out, entries, &authors);
  ablation(&mut out, entries);
  let spoken = left_out(entries, &authors, Parts::ALL);
  let model = model(models)?;
  let chosen = entries.iter().zip(&spoken).filter(|(one, _)| is_asked_about(one));
  let evidence: Vec<(&Entry, AuthorityEvidence<'_>)> =
    chosen.filter_map(|(entry, said)| Some((entry, evidence(entry, *said, &model)?))).collect();
  let all: Vec<Example<'_>> = evidence
    .iter()
    .map(|(entry, seen)| Example { entry, inputs: authority_inputs(seen) })
    .collect();
  let mut close = Vec::new();
  for (entry, seen) in evidence.into_iter().filter(|(entry, _)| entry.is_left_out()) {
    let said = logits.get(&entry.id).ok_or_else(|| format!("{} has no logits", entry.id))?;
    let pair = |[injection, poison]: [f32; 2]| Logits { injection, poison };
    let [whole, sentence] = said.authority;
    let seen = AuthorityEvidence {
      encoder: Some(Spoken { whole, sentence }),
      close: Some(Opinion { whole: pair(said.whole), sentence: pair(said.sentence) }),
      ..seen
    };
    close.push(Example { entry, inputs: authority_inputs(&seen) });
  }
  let found = describe(&mut out, "without the encoder", &all, &[]);
  let chosen = all.iter().zip(&found).filter(|(one, _)| one.entry.is_left_out());
  out.push(line("of these, the authors left out", chosen.map(|(one, p)| (one.entry.is_take, *p))));
  let found = describe(&mut out, "with the encoder", &close, &[]);
  worth(&mut out, &close);
  limits::say(&mut out, &close, &found);
  let fusion = AuthorityFusion {
    version: 1,
    prior: PRIOR as f32,
    heads: fit(&all.iter().collect::<Vec<_>>(), &[]),
    encoder: fit(&close.iter().collect::<Vec<_>>(), &[]),
  };
  let head = train(&entries.iter().collect::<Vec<_>>(), Parts::ALL);
  Ok(Made { head: head.bytes(), fusion, report: out.join("\n") })
}

/// Whether the model would be asked about it.
fn is_asked_about(one: &Entry) -> bool {
  one.kind.is_outside() && one.is_judged()
}

fn authors(entries: &[Entry]) -> Vec<&str> {
  let mut authors: Vec<&str> = entries.iter().map(|one| one.author.as_str()).collect();
  authors.dedup();
  authors
}

/// Everything that is judged beside the new head comes from the files as they are shipped.
fn model(models: &Path) -> Result<Model, Box<dyn Error>> {
  let file = |name: &str| -> Result<&'static [u8], Box<dyn Error>> {
    Ok(Box::leak(fs::read(models.join(name))?.into_boxed_slice()))
  };
  let model = Model::of(Files {
    heads: file("heads.bin")?,
    fusion: file("fusion.toml")?,
    encoder: file("encoder.onnx.zst")?,
    authority: file("authority.onnx.zst")?,
    context: file("authority.bin")?,
    power: file("authority.toml")?,
    vocabulary: file("vocabulary.txt")?,
    digests: Box::leak(fs::read_to_string(models.join("DIGESTS"))?.into_boxed_str()),
  });
  match model.health().degradation() {
    Some(why) => Err(why.into()),
    None => Ok(model),
  }
}

fn context(entry: &Entry) -> Context<'_> {
  Context { kind: entry.kind, asked: &entry.asked, known: &[] }
}

fn evidence<'e>(entry: &'e Entry, head: Spoken, model: &Model) -> Option<AuthorityEvidence<'e>> {
  let rules = policy::strength(&judge(entry.text.as_bytes(), &JudgeOptions::default()));
  let seen = model.authority_evidence(&entry.text, rules, &context(entry))?;
  Some(AuthorityEvidence { head, ..seen })
}

/// The head of these entries.
fn train(entries: &[&Entry], parts: Parts) -> ContextHead {
  let rows: Vec<Vec<u32>> = entries.iter().map(|one| features(one, parts)).collect();
  let features: Vec<&[u32]> = rows.iter().map(Vec::as_slice).collect();
  let counts: Vec<f32> = entries.iter().map(|one| if one.is_take { 1.0 } else { -1.0 }).collect();
  let mut groups: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
  for (at, one) in entries.iter().enumerate() {
    groups.entry(one.pair.as_ref().unwrap_or(&one.scenario)).or_default().push(at);
  }
  let mut pairs = Vec::new();
  for group in groups.values() {
    for &above in group.iter().filter(|at| entries[**at].is_take) {
      for &below in group.iter().filter(|at| !entries[**at].is_take) {
        // Whole beside whole, line beside line.
        if entries[above].is_note == entries[below].is_note {
          pairs.push((above, below, 0.5));
        }
      }
    }
  }
  let learned =
    learn(1 << BITS, &Examples { rows: &features, counts: &counts, pairs: &pairs }, &PACE);
  ContextHead::quantise(Shape::CHOSEN, &learned.weights, learned.bias)
}

fn features(entry: &Entry, parts: Parts) -> Vec<u32> {
  let (mut hashes, mut spare) = (Vec::new(), Vec::new());
  let prepared = Prepared::new(&context(entry), &entry.effects, parts);
  prepared.extract(&entry.text, Shape::CHOSEN, &mut hashes, &mut spare);
  for hash in &mut hashes {
    *hash >>= 32 - u32::from(BITS);
  }
  hashes.dedup();
  hashes
}

/// What heads say that did not see the author.
fn left_out(entries: &[Entry], authors: &[&str], parts: Parts) -> Vec<Spoken> {
  let part_of: BTreeMap<&str, usize> =
    authors.iter().enumerate().map(|(at, author)| (*author, at % PARTS)).collect();
  let heads: Vec<ContextHead> = (0..PARTS)
    .map(|part| {
      let kept: Vec<&Entry> =
        entries.iter().filter(|one| part_of[one.author.as_str()] != part).collect();
      train(&kept, parts)
    })
    .collect();
  let said = |one: &Entry| {
    heads[part_of[one.author.as_str()]].read_parts(&one.text, &context(one), &one.effects, parts)
  };
  entries.iter().map(said).collect()
}

/// How the head does by the number of authors that it learned from, on the authors that are left out.
fn learning_curve(out: &mut Vec<String>, entries: &[Entry], authors: &[&str]) {
  let own: Vec<&str> =
    authors.iter().copied().filter(|author| !crate::scenarios::LEFT_OUT.contains(author)).collect();
  out.push(format!("\n## The context head, by the number of authors it learned from\n\n{TITLE}"));
  for n in [3, 7, 12, 18].into_iter().filter(|n| *n < own.len()).chain([own.len()]) {
    let kept: Vec<&Entry> =
      entries.iter().filter(|one| own.iter().take(n).any(|author| *author == one.author)).collect();
    let head = train(&kept, Parts::ALL);
    let test = entries.iter().filter(|one| is_asked_about(one) && one.is_left_out());
    let found = test
      .map(|one| (one.is_take, f64::from(head.read(&one.text, &context(one), &one.effects).whole)));
    out.push(line(&format!("{n} authors"), found));
  }
}

/// What each part of the context is worth to the head, on the authors that are left out.
fn ablation(out: &mut Vec<String>, entries: &[Entry]) {
  let none = Parts { kind: false, asked: false, effects: false, slots: false };
  let steps = [
    ("text alone", none),
    ("+ kind of source", Parts { kind: true, ..none }),
    ("+ what was asked", Parts { kind: true, asked: true, ..none }),
    ("+ effects", Parts { slots: false, ..Parts::ALL }),
    ("+ slots", Parts::ALL),
  ];
  out.push(format!("\n## The context head, by what it sees\n\n{TITLE}"));
  for (name, parts) in steps {
    let kept: Vec<&Entry> = entries.iter().filter(|one| !one.is_left_out()).collect();
    let head = train(&kept, parts);
    let test = entries.iter().filter(|one| is_asked_about(one) && one.is_left_out());
    let said = |one: &Entry| head.read_parts(&one.text, &context(one), &one.effects, parts).whole;
    out.push(line(name, test.map(|one| (one.is_take, f64::from(said(one))))));
  }
}

/// Whether an entry has to go, and what is said of it.
type Scored = (bool, f64);

const TITLE: &str = "found at 2, 3.5, 5 and 10 % of what stays; AUC";

/// What is found at some shares of what stays.
fn line(name: &str, found: impl Iterator<Item = Scored>) -> String {
  let (take, keep): (Vec<Scored>, Vec<Scored>) = found.partition(|(is_take, _)| *is_take);
  let scores: Vec<f32> = keep.iter().map(|(_, score)| *score as f32).collect();
  let shares = RATES.map(|rate| {
    let at = threshold(&scores, rate);
    let share = Share::of(take.iter().map(|(_, score)| *score as f32 > at));
    format!("{:5.1}", share.percent())
  });
  let (n_take, n_keep) = (take.len(), keep.len());
  let said = format!("{name:38} {n_take:5} / {n_keep:5}  {}", shares.join(" "));
  let wins = take.iter().map(|(_, high)| scores.iter().filter(|low| *high as f32 > **low).count());
  let auc = wins.sum::<usize>() as f64 / (take.len() * keep.len()).max(1) as f64;
  format!("{said}  {auc:.3}")
}

/// Parameters from these examples, without some of the inputs.
fn fit(examples: &[&Example<'_>], without: &[usize]) -> AuthorityWeights {
  let n_take = examples.iter().filter(|one| one.entry.is_take).count().max(1) as f64;
  let n = examples.len() as f64;
  let n_keep = (n - n_take).max(1.0);
  let counts: Vec<f64> = examples
    .iter()
    .map(|one| if one.entry.is_take { PRIOR * n / n_take } else { (1.0 - PRIOR) * n / n_keep })
    .collect();
  let rows: Vec<AuthorityInputs> = examples.iter().map(|one| less(&one.inputs, without)).collect();
  let is_take: Vec<bool> = examples.iter().map(|one| one.entry.is_take).collect();
  AuthorityWeights::from_inputs(&logistic::fit(&rows, &is_take, &counts, RISING))
}

fn less(inputs: &AuthorityInputs, without: &[usize]) -> AuthorityInputs {
  let mut inputs = *inputs;
  for at in without {
    inputs[*at] = 0.0;
  }
  inputs
}

/// The probability of each by parameters that were fitted to other authors.
fn probabilities(examples: &[Example<'_>], without: &[usize]) -> Vec<f64> {
  let mut fitted: BTreeMap<&str, AuthorityWeights> = BTreeMap::new();
  let mut found = Vec::new();
  for one in examples {
    let author = one.entry.author.as_str();
    let weights = fitted.entry(author).or_insert_with(|| {
      let others: Vec<&Example<'_>> =
        examples.iter().filter(|other| other.entry.author != author).collect();
      fit(&others, without)
    });
    let logit: f32 =
      weights.inputs().iter().zip(less(&one.inputs, without)).map(|(a, b)| a * b).sum();
    found.push(1.0 / (1.0 + (-f64::from(logit)).exp()));
  }
  found
}

/// Measures author by author, and says it.
fn describe(
  out: &mut Vec<String>,
  name: &str,
  examples: &[Example<'_>],
  without: &[usize],
) -> Vec<f64> {
  let found = probabilities(examples, without);
  out.push(format!("\n## The fusion {name}\n\n{TITLE}"));
  out.push(line("all", examples.iter().zip(&found).map(|(one, p)| (one.entry.is_take, *p))));
  let mut groups: BTreeMap<String, Vec<(bool, f64)>> = BTreeMap::new();
  for (one, p) in examples.iter().zip(&found) {
    let entry = one.entry;
    let shape = if entry.is_item { "one line of a note" } else { "an entry of one line" };
    let lang = if entry.lang == "en" { "English" } else { "other languages" };
    for name in [shape, lang, entry.kind.word()] {
      groups.entry(name.to_owned()).or_default().push((entry.is_take, *p));
    }
  }
  out.extend(groups.into_iter().map(|(name, found)| line(&name, found.into_iter())));
  out.push("calibration, at the share of scenarios: probability, lines, of these to go".to_owned());
  for tenth in 0..10 {
    let is_in = |p: f64| ((p * 10.0) as usize).min(9) == tenth;
    let chosen = examples.iter().zip(&found).filter(|(_, p)| is_in(**p));
    let share = Share::of(chosen.map(|(one, _)| one.entry.is_take));
    out.push(format!("  0.{tenth}  {:5}  {:5.1} %", share.all, share.percent()));
  }
  found
}

/// What each part is worth to the fusion.
fn worth(out: &mut Vec<String>, examples: &[Example<'_>]) {
  let parts: &[(&str, &[usize])] = &[
    ("without the kind of source", &[2, 3, 4, 5, 6, 7]),
    ("without what was asked (fusion alone)", &[8, 9]),
    ("without rules", &[11]),
    ("without the context head", &[12, 13]),
    ("without the encoder's authority", &[14, 15]),
    ("without injection and poison", &[16, 17, 18, 19]),
    ("without effects", &[20, 21, 22, 23, 24, 25, 26, 27, 28]),
    ("without slots", &[10, 29, 30]),
    (
      "the encoder's authority alone",
      &[
        2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28,
        29, 30,
      ],
    ),
  ];
  out.push(format!("\n## The fusion without its parts\n\n{TITLE}"));
  for (name, without) in parts {
    let found = probabilities(examples, without);
    out.push(line(name, examples.iter().zip(&found).map(|(one, p)| (one.entry.is_take, *p))));
  }
}
