//! Counts cases and outcomes one by one, with a bounded number of bytes per case, and keeps only
//! the texts of the worst mistakes.
#![forbid(unsafe_code)]

use std::{collections::BTreeMap, ops::Range, time::Duration};

use super::{
  case::Case,
  curve::Curve,
  floors::{Floors, Judged, Measured},
  latency::Latency,
  mistakes::{Mistake, Place, Worst},
  pairs::Pairs,
  report::{BadLine, Cases, Group, Groups, Latencies, Mistakes, Report, ScoreCurve, Setup},
  scenario::{Entry, ScenarioTally},
  share::Counts,
};
use crate::provenance::Trust;

/// Largest number of rows of one table; further names are counted together. More than any real data
/// has.
const MAX_GROUPS: usize = 1_000;
/// The row of further names.
const OTHERS: &str = "(others)";
/// Largest number of unreadable lines that are named; further ones are only counted.
const MAX_BAD_LINES: usize = 20;

/// The result of detection on a case.
#[derive(Clone, Debug)]
pub struct Outcome {
  /// The score, from 0 to 1.
  pub score: f32,
  /// The model's probability; `None` if no model was used.
  pub model: Option<f32>,
  /// Whether it was flagged or quarantined.
  pub found: bool,
  /// The finding codes.
  pub codes: Vec<&'static str>,
  /// The ranges that would be taken out, in bytes of the text.
  pub out: Vec<Range<usize>>,
  /// How long the rules took.
  pub rules: Duration,
  /// How long the model took.
  pub model_took: Option<Duration>,
}

/// Everything that was counted.
#[derive(Debug)]
pub struct Tally {
  all: Counts,
  by: [BTreeMap<String, Counts>; 6],
  pairs: Pairs,
  scenarios: ScenarioTally,
  scores: Vec<(f32, bool)>,
  model_scores: Vec<(f32, bool)>,
  rules: Vec<Duration>,
  model: Vec<Duration>,
  missed: Worst,
  false_alarms: Worst,
  floors: Floors,
  floor_counts: Vec<Measured>,
  n_bad: u64,
  bad_lines: Vec<BadLine>,
}

impl Tally {
  /// An empty tally, which keeps `n` mistakes of each kind.
  pub fn new(floors: Floors, n_mistakes: usize) -> Self {
    Self {
      all: Counts::default(),
      by: Default::default(),
      pairs: Pairs::default(),
      scenarios: ScenarioTally::default(),
      scores: vec![],
      model_scores: vec![],
      rules: vec![],
      model: vec![],
      missed: Worst::new(n_mistakes, false),
      false_alarms: Worst::new(n_mistakes, true),
      floor_counts: vec![Measured::default(); floors.list.len()],
      floors,
      n_bad: 0,
      bad_lines: vec![],
    }
  }

  /// Lines so far, including unreadable ones.
  pub fn n_lines(&self) -> u64 {
    self.all.n() + self.n_bad
  }

  /// Adds a case of the file with this number, judged as from a source of this trust.
  pub fn add(&mut self, file: usize, place: Place, case: &Case, trust: Trust, outcome: Outcome) {
    let is_attack = case.is_attack;
    self.all.add(is_attack, outcome.found);
    let names = [&case.set, &case.kind, &case.form, &case.lang, trust.as_str(), &case.transform];
    for (groups, name) in self.by.iter_mut().zip(names) {
      if !name.is_empty() {
        let name =
          if groups.len() < MAX_GROUPS || groups.contains_key(name) { name } else { OTHERS };
        groups.entry(name.to_owned()).or_default().add(is_attack, outcome.found);
      }
    }
    let floors = self.floors.about(case, trust);
    for &floor in &floors {
      if let Some(counts) = self.floor_counts.get_mut(floor) {
        counts.add(is_attack, outcome.found, !outcome.out.is_empty());
      }
    }
    let pair = case.pair.as_ref().map(|pair| format!("{} {pair}", case.set));
    if let Some(scenario) = &case.scenario {
      let pair = pair.as_ref().map(|pair| format!("{file} {pair}"));
      self.scenarios.add(&Entry {
        text: &case.text,
        scenario,
        is_attack,
        effect: &case.kind,
        lang: &case.lang,
        pair: pair.as_deref(),
        found: outcome.found,
        out: &outcome.out,
      });
    }
    if let Some(pair) = pair {
      let place = (file, pair);
      // The decision's score is zero on both sides if neither is flagged.
      let score = outcome.model.unwrap_or(outcome.score);
      self.pairs.add(place, is_attack, score, outcome.found, &floors);
    }
    self.scores.push((outcome.score, is_attack));
    self.model_scores.extend(outcome.model.map(|score| (score, is_attack)));
    self.rules.push(outcome.rules);
    self.model.extend(outcome.model_took);
    if is_attack != outcome.found {
      let worst = if is_attack { &mut self.missed } else { &mut self.false_alarms };
      let score = outcome.score;
      worst.offer(case, score, || Mistake::new(place, case, score, outcome.codes));
    }
  }

  /// Adds a line that is not a case.
  pub fn add_bad(&mut self, place: Place, why: String) {
    self.n_bad += 1;
    if self.bad_lines.len() < MAX_BAD_LINES {
      self.bad_lines.push(BadLine { place, why });
    }
  }

  /// The counts, as a report.
  pub fn report(self, setup: Setup, took: Duration) -> Report {
    let [set, kind, form, lang, trust, transform] = self.by.map(groups);
    let floors: Vec<Judged> = (0..)
      .zip(self.floors.list.iter().zip(&self.floor_counts))
      .flat_map(|(index, (floor, counts))| {
        floor.judged(&Measured { pairs: self.pairs.counts_of(index).right, ..*counts })
      })
      .collect();
    let mut curves = vec![ScoreCurve { score: "decision", curve: Curve::of(&self.scores) }];
    if !self.model_scores.is_empty() {
      curves.push(ScoreCurve { score: "model", curve: Curve::of(&self.model_scores) });
    }
    let seconds = took.as_secs_f64();
    Report {
      setup,
      cases: Cases {
        attacks: self.all.recall.n,
        benign: self.all.false_positives.n,
        bad: self.n_bad,
        bad_lines: self.bad_lines,
      },
      all: self.all,
      by: Groups { set, kind, form, lang, trust, transform },
      pairs: self.pairs.counts(),
      scenarios: self.scenarios.report(),
      judge: None,
      floors,
      curves,
      latency: Latencies {
        rules: Latency::of(&self.rules),
        model: Latency::of(&self.model),
        took_s: (seconds * 1e3).round() / 1e3,
        cases_per_s: if seconds > 0.0 { (self.all.n() as f64 / seconds).round() } else { 0.0 },
      },
      mistakes: Mistakes {
        missed: self.missed.into_kept(),
        false_alarms: self.false_alarms.into_kept(),
      },
    }
  }
}

fn groups(counts: BTreeMap<String, Counts>) -> Vec<Group> {
  counts.into_iter().map(|(name, counts)| Group { name, counts }).collect()
}

#[cfg(test)]
mod tests {
  use super::*;
  use crate::eval::Share;

  fn outcome(score: f32) -> Outcome {
    Outcome {
      score,
      model: None,
      found: score >= 0.5,
      codes: vec![],
      out: vec![],
      rules: Duration::from_micros(5),
      model_took: None,
    }
  }

  fn tallied(lines: &[(&str, f32)], floors: &str) -> Report {
    let mut tally = Tally::new(Floors::parse(floors).unwrap(), 10);
    for (line, (text, score)) in (1..).zip(lines) {
      let place = Place { file: "f".to_owned(), line };
      match Case::parse(text.as_bytes(), "f") {
        Ok(case) => tally.add(0, place, &case, Trust::Untrusted, outcome(*score)),
        Err(why) => tally.add_bad(place, why),
      }
    }
    let setup = Setup {
      inputs: vec![],
      layers: "all",
      model: false,
      trust: None,
      source: None,
      sensitivity: "medium",
    };
    tally.report(setup, Duration::from_secs(2))
  }

  #[test]
  fn lines_are_counted_by_what_they_say_of_themselves() {
    let report = tallied(
      &[
        (r#"{"text":"a","label":1,"kind":"k","lang":"en","pair":1}"#, 0.9),
        (r#"{"text":"b","label":0,"kind":"twin","lang":"en","pair":1}"#, 0.5),
        (r#"{"text":"c","label":1,"kind":"k","lang":"de"}"#, 0.1),
        (r#"{"text":"d","label":0}"#, 0.0),
        ("no", 0.0),
      ],
      "[[floor]]\nname = \"k\"\nwhere = { kind = [\"k\"] }\nrecall = 0.5\npairs = 1.0\n",
    );
    let half = Share { n: 2, k: 1 };
    assert_eq!((report.all.recall, report.all.false_positives), (half, half));
    let kinds: Vec<(&str, u64)> =
      report.by.kind.iter().map(|group| (group.name.as_str(), group.counts.n())).collect();
    assert_eq!(kinds, [("k", 2), ("twin", 1)]);
    assert_eq!(report.by.trust[0].name, "untrusted");
    assert_eq!(report.pairs.right, Share { n: 1, k: 1 });
    assert!(report.floors.iter().all(|floor| floor.met) && report.floors.len() == 2);
    assert_eq!((report.cases.bad, report.cases.bad_lines[0].place.line), (1, 5));
    assert_eq!(report.mistakes.missed[0].text, "c");
    assert_eq!(report.mistakes.false_alarms[0].text, "b");
    assert_eq!(report.curves[0].curve.auc, Some(0.75));
    assert!((report.latency.cases_per_s - 2.0).abs() < f64::EPSILON);
  }

  #[test]
  fn endless_names_and_bad_lines_stay_bounded() {
    let lines: Vec<String> = (0..MAX_GROUPS + 50)
      .map(|i| format!(r#"{{"text":"a","label":1,"kind":"k{i}"}}"#))
      .chain((0..MAX_BAD_LINES + 5).map(|_| "{}".to_owned()))
      .collect();
    let lines: Vec<(&str, f32)> = lines.iter().map(|line| (line.as_str(), 0.9)).collect();
    let report = tallied(&lines, "");
    assert_eq!(report.by.kind.len(), MAX_GROUPS + 1);
    let others = report.by.kind.iter().find(|group| group.name == OTHERS).unwrap();
    assert_eq!(others.counts.n(), 50);
    assert_eq!(report.cases.bad_lines.len(), MAX_BAD_LINES);
    assert_eq!(report.cases.bad, 25);
  }
}
