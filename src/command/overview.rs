//! `memfw` without a command: the state in a few lines, and what to do next.
//!
//! The exit status is 0 in every state; that of `memfw status` tells the state.
#![forbid(unsafe_code)]

use super::{
  doctor::mending::start,
  status::{self, StatusReport},
};
use crate::{
  app::{context::Context, exit::Status},
  terminal::{escape::Escape, failure::Failure, output::Style},
};

/// Columns of the name of a line.
const NAMES: usize = 14;

/// Shows the state.
pub fn run(context: &Context) -> Result<Status, Failure> {
  let ledger = context.ledger_if_there()?;
  let report = status::report(context, ledger.as_ref())?;
  let out = &context.out;
  out.line(&report.title(context))?;
  out.line(&report.extent())?;
  out.line(&report.waiting(context, ""))?;
  out.line(&format!("  problems    {}", problems(context, &report)))?;
  out.line(&format!("  next        {}", next(context, &report)))?;
  Ok(Status::Yes)
}

/// The first problem, and how many more there are.
fn problems(context: &Context, report: &StatusReport) -> String {
  let out = &context.out;
  let Some((first, _)) = report.degradations.first() else { return "none".to_owned() };
  let more = match report.degradations.len() - 1 {
    0 => String::new(),
    n => format!(" (and {n} more)"),
  };
  let columns = out.columns().saturating_sub(NAMES + more.len());
  let first = Escape::default().max_width(columns).apply(first);
  format!("{}{more}", out.paint(Style::Red, &first))
}

/// What a person does now.
fn next(context: &Context, report: &StatusReport) -> String {
  let next = match report.daemon {
    _ if !report.has_run() => "memfw init guards your agent, memfw demo shows it",
    "stopped" => return format!("{}: nothing is guarded now", start(context)),
    _ if report.n_open() > 0 => "memfw review",
    "starting" => "memfw status --wait 60",
    _ if !report.degradations.is_empty() => "memfw status, memfw doctor",
    _ => "nothing; memfw --help lists the commands",
  };
  next.to_owned()
}
