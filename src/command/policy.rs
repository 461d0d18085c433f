//! `memfw policy`: lists exceptions and whether they are still needed, adds and withdraws them.
//!
//! An approval excuses the text of an item by its hash, for the codes of the item. The ledger may have
//! an approval under two hashes, of the bytes and of the text with other line ends; the command shows
//! one.
#![forbid(unsafe_code)]

mod sources;

pub use sources::PolicyAllowArgs;

use clap::{Args as ClapArgs, Subcommand};
use serde_json::{Value, json};

use super::shared::args::JsonArgs;
use crate::{
  app::{context::Context, exit::Status},
  config::nearest,
  engine::{Event, EventKind, event::shown},
  os::{Clock as _, SystemClock},
  provenance::State,
  store::{Exception, ExceptionKey, Item, ItemFilter, Ledger, StoreError},
  terminal::{
    escape::terminal,
    failure::Failure,
    output::{Style, count},
    table::{Cell, Column, Table},
    time::{self, DAY},
  },
};

/// `memfw policy`
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = "Example: memfw policy check")]
pub struct PolicyArgs {
  /// What to do.
  #[command(subcommand)]
  pub command: PolicyCommand,
}

/// What to do with exceptions.
#[derive(Clone, Debug, Subcommand)]
pub enum PolicyCommand {
  /// List what approvals excuse, and which ones are no longer needed
  #[command(after_help = "Example: memfw policy check")]
  Check(JsonArgs),
  /// Excuse finding codes in all text of a source
  #[command(
    after_help = "Example: memfw policy allow web_fetch:docs.example.com command-reference"
  )]
  Allow(PolicyAllowArgs),
  /// Withdraw approvals, so that their texts are judged when they reappear
  #[command(after_help = "Example: memfw policy withdraw a1b2c3")]
  Withdraw(PolicyWithdrawArgs),
}

/// `memfw policy withdraw`
#[derive(Clone, Debug, ClapArgs)]
pub struct PolicyWithdrawArgs {
  /// Ids as `memfw policy check` lists them, or their beginnings
  #[arg(value_name = "ID", required = true)]
  pub exceptions: Vec<String>,

  /// The reason, for the audit
  #[arg(long, value_name = "TEXT")]
  pub reason: Option<String>,

  /// Print JSON
  #[arg(long)]
  pub json: bool,
}

/// An approval that was not needed for so many days is reported as unused (a choice: text that is
/// written once a month needs its approval once a month).
const UNUSED_AFTER_DAYS: i64 = 30;

/// The digits of a hash that name an exception whose item is gone.
const DIGITS: usize = 12;

/// Carries the command out.
pub fn run(context: &Context, args: PolicyArgs) -> Result<Status, Failure> {
  match args.command {
    PolicyCommand::Check(args) => check(context, args),
    PolicyCommand::Allow(args) => sources::allow(context, &args),
    PolicyCommand::Withdraw(args) => withdraw(context, &args),
  }
}

/// Whether an approval still has an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
  /// Valid, and recently used or created.
  InForce,
  /// Valid, but not needed for a long time.
  Unused,
  /// Past its end.
  Expired,
}

impl Standing {
  fn of(exception: &Exception, now: i64) -> Self {
    let Exception { created_at, used_at, expires_at, .. } = *exception;
    Self::since(created_at, used_at, expires_at, now)
  }

  fn since(created_at: i64, used_at: Option<i64>, expires_at: Option<i64>, now: i64) -> Self {
    let last = used_at.unwrap_or_default().max(created_at);
    if expires_at.is_some_and(|end| now >= end) {
      Self::Expired
    } else if now.saturating_sub(last) >= UNUSED_AFTER_DAYS * DAY {
      Self::Unused
    } else {
      Self::InForce
    }
  }

  fn cell(self) -> Cell {
    let style = if self == Self::InForce { Style::Plain } else { Style::Yellow };
    Cell::styled(self.as_str(), style)
  }

  const fn as_str(self) -> &'static str {
    match self {
      Self::InForce => "in-force",
      Self::Unused => "unused",
      Self::Expired => "expired",
    }
  }
}

/// One approval, as it is shown.
struct Excuse {
  /// The id of its item, or the beginning of its hash.
  id: String,
  /// The item, if it is still known.
  item: Option<Item>,
  exception: Exception,
  /// The exceptions of which the approval consists.
  keys: Vec<ExceptionKey>,
}

impl Excuse {
  fn to_json(&self, now: i64) -> Value {
    let exception = &self.exception;
    json!({
      "id": self.id,
      "file": self.item.as_ref().map(|item| shown(&item.path)),
      "source": null,
      "content_hash": exception.key.hash.to_string(),
      "codes": exception.codes.iter().map(|code| code.as_str()).collect::<Vec<_>>(),
      "reason": exception.reason,
      "created_at": time::rfc3339(exception.created_at),
      "expires_at": exception.expires_at.map(time::rfc3339),
      "used_at": exception.used_at.map(time::rfc3339),
      "uses": exception.uses,
      "standing": Standing::of(exception, now).as_str(),
    })
  }
}

/// All approvals, oldest first, each once.
fn excuses(exceptions: Vec<Exception>, items: &[Item]) -> Vec<Excuse> {
  let item_of = |one: &Exception| match &one.key.item {
    Some(id) => items.iter().find(|item| item.id == *id),
    None => items.iter().find(|item| item.hash == one.key.hash),
  };
  let mut excuses: Vec<Excuse> = Vec::new();
  // The exception of the exact bytes comes first: its hash names an approval whose item is gone.
  let (named, others): (Vec<_>, Vec<_>) = exceptions
    .into_iter()
    .partition(|one| item_of(one).is_some_and(|item| item.hash == one.key.hash));
  for exception in named.into_iter().chain(others) {
    let twin = excuses.iter_mut().find(|excuse| is_twin(excuse, &exception));
    if let Some(Excuse { exception: one, keys, .. }) = twin {
      keys.push(exception.key);
      one.uses += exception.uses;
      one.used_at = one.used_at.max(exception.used_at);
      continue;
    }
    let item = item_of(&exception).cloned();
    let id = match (&item, &exception.key.item) {
      (Some(item), _) => item.id.to_string(),
      (None, Some(id)) => id.to_string(),
      (None, None) => exception.key.hash.to_string().chars().take(DIGITS).collect(),
    };
    excuses.push(Excuse { id, item, keys: vec![exception.key.clone()], exception });
  }
  excuses.sort_by_key(|excuse| excuse.exception.created_at);
  excuses
}

/// Whether an exception belongs to an approval: both have the same item; or an older memfw made them,
/// without an item, at one time for one text with different line ends.
fn is_twin(excuse: &Excuse, other: &Exception) -> bool {
  let one = &excuse.exception;
  match (&one.key.item, &other.key.item) {
    (Some(one), Some(other)) => one == other,
    (None, None) => {
      excuse.keys.len() == 1
        && (one.created_at, one.expires_at) == (other.created_at, other.expires_at)
        && (&one.codes, &one.reason) == (&other.codes, &other.reason)
    }
    _ => false,
  }
}

fn find(ledger: &Ledger) -> Result<Vec<Excuse>, StoreError> {
  let filter = ItemFilter { statuses: vec![State::Approved], path: None };
  Ok(excuses(ledger.exceptions()?, &ledger.items(&filter)?))
}

/// The names of all approvals, each with its reason.
pub fn names(ledger: &Ledger) -> Result<Vec<(String, String)>, StoreError> {
  let excuses = find(ledger)?.into_iter();
  Ok(excuses.map(|excuse| (excuse.id, excuse.exception.reason)).collect())
}

fn check(context: &Context, args: JsonArgs) -> Result<Status, Failure> {
  let (excuses, sources) = match context.ledger_to_read()? {
    Some(ledger) => (find(&ledger)?, ledger.source_exceptions()?),
    None => (vec![], vec![]),
  };
  let now = SystemClock.now();
  let standing = |excuse: &Excuse| Standing::of(&excuse.exception, now);
  let of_sources = sources.iter().map(|one| sources::standing(one, now));
  let all = excuses.iter().map(standing).chain(of_sources);
  let idle = all.filter(|standing| *standing != Standing::InForce).count();
  let status = if idle == 0 { Status::Yes } else { Status::No };
  let out = &context.out;
  if args.json {
    let of_sources = sources.iter().map(|one| sources::to_json(one, now));
    let all = excuses.iter().map(|excuse| excuse.to_json(now)).chain(of_sources);
    out.json(&all.collect::<Vec<_>>())?;
    return Ok(status);
  }
  if excuses.is_empty() && sources.is_empty() {
    out.line("nothing is excused")?;
    return Ok(status);
  }
  out.page();
  if !excuses.is_empty() {
    texts(context, &excuses, now)?;
  }
  if !sources.is_empty() {
    sources::table(context, &sources, now)?;
  }
  if idle > 0 {
    let what = count(idle as u64, "approval");
    out.line(&format!("{what} not needed any more: memfw policy withdraw ID"))?;
  }
  Ok(status)
}

/// Prints the approvals of single texts.
fn texts(context: &Context, excuses: &[Excuse], now: i64) -> Result<(), Failure> {
  let mut table = Table::new([
    Column::new("ID"),
    Column::new("STANDING"),
    Column::new("EXCUSED").cut_end(12),
    Column::new("FILE").cut_start(12),
    Column::new("SINCE").dispensable(),
    Column::new("UNTIL"),
    Column::new("USED"),
    Column::new("REASON").cut_end(10),
  ]);
  for excuse in excuses {
    let Excuse { id, item, exception, .. } = excuse;
    let standing = Standing::of(exception, now);
    let used = exception.used_at.map_or_else(|| "never".to_owned(), |at| time::short(at, now));
    table.row([
      Cell::styled(id, Style::Cyan),
      standing.cell(),
      Cell::from(exception.codes.iter().map(|code| code.as_str()).collect::<Vec<_>>().join(" ")),
      Cell::from(item.as_ref().map_or_else(String::new, |item| shown(&item.path))),
      Cell::from(time::short(exception.created_at, now)),
      Cell::from(exception.expires_at.map_or_else(String::new, time::date)),
      Cell::from(used),
      Cell::from(exception.reason.as_str()),
    ]);
  }
  table.write(&context.out)
}

fn withdraw(context: &Context, args: &PolicyWithdrawArgs) -> Result<Status, Failure> {
  drop(context.ledger()?);
  let mut ledger = context.ledger_to_write()?;
  let by = context.user();
  let mut values = Vec::new();
  for name in &args.exceptions {
    let excuses = find(&ledger)?;
    let mut named = excuses.iter().filter(|excuse| excuse.id.starts_with(name.as_str()));
    let excuse = match (named.next(), named.next()) {
      (Some(excuse), None) => excuse,
      // A complete id is not ambiguous, even if a longer one begins with it.
      (Some(_), Some(_)) => excuses.iter().find(|excuse| excuse.id == *name).ok_or_else(|| {
        Failure::usage(format!("`{name}` is ambiguous")).hint("write more digits")
      })?,
      _ if sources::withdraw(context, &mut ledger, name, args)? => {
        if args.json {
          values.push(json!({ "id": name, "status": "withdrawn" }));
        }
        continue;
      }
      _ => {
        let near = nearest(name, excuses.iter().map(|excuse| excuse.id.as_str()));
        return Err(Failure::unavailable(format!("no approval is called `{name}`")).hint(
          near.map_or("`memfw policy check` lists them".to_owned(), |near| {
            format!("did you mean `{near}`?")
          }),
        ));
      }
    };
    let why = match &args.reason {
      Some(reason) => format!("by {by}: {reason}"),
      None => format!("by {by}"),
    };
    let mut event = Event::new(EventKind::Withdrawn).detail(why);
    if let Some(item) = &excuse.item {
      event = event.path(&item.path).block(&item.id).origin(&item.source, item.trust);
    }
    for key in &excuse.keys {
      ledger.withdraw_exception(key)?;
    }
    ledger.append_events(&[event.row()], SystemClock.now())?;
    if args.json {
      values.push(json!({ "id": excuse.id, "status": "withdrawn" }));
    } else {
      let text = "withdrawn; text in the file stays there, and is judged when it is written again";
      context.out.line(&format!("{}: {text}", terminal(&excuse.id)))?;
    }
  }
  if args.json {
    context.out.json(&values)?;
  }
  Ok(Status::Yes)
}

#[cfg(test)]
mod tests {
  use super::*;
  use crate::{detect::Code, memory::ContentHash};

  fn exception(text: &[u8], created_at: i64) -> Exception {
    Exception {
      key: ExceptionKey { hash: ContentHash::of(text), item: None },
      codes: vec![Code::Concealment],
      reason: "mine".to_owned(),
      created_at,
      expires_at: None,
      used_at: None,
      uses: 0,
      contexts: vec![],
    }
  }

  #[test]
  fn an_approval_is_unused_a_month_after_its_last_use_and_expired_at_its_end() {
    let mut one = exception(b"a", DAY);
    assert_eq!(Standing::of(&one, 30 * DAY), Standing::InForce);
    assert_eq!(Standing::of(&one, 31 * DAY), Standing::Unused);
    one.used_at = Some(20 * DAY);
    assert_eq!(Standing::of(&one, 49 * DAY), Standing::InForce);
    assert_eq!(Standing::of(&one, 50 * DAY), Standing::Unused);
    one.expires_at = Some(40 * DAY);
    assert_eq!(Standing::of(&one, 40 * DAY - 1), Standing::InForce);
    assert_eq!(Standing::of(&one, 40 * DAY), Standing::Expired);
  }

  #[test]
  fn two_hashes_of_one_text_are_one_approval() {
    let mut used = exception(b"a\n", 5);
    (used.uses, used.used_at) = (2, Some(9));
    let found = excuses(vec![exception(b"a\r\n", 5), used, exception(b"b", 6)], &[]);
    assert_eq!(found.len(), 2);
    assert_eq!((found[0].keys.len(), found[0].exception.uses), (2, 2));
    assert_eq!(found[0].exception.used_at, Some(9));
    assert_eq!(found[1].id.len(), DIGITS);
  }
}
