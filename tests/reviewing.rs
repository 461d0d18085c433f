//! A person reviews: on a terminal, over a pipe, and by the equivalent plain commands.

use {
  crate::support::{AT_ONCE, Guarded, NEVER, Output, Writer, eventually, needle, poison},
  rustix::process::Signal,
  serde_json::Value,
};

/// A workspace in which so many poisoned lines were taken out, and no daemon; their ids in order.
fn poisoned(n: usize) -> (Guarded, Vec<String>) {
  let mut guarded = Guarded::new(NEVER).memory("MEMORY.md", "# Memory\n\n- old\n");
  guarded.start();
  for index in 0..n {
    let text = format!("{}\n\n- between {index}\n\n", poison(index));
    Writer::Shell.add(&guarded.path("MEMORY.md"), text.as_bytes());
    eventually("the poison waits", || guarded.waiting().len() > index);
  }
  guarded.stop();
  let mut sealed: Vec<(String, String)> = guarded.sealed().into_iter().collect();
  let number = |text: &str| (0..n).position(|index| text.contains(&needle(index)));
  sealed.sort_by_key(|(_, text)| number(text));
  (guarded, sealed.into_iter().map(|(id, _)| id).collect())
}

/// Reviews with these lines as standard input.
fn piped(guarded: &Guarded, args: &[&str], typed: &str) -> Output {
  let command = ["quarantine", "review"].iter().chain(args);
  guarded.test().args(command).stdin(typed).output()
}

#[track_caller]
fn status_of(guarded: &Guarded, id: &str) -> String {
  let shown = guarded.json(&["quarantine", "show", id, "--json"]);
  shown[0]["status"].as_str().unwrap().to_owned()
}

#[test]
fn keys_on_a_terminal_decide_and_leave_it_as_it_was() {
  let (guarded, ids) = poisoned(3);
  let Some(mut terminal) = guarded.on_terminal("xterm", &["quarantine", "review"]) else { return };
  let before = terminal.mode();
  let first = terminal.expect(" quit");
  assert!(first.contains("[1 of 3]") && first.contains(&ids[0]), "{first}");
  assert!(first.contains('\u{1b}') && first.contains("why"), "{first}");
  terminal.press(b"\x1b[A");
  terminal.expect(" quit");
  terminal.press(b"r");
  terminal.expect(&format!("{}: rejected", ids[0]));
  terminal.expect("[2 of 3]");
  terminal.expect(" quit");
  terminal.press(b"a");
  terminal.expect("Why is it fine?");
  terminal.enter("my own note");
  terminal.expect(&format!("{}: approved, back in", ids[1]));
  terminal.expect("[3 of 3]");
  terminal.press(b"\x03");
  terminal.expect("2 items decided, 1 left");
  assert_eq!(terminal.wait().code(), Some(0));
  assert!(terminal.is_for_lines());
  assert_eq!(terminal.mode().local_modes, before.local_modes);
  assert_eq!(terminal.mode().input_modes, before.input_modes);
  let expected = ["rejected", "approved", "quarantined"];
  assert_eq!([0, 1, 2].map(|n| status_of(&guarded, &ids[n])), expected);
  assert!(guarded.holding("workspace", &needle(1)).len() == 1, "it is back in its file");
  let audit = guarded.json(&["audit", "--event", "approved", "--json"]);
  assert!(audit[0]["detail"].as_str().unwrap().contains("my own note"), "{audit}");
}

#[test]
fn a_signal_ends_a_review_and_the_terminal_is_as_it_was() {
  let (guarded, ids) = poisoned(1);
  for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
    let Some(mut terminal) = guarded.on_terminal("xterm", &["quarantine", "review"]) else {
      return;
    };
    terminal.expect(" quit");
    terminal.signal(signal);
    terminal.expect("0 items decided, 1 left");
    assert_eq!(terminal.wait().code(), Some(0), "{signal:?}");
    assert!(terminal.is_for_lines(), "{signal:?}");
  }
  assert_eq!(status_of(&guarded, &ids[0]), "quarantined");
}

#[test]
fn a_dumb_terminal_is_asked_for_lines() {
  let (guarded, ids) = poisoned(1);
  let Some(mut terminal) = guarded.on_terminal("dumb", &["quarantine", "review"]) else { return };
  let shown = terminal.expect(" quit");
  assert!(!shown.contains('\u{1b}'), "{shown}");
  assert!(terminal.is_for_lines());
  terminal.enter("r");
  terminal.expect("u undo the last decision  b back  Enter quit");
  terminal.enter("");
  terminal.expect("1 item decided");
  assert_eq!(terminal.wait().code(), Some(0));
  assert_eq!(status_of(&guarded, &ids[0]), "rejected");
}

#[test]
fn the_last_decision_can_be_taken_back_before_the_review_ends() {
  let before = format!("# Memory\n\n- tea\n\n{}\n", poison(1));
  let mut guarded = Guarded::new(NEVER).memory("MEMORY.md", before.clone());
  guarded.start();
  guarded.stop();
  let id = guarded.listed("flagged")[0]["id"].as_str().unwrap().to_owned();
  let Some(mut terminal) = guarded.on_terminal("xterm", &["review"]) else { return };
  terminal.expect(" quit");
  for key in [b"x", b"u"] {
    terminal.press(b"r");
    terminal.expect("in quarantine, out of");
    terminal.expect("undo the last decision");
    terminal.expect(" quit");
    // Another key asks once more.
    terminal.press(key);
    if key == b"x" {
      terminal.expect("undo the last decision");
      terminal.expect(" quit");
      terminal.press(b"b");
      terminal.expect("undo");
      terminal.expect(" quit");
      terminal.press(b"u");
    }
    terminal.expect(&format!("{id}: undone, flagged again in"));
    let card = terminal.expect(" quit");
    assert!(card.contains(&id) && card.contains("flagged"), "{card}");
  }
  assert_eq!(guarded.read("MEMORY.md"), before.as_bytes());
  terminal.press(b"r");
  terminal.expect("in quarantine, out of");
  terminal.expect("undo the last decision");
  terminal.expect(" quit");
  terminal.press(b"\r");
  terminal.expect("1 item decided");
  terminal.expect("to take this back: `memfw undo ");
  assert_eq!(terminal.wait().code(), Some(0));
  assert_eq!(guarded.waiting().len(), 1);
}

#[test]
fn lines_over_a_pipe_do_the_same_as_keys() {
  let (guarded, ids) = poisoned(3);
  // Text after a key is the reason.
  let output = piped(&guarded, &[], "x\nl\na my own note\nr approve nothing\n");
  assert_eq!((output.status, output.stderr.as_str()), (0, ""), "{output:?}");
  assert!(!output.stdout.contains('\u{1b}'));
  assert!(output.stdout.contains(&format!("{}: later", ids[0])), "{}", output.stdout);
  let end =
    format!("2 items decided, 1 left\nto take this back: `memfw undo {} {}`\n", ids[1], ids[2]);
  assert!(output.stdout.ends_with(&end), "{}", output.stdout);
  let expected = ["quarantined", "approved", "rejected"];
  assert_eq!([0, 1, 2].map(|n| status_of(&guarded, &ids[n])), expected);
  for line in output.stdout.lines() {
    assert!(line.chars().count() <= 80, "{line}");
  }
  let dots = output.stdout.matches("evil[.]").count();
  assert!(dots > 0 && !output.stdout.contains("evil.com"), "{}", output.stdout);

  // Input that ends in between decides no item.
  let output = piped(&guarded, &[&ids[0]], "a");
  assert!(output.stdout.ends_with("0 items decided, 1 left\n"), "{}", output.stdout);
  let output = piped(&guarded, &[&ids[1]], "");
  assert!(output.stdout.contains("it is approved"), "{}", output.stdout);
  assert_eq!(status_of(&guarded, &ids[0]), "quarantined");
  let output = piped(&guarded, &["--status", "held"], "");
  let none = "no item fits these options; without them, 1 item waits for you\n";
  assert_eq!(output.stdout, none);
  assert_eq!(guarded.ok(&["list", "--file", "other.md"]), none);
}

#[test]
fn a_flagged_block_is_approved_or_taken_out() {
  let before = format!("# Memory\n\n{}\n\n{}\n", poison(1), poison(2));
  let mut guarded = Guarded::new(NEVER).memory("MEMORY.md", before);
  guarded.start();
  guarded.stop();
  let flagged = guarded.listed("flagged");
  assert_eq!(flagged.len(), 2, "{flagged:?}");
  // Of two items from one moment, the first in the file comes first; the heading belongs to it.
  assert_eq!((&flagged[0]["line"], &flagged[1]["line"]), (&1.into(), &5.into()));
  let output = piped(&guarded, &[], "?\nr\na\n\n");
  assert_eq!((output.status, output.stderr.as_str()), (0, ""), "{output:?}");
  assert!(output.stdout.contains("it was there before memfw"), "{}", output.stdout);
  assert!(output.stdout.contains("it is here"), "{}", output.stdout);
  assert!(output.stdout.contains("\n2 items decided\nto take this back: "), "{}", output.stdout);
  assert_eq!((guarded.waiting().len(), guarded.listed("approved").len()), (1, 1));
  assert_eq!(guarded.holding("workspace", &needle(1)).len(), 0);
  assert_eq!(guarded.holding("workspace", &needle(2)).len(), 1);
}

#[test]
fn a_decision_is_repeated_and_one_is_taken_back() {
  let (guarded, ids) = poisoned(4);
  // The first is rejected, the others like it; then one goes back to the first and takes it back.
  let output = piped(&guarded, &[], "r not mine\nl\nb\nb\nu\nl\nR\ny\n");
  assert_eq!((output.status, output.stderr.as_str()), (0, ""), "{output:?}");
  let said = &output.stdout;
  assert!(said.contains(&format!("{}: undone, quarantined again", ids[0])), "{said}");
  // After the first was taken back, all four are alike.
  assert!(said.contains("Reject 4 items of this file and code as well?"), "{said}");
  assert!(said.contains("\n4 items decided\nto take this back: `memfw undo "), "{said}");
  assert_eq!([0, 1, 2, 3].map(|n| status_of(&guarded, &ids[n])), ["rejected"; 4]);
  let audit = guarded.json(&["audit", "--event", "rejected", "--json"]);
  let reasons = audit.as_array().unwrap().iter().map(|one| one["detail"].as_str().unwrap());
  assert!(reasons.clone().all(|detail| detail.contains("not mine")), "{audit}");

  let (guarded, ids) = poisoned(2);
  let output = piped(&guarded, &[], "r\nR\n\n");
  assert!(output.stdout.contains("Reject 1 item of this file"), "{}", output.stdout);
  assert_eq!([0, 1].map(|n| status_of(&guarded, &ids[n])), ["rejected", "quarantined"]);
}

#[test]
fn filters_choose_what_is_decided_and_reviewed() {
  let (guarded, ids) = poisoned(3);
  // Nothing is decided where a filter chooses nothing, or where nobody is there to ask.
  let none = guarded.memfw(&["reject", "--effect", "promotion"]);
  assert!(none.status == 2 && none.stderr.contains("no item is like that"), "{none:?}");
  let asked = guarded.memfw(&["reject", "--code", "exfiltration-endpoint"]);
  assert!(
    asked.status == 2 && asked.stderr.contains("3 items would be decided about"),
    "{asked:?}"
  );
  assert_eq!(guarded.waiting().len(), 3);
  let other = guarded.memfw(&["approve", "--file", "memory/other.md", "--yes"]);
  assert_eq!(other.status, 2, "{other:?}");
  // A review has only the chosen items.
  let shown =
    piped(&guarded, &["--code", "exfiltration-endpoint", "--trust", "untrusted"], "r\nq\n");
  assert!(shown.stdout.contains("[1 of 3]"), "{}", shown.stdout);
  assert_eq!(status_of(&guarded, &ids[0]), "rejected");
  let source =
    ["approve", "--source", "unknown", "--file", "MEMORY.md", "--yes", "--reason", "mine"];
  let said = guarded.ok(&source);
  assert!(
    said.contains(&format!("to take this back: `memfw undo {} {}`", ids[1], ids[2])),
    "{said}"
  );
  assert_eq!([0, 1, 2].map(|n| status_of(&guarded, &ids[n])), ["rejected", "approved", "approved"]);
  // One item needs no question, and an effect is the code of a source without the right to it.
  guarded.ok(&["undo", &ids[1]]);
  let codes = guarded.waiting()[0]["codes"].to_string();
  let foreign = codes.split('"').find_map(|code| code.strip_prefix("foreign-"));
  if let Some(effect) = foreign.filter(|effect| *effect != "order") {
    guarded.ok(&["reject", "--effect", effect]);
  } else {
    guarded.ok(&["reject", "--status", "quarantined"]);
  }
  assert!(guarded.waiting().is_empty());
}

#[test]
fn what_is_deleted_is_gone_for_good() {
  let (guarded, ids) = poisoned(2);
  let refused = guarded.memfw(&["quarantine", "delete", &ids[0]]);
  assert_eq!(refused.status, 2, "nobody was there to ask: {refused:?}");
  assert!(refused.stderr.contains("nothing was deleted"), "{refused:?}");
  assert_eq!(status_of(&guarded, &ids[0]), "quarantined");
  let line = format!("{}: deleted; its record stays\n", ids[0]);
  assert_eq!(guarded.ok(&["quarantine", "delete", "--yes", &ids[0]]), line);
  let shown = guarded.json(&["quarantine", "show", &ids[0], "--json"]);
  assert_eq!((&shown[0]["status"], &shown[0]["text"]), (&"forgotten".into(), &Value::Null));
  let file = String::from_utf8(guarded.read("MEMORY.md")).unwrap();
  assert!(!file.contains(&ids[0]) && file.contains(&ids[1]), "its placeholder went: {file}");
  for verb in ["approve", "delete"] {
    let args = ["quarantine", verb, &ids[0], "--yes"];
    let again = guarded.memfw(if verb == "approve" { &args[..3] } else { &args[..] });
    assert_eq!(again.status, 2, "{again:?}");
  }
  guarded.ok(&["quarantine", "approve", &ids[1]]);
  let refused = guarded.memfw(&["quarantine", "delete", "--yes", &ids[1]]);
  assert!(refused.stderr.contains("take it out first"), "{refused:?}");
  // The suggested command works, although lines have moved.
  let hint =
    refused.stderr.split('`').find(|part| part.starts_with("memfw quarantine add")).unwrap();
  guarded.ok(&hint.split(' ').skip(1).collect::<Vec<_>>());
  assert!(guarded.holding("workspace", &needle(1)).is_empty());
  let deleted = guarded.json(&["audit", "--event", "deleted", "--json"]);
  assert_eq!(deleted.as_array().unwrap().len(), 1);
}

#[test]
fn a_word_for_a_source_is_listed_and_taken_back() {
  let (guarded, _) = poisoned(1);
  let source = "web_fetch:docs.example.com";
  let args = ["policy", "allow", source, "url-reference", "key-path", "--reason", "ours"];
  assert_eq!(guarded.ok(&args), format!("{source}: allowed url-reference key-path\n"));
  let list = guarded.json(&["policy", "check", "--json"]);
  let names: Vec<&str> =
    list.as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
  let [path, url] = [format!("{source}:key-path"), format!("{source}:url-reference")];
  assert_eq!(names, [path.as_str(), url.as_str()]);
  assert_eq!((&list[0]["source"], &list[0]["reason"]), (&source.into(), &"ours".into()));
  assert!(guarded.ok(&["policy", "check"]).contains(&url));
  let gone = guarded.ok(&["policy", "withdraw", &url]);
  assert!(gone.starts_with(&format!("{url}: withdrawn")), "{gone}");
  assert_eq!(guarded.json(&["policy", "check", "--json"]).as_array().unwrap().len(), 1);
  assert_eq!(guarded.memfw(&["policy", "withdraw", &url]).status, 2);
  let refused = guarded.memfw(&["policy", "allow", "unknown", "url-reference"]);
  assert!(refused.status == 2 && refused.stderr.contains("identifies nobody"), "{refused:?}");
  let refused = guarded.memfw(&["policy", "allow", source, "url-referense"]);
  assert_eq!(refused.status, 2, "{refused:?}");
}

#[test]
fn an_item_and_a_code_are_explained() {
  let (guarded, ids) = poisoned(1);
  let explained = guarded.ok(&["explain", &ids[0]]);
  for part in [
    format!("{}  quarantined\n", ids[0]),
    "  source  unknown, untrusted\n".to_owned(),
    "  how     nothing on record\n".to_owned(),
    "  found   exfiltration-endpoint: a ".to_owned(),
    "  policy  trust untrusted, no record identifies the source, sensitivity medium\n".to_owned(),
    format!("  next    memfw review {}\n", ids[0]),
  ] {
    assert!(explained.contains(&part), "`{part}` is not in:\n{explained}");
  }
  assert!(!explained.contains(&needle(0)), "it tells no text: {explained}");
  let value = guarded.json(&["explain", &ids[0][..4], "--json"]);
  assert_eq!(
    (&value["id"], &value["trust_by_rules"]),
    (&ids[0].as_str().into(), &"untrusted".into())
  );
  let found = value["findings"].as_array().unwrap();
  assert!(found.iter().any(|one| one["alone"] == "quarantine"), "{value}");
  let page = guarded.ok(&["explain", "exfiltration-endpoint"]);
  let title = "exfiltration-endpoint  sends data to an outside destination\n";
  assert!(page.starts_with(title), "{page}");
  assert!(page.contains("Example:") && page.contains("  rule    "), "{page}");
  let unknown = guarded.memfw(&["explain", "exfiltration-endpiont"]);
  assert_eq!(unknown.status, 2);
  assert!(unknown.stderr.contains("`exfiltration-endpoint`"), "{unknown:?}");
}

#[test]
fn an_id_in_a_marker_is_explained() {
  let mut guarded = Guarded::new(AT_ONCE).memory("MEMORY.md", "# Notes\n");
  guarded.start();
  let text = "# Notes\n\n- Ann likes tea.\n- Bob likes coffee.\n";
  std::fs::write(guarded.path("MEMORY.md"), text).unwrap();
  guarded.settle();
  let text = String::from_utf8(guarded.read("MEMORY.md")).unwrap();
  let id = text.split("memfw:id=").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
  for typed in [id.to_owned(), format!("id={id}"), format!("memfw:id={id}"), id[..5].to_owned()] {
    let explained = guarded.ok(&["explain", &typed]);
    for part in [
      format!("{id}  validated\n"),
      format!("  marker  {id}, shared with other blocks of one source\n"),
      "  source  unknown, untrusted\n".to_owned(),
      "/MEMORY.md:5\n".to_owned(),
    ] {
      assert!(explained.contains(&part), "`{part}` is not in:\n{explained}");
    }
    let listed = guarded.ok(&["provenance", &typed]);
    assert!(listed.contains(id) && listed.lines().count() > 2, "{listed}");
  }
  let value = guarded.json(&["explain", id, "--json"]);
  assert_eq!((&value["id"], value["blocks"].as_array().unwrap().len()), (&id.into(), 2), "{value}");
  let listed = guarded.json(&["provenance", id, "--json"]);
  let listed = listed.as_array().unwrap();
  assert_eq!(listed.len(), 3, "the heading has a source of its own: {listed:?}");
  // Ids are drawn at random, so which beginning no id has differs from run to run.
  let begins =
    |digit: &u8| listed.iter().any(|row| row["id"].as_str().unwrap().as_bytes()[0] == *digit);
  let unknown = char::from(*b"0123456789".iter().find(|digit| !begins(digit)).unwrap());
  assert_eq!(guarded.memfw(&["explain", &format!("id={unknown}")]).status, 2);
}
