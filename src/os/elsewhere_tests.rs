//! What needs another uid or a mount of its own: each test starts itself as a child in that state,
//! and says so where it cannot.

use std::{
  fs::{self, Permissions},
  os::unix::fs::PermissionsExt as _,
  process::Command,
};

use super::{
  tests::{RULES, WAYS, write},
  *,
};
use crate::os::redact::{Change, Overwritten, overwrite};

/// A uid that owns nothing.
const NOBODY: u32 = 65534;
/// How the child learns that it is one, and where.
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
  let test = format!("os::real::elsewhere_tests::{test}");
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
  // The same file system mounted once more has the same device number; only the kernel's own walk
  // sees that it is another mount.
  let fs = RealFs { resolver: Resolver::Kernel };
  let root = fs.open_root(&dir).unwrap();
  let refused = |rel: &str| fs.open(&root, Path::new(rel), &RULES).unwrap_err().refusal;
  assert!(matches!(refused("memory/bound/x.md"), Refusal::OtherMount));
  assert!(matches!(refused("memory/bound.md"), Refusal::OtherMount));
  assert!(fs.list(&root, Path::new("memory/bound"), 9).is_err());
  let stepwise = RealFs { resolver: Resolver::Stepwise };
  for way in [fs, stepwise] {
    let error = way.stamp(&root, Path::new("memory/tmp/x.md")).unwrap_err();
    assert!(matches!(error, FsError::Refused { refusal: Refusal::OtherMount, .. }), "{error}");
  }
}

#[test]
fn a_mount_in_the_workspace_is_not_entered() {
  let dir = tempfile::tempdir().unwrap();
  for name in ["memory/bound/a", "memory/bound.md", "memory/tmp/a", "else/x.md"] {
    write(&dir.path().join(name), "- a\n");
  }
  let mount = "cd \"$0\" && mount --bind else memory/bound && mount --bind else/x.md memory/bound.md \
    && mount -t tmpfs none memory/tmp && exec \"$@\"";
  let place = dir.path().to_str().unwrap();
  run_child(dir.path(), &["unshare", "--mount", "sh", "-c", mount, place], "child_beside_a_mount");
}

#[test]
#[ignore = "the child of `permissions_hold_under_a_dropped_uid`"]
fn child_under_a_dropped_uid() {
  let Some(dir) = directory_of_the_parent() else { return };
  assert_eq!(user::effective_uid(), NOBODY);
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

    // A configured owner's file is redacted without a lease, as there is none to be had.
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
  if user::effective_uid() != 0 {
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
