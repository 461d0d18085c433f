//! Random bytes from the operating system: ids, nonces, the master key.
#![forbid(unsafe_code)]

/// The operating system gave no random bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the system gives no random bytes: {0}")]
pub struct RandomError(#[source] getrandom::Error);

/// Fills `bytes`.
pub fn fill(bytes: &mut [u8]) -> Result<(), RandomError> {
  getrandom::fill(bytes).map_err(RandomError)
}

/// `N` random bytes.
pub fn array<const N: usize>() -> Result<[u8; N], RandomError> {
  let mut bytes = [0; N];
  fill(&mut bytes)?;
  Ok(bytes)
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn two_draws_differ() {
    assert_ne!(array::<16>().unwrap(), array::<16>().unwrap());
  }
}
