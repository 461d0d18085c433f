//! Signatures of skills: a list of the hashes of all files, signed by minisign.
//!
//! One signature must cover every file, because a skill is its programs as much as its text. The list has the form of
//! `sha256sum`, so that it is made and checked without memfw.
//!
//! Invariant: a signature is valid only if the list names every file of the manifest except list and signature
//! themselves and what an installer writes, each with its hash, and nothing else.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use super::{EntryKind, Manifest};
use crate::hash::{ContentHash, from_hex, hex};

/// The list of hashes, in the directory of the skill.
pub const LIST: &str = "SKILL.sha256";
/// The signature of the list.
pub const SIGNATURE: &str = "SKILL.sha256.minisig";
/// The most lines of a list; more files than a manifest has.
const MAX_LINES: usize = 10_000;
/// The most bytes of a signature that are parsed; real ones have some 300.
const MAX_SIGNATURE_BYTES: usize = 8192;
/// The bytes of a public key: two of the algorithm, eight of the id, 32 of the key.
const KEY_BYTES: usize = 42;

/// A public key of minisign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey {
  id: String,
  text: String,
}

impl PublicKey {
  /// A key from its line of base64, or from a whole file of minisign; `None` for anything else.
  pub fn parse(text: &str) -> Option<Self> {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next()?;
    let text = if first.starts_with("untrusted comment:") { lines.next()? } else { first };
    if lines.next().is_some() {
      return None;
    }
    minisign_verify::PublicKey::from_base64(text).ok()?;
    let bytes = base64(text)?;
    // minisign prints the id as a number whose lowest byte comes first.
    let id = (bytes.len() == KEY_BYTES).then(|| bytes.get(2..10))??;
    let id: Vec<u8> = id.iter().rev().copied().collect();
    let id = hex(&id).to_ascii_uppercase();
    Some(Self { id, text: text.to_owned() })
  }

  /// Its id, as minisign prints it: 16 hex digits.
  pub fn id(&self) -> &str {
    &self.id
  }

  /// Its line of base64.
  pub fn text(&self) -> &str {
    &self.text
  }
}

/// What is known about who signed a skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Signature {
  /// There is none.
  None,
  /// A trusted key with this id has signed all files.
  Valid(String),
  /// None of the trusted keys has made it.
  Unknown,
  /// A trusted key with this id has signed other files, in memfw's words.
  Broken(String, &'static str),
}

impl Signature {
  /// The word used in the ledger and in JSON.
  pub const fn as_str(&self) -> &'static str {
    match self {
      Self::None => "none",
      Self::Valid(_) => "valid",
      Self::Unknown => "unknown",
      Self::Broken(..) => "broken",
    }
  }

  /// The id of the trusted key that made it.
  pub fn key(&self) -> Option<&str> {
    match self {
      Self::Valid(id) | Self::Broken(id, _) => Some(id),
      Self::None | Self::Unknown => None,
    }
  }

  /// Whether it is valid.
  pub const fn is_valid(&self) -> bool {
    matches!(self, Self::Valid(_))
  }
}

/// Checks the signature of a skill. `list` and `signature` are the contents of the two files, and `besides` the files
/// that an installer writes beside those of the author.
pub fn check(
  manifest: &Manifest,
  list: Option<&[u8]>,
  signature: Option<&[u8]>,
  besides: &[&str],
  keys: &[PublicKey],
) -> Signature {
  let Some(signature) = signature else { return Signature::None };
  let list = list.unwrap_or_default();
  let text = std::str::from_utf8(signature).ok().filter(|text| text.len() <= MAX_SIGNATURE_BYTES);
  let signature = text.and_then(|text| minisign_verify::Signature::decode(text).ok());
  let Some(signature) = signature else { return Signature::Unknown };
  let is_by = |key: &&PublicKey| {
    let key = minisign_verify::PublicKey::from_base64(&key.text);
    key.is_ok_and(|key| key.verify(list, &signature, true).is_ok())
  };
  let Some(key) = keys.iter().find(is_by) else { return Signature::Unknown };
  match covers(manifest, list, besides) {
    Ok(()) => Signature::Valid(key.id.clone()),
    Err(why) => Signature::Broken(key.id.clone(), why),
  }
}

/// Whether a list names exactly the files of a manifest.
fn covers(manifest: &Manifest, list: &[u8], besides: &[&str]) -> Result<(), &'static str> {
  let mut listed = parse(list).ok_or("the signed list cannot be read")?;
  if manifest.excess.is_some() {
    return Err("not every file can be checked");
  }
  for (path, entry) in manifest.entries() {
    let is_beside = |name: &&str| name.as_bytes() == path;
    if [LIST, SIGNATURE].iter().chain(besides).any(is_beside) && entry.kind == EntryKind::File {
      listed.remove(path);
      continue;
    }
    match listed.remove(path) {
      None => return Err("a file is not in the signed list"),
      Some(hash) if entry.kind.is_read() && hash == entry.hash => {}
      Some(_) => return Err("a file is not as it was signed"),
    }
  }
  if listed.is_empty() { Ok(()) } else { Err("a file of the signed list is missing") }
}

/// The lines of a list in the form of `sha256sum`; `None` if any line has another form. Names with a line end, which
/// `sha256sum` writes in a form of its own, cannot be signed.
fn parse(list: &[u8]) -> Option<BTreeMap<&[u8], ContentHash>> {
  let mut listed = BTreeMap::new();
  let lines = list.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
  for (n, line) in lines.enumerate() {
    let (digits, rest) = line.split_at_checked(64)?;
    let hash = ContentHash::from_slice(&from_hex(std::str::from_utf8(digits).ok()?)?)?;
    let path = rest.strip_prefix(b"  ").or_else(|| rest.strip_prefix(b" *"))?;
    let path = path.strip_prefix(b"./").unwrap_or(path);
    if n >= MAX_LINES || path.is_empty() || listed.insert(path, hash).is_some() {
      return None;
    }
  }
  Some(listed)
}

/// The bytes of base64 with padding; `None` for anything else.
fn base64(text: &str) -> Option<Vec<u8>> {
  let mut bytes = Vec::new();
  let (mut bits, mut n_bits) = (0_u32, 0_u32);
  for byte in text.trim_end_matches('=').bytes() {
    let value = match byte {
      b'A'..=b'Z' => byte - b'A',
      b'a'..=b'z' => byte - b'a' + 26,
      b'0'..=b'9' => byte - b'0' + 52,
      b'+' => 62,
      b'/' => 63,
      _ => return None,
    };
    bits = (bits << 6 | u32::from(value)) & 0xFFFF;
    n_bits += 6;
    if n_bits >= 8 {
      n_bits -= 8;
      bytes.push((bits >> n_bits & 0xFF) as u8);
    }
  }
  Some(bytes)
}

#[cfg(test)]
mod tests {
  use proptest::prelude::*;

  use super::*;
  use crate::skill::Entry;

  /// Two keys, and what the first one has signed, made with another implementation of Ed25519 and BLAKE2b.
  const KEY: &str = "RWQHBwcHBwcHAepKbGPinFIKvvVQexMuxfmVR3auvr57kkIe6mkURtIs";
  const OTHER: &str = "RWQJCQkJCQkJAf0XJDhaoMdbZPt4zWAvodmR/ev3axPFjtcC6sg16fYY";
  const SIGNED: &str = "f3fc2a5fe70aba7427e2e86e6534e8aef1651dd7a69823d2b05bc1244983ad5b  ./SKILL.md\n\
    c7eee0a452d7d19f1a3bd83495c04629619f28826dcd423abc4b34deb8c5e1e9  ./run.sh\n";
  const BY: &str = "untrusted comment: signature\n\
    RUQHBwcHBwcHAbCxFXCC6238+zq4ytKY79eiPcyXNxuLp4yOZv78zdk6l4P8tGMMdpaoFgUjFuOg5cyrHHJBt82EUsNimLkBPQQ=\n\
    trusted comment: timestamp:1\tfile:SKILL.sha256\thashed\n\
    zRXxCCQQdqwsa02P/P9pMc2tAay3ObQyn9COz5d8V4cHAWFawxtb+K+aVqcseJpeb34LvvBxnYtdum2OojUBCw==\n";

  fn key(text: &str) -> PublicKey {
    PublicKey::parse(text).unwrap()
  }

  fn skill(files: &[(&str, EntryKind, &str)]) -> Manifest {
    let mut manifest = Manifest::default();
    for (path, kind, text) in files {
      manifest.insert(path.as_bytes(), Entry::of(*kind, text.as_bytes()));
    }
    manifest
  }

  const TEXT: (&str, EntryKind, &str) = ("SKILL.md", EntryKind::File, "# Weather\n");
  const PROGRAM: (&str, EntryKind, &str) = ("run.sh", EntryKind::Program, "echo sunny\n");
  const FILES: [(&str, EntryKind, &str); 2] =
    [(LIST, EntryKind::File, "list"), (SIGNATURE, EntryKind::File, "signature")];

  fn checked(files: &[(&str, EntryKind, &str)], keys: &[&str]) -> Signature {
    let keys: Vec<PublicKey> = keys.iter().map(|text| key(text)).collect();
    let all: Vec<_> = FILES.iter().chain(files).copied().collect();
    check(&skill(&all), Some(SIGNED.as_bytes()), Some(BY.as_bytes()), &[".hub/origin.json"], &keys)
  }

  #[test]
  fn a_signature_covers_every_file_or_is_broken() {
    let origin = (".hub/origin.json", EntryKind::File, "{}");
    let id = "0107070707070707".to_owned();
    assert_eq!(checked(&[TEXT, PROGRAM], &[OTHER, KEY]), Signature::Valid(id.clone()));
    assert_eq!(checked(&[TEXT, PROGRAM, origin], &[KEY]), Signature::Valid(id));
    assert_eq!(checked(&[TEXT, PROGRAM], &[OTHER]), Signature::Unknown);
    assert_eq!(checked(&[TEXT, PROGRAM], &[]), Signature::Unknown);
    for files in [
      &[TEXT][..],
      &[TEXT, ("run.sh", EntryKind::Program, "rm -r ~\n")],
      &[TEXT, PROGRAM, ("more.md", EntryKind::File, "more")],
      &[TEXT, PROGRAM, ("more.md", EntryKind::Link, "run.sh")],
      &[TEXT, ("run.sh", EntryKind::Link, "echo sunny\n")],
      &[TEXT, PROGRAM, (".hub/origin.json", EntryKind::Program, "{}")],
    ] {
      let found = checked(files, &[KEY]);
      assert!(matches!(found, Signature::Broken(..)), "{files:?}: {found:?}");
    }
  }

  #[test]
  fn another_list_or_comment_is_not_what_was_signed() {
    let manifest = skill(&[TEXT, PROGRAM]);
    let by = |list: Option<&str>, signature: Option<&str>| {
      check(&manifest, list.map(str::as_bytes), signature.map(str::as_bytes), &[], &[key(KEY)])
    };
    assert!(by(Some(SIGNED), Some(BY)).is_valid());
    assert_eq!(by(Some(SIGNED), None), Signature::None);
    assert_eq!(by(None, Some(BY)), Signature::Unknown);
    assert_eq!(by(Some(&SIGNED.replace("run", "fun")), Some(BY)), Signature::Unknown);
    assert_eq!(
      by(Some(SIGNED), Some(&BY.replace("timestamp:1", "timestamp:2"))),
      Signature::Unknown
    );
    assert_eq!(by(Some(SIGNED), Some("nothing")), Signature::Unknown);
  }

  #[test]
  fn a_list_has_one_form() {
    let hash = "0".repeat(64);
    let n = |text: String| parse(text.as_bytes()).map(|listed| listed.len());
    assert_eq!(n(format!("{hash}  a\n{hash} *./b\n")), Some(2));
    for wrong in [
      format!("{hash}  a\n{hash}  ./a\n"),
      format!("\\{hash}  a\\nb\n"),
      format!("{hash} a\n"),
      format!("{hash}  \n"),
      hash.clone(),
      "short  a".to_owned(),
    ] {
      assert_eq!(n(wrong.clone()), None, "{wrong}");
    }
  }

  #[test]
  fn a_key_comes_from_its_line_or_its_file() {
    let file = format!("untrusted comment: minisign public key 0107070707070707\n{KEY}\n");
    assert_eq!(key(&file), key(KEY));
    assert_eq!((key(KEY).id(), key(KEY).text()), ("0107070707070707", KEY));
    for wrong in
      ["", "RWQ", &KEY.replace("RWQ", "RQ"), &format!("{KEY}\n{KEY}"), "untrusted comment: x\n"]
    {
      assert_eq!(PublicKey::parse(wrong), None, "{wrong}");
    }
  }

  proptest! {
    #[test]
    fn any_bytes_are_answered(
      list in prop::collection::vec(any::<u8>(), 0..200),
      signature in prop::collection::vec(any::<u8>(), 0..200),
      lines in "(untrusted comment: |trusted comment: |[A-Za-z0-9+/=]{0,100}|\\PC|\n){0,8}",
    ) {
      let keys = [key(KEY)];
      for signature in [signature.as_slice(), lines.as_bytes()] {
        let found = check(&Manifest::default(), Some(&list), Some(signature), &[], &keys);
        prop_assert_eq!(found, Signature::Unknown);
      }
      let _key = PublicKey::parse(&lines);
    }
  }
}
