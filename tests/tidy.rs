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
#[path = "tidy/pages.rs"]
mod pages;
#[path = "tidy/rooms.rs"]
mod rooms;
#[path = "tidy/source.rs"]
mod source;
#[path = "tidy/words.rs"]
mod words;

use std::{
  collections::BTreeSet,
  env, fs,
  path::{Path, PathBuf},
};

use source::{Source, Token, reaches, settle_tests};

/// Files that may hold `unsafe`, and why.
const UNSAFE_FILES: &[(&str, &str)] = &[(
  "src/files/lease.rs",
  "F_SETLEASE, dispositions of signals and mappings have no safe wrapper",
)];

/// Longest file, in lines with tests, that needs no reason: short enough to read at once.
const MAX_LINES: usize = 500;

/// Files that are longer, and why they are not parted; one that became shorter leaves the table.
const LONG_FILES: &[(&str, &str)] = &[
  ("src/command/quarantine/review/session.rs", "one state machine: each key in each state"),
  ("src/daemon/queue.rs", "one type, whose methods keep one order of due times"),
  ("src/daemon/rescan.rs", "one walk, and the state that it keeps between its slices"),
  (
    "src/detect/normalize/fold.rs",
    "one pass over a text; its tests are a table of what it resolves",
  ),
  ("src/engine/attribute_tests.rs", "cases of one operation, with the records of one agent"),
  ("src/engine/edit.rs", "one type that moves through all steps of a journalled edit"),
  ("src/engine/edit_tests.rs", "the steps of that edit, each interrupted in each way"),
  ("src/engine/lapse_tests.rs", "a table of cases"),
  ("src/judging/assess.rs", "one way from texts to decisions, with its tests"),
  ("src/openclaw/attribute/material.rs", "what a turn held, by kind of record"),
  ("src/store/item.rs", "one table of the ledger: its columns, and all statements about them"),
  ("src/store/loss.rs", "one table of the ledger: its columns, and all statements about them"),
  ("tests/gate.rs", "one process, its daemon and its readers, which all cases share"),
  ("tests/hostile_tree.rs", "one workspace of hostile names and links, which all cases share"),
  ("tests/init.rs", "one command: its plan, its questions and its flags on one installation"),
  ("tests/restore.rs", "one command on one history of versions"),
  ("tests/review.rs", "one command on one queue of items"),
  ("tests/sim/fs.rs", "a file system in memory: one type that implements one trait"),
  ("tests/sim/oracle.rs", "what must be true after each step, read from top to bottom"),
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
  ("src/command/openclaw/choice.rs", "the command about it"),
  ("src/command/openclaw/plugin_files.rs", "the command about it"),
  ("src/command/openclaw/plugin.rs", "the command about it"),
  ("src/command/openclaw/plugin_state.rs", "the command about it"),
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
fn files_are_short_and_say_what_they_are_for() {
  let mut problems = Vec::new();
  let mut long = BTreeSet::new();
  for source in rust_files("src").iter().chain(&rust_files("tests")) {
    let path = source.path.display();
    let n_lines = source.text.lines().count();
    if n_lines > MAX_LINES {
      long.insert(source.path.clone());
      if !is_excepted(LONG_FILES, &source.path) {
        problems.push(format!(
          "{path}: {n_lines} lines, more than {MAX_LINES}: part it by meaning, or give the reason why not"
        ));
      }
    }
    if source.path.starts_with("src") && !source.text.starts_with("//! ") {
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
