//! `memfw link`: what a refusal costs, what is recorded of it, and what a model can do with it.

use {
  crate::support::{DEADLINE, Guarded, eventually, needle, poison},
  rusqlite::Connection,
  serde_json::{Value, json},
  std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, Command, Stdio},
    slice,
    sync::mpsc::{Receiver, channel},
    time::{Duration, Instant},
  },
};

const MEMORY: &str = "# Memory\n\n- Ann likes tea.\n";

fn known() -> Guarded {
  let guarded = Guarded::new("[link]\nwrites = \"refuse\"\n").memory("MEMORY.md", MEMORY);
  assert_eq!(guarded.memfw(&["run", "--once"]).status, 0);
  guarded
}

/// A child that is asked one thing after the other.
struct Link {
  child: Child,
  stdin: Option<ChildStdin>,
  replies: Receiver<Value>,
}

impl Link {
  fn start(guarded: &Guarded) -> Self {
    let mut child = Command::new(env!("CARGO_BIN_EXE_memfw"))
      .arg("link")
      .env_clear()
      .env("HOME", guarded.tmp().join("home"))
      .env("MEMFW_HOME", guarded.tmp().join("memfw"))
      .stdin(Stdio::piped())
      .stdout(Stdio::piped())
      .stderr(Stdio::null())
      .spawn()
      .unwrap();
    let (told, replies) = channel();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    std::thread::spawn(move || {
      for line in stdout.lines().map_while(Result::ok) {
        drop(told.send(serde_json::from_str(&line).unwrap()));
      }
    });
    let stdin = child.stdin.take();
    let mut link = Self { child, stdin, replies };
    link.send(&json!({ "id": 0, "type": "hello", "version": 1 }));
    assert_eq!(link.reply()["type"], "hello");
    link
  }

  fn send(&mut self, line: &Value) {
    self.send_all(slice::from_ref(line));
  }

  fn send_all(&mut self, lines: &[Value]) {
    let text = lines.iter().fold(String::new(), |text, line| text + &format!("{line}\n"));
    self.stdin.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
  }

  fn reply(&self) -> Value {
    self.replies.recv_timeout(DEADLINE).expect("no reply")
  }

  fn ask(&mut self, line: &Value) -> Value {
    self.send(line);
    self.reply()
  }

  /// Ends it in order, after all that it still has to do.
  fn end(mut self) {
    drop(self.stdin.take());
    eventually("the child ends", || self.child.try_wait().unwrap().is_some());
  }
}

impl Drop for Link {
  fn drop(&mut self) {
    drop(self.child.kill());
    drop(self.child.wait());
  }
}

/// A call of a run that writes this to a file.
fn write(id: u64, run: &str, path: &str, text: &str) -> Value {
  json!({
    "id": id, "type": "check", "deadline_ms": 5000, "tool": "write", "path": path, "run": run,
    "session": "agent:main:main", "sender_is_owner": true,
    "change": { "write": text },
  })
}

/// A call of a run that adds this line to the memory.
fn add(id: u64, run: &str, line: &str) -> Value {
  write(id, run, "MEMORY.md", &format!("{MEMORY}{line}\n"))
}

/// The ledger, which no other process can write while this is there.
fn locked(guarded: &Guarded) -> Connection {
  let ledger = Connection::open(guarded.tmp().join("memfw/data/ledger.sqlite")).unwrap();
  ledger.execute_batch("BEGIN IMMEDIATE").unwrap();
  ledger
}

/// The first numbers, with a text between them.
fn numbered(n: usize, between: &str) -> String {
  (0..n).map(|n| n.to_string()).collect::<Vec<_>>().join(between)
}

fn events(guarded: &Guarded, kind: &str) -> Vec<Value> {
  guarded.json(&["audit", "--event", kind, "--json"]).as_array().unwrap().clone()
}

#[test]
fn a_refusal_does_not_wait_for_the_ledger() {
  let guarded = known();
  let mut link = Link::start(&guarded);
  let ledger = locked(&guarded);
  let asked = Instant::now();
  let refused = link.ask(&add(1, "r", &poison(1)));
  // A connection waits five seconds for the ledger.
  assert!(asked.elapsed() < Duration::from_secs(4), "{:?}", asked.elapsed());
  assert_eq!(refused["decision"], "refuse", "{refused}");
  assert_eq!(guarded.waiting().len(), 0);
  drop(ledger);
  link.end();
  let items = guarded.waiting();
  assert_eq!(refused["reason"]["items"], json!([items[0]["id"]]));
  assert_eq!(items.len(), 1);
}

#[test]
fn a_call_that_has_waited_too_long_is_not_judged() {
  let guarded = known();
  let mut link = Link::start(&guarded);
  let long = numbered(800, ".\n- The garden of the museum has the number ");
  let mut next = add(2, "r", "- Bob likes coffee.");
  next["deadline_ms"] = json!(1);
  // Both come at once, and the first one takes longer than the second one waits.
  link.send_all(&[write(1, "r", "memory/long.md", &long), next]);
  let (first, second) = (link.reply(), link.reply());
  assert_eq!((&first["id"], &first["decision"]), (&json!(1), &json!("allow")), "{first}");
  assert_eq!((&second["id"], &second["code"]), (&json!(2), &json!("deadline")), "{second}");
}

#[test]
fn a_write_that_is_not_refused_in_time_is_recorded_as_let_through() {
  let guarded = known();
  let mut link = Link::start(&guarded);
  // One block, which is judged as a whole.
  let padding = numbered(2000, " and the museum of town ");
  // Longer and longer, until a call is begun in time on this machine; a verdict takes many times as long as that.
  let mut deadline_ms = 4;
  eventually("a verdict comes too late", || {
    let mut call = add(1, "r", &format!("{}{padding}", poison(1)));
    call["deadline_ms"] = json!(deadline_ms);
    deadline_ms += deadline_ms / 2;
    assert_eq!(link.ask(&call)["code"], "deadline", "within {deadline_ms} ms");
    !events(&guarded, "let-through").is_empty()
  });
  link.end();
  let told = events(&guarded, "let-through");
  assert_eq!(told.len(), 1, "{told:?}");
  assert!(told[0]["detail"].as_str().unwrap().contains("the daemon"), "{told:?}");
  assert_eq!(guarded.waiting().len(), 0, "nothing was refused");
}

#[test]
fn a_long_text_is_left_to_the_daemon() {
  let guarded = known();
  let mut link = Link::start(&guarded);
  let long = format!("{}\n{}", poison(1), "- The museum opens at ten.\n".repeat(5000));
  let reply = link.ask(&write(1, "r", "memory/a.md", &long));
  assert_eq!((&reply["decision"], &reply["judged"]), (&json!("allow"), &json!(false)), "{reply}");
  assert!(reply["note"].as_str().unwrap().contains("too long"), "{reply}");
}

#[test]
fn what_is_refused_for_a_file_that_does_not_exist_can_be_approved() {
  let guarded = known();
  let text = format!("# New\n\n- Ann likes tea.\n{}\n- Bob likes coffee.\n", poison(1));
  let mut call = write(1, "r", "memory/new.md", &text);
  call["heard"] =
    json!([{ "kind": "message", "passage": "Please note what I say.", "owner": true }]);
  let mut link = Link::start(&guarded);
  let refused = link.ask(&call);
  link.end();
  let id = guarded.waiting()[0]["id"].as_str().unwrap().to_owned();
  assert_eq!(refused["reason"]["items"], json!([id]), "{refused}");
  let told = guarded.ok(&["approve", &id]);
  assert!(told.contains("creates none") && told.contains("next write"), "{told}");
  assert!(!guarded.path("memory/new.md").exists(), "memfw creates no memory file");
  let mut link = Link::start(&guarded);
  assert_eq!(link.ask(&call)["decision"], "allow");
  // Only there, and only as it was.
  let other = link.ask(&write(2, "r", "memory/other.md", &text));
  assert_eq!(other["decision"], "refuse", "{other}");
  link.end();
  std::fs::create_dir_all(guarded.path("memory")).unwrap();
  std::fs::write(guarded.path("memory/new.md"), &text).unwrap();
  assert_eq!(guarded.memfw(&["run", "--once"]).status, 0);
  let now = String::from_utf8(guarded.read("memory/new.md")).unwrap();
  assert!(now.contains(&poison(1)), "{now}");
  assert!(guarded.waiting().iter().all(|item| item["id"] != json!(id)));
}

#[test]
fn an_approval_for_the_next_write_can_be_taken_back() {
  let guarded = known();
  let call = write(1, "r", "memory/new.md", &format!("{}\n", poison(1)));
  let mut link = Link::start(&guarded);
  link.ask(&call);
  link.end();
  let id = guarded.waiting()[0]["id"].as_str().unwrap().to_owned();
  guarded.ok(&["approve", &id]);
  guarded.ok(&["undo", &id]);
  assert_eq!(guarded.waiting().len(), 1);
  let mut link = Link::start(&guarded);
  assert_eq!(link.ask(&call)["decision"], "refuse");
}

#[test]
fn equal_texts_of_a_run_are_counted_and_others_are_not_reported_as_returned() {
  let guarded = known();
  let mut link = Link::start(&guarded);
  let first = link.ask(&add(1, "r", &poison(1)));
  for id in 2..6 {
    assert_eq!(link.ask(&add(id, "r", &poison(1)))["reason"]["items"], first["reason"]["items"]);
  }
  link.ask(&add(7, "another", &poison(1)));
  link.end();
  let items = guarded.waiting();
  assert_eq!((items.len(), &items[0]["occurrences"]), (1, &json!(6)));
  assert_eq!(events(&guarded, "returned"), [Value::Null; 0]);
  assert_eq!(events(&guarded, "quarantined").len(), 1);
  assert_eq!(events(&guarded, "refused-again").len(), 1, "one for the other run");
}

#[test]
fn a_run_fills_no_quarantine() {
  let guarded = known();
  let mut link = Link::start(&guarded);
  let refused: Vec<Value> = (1..30).map(|n| link.ask(&add(n, "r", &poison(n as usize)))).collect();
  link.end();
  assert!(refused.iter().all(|reply| reply["decision"] == "refuse"));
  assert_eq!(guarded.waiting().len(), 16);
  let last = refused.last().unwrap();
  assert_eq!(last["reason"]["items"], json!([]));
  assert!(last["reason"]["allow"].as_str().unwrap().contains("not kept"), "{last}");
  let told = events(&guarded, "not-kept");
  assert_eq!(told.iter().map(|one| one["count"].as_u64()).collect::<Vec<_>>(), [Some(1), Some(10)]);
  // Another run has a limit of its own.
  let mut link = Link::start(&guarded);
  assert_ne!(link.ask(&add(1, "other", &poison(40)))["reason"]["items"], json!([]));
}

#[test]
fn a_run_gets_the_codes_of_its_first_refusals_only() {
  let guarded = known();
  let mut link = Link::start(&guarded);
  let mut ask = |run: &str, n: u64| link.ask(&add(n, run, &poison(n as usize)))["reason"].clone();
  for n in 1..4 {
    let reason = ask("r", n);
    let code = reason["codes"][0].as_str().unwrap().to_owned();
    assert!(reason["text"].as_str().unwrap().contains(&code), "{reason}");
  }
  for n in 4..7 {
    let reason = ask("r", n);
    assert_eq!(reason["codes"], json!([]));
    let text = reason["text"].as_str().unwrap();
    assert!(!text.contains('(') || text.contains("(not confirmed)"), "{text}");
    assert!(!text.contains(&needle(n as usize)), "{text}");
  }
  assert_ne!(ask("another", 7)["codes"], json!([]));
}
