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
  Daemon,
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
/// The key of the degradation when the judge cannot be asked or does not answer.
const KEY: &str = "judge";

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
  /// How long until there is something to do.
  pub(super) fn next_due(&self, now: Duration) -> Option<Duration> {
    let due = match &self.out {
      Some(out) => Some(out.since + PATIENCE),
      None => self.due,
    };
    due.into_iter().chain(self.look).min().map(|due| due.saturating_sub(now))
  }

  /// Makes the loop look for a question soon.
  fn stir(&mut self, now: Duration) {
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

impl Daemon {
  /// Makes each answer wake the loop through `wake`; without it nothing is asked.
  pub(super) fn judge_elsewhere(&mut self, wake: UnboundedSender<()>) {
    self.judge.wake = Some(wake);
  }

  /// Uses the judge that the configuration names now.
  pub(super) fn set_judge(&mut self) -> Result<(), EngineError> {
    self.engine.start_judging()?;
    self.judge.breaker = Breaker::default();
    (self.judge.due, self.judge.look) = (None, None);
    let (via, wrong) = match self.notifications.helpers.judge.clone() {
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

  /// After a pass: makes the queue consider the judge for new text of a file.
  pub(super) fn consult_about(&mut self, target: &Target) -> Result<(), EngineError> {
    if self.engine.is_judging_pending(target)? {
      let now = self.now();
      self.queue.consult(target.clone(), now);
    }
    Ok(())
  }

  /// At a start, and now and then: considers the judge for all files that need it, also because of other
  /// processes.
  pub(super) fn consult_all(&mut self) -> Result<(), EngineError> {
    let files = self.engine.judging_files()?;
    self.consult_those(files);
    Ok(())
  }

  fn consult_those(&mut self, files: Vec<Target>) {
    let now = self.now();
    for target in
      files.into_iter().filter(|target| self.directories.workspaces.contains(&target.root))
    {
      self.queue.consult(target, now);
    }
  }

  /// Looks for what other processes recorded, again and again while a question waits for an answer.
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

  /// Records questions about one file, and carries out what answers lead to.
  pub(super) fn consult(&mut self, target: &Target, waiting: Waiting) -> Result<(), EngineError> {
    let consulting = self.engine.consult(target);
    self.count_opens();
    // A block that is redacted because of an answer leaves the file only here, so the notifications are
    // started.
    if self.engine.take_departed() {
      self.notifications.stir();
    }
    let now = self.now();
    self.judge.stir(now);
    match consulting? {
      Consulting::Done { reshape_due } => self.request_reshape(target, reshape_due),
      // The pending attribution or model score brings the file back here.
      Consulting::NotNow
        if self.engine.is_attribution_pending(target)?
          || self.engine.is_reading_pending(target)? => {}
      Consulting::NotNow => self.queue.back_off(Kind::Judge, target.clone(), waiting, now),
    }
    Ok(())
  }

  /// Continues with the questions. Returns whether anything was done.
  pub(super) fn run_judge(&mut self) -> bool {
    let mut done = false;
    self.report(|daemon| {
      done = daemon.hear_judge()? || daemon.look_for_answers()? || daemon.ask_judge()?;
      Ok(())
    });
    done
  }

  /// Handles an answer or its absence.
  fn hear_judge(&mut self) -> Result<bool, EngineError> {
    let now = self.now();
    let Some((asking, answer)) = self.judge.take(now) else { return Ok(false) };
    // Whatever the answer is, there may be another question.
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
    // Text that makes the judge fall silent must not keep other entries from being judged.
    let Some(why) = outage else {
      if self.judge.breaker.has_failed() {
        self.engine.wake_questions()?;
      }
      self.judge.breaker.succeeded();
      self.engine.recovered(KEY)?;
      return Ok(true);
    };
    self.judge.breaker.failed(now);
    // A single failure may be chance.
    if !self.judge.breaker.may_ask(now) {
      self.engine.degrade(KEY, &format!("the judge does not answer: {why}"))?;
    }
    Ok(true)
  }

  /// Asks the next question, if there is one and it may be asked now.
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
    let later = |at: i64, daemon: &Self| {
      let wait = u64::try_from(at.saturating_sub(daemon.engine.clock().now())).unwrap_or_default();
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
