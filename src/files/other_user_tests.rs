//! Tests that need another uid or a mount of their own: each starts itself as a child in that
//! state, and reports where it cannot.

use std::{
  fs::{self, Permissions},
  os::unix::fs::{MetadataExt as _, PermissionsExt as _},
  process::Command,
};

use super::{
  tests::{RULES, WAYS, write},
  *,
};
use crate::files::overwrite::{Change, Overwritten, overwrite};

/// A uid that owns nothing.
const NOBODY: u32 = 65534;
/// The variable that tells the child that it is one, and its directory.
const CHILD: &str = "MEMFW_TEST_CHILD";

#[expect(clippy::disallowed_methods, reason = "the way from parent to child")]
fn directory_of_the_parent() -> Option<PathBuf> {
  std::env::var_os(CHILD).map(PathBuf::from)
}

/// Runs one ignored test of this file behind the words of `before`; false if they do not work here.
fn run_child(dir: &Path, before: &[&str], test: &str) -> bool {
  // The test binary may lie where only root can look.
  let binary = dir.join("child");
  fs::copy(std::env::current_exe().unwrap(), &binary).unwrap();
  fs::set_permissions(&binary, Permissions::from_mode(0o755)).unwrap();
  let (program, words) = before.split_first().unwrap();
  if !Command::new(program).args(words).arg("true").output().is_ok_and(|o| o.status.success()) {
    println!("skipped: `{}` does not work here", before.join(" "));
    return false;
  }
  let test = format!("files::real::other_user_tests::{test}");
  let output = Command::new(program)
    .args(words)
    .arg(&binary)
    .args(["--exact", "--ignored", "--nocapture", &test])
    .env(CHILD, dir)
    .output()
    .unwrap();
  let text = String::from_utf8(output.stdout).unwrap();
  let errors = String::from_utf8(output.stderr).unwrap();
  assert!(output.status.success(), "{text}\n{errors}");
  assert!(text.contains("1 passed"), "{text}");
  true
}

#[test]
#[ignore = "the child of `a_mount_in_the_workspace_is_not_entered`"]
fn child_beside_a_mount() {
  let Some(dir) = directory_of_the_parent() else { return };
  for way in WAYS {
    let root = way.open_root(&dir).unwrap();
    // The same file system mounted once more has the same device number.
    for rel in ["memory/bound/x.md", "memory/bound.md", "memory/tmp/x.md"] {
      let refusal = way.open(&root, Path::new(rel), &RULES).unwrap_err().refusal;
      assert!(matches!(refusal, Refusal::OtherMount), "{rel}: {refusal}");
      let error = way.stamp(&root, Path::new(rel)).unwrap_err();
      assert!(matches!(error, FsError::Refused { refusal: Refusal::OtherMount, .. }), "{error}");
    }
    assert!(way.list(&root, Path::new("memory/bound"), 9).is_err());
    assert!(way.open(&root, Path::new("MEMORY.md"), &RULES).is_ok());
  }
}

#[test]
fn a_mount_in_the_workspace_is_not_entered() {
  let dir = tempfile::tempdir().unwrap();
  for name in ["MEMORY.md", "memory/bound/a", "memory/bound.md", "memory/tmp/a", "else/x.md"] {
    write(&dir.path().join(name), "- a\n");
  }
  let mount = "cd \"$0\" && mount --bind else memory/bound && mount --bind else/x.md memory/bound.md \
    && mount -t tmpfs none memory/tmp && exec \"$@\"";
  let place = dir.path().to_str().unwrap();
  run_child(dir.path(), &["unshare", "--mount", "sh", "-c", mount, place], "child_beside_a_mount");
}

#[test]
#[ignore = "the child of `files_of_an_overlay_are_opened_whatever_layer_they_lie_in`"]
fn child_on_an_overlay() {
  let Some(dir) = directory_of_the_parent() else { return };
  let devices: std::collections::HashSet<u64> = ["", "MEMORY.md", "memory/new.md"]
    .map(|name| dir.join("on").join(name).metadata().unwrap().dev())
    .into();
  assert!(devices.len() > 1, "the layers should lie on different file systems: {devices:?}");
  for way in WAYS {
    let root = way.open_root(&dir.join("on")).unwrap();
    assert_eq!(way.rung(&root), Rung::EqualLengthOnly);
    for rel in ["MEMORY.md", "memory/old.md", "memory/new.md"] {
      // To open a file of the lower layer for writing puts another inode in its place.
      let mut opened = way.open(&root, Path::new(rel), &RULES);
      if matches!(&opened, Err(error) if error.refusal.is_transient()) {
        opened = way.open(&root, Path::new(rel), &RULES);
      }
      let mut file = opened.unwrap();
      assert_eq!(file.access(), Touch::Full, "{rel}");
      assert!(file.try_lease().unwrap(), "{rel}");
      let change = [Change { offset: 0, expected: b"- a", replacement: b"---" }];
      assert_eq!(overwrite(&file, &change).unwrap().applied, [0], "{rel}");
      drop(file);
      let path = dir.join("on").join(rel);
      assert_eq!(crate::os::paths::read_own(&path, 9).unwrap().unwrap(), b"---\n");
      write(&path, "- a\n");
    }
    let refusal = way.open(&root, Path::new("memory/bound.md"), &RULES).unwrap_err().refusal;
    assert!(matches!(refusal, Refusal::OtherMount), "{refusal}");
  }
}

#[test]
fn files_of_an_overlay_are_opened_whatever_layer_they_lie_in() {
  let dir = tempfile::tempdir().unwrap();
  for name in ["lower/MEMORY.md", "lower/memory/old.md", "lower/memory/bound.md", "else.md"] {
    write(&dir.path().join(name), "- a\n");
  }
  for name in ["tmp", "on"] {
    fs::create_dir(dir.path().join(name)).unwrap();
  }
  let mount = "cd \"$0\" && mount -t tmpfs none tmp && mkdir tmp/upper tmp/work \
    && mount -t overlay none on -o lowerdir=lower,upperdir=tmp/upper,workdir=tmp/work \
    && printf '%s\\n' '- a' > on/memory/new.md && mount --bind else.md on/memory/bound.md \
    && exec \"$@\"";
  let place = dir.path().to_str().unwrap();
  run_child(dir.path(), &["unshare", "--mount", "sh", "-c", mount, place], "child_on_an_overlay");
}

#[test]
#[ignore = "the child of `permissions_hold_under_a_dropped_uid`"]
fn child_under_a_dropped_uid() {
  let Some(dir) = directory_of_the_parent() else { return };
  assert_eq!(crate::os::user::effective_uid(), NOBODY);
  for way in WAYS {
    let root = way.open_root(&dir).unwrap();
    let open = |rel: &str, rules: &TargetRules| way.open(&root, Path::new(rel), rules);

    let mut own = open("own.md", &RULES).unwrap();
    assert_eq!(own.access(), Touch::Full);
    assert!(own.try_lease().unwrap());
    drop(own);

    let error = open("closed.md", &RULES).unwrap_err();
    assert!(matches!(error.refusal, Refusal::Permission), "{error}");
    let error = open("closed/x.md", &RULES).unwrap_err();
    assert!(matches!(error.refusal, Refusal::Permission), "{error}");
    assert!(way.list(&root, Path::new("closed"), 9).is_err());
    let denied = Touch::ReadOnly(Reason::NotWritable);
    assert_eq!(open("mode444.md", &RULES).unwrap().access(), denied);

    let foreign = open("foreign.md", &RULES).unwrap();
    assert_eq!(foreign.access(), Touch::ReadOnly(Reason::ForeignOwner(0)));
    assert!(foreign.pwrite(0, b"x").is_err());

    // A configured owner's file is redacted without a lease, because none is available.
    let configured = TargetRules { owners: vec![0], ..RULES };
    let mut foreign = open("foreign.md", &configured).unwrap();
    assert_eq!(foreign.access(), Touch::Full);
    let error = foreign.try_lease().unwrap_err();
    assert!(matches!(error, FsError::LeaseUnsupported { .. }), "{error}");
    let change = |expected, replacement| Change { offset: 0, expected, replacement };
    let done = overwrite(&foreign, &[change(b"- f", b"---"), change(b"---", b"- f")]).unwrap();
    assert_eq!(done, Overwritten { applied: vec![0, 1], stale: vec![] });
  }
}

#[test]
fn permissions_hold_under_a_dropped_uid() {
  if crate::os::user::effective_uid() != 0 {
    println!("skipped: only root can drop to another uid");
    return;
  }
  let dir = tempfile::tempdir().unwrap();
  let closed = dir.path().join("closed");
  let set = |name: &str, owner: u32, mode: u32| {
    let path = dir.path().join(name);
    if !path.exists() {
      write(&path, "- f\n");
    }
    std::os::unix::fs::chown(&path, Some(owner), Some(owner)).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
  };
  fs::create_dir(&closed).unwrap();
  set("closed/x.md", NOBODY, 0o644);
  set("closed", NOBODY, 0o000);
  set("own.md", NOBODY, 0o600);
  set("closed.md", NOBODY, 0o000);
  set("mode444.md", NOBODY, 0o444);
  set("foreign.md", 0, 0o666);
  fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();

  let (uid, gid) = (format!("--reuid={NOBODY}"), format!("--regid={NOBODY}"));
  let before = ["setpriv", &uid, &gid, "--clear-groups"];
  run_child(dir.path(), &before, "child_under_a_dropped_uid");
}
