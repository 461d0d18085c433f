//! The daemon follows its own configuration file, and `config set` says when a change is active.

use {
  crate::support::{CONFIG, Guarded, Test, clean, eventually, poison},
  serde_json::Value,
  std::fs,
};

/// A daemon that guards one clean file under this configuration.
fn guarded(config: &str) -> Guarded {
  let mut guarded = Guarded::new(config).memory("MEMORY.md", format!("{}\n", clean(1)));
  guarded.start();
  guarded.settle();
  guarded
}

/// The configuration with these lines, and the workspace that is guarded.
fn with(guarded: &Guarded, text: &str) -> String {
  format!("workspaces = [\"{}\"]\n{text}", guarded.path("").display()).replace("/\"]", "\"]")
}

fn write(guarded: &Guarded, text: &str) {
  fs::write(guarded.tmp().join(CONFIG), with(guarded, text)).unwrap();
}

fn degradations(guarded: &Guarded) -> String {
  let status: Value = serde_json::from_str(&guarded.memfw(&["status", "--json"]).stdout).unwrap();
  status["degradations"].to_string()
}

const BASE: &str = "markers = \"none\"\n[files]\nidle_ms = 86400000\n";

#[test]
fn a_change_of_the_file_takes_effect_by_itself() {
  let mut guarded = guarded(BASE);
  write(&guarded, &format!("{BASE}[detection]\nsensitivity = \"low\"\n"));
  guarded.wait_for_log("configuration reloaded");
  // A file that is replaced by rename, as editors do, is followed as well.
  let path = guarded.tmp().join(CONFIG);
  let beside = path.with_extension("new");
  fs::write(&beside, with(&guarded, BASE)).unwrap();
  fs::rename(&beside, &path).unwrap();
  eventually("the replaced file is followed", || {
    guarded.log().matches("configuration reloaded").count() == 2
  });
}

#[test]
fn a_file_with_an_error_changes_nothing_until_it_is_corrected() {
  let mut guarded = guarded(BASE);
  write(&guarded, "markers = \"warp\"\n");
  guarded.wait_for_log("the previous one stays in use");
  let told = degradations(&guarded);
  assert!(told.contains("config.toml:2:11") && told.contains("`markers` must be"), "{told}");
  assert!(!guarded.log().contains("configuration reloaded"), "{}", guarded.log());
  write(&guarded, BASE);
  guarded.wait_for_log("configuration reloaded");
  assert!(!degradations(&guarded).contains("configuration"), "{}", degradations(&guarded));
}

#[test]
fn a_file_that_is_written_again_unchanged_is_no_change() {
  let mut guarded = guarded(BASE);
  write(&guarded, BASE);
  // The next change is taken after it, so it was looked at.
  write(&guarded, &format!("# mine\n{BASE}"));
  guarded.wait_for_log("configuration reloaded");
  assert_eq!(guarded.log().matches("configuration reloaded").count(), 1, "{}", guarded.log());
}

#[test]
fn set_says_that_a_change_is_active_once_the_daemon_has_it() {
  let mut guarded = guarded(BASE);
  let said = guarded.ok(&["config", "set", "detection.sensitivity", "low"]);
  let expected =
    "detection.sensitivity = \"low\", was \"medium\"\nactive: the daemon has taken it\n";
  assert_eq!(said, expected);
  // The log has a writer of its own, which may be later than the answer.
  guarded.wait_for_log("configuration reloaded");
  let said = guarded.json(&["config", "set", "detection.sensitivity", "high", "--json"]);
  assert_eq!((&said["changed"], &said["active"]), (&true.into(), &true.into()), "{said}");
  let said = guarded.ok(&["config", "set", "log.level", "debug"]);
  assert!(said.ends_with("\nit takes effect at the daemon's next start\n"), "{said}");
  assert_eq!(guarded.ok(&["config", "set", "markers", "id", "--quiet"]), "");
}

#[test]
fn quiet_leaves_remarks_out_and_never_findings() {
  let text = format!("{}\n", clean(1));
  Test::new().args(["scan", "-q"]).stdin(&text).stdout("").run();
  let output = Test::new().args(["scan", "--quiet"]).stdin(format!("{}\n", poison(1))).output();
  assert_eq!(output.status, 1, "{output:?}");
  assert!(output.stdout.contains("quarantine"), "{output:?}");
  let run = ["run", "--once", "--quiet", "--workspace", "[TMP]/workspace"];
  let log = Test::new().memory("MEMORY.md", text).args(run).output();
  assert_eq!((log.status, log.stderr.as_str()), (0, ""), "{log:?}");
}
