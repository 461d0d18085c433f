//! Losses on the command line: files of which another program removed much, listed, shown and decided about like items.
#![forbid(unsafe_code)]

use std::time::Duration;

use serde_json::{Value, json};

use super::done::Done;
use crate::{
  app::{context::Context, exit::Status},
  command::shared::{json::object, lookup::place},
  engine::{Engine, event::shown, review::Approval},
  files::RealFs,
  memory::ContentHash,
  os::{Clock as _, SystemClock, clock::deadline},
  plural::choose,
  store::{Ledger, Loss, StoreError},
  terminal::{
    diff::{Change, DiffLine, unified},
    escape::{lossy, terminal},
    failure::Failure,
    output::{Style, count},
    preview::one_line,
    time,
  },
};

/// How long to look for a shorter difference.
const DIFF_PATIENCE: Duration = Duration::from_secs(2);
/// The most lines of a difference, and the most bytes of one, that are shown (a choice: some screens).
const MAX_LINES: usize = 400;
const MAX_LINE: usize = 400;
/// Digits of a version's hash.
const DIGITS: usize = 8;

/// The loss of a name; `None` if it is not the name of a loss.
pub(super) fn find(ledger: &Ledger, name: &str) -> Result<Option<Loss>, Failure> {
  match place(name) {
    (_, Some(_)) => Ok(None),
    (_, None) => Ok(ledger.loss(name)?),
  }
}

/// What is gone, in a few words.
pub(in crate::command) fn extent(loss: &Loss) -> String {
  let (lost, lines) = (loss.found.lost, count(loss.found.lines, "line"));
  match loss.found.after {
    Some(_) => format!("{lost} of {lines} lost"),
    None if lost == loss.found.lines => format!("the file is gone, with {lines}"),
    None => format!("the file is gone, with {lost} of {lines}"),
  }
}

/// The facts about a loss.
pub(super) fn to_json(ledger: &Ledger, loss: &Loss) -> Result<Value, Failure> {
  let (reviewed_at, reviewed_by) = loss.reviewed.clone().unzip();
  Ok(json!({
    "id": loss.id.as_str(),
    "kind": "loss",
    "file": shown(&loss.path),
    "exists": loss.found.after.is_some(),
    "status": loss.found.state.shown(),
    "lost_lines": loss.found.lost,
    "lines": loss.found.lines,
    "version": loss.found.base.to_hex(),
    "after": loss.found.after.map(ContentHash::to_hex),
    "kept": ledger.is_version_kept(loss.found.base)?,
    "found_at": time::rfc3339(loss.found_at),
    "reviewed_at": reviewed_at.map(time::rfc3339),
    "reviewed_by": reviewed_by,
  }))
}

/// A loss with its difference, as JSON.
pub(super) fn show_json(ledger: &Ledger, loss: &Loss) -> Result<Value, Failure> {
  let mut value = object(to_json(ledger, loss)?);
  let diff = difference(ledger, loss)?;
  let is_cut = diff.as_ref().is_some_and(|lines| lines.len() > MAX_LINES);
  let texts = diff.map(|lines| {
    lines.iter().take(MAX_LINES).map(|line| lossy(beginning(&line.text))).collect::<Vec<_>>()
  });
  value.insert("diff".to_owned(), json!(texts));
  value.insert("diff_cut".to_owned(), json!(is_cut));
  Ok(value.into())
}

/// Prints a loss with its difference.
pub(super) fn show(context: &Context, ledger: &Ledger, loss: &Loss) -> Result<(), Failure> {
  let out = &context.out;
  let now = SystemClock.now();
  let is_waiting = loss.found.state.is_waiting();
  let style = if is_waiting { Style::Yellow } else { Style::Plain };
  let state = out.paint(style, loss.found.state.shown());
  out.line(&format!("{}  {state}", out.paint(Style::Bold, loss.id.as_str())))?;
  out.line(&format!("  file    {}", terminal(shown(&loss.path))))?;
  out.line(&format!("  what    {}, by another program", extent(loss)))?;
  out.line(&format!("  when    {}", time::short(loss.found_at, now)))?;
  if let Some((at, by)) = loss.reviewed.as_ref().filter(|_| !is_waiting) {
    out.line(&format!("  review  {} by {}", time::short(*at, now), terminal(by)))?;
  }
  let version: String = loss.found.base.to_hex().chars().take(DIGITS).collect();
  match difference(ledger, loss)? {
    None => out.line(&format!("  before  version {version}, which is not kept any more"))?,
    Some(lines) => {
      out.line(&format!("  before  version {version}, which is kept"))?;
      for DiffLine { change, text } in lines.iter().take(MAX_LINES) {
        let style = match change {
          Change::Head => Style::Cyan,
          Change::Same => Style::Plain,
          Change::Gone => Style::Red,
          Change::Come => Style::Green,
        };
        let (sign, rest) = text.split_at(1.min(text.len()));
        let line = format!("{}{}", lossy(sign), one_line(beginning(rest)));
        out.line(&format!("    {}", out.paint(style, line.trim_end())))?;
      }
      if lines.len() > MAX_LINES {
        let (more, path) = (count((lines.len() - MAX_LINES) as u64, "line"), shown(&loss.path));
        out.line(&format!(
          "    ... and {more} more: memfw restore {} --diff --at {version}",
          terminal(path)
        ))?;
      }
    }
  }
  if is_waiting {
    out.line(&format!("  next    memfw approve {0} | memfw reject {0}", loss.id))?;
  }
  Ok(())
}

/// Accepts a loss.
pub(super) fn approve(
  engine: &mut Engine<RealFs>,
  loss: &Loss,
  word: Approval<'_>,
) -> Result<Done, Failure> {
  if word.until.is_some() {
    return Err(
      Failure::usage(format!("`{}` is a loss, which is accepted for good", loss.id))
        .hint(format!("without `--days`: `memfw approve {}`", loss.id)),
    );
  }
  let loss = engine.approve_loss(loss, word.by, word.reason)?;
  let (id, path) = (&loss.id, terminal(shown(&loss.path)));
  let line = format!("{id}: approved, {}, {path} stays as it is", extent(&loss));
  Ok(done(&loss, line, true))
}

/// Restores what a file had before a loss.
pub(super) fn reject(
  engine: &mut Engine<RealFs>,
  loss: &Loss,
  word: Approval<'_>,
) -> Result<Done, Failure> {
  let (loss, restored) = engine.reject_loss(loss, word.by, word.reason)?;
  let again = match restored.quarantined.len() as u64 {
    0 => String::new(),
    n => format!("; {} of it {} taken out again", count(n, "block"), choose(n, "was", "were")),
  };
  let path = terminal(shown(&loss.path));
  let line = format!("{}: rejected, {path} is as before the loss{again}", loss.id);
  Ok(done(&loss, line, true))
}

/// Takes the decision about a loss back.
pub(super) fn take_back(
  engine: &mut Engine<RealFs>,
  loss: &Loss,
  by: &str,
  reason: Option<&str>,
) -> Result<Done, Failure> {
  let loss = engine.undo_loss(loss, by, reason)?;
  let line = format!("{}: undone, {} has lost text again", loss.id, terminal(shown(&loss.path)));
  Ok(done(&loss, line, false))
}

fn done(loss: &Loss, line: String, is_undoable: bool) -> Done {
  Done {
    id: loss.id.clone(),
    line,
    value: json!({ "id": loss.id.as_str(), "status": loss.found.state.shown() }),
    undoable: is_undoable.then(|| loss.id.clone()),
  }
}

/// The loss about which a person has decided, if that was the last decision about anything.
pub(super) fn last_decided(ledger: &Ledger) -> Result<Option<Loss>, Failure> {
  let Some(loss) = ledger.last_decided_loss()? else { return Ok(None) };
  let item_at = ledger.last_decided()?.map(|(_, at)| at);
  let loss_at = loss.reviewed.as_ref().map(|(at, _)| *at);
  Ok(Some(loss).filter(|_| loss_at > item_at))
}

/// How many losses wait beside the items of a review, and how to see them; empty if there are none.
pub(super) fn and_losses(ledger: &Ledger) -> Result<String, Failure> {
  Ok(match ledger.waiting_losses()?.len() as u64 {
    0 => String::new(),
    n => format!(", and {}: `memfw list`", choose(n, "1 loss", &format!("{n} losses"))),
  })
}

/// Says that losses wait, too; a review of items has none of them.
pub(super) fn mention(context: &Context) -> Result<Status, Failure> {
  let waiting = match context.ledger_to_read()? {
    Some(ledger) => ledger.waiting_losses()?.len() as u64,
    None => 0,
  };
  if waiting > 0 {
    let what = if waiting == 1 { "1 loss waits" } else { &format!("{waiting} losses wait") };
    context.out.line(&format!("{what} for you: `memfw list`, `memfw show ID`"))?;
  }
  Ok(Status::Yes)
}

/// The difference that the loss is; `None` if a version is not kept any more.
fn difference(ledger: &Ledger, loss: &Loss) -> Result<Option<Vec<DiffLine>>, Failure> {
  let read = |version: ContentHash| match ledger.version_bytes(version) {
    Ok(text) => Ok(Some(text)),
    Err(StoreError::UnknownVersion { .. }) => Ok(None),
    Err(error) => Err(Failure::from(error)),
  };
  let Some(before) = read(loss.found.base)? else { return Ok(None) };
  let after = match loss.found.after {
    None => Some(Vec::new().into()),
    Some(version) => read(version)?,
  };
  Ok(after.map(|after| unified(&before, &after, deadline(DIFF_PATIENCE))))
}

fn beginning(line: &[u8]) -> &[u8] {
  line.get(..MAX_LINE).unwrap_or(line)
}
