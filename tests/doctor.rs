//! `memfw doctor` exits with status 0, or names the one command that mends what is wrong.

use {
  crate::support::{Guarded, NEVER, Output, Test, clean},
  std::{fs, os::unix::fs::PermissionsExt as _},
};

fn guarded() -> Guarded {
  let mut guarded = Guarded::new(NEVER).memory("MEMORY.md", format!("{}\n", clean(1)));
  guarded.start();
  guarded
}

#[track_caller]
fn ends_with(output: &Output, status: i32, last: &str) {
  assert_eq!((output.status, output.stderr.as_str()), (status, ""), "{}", output.stdout);
  assert_eq!(output.stdout.lines().last(), Some(last), "{}", output.stdout);
}

#[test]
fn a_sound_installation_ends_with_0() {
  let guarded = guarded();
  ends_with(&guarded.memfw(&["doctor"]), 0, "nothing is wrong");
  assert_eq!(guarded.ok(&["doctor", "--quiet"]), "");
}

#[test]
fn a_daemon_that_has_ended_or_was_stopped_is_noticed() {
  let mut guarded = guarded();
  let pid = guarded.pid();
  let mut seen = None;
  guarded.while_stopped(|| seen = Some(guarded.memfw(&["doctor"])));
  ends_with(&seen.unwrap(), 1, &format!("next: kill -CONT {pid}"));
  guarded.stop();
  let output = guarded.memfw(&["doctor"]);
  ends_with(&output, 1, "next: memfw run");
  assert!(output.stdout.contains("is stopped: nothing is guarded"), "{output:?}");
  let checks: serde_json::Value =
    serde_json::from_str(&guarded.memfw(&["doctor", "--json"]).stdout).unwrap();
  let daemon = checks.as_array().unwrap().iter().find(|one| one["check"] == "daemon").unwrap();
  assert_eq!(daemon["command"], "memfw run", "{daemon}");
}

#[test]
fn what_is_safe_to_repair_comes_first() {
  let mut guarded = guarded();
  guarded.stop();
  let key = guarded.tmp().join("memfw/data/master.key");
  fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
  ends_with(&guarded.memfw(&["doctor"]), 1, "next: memfw doctor --fix");
  ends_with(&guarded.memfw(&["doctor", "--fix"]), 1, "next: memfw run");
}

#[test]
fn a_mistake_in_the_configuration_is_mended_in_the_editor() {
  let output = Test::new().config("marker = 1\n").args(["doctor"]).output();
  ends_with(&output, 1, "next: $EDITOR \"$(memfw config path)\"");
}

#[test]
fn a_missing_program_for_notices_is_noticed() {
  let test = || Test::new().config("[notify]\nvia = \"desktop\"\n").env("PATH", "[TMP]/bin");
  let output = test().args(["doctor"]).output();
  assert!(output.stdout.contains("`notify-send` was not found"), "{output:?}");
  ends_with(&output, 1, "next: memfw config set notify.via none");
  let program = |test: Test, name: &str| {
    let test = test.write(format!("bin/{name}"), "#!/bin/sh\n");
    let path = test.tmp().join("bin").join(name);
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    test
  };
  let output = program(test(), "apt-get").args(["doctor"]).output();
  ends_with(&output, 1, "next: sudo apt-get install libnotify-bin");
  let output = program(test(), "notify-send").args(["doctor"]).output();
  assert!(output.stdout.contains("fine   notices"), "{output:?}");
}
