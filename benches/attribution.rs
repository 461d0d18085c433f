//! How long it takes to find out who wrote one block in 200 MB of transcripts, and everything that is read
//! for that, in both stores; and what the agent's own writer notices of it.
//!
//! The reference is the least that anybody could do: open the database and select the last rows of one
//! session that is known already. Machines differ, so the ratio to it says more than the times.
#![forbid(unsafe_code)]
#![expect(
  clippy::disallowed_methods,
  clippy::indexing_slicing,
  clippy::print_stdout,
  clippy::unwrap_used,
  reason = "a measurement plays the agent, and ends when something is not as it should be"
)]

use std::{
  fmt::Write as _,
  fs::{self, File},
  hint::black_box,
  io::{BufWriter, Write as _},
  path::{Path, PathBuf},
  sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
  },
  thread,
  time::{Duration, Instant},
};

use memfw::{
  memory::ContentHash,
  openclaw::{
    Layout, OpenClawRecords,
    transcript::{Message, Sessions, Stores, Window},
  },
  provenance::{AgentRecords as _, Outlook, Question},
};
use rusqlite::{Connection, OpenFlags};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use tempfile::TempDir;

const MEGABYTES: usize = 200;
const SESSIONS: usize = 400;
/// Each tenth session is ten times as long, as a main session is.
const LONG: usize = 10;
/// Questions of one measurement.
const QUESTIONS: usize = 1000;
/// Records that a question asks for at most.
const LIMIT: usize = 400;
/// First moment, in milliseconds UTC.
const START: i64 = 1_795_000_000_000;
/// Between two events of a session.
const STEP: i64 = 700;
const WORDS: [&str; 12] = [
  "deploy", "release", "harbor", "invoice", "review", "Marta", "retry", "window", "payments",
  "branch", "Linden", "Tuesday",
];

/// A small generator of numbers, the same each time.
struct Dice(u64);

impl Dice {
  fn roll(&mut self, below: usize) -> usize {
    self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    ((self.0 >> 33) as usize) % below
  }

  fn text(&mut self, bytes: usize) -> String {
    let mut text = String::new();
    while text.len() < bytes {
      write!(text, "{} {} ", WORDS[self.roll(WORDS.len())], self.roll(10_000)).unwrap();
    }
    text
  }
}

/// The next event of a session: turns of a user's message, pages, edits and answers.
fn event(dice: &mut Dice, n: usize, at: i64) -> String {
  let time = jiff::Timestamp::from_millisecond(at).unwrap().to_string();
  let message = match n % 8 {
    0 => json!({"role": "user", "content": dice.text(200), "__openclaw": {"senderIsOwner": true}}),
    2 => json!({"role": "toolResult", "toolCallId": format!("c{n}"), "toolName": "web_fetch",
      "content": [{"type": "text", "text": dice.text(12_000)}], "details": {"url": "http://example.com"}}),
    4 | 6 => json!({"role": "toolResult", "toolCallId": format!("c{n}"), "toolName": "edit",
      "content": [{"type": "text", "text": dice.text(600)}], "details": {"changed": true}}),
    7 => json!({"role": "assistant", "content": [{"type": "text", "text": dice.text(300)}]}),
    _ => json!({"role": "assistant", "content": [{"type": "toolCall", "id": format!("c{}", n + 1),
      "name": "edit", "arguments": {"path": "MEMORY.md", "edits": [{"newText": dice.text(400)}]}}]}),
  };
  json!({"type": "message", "id": format!("{n:08x}"), "parentId": null, "timestamp": time,
    "message": message})
  .to_string()
}

/// A session that was written: its id, its first moment and how many events it has.
struct Written {
  id: String,
  from: i64,
  events: usize,
}

fn sessions(dice: &mut Dice, per_event: usize) -> Vec<Written> {
  let share = MEGABYTES * 1_000_000 / per_event / (SESSIONS + SESSIONS / LONG * (LONG - 1));
  (0..SESSIONS)
    .map(|n| Written {
      id: format!("{:08x}-0000-4000-8000-{n:012x}", dice.roll(1 << 30)),
      from: START + dice.roll(30 * 86_400) as i64 * 1000,
      events: if n % LONG == 0 { share * LONG } else { share },
    })
    .collect()
}

/// A database as OpenClaw 2026.9.6 makes it.
fn fill_sqlite(state: &Path, dice: &mut Dice) -> Vec<Written> {
  let agent = state.join("agents/main/agent");
  fs::create_dir_all(&agent).unwrap();
  let path = agent.join("openclaw-agent.sqlite");
  let real = Path::new(env!("CARGO_MANIFEST_DIR"))
    .join("fixtures/openclaw/2026.9.6/agents/main/agent/openclaw-agent.sqlite");
  fs::copy(real, &path).unwrap();
  let connection = Connection::open(&path).unwrap();
  connection
    .execute_batch(
      "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; PRAGMA foreign_keys = OFF; BEGIN",
    )
    .unwrap();
  // Pages are compressed to half of their length.
  let written = sessions(dice, 1_300);
  let mut insert = connection
    .prepare(
      "INSERT INTO transcript_events (session_id, seq, event_json, created_at, event_zstd,
       event_utf8_bytes, navigation_json) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )
    .unwrap();
  let navigation = r#"{"version":1,"report":{"kind":"canonical"},"navigation":{},"reset":{},"model":{},"modelBytes":1,"modelWithoutCheckpointBytes":1,"withoutCustomDataBytes":1}"#;
  // Events of all sessions come in turn, as they did when they happened.
  let longest = written.iter().map(|session| session.events).max().unwrap();
  for n in 0..longest {
    for session in written.iter().filter(|session| n < session.events) {
      let at = session.from + n as i64 * STEP;
      let event = event(dice, n, at);
      let len = event.len() as i64;
      // As OpenClaw does: long texts are compressed.
      if len > 4096 {
        let blob = zstd::bulk::compress(event.as_bytes(), 1).unwrap();
        insert.execute((&session.id, n as i64, None::<String>, at, blob, len, navigation)).unwrap();
      } else {
        insert
          .execute((&session.id, n as i64, event, at, None::<Vec<u8>>, None::<i64>, None::<String>))
          .unwrap();
      }
    }
  }
  for session in &written {
    let last = session.from + session.events as i64 * STEP;
    let key = format!("agent:main:explicit:{}", session.id);
    connection
      .execute(
        "INSERT INTO session_nodes (session_key, current_session_id, entry_json, updated_at)
         VALUES (?1, ?2, ?3, ?4)",
        (&key, &session.id, json!({"skillsSnapshot": dice.text(20_000)}).to_string(), last),
      )
      .unwrap();
    connection
      .execute(
        "INSERT INTO session_windows (session_id, session_key, created_at, updated_at,
         transcript_updated_at) VALUES (?1, ?2, ?3, ?4, ?4)",
        (&session.id, &key, session.from, last),
      )
      .unwrap();
  }
  connection.execute_batch("COMMIT; PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
  written
}

fn fill_jsonl(state: &Path, dice: &mut Dice) -> Vec<Written> {
  let directory = state.join("agents/main/sessions");
  fs::create_dir_all(&directory).unwrap();
  let written: Vec<Written> = sessions(dice, 2_100).into_iter().take(SESSIONS / 4).collect();
  let mut entries = serde_json::Map::new();
  for session in &written {
    let mut file =
      BufWriter::new(File::create(directory.join(format!("{}.jsonl", session.id))).unwrap());
    for n in 0..session.events * 4 {
      writeln!(file, "{}", event(dice, n, session.from + n as i64 * STEP / 4)).unwrap();
    }
    file.flush().unwrap();
    let entry =
      json!({"sessionId": session.id, "chatType": "direct", "skillsSnapshot": dice.text(20_000)});
    entries.insert(format!("agent:main:explicit:{}", session.id), entry);
  }
  fs::write(directory.join("sessions.json"), json!(entries).to_string()).unwrap();
  written
}

/// A moment in the life of a session.
fn moment(dice: &mut Dice, written: &[Written]) -> (usize, i64) {
  let session = dice.roll(written.len());
  let at = written[session].from + dice.roll(written[session].events) as i64 * STEP;
  (session, at * 1000)
}

/// Everything that one attribution reads; how many records.
fn read(state: &Path, at: i64) -> usize {
  let window = Window { from: at - 2_000_000, to: at + 2_000_000 };
  let stores = Stores::open(state);
  let active = stores.active(window);
  assert_eq!(active.problems, [""; 0]);
  assert!(!active.found.is_empty());
  let mut n = 0;
  for session in &active.found {
    let records = stores.records(&session.id, window, LIMIT);
    assert_eq!(records.problems, [""; 0]);
    assert!(records.found.iter().any(|record| matches!(record.message, Message::User { .. })));
    n += records.found.len();
    black_box(&records);
    black_box(stores.session(session.parent_key.as_deref().unwrap_or("agent:main:main")));
  }
  n
}

/// A call that wrote a block: what it wrote, and when, in microseconds UTC.
fn call(path: &Path, dice: &mut Dice, written: &[Written]) -> (String, i64) {
  let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
  loop {
    let session = &written[dice.roll(written.len())];
    let n = dice.roll(session.events) / 8 * 8 + 3;
    // The call and its answer are there.
    if n + 1 < session.events {
      let sql = "SELECT event_json FROM transcript_events WHERE session_id = ?1 AND seq = ?2";
      let event: String =
        connection.query_row(sql, (&session.id, n as i64), |row| row.get(0)).unwrap();
      let event: Value = serde_json::from_str(&event).unwrap();
      let text = &event["message"]["content"][0]["arguments"]["edits"][0]["newText"];
      // The file is written just before the answer is.
      let at = (session.from + (n + 1) as i64 * STEP) * 1000 - 10_000;
      return (text.as_str().unwrap().to_owned(), at);
    }
  }
}

/// Asks who wrote it.
fn ask(records: &OpenClawRecords, workspace: &Path, text: &str, at: i64) {
  let version = ContentHash::of(text.as_bytes());
  let answer = records.attribute(&Question {
    workspace,
    file: Path::new("MEMORY.md"),
    version,
    on_record: version,
    seen_at: at + 20_000,
    changed_at: at,
    memory: &[],
    owner_devices: &[],
    texts: &[text.as_bytes()],
  });
  assert!(answer.attributions[0].evidence.written.is_some(), "{answer:?}");
  assert_eq!(answer.outlook, Outlook::Final, "{answer:?}");
  black_box(answer);
}

/// The times of all questions by the clock and by the processor, each sorted. On a machine that does other
/// things as well, the second says more.
fn times(mut run: impl FnMut()) -> [Vec<Duration>; 2] {
  let mut times = [Vec::new(), Vec::new()];
  for _ in 0..QUESTIONS {
    let (started, used) = (Instant::now(), processor());
    run();
    times[0].push(started.elapsed());
    times[1].push(processor().saturating_sub(used));
  }
  times.each_mut().map(|times| {
    times.sort_unstable();
    std::mem::take(times)
  })
}

fn processor() -> Duration {
  let now = clock_gettime(ClockId::ThreadCPUTime);
  Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

fn report(name: &str, [clock, processor]: &[Vec<Duration>; 2]) -> Duration {
  let line = |times: &[Duration]| {
    let at = |part: usize| times[(times.len() * part / 1000).min(times.len() - 1)];
    format!("p50 {:>9.3?}  p99 {:>9.3?}  max {:>9.3?}", at(500), at(990), at(1000))
  };
  println!("{name:<40} {}", line(clock));
  println!("{:<40} {}", "  of the processor's time", line(processor));
  processor[processor.len() / 2]
}

/// The last rows of a session that is known, by hand.
fn reference(path: &Path, id: &str) -> usize {
  let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
  let mut statement = connection
    .prepare("SELECT event_json, event_zstd FROM transcript_events WHERE session_id = ?1 ORDER BY seq DESC LIMIT 16")
    .unwrap();
  let rows = statement.query_map([id], |row| {
    Ok(row.get_ref(0)?.as_bytes_or_null()?.or(row.get_ref(1)?.as_bytes_or_null()?).map(<[u8]>::len))
  });
  rows.unwrap().map(|len| len.unwrap().unwrap_or(0)).sum()
}

fn size(path: &Path) -> u64 {
  let Ok(entries) = fs::read_dir(path) else { return fs::metadata(path).unwrap().len() };
  entries.map(|entry| size(&entry.unwrap().path())).sum()
}

/// Commits of a writer like OpenClaw's, one small event each, for as long as `stop` is not set.
fn write_on(path: &Path, stop: &AtomicBool) -> [Vec<Duration>; 2] {
  let connection = Connection::open(path).unwrap();
  connection
    .execute_batch(
      "PRAGMA synchronous = OFF; PRAGMA busy_timeout = 5000; PRAGMA foreign_keys = OFF",
    )
    .unwrap();
  let mut times = [Vec::new(), Vec::new()];
  let mut n = 0i64;
  while !stop.load(Ordering::Relaxed) {
    n += 1;
    let (started, used) = (Instant::now(), processor());
    connection
      .execute(
        "INSERT INTO transcript_events (session_id, seq, event_json, created_at)
         VALUES ('writer', (SELECT coalesce(max(seq), 0) + 1 FROM transcript_events WHERE session_id = 'writer'), ?1, ?2)",
        (json!({"type": "custom", "n": n}).to_string(), START + n),
      )
      .unwrap();
    times[0].push(started.elapsed());
    times[1].push(processor().saturating_sub(used));
    thread::sleep(Duration::from_micros(500));
  }
  times.each_mut().map(|times| {
    times.sort_unstable();
    std::mem::take(times)
  })
}

fn with_writer(path: PathBuf, run: impl FnOnce()) -> [Vec<Duration>; 2] {
  let stop = Arc::new(AtomicBool::new(false));
  let writer = thread::spawn({
    let stop = Arc::clone(&stop);
    move || write_on(&path, &stop)
  });
  run();
  stop.store(true, Ordering::Relaxed);
  writer.join().unwrap()
}

fn main() {
  let mut dice = Dice(7);
  let temp = TempDir::new().unwrap();

  let state = temp.path().join("sqlite");
  let written = fill_sqlite(&state, &mut dice);
  let path = state.join("agents/main/agent/openclaw-agent.sqlite");
  println!("SQLite: {} MB, {} sessions", size(&state) / 1_000_000, written.len());
  // OpenClaw is at work: its connection is open.
  let gateway = Connection::open(&path).unwrap();
  gateway
    .query_row("SELECT count(*) FROM session_windows", [], |row| row.get::<_, i64>(0))
    .unwrap();
  let base = report(
    "reference: the last 16 rows, by hand",
    &times(|| {
      let (session, _) = moment(&mut dice, &written);
      black_box(reference(&path, &written[session].id));
    }),
  );
  report(
    "open",
    &times(|| {
      black_box(Stores::open(&state));
    }),
  );
  report(
    "open, sessions of 4 s",
    &times(|| {
      let (_, at) = moment(&mut dice, &written);
      let window = Window { from: at - 2_000_000, to: at + 2_000_000 };
      black_box(Stores::open(&state).active(window));
    }),
  );
  let mut records = 0;
  let ours = report(
    "open, sessions of 4 s, their records",
    &times(|| {
      let (_, at) = moment(&mut dice, &written);
      records += read(&state, at);
    }),
  );
  println!(
    "{} records a question, {:.1} times the reference",
    records / QUESTIONS,
    ours.as_secs_f64() / base.as_secs_f64()
  );
  let layout = Layout { state_dir: state.clone(), workspace: state.join("workspace") };
  let (workspace, all) = (layout.workspace.clone(), OpenClawRecords::new(layout));
  let calls: Vec<_> = (0..QUESTIONS).map(|_| call(&path, &mut dice, &written)).collect();
  let mut asked = calls.iter();
  report(
    "who wrote one block",
    &times(|| {
      let (text, at) = asked.next().unwrap();
      ask(&all, &workspace, text, *at);
    }),
  );
  let alone = with_writer(path.clone(), || thread::sleep(Duration::from_secs(3)));
  report("a writer's commit, nobody reads", &alone);
  let beside = with_writer(path.clone(), || {
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(3) {
      let (_, at) = moment(&mut dice, &written);
      read(&state, at);
    }
  });
  report("a writer's commit, somebody reads on and on", &beside);
  drop(gateway);

  let state = temp.path().join("jsonl");
  let written = fill_jsonl(&state, &mut dice);
  println!("JSONL: {} MB, {} sessions", size(&state) / 1_000_000, written.len());
  report(
    "open, sessions of 4 s, their records",
    &times(|| {
      let (_, at) = moment(&mut dice, &written);
      read(&state, at);
    }),
  );
}
