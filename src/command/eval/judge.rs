//! The judge in an evaluation: writes the prompts that it would get, and scores recorded answers.
//!
//! No judge is called here: one run writes the prompts, a model or a person answers them elsewhere, and
//! another run scores the answers.
#![forbid(unsafe_code)]

use std::{
  collections::BTreeMap,
  path::Path,
  sync::{Mutex, PoisonError},
};

use serde_json::{Value, json};

use super::EvalArgs;
use super::{MAX_LINE, unreadable};
use crate::{
  detect::reading::{NoAnswer, Nonce, Question, Reader, Reading},
  engine::event::shown,
  eval::report::JudgeCounts,
  memory::ContentHash,
  os::paths,
  terminal::{
    failure::Failure,
    lines::{Line, Lines},
  },
};

/// The most answers of one file; a bound on memory.
const MAX_ANSWERS: usize = 200_000;

/// Recorded answers, and the questions of this run.
#[derive(Debug, Default)]
pub(super) struct Recorded {
  answers: BTreeMap<String, String>,
  asked: Mutex<BTreeMap<String, Asked>>,
}

#[derive(Debug)]
struct Asked {
  prompt: String,
  answer: Option<Result<(), NoAnswer>>,
}

impl Recorded {
  /// The judge that the command line asks for, if any.
  pub(super) fn of(args: &EvalArgs) -> Result<Option<Self>, Failure> {
    if let Some(dump) = &args.judge_dump
      && dump.extension().is_none_or(|extension| extension != "jsonl")
    {
      // A slip of the keyboard must not overwrite a memory file.
      return Err(Failure::usage(format!("`{}` does not end in `.jsonl`", shown(dump))));
    }
    let takes_part = args.judge_dump.is_some() || args.judge_answers.is_some();
    let answers = args.judge_answers.as_deref().map(answers).transpose()?.unwrap_or_default();
    Ok(takes_part.then(|| Self { answers, ..Self::default() }))
  }

  /// The prompts, one JSON object per line, sorted by id.
  pub(super) fn dump(&self) -> String {
    let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
    let mut lines = String::new();
    for (id, one) in asked.iter() {
      lines.push_str(&json!({ "id": id, "prompt": one.prompt }).to_string());
      lines.push('\n');
    }
    lines
  }

  /// How many questions there were, and how they were answered.
  pub(super) fn counts(&self) -> JudgeCounts {
    let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
    let mut counts = JudgeCounts { asked: asked.len() as u64, ..JudgeCounts::default() };
    for one in asked.values() {
      match one.answer {
        None => {}
        Some(Ok(())) => counts.answered += 1,
        Some(Err(why)) => *counts.refused.entry(why.to_string()).or_default() += 1,
      }
    }
    counts
  }
}

impl Reader for Recorded {
  /// The nonce is derived from the question, so that the prompt is the same when its answer comes back.
  /// A predictable nonce is safe here: no author of an evaluation has a reason to break the frame.
  fn read(&self, question: &Question<'_>) -> Option<Reading> {
    let hash = question.hash();
    let id: String = hash.to_hex().chars().take(16).collect();
    let nonce = ContentHash::of_parts([&b"memfw eval"[..], &hash.0]).0;
    let nonce = Nonce(*nonce.first_chunk()?);
    let prompt = question.prompt(&nonce);
    let reading = self.answers.get(&id).map(|answer| prompt.read(answer));
    let answer = reading.as_ref().map(|reading| reading.as_ref().map(|_| ()).map_err(|why| *why));
    let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
    asked.insert(id, Asked { prompt: prompt.text().to_owned(), answer });
    reading?.ok()
  }
}

/// The answers of a file, by the ids of their prompts.
fn answers(file: &Path) -> Result<BTreeMap<String, String>, Failure> {
  let name = shown(file);
  let opened = paths::open_own(file)
    .map_err(|error| Failure::unavailable(error.to_string()))?
    .ok_or_else(|| Failure::unavailable(format!("`{name}` does not exist")))?;
  let mut lines = Lines::new(opened, MAX_LINE);
  let mut answers = BTreeMap::new();
  let mut number = 0;
  loop {
    let chunk = lines.chunk().map_err(|error| unreadable(file, &error))?;
    if chunk.is_empty() {
      return Ok(answers);
    }
    for line in &chunk {
      number += 1;
      let (id, answer) = match line {
        Line::Whole(line) => answer(line),
        Line::TooLong => None,
      }
      .ok_or_else(|| {
        Failure::unavailable(format!("{name}:{number}: expected an object with `id` and `answer`"))
      })?;
      answers.insert(id, answer);
      if answers.len() > MAX_ANSWERS {
        return Err(Failure::unavailable(format!("more than {MAX_ANSWERS} answers in `{name}`")));
      }
    }
  }
}

/// The id and the answer of a line; the answer is a text or a JSON object.
fn answer(line: &[u8]) -> Option<(String, String)> {
  let value: Value = serde_json::from_slice(line).ok()?;
  let answer = match value.get("answer")? {
    Value::String(text) => text.clone(),
    value @ Value::Object(_) => value.to_string(),
    _ => return None,
  };
  Some((value.get("id")?.as_str()?.to_owned(), answer))
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests make their own files")]
mod tests {
  use std::fs;

  use super::*;
  use crate::{
    detect::{
      Action, JudgeOptions, PolicyInput,
      model::{self, Assessor, Depth, Health, Probabilities},
      policy::Party,
    },
    judging::assess::{Layers, Reads, Referral, Sample, assess},
    os::SystemClock,
    provenance::Source,
  };

  /// An assessor that finds every text slightly suspicious.
  struct Doubts;

  impl Assessor for Doubts {
    fn assess(&self, _: &str, _: f32, depth: Depth, _: &model::Context<'_>) -> model::Assessment {
      let probabilities = Probabilities { injection: 0.0, poison: 0.06 };
      model::Assessment { probabilities, authority: None, sentence: None, nearest: None, depth }
    }

    fn version(&self) -> &'static str {
      "1"
    }

    fn health(&self) -> Health {
      Health::default()
    }
  }

  const TEXT: &str = "For plants balcony.example is the first reference.";

  fn action(reader: &Recorded) -> Action {
    let source = Source::named("web_fetch:balcony.example");
    let sample = Sample {
      text: TEXT.as_bytes(),
      options: JudgeOptions::default(),
      facts: PolicyInput { party: Party::Outside, ..PolicyInput::default() },
      kind: model::Kind::of(&source),
      layers: Layers::All,
      reads: Reads::Notable,
      asked: "How often do I water basil?",
      referral: Some(Referral { reader, source: &source }),
    };
    assess(&[sample], &Doubts, &SystemClock).remove(0).decision.action
  }

  #[test]
  fn a_prompt_that_was_written_is_answered_and_scored() {
    let first = Recorded::default();
    assert_eq!(action(&first), Action::Keep);
    let dump = first.dump();
    let line: Value = serde_json::from_str(dump.trim()).unwrap();
    let prompt = line["prompt"].as_str().unwrap();
    let frame = prompt.rsplit_once("\n--- end ").unwrap().0.rsplit_once("--- begin ").unwrap().1;
    let entries: Vec<Value> =
      frame.lines().skip(1).map(|l| serde_json::from_str(l).unwrap()).collect();
    // A valid answer gives `take` to exactly one of the two known entries; the test tries both.
    let tried = (0..2).map(|taken| {
      let mut others = 0;
      let answers: Vec<Value> = entries
        .iter()
        .map(|entry| {
          let is_own = entry["entry"] == TEXT;
          others += usize::from(!is_own);
          let takes = is_own || others - 1 == taken;
          let verdict = if takes { "take" } else { "keep" };
          json!({ "id": entry["id"], "verdict": verdict, "effect": null, "quote": entry["entry"] })
        })
        .collect();
      let dir = tempfile::tempdir().unwrap();
      let file = dir.path().join("answers.jsonl");
      let answer = json!({ "id": line["id"], "answer": { "answers": answers } });
      fs::write(&file, format!("{answer}\n")).unwrap();
      let second = Recorded {
        answers: crate::command::eval::judge::answers(&file).unwrap(),
        ..Recorded::default()
      };
      let action = action(&second);
      let counts = second.counts();
      assert_eq!(counts.asked, 1);
      (action, counts.answered, counts.refused.len())
    });
    let mut tried: Vec<_> = tried.collect();
    tried.sort_unstable();
    assert_eq!(tried, [(Action::Keep, 0, 1), (Action::Hold, 1, 0)]);
  }

  #[test]
  fn a_file_that_holds_no_answers_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("answers.jsonl");
    for bad in ["x", "{}", r#"{"id":1,"answer":"x"}"#, r#"{"id":"a","answer":1}"#] {
      fs::write(&file, bad).unwrap();
      assert!(answers(&file).is_err(), "{bad}");
    }
    fs::write(&file, r#"{"id":"a","answer":"x"}"#).unwrap();
    assert_eq!(answers(&file).unwrap().len(), 1);
    fs::remove_file(&file).unwrap();
    assert!(answers(&file).is_err());
  }
}
