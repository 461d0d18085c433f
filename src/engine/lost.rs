//! Placeholders without items in the ledger, because the ledger was removed or replaced.
#![forbid(unsafe_code)]

use std::ops::Range;

use super::{Engine, EngineError, Target};
use crate::{
  files::{Fs, MemoryFile as _},
  judging::claim,
  memory::{BlockId, placeholder},
};

impl<F: Fs> Engine<F> {
  /// Counts the placeholders in these files that belong to no item of the ledger, and the files with
  /// such placeholders. Unreadable files are not counted.
  pub fn unknown_placeholders(
    &mut self,
    targets: &[Target],
  ) -> Result<(usize, usize), EngineError> {
    let rules = self.files.rules();
    let (mut n_placeholders, mut n_files) = (0, 0);
    for target in targets {
      if self.files.open_root(&target.root).is_err() {
        continue;
      }
      let found = self.files.glance(target, &rules).map(|(bytes, _)| bytes);
      // A file that cannot be read without side effects is opened; this happens once per start.
      let mut read = || self.files.open(target).ok()?.ok()?.read_all().ok();
      let Some(bytes) = found.or_else(&mut read) else { continue };
      let ids = placeholders(&bytes);
      let taken = self.ledger.ids_taken(&ids)?;
      let n = ids.iter().filter(|id| !taken.contains(id)).count();
      n_placeholders += n;
      n_files += usize::from(n > 0);
    }
    Ok((n_placeholders, n_files))
  }
}

/// The ids of the placeholder comments in a text, in order.
fn placeholders(bytes: &[u8]) -> Vec<BlockId> {
  let id = |comment: Range<usize>| {
    let word = comment.start + b"<!-- ".len();
    placeholder::comment_at(bytes, word).map(|(_, id)| id)
  };
  claim::placeholders(bytes).into_iter().filter_map(id).collect()
}

#[cfg(test)]
mod tests {
  use crate::engine::testing::{OVERRIDE, World};

  #[test]
  fn a_placeholder_is_unknown_to_a_ledger_that_has_no_item_of_its_name() {
    let mut world = World::new(crate::config::Config::default());
    world.adopt("# Memory\n");
    world.write(&format!("# Memory\n\n{OVERRIDE}"));
    world.pass();
    assert!(world.read().contains(" quarantined"), "{}", world.read());
    let target = world.target.clone();
    let targets = std::slice::from_ref(&target);
    assert_eq!(world.engine.unknown_placeholders(targets).unwrap(), (0, 0));
    let text = format!("{}\n<!-- memfw:0a1b2c3d quarantined -->\n", world.read());
    world.write(&text);
    assert_eq!(world.engine.unknown_placeholders(targets).unwrap(), (1, 1));
    assert_eq!(world.read(), text, "it is only read");
  }
}
