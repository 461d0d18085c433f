//! Values that are mostly digits: bank accounts, cards, telephones, sums, times.
#![forbid(unsafe_code)]

use std::{ops::Range, sync::LazyLock};

use regex::Regex;

use super::slot::SlotKind;

/// Lengths of the account numbers of each country (registry of ISO 13616), in order.
const IBAN_LENGTHS: &[(&str, usize)] = &[
  ("AD", 24),
  ("AE", 23),
  ("AL", 28),
  ("AT", 20),
  ("AZ", 28),
  ("BA", 20),
  ("BE", 16),
  ("BG", 22),
  ("BH", 22),
  ("BI", 27),
  ("BR", 29),
  ("BY", 28),
  ("CH", 21),
  ("CR", 22),
  ("CY", 28),
  ("CZ", 24),
  ("DE", 22),
  ("DJ", 27),
  ("DK", 18),
  ("DO", 28),
  ("EE", 20),
  ("EG", 29),
  ("ES", 24),
  ("FI", 18),
  ("FK", 18),
  ("FO", 18),
  ("FR", 27),
  ("GB", 22),
  ("GE", 22),
  ("GI", 23),
  ("GL", 18),
  ("GR", 27),
  ("GT", 28),
  ("HN", 28),
  ("HR", 21),
  ("HU", 28),
  ("IE", 22),
  ("IL", 23),
  ("IQ", 23),
  ("IS", 26),
  ("IT", 27),
  ("JO", 30),
  ("KW", 30),
  ("KZ", 20),
  ("LB", 28),
  ("LC", 32),
  ("LI", 21),
  ("LT", 20),
  ("LU", 20),
  ("LV", 21),
  ("LY", 25),
  ("MC", 27),
  ("MD", 24),
  ("ME", 22),
  ("MK", 19),
  ("MN", 20),
  ("MR", 27),
  ("MT", 31),
  ("MU", 30),
  ("NI", 28),
  ("NL", 18),
  ("NO", 15),
  ("OM", 23),
  ("PK", 24),
  ("PL", 28),
  ("PS", 29),
  ("PT", 25),
  ("QA", 29),
  ("RO", 24),
  ("RS", 22),
  ("RU", 33),
  ("SA", 24),
  ("SC", 31),
  ("SD", 18),
  ("SE", 24),
  ("SI", 19),
  ("SK", 24),
  ("SM", 27),
  ("SO", 23),
  ("ST", 25),
  ("SV", 28),
  ("TL", 23),
  ("TN", 24),
  ("TR", 26),
  ("UA", 29),
  ("VA", 22),
  ("VG", 24),
  ("XK", 20),
  ("YE", 30),
];

type OnSlot<'a> = &'a mut dyn FnMut(SlotKind, Range<usize>, String);

// Where an ASCII character is on its inner side, `(?-u:\b)` is a sufficient bound, and most patterns then
// do not need Unicode, which costs ten times as much; and a number may follow a Chinese word directly.
fn each(pattern: &LazyLock<Option<Regex>>, text: &str, mut hit: impl FnMut(Range<usize>, &str)) {
  if let Some(pattern) = &**pattern {
    for found in pattern.find_iter(text) {
      hit(found.range(), found.as_str());
    }
  }
}

/// The same, unless it is known that the pattern matches nowhere: most texts with a digit have no number of these.
fn each_if(
  may: bool,
  pattern: &LazyLock<Option<Regex>>,
  text: &str,
  hit: impl FnMut(Range<usize>, &str),
) {
  if may {
    each(pattern, text, hit);
  }
}

/// Digits of an account without a form of its own, at least.
const MIN_ACCOUNT: u32 = 7;
/// Digits of a telephone number, at least.
const MIN_PHONE: u32 = 7;

/// How many digits stand together in a text, which is what decides quickly that a pattern matches nowhere.
#[derive(Clone, Copy, Default)]
struct Together {
  /// The most digits among spaces and hyphens.
  narrow: u32,
  /// The most digits among the signs of telephone numbers.
  wide: u32,
  /// The longest stretch of digits, spaces and hyphens from a digit to a digit, in bytes.
  stretch: usize,
}

impl Together {
  fn of(text: &str) -> Self {
    let mut most = Self::default();
    let (mut narrow, mut wide, mut start) = (0, 0, 0);
    for (at, byte) in text.bytes().enumerate() {
      match byte {
        b'0'..=b'9' => {
          if narrow == 0 {
            start = at;
          }
          (narrow, wide) = (narrow + 1, wide + 1);
          most.narrow = most.narrow.max(narrow);
          most.wide = most.wide.max(wide);
          most.stretch = most.stretch.max(at + 1 - start);
        }
        b' ' | b'-' => {}
        b'(' | b')' | b'.' | b'/' | b'+' => narrow = 0,
        _ => (narrow, wide) = (0, 0),
      }
    }
    most
  }
}

/// Whether two letters and two digits stand in a row, as at the start of an account number.
fn has_country(bytes: &[u8]) -> bool {
  bytes.windows(4).any(|four| match four {
    [a, b, c, d] => {
      c.is_ascii_digit() && d.is_ascii_digit() && b.is_ascii_alphabetic() && a.is_ascii_alphabetic()
    }
    _ => false,
  })
}

/// Whether a digit follows another one after one of the signs of times.
fn has_time(bytes: &[u8]) -> bool {
  bytes.windows(3).any(|three| match three {
    [a, b, c] => matches!(b, b'-' | b':' | b'.') && a.is_ascii_digit() && c.is_ascii_digit(),
    _ => false,
  })
}

/// Whether something that may be a currency is beside a number: two letters of its name, a sign, or anything that is not
/// ASCII.
fn has_currency(bytes: &[u8]) -> bool {
  let is_number = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'.' | b',');
  let mut at = 0;
  while let Some(found) = bytes.iter().skip(at).position(u8::is_ascii_digit) {
    let start = at + found;
    let end = bytes.iter().skip(start).position(|byte| !is_number(*byte));
    let end = end.map_or(bytes.len(), |length| start + length);
    at = end;
    let (mut before, mut after) =
      (bytes.get(..start).unwrap_or_default(), bytes.get(end..).unwrap_or_default());
    before = before.strip_suffix(b" ").unwrap_or(before);
    after = after.strip_prefix(b" ").unwrap_or(after);
    let ends = match before {
      [.., b'$' | 0x80..=0xff] | [.., 0x80..=0xff, _] => true,
      [.., a, b] => matches!(
        &[a.to_ascii_lowercase(), b.to_ascii_lowercase()],
        b"ur" | b"sd" | b"bp" | b"hf" | b"py" | b"ln"
      ),
      _ => false,
    };
    let starts = match after {
      [b'$' | 0x80..=0xff, ..] | [_, 0x80..=0xff, ..] => true,
      [a, b, ..] => matches!(
        &[a.to_ascii_lowercase(), b.to_ascii_lowercase()],
        b"eu" | b"us" | b"gb" | b"ch" | b"jp" | b"pl" | b"do" | b"ye" | b"kr"
      ),
      _ => false,
    };
    if starts || ends {
      return true;
    }
  }
  false
}

/// Whether a text contains this lower-case word, in either case.
fn says(bytes: &[u8], word: &[u8]) -> bool {
  bytes.windows(word.len()).any(|window| window.eq_ignore_ascii_case(word))
}

/// Calls `read` with each line that has a digit. No pattern goes over the end of a line, and where a text is not
/// ASCII, most patterns that would read all of it are slow.
fn lines(text: &str, found: OnSlot<'_>, read: impl Fn(&str, OnSlot<'_>)) {
  let mut start = 0;
  for line in text.split_inclusive('\n') {
    if line.bytes().any(|byte| byte.is_ascii_digit()) {
      read(line, &mut |kind, span, value| {
        found(kind, start + span.start..start + span.end, value);
      });
    }
    start += line.len();
  }
}

/// Accounts and cards.
pub(super) fn accounts(text: &str, mut found: impl FnMut(SlotKind, Range<usize>, String)) {
  lines(text, &mut found, accounts_of);
}

/// Telephones, sums, times.
pub(super) fn others(text: &str, mut found: impl FnMut(SlotKind, Range<usize>, String)) {
  lines(text, &mut found, others_of);
}

#[expect(clippy::items_after_statements, reason = "each pattern stands where it is used")]
fn accounts_of(text: &str, found: OnSlot<'_>) {
  let bytes = text.as_bytes();
  let Together { narrow, stretch, .. } = Together::of(text);
  if has_country(bytes) {
    ibans(text, found);
  }
  // A country's own form: a sort code and an account, or a number that is called an account.
  static SORT: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?-u:\b)[0-9]{2}-[0-9]{2}-[0-9]{2}(?-u:\b)[ ,/]{1,3}(?:[a-z.]{2,8} )?[0-9]{4} ?[0-9]{4}(?-u:\b)")
      .ok()
  });
  each_if(narrow >= 6, &SORT, text, |span, hit| found(SlotKind::Iban, span, digits(hit)));
  static NAMED: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
      r"(?i)(?:\b(?:accounts?|acct|a/c|konto\w*|rekening\w*|compte|cuenta|conto|conta|compte|účet|účtu|rachunek|hesap)|сч[её]т\w*|рахунок|λογαριασμ\w*|账户|帐户|账号|口座|계좌|حساب)(?:\.| no\.?| nr\.?| number|番号|번호)?[:# ]{0,3}[0-9][0-9 -]{5,26}[0-9]",
    )
    .ok()
  });
  each_if(stretch >= 7, &NAMED, text, |span, hit| {
    if let Some(at) = hit.find(|c: char| c.is_ascii_digit()) {
      let value = digits(hit.get(at..).unwrap_or_default());
      if value.len() >= MIN_ACCOUNT as usize {
        found(SlotKind::Iban, span.start + at..span.end, value);
      }
    }
  });
  // "Ferrow Bank 7310 5528", "wallet lx-8820-amber".
  static BANK: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?-u:\b)(?:Bank|Trust|Ltd|Savings|Union|Factoring|Clearing|Credit|GmbH|Collect)(?-u:\b)[,:]? [0-9]{2,8}(?:[ -][0-9]{2,8}){1,4}(?-u:\b)").ok()
  });
  each_if(narrow >= MIN_ACCOUNT, &BANK, text, |span, hit| {
    if let Some(at) = hit.find(|c: char| c.is_ascii_digit()) {
      let value = digits(hit.get(at..).unwrap_or_default());
      if value.len() >= MIN_ACCOUNT as usize {
        found(SlotKind::Iban, span.start + at..span.end, value);
      }
    }
  });
  static WALLET: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
      r"(?i)(?-u:\b)wallet:? (?:id |address |no\.? )?[a-z0-9]*-?(?:[a-z0-9]+-)*[a-z]*[0-9][a-z0-9-]*",
    )
    .ok()
  });
  each_if(says(bytes, b"wallet"), &WALLET, text, |span, hit| {
    if let Some(at) = hit.rfind(' ').map(|at| at + 1) {
      let value = hit.get(at..).unwrap_or_default().to_lowercase();
      if value.len() >= 5 {
        found(SlotKind::Wallet, span.start + at..span.end, value);
      }
    }
  });
  static CARD: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?-u:\b)[0-9](?:[ -]?[0-9]){12,18}(?-u:\b)").ok());
  each_if(narrow >= 13, &CARD, text, |span, hit| {
    let value = digits(hit);
    if is_luhn(&value) && matches!(value.as_bytes().first(), Some(b'2'..=b'6')) {
      found(SlotKind::Card, span, value);
    }
  });
}

#[expect(clippy::items_after_statements, reason = "each pattern stands where it is used")]
fn others_of(text: &str, found: OnSlot<'_>) {
  static TIME: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?-u:\b)[0-9]{4}-[0-9]{2}-[0-9]{2}(?-u:\b)|(?-u:\b)[0-9]{1,2}:[0-9]{2}(?-u:\b)|(?-u:\b)[0-9]{1,2}\.[0-9]{1,2}\.(?:20)?[0-9]{2}(?-u:\b)").ok()
  });
  each_if(has_time(text.as_bytes()), &TIME, text, |span, hit| {
    found(SlotKind::Time, span, hit.to_owned());
  });
  static PHONE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
      r"(?:\+|(?-u:\b)00)[0-9][0-9 ()./-]{5,20}[0-9]|(?-u:\b)0[0-9]{2,4}[ /-][0-9]{2,4}(?:[ -]?[0-9]{2,5}){1,3}(?-u:\b)|(?-u:\b)(?:1[ -])?\(?[0-9]{3}\)?[ -][0-9]{3}[ -][0-9]{3,4}(?-u:\b)|(?-u:\b)[0-9]{3}-[0-9]{4}(?-u:\b)|(?-u:\b)0[0-9]{2,3} [0-9]{4,8}(?-u:\b)",
    )
    .ok()
  });
  each_if(Together::of(text).wide >= MIN_PHONE, &PHONE, text, |span, hit| {
    let value = digits(hit);
    if (MIN_PHONE as usize..=15).contains(&value.len()) {
      found(SlotKind::Phone, span, value);
    }
  });
  static AMOUNT: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
      r"(?i)(?:[€$£¥₹]|\b(?:EUR|USD|GBP|CHF|JPY|PLN)) ?[0-9][0-9.,]*|\b[0-9][0-9.,]* ?(?:[€$£¥₹]|(?:EUR|USD|GBP|CHF|JPY|PLN|euros?|dollars?|yen|kr|zł|руб)\b|円|元|원)",
    )
    .ok()
  });
  each_if(has_currency(text.as_bytes()), &AMOUNT, text, |span, hit| {
    let value: String = hit.chars().filter(|c| !c.is_whitespace()).collect();
    found(SlotKind::Amount, span, value.trim_end_matches(['.', ',']).to_lowercase());
  });
}

fn ibans(text: &str, found: OnSlot<'_>) {
  static IBAN: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?-u:\b)[A-Za-z]{2}[0-9]{2}(?:[ -]?[A-Za-z0-9]){10,31}").ok());
  each(&IBAN, text, |span, hit| {
    let country = hit.get(..2).unwrap_or_default().to_ascii_uppercase();
    let length = IBAN_LENGTHS.binary_search_by_key(&country.as_str(), |(code, _)| code);
    let length = length.ok().and_then(|at| IBAN_LENGTHS.get(at)).map(|(_, length)| *length);
    // As many signs as the country's numbers have; the rest is the next word.
    let mut value = String::new();
    let mut end = span.start;
    for (at, c) in hit.char_indices() {
      if c.is_ascii_alphanumeric() {
        if length.is_some_and(|length| value.len() == length) {
          break;
        }
        value.push(c.to_ascii_lowercase());
        end = span.start + at + 1;
      }
    }
    if length == Some(value.len()) && is_iban(&value) {
      found(SlotKind::Iban, span.start..end, value);
      return;
    }
    // A wrong check digit makes it a number that no bank takes, and the same claim about whom to pay: it counts
    // where it is written as account numbers are, in groups of four.
    let groups = groups_of_four(hit);
    if groups.1 >= 12 {
      let shown = hit.get(..groups.0).unwrap_or_default();
      let value =
        shown.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
      found(SlotKind::Iban, span.start..span.start + groups.0, value);
    }
  });
}

/// How far the text is in groups of up to four capitals and digits, in bytes, and how many signs that are.
fn groups_of_four(text: &str) -> (usize, usize) {
  let (mut end, mut signs, mut at) = (0, 0, 0);
  for group in text.split(' ') {
    let is_group = !group.is_empty()
      && group.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit())
      && (group.len() <= 4
        || (at > 0 && group.len() <= 16 && group.bytes().all(|b| b.is_ascii_digit())))
      && (at == 0 || group.bytes().any(|b| b.is_ascii_digit()) || at == 5);
    if !is_group {
      break;
    }
    at += group.len() + 1;
    end = at - 1;
    signs += group.len();
  }
  (end, signs)
}

fn digits(text: &str) -> String {
  text.chars().filter(char::is_ascii_digit).collect()
}

/// ISO 13616: the remainder by 97 of the number with its first four signs at the end is one. `value` is lower
/// case and has no separators.
pub(super) fn is_iban(value: &str) -> bool {
  let (Some(head), Some(tail)) = (value.get(..4), value.get(4..)) else { return false };
  let mut remainder = 0_u32;
  for c in tail.chars().chain(head.chars()) {
    let Some(digit) = c.to_digit(36) else { return false };
    remainder = (remainder * if digit > 9 { 100 } else { 10 } + digit) % 97;
  }
  remainder == 1
}

/// The check digit of cards.
pub(super) fn is_luhn(value: &str) -> bool {
  let sum: u32 = value
    .bytes()
    .rev()
    .map(|b| u32::from(b.wrapping_sub(b'0')))
    .enumerate()
    .map(|(at, digit)| match (at % 2, digit) {
      (0, digit) => digit,
      (_, digit) if digit > 4 => digit * 2 - 9,
      (_, digit) => digit * 2,
    })
    .sum();
  (13..=19).contains(&value.len()) && sum.is_multiple_of(10)
}
