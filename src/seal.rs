//! Seals: the encrypted form of bytes that must not stay readable (quarantined text, images of file
//! operations, versions of files). Pure: key, nonce and salt are parameters.
//!
//! AES-256-GCM under a key per item, derived with HKDF-SHA256 from the master key, the item's salt
//! and its purpose and id. The associated data bind purpose, id, path and content hash. A seal that
//! was altered, or that is presented for another item, path or content, does not open.
//!
//! Seals do not protect against a reader of the master key, who can open every seal, or against a
//! program that writes the database, which can delete seals.
#![forbid(unsafe_code)]

use std::fmt;

use aes_gcm::{
  Aes256Gcm, KeyInit,
  aead::{Aead, Payload},
};
use hkdf::Hkdf;
use sha2::Sha256;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::memory::{ContentHash, id::hex};

/// Bytes of the master key and of each item's key: AES-256.
pub const KEY_LEN: usize = 32;
/// Bytes of a nonce: the 96 bits for which GCM is defined (NIST SP 800-38D, 5.2.1.1).
pub const NONCE_LEN: usize = 12;
/// Bytes of an item's salt: 128 bits, so that no two items share a key even if ids repeat.
pub const SALT_LEN: usize = 16;
/// Bytes of a key check value.
pub const CHECK_LEN: usize = 16;
const TAG_LEN: usize = 16;
const VERSION: u8 = 1;

/// The installation's secret. It is erased from memory on drop, and prints as nothing.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct MasterKey([u8; KEY_LEN]);

impl MasterKey {
  /// A key from bytes of the operating system's random source or of the key file.
  pub fn new(bytes: [u8; KEY_LEN]) -> Self {
    Self(bytes)
  }

  /// A fingerprint that distinguishes two keys and reveals neither: HKDF output under its own
  /// label.
  pub fn check_value(&self) -> [u8; CHECK_LEN] {
    let mut value = [0; CHECK_LEN];
    expand(&Hkdf::new(None, &self.0), b"memfw key check 1", &mut value);
    value
  }

  /// The key by which names are turned into tags.
  pub fn name_key(&self) -> NameKey {
    let mut key = [0; KEY_LEN];
    expand(&Hkdf::new(None, &self.0), b"memfw name key 1", &mut key);
    NameKey(key)
  }
}

/// The key that turns names into short tags: equal names get equal tags, and without the key nobody
/// can find the name of a tag or choose a name for a tag. It is erased from memory on drop, and
/// prints as nothing.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct NameKey([u8; KEY_LEN]);

impl NameKey {
  /// Six hexadecimal digits for a name: HMAC-SHA256 under this key, cut to 24 bits. Among a
  /// thousand names two share a tag with a chance of 3 %; the ledger has the names.
  pub fn tag(&self, name: &str) -> String {
    let mut tag = [0; 3];
    let info = joined(&[b"memfw name tag 1", name.as_bytes()]);
    // One block of HKDF's expansion is an HMAC of its input.
    expand(&Hkdf::new(None, &self.0), &info, &mut tag);
    hex(&tag)
  }
}

impl fmt::Debug for NameKey {
  fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str("NameKey(..)")
  }
}

impl fmt::Debug for MasterKey {
  fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str("MasterKey(..)")
  }
}

/// The kind of the sealed bytes. It is part of key and associated data, so that one kind cannot
/// replace another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Purpose {
  /// The bytes of a quarantined block.
  Quarantine,
  /// The placeholder of a quarantined block.
  Redacted,
  /// The bytes that a file operation replaces.
  OpBefore,
  /// The bytes that a file operation writes.
  OpAfter,
  /// A version of a memory file, or its difference to another one.
  Version,
  /// The owner's request when a text was written, and the passages of its origin that explain it.
  Request,
  /// The question to a judge about an entry.
  Question,
}

impl Purpose {
  fn as_str(self) -> &'static str {
    self.into()
  }
}

/// The context of a seal; the seal opens only if all four are equal.
#[derive(Clone, Copy, Debug)]
pub struct SealContext<'a> {
  /// What the bytes are.
  pub purpose: Purpose,
  /// The id of the item or operation.
  pub id: &'a str,
  /// The bytes of the path of the file; empty for content that belongs to no single path.
  pub path: &'a [u8],
  /// The hash of the content that the seal belongs to.
  pub hash: ContentHash,
}

impl SealContext<'_> {
  fn info(&self) -> Vec<u8> {
    joined(&[b"memfw seal", &[VERSION], self.purpose.as_str().as_bytes(), self.id.as_bytes()])
  }

  fn associated_data(&self) -> Vec<u8> {
    let purpose = self.purpose.as_str().as_bytes();
    joined(&[&[VERSION], purpose, self.id.as_bytes(), self.path, &self.hash.0])
  }
}

/// Why a seal does not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
  /// Shorter than an empty seal.
  #[error("the seal is cut short ({0} bytes)")]
  Short(usize),
  /// Made by a memfw of an unknown version.
  #[error("the seal has format {0}, this memfw knows {VERSION}")]
  Version(u8),
  /// Altered, or made with another key, or for another item, path or content.
  #[error("the seal was altered or belongs to another key, item, path or content")]
  Broken,
}

/// The sealed form of `plain`: version byte, salt, nonce, ciphertext, tag. `nonce` and `item_salt`
/// must be fresh and random for each call.
///
/// # Panics
/// With 64 GiB of plaintext, the limit of GCM.
pub fn seal(
  key: &MasterKey,
  nonce: [u8; NONCE_LEN],
  item_salt: [u8; SALT_LEN],
  context: &SealContext<'_>,
  plain: &[u8],
) -> Vec<u8> {
  let aad = context.associated_data();
  let body = cipher(key, &item_salt, context)
    .encrypt(&nonce.into(), Payload { msg: plain, aad: &aad })
    .expect("GCM encrypts anything below 64 GiB, and memory files are capped far below");
  let mut sealed = Vec::with_capacity(1 + SALT_LEN + NONCE_LEN + body.len());
  sealed.push(VERSION);
  sealed.extend_from_slice(&item_salt);
  sealed.extend_from_slice(&nonce);
  sealed.extend_from_slice(&body);
  sealed
}

/// The bytes that were sealed for exactly this context.
pub fn open(
  key: &MasterKey,
  context: &SealContext<'_>,
  sealed: &[u8],
) -> Result<Zeroizing<Vec<u8>>, SealError> {
  let short = || SealError::Short(sealed.len());
  let (&version, rest) = sealed.split_first().ok_or_else(short)?;
  if version != VERSION {
    return Err(SealError::Version(version));
  }
  let (salt, rest) = rest.split_first_chunk::<SALT_LEN>().ok_or_else(short)?;
  let (nonce, body) = rest.split_first_chunk::<NONCE_LEN>().ok_or_else(short)?;
  if body.len() < TAG_LEN {
    return Err(short());
  }
  let aad = context.associated_data();
  cipher(key, salt, context)
    .decrypt(&(*nonce).into(), Payload { msg: body, aad: &aad })
    .map(Zeroizing::new)
    .map_err(|aes_gcm::Error| SealError::Broken)
}

fn cipher(key: &MasterKey, salt: &[u8; SALT_LEN], context: &SealContext<'_>) -> Aes256Gcm {
  let mut item_key = Zeroizing::new([0; KEY_LEN]);
  expand(&Hkdf::new(Some(salt), &key.0), &context.info(), item_key.as_mut_slice());
  Aes256Gcm::new((&*item_key).into())
}

fn expand(hkdf: &Hkdf<Sha256>, info: &[u8], okm: &mut [u8]) {
  hkdf.expand(info, okm).expect("HKDF-SHA256 gives up to 8160 bytes, and 32 are asked for");
}

/// Fields with their lengths before them, so that different lists of fields give different bytes.
fn joined(fields: &[&[u8]]) -> Vec<u8> {
  let mut bytes = Vec::with_capacity(fields.iter().map(|field| field.len() + 8).sum());
  for field in fields {
    bytes.extend_from_slice(&(field.len() as u64).to_be_bytes());
    bytes.extend_from_slice(field);
  }
  bytes
}

#[cfg(test)]
mod tests {
  use proptest::prelude::*;

  use super::*;

  const NONCE: [u8; NONCE_LEN] = [7; NONCE_LEN];
  const SALT: [u8; SALT_LEN] = [9; SALT_LEN];

  /// The seal of `poison` under the key, nonce, salt and context of these tests.
  const FIRST_FORMAT: &str = "0109090909090909090909090909090909070707070707070707070707\
                              b57af507fe66b66174ef074c3f5185a73b50e849a618";

  fn key() -> MasterKey {
    MasterKey::new([1; KEY_LEN])
  }

  fn context() -> SealContext<'static> {
    SealContext {
      purpose: Purpose::Quarantine,
      id: "a1b2c3",
      path: b"/w/MEMORY.md",
      hash: ContentHash::of(b"poison"),
    }
  }

  #[test]
  fn a_seal_hides_its_text_and_opens_to_it() {
    let sealed = seal(&key(), NONCE, SALT, &context(), b"poison");
    // Version, salt, nonce and tag.
    assert_eq!(sealed.len(), b"poison".len() + 1 + SALT_LEN + NONCE_LEN + TAG_LEN);
    assert!(!sealed.windows(6).any(|window| window == b"poison"));
    assert_eq!(open(&key(), &context(), &sealed).unwrap().as_slice(), b"poison");
  }

  #[test]
  fn the_format_stays_the_one_that_is_in_databases() {
    let sealed = seal(&key(), NONCE, SALT, &context(), b"poison");
    assert_eq!(
      crate::memory::id::hex(&sealed),
      FIRST_FORMAT,
      "seals made by released versions must still open: add a version, do not change this one"
    );
  }

  #[test]
  fn every_flipped_bit_and_every_cut_is_noticed() {
    let sealed = seal(&key(), NONCE, SALT, &context(), b"poison");
    for bit in 0..sealed.len() * 8 {
      let mut altered = sealed.clone();
      altered[bit / 8] ^= 1 << (bit % 8);
      assert!(open(&key(), &context(), &altered).is_err(), "bit {bit}");
    }
    for len in 0..sealed.len() {
      assert!(open(&key(), &context(), &sealed[..len]).is_err(), "cut to {len}");
    }
  }

  #[test]
  fn another_key_purpose_id_path_or_hash_does_not_open_it() {
    let sealed = seal(&key(), NONCE, SALT, &context(), b"poison");
    let others = [
      SealContext { purpose: Purpose::OpBefore, ..context() },
      SealContext { id: "a1b2c4", ..context() },
      SealContext { path: b"/w/MEMORY.mdx", ..context() },
      SealContext { hash: ContentHash::of(b"other"), ..context() },
      // These bytes, split at another place between two fields.
      SealContext { id: "a1b2c3/", path: b"w/MEMORY.md", ..context() },
    ];
    for other in others {
      assert_eq!(open(&key(), &other, &sealed), Err(SealError::Broken), "{other:?}");
    }
    let foreign = MasterKey::new([2; KEY_LEN]);
    assert_eq!(open(&foreign, &context(), &sealed), Err(SealError::Broken));
  }

  #[test]
  fn an_unknown_format_is_named() {
    let mut sealed = seal(&key(), NONCE, SALT, &context(), b"");
    sealed[0] = 9;
    assert_eq!(open(&key(), &context(), &sealed), Err(SealError::Version(9)));
    assert_eq!(open(&key(), &context(), &[]), Err(SealError::Short(0)));
  }

  #[test]
  fn the_key_does_not_print_and_its_check_value_is_its_own() {
    let (one, two) = (MasterKey::new([0x41; KEY_LEN]), MasterKey::new([0x42; KEY_LEN]));
    assert_eq!(format!("{one:?}"), "MasterKey(..)");
    assert_eq!(one.check_value(), MasterKey::new([0x41; KEY_LEN]).check_value());
    assert_ne!(one.check_value(), two.check_value());
    assert_ne!(one.check_value(), [0x41; CHECK_LEN]);
  }

  proptest! {
    #[test]
    fn opening_a_seal_gives_back_every_text(
      key: [u8; 32], nonce: [u8; 12], salt: [u8; 16], id in "[0-9a-f]{6,16}",
      path in proptest::collection::vec(any::<u8>(), 0..40),
      plain in proptest::collection::vec(any::<u8>(), 0..2000),
    ) {
      let key = MasterKey::new(key);
      let hash = ContentHash::of(&plain);
      let context = SealContext { purpose: Purpose::OpAfter, id: &id, path: &path, hash };
      let sealed = seal(&key, nonce, salt, &context, &plain);
      let opened = open(&key, &context, &sealed).unwrap();
      prop_assert_eq!(opened.as_slice(), plain.as_slice());
    }
  }
}
