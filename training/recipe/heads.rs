//! Trains the two heads: logistic regression over hashed n-grams.
//!
//! The injection head learns attacks of public sets against everything harmless; the poison head
//! learns lines of memory against their twins and everything harmless. What is an attack of the
//! other kind is no example for a head. Beside each line for itself, an attack must come out above
//! its own twin. Then sentences of harmless notes that still look suspicious are added as harmless
//! (hard negatives), and the heads are trained again.

use std::collections::BTreeMap;

use clap::Args;
use memfw::detect::{
  model::{
    Heads, Logits,
    features::{Shape, extract},
  },
  rules::sentences,
};

use crate::{
  adagrad::{Examples, Pace, learn},
  data::Item,
};

/// What can be chosen; the defaults are what is shipped.
#[derive(Args, Clone, Debug)]
pub(crate) struct Settings {
  /// Buckets a head, as a power of two
  #[arg(long, default_value_t = 18)]
  pub(crate) bits: u8,
  /// Highest order of word n-grams
  #[arg(long, default_value_t = Shape::CHOSEN.words)]
  pub(crate) words: u8,
  /// Leaves out pairs of words with a gap
  #[arg(long)]
  pub(crate) no_gaps: bool,
  /// Fewest characters of a character n-gram
  #[arg(long, default_value_t = Shape::CHOSEN.least)]
  pub(crate) least: u8,
  /// Most characters of a character n-gram, 0 for none
  #[arg(long, default_value_t = Shape::CHOSEN.most)]
  pub(crate) most: u8,
  /// How strongly weights are held near zero
  #[arg(long, default_value_t = 0.5)]
  pub(crate) hold: f32,
  /// How often each example is seen
  #[arg(long, default_value_t = 10)]
  pub(crate) rounds: usize,
  /// The length of a first step
  #[arg(long, default_value_t = 0.5)]
  pub(crate) step: f32,
  /// Of the order of the examples
  #[arg(long, default_value_t = 20_261_121)]
  pub(crate) seed: u64,
  /// How much an attack counts against a harmless line
  #[arg(long, default_value_t = 1.0)]
  pub(crate) attacks: f32,
  /// How much it counts that an attack comes out above its twin
  #[arg(long, default_value_t = 1.0)]
  pub(crate) pairs: f32,
  /// How often hard negatives are looked for
  #[arg(long, default_value_t = 1)]
  pub(crate) mining: usize,
  /// How much a hard negative counts
  #[arg(long, default_value_t = 1.0)]
  pub(crate) mined: f32,
  /// How much attacks of the other kind count as attacks
  #[arg(long, default_value_t = 0.0)]
  pub(crate) other: f32,
  /// A public set of attacks counts as this many lines at most, 0 for no limit: some are a few
  /// templates a thousand times
  #[arg(long, default_value_t = 0.0)]
  pub(crate) cap: f32,
  /// How much a harmless line of a real workspace counts
  #[arg(long, default_value_t = 1.0)]
  pub(crate) spaces: f32,
  /// Sets that are left out, by the beginning of their name
  #[arg(long, num_args = 1..)]
  pub(crate) without: Vec<String>,
}

impl Settings {
  fn shape(&self) -> Shape {
    Shape { words: self.words, gaps: !self.no_gaps, least: self.least, most: self.most }
  }

  fn pace(&self) -> Pace {
    Pace { rounds: self.rounds, step: self.step, hold: self.hold, seed: self.seed }
  }
}

/// A harmless sentence with a logit above this is a hard negative.
const HARD: f32 = -2.0;

/// One example: its features, and how much it counts for each head.
struct Row {
  features: Vec<u32>,
  is_attack: bool,
  counts: [f32; 2],
}

/// Trains both heads.
pub(crate) fn train(items: &[&Item], settings: &Settings) -> Heads {
  let kept: Vec<&Item> = items
    .iter()
    .filter(|item| !settings.without.iter().any(|set| item.set.starts_with(set.as_str())))
    .copied()
    .collect();
  let mut rows: Vec<Row> = Vec::new();
  let mut pairs: Vec<(usize, usize)> = Vec::new();
  let mut open: BTreeMap<&str, usize> = BTreeMap::new();
  let mut sizes: BTreeMap<&str, usize> = BTreeMap::new();
  for item in &kept {
    *sizes.entry(&item.set).or_default() += 1;
  }
  for item in &kept {
    // Encoded lines teach only that encoding is suspicious; the product decodes before it looks.
    if item.set.starts_with("derived_encoded") {
      continue;
    }
    if let Some(name) = &item.pair {
      if let Some(&twin) = open.get(name.as_str()) {
        let (attack, twin) = if item.is_attack { (rows.len(), twin) } else { (twin, rows.len()) };
        pairs.push((attack, twin));
      }
      open.insert(name, rows.len());
    }
    rows.push(row(item, settings, &sizes));
  }
  let mut heads = fit(&rows, &pairs, settings);
  for _ in 0..settings.mining {
    let n_rows = rows.len();
    for item in kept.iter().filter(|item| !item.is_attack) {
      let Some(text) = item.views.first() else { continue };
      for range in sentences(text) {
        let Some(sentence) = text.get(range).filter(|sentence| sentence.len() < text.len()) else {
          continue;
        };
        let Logits { injection, poison } = heads.read(sentence).whole;
        if injection > HARD || poison > HARD {
          rows.push(Row {
            features: features(sentence, settings),
            is_attack: false,
            counts: [settings.mined; 2],
          });
        }
      }
    }
    heads = fit(&rows, &pairs, settings);
    rows.truncate(n_rows);
  }
  heads
}

fn row(item: &Item, settings: &Settings, sizes: &BTreeMap<&str, usize>) -> Row {
  let text = item.views.first().map_or("", String::as_str);
  let size = sizes.get(item.set.as_str()).map_or(1.0, |size| *size as f32);
  let capped = if settings.cap > 0.0 { (settings.cap / size).min(1.0) } else { 1.0 };
  let counts = match (item.is_attack, item.is_written()) {
    (false, _) if item.set == "ws_train" => [settings.spaces; 2],
    (false, _) => [1.0; 2],
    (true, true) => [settings.other * settings.attacks, settings.attacks],
    (true, false) => [1.0, settings.other].map(|count| count * settings.attacks * capped),
  };
  Row { features: features(text, settings), is_attack: item.is_attack, counts }
}

fn features(text: &str, settings: &Settings) -> Vec<u32> {
  let mut hashes = Vec::new();
  extract(text, settings.shape(), &mut hashes);
  for hash in &mut hashes {
    *hash >>= 32 - u32::from(settings.bits);
  }
  hashes.dedup();
  hashes
}

fn fit(rows: &[Row], pairs: &[(usize, usize)], settings: &Settings) -> Heads {
  let size = 1 << settings.bits;
  let features: Vec<&[u32]> = rows.iter().map(|row| row.features.as_slice()).collect();
  // One thread a head: what comes out does not depend on the machine.
  let [injection, poison] = std::thread::scope(|scope| {
    [0, 1]
      .map(|head| {
        let features = &features;
        scope.spawn(move || {
          let sign = |row: &Row| if row.is_attack { 1.0 } else { -1.0 };
          let counts: Vec<f32> = rows.iter().map(|row| sign(row) * row.counts[head]).collect();
          let pairs: Vec<(usize, usize, f32)> =
            pairs.iter().map(|(above, below)| (*above, *below, settings.pairs)).collect();
          let pairs = if head == 1 && settings.pairs > 0.0 { pairs.as_slice() } else { &[] };
          learn(size, &Examples { rows: features, counts: &counts, pairs }, &settings.pace())
        })
      })
      .map(|thread| thread.join().expect("a head that panics stops the recipe"))
  });
  let weights: Vec<[f32; 2]> =
    injection.weights.iter().zip(&poison.weights).map(|(a, b)| [*a, *b]).collect();
  let bias = Logits { injection: injection.bias, poison: poison.bias };
  Heads::quantise(settings.shape(), &weights, bias)
}
