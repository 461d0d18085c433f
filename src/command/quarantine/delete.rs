//! `memfw quarantine delete`: deletes sealed bytes that no person may have any more. There is no
//! undo, so the command asks first.
#![forbid(unsafe_code)]

use clap::Args as ClapArgs;
use serde_json::json;

use super::filter::{FilterArgs, chosen_to_change};

use crate::{
  app::{context::Context, exit::Status},
  command::shared::ask::{BeforeChange, before_change},
  terminal::{failure::Failure, output::count},
};

/// `memfw quarantine delete`
#[derive(Clone, Debug, ClapArgs)]
pub struct DeleteArgs {
  /// Ids or places in files; else what the filters choose
  #[arg(value_name = "ID|FILE:LINE")]
  pub items: Vec<String>,

  /// Which items, if none is named.
  #[command(flatten)]
  pub filter: FilterArgs,

  /// The reason, for the audit
  #[arg(long, value_name = "TEXT")]
  pub reason: Option<String>,

  /// Delete without asking
  #[arg(long)]
  pub yes: bool,

  /// Print JSON
  #[arg(long)]
  pub json: bool,
}

/// Carries the command out.
pub(super) fn run(context: &Context, args: &DeleteArgs) -> Result<Status, Failure> {
  let ledger = context.ledger()?;
  let items = chosen_to_change(&ledger, &args.items, &args.filter)?;
  drop(ledger);
  if !args.yes && !is_agreed(context, items.len())? {
    return Ok(Status::No);
  }
  let config = context.config()?.config;
  let mut engine = context.engine(&config)?;
  let by = context.user();
  let mut values = Vec::new();
  for item in &items {
    let deleted = engine.delete(item.id.as_str(), &by, args.reason.as_deref());
    // The completed deletions are printed even if a later one fails.
    let deleted = match deleted {
      Ok(deleted) => deleted,
      Err(error) => {
        if args.json && !values.is_empty() {
          context.out.json(&values)?;
        }
        return Err(error.into());
      }
    };
    if args.json {
      values.push(json!({ "id": deleted.id.as_str(), "status": "forgotten" }));
    } else {
      context.out.note(&format!("{}: deleted; its record stays", deleted.id))?;
    }
  }
  if args.json {
    context.out.json(&values)?;
  }
  Ok(Status::Yes)
}

fn is_agreed(context: &Context, n: usize) -> Result<bool, Failure> {
  let what = count(n as u64, "item");
  let ask = BeforeChange {
    would: &format!("the text of {what} would be deleted for good"),
    question: &format!("Delete the text of {what} for good?"),
    nothing: "nothing was deleted",
    hint: "pass `--yes`, or use `memfw reject ID` to keep it sealed",
  };
  before_change(context, &ask)
}
