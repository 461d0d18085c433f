//! The one place where the agent framework is chosen: its environment, workspaces and records.
#![forbid(unsafe_code)]

pub mod call;
mod model;
pub mod program;
pub mod roster;
pub mod service;

use std::{
  collections::BTreeMap,
  ffi::OsString,
  path::{Path, PathBuf},
};

use super::{desktop, judge_client, paths::resolved};
use crate::{
  config::{Config, ExtraPaths, NotifyVia},
  daemon::{Discovery, Helpers, skill_check::SkillPlaces},
  files::{Shape, Shapes},
  openclaw::{Installation, OpenClawEnv, OpenClawRecords, index::Index, skills},
  os::Env,
  provenance::{AgentRecords, NoAgent},
};

/// The variables that OpenClaw reads and that matter here.
pub const VARIABLES: &[&str] = &[
  "OPENCLAW_CONFIG_PATH",
  "OPENCLAW_HOME",
  "OPENCLAW_PROFILE",
  "OPENCLAW_STATE_DIR",
  "OPENCLAW_WORKSPACE_DIR",
  // The directories in which its program is searched.
  "PATH",
];

/// The OpenClaw installations on this machine, by the environment and their configuration.
pub fn installations(env: &Env, config: &Config) -> Vec<Installation> {
  Installation::discover(&surroundings(env), &config.agent_profiles)
}

/// The state directory of a profile of OpenClaw; `None` if this is no name of a profile.
pub fn profile_dir(env: &Env, profile: &str) -> Option<PathBuf> {
  surroundings(env).of_profile(profile)?.state_dir
}

/// The variables that OpenClaw reads.
fn surroundings(env: &Env) -> OpenClawEnv {
  OpenClawEnv {
    home: env.path("HOME"),
    openclaw_home: env.path("OPENCLAW_HOME"),
    state_dir: env.path("OPENCLAW_STATE_DIR"),
    workspace_dir: env.path("OPENCLAW_WORKSPACE_DIR"),
    config_path: env.path("OPENCLAW_CONFIG_PATH"),
    profile: env.get("OPENCLAW_PROFILE").and_then(|name| name.to_str()).map(str::to_owned),
  }
}

/// The workspaces of all agents of OpenClaw, and what follows from its configuration.
pub fn discover(env: &Env, config: &Config) -> Discovery {
  let found = installations(env, config);
  Discovery {
    workspaces: found.iter().flat_map(Installation::workspaces).collect(),
    files: found
      .iter()
      .flat_map(|one| one.settings.files.iter().flat_map(|file| seen(file)))
      .collect(),
    notes: found.iter().flat_map(|one| one.notes.iter().cloned()).collect(),
    unreadable: found.iter().filter_map(Installation::unreadable).collect(),
    distrust: None,
    helpers: helpers(env, config, &found),
    shapes: shapes(config, &found),
    skills: skill_places(env, &found),
    is_named: false,
    is_complete: found.iter().all(Installation::is_complete),
    agent: boxed(found),
  }
}

/// Where OpenClaw finds skills.
fn skill_places(env: &Env, found: &[Installation]) -> SkillPlaces {
  let env = surroundings(env);
  let roots = found.iter().flat_map(|one| one.skill_roots(&env)).map(|root| resolved(&root));
  SkillPlaces {
    roots: roots.collect(),
    besides: skills::INSTALLER_FILES,
    is_unread: !found.iter().all(Installation::is_complete),
  }
}

/// The places of skills in a workspace.
pub fn skill_roots_in(workspace: &Path) -> [PathBuf; 2] {
  skills::of_workspace(workspace)
}

/// The paths outside of its workspaces that OpenClaw searches, as they are on the disk now. OpenClaw follows no
/// link there, so memfw guards no link there either.
fn shapes(config: &Config, found: &[Installation]) -> Shapes {
  let mut shapes = Shapes::default();
  if config.agent_extra_paths == ExtraPaths::Ignore {
    return shapes;
  }
  let workspaces: Vec<PathBuf> =
    found.iter().flat_map(Installation::workspaces).map(|workspace| resolved(&workspace)).collect();
  let is_guarded = |path: &Path, is_dir: bool| {
    workspaces.iter().filter_map(|root| path.strip_prefix(root).ok()).any(|rel| {
      let workspace = Shape::Workspace;
      if is_dir { workspace.has_dir(rel) } else { workspace.has(rel) }
    })
  };
  for path in found.iter().flat_map(|one| &one.agents).flat_map(|agent| &agent.extra) {
    // A path that does not exist yet counts as a file if its name is that of a file.
    let is_dir = match path.symlink_metadata() {
      Ok(meta) if meta.is_symlink() => continue,
      Ok(meta) => meta.is_dir(),
      Err(_) => path.extension().is_none_or(|extension| extension != "md"),
    };
    let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else { continue };
    let dir = resolved(dir);
    match is_dir {
      _ if is_guarded(&dir.join(name), is_dir) => {}
      true => shapes.add_notes(dir.join(name)),
      false => shapes.add_file(dir, name.to_owned()),
    }
  }
  shapes
}

/// The programs that can run after a quarantine.
fn helpers(env: &Env, config: &Config, found: &[Installation]) -> Helpers {
  let program = program::find(env, config);
  let mut reindex = BTreeMap::new();
  for one in found {
    for agent in &one.agents {
      let Some(program) = &program else { continue };
      let mut words = vec![program.clone().into_os_string()];
      words.extend(one.profile.iter().flat_map(|name| ["--profile".into(), name.into()]));
      words.extend(["memory", "index", "--agent", &agent.id].map(OsString::from));
      reindex.insert(resolved(&agent.workspace), words);
    }
  }
  let asks = || model::judge_program(program.as_deref(), &config.judge_model);
  let judge = judge_client::via(env, config, asks);
  Helpers { notify: notify(env, config, program.as_deref()), reindex, judge }
}

/// The command that notifies people; the message is its last argument.
fn notify(
  env: &Env,
  config: &Config,
  program: Option<&Path>,
) -> Option<Result<Vec<OsString>, String>> {
  let words = |more: &[&str]| -> Result<Vec<OsString>, String> {
    let program = program.ok_or("`notify.via` needs OpenClaw's program, which was not found")?;
    Ok(
      [program.as_os_str().to_owned()].into_iter().chain(more.iter().map(OsString::from)).collect(),
    )
  };
  let missing =
    |key: &str| Err(format!("`notify.via` is `{}` and `{key}` is empty", config.notify_via));
  Some(match config.notify_via {
    NotifyVia::None => return None,
    NotifyVia::Message if config.notify_channel.is_empty() => missing("notify.channel"),
    NotifyVia::Message if config.notify_target.is_empty() => missing("notify.target"),
    NotifyVia::Message => {
      let (channel, target) = (&config.notify_channel, &config.notify_target);
      // With `=`, so that no part of the value can be taken for an option.
      words(&[
        "message",
        "send",
        &format!("--channel={channel}"),
        &format!("--target={target}"),
        "--message",
      ])
    }
    NotifyVia::Event => words(&["system", "event", "--mode", "next-heartbeat", "--text"]),
    NotifyVia::Desktop => desktop::words(env),
    NotifyVia::Command if config.notify_command.is_empty() => missing("notify.command"),
    NotifyVia::Command => Ok(config.notify_command.iter().map(OsString::from).collect()),
  })
}

/// OpenClaw's records about its memory files.
pub fn records(env: &Env, config: &Config) -> Box<dyn AgentRecords> {
  boxed(installations(env, config))
}

/// The files of a workspace that are in OpenClaw's index, as far as they exist: its agent finds
/// them when it searches, even if neither names nor configuration show it. Files that the
/// configuration excludes are left out.
pub fn indexed(env: &Env, config: &Config, workspace: &Path) -> Vec<PathBuf> {
  let mut files = Vec::new();
  for one in &installations(env, config) {
    for agent in one.agents_of(workspace) {
      // `memfw openclaw status` reports an index that cannot be read.
      let Ok(Some(index)) = Index::open(one, agent) else { continue };
      let found = index.files().unwrap_or_default().into_iter();
      files.extend(found.filter_map(|file| workspace.join(file).canonicalize().ok()));
    }
  }
  let is_left_out = config.agent_extra_paths == ExtraPaths::Ignore;
  files.retain(|file| file.is_file() && (!is_left_out || file.starts_with(workspace)));
  files.sort();
  files.dedup();
  files
}

/// The command with which a person makes OpenClaw trust a file again.
pub fn retrust(file: &str) -> String {
  format!("memfw openclaw retrust {file}")
}

fn boxed(found: Vec<Installation>) -> Box<dyn AgentRecords> {
  match OpenClawRecords::of(found) {
    Some(records) => Box::new(records),
    None => Box::new(NoAgent),
  }
}

/// The paths under which changes of a file are reported: events name directories without links, and the
/// content of a linked file changes at the target of the link.
fn seen(file: &Path) -> Vec<PathBuf> {
  let (Some(dir), Some(name)) = (file.parent(), file.file_name()) else { return vec![] };
  let mut seen = vec![dir.canonicalize().unwrap_or_else(|_error| dir.to_owned()).join(name)];
  seen.extend(file.canonicalize().ok().filter(|target| !seen.contains(target)));
  seen
}
