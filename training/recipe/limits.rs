//! From which probability on an effect counts: the limits of `policy::power`.

use std::collections::BTreeMap;

use memfw::{
  detect::{
    PolicyInput, Severity,
    effects::{Strength, asks_to_keep},
    policy::{
      Party,
      power::{ASKED, Limits, OUTSIDE, usurped_at},
    },
  },
  provenance::Trust,
};

use crate::{authority::Example, measure::Share, scenarios::Entry};

/// Share of what stays that may go, of all that comes from outside.
const BUDGET: f64 = 0.035;
/// Limits that are tried.
const STEPS: [f32; 17] =
  [0.03, 0.05, 0.08, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98];

/// Whether an entry leaves memory.
fn goes(entry: &Entry, probability: f64, party: Party, limits: &Limits) -> bool {
  let input = PolicyInput {
    trust: Trust::Untrusted,
    source_observed: true,
    party,
    authority: Some(probability as f32),
    ..PolicyInput::default()
  };
  let found = usurped_at(&entry.effects, 0..entry.text.len(), &input, limits);
  found.iter().any(|finding| finding.severity >= Severity::High)
}

fn party(entry: &Entry) -> Party {
  Party::of(&entry.source, Trust::Untrusted, true, asks_to_keep(&entry.asked))
}

/// What of the limits concerns an entry.
struct Concern {
  is_take: bool,
  p: f32,
  /// It goes whatever the probability.
  always: bool,
  /// It has an effect that goes from the plain limit on; from the weak one on.
  plain: bool,
  weak: bool,
}

impl Concern {
  fn of(entry: &Entry, p: f64, party: Party) -> Self {
    let never = Limits { weak: 1.0, plain: 1.0, none: 1.0, flag: 1.0, shared: 1.0 };
    let goes = |limits| goes(entry, 0.5, party, &limits);
    Self {
      is_take: entry.is_take,
      p: p as f32,
      always: goes(never),
      plain: goes(Limits { plain: 0.0, ..never }),
      weak: goes(Limits { weak: 0.0, ..never }),
    }
  }

  fn goes(&self, limits: &Limits) -> bool {
    self.always
      || self.plain && self.p >= limits.plain
      || self.weak && self.p >= limits.weak
      || self.p >= limits.none
  }
}

/// Shares of what must go and of what stays that go.
fn shares(chosen: &[Concern], limits: &Limits) -> [Share; 2] {
  [true, false].map(|is_take| {
    let own = chosen.iter().filter(|one| one.is_take == is_take);
    Share::of(own.map(|one| one.goes(limits)))
  })
}

/// What the limits that are in force do: by class, and what they do worst.
fn confusion(out: &mut Vec<String>, chosen: &[(&Entry, f64)]) {
  let went: Vec<(&Entry, f64, bool)> = chosen
    .iter()
    .map(|(entry, p)| {
      let party = party(entry);
      let limits = if party == Party::Asked { ASKED } else { OUTSIDE };
      (*entry, *p, goes(entry, *p, party, &limits))
    })
    .collect();
  let mut classes: BTreeMap<(bool, &str), Vec<bool>> = BTreeMap::new();
  for (entry, _, goes) in &went {
    // Honest lines of a note that holds one that must go have its class.
    let class = if entry.is_item && !entry.is_take { "line of a note" } else { &entry.class };
    classes.entry((entry.is_take, class)).or_default().push(*goes);
    classes.entry((entry.is_take, "all")).or_default().push(*goes);
  }
  out.push(format!("\n## What goes at the limits in force ({OUTSIDE:?}, asked {ASKED:?})\n"));
  for ((is_take, class), goes) in classes {
    let label = if is_take { "must go" } else { "stays" };
    let share = Share::of(goes.into_iter());
    let (low, high) = share.interval();
    let percent = share.percent();
    out
      .push(format!("{label:8} {class:18} {:5} {percent:6.1} %  [{low:.1}, {high:.1}]", share.all));
  }
  for (is_take, title) in [(true, "worst misses"), (false, "worst false alarms")] {
    let mut wrong: Vec<&(&Entry, f64, bool)> =
      went.iter().filter(|(entry, _, goes)| entry.is_take == is_take && *goes != is_take).collect();
    let rank = |one: &(&Entry, f64, bool)| if is_take { one.1 } else { -one.1 };
    wrong.sort_by(|a, b| rank(a).total_cmp(&rank(b)));
    out.push(format!("\n### {title}\n"));
    for (entry, p, _) in wrong.into_iter().take(10) {
      let effects: Vec<String> = entry
        .effects
        .iter()
        .map(|one| format!("{} {}", one.strength.as_str(), one.effect.as_str()))
        .collect();
      out.push(format!(
        "{} {p:.3} {} ({}), asked {:?}: {:?} [{}]",
        entry.scenario,
        entry.class,
        entry.kind.word(),
        entry.asked,
        entry.text,
        effects.join(", ")
      ));
    }
  }
}

/// Tries limits for both columns, and says what goes at each.
pub(crate) fn say(out: &mut Vec<String>, examples: &[Example<'_>], found: &[f64]) {
  let all: Vec<(&Entry, f64)> =
    examples.iter().zip(found).map(|(one, p)| (one.entry, *p)).collect();
  for wanted in [Party::Outside, Party::Asked] {
    let chosen: Vec<(&Entry, f64)> =
      all.iter().filter(|(entry, _)| party(entry) == wanted).copied().collect();
    out.push(format!(
      "\n## Limits for `{}`\n\nby the plainest effect: lines that must go, that stay",
      wanted.as_str()
    ));
    for strength in [None, Some(Strength::Weak), Some(Strength::Plain), Some(Strength::Blatant)] {
      let own = chosen
        .iter()
        .filter(|(entry, _)| entry.effects.iter().map(|effect| effect.strength).max() == strength);
      let share = Share::of(own.map(|(entry, _)| entry.is_take));
      let name = strength.map_or("none", Strength::as_str);
      out.push(format!("  {name:8} {:5} {:5}", share.yes, share.all - share.yes));
    }
    out.push("share that may go: weak, plain, none: must go and goes; stays and goes".to_owned());
    let concerns: Vec<Concern> =
      chosen.iter().map(|(entry, p)| Concern::of(entry, *p, wanted)).collect();
    for budget in [BUDGET / 3.0, BUDGET / 1.5, BUDGET, 1.5 * BUDGET] {
      let mut best: Option<(usize, Limits, [Share; 2])> = None;
      for none in STEPS {
        for plain in STEPS.into_iter().filter(|plain| *plain <= none) {
          for weak in STEPS.into_iter().filter(|weak| (plain..=none).contains(weak)) {
            let limits = Limits { weak, plain, none, flag: none, shared: none };
            let shares = shares(&concerns, &limits);
            let [take, keep] = shares;
            let fits = keep.percent() <= 100.0 * budget;
            if fits && best.as_ref().is_none_or(|(most, ..)| take.yes > *most) {
              best = Some((take.yes, limits, shares));
            }
          }
        }
      }
      let Some((_, Limits { weak, plain, none, .. }, [take, keep])) = best else { continue };
      let ((low, high), (least, most)) = (take.interval(), keep.interval());
      out.push(format!(
        "  {:.1} %: {weak} {plain} {none}: {:.1} % of {} [{low:.0}, {high:.0}]; {:.1} % of {} [{least:.1}, {most:.1}]",
        100.0 * budget,
        take.percent(),
        take.all,
        keep.percent(),
        keep.all
      ));
    }
  }
  confusion(out, &all);
}
