//! OpenClaw's own program: where it is and of which release, without running it.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use crate::{
  config::Config,
  os::{Env, paths, program},
};

/// Its usual name.
const NAME: &str = "openclaw";
/// Largest `package.json` that is read, in bytes; OpenClaw's has some 100 kB.
const MAX_PACKAGE_BYTES: u64 = 4 << 20;
/// How many directories above the program its package is looked for.
const MAX_ABOVE: usize = 4;

/// The program that the configuration names, or its usual name, as an absolute path.
pub fn find(env: &Env, config: &Config) -> Option<PathBuf> {
  let name = if config.agent_program.is_empty() { NAME } else { &config.agent_program };
  program::find(env, name)
}

/// The release, by the package that the program belongs to.
pub fn release(program: &Path) -> Option<String> {
  let real = program.canonicalize().ok()?;
  let packages = real.ancestors().skip(1).take(MAX_ABOVE).map(|dir| dir.join("package.json"));
  for package in packages {
    let Some(bytes) = paths::read_own(&package, MAX_PACKAGE_BYTES).ok().flatten() else { continue };
    let Ok(value) = serde_json::from_slice::<serde_json::Value>(&bytes) else { continue };
    if value.get("name").and_then(serde_json::Value::as_str) == Some(NAME) {
      return value.get("version").and_then(serde_json::Value::as_str).map(str::to_owned);
    }
  }
  None
}
