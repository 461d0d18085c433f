//! The user's own rules: checked, used by all commands, loaded while the daemon runs.

use {
  crate::support::{AT_ONCE, Guarded, Test, Writer, eventually, needle, poison},
  rustix::process::Signal,
  serde_json::json,
  std::fs,
};

/// A file of rules below `[TMP]`.
const FILE: &str = "memfw/config/rules.d/acme.toml";

/// A rule against one word.
fn rule(id: &str, word: &str) -> String {
  format!(
    "[[rule]]\nid = \"{id}\"\ncode = \"concealment\"\nseverity = \"high\"\nkind = \"signature\"\n\
     why = \"it names a project that is not to be named\"\nwords = [[\"{word}\"]]\n\
     hits = [\"All of {word} goes to the new repository.\"]\nmisses = [\"A sparrow sat there.\"]\n"
  )
}

#[test]
fn rules_are_checked_with_the_configuration() {
  Test::new()
    .write(FILE, rule("acme-bluebird", "bluebird") + &rule("acme-heron", "heron"))
    .write("memfw/config/rules.d/notes.txt", "no rules")
    .write("memfw/config/rules.d/.acme.toml.swp", "no rules")
    .args(["config", "check"])
    .stdout(
      "
      [TMP]/memfw/config/config.toml: does not exist, the defaults apply
      [TMP]/memfw/config/rules.d/acme.toml: fine, 2 rules
      ",
    )
    .run();
}

#[test]
fn all_that_is_wrong_with_rules_and_configuration_is_reported_at_once() {
  let broken = rule("one", "bluebird").replace("concealment", "concealmint")
    + &rule("two", "heron").replace("[[\"heron\"]]", "[[\"heron\"]]\npattern = '('");
  Test::new()
    .config("marker = \"wrap\"\n")
    .write(FILE, broken)
    .write("memfw/config/rules.d/more.toml", rule("override-ignore", "gull") + "colour = 1\n")
    .args(["config", "check"])
    .stderr(
      "
      error: [TMP]/memfw/config/config.toml:1:1: unknown key `marker`
      hint: did you mean `markers`?
      error: [TMP]/memfw/config/rules.d/more.toml:10:1: unknown field `colour`, expected one of `id`, `code`, `severity`, `kind`, `scope`, `modes`, `why`, `all`, `any`, `not`, `words`, `pattern`, `reach`, `guards`, `over`, `hits`, `misses`
      error: [TMP]/memfw/config/rules.d/acme.toml:3:8: rule `one`: unknown finding code `concealmint`
      hint: did you mean `concealment`?
      error: [TMP]/memfw/config/rules.d/acme.toml:17:11: rule `two`: the pattern does not compile: unclosed group
      hint: patterns are regular expressions without look-around and back-references
      ",
    )
    .status(2)
    .run();
}

#[test]
fn examples_that_do_not_hold_are_problems_as_json_too() {
  let wrong = rule("acme-bluebird", "bluebird").replace("A sparrow", "The bluebird");
  let output = Test::new().write(FILE, wrong).args(["config", "check", "--json"]).output();
  assert_eq!(output.status, 2);
  let answer: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
  assert_eq!(
    answer,
    json!({
      "file": "[TMP]/memfw/config/config.toml",
      "exists": false,
      "ok": false,
      "problems": [{
        "file": "[TMP]/memfw/config/rules.d/acme.toml",
        "line": 2, "column": 1,
        "message": "rule `acme-bluebird` hits what it should miss: `The bluebird sat there.`",
        "hint": "change the rule, or take the example out of `misses`",
      }],
      "rules": [],
    })
  );
}

#[test]
fn caps_and_files_that_cannot_be_read_are_reported() {
  let large = format!("# {}\n", "x".repeat(256 * 1024));
  let test = Test::new()
    .write(FILE, large)
    .args(["config", "check"])
    .stderr(
      "error: cannot read the rules `[TMP]/memfw/config/rules.d/acme.toml`: it has more than 262144 bytes\n",
    )
    .status(2)
    .run()
    .then();
  let dir = test.tmp().join("memfw/config/rules.d");
  fs::write(dir.join("acme.toml"), "").unwrap();
  for n in 0..64 {
    fs::write(dir.join(format!("{n}.toml")), "").unwrap();
  }
  test
    .args(["scan", "-"])
    .stderr(
      "
      error: cannot read the rules `[TMP]/memfw/config/rules.d`: there are more than 64 files in it
      hint: put the rules into fewer files
      ",
    )
    .status(2)
    .run();
}

#[test]
fn a_scan_uses_them_and_says_which_one_it_was() {
  let test = Test::new().write(FILE, rule("acme-bluebird", "bluebird"));
  let text = "- All of bluebird goes to the new repository.\n";
  let output = test.args(["scan", "--json", "-"]).stdin(text).output();
  assert_eq!(output.status, 1, "{output:?}");
  let answer: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
  let finding = &answer[0]["findings"][0];
  assert_eq!(
    (&finding["rule"], &finding["rule_file"]),
    (&json!("acme-bluebird"), &json!("rules.d/acme.toml"))
  );
  let doctor = Test::new().write(FILE, rule("acme-bluebird", "bluebird")).args(["doctor"]).output();
  assert!(doctor.stdout.contains("1 rule of yours in 1 file"), "{doctor:?}");
}

#[test]
fn a_bad_file_at_the_start_leaves_the_built_in_rules_and_is_reported_until_it_is_mended() {
  let mut guarded = Guarded::new(AT_ONCE).memory("MEMORY.md", "# Memory\n");
  drop(guarded.test().write(FILE, rule("acme-bluebird", "bluebird") + "colour = 1\n"));
  guarded.start();
  let degraded = |guarded: &Guarded| {
    let output = guarded.memfw(&["status"]);
    (output.status, output.stdout.contains("your rules are invalid"))
  };
  assert_eq!(degraded(&guarded), (1, true));
  let doctor = guarded.memfw(&["doctor"]);
  assert!(doctor.status == 1 && doctor.stdout.contains("unknown field `colour`"), "{doctor:?}");
  Writer::Shell.add(&guarded.path("MEMORY.md"), format!("\n{}\n", poison(1)).as_bytes());
  eventually("the built-in rules guard", || guarded.holding("workspace", &needle(1)).is_empty());

  // A new rule does not judge existing text again; it judges later text, and `memfw scan` uses it.
  fs::create_dir_all(guarded.path("memory")).unwrap();
  let known = "- All of bluebird is in the old repository.\n";
  Writer::Shell.add(&guarded.path("memory/old.md"), known.as_bytes());
  guarded.settle();
  drop(guarded.test().write(FILE, rule("acme-bluebird", "bluebird")));
  guarded.signal(Signal::HUP);
  eventually("all is well", || guarded.memfw(&["status"]).status == 0);
  Writer::Shell.add(&guarded.path("memory/new.md"), b"- All about bluebird goes to Ann.\n");
  guarded.settle();
  assert_eq!(guarded.holding("workspace", "old repository").len(), 1);
  assert!(guarded.holding("workspace", "goes to Ann").is_empty());
  assert_eq!(guarded.memfw(&["scan", guarded.path("memory/old.md").to_str().unwrap()]).status, 1);
  let id = guarded.waiting().iter().find(|item| item["line"] == 1).unwrap()["id"].clone();
  let shown = guarded.ok(&["quarantine", "show", id.as_str().unwrap()]);
  assert!(shown.contains("  rule    acme-bluebird in rules.d/acme.toml\n"), "{shown}");

  // After an error the daemon keeps the old rules; a command that judges reports the error.
  drop(guarded.test().write(FILE, rule("acme-heron", "heron") + "=\n"));
  guarded.signal(Signal::HUP);
  guarded.wait_for_log("your changed rules are invalid");
  assert_eq!(guarded.memfw(&["status"]).status, 1);
  assert_eq!(guarded.memfw(&["scan", guarded.path("memory/old.md").to_str().unwrap()]).status, 2);
  Writer::Shell.add(&guarded.path("memory/new.md"), b"\n- All about bluebird goes to Bob.\n");
  guarded.settle();
  assert!(guarded.holding("workspace", "goes to Bob").is_empty());
  guarded.stop();
}
