//! Versions of files: they come back exactly, form bounded chains, and are pruned in order.
#![forbid(unsafe_code)]

use std::{collections::BTreeMap, path::Path};

use proptest::prelude::*;

use super::{Held, Home, scan};
use crate::{
  memory::ContentHash,
  seal::{MasterKey, SealError},
  store::{
    Access, FileStatus, Ledger, NewVersion, Retention, ScanRecord, StoreError, Version, Writer,
  },
};

const FOREVER: Retention = Retention { max_age: i64::MAX, max_bytes: u64::MAX };
const A: &str = "/w/a.md";
const B: &str = "/w/b.md";

fn ledger() -> Held {
  let mut ledger = Home::new().ledger();
  for path in [A, B] {
    ledger.record(&scan(path, &[], 1)).unwrap();
  }
  ledger
}

fn keep(ledger: &mut Ledger, path: &str, text: &[u8], at: i64, retention: &Retention) -> bool {
  let new = NewVersion {
    path: Path::new(path),
    file_hash: ContentHash::of(text),
    bytes: text,
    writer: Writer::Other,
    seen_at: at,
  };
  ledger.keep_version(&new, retention, at).unwrap()
}

/// The versions of a file, oldest first, with their texts.
fn texts(ledger: &Ledger, path: &str) -> Vec<Vec<u8>> {
  let versions = ledger.versions(Path::new(path)).unwrap();
  versions.iter().rev().map(|one| ledger.version_bytes(one.hash).unwrap().to_vec()).collect()
}

fn number(ledger: &Ledger, sql: &str) -> i64 {
  ledger.conn.query_row(sql, [], |row| row.get(0)).unwrap()
}

/// A line that is unlike any other.
fn line(n: usize) -> String {
  format!("- {n:04} {:016x}\n", (n as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

#[test]
fn versions_come_back_with_their_times() {
  let mut ledger = ledger();
  assert!(keep(&mut ledger, A, b"one\n", 5, &FOREVER));
  assert!(!keep(&mut ledger, A, b"one\n", 6, &FOREVER), "the same again");
  assert!(keep(&mut ledger, A, b"", 7, &FOREVER));
  assert!(keep(&mut ledger, A, b"one\n", 9, &FOREVER), "back again");
  let versions = ledger.versions(Path::new(A)).unwrap();
  let times: Vec<_> = versions.iter().map(|one| (one.len, one.seen_at, one.replaced_at)).collect();
  assert_eq!(times, [(4, 9, None), (0, 7, Some(9)), (4, 5, Some(7))]);
  assert_eq!(versions[0].hash, versions[2].hash);
  assert_eq!(texts(&ledger, A), [&b"one\n"[..], b"", b"one\n"]);
  assert_eq!(ledger.versions(Path::new("/w/c.md")).unwrap(), []);
}

#[test]
fn one_content_is_kept_once_whoever_has_it() {
  let mut ledger = ledger();
  for at in 0..4 {
    keep(&mut ledger, A, if at % 2 == 0 { b"one" } else { b"two" }, at, &FOREVER);
    keep(&mut ledger, B, b"one", at, &FOREVER);
  }
  assert_eq!(number(&ledger, "SELECT count(*) FROM content"), 2);
  assert_eq!(ledger.version_totals().unwrap().versions, 5);
  // It stays as long as one version has it.
  keep(&mut ledger, A, b"three", 9, &Retention { max_bytes: 0, ..FOREVER });
  assert_eq!(texts(&ledger, A), [b"three"]);
  assert_eq!(texts(&ledger, B), [b"one"]);
}

#[test]
fn appends_cost_what_was_appended_and_chains_stay_short() {
  let mut ledger = ledger();
  let mut text: Vec<u8> = (0..700).flat_map(|n| line(n).into_bytes()).collect();
  let whole = text.len() as u64;
  for n in 0..200 {
    text.extend_from_slice(line(1000 + n).as_bytes());
    keep(&mut ledger, A, &text, n as i64, &FOREVER);
  }
  let bytes = ledger.version_totals().unwrap().bytes;
  // Two hundred versions of 17 kB: seven complete ones, and the rest little more than the added
  // text.
  assert!(bytes < 8 * (whole + 5_000) + 200 * 100, "{bytes}");
  assert!(number(&ledger, "SELECT max(depth) FROM content") <= 32);
  assert_eq!(number(&ledger, "SELECT count(*) FROM content WHERE base IS NULL"), 7);
  assert_eq!(texts(&ledger, A).last().unwrap(), &text);
  let sum = number(&ledger, "SELECT sum(length(sealed)) FROM content");
  assert_eq!(bytes, sum as u64, "the total is kept up");
}

#[test]
fn what_is_newest_rests_on_less_than_half_of_itself() {
  let mut ledger = ledger();
  for n in 0..60_usize {
    // A file of which a tenth is new each time.
    let text: String = (0..30).map(|at| line(if at / 3 == n % 10 { n } else { at })).collect();
    keep(&mut ledger, A, text.as_bytes(), n as i64, &FOREVER);
  }
  let heaviest = "SELECT max(2 * chain - len) FROM content";
  assert!(number(&ledger, heaviest) <= 0);
  assert!(number(&ledger, "SELECT max(depth) FROM content") > 0, "some are differences");
}

#[test]
fn the_longest_replaced_goes_first_and_the_newest_never() {
  let mut ledger = ledger();
  // The text that was current longest is the one that was replaced last.
  keep(&mut ledger, A, &[b'a'; 3000], 1, &FOREVER);
  keep(&mut ledger, B, &[b'b'; 3000], 2, &FOREVER);
  keep(&mut ledger, B, &[b'c'; 3000], 3, &FOREVER);
  keep(&mut ledger, A, &[b'd'; 3000], 4, &FOREVER);
  let tight = Retention { max_bytes: 13_000, ..FOREVER };
  keep(&mut ledger, B, &[b'e'; 3000], 5, &tight);
  assert_eq!(texts(&ledger, A), [[b'a'; 3000], [b'd'; 3000]]);
  assert_eq!(texts(&ledger, B), [[b'c'; 3000], [b'e'; 3000]], "`b` was replaced first");
  keep(&mut ledger, B, &[b'f'; 3000], 6, &Retention { max_bytes: 0, ..FOREVER });
  assert_eq!(texts(&ledger, A), [[b'd'; 3000]]);
  assert_eq!(texts(&ledger, B), [[b'f'; 3000]]);
  assert!(ledger.version_totals().unwrap().bytes > 6000, "they stay, whatever the limit");
}

#[test]
fn age_counts_from_the_day_when_something_else_took_the_place() {
  let mut ledger = ledger();
  keep(&mut ledger, A, b"stood for a year", 0, &FOREVER);
  let fortnight = Retention { max_age: 14, ..FOREVER };
  keep(&mut ledger, A, b"destroyed", 365, &fortnight);
  assert_eq!(texts(&ledger, A).len(), 2);
  keep(&mut ledger, B, b"x", 379, &fortnight);
  assert_eq!(texts(&ledger, A).len(), 2, "fourteen days later it is still there");
  keep(&mut ledger, B, b"y", 380, &fortnight);
  assert_eq!(texts(&ledger, A), [b"destroyed"]);
}

#[test]
fn a_file_that_is_gone_ages_and_one_that_is_back_does_not() {
  let mut ledger = ledger();
  keep(&mut ledger, A, b"a", 1, &FOREVER);
  keep(&mut ledger, B, b"b", 1, &FOREVER);
  for path in [A, B] {
    ledger.set_status(Path::new(path), Path::new("/w"), FileStatus::Missing, None).unwrap();
    ledger.retire_version(Path::new(path), 10).unwrap();
  }
  assert_eq!(ledger.versions(Path::new(A)).unwrap()[0].replaced_at, Some(10));
  ledger.record(&scan(A, &[], 11)).unwrap();
  assert!(!keep(&mut ledger, A, b"a", 11, &FOREVER), "as it was");
  keep(&mut ledger, A, b"aa", 30, &Retention { max_age: 5, ..FOREVER });
  assert_eq!(texts(&ledger, A), [&b"a"[..], b"aa"]);
  assert_eq!(texts(&ledger, B), [b""; 0]);
}

#[test]
fn what_is_due_is_what_the_ledger_has_seen_and_not_kept() {
  let mut ledger = ledger();
  let due = |ledger: &Ledger| -> Vec<String> {
    let due = ledger.versions_due().unwrap();
    assert_eq!(ledger.version_totals().unwrap().due, due.len() as u64);
    due.into_iter().map(|(_, path)| path.display().to_string()).collect()
  };
  assert_eq!(due(&ledger), [A, B]);
  // The hash is that of the file; the bytes are those without comments.
  let new = NewVersion {
    path: Path::new(A),
    file_hash: ContentHash::of(A.as_bytes()),
    bytes: b"bare",
    writer: Writer::Memfw,
    seen_at: 1,
  };
  ledger.keep_version(&new, &FOREVER, 2).unwrap();
  assert_eq!(due(&ledger), [B]);
  assert!(!ledger.is_version_due(Path::new(A)).unwrap());
  let other = Some(ContentHash::of(b"changed"));
  ledger.record(&ScanRecord { hash: other, ..scan(A, &[], 3) }).unwrap();
  assert_eq!(due(&ledger), [A, B]);
  ledger.set_status(Path::new(A), Path::new("/w"), FileStatus::Unscannable, None).unwrap();
  assert_eq!(due(&ledger), [B]);
  assert_eq!(ledger.versions(Path::new(A)).unwrap()[0].writer, Writer::Memfw);
  ledger.forget_versions().unwrap();
  assert_eq!(ledger.version_totals().unwrap().bytes, 0);
  assert_eq!(texts(&ledger, A), [b""; 0]);
  let unknown = NewVersion { path: Path::new("/w/c.md"), ..new };
  let error = ledger.keep_version(&unknown, &FOREVER, 4).unwrap_err();
  assert!(matches!(error, StoreError::UnknownFile { .. }));
}

#[test]
fn a_version_that_was_tampered_with_is_an_error_and_hides_no_other() {
  let mut ledger = ledger();
  let whole: String = (0..50).map(line).collect();
  for n in 0..3 {
    let text: String =
      whole.chars().chain((0..n).flat_map(|n| line(n).into_bytes()).map(char::from)).collect();
    keep(&mut ledger, A, text.as_bytes(), n as i64, &FOREVER);
  }
  keep(&mut ledger, B, b"other", 9, &FOREVER);
  let versions: Vec<Version> = ledger.versions(Path::new(A)).unwrap();
  let broken = |ledger: &Ledger, of: usize| {
    let error = ledger.version_bytes(versions[of].hash);
    matches!(error, Err(StoreError::Unsealable { source: SealError::Broken, .. }))
  };
  assert_eq!(number(&ledger, "SELECT max(depth) FROM content"), 2);
  // The last one gets another base, the middle one the bytes of the last one, and one is based on
  // itself.
  for (sql, intact) in [
    ("UPDATE content SET base = 1 WHERE id = 3", 1),
    ("UPDATE content SET sealed = (SELECT sealed FROM content WHERE id = 3) WHERE id = 2", 2),
    ("UPDATE content SET base = 3 WHERE id = 3", 2),
  ] {
    ledger.conn.execute(sql, []).unwrap();
    assert!(broken(&ledger, 0), "{sql}");
    assert_eq!(broken(&ledger, 1), intact != 1, "{sql}");
    assert!(ledger.version_bytes(versions[2].hash).is_ok(), "{sql}");
  }
  assert_eq!(texts(&ledger, B), [b"other"]);
  assert!(keep(&mut ledger, A, b"new\n", 10, &FOREVER), "later versions are still kept");
  let unknown = ledger.version_bytes(ContentHash::of(b"never"));
  assert!(matches!(unknown, Err(StoreError::UnknownVersion { .. })));
}

#[test]
fn another_key_opens_no_version() {
  let home = Home::new();
  let mut own = home.ledger();
  own.record(&scan(A, &[], 1)).unwrap();
  keep(&mut own, A, b"text", 1, &FOREVER);
  let hash = own.versions(Path::new(A)).unwrap()[0].hash;
  let locked = Ledger::open(&home.path(), Access::ReadOnly, None).unwrap();
  assert!(matches!(locked.version_bytes(hash), Err(StoreError::NoKey)));
  let foreign = Some(MasterKey::new([9; 32]));
  let refused = Ledger::open(&home.path(), Access::ReadOnly, foreign);
  assert!(matches!(refused, Err(StoreError::WrongKey { .. })));
}

#[test]
fn a_ledger_of_the_first_format_gets_versions() {
  let home = Home::new();
  std::fs::create_dir(home.dir()).unwrap();
  let conn = rusqlite::Connection::open(home.path()).unwrap();
  conn.execute_batch(include_str!("../migrations/0001_ledger.sql")).unwrap();
  conn
    .execute_batch(
      "PRAGMA application_id = 1835431729; PRAGMA user_version = 1;
       INSERT INTO file (path, workspace, hash, status, pending, marker_mode)
       VALUES (x'2f772f612e6d64', x'2f77', zeroblob(32), 'watched', 0, 'wrap')",
    )
    .unwrap();
  drop(conn);
  let mut ledger = home.ledger();
  assert_eq!(ledger.version_totals().unwrap().due, 1, "what is there is kept when there is time");
  assert!(keep(&mut ledger, A, b"x", 1, &FOREVER));
}

#[derive(Clone, Debug)]
enum Step {
  Append(u8),
  Cut(usize),
  Insert(usize, u8),
  Replace(Vec<u8>),
  Gone,
}

fn steps() -> impl Strategy<Value = Vec<(bool, Step)>> {
  let step = prop_oneof![
    4 => any::<u8>().prop_map(Step::Append),
    1 => any::<usize>().prop_map(Step::Cut),
    2 => (any::<usize>(), any::<u8>()).prop_map(|(at, n)| Step::Insert(at, n)),
    1 => proptest::collection::vec(any::<u8>(), 0..60).prop_map(Step::Replace),
    1 => Just(Step::Gone),
  ];
  proptest::collection::vec((any::<bool>(), step), 1..60)
}

proptest! {
  #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

  #[test]
  fn any_sequence_comes_back_exactly_and_pruning_never_takes_the_newest(
    steps in steps(), max_age in 0_i64..90, max_bytes in 0_u64..6000,
  ) {
    let mut ledger = ledger();
    let retention = Retention { max_age, max_bytes };
    let mut present: BTreeMap<&str, Vec<u8>> = BTreeMap::new();
    let mut seen: BTreeMap<&str, Vec<Vec<u8>>> = BTreeMap::new();
    for (at, (first, step)) in steps.into_iter().enumerate() {
      let at = at as i64;
      let path = if first { A } else { B };
      let mut text = present.get(path).cloned().unwrap_or_default();
      match step {
        Step::Append(n) => text.extend_from_slice(line(n.into()).as_bytes()),
        Step::Cut(len) => text.truncate(len % (text.len() + 1)),
        Step::Insert(place, n) => {
          let place = place % (text.len() + 1);
          text.splice(place..place, line(n.into()).into_bytes());
        }
        Step::Replace(new) => text = new,
        Step::Gone => {
          ledger.retire_version(Path::new(path), at).unwrap();
          present.remove(path);
          continue;
        }
      }
      keep(&mut ledger, path, &text, at, &retention);
      present.insert(path, text.clone());
      let seen = seen.entry(path).or_default();
      if seen.last() != Some(&text) {
        seen.push(text);
      }
      let totals = ledger.version_totals().unwrap();
      for (path, text) in &present {
        let kept = texts(&ledger, path);
        prop_assert_eq!(kept.last(), Some(text), "the newest of a file that is there");
      }
      let stale = format!(
        "SELECT count(*) FROM version WHERE replaced_at < {}", at.saturating_sub(max_age)
      );
      prop_assert_eq!(number(&ledger, &stale), 0);
      let replaced = number(&ledger, "SELECT count(*) FROM version WHERE replaced_at IS NOT NULL");
      prop_assert!(totals.bytes <= max_bytes || replaced == 0);
      let sum = number(&ledger, "SELECT coalesce(sum(length(sealed)), 0) FROM content");
      prop_assert_eq!(totals.bytes, sum as u64);
      let unused = "SELECT count(*) FROM content c
        WHERE NOT EXISTS (SELECT 1 FROM version WHERE content = c.id)
          AND NOT EXISTS (SELECT 1 FROM content WHERE base = c.id)";
      prop_assert_eq!(number(&ledger, unused), 0);
    }
    // The remaining versions are in order, and each is exact.
    for (path, seen) in &seen {
      let kept = texts(&ledger, path);
      let mut rest = seen.iter();
      prop_assert!(kept.iter().all(|text| rest.any(|seen| seen == text)), "{kept:?}");
    }
  }
}
