//! Which OpenClaw a command is about, where memfw guards several.
#![forbid(unsafe_code)]

use crate::{
  app::{
    agent::{installations, profile_dir},
    context::Context,
  },
  engine::event::shown,
  openclaw::Installation,
  terminal::{escape::terminal, failure::Failure},
};

/// All installations of OpenClaw, or the one of a profile.
pub(super) fn all_of(
  context: &Context,
  profile: Option<&str>,
) -> Result<Vec<Installation>, Failure> {
  let config = context.config()?.config;
  let env = &context.surroundings.env;
  let found = installations(env, &config);
  let Some(name) = profile else { return Ok(found) };
  let dir = profile_dir(env, name).ok_or_else(|| {
    Failure::unavailable(format!("`{}` is not a profile name", name.escape_debug()))
  })?;
  match found.into_iter().find(|one| one.layout.state_dir == dir) {
    Some(one) => Ok(vec![one]),
    None => Err(
      Failure::unavailable(format!("memfw guards no OpenClaw of the profile `{}`", name.trim()))
        .hint(
          "`agent.profiles` names the profiles, and `memfw openclaw status` shows what was found",
        ),
    ),
  }
}

/// The installation of a profile, or the first of all. Where there are others, it says which one that is.
pub(super) fn one_of(context: &Context, profile: Option<&str>) -> Result<Installation, Failure> {
  let mut found = all_of(context, profile)?.into_iter();
  let one = found.next().ok_or_else(|| Failure::unavailable("no OpenClaw was found"))?;
  if profile.is_some() || found.len() > 0 {
    context.out.line(&format!("OpenClaw in {}", terminal(shown(&one.layout.state_dir))))?;
  }
  for other in found {
    let profile = other.profile.as_deref().unwrap_or("default");
    let dir = terminal(shown(&other.layout.state_dir));
    context.out.line(&format!("  another is in {dir}: --profile {}", terminal(profile)))?;
  }
  Ok(one)
}
