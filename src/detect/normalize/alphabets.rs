//! Encodings in signs: base85 in three alphabets, base58, uuencode, quoted-printable, escapes, Morse.
//!
//! Each stops at the first group that cannot be text, so text in no such encoding costs next to
//! nothing.
#![forbid(unsafe_code)]

use std::ops::Range;

/// A shorter word carries no instruction.
const MIN_WORD: usize = 25;
/// A longer word is cut.
const MAX_WORD: usize = 64 * 1024;
/// Base58 is one large number, and to read it is quadratic.
const MAX_BASE58: usize = 256;
/// Base58 words that are read in one text, at most.
const MAX_NUMBERS: usize = 64;
/// So many letters must be escaped; texts have a few escapes.
const MIN_ESCAPES: usize = 6;

const ASCII85: &[u8; 85] =
  b"!\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstu";
/// ZeroMQ, RFC 32.
const Z85: &[u8; 85] =
  b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";
/// RFC 1924, and Python's `b85encode`.
const RFC1924: &[u8; 85] =
  b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";
/// Bitcoin's.
const BASE58: &[u8; 58] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
const MORSE: [&str; 26] = [
  ".-", "-...", "-.-.", "-..", ".", "..-.", "--.", "....", "..", ".---", "-.-", ".-..", "--", "-.",
  "---", ".--.", "--.-", ".-.", "...", "-", "..-", "...-", ".--", "-..-", "-.--", "--..",
];

/// Bytes that a passage may encode.
pub(super) type Candidate = (Range<usize>, Vec<u8>);

/// The long words of `text`, as base85 and base58.
pub(super) fn long_words(text: &str) -> Vec<Candidate> {
  let mut found = Vec::new();
  let mut numbers = 0;
  let start_of = |word: &str| word.as_ptr() as usize - text.as_ptr() as usize;
  for word in text.split_ascii_whitespace().filter(|word| word.len() >= MIN_WORD) {
    let start = start_of(word);
    let span = start..start + word.len();
    let bytes = word.as_bytes().get(..MAX_WORD).unwrap_or(word.as_bytes());
    let adobe = bytes.strip_prefix(b"<~").unwrap_or(bytes);
    let adobe = adobe.split(|byte| *byte == b'~').next().unwrap_or_default();
    for (word, alphabet) in [(adobe, ASCII85), (bytes, Z85), (bytes, RFC1924)] {
      // It may be in quotation marks, which one of the alphabets has, too.
      let bare = word
        .strip_prefix(b"\"")
        .or_else(|| word.strip_prefix(b"'"))
        .or_else(|| word.strip_prefix(b"`"));
      let bare = bare.map(|bare| bare.get(..bare.len().saturating_sub(1)).unwrap_or_default());
      let decoded = base85(word, alphabet).or_else(|| base85(bare?, alphabet));
      found.extend(decoded.map(|bytes| (span.clone(), bytes)));
    }
    let core = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    if numbers < MAX_NUMBERS && core.len() <= MAX_BASE58 && is_mixed(core.as_bytes()) {
      let decoded = base58(core.as_bytes());
      numbers += usize::from(decoded.is_some());
      found.extend(decoded.map(|bytes| (span.clone(), bytes)));
    }
  }
  found
}

/// Whether it contains letters of both cases and digits.
pub(super) fn is_mixed(word: &[u8]) -> bool {
  word.iter().any(u8::is_ascii_lowercase)
    && word.iter().any(u8::is_ascii_uppercase)
    && word.iter().any(u8::is_ascii_digit)
}

fn value(alphabet: &[u8], byte: u8) -> Option<u32> {
  alphabet.iter().position(|one| *one == byte).map(|at| at as u32)
}

fn base85(word: &[u8], alphabet: &[u8; 85]) -> Option<Vec<u8>> {
  let mut out = Vec::new();
  for group in word.chunks(5) {
    let mut number = 0_u32;
    for byte in group.iter().copied().map(Some).chain(std::iter::repeat(None)).take(5) {
      // A short last group is filled up with the highest sign.
      let value = byte.map_or(Some(84), |byte| value(alphabet, byte))?;
      number = number.checked_mul(85)?.checked_add(value)?;
    }
    let bytes = number.to_be_bytes();
    let bytes = bytes.get(..group.len().saturating_sub(1))?;
    if !bytes.iter().all(|byte| may_be_text(*byte)) {
      return None;
    }
    out.extend_from_slice(bytes);
  }
  (out.len() >= MIN_WORD / 2).then_some(out)
}

fn base58(word: &[u8]) -> Option<Vec<u8>> {
  // Lowest byte first.
  let mut out: Vec<u8> = Vec::new();
  for &byte in word {
    let mut carry = value(BASE58, byte)?;
    for byte in &mut out {
      carry += u32::from(*byte) * 58;
      *byte = carry as u8;
      carry >>= 8;
    }
    while carry > 0 {
      out.push(carry as u8);
      carry >>= 8;
    }
  }
  out.reverse();
  out.iter().all(|byte| may_be_text(*byte)).then_some(out)
}

const fn may_be_text(byte: u8) -> bool {
  byte >= 0x20 && byte != 0x7f || matches!(byte, b'\n' | b'\r' | b'\t')
}

/// Lines that have the length that their first sign says; several in a row are one text.
pub(super) fn uuencoded(text: &str) -> Vec<Candidate> {
  let mut found: Vec<Candidate> = Vec::new();
  let mut is_open = false;
  let mut start = 0;
  for line in text.split_inclusive('\n') {
    let at = start;
    start += line.len();
    let line = line.trim_end_matches(['\n', '\r']).as_bytes();
    let decoded = line.split_first().and_then(|(first, body)| {
      let length = usize::from(first.checked_sub(0x20)?);
      (length > 0 && length <= 45 && body.len() == length.div_ceil(3) * 4)
        .then(|| uu_line(body, length))
        .flatten()
    });
    let is_more = is_open;
    is_open = decoded.is_some();
    let Some(bytes) = decoded else { continue };
    let end = at + line.len();
    match found.last_mut().filter(|_| is_more) {
      Some((span, said)) => {
        span.end = end;
        said.extend(bytes);
      }
      None => found.push((at..end, bytes)),
    }
  }
  found
}

fn uu_line(body: &[u8], length: usize) -> Option<Vec<u8>> {
  let mut out = Vec::with_capacity(length + 2);
  for group in body.chunks_exact(4) {
    let mut bits = 0_u32;
    for byte in group {
      bits = bits << 6 | matches!(byte, 0x20..=0x60).then(|| u32::from(byte - 0x20) & 63)?;
    }
    out.extend_from_slice(bits.to_be_bytes().get(1..)?);
  }
  out.truncate(length);
  out.iter().all(|byte| may_be_text(*byte)).then_some(out)
}

/// The text with its escapes resolved, where letters are escaped: `=49`, `\x49`, `\u0049`, `\u{49}`, `\111`.
pub(super) fn escapes(text: &str, sign: u8) -> Option<Candidate> {
  let bytes = text.as_bytes();
  let mut out = Vec::with_capacity(bytes.len());
  let mut span: Option<Range<usize>> = None;
  let mut letters = 0;
  let mut at = 0;
  while let Some(&byte) = bytes.get(at) {
    let escape =
      (byte == sign).then(|| escape(bytes.get(at + 1..).unwrap_or_default(), sign)).flatten();
    if let Some((c, length)) = escape {
      letters += usize::from(c.is_alphabetic());
      let mut buffer = [0; 4];
      match u8::try_from(u32::from(c)) {
        // Bytes of UTF-8 are escaped one by one.
        Ok(byte) if length < 4 => out.push(byte),
        _ => out.extend_from_slice(c.encode_utf8(&mut buffer).as_bytes()),
      }
      span.get_or_insert(at..at).end = at + 1 + length;
      at += 1 + length;
      continue;
    }
    // Soft line breaks.
    if byte == b'=' && sign == b'=' && matches!(bytes.get(at + 1), Some(b'\r' | b'\n')) {
      at += 2;
      continue;
    }
    out.push(byte);
    at += 1;
  }
  (letters >= MIN_ESCAPES).then_some((span?, out))
}

/// The character that is escaped behind the sign, and how long that is.
fn escape(rest: &[u8], sign: u8) -> Option<(char, usize)> {
  let hex = |digits: &[u8]| {
    let text = std::str::from_utf8(digits).ok().filter(|text| !text.starts_with('+'))?;
    u32::from_str_radix(text, 16).ok().and_then(char::from_u32)
  };
  match rest {
    [a, b, ..] if sign == b'=' => {
      let upper = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'A'..=b'F');
      (upper(a) && upper(b)).then(|| hex(&[*a, *b])).flatten().map(|c| (c, 2))
    }
    [b'x', a, b, ..] => hex(&[*a, *b]).map(|c| (c, 3)),
    [b'u', b'{', tail @ ..] => {
      let length = tail.iter().take(7).position(|byte| *byte == b'}')?;
      hex(tail.get(..length)?).map(|c| (c, length + 3))
    }
    [b'u', a, b, c, d, ..] => hex(&[*a, *b, *c, *d]).map(|c| (c, 5)),
    [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', ..] => {
      Some((char::from((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0')), 3))
    }
    _ => None,
  }
}

/// Words of dots and dashes.
pub(super) fn morse(text: &str) -> Vec<(Range<usize>, String)> {
  const MIN_LETTERS: usize = 16;
  let mut found = Vec::new();
  let is_sign = |c: char| matches!(c, '.' | '-' | '·' | '−' | '–' | '/' | '|' | ' ' | '\n');
  // A letter is a sign and a gap at least. Nearly every part is shorter: it is the space between two words.
  let parts = text.split(|c: char| !is_sign(c)).filter(|part| part.len() >= 2 * MIN_LETTERS - 1);
  for part in parts {
    let at = part.as_ptr() as usize - text.as_ptr() as usize;
    let mut said = String::new();
    let mut letters = 0;
    for word in part.split(['/', '|', '\n']).flat_map(|part| part.split("   ")) {
      for sign in word.split_whitespace() {
        let plain: String =
          sign.chars().map(|c| if matches!(c, '.' | '·') { '.' } else { '-' }).collect();
        let letter = (b'A'..)
          .zip(MORSE)
          .find(|(_, code)| *code == plain)
          .map(|(letter, _)| char::from(letter));
        letters += usize::from(letter.is_some());
        said.extend(letter);
      }
      said.push(' ');
    }
    if letters >= MIN_LETTERS {
      found.push((at..at + part.len(), said.to_lowercase()));
    }
  }
  found
}

/// The bytes of a word in one of the alphabets of RFC 4648, sections 4 and 5, up to the first `=`.
pub(super) fn values(run: &[u8]) -> Option<Vec<u8>> {
  let body = run.split(|b| *b == b'=').next().unwrap_or_default();
  if body.len() % 4 == 1 {
    return None;
  }
  let mut out = Vec::with_capacity(body.len() / 4 * 3 + 3);
  let mut bits = 0_u32;
  let mut held = 0_u32;
  for &byte in body {
    let value = match byte {
      b'A'..=b'Z' => byte - b'A',
      b'a'..=b'z' => byte - b'a' + 26,
      b'0'..=b'9' => byte - b'0' + 52,
      b'+' | b'-' => 62,
      b'/' | b'_' => 63,
      _ => return None,
    };
    bits = bits << 6 | u32::from(value);
    held += 6;
    if held >= 8 {
      held -= 8;
      out.push((bits >> held) as u8);
      bits &= (1 << held) - 1;
    }
  }
  Some(out)
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn numbers_and_signs_are_no_text() {
    for text in [
      "https://example.test/a/long/path?and=a&query=of-it",
      "1BoatSLRHtKNngkdXEeobR76b53LETtpyT",
      "a-very-long-name-of-a-branch-or-a-file",
    ] {
      assert!(
        !long_words(text).iter().any(|(_, bytes)| {
          std::str::from_utf8(bytes).is_ok_and(super::super::language::is_language)
        }),
        "{text}"
      );
    }
    assert!(uuencoded("A line of text that is as long as any other one.\nAnd more.").is_empty());
    assert_eq!(escapes("caf=C3=A9 =3D 3", b'='), None);
    assert_eq!(escapes(r"\u001b[31m \n \\server\new", b'\\'), None);
    assert!(morse("--- a - b ... - - -- | ---|---|---|").is_empty());
  }
}
