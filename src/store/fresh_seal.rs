//! Seals bytes with a nonce that was never used before.
#![forbid(unsafe_code)]

use super::{StoreError, error::Fault};
use crate::{
  seal,
  seal::{MasterKey, NONCE_LEN, SALT_LEN, SealContext},
};

/// Seals with nonce and salt from the operating system.
pub(super) fn seal_fresh(
  key: &MasterKey,
  context: &SealContext<'_>,
  bytes: &[u8],
) -> Result<Vec<u8>, Fault> {
  // AES-GCM is broken if a nonce is used twice with one key.
  let (mut nonce, mut salt) = ([0; NONCE_LEN], [0; SALT_LEN]);
  let filled = getrandom::fill(&mut nonce).and_then(|()| getrandom::fill(&mut salt));
  filled.map_err(|error| StoreError::NoRandom { detail: error.to_string() })?;
  Ok(seal::seal(key, nonce, salt, context, bytes))
}
