//! Finds another program, without running it.
#![forbid(unsafe_code)]

use std::{
  env::split_paths,
  os::unix::fs::PermissionsExt as _,
  path::{Path, PathBuf},
};

use super::Env;

/// The program of this name in `PATH`, or at this absolute path.
pub fn find(env: &Env, name: &str) -> Option<PathBuf> {
  if name.contains('/') {
    return Some(PathBuf::from(name)).filter(|path| path.is_absolute() && is_program(path));
  }
  let path = env.get("PATH")?;
  // A relative directory in PATH would depend on the working directory.
  split_paths(path)
    .filter(|dir| dir.is_absolute())
    .map(|dir| dir.join(name))
    .find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
  path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
  use super::*;
  use std::os::unix::fs::OpenOptionsExt as _;

  #[test]
  fn only_what_can_be_run_is_found_and_never_in_a_relative_directory() {
    let dir = tempfile::tempdir().unwrap();
    let make = |name: &str, mode| {
      let mut options = std::fs::OpenOptions::new();
      options.write(true).create(true).truncate(false).mode(mode).open(dir.path().join(name))
    };
    make("tool", 0o755).unwrap();
    make("note", 0o644).unwrap();
    let env = Env::from_pairs([("PATH", format!("bin:{}", dir.path().display()))]);
    let tool = dir.path().join("tool");
    assert_eq!(find(&env, "tool"), Some(tool.clone()));
    assert_eq!(find(&env, "note"), None);
    assert_eq!(find(&Env::default(), "tool"), None);
    assert_eq!(find(&Env::default(), tool.to_str().unwrap()), Some(tool));
    assert_eq!(find(&env, "./tool"), None);
    assert_eq!(find(&env, ""), None);
  }
}
