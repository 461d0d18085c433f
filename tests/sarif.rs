//! SARIF output, checked against the schema of SARIF 2.1.0 (`fixtures/sarif`).

use {
  crate::support::{Guarded, NEVER, Test, clean, eventually, id, needle, poison},
  regex::Regex,
  serde_json::Value,
  std::{fs, path::Path},
};

/// The errors of a log by the schema, including formats such as those of addresses.
fn wrong(log: &Value) -> Vec<String> {
  let root = Path::new(env!("CARGO_MANIFEST_DIR"));
  let schema = fs::read(root.join("fixtures/sarif/sarif-schema-2.1.0.json")).unwrap();
  let mut schema: Value = serde_json::from_slice(&schema).unwrap();
  // Its patterns of languages are right in JavaScript only; memfw names no language.
  for of in ["run", "toolComponent"] {
    let language = schema.pointer_mut(&format!("/definitions/{of}/properties/language")).unwrap();
    language.as_object_mut().unwrap().remove("pattern").unwrap();
  }
  let validator =
    jsonschema::options().should_validate_formats(true).build(&schema).expect("it is a schema");
  validator.iter_errors(log).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

/// The results of a valid log, each with the fingerprint by which services recognise it.
#[track_caller]
fn results(log: &Value) -> Vec<Value> {
  assert_eq!(wrong(log), [""; 0]);
  let run = &log["runs"][0];
  let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
  let results = run["results"].as_array().unwrap().clone();
  // The schema's address format accepts more than RFC 3986.
  let uri = Regex::new(r"^(?:[A-Za-z0-9\-._~!$&'()*+,;=:@/?#]|%[0-9A-F]{2})+$").unwrap();
  for result in &results {
    let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
    assert_eq!(rules[index]["id"], result["ruleId"], "{result}");
    for key in ["shortDescription", "fullDescription", "help"] {
      assert!(rules[index][key]["text"].as_str().is_some_and(|text| !text.is_empty()), "{key}");
    }
    assert_eq!(result["partialFingerprints"]["memfwBlock/v1"].as_str().unwrap().len(), 64);
    let place = &result["locations"][0]["physicalLocation"];
    let region = &place["region"];
    let end = region["endLine"].as_u64().unwrap_or(u64::MAX);
    assert!(region["startLine"].as_u64().unwrap() <= end, "{region}");
    let address = place["artifactLocation"]["uri"].as_str().unwrap();
    assert!(uri.is_match(address), "{address}");
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
  // The page of a code has an example of its own, but none with these words.
  assert!(!output.stdout.contains(&needle(1)) && !output.stdout.contains("before any SSH work"));
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
  fs::write(guarded.path("MEMORY.md"), text).unwrap();
  eventually("both wait", || guarded.waiting().len() == 2);
  guarded.stop();
  let items = guarded.waiting();
  guarded.ok(&["quarantine", "approve", id(&items[0])]);

  let log = guarded.ok(&["quarantine", "export", "--format", "sarif"]);
  let log = log.replace("[TMP]", guarded.tmp().to_str().unwrap());
  let found = results(&serde_json::from_str(&log).unwrap());
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
  let hooks = Path::new(env!("CARGO_MANIFEST_DIR")).join(".pre-commit-hooks.yaml");
  let hooks = fs::read_to_string(hooks).unwrap();
  let entry = hooks.lines().find_map(|line| line.trim().strip_prefix("entry: ")).unwrap();
  let mut words: Vec<&str> = entry.split_whitespace().collect();
  assert_eq!(words[0], "memfw");
  let args = hooks.lines().find_map(|line| line.trim().strip_prefix("args: ["));
  words.extend(args.unwrap().trim_end_matches(']').split(", "));
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
  // The model does not overrule the normaliser.
  let flagged = "- The in\u{200b}voice is due on Fri\u{200b}day.\n";
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
fn what_breaks_the_schema_is_noticed() {
  let output = Test::new().args(["scan", "--sarif"]).stdin(poison(1)).status(1).json();
  assert_eq!(wrong(&output), [""; 0]);
  for (at, value) in [
    ("/version", "2.0.0".into()),
    ("/$schema", "no address".into()),
    ("/runs/0/tool/driver/name", Value::Null),
    ("/runs/0/columnKind", "bytes".into()),
    ("/runs/0/results/0/level", "fatal".into()),
    ("/runs/0/results/0/message", serde_json::json!({})),
    ("/runs/0/results/0/ruleIndex", (-2).into()),
    ("/runs/0/results/0/locations/0/physicalLocation/artifactLocation/uri", "a b".into()),
    ("/runs/0/results/0/locations/0/physicalLocation/region/startLine", 0.into()),
    ("/runs/0/results/0/locations/0/physicalLocation/region", serde_json::json!({ "line": 1 })),
  ] {
    let mut broken = output.clone();
    *broken.pointer_mut(at).unwrap() = value;
    assert_eq!(wrong(&broken).len(), 1, "{at}: {:?}", wrong(&broken));
  }
}
