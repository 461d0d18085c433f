//! `memfw openclaw` on the state that a real OpenClaw left behind.

use {
  crate::support::{Guarded, Test, poison},
  memfw::memory::ContentHash,
  rusqlite::Connection,
  serde_json::{Value, json},
  std::{
    fs,
    os::unix::{
      ffi::OsStrExt as _,
      fs::{PermissionsExt as _, symlink},
    },
    path::Path,
  },
};

/// The path by which OpenClaw knew the workspace when it wrote the state.
const THEN: &str = "/home/claw/.openclaw/workspace";

/// The state in a directory of its own, as if OpenClaw had written it there.
fn world() -> Guarded {
  let guarded = Guarded::new("").env("OPENCLAW_STATE_DIR", "[TMP]/state");
  drop(guarded.test().config(""));
  put(&guarded.tmp().join("state"));
  guarded
}

/// Puts it into a directory, for a workspace below that.
pub(crate) fn put(state: &Path) {
  let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/openclaw/state");
  for (from, to) in [
    ("openclaw.sqlite", "state/openclaw.sqlite"),
    ("openclaw-agent.sqlite", "agents/main/agent/openclaw-agent.sqlite"),
    ("workspace/MEMORY.md", "workspace/MEMORY.md"),
    ("workspace/memory/2026-11-20.md", "workspace/memory/2026-11-20.md"),
    ("workspace/memory/2026-11-21.md", "workspace/memory/2026-11-21.md"),
  ] {
    let to = state.join(to);
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    fs::write(to, fs::read(fixture.join(from)).unwrap()).unwrap();
  }
  let key = |path: &Path| ContentHash::of(path.as_os_str().as_bytes()).to_hex();
  let (old, new) = (key(Path::new(THEN)), key(&state.join("workspace").canonicalize().unwrap()));
  Connection::open(state.join("state/openclaw.sqlite"))
    .unwrap()
    .execute(
      "UPDATE plugin_state_entries SET entry_key = replace(entry_key, ?1, ?2),
       value_json = replace(value_json, ?1, ?2)",
      (old, new),
    )
    .unwrap();
}

/// Puts the plugin of this memfw there, as OpenClaw would have installed it.
pub(crate) fn put_plugin(state: &Path) {
  let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("integrations/openclaw");
  let to = state.join("extensions/memfw");
  let skill = "skills/memfw-memory/SKILL.md";
  fs::create_dir_all(to.join(skill).parent().unwrap()).unwrap();
  fs::copy(from.join(skill), to.join(skill)).unwrap();
  for entry in fs::read_dir(&from).unwrap() {
    let path = entry.unwrap().path();
    if path.extension().is_some_and(|ending| ending == "js" || ending == "json") {
      fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
  }
}

fn database(guarded: &Guarded) -> Connection {
  Connection::open(guarded.tmp().join("state/state/openclaw.sqlite")).unwrap()
}

fn status(guarded: &Guarded) -> Value {
  let output = guarded.memfw(&["openclaw", "status", "--json"]);
  assert_eq!(output.stderr, "");
  serde_json::from_str(&output.stdout).unwrap()
}

/// The report on one file of the only agent.
fn file(status: &Value, name: &str) -> Value {
  let files = status["installations"][0]["agents"][0]["files"].as_array().unwrap();
  let is_meant = |file: &&Value| file["file"].as_str().unwrap().ends_with(name);
  files.iter().find(is_meant).cloned().unwrap_or_default()
}

/// Hash and class in OpenClaw's row about MEMORY.md.
fn row(guarded: &Guarded) -> (String, String) {
  database(guarded)
    .query_row(
      "SELECT value_json ->> '$.fileHash', value_json ->> '$.originClass'
       FROM plugin_state_entries WHERE value_json ->> '$.relativePath' = 'MEMORY.md'",
      [],
      |row| Ok((row.get(0)?, row.get(1)?)),
    )
    .unwrap()
}

fn now(guarded: &Guarded) -> String {
  let bytes = fs::read(guarded.tmp().join("state/workspace/MEMORY.md")).unwrap();
  ContentHash::of(&bytes).to_hex()
}

const MEMORY: &str = "[TMP]/state/workspace/MEMORY.md";

#[test]
fn status_tells_what_is_loaded_and_what_is_not() {
  let guarded = world();
  insta::assert_json_snapshot!("status", status(&guarded));
  let output = guarded.memfw(&["openclaw", "status"]);
  assert_eq!((output.status, output.stderr.as_str()), (1, ""));
  for line in [
    "  database    written by 2026.9.6, schema 18\n",
    "    transcripts sqlite, schema 23\n",
    "    index       3 files up to date, 1 deleted\n",
    "by session 315857cc-1b16-46b9-ba03-f8fd22524341; memfw openclaw retrust [TMP]/state/workspace/MEMORY.md\n",
    "    USER.md: not loaded: it is missing\n",
    "    memory/2026-11-20.md: searched; edited since OpenClaw wrote it",
    "    memory/2026-11-21.md: only searched: OpenClaw does not trust it",
  ] {
    assert!(output.stdout.contains(line), "{line}: {}", output.stdout);
  }
}

#[test]
fn a_file_that_is_no_plain_file_is_not_loaded() {
  let guarded = world();
  let path = |name: &str| guarded.tmp().join("state/workspace").join(name);
  fs::rename(path("MEMORY.md"), path("elsewhere.md")).unwrap();
  symlink("elsewhere.md", path("MEMORY.md")).unwrap();
  fs::write(path("USER.md"), "a".repeat(5_000)).unwrap();
  fs::write(path("SOUL.md"), "a").unwrap();
  fs::hard_link(path("SOUL.md"), path("second.md")).unwrap();
  let status = status(&guarded);
  let told = |name: &str| {
    let file = file(&status, name);
    (file["injected"].clone(), file["why"].clone())
  };
  assert_eq!(told("MEMORY.md"), (json!("no"), json!("it is a link")));
  assert_eq!(told("USER.md"), (json!("part"), json!("4000 of its 5000 characters")));
  assert_eq!(told("SOUL.md"), (json!("no"), json!("it has a second hard link")));
}

#[test]
fn nothing_that_cannot_be_read_stops_the_answer() {
  let guarded = world();
  fs::write(guarded.tmp().join("state/openclaw.json"), "{broken").unwrap();
  fs::write(guarded.tmp().join("state/state/openclaw.sqlite"), "no database").unwrap();
  fs::write(guarded.tmp().join("state/agents/main/agent/openclaw-agent.sqlite"), "").unwrap();
  let output = guarded.memfw(&["openclaw", "status"]);
  assert_eq!((output.status, output.stderr.as_str()), (1, ""));
  assert!(output.stdout.contains("(cannot be read: defaults apply)"), "{}", output.stdout);
  assert!(output.stdout.contains("not a database"), "{}", output.stdout);
  // Without any OpenClaw there is no problem.
  let output = Test::new().args(["openclaw", "status", "--json"]).output();
  assert_eq!((output.status, output.stderr.as_str()), (0, ""));
}

#[test]
fn the_older_store_is_reported() {
  let guarded = world();
  fs::remove_file(guarded.tmp().join("state/agents/main/agent/openclaw-agent.sqlite")).unwrap();
  drop(guarded.test().write("state/agents/main/sessions/sessions.json", "{}"));
  let status = status(&guarded);
  let agent = &status["installations"][0]["agents"][0];
  assert_eq!((&agent["transcripts"], &agent["indexed"]), (&json!("jsonl"), &json!(false)));
}

#[test]
fn a_dropped_file_is_trusted_again_after_a_review() {
  let mut guarded = world();
  // The planted line of the fixture is flagged by the first scan, and taken out by a person's
  // decision.
  guarded.start();
  for item in guarded.listed("flagged") {
    guarded.ok(&["quarantine", "add", item["id"].as_str().unwrap()]);
  }
  guarded.settle();
  let before = row(&guarded);
  let output = guarded.memfw(&["openclaw", "retrust", MEMORY]);
  assert_eq!(output.status, 2, "nobody was asked: {output:?}");
  assert_eq!(row(&guarded), before);
  assert!(output.stdout.contains(&format!("sha256    {}", now(&guarded))), "{}", output.stdout);
  assert!(output.stdout.contains("line 6: baseline, verified, validated"), "{}", output.stdout);
  assert!(output.stdout.contains("| - Prefers short answers"), "{}", output.stdout);
  assert!(!output.stdout.contains("credentials"), "{}", output.stdout);
  let said = guarded.ok(&["openclaw", "retrust", MEMORY, "--yes"]);
  assert!(said.contains("trusted from the next turn on"), "{said}");
  assert_eq!(row(&guarded), (now(&guarded), "agent".to_owned()));
  assert_eq!(file(&status(&guarded), "MEMORY.md")["injected"], "whole");
  // A copy of the former row is kept, and the change is on record.
  let copies = guarded.holding("memfw/data", &before.0);
  assert_eq!(copies.len(), 1, "{copies:?}");
  let events = guarded.json(&["audit", "--event", "retrusted", "--json"]);
  assert_eq!(events.as_array().unwrap().len(), 1, "{events:#}");
  let said = guarded.ok(&["openclaw", "retrust", MEMORY]);
  assert!(said.contains("trusts it already"), "{said}");
  guarded.stop();
}

#[test]
fn a_file_in_doubt_is_refused() {
  let mut guarded = world();
  let refused = |guarded: &Guarded, why: &str| {
    let before = row(guarded);
    let output = guarded.memfw(&["openclaw", "retrust", MEMORY]);
    assert_eq!(output.status, 2, "{output:?}");
    assert!(output.stderr.contains("is in doubt; nothing was changed"), "{}", output.stderr);
    assert!(output.stdout.contains(why), "{}", output.stdout);
    assert_eq!(row(guarded), before);
  };
  refused(&guarded, "memfw does not guard it");
  guarded.start();
  guarded.settle();
  refused(&guarded, "a block in it is flagged");
  guarded.stop();
  drop(guarded.test().write("state/workspace/MEMORY.md", format!("{}\n", poison(1))));
  refused(&guarded, "it has changed since memfw judged it");
}

#[test]
fn a_row_of_unknown_form_is_not_touched() {
  let guarded = world();
  let sql = "UPDATE plugin_state_entries SET value_json = replace(value_json, '\"version\":1', '\"version\":2')";
  database(&guarded).execute(sql, []).unwrap();
  let before = row(&guarded);
  let output = guarded.memfw(&["openclaw", "retrust", MEMORY, "--yes"]);
  assert_eq!(output.status, 2, "{output:?}");
  assert!(output.stderr.contains("of unknown form"), "{}", output.stderr);
  assert_eq!(row(&guarded), before);
  let output = guarded.memfw(&["openclaw", "retrust", "[TMP]/elsewhere.md", "--yes"]);
  assert_eq!(output.status, 2, "{output:?}");
}

#[test]
fn what_is_missing_of_an_installed_plugin_is_reported() {
  let guarded = world();
  let state = guarded.tmp().join("state");
  put_plugin(&state);
  let plugin = || status(&guarded)["installations"][0]["plugin"].clone();
  let missing = json!({
    "writes": "off", "reads": "missing", "chat": "missing", "notices": "off", "judge": "off",
  });
  let expected = json!({
    "installed": true, "current": true, "running": false, "enabled": true, "writes": "quarantine",
    "parts": missing,
  });
  assert_eq!(plugin(), expected);
  let said = |args: &[&str]| guarded.memfw(args).stdout;
  let all = said(&["openclaw", "status"]);
  let lines = "  plugin      installed, and no `memfw link` runs; it starts with OpenClaw's gateway or the agent's \
               next run\n  missing     frames around what the agent reads, `/memfw` in chats; the daemon takes \
               poison out after the write\n";
  assert!(all.contains(lines), "{all}");
  let short = said(&["status"]);
  let line = "  plugin      no `memfw link` runs; missing: frames around what the agent reads, `/memfw` in chats: \
              memfw openclaw status\n";
  assert!(short.contains(line), "{short}");
  let checks = said(&["doctor"]);
  assert!(checks.contains("plugin         no `memfw link` runs; missing: "), "{checks}");

  // The configuration decides what is asked for, and whether OpenClaw loads it at all.
  let config = |plugins: Value| {
    let all = json!({ "plugins": plugins, "commands": { "ownerAllowFrom": ["telegram:42"] } });
    fs::write(state.join("openclaw.json"), all.to_string()).unwrap();
  };
  config(json!({ "entries": { "memfw": { "config": { "reads": false } } } }));
  let parts = json!({
    "writes": "off", "reads": "off", "chat": "missing", "notices": "missing", "judge": "off",
  });
  assert_eq!(plugin()["parts"], parts);
  config(json!({ "entries": { "memfw": { "enabled": false } } }));
  assert_eq!(
    (&plugin()["enabled"], &plugin()["parts"]["reads"]),
    (&json!(false), &json!("missing"))
  );
  let all = said(&["openclaw", "status"]);
  assert!(all.contains("OpenClaw does not load it: `plugins.entries.memfw.enabled`"), "{all}");
  assert!(!all.contains("next run"), "{all}");

  // A file of another memfw.
  config(json!({}));
  fs::write(state.join("extensions/memfw/link.js"), "").unwrap();
  assert_eq!(plugin()["current"], false);
  assert!(said(&["status"]).contains("of another memfw"));
  fs::remove_file(state.join("extensions/memfw/openclaw.plugin.json")).unwrap();
  assert_eq!((&plugin()["installed"], &plugin()["parts"]), (&json!(false), &Value::Null));
  assert!(!said(&["status"]).contains("  plugin "));
}

/// Installs and removes a plugin like OpenClaw, and writes its configuration again each time.
const INSTALLER: &str = r#"#!/bin/sh
dir="$HOME/.openclaw"
if [ "$1" = --profile ]; then
  dir="$dir-$2"
  shift 2
fi
case $2 in
  install) mkdir -p "$dir/extensions" && cp -r "$3" "$dir/extensions/memfw" ;;
  uninstall) rm -r "$dir/extensions/memfw" ;;
esac
echo "{ after: '$2' }" >"$dir/openclaw.json"
"#;

#[test]
fn the_plugin_goes_into_the_openclaw_that_is_named() {
  let guarded = Guarded::new("[agent]\nprofiles = [\"work\"]\nprogram = \"[TMP]/installer\"\n");
  let installer = guarded.tmp().join("installer");
  fs::write(&installer, INSTALLER).unwrap();
  fs::set_permissions(&installer, fs::Permissions::from_mode(0o755)).unwrap();
  let state = |name: &str| guarded.tmp().join("home").join(name);
  let both = [".openclaw", ".openclaw-work"];
  let config = |name: &str| fs::read_to_string(state(name).join("openclaw.json")).unwrap();
  for name in both {
    fs::create_dir_all(state(name)).unwrap();
    fs::write(state(name).join("openclaw.json"), format!("{{ before: '{name}' }}")).unwrap();
  }
  let has = |name: &str| state(name).join("extensions/memfw/index.js").exists();
  let run = |args: &[&str]| {
    let output = guarded.memfw(&[&["openclaw"], args].concat());
    assert_eq!((output.status, output.stderr.as_str()), (0, ""), "{args:?}: {}", output.stdout);
    output.stdout
  };

  // Without a name it is the first one, and the other one is named.
  let said = run(&["install", "--accept-capabilities"]);
  let lines =
    "OpenClaw in [TMP]/home/.openclaw\n  another is in [TMP]/home/.openclaw-work: --profile work\n";
  assert!(said.starts_with(lines), "{said}");
  assert_eq!(both.map(has), [true, false]);
  let said = run(&["install", "--accept-capabilities", "--profile", "work"]);
  assert!(said.starts_with("OpenClaw in [TMP]/home/.openclaw-work\ninstalled"), "{said}");
  assert_eq!(both.map(has), [true, true]);

  let installations = |args: &[&str]| -> Vec<Value> {
    let output = guarded.memfw(&[&["openclaw", "status", "--json"], args].concat());
    serde_json::from_str::<Value>(&output.stdout).unwrap()["installations"]
      .as_array()
      .unwrap()
      .clone()
  };
  let profiles = |args: &[&str]| -> Vec<Value> {
    installations(args).iter().map(|one| one["profile"].clone()).collect()
  };
  assert_eq!(profiles(&[]), [Value::Null, json!("work")]);
  assert_eq!(profiles(&["--profile", "work"]), [json!("work")]);
  assert_eq!(profiles(&["--profile", "default"]), [Value::Null]);
  let lines = guarded.memfw(&["status"]).stdout;
  for name in both {
    assert!(
      lines.contains(&format!("  plugin      in [TMP]/home/{name}: no `memfw link` runs; ")),
      "{lines}"
    );
  }

  // Each gets its own configuration back.
  let said = run(&["uninstall", "--profile", "work"]);
  assert!(said.contains("as it was before the installation"), "{said}");
  assert_eq!(
    (both.map(has), config(".openclaw-work")),
    ([true, false], "{ before: '.openclaw-work' }".to_owned())
  );
  let said = run(&["uninstall"]);
  assert!(said.contains("as it was before the installation"), "{said}");
  assert_eq!(
    (both.map(has), config(".openclaw")),
    ([false, false], "{ before: '.openclaw' }".to_owned())
  );

  // OpenClaw keeps a plugin disabled that was removed before.
  let off = "{ plugins: { entries: { memfw: { enabled: false } } } }";
  fs::write(&installer, INSTALLER.replace("{ after: '$2' }", off)).unwrap();
  let said = run(&["install", "--accept-capabilities"]);
  assert!(said.contains("does not load it: `plugins.entries.memfw.enabled`"), "{said}");
  assert!(!said.contains("it begins with"), "{said}");

  for (name, why) in
    [("home", "guards no OpenClaw of the profile `home`"), ("../x", "is not a profile name")]
  {
    let output = guarded.memfw(&["openclaw", "uninstall", "--profile", name]);
    assert_eq!(output.status, 2);
    assert!(output.stderr.contains(why), "{}", output.stderr);
  }
}
