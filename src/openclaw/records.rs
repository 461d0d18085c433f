//! OpenClaw behind the trait that the engine asks: its file ledger and its sessions.
#![forbid(unsafe_code)]

use std::{fmt, path::Path, sync::Arc};

use super::{attribute::attribute, layout::Layout, ledger::FileLedger, transcript::Sessions};
use crate::{
  memory::ContentHash,
  provenance::{AgentRecords, Answer, Followed, Question, Standing},
};

/// Characters of a file that OpenClaw injects (`agents.defaults.bootstrapMaxChars`, its default).
const BOOTSTRAP_MAX_CHARS: usize = 20_000;
/// The same for `USER.md`.
const USER_MAX_CHARS: usize = 4_000;

/// OpenClaw's records, found through its [`Layout`].
#[derive(Clone)]
pub struct OpenClawRecords {
  ledger: FileLedger,
  sessions: Option<Arc<dyn Sessions + Send + Sync>>,
}

impl fmt::Debug for OpenClawRecords {
  fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.debug_struct("OpenClawRecords").field("ledger", &self.ledger).finish_non_exhaustive()
  }
}

impl OpenClawRecords {
  /// Records of the OpenClaw with this layout. Without sessions nobody can be named as a writer.
  pub fn new(layout: Layout) -> Self {
    Self { ledger: FileLedger::new(layout), sessions: None }
  }

  /// The same, with the sessions in which to look for who wrote something.
  #[must_use]
  pub fn with_sessions(self, sessions: Arc<dyn Sessions + Send + Sync>) -> Self {
    Self { sessions: Some(sessions), ..self }
  }
}

impl AgentRecords for OpenClawRecords {
  fn standing(&self, workspace: &Path, file: &Path) -> Standing {
    self.ledger.standing(workspace, file)
  }

  fn follow(
    &self,
    workspace: &Path,
    file: &Path,
    before: ContentHash,
    after: ContentHash,
    class: Option<&str>,
  ) -> Followed {
    self.ledger.follow(workspace, file, before, after, class)
  }

  fn attribute(&self, question: &Question<'_>) -> Answer {
    match &self.sessions {
      Some(sessions) => {
        let row = self.ledger.row(question.workspace, question.file);
        attribute(question, row, sessions.as_ref())
      }
      None => Answer::nothing_on_record(question),
    }
  }

  fn injection_limit(&self, file: &Path) -> Option<usize> {
    match file.to_str()? {
      "MEMORY.md" | "memory.md" => Some(BOOTSTRAP_MAX_CHARS),
      "USER.md" => Some(USER_MAX_CHARS),
      _ => None,
    }
  }
}
