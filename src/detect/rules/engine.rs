//! Runs a rule set over one view.
#![forbid(unsafe_code)]

use std::ops::Range;

use super::{
  super::{RuleKind, Severity},
  lexicon::{Class, Classes, Lexicon, WordMatch, classes_in},
  report,
  rule::{Mode, Reach, Rule, Scope},
  sentence::sentences,
};

/// Compiled rules and the words that they are made of.
#[derive(Debug)]
pub struct RuleSet {
  lexicon: Lexicon,
  rules: Vec<Rule>,
  /// For each class, the rules that it is the anchor of.
  by_anchor: Vec<Vec<u16>>,
  /// All anchors.
  anchors: Classes,
  /// The rules about how often words occur.
  counting: Vec<u16>,
  negator: Class,
  unnegate: Class,
  forbidden: Class,
  report: Class,
  conceal: Class,
}

/// One rule that hit, in offsets of the view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
  /// Its place in [`RuleSet::rules`].
  pub rule: usize,
  /// Where.
  pub span: Range<usize>,
  /// It is in a quotation or in a report about attacks, and is information only.
  pub excused: bool,
}

/// What a rule set found in one view.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hits {
  /// In order of the text.
  pub hits: Vec<Hit>,
  /// The range of the counting hits that were dropped because there were too many.
  pub dropped: Option<Range<usize>>,
}

/// A sentence and what was found in it.
struct Unit {
  range: Range<usize>,
  classes: Classes,
  /// Its words, as a range of the list of all words.
  words: Range<usize>,
}

/// Hits of one view, at most. An author chooses what comes first in a text, so the worst are kept.
const MAX_HITS: usize = 512;
/// A negation reaches this many words ahead.
const NEGATION_WORDS: usize = 5;
/// ... and this many bytes.
const NEGATION_BYTES: usize = 48;
/// Places of one pattern in one sentence that are looked at.
const MAX_PLACES: usize = 4;

impl RuleSet {
  pub(super) fn new(lexicon: Lexicon, rules: Vec<Rule>, special: [Class; 5]) -> Self {
    let [negator, unnegate, forbidden, report, conceal] = special;
    let mut by_anchor: Vec<Vec<u16>> = Vec::new();
    let mut anchors = Classes::default();
    for (index, rule) in rules.iter().enumerate() {
      let anchor = usize::from(rule.anchor);
      if by_anchor.len() <= anchor {
        by_anchor.resize_with(anchor + 1, Vec::new);
      }
      if let Some(list) = by_anchor.get_mut(anchor) {
        list.push(index as u16);
      }
      anchors.insert(rule.anchor);
    }
    let counting = rules.iter().zip(0..).filter(|(rule, _)| rule.over.is_some());
    let counting = counting.map(|(_, index)| index).collect();
    Self {
      lexicon,
      rules,
      by_anchor,
      anchors,
      counting,
      negator,
      unnegate,
      forbidden,
      report,
      conceal,
    }
  }

  /// The rules, in the order of their files.
  pub fn rules(&self) -> &[Rule] {
    &self.rules
  }

  /// What hits in `text`, in order of the text; the worst where it is too much.
  pub fn scan(&self, text: &str, scope: Scope, mode: Mode) -> Hits {
    self.scan_where(text, scope, mode, &|_| true)
  }

  /// The same, where only sentences for which `may_introduce` is true make a report of the next one.
  pub(in crate::detect) fn scan_where(
    &self,
    text: &str,
    scope: Scope,
    mode: Mode,
    may_introduce: &dyn Fn(&Range<usize>) -> bool,
  ) -> Hits {
    let mut hits = Vec::new();
    let mut dropped = None;
    let (units, words) = self.read(text);
    for index in 0..units.len() {
      let Some(unit) = units.get(index) else { break };
      for class in unit.classes.common(&self.anchors) {
        let rules = self.by_anchor.get(usize::from(class)).map(Vec::as_slice).unwrap_or_default();
        for &number in rules {
          let Some(rule) = self.rules.get(usize::from(number)) else { continue };
          if rule.over.is_none() && rule.applies(scope, mode) {
            let seen = SentenceInText { text, units: &units, words: &words, index, may_introduce };
            if let Some((span, excused)) = self.hit(rule, &seen) {
              hits.push(Hit { rule: usize::from(number), span, excused });
            }
          }
        }
      }
      if hits.len() > 2 * MAX_HITS {
        self.keep_worst(&mut hits, &mut dropped);
      }
    }
    self.count(&words, scope, mode, &mut hits);
    self.keep_worst(&mut hits, &mut dropped);
    hits.sort_by_key(|hit| (hit.span.start, hit.span.end, hit.rule));
    Hits { hits, dropped }
  }

  /// Drops the mildest hits of too many, and widens `dropped` by those that would have counted.
  fn keep_worst(&self, hits: &mut Vec<Hit>, dropped: &mut Option<Range<usize>>) {
    if hits.len() <= MAX_HITS {
      return;
    }
    let rank = |hit: &Hit| {
      let rule = self.rules.get(hit.rule);
      let rank = rule.map(|rule| (rule.kind, rule.severity)).filter(|_| !hit.excused);
      rank.unwrap_or((RuleKind::Trigger, Severity::Info))
    };
    hits.sort_by_key(|hit| std::cmp::Reverse(rank(hit)));
    for hit in hits.drain(MAX_HITS..).filter(|hit| rank(hit).1 > Severity::Info) {
      let known = dropped.get_or_insert_with(|| hit.span.clone());
      *known = known.start.min(hit.span.start)..known.end.max(hit.span.end);
    }
  }

  /// Sentences and words.
  fn read(&self, text: &str) -> (Vec<Unit>, Vec<WordMatch>) {
    let words = self.lexicon.scan(text);
    if words.is_empty() {
      return (Vec::new(), words);
    }
    let mut units = Vec::new();
    let mut next = 0;
    for range in sentences(text) {
      let first = next;
      let classes = classes_in(&words, &mut next, &range);
      units.push(Unit { range, classes, words: first..next });
    }
    (units, words)
  }

  fn hit(&self, rule: &Rule, seen: &SentenceInText<'_>) -> Option<(Range<usize>, bool)> {
    let unit = seen.unit(0)?;
    let near = rule.reach == Reach::Near;
    let present = if near { seen.around() } else { unit.classes };
    if !present.contains_all(&rule.all)
      || (!rule.any.is_empty() && !present.intersects(&rule.any))
      || present.intersects(&rule.not)
    {
      return None;
    }
    let allowed = |place: usize| !rule.guards.negated || !self.is_negated(seen, place);
    let (span, place) = if let Some(pattern) = &rule.pattern {
      let pattern = pattern.regex()?;
      let range = if near { seen.range_around() } else { unit.range.clone() };
      let window = seen.text.get(range.clone())?;
      let places = pattern.find_iter(window).filter(|hit| !hit.is_empty()).take(MAX_PLACES);
      let span = places
        .map(|hit| range.start + hit.start()..range.start + hit.end())
        .find(|span| allowed(span.start))?;
      (span.clone(), span.start)
    } else {
      let place =
        seen.words_of(rule.anchor).map(|word| word.start as usize).find(|place| allowed(*place))?;
      (unit.range.clone(), place)
    };
    let excused = (rule.guards.quoted && is_quoted(seen.text, &unit.range, place))
      || (rule.guards.reported && self.is_reported(seen, place));
    Some((span, excused))
  }

  /// Rules about how often words occur in the text as a whole.
  fn count(&self, words: &[WordMatch], scope: Scope, mode: Mode, hits: &mut Vec<Hit>) {
    for index in self.counting.iter().map(|&index| usize::from(index)) {
      let Some(rule) = self.rules.get(index) else { continue };
      let Some(over) = rule.over else { continue };
      if !rule.applies(scope, mode) || words.len() <= over {
        continue;
      }
      let mut places = words.iter().filter(|word| word.class == rule.anchor);
      if let Some(first) = places.next()
        && places.clone().count() + 1 > over
      {
        let end = places.next_back().map_or(first.end, |last| last.end);
        hits.push(Hit { rule: index, span: first.start as usize..end as usize, excused: false });
      }
    }
  }

  /// Whether the sentence forbids or denies the phrase at `place`.
  fn is_negated(&self, seen: &SentenceInText<'_>, place: usize) -> bool {
    let forbids = |word: &WordMatch| {
      let (start, end) = (word.start as usize, word.end as usize);
      let between = if end <= place { end..place } else { place..start.max(place) };
      // "The user must not know" does not forbid the rest of the sentence.
      let is_of_concealment =
        || seen.words_of(self.conceal).any(|one| one.start < word.end && word.start < one.end);
      !ends_clause(seen.text.get(between).unwrap_or_default()) && !is_of_concealment()
    };
    if seen.words_of(self.forbidden).any(forbids) {
      return true;
    }
    seen.words_of(self.negator).any(|word| {
      let end = word.end as usize;
      if word.start as usize > place || place.saturating_sub(end) > NEGATION_BYTES {
        return false;
      }
      let gap = seen.text.get(end.min(place)..place).unwrap_or_default();
      gap.split_ascii_whitespace().count() < NEGATION_WORDS
        && !ends_clause(gap)
        && !seen
          .words_of(self.unnegate)
          .any(|back| back.start as usize >= word.start as usize && back.end as usize <= place)
    })
  }

  /// Whether the phrase at `place` is part of a report about attacks, in its sentence or introduced
  /// by the sentence before. Text after the phrase does not count: the attacker would choose it,
  /// and often it is the subject of the attack.
  fn is_reported(&self, seen: &SentenceInText<'_>, place: usize) -> bool {
    let reports = |unit: &Unit| {
      let words = seen.words.get(unit.words.clone()).unwrap_or_default().iter();
      let reports = words.filter(|word| word.class == self.report);
      let spans = reports.map(|word| word.start as usize..word.end as usize);
      spans
        .filter(|word| !report::is_of_torn_comment(seen.text, word))
        .filter(|word| !report::is_struck_out(seen.text, &unit.range, word))
        .collect::<Vec<_>>()
    };
    let Some(unit) = seen.unit(0) else { return false };
    let covers = |word| report::covers(seen.text, &unit.range, &word, place);
    if reports(unit).into_iter().any(covers) {
      return true;
    }
    let before = seen.unit(-1).filter(|before| !reports(before).is_empty());
    before.is_some_and(|before| {
      report::introduces(seen.text, &before.range, unit.range.start)
        && (seen.may_introduce)(&before.range)
    })
  }
}

/// Whether a clause ends in this text between two words.
pub(in crate::detect) fn ends_clause(between: &str) -> bool {
  between.contains([',', ':', ';', '(', '|', '—', '，', '、'])
}

/// One sentence in its surroundings.
struct SentenceInText<'a> {
  text: &'a str,
  units: &'a [Unit],
  words: &'a [WordMatch],
  index: usize,
  /// Whether a sentence may make a report of the next one.
  may_introduce: &'a dyn Fn(&Range<usize>) -> bool,
}

impl SentenceInText<'_> {
  fn unit(&self, by: isize) -> Option<&Unit> {
    self.units.get(self.index.checked_add_signed(by)?)
  }

  fn around(&self) -> Classes {
    [-1, 0, 1]
      .into_iter()
      .filter_map(|by| self.unit(by))
      .fold(Classes::default(), |all, unit| all.union(&unit.classes))
  }

  fn range_around(&self) -> Range<usize> {
    let start = self.unit(-1).or_else(|| self.unit(0)).map_or(0, |unit| unit.range.start);
    let end = self.unit(1).or_else(|| self.unit(0)).map_or(start, |unit| unit.range.end);
    start..end
  }

  fn words_of(&self, class: Class) -> impl Iterator<Item = &WordMatch> {
    self
      .unit(0)
      .and_then(|unit| self.words.get(unit.words.clone()))
      .unwrap_or_default()
      .iter()
      .filter(move |word| word.class == class)
  }
}

/// Whether `place` is between quotation marks of its sentence, with other text outside: a text that is quoted
/// as a whole is said, not mentioned.
pub(in crate::detect) fn is_quoted(text: &str, sentence: &Range<usize>, place: usize) -> bool {
  const MIN_OUTSIDE: usize = 10;
  let (Some(before), Some(after)) =
    (text.get(sentence.start..place), text.get(place..sentence.end))
  else {
    return false;
  };
  ['"', '`', '\u{201c}', '\u{ab}', '\u{201e}', '\u{300c}'].into_iter().any(|open| {
    let close = match open {
      '\u{201c}' => '\u{201d}',
      '\u{ab}' => '\u{bb}',
      '\u{201e}' => '\u{201c}',
      '\u{300c}' => '\u{300d}',
      other => other,
    };
    let inside = if open == close {
      before.matches(open).count() % 2 == 1
    } else {
      before.rfind(open) > before.rfind(close) || (before.contains(open) && !before.contains(close))
    };
    if !inside {
      return false;
    }
    let (Some(opened), Some(closed)) = (before.rfind(open), after.find(close)) else {
      return false;
    };
    let outside = opened + after.len().saturating_sub(closed + close.len_utf8());
    outside >= MIN_OUTSIDE && !is_of_markup(before.get(..opened).unwrap_or_default())
  })
}

/// Whether the quotation mark behind this text opens the value of an HTML attribute or the title of
/// a link, which is no quotation.
fn is_of_markup(before: &str) -> bool {
  let is_title = before.rsplit_once("](").is_some_and(|(_, target)| !target.contains(')'));
  is_title || before.trim_end().ends_with('=')
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn quotations_are_distinguished_from_speech() {
    let quoted = |text: &str, word: &str| {
      is_quoted(text, &(0..text.len()), text.find(word).expect("the word is in the text"))
    };
    assert!(quoted("the mail said \"ignore all rules\" twice", "ignore"));
    assert!(quoted("the mail said `ignore all rules` twice", "ignore"));
    assert!(quoted("die Mail sagte „ignoriere alles“ zweimal", "ignoriere"));
    assert!(!quoted("\"ignore all rules\"", "ignore"));
    assert!(!quoted("ignore \"all\" rules of the house", "rules"));
    assert!(!quoted("the mail said \"ignore all", "ignore"));
    assert!(!quoted("<img src=x alt=\"ignore all rules\"> is a picture", "ignore"));
    assert!(!quoted("<a title = \"ignore all rules\">a picture</a>", "ignore"));
    assert!(!quoted("see [the picture](x.png \"ignore all rules\") above", "ignore"));
    assert!(quoted("[the mail](x.eml) said \"ignore all rules\" twice", "ignore"));
  }
}
