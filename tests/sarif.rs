//! SARIF output, held against what the schema of SARIF 2.1.0 demands of the objects that memfw writes.
//!
//! The schema itself is not part of this repository. The checks below are its rules for these objects, with
//! one that is stricter: a property that they do not name is a mistake.

use {
  crate::support::{Guarded, NEVER, Test, clean, eventually, id, needle, poison},
  regex::Regex,
  serde_json::Value,
};

/// What a property has to be.
enum Is {
  /// A string that is not empty.
  Text,
  /// One of these.
  Word(&'static [&'static str]),
  /// A URI reference.
  Uri,
  /// A whole number from this one on.
  From(i64),
  Bool,
  /// An object of this shape.
  Object(&'static Shape),
  /// An array of such objects.
  List(&'static Shape),
  /// An object of strings.
  Strings,
  /// An object with anything in it.
  Bag,
}

/// The properties of an object, and which of them it must have.
struct Shape {
  properties: &'static [(&'static str, Is)],
  required: &'static [&'static str],
}

const LEVELS: Is = Is::Word(&["none", "note", "warning", "error"]);

const LOG: Shape = Shape {
  properties: &[("$schema", Is::Uri), ("version", Is::Word(&["2.1.0"])), ("runs", Is::List(&RUN))],
  required: &["$schema", "version", "runs"],
};
const RUN: Shape = Shape {
  properties: &[
    ("tool", Is::Object(&TOOL)),
    ("columnKind", Is::Word(&["utf16CodeUnits", "unicodeCodePoints"])),
    ("invocations", Is::List(&INVOCATION)),
    ("results", Is::List(&RESULT)),
  ],
  required: &["tool", "results", "columnKind", "invocations"],
};
const TOOL: Shape = Shape { properties: &[("driver", Is::Object(&DRIVER))], required: &["driver"] };
const DRIVER: Shape = Shape {
  properties: &[
    ("name", Is::Text),
    ("version", Is::Text),
    ("semanticVersion", Is::Text),
    ("rules", Is::List(&RULE)),
  ],
  required: &["name", "version", "semanticVersion", "rules"],
};
const RULE: Shape = Shape {
  properties: &[
    ("id", Is::Text),
    ("shortDescription", Is::Object(&MESSAGE)),
    ("fullDescription", Is::Object(&MESSAGE)),
    ("help", Is::Object(&MESSAGE)),
    ("defaultConfiguration", Is::Object(&CONFIGURATION)),
    ("properties", Is::Bag),
  ],
  required: &["id", "shortDescription", "fullDescription", "help"],
};
const MESSAGE: Shape = Shape { properties: &[("text", Is::Text)], required: &["text"] };
const CONFIGURATION: Shape = Shape { properties: &[("level", LEVELS)], required: &["level"] };
const INVOCATION: Shape =
  Shape { properties: &[("executionSuccessful", Is::Bool)], required: &["executionSuccessful"] };
const RESULT: Shape = Shape {
  properties: &[
    ("ruleId", Is::Text),
    ("ruleIndex", Is::From(0)),
    ("level", LEVELS),
    ("message", Is::Object(&MESSAGE)),
    ("locations", Is::List(&LOCATION)),
    ("partialFingerprints", Is::Strings),
    ("suppressions", Is::List(&SUPPRESSION)),
    ("properties", Is::Bag),
  ],
  required: &["ruleId", "ruleIndex", "level", "message", "locations", "partialFingerprints"],
};
const LOCATION: Shape = Shape {
  properties: &[("physicalLocation", Is::Object(&PHYSICAL))],
  required: &["physicalLocation"],
};
const PHYSICAL: Shape = Shape {
  properties: &[("artifactLocation", Is::Object(&ARTIFACT)), ("region", Is::Object(&REGION))],
  required: &["artifactLocation", "region"],
};
const ARTIFACT: Shape = Shape {
  properties: &[("uri", Is::Uri), ("uriBaseId", Is::Word(&["%SRCROOT%"]))],
  required: &["uri"],
};
const REGION: Shape = Shape {
  properties: &[
    ("startLine", Is::From(1)),
    ("startColumn", Is::From(1)),
    ("endLine", Is::From(1)),
    ("endColumn", Is::From(1)),
  ],
  required: &["startLine"],
};
const SUPPRESSION: Shape = Shape {
  properties: &[
    ("kind", Is::Word(&["inSource", "external"])),
    ("status", Is::Word(&["accepted", "underReview", "rejected"])),
  ],
  required: &["kind"],
};

/// What is wrong with a value that is to be this, with where it stands.
fn wrong(value: &Value, is: &Is, at: &str) -> Vec<String> {
  let one = |holds: bool, what: &str| {
    if holds { vec![] } else { vec![format!("{at}: {value} is {what}")] }
  };
  let uri = Regex::new(r"^(?:[A-Za-z0-9\-._~!$&'()*+,;=:@/?#]|%[0-9A-F]{2})+$").unwrap();
  match is {
    Is::Text => one(value.as_str().is_some_and(|text| !text.is_empty()), "no text"),
    Is::Word(words) => {
      one(value.as_str().is_some_and(|word| words.contains(&word)), "none of the words")
    }
    Is::Uri => one(value.as_str().is_some_and(|text| uri.is_match(text)), "no URI reference"),
    Is::From(least) => one(value.as_i64().is_some_and(|number| number >= *least), "too small"),
    Is::Bool => one(value.is_boolean(), "neither true nor false"),
    Is::Bag => one(value.is_object(), "no object"),
    Is::Strings => one(
      value.as_object().is_some_and(|object| object.values().all(Value::is_string)),
      "no object of strings",
    ),
    Is::List(shape) => match value.as_array() {
      None => one(false, "no array"),
      Some(list) => list
        .iter()
        .enumerate()
        .flat_map(|(index, item)| wrong(item, &Is::Object(shape), &format!("{at}[{index}]")))
        .collect(),
    },
    Is::Object(shape) => {
      let Some(object) = value.as_object() else { return one(false, "no object") };
      let mut found: Vec<String> = shape
        .required
        .iter()
        .filter(|name| !object.contains_key(**name))
        .map(|name| format!("{at} has no `{name}`"))
        .collect();
      for (name, value) in object {
        match shape.properties.iter().find(|(known, _)| known == name) {
          Some((_, is)) => found.extend(wrong(value, is, &format!("{at}.{name}"))),
          None => found.push(format!("{at} has a `{name}`")),
        }
      }
      found
    }
  }
}

/// The results of a log that holds.
#[track_caller]
fn results(log: &Value) -> Vec<Value> {
  assert_eq!(wrong(log, &Is::Object(&LOG), "log"), [""; 0]);
  let run = &log["runs"][0];
  let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
  let results = run["results"].as_array().unwrap().clone();
  for result in &results {
    let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
    assert_eq!(rules[index]["id"], result["ruleId"], "{result}");
    let region = &result["locations"][0]["physicalLocation"]["region"];
    let end = region["endLine"].as_u64().unwrap_or(u64::MAX);
    assert!(region["startLine"].as_u64().unwrap() <= end, "{region}");
  }
  results
}

#[test]
fn a_scan_tells_codes_and_places_and_no_text() {
  let test = Test::new()
    .memory("MEMORY.md", format!("# Notes\n\n{}\n\n{}\n", clean(1), poison(1)))
    .memory("memory/a b.md", format!("{}\n", poison(2)))
    .memory("memory/clean.md", format!("{}\n", clean(2)));
  let output = test.next().args(["scan", "--sarif", "."]).output();
  assert_eq!((output.status, output.stderr.as_str()), (1, ""), "{output:?}");
  assert!(!output.stdout.contains(&needle(1)) && !output.stdout.contains("SSH keys"));
  let found = results(&serde_json::from_str(&output.stdout).unwrap());
  let place = |result: &Value| {
    let place = &result["locations"][0]["physicalLocation"];
    let uri = place["artifactLocation"]["uri"].as_str().unwrap().to_owned();
    (uri, place["region"]["startLine"].as_u64().unwrap())
  };
  let error = |result: &&Value| result["level"] == "error";
  let errors: Vec<(String, u64)> = found.iter().filter(error).map(place).collect();
  assert!(errors.contains(&("MEMORY.md".to_owned(), 5)), "{errors:?}");
  assert!(errors.contains(&("memory/a%20b.md".to_owned(), 1)), "{errors:?}");
  assert!(errors.iter().all(|(file, _)| file != "memory/clean.md"));
  let exfiltration = found.iter().find(|one| one["ruleId"] == "exfiltration-endpoint").unwrap();
  let region = &exfiltration["locations"][0]["physicalLocation"]["region"];
  assert!(region["endColumn"].as_u64() > region["startColumn"].as_u64(), "{region}");

  let clean = test.next().args(["scan", "--sarif", "memory/clean.md"]).json();
  assert_eq!(results(&clean), [Value::Null; 0]);
  let piped = test.next().args(["scan", "--sarif"]).stdin(poison(1)).status(1).json();
  assert!(!results(&piped).is_empty());
}

#[test]
fn an_export_tells_items_and_their_text_only_when_asked() {
  let mut guarded = Guarded::new(NEVER).memory("MEMORY.md", "# Memory\n\n- old\n");
  guarded.start();
  let text = format!("# Memory\n\n- old\n\n{}\n\n- between\n\n{}\n", poison(1), poison(2));
  std::fs::write(guarded.path("MEMORY.md"), text).unwrap();
  eventually("both wait", || guarded.waiting().len() == 2);
  guarded.stop();
  let items = guarded.waiting();
  guarded.ok(&["quarantine", "approve", id(&items[0])]);

  let log = guarded.json(&["quarantine", "export", "--format", "sarif"]);
  let found = results(&log);
  let of = |item: &Value| found.iter().filter(|one| one["properties"]["id"] == item["id"]).count();
  assert_eq!(
    [of(&items[0]), of(&items[1])],
    [&items[0], &items[1]].map(|item| { item["codes"].as_array().unwrap().len() })
  );
  for result in &found {
    let is_approved = result["properties"]["id"] == items[0]["id"];
    assert_eq!(result.get("suppressions").is_some(), is_approved, "{result}");
    let uri = &result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"];
    assert!(uri.as_str().unwrap().starts_with("file:///"), "{uri}");
  }

  let plain = guarded.ok(&["quarantine", "export", "--status", "quarantined"]);
  assert!(!plain.contains(&needle(1)) && !plain.contains(&needle(2)));
  let plain: Value = serde_json::from_str(&plain).unwrap();
  assert_eq!(plain.as_array().unwrap().len(), 1);
  assert!(
    plain[0]["content_hash"].as_str().unwrap().len() == 64 && plain[0]["findings"].is_array()
  );
  let with_text = guarded.json(&["quarantine", "export", "--with-text", id(&items[1])]);
  assert!(with_text[0]["text"].as_str().unwrap().contains("SSH keys"), "{with_text}");
  let refused = guarded.memfw(&["quarantine", "export", "--with-text", "--format", "sarif"]);
  assert_eq!(refused.status, 2, "{refused:?}");
}

#[test]
fn the_hook_of_this_repository_names_a_command_that_there_is() {
  let hooks = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(".pre-commit-hooks.yaml");
  let hooks = std::fs::read_to_string(hooks).unwrap();
  let entry = hooks.lines().find_map(|line| line.trim().strip_prefix("entry: ")).unwrap();
  let mut words: Vec<&str> = entry.split_whitespace().collect();
  assert_eq!(words[0], "memfw");
  let args = hooks.lines().find_map(|line| line.trim().strip_prefix("args: ["));
  words.push(args.unwrap().trim_end_matches(']'));
  let files = ["memory/a.md", "memory/b.md"];
  let test = Test::new().memory(files[0], "- Ann likes tea.\n").memory(files[1], poison(1));
  let output = test.next().args(&words[1..]).args(files).output();
  assert_eq!(output.status, 1, "{output:?}");
  assert!(output.stdout.starts_with("memory/b.md:1: quarantine "), "{output:?}");
  assert_eq!(test.next().args(&words[1..]).args(&files[..1]).output().status, 0);
  let pattern = hooks.lines().find_map(|line| line.trim().strip_prefix("files: ")).unwrap();
  let pattern = Regex::new(pattern.trim_matches('\'')).unwrap();
  for file in ["MEMORY.md", "memory/2026-11-21.md", "agent/memory/x.md", "agent/DREAMS.md"] {
    assert!(pattern.is_match(file), "{file}");
  }
  for file in ["README.md", "src/memory/mod.rs", "memory.md.txt", "AGENTS.md"] {
    assert!(!pattern.is_match(file), "{file}");
  }
}

#[test]
fn what_is_only_flagged_need_not_fail() {
  let flagged = "- There is a hidden instruction in the file.\n";
  for (text, fail_on, status) in [
    (flagged, "flag", 1),
    (flagged, "quarantine", 0),
    (poison(1).as_str(), "quarantine", 1),
    (clean(1).as_str(), "flag", 0),
  ] {
    let output = Test::new().args(["scan", "--fail-on", fail_on]).stdin(text).output();
    assert_eq!(output.status, status, "{text} {fail_on}: {output:?}");
    assert!(!output.stdout.is_empty());
  }
}

#[test]
fn a_property_that_is_none_is_noticed() {
  let log = serde_json::json!({ "$schema": "a b", "version": "2.0", "run": [] });
  let found = wrong(&log, &Is::Object(&LOG), "log");
  assert_eq!(found.len(), 4, "{found:?}");
}
