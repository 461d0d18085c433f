//! Whether another user could have written one of memfw's files: by its owner and mode, or by those
//! of a directory above it, in which the file could be replaced.
#![forbid(unsafe_code)]

use std::{
  fs::{self, Metadata},
  os::unix::fs::MetadataExt as _,
  path::Path,
};

use super::{shown::Shown, user};

const ROOT: u32 = 0;
/// The owner of files whose user is not known here, as in a container without the users of its host
/// (the kernel's default for `overflowuid`).
const OVERFLOW: u32 = 65534;
const STICKY: u32 = 0o1000;

/// The other users who could have written this file, as a sentence; `None` if only the user and the
/// administrator could, or if there is no file. A link is followed, and both its directories are
/// checked.
pub fn who_may_write(file: &Path) -> Option<String> {
  let real = file.canonicalize().ok()?;
  let found = fs::metadata(&real).ok()?;
  if let Some(why) = wrong_owner(&found, false).or_else(|| wrong_mode(&found)) {
    return Some(format!("{} {why}", Shown(&real)));
  }
  let link = file.parent().and_then(|dir| dir.canonicalize().ok());
  let above = link.iter().flat_map(|dir| dir.ancestors()).chain(real.ancestors().skip(1));
  let nearest = [real.parent(), link.as_deref()];
  for dir in above {
    let Ok(found) = fs::metadata(dir) else { continue };
    let is_far = !nearest.contains(&Some(dir));
    // In a sticky directory like `/tmp` users cannot move files of others.
    let mode = wrong_mode(&found).filter(|_| found.mode() & STICKY == 0);
    if let Some(why) = wrong_owner(&found, is_far).or(mode) {
      return Some(format!("the directory {} {why}", Shown(dir)));
    }
  }
  None
}

fn wrong_owner(found: &Metadata, is_far: bool) -> Option<String> {
  let uid = found.uid();
  let is_ours = uid == user::effective_uid() || uid == ROOT || (is_far && uid == OVERFLOW);
  (!is_ours).then(|| format!("belongs to uid {uid}, not to this user"))
}

fn wrong_mode(found: &Metadata) -> Option<String> {
  let mode = found.mode() & 0o7777;
  // If every user has a private group, its number is that of the user, and it has no other members.
  let is_private = found.gid() == found.uid();
  let others = mode & 0o002 != 0 || (mode & 0o020 != 0 && !is_private);
  others.then(|| format!("can be written by others (mode {mode:o})"))
}

#[cfg(test)]
mod tests {
  use std::{fs::Permissions, os::unix::fs::PermissionsExt as _};

  use super::*;

  #[test]
  #[expect(clippy::disallowed_methods, reason = "the files here are temporary ones of the test")]
  fn a_file_that_others_can_write_or_replace_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("config");
    let file = config.join("config.toml");
    let chmod = |path: &Path, mode| {
      fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    };
    fs::create_dir(&config).unwrap();
    chmod(&config, 0o700);
    assert_eq!(who_may_write(&file), None, "there is none");
    fs::write(&file, "").unwrap();
    for (mode, dir_mode, expected) in [
      (0o644, 0o755, None),
      (0o600, 0o700, None),
      (0o646, 0o700, Some(("config.toml", "(mode 646)"))),
      (0o600, 0o707, Some(("the directory", "(mode 707)"))),
      (0o600, 0o1777, None),
    ] {
      chmod(&file, mode);
      chmod(&config, dir_mode);
      let found = who_may_write(&file);
      assert_eq!(found.is_some(), expected.is_some(), "{found:?}");
      let (what, mode) = expected.unwrap_or_default();
      let found = found.unwrap_or_default();
      assert!(found.contains(what) && found.ends_with(mode), "{found}");
    }
    chmod(&config, 0o700);
    chmod(dir.path(), 0o702);
    assert!(who_may_write(&file).unwrap().contains("the directory"), "one further up");
    chmod(dir.path(), 0o700);
    let elsewhere = tempfile::tempdir().unwrap();
    let link = elsewhere.path().join("config.toml");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    assert_eq!(who_may_write(&link), None);
    chmod(elsewhere.path(), 0o703);
    assert!(who_may_write(&link).is_some(), "the link could be replaced");
  }
}
