//! Memory in git: an ignore file, a baseline, the line after a scan, and the action that uses them.

use {
  crate::support::{Output, Test, clean, poison},
  serde_json::Value,
  std::{fs, path::Path, process::Command},
};

/// Two poisoned files and a clean one.
fn memory() -> Test {
  Test::new()
    .memory("MEMORY.md", format!("# Notes\n\n{}\n", poison(1)))
    .memory("memory/a.md", format!("{}\n", poison(2)))
    .memory("memory/b.md", format!("{}\n", clean(1)))
}

fn scan(test: &Test, args: &[&str]) -> Output {
  test.next().args(["scan"]).args(args).output()
}

/// The fingerprint of the finding in a file.
fn fingerprint(test: &Test, file: &str) -> String {
  let found: Value = serde_json::from_str(&scan(test, &["--json", file]).stdout).unwrap();
  found[0]["fingerprint"].as_str().unwrap().to_owned()
}

fn entry(fingerprint: &str, file: &str, more: &str) -> String {
  format!(
    "[[ignore]]\nfingerprint = \"{fingerprint}\"\nfile = \"{file}\"\nreason = \"an example of mine\"\n{more}\n"
  )
}

fn last(output: &Output) -> &str {
  output.stdout.lines().last().unwrap_or_default()
}

#[test]
fn a_scan_ends_with_one_line_about_all_of_it() {
  let test = memory();
  let output = scan(&test, &["."]);
  assert_eq!(output.status, 1, "{output:?}");
  assert_eq!(last(&output), "found: 2 to quarantine; 3 blocks in 3 files");
  assert!(output.stdout.contains(&format!("fingerprint {}", fingerprint(&test, "memory/a.md"))));
  let output = scan(&test, &["memory/b.md"]);
  assert_eq!((output.status, output.stdout.as_str()), (0, "clean: 1 block in 1 file\n"));
}

#[test]
fn what_a_person_excused_does_not_count_until_it_changes_or_expires() {
  let test = memory();
  let (first, second) = (fingerprint(&test, "MEMORY.md"), fingerprint(&test, "memory/a.md"));
  let write = |text: &str| fs::write(test.tmp().join("workspace/ignore.toml"), text).unwrap();
  let ignore = ["--ignore", "ignore.toml", "."];

  write(&(entry(&first, "MEMORY.md", "") + &entry(&second, "memory/a.md", "until = 2999-12-31")));
  let output = scan(&test, &ignore);
  assert_eq!((output.status, output.stderr.as_str()), (0, ""), "{output:?}");
  assert_eq!(output.stdout, "clean: 3 blocks in 3 files; 2 ignored\n");
  let json = scan(&test, &["--json", "--ignore", "ignore.toml", "."]);
  assert_eq!((json.status, json.stdout.as_str()), (0, "[]\n"), "{json:?}");
  let sarif = scan(&test, &["--sarif", "--ignore", "ignore.toml", "."]);
  let sarif: Value = serde_json::from_str(&sarif.stdout).unwrap();
  let results = sarif["runs"][0]["results"].as_array().unwrap();
  assert!(!results.is_empty() && results.iter().all(|one| one.get("suppressions").is_some()));

  // The place counts as well as the text, and an end is an end.
  write(&(entry(&first, "memory/b.md", "") + &entry(&second, "memory/a.md", "until = 2020-01-31")));
  let output = scan(&test, &ignore);
  assert_eq!(output.status, 1, "{output:?}");
  let warnings = "warning: ignore.toml:1: not needed: the file has no such finding\n\
    warning: ignore.toml:6: expired: it was valid until 2020-01-31\n";
  assert_eq!(output.stderr, warnings);
  // A scan of other files cannot say that an entry is not needed.
  assert!(!scan(&test, &["--ignore", "ignore.toml", "MEMORY.md"]).stderr.contains("not needed"));

  write(&entry(&second, "memory/a.md", ""));
  fs::write(test.tmp().join("workspace/memory/a.md"), poison(3)).unwrap();
  assert_eq!(scan(&test, &["--ignore", "ignore.toml", "memory"]).status, 1);
}

#[test]
fn a_mistake_in_an_ignore_file_has_its_line_and_ignores_nothing() {
  let test = memory().memory("ignore.toml", "# ours\n\n[[ignore]]\nfingerprint = \"12\"\n");
  let output = scan(&test, &["--ignore", "ignore.toml", "."]);
  assert_eq!((output.status, output.stdout.as_str()), (2, ""), "{output:?}");
  assert!(output.stderr.starts_with("error: ignore.toml:3:1: missing field"), "{output:?}");
  // A hook names the file before there is one.
  let output = scan(&test, &["--ignore", "none.toml", "."]);
  assert_eq!((output.status, output.stderr.as_str()), (1, ""), "{output:?}");
}

#[test]
fn only_what_an_earlier_scan_did_not_have_counts() {
  let test = memory();
  let known = scan(&test, &["--json", "MEMORY.md"]).stdout;
  fs::write(test.tmp().join("workspace/known.json"), known).unwrap();
  let output = scan(&test, &["--baseline", "known.json", "."]);
  assert_eq!(output.status, 1, "{output:?}");
  assert_eq!(last(&output), "found: 1 to quarantine; 3 blocks in 3 files; 1 known");
  assert!(!output.stdout.contains("MEMORY.md:"), "{output:?}");
  let output = scan(&test, &["--baseline", "known.json", "MEMORY.md"]);
  assert_eq!((output.status, last(&output)), (0, "clean: 1 block in 1 file; 1 known"));

  let output = scan(&test, &["--baseline", "none.json", "."]);
  assert_eq!(output.status, 2);
  assert!(
    output.stderr.contains("hint: make it: memfw scan --json PATH > none.json"),
    "{output:?}"
  );
  fs::write(test.tmp().join("workspace/known.json"), "{}").unwrap();
  assert_eq!(scan(&test, &["--baseline", "known.json", "."]).status, 2);
}

/// The script of the step of the action that scans.
fn script() -> String {
  let action = Path::new(env!("CARGO_MANIFEST_DIR")).join("integrations/github/action.yml");
  let text = fs::read_to_string(action).unwrap();
  let script = text.split("      run: |\n").nth(1).unwrap();
  assert!(!script.contains("${{"), "an input would be code: {script}");
  script.lines().flat_map(|line| [line.trim_start_matches("        "), "\n"]).collect()
}

#[test]
fn the_action_scans_by_the_same_files() {
  let test = memory();
  let workspace = test.tmp().join("workspace");
  let known = scan(&test, &["--json", "MEMORY.md"]).stdout;
  fs::write(workspace.join("known.json"), known).unwrap();
  let run = |paths: &str, baseline: &str| {
    let mut command = Command::new("bash");
    command.args(["--noprofile", "--norc", "-eo", "pipefail", "-c", &script()]);
    command.current_dir(&workspace).env("MEMFW", crate::support::program_path());
    command.env("MEMFW_HOME", test.tmp().join("memfw")).env("RUNNER_TEMP", test.tmp());
    command.envs([("PATHS", paths), ("FAIL_ON", "quarantine"), ("BASELINE", baseline)]);
    command.envs([("IGNORE", ".memfw-ignore.toml"), ("SARIF", "memfw.sarif")]);
    command.output().unwrap()
  };
  let output = run(".", "");
  assert_eq!(output.status.code(), Some(1), "{output:?}");
  let log: Value =
    serde_json::from_slice(&fs::read(workspace.join("memfw.sarif")).unwrap()).unwrap();
  assert!(!log["runs"][0]["results"].as_array().unwrap().is_empty());
  assert_eq!(run("MEMORY.md\nmemory/b.md", "known.json").status.code(), Some(0));
  let hostile = run("$(touch made); -x", "");
  assert_eq!(hostile.status.code(), Some(2), "{hostile:?}");
  assert!(!workspace.join("made").exists());
}
