//! The rungs of the fallback ladder: memfw finds, shows and respects them.

use {
  crate::support::{AT_ONCE, Guarded, Writer, clean, eventually, needle, poison},
  serde_json::{Value, json},
  std::{fs, path::PathBuf, process::Command},
};

/// An overlay over the workspace, whose upper layer lies on another file system.
const OVERLAY: &str = "mkdir \"$TMP/layers\" && mount -t tmpfs none \"$TMP/layers\" \
  && mkdir \"$TMP/layers/upper\" \"$TMP/layers/work\" && mount -t overlay none \"$TMP/workspace\" \
  -o \"lowerdir=$TMP/workspace,upperdir=$TMP/layers/upper,workdir=$TMP/layers/work\"";

/// The JSON of `status`, with any exit status.
fn status(guarded: &Guarded) -> Value {
  serde_json::from_str(&guarded.memfw(&["status", "--json"]).stdout).unwrap()
}

fn gone(guarded: &Guarded, n: usize) -> bool {
  guarded.holding("workspace", &needle(n)).is_empty()
}

/// Writes poison in all ways; it must be taken out, and no other text may change.
fn assert_overwritten_in_place(guarded: &Guarded, file: &str) {
  for (n, writer) in Writer::ALL.into_iter().enumerate() {
    let before = guarded.read(file);
    let text = format!("{}\n{}\n", poison(n), clean(n));
    writer.add(&guarded.path(file), text.as_bytes());
    eventually("the poison goes", || gone(guarded, n));
    guarded.settle();
    let after = guarded.read(file);
    assert_eq!(after.len(), before.len() + text.len(), "{writer:?}: no byte more or less");
    assert!(after.starts_with(&before), "{writer:?}");
    assert!(after.ends_with(format!("\n{}\n", clean(n)).as_bytes()), "{writer:?}");
  }
  assert_eq!(guarded.waiting().len(), Writer::ALL.len());
}

#[test]
fn on_an_overlay_of_two_file_systems_text_is_overwritten_in_place() {
  let guarded = Guarded::new(AT_ONCE).memory("MEMORY.md", "# Memory\n\n- old\n");
  let Some(mut guarded) = guarded.memory("memory/a.md", "# A\n").mounts(OVERLAY) else { return };
  guarded.start();
  let found = status(&guarded);
  assert_eq!(found["workspaces"][0]["protocol"], "equal-length-only", "{found:#}");
  assert_eq!((&found["unguarded"], &found["degradations"]), (&json!([]), &json!([])));
  assert_overwritten_in_place(&guarded, "MEMORY.md");
  guarded.stop();
}

#[test]
fn the_lowest_rung_can_be_chosen_and_is_kept_to() {
  let config = format!("{AT_ONCE}protocol = \"no-lease\"\n");
  let mut guarded = Guarded::new(&config).memory("MEMORY.md", "# Memory\n\n- old\n");
  guarded.start();
  eventually("it is polled", || guarded.wakeups() != json!([]));
  let found = status(&guarded);
  let place = &found["workspaces"][0];
  assert_eq!((&place["protocol"], &found["degradations"]), (&json!("no-lease"), &json!([])));
  assert_eq!(place["polled"], "changes may come without an event");
  let wakeups = guarded.wakeups();
  let wakeups = wakeups.as_array().unwrap();
  assert_eq!(wakeups.len(), 1, "{found:#}");
  assert!(wakeups[0].as_str().unwrap().contains("every 2 s"), "{found:#}");
  assert!(guarded.memfw(&["status"]).stdout.contains("  wakes up    polls `[TMP]/workspace`"));
  assert_overwritten_in_place(&guarded, "MEMORY.md");
  // An approval of an item whose placeholder is there needs no more than that either.
  guarded.approve_all();
  assert_eq!(guarded.holding("workspace", &needle(0)).len(), 1);
  let doctor = guarded.memfw(&["doctor"]).stdout;
  assert!(doctor.contains("set by `files.protocol`"), "{doctor}");
  guarded.stop();
}

#[test]
fn what_comes_without_an_event_is_found_by_polling() {
  let config = "[files]\nprotocol = \"no-lease\"\n";
  let guarded = Guarded::new(config).memory("MEMORY.md", "# Memory\n");
  let Some(mut guarded) = guarded.memory("memory/a.md", "# A\n").mounts(OVERLAY) else { return };
  guarded.start();
  guarded.settle();
  // A write into a layer makes no event in the overlay, as on another machine's disk.
  let upper = "\"$TMP/layers/upper\"";
  guarded.in_mounts(&format!(
    "mkdir -p {upper}/memory && printf '%s\\n' '# A' '{}' > {upper}/memory/b.md \
     && printf '%s\\n' '{}' >> {upper}/MEMORY.md",
    poison(1),
    poison(2)
  ));
  eventually("both are found", || gone(&guarded, 1) && gone(&guarded, 2));
  assert_eq!(guarded.waiting().len(), 2);
  guarded.stop();
}

/// A note in a directory that is not watched, whose poison is taken out before the first poll.
const EARLY: &str = "memory/b/early.md";

/// A world in which the daemon may have this many inotify watches and instances.
fn limited(watches: u32, instances: u32) -> Option<Guarded> {
  let namespace = ["unshare", "--user", "--map-root-user"];
  let works = Command::new(namespace[0]).args(&namespace[1..]).arg("true").output();
  if !works.is_ok_and(|output| output.status.success()) {
    eprintln!("skipped: a user namespace, whose limits are its own, cannot be made here");
    return None;
  }
  let dir = "/proc/sys/user/max_inotify_";
  let script =
    format!("echo {watches} > {dir}watches && echo {instances} > {dir}instances && exec \"$@\"");
  let words = [&namespace[..], &["sh", "-c", &script, "sh"]].concat();
  let guarded = Guarded::new("").memory("MEMORY.md", "# Memory\n").memory("memory/a/x.md", "# X\n");
  Some(guarded.memory("memory/b/x.md", "# X\n").memory(EARLY, "# X\n").before(&words))
}

/// Raises a limit in the namespace of the daemon.
fn raise(guarded: &Guarded, limit: &str) {
  let path = format!("/proc/sys/user/max_inotify_{limit}");
  let status = Command::new("nsenter")
    .args(["--target", &guarded.pid().to_string(), "--user", "--preserve-credentials"])
    .args(["sh", "-c", &format!("echo 100 > {path}")])
    .status();
  assert!(status.unwrap().success());
}

fn assert_polled_until_raised(mut guarded: Guarded, setting: &str, limit: &str) {
  guarded.start();
  guarded.stop();
  guarded.start();
  fs::remove_file(guarded.path(EARLY)).unwrap();
  let output = guarded.memfw(&["status"]);
  assert_eq!(output.status, 1, "{output:?}");
  let advice = format!("sudo sysctl {setting}=");
  assert!(output.stdout.contains(&advice), "{output:?}");
  assert!(guarded.log().contains(&advice));
  let polled = || status(&guarded)["workspaces"][0]["polled"].clone();
  eventually("files are polled", || polled() == "not every directory is watched");
  let files = ["MEMORY.md", "memory/a/x.md", "memory/b/x.md", "memory/c/new.md"].map(PathBuf::from);
  fs::create_dir(guarded.path("memory/c")).unwrap();
  for (n, file) in files.iter().enumerate() {
    Writer::Shell.add(&guarded.path(file), format!("{}\n", poison(n)).as_bytes());
  }
  eventually("all poison goes", || (0..4).all(|n| gone(&guarded, n)));
  fs::remove_file(guarded.path("memory/a/x.md")).unwrap();
  eventually("removals are seen", || guarded.memfw(&["settle", "1"]).status == 0);
  raise(&guarded, limit);
  guarded.wait_for_log("protection is complete again");
  eventually("nothing wakes it any more", || guarded.wakeups() == json!([]));
  assert_eq!(guarded.memfw(&["status"]).status, 0);
  Writer::Shell.add(&guarded.path("memory/b/x.md"), format!("{}\n", poison(7)).as_bytes());
  eventually("events are enough again", || gone(&guarded, 7));
  guarded.stop();
}

#[test]
fn directories_that_cannot_be_watched_are_polled() {
  let Some(guarded) = limited(2, 9) else { return };
  assert_polled_until_raised(guarded, "fs.inotify.max_user_watches", "watches");
}

#[test]
fn without_any_watcher_everything_is_polled() {
  let Some(guarded) = limited(9, 0) else { return };
  assert_polled_until_raised(guarded, "fs.inotify.max_user_instances", "instances");
}
