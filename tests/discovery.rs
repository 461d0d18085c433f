//! Which workspaces are guarded without a configured one, and how files of instructions are
//! treated.

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

/// The JSON of `status`, with any exit status.
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
  guarded.wait_for_items(2);
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
  // Half a file does not show which workspaces are used: all stay guarded, and the problem is
  // reported.
  configure(&guarded, "{agents: {entr");
  guarded.wait_for_log("cannot be read");
  eventually("the default workspace comes to those that were known", || {
    places(&guarded).len() == 4
  });
  assert!(status(&guarded)["degradations"].to_string().contains("cannot be read"));
  configure(&guarded, TWO);
  eventually("one is let go", || places(&guarded) == ["[TMP]/state/workspace-ann", "[TMP]/b"]);
  let told = |guarded: &Guarded| status(guarded)["degradations"].to_string();
  assert!(told(&guarded).contains("/c was guarded until"), "{}", told(&guarded));
  // Every start reports it, until a person confirms it.
  guarded.stop();
  guarded.start();
  assert!(told(&guarded).contains("/c was guarded until"), "{}", told(&guarded));
  guarded.memfw(&["doctor", "--fix"]);
  assert!(told(&guarded).contains("/c was guarded until"), "a repair confirms nothing");
  let other = guarded.memfw(&["doctor", "--unguarded", "/nowhere"]).stdout;
  let known = "`/nowhere` is not a directory that memfw has stopped guarding";
  assert!(other.contains(known), "{other}");
  let left = guarded.tmp().join("c").to_string_lossy().into_owned();
  let fixed = guarded.memfw(&["doctor", "--unguarded", &left]).stdout;
  assert!(fixed.contains("confirmed as no longer guarded"), "{fixed}");
  assert_eq!(told(&guarded), "[]");
  guarded.stop();
  guarded.start();
  assert_eq!(told(&guarded), "[]");
  guarded.stop();
}

#[test]
fn what_lies_in_a_workspace_that_comes_later_is_no_baseline() {
  for is_running in [true, false] {
    let mut guarded = world(TWO);
    drop(guarded.test().write("b/MEMORY.md", format!("{}\n", poison(1))));
    guarded.start();
    assert_eq!(guarded.listed("flagged").len(), 1, "what was there at the first start is");
    if !is_running {
      guarded.stop();
    }
    drop(guarded.test().write("c/MEMORY.md", format!("{}\n{}\n", clean(3), poison(3))));
    drop(guarded.test().write("c/memory/n.md", format!("{}\n", poison(4))));
    configure(&guarded, THREE);
    if !is_running {
      guarded.start();
    }
    guarded.wait_for_items(2);
    for n in [3, 4] {
      assert!(guarded.holding("c", &needle(n)).is_empty());
    }
    let sources = guarded.ok(&["provenance", &format!("{}/c/MEMORY.md", guarded.tmp().display())]);
    assert!(!sources.contains("baseline"), "{sources}");
    guarded.stop();
  }
}

#[test]
fn what_the_agent_reads_under_odd_names_is_judged() {
  let mut guarded = world(TWO);
  drop(guarded.test().write("b/MEMORY.md", "# Memory\n"));
  guarded.start();
  let files = ["b/memory/.cache.md", "b/memory/.hidden/2026-11-01.md", "b/memory/ok/.git/x.md"];
  for (n, file) in files.iter().enumerate() {
    drop(guarded.test().write(file, format!("{}\n", poison(n))));
  }
  drop(guarded.test().write("b/DrEaMs.md", format!("{}\n", poison(9))));
  guarded.wait_for_items(3);
  eventually("the diary is flagged", || guarded.listed("flagged").len() == 1);
  for n in 0..3 {
    assert!(guarded.holding("b", &needle(n)).is_empty());
  }
  guarded.stop();
}

#[test]
fn what_is_indexed_and_not_judged_is_named() {
  let mut guarded = world("{agents: {entries: {ann: {workspace: '[TMP]/b'}}}}");
  drop(guarded.test().write("b/MEMORY.md", "# Memory\n").write("b/elsewhere/n.md", "- x\n"));
  let dir = guarded.tmp().join("state/agents/ann/agent");
  fs::create_dir_all(&dir).unwrap();
  let index = rusqlite::Connection::open(dir.join("openclaw-agent.sqlite")).unwrap();
  index
    .execute_batch(
      "CREATE TABLE memory_index_sources (path TEXT, source TEXT, hash TEXT);
       CREATE TABLE memory_index_chunks (path TEXT, source TEXT, text TEXT);
       INSERT INTO memory_index_sources VALUES ('MEMORY.md', 'memory', ''), ('gone.md', 'memory', ''),
         ('elsewhere/n.md', 'memory', ''), ('sessions/x.jsonl', 'sessions', '');",
    )
    .unwrap();
  guarded.start();
  let status = status(&guarded);
  let unguarded = status["unguarded"].as_array().unwrap();
  assert_eq!(unguarded.len(), 1, "{status:#}");
  assert!(unguarded[0]["file"].as_str().unwrap().ends_with("b/elsewhere/n.md"), "{status:#}");
  assert!(status["degradations"].to_string().contains("1 file is not fully guarded"), "{status:#}");
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

/// One agent, and notes in three further places that it searches: a directory, one below the
/// workspace, and one file of a directory.
const SEARCHED: &str = "{agents: {entries: {ann: {workspace: '[TMP]/b'}}}, \
  memory: {search: {extraPaths: [{path: '[TMP]/notes', pattern: '*.md'}, 'docs', '[TMP]/c/one.md', 'memory/x']}}}";

#[test]
fn notes_that_the_agent_searches_besides_are_reported() {
  let mut guarded = world(SEARCHED);
  drop(guarded.test().write("notes/old.md", format!("{}\n", clean(9))));
  guarded.start();
  let mut all = places(&guarded);
  assert_eq!(all.remove(0), "[TMP]/b", "{all:?}");
  assert_eq!(all, ["[TMP]/b/docs", "[TMP]/c", "[TMP]/notes"]);
  let text = format!("{}\n\n{}\n", clean(1), poison(1));
  for file in ["notes/new/x.md", "b/docs/y.md", "c/one.md", "b/memory/x/z.md"] {
    drop(guarded.test().write(file, &text));
  }
  drop(guarded.test().write("c/two.md", format!("{}\n", poison(2))));
  eventually("what is memory is clean", || guarded.waiting().len() == 1);
  eventually("the others are flagged", || guarded.listed("flagged").len() == 3);
  guarded.settle();
  for file in ["notes/new/x.md", "b/docs/y.md", "c/one.md"] {
    let now = fs::read_to_string(guarded.tmp().join(file)).unwrap();
    assert_eq!(now, text, "no byte of {file} changes");
  }
  assert!(status(&guarded)["degradations"].as_array().unwrap().is_empty(), "{}", status(&guarded));
  guarded.stop();
}

#[test]
fn the_configuration_says_whether_they_are_cleaned_or_left_alone() {
  for (word, n_waiting, n_places) in [("quarantine", 1, 4), ("ignore", 0, 1)] {
    let mut guarded = world(SEARCHED);
    drop(guarded.test().config(format!("{AT_ONCE}[agent]\nextra_paths = \"{word}\"\n")));
    fs::create_dir(guarded.tmp().join("notes")).unwrap();
    guarded.start();
    assert_eq!(places(&guarded).len(), n_places, "{word}");
    let text = format!("{}\n\n{}\n", clean(1), poison(1));
    drop(
      guarded.test().write("notes/x.md", &text).write("b/MEMORY.md", format!("{}\n", poison(2))),
    );
    eventually("it is done", || guarded.waiting().len() == n_waiting + 1);
    guarded.settle();
    let now = fs::read_to_string(guarded.tmp().join("notes/x.md")).unwrap();
    assert_eq!(now.contains(&needle(1)), word == "ignore", "{now}");
    assert!(now.starts_with(&clean(1)), "no markers in notes: {now}");
    assert!(guarded.listed("flagged").is_empty());
    guarded.stop();
  }
}

#[test]
fn a_workspace_that_comes_later_is_no_fault_and_is_guarded_then() {
  let mut guarded = world(TWO);
  fs::remove_dir(guarded.tmp().join("b")).unwrap();
  guarded.start();
  assert!(status(&guarded)["degradations"].as_array().unwrap().is_empty(), "{}", status(&guarded));
  assert!(status(&guarded)["workspaces"].to_string().contains("does not exist yet"));
  drop(guarded.test().write("b/MEMORY.md", format!("{}\n", poison(1))));
  eventually("it is guarded", || guarded.waiting().len() == 1);
  eventually("it is there", || {
    !status(&guarded)["workspaces"].to_string().contains("does not exist yet")
  });
  // A directory that existed once is reported as missing.
  fs::remove_dir_all(guarded.tmp().join("b")).unwrap();
  eventually("it is missed", || !status(&guarded)["degradations"].as_array().unwrap().is_empty());
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
  // Text that a person takes out is still taken out.
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

#[test]
fn a_broken_configuration_of_the_agent_is_reported_also_where_the_workspaces_are_named() {
  let mut guarded = Guarded::new("").memory("MEMORY.md", "# Memory\n");
  let config = guarded.tmp().join("home/.openclaw/openclaw.json");
  fs::create_dir_all(config.parent().unwrap()).unwrap();
  fs::write(&config, "{agents: ").unwrap();
  guarded.start();
  let said = "openclaw.json`: it is not valid JSON5; correct the file";
  let shown = guarded.memfw(&["status"]);
  assert!(shown.status == 1 && shown.stdout.contains(said), "{shown:?}");
  assert!(guarded.log().contains("it is not valid JSON5"), "{}", guarded.log());
  fs::write(&config, "{}").unwrap();
  eventually("it is read again", || guarded.memfw(&["status"]).status == 0);
  // A configuration that breaks while the daemon runs.
  fs::write(&config, "{").unwrap();
  eventually("it is told", || guarded.memfw(&["status"]).stdout.contains(said));
  fs::remove_file(&config).unwrap();
  eventually("there is none", || guarded.memfw(&["status"]).status == 0);
  guarded.stop();
}
