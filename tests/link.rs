//! `memfw link`: what a plugin inside an agent is told before a write.

use {
  crate::support::{Guarded, Output, needle, poison},
  serde_json::{Value, json},
};

const MEMORY: &str = "# Memory\n\n- Ann likes tea.\n";
/// No machine is so slow that a test meets it.
const PATIENT: u32 = 5000;

/// A workspace that memfw knows, in a mode.
fn known(mode: &str) -> Guarded {
  let config = format!("[link]\nwrites = \"{mode}\"\n");
  let guarded = Guarded::new(&config).memory("MEMORY.md", MEMORY);
  assert_eq!(guarded.memfw(&["run", "--once"]).status, 0);
  guarded
}

fn hello() -> Value {
  json!({ "id": 0, "type": "hello", "version": 1, "client": "test" })
}

/// A call of the edit tool that adds a line.
fn edit(id: u64, line: &str) -> Value {
  json!({
    "id": id, "type": "check", "deadline_ms": PATIENT, "tool": "edit", "path": "MEMORY.md",
    "session": "agent:main:main", "sender_is_owner": true,
    "change": { "edits": [{ "old": "- Ann likes tea.", "new": format!("- Ann likes tea.\n{line}") }] },
  })
}

/// The output of the link for these lines.
fn link(guarded: &Guarded, lines: &[Value]) -> Output {
  let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
  guarded.test().args(["link"]).stdin(lines.join("\n")).output()
}

/// The replies after the handshake.
fn replies(guarded: &Guarded, lines: &[Value]) -> Vec<Value> {
  let all: Vec<Value> = [&[hello()], lines].concat();
  let output = link(guarded, &all);
  assert_eq!(output.status, 0, "{}", output.stderr);
  let replies: Vec<Value> =
    output.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
  assert_eq!(replies.len(), all.len(), "{replies:?}");
  replies[1..].to_vec()
}

#[test]
fn a_poisoned_write_is_refused_with_a_reason_and_waits_for_the_owner() {
  let guarded = known("refuse");
  let replies = replies(&guarded, &[edit(1, &poison(1)), edit(2, "- Bob likes coffee.")]);
  let [refused, clean] = replies.as_slice() else { panic!("{replies:?}") };
  assert_eq!(*clean, json!({ "id": 2, "type": "verdict", "decision": "allow", "judged": true }));
  assert_eq!((&refused["decision"], &refused["judged"]), (&json!("refuse"), &json!(true)));
  let items = guarded.waiting();
  assert_eq!(items.len(), 1);
  let reason = &refused["reason"];
  assert_eq!(reason["items"], json!([items[0]["id"]]));
  assert_eq!(reason["codes"], items[0]["codes"]);
  let text = reason["text"].as_str().unwrap();
  let id = items[0]["id"].as_str().unwrap();
  assert!(text.contains(&format!("memfw approve {id}")), "{text}");
  assert!(!refused.to_string().contains(&needle(1)), "a reason repeats nothing: {refused}");
  assert_eq!(guarded.read("MEMORY.md"), MEMORY.as_bytes());
}

#[test]
fn a_refused_text_that_is_tried_again_or_gets_in_another_way_is_one_item() {
  let mut guarded = known("refuse");
  let first = replies(&guarded, &[edit(1, &poison(2)), edit(2, &poison(2))]);
  assert_eq!(first[0]["reason"]["items"], first[1]["reason"]["items"]);
  assert_eq!(guarded.waiting()[0]["occurrences"], 2);
  guarded.start();
  let file = guarded.path("MEMORY.md");
  std::fs::write(&file, format!("{MEMORY}{}\n", poison(2))).unwrap();
  guarded.settle();
  let items = guarded.waiting();
  assert_eq!((items.len(), &items[0]["occurrences"]), (1, &json!(3)));
  assert!(guarded.holding("workspace", &needle(2)).is_empty());
  guarded.stop();
}

#[test]
fn an_approval_brings_the_refused_text_into_the_file_and_lets_the_next_write_pass() {
  let guarded = known("refuse");
  let refused = replies(&guarded, &[edit(1, &poison(3))]);
  let id = refused[0]["reason"]["items"][0].as_str().unwrap();
  assert_eq!(guarded.memfw(&["quarantine", "approve", id]).status, 0);
  let now = String::from_utf8(guarded.read("MEMORY.md")).unwrap();
  assert!(now.contains(&poison(3)), "{now}");
}

#[test]
fn a_patch_is_one_question_about_all_files_that_it_names() {
  let guarded = known("refuse");
  let patch = |last: &str| {
    let clean: String = (0..40).fold(String::new(), |text, n| {
      text + &format!("*** Add File: memory/n{n}.md\n+- Fact {n}.\n")
    });
    json!({ "patch": format!("*** Begin Patch\n{clean}{last}*** End Patch") })
  };
  let own = guarded.tmp().join("memfw/config/config.toml");
  let own = format!("*** Add File: {}\n+x\n", own.display());
  // A name that is longer than a path is refused, as an agent's tools may shorten it, and does not end the link.
  let deep = format!("*** Add File: {}\n+x\n", "a/".repeat(200_000));
  let lines = [
    check(1, "", &patch("")),
    check(2, "", &patch(&format!("*** Add File: memory/last.md\n+{}\n", poison(8)))),
    check(3, "", &patch(&own)),
    check(4, "", &patch(&deep)),
    edit(5, "- Bob likes coffee."),
  ];
  let replies = replies(&guarded, &lines);
  let decisions: Vec<&Value> = replies.iter().map(|reply| &reply["decision"]).collect();
  assert_eq!(decisions, ["allow", "refuse", "refuse", "refuse", "allow"], "{replies:?}");
  assert_eq!(replies[0]["judged"], true);
  let what = replies[1]["reason"]["what"].as_str().unwrap();
  assert!(what.contains("memory/last.md"), "{what}");
  for reply in &replies[2..4] {
    assert_eq!(reply["reason"]["codes"], json!(["own-files"]));
  }
  assert_eq!(guarded.waiting().len(), 1);
}

#[test]
fn no_write_is_refused_where_that_is_not_configured() {
  let guarded = known("quarantine");
  let note = "`link.writes` is `quarantine`: the text is judged after the write";
  let expected =
    json!({ "id": 1, "type": "verdict", "decision": "allow", "judged": false, "note": note });
  assert_eq!(replies(&guarded, &[edit(1, &poison(4))]), [expected]);
  assert_eq!(guarded.waiting().len(), 0);
}

#[test]
fn the_owner_is_asked_where_that_is_configured() {
  let guarded = known("ask");
  let resolved = |id: u64, check: u64, decision: &str| json!({ "id": id, "type": "resolved", "check": check, "decision": decision });
  let lines = [
    edit(1, &poison(5)),
    resolved(2, 1, "deny"),
    resolved(3, 1, "deny"),
    edit(4, "- Bob likes coffee."),
    resolved(5, 4, "allow-once"),
    edit(6, &poison(6)),
  ];
  let replies = replies(&guarded, &lines);
  for at in [0, 5] {
    assert_eq!(replies[at]["decision"], "ask");
    assert_eq!(replies[at]["reason"]["items"], json!([]));
  }
  let noted = |id: u64, known: bool| json!({ "id": id, "type": "noted", "known": known });
  assert_eq!(
    [&replies[1], &replies[2], &replies[4]],
    [&noted(2, true), &noted(3, false), &noted(5, false)]
  );
  assert_eq!(guarded.waiting().len(), 0, "nothing waits while the owner is asked");
  // Each question and each answer is on record, without a word of the text.
  let events = |kind: &str| -> Vec<Value> {
    serde_json::from_str(&guarded.memfw(&["audit", "--json", "--event", kind]).stdout).unwrap()
  };
  let asked = events("owner-asked");
  assert_eq!(asked.len(), 2, "{asked:?}");
  assert!(
    asked
      .iter()
      .all(|one| one["codes"] != json!([]) && one["file"].as_str().unwrap().ends_with("MEMORY.md"))
  );
  let answered = events("owner-answered");
  let details: Vec<&str> = answered.iter().map(|one| one["detail"].as_str().unwrap()).collect();
  assert_eq!(details, ["the write was denied"]);
  assert!(!format!("{asked:?}{answered:?}").contains(&needle(5)));
}

#[test]
fn what_is_no_memory_or_not_known_before_is_not_judged() {
  let guarded = known("refuse");
  let check = |path: &str, change: Value| json!({ "id": 1, "type": "check", "path": path, "deadline_ms": PATIENT, "change": change });
  let note = |line: Value| {
    let reply = replies(&guarded, &[line]).remove(0);
    assert_eq!((&reply["decision"], &reply["judged"]), (&json!("allow"), &json!(false)));
    reply["note"].as_str().unwrap().to_owned()
  };
  let write = json!({ "write": poison(6) });
  assert_eq!(note(check("notes.txt", write.clone())), "this is no memory file that memfw guards");
  assert_eq!(note(check("../MEMORY.md", write)), "this is no memory file that memfw guards");
  let command = json!({ "command": format!("echo '{}' >> MEMORY.md", poison(6)) });
  assert_eq!(note(check("MEMORY.md", command)), "what a command writes is judged after the write");
}

#[test]
fn an_edit_is_judged_however_the_tool_finds_its_place() {
  let guarded = known("refuse");
  let new = poison(9);
  let edits = [
    // The dash and the blank differ from those in the file.
    json!([{ "old": "\u{2013}\u{a0}Ann likes tea. ", "new": new }]),
    // Each text is looked for in the content before the call.
    json!([{ "old": "- Ann likes tea.", "new": format!("{new}\n# Memory") }, { "old": "# Memory", "new": "# M" }]),
    // The place is unknown, so the text counts as added.
    json!([{ "old": "- nowhere", "new": new }]),
    json!([{ "old": "a", "new": "- b" }, { "old": "", "new": new }]),
  ];
  let lines: Vec<Value> = (1..)
    .zip(&edits)
    .map(|(id, edits)| json!({ "id": id, "type": "check", "deadline_ms": PATIENT, "path": "MEMORY.md", "change": { "edits": edits } }))
    .collect();
  for (reply, edits) in replies(&guarded, &lines).iter().zip(&edits) {
    assert_eq!(reply["decision"], "refuse", "{edits}");
  }
}

/// A call that would change this.
fn check(id: u64, path: &str, change: &Value) -> Value {
  json!({ "id": id, "type": "check", "deadline_ms": PATIENT, "path": path, "change": change })
}

#[test]
fn a_file_is_known_by_each_name_that_the_tools_take() {
  let guarded = known("refuse");
  std::os::unix::fs::symlink("MEMORY.md", guarded.path("alias.txt")).unwrap();
  std::fs::write(guarded.path("draft.txt"), format!("{}\nx\n", poison(10))).unwrap();
  let new = poison(10);
  let url = format!("file://{}", guarded.path("MEMORY.md").display());
  let whole = |body: &str| json!({ "patch": format!("*** Begin Patch\n{body}\n*** End Patch") });
  let write = json!({ "write": new });
  let calls = [
    (url.as_str(), write.clone()),
    ("MEMORY.md</arg_value>>", write.clone()),
    ("alias.txt", write.clone()),
    ("@memory/z.md", write),
    ("", whole(&format!("  *** Update File: MEMORY.md\n@@\n+{new}"))),
    ("", whole(&format!("*** Add File: @memory//./z.md\n+{new}"))),
    ("", whole("*** Update File: draft.txt\n*** Move to: memory/z.md\n@@\n-x\n+y")),
    ("", json!({ "patch": format!("*** Update File: MEMORY.md\n+{new}") })),
  ];
  let lines: Vec<Value> =
    (1..).zip(&calls).map(|(id, (path, change))| check(id, path, change)).collect();
  for (reply, call) in replies(&guarded, &lines).iter().zip(&calls) {
    assert_eq!(reply["decision"], "refuse", "{call:?}");
  }
}

#[test]
fn a_file_that_is_no_text_is_checked_as_well() {
  let guarded = known("refuse");
  std::fs::write(guarded.path("MEMORY.md"), b"- Ann \xff likes tea.\n").unwrap();
  let edits = json!({ "edits": [{ "old": "tea", "new": poison(11) }] });
  let patch =
    format!("*** Begin Patch\n*** Update File: MEMORY.md\n@@\n+{}\n*** End Patch", poison(11));
  for change in [
    json!({ "write": poison(11) }),
    json!({ "append": poison(11) }),
    edits,
    json!({ "patch": patch }),
  ] {
    let reply = replies(&guarded, &[check(1, "MEMORY.md", &change)]).remove(0);
    assert_eq!(reply["decision"], "refuse", "{change}");
  }
}

#[test]
fn known_text_that_becomes_something_else_is_the_calls() {
  let guarded = known("refuse");
  let text =
    format!("# Memory\n\n- Example of a bad note: {0}\n\n```\n{1}\n```\n", poison(12), poison(13));
  std::fs::write(guarded.path("MEMORY.md"), &text).unwrap();
  for after in [format!("# Memory\n\n{}\n", poison(12)), text.replace("```\n", "")] {
    let reply = replies(&guarded, &[check(1, "MEMORY.md", &json!({ "write": after }))]).remove(0);
    assert_eq!(reply["decision"], "refuse", "{after}");
  }
  let added = json!({ "append": "- Bob likes coffee." });
  assert_eq!(replies(&guarded, &[check(1, "MEMORY.md", &added)])[0]["decision"], "allow");
}

#[test]
fn text_that_is_there_already_is_not_the_calls() {
  let guarded = known("refuse");
  std::fs::write(guarded.path("MEMORY.md"), format!("{MEMORY}{}\n", poison(7))).unwrap();
  let replies = replies(&guarded, &[edit(1, "- Bob likes coffee.")]);
  assert_eq!(
    replies[0],
    json!({ "id": 1, "type": "verdict", "decision": "allow", "judged": true })
  );
}

#[test]
fn what_is_wrong_is_answered_and_the_link_goes_on() {
  let guarded = known("refuse");
  let long = format!("{{\"id\":9,\"type\":\"check\",\"path\":\"{}\"}}", "x".repeat(9 << 20));
  let lines = [
    r#"{"id":1,"type":"check"}"#,
    r#"{"id":2,"type":"hello","version":7}"#,
    r#"{"id":3,"type":"hello","version":1}"#,
    "garbage",
    &long,
    r#"{"id":4,"type":"check","path":"a.txt","change":{"write":"x"}}"#,
  ];
  guarded
    .test()
    .args(["link"])
    .stdin(lines.join("\n"))
    .stdout(
      r#"
      {"id":1,"type":"error","code":"no-hello","message":"the first request must be `hello`"}
      {"id":2,"type":"error","code":"version","message":"this memfw speaks version 1 of the protocol"}
      {"id":3,"type":"hello","version":1,"memfw":"0.1.0","mode":"refuse","deadline_ms":50}
      {"id":null,"type":"error","code":"bad-request","message":"this is no request that memfw knows, at line 1 column 1"}
      {"id":null,"type":"error","code":"too-large","message":"a line has at most 8388608 bytes"}
      {"id":4,"type":"verdict","decision":"allow","judged":false,"note":"this is no memory file that memfw guards"}
      "#,
    )
    .run();
}

#[test]
fn a_verdict_that_would_come_too_late_is_none() {
  let guarded = known("refuse");
  // All of them come at once, so the last ones wait for the first ones.
  let lines: Vec<Value> = (1..400)
    .map(|id| {
      let mut line = edit(id, &format!("- note {id} about the garden"));
      line["deadline_ms"] = json!(1);
      line
    })
    .collect();
  let replies = replies(&guarded, &lines);
  let late = replies.iter().filter(|reply| reply["code"] == "deadline").count();
  assert!(late > 0, "no verdict was late: {:?}", replies.last());
  assert!(replies.iter().all(|reply| reply["decision"] != "refuse"));
}

#[test]
fn before_memfw_has_guarded_anything_nothing_is_refused() {
  let guarded = Guarded::new("[link]\nwrites = \"refuse\"\n").memory("MEMORY.md", MEMORY);
  let replies = replies(&guarded, &[edit(1, &poison(8))]);
  assert_eq!((&replies[0]["type"], &replies[0]["code"]), (&json!("error"), &json!("unavailable")));
}
