//! Parses the command line, runs the command, and turns its result into an exit status.
#![forbid(unsafe_code)]

use std::{ffi::OsString, io, process::ExitCode};

use clap::{CommandFactory as _, Parser as _, error::ContextKind};

use super::{
  args::{Args, Command},
  audit, complete, config, demo, doctor, eval, explain, gate, init, judge, link, log, man, markers,
  openclaw, overview, policy, provenance,
  quarantine::{self, QuarantineCommand},
  recall, report, restore, run, scan, service, settle, skills, stats, status, suggest, top,
};
use crate::{
  app::{
    context::{Context, Surroundings},
    exit::Status,
    logging,
  },
  terminal::{
    escape::Escape,
    failure::{Failure, FailureKind, complain, of_output},
    output::Out,
    pager::Pager,
  },
};

/// Exit status of a command that failed, so that it has no answer.
const COULD_NOT_TELL: u8 = 2;

/// Runs the command line `args`, whose first element is the name of the program.
pub fn run_line(args: impl IntoIterator<Item = OsString>, surroundings: Surroundings) -> ExitCode {
  let args = match Args::try_parse_from(args) {
    Ok(args) => args,
    Err(error) => return usage(error),
  };
  let out = Out::stdout(surroundings.colours(), || Pager::find(&surroundings.env));
  let out = out.quiet(args.global.quiet);
  let preset = args.command.as_ref().and_then(Command::preset);
  let context = Context { out, surroundings, log_level: args.global.log_level, preset };
  let result = args
    .command
    .map_or_else(|| overview::run(&context), |command| dispatch(&context, command))
    .and_then(|status| context.out.flush().map(|()| status))
    // Output that was written before the failure must precede the error message.
    .map_err(|failure| context.out.flush().err().filter(is_broken_pipe).unwrap_or(failure));
  logging::flush();
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
    Command::Run(args) => run::run(context, &args),
    Command::Gate(args) => gate::run(context, args),
    Command::Link(args) => link::run(context, &args),
    Command::Init(args) => init::run(context, &args),
    Command::Demo(args) => demo::run(context, args),
    Command::Status(args) => status::run(context, args),
    Command::Top(args) => top::run(context, &args),
    Command::Settle(args) => settle::run(context, args),
    Command::Scan(args) => scan::run(context, args),
    Command::Eval(args) => eval::run(context, args),
    Command::Quarantine(args) => quarantine::run(context, args.command),
    Command::Review(args) => quarantine::run(context, QuarantineCommand::Review(args)),
    Command::List(args) => quarantine::list_open(context, &args),
    Command::Show(args) => quarantine::run(context, QuarantineCommand::Show(args)),
    Command::Approve(args) => quarantine::run(context, QuarantineCommand::Approve(args)),
    Command::Reject(args) => quarantine::run(context, QuarantineCommand::Reject(args)),
    Command::Undo(args) => quarantine::run(context, QuarantineCommand::Undo(args)),
    Command::Judge(args) => judge::run(context, &args),
    Command::Policy(args) => policy::run(context, args),
    Command::Explain(args) => explain::run(context, &args),
    Command::Provenance(args) => provenance::run(context, args),
    Command::Recall(args) => recall::run(context, args),
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
    Command::Skills(args) => skills::run(context, args),
    Command::Completions(args) => complete::print(context, &args),
    Command::Man(args) => man::run(context, &args, Args::command()),
    Command::Complete(args) => complete::run(context, args, Args::command()),
  }
}

/// Prints help, the version, or what is wrong with the command line.
fn usage(mut error: clap::Error) -> ExitCode {
  if error.use_stderr() {
    let meant = suggest::nested(&error, &Args::command());
    if !meant.is_empty() {
      // One suggestion is enough, and this one is the better guess.
      error.remove(ContextKind::SuggestedSubcommand);
      // The empty list of further tips is printed as an empty line.
      error.remove(ContextKind::Suggested);
    }
    // An argument may be a hostile file name, and clap repeats it unescaped.
    complain(&Escape::default().keep_lines().apply(error.render().to_string()));
    for command in meant {
      complain(&format!("hint: did you mean `{command}`?\n"));
    }
    return ExitCode::from(COULD_NOT_TELL);
  }
  match error.print() {
    Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
      complain(&of_output(&error).to_string());
      ExitCode::from(COULD_NOT_TELL)
    }
    _ => ExitCode::SUCCESS,
  }
}

fn is_broken_pipe(failure: &Failure) -> bool {
  failure.kind == FailureKind::BrokenPipe
}
