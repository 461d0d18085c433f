//! `memfw skills key`: the public keys whose signatures of skills count.
#![forbid(unsafe_code)]

use std::path::Path;

use serde_json::{Value, json};

use super::args::{SkillKeyAddArgs, SkillKeyCommand};
use crate::{
  app::{context::Context, exit::Status},
  command::shared::args::JsonArgs,
  engine::{Event, EventKind},
  os::{Clock as _, SystemClock, paths::read_own},
  skill::PublicKey,
  store::{Ledger, SkillKey},
  terminal::{
    escape::terminal,
    failure::{Failure, unavailable},
    output::Style,
    table::{Cell, Column, Table},
    time,
  },
};

/// Largest file with a public key that is read, in bytes; real ones have some 120.
const MAX_KEY_BYTES: u64 = 4096;
/// What to say about when a change of the keys has an effect.
const NEXT: &str = "it counts from the next check on: `memfw skills verify`";

/// Carries the command out.
pub(super) fn run(context: &Context, command: SkillKeyCommand) -> Result<Status, Failure> {
  match command {
    SkillKeyCommand::Add(args) => add(context, &args),
    SkillKeyCommand::List(args) => list(context, args),
    SkillKeyCommand::Remove(args) => remove(context, &args.id),
  }
}

fn add(context: &Context, args: &SkillKeyAddArgs) -> Result<Status, Failure> {
  let key = match PublicKey::parse(&args.key) {
    Some(key) => key,
    None => read(&args.key)?,
  };
  context.home()?.create().map_err(unavailable)?;
  let mut ledger = context.ledger_to_write()?;
  // The id is part of what its author chose, so another author can make a key with the same one.
  let is_other = |known: &SkillKey| known.id == key.id() && known.key != key.text();
  if ledger.skill_keys()?.iter().any(is_other) {
    return Err(
      Failure::usage(format!("another key with the id {} is trusted", key.id()))
        .hint(format!("`memfw skills key remove {}` withdraws that", key.id())),
    );
  }
  let by = context.user();
  let event =
    Event::new(EventKind::SkillKey).detail(format!("signatures of {} count, by {by}", key.id()));
  let is_new =
    ledger.add_skill_key(&key, args.name.trim(), &by, &[event.row()], SystemClock.now())?;
  let what = if is_new { "trusted" } else { "was trusted already" };
  context.out.line(&format!("{}: {what}; {NEXT}", key.id()))?;
  Ok(Status::Yes)
}

/// The key in a file.
fn read(path: &str) -> Result<PublicKey, Failure> {
  let wrong = |why: &str| {
    Failure::usage(format!("`{path}` is no public key of minisign{why}"))
      .hint("the key begins with `RW`; minisign keeps it in a file that ends with `.pub`")
  };
  let bytes = read_own(Path::new(path), MAX_KEY_BYTES);
  let bytes = bytes.ok().flatten().ok_or_else(|| wrong(", and no file that can be read"))?;
  let text = String::from_utf8(bytes).map_err(|_not_utf8| wrong(""))?;
  PublicKey::parse(&text).ok_or_else(|| wrong(""))
}

fn list(context: &Context, args: JsonArgs) -> Result<Status, Failure> {
  let ledger = context.ledger_to_read()?;
  let keys = ledger.as_ref().map_or_else(|| Ok(vec![]), Ledger::skill_keys)?;
  if args.json {
    context.out.json(&keys.iter().map(to_json).collect::<Vec<_>>())?;
    return Ok(Status::Yes);
  }
  if keys.is_empty() {
    context.out.line("no key is trusted")?;
    return Ok(Status::Yes);
  }
  let now = SystemClock.now();
  let mut table = Table::new([
    Column::new("KEY"),
    Column::new("NAME").cut_end(12),
    Column::new("SINCE").dispensable(),
    Column::new("BY").cut_end(8).dispensable(),
  ]);
  for key in &keys {
    table.row([
      Cell::styled(&key.id, Style::Cyan),
      Cell::from(&key.name),
      Cell::from(time::short(key.added_at, now)),
      Cell::from(&key.added_by),
    ]);
  }
  table.write(&context.out)?;
  Ok(Status::Yes)
}

fn to_json(key: &SkillKey) -> Value {
  json!({
    "id": key.id,
    "key": key.key,
    "name": key.name,
    "added_at": time::rfc3339(key.added_at),
    "added_by": key.added_by,
  })
}

fn remove(context: &Context, typed: &str) -> Result<Status, Failure> {
  context.home()?.create().map_err(unavailable)?;
  let mut ledger = context.ledger_to_write()?;
  let keys = ledger.skill_keys()?;
  let typed_id = typed.to_ascii_uppercase();
  let meant: Vec<&SkillKey> = keys.iter().filter(|key| key.id.starts_with(&typed_id)).collect();
  let id = match meant.as_slice() {
    [one] if !typed.is_empty() => one.id.clone(),
    [] => {
      return Err(
        Failure::usage(format!("no trusted key has the id `{typed}`"))
          .hint("`memfw skills key list` lists them"),
      );
    }
    _ => return Err(Failure::usage(format!("several trusted keys begin with `{typed}`"))),
  };
  let by = context.user();
  let event =
    Event::new(EventKind::SkillKey).detail(format!("signatures of {id} no longer count, by {by}"));
  ledger.remove_skill_key(&id, &[event.row()], SystemClock.now())?;
  context.out.line(&format!("{}: no longer trusted; {NEXT}", terminal(&id)))?;
  Ok(Status::Yes)
}
