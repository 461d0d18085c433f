//! Each answer was compared with `openclaw agents list --json` of OpenClaw 2026.9.6, but for the older
//! list of agents, which it refuses to read.

use proptest::prelude::*;

use super::*;

struct World {
  dir: tempfile::TempDir,
  env: OpenClawEnv,
}

impl World {
  fn new(config: &str) -> Self {
    let dir = tempfile::tempdir().unwrap();
    let env = OpenClawEnv { home: Some(dir.path().to_owned()), ..OpenClawEnv::default() };
    Self { dir, env }.with(".openclaw/openclaw.json", config)
  }

  #[expect(clippy::disallowed_methods, reason = "a test's own files")]
  fn with(self, file: &str, text: &str) -> Self {
    let path = self.dir.path().join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    self
  }

  fn found(&self) -> Installation {
    Installation::of(&self.env).unwrap()
  }

  /// Id, workspace and whether it is the default one, with `~` for the home directory.
  fn agents(&self) -> Vec<(String, String, bool)> {
    let home = self.dir.path().display().to_string();
    let shown = |path: &Path| path.display().to_string().replace(&home, "~");
    let found = self.found();
    found.agents.iter().map(|one| (one.id.clone(), shown(&one.workspace), one.is_default)).collect()
  }

  #[track_caller]
  fn expect(&self, expected: &[(&str, &str, bool)]) {
    let found = self.agents();
    let found: Vec<_> = found.iter().map(|(id, path, own)| (&**id, &**path, *own)).collect();
    assert_eq!(found, expected);
  }
}

#[test]
fn without_a_roster_there_is_the_agent_main() {
  World::new("{}").expect(&[("main", "~/.openclaw/workspace", true)]);
  World::new("{agents: {defaults: {workspace: '~/base/'}}}").expect(&[("main", "~/base", true)]);
}

#[test]
fn the_only_agent_has_the_workspace_without_a_name() {
  World::new("{agents: {entries: {b: {}}}}").expect(&[("b", "~/.openclaw/workspace", true)]);
}

#[test]
fn several_agents_have_their_own() {
  let config = "{agents: {ownership: 'explicit', defaults: {workspace: '~/base'}, entries: {b: {}, \
    'C_x': {agentDir: '~/ad'}, d: {workspace: '${HOME}/d/../e'}}}}";
  let world = World::new(config);
  world.expect(&[("b", "~/base/b", false), ("c_x", "~/base/c_x", false), ("d", "~/e", false)]);
  let found = world.found();
  assert_eq!(found.agents[1].dir, world.dir.path().join("ad"));
  assert_eq!(found.agents[0].dir, world.dir.path().join(".openclaw/agents/b/agent"));
  World::new("{agents: {ownership: 'explicit', entries: {b: {}, c: {}}}}")
    .expect(&[("b", "~/.openclaw/workspace-b", false), ("c", "~/.openclaw/workspace-c", false)]);
}

#[test]
fn the_marked_agent_has_the_base() {
  World::new("{agents: {defaults: {workspace: '~/base'}, entries: {b: {default: true}, c: {}}}}")
    .expect(&[("b", "~/base", true), ("c", "~/base/c", false)]);
}

#[test]
fn the_older_list_is_read() {
  World::new("{agents: {list: [{id: 'Main One'}, {id: 'b', workspace: '/w'}]}}")
    .expect(&[("main-one", "~/.openclaw/workspace", true), ("b", "/w", false)]);
  World::new("{agents: {list: [{id: 'a'}, {id: 'b', default: true}]}}")
    .expect(&[("a", "~/.openclaw/workspace-a", false), ("b", "~/.openclaw/workspace", true)]);
}

#[test]
fn includes_and_variables_count() {
  World::new("{$include: './inc/a.json5', agents: {ownership: 'explicit', entries: {c: {}}}}")
    .with(
      ".openclaw/inc/a.json5",
      "{agents: {entries: {b: {workspace: '${WSX}/y'}}}, env: {vars: {WSX: '/srv/q'}}}",
    )
    .expect(&[("b", "/srv/q/y", false), ("c", "~/.openclaw/workspace-c", false)]);
}

#[test]
fn what_cannot_be_resolved_is_noted_and_not_guessed() {
  let world = World::new(
    "{agents: {ownership: 'explicit', entries: {b: {workspace: 'rel'}, c: {workspace: '${GONE}/x'}, d: {}}}}",
  );
  world.expect(&[("d", "~/.openclaw/workspace-d", false)]);
  let notes = world.found().notes;
  assert!(notes[0].contains("relative") && notes[1].contains("`GONE`"), "{notes:?}");
}

#[test]
fn a_broken_configuration_leaves_the_defaults_and_what_its_name_tells() {
  let world = World::new("{agents: ").with(".openclaw/workspace-ops/MEMORY.md", "");
  world.expect(&[
    ("main", "~/.openclaw/workspace", true),
    ("ops", "~/.openclaw/workspace-ops", false),
  ]);
  let found = world.found();
  assert!(!found.is_complete() && found.notes[0].contains("cannot be read"), "{:?}", found.notes);
}

#[test]
fn the_environment_leads_elsewhere() {
  let mut world = World::new("{agents: {entries: {b: {}}}}").with("st/openclaw.json", "{}");
  world.env.profile = Some("work".to_owned());
  world.expect(&[("b", "~/.openclaw-work/workspace", true)]);
  world.env.state_dir = Some("~/st".into());
  world.expect(&[("main", "~/st/workspace", true)]);
  world.env.config_path = Some("~/.openclaw/openclaw.json".into());
  world.expect(&[("b", "~/st/workspace", true)]);
}

#[test]
fn the_first_state_directory_is_used_where_there_is_no_newer_one() {
  let dir = tempfile::tempdir().unwrap();
  let env = OpenClawEnv { home: Some(dir.path().to_owned()), ..OpenClawEnv::default() };
  let world = World { dir, env }.with(".clawdbot/clawdbot.json", "{agents: {entries: {z: {}}}}");
  let found = world.found();
  assert_eq!(found.layout.state_dir, world.dir.path().join(".clawdbot"));
  world.expect(&[("z", "~/.openclaw/workspace", true)]);
}

#[test]
fn profiles_are_found_only_by_their_names() {
  let world = World::new("{}").with(".openclaw-work/openclaw.json", "{agents: {entries: {w: {}}}}");
  assert_eq!(Installation::discover(&world.env, &[]).len(), 1);
  let names = ["work", "work", "default", "../x"].map(str::to_owned);
  let found = Installation::discover(&world.env, &names);
  assert_eq!(found.len(), 2, "{found:?}");
  assert_eq!(found[1].agents[0].workspace, world.dir.path().join(".openclaw-work/workspace"));
  assert!(found[0].notes[0].contains("../x"), "{:?}", found[0].notes);
}

#[test]
fn limits_and_further_paths_are_the_agents_own_or_the_common_ones() {
  let world = World::new(
    "{agents: {ownership: 'explicit', defaults: {bootstrapMaxChars: 100.9, memorySearch: {extraPaths: ['old']}}, \
     entries: {b: {bootstrapMaxChars: 7, memory: {search: {extraPaths: [{path: '/x/y', pattern: '*'}]}}}, \
     c: {bootstrapTotalMaxChars: -1}}}, memory: {search: {extraPaths: ['~/notes', 'n/../m']}}}",
  );
  let found = world.found();
  let [b, c] = found.agents.as_slice() else { panic!("{found:?}") };
  assert_eq!((b.limits.file, b.limits.total), (7, 60_000));
  assert_eq!((c.limits.file, c.limits.total), (100, 60_000));
  let below = |text: &str| b.workspace.join(text);
  let notes = world.dir.path().join("notes");
  assert_eq!(b.extra, [notes, below("m"), below("old"), "/x/y".into()]);
  assert_eq!(c.extra.len(), 3);
}

proptest! {
  #[test]
  fn any_value_is_answered(text in "[\\[\\]{}:,'$~/a-e0-9 ]{0,60}") {
    let world = World::new(&format!("{{agents: {{entries: {{a: {text}}}}}, memory: {text}}}"));
    let found = world.found();
    prop_assert!(found.agents.iter().all(|agent| agent.workspace.is_absolute()));
  }

  #[test]
  fn an_id_stays_within_its_directory(text in "\\PC{0,80}") {
    let id = agent_id(&text);
    prop_assert!(!id.is_empty() && id.len() <= 64 && !id.contains(['/', '.']));
  }
}
