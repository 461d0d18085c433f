//! The files of the model: embedded, and whether they are what was shipped.
//!
//! Invariant: no byte of a file is used that does not have the digest beside it. A file that is
//! empty is missing.
#![forbid(unsafe_code)]

use sha2::{Digest as _, Sha256};

use super::Damage;
use crate::memory::id::hex;

/// The bytes of all files.
#[derive(Clone, Copy, Debug)]
pub struct Files {
  /// `heads.bin`.
  pub heads: &'static [u8],
  /// `fusion.toml`.
  pub fusion: &'static [u8],
  /// `encoder.onnx.zst`.
  pub encoder: &'static [u8],
  /// `authority.onnx.zst`.
  pub authority: &'static [u8],
  /// `authority.bin`.
  pub context: &'static [u8],
  /// `authority.toml`.
  pub power: &'static [u8],
  /// `vocabulary.txt`.
  pub vocabulary: &'static [u8],
  /// `DIGESTS`: lines of a SHA-256 in hex, two spaces, and a name, as `sha256sum` writes them.
  pub digests: &'static str,
}

/// What is in the binary.
pub static EMBEDDED: Files = Files {
  heads: include_bytes!("../../../models/heads.bin"),
  fusion: include_bytes!("../../../models/fusion.toml"),
  encoder: include_bytes!("../../../models/encoder.onnx.zst"),
  authority: include_bytes!("../../../models/authority.onnx.zst"),
  context: include_bytes!("../../../models/authority.bin"),
  power: include_bytes!("../../../models/authority.toml"),
  vocabulary: include_bytes!("../../../models/vocabulary.txt"),
  digests: include_str!("../../../models/DIGESTS"),
};

/// The version of the arithmetic: increased when equal files give a text other bits
/// (`every_processor_gives_these_bits` shows it), so that older results are not reused.
const ARITHMETIC: u8 = 2;

impl Files {
  /// The version of the model: eight digits of what all its digests hash to, and how it is computed.
  pub fn version(&self) -> String {
    let all = Sha256::new().chain_update(self.digests).chain_update([ARITHMETIC]).finalize();
    let all: [u8; 32] = all.into();
    hex(all.first_chunk::<4>().unwrap_or(&[0; 4]))
  }

  /// `heads.bin`, if its digest is the shipped one; likewise for the other files.
  pub fn heads(&self) -> Result<&'static [u8], Damage> {
    self.checked("heads.bin", self.heads)
  }

  /// `fusion.toml`.
  pub fn fusion(&self) -> Result<&'static [u8], Damage> {
    self.checked("fusion.toml", self.fusion)
  }

  /// `encoder.onnx.zst`.
  pub fn encoder(&self) -> Result<&'static [u8], Damage> {
    self.checked("encoder.onnx.zst", self.encoder)
  }

  /// `authority.onnx.zst`.
  pub fn authority(&self) -> Result<&'static [u8], Damage> {
    self.checked("authority.onnx.zst", self.authority)
  }

  /// `authority.bin`.
  pub fn context(&self) -> Result<&'static [u8], Damage> {
    self.checked("authority.bin", self.context)
  }

  /// `authority.toml`.
  pub fn power(&self) -> Result<&'static [u8], Damage> {
    self.checked("authority.toml", self.power)
  }

  /// `vocabulary.txt`.
  pub fn vocabulary(&self) -> Result<&'static [u8], Damage> {
    self.checked("vocabulary.txt", self.vocabulary)
  }

  fn checked(&self, name: &'static str, bytes: &'static [u8]) -> Result<&'static [u8], Damage> {
    if bytes.is_empty() {
      return Err(Damage::new(name, "it is missing"));
    }
    let mut lines = self.digests.lines().filter_map(|line| line.split_once("  "));
    let digest = lines.find(|(_, listed)| *listed == name).map(|(digest, _)| digest);
    let found: [u8; 32] = Sha256::digest(bytes).into();
    match digest {
      None => Err(Damage::new(name, "no digest of it was shipped")),
      Some(digest) if digest == hex(&found) => Ok(bytes),
      Some(_) => Err(Damage::new(name, "it is not what was shipped")),
    }
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn what_is_embedded_is_what_was_shipped() {
    let files = EMBEDDED;
    let all = [
      files.heads(),
      files.fusion(),
      files.encoder(),
      files.authority(),
      files.context(),
      files.power(),
      files.vocabulary(),
    ];
    for file in all {
      assert!(file.is_ok_and(|bytes| !bytes.is_empty()), "{file:?}");
    }
    assert_eq!(files.version().len(), 8);
  }

  #[test]
  fn a_byte_of_another_file_is_never_used() {
    let missing = Files { encoder: b"", ..EMBEDDED };
    let missing = missing.encoder().unwrap_err();
    assert_eq!(missing.to_string(), "`encoder.onnx.zst` of the model is damaged: it is missing");
    let swapped = Files { heads: EMBEDDED.fusion, ..EMBEDDED };
    assert!(swapped.heads().is_err() && swapped.fusion().is_ok());
    let unlisted = Files { digests: "", ..EMBEDDED };
    assert!(unlisted.heads().is_err());
    assert_ne!(unlisted.version(), EMBEDDED.version());
  }
}
