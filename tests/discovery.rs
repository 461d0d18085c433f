//! Which workspaces are guarded where nobody names one, and how files of instructions are treated.

use {
  crate::support::{AT_ONCE, Guarded, clean, eventually, needle, poison},
  serde_json::Value,
  std::fs,
};

const TWO: &str =
  "{agents: {ownership: 'explicit', entries: {ann: {}, bob: {workspace: '[TMP]/b'}}}}";
const THREE: &str = "{agents: {ownership: 'explicit', entries: {ann: {}, bob: {workspace: '[TMP]/b'}, cat: {workspace: '[TMP]/c'}}}}";

/// A world whose configuration names no workspace.
fn world(agent: &str) -> Guarded {
  let guarded = Guarded::new("").env("OPENCLAW_STATE_DIR", "[TMP]/state");
  drop(guarded.test().config(AT_ONCE));
  configure(&guarded, agent);
  for dir in ["state/workspace-ann", "b", "c"] {
    fs::create_dir_all(guarded.tmp().join(dir)).unwrap();
  }
  guarded
}

/// Writes the agent's configuration as the agent does: beside it, then renamed over it.
fn configure(guarded: &Guarded, text: &str) {
  drop(guarded.test().write("state/openclaw.json.tmp", text));
  let path = guarded.tmp().join("state/openclaw.json");
  fs::rename(path.with_extension("json.tmp"), path).unwrap();
}

fn places(guarded: &Guarded) -> Vec<String> {
  let status = status(guarded);
  let places = status["workspaces"].as_array().unwrap();
  places.iter().map(|one| one["path"].as_str().unwrap().to_owned()).collect()
}

/// What `status` says, whatever its exit status is.
fn status(guarded: &Guarded) -> Value {
  serde_json::from_str(&guarded.memfw(&["status", "--json"]).stdout).unwrap()
}

#[test]
fn the_workspaces_of_all_agents_are_guarded() {
  let mut guarded = world(TWO);
  guarded.start();
  assert_eq!(places(&guarded), ["[TMP]/state/workspace-ann", "[TMP]/b"]);
  for file in ["state/workspace-ann/MEMORY.md", "b/memory/x.md"] {
    drop(guarded.test().write(file, format!("{}\n{}\n", clean(1), poison(1))));
  }
  eventually("both are clean", || guarded.waiting().len() == 2);
  for dir in ["state/workspace-ann", "b"] {
    assert!(guarded.holding(dir, &needle(1)).is_empty());
  }
  guarded.stop();
}

#[test]
fn a_changed_configuration_is_followed_without_being_asked() {
  let mut guarded = world(TWO);
  guarded.start();
  configure(&guarded, THREE);
  guarded.wait_for_log("/c");
  assert_eq!(places(&guarded), ["[TMP]/state/workspace-ann", "[TMP]/b", "[TMP]/c"]);
  drop(guarded.test().write("c/MEMORY.md", format!("{}\n", poison(3))));
  eventually("the new one is guarded", || guarded.waiting().len() == 1);
  // Half a file says nothing about what is used: all stays guarded, and the trouble is told.
  configure(&guarded, "{agents: {entr");
  guarded.wait_for_log("cannot be read");
  assert_eq!(places(&guarded).len(), 4, "the default workspace comes to those that were known");
  assert!(status(&guarded)["degradations"].to_string().contains("cannot be read"));
  configure(&guarded, TWO);
  eventually("one is let go", || places(&guarded) == ["[TMP]/state/workspace-ann", "[TMP]/b"]);
  assert!(status(&guarded)["degradations"].as_array().unwrap().is_empty());
  guarded.stop();
}

#[test]
fn a_configuration_that_appears_later_is_found() {
  let mut guarded = world("{}");
  fs::remove_file(guarded.tmp().join("state/openclaw.json")).unwrap();
  fs::create_dir(guarded.tmp().join("state/workspace")).unwrap();
  guarded.start();
  assert_eq!(places(&guarded), ["[TMP]/state/workspace"]);
  configure(&guarded, TWO);
  eventually("it is followed", || places(&guarded).len() == 2);
  guarded.stop();
}

#[test]
fn what_is_named_is_guarded_and_nothing_else() {
  let mut guarded = world(TWO);
  drop(guarded.test().config("workspaces = [\"[TMP]/c\"]\n"));
  guarded.start();
  assert_eq!(places(&guarded), ["[TMP]/c"]);
  guarded.stop();
}

#[test]
fn a_workspace_behind_a_link_is_one_workspace() {
  let mut guarded = world(TWO);
  std::os::unix::fs::symlink("b", guarded.tmp().join("link")).unwrap();
  configure(&guarded, &TWO.replace("ann: {}", "ann: {workspace: '[TMP]/link'}"));
  guarded.start();
  assert_eq!(places(&guarded), ["[TMP]/b"]);
  guarded.stop();
}

#[test]
fn findings_in_instructions_are_flagged_and_stay() {
  let mut guarded =
    Guarded::new(AT_ONCE).memory("AGENTS.md", format!("# Agents\n\n{}\n", clean(1)));
  guarded.start();
  let text = format!("# Agents\n\n{}\n\n{}\n", clean(1), poison(1));
  drop(
    guarded
      .test()
      .memory("AGENTS.md", &text)
      .memory("users/ann/USER.md", format!("{}\n", poison(2))),
  );
  eventually("both are flagged", || guarded.listed("flagged").len() == 2);
  guarded.settle();
  assert_eq!(guarded.read("AGENTS.md"), text.as_bytes(), "no byte of it changes");
  assert!(guarded.waiting().is_empty());
  // What a person takes out goes all the same.
  guarded.ok(&["quarantine", "add", "AGENTS.md:5"]);
  guarded.settle();
  assert!(!String::from_utf8(guarded.read("AGENTS.md")).unwrap().contains(&needle(1)));
  guarded.stop();
}

#[test]
fn the_configuration_says_from_which_of_them_poison_is_taken_out() {
  let mut guarded =
    Guarded::new("[files]\nidle_ms = 0\nquarantine = [\"SOUL.md\"]\nignore = [\"TOOLS.md\"]\n");
  guarded.start();
  for file in ["SOUL.md", "TOOLS.md", "BOOT.md"] {
    drop(guarded.test().memory(file, format!("{}\n\n{}\n", clean(1), poison(1))));
  }
  guarded.settle();
  let named = |items: Vec<Value>| -> Vec<String> {
    items
      .iter()
      .map(|item| item["file"].as_str().unwrap().replace("[TMP]/workspace/", ""))
      .collect()
  };
  assert_eq!(named(guarded.waiting()), ["SOUL.md"]);
  assert_eq!(named(guarded.listed("flagged")), ["BOOT.md"]);
  guarded.stop();
}
