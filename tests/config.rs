//! `memfw config` and the configuration file, good and bad.

use {
  crate::support::{CONFIG, Guarded, Test, eventually, poison},
  rustix::process::geteuid,
  serde_json::json,
  std::{fs, os::unix::fs::PermissionsExt as _},
};

/// What `memfw config show` prints without a file.
const TABLE: &str = "\
KEY                           VALUE         ORIGIN
workspaces                    []            default
preset                        \"balanced\"    default
markers                       \"auto\"        default
files.idle_ms                 5000          default
files.max_bytes               8388608       default
files.owners                  []            default
files.protocol                \"auto\"        default
files.quarantine              []            default
files.ignore                  []            default
agent.profiles                []            default
agent.owner_devices           []            default
agent.program                 \"\"            default
agent.follow                  \"edits\"       default
agent.extra_paths             \"report\"      default
baseline.action               \"flag\"        default
versions.keep_days            14            default
versions.max_mb               256           default
losses.max_percent            50            default
losses.min_lines              10            default
events.keep_days              730           default
events.max_count              1000000       default
quarantine.rejected_days      365           default
detection.scope               \"strict\"      default
detection.sensitivity         \"medium\"      default
detection.hold                \"on\"          default
detection.embedding_provider  \"local\"       default
detection.embedding_url       \"\"            default
detection.embedding_model     \"\"            default
detection.embedding_key_file  \"\"            default
judge.via                     \"off\"         default
judge.url                     \"\"            default
judge.model                   \"\"            default
judge.key_file                \"\"            default
judge.may_release             false         default
judge.per_hour                60            default
judge.per_day                 500           default
judge.exclude_sources         []            default
judge.exclude_files           []            default
trust.rule                    []            default
recall.min_trust              \"hostile\"     default
recall.max_results            20            default
recall.include_unvalidated    false         default
gate.enabled                  false         default
gate.max_wait_ms              2000          default
link.writes                   \"quarantine\"  default
notify.via                    \"none\"        default
notify.channel                \"\"            default
notify.target                 \"\"            default
notify.command                []            default
notify.interval_s             900           default
notify.flagged                true          default
log.level                     \"info\"        default
log.format                    \"text\"        default
";

#[test]
fn without_a_file_the_defaults_hold() {
  Test::new()
    .args(["config", "check"])
    .stdout("[TMP]/memfw/config/config.toml: does not exist, the defaults apply\n")
    .run()
    .then()
    .args(["config", "show"])
    .stdout(TABLE)
    .run()
    .then()
    .args(["config", "path"])
    .stdout("[TMP]/memfw/config/config.toml\n")
    .run();
}

#[test]
fn values_tell_where_they_come_from() {
  let config = "workspaces = [\"[TMP]/workspace\", \"~/notes\"]\n\n[files]\nidle_ms = 0\n";
  Test::new()
    .config(config)
    .env("MEMFW_LOG", "debug")
    .args(["config", "check"])
    .stdout("[TMP]/memfw/config/config.toml: fine\n")
    .run()
    .then()
    .config("[files]\nidle_ms = 0\n")
    .args(["config", "show", "--log-level", "warn"])
    .stdout(
      &TABLE
        .replace("5000          default", "0             [TMP]/memfw/config/config.toml:2")
        .replace("\"info\"        default", "\"warn\"        --log-level"),
    )
    .run();
  let shown =
    Test::new().config(config).env("MEMFW_LOG", "debug").args(["config", "show", "--json"]).json();
  assert_eq!(shown["exists"], true);
  let value = |key: &str| {
    let values = shown["values"].as_array().unwrap();
    values.iter().find(|value| value["key"] == key).unwrap().clone()
  };
  let idle = json!({
    "key": "files.idle_ms", "value": 0, "origin": "file", "line": 4, "name": null,
  });
  assert_eq!(value("files.idle_ms"), idle);
  assert_eq!(value("markers")["origin"], "default");
  let level = json!({
    "key": "log.level", "value": "debug", "origin": "environment", "line": null,
    "name": "MEMFW_LOG",
  });
  assert_eq!(value("log.level"), level);
  let workspaces = value("workspaces")["value"].clone();
  assert_eq!(workspaces.as_array().unwrap().len(), 2);
  assert!(workspaces[1].as_str().unwrap().ends_with("/home/notes"), "{workspaces}");
}

#[test]
fn a_flag_wins_over_the_environment() {
  let shown = Test::new()
    .env("MEMFW_LOG", "debug")
    .args(["--log-level", "error", "config", "show", "--json"])
    .json();
  let text = shown.to_string();
  assert!(text.contains(r#""value":"error","origin":"flag""#), "{text}");
}

#[test]
fn a_mistyped_key_is_refused_with_the_nearest_one() {
  Test::new()
    .config("[files]\nidel_ms = 4\n")
    .args(["config", "check"])
    .stderr(
      "
      error: [TMP]/memfw/config/config.toml:2:1: unknown key `idel_ms` in `[files]`
      hint: did you mean `idle_ms`?
      ",
    )
    .status(2)
    .run();
}

#[test]
fn a_wrong_log_level_in_the_environment_is_reported_and_an_empty_one_is_none() {
  Test::new()
    .env("MEMFW_LOG", "loud")
    .args(["config", "show"])
    .stderr("error: `MEMFW_LOG` is `loud`, expected `error`, `warn`, `info`, `debug` or `trace`\n")
    .status(2)
    .run();
  let shown = Test::new().env("MEMFW_LOG", "").args(["config", "show", "--json"]).json();
  assert!(!shown.to_string().contains("environment"), "{shown}");
}

const BROKEN: &str = "marker = \"warp\"\ntelemetry = true\n\n[files]\nmax_bytes = -1\n=\n\
  [log]\nlevel = \"wran\"\n";

#[test]
fn all_problems_are_reported_at_once_by_every_command_that_needs_the_configuration() {
  let stderr = "
    error: [TMP]/memfw/config/config.toml:1:1: unknown key `marker`
    hint: did you mean `markers`?
    error: [TMP]/memfw/config/config.toml:2:1: unknown key `telemetry`
    hint: `memfw config example` prints every key
    error: [TMP]/memfw/config/config.toml:5:13: `files.max_bytes` must be a whole number from 1 to 67108864, found -1
    error: [TMP]/memfw/config/config.toml:6:1: unquoted keys cannot be empty, expected letters, numbers, `-`, `_`
    error: [TMP]/memfw/config/config.toml:8:9: `log.level` must be `error`, `warn`, `info`, `debug` or `trace`, found `wran`
    hint: did you mean `warn`?
    ";
  let test = Test::new().config(BROKEN);
  let test = test.args(["config", "check"]).stderr(stderr).status(2).run().then();
  test.args(["config", "show"]).stderr(stderr).status(2).run();
}

#[test]
fn problems_come_as_json_on_request() {
  let output =
    Test::new().config("[log]\nlevels = 1\n").args(["config", "check", "--json"]).output();
  assert_eq!(output.status, 2);
  let answer: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
  assert_eq!(
    answer,
    json!({
      "file": "[TMP]/memfw/config/config.toml",
      "exists": true,
      "ok": false,
      "problems": [{
        "file": "[TMP]/memfw/config/config.toml",
        "line": 2, "column": 1, "message": "unknown key `levels` in `[log]`",
        "hint": "did you mean `level`?",
      }],
      "rules": [],
    })
  );
}

#[test]
fn a_broken_file_does_not_stop_those_who_mend_it() {
  Test::new()
    .config(BROKEN)
    .args(["config", "path"])
    .stdout("[TMP]/memfw/config/config.toml\n")
    .run();
  let example = Test::new().config(BROKEN).args(["config", "example"]).output();
  assert_eq!((example.status, example.stderr.as_str()), (0, ""));
}

#[test]
fn the_printed_example_is_a_good_configuration() {
  let example = Test::new().args(["config", "example"]).output().stdout;
  Test::new()
    .config(&example)
    .args(["config", "check"])
    .stdout("[TMP]/memfw/config/config.toml: fine\n")
    .run();
  let keys = Test::new().args(["config", "example", "--json"]).json();
  for key in keys.as_array().unwrap() {
    let leaf = key["key"].as_str().unwrap().rsplit('.').next().unwrap();
    let line = format!("# {leaf} = {}\n", key["default"]);
    assert!(example.contains(&line), "{line}");
    assert!(!key["about"].as_str().unwrap().is_empty());
  }
}

#[test]
fn a_file_that_cannot_be_read_is_no_missing_file() {
  let test = Test::new();
  fs::create_dir_all(test.tmp().join(CONFIG)).unwrap();
  let test = test
    .args(["config", "check"])
    .stderr(
      "error: cannot read the configuration `[TMP]/memfw/config/config.toml`: it is a directory\n",
    )
    .status(2)
    .run()
    .then();
  let file = test.tmp().join(CONFIG);
  fs::remove_dir(&file).unwrap();
  std::os::unix::fs::symlink("nowhere", &file).unwrap();
  let test = test
    .args(["config", "show"])
    .stderr(
      "error: cannot read the configuration `[TMP]/memfw/config/config.toml`: \
       it is a link to a file that does not exist\n",
    )
    .status(2)
    .run()
    .then();
  fs::remove_file(&file).unwrap();
  test
    .config(b"[log]\n# \xff\n")
    .args(["config", "show"])
    .stderr("error: cannot read the configuration `[TMP]/memfw/config/config.toml`: line 2 is not UTF-8\n")
    .status(2)
    .run();
}

#[test]
fn a_file_without_permission_is_refused() {
  // Root reads every file whatever its mode, so for root this shows only that no file is refused.
  let test = Test::new().config("");
  fs::set_permissions(test.tmp().join(CONFIG), fs::Permissions::from_mode(0o000)).unwrap();
  let test = test.args(["config", "check"]);
  if geteuid().is_root() {
    test.stdout("[TMP]/memfw/config/config.toml: fine\n").run();
  } else {
    test
      .stderr("error: cannot read the configuration `[TMP]/memfw/config/config.toml`: permission denied\n")
      .status(2)
      .run();
  }
}

#[test]
fn a_file_that_others_can_write_runs_nothing_and_is_reported() {
  let config =
    "[notify]\nvia = \"command\"\ncommand = [\"/bin/sh\", \"-c\", \"echo > [TMP]/pwned\"]\n";
  let mut guarded = Guarded::new(config).memory("MEMORY.md", "# Memory\n");
  let file = guarded.tmp().join(CONFIG);
  let chmod = |path: &std::path::Path, mode| {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
  };
  for (path, mode, whole) in
    [(file.as_path(), 0o666, 0o600), (file.parent().unwrap(), 0o777, 0o700)]
  {
    chmod(path, mode);
    let why = format!("can be written by others (mode {mode:o})");
    let check = guarded.memfw(&["config", "check"]);
    assert!(check.status != 0 && check.stderr.contains(&why), "{check:?}");
    let doctor = guarded.memfw(&["doctor"]);
    assert!(doctor.stdout.contains(&why), "{doctor:?}");
    guarded.start();
    drop(guarded.test().write("workspace/memory/x.md", format!("{}\n", poison(mode as usize))));
    guarded.wait_for_items(if mode == 0o666 { 1 } else { 2 });
    guarded.settle();
    let status = guarded.memfw(&["status"]);
    assert!(status.status == 1 && status.stdout.contains(&why), "{status:?}");
    assert!(guarded.log().contains(&why));
    // The daemon has noted it with the earlier mode.
    chmod(path, mode & 0o722);
    let status = guarded.memfw(&["status"]).stdout;
    let told = status.matches("other users can change the configuration").count();
    assert_eq!(told, 1, "{status}");
    guarded.stop();
    assert!(!guarded.tmp().join("pwned").exists());
    chmod(path, whole);
  }
  assert_eq!(guarded.memfw(&["config", "check"]).status, 0);
  // That text in a file of the user takes effect.
  guarded.start();
  drop(guarded.test().write("workspace/memory/x.md", format!("{}\n", poison(3))));
  eventually("the program runs", || guarded.tmp().join("pwned").exists());
  guarded.stop();
}

#[test]
fn hostile_text_in_the_file_reaches_no_terminal() {
  Test::new()
    .config("\"a\\u001b[2J\\nerror: \\u202e\" = 1\n")
    .args(["config", "check"])
    .stderr(
      "
      error: [TMP]/memfw/config/config.toml:1:1: unknown key `a\\u{1b}[2J\\nerror: \\u{202e}`
      hint: `memfw config example` prints every key
      ",
    )
    .status(2)
    .run();
}

#[test]
fn mistyped_commands_are_answered_with_the_right_one() {
  let output = Test::new().args(["cofig"]).output();
  assert_eq!((output.status, output.stdout.as_str()), (2, ""));
  assert!(output.stderr.contains("a similar subcommand exists: 'config'"), "{}", output.stderr);
  let output = Test::new().args(["config", "\x1b[2J\u{202e}"]).output();
  assert_eq!(output.status, 2);
  assert!(output.stderr.contains("\\u{202e}"), "{}", output.stderr);
  assert!(!output.stderr.contains(['\x1b', '\u{202e}']), "{}", output.stderr);
}

#[test]
fn help_and_version_need_nothing() {
  let version = concat!("memfw ", env!("CARGO_PKG_VERSION"), "\n");
  Test::new().config(BROKEN).args(["--version"]).stdout(version).run();
  let help = Test::new().config(BROKEN).args(["help"]).output();
  assert_eq!((help.status, help.stderr.as_str()), (0, ""));
  let columns = help.stdout.lines().map(|line| line.chars().count()).max();
  assert!(columns <= Some(100), "{}", help.stdout);
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
  let (reader, writer) = std::io::pipe().unwrap();
  drop(reader);
  let status = std::process::Command::new(env!("CARGO_BIN_EXE_memfw"))
    .args(["config", "example"])
    .env_clear()
    .env("MEMFW_HOME", "/nonexistent")
    .stdout(writer)
    .status()
    .unwrap();
  assert_eq!(status.code(), Some(0));
}

#[test]
fn a_full_disk_is_an_error() {
  let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
  let output = std::process::Command::new(env!("CARGO_BIN_EXE_memfw"))
    .args(["config", "example"])
    .env_clear()
    .env("MEMFW_HOME", "/nonexistent")
    .stdout(full)
    .stderr(std::process::Stdio::piped())
    .output()
    .unwrap();
  assert_eq!(output.status.code(), Some(2));
  assert_eq!(output.stderr, b"error: cannot write the output: no space left on device\n");
}

#[test]
fn a_mistake_in_an_array_names_the_line_where_the_array_begins() {
  let config = "[notify]\nvia = \"none\"\ncommand = [\"a\",\n\"b\"\n\n[log]\nlevel = \"info\"\n";
  let output = Test::new().config(config).args(["config", "check"]).output();
  let hint = "hint: the array that begins on line 3 may have no `]`, or a line of it no comma\n";
  assert!(output.stderr.contains(hint), "{}", output.stderr);
}
