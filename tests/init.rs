//! `memfw init`: five questions, a plan, and nothing before the person agrees.

use {
  crate::service_files::MANAGER,
  crate::support::{
    CONFIG, Guarded, NEVER, Terminal, Test, clean, eventually, files_below, poison,
    without_progress,
  },
  serde_json::json,
  std::{fs, os::unix::fs::PermissionsExt as _, path::Path},
};

/// A home with an agent whose memory has this text.
fn agent(text: &str) -> Test {
  Test::new().write("home/.openclaw/workspace/MEMORY.md", text)
}

/// An agent with a harmless memory.
fn harmless() -> Test {
  agent(&format!("# Memory\n\n{}\n", clean(1)))
}

/// An imitated service manager in `[TMP]/bin`.
fn with_manager(test: Test, text: &str) -> Test {
  let test = test.write("bin/systemctl", text);
  let path = test.tmp().join("bin/systemctl");
  fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
  test
}

fn config(test: &Test) -> String {
  fs::read_to_string(test.tmp().join(CONFIG)).unwrap_or_default()
}

/// What is shown, with the directory of the test as `[TMP]`, and the exit status.
#[track_caller]
fn ended(test: &Test, mut terminal: Terminal) -> (String, Option<i32>) {
  let status = terminal.wait().code();
  let shown = String::from_utf8(terminal.all()).unwrap().replace("\r\n", "\n");
  let shown = without_progress(&shown);
  (shown.replace(test.tmp().to_str().unwrap(), "[TMP]"), status)
}

/// Answers questions on a terminal of 60 columns; each answer follows this prompt.
#[track_caller]
fn session(test: &Test, args: &[&str], answers: &[(&str, &str)]) -> Option<(String, Option<i32>)> {
  let test = test.next().env("TERM", "xterm").env("NO_COLOR", "1").args(["init"]).args(args);
  let mut terminal = test.on_terminal_that_asks(60)?;
  for (prompt, answer) in answers {
    terminal.expect(prompt);
    terminal.enter(answer);
  }
  Some(ended(&test, terminal))
}

const FOUND: &str = "\
Found OpenClaw in [TMP]/home/.openclaw
Memory to guard:
  [TMP]/home/.openclaw/workspace
    agent main, 1 memory file
";

/// The prompts of a first run, without a service manager.
const PROMPTS: [&str; 6] =
  ["[balanced] > ", "[none] > ", "[none] > ", "[auto] > ", "[off] > ", "do it? [y/N] "];

#[test]
fn five_questions_and_one_agreement_set_it_up() {
  let test = harmless();
  let typed = [
    (PROMPTS[0], "st"),
    (PROMPTS[1], "user"),
    (PROMPTS[1], ""),
    (PROMPTS[2], "message telegram"),
    (PROMPTS[2], "command true  -v"),
    (PROMPTS[3], "x"),
    (PROMPTS[3], "id"),
    (PROMPTS[4], "endpoint http://judge.example/v1 small"),
    (PROMPTS[4], "endpoint http://127.0.0.1:9/v1 small"),
    (PROMPTS[5], "y"),
  ];
  let Some((shown, status)) = session(&test, &[], &typed) else { return };
  assert_eq!(status, Some(0), "{shown}");
  let expected = format!(
    "{FOUND}
Enter takes the answer in brackets, q quits.

1. How strict is memfw?
   quiet     only strong evidence counts, few messages
   balanced  the defaults
   strict    little evidence; takes out old poison too
[balanced] > st

2. What starts memfw?
   none  you do: `memfw run`
[none] > user
   expected `none`
[none] > 

3. How are you notified when text is taken out?
   none                       not at all
   desktop                    a desktop notification
   event                      the agent says it
   message CHANNEL RECIPIENT  the agent sends it
   command PROGRAM [ARG]...   a program of yours
[none] > message telegram
   type the channel and the recipient: `message CHANNEL RECIPIENT`
[none] > command true  -v

4. Which comments in your files name the origin of a text?
   auto  as many as a file has room for
   wrap  two around texts that were written together
   id    a short one for each entry
   none  none; memfw knows the origin anyway
[auto] > x
   expected `auto`, `wrap`, `id` or `none`
[auto] > id

5. Which model reads new entries from outside?
   off                 none; nothing leaves this machine
   agent [MODEL]       the agent's own model
   endpoint URL MODEL  a server with OpenAI's API
   queue               a program that takes questions
[off] > endpoint http://judge.example/v1 small
   `judge.url`: `http://judge.example/v1` is not encrypted; `http` reaches only this machine
   hint: write it as `https://host/path`
[off] > endpoint http://127.0.0.1:9/v1 small

Plan:
  write    [TMP]/memfw/config/config.toml
           preset = \"strict\", was \"balanced\"
           markers = \"id\", was \"auto\"
           notify.command = [\"true\", \"-v\"], was []
           notify.via = \"command\", was \"none\"
           judge.url = \"http://127.0.0.1:9/v1\", was \"\"
           judge.model = \"small\", was \"\"
           judge.via = \"endpoint\", was \"off\"
  scan     1 memory file in 1 place
           what is there is the baseline;
           poison that is in memory already is taken out
           of its files
note: `notify.via` is `command` and its program `true` was not found
      `memfw doctor` names the command that mends it
do it? [y/N] y

wrote      [TMP]/memfw/config/config.toml
knows      1 block in 1 file
findings   none
next: memfw run  # guard until you end it
next: memfw status  # what is protected
"
  );
  assert_eq!(shown, expected);
  let written = "preset = \"strict\"\nmarkers = \"id\"\n\n[notify]\ncommand = [\"true\", \"-v\"]\nvia = \"command\"\n\n\
    [judge]\nurl = \"http://127.0.0.1:9/v1\"\nmodel = \"small\"\nvia = \"endpoint\"\n";
  assert_eq!(config(&test), written);
  let words = ["TMP", "judge.url`", "`memfw", "notify.via` is", "message CHANNEL RECIPIENT`"];
  let ours = shown.lines().filter(|line| !words.iter().any(|word| line.contains(word)));
  for line in ours {
    assert!(line.chars().count() <= 60, "{line}");
  }
}

#[test]
fn a_second_run_shows_the_present_values_and_changes_only_what_differs() {
  let mine = "# mine\nmarkers = 'wrap'   # as I like it\n\n[notify] # where\nvia = \"command\"\n\
    # by voice\ncommand = [\"say\", \"it is out\"]\n\n[judge]\n# not now\nvia = \"off\"\n";
  let test = harmless().config(mine);
  let prompts =
    ["[balanced] > ", "[none] > ", "[command say it is out] > ", "[wrap] > ", "[off] > "];
  let enter: Vec<(&str, &str)> = prompts.iter().map(|&prompt| (prompt, "")).collect();
  let all = [&enter[..], &[("do it? [y/N] ", "y")]].concat();
  let Some((shown, status)) = session(&test, &[], &all) else { return };
  assert_eq!(status, Some(0), "{shown}");
  assert!(shown.contains("\nPlan:\n  scan     1 memory file in 1 place\n"), "{shown}");
  assert_eq!(config(&test), mine);
  let (shown, status) = session(&test, &[], &enter).unwrap();
  assert_eq!(status, Some(0), "{shown}");
  assert!(shown.contains("\nnothing to change\n") && !shown.contains("Plan:"), "{shown}");
  assert_eq!(config(&test), mine);
  // One value is changed, and no byte around it.
  let mut typed = all;
  typed[3].1 = "auto";
  let (shown, status) = session(&test, &[], &typed).unwrap();
  assert_eq!(status, Some(0), "{shown}");
  let plan = "Plan:\n  write    [TMP]/memfw/config/config.toml\n           \
    markers = \"auto\", was \"wrap\"\nnote: ";
  assert!(shown.contains(plan), "{shown}");
  assert_eq!(config(&test), mine.replace("'wrap'", "\"auto\""));
}

#[test]
fn a_person_who_quits_changes_nothing() {
  let test = harmless();
  let before = files_below(test.tmp());
  for n in 0..=5 {
    let mut typed: Vec<(&str, &str)> = PROMPTS[..=n].iter().map(|&prompt| (prompt, "")).collect();
    typed[0].1 = if n > 0 { "strict" } else { "q" };
    typed[n].1 = "q";
    let Some((shown, status)) = session(&test, &[], &typed) else { return };
    assert_eq!(status, Some(1), "{shown}");
    assert!(shown.ends_with("nothing was changed\n"), "{shown}");
    assert_eq!(files_below(test.tmp()), before);
  }
  // Ctrl-C, and Ctrl-D in an empty line.
  let start = || {
    let test = test.next().env("NO_COLOR", "1").args(["init"]);
    let mut terminal = test.on_terminal_that_asks(60)?;
    terminal.expect(PROMPTS[0]);
    Some((test, terminal))
  };
  let Some((stopped, terminal)) = start() else { return };
  terminal.interrupt();
  let (shown, status) = ended(&stopped, terminal);
  assert_eq!(status, Some(1), "{shown}");
  assert!(shown.ends_with("\nnothing was changed\n"), "{shown}");
  let (at_end, mut terminal) = start().unwrap();
  terminal.enter("strict");
  terminal.expect(PROMPTS[1]);
  terminal.end_input();
  let (shown, status) = ended(&at_end, terminal);
  assert_eq!(status, Some(1), "{shown}");
  assert_eq!(files_below(test.tmp()), before);
}

#[test]
fn flags_answer_their_questions_and_only_the_others_are_asked() {
  let test = harmless();
  let flags = ["--preset", "quiet", "--service", "none", "--notify", "none", "--judge", "off"];
  let typed = [("1. Which comments", ""), ("[auto] > ", "none"), ("do it? [y/N] ", "y")];
  let Some(mut terminal) = test.next().args(["init"]).args(flags).on_terminal_that_asks(60) else {
    return;
  };
  terminal.expect(typed[0].0);
  for (prompt, answer) in &typed[1..] {
    terminal.expect(prompt);
    terminal.enter(answer);
  }
  assert_eq!(ended(&test, terminal).1, Some(0));
  assert_eq!(config(&test), "preset = \"quiet\"\nmarkers = \"none\"\n");
}

#[test]
fn without_a_terminal_it_names_the_flags() {
  let test = harmless();
  let before = files_below(test.tmp());
  test
    .next()
    .args(["init", "--preset", "strict"])
    .status(2)
    .stderr(
      "
      error: `memfw init` asks on a terminal, and this is none; nothing was changed
      hint: memfw init --preset P --service S --notify N --markers M --judge J --yes
      hint: what no flag answers keeps its current value; `--dry-run` shows what would be done
      ",
    )
    .run();
  test
    .next()
    .args(["init", "--json"])
    .status(2)
    .stderr("error: `--json` asks nothing\nhint: pass `--yes` or `--dry-run` as well\n")
    .run();
  for (flag, value, why) in [
    ("--preset", "loud", "expected `quiet`, `balanced` or `strict`"),
    ("--service", "cron", "expected `user`, `system`, `launchd` or `none`"),
    ("--notify", "message ann", "type the channel and the recipient: `message CHANNEL RECIPIENT`"),
    ("--markers", "all", "expected `auto`, `wrap`, `id` or `none`"),
    ("--judge", "endpoint x", "type the address and the model: `endpoint URL MODEL`"),
    ("--judge", "endpoint http://x m", "`http` reaches only this machine"),
    ("--workspace", "nowhere", "is not a directory"),
  ] {
    let output = test.next().args(["init", "--yes", flag, value]).output();
    assert_eq!((output.status, output.stdout.as_str()), (2, ""), "{output:?}");
    assert!(output.stderr.contains(why), "{output:?}");
  }
  assert_eq!(files_below(test.tmp()), before);
}

#[test]
fn a_script_sees_the_plan_and_has_it_carried_out() {
  let test = harmless();
  let before = files_below(test.tmp());
  let plan = format!(
    "{FOUND}
Plan:
  write    [TMP]/memfw/config/config.toml
           preset = \"strict\", was \"balanced\"
           notify.via = \"event\", was \"none\"
  scan     1 memory file in 1 place
           what is there is the baseline;
           poison that is in memory already is taken out
           of its files
note: `notify.via` needs OpenClaw's program, which was not found
      `memfw doctor` names the command that mends it
"
  );
  let args = ["init", "--preset", "strict", "--notify", "event"];
  test.next().args(args).args(["--dry-run"]).stdout(&plan).run();
  assert_eq!(files_below(test.tmp()), before);
  let dry = test.next().args(args).args(["--dry-run", "--json"]).json();
  assert_eq!(files_below(test.tmp()), before);
  assert_eq!(dry["steps"][0]["state"], "planned");
  assert_eq!(dry["guarding"], json!(null));
  let done = test.next().args(["init", "--preset", "strict", "--yes", "--json"]).json();
  assert_eq!(
    done,
    json!({
      "found": [{
        "name": "OpenClaw", "version": null, "home": "[TMP]/home/.openclaw",
        "agents": [{ "id": "main", "workspace": "[TMP]/home/.openclaw/workspace" }],
      }],
      "workspaces": [
        { "path": "[TMP]/home/.openclaw/workspace", "agents": ["main"], "files": 1 },
      ],
      "answers": {
        "preset": "strict", "service": "none", "notify": "none", "markers": "auto", "judge": "off",
      },
      "steps": [
        {
          "step": "write", "file": "[TMP]/memfw/config/config.toml", "state": "done",
          "changes": [{ "key": "preset", "value": "strict", "was": "balanced" }],
        },
        { "step": "scan", "file": null, "changes": [], "state": "done" },
      ],
      "notes": [], "guarding": false, "blocks": 1, "findings": 0,
    })
  );
  assert_eq!(config(&test), "preset = \"strict\"\n");
  test
    .next()
    .args(["init", "--yes", "--quiet"])
    .stdout(
      "
    nothing to change
    knows      1 block in 1 file
    findings   none
    ",
    )
    .run();
}

#[test]
fn where_there_is_no_agent_it_says_where_it_looked() {
  let test = Test::new();
  let before = files_below(test.tmp());
  test
    .next()
    .args(["init", "--yes"])
    .status(2)
    .stderr(
      "
      error: no agent was found: there is neither `[TMP]/home/.openclaw` nor `[TMP]/home/.openclaw/workspace`
      hint: name the directory with its memory: `memfw init --workspace DIR`
      hint: if OpenClaw keeps its files elsewhere, set `OPENCLAW_STATE_DIR` as for OpenClaw
      ",
    )
    .run();
  assert_eq!(files_below(test.tmp()), before);
  let test = test.memory("MEMORY.md", format!("{}\n", clean(1)));
  test
    .next()
    .args(["init", "--workspace", "../workspace", "--workspace", "../home", "--dry-run"])
    .stdout(
      "
      Memory to guard:
        [TMP]/workspace
          1 memory file
        [TMP]/home
          0 memory files

      Plan:
        write    [TMP]/memfw/config/config.toml
                 workspaces = [\"[TMP]/workspace\", \"[TMP]/home\"], was []
        scan     1 memory file in 2 places
                 what is there is the baseline; no file changes
      ",
    )
    .run();
  let output = test.next().args(["init", "--workspace", "[TMP]/workspace", "--yes"]).output();
  assert_eq!((output.status, output.stderr.as_str()), (0, ""), "{output:?}");
  assert_eq!(
    config(&test).replace(test.tmp().to_str().unwrap(), "[TMP]"),
    "workspaces = [\"[TMP]/workspace\"]\n"
  );
  // Once it is named, nothing has to be found.
  assert_eq!(test.next().args(["init", "--yes"]).output().status, 0);
}

#[test]
fn names_of_the_agent_cannot_write_on_the_terminal() {
  let agents = "{\"agents\": {\"entries\": {\"main\": {\"workspace\": \"[TMP]/a\\u001b[31m\"}}}}";
  let test = harmless().write("home/.openclaw/openclaw.json", agents);
  fs::create_dir(test.tmp().join("a\u{1b}[31m")).unwrap();
  let output = test.args(["init", "--dry-run"]).output();
  assert_eq!(output.status, 0, "{output:?}");
  assert!(output.stdout.contains("  [TMP]/a\\u{1b}[31m\n"), "{output:?}");
  assert!(!output.stdout.contains('\u{1b}'), "{output:?}");
}

#[test]
fn a_failed_step_says_what_was_done_and_what_was_not() {
  let text = "#!/bin/sh\ncase \"$*\" in *enable*) echo 'it is broken' >&2; exit 1 ;; esac\n";
  let test = with_manager(harmless(), text);
  let next = || test.next().env("PATH", "[TMP]/bin").env("XDG_RUNTIME_DIR", "[TMP]");
  next()
    .args(["init", "--preset", "quiet", "--service", "user", "--yes", "--quiet"])
    .stdout(
      "
      wrote      [TMP]/memfw/config/config.toml
      wrote      [TMP]/home/.config/systemd/user/memfw.service
      ran        systemctl --user daemon-reload
      failed     install [TMP]/home/.config/systemd/user/memfw.service
      not done   scan 1 memory file in 1 place
      ",
    )
    .stderr(
      "
      error: `[TMP]/bin/systemctl` failed (exit status: 1): it is broken
      hint: see its log: journalctl --user -fu memfw.service
      hint: memfw service status
      hint: `memfw init` does the rest once this is mended
      ",
    )
    .status(2)
    .run();
  assert_eq!(config(&test), "preset = \"quiet\"\n");
  let again = next().args(["init", "--yes", "--json"]).output();
  assert_eq!(again.status, 2, "{again:?}");
  let said: serde_json::Value = serde_json::from_str(&again.stdout).unwrap();
  let states: Vec<_> = said["steps"].as_array().unwrap().iter().map(|one| &one["state"]).collect();
  assert_eq!(states, ["failed", "not-done"], "{said:#}");
}

#[test]
fn what_is_written_while_it_asks_is_not_overwritten() {
  let test = harmless();
  let asked = test.next().env("TERM", "xterm").env("NO_COLOR", "1").args(["init"]);
  let Some(mut terminal) = asked.on_terminal_that_asks(60) else { return };
  for prompt in &PROMPTS[..5] {
    terminal.expect(prompt);
    terminal.enter(if *prompt == PROMPTS[0] { "strict" } else { "" });
  }
  terminal.expect(PROMPTS[5]);
  let mine = "log.level = \"debug\"\n";
  fs::create_dir_all(test.tmp().join(CONFIG).parent().unwrap()).unwrap();
  fs::write(test.tmp().join(CONFIG), mine).unwrap();
  terminal.enter("y");
  let (shown, status) = ended(&asked, terminal);
  assert_eq!(status, Some(2), "{shown}");
  assert!(shown.contains("was changed while the questions were asked"), "{shown}");
  assert_eq!(config(&test), mine);
}

#[test]
fn a_configuration_that_cannot_be_written_is_reported_and_left_alone() {
  let guarded = Guarded::new("# mine\n").memory("MEMORY.md", format!("{}\n", clean(1)));
  let Some(guarded) = guarded.played_by_nobody() else { return };
  let dir = guarded.tmp().join("memfw/config");
  let before = fs::read(dir.join("config.toml")).unwrap();
  fs::set_permissions(&dir, fs::Permissions::from_mode(0o500)).unwrap();
  let output = guarded.memfw(&["init", "--markers", "id", "--service", "none", "--yes"]);
  assert_eq!(output.status, 2, "{output:?}");
  let rest =
    "\nfailed     write [TMP]/memfw/config/config.toml\nnot done   scan 1 memory file in 1 place\n";
  assert!(output.stdout.ends_with(rest), "{output:?}");
  let why = output.stderr.to_lowercase();
  assert!(why.starts_with("error: ") && why.contains("permission denied"), "{output:?}");
  assert_eq!(fs::read(dir.join("config.toml")).unwrap(), before);
  assert!(!guarded.tmp().join("memfw/data/ledger.sqlite").exists());
  fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).unwrap();
  // A file that has a mistake, or that others can write, is refused before anything is asked.
  for (text, mode, why) in
    [("marker = 1\n", 0o600, "unknown key `marker`"), ("", 0o666, "other users can change")]
  {
    fs::write(dir.join("config.toml"), text).unwrap();
    fs::set_permissions(dir.join("config.toml"), fs::Permissions::from_mode(mode)).unwrap();
    let output = guarded.memfw(&["init", "--yes"]);
    assert_eq!((output.status, output.stdout.as_str()), (2, ""), "{output:?}");
    assert!(output.stderr.contains(why), "{output:?}");
  }
}

#[test]
fn a_service_that_is_in_place_stays_and_none_removes_it() {
  let mut guarded =
    Guarded::new(NEVER).env("PATH", "[TMP]/bin").memory("MEMORY.md", format!("{}\n", clean(1)));
  let test = with_manager(guarded.test(), MANAGER);
  let unit = guarded.tmp().join("home/.config/systemd/user/memfw.service");
  guarded.ok(&["service", "install"]);
  // In place of the service, whose manager is imitated.
  guarded.start();
  let text = guarded.ok(&["init", "--yes"]);
  let ends = "\nnothing to change\nguards     1 block in 1 file\nfindings   none\n\
    next: memfw status  # what is protected\n";
  assert!(text.ends_with(ends), "{text}");
  fs::remove_file(test.tmp().join("said")).unwrap();
  let dry = guarded.ok(&["init", "--service", "none", "--dry-run"]);
  let plan = "Plan:\n  remove   [TMP]/home/.config/systemd/user/memfw.service\n           \
    and stop the service: nothing starts memfw then\n";
  assert!(dry.ends_with(plan), "{dry}");
  assert!(unit.exists());
  // The file of the service names the guarded directories.
  let elsewhere = guarded.json(&["init", "--workspace", "[TMP]/home", "--dry-run", "--json"]);
  let steps: Vec<_> =
    elsewhere["steps"].as_array().unwrap().iter().map(|one| &one["step"]).collect();
  assert_eq!(steps, ["write", "install", "scan"]);
  guarded.ok(&["init", "--service", "none", "--yes"]);
  assert!(!unit.exists());
  let said = fs::read_to_string(test.tmp().join("said")).unwrap();
  assert!(said.contains("[--user] [disable] [--now] [memfw.service]\n"), "{said}");
  // It runs still, as if it was started by hand: that is no reason to install a service.
  assert_eq!(guarded.json(&["init", "--dry-run", "--json"])["answers"]["service"], "none");
  let output = guarded.memfw(&["init", "--service", "user", "--yes"]);
  assert_eq!(output.status, 2, "{output:?}");
  assert!(output.stderr.starts_with("error: another memfw is guarding already"), "{output:?}");
  assert!(!unit.exists());
  guarded.stop();
}

#[test]
fn a_daemon_that_runs_takes_the_new_values() {
  let mut guarded = Guarded::new(NEVER).memory("MEMORY.md", format!("{}\n", clean(1)));
  guarded.start();
  let text = guarded.ok(&["init", "--preset", "quiet", "--yes"]);
  assert!(
    text.contains("\nwrote      [TMP]/memfw/config/config.toml\nguards     1 block"),
    "{text}"
  );
  assert!(guarded.log().contains("configuration reloaded"), "{}", guarded.log());
  assert_eq!(guarded.ok(&["doctor", "--quiet"]), "");
  guarded.stop();
}

#[test]
fn a_manager_that_says_yes_and_starts_nothing_is_noticed() {
  let mut guarded = Guarded::new(NEVER).env("PATH", "[TMP]/bin").memory("MEMORY.md", "# Memory\n");
  guarded.start();
  guarded.stop();
  drop(with_manager(guarded.test(), MANAGER));
  guarded.ok(&["service", "install"]);
  let output = guarded.memfw(&["init", "--yes"]);
  assert_eq!((output.status, output.stderr.as_str()), (1, ""), "{output:?}");
  assert!(
    output.stdout.contains("\nnothing to change\nknows      1 block in 1 file\nfindings   none\n"),
    "{output:?}"
  );
  assert!(
    output.stdout.contains("\nnext: memfw doctor  # why nothing is guarded yet\n"),
    "{output:?}"
  );
}

#[test]
fn what_was_found_in_the_baseline_can_be_reviewed_at_once() {
  let test = agent(&format!("# Memory\n\n{}\n{}\n", clean(1), poison(1)));
  let memory = test.tmp().join("home/.openclaw/workspace/MEMORY.md");
  let before = fs::read(&memory).unwrap();
  let mut typed: Vec<(&str, &str)> = PROMPTS.iter().map(|&prompt| (prompt, "")).collect();
  typed[5].1 = "y";
  let test = test.next().env("TERM", "xterm").env("NO_COLOR", "1").args(["init"]);
  let Some(mut terminal) = test.on_terminal_that_asks(60) else { return };
  for (prompt, answer) in typed {
    terminal.expect(prompt);
    terminal.enter(answer);
  }
  let shown = terminal.expect("review them now? [y/N] ");
  assert!(
    shown.contains("knows      2 blocks in 1 file\r\nfindings   1 waits for you\r\n"),
    "{shown}"
  );
  terminal.enter("y");
  let card = terminal.expect(" quit");
  assert!(card.contains("[1 of 1]") && card.contains("flagged"), "{card}");
  terminal.press(b"q");
  let (shown, status) = ended(&test, terminal);
  assert_eq!(status, Some(0), "{shown}");
  assert!(shown.contains("0 items decided, 1 left\nnext: memfw run  #"), "{shown}");
  assert_eq!(fs::read(&memory).unwrap(), before, "a flagged baseline stays");
  let said = test.next().args(["init", "--yes"]).output().stdout;
  assert!(said.contains("findings   1 waits for you\nnext: memfw review  # decide"), "{said}");
  assert!(Path::new(&memory).exists());
  eventually("no daemon is left", || {
    test.next().args(["status", "--short"]).output().stdout.contains("stopped")
  });
}

/// The files of a scan that is cut off: more than are read before the next look at signals.
#[cfg(all(debug_assertions, linux))]
const N_CUT_OFF: usize = 40;

/// Begins a scan that stops or dies at its second file.
#[cfg(all(debug_assertions, linux))]
fn cut_off(how: &str) -> (Test, crate::support::Background) {
  let name = |n: usize| format!("home/.openclaw/workspace/memory/{n}.md");
  let test = (0..N_CUT_OFF)
    .fold(Test::new(), |test, n| test.write(name(n), format!("# {n}\n\n{}\n", clean(n))));
  let begun = test
    .next()
    .env(memfw::failpoint::VARIABLE, format!("pass-before-record:2{how}"))
    .args(["init", "--preset", "strict", "--service", "none", "--yes", "--json"]);
  let mut running = begun.start();
  running.wait_for_log("failpoint pass-before-record");
  (test, running)
}

/// The steps of a second run, and what it knows then.
#[cfg(all(debug_assertions, linux))]
fn second_run(test: &Test) {
  let plan = test.next().args(["init", "--dry-run", "--json"]).json();
  assert_eq!(plan["steps"][0]["step"], "scan", "{plan:#}");
  let done = test.next().args(["init", "--yes", "--json"]).json();
  assert_eq!(done["steps"][0]["state"], "done", "{done:#}");
  assert_eq!(done["blocks"], json!(N_CUT_OFF), "{done:#}");
  let plan = test.next().args(["init", "--dry-run", "--json"]).json();
  assert_eq!(plan["steps"], json!([]), "{plan:#}");
}

#[cfg(all(debug_assertions, linux))]
#[test]
fn an_interrupted_scan_is_no_success_and_the_next_run_finishes_it() {
  use rustix::process::Signal;
  let (test, mut running) = cut_off(":stop");
  running.signal(Signal::INT);
  running.signal(Signal::CONT);
  let status = running.wait();
  let (stdout, stderr) = (running.stdout(), String::from_utf8(running.stderr()).unwrap());
  assert_eq!(status.code(), Some(2), "{stderr}");
  assert!(stderr.contains("error: the scan was interrupted\n"), "{stderr}");
  let said: serde_json::Value = serde_json::from_slice(&stdout).unwrap();
  let states: Vec<_> = said["steps"].as_array().unwrap().iter().map(|one| &one["state"]).collect();
  assert_eq!(states, ["done", "failed"], "{said:#}");
  second_run(&test);
}

#[cfg(all(debug_assertions, linux))]
#[test]
fn a_scan_that_was_killed_is_done_by_the_next_run() {
  let (test, mut running) = cut_off("");
  assert_eq!(running.wait().code(), None);
  second_run(&test);
}

#[test]
fn a_named_directory_without_memory_and_a_dropped_workspace_are_warned_about() {
  let test = harmless().write("notes/a.md", "# Notes\n");
  let args = ["init", "--workspace", "[TMP]/notes", "--service", "none"];
  let warnings = "\
warning: no .md file in `[TMP]/notes` counts as memory: only MEMORY.md and memory/**/*.md do
warning: `[TMP]/home/.openclaw/workspace` of agent main is not guarded: `--workspace` names other directories
";
  let dry = test.next().args(args).args(["--dry-run"]).output();
  assert!(dry.stdout.ends_with(warnings), "{dry:?}");
  let dry = test.next().args(args).args(["--dry-run", "--json"]).json();
  assert_eq!(dry["notes"].as_array().unwrap().len(), 2, "{dry:#}");
  // Both together are what is meant.
  let test = test.write("notes/memory/b.md", "# More\n");
  let both = ["--workspace", "[TMP]/home/.openclaw/workspace", "--dry-run", "--json"];
  let dry = test.next().args(args).args(both).json();
  assert_eq!(dry["notes"], json!([]), "{dry:#}");
}

#[test]
fn strict_says_what_it_takes_out_of_existing_memory() {
  let test = agent(&format!("# Memory\n\n{}\n{}\n", clean(1), poison(1)));
  let memory = test.tmp().join("home/.openclaw/workspace/MEMORY.md");
  let args = ["init", "--preset", "strict", "--service", "none", "--yes"];
  let output = test.next().args(args).output();
  assert_eq!(output.status, 0, "{output:?}");
  let plan = "\
           what is there is the baseline;
           poison that is in memory already is taken out
           of its files
";
  assert!(output.stdout.contains(plan), "{output:?}");
  let end = "findings   1 waits for you, 1 taken out of memory\n";
  assert!(output.stdout.contains(end), "{output:?}");
  assert!(!fs::read_to_string(memory).unwrap().contains(poison(1).trim()), "it was taken out");
}
