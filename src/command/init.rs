//! `memfw init`: finds agents, asks five questions, shows what it will do, does it, and offers a review of what was
//! found in memory.
//!
//! Invariant: nothing is changed before the person agrees, or without `--yes`; an answer that is equal to the
//! current value changes nothing.
#![forbid(unsafe_code)]

pub mod answers;
pub mod args;
mod carry_out;
mod machine;
mod plan;
mod progress;
mod questions;

pub use args::InitArgs;

use rustix::termios::{QueueSelector, tcflush};
use serde_json::json;

use super::{
  quarantine::{FilterArgs, ReviewArgs, review},
  shared::ask,
};
use crate::{
  app::{context::Context, exit::Status},
  terminal::{escape::terminal, failure::Failure, output::Style},
};
use answers::Answers;
use carry_out::Outcome;
use machine::Machine;
use plan::Plan;

/// What is said if the person does not agree.
const NOTHING: &str = "nothing was changed";

/// Carries the command out.
pub fn run(context: &Context, args: &InitArgs) -> Result<Status, Failure> {
  let asks = !args.yes && !args.dry_run;
  if asks && args.json {
    return Err(
      Failure::usage("`--json` asks nothing").hint("pass `--yes` or `--dry-run` as well"),
    );
  }
  if asks && !ask::is_possible(context) {
    return Err(
      Failure::usage("`memfw init` asks on a terminal, and this is none; nothing was changed")
        .hint("memfw init --preset P --service S --notify N --markers M --judge J --yes")
        .hint("what no flag answers keeps its current value; `--dry-run` shows what would be done"),
    );
  }
  let machine = Machine::find(context, &args.workspace)?;
  let present = machine.present(context);
  let mut answers = present.clone();
  questions::take_flags(args, &mut answers);
  // An answer that a flag gives is refused before anything is asked.
  let mut plan = Plan::of(context, &machine, &answers)?;
  // Without questions, what was found and what will be done are remarks.
  let is_shown = !(args.json || args.yes && context.out.is_quiet());
  if is_shown {
    machine.print(context, &plan.places)?;
    context.out.line("")?;
  }
  if asks {
    let check = |answers: &Answers| Plan::check(context, &machine, answers, &present);
    let Some(given) = questions::ask(context, args, answers, &machine.managers(context), check)?
    else {
      context.out.line(NOTHING)?;
      return Ok(Status::No);
    };
    context.out.line("")?;
    plan = Plan::of(context, &machine, &given)?;
    answers = given;
  }
  if args.dry_run || plan.steps.is_empty() {
    return without_change(context, args, (&machine, &answers, &plan), asks);
  }
  if is_shown {
    plan.print(context)?;
  }
  if asks && !questions::agreed(context, "do it?")? {
    context.out.line(NOTHING)?;
    return Ok(Status::No);
  }
  if is_shown {
    context.out.line("")?;
    context.out.flush()?;
  }
  change(context, args, (&machine, &answers, &mut plan), asks)
}

/// Ends where nothing is to be changed, or nothing may be.
fn without_change(
  context: &Context,
  args: &InitArgs,
  (machine, answers, plan): (&Machine, &Answers, &Plan),
  asks: bool,
) -> Result<Status, Failure> {
  if args.json {
    let outcome = if args.dry_run { None } else { Some(Outcome::find(context)?) };
    print_json(context, (machine, answers, plan), outcome.as_ref())?;
    return Ok(Status::Yes);
  }
  plan.print(context)?;
  if args.dry_run {
    return Ok(Status::Yes);
  }
  conclude(context, plan, asks)
}

/// Carries the plan out.
fn change(
  context: &Context,
  args: &InitArgs,
  (machine, answers, plan): (&Machine, &Answers, &mut Plan),
  asks: bool,
) -> Result<Status, Failure> {
  if args.json {
    let done = carry_out::all(&progress::silent(context), plan);
    let outcome = if done.is_ok() { Some(Outcome::find(context)?) } else { None };
    print_json(context, (machine, answers, plan), outcome.as_ref())?;
    done?;
    return Ok(status(plan, outcome.is_some_and(|outcome| outcome.is_guarding)));
  }
  if let Err(failure) = carry_out::all(context, plan) {
    plan.print_rest(context)?;
    return Err(failure);
  }
  plan.print_rest(context)?;
  conclude(context, plan, asks)
}

/// Prints what there is now, and offers the review.
fn conclude(context: &Context, plan: &Plan, asks: bool) -> Result<Status, Failure> {
  let outcome = Outcome::find(context)?;
  outcome.print(context)?;
  let mut is_reviewed = false;
  let offers_review = asks && outcome.n_open() > 0;
  if offers_review {
    // A key that was pressed during the scan answers nothing. A terminal that is gone has none.
    tcflush(rustix::stdio::stdin(), QueueSelector::IFlush).ok();
  }
  if offers_review && questions::agreed(context, "review them now?")? {
    review::run(context, &ReviewArgs { items: Vec::new(), filter: FilterArgs::default() })?;
    is_reviewed = true;
  }
  if !context.out.is_quiet() {
    if plan.service.is_some() && !outcome.is_guarding {
      next(context, "memfw doctor", "why nothing is guarded yet")?;
    }
    if outcome.n_open() > 0 && !is_reviewed {
      next(context, "memfw review", "decide about the findings")?;
    }
    match &plan.service {
      Some(service) => service.print_logged_out(context)?,
      None if !outcome.is_guarding => next(context, "memfw run", "guard until you end it")?,
      None => {}
    }
    next(context, "memfw status", "what is protected")?;
  }
  Ok(status(plan, outcome.is_guarding))
}

/// No, if a service was to guard and does not.
const fn status(plan: &Plan, is_guarding: bool) -> Status {
  if plan.service.is_some() && !is_guarding { Status::No } else { Status::Yes }
}

fn print_json(
  context: &Context,
  (machine, answers, plan): (&Machine, &Answers, &Plan),
  outcome: Option<&Outcome>,
) -> Result<(), Failure> {
  let Answers { preset, service, notify, markers, judge } = answers;
  let extent = outcome.and_then(Outcome::extent);
  context.out.json(&json!({
    "found": machine.found_json(),
    "workspaces": plan.places.iter().map(machine::Place::to_json).collect::<Vec<_>>(),
    "answers": {
      "preset": preset.as_str(), "service": service.to_string(), "notify": notify.to_string(),
      "markers": markers.as_str(), "judge": judge.to_string(),
    },
    "steps": plan.to_json(),
    "notes": plan.notes(),
    "guarding": outcome.map(|outcome| outcome.is_guarding),
    "blocks": extent.map(|(n_blocks, _)| n_blocks),
    "findings": outcome.map(Outcome::n_open),
  }))
}

fn next(context: &Context, command: &str, why: &str) -> Result<(), Failure> {
  let command = context.out.paint(Style::Cyan, &terminal(command));
  context.out.line(&format!("next: {command}  # {why}"))
}
