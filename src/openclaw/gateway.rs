//! The names by which OpenClaw's gateway runs under systemd (2026.9.6: `src/daemon/constants.ts`).
//!
//! The names only: whether such a unit exists, and what it says, is the service manager's business.
#![forbid(unsafe_code)]

use super::layout::is_profile;

/// The unit of the gateway of a profile; `None` is the default one. A name that OpenClaw would not accept
/// for a profile has none.
pub fn unit(profile: Option<&str>) -> Option<String> {
  match profile.map(str::trim) {
    None | Some("") => Some("openclaw-gateway.service".to_owned()),
    Some(name) if name.eq_ignore_ascii_case("default") => unit(None),
    Some(name) => is_profile(name).then(|| format!("openclaw-gateway-{name}.service")),
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn units_are_named_as_openclaw_names_them() {
    for (profile, name) in [
      (None, Some("openclaw-gateway.service")),
      (Some(" Default "), Some("openclaw-gateway.service")),
      (Some("work"), Some("openclaw-gateway-work.service")),
      (Some("a b.service\n[Service]"), None),
    ] {
      assert_eq!(unit(profile).as_deref(), name);
    }
  }
}
