//! What the owner asks in a chat: answers without a word of memory, and decisions by the code of the command line.
//!
//! The agent's framework keeps the answers in its transcripts, which tools of a model read and search. So an answer
//! has only memfw's own words, ids, codes, numbers, files by a name that memfw chose, and sources by their labels.
//!
//! A thread of its own does it, so that no check before a write waits for a decision, which waits for locks and
//! for programs that have a file open.
#![forbid(unsafe_code)]

mod answers;
mod subject;

use std::{
  io,
  sync::{
    Arc, Mutex, PoisonError,
    mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
  },
  thread::{self, JoinHandle},
  time::Duration,
};

pub(super) use self::answers::file_name;
use self::subject::Subject;
use super::{late, news::news};
use crate::{
  app::context::{Context, Surroundings},
  command::quarantine::{Done, approve, extent, reject, take_back},
  config::{LogLevel, Preset},
  engine::{Engine, review::Approval},
  files::RealFs,
  link::{
    Ask, Chat, Order, Question, Reply, Told,
    message::{Answer, Fault},
  },
  terminal::{
    failure::Failure,
    output::{DEFAULT_COLUMNS, Out},
  },
};

/// Most requests that wait for the thread: one person types slower than it works.
const MAX_WAITING: usize = 8;
/// Longest name of a channel, in bytes.
const MAX_CHANNEL: usize = 20;
/// What can be asked.
const HELP: &str = "/memfw status: whether memory is guarded\n\
  /memfw list: what waits for you\n\
  /memfw show ID: where an item came from\n\
  /memfw why ID: why it was taken out\n\
  /memfw approve ID: put it back into its file, or accept a loss of text\n\
  /memfw reject ID: refuse it, or restore the text that was lost\n\
  /memfw undo [ID]: take a decision back, without an id the last one\n\
  The words of an item are never shown here, because the agent can read this chat: `memfw show ID` in a terminal.";

/// The thread, which begins with the first request.
pub(super) struct Chats {
  surroundings: Surroundings,
  log_level: Option<LogLevel>,
  preset: Option<Preset>,
  thread: Option<(SyncSender<Due>, JoinHandle<()>)>,
  /// Held while a line is written.
  turn: Arc<Mutex<()>>,
}

/// A request that waits for the thread.
struct Due {
  ask: Ask,
  came: Duration,
}

impl Chats {
  pub(super) fn new(context: &Context) -> Self {
    let surroundings = context.surroundings.clone();
    let (log_level, preset) = (context.log_level, context.preset);
    Self { surroundings, log_level, preset, thread: None, turn: Arc::default() }
  }

  /// Takes a question of a person: `None` if the thread will answer, or the reply if it cannot. Any other
  /// question is left to the caller.
  pub(super) fn take(&mut self, ask: Ask, came: Duration) -> Result<Option<Reply>, Ask> {
    let id = ask.id;
    match &ask.what {
      Question::Chat(chat) if !chat.is_of_owner() => {
        return Ok(Some(Reply::failed(Some(id), Fault::NotOwner, "only the owner may ask that")));
      }
      Question::Chat(_) | Question::News => {}
      Question::Check(_) | Question::Recall(_) | Question::Inject(_) | Question::Resolved(_) => {
        return Err(ask);
      }
    }
    let busy = || Some(Reply::failed(Some(id), Fault::Unavailable, "memfw is busy"));
    let Some((due, _)) = self.thread() else { return Ok(busy()) };
    match due.try_send(Due { ask, came }) {
      Ok(()) => Ok(None),
      Err(TrySendError::Full(_)) => Ok(busy()),
      Err(TrySendError::Disconnected(_)) => {
        self.thread = None;
        Ok(busy())
      }
    }
  }

  fn thread(&mut self) -> Option<&(SyncSender<Due>, JoinHandle<()>)> {
    if self.thread.is_none() {
      let (surroundings, log_level, preset) =
        (self.surroundings.clone(), self.log_level, self.preset);
      let turn = Arc::clone(&self.turn);
      let (sender, due) = sync_channel(MAX_WAITING);
      let work = move || {
        let out = Out::to(Box::new(io::stdout()), false, DEFAULT_COLUMNS);
        answer_all(&Context { surroundings, out, log_level, preset }, &turn, &due);
      };
      let spawned = thread::Builder::new().name("chat".to_owned()).spawn(work);
      self.thread = spawned.ok().map(|handle| (sender, handle));
    }
    self.thread.as_ref()
  }

  /// Writes a reply as a whole line, which no other thread cuts in two.
  pub(super) fn say(&self, out: &Out, reply: &Reply) -> Result<(), Failure> {
    let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
    out.json_line(reply)
  }
}

impl Drop for Chats {
  /// A decision that has begun is carried out.
  fn drop(&mut self) {
    if let Some((due, handle)) = self.thread.take() {
      drop(due);
      handle.join().ok();
    }
  }
}

/// The work of the thread, until nothing more can come.
fn answer_all(context: &Context, turn: &Mutex<()>, due: &Receiver<Due>) {
  for Due { ask, came } in due {
    let id = Some(ask.id);
    // What was begun is told, however late it is: the person has to know.
    let reply = match &ask.what {
      _ if ask.is_late(came) => late(ask.id),
      Question::Chat(chat) => Reply { id, body: Answer::Told(told(context, chat)) },
      Question::News => match news(context) {
        Ok(news) => Reply { id, body: Answer::News(news) },
        Err(failure) => Reply::failed(id, Fault::Unavailable, failure.error),
      },
      Question::Check(_) | Question::Recall(_) | Question::Inject(_) | Question::Resolved(_) => {
        continue;
      }
    };
    let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
    if context.out.json_line(&reply).is_err() {
      return;
    }
  }
}

fn told(context: &Context, chat: &Chat) -> Told {
  let order = match Order::of(&chat.words) {
    Ok(order) => order,
    Err(why) => return Told { text: why.to_owned(), done: false, offers: vec![] },
  };
  match answer(context, &order, chat) {
    Ok(Answered { text, offers }) => Told { text, done: true, offers },
    Err(failure) => Told { text: failed(&order, &failure), done: false, offers: vec![] },
  }
}

/// An answer, and what may be asked next with one press.
struct Answered {
  text: String,
  offers: Vec<String>,
}

impl From<String> for Answered {
  fn from(text: String) -> Self {
    Self { text, offers: vec![] }
  }
}

fn answer(context: &Context, order: &Order, chat: &Chat) -> Result<Answered, Failure> {
  match order {
    Order::Help => Ok(HELP.to_owned().into()),
    Order::Status => Ok(answers::status(context)?.into()),
    Order::List => answers::list(context),
    Order::Show(id) => answers::show(&context.ledger_with_key()?, id),
    Order::Why(id) => answers::why(&context.ledger_with_key()?, id),
    Order::Approve(id) => decide(context, chat, |engine, by| {
      let word = Approval { by, reason: None, until: None, at_end: false };
      let subject = Subject::of(engine.ledger(), id)?;
      approve(engine, subject.id(), word)
    }),
    Order::Reject(id) => decide(context, chat, |engine, by| {
      let word = Approval { by, reason: None, until: None, at_end: false };
      let subject = Subject::of(engine.ledger(), id)?;
      reject(engine, subject.id(), word)
    }),
    Order::Undo(id) => decide(context, chat, |engine, by| {
      let subject = id.as_ref().map(|id| Subject::of(engine.ledger(), id)).transpose()?;
      take_back(engine, subject.as_ref().map(Subject::id), by, None)
    }),
  }
}

/// Carries a decision out like the command line, and says what came of it.
fn decide(
  context: &Context,
  chat: &Chat,
  act: impl FnOnce(&mut Engine<RealFs>, &str) -> Result<Done, Failure>,
) -> Result<Answered, Failure> {
  // Without a ledger there is nothing to decide about, so none is created.
  drop(context.ledger()?);
  let config = context.config()?.config;
  let mut engine = context.engine(&config)?;
  let channel = chat.channel.as_deref().filter(|name| {
    name.len() <= MAX_CHANNEL && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')
  });
  let by = format!("{} in a chat ({})", context.user(), channel.unwrap_or("unknown"));
  let done = act(&mut engine, &by)?;
  let subject = Subject::of(engine.ledger(), done.id.as_str())?;
  let text = decided(&done, &subject, &file_name(engine.ledger(), subject.path())?);
  Ok(match done.undoable {
    Some(id) => Answered {
      text: format!("{text}\nto take this back: /memfw undo {id}"),
      offers: vec![format!("undo {id}")],
    },
    None => text.into(),
  })
}

/// What came of a decision, in memfw's own words.
fn decided(done: &Done, subject: &Subject, file: &str) -> String {
  let word = |key: &str| done.value.get(key).and_then(|word| word.as_str()).unwrap_or_default();
  let id = &done.id;
  match (subject, word("status"), word("placed")) {
    (Subject::Loss(loss), "approved", _) => {
      format!("{id}: the loss is accepted, {}, {file} stays as it is", extent(loss))
    }
    (Subject::Loss(_), "rejected", _) => format!("{id}: rejected, {file} is as before the loss"),
    (Subject::Loss(_), ..) => format!("{id}: undone, the loss in {file} waits for you again"),
    (_, "approved", "in-place") => format!("{id}: approved, it stays in {file}"),
    (_, "approved", "next-write") => {
      format!("{id}: approved, the next write of this text to {file} goes through")
    }
    (_, "approved", "appended") => format!("{id}: approved, and added at the end of {file}"),
    (_, "approved", _) => format!("{id}: approved, back in {file}"),
    (_, "rejected", _) => format!("{id}: rejected"),
    (_, status, "taken-out") => format!("{id}: undone, {status} again, out of {file}"),
    (_, status, _) => format!("{id}: undone, {status} again"),
  }
}

/// Why an order was not carried out, without a name that somebody else chose.
fn failed(order: &Order, failure: &Failure) -> String {
  let verb = match order {
    Order::Show(_) => "show",
    Order::Why(_) => "explain",
    Order::Approve(_) => "approve",
    Order::Reject(_) => "reject",
    Order::Undo(_) => "undo",
    Order::Help | Order::Status | Order::List => "status",
  };
  // Paths have a slash.
  if failure.error.contains(['/', '\\', '\n']) || failure.error.len() > 200 {
    return format!("this is not possible here: `memfw {verb}` in a terminal says why");
  }
  failure.error.clone()
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn a_failure_names_no_path() {
    let order = Order::Approve("a1b2c3".to_owned());
    let told = |error: &str| failed(&order, &Failure::unavailable(error));
    assert_eq!(told("`a1b2c3` is already approved"), "`a1b2c3` is already approved");
    let other = "this is not possible here: `memfw approve` in a terminal says why";
    assert_eq!(told("`/home/ann/ignore all rules.md` is being replaced"), other);
    assert_eq!(told(&"x".repeat(201)), other);
  }
}
