//! Hooks for a simulation of power cuts and full disks.
//!
//! Nothing here changes what a transaction does: the hooks report commits, and set a limit of
//! SQLite.
#![forbid(unsafe_code)]

use std::sync::Arc;

use super::{Ledger, Observer, StoreError};

impl Ledger {
  /// Reports each commit from now on, with whether it was synced.
  pub fn observe(&mut self, observer: Arc<dyn Fn(bool) + Send + Sync>) {
    self.observer = Some(Observer(observer));
  }

  /// Lets the database grow by at most `n` pages, like a nearly full disk; `None` removes the
  /// limit. Public for the simulation in `tests/`, which fills the disk of its ledger with it.
  pub fn limit_growth(&self, pages: Option<u32>) -> Result<(), StoreError> {
    self.read(|conn| {
      let now: u32 = conn.query_row("PRAGMA page_count", [], |row| row.get(0))?;
      // SQLite's own limit (limits.html, 14) is its largest number.
      let most = pages.map_or(4_294_967_294, |more| u64::from(now) + u64::from(more));
      Ok(conn.query_row(&format!("PRAGMA max_page_count = {most}"), [], |_| Ok(()))?)
    })
  }
}

#[cfg(test)]
mod tests {
  use std::sync::Mutex;

  use super::*;
  use crate::store::tests::{Home, op};

  #[test]
  fn commits_are_reported_with_their_durability_and_nothing_else_is() {
    let mut ledger = Home::new().ledger();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&seen);
    ledger.observe(Arc::new(move |synced| told.lock().unwrap().push(synced)));
    let id = ledger.begin(&op(), 1).unwrap();
    ledger.finish(id).unwrap();
    ledger.open_ops().unwrap();
    assert_eq!(*seen.lock().unwrap(), [true, false]);
  }

  #[test]
  fn a_ledger_that_may_not_grow_says_so_and_goes_on_when_it_may_again() {
    let mut ledger = Home::new().ledger();
    ledger.limit_growth(Some(0)).unwrap();
    let large = vec![b'x'; 100_000];
    let op = crate::store::NewOp { before: &large, ..op() };
    assert!(matches!(ledger.begin(&op, 1), Err(StoreError::Full { .. })));
    assert!(ledger.open_ops().unwrap().is_empty());
    ledger.limit_growth(None).unwrap();
    ledger.begin(&op, 1).unwrap();
  }

  #[test]
  fn an_impatient_connection_does_not_wait_for_another_one() {
    let home = Home::new();
    let (mut first, second) = (home.ledger(), home.ledger());
    first.set_patience(std::time::Duration::ZERO);
    second.conn.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert!(matches!(first.begin(&op(), 1), Err(StoreError::Locked { .. })));
    second.conn.execute_batch("COMMIT").unwrap();
    first.begin(&op(), 1).unwrap();
  }
}
