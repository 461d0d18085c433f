//! The number of files that this process may have open.
#![forbid(unsafe_code)]

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit to `wanted`, as far as the hard limit allows; returns the new limit.
pub fn raise(wanted: u64) -> u64 {
  let limit = getrlimit(Resource::Nofile);
  let most = limit.maximum.unwrap_or(wanted).min(wanted);
  let now = limit.current.unwrap_or(wanted);
  if now >= most {
    return now;
  }
  let raised = Rlimit { current: Some(most), maximum: limit.maximum };
  match setrlimit(Resource::Nofile, raised) {
    Ok(()) => most,
    Err(_) => now,
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn a_limit_is_raised_and_never_lowered() {
    let before = getrlimit(Resource::Nofile).current;
    let now = before.unwrap_or(u64::MAX);
    assert_eq!(raise(1), before.unwrap_or(1));
    let raised = raise(now.saturating_add(1));
    assert!(raised >= now);
    assert_eq!(getrlimit(Resource::Nofile).current.unwrap_or(raised), raised);
  }
}
