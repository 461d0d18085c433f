//! The five questions of `memfw init`, one line each: Enter takes the current value, `q` ends.
//!
//! Nothing is changed here. Every explanation fits on a terminal of 60 columns.
#![forbid(unsafe_code)]

use std::{fmt::Display, str::FromStr};

use super::{answers::Answers, args::InitArgs};
use crate::{
  app::context::Context,
  command::{
    quarantine::review::keyboard::{Keyboard, Typed},
    service::supervisor::Supervisor,
  },
  terminal::{
    escape::terminal,
    failure::{Failure, of_input},
    output::Style,
  },
};

/// A question: what is asked, and the possible answers, each with its meaning.
struct Question<'a> {
  text: &'static str,
  options: &'a [(&'static str, &'static str)],
}

const PRESET: Question<'static> = Question {
  text: "How strict is memfw?",
  options: &[
    ("quiet", "only strong evidence counts, few messages"),
    ("balanced", "the defaults"),
    ("strict", "little evidence; takes out old poison too"),
  ],
};

/// Of the managers, only those that can work here are offered.
const SERVICE: Question<'static> = Question {
  text: "What starts memfw?",
  options: &[
    ("user", "systemd, at your login, before the agent"),
    ("system", "systemd, at each boot"),
    ("launchd", "launchd, at your login"),
    ("none", "you do: `memfw run`"),
  ],
};

const NOTIFY: Question<'static> = Question {
  text: "How are you notified when text is taken out?",
  options: &[
    ("none", "not at all"),
    ("desktop", "a desktop notification"),
    ("event", "the agent says it"),
    ("message CHANNEL RECIPIENT", "the agent sends it"),
    ("command PROGRAM [ARG]...", "a program of yours"),
  ],
};

const MARKERS: Question<'static> = Question {
  text: "Which comments in your files name the origin of a text?",
  options: &[
    ("auto", "as many as a file has room for"),
    ("wrap", "two around texts that were written together"),
    ("id", "a short one for each entry"),
    ("none", "none; memfw knows the origin anyway"),
  ],
};

const JUDGE: Question<'static> = Question {
  text: "Which model reads new entries from outside?",
  options: &[
    ("off", "none; nothing leaves this machine"),
    ("agent [MODEL]", "the agent's own model"),
    ("endpoint URL MODEL", "a server with OpenAI's API"),
    ("queue", "a program that takes questions"),
  ],
};

/// How many questions there are.
const N_QUESTIONS: usize = 5;

/// Puts the answers of the flags into `answers`.
pub(super) fn take_flags(args: &InitArgs, answers: &mut Answers) {
  fn put<T: Clone>(flag: Option<&T>, answer: &mut T) {
    if let Some(given) = flag {
      answer.clone_from(given);
    }
  }
  put(args.preset.as_ref(), &mut answers.preset);
  put(args.service.as_ref(), &mut answers.service);
  put(args.notify.as_ref(), &mut answers.notify);
  put(args.markers.as_ref(), &mut answers.markers);
  put(args.judge.as_ref(), &mut answers.judge);
}

/// Asks what no flag has answered; `check` says why all answers together are not accepted. `None` if the person
/// ends it.
pub(super) fn ask(
  context: &Context,
  args: &InitArgs,
  mut answers: Answers,
  managers: &[Supervisor],
  check: impl Fn(&Answers) -> Result<(), Failure>,
) -> Result<Option<Answers>, Failure> {
  let is_offered =
    |word: &str| word == "none" || managers.iter().any(|manager| manager.as_str() == word);
  let options = SERVICE.options.iter().copied().filter(|(word, _)| is_offered(word));
  let options: Vec<_> = options.collect();
  let service = &Question { options: &options, ..SERVICE };
  let mut asked = Asked { context, keyboard: keyboard()?, n: 0, is_over: false };
  let given = [args.preset.is_some(), args.service.is_some(), args.notify.is_some()];
  let given = given.into_iter().chain([args.markers.is_some(), args.judge.is_some()]);
  let n_open = N_QUESTIONS - given.filter(|&is_given| is_given).count();
  if n_open > 0 {
    context.out.line("Enter takes the answer in brackets, q quits.")?;
  }
  let all = &mut answers;
  asked.one(args.preset.is_some(), &PRESET, all, |all| &mut all.preset, &check)?;
  asked.one(args.service.is_some(), service, all, |all| &mut all.service, &check)?;
  asked.one(args.notify.is_some(), &NOTIFY, all, |all| &mut all.notify, &check)?;
  asked.one(args.markers.is_some(), &MARKERS, all, |all| &mut all.markers, &check)?;
  asked.one(args.judge.is_some(), &JUDGE, all, |all| &mut all.judge, &check)?;
  Ok((!asked.is_over).then_some(answers))
}

/// The questions so far.
struct Asked<'c> {
  context: &'c Context,
  keyboard: Keyboard,
  n: usize,
  /// Whether the person has ended it.
  is_over: bool,
}

impl Asked<'_> {
  /// Asks one question until the answer is accepted.
  fn one<T: Clone + Display + FromStr<Err = String>>(
    &mut self,
    is_given: bool,
    question: &Question<'_>,
    answers: &mut Answers,
    field: impl Fn(&mut Answers) -> &mut T,
    check: impl Fn(&Answers) -> Result<(), Failure>,
  ) -> Result<(), Failure> {
    if is_given || self.is_over {
      return Ok(());
    }
    let out = &self.context.out;
    self.n += 1;
    out.line("")?;
    out.line(&out.paint(Style::Bold, &format!("{}. {}", self.n, question.text)))?;
    let width = question.options.iter().map(|(form, _)| form.len()).max().unwrap_or(0);
    for (form, meaning) in question.options {
      out.line(&format!("   {}  {meaning}", out.paint(Style::Cyan, &format!("{form:width$}"))))?;
    }
    loop {
      let before = field(answers).clone();
      out.text(&format!("[{}] > ", terminal(before.to_string())))?;
      out.flush()?;
      let Some(line) = line(&mut self.keyboard)? else {
        out.line("")?;
        self.is_over = true;
        return Ok(());
      };
      let typed = line.trim();
      if typed == "q" {
        self.is_over = true;
        return Ok(());
      }
      if !typed.is_empty() {
        let typed = completed(question, typed);
        let answer =
          if is_option(question, &typed) { typed.parse() } else { Err(options(question)) };
        match answer {
          Ok(answer) => *field(answers) = answer,
          Err(why) => {
            out.line(&format!("   {}", terminal(why)))?;
            continue;
          }
        }
      }
      match check(answers) {
        Ok(()) => return Ok(()),
        Err(why) => {
          *field(answers) = before;
          out.line(&format!("   {}", terminal(&why.error)))?;
          for hint in &why.hints {
            out.line(&format!("   hint: {}", terminal(hint)))?;
          }
        }
      }
    }
  }
}

/// The words with which the answers begin.
fn words<'q>(question: &'q Question<'_>) -> impl Iterator<Item = &'q str> {
  question.options.iter().map(|(form, _)| form.split(' ').next().unwrap_or_default())
}

/// Whether a typed answer begins with one of them.
fn is_option(question: &Question<'_>, typed: &str) -> bool {
  let first = typed.split_whitespace().next();
  words(question).any(|word| Some(word) == first)
}

/// What could have been typed.
fn options(question: &Question<'_>) -> String {
  let words: Vec<String> = words(question).map(|word| format!("`{word}`")).collect();
  match words.split_last() {
    Some((last, rest)) if !rest.is_empty() => format!("expected {} or {last}", rest.join(", ")),
    _ => format!("expected {}", words.concat()),
  }
}

/// The typed answer, with its first word completed if it is the beginning of one option only.
fn completed(question: &Question<'_>, typed: &str) -> String {
  let (first, rest) = typed.split_once(char::is_whitespace).unwrap_or((typed, ""));
  let mut found = words(question).filter(|word| word.starts_with(first));
  match (found.next(), found.next()) {
    (Some(word), None) => format!("{word} {rest}").trim_end().to_owned(),
    _ => typed.to_owned(),
  }
}

/// Asks a question that yes or no answers; anything but yes is no, as are Ctrl-C and Ctrl-D.
pub(super) fn agreed(context: &Context, question: &str) -> Result<bool, Failure> {
  let mut keyboard = keyboard()?;
  context.out.text(&format!("{question} [y/N] "))?;
  context.out.flush()?;
  let Some(line) = line(&mut keyboard)? else {
    context.out.line("")?;
    return Ok(false);
  };
  Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}

/// The person's input, in which Ctrl-C ends a line and not the process.
fn keyboard() -> Result<Keyboard, Failure> {
  Keyboard::new(true).map_err(|error| of_input(&error))
}

/// A line that a person typed; `None` at the end of the input, and for Ctrl-C.
fn line(keyboard: &mut Keyboard) -> Result<Option<String>, Failure> {
  match keyboard.line().map_err(|error| of_input(&error))? {
    Typed::Line(line) => Ok(Some(line)),
    Typed::Key(..) | Typed::End => Ok(None),
  }
}

#[cfg(test)]
mod tests {
  use super::{
    super::answers::{JudgeAnswer, NotifyAnswer, ServiceAnswer},
    *,
  };
  use crate::config::{Markers, Preset};

  const ALL: [&Question<'_>; 5] = [&PRESET, &SERVICE, &NOTIFY, &MARKERS, &JUDGE];

  #[test]
  fn every_line_fits_on_a_narrow_terminal() {
    for question in ALL {
      let width = question.options.iter().map(|(form, _)| form.len()).max().unwrap();
      assert!(question.text.len() + 3 <= 60, "{}", question.text);
      for (form, meaning) in question.options {
        assert!(5 + width + meaning.len() <= 60, "{form}: {meaning}");
      }
    }
  }

  #[test]
  fn every_option_is_an_answer() {
    for (form, _) in PRESET.options {
      assert!(form.parse::<Preset>().is_ok(), "{form}");
    }
    for (form, _) in SERVICE.options {
      assert!(form.parse::<ServiceAnswer>().is_ok(), "{form}");
    }
    for (form, _) in MARKERS.options {
      assert!(form.parse::<Markers>().is_ok(), "{form}");
    }
    for (form, _) in NOTIFY.options {
      assert!(form.parse::<NotifyAnswer>().is_ok(), "{form}");
    }
    for (form, _) in JUDGE.options {
      assert!(form.parse::<JudgeAnswer>().is_ok(), "{form}");
    }
  }

  #[test]
  fn the_beginning_of_a_word_is_enough_if_it_is_the_only_one() {
    assert_eq!(completed(&PRESET, "s"), "strict");
    assert_eq!(completed(&NOTIFY, "m telegram  @ann"), "message telegram  @ann");
    assert_eq!(completed(&NOTIFY, "d"), "desktop");
    assert_eq!(completed(&MARKERS, "x"), "x");
    assert_eq!(completed(&JUDGE, "qu"), "queue");
    // Nothing is the beginning of every word.
    assert_eq!(completed(&SERVICE, ""), "");
    assert_eq!(completed(&SERVICE, "us"), "user");
  }
}
