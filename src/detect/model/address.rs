//! Words, and parts of a text that look like a word but are an address, a number or an identifier.
//!
//! Such tokens are named by class only. Paths and file names also give their words, for `.env` and
//! `authorized_keys` mean something; hosts, mail addresses and handles do not, because an author
//! can choose them.
#![forbid(unsafe_code)]

/// A piece of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
  /// A run of letters, marks and digits of a script with spaces.
  Word(&'a str),
  /// A run of characters of a script without spaces.
  Unspaced(&'a str),
  /// A token of which only the class counts.
  Class(&'static str),
}

/// An address that is longer is read as words from there on.
const MAX_ADDRESS: usize = 512;

/// Last labels of names that are hosts; any other dotted word is code or a file. The commonest of the
/// root zone, and the reserved ones of RFC 2606 and RFC 6762.
const HOST_ENDS: &[&str] = &[
  "ai",
  "app",
  "at",
  "be",
  "biz",
  "br",
  "ca",
  "ch",
  "cloud",
  "cn",
  "co",
  "com",
  "cz",
  "de",
  "dev",
  "dk",
  "edu",
  "es",
  "eu",
  "example",
  "fi",
  "fr",
  "gg",
  "gov",
  "gr",
  "hu",
  "ie",
  "il",
  "in",
  "info",
  "internal",
  "invalid",
  "io",
  "ir",
  "it",
  "jp",
  "kr",
  "lan",
  "link",
  "local",
  "localhost",
  "me",
  "mil",
  "mx",
  "net",
  "nl",
  "no",
  "online",
  "onion",
  "org",
  "page",
  "pl",
  "pt",
  "ro",
  "ru",
  "se",
  "sh",
  "shop",
  "site",
  "sk",
  "store",
  "tech",
  "test",
  "to",
  "top",
  "tr",
  "tv",
  "tw",
  "ua",
  "uk",
  "us",
  "vn",
  "xyz",
  "zone",
];

/// Names that replace scrubbed names in corpora.
const PLACEHOLDERS: &[&str] = &["alex", "alexdev", "johndoe", "janedoe", "foobar", "username"];

/// Calls `take` with each token of `text`, in order.
pub(super) fn tokens<'a>(text: &'a str, mut take: impl FnMut(Token<'a>)) {
  let mut at = 0;
  while let Some(rest) = text.get(at..)
    && let Some(first) = rest.chars().next()
  {
    at += if first.is_ascii_alphanumeric() || matches!(first, '/' | '~' | '.' | '@') {
      ascii(rest, &mut take)
    } else if is_unspaced(first) {
      let len = run(rest, is_unspaced);
      take(Token::Unspaced(rest.get(..len).unwrap_or_default()));
      len
    } else if is_letter(first) {
      word(rest, &mut take)
    } else {
      if is_money(first) {
        take(Token::Class("<money>"));
      }
      first.len_utf8()
    };
  }
}

/// Bytes of `text` while its characters are so.
fn run(text: &str, is_so: impl Fn(char) -> bool) -> usize {
  text.find(|c| !is_so(c)).unwrap_or(text.len())
}

/// A token that begins with a character of ASCII; its length in bytes.
fn ascii<'a>(rest: &'a str, take: &mut impl FnMut(Token<'a>)) -> usize {
  let is_part = |b: &u8| b.is_ascii_alphanumeric() || b"._/:@%+~#?=&-".contains(b);
  let len = rest.bytes().take(MAX_ADDRESS).take_while(|b| is_part(b)).count();
  let run = rest.get(..len).unwrap_or_default();
  let run = run.trim_end_matches(['.', ':', '/', '?', '#', '-', '=', '&', '@', '+', '~', '%']);
  let signs = run.bytes().any(|b| b"./:@%".contains(&b) || b.is_ascii_digit());
  // A run that continues with a letter of another alphabet is a word of that language.
  let goes_on = rest.get(run.len()..).and_then(|after| after.chars().next()).is_some_and(is_letter);
  if !signs || (goes_on && run.len() == len) {
    return word(rest, take).max(1);
  }
  match class(run) {
    Some(Class { name, has_words }) => {
      take(Token::Class(name));
      if has_words {
        words(run, take);
      }
    }
    None => words(run, take),
  }
  run.len().max(1)
}

/// A word of letters and digits, apostrophes inside included; its length in bytes.
fn word<'a>(rest: &'a str, take: &mut impl FnMut(Token<'a>)) -> usize {
  let mut len = run(rest, is_letter);
  while let Some(after) = rest.get(len..)
    && let Some(tail) = after.strip_prefix('\'')
    && tail.starts_with(is_letter)
  {
    len += 1 + run(tail, is_letter);
  }
  let found = rest.get(..len).unwrap_or_default();
  if PLACEHOLDERS.iter().any(|name| name.eq_ignore_ascii_case(found)) {
    take(Token::Class("<name>"));
  } else if is_identifier(found) {
    take(Token::Class("<id>"));
  } else if len > 0 {
    take(Token::Word(found));
  }
  len
}

fn words<'a>(text: &'a str, take: &mut impl FnMut(Token<'a>)) {
  for part in text.split(|c: char| !is_letter(c)).filter(|part| !part.is_empty()) {
    if part.bytes().all(|b| b.is_ascii_digit()) {
      take(Token::Class("<number>"));
    } else {
      word(part, take);
    }
  }
}

/// The class of an address, and whether its words count.
struct Class {
  name: &'static str,
  has_words: bool,
}

fn class(run: &str) -> Option<Class> {
  let only = |name| Some(Class { name, has_words: false });
  if run.bytes().all(|b| !b.is_ascii_alphabetic()) {
    return only(numeric(run)?);
  }
  if run.contains("://") || run.starts_with("www.") {
    return only(if run.contains('?') { "<url?>" } else { "<url>" });
  }
  if let Some((before, after)) = run.split_once('@') {
    return match (before.is_empty(), after.contains(':') || after.contains('/')) {
      (true, _) => only("<handle>"),
      (false, true) => only("<url>"),
      (false, false) if after.contains('.') => only("<mail>"),
      (false, false) => Some(Class { name: "<at>", has_words: true }),
    };
  }
  let (host, path) = run.split_once(['/', ':']).unwrap_or((run, ""));
  if is_host(host) {
    return only(if path.is_empty() { "<host>" } else { "<url>" });
  }
  if run.contains('/') {
    return Some(Class { name: "<path>", has_words: true });
  }
  if run.contains('.') {
    return Some(Class { name: "<file>", has_words: true });
  }
  if is_identifier(run) { only("<id>") } else { None }
}

fn numeric(run: &str) -> Option<&'static str> {
  let n_digits = run.bytes().filter(u8::is_ascii_digit).count();
  let dots = run.bytes().filter(|b| *b == b'.').count();
  let dashes = run.bytes().filter(|b| matches!(b, b'-' | b'/')).count();
  match (n_digits, dots, dashes) {
    (0, ..) => None,
    (4..=12, 3, 0) => Some("<ip>"),
    (5..=14, _, 2) => Some("<date>"),
    (2..=6, 0, _) if run.contains(':') => Some("<time>"),
    _ => Some("<number>"),
  }
}

fn is_host(name: &str) -> bool {
  let mut labels = name.rsplit('.');
  let end = labels.next().unwrap_or_default();
  let is_label = |label: &str| {
    !label.is_empty() && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
  };
  let is_end = HOST_ENDS.iter().any(|known| known.eq_ignore_ascii_case(end));
  let mut n_labels = 0;
  is_end && labels.inspect(|_| n_labels += 1).all(is_label) && n_labels > 0
}

/// A key, digest, account or other code: eight or more letters and digits, three digits among them.
fn is_identifier(word: &str) -> bool {
  word.len() >= 8
    && word.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
    && word.bytes().filter(u8::is_ascii_digit).count() >= 3
}

/// Letters, digits, and the marks that belong to letters.
fn is_letter(c: char) -> bool {
  if c.is_ascii() {
    return c.is_ascii_alphanumeric();
  }
  !is_unspaced(c)
    && (c.is_alphanumeric()
      || matches!(c, '\u{300}'..='\u{36f}' | '\u{591}'..='\u{5c7}' | '\u{610}'..='\u{61a}'
        | '\u{64b}'..='\u{65f}' | '\u{200c}' | '\u{200d}')
      || matches!(c, '\u{900}'..='\u{dff}') && !matches!(c, '\u{964}' | '\u{965}'))
}

/// Characters of scripts that put no space between words: Han, kana, Thai, Lao, Burmese, Khmer.
fn is_unspaced(c: char) -> bool {
  matches!(c, '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
    | '\u{3005}'..='\u{3007}' | '\u{3041}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}'
    | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3134f}')
    && c != '\u{30fb}'
}

const fn is_money(c: char) -> bool {
  matches!(c, '$' | '£' | '¥' | '\u{20a0}'..='\u{20cf}')
}

#[cfg(test)]
mod tests {
  use super::*;

  fn found(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    tokens(text, |token| {
      found.push(match token {
        Token::Word(text) => text.to_owned(),
        Token::Unspaced(text) => format!("[{text}]"),
        Token::Class(name) => name.to_owned(),
      });
    });
    found
  }

  #[test]
  fn addresses_are_distinguished() {
    for (text, expected) in [
      ("Ann doesn't mind.", "Ann doesn't mind"),
      ("see https://x.example/a?b=c, then", "see <url?> then"),
      ("git@git.x.test:a/b.git", "<url>"),
      ("(mail ann@x.test).", "mail <mail>"),
      ("nas.ofis.example'daki klasör", "<host> daki klasör"),
      ("x.test/al adresi", "<url> adresi"),
      ("pkg.dev:8080 up", "<url> up"),
      ("edit src/main.rs and .env", "edit <path> src main rs and <file> env"),
      ("~/.ssh/id_rsa", "<path> ssh id rsa"),
      ("ab12cd34ef key", "<id> key"),
      ("DE12500105170648489890", "<id>"),
      ("at 14:30 or 2026-01-02", "at <time> or <date>"),
      ("v1.2.3 and 3.5%", "<file> v1 <number> <number> and <number>"),
      ("to 10.0.0.1", "to <ip>"),
      ("@ann_b said 5", "<handle> said <number>"),
      ("pay $30 or 20 €", "pay <money> <number> or <number> <money>"),
      ("größer als naïve", "größer als naïve"),
      ("发到 a@b.example,一直", "[发到] <mail> [一直]"),
      ("हिन्दी में।", "हिन्दी में"),
      ("ask Alex", "ask <name>"),
    ] {
      assert_eq!(found(text).join(" "), expected, "{text:?}");
    }
  }
}
