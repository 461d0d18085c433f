//! How far provenance is written into files: the modes of the configuration, and the shorter form
//! where an agent would read no further than its limit.

use {
  crate::support::{AT_ONCE, Guarded, Writer, clean, marks, poison},
  regex::Regex,
  serde_json::{Value, json},
};

/// Characters of `MEMORY.md` that the agent injects.
const INJECTED: usize = 20_000;

/// A guarded `MEMORY.md` of so many characters, to which clean lines were appended one by one.
fn appended(config: &str, length: usize) -> (Guarded, String) {
  let mut before = "# Memory\n\n".to_owned();
  while before.len() + 40 < length {
    before.push_str("- a line about trains and night trains\n");
  }
  let rest = length - before.len() - "- \n".len();
  before = format!("{before}- {}\n", "x".repeat(rest));
  assert_eq!(before.len(), length);
  let mut guarded = Guarded::new(config).memory("MEMORY.md", &before);
  guarded.start();
  for n in 0..3 {
    Writer::Shell.add(&guarded.path("MEMORY.md"), format!("{}\n", clean(n)).as_bytes());
    guarded.settle();
  }
  let found = guarded.read("MEMORY.md");
  let text: String = (0..3).map(|n| clean(n) + "\n").collect();
  marks::assert_same(&marks::strip(&found), (before + &text).as_bytes(), config);
  (guarded, String::from_utf8(found).unwrap())
}

/// Fails unless each appended line ends with an id comment.
fn assert_ids(text: &str) {
  let id = Regex::new(r"(?m)^- Ann likes .*\. <!-- memfw:[0-9a-f]{6} -->$").unwrap();
  assert_eq!(id.find_iter(text).count(), 3, "{}", marks::show(text.as_bytes()));
  assert!(!text.contains("memfw:id="));
}

/// Fails unless `status` names the marker mode of the file and the reason.
fn assert_reported(guarded: &Guarded, mode: &str) {
  let what = if mode == "none" { "markers omitted: they" } else { "only short markers: full ones" };
  let why = format!("{what} would exceed the agent's limit of 20,000 characters");
  let status = guarded.json(&["status", "--json"]);
  let told = json!([{ "file": Guarded::named("MEMORY.md"), "mode": mode, "why": why }]);
  assert_eq!((&status["unmarked"], &status["degradations"]), (&told, &json!([])));
  let status = guarded.ok(&["status"]);
  assert!(status.contains(&format!("workspace/MEMORY.md: {why}")), "{status}");
}

#[test]
fn entries_carry_their_id_where_the_configuration_says_so() {
  let (mut guarded, text) = appended(&format!("markers = \"id\"\n{AT_ONCE}"), 500);
  if marks::reshapes(guarded.tmp()) {
    assert_ids(&text);
  }
  // This mode was configured.
  assert_eq!(guarded.json(&["status", "--json"])["unmarked"], json!([]));
  guarded.stop();
}

#[test]
fn nothing_is_marked_where_the_configuration_says_so() {
  let (mut guarded, text) = appended(&format!("markers = \"none\"\n{AT_ONCE}"), 500);
  assert!(!text.contains("memfw"), "{}", marks::show(text.as_bytes()));
  guarded.stop();
}

#[test]
fn wrappers_stay_where_the_configuration_insists() {
  let (mut guarded, text) = appended(&format!("markers = \"wrap\"\n{AT_ONCE}"), INJECTED + 500);
  if marks::reshapes(guarded.tmp()) {
    assert_eq!(text.matches("memfw:id=").count(), 3);
  }
  guarded.stop();
}

#[test]
fn a_file_that_wrappers_would_make_too_long_gets_ids_and_status_says_so() {
  // Three lines of 56 bytes, three ids of 22; three wrappers would need some 94 each.
  let (mut guarded, text) = appended(AT_ONCE, INJECTED - 260);
  if marks::reshapes(guarded.tmp()) {
    assert_ids(&text);
    assert_reported(&guarded, "id");
  }
  guarded.stop();
}

#[test]
fn a_file_that_is_too_long_already_gets_nothing_and_status_says_so() {
  let (mut guarded, text) = appended(AT_ONCE, INJECTED + 500);
  assert!(!text.contains("memfw"), "{}", marks::show(text.as_bytes()));
  if marks::reshapes(guarded.tmp()) {
    assert_reported(&guarded, "none");
  }
  guarded.stop();
}

#[test]
fn only_injected_files_have_a_limit() {
  let long = "- a line about trains and night trains\n".repeat(600);
  let mut guarded = Guarded::new(AT_ONCE).memory("memory/long.md", &long);
  guarded.start();
  Writer::Shell.add(&guarded.path("memory/long.md"), format!("{}\n", clean(1)).as_bytes());
  guarded.settle();
  let found = guarded.read("memory/long.md");
  marks::assert_marked(&guarded.path("memory/long.md"), &found, &clean(1));
  guarded.stop();
}

#[test]
fn markers_follow_what_the_file_becomes() {
  let mut guarded = Guarded::new(AT_ONCE).memory("memory/day.md", "# Day\n\n- old\n");
  let path = guarded.path("memory/day.md");
  guarded.start();
  for n in 0..4 {
    Writer::Shell.add(&path, format!("{}\n", clean(n)).as_bytes());
    guarded.settle();
  }
  // The agent takes a line out, moves one up and changes one, with memfw's comments in between.
  let text = String::from_utf8(marks::strip(&guarded.read("memory/day.md"))).unwrap();
  let text = text.replace(&format!("{}\n", clean(1)), "");
  let text = text.replace(&clean(2), "- Ann likes the aisle seat on day trains.");
  let moved = format!("{}\n- old\n", clean(3));
  let text = text.replace(&format!("{}\n", clean(3)), "").replace("- old\n", &moved);
  std::fs::write(&path, &text).unwrap();
  guarded.settle();
  let found = guarded.read("memory/day.md");
  marks::assert_well_formed(&found);
  marks::assert_same(&marks::strip(&found), text.as_bytes(), "day.md");
  if marks::reshapes(&path) {
    for line in [&clean(0), &clean(3), "- Ann likes the aisle seat on day trains."] {
      assert!(marks::is_wrapped(&found, line), "{line}:\n{}", marks::show(&found));
    }
  }
  // No work is left: a second pass changes no byte.
  guarded.stop();
  guarded.start();
  guarded.settle();
  marks::assert_same(&guarded.read("memory/day.md"), &found, "day.md");
  guarded.stop();
}

/// The source of each line of a file that has one.
fn sources(guarded: &Guarded, file: &str) -> Vec<(u64, String)> {
  let path = guarded.path(file);
  let found = guarded.json(&["provenance", path.to_str().unwrap(), "--json"]);
  let stretches = found.as_array().unwrap().iter().flat_map(|stretch| {
    let number = |key: &str| stretch[key].as_u64().unwrap();
    let source = stretch["source"].as_str().unwrap().to_owned();
    (number("start_line")..=number("end_line")).map(move |line| (line, source.clone()))
  });
  stretches.collect()
}

#[test]
fn a_line_keeps_its_provenance_and_its_marker_below_another_heading() {
  let mut guarded = Guarded::new(AT_ONCE).memory("memory/day.md", "# Day\n\n- old\n");
  let path = guarded.path("memory/day.md");
  guarded.start();
  Writer::Shell.add(&path, format!("{}\n", clean(0)).as_bytes());
  guarded.settle();
  std::fs::write(&path, format!("# Day\n\n{}\n- old\n", clean(0))).unwrap();
  guarded.settle();
  let text = String::from_utf8(guarded.read("memory/day.md")).unwrap();
  let found = sources(&guarded, "memory/day.md");
  for (number, line) in text.lines().enumerate() {
    let source = found.iter().find(|(at, _)| *at == number as u64 + 1).map(|(_, source)| &**source);
    match line {
      "# Day" | "- old" => assert_eq!(source, Some("baseline"), "{line}"),
      line if line == clean(0) => assert_eq!(source, Some("unknown"), "{line}"),
      line if line.starts_with("<!--") => assert_eq!(source, None, "{line}"),
      _ => {}
    }
  }
  if marks::reshapes(&path) {
    assert!(marks::is_wrapped(text.as_bytes(), &clean(0)), "{text}");
    assert!(!marks::is_wrapped(text.as_bytes(), "- old"), "{text}");
  }
  guarded.stop();
}

#[test]
fn lines_are_counted_over_a_placeholder_inside_a_block() {
  let mut guarded = Guarded::new(AT_ONCE).memory("memory/a.md", "# A\n\n- old\n");
  let path = guarded.path("memory/a.md");
  guarded.start();
  std::fs::write(&path, format!("# A\n\n{}\n- old\n", poison(0))).unwrap();
  guarded.settle();
  let text = String::from_utf8(guarded.read("memory/a.md")).unwrap();
  assert!(text.lines().nth(2).unwrap().contains("quarantined"), "{text}");
  let found: Vec<u64> =
    sources(&guarded, "memory/a.md").into_iter().map(|(line, _)| line).collect();
  assert_eq!(found, [1, 2, 4]);
  let at = |line: usize| format!("{}:{line}", path.display());
  assert_eq!(guarded.memfw(&["provenance", &at(4)]).status, 0);
  assert_eq!(guarded.memfw(&["provenance", &at(3)]).status, 1);
  // Text that memfw has not read yet is not shown as the content.
  guarded.stop();
  let current = |guarded: &Guarded| -> Value {
    guarded.json(&["provenance", path.to_str().unwrap(), "--json"])[0]["current"].clone()
  };
  assert_eq!(current(&guarded), json!(true));
  Writer::Shell.add(&path, format!("{}\n", clean(1)).as_bytes());
  assert_eq!(current(&guarded), json!(false));
  let told = guarded.memfw(&["provenance", path.to_str().unwrap()]).stdout;
  assert!(told.starts_with("the file has changed since"), "{told}");
}

#[test]
fn a_marker_that_somebody_changed_says_again_what_the_ledger_says() {
  let mut guarded = Guarded::new(AT_ONCE).memory("memory/day.md", "# Day\n\n- old\n");
  let path = guarded.path("memory/day.md");
  guarded.start();
  Writer::Shell.add(&path, format!("{}\n", clean(0)).as_bytes());
  guarded.settle();
  if marks::reshapes(&path) {
    let text = std::fs::read_to_string(&path).unwrap();
    let lie = text.replace("source=unknown trust=untrusted", "source=user:owner trust=trusted");
    assert_ne!(lie, text);
    std::fs::write(&path, &lie).unwrap();
    guarded.settle();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
  }
  assert!(sources(&guarded, "memory/day.md").iter().all(|(_, source)| source != "user:owner"));
  guarded.stop();
}
