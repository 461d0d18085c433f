//! Takes secrets, and only secrets, out of a text before it leaves the machine: the model must see
//! the words that it judges. So text that reads as words stays at any place.
#![forbid(unsafe_code)]

use std::{borrow::Cow, ops::Range, sync::LazyLock};

use regex::{Captures, Regex};

use super::words::Words;
use crate::detect::effects::{SlotKind, slots};

/// Shorter runs of characters are words and numbers, not keys.
const MIN_RUN: usize = 20;
/// Bits a character of a run from which on it is no word. Words joined by hyphens have letters alone and are
/// spared before that; a hexadecimal key of 32 digits has about 3.5, a base64 one of that length 4.5.
const MIN_ENTROPY: f32 = 3.0;
/// Characters of a line of a private key, but for its last: shorter ones are words.
const MIN_KEY_LINE: usize = 16;

/// Values after a word for a secret that are no secrets: an answer may depend on them.
const NO_SECRETS: [SlotKind; 8] = [
  SlotKind::Iban,
  SlotKind::Wallet,
  SlotKind::Email,
  SlotKind::Url,
  SlotKind::Domain,
  SlotKind::Host,
  SlotKind::Ip,
  SlotKind::Phone,
];

/// Keys by the beginnings that their issuers give them, tokens in three parts, and passwords in addresses.
static KNOWN: LazyLock<Option<Regex>> = LazyLock::new(|| {
  let prefixes = "sk-|sk_live_|sk_test_|rk_live_|rk_test_|pk_live_|whsec_|gh[pousr]_|github_pat_|glpat-|xox[abeoprs]-|xapp-|AKIA|ASIA|AIza|ya29\\.|npm_|pypi-|hf_|SG\\.|dop_v1_|shp(?:at|ca|ss)_|AGE-SECRET-KEY-1|sq0[a-z]{3}-|lin_api_|ntn_|secret_";
  let pattern = format!(
    r"(?P<jwt>\beyJ[A-Za-z0-9_-]{{8,}}\.[A-Za-z0-9_-]{{4,}}(?:\.[A-Za-z0-9_-]*)?)|(?P<key>(?-u:\b)(?:{prefixes})[A-Za-z0-9_\-./+=]{{10,}})|(?P<scheme>(?i:bearer|basic)\s+)(?P<bearer>[A-Za-z0-9_\-./+=]{{12,}})|(?P<user>[a-z][a-z0-9+.-]{{1,15}}://[^\s/:@]{{0,64}}:)(?P<pass>[!-~&&[^/@]]{{1,128}})@"
  );
  Regex::new(&pattern).ok()
});

/// The value behind a word for a password or a key.
static NAMED: LazyLock<Option<Regex>> = LazyLock::new(|| {
  let words = "password|passwd|pwd|passphrase|passcode|secret|api[ _-]?key|access[ _-]?key|secret[ _-]?key|auth[ _-]?token|access[ _-]?token|token|pin|passwort|kennwort|mot de passe|contraseña|clave|senha|palavra-passe|parola|wachtwoord|hasło|lösenord|пароль|密码|密碼|パスワード|비밀번호";
  let pattern = format!(
    r"(?P<word>(?i:{words})[*`_\x22']{{0,3}}(?:\s{{0,3}}[:=：]|\s+is)[*`_\x22']{{0,3}}\s{{0,3}})(?P<value>[!-~&&[^,;|]]{{3,200}})"
  );
  Regex::new(&pattern).ok()
});

/// The line before a private key, and the text that may precede the key in it.
static PRIVATE: LazyLock<Option<Regex>> = LazyLock::new(|| {
  let pattern = r"-----BEGIN (?:(?:RSA|EC|DSA|OPENSSH|ENCRYPTED|PGP) )?PRIVATE KEY(?: BLOCK)?-----(?:\s*Proc-Type: 4,ENCRYPTED\s+DEK-Info: [A-Z0-9-]{1,24},[0-9A-Fa-f]{16,32})?";
  Regex::new(pattern).ok()
});

/// One line of a private key, line ends also as JSON writes them; or the line behind it.
static KEY_LINE: LazyLock<Option<Regex>> = LazyLock::new(|| {
  let pattern = r"\A(?:\s|\\[nr])*(?:(?P<end>-----END (?:[A-Z]{2,9} )?PRIVATE KEY(?: BLOCK)?-----)|(?P<line>[A-Za-z0-9+/=]{1,80}))";
  Regex::new(pattern).ok()
});

/// The text without keys, tokens, passwords and card numbers; a word in brackets says what it was.
pub fn mask(text: &str) -> String {
  runs(&named(&known(&private_keys(&cards(text)))))
}

fn known(text: &str) -> Cow<'_, str> {
  let Some(known) = &*KNOWN else { return Cow::Borrowed(text) };
  known.replace_all(text, |found: &Captures<'_>| {
    let part = |name: &str| found.name(name).map_or("", |part| part.as_str());
    let is = |name: &str| found.name(name).is_some_and(|part| !Words::of(part.as_str()).is_text());
    if is("jwt") {
      "[token]".to_owned()
    } else if is("key") {
      "[key]".to_owned()
    } else if is("bearer") {
      format!("{}[token]", part("scheme"))
    } else if is("pass") {
      format!("{}[password]@", part("user"))
    } else {
      part_of_all(found)
    }
  })
}

fn named(text: &str) -> Cow<'_, str> {
  let Some(named) = NAMED.as_ref().filter(|named| named.is_match(text)) else {
    return Cow::Borrowed(text);
  };
  let spared = addresses(text, &NO_SECRETS);
  named.replace_all(text, |found: &Captures<'_>| {
    let part = |name: &str| found.name(name).map_or("", |part| part.as_str());
    let value = part("value");
    // The placeholder of an earlier step is more specific.
    let is_text = Words::of(value).is_text() || are_joined(value) || value.starts_with('[');
    let is_address = || {
      let range = found.name("value").map(|value| value.range());
      range.is_some_and(|range| is_address(text, range, &spared))
    };
    // Either may hold a secret that it names itself.
    let value =
      if is_text || is_address() { self::named(value) } else { Cow::Borrowed("[secret]") };
    format!("{}{value}", part("word"))
  })
}

/// Whether a value is words with hyphens between them.
fn are_joined(value: &str) -> bool {
  let value = value.trim_matches(|c: char| !c.is_ascii_alphanumeric());
  let is_word =
    |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphabetic());
  value.contains('-') && value.split('-').all(is_word)
}

/// Whether a part of a text is only a destination: an account, an address, a number to call, and at most one
/// more word.
fn is_address(text: &str, part: Range<usize>, spared: &[Range<usize>]) -> bool {
  let (mut at, mut rest) = (part.start, String::new());
  let inside = spared.iter().filter(|span| span.start < part.end && part.start < span.end);
  for span in inside {
    rest.push_str(text.get(at..span.start).unwrap_or_default());
    at = at.max(span.end);
  }
  let is_any = at > part.start;
  rest.push_str(text.get(at..part.end).unwrap_or_default());
  is_any && !rest.bytes().any(|byte| byte.is_ascii_digit())
}

/// The ranges of values of these kinds.
fn addresses(text: &str, kinds: &[SlotKind]) -> Vec<Range<usize>> {
  let slots = slots(text.as_bytes()).into_iter();
  slots.filter(|slot| kinds.contains(&slot.kind)).map(|slot| slot.span).collect()
}

fn part_of_all(found: &Captures<'_>) -> String {
  found.get(0).map_or("", |all| all.as_str()).to_owned()
}

/// A key ends with its last key line, even without an end line: later text that is no key stays.
fn private_keys(text: &str) -> String {
  let (mut out, mut rest) = (String::with_capacity(text.len()), text);
  while let Some(begin) = PRIVATE.as_ref().and_then(|private| private.find(rest)) {
    let (head, tail) = rest.split_at(begin.end());
    let n = key_lines(tail);
    if n == 0 {
      out.push_str(head);
    } else {
      out.push_str(head.get(..begin.start()).unwrap_or_default());
      out.push_str("[private key]");
    }
    rest = tail.get(n..).unwrap_or_default();
  }
  out.push_str(rest);
  out
}

/// Bytes of the lines of a key with which a text begins.
fn key_lines(text: &str) -> usize {
  // A short line is the last of a key only where its end follows.
  let (mut n, mut at, mut may_go_on) = (0, 0, true);
  while let Some(found) = KEY_LINE.as_ref().and_then(|line| line.captures(text.get(at..)?)) {
    let end = at + found.get(0).map_or(0, |all| all.len());
    match found.name("line") {
      None => return end,
      Some(line) if may_go_on && !Words::of(line.as_str()).are_most() => {
        at = end;
        if line.len() < MIN_KEY_LINE { may_go_on = false } else { n = end }
      }
      Some(_) => break,
    }
  }
  n
}

/// Masks numbers of payment cards; accounts, wallets and addresses stay, because an answer may
/// depend on them.
fn cards(text: &str) -> String {
  let mut out = String::with_capacity(text.len());
  let mut from = 0;
  for slot in slots(text.as_bytes()).into_iter().filter(|slot| slot.kind == SlotKind::Card) {
    if let (true, Some(before)) = (slot.span.start >= from, text.get(from..slot.span.start)) {
      out.push_str(before);
      out.push_str("[card number]");
      from = slot.span.end;
    }
  }
  out.push_str(text.get(from..).unwrap_or_default());
  out
}

/// Long runs of characters in which chance shows.
fn runs(text: &str) -> String {
  let spared = addresses(text, &[SlotKind::Iban, SlotKind::Wallet, SlotKind::Email]);
  let mut spared = spared.iter().peekable();
  let mut out = String::with_capacity(text.len());
  let is_of_run = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '+' | '=');
  let mut start = 0;
  for (at, c) in text.char_indices().chain([(text.len(), ' ')]) {
    if is_of_run(c) && at < text.len() {
      continue;
    }
    let run = text.get(start..at).unwrap_or_default();
    while spared.next_if(|span| span.end <= start).is_some() {}
    let is_spared = spared.peek().is_some_and(|span| span.start < at);
    let is_key = !is_spared && is_random(run) && !Words::of(run).is_text();
    out.push_str(if is_key { "[key]" } else { run });
    if at < text.len() {
      out.push(c);
    }
    start = at + c.len_utf8();
  }
  out
}

/// Whether a run looks like chance: long, of letters and digits in turn.
fn is_random(run: &str) -> bool {
  if run.len() < MIN_RUN {
    return false;
  }
  let mut counts = [0_u32; 128];
  let (mut turns, mut last) = (0_u32, None);
  for byte in run.bytes() {
    if let Some(count) = counts.get_mut(usize::from(byte)) {
      *count += 1;
    }
    let kind = (byte.is_ascii_digit(), byte.is_ascii_uppercase());
    turns += u32::from(last.is_some_and(|last| last != kind));
    last = Some(kind);
  }
  let n = run.len() as f32;
  let part = |count: &u32| {
    let share = *count as f32 / n;
    if *count == 0 { 0.0 } else { -share * libm::log2f(share) }
  };
  let entropy: f32 = counts.iter().map(part).sum();
  let has = |is: fn(&u8) -> bool| run.bytes().any(|byte| is(&byte));
  has(u8::is_ascii_digit)
    && has(u8::is_ascii_alphabetic)
    && entropy >= MIN_ENTROPY
    && turns as f32 >= n / 6.0
}
