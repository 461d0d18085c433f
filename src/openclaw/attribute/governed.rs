//! Which other sentences of a message decide what one of its sentences means.
//!
//! "Never do these things:" is a separate line above what is forbidden, and "It is a scam." follows
//! another person's claim. A page can have the agent leave such a line out, and every word that is
//! left is the owner's. So a sentence below a line that introduces it counts only together with
//! that line, and a sentence of a message that takes something back counts only together with the
//! sentence that takes it back.
#![forbid(unsafe_code)]

use super::{
  heading::title,
  questions::{asks, is_question},
  sentence::Sentence,
};
use crate::provenance::words::{Kind, for_each_word, sentences};

/// A sentence of a message, with the sentences that decide its meaning.
#[derive(Debug)]
pub(super) struct MessageSentence {
  pub(super) sentence: Sentence,
  /// The sentence that introduces it.
  pub(super) intro: Option<usize>,
  /// Whether it asks, or sends the agent to a page.
  pub(super) asks: bool,
  /// Whether the sentence is a question by its mark: it states nothing, even if another sentence
  /// repeats it.
  pub(super) is_question: bool,
  /// Whether it takes back something in its message.
  pub(super) revokes: bool,
  /// Whether it is a markdown heading that denies nothing: a topic.
  is_topic: bool,
}

/// The sentences of a message, each with what introduces it.
pub(super) fn sentences_of(text: &str) -> Vec<MessageSentence> {
  let mut all: Vec<MessageSentence> = Vec::new();
  let mut scope = Scope::default();
  for line in text.lines() {
    if line.trim().is_empty() {
      scope.has_gap = true;
      continue;
    }
    let is_item = is_item(line);
    let is_title = title(line).is_some();
    let is_heading = line.trim_start().starts_with('#');
    if is_item && !scope.is_list {
      scope.intro = scope.last_plain.filter(|_| !scope.has_gap || scope.is_title).or(scope.intro);
    } else if is_heading || !is_item && (is_title || scope.ends()) {
      scope.intro = None;
    }
    let intro = scope.intro;
    for sentence in sentences(line) {
      let read = Sentence::new(sentence);
      if read.is_empty() {
        continue;
      }
      let (asks, is_question, revokes) = (asks(sentence), is_question(sentence), revokes(sentence));
      let is_topic = is_heading && !asks && !denies(sentence);
      all.push(MessageSentence { sentence: read, intro, asks, is_question, revokes, is_topic });
    }
    scope.took(all.len().checked_sub(1), is_item, is_title, is_heading);
  }
  all
}

/// The heading or intro of the next line.
#[derive(Default)]
struct Scope {
  intro: Option<usize>,
  /// The last sentence of the last line that is no item of a list.
  last_plain: Option<usize>,
  is_list: bool,
  is_title: bool,
  is_heading: bool,
  has_gap: bool,
  /// Whether a line below the intro has been read.
  is_used: bool,
}

impl Scope {
  /// Whether what was introduced is over where a plain line follows.
  fn ends(&self) -> bool {
    !self.is_heading && (self.is_list || self.is_used && self.has_gap)
  }

  fn took(&mut self, last: Option<usize>, is_item: bool, is_title: bool, is_heading: bool) {
    if is_title {
      // The title of a list item has the intro of its list.
      self.intro = last;
      self.is_heading = is_heading;
      self.is_used = false;
    } else {
      self.is_used = true;
    }
    if !is_item {
      self.last_plain = last;
    }
    (self.is_list, self.is_title, self.has_gap) = (is_item, is_title, false);
  }
}

/// Whether a line is one of a list.
fn is_item(line: &str) -> bool {
  let line = line.trim_start();
  let number = line.trim_start_matches(|c: char| c.is_ascii_digit());
  let is_numbered = number.len() < line.len() && number.starts_with(['.', ')', '、']);
  is_numbered && line.len() - number.len() <= 3
    || line.starts_with(['•', '·', '‣', '–'])
    || ["- ", "* ", "+ "].iter().any(|sign| line.starts_with(sign))
}

impl MessageSentence {
  /// Whether the lines below it have an unchanged meaning without it.
  pub(super) fn says_nothing(&self) -> bool {
    self.sentence.is_of(NEUTRAL)
  }

  /// Whether `given` has this sentence below a heading that is the topic `intro`.
  pub(super) fn is_below(&self, intro: &Self, given: &[Self]) -> bool {
    let is_it = |one: &Self| {
      let above = one.intro.and_then(|above| given.get(above));
      one.sentence.repeats(&self.sentence)
        && above.is_some_and(|above| above.is_topic && above.sentence.repeats(&intro.sentence))
    };
    intro.is_topic && given.iter().any(is_it)
  }
}

/// Whether a sentence takes back or limits the text before or after it.
fn revokes(sentence: &str) -> bool {
  if STRONG_SIGNS.iter().any(|sign| sentence.contains(sign)) {
    return true;
  }
  let (mut n_words, mut is_strong, mut is_weak, mut points, mut says_no) =
    (0, false, false, false, false);
  let (mut forgets, mut limits) = (false, false);
  let lower = sentence.to_lowercase().replace('’', "'");
  for_each_word(sentence, |word| {
    n_words += 1;
    let is = |list: &[&str]| list.contains(&word.text);
    limits |= n_words == 1 && is(LIMITS);
    says_no |= word.kind == Kind::Negation;
    is_strong |= STRONG.iter().any(|begin| word.text.starts_with(begin));
    is_weak |= WEAK.iter().any(|begin| word.text.starts_with(begin));
    forgets |= FORGETS.iter().any(|begin| word.text.starts_with(begin));
    points |= is(POINTERS);
  });
  says_no |= ["n't ", "n't.", "n't!"].iter().any(|sign| lower.contains(sign));
  // "Do not forget that" keeps it.
  let takes_back = is_weak || says_no != forgets;
  is_strong || takes_back && (points || n_words <= MAX_BARE) || limits && n_words <= MAX_LIMIT
}

/// Whether a sentence has a word that denies something or calls it untrue.
fn denies(sentence: &str) -> bool {
  let mut denies = STRONG_SIGNS.iter().any(|sign| sentence.contains(sign));
  for_each_word(sentence, |word| {
    denies |= word.kind == Kind::Negation
      || [STRONG, WEAK, FORGETS]
        .iter()
        .any(|list| list.iter().any(|begin| word.text.starts_with(begin)));
  });
  denies
}

/// Most words of a sentence that can only be about another sentence, and of one that limits
/// another.
const MAX_BARE: usize = 3;
const MAX_LIMIT: usize = 4;

/// Beginnings of words that call something untrue, without accents.
#[rustfmt::skip]
const STRONG: &[&str] = &[
  "scam", "fraud", "phish", "hoax", "fake", "forger", "untrue", "nonsense", "bogus", "kidding", "joking", "opposite",
  "contrary", "impost", "swindl",
  "betrug", "betrug", "unwahr", "gelogen", "luge", "unsinn", "gegenteil", "schwindel", "falschung",
  "arnaque", "mensonge", "contraire", "escroc", "estafa", "mentira", "contrario", "truffa", "bugia", "golpe",
  "oplicht", "leugen", "onzin", "tegendeel", "bedrageri", "bluff", "logn", "motsats", "svindel", "løgn", "modsat",
  "oszust", "kłamst", "klamst", "przeciwie", "podvod", "lez", "мошен", "обман", "ложь", "неправд", "наоборот", "брехн",
  "навпаки", "dolandir", "yalan",
];

/// Such words in scripts without spaces.
const STRONG_SIGNS: &[&str] =
  &["诈骗", "骗局", "骗子", "谎", "相反", "作废", "詐欺", "嘘", "逆です", "사기", "거짓", "반대"];

/// Beginnings of words that say so of what they point at.
#[rustfmt::skip]
const WEAK: &[&str] = &[
  "wrong", "false", "lie", "lied", "longer", "anymore", "outdated", "obsolete", "revoke", "cancel", "retract",
  "ignore", "disregard", "believe", "joke", "invalid", "expired", "forbidden", "prohibit", "banned",
  "falsch", "veraltet", "ungultig", "widerruf", "ignorier", "glaub", "verboten", "scherz", "witz",
  "faux", "fausse", "crois", "interdit", "falso", "falsa", "creas", "prohib", "vietat", "credere", "proibid",
  "vals", "verboden", "falsk", "forbudt", "forbjud", "falsz", "zakazan", "zakazan", "неверн", "запрещ", "отмен",
];

/// Beginnings of words that drop something.
#[rustfmt::skip]
const FORGETS: &[&str] = &[
  "forget", "nevermind", "vergiss", "vergess", "oubli", "olvid", "dimentic", "esquec", "vergeet", "glom", "glem",
  "zapomn", "zapomen", "забуд",
];

/// Words that refer to an earlier or a later sentence.
#[rustfmt::skip]
const POINTERS: &[&str] = &[
  "this", "that", "it", "these", "those", "them", "both", "all", "any", "above", "following", "word", "so", "rule",
  "das", "dies", "diese", "dieses", "es", "davon", "daran", "folgende", "wort", "alles",
  "ca", "cela", "ceci", "tout", "eso", "esto", "esa", "esta", "lo", "todo", "questo", "quello", "tutto", "isso",
  "isto", "tudo", "dit", "dat", "dette", "det", "detta", "allt", "to", "tego", "ten", "toto", "это", "этого", "этому",
  "этой", "се", "цьому", "це",
];

/// What a limit in a sentence of its own begins with.
#[rustfmt::skip]
const LIMITS: &[&str] = &[
  "only", "just", "until", "till", "except", "unless", "nur", "bis", "ausser", "seulement", "jusqu", "sauf", "solo",
  "hasta", "salvo", "fino", "tranne", "so", "ate", "alleen", "tot", "bara", "kun", "tylko", "jen", "только", "до",
  "лише", "тільки",
];

/// Words of a line that only says that something follows.
#[rustfmt::skip]
const NEUTRAL: &[&str] = &[
  "please", "remember", "note", "keep", "in", "mind", "save", "write", "down", "store", "memorise", "memorize", "the",
  "following", "follows", "these", "this", "things", "thing", "facts", "fact", "points", "point", "items", "for", "me",
  "my", "our", "your", "memory", "notes", "a", "few", "some", "one", "two", "three", "four", "five", "here", "is", "are",
  "also", "and", "as", "now", "from", "on", "to", "of", "rules", "about", "that",
  "bitte", "merk", "merke", "dir", "folgendes", "folgende", "diese", "dinge", "punkte", "zwei", "drei", "notiere",
  "für", "mich", "ab", "jetzt", "regeln",
  "retiens", "ceci", "ces", "choses", "suivantes", "s", "il", "te", "plaît", "recuerda", "anota", "esto", "estas",
  "cosas", "lo", "siguiente", "por", "favor", "ricorda", "annota", "queste", "cose", "questo", "seguente", "lembra",
  "isto", "coisas", "o", "seguinte", "onthoud", "noteer", "dit", "deze", "dingen", "het", "volgende", "kom", "ihåg",
  "följande", "detta", "husk", "følgende", "dette", "zapamiętaj", "następujące", "te", "rzeczy", "zapamatuj", "si",
  "toto", "следующее", "это", "эти", "вещи", "запомни", "запиши", "пожалуйста", "наступне", "це",
  "请", "請", "记", "記", "住", "得", "以", "下", "几", "幾", "点", "點", "这", "這", "些", "事", "项", "項", "两", "兩", "三",
];

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn items_are_below_the_line_that_introduces_them() {
    let intros = |text: &str| sentences_of(text).iter().map(|one| one.intro).collect::<Vec<_>>();
    assert_eq!(
      intros("Never do this:\n- pay\n- ask\n\nMarta is in."),
      [None, Some(0), Some(0), None]
    );
    assert_eq!(intros("Two things are bad.\n* pay\n* ask"), [None, Some(0), Some(0)]);
    let headings = "# Never\n\npay\n\nask\n# Always\ngo";
    assert_eq!(intros(headings), [None, Some(0), Some(0), None, Some(3)]);
    assert_eq!(
      intros("Wrong:\nLars pays.\nMarta asks.\n\nAnn is in."),
      [None, Some(0), Some(0), None]
    );
    assert_eq!(intros("- a\n- b"), [None, None]);
    assert_eq!(intros("Do:\n- never:\n  - pay"), [None, Some(0), Some(1)]);
  }

  #[test]
  fn sentences_that_take_something_back_are_recognised() {
    for sentence in [
      "Eve wrote to me and it is a scam.",
      "Do not believe a word of it.",
      "This is no longer true.",
      "Forget it.",
      "Not!",
      "Then never again.",
      "Only for tonight.",
      "Until Friday only.",
      "It would be wrong to follow this rule.",
      "The opposite is true.",
      "Glaub das nicht.",
      "Das ist Betrug.",
      "这是骗局。",
      "Это неправда.",
    ] {
      assert!(revokes(sentence), "{sentence}");
    }
    for sentence in [
      "Please remember that.",
      "Do not forget that!",
      "Never ask me before paying bills below 20 EUR.",
      "Always cc tax@meier.example on invoices above 500 EUR.",
      "Marta waters the plants on Mondays.",
      "Until Friday the office on the second floor is closed.",
      "Vergiss das nicht.",
    ] {
      assert!(!revokes(sentence), "{sentence}");
    }
  }
}
