//! The life of questions to a judge, from being stored to being deleted.
#![forbid(unsafe_code)]

use std::path::Path;

use zeroize::Zeroizing;

use super::{
  AttributionRecord, Budget, HandedOut, Keep, Ledger, NewQuestion, Next, Pending, QuestionCounts,
  QuestionState, ScanRecord,
  question::{ANSWER_WITHIN, MAX_WAITING},
  tests::{Home, scan},
};
use crate::{
  detect::{
    effects::Effect,
    reading::{Reading, Ruling},
  },
  memory::ContentHash,
};

const HOUR: i64 = 3_600_000_000;
const MANY: Budget = Budget { per_hour: 1_000_000, per_day: 1_000_000 };

fn question(text: &str) -> NewQuestion {
  let bytes = Zeroizing::new(text.as_bytes().to_vec());
  NewQuestion { hash: ContentHash::of(text.as_bytes()), source: "exec".to_owned(), bytes }
}

/// Stores `n` questions about entries of a source in a file.
fn flood(ledger: &mut Ledger, path: &str, source: &str, n: i64, at: i64) {
  let of = |n| NewQuestion { source: source.to_owned(), ..question(&format!("{path}{source}{n}")) };
  let questions: Vec<_> = (0..n).map(of).collect();
  ledger.put_questions(Path::new(path), &questions, None, at).unwrap();
}

/// Stores questions about a file; returns how many more wait.
fn put(ledger: &mut Ledger, texts: &[&str], at: i64) -> u64 {
  let questions: Vec<_> = texts.iter().map(|text| question(text)).collect();
  let before = waiting(ledger);
  ledger.put_questions(Path::new("/w/a.md"), &questions, None, at).unwrap();
  waiting(ledger) - before
}

fn waiting(ledger: &Ledger) -> u64 {
  ledger.question_counts(1).unwrap().waiting
}

fn next(ledger: &mut Ledger, at: i64) -> Next {
  ledger.next_question(MANY, [at as u8; 16], at).unwrap()
}

fn handed(ledger: &mut Ledger, at: i64) -> HandedOut {
  match next(ledger, at) {
    Next::Question(question) => question,
    other => panic!("{other:?}"),
  }
}

#[test]
fn a_question_is_put_once_and_its_text_goes_with_its_answer() {
  let mut ledger = Home::new().ledger();
  ledger.record(&scan("/w/a.md", &[], 1)).unwrap();
  assert_eq!(next(&mut ledger, 1), Next::Later(None));
  assert_eq!(put(&mut ledger, &["one", "one"], 2), 1);
  assert_eq!(put(&mut ledger, &["one"], 3), 0);
  let out = handed(&mut ledger, 4);
  assert_eq!((out.bytes.as_slice(), out.nonce), (&b"one"[..], [4; 16]));
  assert_eq!(next(&mut ledger, 5), Next::Later(Some(4 + ANSWER_WITHIN)), "one gets it at a time");

  let digits: String = out.hash.to_hex().chars().take(16).collect();
  let found = ledger.handed_out(&digits).unwrap();
  assert_eq!(found, Some((QuestionState::Waiting, Some(out.clone()))));
  for other in ["", "0", "0000000000000000", "%", "________"] {
    assert_eq!(ledger.handed_out(other).unwrap(), None, "{other}");
  }

  let reading = Reading {
    ruling: Ruling::Take,
    effect: Some(Effect::Payment),
    quote: "one".to_owned(),
    lines: Some(2..=3),
  };
  assert_eq!(ledger.reading(out.hash).unwrap(), Some((QuestionState::Waiting, None)));
  let files = ledger.answer_question(out.hash, &reading, 6).unwrap();
  assert_eq!(files, [("/w".into(), "/w/a.md".into())]);
  assert!(ledger.answer_question(out.hash, &reading, 7).unwrap().is_empty(), "once");
  let kept = Reading { quote: String::new(), ..reading };
  assert_eq!(ledger.reading(out.hash).unwrap(), Some((QuestionState::Answered, Some(kept))));
  assert_eq!(ledger.handed_out(&digits).unwrap(), Some((QuestionState::Answered, None)));
  assert_eq!(ledger.judging_due().unwrap(), files);
  let pending = ledger.file(Path::new("/w/a.md")).unwrap().unwrap().pending;
  assert!(pending.contains(Pending::JUDGE));
  assert_eq!(put(&mut ledger, &["one"], 8), 0, "it is answered");
  assert_eq!(next(&mut ledger, i64::MAX / 2), Next::Later(None));
  let sealed: Option<Vec<u8>> =
    ledger.conn.query_row("SELECT sealed FROM question", [], |row| row.get(0)).unwrap();
  assert_eq!(sealed, None);
}

#[test]
fn a_file_is_done_once_all_of_its_version_is_asked_and_nothing_was_answered_meanwhile() {
  let mut ledger = Home::new().ledger();
  let (path, version) = (Path::new("/w/a.md"), Some(ContentHash([1; 32])));
  ledger.record(&ScanRecord { hash: version, ..scan("/w/a.md", &[], 1) }).unwrap();
  ledger.change_pending(path, Pending::NONE, Pending::JUDGE | Pending::RESHAPE).unwrap();
  let asked = [question("one")];
  assert!(!ledger.put_questions(path, &asked, None, 2).unwrap(), "there is more");
  assert!(!ledger.put_questions(path, &asked, Some(ContentHash([2; 32])), 2).unwrap(), "another");
  let reading = Reading { ruling: Ruling::Keep, effect: None, quote: String::new(), lines: None };
  let out = handed(&mut ledger, 3);
  ledger.answer_question(out.hash, &reading, 4).unwrap();
  assert!(!ledger.put_questions(path, &asked, version, 5).unwrap(), "its answer is there");
  assert!(ledger.file(path).unwrap().unwrap().pending.contains(Pending::JUDGE));
  assert!(ledger.put_questions(path, &[question("two")], version, 6).unwrap());
  assert_eq!(ledger.file(path).unwrap().unwrap().pending, Pending::RESHAPE);
  let out = handed(&mut ledger, 7);
  assert_eq!(ledger.answer_question(out.hash, &reading, 8).unwrap().len(), 1);
  // A file that was known before keeps its pending work.
  ledger.record(&ScanRecord { hash: version, ..scan("/w/a.md", &[], 9) }).unwrap();
  let stamp = crate::store::tests::stamp(1);
  ledger.set_seen(path, (stamp, version), (Pending::ALL, Pending::ATTRIBUTE), 10).unwrap();
  let (done, due) = (Pending::ATTRIBUTE, Pending::RESHAPE);
  let known = AttributionRecord {
    path,
    blocks: &[],
    items: &[],
    requests: &[],
    done,
    due,
    events: &[],
    at: 11,
  };
  ledger.attribute(&known).unwrap();
  let pending = ledger.file(path).unwrap().unwrap().pending;
  assert_eq!(pending, Pending::JUDGE | Pending::RESHAPE);
}

#[test]
fn what_waits_is_sealed_and_bound_to_its_question() {
  let mut ledger = Home::new().ledger();
  put(&mut ledger, &["very secret words"], 1);
  let sealed: Vec<u8> =
    ledger.conn.query_row("SELECT sealed FROM question", [], |row| row.get(0)).unwrap();
  assert!(!sealed.windows(6).any(|bytes| bytes == b"secret"));
  ledger.conn.execute("UPDATE question SET hash = zeroblob(32)", []).unwrap_err();
  ledger.conn.execute("DELETE FROM question_file", []).unwrap();
  ledger.conn.execute("UPDATE question SET hash = zeroblob(32)", []).unwrap();
  let link =
    "INSERT INTO question_file (hash, path) VALUES (zeroblob(32), CAST('/w/a.md' AS BLOB))";
  ledger.conn.execute(link, []).unwrap();
  put(&mut ledger, &["words of another"], 2);
  // A question that cannot be opened is given up, and the next one is asked.
  assert!(matches!(next(&mut ledger, 3), Next::Later(Some(2))));
  assert_eq!(handed(&mut ledger, 3).bytes.as_slice(), b"words of another");
}

#[test]
fn no_more_is_asked_than_the_budget_allows() {
  let mut ledger = Home::new().ledger();
  let at = 100 * 24 * HOUR;
  put(&mut ledger, &["a", "b", "c", "d", "e"], at);
  let budget = Budget { per_hour: 2, per_day: 3 };
  let mut ask = |at| ledger.next_question(budget, [0; 16], at).unwrap();
  for _ in 0..2 {
    assert!(matches!(ask(at), Next::Question(_)));
  }
  assert_eq!(ask(at), Next::Spent(at + HOUR));
  assert!(matches!(ask(at + HOUR), Next::Question(_)));
  assert_eq!(ask(at + HOUR), Next::Spent(at + 24 * HOUR), "the day's");
  assert_eq!(ask(at + 23 * HOUR), Next::Spent(at + 24 * HOUR));
  assert!(matches!(ask(at + 24 * HOUR), Next::Question(_)));
  let counts = ledger.question_counts(at + 24 * HOUR).unwrap();
  assert_eq!((counts.asked_hour, counts.asked_day, counts.waiting), (1, 1, 5));
}

#[test]
fn a_question_without_an_answer_is_asked_again_and_given_up() {
  let mut ledger = Home::new().ledger();
  put(&mut ledger, &["one"], 1);
  let mut at = 1;
  for tries in 1..=4 {
    let out = handed(&mut ledger, at);
    ledger.no_answer(out.hash, at).unwrap();
    match next(&mut ledger, at) {
      Next::Later(Some(later)) if tries < 4 => {
        assert!(later > at);
        at = later;
      }
      Next::Later(None) if tries == 4 => {
        assert_eq!(ledger.reading(out.hash).unwrap(), Some((QuestionState::Failed, None)));
      }
      other => panic!("{tries}: {other:?}"),
    }
  }
  assert_eq!(put(&mut ledger, &["one"], at), 0, "it is not asked again");
  // No reader asks for a week.
  put(&mut ledger, &["three"], at);
  assert_eq!(next(&mut ledger, at + 8 * 24 * HOUR), Next::Later(None));
}

#[test]
fn a_question_to_which_nobody_says_anything_is_asked_for_a_week() {
  let mut ledger = Home::new().ledger();
  put(&mut ledger, &["one"], 1);
  // The process ends while it has the question, several times: the question waits longer each time.
  let (mut at, mut before) = (1, 0);
  for _ in 0..5 {
    let hash = handed(&mut ledger, at).hash;
    assert_eq!(ledger.reading(hash).unwrap(), Some((QuestionState::Waiting, None)));
    let Next::Later(Some(later)) = next(&mut ledger, at) else { panic!("it waits") };
    assert!(later - at > before);
    (before, at) = (later - at, later);
  }
  // No reader can be reached for an hour: memfw tries each minute, and counts no turn.
  for _ in 0..60 {
    let hash = handed(&mut ledger, at).hash;
    ledger.not_answered(hash, false, at).unwrap();
    let Next::Later(Some(later)) = next(&mut ledger, at) else { panic!("it waits") };
    assert!(later - at <= 60_000_000);
    at = later;
  }
  // A reader that is slow about this question leaves it waiting until the reader answers other
  // questions.
  let hash = handed(&mut ledger, at).hash;
  ledger.not_answered(hash, true, at).unwrap();
  let Next::Later(Some(later)) = next(&mut ledger, at) else { panic!("it waits") };
  assert!(later - at > before);
  ledger.wake_questions(at + 1).unwrap();
  assert_eq!(handed(&mut ledger, at + 1).hash, hash);
  // A question that a reader has is not given to another.
  ledger.wake_questions(at + 2).unwrap();
  assert!(matches!(next(&mut ledger, at + 2), Next::Later(Some(_))));
  assert_eq!(next(&mut ledger, at + 8 * 24 * HOUR), Next::Later(None));
}

#[test]
fn the_queue_has_an_end_and_is_dropped_when_nobody_is_asked_any_more() {
  let mut ledger = Home::new().ledger();
  let texts: Vec<String> = (0..MAX_WAITING + 3).map(|n| n.to_string()).collect();
  let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
  assert_eq!(put(&mut ledger, &texts, 1), MAX_WAITING as u64);
  let counts = ledger.question_counts(1).unwrap();
  let expected =
    QuestionCounts { waiting: MAX_WAITING as u64, refused_day: 3, ..QuestionCounts::default() };
  assert_eq!(counts, expected);
  ledger.record(&scan("/w/a.md", &[], 1)).unwrap();
  for again in [false, true] {
    put(&mut ledger, &["x"], 2);
    ledger.drop_questions(again).unwrap();
    assert_eq!(ledger.question_counts(1).unwrap().waiting, 0);
    assert_eq!(ledger.judging_due().unwrap().len(), usize::from(again));
  }
}

#[test]
fn a_flood_takes_no_turn_and_no_place_from_others() {
  let mut ledger = Home::new().ledger();
  flood(&mut ledger, "/w/a.md", "web_fetch:flood.example", MAX_WAITING + 5, 1);
  assert_eq!(waiting(&ledger), MAX_WAITING as u64);
  flood(&mut ledger, "/w/a.md", "email:ann@example.com", 2, 2);
  flood(&mut ledger, "/w/b.md", "web_fetch:flood.example", 3, 3);
  let n_of = |ledger: &Ledger, which: &str| -> i64 {
    let sql =
      format!("SELECT count(*) FROM question JOIN question_file USING (hash) WHERE {which}");
    ledger.conn.query_row(&sql, [], |row| row.get(0)).unwrap()
  };
  assert_eq!(waiting(&ledger), MAX_WAITING as u64);
  assert_eq!(n_of(&ledger, "source LIKE 'email:%'"), 2);
  assert_eq!(n_of(&ledger, "path = CAST('/w/b.md' AS BLOB)"), 3);
  // A flood still has every place that no other file needs.
  flood(&mut ledger, "/w/b.md", "chat:other", MAX_WAITING, 4);
  assert_eq!(n_of(&ledger, "source LIKE 'email:%'"), 2);
  let n_of_b = n_of(&ledger, "path = CAST('/w/b.md' AS BLOB)");
  assert!((MAX_WAITING / 2 - 2..=MAX_WAITING / 2 + 2).contains(&n_of_b), "{n_of_b}");

  // By chance a question is not passed over this often.
  for at in 5..205 {
    let out = handed(&mut ledger, at);
    let reading = Reading { ruling: Ruling::Keep, effect: None, quote: String::new(), lines: None };
    ledger.answer_question(out.hash, &reading, at).unwrap();
  }
  assert_eq!(n_of(&ledger, "source LIKE 'email:%'"), 0);
  assert_eq!(n_of(&ledger, "path = CAST('/w/b.md' AS BLOB) AND source LIKE 'web_fetch:%'"), 0);
}

#[test]
fn old_answers_go() {
  let mut ledger = Home::new().ledger();
  put(&mut ledger, &["one", "two"], 1);
  let reading = Reading { ruling: Ruling::Keep, effect: None, quote: String::new(), lines: None };
  let hash = handed(&mut ledger, 2).hash;
  ledger.answer_question(hash, &reading, 5).unwrap();
  let keep = Keep { events_since: 0, events: 1_000, routine: &[], rejected_since: 5 };
  ledger.retain(&keep).unwrap();
  assert!(ledger.reading(hash).unwrap().is_some());
  ledger.retain(&Keep { rejected_since: 6, ..keep }).unwrap();
  assert_eq!(ledger.reading(hash).unwrap(), None);
  assert_eq!(ledger.question_counts(6).unwrap().waiting, 1, "what waits is not old");
}
