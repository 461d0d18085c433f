//! The data for figures: events in order, and the trust of memory.
//!
//! Only one row at a time is held in memory, and every result is capped.
#![forbid(unsafe_code)]

use std::collections::HashSet;

use rusqlite::{OptionalExtension as _, params};

use super::{EventKind, Ledger, Micros, StoreError, column, event::EventRow, event::event_row};
use crate::provenance::Trust;

/// The decisions that were taken back, by the number of their event: those whose next decision is the undoing.
/// ?1 is a time before them.
const UNDONE: &str = "
  SELECT id FROM
    (SELECT id, event, lead(event) OVER (PARTITION BY block ORDER BY id) AS next
     FROM event
     WHERE at >= ?1 AND event IN ('approved', 'rejected', 'deleted', 'undone')
       AND block IS NOT NULL)
  WHERE event IN ('approved', 'rejected') AND next = 'undone'";

/// Blocks of one trust that appeared in memory and disappeared from it on one day of UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrustDay {
  /// The day, counted from 1970.
  pub day: i64,
  /// The trust of the blocks: the lowest of everything that was written into each.
  pub trust: Trust,
  /// Blocks that appeared, including those that disappeared later.
  pub came: u64,
  /// Blocks that disappeared.
  pub went: u64,
}

impl Ledger {
  /// Passes the events of these kinds since a time to a callback, oldest first, at most `cap` of
  /// them: the newest. A person's decisions have the codes and the layer of their item; those that
  /// were undone are left out. Returns whether there were more.
  pub fn each_event(
    &self,
    kinds: &[EventKind],
    since: Micros,
    cap: u32,
    mut visit: impl FnMut(EventRow),
  ) -> Result<bool, StoreError> {
    // SQLite has no array parameters, so the kinds are one string with separators.
    let kinds = kinds.iter().map(|kind| kind.as_str()).collect::<Vec<_>>();
    let kinds = format!(",{},", kinds.join(","));
    let view = self.snapshot()?;
    view.read(|conn| {
      let mut undone = conn.prepare_cached(UNDONE)?;
      let undone = undone.query_map([since], |row| row.get::<_, i64>(0))?;
      let undone = undone.collect::<Result<HashSet<_>, _>>()?;
      // The newest event beyond the cap.
      let before: Option<i64> = conn
        .prepare_cached(
          "SELECT id FROM event WHERE at >= ?1 AND instr(?2, ',' || event || ',') > 0
           ORDER BY id DESC LIMIT 1 OFFSET ?3",
        )?
        .query_row(params![since, kinds, cap], |row| row.get(0))
        .optional()?;
      let mut statement = conn.prepare_cached(
        "SELECT e.id, e.at, e.event, e.path, e.block,
           coalesce(iif(e.event IN ('quarantined', 'held'), q.source, NULL), e.source),
           coalesce(iif(e.event IN ('quarantined', 'held'), q.trust, NULL), e.trust),
           coalesce(e.layer, q.layer),
           CASE WHEN e.codes = '' THEN coalesce(q.codes, b.codes, '') ELSE e.codes END,
           e.score, e.action, e.detail, e.attestation, e.session, e.took_us, e.count
         FROM event e
           LEFT JOIN quarantine q
             ON e.event IN ('approved', 'rejected', 'quarantined', 'held') AND q.id = e.block
           LEFT JOIN block b ON e.event IN ('approved', 'rejected') AND b.id = e.block
         WHERE e.id > ?1 AND e.at >= ?2 AND instr(?3, ',' || e.event || ',') > 0
         ORDER BY e.id",
      )?;
      let rows =
        statement.query_map(params![before.unwrap_or(i64::MIN), since, kinds], event_row)?;
      for row in rows {
        let row = row?;
        if !undone.contains(&row.id) {
          visit(row);
        }
      }
      Ok(before.is_some())
    })
  }

  /// Events with a larger number than this, oldest first, at most `limit` of them.
  pub fn events_after(&self, id: i64, limit: u32) -> Result<Vec<EventRow>, StoreError> {
    self.read(|conn| {
      let mut statement = conn.prepare_cached(
        "SELECT id, at, event, path, block, source, trust, layer, codes, score, action, detail,
           attestation, session, took_us, count
         FROM event WHERE id > ?1 ORDER BY id LIMIT ?2",
      )?;
      let rows = statement.query_map((id, limit), event_row)?;
      Ok(rows.collect::<Result<_, _>>()?)
    })
  }

  /// The number of events of each kind in a half-open interval of time, without decisions that were
  /// undone.
  pub fn event_counts(
    &self,
    from: Micros,
    to: Micros,
  ) -> Result<Vec<(EventKind, u64)>, StoreError> {
    self.read(|conn| {
      let sql = format!(
        "SELECT event, count(*) FROM event
         WHERE at >= ?1 AND at < ?2 AND id NOT IN ({UNDONE}) GROUP BY event ORDER BY event"
      );
      let mut statement = conn.prepare_cached(&sql)?;
      let rows = statement
        .query_map((from, to), |row| Ok((column::word(row, 0)?, row.get::<_, i64>(1)? as u64)))?;
      Ok(rows.collect::<Result<_, _>>()?)
    })
  }

  /// Blocks that appeared in memory and disappeared from it, by day and trust, in the order of
  /// days of a local time that is `ahead` of UTC by so many microseconds. Deleted files are left out: it is not known when their blocks disappeared.
  pub fn trust_days(&self, ahead: i64) -> Result<Vec<TrustDay>, StoreError> {
    self.read(|conn| {
      let mut statement = conn.prepare_cached(
        "WITH levels (trust, level) AS
             (VALUES ('hostile', 0), ('untrusted', 1), ('verified', 2), ('trusted', 3)),
           blocks (level, first, gone) AS
             (SELECT min(l.level), min(r.at), b.gone_at
              FROM block b JOIN file f ON f.id = b.file
                JOIN revision r ON r.block = b.key JOIN levels l ON l.trust = r.trust
              WHERE f.status <> 'missing' GROUP BY b.key),
           moves (day, level, came, went) AS
             (SELECT first, level, 1, 0 FROM blocks
              UNION ALL SELECT gone, level, 0, 1 FROM blocks WHERE gone IS NOT NULL
              UNION ALL SELECT a.at, l.level, a.n, 0
                FROM baseline a JOIN file f ON f.id = a.file JOIN levels l ON l.trust = a.trust
                WHERE f.status <> 'missing')
         SELECT (m.day + ?1) / 86400000000, l.trust, sum(m.came), sum(m.went)
         FROM moves m JOIN levels l ON l.level = m.level
         GROUP BY 1, m.level ORDER BY 1, m.level",
      )?;
      let rows = statement.query_map([ahead], |row| {
        Ok(TrustDay {
          day: row.get(0)?,
          trust: column::word(row, 1)?,
          came: row.get::<_, i64>(2)? as u64,
          went: row.get::<_, i64>(3)? as u64,
        })
      })?;
      Ok(rows.collect::<Result<_, _>>()?)
    })
  }
}

#[cfg(test)]
mod tests {
  use std::path::Path;

  use super::*;
  use crate::{
    detect::{Code, Layer},
    provenance::{Source, State},
    store::{
      EventFilter, FileStatus, NewEvent, NewItem, Revision,
      tests::{Home, block, id, item, scan},
    },
  };

  const DAY: i64 = 86_400_000_000;

  #[test]
  fn the_newest_events_of_the_kinds_come_oldest_first() {
    use EventKind::{Flagged, Kept, Reshaped};
    const KINDS: [EventKind; 5] = [Kept, Reshaped, Flagged, Kept, Kept];
    let mut ledger = Home::new().ledger();
    for (at, kind) in KINDS.into_iter().enumerate() {
      ledger.append_events(&[NewEvent::new(kind)], at as i64).unwrap();
    }
    let seen = |since, cap| {
      let mut seen = Vec::new();
      let more = ledger
        .each_event(&[Kept, Flagged], since, cap, |row| seen.push((row.at, row.event)))
        .unwrap();
      (seen.iter().map(|(at, _)| *at).collect::<Vec<_>>(), more)
    };
    assert_eq!(seen(0, 10), (vec![0, 2, 3, 4], false));
    assert_eq!(seen(0, 4), (vec![0, 2, 3, 4], false));
    assert_eq!(seen(0, 3), (vec![2, 3, 4], true));
    assert_eq!(seen(3, 10), (vec![3, 4], false));
    let after: Vec<i64> =
      ledger.events_after(2, 2).unwrap().into_iter().map(|row| row.at).collect();
    assert_eq!(after, [2, 3]);
    let counts = ledger.event_counts(1, 4).unwrap();
    assert_eq!(counts, [(Flagged, 1), (Kept, 1), (Reshaped, 1)]);
  }

  #[test]
  fn a_decision_has_what_it_is_about() {
    let mut ledger = Home::new().ledger();
    let codes = vec![Code::ForgedMarker, Code::ZeroWidth];
    let item = NewItem { codes: codes.clone(), layer: Layer::Model, ..item(&id("bbbbb1"), b"x") };
    ledger.quarantine(&[item], &[], &[], 1).unwrap();
    let mut flagged = block("aaaaa1", 0);
    flagged.state = State::Flagged;
    flagged.codes = vec![Code::EncodedText];
    ledger.record(&scan("/w/a.md", &[flagged], 1)).unwrap();
    for digits in ["bbbbb1", "aaaaa1"] {
      let approved = NewEvent { block: Some(id(digits)), ..NewEvent::new(EventKind::Approved) };
      ledger.decide(&id(digits), State::Approved, "ann", 2, &[approved]).unwrap();
    }
    let mut seen = Vec::new();
    ledger
      .each_event(&[EventKind::Approved], 0, 9, |row| seen.push((row.layer, row.codes)))
      .unwrap();
    assert_eq!(seen, [(Some(Layer::Model), codes), (None, vec![Code::EncodedText])]);
  }

  #[test]
  fn a_decision_that_was_undone_does_not_count() {
    use EventKind::{Approved, Deleted, Rejected, Undone};
    let mut ledger = Home::new().ledger();
    let mut happened = |at: i64, digits, kind| {
      let event = NewEvent { block: Some(id(digits)), ..NewEvent::new(kind) };
      ledger.append_events(&[event], at).unwrap();
    };
    // The first is approved in the end, the second rejected once and for good, the third nothing at all.
    for (at, digits, kind) in [
      (1, "aaaaa1", Approved),
      (2, "aaaaa2", Rejected),
      (3, "aaaaa1", Undone),
      (4, "aaaaa3", Rejected),
      (5, "aaaaa1", Rejected),
      (6, "aaaaa3", Undone),
      (7, "aaaaa1", Undone),
      (8, "aaaaa2", Deleted),
      (9, "aaaaa1", Approved),
    ] {
      happened(at, digits, kind);
    }
    let mut seen = Vec::new();
    let kinds = [Approved, Rejected];
    ledger.each_event(&kinds, 0, 9, |row| seen.push((row.at, row.event))).unwrap();
    assert_eq!(seen, [(2, Rejected), (9, Approved)]);
    let counts = ledger.event_counts(0, 10).unwrap();
    assert_eq!(counts, [(Approved, 1), (Deleted, 1), (Rejected, 1), (Undone, 3)]);
    // What was undone later counts nowhere, either.
    assert_eq!(ledger.event_counts(0, 2).unwrap(), []);
  }

  #[test]
  fn what_was_taken_out_counts_under_the_source_that_came_to_be_known() {
    let mut ledger = Home::new().ledger();
    let out = NewEvent {
      block: Some(id("bbbbb1")),
      source: Some(Source::unknown()),
      trust: Some(Trust::Untrusted),
      ..NewEvent::new(EventKind::Quarantined)
    };
    let item = NewItem {
      source: Source::new("moltbook:x"),
      trust: Trust::Hostile,
      ..item(&id("bbbbb1"), b"x")
    };
    ledger.quarantine(&[item], &[], &[out], 1).unwrap();
    let mut seen = Vec::new();
    ledger
      .each_event(&[EventKind::Quarantined], 0, 9, |row| seen.push((row.source, row.trust)))
      .unwrap();
    assert_eq!(seen, [(Some(Source::new("moltbook:x")), Some(Trust::Hostile))]);
    let of = |source: &str| {
      let filter = EventFilter { source: Some(source.into()), ..EventFilter::default() };
      ledger.events(&filter).unwrap().len()
    };
    assert_eq!((of("moltbook"), of("moltbook:x"), of("unknown")), (1, 1, 0));
  }

  #[test]
  fn memory_is_as_trusted_as_the_least_that_was_written_into_it() {
    let mut ledger = Home::new().ledger();
    let mut rows = [block("aaaaa1", 0), block("aaaaa2", 1)];
    for (row, at) in rows.iter_mut().zip([DAY, 2 * DAY]) {
      row.revisions = vec![
        Revision { trust: Trust::Trusted, at, ..row.revisions[0].clone() },
        Revision { number: 1, trust: Trust::Hostile, at: 4 * DAY, ..row.revisions[0].clone() },
      ];
    }
    rows[1].revisions.pop();
    ledger.record(&scan("/w/a.md", &rows, 2 * DAY)).unwrap();
    ledger.record(&scan("/w/a.md", &rows[..1], 5 * DAY + 1)).unwrap();
    ledger.record(&scan("/w/b.md", &[block("aaaaa3", 0)], DAY)).unwrap();
    let gone = FileStatus::Missing;
    ledger.set_status(Path::new("/w/b.md"), Path::new("/w"), gone, None).unwrap();
    let day = |day, trust, came, went| TrustDay { day, trust, came, went };
    assert_eq!(
      ledger.trust_days(0).unwrap(),
      [day(1, Trust::Hostile, 1, 0), day(2, Trust::Trusted, 1, 0), day(5, Trust::Trusted, 0, 1),]
    );
  }

  #[test]
  fn what_was_there_before_counts_from_its_first_day() {
    let mut ledger = Home::new().ledger();
    let rows: Vec<_> = ["0000000000a1", "0000000000a2"]
      .into_iter()
      .zip(0..)
      .map(|(digits, ordinal)| {
        let mut row = block(digits, ordinal);
        row.lines.iter_mut().zip(0..).for_each(|(line, n)| (line.revision, line.offset) = (0, n));
        row.revisions[0].source = crate::provenance::Source::baseline();
        row.revisions[0].trust = Trust::Verified;
        row.revisions[0].at = 3 * DAY;
        row
      })
      .collect();
    let scans = [scan("/w/a.md", &rows, 3 * DAY)];
    ledger.adopt(&scans).unwrap();
    let expected = [TrustDay { day: 3, trust: Trust::Verified, came: 2, went: 0 }];
    assert_eq!(ledger.trust_days(0).unwrap(), expected);
  }
}
