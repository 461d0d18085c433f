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

/// Accounts and cards.
#[expect(clippy::items_after_statements, reason = "each pattern stands where it is used")]
pub(super) fn accounts(text: &str, mut found: impl FnMut(SlotKind, Range<usize>, String)) {
  if !text.bytes().any(|byte| byte.is_ascii_digit()) {
    return;
  }
  ibans(text, &mut found);
  // A country's own form: a sort code and an account, or a number that is called an account.
  static SORT: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?-u:\b)[0-9]{2}-[0-9]{2}-[0-9]{2}(?-u:\b)[ ,/]{1,3}(?:[a-z.]{2,8} )?[0-9]{4} ?[0-9]{4}(?-u:\b)")
      .ok()
  });
  each(&SORT, text, |span, hit| found(SlotKind::Iban, span, digits(hit)));
  static NAMED: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
      r"(?i)(?:\b(?:accounts?|acct|a/c|konto\w*|rekening\w*|compte|cuenta|conto|conta|compte|účet|účtu|rachunek|hesap)|сч[её]т\w*|рахунок|λογαριασμ\w*|账户|帐户|账号|口座|계좌|حساب)(?:\.| no\.?| nr\.?| number|番号|번호)?[:# ]{0,3}[0-9][0-9 -]{5,26}[0-9]",
    )
    .ok()
  });
  each(&NAMED, text, |span, hit| {
    if let Some(at) = hit.find(|c: char| c.is_ascii_digit()) {
      let value = digits(hit.get(at..).unwrap_or_default());
      if value.len() >= 7 {
        found(SlotKind::Iban, span.start + at..span.end, value);
      }
    }
  });
  // "Ferrow Bank 7310 5528", "wallet lx-8820-amber".
  static BANK: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?-u:\b)(?:Bank|Trust|Ltd|Savings|Union|Factoring|Clearing|Credit|GmbH|Collect)(?-u:\b)[,:]? [0-9]{2,8}(?:[ -][0-9]{2,8}){1,4}(?-u:\b)").ok()
  });
  each(&BANK, text, |span, hit| {
    if let Some(at) = hit.find(|c: char| c.is_ascii_digit()) {
      let value = digits(hit.get(at..).unwrap_or_default());
      if value.len() >= 7 {
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
  each(&WALLET, text, |span, hit| {
    if let Some(at) = hit.rfind(' ').map(|at| at + 1) {
      let value = hit.get(at..).unwrap_or_default().to_lowercase();
      if value.len() >= 5 {
        found(SlotKind::Wallet, span.start + at..span.end, value);
      }
    }
  });
  static CARD: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?-u:\b)[0-9](?:[ -]?[0-9]){12,18}(?-u:\b)").ok());
  each(&CARD, text, |span, hit| {
    let value = digits(hit);
    if is_luhn(&value) && matches!(value.as_bytes().first(), Some(b'2'..=b'6')) {
      found(SlotKind::Card, span, value);
    }
  });
}

/// Telephones, sums, times.
#[expect(clippy::items_after_statements, reason = "each pattern stands where it is used")]
pub(super) fn others(text: &str, mut found: impl FnMut(SlotKind, Range<usize>, String)) {
  if !text.bytes().any(|byte| byte.is_ascii_digit()) {
    return;
  }
  static TIME: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?-u:\b)[0-9]{4}-[0-9]{2}-[0-9]{2}(?-u:\b)|(?-u:\b)[0-9]{1,2}:[0-9]{2}(?-u:\b)|(?-u:\b)[0-9]{1,2}\.[0-9]{1,2}\.(?:20)?[0-9]{2}(?-u:\b)").ok()
  });
  each(&TIME, text, |span, hit| found(SlotKind::Time, span, hit.to_owned()));
  static PHONE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
      r"(?:\+|(?-u:\b)00)[0-9][0-9 ()./-]{5,20}[0-9]|(?-u:\b)0[0-9]{2,4}[ /-][0-9]{2,4}(?:[ -]?[0-9]{2,5}){1,3}(?-u:\b)|(?-u:\b)(?:1[ -])?\(?[0-9]{3}\)?[ -][0-9]{3}[ -][0-9]{3,4}(?-u:\b)|(?-u:\b)[0-9]{3}-[0-9]{4}(?-u:\b)|(?-u:\b)0[0-9]{2,3} [0-9]{4,8}(?-u:\b)",
    )
    .ok()
  });
  each(&PHONE, text, |span, hit| {
    let value = digits(hit);
    if (7..=15).contains(&value.len()) {
      found(SlotKind::Phone, span, value);
    }
  });
  static AMOUNT: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
      r"(?i)(?:[€$£¥₹]|\b(?:EUR|USD|GBP|CHF|JPY|PLN)) ?[0-9][0-9.,]*|\b[0-9][0-9.,]* ?(?:[€$£¥₹]|(?:EUR|USD|GBP|CHF|JPY|PLN|euros?|dollars?|yen|kr|zł|руб)\b|円|元|원)",
    )
    .ok()
  });
  each(&AMOUNT, text, |span, hit| {
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
