//! `memfw review`: shows one item after the other, and asks a person what to do about each.
//!
//! [`session`] is the review itself, and knows neither the terminal nor the ledger. This module looks
//! items up, reads keys, and carries out decisions with the functions of the plain commands.
#![forbid(unsafe_code)]

pub mod card;
pub mod keyboard;
pub mod part;
pub mod screen;
pub mod session;

use super::{
  args::ReviewArgs,
  decide::{add, approve, reject, take_back},
  done::Done,
  filter::{Unless, chosen},
  in_file::FlaggedTexts,
  list::{nothing, strongest, words},
  loss,
  parts::carry_out,
};
use crate::{
  app::{context::Context, exit::Status},
  detect::Code,
  engine::{Engine, review::Approval},
  files::RealFs,
  memory::BlockId,
  os::{Clock as _, SystemClock},
  provenance::{Source, State},
  store::{Item, StoreError},
  terminal::{
    escape::{Escape, terminal},
    failure::{Failure, of_input},
    output::count,
    time::DAY,
  },
};
use card::Card;
use keyboard::{ENTER, Keyboard, Typed};
use screen::Look;
use session::{Act, Became, Like, Session, Step, Wants};

/// The most decisions whose undoing the end of a review names (a choice: they fit a line).
const MAX_UNDONE: usize = 6;

/// Carries the command out.
pub fn run(context: &Context, args: &ReviewArgs) -> Result<Status, Failure> {
  let ids = to_review(context, args)?;
  if ids.is_empty() {
    nothing(context, &args.filter, Unless::Open, false)?;
    return loss::mention(context);
  }
  let config = context.config()?.config;
  let mut review = Review {
    context,
    engine: context.engine(&config)?,
    max_file_bytes: config.max_file_bytes,
    by: context.user(),
    undoable: Vec::new(),
  };
  let is_dumb = context.surroundings.env.get("TERM").is_none_or(|term| term == "dumb");
  let keyboard =
    Keyboard::new(context.out.is_terminal() && !is_dumb).map_err(|error| of_input(&error))?;
  review.all(ids, keyboard)
}

fn to_review(context: &Context, args: &ReviewArgs) -> Result<Vec<BlockId>, Failure> {
  let Some(ledger) = context.ledger_to_read()? else {
    return if args.items.is_empty() { Ok(vec![]) } else { context.ledger().map(|_| vec![]) };
  };
  let items = chosen(&ledger, &args.items, &args.filter, Unless::Open)?;
  // Text that is approved and not back yet is decided. That of a named item is told.
  let waits = |item: &Item| !args.items.is_empty() || !item.awaited;
  Ok(items.into_iter().filter(waits).map(|item| item.id).collect())
}

/// The state for carrying out decisions.
struct Review<'c> {
  context: &'c Context,
  engine: Engine<RealFs>,
  max_file_bytes: u64,
  by: String,
  /// The items whose decisions `memfw undo` takes back, the last one last.
  undoable: Vec<BlockId>,
}

impl Review<'_> {
  fn all(&mut self, ids: Vec<BlockId>, mut keyboard: Keyboard) -> Result<Status, Failure> {
    let context = self.context;
    let out = &context.out;
    let look = Look { columns: out.columns(), colour: out.colour(), now: SystemClock.now() };
    let losses = loss::and_losses(self.engine.ledger())?;
    if !losses.is_empty() {
      out.line(&format!("{}{losses}", count(ids.len() as u64, "item")))?;
    }
    let mut session = Session::new(ids, look);
    loop {
      let typed = match session.wants() {
        Wants::Nothing => break,
        Wants::Card(id) => {
          let said = match self.card(&id, session.was_decided(&id))? {
            Ok(card) => session.show(card),
            Err(why) => session.skip(&why),
          };
          out.text(&said)?;
          continue;
        }
        Wants::Key => {
          out.flush()?;
          keyboard.key().map_err(|error| of_input(&error))?
        }
        Wants::Line => {
          out.flush()?;
          keyboard.line().map_err(|error| of_input(&error))?
        }
        // A script has said all that it wanted to say.
        Wants::Last if !keyboard.is_terminal() => {
          session.end();
          continue;
        }
        Wants::Last => {
          out.text(&session.last_question())?;
          out.flush()?;
          keyboard.key_or_enter().map_err(|error| of_input(&error))?
        }
      };
      let step = match &typed {
        Typed::Key(key, rest) => {
          // Raw mode does not echo the key.
          let shown = if *key == ENTER { String::new() } else { terminal(key.to_string()) };
          out.line(if keyboard.has_keys() { &shown } else { "" })?;
          session.key(*key, rest)
        }
        Typed::Line(line) => session.line(line),
        Typed::End => {
          out.line("")?;
          session.end();
          continue;
        }
      };
      match step {
        Step::Show(text) => out.text(&text)?,
        Step::Do(act) => {
          let said = match self.carry_out(&act) {
            Ok((said, became)) => session.acted(&act, &said, became),
            Err(failure) => {
              let why = failure.to_string();
              session.failed(Escape::default().keep_lines().apply(why).trim_end())
            }
          };
          out.text(&said)?;
        }
        Step::Find(like, among) => out.text(&session.found(self.alike(&like, &among)?))?,
        Step::DoAll(acts) => {
          let (done, said) = self.carry_out_all(&acts);
          out.text(&session.repeated(done, &said))?;
        }
      }
    }
    let (n_decided, n_left) = session.tally();
    let left = if n_left == 0 { String::new() } else { format!(", {n_left} left") };
    let losses = loss::and_losses(self.engine.ledger())?;
    out.line(&format!("{} decided{left}{losses}", count(n_decided as u64, "item")))?;
    match &self.undoable[..] {
      [] => {}
      ids if ids.len() <= MAX_UNDONE => {
        let ids: Vec<&str> = ids.iter().map(BlockId::as_str).collect();
        out.note(&format!("to take this back: `memfw undo {}`", ids.join(" ")))?;
      }
      [.., last] => {
        out.note(&format!(
          "to take the last decision back: `memfw undo {last}`; others by their ids"
        ))?;
      }
    }
    Ok(Status::Yes)
  }

  /// The current facts about an item, or why there is nothing to decide; an item that was decided in this
  /// review is shown nevertheless.
  fn card(&self, id: &BlockId, was_decided: bool) -> Result<Result<Card, String>, Failure> {
    let ledger = self.engine.ledger();
    let item = match ledger.item(id.as_str()) {
      Ok(item) => item,
      Err(StoreError::UnknownId { .. }) => {
        return Ok(Err("it was removed from its file in the meantime".to_owned()));
      }
      Err(error) => return Err(error.into()),
    };
    if !(was_decided || is_open(&item)) {
      return Ok(Err(format!("it is {}", item.status)));
    }
    Ok(Ok(Card::of(ledger, &item, self.max_file_bytes, SystemClock.now())?))
  }

  /// Those of these items that wait and are like that, with the beginning of their texts.
  fn alike(&self, like: &Like, among: &[BlockId]) -> Result<Vec<(BlockId, String)>, Failure> {
    let ledger = self.engine.ledger();
    let mut texts = FlaggedTexts::new(ledger, self.max_file_bytes);
    let mut found = Vec::new();
    for id in among {
      let item = match ledger.item(id.as_str()) {
        Ok(item) => item,
        Err(StoreError::UnknownId { .. }) => continue,
        Err(error) => return Err(error.into()),
      };
      let is_like = item.path == like.path
        && item.in_file == like.in_file
        && strongest(&item) == like.code
        && is_open(&item);
      if is_like {
        found.push((item.id.clone(), words(ledger, &item, &mut texts)));
      }
    }
    Ok(found)
  }

  /// Carries out decisions, as many as can be; returns the former and the present ids of the decided items,
  /// and the messages.
  fn carry_out_all(&mut self, acts: &[Act]) -> (Vec<(BlockId, BlockId)>, String) {
    let mut done = Vec::new();
    let mut said = String::new();
    for act in acts {
      let (Act::Approve { id, .. } | Act::Reject { id, .. } | Act::TakeOut { id, .. }) = act else {
        continue;
      };
      let line = match self.carry_out(act) {
        Ok((line, became)) => {
          if let Became::Decided(now) = became {
            done.push((id.clone(), now));
          }
          line
        }
        Err(failure) => {
          let why = Escape::default().keep_lines().apply(failure.to_string());
          format!("{id}: {}", why.trim_end())
        }
      };
      said.push_str(&line);
      said.push('\n');
    }
    (done, said)
  }

  /// Carries out a decision; returns the message, and what became of the item.
  fn carry_out(&mut self, act: &Act) -> Result<(String, Became), Failure> {
    let by = self.by.clone();
    let word = |reason| Approval { by: &by, reason, until: None, at_end: false };
    let (engine, undoable) = (&mut self.engine, &mut self.undoable);
    let mut done = |done: Done| {
      undoable.retain(|id| Some(id) != done.undoable.as_ref());
      undoable.extend(done.undoable);
      (done.line, Became::Decided(done.id))
    };
    match act {
      Act::Approve { id, reason } => {
        approve(engine, id.as_str(), word(reason.as_deref())).map(done)
      }
      Act::ApprovePart { id, chosen } => {
        let carried = carry_out(engine, id.as_str(), (chosen.unit, &chosen.numbers), word(None))?;
        let (line, _) = done(carried);
        let parts = engine.ledger().parts_of(id)?;
        let waiting = parts.into_iter().filter(|part| part.status.is_waiting());
        Ok((line, Became::Divided(waiting.map(|part| part.id).collect())))
      }
      Act::Reject { id, reason } => reject(engine, id.as_str(), word(reason.as_deref())).map(done),
      Act::TakeOut { id, reason } => add(engine, id.as_str(), word(reason.as_deref())).map(done),
      Act::Undo { id } => {
        let done = take_back(engine, Some(id.as_str()), &by, None)?;
        undoable.retain(|undoable| undoable != id);
        Ok((done.line, Became::Open(done.id)))
      }
      Act::Allow { id, source, codes, reason, days } => {
        self.allow(id, source, codes, (reason.as_deref(), *days))
      }
    }
  }

  fn allow(
    &mut self,
    id: &BlockId,
    source: &Source,
    codes: &[Code],
    (reason, days): (Option<&str>, Option<u32>),
  ) -> Result<(String, Became), Failure> {
    let by = self.by.clone();
    let now = SystemClock.now();
    let until = days.map(|days| now.saturating_add(i64::from(days) * DAY));
    let word = Approval { by: &by, reason, until, at_end: false };
    self.engine.decisions().allow(source, codes, word)?;
    let words: Vec<&str> = codes.iter().map(|code| code.as_str()).collect();
    let said = format!("{}: allowed {}", terminal(source.as_str()), words.join(" "));
    // An allowance does not decide about the item; that takes another key.
    Ok((format!("{said}; {id} still waits for you"), Became::Unchanged))
  }
}

/// Whether the item waits for a decision.
fn is_open(item: &Item) -> bool {
  item.status.is_waiting() || (item.in_file && item.status == State::Flagged)
}
