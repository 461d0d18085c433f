//! What `memfw init` will do, as a list of steps, and how each of them ended.
#![forbid(unsafe_code)]

use std::path::PathBuf;

use serde_json::{Value, json};

use super::{
  answers::{Answers, Change, ServiceAnswer},
  machine::{Machine, Place},
};
use crate::{
  app::{
    configuration::parse, context::Context, daemon_state::DaemonState, judge_report::JudgeReport,
  },
  command::{
    doctor::mending::notifier,
    service::{setup::ServiceSetup, supervisor::Supervisor},
  },
  config::{BaselineAction, Config, ConfigProblem},
  engine::event::shown,
  os::user::effective_uid,
  terminal::{
    escape::terminal,
    failure::Failure,
    output::{Style, count},
  },
};

/// Columns of the word that names a step.
const WORDS: usize = 9;

/// All steps, in their order.
pub(super) struct Plan {
  pub(super) steps: Vec<Step>,
  /// The directories that are guarded afterwards.
  pub(super) places: Vec<Place>,
  /// The service that is installed afterwards.
  pub(super) service: Option<ServiceSetup>,
  /// What will not work, a sentence each.
  notes: Vec<String>,
  /// What is probably not meant, a sentence each.
  warnings: Vec<String>,
}

/// One step.
pub(super) struct Step {
  pub(super) action: Action,
  pub(super) state: StepState,
}

/// What a step does.
pub(super) enum Action {
  /// Writes the configuration file.
  Write(NewConfig),
  /// Stops a service and removes its file.
  Remove(ServiceSetup),
  /// Writes the file of a service and starts the service.
  Install(ServiceSetup),
  /// Has the memory read and judged.
  Scan(Scan),
}

/// The configuration file that is written.
pub(super) struct NewConfig {
  pub(super) file: PathBuf,
  /// The text that the answers were about; `None` where there was no file.
  pub(super) before: Option<String>,
  pub(super) text: String,
  changes: Vec<Change>,
}

/// How memory is read and judged.
pub(super) struct Scan {
  n_files: usize,
  n_places: usize,
  /// Whether the daemon of the service does it; otherwise this command.
  pub(super) by_daemon: bool,
  is_first: bool,
  baseline: BaselineAction,
}

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub(super) enum StepState {
  Planned,
  Done,
  Failed,
  NotDone,
}

impl Plan {
  /// What these answers lead to; a failure if they are not accepted, or cannot be carried out here.
  pub(super) fn of(
    context: &Context,
    machine: &Machine,
    answers: &Answers,
  ) -> Result<Self, Failure> {
    let (new, config) = configured(context, machine, answers)?;
    let places = machine.places(context, &config)?;
    let is_elsewhere = config.workspaces != machine.config.workspaces;
    let daemon = DaemonState::find(context, context.ledger_if_there()?.as_ref())?;
    let (service, others) = chosen(context, machine, answers.service)?;
    let mut actions: Vec<Action> = new.map(Action::Write).into_iter().collect();
    for other in others {
      other.check_removal()?;
      actions.push(Action::Remove(other));
    }
    let scan = |by_daemon| {
      Action::Scan(Scan {
        n_files: places.iter().filter_map(|place| place.n_files).sum(),
        n_places: places.len(),
        by_daemon,
        is_first: places.iter().any(|place| place.gets_baseline),
        baseline: config.baseline_action,
      })
    };
    match &service {
      // The file of a service names the guarded directories.
      Some(service) if is_elsewhere || !service.is_in_place(context) => {
        service.check_install(context).map_err(|failure| as_root(failure, service))?;
        actions.push(Action::Install(service.clone()));
        actions.push(scan(true));
      }
      None if daemon.pid.is_none() && places.iter().any(|place| place.is_unscanned) => {
        actions.push(scan(false));
      }
      _ => {}
    }
    let step = |action| Step { action, state: StepState::Planned };
    let steps = actions.into_iter().map(step).collect();
    let warnings = machine.warnings(&places);
    Ok(Self { steps, places, service, notes: notes(context, &config)?, warnings })
  }

  /// Why these answers are not accepted, without the facts that no answer changes.
  pub(super) fn check(
    context: &Context,
    machine: &Machine,
    answers: &Answers,
    present: &Answers,
  ) -> Result<(), Failure> {
    configured(context, machine, answers)?;
    if answers.service == present.service {
      return Ok(());
    }
    let (service, others) = chosen(context, machine, answers.service)?;
    if let Some(service) = service {
      service.check_install(context).map_err(|failure| as_root(failure, &service))?;
    }
    others.iter().try_for_each(ServiceSetup::check_removal)
  }

  /// Prints what will be done.
  pub(super) fn print(&self, context: &Context) -> Result<(), Failure> {
    let out = &context.out;
    out.line(if self.steps.is_empty() { "nothing to change" } else { "Plan:" })?;
    for step in &self.steps {
      let verb = out.paint(Style::Cyan, &format!("{:WORDS$}", step.action.verb()));
      out.line(&format!("  {verb}{}", terminal(step.action.what())))?;
      for detail in step.action.details() {
        out.line(&format!("  {:WORDS$}{}", "", terminal(detail)))?;
      }
    }
    for warning in &self.warnings {
      out.line(&format!("{} {}", out.paint(Style::Yellow, "warning:"), terminal(warning)))?;
    }
    for note in &self.notes {
      out.line(&format!("{} {}", out.paint(Style::Yellow, "note:"), terminal(note)))?;
    }
    if !self.notes.is_empty() {
      out.line("      `memfw doctor` names the command that mends it")?;
    }
    Ok(())
  }

  /// Prints the steps that were not carried out.
  pub(super) fn print_rest(&self, context: &Context) -> Result<(), Failure> {
    for step in &self.steps {
      let word = match step.state {
        StepState::Failed => "failed",
        StepState::NotDone => "not done",
        StepState::Planned | StepState::Done => continue,
      };
      let what = format!("{} {}", step.action.verb(), step.action.what());
      context.out.line(&format!("{word:<10} {}", terminal(what)))?;
    }
    Ok(())
  }

  /// The steps, for a program.
  pub(super) fn to_json(&self) -> Value {
    self.steps.iter().map(Step::to_json).collect()
  }

  /// What will not work, and what is probably not meant, a sentence each.
  pub(super) fn notes(&self) -> Vec<&String> {
    self.warnings.iter().chain(&self.notes).collect()
  }
}

impl Step {
  fn to_json(&self) -> Value {
    let (file, changes): (_, &[Change]) = match &self.action {
      Action::Write(new) => (Some(shown(&new.file)), &new.changes),
      Action::Remove(service) | Action::Install(service) => (Some(shown(service.file())), &[]),
      Action::Scan(_) => (None, &[]),
    };
    let state: &str = self.state.into();
    let changes = changes
      .iter()
      .map(|change| json!({ "key": change.key.name, "value": change.value, "was": change.was }));
    json!({
      "step": self.action.verb(), "file": file, "changes": changes.collect::<Vec<_>>(),
      "state": state,
    })
  }
}

impl Action {
  /// The word for the step.
  const fn verb(&self) -> &'static str {
    match self {
      Self::Write(_) => "write",
      Self::Remove(_) => "remove",
      Self::Install(_) => "install",
      Self::Scan(_) => "scan",
    }
  }

  /// What the step is about.
  fn what(&self) -> String {
    match self {
      Self::Write(new) => shown(&new.file),
      Self::Remove(service) | Self::Install(service) => shown(service.file()),
      Self::Scan(scan) => {
        let places = count(scan.n_places as u64, "place");
        format!("{} in {places}", count(scan.n_files as u64, "memory file"))
      }
    }
  }

  /// What the step does, in further lines.
  fn details(&self) -> Vec<String> {
    match self {
      Self::Write(new) => new.changes.iter().map(Change::line).collect(),
      Self::Remove(_) => vec!["and stop the service: nothing starts memfw then".to_owned()],
      Self::Install(service) => vec![
        match service.manager() {
          Supervisor::User => "systemd starts memfw now, and at each login",
          Supervisor::System => "systemd starts memfw now, and at each boot",
          Supervisor::Launchd => "launchd starts memfw now, and at each login",
        }
        .to_owned(),
      ],
      Self::Scan(scan) => scan.details().iter().map(|&line| line.to_owned()).collect(),
    }
  }
}

impl Scan {
  const fn details(&self) -> &'static [&'static str] {
    match (self.is_first, self.baseline) {
      (true, BaselineAction::Flag) => &["what is there is the baseline; no file changes"],
      (true, BaselineAction::Quarantine) => &[
        "what is there is the baseline;",
        "poison that is in memory already is taken out",
        "of its files",
      ],
      (false, _) => &["what has changed since memfw last ran"],
    }
  }
}

impl Change {
  /// The change in one line.
  fn line(&self) -> String {
    format!("{} = {}, was {}", self.key.name, self.value, self.was)
  }
}

/// The configuration file with these answers, if it changes, and the values in it.
fn configured(
  context: &Context,
  machine: &Machine,
  answers: &Answers,
) -> Result<(Option<NewConfig>, Config), Failure> {
  let changes = answers.changes(&machine.config, machine.named.as_deref());
  if changes.is_empty() {
    return Ok((None, machine.config.clone()));
  }
  let file = machine.file.clone();
  let before = machine.text.as_deref().unwrap_or_default();
  let text = Change::apply_all(&changes, before).map_err(|key| {
    Failure::config(format!("`{key}` cannot be set in `{}`", file.display()))
      .hint("change it by hand: `$EDITOR \"$(memfw config path)\"`")
  })?;
  let home = context.surroundings.home();
  let config = parse(&text, None, home.as_deref(), true).map_err(refused)?.config;
  Ok((Some(NewConfig { file, before: machine.text.clone(), text, changes }), config))
}

/// What will not work under a configuration, although it is valid.
fn notes(context: &Context, config: &Config) -> Result<Vec<String>, Failure> {
  let env = &context.surroundings.env;
  let judge = JudgeReport::find(config, None)?.wrong(context, config);
  let judge = judge.map(|why| format!("the judge is {why}"));
  let notifier = notifier(env, config).and_then(Result::err);
  Ok(notifier.into_iter().chain(judge).collect())
}

/// Why answers are not accepted; the places of the problems are in no file that exists.
fn refused(problems: Vec<ConfigProblem>) -> Failure {
  let failures = problems
    .into_iter()
    .map(|ConfigProblem { message, hint, .. }| Failure::usage(message).maybe_hint(hint));
  Failure::all(failures).unwrap_or_else(|| Failure::internal("a broken file without a problem"))
}

/// The service to have, and the installed ones to remove.
fn chosen(
  context: &Context,
  machine: &Machine,
  answer: ServiceAnswer,
) -> Result<(Option<ServiceSetup>, Vec<ServiceSetup>), Failure> {
  let wanted = match answer {
    ServiceAnswer::None => None,
    ServiceAnswer::Manager(manager) => {
      Some(match machine.services.iter().find(|service| service.manager() == manager) {
        Some(service) => service.clone(),
        None => ServiceSetup::find(context, manager)?,
      })
    }
  };
  let is_other = |service: &&ServiceSetup| {
    service.is_installed()
      && wanted.as_ref().is_none_or(|wanted| wanted.manager() != service.manager())
  };
  let others = machine.services.iter().filter(is_other).cloned().collect();
  Ok((wanted, others))
}

/// A failure for a service that only root may change, with what to do in place of it.
fn as_root(failure: Failure, service: &ServiceSetup) -> Failure {
  if service.manager() == Supervisor::System && effective_uid() != 0 {
    return failure.hint("answer `none` here: `memfw init --service none`");
  }
  failure
}
