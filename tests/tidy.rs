//! The rules of the house as tests.
//!
//! They read the source and do not use the crate: `just tidy` runs them in a second, even while the
//! crate does not compile. An exception is a line in a table with its reason, and an exception that
//! is no longer needed fails.
#![forbid(unsafe_code)]
#![expect(
  clippy::disallowed_methods,
  clippy::indexing_slicing,
  clippy::unwrap_used,
  reason = "a test of files reads them, and a panic is its way to fail"
)]

#[path = "tidy/circles.rs"]
mod circles;
#[path = "tidy/links.rs"]
mod links;
#[path = "tidy/methods.rs"]
mod methods;
#[path = "tidy/source.rs"]
mod source;
#[path = "tidy/words.rs"]
mod words;

use std::{
  collections::{BTreeMap, BTreeSet},
  env, fs,
  path::{Path, PathBuf},
};

use source::{Source, Token, reaches, settle_tests};

/// A room of the crate.
struct Room {
  name: &'static str,
  /// 0 is the core; a room uses only rooms of lower layers, and rooms of the core each other.
  layer: u8,
  /// The rooms that it may use. Fewer than its layer would allow where that is part of the design.
  uses: &'static [&'static str],
}

/// Who may use whom. The shells (layer 1) do not know each other: the engine brings them together.
const ROOMS: &[Room] = &[
  // The core is pure. A marker names a source; records of an agent are about content hashes.
  // A number with its noun, for the messages of all.
  Room { name: "plural", layer: 0, uses: &[] },
  Room { name: "hash", layer: 0, uses: &[] },
  Room { name: "provenance", layer: 0, uses: &["hash"] },
  Room { name: "memory", layer: 0, uses: &["hash", "provenance"] },
  Room { name: "detect", layer: 0, uses: &["memory", "provenance", "plural"] },
  Room { name: "seal", layer: 0, uses: &["memory"] },
  // What an agent may read, from excerpts that the engine cuts.
  Room { name: "recall", layer: 0, uses: &["memory", "provenance", "detect"] },
  // Figures know a trust by its name, and do not depend on the judgement of texts.
  Room { name: "eval", layer: 0, uses: &["provenance", "plural"] },
  // Counted events; a latency is computed in one place.
  Room { name: "stats", layer: 0, uses: &["provenance", "detect", "eval", "plural"] },
  // The messages between a plugin inside an agent and memfw, and the text that a call would leave in a file.
  Room { name: "link", layer: 0, uses: &[] },
  // The files of a skill as values: hashes, differences, signatures.
  Room { name: "skill", layer: 0, uses: &["hash"] },
  // The failpoints at which tests kill the process; empty in the product.
  Room { name: "failpoint", layer: 0, uses: &[] },
  Room { name: "config", layer: 1, uses: &["memory", "provenance", "detect"] },
  Room {
    name: "store",
    layer: 1,
    uses: &["memory", "provenance", "detect", "seal", "skill", "failpoint"],
  },
  // Its own directories, locks, other programs, the clock.
  Room { name: "os", layer: 1, uses: &["failpoint"] },
  // Memory files: leases, writes and events handle bytes, not their meaning.
  Room { name: "files", layer: 2, uses: &["os", "failpoint"] },
  // Questions over the network; it handles texts, and knows neither files nor the ledger.
  Room { name: "net", layer: 1, uses: &["memory", "provenance", "detect"] },
  Room { name: "openclaw", layer: 1, uses: &["memory", "provenance", "plural"] },
  // Text is judged by the rules, the model and what the ledger knows, without access to a file.
  Room {
    name: "judging",
    layer: 2,
    uses: &["memory", "provenance", "detect", "seal", "config", "store", "os"],
  },
  // The engine meets an agent framework only through `provenance::AgentRecords`.
  Room {
    name: "engine",
    layer: 3,
    uses: &[
      "plural",
      "memory",
      "provenance",
      "detect",
      "seal",
      "recall",
      "failpoint",
      "config",
      "store",
      "os",
      "files",
      "judging",
    ],
  },
  // The gate is a process of its own: it has neither ledger nor key nor memory text.
  Room { name: "gate", layer: 3, uses: &["os", "files", "plural"] },
  Room {
    name: "daemon",
    layer: 4,
    uses: &[
      "plural",
      "memory",
      "provenance",
      "detect",
      "skill",
      "failpoint",
      "config",
      "store",
      "os",
      "files",
      "engine",
      "judging",
      "gate",
      "stats",
      // The judge asks a model that reads.
      "net",
    ],
  },
  // The output of commands. Neither ledger nor engine: a failure is already text there.
  Room { name: "terminal", layer: 2, uses: &["os", "plural"] },
  // The parts put together: configuration, ledger, engine, daemon, the agent framework.
  Room {
    name: "app",
    layer: 5,
    uses: &[
      "provenance",
      "detect",
      "seal",
      "skill",
      // What a plugin inside the agent asks.
      "link",
      "config",
      "store",
      "os",
      "files",
      "net",
      "openclaw",
      "terminal",
      "engine",
      "daemon",
    ],
  },
  Room {
    name: "command",
    layer: 6,
    uses: &[
      "plural",
      "memory",
      "provenance",
      "detect",
      "seal",
      "skill",
      "recall",
      "eval",
      "stats",
      "link",
      "config",
      "store",
      "os",
      "files",
      // The command about the agent framework.
      "openclaw",
      "terminal",
      "engine",
      "judging",
      "gate",
      "daemon",
      "app",
    ],
  },
];

/// Files that may hold `unsafe`, and why.
const UNSAFE_FILES: &[(&str, &str)] = &[(
  "src/files/lease.rs",
  "F_SETLEASE, dispositions of signals and mappings have no safe wrapper",
)];

/// Longest file, in lines with tests: short enough to read at once.
const MAX_LINES: usize = 500;
/// Beyond this a file needs a written reason in [`LONG_FILES`].
const FAR_TOO_LONG: usize = 600;

/// Files that are longer, and why; a reason is asked for, and a file that became shorter leaves the table.
const LONG_FILES: &[(&str, &str)] = &[
  ("src/judging/assess.rs", "one way from texts to decisions, with its tests"),
  ("src/engine/lapse_tests.rs", "a table of cases"),
  ("src/openclaw/attribute/material.rs", "what a turn held, by kind of record"),
];

/// Files outside its own room that may name the first agent framework, and why.
const FRAMEWORK_FILES: &[(&str, &str)] = &[
  ("src/lib.rs", "the map of the crate names every room"),
  ("src/app/agent.rs", "the one place where the framework is chosen"),
  ("src/app/agent/call.rs", "what a call of its tools means"),
  ("src/app/agent/program.rs", "where its program is"),
  ("src/app/agent/roster.rs", "its agents on this machine, for a person"),
  ("src/app/agent/service.rs", "what a service beside it has to know of it"),
  ("src/command/openclaw.rs", "the command about it"),
  ("src/command/openclaw/args.rs", "the command about it"),
  ("src/command/openclaw/plugin.rs", "the command about it"),
  ("src/command/openclaw/policy.rs", "the command about it"),
  ("src/command/openclaw/retrust.rs", "the command about it"),
  ("src/command/openclaw/state.rs", "the command about it"),
];

/// Names in home directories of examples; any other may be a real person's name.
const EXAMPLE_USERS: &[&str] = &["ann", "bob", "claw", "me", "user", "you"];

fn root() -> &'static Path {
  Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All files below a directory of the repository, relative to it, sorted.
fn files(below: &str) -> Vec<PathBuf> {
  let mut found = Vec::new();
  let mut dirs = vec![root().join(below)];
  while let Some(dir) = dirs.pop() {
    let Ok(entries) = fs::read_dir(&dir) else { continue };
    for entry in entries {
      let entry = entry.unwrap();
      let name = entry.file_name();
      let skipped = [".git", "target", "proptest-regressions"].iter().any(|skip| name == *skip);
      if skipped {
        continue;
      }
      if entry.file_type().unwrap().is_dir() {
        dirs.push(entry.path());
      } else if entry.file_type().unwrap().is_file() {
        found.push(entry.path().strip_prefix(root()).unwrap().to_path_buf());
      }
    }
  }
  found.sort();
  found
}

fn has_extension(path: &Path, extension: &str) -> bool {
  path.extension().is_some_and(|found| found == extension)
}

/// The text of a file; `None` for one that is not text.
fn text(path: &Path) -> Option<String> {
  String::from_utf8(fs::read(root().join(path)).unwrap()).ok()
}

fn rust_files(below: &str) -> Vec<Source> {
  let mut sources: Vec<Source> = files(below)
    .into_iter()
    .filter(|path| has_extension(path, "rs"))
    .map(|path| {
      let text = text(&path).unwrap();
      Source::new(path, text)
    })
    .collect();
  assert!(!sources.is_empty(), "there is no Rust file below {below}");
  settle_tests(&mut sources);
  sources
}

#[track_caller]
fn assert_none(problems: &[String]) {
  assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}

/// Each exception must be needed, or it hides the next mistake.
fn unused(exceptions: &[(&str, &str)], used: &BTreeSet<PathBuf>) -> Vec<String> {
  exceptions
    .iter()
    // An exception for a file that does not exist yet is a decision made in advance.
    .filter(|(path, _)| root().join(path).exists() && !used.contains(Path::new(path)))
    .map(|(path, why)| format!("{path}: the exception ({why}) is not needed any more"))
    .collect()
}

fn is_excepted(exceptions: &[(&str, &str)], path: &Path) -> bool {
  exceptions.iter().any(|(excepted, _)| Path::new(excepted) == path)
}

#[test]
fn the_table_of_rooms_points_downwards_and_is_complete() {
  let layers: BTreeMap<&str, u8> = ROOMS.iter().map(|room| (room.name, room.layer)).collect();
  let mut problems = Vec::new();
  for room in ROOMS {
    for used in room.uses {
      let below = layers[used] < room.layer || (layers[used] == 0 && room.layer == 0);
      if !below {
        problems.push(format!("`{}` may use `{used}`, which is not below it", room.name));
      }
    }
  }
  let lib = Source::new("src/lib.rs".into(), text(Path::new("src/lib.rs")).unwrap());
  let declared: BTreeSet<&str> = lib
    .code
    .windows(2)
    .filter(|pair| pair[0].text == "mod")
    .map(|pair| pair[1].text.as_str())
    .collect();
  let listed: BTreeSet<&str> = layers.keys().copied().collect();
  for name in declared.symmetric_difference(&listed) {
    problems.push(format!("`{name}` is in src/lib.rs or in the table of rooms, but not in both"));
  }
  assert_none(&problems);
}

#[test]
fn modules_only_depend_downwards() {
  let mut problems = Vec::new();
  let mut n_reaches = 0;
  for source in rust_files("src") {
    // The root of the library has no code, and the program uses the library like any other crate.
    if source.depth() == 0 {
      continue;
    }
    let name = source.room();
    let Some(room) = ROOMS.iter().find(|room| room.name == name) else {
      problems.push(format!("{}: `{name}` is no room of the table", source.path.display()));
      continue;
    };
    for reach in reaches(&source.code, source.depth()) {
      n_reaches += 1;
      if reach.room != name && !room.uses.contains(&reach.room.as_str()) {
        let place = format!("{}:{}", source.path.display(), reach.line);
        problems.push(format!("{place}: `{name}` may not use `crate::{}`", reach.room));
      }
    }
  }
  assert!(n_reaches > 0, "no path was found at all, so this test sees nothing");
  assert_none(&problems);
}

#[test]
fn paths_are_seen_in_every_form() {
  let seen = |text: &str, depth| -> Vec<String> {
    let source = Source::new("src/a.rs".into(), text.to_owned());
    reaches(&source.code, depth).into_iter().map(|reach| reach.room).collect()
  };
  assert_eq!(seen("use crate::store::Ledger;", 1), ["store"]);
  assert_eq!(seen("use {super::x, crate::{self, app::{A, B}, os::*}};", 2), ["app", "os"]);
  assert_eq!(
    seen("fn f() -> super::super::engine::E { crate::daemon::run() }", 2),
    ["engine", "daemon"]
  );
  assert_eq!(seen("mod m { use super::super::store; use super::b; }", 1), ["store"]);
  assert_eq!(seen("macro_rules! m { () => { $crate::detect::f() } }", 1), ["detect"]);
  assert_eq!(seen("pub(crate) use crate::*;", 1), ["*"]);
  // Comments, strings and tests are no code.
  assert_eq!(seen("/// [`crate::app`]\nconst A: &str = r#\"crate::app \"# ;", 1), [""; 0]);
  assert_eq!(seen("#[cfg(test)]\nmod tests { use crate::app; }\nuse crate::os;", 1), ["os"]);
  assert_eq!(seen("#![cfg(test)]\nuse crate::app;", 1), [""; 0]);
  // A quote and a lifetime are distinguished.
  assert_eq!(seen("fn f<'a>(c: &'a str) { let q = '\"'; crate::os::g(q, '\\'') }", 1), ["os"]);
}

#[test]
fn files_are_short_and_say_what_they_are_for() {
  let mut problems = Vec::new();
  let mut long = BTreeSet::new();
  for source in rust_files("src") {
    let path = source.path.display();
    let n_lines = source.text.lines().count();
    if n_lines > MAX_LINES {
      long.insert(source.path.clone());
      if !is_excepted(LONG_FILES, &source.path) {
        println!(
          "warning: {path}: {n_lines} lines, more than {MAX_LINES}: part it by meaning, or say why not"
        );
        if n_lines > FAR_TOO_LONG {
          problems
            .push(format!("{path}: {n_lines} lines, more than {FAR_TOO_LONG}, without a reason"));
        }
      }
    }
    if !source.text.starts_with("//! ") {
      problems.push(format!("{path}: does not begin with a sentence on what it is for (`//!`)"));
    }
  }
  problems.extend(unused(LONG_FILES, &long));
  assert_none(&problems);
}

#[test]
fn only_listed_files_may_hold_unsafe_code() {
  let mut problems = Vec::new();
  let mut used = BTreeSet::new();
  for source in rust_files("src") {
    let path = source.path.display();
    let listed = is_excepted(UNSAFE_FILES, &source.path);
    let texts: Vec<&str> =
      source.code.iter().chain(&source.tests).map(|token| token.text.as_str()).collect();
    if texts.contains(&"unsafe") {
      used.insert(source.path.clone());
      if !listed {
        problems.push(format!("{path}: `unsafe` outside the listed files"));
      }
    }
    let forbids = texts
      .windows(8)
      .any(|window| window == ["#", "!", "[", "forbid", "(", "unsafe_code", ")", "]"]);
    // A lint that a module forbids applies to its children, so parents of the listed files cannot
    // forbid it.
    let is_parent = UNSAFE_FILES.iter().any(|(listed, _)| {
      let dir = source.path.parent().unwrap();
      matches!(source.path.file_name().and_then(|name| name.to_str()), Some("mod.rs" | "lib.rs"))
        && Path::new(listed).starts_with(dir)
    });
    if !forbids && !listed && !is_parent && !source.is_list_of_modules() {
      problems.push(format!("{path}: `#![forbid(unsafe_code)]` is missing"));
    }
  }
  problems.extend(unused(UNSAFE_FILES, &used));
  assert_none(&problems);
}

#[test]
fn nothing_is_left_undone_or_switched_off() {
  let mut problems = Vec::new();
  for source in rust_files("src").iter().chain(&rust_files("tests")).chain(&rust_files("benches")) {
    let mut complain = |token: &Token, what: &str| {
      problems.push(format!("{}:{}: {what}", source.path.display(), token.line));
    };
    for tokens in [&source.code, &source.tests] {
      for pair in tokens.windows(2) {
        match (pair[0].text.as_str(), pair[1].text.as_str()) {
          (name @ ("todo" | "dbg" | "unimplemented"), "!") => {
            complain(&pair[0], &format!("`{name}!`"));
          }
          ("should_panic", "]") => complain(&pair[0], "say with which message it panics"),
          _ => {}
        }
      }
      // A test may be ignored only if another one starts it, for example under another user.
      for token in source.ignored_tests(tokens) {
        complain(token, "a test that is switched off and that no other test starts");
      }
    }
    if source.path.starts_with("src") {
      for three in source.code.windows(3) {
        if three[0].text == "." && three[1].text == "unwrap" && three[2].text == "(" {
          complain(&three[1], "`unwrap` outside tests; give the proof with `expect` or an error");
        }
      }
    }
  }
  assert_none(&problems);
}

#[test]
fn only_its_own_room_names_the_agent_framework() {
  let mut problems = Vec::new();
  let mut used = BTreeSet::new();
  for source in rust_files("src") {
    // Files of tests may name it: real memory, which they imitate, is full of the name.
    if source.room() == "openclaw" || source.is_only_for_tests() {
      continue;
    }
    for (index, line) in source.text.lines().enumerate() {
      // The command line uses the name of its own module; that is no use of the framework.
      let as_module = source.room() == "command"
        && source.code.iter().any(|token| token.line == index + 1 && token.text == "openclaw")
        && line.to_lowercase().matches("openclaw").count() == 1;
      if !line.to_lowercase().contains("openclaw") || as_module {
        continue;
      }
      used.insert(source.path.clone());
      if !is_excepted(FRAMEWORK_FILES, &source.path) {
        let place = format!("{}:{}", source.path.display(), index + 1);
        problems.push(format!("{place}: what is special to a framework belongs to its room"));
      }
    }
    for reach in reaches(&source.code, source.depth()) {
      if reach.room == "openclaw" && !is_excepted(FRAMEWORK_FILES, &source.path) {
        let place = format!("{}:{}", source.path.display(), reach.line);
        problems.push(format!("{place}: go through `app::agent`"));
      }
    }
  }
  problems.extend(unused(FRAMEWORK_FILES, &used));
  assert_none(&problems);
}

/// `ForgedMarker` as `forged-marker`.
fn kebab_case(name: &str) -> String {
  let mut word = String::new();
  for (at, letter) in name.char_indices() {
    if letter.is_ascii_uppercase() && at > 0 {
      word.push('-');
    }
    word.push(letter.to_ascii_lowercase());
  }
  word
}

#[test]
fn every_finding_code_is_documented() {
  let code = text(Path::new("src/detect/code.rs")).unwrap();
  // The variants are spelled in kebab-case; the lines between them are comments and attributes.
  let variants = code.split_once("pub enum Code {").and_then(|(_, rest)| rest.split_once("\n}"));
  let variants = variants.map(|(variants, _)| variants).unwrap_or_default().lines();
  let words: BTreeSet<String> = variants
    .filter_map(|line| line.trim().strip_suffix(','))
    .filter(|name| name.chars().all(char::is_alphanumeric))
    .map(kebab_case)
    .collect();
  let words: BTreeSet<&str> = words.iter().map(String::as_str).collect();
  assert!(words.contains("forged-marker"), "the table of codes has another form now");
  let page = fs::read_to_string(root().join("docs/findings.md")).expect("docs/findings.md");
  let headings: BTreeSet<&str> = page
    .lines()
    .filter(|line| line.starts_with("##"))
    .map(|line| line.trim_start_matches('#').trim().trim_matches('`'))
    .collect();
  let mut problems: Vec<String> = words
    .difference(&headings)
    .map(|word| format!("docs/findings.md has no heading `{word}`"))
    .collect();
  let is_code = |heading: &&&str| heading.contains('-') && !heading.contains(' ');
  problems.extend(
    headings
      .difference(&words)
      .filter(is_code)
      .map(|word| format!("docs/findings.md explains `{word}`, which is no finding code")),
  );
  assert_none(&problems);
}

#[test]
fn every_configuration_key_is_documented() {
  let table = text(Path::new("src/config/key.rs")).expect("src/config/key.rs");
  // The table's lines are `"name" => field: Type = default;`.
  let keys: BTreeSet<&str> = table
    .lines()
    .filter_map(|line| line.trim().strip_prefix('"')?.split_once("\" => "))
    .map(|(key, _)| key)
    .collect();
  assert!(keys.contains("files.idle_ms"), "the table of keys has another form now");
  let page = text(Path::new("docs/configuration.md")).unwrap();
  let headings: BTreeSet<&str> =
    page.lines().filter_map(|line| line.strip_prefix("## `")?.strip_suffix('`')).collect();
  let problems: Vec<String> = keys
    .symmetric_difference(&headings)
    .map(|key| format!("`{key}` is a key or a heading of docs/configuration.md, but not both"))
    .collect();
  assert_none(&problems);
}

#[test]
fn fixtures_say_where_they_come_from() {
  let mut problems = Vec::new();
  for path in files("fixtures") {
    let noted = path.ancestors().skip(1).take_while(|dir| dir.starts_with("fixtures")).any(|dir| {
      let note = fs::read_to_string(root().join(dir).join("README.md")).unwrap_or_default();
      note.to_lowercase().contains("licen")
    });
    if !noted {
      let path = path.display();
      problems.push(format!("{path}: no README.md beside it or above it names its licence"));
    }
  }
  assert_none(&problems);
}

#[test]
fn no_path_of_a_particular_machine_is_written_down() {
  let mut needles = vec![root().to_str().unwrap().to_owned(), "/work/".to_owned()];
  needles.extend(["CARGO_HOME", "RUSTUP_HOME"].iter().filter_map(|name| env::var(name).ok()));
  let is_real_home = |line: &str| {
    ["/home/", "/Users/"].iter().any(|prefix| {
      line.split(prefix).skip(1).any(|rest| {
        let Some((name, _)) = rest.split_once('/') else { return false };
        let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '-');
        is_name && !EXAMPLE_USERS.contains(&name)
      })
    })
  };
  let mut problems = Vec::new();
  for path in files("") {
    // Attacks and rules against them contain such paths; this file names what it searches for.
    let foreign = ["fixtures", "rules", "training/data", "tests/tidy.rs"]
      .iter()
      .any(|dir| path.starts_with(dir));
    if foreign {
      continue;
    }
    let Some(text) = text(&path) else { continue };
    for (index, line) in text.lines().enumerate() {
      if needles.iter().any(|needle| line.contains(needle.as_str())) || is_real_home(line) {
        problems.push(format!("{}:{}: a path of one machine", path.display(), index + 1));
      }
    }
  }
  assert_none(&problems);
}

#[test]
fn tests_wait_for_conditions_and_never_for_luck() {
  let mut problems = Vec::new();
  for source in rust_files("src").iter().chain(&rust_files("tests")) {
    let in_tests = source.path.starts_with("tests");
    let mut checked = source.tests.clone();
    if in_tests {
      checked.extend_from_slice(&source.code);
    }
    let mut function = "";
    for pair in checked.windows(2) {
      if pair[0].text == "fn" {
        function = &pair[1].text;
      }
      // A function that waits for a condition with a deadline may pause between two checks.
      let waits = function.starts_with("wait") || source.path.starts_with("tests/support");
      if pair[0].text == "sleep" && pair[1].text == "(" && !waits {
        let place = format!("{}:{}", source.path.display(), pair[0].line);
        problems.push(format!("{place}: wait for a condition with a deadline"));
      }
    }
  }
  assert_none(&problems);
}

#[test]
fn every_test_and_bench_is_run() {
  let manifest = text(Path::new("Cargo.toml")).unwrap();
  let lib = rust_files("tests").into_iter().find(|source| source.path.ends_with("lib.rs")).unwrap();
  let modules: BTreeSet<String> = lib
    .code
    .iter()
    .chain(&lib.tests)
    .zip(lib.code.iter().chain(&lib.tests).skip(1))
    .filter(|(first, _)| first.text == "mod")
    .map(|(_, name)| name.text.clone())
    .collect();
  let mut problems = Vec::new();
  for path in files("tests").iter().chain(&files("benches")) {
    let stem = path.file_stem().unwrap().to_str().unwrap();
    let top = path.components().count() == 2 && has_extension(path, "rs");
    let listed = manifest.contains(&format!("path = \"{}\"", path.display()))
      || (path.starts_with("benches") && manifest.contains(&format!("name = \"{stem}\"")))
      || (path.starts_with("tests") && modules.contains(stem));
    if top && !listed {
      problems.push(format!("{}: nothing compiles it", path.display()));
    }
  }
  assert_none(&problems);
}

#[test]
fn links_between_documents_resolve() {
  let pages: Vec<PathBuf> = files("")
    .into_iter()
    .filter(|path| has_extension(path, "md") && !path.starts_with("fixtures"))
    .collect();
  let mut problems = Vec::new();
  let mut n_links = 0;
  for page in &pages {
    for link in links::links(&text(page).unwrap()) {
      n_links += 1;
      let (file, anchor) = link.target.split_once('#').unwrap_or((&link.target, ""));
      let target =
        if file.is_empty() { page.clone() } else { links::join(page.parent().unwrap(), file) };
      let place = format!("{}:{}", page.display(), link.line);
      if !root().join(&target).exists() {
        problems.push(format!("{place}: there is no `{}`", target.display()));
      } else if !anchor.is_empty()
        && !links::anchors(&text(&target).unwrap_or_default()).contains(anchor)
      {
        problems.push(format!("{place}: `{}` has no heading `#{anchor}`", target.display()));
      }
    }
  }
  assert!(n_links > 0, "no link was found at all, so this test sees nothing");
  assert_none(&problems);
}

#[test]
fn files_have_names_that_say_what_they_are_for() {
  let mut problems = Vec::new();
  let mut used = BTreeSet::new();
  for source in rust_files("src").iter().chain(&rust_files("tests")) {
    let stem = source.path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let Some((_, instead)) = words::FILE_NAMES.iter().find(|(name, _)| *name == stem) else {
      continue;
    };
    used.insert(source.path.clone());
    if !is_excepted(words::NAMED_FILES, &source.path) {
      problems.push(format!("{}: a better name: {instead}", source.path.display()));
    }
  }
  problems.extend(unused(words::NAMED_FILES, &used));
  assert_none(&problems);
}

#[test]
fn comments_messages_and_pages_are_in_plain_words() {
  let mut problems = Vec::new();
  let mut used = BTreeSet::new();
  for source in rust_files("src").iter().chain(&rust_files("tests")) {
    if words::is_unchecked(&source.path) {
      continue;
    }
    problems.extend(words::in_comments(&source.path, &source.text));
    let in_strings = words::in_strings(source);
    if is_excepted(words::STRINGS, &source.path) && !in_strings.is_empty() {
      used.insert(source.path.clone());
    } else {
      problems.extend(in_strings);
    }
  }
  problems.extend(unused(words::STRINGS, &used));
  for path in files("").into_iter().filter(|path| words::is_checked_page(path)) {
    let page = text(&path).unwrap();
    problems.extend(words::in_page(&path, &page));
  }
  assert_none(&problems);
}

/// Nouns that follow numbers in messages.
const COUNTED: &[&str] = &[
  "attacks",
  "blocks",
  "changes",
  "directories",
  "entries",
  "events",
  "files",
  "items",
  "lines",
  "placeholders",
  "reads",
  "texts",
  "times",
  "vectors",
  "versions",
  "workspaces",
];

/// The values in a message before a plural noun that may be 1: neither a constant nor a limit.
fn counted_by_hand(text: &str) -> Vec<String> {
  let mut found = Vec::new();
  for noun in COUNTED {
    for (at, _) in text.match_indices(&format!("}} {noun}")) {
      let ends = text.get(at + 2 + noun.len()..).and_then(|rest| rest.chars().next());
      let Some(start) = text.get(..at).and_then(|before| before.rfind('{')) else { continue };
      let name = text.get(start + 1..at).unwrap_or_default();
      let is_constant =
        !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c == '_');
      let is_limit = text.get(..start).is_some_and(|before| before.ends_with("more than "));
      if !is_constant && !is_limit && !ends.is_some_and(|c| c.is_ascii_alphanumeric()) {
        found.push(format!("{{{name}}} {noun}"));
      }
    }
  }
  found
}

#[test]
fn a_number_gets_its_noun_from_the_one_place_that_knows_the_singular() {
  let mut problems = Vec::new();
  for source in rust_files("src") {
    if source.path == Path::new("src/plural.rs") {
      continue;
    }
    for token in source.code.iter().filter(|token| token.text.starts_with('"')) {
      let found = counted_by_hand(&token.text).into_iter();
      problems.extend(found.map(|text| {
        format!("{}:{}: `{text}`: use `plural::count`", source.path.display(), token.line)
      }));
    }
  }
  assert_none(&problems);
  assert_eq!(
    counted_by_hand("came {} times, {n} files, {n} filesystems"),
    ["{n} files", "{} times"]
  );
  assert_eq!(counted_by_hand("more than {n} lines, {MAX_FILES} files"), [""; 0]);
}

#[test]
fn banned_words_are_seen_across_lines_and_in_strings_and_not_in_code() {
  let path = Path::new("a.rs");
  let seen = words::in_comments(path, "/// The text that stands\n/// there.\nlet a = 1;");
  assert_eq!(seen, ["a.rs:1: \"stands there\": write: is there"]);
  for text in [
    "let a = \"stands there\";",
    "// `stands there`",
    "// understands there",
    "// stands\nlet a = 1;\n// there",
  ] {
    assert_eq!(words::in_comments(path, text), [""; 0], "{text}");
  }
  for (text, expected) in [
    ("const A: &str = \"it stands\\\n  there\";", 1),
    ("#[test]\nfn f() { assert!(true, \"it\\nstands there\"); }", 1),
    ("const A: &str = \"`stands there`\";", 0),
    ("// stands there\nconst A: &str = \"understands there\";", 0),
  ] {
    let seen = words::in_strings(&Source::new(path.to_owned(), text.to_owned()));
    assert_eq!(seen.len(), expected, "{text}: {seen:?}");
  }
  let page = "It stands there.\n\n```sh\nstands there\n```\n";
  assert_eq!(words::in_page(path, page).len(), 1);
  assert!(!words::is_checked_page(Path::new("CHANGELOG.md")));
  assert!(words::is_checked_page(Path::new("docs/adr/0001-one-package.md")));
  assert!(words::is_checked_page(Path::new("docs/faq.md")));
}

#[test]
fn every_page_is_in_the_index() {
  let index = text(Path::new("docs/README.md")).unwrap();
  let linked: BTreeSet<PathBuf> = links::links(&index)
    .iter()
    .map(|link| links::join(Path::new("docs"), link.target.split('#').next().unwrap()))
    .collect();
  let missing: Vec<String> = files("docs")
    .iter()
    .filter(|path| has_extension(path, "md") && !path.ends_with("docs/README.md"))
    .filter(|path| !linked.contains(*path))
    .map(|path| format!("docs/README.md does not name {}", path.display()))
    .collect();
  assert_none(&missing);
}
