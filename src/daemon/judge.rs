//! The judge (layer 3): a language model is asked on a thread of its own, so that no redaction waits for
//! it.
//!
//! There is one open question at a time, and each prompt holds one entry. Questions wait in the ledger,
//! which also counts their budget; a question without an answer waits there again.
#![forbid(unsafe_code)]

use std::{
  ffi::OsString,
  panic::{AssertUnwindSafe, catch_unwind},
  sync::mpsc::{Receiver, TryRecvError, channel},
  thread,
  time::Duration,
};

use tokio::sync::mpsc::UnboundedSender;

use super::{
  action::{Action, Silent, Surroundings},
  queue::Kind,
  service::seconds,
};
use crate::{
  engine::{
    EngineError,
    judge_queue::{JudgeRequest, Turn},
    pending,
  },
  net::{Breaker, Chat, ChatSettings, NetError},
  os::{self, Clock as _, SystemClock, subprocess},
  store::PartKind,
};

/// How long a program may take to ask: the agent's own needs some ten seconds to start.
const PROGRAM_DEADLINE: Duration = Duration::from_mins(1);
/// The most bytes of the program's output that are read (a choice).
const MAX_PRINTED: u64 = 256 * 1024;
/// After this time a question counts as unanswered; the deadlines of the questions themselves are
/// shorter.
const PATIENCE: Duration = Duration::from_mins(2);
/// The pause before the next try while the breaker allows no question (a choice).
const REST: Duration = Duration::from_secs(30);
/// How often to look for answers that another process recorded, while a question waits for one (a
/// choice).
const LOOK: Duration = Duration::from_secs(30);

/// How a question reaches the judge.
#[derive(Clone, Debug)]
pub enum Via {
  /// Through a server with the API of OpenAI.
  Endpoint(ChatSettings),
  /// Through a program that gets the prompt as an argument.
  Program(Program),
  /// Through the ledger: another process takes the questions.
  Queue,
}

/// A program that asks a model.
#[derive(Clone, Debug)]
pub struct Program {
  /// The program and its arguments before the prompt.
  pub words: Vec<OsString>,
  /// The arguments after the prompt.
  pub after: Vec<OsString>,
  /// Finds the model's answer in what the program prints.
  pub answer: fn(&[u8]) -> Option<String>,
}

/// An open question.
struct Out {
  asking: Box<JudgeRequest>,
  since: Duration,
  answer: Receiver<Result<String, Silence>>,
}

/// Why there is no answer: a sentence that holds nothing of an answer.
enum Silence {
  /// No judge was reached.
  Unreached(String),
  /// A judge may have been reached, but did not answer.
  Outage(String),
  /// The judge was reached and did not answer this question; another question may be answered.
  ToThis(String),
}

/// The thread's side that the loop sees.
#[derive(Default)]
pub(super) struct Judge {
  via: Option<Via>,
  /// Wakes the loop.
  wake: Option<UnboundedSender<()>>,
  out: Option<Out>,
  breaker: Breaker,
  /// When to look for the next question.
  due: Option<Duration>,
  /// When to look for answers that other processes recorded.
  look: Option<Duration>,
}

impl Judge {
  /// Makes each answer wake the loop through `wake`; without it nothing is asked.
  pub(super) fn wake_by(&mut self, wake: UnboundedSender<()>) {
    self.wake = Some(wake);
  }

  /// Uses the judge that the configuration names now.
  pub(super) fn configure(
    &mut self,
    named: Option<Result<Via, String>>,
    now: Duration,
  ) -> Vec<Action> {
    self.breaker = Breaker::default();
    (self.due, self.look) = (None, None);
    let (via, wrong) = match named {
      None => (None, None),
      Some(Ok(via)) => (Some(via), None),
      Some(Err(why)) => (None, Some(why)),
    };
    self.via = via;
    self.stir(now);
    vec![match wrong {
      Some(why) => degrade(&format!("the judge cannot be asked: {why}")),
      None => Action::Recover(PartKind::Judge.into()),
    }]
  }

  /// Continues with the questions: an answer first, then what other processes recorded, then the next question.
  pub(super) fn work(&mut self, around: &Surroundings<'_>) -> Result<Vec<Action>, EngineError> {
    let mut actions = self.hear(around.now);
    if actions.is_empty() {
      actions = self.look_for_answers(around)?;
    }
    if actions.is_empty() {
      actions = self.ask_next(around.now);
    }
    Ok(actions)
  }

  /// Handles an answer or its absence.
  fn hear(&mut self, now: Duration) -> Vec<Action> {
    let Some((request, answer)) = self.take(now) else { return vec![] };
    // Whatever the answer is, there may be another question.
    self.stir(now);
    let (action, outage) = match answer {
      Ok(answer) => (Action::RecordAnswer(request, answer), None),
      Err(silence) => {
        let (silent, why) = match silence {
          Silence::Unreached(why) => (Silent::Unreached, why),
          Silence::Outage(why) => (Silent::Reached, why),
          Silence::ToThis(why) => (Silent::ToThis, why),
        };
        tracing::debug!(target: "memfw", error = why, "a question was not answered");
        // Text that makes the judge fall silent must not keep other entries from being judged.
        let outage = (silent != Silent::ToThis).then_some(why);
        (Action::RecordSilence(request.hash, silent), outage)
      }
    };
    let mut actions = vec![action];
    let Some(why) = outage else {
      if self.breaker.has_failed() {
        actions.push(Action::WakeQuestions);
      }
      self.breaker.succeeded();
      actions.push(Action::Recover(PartKind::Judge.into()));
      return actions;
    };
    self.breaker.failed(now);
    // A single failure may be chance.
    if !self.breaker.may_ask(now) {
      actions.push(degrade(&format!("the judge does not answer: {why}")));
    }
    actions
  }

  /// Looks for what other processes recorded, again and again while a question waits for an answer.
  fn look_for_answers(&mut self, around: &Surroundings<'_>) -> Result<Vec<Action>, EngineError> {
    if self.look.is_none_or(|look| look > around.now) {
      return Ok(vec![]);
    }
    let ledger = around.engine.ledger();
    self.look = ledger.has_questions()?.then_some(around.now + LOOK);
    let files = pending::judgements(ledger)?.into_iter();
    Ok(files.map(|target| Action::Queue(Kind::Judge, target)).collect())
  }

  /// Wants the next question, if one may be asked now.
  fn ask_next(&mut self, now: Duration) -> Vec<Action> {
    if self.out.is_some() || self.due.is_none_or(|due| due > now) {
      return vec![];
    }
    // Without a judge nothing is due.
    self.due = None;
    if self.via.is_none() {
      return vec![];
    }
    if !self.breaker.may_ask(now) {
      self.due = Some(now + REST);
      return vec![];
    }
    vec![Action::NextQuestion]
  }

  /// Asks the next question of the queue, or notes when there may be one. `at` is the time of the ledger, in
  /// microseconds UTC.
  pub(super) fn take_turn(
    &mut self,
    turn: Result<Turn, EngineError>,
    at: i64,
    now: Duration,
  ) -> Result<(), EngineError> {
    let later = |until: i64| {
      let wait = u64::try_from(until.saturating_sub(at)).unwrap_or_default();
      now + Duration::from_micros(wait).clamp(Duration::from_millis(10), Duration::from_hours(1))
    };
    match (turn, self.via.clone()) {
      (Ok(Turn::Ask(request)), Some(via)) => self.ask(via, request, now),
      (Ok(Turn::Ask(_)), None) => {}
      (Ok(Turn::Later(until)), _) => self.due = until.map(later),
      (Ok(Turn::Spent(until)), _) => self.due = Some(later(until)),
      (Err(error), _) => {
        self.due = Some(now + REST);
        return Err(error);
      }
    }
    Ok(())
  }

  /// How long until there is something to do.
  pub(super) fn next_due(&self, now: Duration) -> Option<Duration> {
    let due = match &self.out {
      Some(out) => Some(out.since + PATIENCE),
      None => self.due,
    };
    due.into_iter().chain(self.look).min().map(|due| due.saturating_sub(now))
  }

  /// Makes the loop look for a question soon.
  pub(super) fn stir(&mut self, now: Duration) {
    // A single run does not wait for answers, so it asks nothing.
    if self.wake.is_none() || self.via.is_none() {
      return;
    }
    self.look.get_or_insert(now + LOOK);
    if !matches!(self.via, Some(Via::Queue)) {
      self.due = Some(now);
    }
  }

  /// How this wakes the process, for `status`.
  pub(super) fn wakeup(&self) -> Option<String> {
    let every = seconds(LOOK);
    self.look.map(|_| format!("checks every {every} whether a question for the judge was answered"))
  }

  /// Asks a question on a thread of its own.
  fn ask(&mut self, via: Via, asking: Box<JudgeRequest>, now: Duration) {
    let (sender, answer) = channel();
    let wake = self.wake.clone();
    let prompt = asking.prompt.text().to_owned();
    let run = move || {
      os::thread::yield_to_others();
      // The answer is hostile input; a panic in its reader must not end the daemon.
      let asked = catch_unwind(AssertUnwindSafe(|| ask(via, prompt)));
      let answer = asked.unwrap_or_else(|_| Err(Silence::ToThis("asking failed".to_owned())));
      sender.send(answer).unwrap_or_default();
      if let Some(wake) = wake {
        wake.send(()).unwrap_or_default();
      }
    };
    // If no thread can be started, the receiver finds its sender gone.
    drop(thread::Builder::new().name("judge".to_owned()).spawn(run));
    self.out = Some(Out { asking, since: now, answer });
  }

  /// The answer, or that none will come.
  fn take(&mut self, now: Duration) -> Option<(Box<JudgeRequest>, Result<String, Silence>)> {
    let out = self.out.as_ref()?;
    let outage = |why: &str| Err(Silence::Outage(why.to_owned()));
    let answer = match out.answer.try_recv() {
      Ok(answer) => answer,
      Err(TryRecvError::Disconnected) => {
        Err(Silence::Unreached("the thread that asks cannot run".to_owned()))
      }
      Err(TryRecvError::Empty) if now < out.since + PATIENCE => return None,
      Err(TryRecvError::Empty) => outage("no answer came in time"),
    };
    self.out.take().map(|out| (out.asking, answer))
  }
}

fn degrade(why: &str) -> Action {
  Action::Degrade(PartKind::Judge.into(), why.to_owned())
}

/// Sends the prompt to the judge and returns its answer.
fn ask(via: Via, prompt: String) -> Result<String, Silence> {
  match via {
    Via::Endpoint(settings) => {
      let mut chat = Chat::new(settings, Box::new(|| SystemClock.monotonic()))
        .map_err(|error| Silence::Unreached(error.to_string()))?;
      chat.ask(&prompt).map_err(|error| match error {
        NetError::Silent => Silence::ToThis(error.to_string()),
        NetError::Unreachable(_) | NetError::Url(_) | NetError::Resting => {
          Silence::Unreached(error.to_string())
        }
        error => Silence::Outage(error.to_string()),
      })
    }
    Via::Program(Program { mut words, after, answer }) => {
      words.push(prompt.into());
      words.extend(after);
      let printed =
        subprocess::output(&words, PROGRAM_DEADLINE, MAX_PRINTED).map_err(Silence::Outage)?;
      let silent = || Silence::ToThis("the program did not print a model's answer".to_owned());
      answer(&printed).ok_or_else(silent)
    }
    Via::Queue => Err(Silence::Unreached("no judge is asked".to_owned())),
  }
}
