//! `memfw status --short` for prompts, and `memfw stats --prometheus` for monitoring.

use {
  crate::support::{Guarded, NEVER, Test, Writer, clean, needle, poison},
  std::{
    collections::{BTreeMap, HashSet},
    fs,
    os::unix::fs::PermissionsExt as _,
    time::Instant,
  },
};

fn guarded() -> Guarded {
  let mut guarded = Guarded::new(NEVER).memory("MEMORY.md", format!("{}\n", clean(1)));
  guarded.start();
  guarded
}

/// The samples of a text by name and labels, after a check of the whole text against the grammar of the text
/// exposition format (https://prometheus.io/docs/instrumenting/exposition_formats/).
#[track_caller]
fn samples(text: &str) -> BTreeMap<String, f64> {
  assert!(text.ends_with('\n'), "the last line must end");
  let is_name = |name: &str| {
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_' || c == ':')
      && chars.all(|c| c.is_ascii_alphanumeric() || c == '_' || c == ':')
  };
  let mut found = BTreeMap::new();
  let mut declared: HashSet<String> = HashSet::new();
  let (mut helped, mut typed) = (String::new(), String::new());
  for line in text.lines() {
    if let Some(rest) = line.strip_prefix("# HELP ") {
      let (name, help) = rest.split_once(' ').unwrap_or_else(|| panic!("no help: {line}"));
      assert!(is_name(name) && !help.is_empty(), "{line}");
      assert!(declared.insert(name.to_owned()), "the lines of a metric are one group: {line}");
      helped = name.to_owned();
    } else if let Some(rest) = line.strip_prefix("# TYPE ") {
      let (name, kind) = rest.split_once(' ').unwrap();
      assert_eq!(name, helped, "{line}");
      assert!(["counter", "gauge", "histogram", "summary", "untyped"].contains(&kind), "{line}");
      typed = name.to_owned();
    } else {
      let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no value: {line}"));
      let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
      assert!(is_name(name) && name == typed, "a sample below its type: {line}");
      for label in labels.strip_suffix('}').unwrap().split(',').filter(|one| !one.is_empty()) {
        let (key, quoted) = label.split_once('=').unwrap();
        let inside = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap();
        assert!(is_name(key) && !key.contains(':') && !inside.contains('"'), "{line}");
      }
      let value: f64 = value.parse().unwrap_or_else(|_| panic!("no number: {line}"));
      assert!(found.insert(series.to_owned(), value).is_none(), "twice: {line}");
    }
  }
  found
}

#[test]
fn metrics_are_in_the_exposition_format_and_have_no_text() {
  let mut guarded = guarded();
  Writer::Shell.add(&guarded.path("MEMORY.md"), format!("\n{}\n", poison(1)).as_bytes());
  guarded.wait_for_items(1);
  let text = guarded.ok(&["stats", "--prometheus"]);
  let found = samples(&text);
  let value = |name: &str| found.get(&format!("memfw_{name}")).copied();
  assert_eq!(value("guarding"), Some(1.0), "{text}");
  assert_eq!(value("degradations"), Some(0.0), "{text}");
  assert_eq!(value("files"), Some(1.0), "{text}");
  assert_eq!(value("items_waiting{place=\"out\"}"), Some(1.0), "{text}");
  assert_eq!(value("items_waiting{place=\"in_file\"}"), Some(0.0), "{text}");
  assert_eq!(value("events_last_day{event=\"quarantined\"}"), Some(1.0), "{text}");
  assert_eq!(value("events_last_day{event=\"approved\"}"), Some(0.0), "{text}");
  assert_eq!(value("exposure_redactions"), Some(1.0), "{text}");
  assert!(value("exposure_p50_seconds").is_some_and(|time| time > 0.0 && time < 60.0), "{text}");
  assert!(!text.contains(&needle(1)) && !text.contains("MEMORY.md"), "{text}");
  guarded.stop();
  let found = samples(&guarded.ok(&["stats", "--prometheus"]));
  assert_eq!(found.get("memfw_guarding").copied(), Some(0.0));
  assert!(found["memfw_degradations"] >= 1.0);
}

#[test]
fn metrics_are_written_whole_for_another_user_to_read() {
  let guarded = guarded();
  let path = guarded.tmp().join("memfw.prom");
  let file = path.to_str().unwrap();
  for _ in 0..2 {
    assert!(guarded.ok(&["stats", "--prometheus", "--output", file]).starts_with("written to "));
    samples(&fs::read_to_string(&path).unwrap());
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o644);
  }
  let output = guarded.memfw(&["stats", "--prometheus", "--output", "[TMP]/metrics.txt"]);
  assert_eq!(output.status, 2);
  assert!(output.stderr.contains("does not end in `.prom`"), "{output:?}");
  fs::write(&path, "mine 1\n").unwrap();
  let output = guarded.memfw(&["stats", "--prometheus", "--output", file]);
  assert_eq!((output.status, output.stdout.as_str()), (2, ""), "{output:?}");
  assert_eq!(fs::read_to_string(&path).unwrap(), "mine 1\n");
}

#[test]
fn the_short_status_is_one_line_and_its_status_says_the_same() {
  let mut guarded = guarded();
  let short = |guarded: &Guarded| {
    let output = guarded.memfw(&["status", "--short"]);
    assert_eq!(output.stderr, "", "{output:?}");
    (output.stdout, output.status)
  };
  assert_eq!(short(&guarded), ("memfw: ok\n".to_owned(), 0));
  Writer::Shell.add(&guarded.path("MEMORY.md"), format!("\n{}\n", poison(1)).as_bytes());
  guarded.wait_for_items(1);
  assert_eq!(short(&guarded), ("memfw: ok, 1 waiting\n".to_owned(), 0));
  // A daemon that answers nothing makes nobody wait.
  let mut seen = None;
  let began = Instant::now();
  guarded.while_stopped(|| seen = Some(short(&guarded)));
  assert_eq!(seen, Some(("memfw: stopped, 1 waiting\n".to_owned(), 1)));
  assert!(began.elapsed() < crate::support::DEADLINE);
  guarded.stop();
  assert_eq!(short(&guarded), ("memfw: stopped, 1 waiting\n".to_owned(), 1));
}

#[test]
fn the_short_status_knows_nothing_guarded_and_nothing_readable() {
  Test::new().args(["status", "--short"]).stdout("memfw: off\n").status(1).run();
  let output = Test::new()
    .write("memfw/data/ledger.sqlite", "this is no database, and longer than a header of one is")
    .args(["status", "--short"])
    .output();
  assert_eq!((output.status, output.stdout.as_str()), (2, "memfw: unknown\n"), "{output:?}");
  assert!(output.stderr.starts_with("error: "), "{output:?}");
}
