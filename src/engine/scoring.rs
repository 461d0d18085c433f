//! The texts of one file that the encoder is to read, and how many of them it reads.
//!
//! Invariant: the encoder's work for one version of a file is bounded, whatever the version contains. The rules
//! and the heads read every text; the encoder reads new texts before those that it left out earlier, and of
//! both first the ones that the heads suspect most. The others are decided by the rules and the heads, and the
//! engine reports how many these are.
#![forbid(unsafe_code)]

use std::{cmp::Reverse, collections::HashSet};

use zeroize::Zeroizing;

use super::Target;
use crate::{
  detect::{
    self, JudgeOptions, Scope,
    effects::KnownSlot,
    model::{self, Assessment, Assessor, Depth, Health},
    policy,
    rules::Rules,
  },
  judging::origin::Origin,
  memory::ContentHash,
  store::ScoreKey,
};

/// The most texts of one version that the encoder reads (a choice: a text takes 5 to 40 ms, and a file with a
/// thousand items is a large memory).
pub const MOST_TEXTS: usize = 1024;
/// The most bytes of these texts (a choice: some 60 ms for each kilobyte). A text that alone is longer is read,
/// as far as the model reads a text.
pub const MOST_BYTES: usize = 256 * 1024;

/// The lines of one revision of a block.
pub(super) struct Unit {
  /// The index of the block.
  pub(super) index: usize,
  /// The number of the revision.
  pub(super) number: u32,
  pub(super) origin: Origin,
  /// Indices of the lines.
  pub(super) lines: Vec<usize>,
  pub(super) key: ScoreKey,
}

/// Texts of one file that the encoder is to read.
#[derive(Debug)]
pub struct Scoring {
  pub(super) target: Target,
  pub(super) scope: Scope,
  pub(super) rules: Rules,
  pub(super) texts: Vec<Text>,
  /// The values of trusted memory, if a text is from outside.
  pub(super) slots: Vec<KnownSlot>,
}

/// One text to read.
#[derive(Debug)]
pub(super) struct Text {
  pub(super) key: ScoreKey,
  pub(super) origin: Origin,
  pub(super) bytes: Zeroizing<Vec<u8>>,
  /// Whether the encoder left it out of an earlier version.
  pub(super) is_left: bool,
}

/// The results for such texts.
#[derive(Debug)]
pub struct Scored {
  /// The file.
  pub target: Target,
  pub(super) version: String,
  pub(super) found: Vec<(ScoreKey, Assessment)>,
  /// The health of the model afterwards.
  pub(super) health: Health,
  /// The texts that were judged again in earlier turns.
  pub(super) judged: JudgedAgain,
}

/// The texts of one version of a file that were judged again.
#[derive(Debug, Default)]
pub(super) struct JudgedAgain {
  version: Option<ContentHash>,
  /// The indices of their blocks, the numbers of their revisions, and their keys.
  texts: HashSet<(usize, u32, ScoreKey)>,
}

impl JudgedAgain {
  /// Continues with this version; texts of another one do not count.
  pub(super) fn of(&mut self, version: Option<ContentHash>) {
    if self.version != version {
      *self = Self { version, texts: HashSet::new() };
    }
  }

  /// Whether this text was judged again.
  pub(super) fn contains(&self, unit: &Unit) -> bool {
    self.texts.contains(&(unit.index, unit.number, unit.key))
  }

  /// Adds a text.
  pub(super) fn add(&mut self, unit: &Unit) {
    self.texts.insert((unit.index, unit.number, unit.key));
  }
}

impl Scoring {
  /// The file.
  pub fn target(&self) -> &Target {
    &self.target
  }

  /// Reads the texts one after the other.
  pub fn run(self, assessor: &dyn Assessor) -> Scored {
    let mut run = ScoringRun::new(self);
    while run.step(assessor) {}
    run.finish(assessor)
  }
}

/// The reading of the texts of one file, in steps of one text, so that a caller can read another file in between.
#[derive(Debug)]
pub struct ScoringRun {
  scoring: Scoring,
  /// The strength of the rules' findings and the assessment, for each text so far.
  found: Vec<(f32, Assessment)>,
  /// The texts that the encoder has yet to read, as indices, the first one last; `None` before the heads have
  /// read all texts.
  close: Option<Vec<usize>>,
}

impl ScoringRun {
  /// Begins with the first text.
  pub const fn new(scoring: Scoring) -> Self {
    Self { scoring, found: Vec::new(), close: None }
  }

  /// The file.
  pub const fn target(&self) -> &Target {
    &self.scoring.target
  }

  /// How many texts the encoder may still read.
  pub fn n_left(&self) -> usize {
    self.close.as_ref().map_or(self.scoring.texts.len(), Vec::len)
  }

  /// Reads one text, by the heads or closely; returns `false` when nothing is left to read.
  pub fn step(&mut self, assessor: &dyn Assessor) -> bool {
    if self.close.is_none() {
      if let Some(text) = self.scoring.texts.get(self.found.len()) {
        let found = self.scoring.glance(text, assessor);
        self.found.push(found);
        return true;
      }
      let close = self.choose();
      self.close = Some(close);
    }
    let Some(index) = self.close.as_mut().and_then(Vec::pop) else { return false };
    if let (Some(text), Some((rules, found))) =
      (self.scoring.texts.get(index), self.found.get_mut(index))
    {
      let said = detect::Text::new(&text.bytes);
      let context = text.origin.context(&said, &self.scoring.slots);
      *found = model::assess(assessor, &said, *rules, Depth::Encoder, &context);
    }
    true
  }

  /// The texts that the encoder reads, the first one last. The texts that it would read but for the bound are
  /// marked.
  fn choose(&mut self) -> Vec<usize> {
    let texts = self.scoring.texts.iter().zip(&self.found).enumerate();
    let mut wanted: Vec<_> = texts
      .filter(|(_, (text, (_, glance)))| {
        policy::wants_encoder(text.origin.trust, glance.probabilities)
      })
      .map(|(index, (text, (_, glance)))| {
        // Thousandths, so that they can be compared.
        let suspicion = (glance.suspicion() * 1000.0) as u32;
        (text.is_left, Reverse(suspicion), text.bytes.len(), index)
      })
      .collect();
    wanted.sort_unstable();
    let mut n_bytes = 0;
    let fits = |(place, (_, _, length, _)): (usize, &(bool, Reverse<u32>, usize, usize))| {
      n_bytes += length;
      place < MOST_TEXTS && (place == 0 || n_bytes <= MOST_BYTES)
    };
    let n_close = wanted.iter().enumerate().map(fits).take_while(|fits| *fits).count();
    for (.., index) in wanted.iter().skip(n_close) {
      if let Some((_, found)) = self.found.get_mut(*index) {
        found.depth = Depth::HeadsAlone;
      }
    }
    wanted.truncate(n_close);
    wanted.into_iter().rev().map(|(.., index)| index).collect()
  }

  /// The results. The texts that were not read in a step are left out of them.
  pub fn finish(self, assessor: &dyn Assessor) -> Scored {
    let texts = self.scoring.texts.into_iter().zip(self.found);
    Scored {
      target: self.scoring.target,
      version: assessor.version().to_owned(),
      found: texts.map(|(text, (_, found))| (text.key, found)).collect(),
      health: assessor.health(),
      judged: JudgedAgain::default(),
    }
  }

  /// The results when no text can be read at all.
  pub fn unread(self, assessor: &dyn Assessor, why: &str) -> Scored {
    // The heads' depth with probability 0: the texts count as unread, and flag nothing.
    let nothing = Assessment {
      probabilities: model::Probabilities::default(),
      authority: None,
      sentence: None,
      nearest: None,
      depth: Depth::Heads,
    };
    let texts = self.scoring.texts.into_iter();
    Scored {
      target: self.scoring.target,
      version: assessor.version().to_owned(),
      found: texts.map(|text| (text.key, nothing.clone())).collect(),
      health: Health { damages: vec![why.to_owned()] },
      judged: JudgedAgain::default(),
    }
  }
}

impl Scoring {
  /// What the rules and the heads find in a text.
  fn glance(&self, text: &Text, assessor: &dyn Assessor) -> (f32, Assessment) {
    let options =
      JudgeOptions { scope: self.scope, rules: Some(self.rules.set()), ..JudgeOptions::default() };
    let said = detect::Text::new(&text.bytes);
    let rules = policy::strength(&detect::judge_text(&said, &options));
    let context = text.origin.context(&said, &self.slots);
    (rules, model::assess(assessor, &said, rules, Depth::Heads, &context))
  }
}
