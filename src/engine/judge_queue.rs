//! The judge's queue: questions that wait in the ledger until a judge takes them.
//!
//! It reads no file: [`super::consult`] puts the questions and applies the answers.
#![forbid(unsafe_code)]

use std::path::Path;

use super::{EngineError, Target, pending::targets};
use crate::{
  config::{Config, FilePattern, JudgeVia},
  detect::reading::{KeptQuestion, NoAnswer, Nonce, Prompt, Reading},
  memory::ContentHash,
  os::random,
  provenance::SourcePattern,
  store::{Budget, HandedOut, Ledger, NewQuestion, Next, QuestionState, StateKey},
};

/// The number of hex digits in the name of a question.
const ID_DIGITS: usize = 16;

/// A question that is asked now.
#[derive(Clone, Debug)]
pub struct JudgeRequest {
  /// The hash of the question.
  pub hash: ContentHash,
  /// The prompt with the question and the known entries, with its nonce.
  pub prompt: Prompt,
}

impl JudgeRequest {
  /// The name by which an answer refers to its question.
  pub fn id(&self) -> String {
    self.hash.to_hex().chars().take(ID_DIGITS).collect()
  }

  fn of(out: &HandedOut) -> Option<Self> {
    let kept = KeptQuestion::from_bytes(&out.bytes)?;
    Some(Self { hash: out.hash, prompt: kept.question().prompt(&Nonce(out.nonce)) })
  }
}

/// The next step of request.
#[derive(Debug)]
pub enum Turn {
  /// Ask this question.
  Ask(Box<JudgeRequest>),
  /// Ask nothing before this time, in microseconds since the epoch; `None` where no question waits.
  Later(Option<i64>),
  /// The budget is used up until this time.
  Spent(i64),
}

/// The queue, at one time.
pub struct JudgeQueue<'a> {
  pub(super) ledger: &'a mut Ledger,
  pub(super) config: &'a Config,
  /// Now, in microseconds since the epoch.
  pub(super) at: i64,
}

impl JudgeQueue<'_> {
  /// Applies the configuration of the judge: text from before is not asked about, without a judge no
  /// question waits, and questions about text that is excluded now are dropped.
  pub fn start(&mut self) -> Result<(), EngineError> {
    if self.config.judge_via == JudgeVia::Off {
      // If a judge is configured again, only text from then on is asked about.
      self.ledger.remove_state(&StateKey::JudgedSince)?;
      return Ok(self.ledger.drop_questions(false)?);
    }
    if self.ledger.state(&StateKey::JudgedSince)?.is_none() {
      self.ledger.set_state(&StateKey::JudgedSince, "{}", self.at)?;
    }
    let sources = self.config.judge_exclude_sources.iter().map(SourcePattern::as_str);
    let files = self.config.judge_exclude_files.iter().map(FilePattern::as_str);
    let excluded = [sources.collect::<Vec<_>>(), files.collect()];
    let excluded = serde_json::to_string(&excluded).unwrap_or_default();
    if self.ledger.state(&StateKey::JudgeExcluded)?.is_none_or(|(known, _)| known != excluded) {
      self.ledger.drop_questions(true)?;
      self.ledger.set_state(&StateKey::JudgeExcluded, &excluded, self.at)?;
    }
    Ok(())
  }

  /// The next question. It counts as asked from now on.
  pub fn next_question(&mut self) -> Result<Turn, EngineError> {
    let (per_hour, per_day) = (self.config.judge_per_hour, self.config.judge_per_day);
    loop {
      let nonce = random::array()?;
      let out = match self.ledger.next_question(Budget { per_hour, per_day }, nonce, self.at)? {
        Next::Question(out) => out,
        Next::Later(at) => return Ok(Turn::Later(at)),
        Next::Spent(until) => return Ok(Turn::Spent(until)),
      };
      match JudgeRequest::of(&out) {
        Some(request) => return Ok(Turn::Ask(Box::new(request))),
        // Another version of memfw wrote it in another format.
        None => self.ledger.no_answer(out.hash, self.at)?,
      }
    }
  }

  /// Finds a question that was handed out by its name. The outer `None` means that there is no such
  /// question, the inner one that its answer is not needed (any more).
  pub fn find(&self, id: &str) -> Result<Option<Option<JudgeRequest>>, EngineError> {
    let found = self.ledger.handed_out(id)?;
    Ok(found.map(|(state, out)| {
      out.filter(|_| state == QuestionState::Waiting).as_ref().and_then(JudgeRequest::of)
    }))
  }

  /// Records an answer if it is valid; returns the files that have work because of it.
  pub fn take_answer(
    &mut self,
    request: &JudgeRequest,
    answer: &str,
  ) -> Result<Result<(Reading, Vec<Target>), NoAnswer>, EngineError> {
    match request.prompt.read(answer) {
      Ok(reading) => {
        let files = self.ledger.answer_question(request.hash, &reading, self.at)?;
        Ok(Ok((reading, targets(files))))
      }
      Err(why) => {
        self.ledger.no_answer(request.hash, self.at)?;
        Ok(Err(why))
      }
    }
  }

  /// Notes that the judge's answer was not valid.
  pub fn no_answer(&mut self, hash: ContentHash) -> Result<(), EngineError> {
    Ok(self.ledger.no_answer(hash, self.at)?)
  }

  /// Notes that a question got no answer, and whether the judge was reached.
  pub fn not_answered(&mut self, hash: ContentHash, reached: bool) -> Result<(), EngineError> {
    Ok(self.ledger.not_answered(hash, reached, self.at)?)
  }

  /// Lets all questions be asked again, because the judge answers again.
  pub fn wake(&mut self) -> Result<(), EngineError> {
    Ok(self.ledger.wake_questions(self.at)?)
  }

  /// Puts questions about a file; says whether the file is done, where they cover all of a version.
  pub(super) fn put(
    &mut self,
    path: &Path,
    questions: &[NewQuestion],
    all_of: Option<ContentHash>,
  ) -> Result<bool, EngineError> {
    Ok(self.ledger.put_questions(path, questions, all_of, self.at)?)
  }
}
