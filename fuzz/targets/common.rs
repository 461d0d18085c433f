//! A state directory with one agent, and all questions that can be asked about it.

use std::{fs, path::PathBuf};

use memfw::openclaw::transcript::{Sessions as _, Stores, Window};
use tempfile::TempDir;

const ALL: Window = Window { from: i64::MIN, to: i64::MAX };
/// Around the second turn of the fixtures.
const MOMENT: Window = Window { from: 1_795_231_178_000_000, to: 1_795_231_179_000_000 };
const LIMIT: usize = 200;

pub struct State(TempDir);

impl State {
  pub fn new() -> Self {
    let memory = PathBuf::from("/dev/shm");
    let dir = if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() };
    Self(dir.expect("a directory for one run"))
  }

  /// A file of the agent.
  pub fn file(&self, name: &str, bytes: &[u8]) {
    let path = self.0.path().join("agents/main").join(name);
    fs::create_dir_all(path.parent().expect("a name has a parent")).expect("a directory");
    fs::write(path, bytes).expect("a file");
  }

  pub fn ask_everything(&self) {
    let stores = Stores::open(self.0.path());
    for window in [ALL, MOMENT] {
      for session in stores.active(window).found.iter().take(8) {
        let read = stores.records(&session.id, window, LIMIT).found;
        assert!(read.len() <= LIMIT);
        assert!(read.iter().all(|record| record.at <= window.to));
        assert!(read.windows(2).all(|pair| pair[0].seq < pair[1].seq));
        stores.session(&session.key);
      }
    }
    stores.session("agent:main:main");
  }
}
