//! The command line: one file per command, and what they share.
//!
//! A command is `run(&Context, its arguments) -> Result<Status, Failure>`: yes, no, or why it could
//! not tell, which become exit status 0, 1 and 2. To add one, add its variant to [`args::Command`]
//! and its arm to `dispatch`.
//!
//! Invariant: everything from memory, file names or the ledger goes through [`escape`] before it
//! reaches a terminal; answers go through [`output::Out`], errors through [`failure::Failure`].
#![forbid(unsafe_code)]

pub mod args;
pub mod audit;
pub mod complete;
pub mod config;
pub mod context;
pub mod copies;
pub mod demo;
pub mod desktop;
pub mod diff;
pub mod doctor;
pub mod embedding;
pub mod escape;
pub mod eval;
pub mod evidence;
pub mod explain;
pub mod exposure;
pub mod failure;
mod figures;
pub mod finding;
pub mod gate;
pub mod guarded;
pub mod judge;
pub mod lines;
pub mod log;
pub mod logging;
pub mod man;
pub mod markers;
pub mod moment;
pub mod openclaw;
pub mod output;
pub mod pager;
pub mod pages;
pub mod policy;
pub mod progress;
pub mod provenance;
pub mod quarantine;
pub mod report;
pub mod restore;
pub mod review;
pub mod rules;
pub mod run;
pub mod sarif;
pub mod scan;
pub mod service;
pub mod stats;
pub mod status;
pub mod suggest;
pub mod table;
pub mod time;

pub use {
  args::{Args, Command},
  context::{Context, Surroundings},
  failure::{Failure, FailureKind},
};

use {
  clap::{CommandFactory as _, Parser as _},
  escape::Escape,
  output::Out,
  pager::Pager,
  std::{
    ffi::OsString,
    io::{self, Write as _},
    process::ExitCode,
  },
};

/// The answer of a command that could tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
  /// Yes, or fine: exit status 0.
  Yes,
  /// The answer is no: exit status 1.
  No,
}

impl From<Status> for ExitCode {
  fn from(status: Status) -> Self {
    match status {
      Status::Yes => Self::SUCCESS,
      Status::No => Self::FAILURE,
    }
  }
}

/// Exit status of a command that could not tell.
const COULD_NOT_TELL: u8 = 2;

/// Runs the command line `args`, of which the first is the name of the program.
pub fn run(args: impl IntoIterator<Item = OsString>, surroundings: Surroundings) -> ExitCode {
  let args = match Args::try_parse_from(args) {
    Ok(args) => args,
    Err(error) => return usage(&error),
  };
  let out = Out::stdout(surroundings.colours(), || Pager::find(&surroundings.env));
  let preset = args.command.preset();
  let context = Context { out, surroundings, log_level: args.global.log_level, preset };
  let result = dispatch(&context, args.command)
    .and_then(|status| context.out.flush().map(|()| status))
    // What was answered before the failure belongs before the error.
    .map_err(|failure| context.out.flush().err().filter(is_broken_pipe).unwrap_or(failure));
  match result {
    Ok(status) => status.into(),
    Err(failure) if is_broken_pipe(&failure) => ExitCode::SUCCESS,
    Err(failure) => {
      complain(&failure.to_string());
      ExitCode::from(COULD_NOT_TELL)
    }
  }
}

fn dispatch(context: &Context, command: Command) -> Result<Status, Failure> {
  match command {
    Command::Run(args) => run::run(context, args),
    Command::Gate(args) => gate::run(context, args),
    Command::Demo(args) => demo::run(context, args),
    Command::Status(args) => status::run(context, args),
    Command::Settle(args) => status::settle(context, args),
    Command::Scan(args) => scan::run(context, args),
    Command::Eval(args) => eval::run(context, args),
    Command::Quarantine(args) => quarantine::run(context, args),
    Command::Judge(args) => judge::run(context, &args),
    Command::Policy(args) => policy::run(context, args),
    Command::Explain(args) => explain::run(context, &args),
    Command::Provenance(args) => provenance::run(context, args),
    Command::Audit(args) => audit::run(context, args),
    Command::Log(args) => log::run(context, args),
    Command::Stats(args) => stats::run(context, args),
    Command::Report(args) => report::run(context, args),
    Command::Restore(args) => restore::run(context, args),
    Command::Markers(args) => markers::run(context, args),
    Command::Config(args) => config::run(context, args),
    Command::Doctor(args) => doctor::run(context, args),
    Command::Service(args) => service::run(context, &args),
    Command::Agent(args) => openclaw::run(context, &args),
    Command::Completions(args) => complete::print(context, &args),
    Command::Man(args) => man::run(context, &args),
    Command::Complete(args) => complete::run(context, args),
  }
}

/// Prints help, the version, or what is wrong with the command line.
fn usage(error: &clap::Error) -> ExitCode {
  if error.use_stderr() {
    // Arguments may have come from a hostile file name, and clap repeats them as they are.
    complain(&Escape::default().keep_lines().apply(error.render().to_string()));
    for command in suggest::nested(error, &Args::command()) {
      complain(&format!("hint: did you mean `{command}`?\n"));
    }
    return ExitCode::from(COULD_NOT_TELL);
  }
  match error.print() {
    Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
      complain(&Failure::from(error).to_string());
      ExitCode::from(COULD_NOT_TELL)
    }
    _ => ExitCode::SUCCESS,
  }
}

fn is_broken_pipe(failure: &Failure) -> bool {
  failure.kind == FailureKind::BrokenPipe
}

/// Writes to standard error; where that fails, nobody is left to be told.
fn complain(text: &str) {
  io::stderr().write_all(text.as_bytes()).unwrap_or_default();
}
