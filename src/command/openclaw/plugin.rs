//! `memfw openclaw install` and `uninstall`: the plugin that asks memfw before the agent writes.
//!
//! The plugin's files are part of this program. OpenClaw itself installs and removes them; memfw keeps
//! OpenClaw's configuration as it was, and puts it back if nothing else has changed it.
#![forbid(unsafe_code)]

use std::{
  ffi::OsString,
  path::{Path, PathBuf},
  time::Duration,
};

use serde_json::{Map, Value, json};

use super::{
  args::{InstallArgs, UninstallArgs},
  choice,
  plugin_files::{FILES, ID, SKILL, installed},
  plugin_state::PluginState,
};
use crate::{
  app::{
    agent::{self, program},
    context::Context,
    exit::Status,
  },
  config::LinkWrites,
  engine::event::shown,
  memory::ContentHash,
  openclaw::{Installation, settings::Settings},
  os::{paths, subprocess},
  terminal::{
    escape::terminal,
    failure::{Failure, unavailable},
  },
};

/// What the owner accepts; `{}` stands for this program. docs/openclaw.md has the same list.
const CONSENT: &[&str] = &[
  "sees each call of a tool and its answer, and who asked for the run; keeps that in memory, and gives it to memfw only",
  "may refuse calls of `write`, `edit` and `apply_patch`, or have OpenClaw ask you",
  "refuses calls of these tools that would change memfw itself",
  "hands memory to the model by trust, at a start and from OpenClaw's memory tools, and explains that in one line of the system prompt",
  "starts one program, without a shell: {}, as `memfw link` while OpenClaw runs, and as `memfw judge next` and `memfw judge answer` after a call of the model and when a gateway starts",
  "if `judge.via` is `queue`, has OpenClaw's model answer the questions of memfw's judge: a new entry, its source and your request, with secrets masked, go to the provider of that model, at your cost",
  "answers the command `/memfw` in a chat, to you alone and past the model",
  "sends a notice of what was taken out or held, without its words, to your own chat on Telegram, if OpenClaw's configuration names one",
  "brings one skill, which tells the agent what memfw's comments and frames mean",
];
/// The file of the plugin that names this program.
const PROGRAM: &str = "program.json";
/// The variables by which memfw finds its own files; the agent's are named in its room.
const VARIABLES: &[&str] = &["HOME", "MEMFW_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"];
/// Where the files lie for OpenClaw to copy, below memfw's data directory.
const PACKAGE: &str = "openclaw-plugin";
/// The beginning of the names of the files about OpenClaw's configuration before and after an installation.
const CONFIG: &str = "openclaw-config";
/// Largest configuration of OpenClaw that is kept, in bytes.
const MAX_CONFIG: u64 = 16 << 20;
/// How long OpenClaw may take: it needs some 15 s on two idle cores, and minutes on busy ones (measured).
const LIMIT: Duration = Duration::from_mins(10);

/// The installation that a command is about, and OpenClaw's program.
fn found(context: &Context, profile: Option<&str>) -> Result<(Installation, PathBuf), Failure> {
  let one = choice::one_of(context, profile)?;
  let config = context.config()?.config;
  let program = program::find(&context.surroundings.env, &config).ok_or_else(|| {
    Failure::unavailable("OpenClaw's program was not found")
      .hint("name it: memfw config set agent.program /path/to/openclaw")
  })?;
  Ok((one, program))
}

/// Where an installation's configuration is kept as it was, and the hash of what the installation of the plugin
/// made of it.
fn kept(data: &Path, one: &Installation) -> [PathBuf; 2] {
  // The name of a profile has only letters, digits, `-` and `_`.
  let name = one.profile.as_deref().map(|profile| format!("-{profile}")).unwrap_or_default();
  [".before", ".after"].map(|ending| data.join(format!("{CONFIG}{name}{ending}")))
}

/// Carries `install` out.
pub(super) fn install(context: &Context, args: &InstallArgs) -> Result<Status, Failure> {
  let (one, program) = found(context, args.profile.as_deref())?;
  let own = own_program()?;
  let out = &context.out;
  if !args.accept_capabilities {
    out.line("OpenClaw asks you to accept what a plugin may do. This one")?;
    for words in CONSENT {
      out.line(&format!("  {}", words.replace("{}", &terminal(shown(&own)))))?;
    }
    out.line("It declares no tool, channel, provider or server, and reads no conversation.")?;
    out.line("`plugins.entries.memfw.config` in OpenClaw's configuration switches reads, notices and judge off.")?;
    out.line(
      "OpenClaw also warns that the plugin comes from a local folder, which nobody has reviewed.",
    )?;
    out.line("To install it: memfw openclaw install --accept-capabilities")?;
    return Ok(Status::No);
  }
  let home = context.home()?;
  home.create().map_err(unavailable)?;
  let package = home.data.join(PACKAGE);
  for (name, _) in FILES {
    if let Some(dir) = package.join(name).parent() {
      make_dir(dir)?;
    }
  }
  for (name, text) in FILES {
    paths::write_private(&package.join(name), text.as_bytes()).map_err(unavailable)?;
  }
  let named = program_file(context, &one, &own)?.to_string();
  paths::write_private(&package.join(PROGRAM), named.as_bytes()).map_err(unavailable)?;
  let before = paths::read_own(&one.config, MAX_CONFIG).map_err(unavailable)?;
  let [kept_before, kept_after] = kept(&home.data, &one);
  let is_new = !kept_before.exists() || !installed(&one).exists();
  if let (true, Some(before)) = (is_new, &before) {
    paths::write_private(&kept_before, before).map_err(unavailable)?;
  }
  let dir = package.into_os_string();
  let words =
    ["plugins".into(), "install".into(), dir, "--force".into(), "--accept-capabilities".into()];
  claw(&one, &program, words)?;
  if let Some(after) = paths::read_own(&one.config, MAX_CONFIG).map_err(unavailable)? {
    let hash = ContentHash::of(&after).to_hex();
    paths::write_private(&kept_after, hash.as_bytes()).map_err(unavailable)?;
  }
  let one = Installation { settings: Settings::read(&one.config), ..one };
  let state = PluginState::of(context, &one);
  if !state.is_installed {
    return Err(Failure::unavailable("OpenClaw reported success, and the plugin is not there"));
  }
  out.line(&format!("installed the plugin in {}", terminal(shown(&installed(&one)))))?;
  if let Some(key) = state.disabled_by {
    // OpenClaw keeps the mark of a plugin that was removed.
    out
      .line(&format!("OpenClaw does not load it: `{key}` in its configuration; to change that:"))?;
    let profile = one.profile.as_deref().map(|profile| format!("--profile {profile} "));
    out.line(&format!("  openclaw {}plugins enable {ID}", profile.unwrap_or_default()))?;
  } else {
    out.line("it begins with the next start of OpenClaw's gateway")?;
  }
  if state.mode == LinkWrites::Quarantine {
    out.line("poisoned writes are still taken out after the write; to refuse them before it:")?;
    out.line("  memfw config set link.writes refuse")?;
  }
  Ok(Status::Yes)
}

/// Carries `uninstall` out.
pub(super) fn uninstall(context: &Context, args: &UninstallArgs) -> Result<Status, Failure> {
  let (one, program) = found(context, args.profile.as_deref())?;
  let out = &context.out;
  if !installed(&one).exists() {
    out.line("the plugin is not installed")?;
    return Ok(Status::Yes);
  }
  let data = context.home()?.data;
  let read = |path: &Path| paths::read_own(path, MAX_CONFIG).map_err(unavailable);
  let hash_now = read(&one.config)?.map(|bytes| ContentHash::of(&bytes).to_hex());
  let [kept_before, kept_after] = kept(&data, &one);
  let hash_then = read(&kept_after)?.and_then(|bytes| String::from_utf8(bytes).ok());
  let is_untouched = hash_now.is_some() && hash_now == hash_then;
  claw(&one, &program, ["plugins", "uninstall", ID, "--force"].map(OsString::from))?;
  let before = read(&kept_before)?;
  if let Some(before) = before.filter(|_| is_untouched) {
    paths::replace_own(&one.config, &before).map_err(unavailable)?;
    out
      .line("removed the plugin; OpenClaw's configuration is as it was before the installation")?;
  } else {
    out.line("removed the plugin")?;
    out.line("OpenClaw's configuration has changed since the installation, so memfw left it alone; OpenClaw")?;
    out.line("keeps `plugins.entries.memfw` there, with `enabled` set to `false`")?;
  }
  remove(&kept_before);
  remove(&kept_after);
  // Another OpenClaw may have been given the plugin from there.
  if PluginState::all(context).is_empty() {
    let package = data.join(PACKAGE);
    for file in FILES.iter().map(|(name, _)| package.join(name)).chain([package.join(PROGRAM)]) {
      remove(&file);
    }
    for dir in Path::new(SKILL).ancestors().skip(1) {
      std::fs::remove_dir(package.join(dir)).ok();
    }
  }
  Ok(Status::Yes)
}

/// Runs OpenClaw.
fn claw(
  one: &Installation,
  program: &Path,
  args: impl IntoIterator<Item = OsString>,
) -> Result<(), Failure> {
  let mut words = vec![program.as_os_str().to_owned()];
  words.extend(one.profile.iter().flat_map(|name| ["--profile".into(), name.into()]));
  words.extend(args);
  subprocess::run(&words, LIMIT).map_err(|why| Failure::unavailable(terminal(why)))
}

/// This program, as the plugin starts it.
fn own_program() -> Result<PathBuf, Failure> {
  std::env::current_exe()
    .map_err(|error| Failure::unavailable(format!("cannot tell where memfw itself is: {error}")))
}

/// What the plugin is told at its installation: this program, the environment in which it finds what it finds now,
/// and its own directories. An OpenClaw that is started elsewhere may have other variables.
fn program_file(context: &Context, one: &Installation, own: &Path) -> Result<Value, Failure> {
  let home = context.home()?;
  let env = &context.surroundings.env;
  let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
  let text = |path: PathBuf| path.to_string_lossy().into_owned();
  let variable = |name: &&str| {
    let value = env.path(name)?;
    // A directory may be named from where the installation is started; a profile is no directory.
    let value = if name.ends_with("_PROFILE") { value } else { absolute(value) };
    Some(((*name).to_owned(), Value::from(text(value))))
  };
  let names = VARIABLES.iter().chain(agent::VARIABLES).filter(|name| **name != "PATH");
  let variables: Map<String, Value> = names.filter_map(variable).collect();
  let dirs = [home.config, home.data, installed(one)].map(|dir| text(absolute(dir)));
  Ok(json!({ "program": own.to_string_lossy(), "env": variables, "own": dirs }))
}

fn make_dir(dir: &Path) -> Result<(), Failure> {
  std::fs::create_dir_all(dir)
    .map_err(|error| Failure::unavailable(format!("cannot make `{}`: {error}", dir.display())))
}

/// Removes a file of memfw's own.
#[expect(clippy::disallowed_methods, reason = "a file of memfw in its own directory")]
fn remove(path: &Path) {
  std::fs::remove_file(path).ok();
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn the_page_about_the_plugin_says_what_the_owner_accepts() {
    let page = include_str!("../../../docs/openclaw.md");
    for words in CONSENT {
      let line = format!("\n- {}\n", words.replace("{}", "memfw"));
      assert!(page.contains(&line), "docs/openclaw.md does not say: {line}");
    }
  }

  /// What the plugin starts, sends and asks is what `CONSENT` says.
  #[test]
  fn the_plugin_does_no_more_than_the_owner_accepts() {
    let found = |words: &str| {
      let hits = |(name, text): &(&'static str, &'static str)| {
        // The skill names commands.
        let n = if *name == SKILL { 0 } else { text.matches(words).count() };
        vec![*name; n]
      };
      FILES.iter().flat_map(hits).collect::<Vec<&str>>()
    };
    assert_eq!(found("spawn("), ["link.js", "judge.js"]);
    assert_eq!(found("spawn(this.program, ['link'],"), ["link.js"]);
    assert_eq!(found("this.run(["), ["judge.js", "judge.js"]);
    assert_eq!(
      (found("this.run(['judge', 'next'"), found("this.run(['judge', 'answer'")),
      (vec!["judge.js"], vec!["judge.js"])
    );
    for words in
      ["execSync", "execFile", "fork(", "fetch(", "node:http", "node:net", "createServer"]
    {
      assert_eq!(found(words), [""; 0], "{words}");
    }
    assert_eq!(found("llm?.complete"), ["index.js"]);
    assert_eq!(found("await sendDurableMessageBatch("), ["notices.js"]);
  }
}
