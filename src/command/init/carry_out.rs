//! Carries the steps of `memfw init` out, with the functions of the commands that do the same alone.
//!
//! Invariant: the configuration file is replaced as a whole or not at all, and the steps after a failed one are not
//! begun.
#![forbid(unsafe_code)]

use std::time::Duration;

use super::{
  plan::{Action, NewConfig, Plan, StepState},
  progress,
};
use crate::{
  app::{
    configuration::{ConfigError, MAX_BYTES, read},
    context::Context,
    daemon,
    daemon_state::DaemonState,
    exit::Status,
  },
  command::{
    config::set,
    settle::{self, SettleArgs},
    status::wait,
  },
  daemon::Ending,
  engine::event::shown,
  os::{Clock as _, SystemClock},
  store::Counts,
  terminal::{escape::terminal, failure::Failure, output::count},
};

/// How long the daemon may take for its first scan after its manager has said that it runs.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a person waits for the model to read what was found, in seconds: a choice. It reads some hundred entries
/// in this time, and goes on afterwards.
const MODEL_PATIENCE: u32 = 10;

/// What follows the number of findings that may grow.
const STILL_READS: &str = " so far; the model still reads";

/// What there is afterwards.
pub(super) struct Outcome {
  /// Whether a daemon guards.
  pub(super) is_guarding: bool,
  /// Whether everything that was found is judged.
  is_complete: bool,
  /// The numbers of the ledger.
  pub(super) counts: Option<Counts>,
}

/// Carries all steps out, and prints what was done; the first failure ends it.
pub(super) fn all(context: &Context, plan: &mut Plan) -> Result<(), Failure> {
  let mut steps = plan.steps.iter_mut();
  for step in steps.by_ref() {
    match one(context, &step.action) {
      Ok(Status::Yes) => step.state = StepState::Done,
      Ok(Status::No) => step.state = StepState::NotDone,
      Err(failure) => {
        step.state = StepState::Failed;
        steps.for_each(|step| step.state = StepState::NotDone);
        return Err(failure.hint("`memfw init` does the rest once this is mended"));
      }
    }
  }
  Ok(())
}

fn one(context: &Context, action: &Action) -> Result<Status, Failure> {
  // What was done before is seen before a long step.
  context.out.flush()?;
  match action {
    Action::Write(new) => write(context, new),
    Action::Remove(service) => service.remove(context).map(|()| Status::Yes),
    Action::Install(service) => service.install(context).map(|()| Status::Yes),
    Action::Scan(scan) if scan.by_daemon => wait::run(context, PATIENCE),
    Action::Scan(_) => match progress::during(context, |quiet| daemon::guard(quiet, &[], true))? {
      Ending::Settled => progress::warn(context).map(|()| Status::Yes),
      Ending::Signal => Err(Failure::unavailable("the scan was interrupted")),
    },
  }
}

fn write(context: &Context, new: &NewConfig) -> Result<Status, Failure> {
  // The answers took a while, in which an editor or another command may have written the file.
  let unreadable = |why| ConfigError::Unreadable { file: new.file.clone(), why };
  if read(&new.file, MAX_BYTES).map_err(unreadable)? != new.before {
    let what = format!("`{}` was changed while the questions were asked", new.file.display());
    return Err(Failure::config(what));
  }
  set::write(context, &new.file, new.before.is_some(), &new.text)?;
  context.out.line(&format!("{:<10} {}", "wrote", terminal(shown(&new.file))))?;
  // A running daemon follows the file by itself.
  if set::await_daemon(context, &new.file)? == Some(false) {
    context.out.note("the daemon has not taken it yet; `memfw status` says why")?;
  }
  Ok(Status::Yes)
}

impl Outcome {
  /// Waits until the model has read what was found, and counts it.
  pub(super) fn find(context: &Context) -> Result<Self, Failure> {
    let is_guarding = || -> Result<bool, Failure> {
      let ledger = context.ledger_if_there()?;
      Ok(DaemonState::find(context, ledger.as_ref())?.is_guarding())
    };
    let settled = if is_guarding()? {
      settle::run(&progress::silent(context), SettleArgs { secs: MODEL_PATIENCE })
    } else {
      Ok(Status::Yes)
    };
    let ledger = context.ledger_if_there()?;
    let counts = ledger.map(|ledger| ledger.counts(SystemClock.now())).transpose()?;
    let is_complete = matches!(settled, Ok(Status::Yes));
    Ok(Self { is_guarding: is_guarding()?, is_complete, counts })
  }

  /// How many items wait for a person.
  pub(super) fn n_open(&self) -> u64 {
    self.counts.as_ref().map_or(0, Counts::for_a_person)
  }

  /// How many blocks are known, and in how many files.
  pub(super) fn extent(&self) -> Option<(u64, u64)> {
    let counts = self.counts.as_ref()?;
    Some((counts.blocks_by_state.iter().map(|(_, n)| n).sum(), counts.files))
  }

  /// Prints it.
  pub(super) fn print(&self, context: &Context) -> Result<(), Failure> {
    let row = |word: &str, text: &str| context.out.line(&format!("{word:<10} {text}"));
    if let Some((n_blocks, n_files)) = self.extent() {
      let text = format!("{} in {}", count(n_blocks, "block"), count(n_files, "file"));
      row(if self.is_guarding { "guards" } else { "knows" }, &text)?;
    }
    let found = match self.n_open() {
      0 => "none".to_owned(),
      1 => "1 waits for you".to_owned(),
      n => format!("{n} wait for you"),
    };
    let taken = match self.counts.as_ref().map_or(0, |counts| counts.waiting) {
      0 => String::new(),
      n => format!(", {n} taken out of memory"),
    };
    let rest = if self.is_complete { "" } else { STILL_READS };
    row("findings", &format!("{found}{taken}{rest}"))
  }
}
