//! The records of an agent framework whose tools write memory files: a hash for each file, of what
//! its own tool wrote last.
#![forbid(unsafe_code)]

use std::{
  collections::BTreeMap,
  path::{Path, PathBuf},
  sync::{Arc, Mutex},
};

use memfw::{
  memory::ContentHash,
  provenance::{AgentRecords, Answer, Followed, Question, Standing},
};

/// The records, shared between the framework's tools and the engines.
#[derive(Clone, Default)]
pub(crate) struct SimAgent {
  rows: Arc<Mutex<BTreeMap<PathBuf, ContentHash>>>,
  /// Characters of a file that go before the model.
  pub(crate) limit: Option<usize>,
}

impl SimAgent {
  /// A tool is about to write this content.
  pub(crate) fn record(&self, path: &Path, content: &[u8]) {
    self.rows.lock().unwrap().insert(path.to_owned(), ContentHash::of(content));
  }

  pub(crate) fn hash(&self, path: &Path) -> Option<ContentHash> {
    self.rows.lock().unwrap().get(path).copied()
  }
}

impl AgentRecords for SimAgent {
  fn standing(&self, workspace: &Path, file: &Path) -> Standing {
    match self.hash(&workspace.join(file)) {
      Some(hash) => Standing::Recorded { hash, class: None },
      None => Standing::NoRecord,
    }
  }

  fn follow(
    &self,
    workspace: &Path,
    file: &Path,
    before: ContentHash,
    after: ContentHash,
    _class: Option<&str>,
  ) -> Followed {
    let mut rows = self.rows.lock().unwrap();
    match rows.get_mut(&workspace.join(file)) {
      Some(hash) if *hash == before => {
        *hash = after;
        Followed::Yes
      }
      _ => Followed::NotOurs,
    }
  }

  fn attribute(&self, question: &Question<'_>) -> Answer {
    Answer::nothing_on_record(question)
  }

  fn injection_limit(&self, _workspace: &Path, _file: &Path) -> Option<usize> {
    self.limit
  }
}
