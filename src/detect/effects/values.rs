//! Finds the values that effects depend on: accounts, addresses, numbers, names.
#![forbid(unsafe_code)]

use std::{collections::BTreeMap, ops::Range, sync::LazyLock};

use regex::Regex;

use super::{
  host::{self, Token},
  number,
  slot::{Novelty, Slot, SlotKind},
};

/// The values in `bytes`, in order. Spans lie in `bytes`; [`Slot::novelty`] is `New` throughout.
pub fn slots(bytes: &[u8]) -> Vec<Slot> {
  let normalized = crate::detect::normalize::normalize(bytes);
  let Some(view) = normalized.views.first() else { return Vec::new() };
  let mut slots = slots_of(&view.text);
  for slot in &mut slots {
    slot.span = normalized.raw.span(&slot.span);
  }
  slots
}

/// The values in a text.
pub(super) fn slots_of(text: &str) -> Vec<Slot> {
  let mut out = Out { text, slots: Vec::new(), taken: BTreeMap::new() };
  let bytes = text.as_bytes();
  if bytes.iter().any(u8::is_ascii_digit) {
    number::accounts(text, |kind, span, value| out.push(kind, span, value));
  }
  let is_sign = |byte: &u8| matches!(byte, b'.' | b'@' | b'/' | b':') || byte.is_ascii_digit();
  let has_address = bytes.iter().any(is_sign);
  if has_address {
    for span in tokens(text) {
      let Some(token) = text.get(span.clone()) else { continue };
      if out.is_taken(&span) {
        continue;
      }
      for Token { kind, span: inside, value } in host::read(token) {
        out.take(&span);
        let span = span.start + inside.start..span.start + inside.end;
        if is_registry(text, span.start) && matches!(kind, SlotKind::Url | SlotKind::Host) {
          out.always(SlotKind::Registry, span.clone(), value.clone());
        }
        out.always(kind, span, value);
      }
    }
  }
  if bytes.iter().any(u8::is_ascii_digit) {
    number::others(text, |kind, span, value| out.push(kind, span, value));
  }
  packages(text, |span, value| out.push(SlotKind::Package, span, value));
  out.slots.sort_by_key(|slot| (slot.span.start, slot.kind));
  out.slots
}

struct Out<'a> {
  text: &'a str,
  slots: Vec<Slot>,
  /// Where values are, from start to end; no two overlap.
  taken: BTreeMap<usize, usize>,
}

impl Out<'_> {
  fn is_taken(&self, span: &Range<usize>) -> bool {
    self.taken.range(..span.end).next_back().is_some_and(|(_, end)| *end > span.start)
  }

  fn take(&mut self, span: &Range<usize>) {
    self.taken.insert(span.start, span.end);
  }

  fn push(&mut self, kind: SlotKind, span: Range<usize>, value: String) {
    if !self.is_taken(&span) {
      self.take(&span);
      self.always(kind, span, value);
    }
  }

  fn always(&mut self, kind: SlotKind, span: Range<usize>, value: String) {
    if !value.is_empty() && self.text.get(span.clone()).is_some() {
      self.slots.push(Slot { kind, span, value, novelty: Novelty::New });
    }
  }
}

/// The text between white space and signs that no address has. A Chinese or Japanese sentence goes on
/// without a space, so its letters end a token, too.
fn tokens(text: &str) -> impl Iterator<Item = Range<usize>> {
  let mut chars = text.char_indices().peekable();
  std::iter::from_fn(move || {
    while chars.next_if(|(_, c)| ends_token(*c)).is_some() {}
    let (start, _) = *chars.peek()?;
    let mut end = start;
    while let Some((at, c)) = chars.next_if(|(_, c)| !ends_token(*c)) {
      end = at + c.len_utf8();
    }
    Some(start..end)
  })
}

fn ends_token(c: char) -> bool {
  if c.is_ascii() {
    return c.is_ascii_whitespace()
      || c.is_ascii_control()
      || matches!(
        c,
        '"' | '\'' | '`' | '(' | ')' | '[' | ']' | '{' | '}' | '<' | '>' | '|' | ',' | ';' | '='
      );
  }
  !c.is_alphanumeric()
    || matches!(u32::from(c), 0x3040..=0x30ff | 0x3400..=0x9fff | 0xac00..=0xd7af | 0xe00..=0xeff)
}

/// Whether the words before an address say that packages come from it.
fn is_registry(text: &str, at: usize) -> bool {
  const WORDS: &[&str] =
    &["registry", "mirror", "index-url", "--index", "index is", "repository", "goproxy"];
  const REACH: usize = 24;
  let from = crate::detect::rules::lexicon::floor(text, at.saturating_sub(REACH));
  let before = text.get(from..at).unwrap_or_default().to_ascii_lowercase();
  WORDS.iter().any(|word| before.contains(word))
}

/// Installing by a package manager, and what.
fn packages(text: &str, mut found: impl FnMut(Range<usize>, String)) {
  static INSTALL: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
      r"(?i)(?-u:\b)(?:pipx?3? install|uv (?:pip install|add)|npm (?:install|i|add)|pnpm (?:add|install)|yarn add|npx|bunx?|cargo (?:install|add)|gem install|go install|brew install|apt(?:-get)? install|docker pull)(?: -{1,2}[a-z-]+)* +([@a-z][a-z0-9_@./:-]*)",
    )
    .ok()
  });
  if !["install", "add ", "npx ", "npm i", "bun", "pull "].iter().any(|word| text.contains(word)) {
    return;
  }
  let Some(install) = &*INSTALL else { return };
  for hit in install.captures_iter(text) {
    if let Some(name) = hit.get(1) {
      let value = name.as_str().trim_end_matches(['.', ':', '/']).to_ascii_lowercase();
      found(name.start()..name.start() + value.len(), value);
    }
  }
}

/// Output of one program run by another, fetched or decoded: `curl ... | sh`.
pub(super) fn pipes(text: &str, mut found: impl FnMut(Range<usize>)) {
  static PIPE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
      r"(?i)(?-u:\b)(?:curl|wget|fetch|base64)(?-u:\b)[^|\n;&`]{0,120}\| ?(?:sudo )?(?:ba|z|da|fi)?sh(?-u:\b)|(?-u:\b)(?:ba|z)?sh <\(curl|(?-u:\b)sh -c [\x22']?\$\(|\| ?source /dev/stdin|(?-u:\b)iex ?\(|(?-u:\b)iwr(?-u:\b)[^|\n]{0,120}\| ?iex|(?-u:\b)chmod (?:-R )?(?:0?777|a\+rwx)|--no-verify(?-u:\b)|(?-u:\b)(?:tls|ssl)[._-]?(?:no[._-]?)?verify ?[= ]|NODE_TLS_REJECT_UNAUTHORIZED|--no-auth(?-u:\b)|--insecure(?-u:\b)|--trusted-host(?-u:\b)|(?-u:\b)setenforce 0|(?-u:\b)ufw disable(?-u:\b)|(?-u:\b)rm -rf(?-u:\b)|(?-u:\b)cluster-admin(?-u:\b)",
    )
    .ok()
  });
  let bytes = text.as_bytes();
  if !bytes.iter().any(|byte| matches!(byte, b'|' | b'-' | b'_' | b'('))
    && !text.contains("ufw")
    && !text.contains("setenforce")
  {
    return;
  }
  let Some(pipe) = &*PIPE else { return };
  for hit in pipe.find_iter(text) {
    found(hit.range());
  }
}

/// Pictures whose address has a part that is to be filled in: a program that shows one sends that part away.
pub(super) fn filled_images(text: &str, mut found: impl FnMut(Range<usize>)) {
  static FILLED: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
      r"(?i)!\[[^\]\n]{0,120}\]\(https?://[^)\n]{0,200}[?&/=](?:<[^>)\n]{1,80}>|\{[^})\n]{1,80}\}|\[[^\]\n]{1,80}\])[^)\n]{0,200}\)|<img[^>\n]{0,120}src=[\x22']https?://[^\x22'\n]{0,200}[?&/=](?:\{[^}\n]{1,80}\}|\[[^\]\n]{1,80}\])",
    )
    .ok()
  });
  if !text.contains("![") && !text.contains("<img") {
    return;
  }
  let Some(filled) = &*FILLED else { return };
  for hit in filled.find_iter(text) {
    found(hit.range());
  }
}

/// Code between grave accents that has a space in it: a command rather than a name.
pub(super) fn code_spans(text: &str, mut found: impl FnMut(Range<usize>)) {
  let mut open: Option<usize> = None;
  for (at, _) in text.match_indices('`') {
    match open.take() {
      Some(start) => {
        let inside = text.get(start..at).unwrap_or_default();
        if inside.contains(' ') && !inside.contains('\n') {
          found(start..at);
        } else if inside.contains('\n') {
          open = Some(at + 1);
        }
      }
      None => open = Some(at + 1),
    }
  }
}

/// Words that begin with a capital and not a sentence: names, in scripts that have capitals. German
/// nouns are among them, so this alone is no evidence.
pub(super) fn persons(text: &str, mut found: impl FnMut(Range<usize>)) {
  let mut after_word = false;
  let mut word: Option<(usize, bool)> = None;
  for (at, c) in text.char_indices().chain([(text.len(), ' ')]) {
    if c.is_alphanumeric() || matches!(c, '\'' | '’' | '_') {
      if word.is_none() {
        word = Some((at, c.is_uppercase() && after_word));
      }
      continue;
    }
    if let Some((start, true)) = word.take()
      && at - start >= 3
    {
      found(start..at);
    }
    // A capital after a space, or after a comma, is not the start of a sentence.
    after_word = match c {
      ' ' | ',' => {
        after_word
          || text.get(..at).and_then(|t| t.chars().next_back()).is_some_and(char::is_alphanumeric)
      }
      '-' | '/' | '(' | '@' | '"' => after_word,
      _ => false,
    };
  }
}

/// The name at `span` as a slot.
pub(super) fn person(text: &str, span: Range<usize>) -> Option<Slot> {
  let value = text.get(span.clone())?.to_lowercase();
  let value = value.strip_suffix("'s").or(value.strip_suffix("’s")).unwrap_or(&value).to_owned();
  Some(Slot { kind: SlotKind::Person, span, value, novelty: Novelty::New })
}
