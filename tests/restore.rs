//! Earlier versions of memory files: kept while others write, shown, and restored exactly.

use {
  crate::support::{
    AT_ONCE, Guarded, Output, Random, Writer, clean, eventually, files_below, id, marks, needle,
    pace, poison,
  },
  serde_json::Value,
  std::{
    fs::{self, OpenOptions, Permissions},
    io::Write as _,
    os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _},
    path::Path,
    time::Duration,
  },
};

/// Only restored text is written into files.
const QUIET: &str = "markers = \"none\"\n";
const BEFORE: &str = "# Memory\n\n- old\n- older\n";

/// A guarded file to which a line was added, and its content without comments. Its versions are
/// kept.
fn grown(config: &str) -> (Guarded, String) {
  let mut guarded = Guarded::new(config).memory("MEMORY.md", BEFORE);
  guarded.start();
  kept(&guarded);
  let text = format!("{BEFORE}{}\n", clean(1));
  add(&guarded, &clean(1));
  (guarded, text)
}

fn add(guarded: &Guarded, line: &str) {
  let versions = list(guarded, "MEMORY.md").len();
  Writer::Shell.add(&guarded.path("MEMORY.md"), format!("{line}\n").as_bytes());
  eventually("the version is kept", || list(guarded, "MEMORY.md").len() > versions);
  guarded.settle();
}

/// Waits until the current content is kept.
fn kept(guarded: &Guarded) {
  eventually("versions are kept", || status(guarded)["versions"]["due"] == 0);
}

fn status(guarded: &Guarded) -> Value {
  serde_json::from_str(&guarded.memfw(&["status", "--json"]).stdout).unwrap()
}

fn list(guarded: &Guarded, file: &str) -> Vec<Value> {
  guarded.json(&["restore", file, "--list", "--json"]).as_array().unwrap().clone()
}

fn restore(guarded: &Guarded, args: &[&str]) -> Output {
  guarded.memfw(&[&["restore", "MEMORY.md"], args].concat())
}

/// The file without comments.
fn bare(guarded: &Guarded) -> Vec<u8> {
  marks::strip(&guarded.read("MEMORY.md"))
}

/// Destroys a file.
type Destroyer = fn(&Path);

/// The ways in which writers do that.
const DESTROYERS: [(&str, Destroyer); 6] = [
  ("truncate", |file| drop(OpenOptions::new().write(true).truncate(true).open(file).unwrap())),
  ("rewrite", |file| fs::write(file, "# Memory\n\nI summarised it.\n").unwrap()),
  ("in place", |file| {
    let open = OpenOptions::new().write(true).open(file).unwrap();
    open.write_all_at(b"# Nothing\n", 0).unwrap();
  }),
  ("rename over", |file| {
    let other = file.with_extension("tmp");
    fs::write(&other, "- other\n").unwrap();
    fs::rename(other, file).unwrap();
  }),
  ("unlink", |file| fs::remove_file(file).unwrap()),
  ("move away", |file| fs::rename(file, file.with_extension("old")).unwrap()),
];

#[test]
fn what_others_destroy_comes_back_exactly() {
  for daemon_runs in [true, false] {
    for (how, destroy) in DESTROYERS {
      let (mut guarded, text) = grown(AT_ONCE);
      if !daemon_runs {
        guarded.stop();
      }
      let context = format!("{how}, daemon runs: {daemon_runs}");
      destroy(&guarded.path("MEMORY.md"));
      if daemon_runs {
        guarded.settle();
      }
      let gone = !guarded.path("MEMORY.md").exists();
      let destroyed = if gone { Vec::new() } else { guarded.read("MEMORY.md") };
      let output = restore(&guarded, &["--yes"]);
      assert_eq!((output.status, output.stderr.as_str()), (0, ""), "{context}: {output:?}");
      marks::assert_same(&bare(&guarded), text.as_bytes(), &context);
      if !daemon_runs {
        guarded.start();
      }
      guarded.settle();
      marks::assert_same(&bare(&guarded), text.as_bytes(), &context);
      assert!(guarded.waiting().is_empty(), "{context}");
      // Each line has its former source: the baseline, and one unknown writer.
      let rows = guarded.json(&["provenance", "MEMORY.md", "--json"]);
      let sources: Vec<&str> =
        rows.as_array().unwrap().iter().map(|row| row["source"].as_str().unwrap()).collect();
      assert!(sources.contains(&"baseline") && sources.last() == Some(&"unknown"), "{rows:#}");
      assert!(!sources.iter().any(|source| !["baseline", "unknown"].contains(source)));
      let events = guarded.json(&["audit", "--event", "restored-version", "--json"]);
      assert_eq!(events.as_array().unwrap().len(), 1, "{context}");
      // The content that the restore replaced can be restored as well.
      if !gone {
        let undo = output.stdout.lines().last().unwrap();
        let version = undo.rsplit(' ').next().unwrap();
        assert!(
          undo.starts_with("  undo: memfw restore [TMP]/workspace/MEMORY.md --at "),
          "{undo}"
        );
        assert_eq!(restore(&guarded, &["--at", version]).status, 0);
        marks::assert_same(&bare(&guarded), &marks::strip(&destroyed), &context);
      }
      guarded.stop();
    }
  }
}

#[test]
fn a_file_that_was_gone_is_a_plain_new_one_of_its_owner() {
  let (mut guarded, text) = grown(QUIET);
  let file = guarded.path("MEMORY.md");
  fs::remove_file(&file).unwrap();
  guarded.settle();
  let diff = guarded.ok(&["restore", "MEMORY.md", "--diff"]);
  assert!(diff.starts_with("--- [TMP]/workspace/MEMORY.md gone\n"), "{diff}");
  assert!(!file.exists(), "nothing is made for showing it");
  let answer = guarded.json(&["restore", "MEMORY.md", "--yes", "--json"]);
  assert_eq!((&answer["created"], &answer["before"]), (&Value::Bool(true), &Value::Null));
  let found = file.symlink_metadata().unwrap();
  assert!(found.is_file() && found.nlink() == 1);
  assert_eq!(found.permissions().mode() & 0o777, 0o600);
  marks::assert_same(&guarded.read("MEMORY.md"), text.as_bytes(), "MEMORY.md");
  // A link in its place is not followed, and its target is not changed.
  let elsewhere = guarded.tmp().join("elsewhere.md");
  fs::remove_file(&file).unwrap();
  for target in ["elsewhere.md", "no-such-file.md"] {
    fs::write(&elsewhere, "mine\n").unwrap();
    std::os::unix::fs::symlink(guarded.tmp().join(target), &file).unwrap();
    let output = restore(&guarded, &["--yes"]);
    assert_eq!(output.status, 2, "{output:?}");
    assert!(output.stderr.contains("symbolic link"), "{output:?}");
    assert_eq!(fs::read(&elsewhere).unwrap(), b"mine\n");
    assert!(!guarded.tmp().join("no-such-file.md").exists());
    fs::remove_file(&file).unwrap();
  }
  guarded.stop();
}

#[test]
fn a_note_whose_directory_is_gone_asks_for_the_directory() {
  let note = "memory/2026/notes.md";
  let mut guarded = Guarded::new(QUIET).memory(note, BEFORE);
  guarded.start();
  kept(&guarded);
  fs::remove_dir_all(guarded.path("memory/2026")).unwrap();
  guarded.settle();
  let output = guarded.memfw(&["restore", note, "--yes"]);
  assert_eq!(output.status, 2, "{output:?}");
  let hint =
    "hint: create its directory first if it is missing: `mkdir -p [TMP]/workspace/memory/2026`";
  assert!(output.stderr.contains(hint), "{output:?}");
  fs::create_dir_all(guarded.path("memory/2026")).unwrap();
  guarded.ok(&["restore", note, "--yes"]);
  assert_eq!(guarded.read(note), BEFORE.as_bytes());
  guarded.stop();
}

#[test]
fn poison_does_not_come_back_with_a_version() {
  for daemon_runs in [true, false] {
    // The line was there before memfw, so the first version has it.
    let before = format!("{BEFORE}{}\n", poison(1));
    let mut guarded = Guarded::new(AT_ONCE).memory("MEMORY.md", &before);
    guarded.start();
    kept(&guarded);
    assert!(guarded.holding("memfw", &needle(1)).is_empty(), "versions are sealed");
    let flagged = guarded.listed("flagged");
    guarded.ok(&["quarantine", "add", id(&flagged[0])]);
    guarded.settle();
    assert!(guarded.holding("workspace", &needle(1)).is_empty());
    let first = list(&guarded, "MEMORY.md").last().unwrap().clone();
    fs::write(guarded.path("MEMORY.md"), "gone\n").unwrap();
    guarded.settle();
    if !daemon_runs {
      guarded.stop();
    }
    let version = first["version"].as_str().unwrap();
    let output = restore(&guarded, &["--at", version]);
    assert_eq!(output.status, 0, "{output:?}");
    let told = "1 block of it was taken out again: memfw list\n";
    assert!(output.stdout.contains(told), "{output:?}");
    assert!(guarded.holding("workspace", &needle(1)).is_empty());
    assert!(bare(&guarded).starts_with(BEFORE.as_bytes()));
    let waiting = guarded.waiting();
    assert_eq!((waiting.len(), &waiting[0]["occurrences"]), (1, &Value::from(2)));
    // After the approval the file equals the version again.
    guarded.approve_all();
    marks::assert_same(&bare(&guarded), before.as_bytes(), "MEMORY.md");
    if daemon_runs {
      guarded.stop();
    }
  }
}

#[test]
fn a_version_keeps_its_placeholders_and_an_approval_finds_them() {
  let (mut guarded, text) = grown(AT_ONCE);
  add(&guarded, &poison(2));
  assert_eq!(guarded.waiting().len(), 1);
  let output = guarded.ok(&["restore", "MEMORY.md", "--list"]);
  assert!(!output.contains(&needle(2)));
  fs::write(guarded.path("MEMORY.md"), "gone\n").unwrap();
  guarded.settle();
  guarded.ok(&["restore", "MEMORY.md", "--yes"]);
  guarded.settle();
  assert_eq!(marks::placeholders(&guarded.read("MEMORY.md")), 1);
  marks::assert_well_formed(&guarded.read("MEMORY.md"));
  guarded.approve_all();
  let expected = format!("{text}{}\n", poison(2));
  marks::assert_same(&bare(&guarded), expected.as_bytes(), "MEMORY.md");
  assert!(guarded.holding("memfw", &needle(2)).is_empty(), "versions are sealed");
  guarded.stop();
}

#[test]
fn markers_and_compaction_make_no_versions() {
  let (mut guarded, _) = grown(AT_ONCE);
  let writers: Vec<Value> =
    list(&guarded, "MEMORY.md").iter().map(|version| version["by"].clone()).collect();
  assert_eq!(writers, ["other", "other"], "the marker that was written is none");
  add(&guarded, &poison(3));
  let waiting = guarded.waiting();
  guarded.ok(&["quarantine", "reject", id(&waiting[0])]);
  guarded.settle();
  let versions = list(&guarded, "MEMORY.md");
  let by: Vec<&str> = versions.iter().map(|version| version["by"].as_str().unwrap()).collect();
  if marks::reshapes(guarded.tmp()) {
    assert_eq!(by, ["memfw", "other", "other", "other"], "the placeholder that went is one");
    assert_eq!(versions[0]["version"], versions[2]["version"]);
  }
  guarded.stop();
}

#[test]
fn the_list_as_people_and_programs_see_it() {
  let (mut guarded, _) = grown(QUIET);
  fs::write(guarded.path("MEMORY.md"), "# Memory\n").unwrap();
  guarded.settle();
  guarded.stop();
  let versions = list(&guarded, "MEMORY.md");
  let keys: Vec<&str> = versions[0].as_object().unwrap().keys().map(String::as_str).collect();
  let contract =
    ["version", "seen_at", "replaced_at", "bytes", "lines_added", "lines_removed", "by"];
  assert_eq!(keys, contract);
  let lines: Vec<(u64, u64)> = versions
    .iter()
    .map(|one| (one["lines_added"].as_u64().unwrap(), one["lines_removed"].as_u64().unwrap()))
    .collect();
  assert_eq!(lines, [(0, 4), (1, 0), (4, 0)]);
  assert_eq!(versions[0]["replaced_at"], Value::Null);
  assert_eq!(versions[1]["replaced_at"], versions[0]["seen_at"]);
  let text = guarded.ok(&["restore", "MEMORY.md", "--list"]);
  let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
  assert_eq!(rows[0], ["VERSION", "SEEN", "AGE", "BYTES", "LINES", "BY", "REPLACED"]);
  let short = &versions[1]["version"].as_str().unwrap()[..8];
  let seen = versions[1]["seen_at"].as_str().unwrap();
  let bytes = versions[1]["bytes"].to_string();
  assert_eq!(rows[2][..2], [short, seen], "{text}");
  assert!(rows[2].windows(4).any(|four| four == [&bytes, "+1", "-0", "other"]), "{text}");
  assert_eq!(rows[1].last(), Some(&"-"), "{text}");
}

#[test]
fn a_difference_shows_what_a_restore_would_change_and_changes_nothing() {
  let (mut guarded, _) = grown(QUIET);
  let hostile = "- \u{1b}[2J\u{202e}x\n";
  fs::write(guarded.path("MEMORY.md"), format!("# Memory\n\n- old\n{hostile}")).unwrap();
  guarded.settle();
  let shown = guarded.ok(&["restore", "MEMORY.md", "--diff"]);
  let (head, rest) = shown.split_once("@@").unwrap();
  assert!(head.starts_with("--- [TMP]/workspace/MEMORY.md now\n+++ [TMP]/workspace/MEMORY.md "));
  let expected = format!(
    " -1,4 +1,5 @@\n # Memory\n \n - old\n-- \\u{{1b}}[2J\\u{{202e}}x\n+- older\n+{}\n",
    clean(1)
  );
  assert_eq!(rest, expected);
  let answer = guarded.json(&["restore", "MEMORY.md", "--diff", "--json"]);
  let keys: Vec<&str> = answer.as_object().unwrap().keys().map(String::as_str).collect();
  let contract = ["file", "exists", "version", "seen_at", "lines_added", "lines_removed", "diff"];
  assert_eq!(keys, contract);
  assert_eq!(answer["diff"][4], format!("-{}", hostile.trim_end()));
  assert_eq!(guarded.read("MEMORY.md"), format!("# Memory\n\n- old\n{hostile}").as_bytes());
  guarded.stop();
}

#[test]
fn nothing_is_brought_back_without_being_asked_for() {
  let (mut guarded, text) = grown(QUIET);
  let again = restore(&guarded, &["--at", "2099-01-01"]);
  assert_eq!(again.status, 0, "{again:?}");
  assert!(again.stdout.ends_with(" is the current content\n"), "{again:?}");
  fs::write(guarded.path("MEMORY.md"), "gone\n").unwrap();
  guarded.settle();
  let output = restore(&guarded, &[]);
  assert_eq!((output.status, output.stdout.as_str()), (2, ""), "{output:?}");
  assert!(output.stderr.contains("nothing was changed\nhint: see what would change"), "{output:?}");
  assert!(output.stderr.contains("\nhint: pass `--yes`"), "{output:?}");
  assert_eq!(guarded.read("MEMORY.md"), b"gone\n");
  // A pipe gets the exact bytes.
  let versions = list(&guarded, "MEMORY.md");
  let version = versions[1]["version"].as_str().unwrap();
  assert_eq!(guarded.ok(&["restore", "MEMORY.md", "--print", "--at", version]), text);
  guarded.stop();
  // A file that has never changed.
  let mut guarded = Guarded::new(QUIET).memory("MEMORY.md", BEFORE);
  guarded.start();
  kept(&guarded);
  let output = restore(&guarded, &[]);
  assert_eq!(output.status, 1, "{output:?}");
  assert!(output.stdout.contains("no version differs from the current content"), "{output:?}");
  guarded.stop();
}

#[test]
fn mistakes_are_reported_with_what_to_type() {
  let (mut guarded, _) = grown(QUIET);
  guarded.stop();
  let file = "[TMP]/workspace/MEMORY.md";
  for (args, error, hint) in [
    (&["MEMRY.md", "--list"][..], "`[TMP]/workspace/MEMRY.md` is not a guarded memory file", file),
    (&["/etc/MEMORY.md", "--yes"], "`/etc/MEMORY.md` is not a guarded memory file", file),
    (
      &["MEMORY.md", "--at", "soon"],
      "`soon` is neither a version of this file nor a time",
      "2h ago",
    ),
    (&["MEMORY.md", "--at", "400d"], "no version from before", "--list"),
    (&["MEMORY.md", "--at", "ffffffff"], "neither a version of this file nor a time", "--list"),
  ] {
    let output = guarded.memfw(&[&["restore"], args].concat());
    assert_eq!((output.status, output.stdout.as_str()), (2, ""), "{args:?}: {output:?}");
    let (first, hints) = output.stderr.split_once('\n').unwrap();
    assert!(first.contains(error), "{args:?}: {output:?}");
    assert!(hints.starts_with("hint: ") && hints.contains(hint), "{args:?}: {output:?}");
  }
  // A key other than that of these seals.
  let key = guarded.tmp().join("memfw/data/master.key");
  let own = fs::read(&key).unwrap();
  let mut other = own.clone();
  other[0] ^= 1;
  fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
  fs::write(&key, &other).unwrap();
  let output = restore(&guarded, &["--print"]);
  assert_eq!((output.status, output.stdout.as_str()), (2, ""), "{output:?}");
  assert!(output.stderr.contains("key"), "{output:?}");
  fs::write(&key, &own).unwrap();
  assert_eq!(restore(&guarded, &["--print"]).status, 0);
}

#[test]
fn versions_can_be_switched_off_and_on_again() {
  let (mut guarded, _) = grown(QUIET);
  guarded.stop();
  let config = guarded.tmp().join("memfw/config/config.toml");
  let on = fs::read_to_string(&config).unwrap();
  fs::write(&config, format!("{on}[versions]\nmax_mb = 0\n")).unwrap();
  guarded.start();
  eventually("they are forgotten", || list(&guarded, "MEMORY.md").is_empty());
  assert_eq!(status(&guarded)["versions"], Value::Null);
  Writer::Shell.add(&guarded.path("MEMORY.md"), b"- unseen\n");
  guarded.settle();
  let output = restore(&guarded, &["--yes"]);
  assert_eq!(output.status, 2, "{output:?}");
  guarded.stop();
  fs::write(&config, on).unwrap();
  guarded.start();
  kept(&guarded);
  assert_eq!(list(&guarded, "MEMORY.md").len(), 1);
  guarded.stop();
}

#[test]
fn a_first_scan_of_many_notes_keeps_them_in_the_background() {
  const NOTES: usize = 300;
  let mut guarded = Guarded::new(QUIET);
  for n in 0..NOTES {
    guarded = guarded.memory(&format!("memory/note-{n:03}.md"), format!("# {n}\n\n{}\n", clean(n)));
  }
  guarded.start();
  kept(&guarded);
  let totals = &status(&guarded)["versions"];
  assert_eq!(totals["count"], NOTES);
  assert!(totals["bytes"].as_u64().unwrap() > 0 && totals["oldest"].is_string());
  fs::remove_file(guarded.path("memory/note-123.md")).unwrap();
  guarded.settle();
  guarded.ok(&["restore", "memory/note-123.md", "--yes"]);
  let expected = format!("# 123\n\n{}\n", clean(123));
  assert_eq!(guarded.read("memory/note-123.md"), expected.as_bytes());
  guarded.stop();
  // `run --once` keeps all of them.
  let guarded = Guarded::new(QUIET).memory("MEMORY.md", BEFORE);
  assert_eq!(guarded.memfw(&["run", "--once"]).status, 0);
  assert_eq!(list(&guarded, "MEMORY.md").len(), 1);
}

#[test]
fn a_restore_that_is_killed_loses_nothing() {
  let (mut guarded, text) = grown(AT_ONCE);
  guarded.stop();
  let mut random = Random::new();
  let line = format!("{}\n", clean(2));
  for round in 0..40 {
    // Either text may be in the file; the last destroyed one is restored, and the restore is killed
    // meanwhile.
    let bad = format!("# Round {round}\n{}", line.repeat(round % 7));
    fs::write(guarded.path("MEMORY.md"), &bad).unwrap();
    assert_eq!(guarded.memfw(&["run", "--once"]).status, 0);
    let versions = list(&guarded, "MEMORY.md");
    let good = versions.iter().find(|one| one["bytes"] == text.len()).expect("it is kept");
    let version = good["version"].as_str().unwrap().to_owned();
    let mut command = guarded.test().args(["restore", "MEMORY.md", "--at", &version]).start();
    pace(Duration::from_micros(random.below(25_000)));
    command.kill();
    assert_eq!(guarded.memfw(&["run", "--once"]).status, 0);
    let found = bare(&guarded);
    let is = |text: &str| found == text.as_bytes();
    assert!(is(&text) || is(&bad), "round {round}: {}, seed {}", marks::show(&found), random.seed);
    marks::assert_well_formed(&guarded.read("MEMORY.md"));
    // Both are still available.
    let kept: Vec<u64> =
      list(&guarded, "MEMORY.md").iter().map(|one| one["bytes"].as_u64().unwrap()).collect();
    assert!(kept.contains(&(text.len() as u64)) && kept.contains(&(bad.len() as u64)), "{kept:?}");
    assert_eq!(restore(&guarded, &["--at", &version]).status, 0);
    marks::assert_same(&bare(&guarded), text.as_bytes(), "after the kill");
  }
}

#[test]
fn a_restore_of_a_gone_file_that_is_killed_can_be_repeated() {
  let (mut guarded, text) = grown(AT_ONCE);
  guarded.stop();
  let mut random = Random::new();
  for round in 0..25 {
    fs::remove_file(guarded.path("MEMORY.md")).unwrap();
    let version = list(&guarded, "MEMORY.md")
      .iter()
      .find(|one| one["bytes"] == text.len())
      .map(|one| one["version"].as_str().unwrap().to_owned())
      .expect("it is kept");
    let mut command = guarded.test().args(["restore", "MEMORY.md", "--at", &version]).start();
    pace(Duration::from_micros(random.below(25_000)));
    command.kill();
    assert_eq!(guarded.memfw(&["run", "--once"]).status, 0);
    if guarded.path("MEMORY.md").exists() {
      let found = bare(&guarded);
      assert!(found.is_empty() || found == text.as_bytes(), "round {round}, seed {}", random.seed);
    }
    assert_eq!(restore(&guarded, &["--at", &version]).status, 0);
    marks::assert_same(&bare(&guarded), text.as_bytes(), "after the kill");
  }
}

#[test]
fn versions_of_a_daemon_that_is_killed_are_whole() {
  let mut guarded = Guarded::new(QUIET).memory("MEMORY.md", BEFORE);
  guarded.start();
  kept(&guarded);
  let mut random = Random::new();
  let mut text = BEFORE.to_owned();
  for n in 0..30 {
    let line = format!("{}\n", clean(n));
    text.push_str(&line);
    Writer::Shell.add(&guarded.path("MEMORY.md"), line.as_bytes());
    pace(Duration::from_micros(random.below(8_000)));
    if n % 3 == 2 {
      guarded.kill();
      guarded.start();
    }
  }
  guarded.settle();
  kept(&guarded);
  let versions = list(&guarded, "MEMORY.md");
  assert_eq!(versions[0]["bytes"], text.len(), "the present content is kept, seed {}", random.seed);
  for version in &versions {
    let printed = guarded.ok(&[
      "restore",
      "MEMORY.md",
      "--print",
      "--at",
      version["version"].as_str().unwrap(),
    ]);
    assert!(text.starts_with(&printed), "each version was there, seed {}", random.seed);
  }
  guarded.stop();
}

#[test]
fn a_file_that_somebody_keeps_open_is_not_rewritten_under_them() {
  let (mut guarded, _) = grown(QUIET);
  guarded.stop();
  let mut open = OpenOptions::new().append(true).open(guarded.path("MEMORY.md")).unwrap();
  open.write_all(b"- being written\n").unwrap();
  let before = guarded.read("MEMORY.md");
  let output = restore(&guarded, &["--yes"]);
  assert_eq!(output.status, 2, "{output:?}");
  assert!(output.stderr.contains("another program has `[TMP]/workspace/MEMORY.md` open"));
  assert_eq!(guarded.read("MEMORY.md"), before);
  drop(open);
  assert_eq!(restore(&guarded, &["--yes"]).status, 0);
}

#[test]
fn nothing_of_memfw_is_left_beside_a_restored_file() {
  let (mut guarded, _) = grown(AT_ONCE);
  fs::remove_file(guarded.path("MEMORY.md")).unwrap();
  guarded.settle();
  guarded.ok(&["restore", "MEMORY.md", "--yes"]);
  guarded.settle();
  let names: Vec<_> = files_below(&guarded.path("")).into_keys().collect();
  assert_eq!(names, [Path::new("MEMORY.md")]);
  guarded.stop();
}
