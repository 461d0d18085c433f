//! `memfw judge`: hands out the questions about new entries, and takes answers to them.
//!
//! A client of the queue gets the same prompt as an endpoint, and its answer must pass the same checks:
//! a prompt also has known entries in addition to the one in question, and only the JSON that the prompt asks
//! for counts.
#![forbid(unsafe_code)]

use std::io::{self, Read as _};

use clap::{Args as ClapArgs, Subcommand};
use serde_json::json;

use super::shared::args::JsonArgs;
use crate::{
  app::{context::Context, exit::Status},
  config::JudgeVia,
  detect::effects::Effect,
  engine::{
    Consulting, Engine, Target,
    judge_queue::{JudgeRequest, Turn},
  },
  files::RealFs,
  os::{Clock as _, SystemClock, pause},
  terminal::{escape::terminal, failure::Failure, time},
};

/// The most bytes of an answer that are read; an answer that counts is shorter.
const MAX_ANSWER: u64 = 64 * 1024;
/// How long to wait for files that another program has open; after that, the daemon deals with them.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(5);
/// How often to try these files again.
const RETRY: std::time::Duration = std::time::Duration::from_millis(20);

/// `memfw judge`
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = "Example: memfw judge next --json")]
pub struct JudgeArgs {
  /// What to do.
  #[command(subcommand)]
  pub command: JudgeCommand,
}

/// What to do with questions.
#[derive(Clone, Debug, Subcommand)]
pub enum JudgeCommand {
  /// Print the next question: a prompt for a model, and an id for the answer
  #[command(after_help = "Example: memfw judge next --json")]
  Next(JsonArgs),
  /// Read the answer to a question from standard input
  #[command(after_help = "Example: memfw judge answer 0123456789abcdef --json < answer.json")]
  Answer(JudgeAnswerArgs),
}

/// `memfw judge answer`
#[derive(Clone, Debug, ClapArgs)]
pub struct JudgeAnswerArgs {
  /// The id of the question, as `memfw judge next` prints it
  #[arg(value_name = "ID")]
  pub id: String,

  /// Print JSON
  #[arg(long)]
  pub json: bool,
}

/// Carries the command out.
pub fn run(context: &Context, args: &JudgeArgs) -> Result<Status, Failure> {
  let config = context.config()?.config;
  if config.judge_via == JudgeVia::Off {
    return Err(
      Failure::unavailable("no judge is configured: `judge.via` is `off`")
        .hint("memfw config set judge.via queue"),
    );
  }
  let is_served = config.judge_via == JudgeVia::Queue;
  if !is_served && matches!(args.command, JudgeCommand::Next(_)) {
    return Err(
      Failure::unavailable(
        "`judge.via` is not `queue`: the questions go to the judge that is configured",
      )
      .hint("memfw config set judge.via queue"),
    );
  }
  let mut engine = context.engine(&config)?;
  match &args.command {
    JudgeCommand::Next(args) => next(context, &mut engine, args.json),
    JudgeCommand::Answer(args) => answer(context, &mut engine, args),
  }
}

fn next(context: &Context, engine: &mut Engine<RealFs>, as_json: bool) -> Result<Status, Failure> {
  engine.judge_queue().start()?;
  let out = &context.out;
  let (why, at) = match engine.judge_queue().next_question()? {
    Turn::Ask(request) if as_json => {
      out.json(&json!({ "id": request.id(), "prompt": request.prompt.text() }))?;
      return Ok(Status::Yes);
    }
    Turn::Ask(request) => {
      out.line(&request.id())?;
      out.line("")?;
      for line in request.prompt.text().lines() {
        out.line(&terminal(line))?;
      }
      return Ok(Status::Yes);
    }
    Turn::Later(None) => ("no question waits", None),
    Turn::Later(at) => ("every waiting question has been handed out", at),
    Turn::Spent(until) => ("the budget is spent", Some(until)),
  };
  if as_json {
    let at = at.map(time::rfc3339);
    out.json(&json!({ "id": null, "prompt": null, "why": why, "again_at": at }))?;
  } else {
    let again = at.map(|at| format!("; again from {}", time::rfc3339(at))).unwrap_or_default();
    out.line(&format!("{why}{again}"))?;
  }
  Ok(Status::No)
}

fn answer(
  context: &Context,
  engine: &mut Engine<RealFs>,
  args: &JudgeAnswerArgs,
) -> Result<Status, Failure> {
  let id = terminal(&args.id);
  let request: JudgeRequest = match engine.judge_queue().find(&args.id)? {
    Some(Some(request)) => request,
    Some(None) => {
      return Err(Failure::unavailable(format!("the question `{id}` does not wait for an answer")));
    }
    None => {
      return Err(
        Failure::unavailable(format!("there is no question `{id}`")).hint("memfw judge next"),
      );
    }
  };
  let mut text = Vec::new();
  io::stdin()
    .lock()
    .take(MAX_ANSWER)
    .read_to_end(&mut text)
    .map_err(|error| Failure::unavailable(format!("cannot read the answer: {error}")))?;
  // An answer that is not UTF-8 is refused like an empty one.
  let text = String::from_utf8(text).unwrap_or_default();
  let out = &context.out;
  let (reading, files) = match engine.judge_queue().take_answer(&request, &text)? {
    Ok(taken) => taken,
    Err(why) => {
      if args.json {
        let why = why.to_string();
        out.json(&json!({ "id": request.id(), "counts": false, "why": why }))?;
      } else {
        out.line(&format!("not accepted: {why}"))?;
      }
      return Ok(Status::No);
    }
  };
  let mut is_done = true;
  for target in &files {
    is_done &= follow(engine, target)?;
  }
  let effect = reading.effect.map(Effect::as_str);
  if args.json {
    let verdict = reading.ruling.as_str();
    let id = request.id();
    out.json(
      &json!({ "id": id, "counts": true, "verdict": verdict, "effect": effect, "done": is_done }),
    )?;
  } else {
    let effect = effect.map(|effect| format!(" ({effect})")).unwrap_or_default();
    let later = if is_done { "" } else { "; its file is in use, and the daemon continues later" };
    out.line(&format!("{}{effect}{later}", reading.ruling))?;
  }
  Ok(Status::Yes)
}

/// Applies an answer to a file; returns whether everything is done.
fn follow(engine: &mut Engine<RealFs>, target: &Target) -> Result<bool, Failure> {
  let start = SystemClock.monotonic();
  loop {
    if matches!(engine.consult(target)?, Consulting::Done { .. }) {
      return Ok(true);
    }
    if SystemClock.monotonic().saturating_sub(start) >= PATIENCE {
      return Ok(false);
    }
    pause(RETRY);
  }
}
