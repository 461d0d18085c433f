//! A part of an item is approved: by a command, in a review, and when the process is killed in between.

use {
  crate::support::{AT_ONCE, Guarded, NEVER, Writer, marks, needle, poison},
  memfw::{
    failpoint::{Point, VARIABLE},
    os::WriteLock,
  },
  std::time::Duration,
};

const PATIENCE: Duration = Duration::from_secs(10);

const FILE: &str = "MEMORY.md";

/// An entry of three lines, of which the second is poison.
fn entry() -> String {
  format!("- Ann likes the window seat.\n  {}\n  The train leaves at nine.\n", sentence())
}

fn sentence() -> String {
  poison(1).trim_start_matches("- ").trim_end().to_owned()
}

fn file_of(middle: &str) -> String {
  format!("# Memory\n\n- old\n{middle}- new\n")
}

/// A workspace from which the entry was taken out, its daemon, and the id of the item.
fn guarded(config: &str, text: &str) -> (Guarded, String) {
  let mut guarded = Guarded::new(config).memory(FILE, file_of(text));
  guarded.start();
  guarded.ok(&["quarantine", "add", &format!("{FILE}:4")]);
  if config == AT_ONCE {
    guarded.settle();
  }
  let waiting = guarded.waiting();
  let [item] = &waiting[..] else { panic!("{waiting:?}") };
  let id = item["id"].as_str().unwrap().to_owned();
  (guarded, id)
}

fn bare(guarded: &Guarded) -> String {
  String::from_utf8(marks::strip(&guarded.read(FILE))).unwrap()
}

fn compact(id: &str) -> String {
  format!("<!-- memfw:{id} quarantined -->\n")
}

fn waiting(guarded: &Guarded) -> Vec<String> {
  guarded.waiting().iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn chosen_lines_come_back_and_the_rest_waits() {
  let (guarded, id) = guarded(AT_ONCE, &entry());
  let before = bare(&guarded);
  let shown = guarded.ok(&["show", &id, "--parts"]);
  for row in
    ["  lines", "     1 | - Ann likes the window seat.", "     3 |   The train leaves at nine."]
  {
    assert!(shown.lines().any(|line| line == row), "{row} in {shown}");
  }
  assert!(
    shown.ends_with(&format!(
      "  next    memfw approve {id} --lines 1\n  next    memfw approve {id} | memfw reject {id}\n"
    )),
    "{shown}"
  );
  let parts = &guarded.json(&["show", &id, "--parts", "--json"])[0];
  assert_eq!(parts["lines"].as_array().unwrap().len(), 3);

  let done = guarded.memfw(&["approve", &id, "--lines", "1,3", "--reason", "ours"]);
  assert_eq!(done.status, 0, "{done:?}");
  let rest = waiting(&guarded);
  assert_eq!(rest.len(), 1, "{rest:?}");
  let expected = format!(
    "{id}: lines 1,3 approved, back in [TMP]/workspace/MEMORY.md; the rest waits as {}\nto take this back: `memfw undo {id}`\n",
    rest[0]
  );
  assert_eq!(done.stdout, expected);
  guarded.settle();
  let entry = entry();
  let lines: Vec<&str> = entry.split_inclusive('\n').collect();
  assert_eq!(bare(&guarded), file_of(&[lines[0], &compact(&rest[0]), lines[2]].concat()));
  let item = &guarded.json(&["show", &rest[0], "--json"])[0];
  assert_eq!((item["part_of"].as_str(), item["part_offset"].as_u64()), (Some(&*id), Some(29)));
  assert_eq!(item["text"], lines[1]);
  let whole = &guarded.json(&["show", &id, "--json"])[0];
  assert_eq!((whole["status"].as_str(), whole["text"].as_str()), (Some("split"), Some(&*entry)));
  assert_eq!(whole["parts"].as_array().unwrap().len(), 3);
  let shown = guarded.ok(&["show", &id]);
  assert!(shown.contains(&format!("{} quarantined, {} bytes", rest[0], lines[1].len())), "{shown}");
  let audit = guarded.json(&["audit", "--event", "approved", "--json"]);
  let detail = audit[0]["detail"].as_str().unwrap();
  assert!(detail.contains(&format!("a part of {id}")) && detail.ends_with(": ours"), "{detail}");

  let done = guarded.memfw(&["undo"]);
  assert_eq!(done.status, 0, "{done:?}");
  guarded.settle();
  assert_eq!((bare(&guarded), waiting(&guarded)), (before, vec![id]));
}

#[test]
fn sentences_come_back_to_their_line() {
  let text = format!("- Ann likes the window seat. {} The train leaves at nine.\n", sentence());
  let (guarded, id) = guarded(AT_ONCE, &text);
  let shown = guarded.ok(&["show", &id, "--parts"]);
  let n =
    guarded.json(&["show", &id, "--parts", "--json"])[0]["sentences"].as_array().unwrap().len();
  assert!(shown.contains(&format!("next    memfw approve {id} --sentences 1\n")), "{shown}");
  guarded.ok(&["approve", &id, "--sentences", &format!("1,{n}")]);
  guarded.settle();
  let now = bare(&guarded);
  assert!(now.contains("- Ann likes the window seat. <!-- memfw:"), "{now}");
  assert!(now.contains("-->The train leaves at nine.\n"), "{now}");
  assert!(!now.contains(&needle(1)), "{now}");
  let rest = waiting(&guarded);
  guarded.ok(&["approve", &rest[0]]);
  guarded.settle();
  assert_eq!(bare(&guarded), file_of(&text));
}

#[test]
fn what_cannot_be_approved_in_part_is_said_with_what_to_do() {
  let (guarded, id) = guarded(NEVER, &entry());
  let refused = |args: &[&str]| {
    let output = guarded.memfw(args);
    assert_eq!((output.status, output.stdout.as_str()), (2, ""), "{output:?}");
    output.stderr
  };
  for (args, says, hint) in [
    (vec!["approve", &id, "--lines", "4"], "has 3 lines, and no line 4", "--parts`"),
    (
      vec!["approve", &id, "--lines", "1-3"],
      "these are all lines of",
      "as a whole: `memfw approve",
    ),
    (vec!["approve", &id, "--lines", "x"], "not numbers such as `1,3-4`", ""),
    (vec!["approve", &id, &id, "--lines", "1"], "`--lines` is about one item", "name it"),
    (vec!["approve", "--file", FILE, "--lines", "1"], "`--lines` is about one item", "name it"),
    (vec!["approve", &id, "--lines", "1", "--at-end"], "cannot be used with", ""),
    (vec!["approve", &id, "--lines", "1", "--sentences", "1"], "cannot be used with", ""),
  ] {
    let error = refused(&args);
    assert!(error.contains(says) && error.contains(hint), "{args:?}: {error}");
  }
  guarded.ok(&["reject", &id]);
  let error = refused(&["approve", &id, "--lines", "1"]);
  assert!(error.contains("is already rejected"), "{error}");
}

#[test]
fn a_flagged_item_is_in_its_file_and_has_no_parts_to_give_back() {
  let mut guarded = Guarded::new(NEVER).memory(FILE, file_of(&entry()));
  guarded.start();
  guarded.stop();
  let flagged = guarded.listed("flagged");
  let id = flagged[0]["id"].as_str().unwrap();
  let output = guarded.memfw(&["approve", id, "--lines", "1"]);
  assert_eq!(output.status, 2);
  for says in ["is flagged, and all of it is in", &format!("memfw quarantine add {id}")] {
    assert!(output.stderr.contains(says), "{output:?}");
  }
  // Its words are in its file, and are shown from there.
  let shown = guarded.ok(&["show", id, "--parts"]);
  let next = format!("next    memfw approve {id} | memfw quarantine add {id}");
  assert!(shown.contains("  text\n    | ") && shown.contains(&next), "{shown}");
  let json = &guarded.json(&["show", id, "--json", "--parts"])[0];
  assert!(entry().contains(json["text"].as_str().unwrap().trim()), "{json}");
  assert!(json.get("lines").is_none(), "{json}");
  std::fs::write(guarded.path(FILE), "# Other\n").unwrap();
  let shown = guarded.ok(&["show", id]);
  assert!(shown.contains("text    not found: its file has changed"), "{shown}");
}

#[test]
fn a_key_of_the_review_restores_a_part_and_goes_on_with_the_rest() {
  let (guarded, id) = guarded(NEVER, &entry());
  let Some(mut terminal) = guarded.on_terminal("xterm", &["review"]) else { return };
  terminal.expect(" quit");
  terminal.press(b"p");
  let shown = terminal.expect("- not now) ");
  assert!(shown.contains("Ann likes the window seat."), "{shown}");
  terminal.enter("4");
  terminal.expect("there is no line 4");
  terminal.enter("1,3");
  let shown = terminal.expect("Restore this part? (y, Enter: no) ");
  let (back, out) = shown.split_once("Stays out").unwrap();
  assert!(back.contains("window seat") && back.contains("at nine"), "{shown}");
  assert!(out.contains("2 |") && !out.contains("at nine"), "{shown}");
  terminal.enter("y");
  terminal.expect(&format!("{id}: lines 1,3 approved, back in"));
  terminal.expect("[2 of 2]");
  terminal.expect(" quit");
  // The whole is shown again, and its decision is taken back.
  terminal.press(b"b");
  terminal.expect(" quit");
  terminal.press(b"u");
  terminal.expect(&format!("{id}: undone, quarantined again, out of"));
  terminal.expect(" quit");
  terminal.press(b"q");
  terminal.wait();
  assert_eq!(waiting(&guarded), std::slice::from_ref(&id));

  // The same with lines, and with a no.
  let typed = "p 1\nn\np\ns\n-\np 1,3\ny\nr\n";
  let output = guarded.test().args(["review"]).stdin(typed).output();
  assert_eq!((output.status, output.stderr.as_str()), (0, ""), "{output:?}");
  assert!(output.stdout.contains("sentences come back?"), "{}", output.stdout);
  let end = format!("\n2 items decided\nto take this back: `memfw undo {id} ");
  assert!(output.stdout.contains(&end), "{}", output.stdout);
  assert_eq!((guarded.listed("rejected").len(), guarded.listed("split").len()), (1, 1));
}

#[test]
fn a_part_that_is_deleted_leaves_the_daemon_guarding() {
  let (mut guarded, id) = guarded(AT_ONCE, &entry());
  guarded.ok(&["approve", &id, "--lines", "1,3"]);
  guarded.settle();
  let rest = waiting(&guarded);
  guarded.ok(&["quarantine", "delete", &rest[0], "--yes"]);
  for n in 2..4 {
    Writer::Shell.add(&guarded.path(FILE), poison(n).as_bytes());
    guarded.settle();
    let now = bare(&guarded);
    assert!(!now.contains(&needle(n)), "{now}");
    guarded.stop();
    guarded.start();
  }
  assert_eq!(waiting(&guarded).len(), 2);
}

#[test]
fn of_two_commands_about_one_item_at_one_time_one_decides() {
  let part = |line: &'static str| vec!["approve", "ID", "--lines", line];
  let (all, reject) = (vec!["approve", "ID"], vec!["reject", "ID"]);
  let both = [
    [part("1"), part("3")],
    [part("1"), part("1")],
    [part("1"), all.clone()],
    [all.clone(), part("3")],
    [part("1"), reject.clone()],
    [reject.clone(), part("1")],
    [all.clone(), all.clone()],
    [all, reject],
  ];
  for both in both {
    let (guarded, id) = guarded(AT_ONCE, &entry());
    let before = bare(&guarded);
    let args = both.clone().map(|words| {
      words.into_iter().map(|word| if word == "ID" { id.clone() } else { word.to_owned() })
    });
    // Both are begun while neither can decide.
    let lock = WriteLock::acquire(&guarded.tmp().join("memfw/data"), PATIENCE).unwrap();
    let mut running = args.map(|args| guarded.test().args(args.collect::<Vec<_>>()).start());
    drop(lock);
    let done = [0, 1].map(|at| running[at].wait().code() == Some(0));
    guarded.settle();
    let whole = &guarded.json(&["show", &id, "--json"])[0];
    let status = whole["status"].as_str().unwrap();
    let is_changed_knowingly = both[1][0] == "reject" && both[0].len() == 2;
    assert!(done != [false, false], "{both:?}");
    assert!(done != [true, true] || is_changed_knowingly, "{both:?} {status}");
    let out: String = waiting(&guarded)
      .iter()
      .map(|id| guarded.json(&["show", id, "--json"])[0]["text"].as_str().unwrap().to_owned())
      .collect();
    let now = bare(&guarded);
    for line in entry().lines() {
      let count = now.matches(line).count() + out.matches(line).count();
      assert_eq!(count, usize::from(status != "rejected"), "{both:?} {status}: {now}");
    }
    guarded.ok(&["undo", &id]);
    guarded.settle();
    assert_eq!((bare(&guarded), waiting(&guarded)), (before, vec![id]), "{both:?}");
  }
}

/// The points at which a command may die while it approves a part, or takes that back.
const POINTS: &[Point] = &[
  Point::StoreBeforeCommit,
  Point::StoreAfterCommit,
  Point::ApproveBeforeJournal,
  Point::ApproveAfterJournal,
  Point::ReshapeBefore,
  Point::ReshapeTorn,
  Point::ReshapeAfterWrite,
  Point::ApproveAfterWrite,
  Point::ApproveAfterFollow,
  Point::ApproveAfterRelease,
  Point::ApproveAfterSync,
  Point::ApproveAfterRecord,
  Point::ApproveAfterFinish,
];

/// Runs a command that dies at a point.
fn dies(guarded: &Guarded, args: &[&str], point: Point) {
  let at = format!("{}:1", point.as_str());
  let mut command = guarded.test().args(args).env(VARIABLE, at).start();
  command.wait_for_log(&format!("failpoint {}", point.as_str()));
  command.wait();
  guarded.settle();
}

/// Runs a command that dies at a point, and then once more.
fn twice(guarded: &Guarded, args: &[&str], point: Point, already: &str) {
  dies(guarded, args, point);
  let again = guarded.memfw(args);
  let is_done = again.status == 0 || again.stderr.contains(already);
  assert!(is_done, "{point:?}: {again:?}");
  guarded.settle();
}

#[test]
fn wherever_the_process_dies_nothing_is_lost_and_nothing_is_there_twice() {
  let (guarded, id) = guarded(AT_ONCE, &entry());
  let before = bare(&guarded);
  let entry = entry();
  let lines: Vec<&str> = entry.split_inclusive('\n').collect();
  let decision = [Point::ApproveAfterDecision];
  for point in POINTS.iter().chain(&decision).copied() {
    twice(&guarded, &["approve", &id, "--lines", "1,3"], point, "is divided already");
    let rest = waiting(&guarded);
    assert_eq!(rest.len(), 1, "{point:?}: {rest:?}");
    let expected = file_of(&[lines[0], &compact(&rest[0]), lines[2]].concat());
    assert_eq!(bare(&guarded), expected, "{point:?}");
    assert_eq!(guarded.json(&["show", &rest[0], "--json"])[0]["text"], lines[1], "{point:?}");
    let undo = if POINTS.contains(&point) { point } else { Point::ApproveAfterWrite };
    // Once more would take the take-out itself back.
    dies(&guarded, &["undo", &id], undo);
    if waiting(&guarded) != [id.clone()] {
      guarded.ok(&["undo", &id]);
      guarded.settle();
    }
    assert_eq!(
      (bare(&guarded), waiting(&guarded)),
      (before.clone(), vec![id.clone()]),
      "{point:?}"
    );
    assert_eq!(guarded.json(&["show", &id, "--json"])[0]["text"], entry, "{point:?}");
  }
}
