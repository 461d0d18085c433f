//! `memfw doctor`: checks for problems. It changes nothing without `--fix`, which repairs what is safe
//! to repair.
#![forbid(unsafe_code)]

mod fix;
pub(super) mod mending;

use std::{
  os::unix::fs::MetadataExt as _,
  path::{Path, PathBuf},
};

use clap::Args as ClapArgs;
use serde_json::json;

use crate::{
  app::{
    advice::FIRST,
    agent,
    configuration::{DISTRUST_HINT, distrust},
    context::Context,
    daemon_state::DaemonState,
    engine::file_system,
    exit::Status,
    judge_report::JudgeReport,
    lost_ledger::LostLedger,
    paths::{KEY, LEDGER},
  },
  command::openclaw::PluginState,
  config::EmbeddingProvider,
  detect::model::{Assessor as _, Model},
  engine::event::shown,
  files::{Limit, Rung},
  os::{DaemonLock, is_halted, key, paths},
  provenance::Standing,
  seal::MasterKey,
  store::{Access, Ledger, StoreError},
  terminal::{
    escape::terminal,
    failure::Failure,
    output::{Style, count},
  },
};

/// `memfw doctor`
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = "Example: memfw doctor --fix")]
pub struct DoctorArgs {
  /// Repair what is safe to repair, and list the other problems
  #[arg(long)]
  pub fix: bool,

  /// Confirm that this directory is no longer guarded, so that no command warns about it
  #[arg(long, value_name = "DIR")]
  pub unguarded: Vec<PathBuf>,

  /// Print JSON
  #[arg(long)]
  pub json: bool,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
enum Health {
  Mended,
  Fine,
  Note,
  Wrong,
}

impl Health {
  fn as_str(self) -> &'static str {
    self.into()
  }
}

/// One check.
struct Check {
  what: &'static str,
  health: Health,
  text: String,
  hint: Option<String>,
  /// The command that mends it, if there is one.
  command: Option<String>,
}

/// Carries the command out.
pub fn run(context: &Context, args: DoctorArgs) -> Result<Status, Failure> {
  let mut checks = Vec::new();
  if args.fix {
    fix::fix(context, &mut checks)?;
  }
  if !args.unguarded.is_empty() {
    fix::confirm(context, &args.unguarded, &mut checks)?;
  }
  configuration(context, &mut checks);
  if let Ok(home) = context.home() {
    rules(&home.config, &mut checks);
    embedding(context, &mut checks);
    let lost = context.lost_ledger().ok().flatten();
    directory(&home.data, lost.as_ref(), &mut checks);
    fix::look(&home, &mut checks);
    ledger(&home.data, lost.as_ref(), &mut checks);
    daemon(context, &home.data, lost.as_ref(), &mut checks);
  }
  workspaces(context, &mut checks);
  model(&mut checks);
  judge(context, &mut checks);
  plugins(context, &mut checks);
  mending::notices(context, &mut checks);
  limits(&mut checks);
  let wrong = checks.iter().any(|check| check.health == Health::Wrong);
  if args.json {
    let list: Vec<_> = checks
      .iter()
      .map(|check| {
        json!({
          "check": check.what, "health": check.health.as_str(), "text": check.text,
          "hint": check.hint, "command": check.command,
        })
      })
      .collect();
    context.out.json(&list)?;
  } else {
    // With `--quiet`, what is fine is no answer.
    let is_told = |check: &&Check| !context.out.is_quiet() || check.health != Health::Fine;
    for check in checks.iter().filter(is_told) {
      let style = match check.health {
        Health::Mended => Style::Cyan,
        Health::Fine => Style::Green,
        Health::Note => Style::Yellow,
        Health::Wrong => Style::Red,
      };
      let health = context.out.paint(style, &format!("{:6}", check.health.as_str()));
      context.out.line(&format!("{health} {:14} {}", check.what, terminal(&check.text)))?;
      if let Some(hint) = &check.hint {
        context.out.line(&format!("{:21} hint: {}", "", terminal(hint)))?;
      }
    }
    if args.fix {
      context.out.line(&summary(&checks))?;
    }
    let conclusion = mending::conclusion(&checks);
    if wrong { context.out.line(&conclusion)? } else { context.out.note(&conclusion)? }
  }
  Ok(if wrong { Status::No } else { Status::Yes })
}

/// Says how much was repaired, and how much is left.
fn summary(checks: &[Check]) -> String {
  let n = |health| checks.iter().filter(|check| check.health == health).count();
  let mended = match n(Health::Mended) {
    0 => "nothing to repair".to_owned(),
    n => format!("{n} repaired"),
  };
  match n(Health::Wrong) {
    0 => mended,
    n => format!("{mended}; {n} left to you"),
  }
}

fn add(checks: &mut Vec<Check>, what: &'static str, health: Health, text: impl Into<String>) {
  checks.push(Check { what, health, text: text.into(), hint: None, command: None });
}

/// Names the command that mends the last check; it is the hint, unless there is a better one.
fn mend(checks: &mut [Check], command: &str) {
  if let Some(check) = checks.last_mut() {
    check.command = Some(command.to_owned());
    check.hint.get_or_insert_with(|| command.to_owned());
  }
}

fn hint(checks: &mut [Check], hint: Option<impl Into<String>>) {
  if let Some(check) = checks.last_mut() {
    check.hint = hint.map(Into::into);
  }
}

fn configuration(context: &Context, checks: &mut Vec<Check>) {
  match context.config() {
    Ok(_) => match context.config_file().ok().and_then(|file| distrust(&file)) {
      None => add(checks, "configuration", Health::Fine, "can be read"),
      Some(why) => {
        add(checks, "configuration", Health::Wrong, why);
        hint(checks, Some(DISTRUST_HINT));
        if let Ok(file) = context.config_file() {
          mend(checks, &format!("chmod go-w {}", shown(&file)));
        }
      }
    },
    Err(failure) => {
      add(checks, "configuration", Health::Wrong, failure.error.clone());
      hint(checks, Some("memfw config check"));
      mend(checks, mending::EDIT);
    }
  }
}

fn rules(config: &Path, checks: &mut Vec<Check>) {
  match crate::app::rules::check(config) {
    Ok(loaded) if loaded.files.is_empty() => {}
    Ok(loaded) => {
      let n: usize = loaded.files.iter().map(|(_, n)| n).sum();
      let files = count(loaded.files.len() as u64, "file");
      add(
        checks,
        "rules",
        Health::Fine,
        format!("{} of yours in {files}", count(n as u64, "rule")),
      );
    }
    Err(problems) => {
      for problem in problems {
        let command = format!("$EDITOR {}", shown(&problem.file));
        add(checks, "rules", Health::Wrong, Failure::from(problem).error);
        hint(checks, Some("memfw config check"));
        mend(checks, &command);
      }
    }
  }
}

/// Requests the embedding of a word of memfw's own, if an endpoint is configured.
fn embedding(context: &Context, checks: &mut Vec<Check>) {
  let Ok(effective) = context.config() else { return };
  let provider = effective.config.embedding_provider;
  if provider == EmbeddingProvider::Local {
    return;
  }
  let answer = crate::app::embedding::embedder(context, &effective.config)
    .and_then(|embedder| embedder.embed(&["memfw"]));
  match answer {
    Ok(_) => add(checks, "embedding", Health::Fine, format!("{provider} answers")),
    Err(why) => {
      add(checks, "embedding", Health::Wrong, format!("{provider}: {why}"));
      hint(checks, Some("`detection.embedding_provider = \"local\"` needs no endpoint"));
      mend(checks, "memfw config set detection.embedding_provider local");
    }
  }
}

/// Who reads new entries from outside, or what a judge would add.
fn judge(context: &Context, checks: &mut Vec<Check>) {
  // `configuration` reports an invalid configuration.
  let Ok(effective) = context.config() else { return };
  let ledger = context.ledger_if_there().ok().flatten();
  let Ok(standing) = JudgeReport::find(&effective.config, ledger.as_ref()) else {
    return;
  };
  match standing.wrong(context, &effective.config) {
    Some(why) => {
      add(checks, "judge", Health::Wrong, why);
      mend(checks, "memfw config set judge.via off");
    }
    None => add(checks, "judge", Health::Fine, standing.line()),
  }
}

/// What the plugin inside the agent lacks, where one is installed.
fn plugins(context: &Context, checks: &mut Vec<Check>) {
  for (_, state) in PluginState::all(context) {
    match state.trouble() {
      Some(why) => {
        add(checks, "plugin", Health::Note, why);
        hint(checks, Some(PluginState::COMMAND));
      }
      None => add(checks, "plugin", Health::Fine, state.line()),
    }
  }
}

fn directory(data: &Path, lost: Option<&LostLedger>, checks: &mut Vec<Check>) {
  let Ok(found) = data.metadata() else {
    if lost.is_some() {
      add(checks, "data", Health::Wrong, format!("`{}` is missing", shown(data)));
      return;
    }
    add(checks, "data", Health::Note, format!("`{}` does not exist yet", shown(data)));
    hint(checks, Some("`memfw init` creates it"));
    return;
  };
  if found.mode() & 0o077 == 0 {
    add(checks, "data", Health::Fine, format!("`{}` is private", shown(data)));
  } else {
    add(checks, "data", Health::Wrong, format!("`{}` is open to other users", shown(data)));
    hint(checks, Some(format!("chmod 700 {}", shown(data))));
    mend(checks, mending::FIX);
  }
}

fn ledger(data: &Path, lost: Option<&LostLedger>, checks: &mut Vec<Check>) {
  let mut ledger = match Ledger::open(&data.join(LEDGER), Access::ReadOnly, None) {
    Ok(ledger) => ledger,
    Err(StoreError::Missing { .. }) => {
      if let Some(lost) = lost {
        add(checks, "ledger", Health::Wrong, format!("{lost}; {}", lost.reason()));
        hint(checks, Some(lost.advice()));
        return;
      }
      add(checks, "ledger", Health::Note, "is not there yet");
      return;
    }
    Err(error) => {
      let is_older = matches!(error, StoreError::Older { .. });
      add(checks, "ledger", Health::Wrong, error.to_string());
      hint(checks, error.hint());
      if is_older {
        mend(checks, mending::FIX);
      }
      return;
    }
  };
  match ledger.damage() {
    Ok(damage) if damage.is_empty() => add(checks, "ledger", Health::Fine, "is whole"),
    Ok(damage) => add(checks, "ledger", Health::Wrong, damage.join("; ")),
    Err(error) => add(checks, "ledger", Health::Wrong, error.to_string()),
  }
  match key::load(&data.join(KEY)) {
    Ok(Some(bytes)) => match ledger.unlock(MasterKey::new(*bytes)) {
      Ok(()) => add(checks, "key", Health::Fine, "opens the seals"),
      Err(error) => {
        add(checks, "key", Health::Wrong, error.to_string());
        hint(checks, error.hint());
      }
    },
    Ok(None) => {
      add(checks, "key", Health::Wrong, "the key file is missing: no seal can be opened");
      hint(checks, Some("restore `master.key` from a backup; do not delete the ledger"));
    }
    Err(error) => add(checks, "key", Health::Wrong, error.to_string().replace('\n', "; ")),
  }
}

fn daemon(context: &Context, data: &Path, lost: Option<&LostLedger>, checks: &mut Vec<Check>) {
  match DaemonLock::holder(data) {
    Ok(Some(holder)) if holder.pid.is_some_and(is_halted) => {
      let pid = holder.pid.unwrap_or_default();
      add(checks, "daemon", Health::Wrong, format!("was stopped (pid {pid}): nothing is guarded"));
      mend(checks, &format!("kill -CONT {pid}"));
    }
    Ok(Some(holder)) => {
      let pid = holder.pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default();
      add(checks, "daemon", Health::Fine, format!("runs{pid}"));
    }
    // Before memfw has ever run, a stopped daemon is no error.
    Ok(None) if lost.is_none() && !data.join(LEDGER).exists() => {
      add(checks, "daemon", Health::Note, "has not been started yet");
      hint(checks, Some(FIRST));
    }
    Ok(None) => {
      add(checks, "daemon", Health::Wrong, "is stopped: nothing is guarded");
      mend(checks, mending::start(context));
    }
    Err(error) => add(checks, "daemon", Health::Wrong, error.to_string()),
  }
}

fn workspaces(context: &Context, checks: &mut Vec<Check>) {
  let Ok(config) = context.config() else { return };
  // The daemon may guard, or have guarded last, workspaces that its flags named.
  let ledger = context.ledger_if_there().ok().flatten();
  let guarded = DaemonState::find(context, ledger.as_ref())
    .and_then(|daemon| daemon.workspaces(context))
    .unwrap_or_default();
  if guarded.is_empty() {
    add(checks, "workspace", Health::Wrong, "none is known");
    hint(checks, Some("name one, where `DIR` is the agent's workspace"));
    mend(checks, "memfw config set workspaces DIR");
    return;
  }
  let agent = agent::records(&context.surroundings.env, &config.config);
  for path in guarded {
    if !path.is_dir() {
      add(checks, "workspace", Health::Note, format!("`{}` does not exist", shown(&path)));
      continue;
    }
    let probe = file_system(&config.config).probe_dir(&path);
    let health = if probe.rung == Rung::Lease { Health::Fine } else { Health::Note };
    add(checks, "workspace", health, format!("`{}`: {}", shown(&path), probe.description));
    if probe.needs_polling {
      hint(checks, Some("memfw also polls for changes every 2 s"));
    } else if probe.coarse_times {
      hint(checks, Some("file times are coarse here: each change is checked twice"));
    }
    if let Standing::Unreadable(why) = agent.standing(&path, Path::new("MEMORY.md")) {
      add(checks, "agent records", Health::Wrong, why);
      hint(
        checks,
        Some("memfw writes no markers until a version that knows the format is installed"),
      );
    }
  }
}

fn model(checks: &mut Vec<Check>) {
  let model = Model::embedded();
  let version = model.version();
  match model.check().degradation() {
    None => {
      let text = format!("version {version}: model files are intact");
      add(checks, "model", Health::Fine, text);
    }
    Some(why) => {
      add(checks, "model", Health::Wrong, format!("version {version}: {why}"));
      hint(checks, Some("install memfw again: its program file is damaged"));
    }
  }
}

fn limits(checks: &mut Vec<Check>) {
  for limit in [Limit::Watches, Limit::Instances] {
    let path = format!("/proc/sys/{}", limit.sysctl().replace('.', "/"));
    let text = paths::read_own(Path::new(&path), 64).ok().flatten().unwrap_or_default();
    let value = std::str::from_utf8(&text).unwrap_or_default().trim();
    if !value.is_empty() {
      add(checks, "limits", Health::Fine, format!("{} = {value}", limit.sysctl()));
    }
  }
}
