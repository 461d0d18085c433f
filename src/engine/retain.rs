//! Removes records, and versions of files, after the time that the configuration sets.
#![forbid(unsafe_code)]

use super::{Engine, EngineError, Event, EventKind};
use crate::{
  files::Fs,
  plural,
  store::{Dropped, Keep, PRUNED_AT_ONCE, backup},
};

/// Microseconds in a day.
const DAY: i64 = 86_400_000_000;
/// How long a backup of the ledger is kept, in days (a choice: a person who goes back after an upgrade
/// does it earlier, and permanently deleted text should not survive in a copy).
pub const BACKUP_DAYS: u64 = 90;

impl<F: Fs> Engine<F> {
  /// Removes a limited number of records that are too old or too many; says whether there are more.
  pub fn retain(&mut self) -> Result<bool, EngineError> {
    let at = self.now();
    let before =
      |days: u64| at.saturating_sub(i64::try_from(days).unwrap_or(i64::MAX).saturating_mul(DAY));
    let keep = Keep {
      events_since: before(self.config.event_days),
      events: self.config.event_count,
      routine: EventKind::ROUTINE,
      rejected_since: before(self.config.rejected_days),
    };
    let Dropped { events, rejected, more } = self.ledger.retain(&keep)?;
    let backups = backup::remove_older(self.ledger.path(), before(BACKUP_DAYS) / 1_000_000);
    let versions = self.versions.prune(&mut self.ledger, at)?;
    let parts: Vec<String> = [
      (events, "event"),
      (rejected, "rejected text"),
      (versions, "version"),
      (backups as u64, "backup"),
    ]
    .into_iter()
    .filter(|(n, _)| *n > 0)
    .map(|(n, what)| plural::count(n, what))
    .collect();
    if !parts.is_empty() {
      self.tell(Event::new(EventKind::Pruned).detail(parts.join(", ")))?;
    }
    Ok(more || versions >= PRUNED_AT_ONCE)
  }
}

#[cfg(test)]
mod tests {
  use std::time::Duration;

  use super::super::testing::{OVERRIDE, World};
  use crate::{
    config::Config,
    engine::EventKind,
    store::{EventFilter, ItemFilter, StoreError},
  };

  #[test]
  fn what_was_rejected_long_ago_loses_its_text_and_old_events_go() {
    let config = Config { event_days: 60, rejected_days: 30, ..Config::default() };
    let mut world = World::new(config);
    world.adopt("# A\n");
    world.write(&format!("# A\n\n{OVERRIDE}"));
    world.pass();
    let items = world.engine.ledger().items(&ItemFilter::default()).unwrap();
    let id = items[0].id.clone();
    world.engine.reject(id.as_str(), "ann", None).unwrap();
    assert!(!world.engine.retain().unwrap());
    assert!(world.engine.ledger().unseal(&id).is_ok(), "it is too young");

    world.clock.advance_wall(Duration::from_hours(24 * 31));
    assert!(!world.engine.retain().unwrap());
    let gone = world.engine.ledger().unseal(&id);
    assert!(matches!(gone, Err(StoreError::Deleted { .. })), "{gone:?}");
    let events = |world: &World| world.engine.ledger().events(&EventFilter::default()).unwrap();
    assert_eq!(events(&world)[0].detail, "1 rejected text, 1 version");
    assert!(events(&world).iter().any(|event| event.event == EventKind::Rejected));

    world.clock.advance_wall(Duration::from_hours(24 * 31));
    world.engine.retain().unwrap();
    let left: Vec<EventKind> = events(&world).into_iter().map(|event| event.event).collect();
    assert_eq!(left, [EventKind::Pruned, EventKind::Pruned]);
  }
}
