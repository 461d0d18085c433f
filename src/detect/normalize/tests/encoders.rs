//! Encoders of the tests: the product only decodes.

use miniz_oxide::deflate::{compress_to_vec, compress_to_vec_zlib};

/// Adobe's alphabet.
pub(super) const ASCII85: &[u8; 85] =
  b"!\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstu";
/// ZeroMQ's.
pub(super) const Z85: &[u8; 85] =
  b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";
/// Python's `b85encode`.
pub(super) const RFC1924: &[u8; 85] =
  b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";

/// `bits` of `bytes` a character.
fn packed(bytes: &[u8], bits: usize, alphabet: &[u8], multiple: usize) -> String {
  let mut all: Vec<u8> = bytes.iter().flat_map(|b| (0..8).rev().map(move |n| b >> n & 1)).collect();
  while !all.len().is_multiple_of(bits) {
    all.push(0);
  }
  let value = |group: &[u8]| group.iter().fold(0, |sum, bit| sum << 1 | usize::from(*bit));
  let mut out: String = all.chunks(bits).map(|group| char::from(alphabet[value(group)])).collect();
  while !out.len().is_multiple_of(multiple) {
    out.push('=');
  }
  out
}

pub(super) fn base64(bytes: &[u8]) -> String {
  packed(bytes, 6, b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", 4)
}

pub(super) fn base32(bytes: &[u8]) -> String {
  packed(bytes, 5, b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 8)
}

pub(super) fn base85(bytes: &[u8], alphabet: &[u8; 85]) -> String {
  let mut out = String::new();
  for group in bytes.chunks(4) {
    let mut four = [0; 4];
    four[..group.len()].copy_from_slice(group);
    let value = u32::from_be_bytes(four);
    let signs = [85_u32.pow(4), 85_u32.pow(3), 85_u32.pow(2), 85, 1];
    let signs = signs.map(|place| char::from(alphabet[(value / place % 85) as usize]));
    out.extend(&signs[..=group.len()]);
  }
  out
}

pub(super) fn base58(bytes: &[u8]) -> String {
  const ALPHABET: &[u8; 58] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
  let mut digits: Vec<u32> = Vec::new();
  for &byte in bytes {
    let mut carry = u32::from(byte);
    for digit in &mut digits {
      carry += *digit << 8;
      *digit = carry % 58;
      carry /= 58;
    }
    while carry > 0 {
      digits.push(carry % 58);
      carry /= 58;
    }
  }
  digits.iter().rev().map(|digit| char::from(ALPHABET[*digit as usize])).collect()
}

pub(super) fn uuencode(bytes: &[u8]) -> String {
  let sign = |value: u8| if value == 0 { '`' } else { char::from(value + 32) };
  let mut out = "begin 644 note.txt\n".to_owned();
  for line in bytes.chunks(45) {
    out.push(sign(line.len() as u8));
    for group in line.chunks(3) {
      let mut three = [0; 3];
      three[..group.len()].copy_from_slice(group);
      let [a, b, c] = three;
      out.extend([a >> 2, (a & 3) << 4 | b >> 4, (b & 15) << 2 | c >> 6, c & 63].map(sign));
    }
    out.push('\n');
  }
  out + "`\nend\n"
}

pub(super) fn morse(text: &str) -> String {
  const CODES: [&str; 26] = [
    ".-", "-...", "-.-.", "-..", ".", "..-.", "--.", "....", "..", ".---", "-.-", ".-..", "--",
    "-.", "---", ".--.", "--.-", ".-.", "...", "-", "..-", "...-", ".--", "-..-", "-.--", "--..",
  ];
  let word = |word: &str| {
    let letters = word.chars().filter(char::is_ascii_alphabetic);
    letters.map(|c| CODES[c.to_ascii_lowercase() as usize - 97]).collect::<Vec<_>>().join(" ")
  };
  text.split(' ').map(word).collect::<Vec<_>>().join(" / ")
}

pub(super) fn zlib(bytes: &[u8]) -> Vec<u8> {
  compress_to_vec_zlib(bytes, 6)
}

pub(super) fn deflate(bytes: &[u8]) -> Vec<u8> {
  compress_to_vec(bytes, 6)
}

pub(super) fn gzip(bytes: &[u8]) -> Vec<u8> {
  let mut out = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3];
  out.extend(deflate(bytes));
  // A checksum and the length end it; the decoder does not read the checksum.
  out.extend([0; 4]);
  out.extend((bytes.len() as u32).to_le_bytes());
  out
}
