//! Asking a model that reads (layer 3), on a thread of its own: nothing that has to leave a file waits for it.
//!
//! One question is out at a time, each a prompt of its own with one entry in it. The questions wait in the
//! ledger, where their budget is counted, too; a question whose answer does not come waits there again.
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
  Guard,
  queue::{Kind, Waiting},
  service::seconds,
};
use crate::{
  engine::{
    Consulting, EngineError, Target,
    consult::{JudgeRequest, Turn},
  },
  net::{Breaker, Chat, ChatSettings, NetError},
  os::{self, Clock as _, SystemClock, subprocess},
};

/// How long a program that asks may take: the agent's own needs some ten seconds to start.
const PROGRAM_DEADLINE: Duration = Duration::from_mins(1);
/// Bytes of what it prints that are read, at most.
const MAX_PRINTED: u64 = 256 * 1024;
/// How long the thread is waited for beyond the deadline of its question.
const PATIENCE: Duration = Duration::from_mins(2);
/// How soon it is looked again while nobody may be asked.
const REST: Duration = Duration::from_secs(30);
/// How often it is looked whether another process has taken an answer, while a question waits for one.
const LOOK: Duration = Duration::from_secs(30);
/// The key of a judge that cannot be asked, or does not answer.
const KEY: &str = "judge";

/// Who is asked.
#[derive(Clone, Debug)]
pub enum Via {
  /// A server that is asked like OpenAI's.
  Endpoint(ChatSettings),
  /// A program: its arguments, of which the last is followed by the prompt.
  Program(Program),
  /// Whoever takes the questions.
  Queue,
}

/// A program that asks a model.
#[derive(Clone, Debug)]
pub struct Program {
  /// The program and its arguments before the prompt.
  pub words: Vec<OsString>,
  /// The arguments behind it.
  pub after: Vec<OsString>,
  /// Finds the model's answer in what the program prints.
  pub answer: fn(&[u8]) -> Option<String>,
}

/// A question that is out.
struct Out {
  asking: Box<JudgeRequest>,
  since: Duration,
  answer: Receiver<Result<String, Silence>>,
}

/// Why nobody said anything: a sentence without anything of an answer.
enum Silence {
  /// Nobody was reached who could.
  Unreached(String),
  /// Somebody was, perhaps, and did not.
  Outage(String),
  /// Whoever was reached did not; another question may fare better.
  ToThis(String),
}

/// Who asks.
#[derive(Default)]
pub(super) struct Judge {
  via: Option<Via>,
  /// Wakes the loop.
  wake: Option<UnboundedSender<()>>,
  out: Option<Out>,
  breaker: Breaker,
  /// When to look for a question next.
  due: Option<Duration>,
  /// When to look next for what others were answered.
  look: Option<Duration>,
}

impl Judge {
  /// How long until there is something to do.
  pub(super) fn next_due(&self, now: Duration) -> Option<Duration> {
    let due = match &self.out {
      Some(out) => Some(out.since + PATIENCE),
      None => self.due,
    };
    due.into_iter().chain(self.look).min().map(|due| due.saturating_sub(now))
  }

  /// Looks for a question soon.
  fn stir(&mut self, now: Duration) {
    // Who processes once does not wait for answers, and asks nobody.
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
    self.look.map(|_| format!("looks every {every} whether somebody has answered for the judge"))
  }

  /// Asks on a thread of its own.
  fn ask(&mut self, via: Via, asking: Box<JudgeRequest>, now: Duration) {
    let (sender, answer) = channel();
    let wake = self.wake.clone();
    let prompt = asking.prompt.text().to_owned();
    let run = move || {
      os::thread::yield_to_others();
      // What comes back is hostile; a fault in its reader must not end the guard.
      let asked = catch_unwind(AssertUnwindSafe(|| ask(via, prompt)));
      let answer = asked.unwrap_or_else(|_| Err(Silence::ToThis("asking failed".to_owned())));
      sender.send(answer).unwrap_or_default();
      if let Some(wake) = wake {
        wake.send(()).unwrap_or_default();
      }
    };
    // Where no thread can be had, the receiver finds its other end gone.
    drop(thread::Builder::new().name("judge".to_owned()).spawn(run));
    self.out = Some(Out { asking, since: now, answer });
  }

  /// The answer, if it is there or does not come any more.
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

/// What the one who is asked says.
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
    Via::Queue => Err(Silence::Unreached("nobody is asked".to_owned())),
  }
}

impl Guard {
  /// The loop is woken by `wake` when an answer is there.
  pub(super) fn judge_elsewhere(&mut self, wake: UnboundedSender<()>) {
    self.judge.wake = Some(wake);
  }

  /// Goes on with whom the configuration names by now.
  pub(super) fn set_judge(&mut self) -> Result<(), EngineError> {
    self.engine.start_judging()?;
    self.judge.breaker = Breaker::default();
    (self.judge.due, self.judge.look) = (None, None);
    let (via, wrong) = match self.errands.helpers.judge.clone() {
      None => (None, None),
      Some(Ok(via)) => (Some(via), None),
      Some(Err(why)) => (None, Some(why)),
    };
    self.judge.via = via;
    let now = self.now();
    self.judge.stir(now);
    match wrong {
      Some(why) => self.engine.degrade(KEY, &format!("the judge cannot be asked: {why}")),
      None => self.engine.recovered(KEY),
    }
  }

  /// A file was looked at: it is to be seen whether somebody is asked about what is new in it.
  pub(super) fn consult_about(&mut self, target: &Target) -> Result<(), EngineError> {
    if self.engine.is_judging_pending(target)? {
      let now = self.now();
      self.queue.consult(target.clone(), now);
    }
    Ok(())
  }

  /// At a start, and now and then: what was left to be seen, also by others.
  pub(super) fn consult_all(&mut self) -> Result<(), EngineError> {
    let files = self.engine.judging_files()?;
    self.consult_those(files);
    Ok(())
  }

  fn consult_those(&mut self, files: Vec<Target>) {
    let now = self.now();
    for target in files.into_iter().filter(|target| self.workspaces.contains(&target.root)) {
      self.queue.consult(target, now);
    }
  }

  /// Looks for what other processes have left to be seen; again as long as somebody may leave something.
  fn look_for_answers(&mut self) -> Result<bool, EngineError> {
    let now = self.now();
    if self.judge.look.is_none_or(|look| look > now) {
      return Ok(false);
    }
    let is_awaited = self.engine.awaits_answers()?;
    self.judge.look = is_awaited.then_some(now + LOOK);
    self.consult_all()?;
    Ok(true)
  }

  /// Puts the questions about one file, and does what follows from answers.
  pub(super) fn consult(&mut self, target: &Target, waiting: Waiting) -> Result<(), EngineError> {
    let consulting = self.engine.consult(target);
    self.count_opens();
    // What an answer has taken out leaves its file only now.
    if self.engine.take_departed() {
      self.errands.stir();
    }
    let now = self.now();
    self.judge.stir(now);
    match consulting? {
      Consulting::Done { reshape_due } => self.mark_after(target, reshape_due),
      // Whoever is asked or reads first brings it back here.
      Consulting::NotNow
        if self.engine.is_attribution_pending(target)?
          || self.engine.is_reading_pending(target)? => {}
      Consulting::NotNow => self.queue.back_off(Kind::Judge, target.clone(), waiting, now),
    }
    Ok(())
  }

  /// Goes on with the questions; whether anything was done.
  pub(super) fn run_judge(&mut self) -> bool {
    let mut done = false;
    self.report(|guard| {
      done = guard.hear_judge()? || guard.look_for_answers()? || guard.ask_judge()?;
      Ok(())
    });
    done
  }

  /// Takes in what was answered.
  fn hear_judge(&mut self) -> Result<bool, EngineError> {
    let now = self.now();
    let Some((asking, answer)) = self.judge.take(now) else { return Ok(false) };
    // Whatever becomes of the answer, there may be another question.
    self.judge.stir(now);
    let outage = match answer {
      Ok(answer) => {
        match self.engine.take_answer(&asking, &answer)? {
          Ok((_, files)) => self.consult_those(files),
          Err(why) => tracing::debug!(target: "memfw", error = %why, "an answer does not count"),
        }
        None
      }
      Err(silence) => {
        match &silence {
          Silence::Unreached(_) => self.engine.not_answered(asking.hash, false)?,
          Silence::Outage(_) => self.engine.not_answered(asking.hash, true)?,
          Silence::ToThis(_) => self.engine.no_answer(asking.hash)?,
        }
        let (Silence::Unreached(why) | Silence::Outage(why) | Silence::ToThis(why)) = &silence;
        tracing::debug!(target: "memfw", error = why, "a question was not answered");
        match silence {
          Silence::Unreached(why) | Silence::Outage(why) => Some(why),
          Silence::ToThis(_) => None,
        }
      }
    };
    // What an entry makes the judge say must not keep the others from being asked about.
    let Some(why) = outage else {
      if self.judge.breaker.has_failed() {
        self.engine.wake_questions()?;
      }
      self.judge.breaker.succeeded();
      self.engine.recovered(KEY)?;
      return Ok(true);
    };
    self.judge.breaker.failed(now);
    // One may be chance.
    if !self.judge.breaker.may_ask(now) {
      self.engine.degrade(KEY, &format!("the judge does not answer: {why}"))?;
    }
    Ok(true)
  }

  /// Asks the next question, if there is one and it may be asked.
  fn ask_judge(&mut self) -> Result<bool, EngineError> {
    let now = self.now();
    if self.judge.out.is_some() || self.judge.due.is_none_or(|due| due > now) {
      return Ok(false);
    }
    let Some(via) = self.judge.via.clone() else {
      self.judge.due = None;
      return Ok(false);
    };
    if !self.judge.breaker.may_ask(now) {
      self.judge.due = Some(now + REST);
      return Ok(false);
    }
    let later = |at: i64, guard: &Self| {
      let wait = u64::try_from(at.saturating_sub(guard.engine.clock().now())).unwrap_or_default();
      now + Duration::from_micros(wait).clamp(Duration::from_millis(10), Duration::from_hours(1))
    };
    match self.engine.next_question() {
      Ok(Turn::Ask(asking)) => {
        self.judge.due = None;
        self.judge.ask(via, asking, now);
        Ok(true)
      }
      Ok(Turn::Later(at)) => {
        self.judge.due = at.map(|at| later(at, self));
        Ok(false)
      }
      Ok(Turn::Spent(until)) => {
        self.judge.due = Some(later(until, self));
        Ok(false)
      }
      Err(error) => {
        self.judge.due = Some(now + REST);
        Err(error)
      }
    }
  }
}
