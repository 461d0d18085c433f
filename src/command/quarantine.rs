//! `memfw quarantine`: shows the texts that were taken out of files and the reasons, and carries
//! out a person's decisions.
#![forbid(unsafe_code)]

mod args;
mod decide;
mod delete;
mod done;
mod export;
mod filter;
mod in_file;
mod list;
mod loss;
mod parts;
pub mod review;

pub use args::{
  QuarantineAddArgs, QuarantineApproveArgs, QuarantineArgs, QuarantineChooseArgs,
  QuarantineCommand, QuarantineListArgs, QuarantineShowArgs, QuarantineUndoArgs, ReviewArgs,
};
pub use delete::DeleteArgs;
pub use export::ExportArgs;

use serde_json::{Value, json};

use super::shared::{
  ask::{BeforeChange, before_change},
  copies::{self, Copy},
  evidence, finding,
  json::{object, of_item},
  lookup::find_item,
};
use crate::{
  app::{context::Context, embedding::Likeness, exit::Status},
  engine::{Engine, event::shown, review::Approval},
  files::RealFs,
  os::{Clock as _, SystemClock},
  plural::times,
  provenance::State,
  store::{Item, StoreError},
  terminal::{
    escape::{lossy, terminal},
    failure::Failure,
    output::{Style, count},
    preview::Preview,
    time::{self, DAY},
  },
};

use decide::add;
/// The decisions, for other ways to ask for them.
pub(super) use decide::{approve, reject, take_back};
pub(super) use done::Done;
pub(super) use filter::{FilterArgs, Unless};
pub(super) use in_file::FlaggedTexts;
pub(super) use list::{code_words, state_words, strongest, words};
pub(super) use loss::extent;

/// The most columns in which the text of a block is shown; fewer on a narrow terminal.
const PREVIEW_COLUMNS: usize = 100;
/// Columns of the indentation.
const PREVIEW_INDENT: usize = 6;

/// Carries the command out.
pub fn run(context: &Context, command: QuarantineCommand) -> Result<Status, Failure> {
  match command {
    QuarantineCommand::Review(args) => review::run(context, &args),
    QuarantineCommand::List(args) => list::run(context, &args, Unless::Out),
    QuarantineCommand::Show(args) => show(context, &args),
    QuarantineCommand::Add(args) => {
      let said =
        DecisionArgs { reason: args.reason.as_deref(), json: args.json, ..DecisionArgs::default() };
      decide(context, &args.items, &said, add)
    }
    QuarantineCommand::Approve(args) => {
      if let Some((unit, chosen)) = parts::of(&args) {
        return parts::approve(context, &args, unit, chosen);
      }
      let until = until(args.days);
      let said = DecisionArgs { until, at_end: args.at_end, ..DecisionArgs::of(&args.choose) };
      decide_chosen(context, &args.choose, &said, ("approve", approve))
    }
    QuarantineCommand::Reject(args) => {
      decide_chosen(context, &args, &DecisionArgs::of(&args), ("reject", reject))
    }
    QuarantineCommand::Undo(args) => undo(context, &args),
    QuarantineCommand::Delete(args) => delete::run(context, &args),
    QuarantineCommand::Export(args) => export::run(context, &args),
  }
}

/// The end of an approval for so many days.
fn until(days: Option<u32>) -> Option<i64> {
  days.map(|days| SystemClock.now().saturating_add(i64::from(days) * DAY))
}

/// Lists everything that waits for a person, also flagged blocks, which are in their files.
pub fn list_open(context: &Context, args: &QuarantineListArgs) -> Result<Status, Failure> {
  list::run(context, args, Unless::Open)
}

fn show(context: &Context, args: &QuarantineShowArgs) -> Result<Status, Failure> {
  let ledger = context.ledger_with_key()?;
  // Commands that need the configuration report an invalid one.
  let config = context.config().unwrap_or_default().config;
  let max_file_bytes = config.max_file_bytes;
  let likeness = Likeness::new(context, &config);
  let mut flagged = FlaggedTexts::new(&ledger, max_file_bytes);
  let mut shown_items = Vec::new();
  for name in &args.items {
    if let Some(loss) = loss::find(&ledger, name)? {
      if args.json {
        shown_items.push(loss::show_json(&ledger, &loss)?);
      } else {
        loss::show(context, &ledger, &loss)?;
      }
      continue;
    }
    let item = find_item(&ledger, name)?;
    let sealed = match ledger.unseal(&item.id) {
      Ok(bytes) => Some(bytes),
      // That of a deleted item no longer exists.
      Err(StoreError::UnknownId { .. } | StoreError::Deleted { .. }) => None,
      Err(error) => return Err(error.into()),
    };
    let is_sealed = sealed.is_some();
    // The text of a flagged block is in its file.
    let text = match sealed {
      None if item.in_file => flagged.of(&item)?.map(Into::into),
      sealed => sealed,
    };
    let copies = match text.as_ref().filter(|_| is_sealed) {
      Some(text) => copies::find(&ledger, &item, text, max_file_bytes)?,
      None => vec![],
    };
    let near = text.as_ref().and_then(|text| likeness.of(&item, &lossy(text)));
    let text_bytes = text.as_ref().map(|bytes| bytes.as_slice());
    if args.json {
      let mut value = to_json(&item);
      if let Some(object) = value.as_object_mut() {
        let text = text.as_ref().map(|bytes| lossy(bytes));
        object.insert("text".to_owned(), json!(text));
        object.insert("findings".to_owned(), findings(&item));
        let copies = copies.iter().map(copies::Copy::to_json).collect();
        object.insert("copies".to_owned(), Value::Array(copies));
        object.insert("nearest".to_owned(), likeness.to_json(near.as_ref()));
        if item.status == State::Split {
          let parts = ledger.parts_of(&item.id)?;
          let ids: Vec<&str> = parts.iter().map(|part| part.id.as_str()).collect();
          object.insert("parts".to_owned(), json!(ids));
        }
        if let Some(text) = text_bytes.filter(|_| args.parts && is_sealed) {
          object.extend(parts::to_json(text).map(|(key, value)| (key.to_owned(), value)));
        }
      }
      shown_items.push(value);
    } else {
      let like = near.as_ref().and_then(|near| likeness.line(near));
      let about = About { copies: &copies, like, parts: parts::rows(&ledger, &item)? };
      print(context, &item, text_bytes, about, args.parts && is_sealed)?;
    }
  }
  if args.json {
    context.out.json(&shown_items)?;
  }
  Ok(Status::Yes)
}

/// What is known beyond an item and its text.
struct About<'a> {
  copies: &'a [Copy],
  like: Option<String>,
  /// Rows about its parts.
  parts: Vec<String>,
}

fn print(
  context: &Context,
  item: &Item,
  text: Option<&[u8]>,
  About { copies, like, parts: rows_of_parts }: About<'_>,
  are_parts_numbered: bool,
) -> Result<(), Failure> {
  let out = &context.out;
  let now = SystemClock.now();
  let status = match item.status {
    State::Quarantined | State::Held => Style::Yellow,
    State::Approved => Style::Green,
    _ => Style::Plain,
  };
  out.line(&format!(
    "{}  {}",
    out.paint(Style::Bold, item.id.as_str()),
    out.paint(status, list::state_words(item))
  ))?;
  out.line(&format!("  from    {}:{}", terminal(shown(&item.path)), item.line))?;
  let origin = evidence::origin(&item.source, item.trust, item.attestation);
  out.line(&format!("  source  {origin}"))?;
  if let Some(line) = evidence::line(&item.trail.evidence_json) {
    out.line(&format!("  how     {}", terminal(line)))?;
  }
  if let Some(session) = &item.session {
    out.line(&format!("  session {}", terminal(session.as_str())))?;
  }
  out.line(&format!("  when    {}", time::short(item.quarantined_at, now)))?;
  if item.occurrences > 1 {
    out.line(&format!(
      "  again   it was seen {} more and kept out again",
      times(u64::from(item.occurrences.saturating_sub(1)))
    ))?;
  }
  if let (Some(at), Some(by)) = (item.reviewed_at, &item.reviewed_by) {
    out.line(&format!("  review  {} by {}", time::short(at, now), terminal(by)))?;
  }
  for row in rows_of_parts {
    out.line(&row)?;
  }
  for code in &item.codes {
    out.line(&format!("  why     {code}: {}", code.title()))?;
  }
  for rule in rules(item) {
    out.line(&format!("  rule    {}", terminal(rule)))?;
  }
  if let Some(like) = like {
    out.line(&format!("  like    {}", terminal(like)))?;
  }
  let columns = out.table_columns().saturating_sub(PREVIEW_INDENT).min(PREVIEW_COLUMNS);
  match text {
    Some(text) if are_parts_numbered => parts::print(context, item, text, columns)?,
    Some(text) => {
      out.line("  text")?;
      // A person who approves the text must have seen all of it, so long lines are wrapped.
      let (rows, left) = Preview::new(text, &[]).rows(columns, usize::MAX, false);
      for row in rows {
        out.line(&format!("    {} {row}", out.paint(Style::Dim, "|")))?;
      }
      if left > 0 {
        out.line("    ... and more: `--json` has all of it")?;
      }
    }
    None if item.in_file => {
      out.line("  text    not found: its file has changed, or cannot be read")?;
    }
    None => out.line("  text    deleted")?,
  }
  for copy in copies {
    out.line(&format!(
      "  {}    {}:{} ({:.0} % of its words)",
      out.paint(Style::Yellow, "also"),
      terminal(shown(&copy.file)),
      copy.start_line,
      copy.share * 100.0
    ))?;
  }
  if item.status.is_waiting() {
    out.line(&format!("  next    memfw approve {0} | memfw reject {0}", item.id))?;
  } else if item.status == State::Flagged {
    out.line(&format!("  next    memfw approve {0} | memfw quarantine add {0}", item.id))?;
  }
  Ok(())
}

type Act = fn(&mut Engine<RealFs>, &str, Approval<'_>) -> Result<Done, Failure>;

/// What a person said about all items of a command.
#[derive(Default)]
struct DecisionArgs<'a> {
  reason: Option<&'a str>,
  /// Until when an approval holds, in microseconds since the epoch.
  until: Option<i64>,
  at_end: bool,
  json: bool,
}

impl<'a> DecisionArgs<'a> {
  fn of(args: &'a QuarantineChooseArgs) -> Self {
    Self { reason: args.reason.as_deref(), json: args.json, ..Self::default() }
  }
}

/// Decides about the named items, or about those that the filters choose, if the person agrees.
fn decide_chosen(
  context: &Context,
  args: &QuarantineChooseArgs,
  said: &DecisionArgs<'_>,
  (verb, act): (&str, Act),
) -> Result<Status, Failure> {
  if !args.items.is_empty() && args.filter.is_empty() {
    return decide(context, &args.items, said, act);
  }
  let items = filter::chosen_to_change(&context.ledger()?, &args.items, &args.filter)?;
  let what = count(items.len() as u64, "item");
  if items.len() > 1 && !args.yes {
    let ask = BeforeChange {
      would: &format!("{what} would be decided about"),
      question: &format!("{verb} {what}?"),
      nothing: "nothing was changed",
      hint: "pass `--yes`, or name the items",
    };
    if !before_change(context, &ask)? {
      return Ok(Status::No);
    }
  }
  let names: Vec<String> = items.iter().map(|item| item.id.to_string()).collect();
  decide(context, &names, said, act)
}

fn decide(
  context: &Context,
  names: &[String],
  said: &DecisionArgs<'_>,
  act: Act,
) -> Result<Status, Failure> {
  // Without a ledger there is nothing to decide about, so none is created.
  drop(context.ledger()?);
  let config = context.config()?.config;
  let mut engine = context.engine(&config)?;
  let by = context.user();
  let word = Approval { by: &by, reason: said.reason, until: said.until, at_end: said.at_end };
  let (mut values, mut undoable) = (Vec::new(), Vec::new());
  for name in names {
    let done = act(&mut engine, name, word);
    // The completed decisions are printed even if a later one fails.
    let done = match done {
      Ok(done) => done,
      Err(failure) => {
        if said.json && !values.is_empty() {
          context.out.json(&values)?;
        }
        return Err(failure);
      }
    };
    undoable.extend(done.undoable.map(|id| id.to_string()));
    if said.json { values.push(done.value) } else { context.out.line(&done.line)? }
  }
  if said.json {
    context.out.json(&values)?;
  } else if !undoable.is_empty() {
    context.out.note(&format!("to take this back: `memfw undo {}`", undoable.join(" ")))?;
  }
  Ok(Status::Yes)
}

/// Takes decisions back: those about the given items, or the last one.
fn undo(context: &Context, args: &QuarantineUndoArgs) -> Result<Status, Failure> {
  drop(context.ledger()?);
  let config = context.config()?.config;
  let mut engine = context.engine(&config)?;
  let by = context.user();
  let last = [None];
  let named = args.items.iter().map(|name| Some(name.as_str()));
  let names: Vec<Option<&str>> =
    if args.items.is_empty() { last.to_vec() } else { named.collect() };
  let mut values = Vec::new();
  for name in names {
    match take_back(&mut engine, name, &by, args.reason.as_deref()) {
      Ok(done) if args.json => values.push(done.value),
      Ok(done) => context.out.note(&done.line)?,
      Err(failure) => {
        if args.json && !values.is_empty() {
          context.out.json(&values)?;
        }
        return Err(failure);
      }
    }
  }
  if args.json {
    context.out.json(&values)?;
  }
  Ok(Status::Yes)
}

fn to_json(item: &Item) -> Value {
  let mut value = of_item(item);
  value.extend(object(json!({
    "quarantined_at": time::rfc3339(item.quarantined_at),
    "reviewed_at": item.reviewed_at.map(time::rfc3339),
    "reviewed_by": item.reviewed_by,
    "occurrences": item.occurrences,
  })));
  // Approved, but not yet back in its file.
  if item.awaited {
    value.insert("awaited".to_owned(), Value::Bool(true));
  }
  if let Some(part) = &item.part {
    value.insert("part_of".to_owned(), json!(part.id.as_str()));
    value.insert("part_offset".to_owned(), json!(part.offset));
  }
  value.into()
}

fn findings(item: &Item) -> Value {
  json!(item.findings.read())
}

/// The rules whose findings count for the item, each once; the owner's own with their file.
fn rules(item: &Item) -> Vec<String> {
  let mut rules = Vec::new();
  for rule in finding::counted(item).into_iter().filter_map(|finding| finding.rule) {
    let rule = rule.shown();
    if !rules.contains(&rule) {
      rules.push(rule);
    }
  }
  rules
}
