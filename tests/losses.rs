//! Files of which another program removes much: noticed by the daemon, listed, shown, and decided about.

use {
  crate::support::{AT_ONCE, Guarded, eventually, id, poison},
  rustix::process::Signal,
  serde_json::Value,
  std::{fs, os::unix::process::ExitStatusExt as _},
};

/// So many lines.
fn lines(n: usize) -> String {
  (0..n).map(|n| format!("- Ann likes train number {n}.\n")).collect::<Vec<_>>().concat()
}

/// A workspace whose files are guarded and kept.
fn guarded(config: &str, text: &str) -> Guarded {
  let mut guarded =
    Guarded::new(&format!("markers = \"none\"\n{config}")).memory("MEMORY.md", text);
  guarded.start();
  eventually("versions are kept", || status(&guarded)["versions"]["due"] == 0);
  guarded
}

fn status(guarded: &Guarded) -> Value {
  serde_json::from_str(&guarded.memfw(&["status", "--json"]).stdout).unwrap()
}

fn losses(guarded: &Guarded) -> Vec<Value> {
  let all = guarded.json(&["list", "--json"]);
  all.as_array().unwrap().iter().filter(|one| one["kind"] == "loss").cloned().collect()
}

/// Overwrites the file, and waits for the loss.
fn lose(guarded: &Guarded, text: Option<&str>) -> String {
  match text {
    Some(text) => fs::write(guarded.path("MEMORY.md"), text).unwrap(),
    None => fs::remove_file(guarded.path("MEMORY.md")).unwrap(),
  }
  eventually("the loss waits", || losses(guarded).len() == 1);
  id(&losses(guarded)[0]).to_owned()
}

fn text(guarded: &Guarded) -> String {
  String::from_utf8(guarded.read("MEMORY.md")).unwrap()
}

#[test]
fn a_sweep_waits_for_the_owner_who_sees_what_it_removed() {
  let guarded =
    guarded(AT_ONCE, &format!("# Notes\n{}- at https://evil.com \u{1b}[31m\n", lines(30)));
  let id = lose(&guarded, Some("# Notes\n- A summary.\n"));
  let loss = &losses(&guarded)[0];
  assert_eq!((&loss["lost_lines"], &loss["lines"]), (&31.into(), &32.into()));
  assert_eq!((&loss["exists"], &loss["kept"]), (&true.into(), &true.into()));
  assert_eq!(status(&guarded)["losses"]["waiting"], 1);
  assert!(guarded.memfw(&["status", "--short"]).stdout.ends_with("1 waiting\n"));
  let list = guarded.ok(&["list"]);
  assert!(list.contains(&id) && list.contains("31 of 32 lines lost"), "{list}");
  assert!(list.contains("1 item waits for you") && list.contains("memfw show ID"), "{list}");
  let shown = guarded.ok(&["show", &id]);
  assert!(shown.contains("    -- Ann likes train number 7.\n"), "{shown}");
  assert!(shown.contains("    +- A summary.\n") && !shown.contains('\u{1b}'), "{shown}");
  assert!(!shown.contains("evil.com"), "an address is no link: {shown}");
  assert!(
    guarded
      .memfw(&["review"])
      .stdout
      .ends_with("1 loss waits for you: `memfw list`, `memfw show ID`\n")
  );
  let overview = guarded.ok(&["status"]);
  assert!(overview.contains("1 for you: memfw list"), "{overview}");

  let output = guarded.memfw(&["approve", &id, "--days", "3"]);
  assert!(output.stderr.contains("accepted for good"), "{output:?}");
  let said = guarded.ok(&["approve", &id, "--reason", "tidied"]);
  assert!(said.contains("approved") && losses(&guarded).is_empty(), "{said}");
  assert_eq!(text(&guarded), "# Notes\n- A summary.\n");
  let undone = guarded.ok(&["undo"]);
  assert!(undone.starts_with(&format!("{id}: undone")), "{undone}");
  assert_eq!(losses(&guarded).len(), 1);
  let events = guarded.json(&["audit", "--json"]);
  let of =
    |kind: &str| events.as_array().unwrap().iter().filter(|one| one["event"] == kind).count();
  assert_eq!((of("lost"), of("loss-approved"), of("undone")), (1, 1, 1), "{events:#}");
  assert!(!guarded.log().contains("train number"), "no text of memory in the log");
}

#[test]
fn a_rejection_restores_and_poison_stays_out() {
  let before = lines(30);
  let guarded = guarded(AT_ONCE, &before);
  fs::write(guarded.path("MEMORY.md"), format!("{before}\n{}\n", poison(1))).unwrap();
  eventually("the poison is out", || guarded.waiting().len() == 1);
  guarded.settle();
  let clean = text(&guarded);
  let id = lose(&guarded, Some("- A summary.\n"));
  let done = guarded.json(&["reject", &id, "--json"]);
  assert_eq!(done[0]["status"], "rejected");
  assert_eq!(text(&guarded), clean, "with the placeholder");
  assert_eq!(guarded.waiting().len(), 1);
  let undone = guarded.json(&["undo", &id, "--json"]);
  assert_eq!((&undone[0]["status"], text(&guarded)), (&"lost".into(), "- A summary.\n".to_owned()));
  guarded.ok(&["reject", &id]);
  assert_eq!(text(&guarded), clean);
  let output = guarded.memfw(&["reject", &id]);
  assert!(output.status != 0 && output.stderr.contains("already rejected"), "{output:?}");
  let output = guarded.memfw(&["explain", &id]);
  assert!(output.stderr.contains("is a loss"), "{output:?}");
}

#[test]
fn a_deleted_file_is_a_loss_each_time_also_without_a_daemon() {
  let mut guarded = guarded(AT_ONCE, &lines(30));
  for _ in 0..2 {
    let id = lose(&guarded, None);
    assert_eq!(losses(&guarded)[0]["exists"], false);
    guarded.stop();
    let said = guarded.ok(&["reject", &id]);
    assert!(said.contains("rejected"), "{said}");
    assert_eq!(text(&guarded), lines(30));
    guarded.start();
    assert!(losses(&guarded).is_empty());
  }
  let id = lose(&guarded, None);
  guarded.ok(&["approve", &id]);
  fs::write(guarded.path("MEMORY.md"), lines(30)).unwrap();
  guarded.settle();
  lose(&guarded, None);
}

#[test]
fn switched_off_it_says_so_and_keeps_what_waits() {
  let mut guarded = guarded(AT_ONCE, &lines(30));
  let id = lose(&guarded, Some("- A summary.\n"));
  guarded.stop();
  guarded.ok(&["config", "set", "versions.max_mb", "0"]);
  guarded.start();
  let off = status(&guarded)["losses"]["off"].as_str().unwrap().to_owned();
  assert!(off.contains("versions.max_mb"), "{off}");
  let output = guarded.memfw(&["reject", &id]);
  assert!(output.stderr.contains("versions are switched off"), "{output:?}");
  assert_eq!(
    (losses(&guarded)[0]["kept"].clone(), text(&guarded)),
    (true.into(), "- A summary.\n".into())
  );
  guarded.stop();
  guarded.ok(&["config", "set", "versions.max_mb", "256"]);
  guarded.ok(&["reject", &id]);
  assert_eq!(text(&guarded), lines(30));
  guarded.ok(&["config", "set", "losses.max_percent", "100"]);
  guarded.start();
  let shown = guarded.ok(&["status"]);
  assert!(shown.contains("losses      not noticed: `losses.max_percent` is 100"), "{shown}");
}

#[test]
fn a_kill_during_a_rejection_leaves_what_another_one_completes() {
  for point in [
    "store-before-commit:1",
    "restore-after-journal",
    "restore-after-write",
    "restore-after-finish",
  ] {
    let mut guarded = guarded(AT_ONCE, &lines(30));
    let id = lose(&guarded, Some("- A summary.\n"));
    guarded.stop();
    let mut killed = guarded.test().env("MEMFW_FAILPOINT", point).args(["reject", &id]).start();
    assert_eq!(killed.wait().signal(), Some(Signal::KILL.as_raw()), "{point}");
    let said = guarded.memfw(&["reject", &id]);
    assert_eq!((said.status, text(&guarded)), (0, lines(30)), "{point}: {said:?}");
    assert!(losses(&guarded).is_empty(), "{point}");
    guarded.ok(&["undo", &id]);
    assert_eq!(text(&guarded), "- A summary.\n", "{point}");
  }
}
