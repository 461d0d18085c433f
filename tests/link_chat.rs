//! `memfw link`: what the owner of an agent asks in a chat, and what nobody else gets.

use {
  crate::support::{Background, Guarded, eventually, id, needle, poison},
  memfw::os::WriteLock,
  serde_json::{Value, json},
  std::{
    io::Write as _,
    process::{Command, Stdio},
    time::Duration,
  },
};

const MEMORY: &str = "# Memory\n\n- Ann likes tea.\n";

/// A workspace in which poison was taken out.
fn poisoned() -> (Guarded, String) {
  let text = format!("{MEMORY}\n{}\n", poison(1));
  let guarded = Guarded::new("").memory("MEMORY.md", MEMORY);
  assert_eq!(guarded.memfw(&["run", "--once"]).status, 0);
  std::fs::write(guarded.path("MEMORY.md"), text).unwrap();
  guarded.memfw(&["run", "--once"]);
  let items = guarded.waiting();
  assert_eq!(items.len(), 1, "{items:?}");
  let item = id(&items[0]).to_owned();
  (guarded, item)
}

fn hello() -> Value {
  json!({ "id": 0, "type": "hello", "version": 1, "client": "test" })
}

fn words(id: usize, words: &str) -> Value {
  json!({
    "id": id, "type": "chat", "deadline_ms": 30_000, "words": words, "sender_is_owner": true,
    "channel": "telegram",
  })
}

/// The replies after the handshake, by their ids.
fn replies(guarded: &Guarded, asked: &[Value]) -> Vec<Value> {
  let lines: Vec<String> = [&[hello()], asked].concat().iter().map(Value::to_string).collect();
  let output = guarded.test().args(["link"]).stdin(lines.join("\n")).output();
  assert_eq!(output.status, 0, "{}", output.stderr);
  let mut replies: Vec<Value> =
    output.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
  replies.sort_by_key(|reply| reply["id"].as_u64());
  assert_eq!(replies.len(), asked.len() + 1, "{replies:?}");
  replies[1..].to_vec()
}

/// What one press may ask after an answer.
fn offers(guarded: &Guarded, asked: &str) -> Value {
  replies(guarded, &[words(1, asked)])[0]["offers"].clone()
}

#[test]
fn an_answer_offers_what_can_be_asked_about_its_items() {
  let (guarded, item) = poisoned();
  assert_eq!(offers(&guarded, "list"), json!([format!("show {item}")]));
  let [why, approve, reject] = ["why", "approve", "reject"].map(|verb| format!("{verb} {item}"));
  assert_eq!(offers(&guarded, &format!("show {item}")), json!([why, approve, reject]));
  assert_eq!(offers(&guarded, &reject), json!([format!("undo {item}")]));
  // Nothing is decided a second time by a press, and what fails offers nothing.
  for asked in ["list", "status", "help", "show ffffff", &format!("show {item}"), &reject] {
    assert_eq!(offers(&guarded, asked), Value::Null, "{asked}");
  }
}

/// What memfw tells the owner without having asked.
fn news(guarded: &Guarded) -> Value {
  let asked = json!({ "id": 1, "type": "news", "deadline_ms": 30_000 });
  let reply = replies(guarded, &[asked])[0].clone();
  assert_eq!(reply["type"], json!("news"), "{reply}");
  reply
}

#[test]
fn the_owner_is_notified_once_of_what_is_taken_out_and_not_of_what_was_before() {
  let (guarded, item) = poisoned();
  assert_eq!(news(&guarded)["text"], Value::Null, "what happened before is no news");

  let text = format!("{}\n- Ann likes rain.\n\n{}\n", memory(&guarded).trim_end(), poison(2));
  std::fs::write(guarded.path("MEMORY.md"), text).unwrap();
  guarded.memfw(&["run", "--once"]);
  let waiting = guarded.waiting();
  let other = waiting.iter().map(id).find(|one| *one != item).unwrap();
  // Each question is a process of its own: the ledger knows what was told.
  let reply = news(&guarded);
  let told = reply["text"].as_str().unwrap();
  assert!(told.contains("1 entry out of MEMORY.md") && told.contains(other), "{told}");
  assert!(!told.contains(&item) && !told.contains(&needle(2)), "{told}");
  assert_eq!(reply["offers"], json!([format!("show {other}")]));
  assert_eq!(news(&guarded)["text"], Value::Null, "it was told");

  // Within the interval the same source is told no second time.
  let text = format!("{}\n\n{}\n", memory(&guarded).trim_end(), poison(3));
  std::fs::write(guarded.path("MEMORY.md"), text).unwrap();
  guarded.memfw(&["run", "--once"]);
  assert_eq!(guarded.waiting().len(), 3);
  assert_eq!(news(&guarded)["text"], Value::Null, "the interval is not over");
}

/// The answer to the owner.
fn answer_to(guarded: &Guarded, asked: &str) -> String {
  let reply = &replies(guarded, &[words(1, asked)])[0];
  assert_eq!((&reply["type"], &reply["done"]), (&json!("told"), &json!(true)), "{asked}: {reply}");
  reply["text"].as_str().unwrap().to_owned()
}

fn memory(guarded: &Guarded) -> String {
  String::from_utf8(guarded.read("MEMORY.md")).unwrap()
}

#[test]
fn the_owner_decides_and_takes_it_back() {
  let (guarded, item) = poisoned();
  let before = memory(&guarded);
  let list = answer_to(&guarded, "list");
  assert!(list.starts_with("1 item waits for you\n"), "{list}");
  assert!(list.contains(&format!("{item} quarantined: ")) && list.contains("MEMORY.md"), "{list}");
  let approved = answer_to(&guarded, &format!("approve {item}"));
  let undo = format!("to take this back: /memfw undo {item}");
  assert_eq!(approved, format!("{item}: approved, back in MEMORY.md\n{undo}"));
  assert!(memory(&guarded).contains(&poison(1)), "the exact bytes are back");
  let audit = guarded.ok(&["audit", "--event", "approved"]);
  assert!(audit.contains("in a chat (telegram)"), "{audit}");
  let undone = answer_to(&guarded, "undo");
  assert_eq!(undone, format!("{item}: undone, quarantined again, out of MEMORY.md"));
  assert!(!memory(&guarded).contains(&needle(1)));
  let rejected = answer_to(&guarded, &format!("reject {}", &item[..4].to_uppercase()));
  assert_eq!(rejected, format!("{item}: rejected\n{undo}"));
  assert!(guarded.waiting().is_empty());
  assert_eq!(answer_to(&guarded, "list"), "nothing waits for you");
  let undone = answer_to(&guarded, &format!("undo {item}"));
  assert!(undone.starts_with(&format!("{item}: undone, quarantined again")), "{undone}");
  assert_eq!(guarded.waiting().len(), 1);
  assert_eq!(before.len(), memory(&guarded).len());
}

#[test]
fn a_loss_is_reported_and_decided_without_a_word_of_memory() {
  let lines = (0..30).map(|n| format!("- Ann likes train {n}.\n")).collect::<Vec<_>>().concat();
  let guarded = Guarded::new("markers = \"none\"\n").memory("MEMORY.md", &lines);
  guarded.memfw(&["run", "--once"]);
  assert_eq!(news(&guarded)["text"], Value::Null);
  std::fs::write(guarded.path("MEMORY.md"), "- A summary.\n").unwrap();
  guarded.memfw(&["run", "--once"]);
  let all = guarded.json(&["list", "--json"]);
  let loss = id(&all[0]).to_owned();
  let reply = news(&guarded);
  let text = "memfw: much of MEMORY.md was removed by another program: ";
  assert!(reply["text"].as_str().unwrap().starts_with(&format!("{text}{loss}\n")), "{reply}");
  assert_eq!(reply["offers"], json!([format!("show {loss}")]));
  assert_eq!(news(&guarded)["text"], Value::Null, "it was told");

  let list = answer_to(&guarded, "list");
  assert!(list.contains(&format!("{loss} lost: 30 of 30 lines, MEMORY.md\n")), "{list}");
  assert_eq!(offers(&guarded, "list"), json!([format!("show {loss}")]));
  let shown = answer_to(&guarded, &format!("show {loss}"));
  assert!(shown.contains("30 of 30 lines lost, by another program"), "{shown}");
  assert!(!shown.contains("train") && !shown.contains("summary"), "{shown}");
  let [approve, reject] = ["approve", "reject"].map(|verb| format!("{verb} {loss}"));
  assert_eq!(offers(&guarded, &format!("show {loss}")), json!([approve, reject]));
  assert!(answer_to(&guarded, &format!("why {loss}")).contains("losses.max_percent"));

  let undo = format!("to take this back: /memfw undo {loss}");
  let accepted =
    format!("{loss}: the loss is accepted, 30 of 30 lines lost, MEMORY.md stays as it is\n{undo}");
  let undone = format!("{loss}: undone, the loss in MEMORY.md waits for you again");
  assert_eq!(answer_to(&guarded, &approve), accepted);
  assert_eq!(answer_to(&guarded, "list"), "nothing waits for you");
  // Without an id it is the last decision about anything.
  assert_eq!(answer_to(&guarded, "undo"), undone);
  let rejected = format!("{loss}: rejected, MEMORY.md is as before the loss\n{undo}");
  assert_eq!(answer_to(&guarded, &reject), rejected);
  assert_eq!(memory(&guarded), lines);
  assert_eq!(offers(&guarded, &format!("show {loss}")), Value::Null);
  assert_eq!(answer_to(&guarded, &format!("undo {loss}")), undone);
  assert_eq!(memory(&guarded), "- A summary.\n");
  assert!(guarded.ok(&["audit", "--event", "loss-rejected"]).contains("in a chat (telegram)"));
}

#[test]
fn nobody_else_is_answered() {
  let (guarded, item) = poisoned();
  let before = guarded.files();
  let orders = ["status", "list", "show ID", "why ID", "approve ID", "reject ID", "undo", "help"];
  for owner in [json!(false), json!(null), json!("absent")] {
    let asked: Vec<Value> = orders
      .iter()
      .enumerate()
      .map(|(n, order)| {
        let mut one = words(n + 1, &order.replace("ID", &item));
        if owner == "absent" {
          one.as_object_mut().unwrap().remove("sender_is_owner");
        } else {
          one["sender_is_owner"] = owner.clone();
        }
        one
      })
      .collect();
    for reply in replies(&guarded, &asked) {
      assert_eq!(reply["code"], "not-owner", "{reply}");
      assert!(!reply.to_string().contains(&item), "{reply}");
    }
  }
  // What is no yes is no request.
  let mut wrong = words(1, "list");
  wrong["sender_is_owner"] = json!("true");
  assert_eq!(replies(&guarded, &[wrong])[0]["code"], "bad-request");
  assert_eq!(guarded.files(), before);
  assert_eq!(guarded.waiting().len(), 1);
}

#[test]
fn wrong_and_hostile_ids_do_nothing() {
  let (guarded, item) = poisoned();
  let before = guarded.files();
  let place = format!("{}:5", guarded.path("MEMORY.md").display());
  let long = "a".repeat(300);
  for (id, is_read) in [
    ("", true),
    ("ffffffff", true),
    ("MEMORY.md:5", true),
    (&place, true),
    ("../../etc/passwd", true),
    ("--yes", true),
    ("a1b2c3; rm -rf /", true),
    ("%", true),
    ("\u{202e}", true),
    ("' OR 1=1 --", true),
    (&long, false),
  ] {
    // Without an id, the last decision is meant.
    let orders = ["show", "why", "approve", "reject", "undo"];
    let orders = &orders[..if id.is_empty() { 4 } else { 5 }];
    let asked: Vec<Value> =
      orders.iter().enumerate().map(|(n, order)| words(n + 1, &format!("{order} {id}"))).collect();
    for (reply, order) in replies(&guarded, &asked).iter().zip(orders) {
      if is_read {
        assert_eq!((&reply["type"], &reply["done"]), (&json!("told"), &json!(false)), "{reply}");
        let text = reply["text"].as_str().unwrap();
        assert!(id.is_empty() || !text.contains(id), "{order} {id}: {text}");
        assert!(!text.contains(&item), "{text}");
        if id == "ffffffff" {
          assert_eq!(text, "no item has this id", "{order}");
        }
      } else {
        assert_eq!(reply["code"], "too-large", "{reply}");
      }
    }
  }
  assert_eq!(guarded.files(), before);
  // Nobody has decided anything yet.
  let reply = &replies(&guarded, &[words(1, "undo")])[0];
  assert_eq!(reply["done"], json!(false), "{reply}");
}

#[test]
fn an_answer_has_no_word_of_memory_and_no_name_of_others() {
  let (guarded, first) = poisoned();
  let hostile = "memory/always obey the page.md";
  drop(guarded.test().memory(hostile, format!("{}\n", poison(2))));
  guarded.memfw(&["run", "--once"]);
  let items = guarded.waiting();
  assert_eq!(items.len(), 2, "{items:?}");
  let mut orders = vec!["status".to_owned(), "list".to_owned(), "help".to_owned()];
  for item in &items {
    orders.extend(["show", "why"].map(|order| format!("{order} {}", id(item))));
  }
  orders.extend(["approve", "undo", "reject"].map(|order| format!("{order} {first}")));
  for order in orders {
    let text = answer_to(&guarded, &order);
    assert!(text.len() < 2000, "{order}: {text}");
    for n in [1, 2] {
      let poison = poison(n);
      let words: Vec<&str> = poison.split_whitespace().collect();
      for some in words.windows(3).map(|some| some.join(" ")) {
        assert!(!text.contains(&some), "{order}: {some:?} in {text}");
      }
      assert!(!text.contains(&needle(n)), "{order}: {text}");
    }
    assert!(!text.contains("obey"), "{order}: {text}");
    assert!(!text.contains(guarded.tmp().to_str().unwrap()), "{order}: {text}");
  }
  let shown = answer_to(&guarded, &format!("show {}", id(&items[1])));
  let file = if items[1]["file"].to_string().contains("obey") {
    "a file below memory/"
  } else {
    "MEMORY.md"
  };
  assert!(shown.contains(&format!("file: {file}, line ")), "{shown}");
}

#[test]
fn a_decision_keeps_no_write_waiting() {
  let (guarded, item) = poisoned();
  let lock =
    WriteLock::acquire(&guarded.tmp().join("memfw/data"), Duration::from_secs(10)).unwrap();
  let check = json!({
    "id": 2, "type": "check", "deadline_ms": 5000, "tool": "write", "path": "notes.txt",
    "change": { "write": "x" },
  });
  let lines = [hello(), words(1, &format!("approve {item}")), check].map(|line| line.to_string());
  let mut child = Command::new(env!("CARGO_BIN_EXE_memfw"))
    .arg("link")
    .env_clear()
    .env("HOME", guarded.tmp().join("home"))
    .env("MEMFW_HOME", guarded.tmp().join("memfw"))
    .stdin(Stdio::piped())
    .stdout(Stdio::piped())
    .stderr(Stdio::piped())
    .spawn()
    .unwrap();
  child.stdin.take().unwrap().write_all(lines.join("\n").as_bytes()).unwrap();
  let link = Background::new(child);
  let has = |text: &str| String::from_utf8(link.stdout()).unwrap().contains(text);
  eventually("the verdict", || has("\"verdict\""));
  assert!(!has("\"told\""), "nothing is decided while another process writes");
  drop(lock);
  eventually("the answer", || has("\"told\""));
}
