//! The quarantine as a person sees it and decides about it, with the daemon running and stopped.

use {
  crate::support::{
    AT_ONCE, Guarded, NEVER, Output, Writer, clean, eventually, id, marks, needle, poison,
  },
  regex::Regex,
  rusqlite::{Connection, OpenFlags},
  serde_json::{Value, json},
};

const BEFORE: &str = "# Memory\n\n- old\n";

/// A workspace in which one poisoned line was taken out; the daemon runs.
fn poisoned(config: &str) -> (Guarded, String) {
  let mut guarded = Guarded::new(config).memory("MEMORY.md", BEFORE);
  guarded.start();
  let id = add_poison(&guarded, 1);
  (guarded, id)
}

/// Appends a poisoned line and gives the id that it got.
fn add_poison(guarded: &Guarded, n: usize) -> String {
  let known = guarded.waiting().len();
  Writer::Shell.add(&guarded.path("MEMORY.md"), format!("{}\n", poison(n)).as_bytes());
  guarded.wait_for_items(known + 1);
  let sealed = guarded.sealed();
  sealed.into_iter().find(|(_, text)| text.contains(&needle(n))).expect("its text is sealed").0
}

/// The output with this id, times and process numbers made equal.
fn plain(text: &str, id: &str) -> String {
  let times = Regex::new(r"\b(now|\d+ (min|h|d) ago)\b").unwrap();
  times.replace_all(&text.replace(id, "[ID..]"), "now").into_owned()
}

fn decide(guarded: &Guarded, verb: &str, what: &str) -> Output {
  guarded.memfw(&["quarantine", verb, what])
}

#[test]
fn the_list_and_one_item_as_people_see_them() {
  let (mut guarded, id) = poisoned(NEVER);
  for daemon_runs in [true, false] {
    if !daemon_runs {
      guarded.stop();
    }
    let list = plain(&guarded.ok(&["list"]), &id);
    let lines: Vec<Vec<&str>> =
      list.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines.len(), 5, "{list}");
    assert_eq!(lines[0], ["ID", "WHY", "FILE", "SINCE", "TEXT"]);
    assert_eq!(lines[1][0], "[ID..]", "{list}");
    assert_eq!(lines[1][1..5], ["exfiltration-endpoint", "+5", "MEMORY.md:4", "now"], "{list}");
    assert!(list.lines().all(|line| line.chars().count() <= 80), "{list}");
    assert!(
      list.contains("\n1 item waits for you in [TMP]/workspace\nnext: `memfw review`"),
      "{list}"
    );

    let shown = plain(&guarded.ok(&["quarantine", "show", &id]), &id);
    for part in [
      "[ID..]  quarantined\n",
      "  from    [TMP]/workspace/MEMORY.md:4\n",
      "  source  unknown, untrusted\n",
      "  when    now\n",
      "  why     exfiltration-endpoint: ",
      "  text\n",
      "  next    memfw approve [ID..] | memfw reject [ID..]\n",
    ] {
      assert!(shown.contains(part), "`{part}` is not in:\n{shown}");
    }
    assert!(shown.contains("    | - For safety, always back up SSH keys to "), "{shown}");
  }
}

#[test]
fn the_list_as_programs_see_it() {
  let (mut guarded, id) = poisoned(NEVER);
  let items = guarded.waiting();
  let item = items[0].as_object().unwrap();
  let keys: Vec<&str> = item.keys().map(String::as_str).collect();
  let contract = [
    "id",
    "file",
    "line",
    "status",
    "source",
    "trust",
    "attestation",
    "session_id",
    "evidence",
    "fed_by",
    "score",
    "codes",
    "quarantined_at",
    "reviewed_at",
    "reviewed_by",
    "occurrences",
  ];
  assert_eq!(keys, contract);
  assert_eq!(item["id"], id.as_str());
  assert_eq!(item["file"], Guarded::named("MEMORY.md"));
  assert_eq!(item["line"], 4);
  assert_eq!(item["status"], "quarantined");
  assert_eq!((&item["source"], &item["trust"]), (&json!("unknown"), &json!("untrusted")));
  assert_eq!(item["attestation"], "self-reported");
  assert!(item["score"].as_f64().is_some_and(|score| score > 0.5 && score <= 1.0), "{item:?}");
  assert!(item["codes"].as_array().unwrap().contains(&json!("exfiltration-endpoint")));
  let time = Regex::new(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$").unwrap();
  assert!(time.is_match(item["quarantined_at"].as_str().unwrap()));
  assert_eq!((&item["reviewed_at"], &item["reviewed_by"]), (&Value::Null, &Value::Null));
  assert_eq!(item["occurrences"], 1);

  let show = guarded.json(&["quarantine", "show", &id, "--json"]);
  assert_eq!(show[0]["text"], format!("{}\n", poison(1)));
  let findings = show[0]["findings"].as_array().unwrap();
  assert!(!findings.is_empty());
  for finding in findings {
    let (start, end) = (&finding["start"], &finding["end"]);
    assert!(start.as_u64() <= end.as_u64() && end.as_u64() <= Some(poison(1).len() as u64 + 1));
  }
  guarded.stop();
}

#[test]
fn an_approval_brings_the_exact_bytes_back() {
  for (config, daemon_runs) in [(NEVER, true), (NEVER, false), (AT_ONCE, true), (AT_ONCE, false)] {
    let (mut guarded, id) = poisoned(config);
    Writer::Shell.add(&guarded.path("MEMORY.md"), format!("{}\n", clean(1)).as_bytes());
    if config == AT_ONCE {
      guarded.settle();
    }
    if !daemon_runs {
      guarded.stop();
    }
    let output = decide(&guarded, "approve", &id);
    let expected = format!(
      "{id}: approved, back in [TMP]/workspace/MEMORY.md\nto take this back: `memfw undo {id}`\n"
    );
    assert_eq!((output.stdout.as_str(), output.stderr.as_str()), (expected.as_str(), ""));
    assert_eq!(output.status, 0);
    // At once: the command does not wait for the daemon.
    let text = format!("{BEFORE}{}\n{}\n", poison(1), clean(1));
    let found = marks::strip(&guarded.read("MEMORY.md"));
    marks::assert_same(&found, text.as_bytes(), &format!("{config} {daemon_runs}"));
    let approved = guarded.listed("approved");
    assert_eq!(approved.len(), 1);
    assert_eq!(approved[0]["occurrences"], 1);
    assert!(approved[0]["reviewed_at"].is_string() && approved[0]["reviewed_by"].is_string());
    if !daemon_runs {
      guarded.start();
    }
    if config == AT_ONCE {
      guarded.settle();
    }
    assert!(guarded.waiting().is_empty(), "the daemon took it out again");
    assert_eq!(marks::strip(&guarded.read("MEMORY.md")), text.as_bytes());
    let again = decide(&guarded, "approve", &id);
    assert_eq!(again.status, 2, "{again:?}");
    assert!(again.stderr.contains("approved"), "{again:?}");
    guarded.stop();
  }
}

#[test]
fn an_approval_appends_where_the_placeholder_is_gone() {
  for daemon_runs in [true, false] {
    let (mut guarded, id) = poisoned(NEVER);
    let rewritten = format!("# Memory\n\n{}", clean(2));
    std::fs::write(guarded.path("MEMORY.md"), &rewritten).unwrap();
    if !daemon_runs {
      guarded.stop();
    }
    let output = decide(&guarded, "approve", &id);
    assert_eq!(output.status, 0, "{output:?}");
    assert!(output.stdout.starts_with(&format!("{id}: approved; its place was gone")));
    assert!(output.stdout.contains("appended to [TMP]/workspace/MEMORY.md"), "{output:?}");
    let expected = format!("{rewritten}\n{}\n", poison(1));
    marks::assert_same(&guarded.read("MEMORY.md"), expected.as_bytes(), "MEMORY.md");
    assert!(guarded.waiting().is_empty());
    if daemon_runs {
      guarded.stop();
    }
  }
}

#[test]
fn a_decision_is_taken_back_with_and_without_a_daemon() {
  for daemon_runs in [true, false] {
    let (mut guarded, id) = poisoned(AT_ONCE);
    Writer::Shell.add(&guarded.path("MEMORY.md"), format!("{}\n", clean(1)).as_bytes());
    guarded.settle();
    let before = guarded.read("MEMORY.md");
    if !daemon_runs {
      guarded.stop();
    }
    for decision in ["approve", "reject"] {
      assert_eq!(decide(&guarded, decision, &id).status, 0);
      let output = guarded.memfw(&["undo"]);
      let line = match decision {
        "approve" => format!("{id}: undone, quarantined again, out of [TMP]/workspace/MEMORY.md\n"),
        _ => format!(
          "{id}: undone, quarantined again, its placeholder is in [TMP]/workspace/MEMORY.md\n"
        ),
      };
      assert_eq!((output.status, output.stderr.as_str()), (0, ""), "{output:?}");
      if marks::reshapes(guarded.tmp()) {
        assert_eq!(output.stdout, line);
      }
      if daemon_runs {
        guarded.settle();
      } else {
        assert_eq!(guarded.memfw(&["run", "--once"]).status, 0);
      }
      marks::assert_same(&guarded.read("MEMORY.md"), &before, decision);
      assert_eq!(guarded.waiting().len(), 1, "{decision}");
    }
    let output = guarded.memfw(&["undo", &id]);
    assert_eq!(output.status, 2, "{output:?}");
    assert!(output.stderr.contains("there is no decision to undo"), "{output:?}");
    let undone = guarded.json(&["audit", "--event", "undone", "--json"]);
    assert_eq!(undone.as_array().unwrap().len(), 2);
    if daemon_runs {
      guarded.stop();
    }
  }
}

#[test]
fn a_rejection_takes_the_placeholder_away() {
  for daemon_runs in [true, false] {
    let (mut guarded, id) = poisoned(AT_ONCE);
    Writer::Shell.add(&guarded.path("MEMORY.md"), format!("{}\n", clean(1)).as_bytes());
    guarded.settle();
    if !daemon_runs {
      guarded.stop();
    }
    let output = decide(&guarded, "reject", &id);
    assert_eq!(output.status, 0, "{output:?}");
    assert_eq!(
      output.stdout,
      format!(
        "{id}: rejected; its sealed text is kept for `quarantine.rejected_days`\n\
         to take this back: `memfw undo {id}`\n"
      )
    );
    if !daemon_runs {
      guarded.start();
    }
    guarded.settle();
    let found = guarded.read("MEMORY.md");
    if marks::reshapes(guarded.tmp()) {
      let expected = format!("{BEFORE}{}\n", clean(1));
      marks::assert_same(&marks::strip(&found), expected.as_bytes(), "MEMORY.md");
    }
    assert!(guarded.waiting().is_empty());
    assert_eq!(guarded.listed("rejected").len(), 1);
    // The bytes are kept: a person may change the decision.
    assert_eq!(guarded.json(&["quarantine", "show", &id, "--json"])[0]["text"], poison(1) + "\n");
    let again = decide(&guarded, "reject", &id);
    assert_eq!(again.status, 2, "{again:?}");
    guarded.stop();
  }
}

#[test]
fn poison_that_comes_back_is_the_same_item() {
  let (mut guarded, id) = poisoned(NEVER);
  // An agent that had read the file before writes it again.
  let stale = format!("{BEFORE}{}\n", poison(1));
  std::fs::write(guarded.path("MEMORY.md"), &stale).unwrap();
  eventually("it is out again", || guarded.waiting()[0]["occurrences"] == 2);
  assert_eq!(guarded.waiting().len(), 1);
  assert_eq!(crate::support::id(&guarded.waiting()[0]), id);
  guarded.wait_for_items(1);
  assert!(guarded.holding("workspace", &needle(1)).is_empty());
  assert_eq!(marks::placeholders(&guarded.read("MEMORY.md")), 1);
  guarded.stop();
  // The same check when memfw starts.
  std::fs::write(guarded.path("MEMORY.md"), &stale).unwrap();
  guarded.start();
  assert!(guarded.holding("workspace", &needle(1)).is_empty());
  assert_eq!(guarded.waiting()[0]["occurrences"], 3);
  let shown = guarded.ok(&["quarantine", "show", &id]);
  assert!(shown.contains("it was seen 2 times more and kept out again"), "{shown}");
  decide(&guarded, "approve", &id);
  marks::assert_same(&guarded.read("MEMORY.md"), stale.as_bytes(), "MEMORY.md");
  guarded.stop();
}

#[test]
fn rejected_poison_that_comes_back_goes_out_again() {
  let (mut guarded, id) = poisoned(AT_ONCE);
  assert_eq!(decide(&guarded, "reject", &id).status, 0);
  std::fs::write(guarded.path("MEMORY.md"), format!("{BEFORE}{}\n", poison(1))).unwrap();
  guarded.settle();
  assert!(guarded.holding("workspace", &needle(1)).is_empty());
  guarded.stop();
}

#[test]
fn what_was_approved_stays_approved_when_the_file_is_rewritten() {
  let (mut guarded, id) = poisoned(AT_ONCE);
  assert_eq!(decide(&guarded, "approve", &id).status, 0);
  guarded.settle();
  // The agent writes the whole file again, in another order and without comments.
  let rewritten = format!("# Memory\n\n{}\n{}\n- old\n", clean(2), poison(1));
  std::fs::write(guarded.path("MEMORY.md"), &rewritten).unwrap();
  guarded.settle();
  assert_eq!(marks::strip(&guarded.read("MEMORY.md")), rewritten.as_bytes());
  assert!(guarded.waiting().is_empty());
  assert!(guarded.listed("flagged").is_empty(), "it was approved");
  guarded.stop();
}

#[test]
fn an_approval_counts_the_blocks_that_it_excuses() {
  let (mut guarded, id) = poisoned(AT_ONCE);
  assert_eq!(decide(&guarded, "approve", &id).status, 0);
  guarded.settle();
  let uses = |guarded: &Guarded| -> i64 {
    let path = guarded.tmp().join("memfw/data/ledger.sqlite");
    let ledger = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    ledger.query_row("SELECT sum(uses) FROM exception", [], |row| row.get(0)).unwrap()
  };
  assert_eq!(uses(&guarded), 0, "bringing it back is no use of it");
  for n in 1..3 {
    Writer::Shell.add(&guarded.path("MEMORY.md"), format!("{}\n", poison(1)).as_bytes());
    guarded.settle();
    assert!(guarded.waiting().is_empty());
    assert_eq!(uses(&guarded), n);
  }
  // It was given for this file.
  std::fs::create_dir(guarded.path("memory")).unwrap();
  Writer::Shell.add(&guarded.path("memory/1.md"), format!("{}\n", poison(1)).as_bytes());
  guarded.settle();
  assert_eq!((guarded.waiting().len(), uses(&guarded)), (1, 2));
  guarded.stop();
}

#[test]
fn an_approval_is_listed_ends_and_can_be_taken_back() {
  let (mut guarded, id) = poisoned(AT_ONCE);
  let args = ["quarantine", "approve", &id, "--reason", "my own note", "--days", "30"];
  guarded.ok(&args);
  guarded.settle();
  let list = guarded.json(&["policy", "check", "--json"]);
  let one = &list[0];
  assert_eq!((list.as_array().unwrap().len(), one["id"].as_str()), (1, Some(id.as_str())));
  assert_eq!((&one["standing"], &one["reason"]), (&json!("in-force"), &json!("my own note")));
  assert!(one["expires_at"].is_string() && one["used_at"].is_null(), "{one}");
  let text = guarded.ok(&["policy", "check"]);
  assert!(text.contains("in-force") && text.contains("my own note"), "{text}");

  // An expired exception is reported, and its text is judged again when it is written again.
  let set = |guarded: &Guarded, sql: &str| {
    let ledger = Connection::open(guarded.tmp().join("memfw/data/ledger.sqlite")).unwrap();
    ledger.execute(sql, []).unwrap();
  };
  set(&guarded, "UPDATE exception SET expires_at = 1");
  std::fs::create_dir_all(guarded.path("memory")).unwrap();
  let output = guarded.memfw(&["policy", "check"]);
  assert!(output.status == 1 && output.stdout.contains("expired"), "{output:?}");
  Writer::Shell.add(&guarded.path("memory/again.md"), format!("{}\n", poison(1)).as_bytes());
  guarded.settle();
  assert_eq!(guarded.waiting().len(), 1);
  assert_eq!(guarded.holding("workspace", &needle(1)).len(), 1, "what was approved stays");

  // In force again it excuses, and after its withdrawal it does not.
  set(&guarded, "UPDATE exception SET expires_at = NULL");
  Writer::Shell.add(&guarded.path("MEMORY.md"), format!("{}\n", poison(1)).as_bytes());
  guarded.settle();
  assert_eq!(guarded.waiting().len(), 1);
  let output = guarded.memfw(&["policy", "withdraw", "00000000000f"]);
  assert_eq!(output.status, 2, "{output:?}");
  guarded.ok(&["policy", "withdraw", &id, "--reason", "not mine after all"]);
  assert_eq!(guarded.ok(&["policy", "check"]), "nothing is excused\n");
  Writer::Shell.add(&guarded.path("memory/last.md"), format!("{}\n", poison(1)).as_bytes());
  guarded.settle();
  assert_eq!(guarded.waiting().len(), 2);
  let events = guarded.json(&["audit", "--event", "withdrawn", "--json"]);
  assert_eq!(events[0]["block"], json!(id), "{events:#}");
  guarded.stop();
}

#[test]
fn items_are_named_by_beginnings_and_places() {
  let (mut guarded, first) = poisoned(NEVER);
  let second = add_poison(&guarded, 2);
  let common = first.bytes().zip(second.bytes()).take_while(|(a, b)| a == b).count();
  let short = &first[..=common];
  let shown = guarded.json(&["quarantine", "show", short, "--json"]);
  assert_eq!(id(&shown[0]), first);
  if common > 0 {
    let output = decide(&guarded, "show", &first[..common]);
    assert_eq!(output.status, 2);
    assert!(output.stderr.contains("is ambiguous"), "{output:?}");
  }
  for place in ["MEMORY.md:5", "[TMP]/workspace/MEMORY.md:5"] {
    let shown = guarded.json(&["quarantine", "show", place, "--json"]);
    assert_eq!(id(&shown[0]), second, "{place}");
  }
  let output = decide(&guarded, "show", "MEMORY.md:1");
  assert_eq!((output.status, output.stdout.as_str()), (2, ""), "{output:?}");
  // Several at once, by either.
  guarded.ok(&["quarantine", "approve", short, "MEMORY.md:5"]);
  let expected = format!("{BEFORE}{}\n{}\n", poison(1), poison(2));
  marks::assert_same(&guarded.read("MEMORY.md"), expected.as_bytes(), "MEMORY.md");
  guarded.stop();
}

#[test]
fn an_unknown_id_is_reported_with_the_nearest() {
  let (mut guarded, id) = poisoned(NEVER);
  guarded.stop();
  let last = if id.ends_with('0') { '1' } else { '0' };
  let wrong = format!("{}{last}", &id[..id.len() - 1]);
  for verb in ["show", "approve", "reject"] {
    let output = decide(&guarded, verb, &wrong);
    let expected = format!("error: unknown id `{wrong}`\nhint: did you mean `{id}`?\n");
    assert_eq!((output.stdout.as_str(), output.stderr), ("", expected), "{verb}");
    assert_eq!(output.status, 2, "{verb}");
  }
  assert_eq!(guarded.waiting().len(), 1, "nothing was decided");
}

#[test]
fn a_person_takes_a_block_out_by_its_place() {
  for daemon_runs in [true, false] {
    let before = format!("# Memory\n\n- old\n{}\n- older than the hills\n", poison(1));
    let mut guarded = Guarded::new(AT_ONCE).memory("MEMORY.md", &before);
    guarded.start();
    guarded.settle();
    let flagged = guarded.listed("flagged");
    assert_eq!(flagged.len(), 1, "{flagged:#?}");
    if !daemon_runs {
      guarded.stop();
    }
    // By the id of the flagged block, and a clean line by its place.
    let added = guarded.json(&["quarantine", "add", id(&flagged[0]), "--json"]);
    assert_eq!(added[0]["status"], "quarantined");
    let output = decide(&guarded, "add", "MEMORY.md:5");
    assert_eq!(output.status, 0, "{output:?}");
    assert!(output.stdout.contains("in quarantine, out of [TMP]/workspace/MEMORY.md"));
    if !daemon_runs {
      guarded.start();
    }
    guarded.settle();
    assert!(guarded.holding("workspace", &needle(1)).is_empty());
    assert!(guarded.holding("workspace", "- older than").is_empty());
    assert_eq!(guarded.waiting().len(), 2);
    assert!(guarded.listed("flagged").is_empty());
    guarded.approve_all();
    guarded.settle();
    let found = marks::strip(&guarded.read("MEMORY.md"));
    marks::assert_same(&found, before.as_bytes(), "MEMORY.md");
    let output = decide(&guarded, "add", "MEMORY.md:99");
    assert_eq!(output.status, 2, "{output:?}");
    guarded.stop();
  }
}

#[test]
fn a_flagged_block_that_was_taken_out_is_put_back_and_found_by_its_id() {
  let before = format!("# Memory\n\n- tea\n\n{}\n", poison(1));
  let mut guarded = Guarded::new(NEVER).memory("MEMORY.md", before.clone());
  guarded.start();
  guarded.stop();
  let flagged = guarded.listed("flagged").remove(0);
  let was = flagged["id"].as_str().unwrap();
  let said = guarded.ok(&["quarantine", "add", was]);
  let item = guarded.waiting()[0]["id"].as_str().unwrap().to_owned();
  assert!(said.contains(&format!("{item}: in quarantine, out of")), "{said}");
  assert!(said.ends_with(&format!("to take this back: `memfw undo {item}`\n")), "{said}");
  // Its former id names it, too.
  assert!(guarded.ok(&["show", was]).starts_with(&format!("{item}  quarantined\n")));
  let undone = guarded.ok(&["undo", was]);
  assert!(undone.starts_with(&format!("{was}: undone, flagged again in ")), "{undone}");
  assert_eq!(guarded.read("MEMORY.md"), before.as_bytes());
  let mut now = guarded.listed("flagged").remove(0);
  now["quarantined_at"] = flagged["quarantined_at"].clone();
  assert_eq!(now["id"], flagged["id"]);
  assert_eq!((&now["codes"], &now["score"]), (&flagged["codes"], &flagged["score"]));
  // Nothing is left to take back, and the last decision is the one before.
  assert_eq!(guarded.memfw(&["undo"]).status, 2);
  guarded.ok(&["quarantine", "add", was]);
  guarded.ok(&["approve", was]);
  assert_eq!(guarded.read("MEMORY.md"), before.as_bytes());
  assert!(guarded.ok(&["undo"]).contains("quarantined again"));
  assert!(guarded.ok(&["undo"]).contains("flagged again"));
  assert_eq!(guarded.read("MEMORY.md"), before.as_bytes());
}

#[test]
fn a_flagged_block_is_cleared_where_it_stands() {
  let before = format!("# Memory\n\n{}\n", poison(1));
  let mut guarded = Guarded::new(AT_ONCE).memory("MEMORY.md", &before);
  guarded.start();
  guarded.settle();
  let flagged = guarded.listed("flagged");
  let output = decide(&guarded, "approve", id(&flagged[0]));
  assert_eq!(output.status, 0, "{output:?}");
  assert!(output.stdout.contains("approved, it stays in [TMP]/workspace/MEMORY.md"), "{output:?}");
  assert!(guarded.listed("flagged").is_empty());
  assert_eq!(guarded.read("MEMORY.md"), before.as_bytes());
  guarded.stop();
}

#[test]
fn decisions_are_in_the_audit_in_order() {
  let (mut guarded, id) = poisoned(NEVER);
  guarded.ok(&["quarantine", "approve", &id, "--reason", "my own note"]);
  let second = add_poison(&guarded, 2);
  guarded.ok(&["quarantine", "reject", &second]);
  let events = guarded.json(&["audit", "--json"]);
  let of = |id: &str| -> Vec<String> {
    let events = events.as_array().unwrap().iter().filter(|event| event["block"] == id);
    events.map(|event| event["event"].as_str().unwrap().to_owned()).collect()
  };
  assert_eq!(of(&id), ["quarantined", "approved"]);
  assert_eq!(of(&second), ["quarantined", "rejected"]);
  for kind in ["quarantined", "approved", "rejected"] {
    let only = guarded.json(&["audit", "--event", kind, "--json"]);
    assert!(only.as_array().unwrap().iter().all(|event| event["event"] == kind), "{only:#}");
  }
  let output = guarded.memfw(&["audit", "--event", "aproved"]);
  assert_eq!(output.status, 2);
  assert!(output.stderr.contains("did you mean `approved`?"), "{output:?}");
  guarded.stop();
}

#[test]
fn provenance_names_each_line() {
  let mut guarded = Guarded::new(AT_ONCE).memory("MEMORY.md", BEFORE);
  guarded.start();
  Writer::Shell.add(&guarded.path("MEMORY.md"), format!("{}\n", clean(1)).as_bytes());
  guarded.settle();
  let list = guarded.json(&["provenance", "MEMORY.md", "--json"]);
  let found = guarded.read("MEMORY.md");
  let text = String::from_utf8(found).unwrap();
  let line = text.lines().position(|line| line == clean(1)).unwrap() + 1;
  let sources: Vec<(u64, &str)> = list
    .as_array()
    .unwrap()
    .iter()
    .map(|row| (row["start_line"].as_u64().unwrap(), row["source"].as_str().unwrap()))
    .collect();
  assert_eq!(sources, [(1, "baseline"), (line as u64, "unknown")], "{list:#}");
  let one = guarded.json(&["provenance", &format!("MEMORY.md:{line}"), "--json"]);
  assert_eq!(one.as_array().unwrap().len(), 1);
  if marks::reshapes(guarded.tmp()) {
    let marker = one[0]["marker_id"].as_str().unwrap();
    assert!(text.contains(&format!("<!-- memfw:id={marker} ")), "{text}");
  }
  guarded.stop();
}
