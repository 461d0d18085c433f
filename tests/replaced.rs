//! Watched directories are moved away, replaced or mounted over, or events are lost: memfw notices
//! it, reports it, and checks again.

use {
  crate::support::{Guarded, Writer, eventually, needle, pace, poison},
  rustix::process::Signal,
  serde_json::{Value, json},
  std::{fs, time::Duration},
};

fn status(guarded: &Guarded) -> Value {
  serde_json::from_str(&guarded.memfw(&["status", "--json"]).stdout).unwrap()
}

/// Poison in this file is taken out.
#[track_caller]
fn assert_guarded(guarded: &Guarded, n: usize, file: &str) {
  Writer::Shell.add(&guarded.path(file), format!("\n{}\n", poison(n)).as_bytes());
  eventually("the poison goes", || guarded.holding("workspace", &needle(n)).is_empty());
}

fn guarded() -> Guarded {
  Guarded::new("").memory("MEMORY.md", "# Memory\n").memory("memory/deep/a.md", "# A\n")
}

#[test]
fn a_directory_that_is_replaced_is_watched_again() {
  let mut guarded = guarded();
  guarded.start();
  let (memory, old) = (guarded.path("memory"), guarded.path("old"));
  for n in 0..3 {
    // Moved away and replaced, at once and after a while; then deleted and created again.
    match n {
      0 | 1 => fs::rename(&memory, old.with_extension(n.to_string())).unwrap(),
      _ => fs::remove_dir_all(&memory).unwrap(),
    }
    if n == 1 {
      let gone = || guarded.ok(&["audit"]).matches("vanished").count() >= 2;
      eventually("the file is missed", gone);
    }
    fs::create_dir_all(memory.join("deep")).unwrap();
    assert_guarded(&guarded, 2 * n, "memory/b.md");
    assert_guarded(&guarded, 2 * n + 1, "memory/deep/a.md");
  }
  // A file that was moved out of memory is no memory.
  let text = format!("{}\n", poison(9));
  fs::write(old.with_extension("0").join("deep/a.md"), &text).unwrap();
  assert_guarded(&guarded, 8, "memory/b.md");
  assert_eq!(fs::read_to_string(old.with_extension("0").join("deep/a.md")).unwrap(), text);
  guarded.settle();
  eventually("all is well", || status(&guarded)["degradations"] == json!([]));
  guarded.stop();
}

#[test]
fn a_workspace_that_is_replaced_is_watched_again() {
  let mut guarded = guarded();
  guarded.start();
  let workspace = guarded.path("");
  let workspace = workspace.parent().unwrap().join("workspace");
  let other = guarded.tmp().join("other");
  fs::create_dir_all(other.join("memory")).unwrap();
  fs::write(other.join("memory/c.md"), format!("# C\n\n{}\n", poison(1))).unwrap();
  fs::rename(&workspace, guarded.tmp().join("old")).unwrap();
  fs::rename(&other, &workspace).unwrap();
  eventually("the new one is looked at", || guarded.holding("workspace", &needle(1)).is_empty());
  assert_guarded(&guarded, 2, "memory/c.md");
  // Without any workspace protection is reduced, until there is one again.
  fs::rename(&workspace, &other).unwrap();
  guarded.wait_for_log("protection is reduced");
  fs::rename(&other, &workspace).unwrap();
  guarded.wait_for_log("protection is complete again");
  assert_guarded(&guarded, 3, "MEMORY.md");
  guarded.settle();
  assert_eq!(guarded.memfw(&["status"]).status, 0);
  guarded.stop();
}

#[test]
fn a_workspace_in_which_a_program_is_running_is_missed_at_once_and_watched_again() {
  let mut guarded = guarded();
  guarded.start();
  let workspace = guarded.tmp().join("workspace");
  for n in 0..2 {
    // An agent may have it as its working directory: the kernel reports the removal only when that
    // agent leaves.
    let inside = fs::File::open(&workspace).unwrap();
    fs::remove_dir_all(&workspace).unwrap();
    if n == 0 {
      guarded.wait_for_log("protection is reduced");
    }
    fs::create_dir(&workspace).unwrap();
    assert_guarded(&guarded, 2 * n, "MEMORY.md");
    fs::create_dir(workspace.join("memory")).unwrap();
    assert_guarded(&guarded, 2 * n + 1, "memory/a.md");
    drop(inside);
  }
  guarded.settle();
  eventually("all is well", || status(&guarded)["degradations"] == json!([]));
  guarded.stop();
}

#[test]
fn a_workspace_that_goes_and_comes_again_and_again_is_guarded_in_the_end() {
  let mut guarded = Guarded::new("").memory("MEMORY.md", "# Memory\n");
  guarded.start();
  let workspace = guarded.tmp().join("workspace");
  for round in 0..20 {
    for _ in 0..10 {
      fs::remove_dir_all(&workspace).unwrap();
      // At any moment of the following walk.
      pace(Duration::from_micros(37 * (1 + round)));
      fs::create_dir(&workspace).unwrap();
    }
    assert_guarded(&guarded, usize::try_from(round).unwrap(), "MEMORY.md");
  }
  guarded.settle();
  eventually("all is well", || status(&guarded)["degradations"] == json!([]));
  guarded.stop();
}

#[test]
fn a_mount_over_memory_is_noticed_and_so_is_its_end() {
  let Some(mut guarded) = guarded().mounts("true") else { return };
  guarded.start();
  guarded.in_mounts("mount -t tmpfs none \"$TMP/workspace/memory\"");
  guarded.wait_for_log("it is on another mount than the workspace");
  assert_eq!(guarded.memfw(&["status"]).status, 1);
  // It is not entered, and the rest is guarded.
  Writer::Shell.add(&guarded.path("memory/x.md"), format!("{}\n", poison(1)).as_bytes());
  assert_guarded(&guarded, 2, "MEMORY.md");
  assert_eq!(guarded.holding("workspace", &needle(1)).len(), 1);
  guarded.in_mounts("umount \"$TMP/workspace/memory\"");
  guarded.wait_for_log("protection is complete again");
  assert_guarded(&guarded, 3, "memory/deep/a.md");
  guarded.settle();
  assert_eq!(guarded.memfw(&["status"]).status, 0);
  guarded.stop();
}

#[test]
fn a_mount_over_the_workspace_is_guarded_as_what_is_there_now() {
  let Some(mut guarded) = guarded().mounts("true") else { return };
  guarded.start();
  let text = format!("printf '%s\\n' '# M' '{}' > \"$TMP/workspace/MEMORY.md\"", poison(1));
  guarded.in_mounts(&format!("mount -t tmpfs none \"$TMP/workspace\" && {text}"));
  eventually("what is there is judged", || guarded.holding("workspace", &needle(1)).is_empty());
  assert!(guarded.log().contains("a file system was mounted or unmounted"), "{}", guarded.log());
  assert_guarded(&guarded, 2, "MEMORY.md");
  guarded.settle();
  // The daemon has a guarded directory open, so it can only be unmounted lazily.
  guarded.in_mounts("umount --lazy \"$TMP/workspace\"");
  eventually("the old file is back", || guarded.read("MEMORY.md") == b"# Memory\n");
  assert_guarded(&guarded, 3, "MEMORY.md");
  assert_guarded(&guarded, 4, "memory/deep/a.md");
  guarded.settle();
  assert_eq!(guarded.memfw(&["status"]).status, 0);
  guarded.stop();
}

#[test]
fn lost_events_make_everything_be_looked_at_again() {
  let limit = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap_or_default();
  let Ok(limit @ 1..100_000) = limit.trim().parse::<usize>() else {
    eprintln!("skipped: the kernel's queue of events is unknown or too long here: {limit:?}");
    return;
  };
  let mut guarded = guarded();
  guarded.start();
  guarded.signal(Signal::STOP);
  // Names that are no memory, so that the lost events are the only ones about memory.
  for n in 0..=limit / 2 {
    fs::write(guarded.path(format!("memory/{n}.txt")), "").unwrap();
  }
  let text = format!("\n{}\n", poison(1));
  Writer::Shell.add(&guarded.path("memory/deep/a.md"), text.as_bytes());
  guarded.signal(Signal::CONT);
  guarded.wait_for_log("the watcher lost events");
  eventually("the poison goes", || guarded.holding("workspace", &needle(1)).is_empty());
  assert!(guarded.ok(&["audit", "--event", "rescanned"]).contains("the watcher lost events"));
  guarded.stop();
}

#[test]
fn a_workspace_that_is_mounted_read_only_is_reduced_protection_until_it_is_writable_again() {
  let bind = "mount --bind \"$TMP/workspace\" \"$TMP/workspace\"";
  let Some(mut guarded) = guarded().mounts(bind) else { return };
  guarded.start();
  guarded.in_mounts("mount -o remount,bind,ro \"$TMP/workspace\"");
  let said = "is mounted read-only: new text is judged";
  guarded.wait_for_log(said);
  let shown = guarded.memfw(&["status"]);
  assert!(shown.status == 1 && shown.stdout.contains(said), "{shown:?}");
  guarded.in_mounts("mount -o remount,bind,rw \"$TMP/workspace\"");
  eventually("it is whole again", || guarded.memfw(&["status"]).status == 0);
  guarded.wait_for_log("protection is complete again");
  guarded.stop();
}
