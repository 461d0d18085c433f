//! A sentence as its words, and whether another sentence has the same meaning.
//!
//! Every word and sign counts, with its place, except those on closed lists: what can come or go
//! without changing who does what to whom, how much, when, and whether. So does where a sentence or
//! a part of it ends: "Ask before you pay. Orion ..." has all words of "Ask before you pay Orion.
//! ...". A word that belongs on no list is compared, in every language; a missing word withholds a
//! text from the owner, a word too many could attribute the text of a page to the owner. So no list
//! has a word that relates two others in any language here ("an", "de"), shows a case ("der",
//! "den"), or may be a pronoun ("il", "los", "die").
#![forbid(unsafe_code)]

use unicode_normalization::{UnicodeNormalization as _, char::is_combining_mark};

use crate::provenance::words::{is_invisible, is_unspaced};

/// One sentence, as its words.
#[derive(Clone, Debug, Default)]
pub(super) struct Sentence {
  words: Vec<Word>,
}

/// Letters and digits, a character of a script without spaces, or a sign that means something.
#[derive(Clone, Debug, Default)]
struct Word {
  /// In lower case, with its accents.
  text: Box<str>,
  has_capital: bool,
  /// The sign before it.
  gap: Gap,
}

/// The separation of a word from the one before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Gap {
  #[default]
  Nothing,
  Comma,
  Bracket,
  Dash,
  Colon,
  End,
}

impl Sentence {
  pub(super) fn new(text: &str) -> Self {
    let mut reader = Reader::default();
    // Compatibility forms would make a digit of the number of a footnote.
    let seen = without_tail(text).nfc().filter(|c| !is_invisible(*c) || is_combining_mark(*c));
    let mut rest = seen.map(as_typed).peekable();
    while let Some(c) = rest.next() {
      reader.step(c, rest.peek().copied());
    }
    reader.end();
    let mut words = reader.words;
    let n_before = LEADS.iter().cycle().take(LEADS.len() * MAX_LEADS).fold(0, |at, lead| {
      let is_there = words.get(at..).is_some_and(|rest| begins(rest, lead));
      if is_there { at + n_words(lead) } else { at }
    });
    words.drain(..n_before);
    if let Some(first) = words.first_mut() {
      first.gap = Gap::Nothing;
    }
    Self { words }
  }

  /// Several sentences as one.
  pub(super) fn joined<'s>(sentences: impl Iterator<Item = &'s Self>) -> Self {
    let mut words: Vec<Word> = Vec::new();
    for sentence in sentences {
      let n_before = words.len();
      words.extend_from_slice(&sentence.words);
      if let Some(first) = words.get_mut(n_before).filter(|_| n_before > 0) {
        first.gap = Gap::End;
      }
    }
    Self { words }
  }

  pub(super) fn is_empty(&self) -> bool {
    self.words.is_empty()
  }

  /// How many words and signs it has.
  pub(super) fn len(&self) -> usize {
    self.words.len()
  }

  /// Whether it has no word but these.
  pub(super) fn is_of(&self, words: &[&str]) -> bool {
    self.words.iter().all(|word| word.is_of(words))
  }

  /// Whether this is what the owner `said`: the same words one after the other, with equal ends
  /// between them, except for the words that may be added or left out.
  pub(super) fn repeats(&self, said: &Self) -> bool {
    let is_english = said.words.iter().any(|word| word.is_of(ENGLISH));
    let may_come = |word: &Word| {
      word.is_of(POLITE) || &*word.text == "the" || is_english && word.is_of(ENGLISH_ARTICLES)
    };
    let mut text = self.words.as_slice();
    let mine = MINE.iter().find(|mine| begins(&said.words, mine) && !begins(text, mine));
    let mut said = said.words.get(mine.map_or(0, n_words)..).unwrap_or_default();
    // The signs since the last word that both have, and whether the owner's had more than an article there.
    let (mut gap, mut said_gap, mut is_shorter) = (Gap::Nothing, Gap::Nothing, false);
    loop {
      match (text.split_first(), said.split_first()) {
        (None, None) => return true,
        (Some((one, text_rest)), Some((other, said_rest))) if one.text == other.text => {
          (gap, said_gap) = (gap.max(one.gap), said_gap.max(other.gap));
          // "Dentist: Linden Street" says that it is there.
          let is_title = is_shorter && gap == Gap::Colon && said_gap == Gap::Nothing;
          if gap != said_gap && !is_title {
            return false;
          }
          (gap, said_gap, is_shorter) = (Gap::Nothing, Gap::Nothing, false);
          (text, said) = (text_rest, said_rest);
        }
        (_, Some((word, rest))) if may_come(word) => {
          (said, said_gap) = (rest, said_gap.max(word.gap));
        }
        (_, Some((word, rest)))
          if may_go(word, rest, is_shorter || said_gap.max(word.gap) > Gap::Nothing) =>
        {
          (said, said_gap, is_shorter) = (rest, said_gap.max(word.gap), true);
        }
        (Some((word, rest)), _) if may_come(word) => (text, gap) = (rest, gap.max(word.gap)),
        _ => return false,
      }
    }
  }

  /// "From 1 December Jonas takes over the payments on-call" as "Jonas is on call for payments from 1 December".
  ///
  /// Equal words in another order can have any other meaning; a turn of phrase keeps it.
  pub(super) fn reworded(&self) -> Option<Self> {
    let n = self.words.iter().skip(1).position(|word| word.gap > Gap::Nothing);
    let (clause, rest) = self.words.split_at_checked(n.map_or(self.words.len(), |n| n + 1))?;
    let [from, day, month, who, takes, over, the, what, on, call] = clause else { return None };
    let phrase =
      [(from, "from"), (takes, "takes"), (over, "over"), (the, "the"), (on, "on"), (call, "call")];
    let is_phrase = phrase.iter().all(|(word, text)| &*word.text == *text);
    if !(is_phrase && day.is_number() && month.is_of_calendar() && who.has_capital) {
      return None;
    }
    let word = |text: &str| Word { text: text.into(), ..Word::default() };
    let (is, for_what) = (word("is"), word("for"));
    let clause = [who, &is, on, call, &for_what, what, from, day, month].map(Word::clone);
    Some(Self { words: clause.into_iter().chain(rest.iter().cloned()).collect() })
  }

  /// This sentence with the pronoun that it begins with replaced by each name of the sentence before it.
  ///
  /// A later pronoun may refer to a person in this sentence.
  pub(super) fn with_names_of(&self, before: &Self) -> Vec<Self> {
    if !self.words.first().is_some_and(|word| word.is_of(PRONOUNS)) {
      return vec![];
    }
    let mut names: Vec<&Word> =
      before.words.iter().filter(|word| word.has_capital && !word.is_of_calendar()).collect();
    names.sort_by_key(|word| &word.text);
    names.dedup_by_key(|word| &word.text);
    let with = |name: &Word| {
      let mut named = self.clone();
      if let Some(word) = named.words.first_mut() {
        word.text.clone_from(&name.text);
      }
      named
    };
    names.into_iter().map(with).collect()
  }
}

impl Word {
  fn is_of(&self, words: &[&str]) -> bool {
    words.contains(&&*self.text)
  }

  fn is_number(&self) -> bool {
    self.text.chars().any(char::is_numeric)
  }

  /// Whether it is of a date.
  fn is_of_calendar(&self) -> bool {
    CALENDAR.iter().any(|begin| self.text.starts_with(begin))
  }
}

/// Whether a note may leave out this word of the owner's sentence. The word precedes `rest`;
/// `behind_gap` says whether it follows a gap.
fn may_go(word: &Word, rest: &[Word], behind_gap: bool) -> bool {
  let is_before =
    |test: fn(&Word) -> bool| rest.first().is_some_and(|next| next.is_number() || test(next));
  // Before a participle the word matters: a person who is paid did not pay.
  word.is_of(IS) && is_before(|next| next.is_of(PLACES) || next.is_of(NUMBER))
    // After a verb the word matters: a person who is let in is not only let.
    || word.is_of(PLACES) && behind_gap && is_before(|next| next.has_capital)
}

/// Whether these words begin with the words of a phrase.
fn begins(words: &[Word], phrase: &str) -> bool {
  let mut words = words.iter();
  phrase.split(' ').all(|one| words.next().is_some_and(|word| &*word.text == one))
}

fn n_words(phrase: &&str) -> usize {
  phrase.split(' ').count()
}

/// A sentence without what the owner says at its end about keeping it.
fn without_tail(text: &str) -> &str {
  let bare = text.trim_end_matches(|c: char| c.is_whitespace() || matches!(c, '.' | '!'));
  TAILS.iter().find_map(|tail| bare.strip_suffix(tail)).unwrap_or(text)
}

/// Wide characters as their narrow forms, and one dash for all dashes that do not separate words.
fn as_typed(c: char) -> char {
  match c {
    '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(c) - 0xfee0).unwrap_or(c),
    '\u{2010}'..='\u{2013}' => '-',
    _ => c,
  }
}

/// Puts characters together to words.
#[derive(Default)]
struct Reader {
  words: Vec<Word>,
  word: String,
  has_capital: bool,
  gap: Gap,
  before: Option<char>,
}

impl Reader {
  fn step(&mut self, c: char, next: Option<char>) {
    let is_digit = |c: Option<char>| c.is_some_and(char::is_numeric);
    let is_spaced = self.before.is_none_or(char::is_whitespace);
    let gap = gap_of(c, is_spaced);
    let is_plain = gap > Gap::Nothing || PLAIN.contains(&c);
    let is_between = is_digit(self.before) && is_digit(next) && (is_plain || c == '/');
    if is_unspaced(c) {
      self.end();
      self.word.push(c);
      self.end();
    } else if c.is_alphanumeric() || is_combining_mark(c) || is_between {
      self.has_capital |= self.word.is_empty() && c.is_uppercase();
      self.word.extend(c.to_lowercase());
    } else {
      self.end();
      if is_digit(next) && SIGNS.contains(&c) {
        self.word.push(c);
      } else if !(c.is_whitespace() || c.is_control() || is_plain) {
        self.word.push(c);
        self.end();
      } else {
        self.gap = self.gap.max(gap);
      }
    }
    self.before = Some(c);
  }

  fn end(&mut self) {
    if !self.word.is_empty() {
      let text = std::mem::take(&mut self.word).into();
      let gap = std::mem::take(&mut self.gap);
      self.words.push(Word { text, has_capital: self.has_capital, gap });
    }
    self.has_capital = false;
  }
}

/// What a sign says about the words beside it. A dash after a space is not inside a word.
fn gap_of(c: char, is_spaced: bool) -> Gap {
  match c {
    '.' | '!' | ';' | '。' => Gap::End,
    ':' => Gap::Colon,
    '—' => Gap::Dash,
    '-' | '•' if is_spaced => Gap::Dash,
    '(' | ')' => Gap::Bracket,
    ',' | '、' => Gap::Comma,
    _ => Gap::Nothing,
  }
}

/// How many phrases may precede the owner's statement.
const MAX_LEADS: usize = 3;

/// Signs that are not compared but between two digits; [`gap_of`] has more, all others are words.
const PLAIN: &[char] = &[
  '¡', '"', '\'', '`', '*', '_', '-', '#', '•', '·', '“', '”', '‘', '’', '„', '«', '»', '「', '」',
  '『', '』', '《', '》',
];

/// Signs that belong to the number right behind them.
const SIGNS: &[char] = &['.', ',', '-', '—'];

/// What the owner says before what is to be kept.
#[rustfmt::skip]
const LEADS: &[&str] = &[
  "now something else", "please", "also", "remember that", "remember", "note that", "note",
  "keep in mind that", "bitte", "merk dir dass", "merk dir", "merke dir dass", "merke dir",
  "notiere dass", "notiere", "s il te plaît", "retiens que", "note que", "souviens toi que",
  "por favor", "recuerda que", "anota que", "ricorda che", "ricordati che", "annota che",
  "lembra que", "lembre se de que", "anota aí que", "onthoud dat", "onthoud", "kom ihåg att",
  "husk at", "zapamiętaj że", "zapamatuj si že", "пожалуйста", "запомни что", "запомни",
  "запам ятай що", "запам ятай", "请 记 住", "请 记 得", "记 住", "记 得", "請 記 住", "記 住",
];

/// What the owner says behind what is to be kept, set off by a comma.
const TAILS: &[&str] = &[
  ", remember that",
  ", please remember that",
  ", please remember",
  ", please",
  ", thanks",
  ", merk dir das",
  ", merk dir das bitte",
  ", bitte",
];

const POLITE: &[&str] = &["please", "bitte", "пожалуйста"];

/// Articles in English, and prepositions in other languages.
const ENGLISH_ARTICLES: &[&str] = &["a", "an"];

/// Words by which English is known.
const ENGLISH: &[&str] = &["the", "of", "and", "are", "with", "remember"];

/// Possessives of the first person.
#[rustfmt::skip]
const MINE: &[&str] = &[
  "my", "our", "mein", "meine", "unser", "unsere", "mon", "ma", "notre", "minha", "meu", "mijn", "moja", "moje",
  "мой", "моя", "моё", "мои", "我 的",
];

/// To be, in the present.
const IS: &[&str] =
  &["is", "are", "ist", "sind", "liegt", "est", "sont", "está", "están", "é", "è", "são", "är"];

/// Before a place or a time, where nothing is moved from or to.
const PLACES: &[&str] = &["in", "on", "im", "am"];

/// What a number is called.
const NUMBER: &[&str] = &["number", "nummer", "numéro", "número", "numero", "номер"];

/// Pronouns that replace a name.
const PRONOUNS: &[&str] = &[
  "she", "he", "they", "it", "er", "sie", "elle", "il", "ella", "él", "lei", "lui", "ela", "ele",
  "она", "он",
];

/// How months and days of the week begin.
#[rustfmt::skip]
const CALENDAR: &[&str] = &[
  "januar", "februar", "march", "märz", "april", "may", "mai", "june", "juni", "july", "juli", "august",
  "septemb", "octob", "oktob", "novemb", "decemb", "dezemb", "monday", "montag", "tuesday", "dienstag",
  "wednesday", "mittwoch", "thursday", "donnerstag", "friday", "freitag", "saturday", "samstag", "sonnabend",
  "sunday", "sonntag",
];
