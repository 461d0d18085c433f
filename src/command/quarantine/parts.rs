//! The parts of an item: shows its lines and sentences with their numbers, and approves some of them.
#![forbid(unsafe_code)]

use serde_json::{Value, json};

use super::{QuarantineApproveArgs, done::Done, until};
use crate::{
  app::{context::Context, exit::Status},
  command::shared::lookup::find_item,
  engine::{Engine, event::shown, review::Approval},
  files::RealFs,
  memory::parts::{Numbers, Unit},
  provenance::State,
  store::{Item, Ledger},
  terminal::{
    escape::{lossy, terminal},
    failure::Failure,
    output::Style,
    preview::Preview,
  },
};

/// The lines or sentences that a person named.
pub(super) fn of(args: &QuarantineApproveArgs) -> Option<(Unit, &Numbers)> {
  let lines = args.lines.as_ref().map(|chosen| (Unit::Line, chosen));
  lines.or_else(|| args.sentences.as_ref().map(|chosen| (Unit::Sentence, chosen)))
}

/// Carries `memfw approve ID --lines` or `--sentences` out.
pub(super) fn approve(
  context: &Context,
  args: &QuarantineApproveArgs,
  unit: Unit,
  chosen: &Numbers,
) -> Result<Status, Failure> {
  let choose = &args.choose;
  let [name] = &choose.items[..] else {
    return Err(
      Failure::usage(format!("`--{}s` is about one item", unit.as_str()))
        .hint(format!("name it: `memfw approve ID --{}s {chosen}`", unit.as_str())),
    );
  };
  if !choose.filter.is_empty() {
    return Err(
      Failure::usage("an item is named, and filters are given as well")
        .hint("leave the filters out"),
    );
  }
  drop(context.ledger()?);
  let config = context.config()?.config;
  let mut engine = context.engine(&config)?;
  let by = context.user();
  let word =
    Approval { by: &by, reason: choose.reason.as_deref(), until: until(args.days), at_end: false };
  let done = carry_out(&mut engine, name, (unit, chosen), word)?;
  if choose.json {
    context.out.json(&[done.value])?;
  } else {
    context.out.line(&done.line)?;
    context.out.note(&format!("to take this back: `memfw undo {}`", done.id))?;
  }
  Ok(Status::Yes)
}

/// Approves a part of an item.
pub(super) fn carry_out(
  engine: &mut Engine<RealFs>,
  name: &str,
  (unit, chosen): (Unit, &Numbers),
  word: Approval<'_>,
) -> Result<Done, Failure> {
  let item = find_item(engine.ledger(), name)?;
  let (item, parts) = engine.approve_parts(item.id.as_str(), (unit, chosen), word)?;
  let ids = |is_back: bool| -> Vec<&str> {
    let is_meant = |part: &&Item| (part.status == State::Approved) == is_back;
    parts.iter().filter(is_meant).map(|part| part.id.as_str()).collect()
  };
  let (back, out) = (ids(true), ids(false));
  let s = if chosen.is_one() { "" } else { "s" };
  let line = format!(
    "{}: {}{s} {chosen} approved, back in {}; the rest waits as {}",
    item.id,
    unit.as_str(),
    terminal(shown(&item.path)),
    out.join(", ")
  );
  let value = json!({
    "id": item.id.as_str(),
    "status": item.status.as_str(),
    "placed": "placeholder",
    "approved": back,
    "waiting": out,
  });
  Ok(Done { line, value, id: item.id.clone(), undoable: Some(item.id) })
}

/// The lines or sentences of a text that `is_shown`, numbered, in rows of so many columns.
pub(super) fn numbered(
  text: &[u8],
  unit: Unit,
  columns: usize,
  (paint, is_shown): (impl Fn(&str) -> String, impl Fn(usize) -> bool),
) -> Vec<String> {
  let units = unit.of(text);
  let digits = units.len().to_string().len().max(2);
  let mut rows = Vec::new();
  let columns = columns.saturating_sub(digits + 3).max(1);
  for (number, span) in (1..).zip(units).filter(|(number, _)| is_shown(*number)) {
    let text = text.get(span).unwrap_or_default();
    let preview = Preview::new(text.trim_ascii_end(), &[]).rows(columns, usize::MAX, false).0;
    for (at, row) in preview.iter().enumerate() {
      let number = if at == 0 { number.to_string() } else { String::new() };
      rows.push(format!("{} {row}", paint(&format!("{number:>digits$} |"))).trim_end().to_owned());
    }
  }
  rows
}

/// The numbered lines of a text, and its sentences where they are not its lines.
pub(super) fn print(
  context: &Context,
  item: &Item,
  text: &[u8],
  columns: usize,
) -> Result<(), Failure> {
  let out = &context.out;
  let paint = |text: &str| out.paint(Style::Dim, text);
  let (lines, sentences) = (Unit::Line.of(text), Unit::Sentence.of(text));
  out.line("  lines")?;
  for row in numbered(text, Unit::Line, columns, (paint, |_| true)) {
    out.line(&format!("    {row}"))?;
  }
  if sentences != lines {
    out.line("  sentences")?;
    for row in numbered(text, Unit::Sentence, columns, (paint, |_| true)) {
      out.line(&format!("    {row}"))?;
    }
  }
  let unit = match (lines.len(), sentences.len()) {
    (2.., _) => "lines 1",
    (_, 2..) => "sentences 1",
    _ => return Ok(()),
  };
  if item.status.is_waiting() {
    out.line(&format!("  next    memfw approve {} --{unit}", item.id))?;
  }
  Ok(())
}

/// The lines and sentences of a text, for programs.
pub(super) fn to_json(text: &[u8]) -> [(&'static str, Value); 2] {
  let texts = |unit: Unit| -> Value {
    let units = unit.of(text).into_iter();
    units.map(|span| lossy(text.get(span).unwrap_or_default())).collect()
  };
  [("lines", texts(Unit::Line)), ("sentences", texts(Unit::Sentence))]
}

/// Rows about what an item is a part of, and about its parts.
pub(super) fn rows(ledger: &Ledger, item: &Item) -> Result<Vec<String>, Failure> {
  let mut rows = Vec::new();
  if let Some(part) = &item.part {
    rows.push(format!("  part    of {}", part.id));
  }
  if item.status == State::Split {
    for part in ledger.parts_of(&item.id)? {
      let (name, bytes) =
        (if rows.is_empty() { "parts" } else { "" }, part.len.unwrap_or_default());
      rows.push(format!("  {name:<8}{} {}, {bytes} bytes", part.id, part.status));
    }
  }
  Ok(rows)
}
