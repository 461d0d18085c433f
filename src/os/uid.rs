//! Whose process this is.
#![forbid(unsafe_code)]

/// The effective uid of this process.
pub fn effective_uid() -> u32 {
  rustix::process::geteuid().as_raw()
}
