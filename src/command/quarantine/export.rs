//! `memfw quarantine export`: items for other programs, as JSON or SARIF. Their text only on request.
#![forbid(unsafe_code)]

use clap::{Args as ClapArgs, ValueEnum, builder::Resettable};
use serde_json::{Value, json};

use super::{
  filter::{FilterArgs, Unless, chosen},
  findings, lossy, to_json,
};
use crate::{
  app::{context::Context, exit::Status},
  command::shared::{
    finding,
    sarif::{self, Level, Place, SarifLog},
  },
  provenance::State,
  store::{Item, Ledger, StoreError},
  terminal::failure::Failure,
};

/// In which form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
  /// One array with one object an item
  #[value(help = Resettable::Reset)]
  Json,
  /// SARIF 2.1.0, as code scanning services read it
  #[value(help = Resettable::Reset)]
  Sarif,
}

/// `memfw quarantine export`
#[derive(Clone, Debug, ClapArgs)]
pub struct ExportArgs {
  /// Ids, beginnings of ids, or places in files; without any, all items
  #[arg(value_name = "ID|FILE:LINE")]
  pub items: Vec<String>,

  /// Which items, if none is named.
  #[command(flatten)]
  pub filter: FilterArgs,

  /// The format: json or sarif
  #[arg(long, value_name = "FORMAT", default_value = "json", hide_possible_values = true)]
  pub format: ExportFormat,

  /// Include the quarantined text, which is hostile, in the JSON
  #[arg(long)]
  pub with_text: bool,
}

/// Carries the command out.
pub(super) fn run(context: &Context, args: &ExportArgs) -> Result<Status, Failure> {
  if args.with_text && args.format == ExportFormat::Sarif {
    return Err(
      Failure::usage("SARIF is for services, which must not get quarantined text")
        .hint("memfw quarantine export --format json --with-text"),
    );
  }
  let ledger = match (args.with_text, args.items.is_empty()) {
    (true, _) => Some(context.ledger_with_key()?),
    (false, false) => Some(context.ledger()?),
    (false, true) => context.ledger_to_read()?,
  };
  let items = match &ledger {
    None => vec![],
    Some(ledger) => chosen(ledger, &args.items, &args.filter, Unless::Any)?,
  };
  match args.format {
    ExportFormat::Sarif => context.out.json(&of_items(&items).log())?,
    ExportFormat::Json => {
      let ledger = ledger.as_ref().filter(|_| args.with_text);
      let values = items.iter().map(|item| value(item, ledger)).collect::<Result<Vec<_>, _>>()?;
      context.out.json(&values)?;
    }
  }
  Ok(Status::Yes)
}

/// An item as JSON, with its text if there is a ledger.
fn value(item: &Item, ledger: Option<&Ledger>) -> Result<Value, StoreError> {
  let mut value = to_json(item);
  let Some(object) = value.as_object_mut() else { return Ok(value) };
  object.insert("content_hash".to_owned(), json!(item.hash.to_string()));
  object.insert("findings".to_owned(), findings(item));
  if let Some(ledger) = ledger {
    let text = match ledger.unseal(&item.id) {
      Ok(bytes) => Some(lossy(&bytes)),
      Err(StoreError::UnknownId { .. } | StoreError::Deleted { .. }) => None,
      Err(error) => return Err(error),
    };
    object.insert("text".to_owned(), json!(text));
  }
  Ok(value)
}

/// Items as SARIF: one result per code, at the line where the item was last seen.
fn of_items(items: &[Item]) -> SarifLog {
  let mut report = SarifLog::default();
  for item in items {
    let found = finding::counted(item);
    let level = if item.in_file { Level::Warning } else { Level::Error };
    let place = Place::line(&item.path, item.line as usize);
    for &code in &item.codes {
      let why = found.iter().find(|one| one.code == code).map(|one| one.why.as_str());
      report.add(&sarif::SarifFinding {
        code,
        level,
        why: why.filter(|why| !why.is_empty()).unwrap_or(code.title()),
        place: &place,
        hash: item.hash,
        properties: json!({
          "id": item.id.as_str(),
          "status": item.status.as_str(),
          "source": item.source.as_str(),
          "trust": item.trust.as_str(),
          "attestation": item.attestation.as_str(),
          "score": crate::engine::event::rounded(item.score),
        }),
        is_suppressed: item.status == State::Approved,
      });
    }
  }
  report
}
