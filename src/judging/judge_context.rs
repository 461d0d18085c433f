//! What the judgement of a file needs in addition to its text.
#![forbid(unsafe_code)]

use std::ops::Range;

use super::{
  claim::placeholders, origin::Origin, slices::Slice, text::BlockText, treatment::Treatment,
};
use crate::{
  config::Config,
  detect::{
    Code, Text,
    effects::KnownSlot,
    model::{Assessment, Context},
    reading::{Question, Reading},
    rules::RuleSet,
  },
  memory::ContentHash,
  store::{BlockRow, Exception},
};

/// The earlier decision about the same bytes.
#[allow(clippy::large_enum_variant, reason = "there is one at a time, and none is kept")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Precedent {
  /// There is none.
  None,
  /// A person approved the bytes; these are the approvals, and the origin of the approved text.
  Excused(Vec<Exception>, Option<Origin>),
  /// The bytes are in quarantine, for these codes.
  Quarantined(Vec<Code>),
}

/// Text that a person has just restored.
#[derive(Clone, Debug)]
pub struct RestoredText {
  /// Its span in the file.
  pub span: Range<usize>,
  /// Where the restored text came from, as its item says.
  pub origin: Origin,
}

/// Looks up the precedent of bytes, by their hash and their span in the file.
pub type AskPrecedent<'a> = dyn FnMut(&ContentHash, &Range<usize>) -> Precedent + 'a;

/// Everything that the judgement of a file needs in addition to its text.
pub struct JudgeContext<'a> {
  /// The origin of fresh lines.
  pub origin: &'a Origin,
  /// How text of this file is treated.
  pub treatment: Treatment,
  /// The configuration in force.
  pub config: &'a Config,
  /// The rules in force.
  pub rules: &'a RuleSet,
  /// What the ledger knows of the blocks in the comparison.
  pub known: &'a [BlockRow],
  /// The rests of lines whose beginning is in quarantine.
  pub continued: &'a [Range<usize>],
  /// The beginning of a comment of memfw that the end of the file cuts off: it is nobody's text.
  pub cut: Option<Range<usize>>,
  /// The text that a person has just restored.
  pub restored: Option<&'a RestoredText>,
  /// The codes that a person allowed for this origin.
  pub allowed: &'a [Code],
  /// The values of trusted memory.
  pub slots: &'a [KnownSlot],
  /// Looks up precedents of the same bytes in the same place, with and without their last line end;
  /// `None` if there are no decisions at all.
  pub precedent: Option<&'a mut AskPrecedent<'a>>,
  /// Asks the model about a text, with the strength of the rules' findings and the context of the text;
  /// `None` without a model.
  pub assess: &'a mut Assess<'a>,
  /// Whether the encoder later reads what only the heads have read now.
  pub reads_on: bool,
  /// Asks the judge about a text; `None` if no judge is asked (yet).
  pub consult: Option<&'a mut Consult<'a>>,
  /// The current slice of a large file; `None` if the file is judged at once.
  pub slice: Option<&'a Slice<'a>>,
}

impl<'a> JudgeContext<'a> {
  /// The context of a text with no earlier decisions, of which only the origin is known.
  pub fn new(
    origin: &'a Origin,
    treatment: Treatment,
    config: &'a Config,
    rules: &'a RuleSet,
    assess: &'a mut Assess<'a>,
  ) -> Self {
    Self {
      origin,
      treatment,
      config,
      rules,
      known: &[],
      continued: &[],
      cut: None,
      restored: None,
      allowed: &[],
      slots: &[],
      precedent: None,
      assess,
      reads_on: false,
      consult: None,
      slice: None,
    }
  }

  /// The text of these spans of the file, as it is judged.
  pub(super) fn text(&self, file: &[u8], spans: &[Range<usize>]) -> BlockText {
    let mut text = BlockText::of_spans(file, spans);
    if let Some(cut) = &self.cut {
      text.blank_in_file(cut);
    }
    if self.origin.is_taken_over {
      for comment in placeholders(text.bytes()) {
        text.blank(comment);
      }
    }
    text
  }

  /// The context of other text in this file that is judged again: with another origin, and without
  /// earlier decisions.
  pub(super) fn beside<'b>(
    &'b mut self,
    origin: &'b Origin,
    allowed: &'b [Code],
  ) -> JudgeContext<'b>
  where
    'a: 'b,
  {
    JudgeContext {
      origin,
      treatment: self.treatment,
      config: self.config,
      rules: self.rules,
      known: self.known,
      continued: &[],
      cut: self.cut.clone(),
      restored: None,
      allowed,
      slots: self.slots,
      precedent: None,
      assess: &mut *self.assess,
      reads_on: self.reads_on,
      consult: None,
      slice: self.slice,
    }
  }
}

/// The state of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
  /// The judge's answer.
  Answer(Reading),
  /// It has no answer yet.
  Ask,
  /// It has no answer, and is not asked any more.
  Silence,
}

/// The function that asks the judge.
pub type Consult<'a> = dyn FnMut(&Question<'_>) -> Heard + 'a;

/// The function that asks the model.
pub type Assess<'a> = dyn FnMut(&Text<'_>, f32, &Context<'_>) -> Option<Assessment> + 'a;
