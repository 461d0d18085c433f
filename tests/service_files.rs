//! `memfw service`: the files that service managers read, and the commands that the managers get.

use {
  crate::support::{Background, Output, Test, eventually, files_below, program_path},
  std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Stdio},
  },
};

/// The file of the user's service.
const UNIT: &str = "home/.config/systemd/user/memfw.service";
/// The file of launchd's agent.
const PLIST: &str = "home/Library/LaunchAgents/ai.memfw.daemon.plist";

/// Replaces `systemctl` and `launchctl`: records its commands, and answers by the earlier ones.
pub(crate) const MANAGER: &str = "#!/bin/sh
printf '%s' \"${0##*/}\" >> '[TMP]/said'
printf ' [%s]' \"$@\" >> '[TMP]/said'
echo >> '[TMP]/said'
if [ -e '[TMP]/broken' ]; then echo 'Failed to connect to bus' >&2; exit 1; fi
case \"$*\" in
  *is-active*|print*) [ -e '[TMP]/active' ] ;;
  *is-enabled*) [ -e '[TMP]/enabled' ] ;;
  *disable*|bootout*) /bin/rm -f '[TMP]/active' '[TMP]/enabled' ;;
  *enable*) : > '[TMP]/enabled' ;;
  *start*|bootstrap*) : > '[TMP]/active' ;;
esac
";

/// A home with both managers, of which `words` are the arguments of the next command.
fn world() -> Test {
  let test = Test::new();
  for name in ["systemctl", "launchctl"] {
    program(&test, name, MANAGER);
  }
  test
}

fn program(test: &Test, name: &str, text: &str) {
  let file = Path::new("bin").join(name);
  drop(test.next().write(&file, text));
  fs::set_permissions(test.tmp().join(file), fs::Permissions::from_mode(0o755)).unwrap();
}

/// `memfw service` with these words.
fn service(test: &Test, words: &str) -> Test {
  test.next().env("PATH", "[TMP]/bin").args(["service"]).args(words.split(' '))
}

#[track_caller]
fn ok(test: &Test, words: &str) -> String {
  let output = service(test, words).output();
  assert_eq!((output.status, output.stderr.as_str()), (0, ""), "{}", output.stdout);
  output.stdout
}

/// The commands that the manager got since the last call.
fn said(test: &Test) -> Vec<String> {
  let file = test.tmp().join("said");
  let text = fs::read_to_string(&file).unwrap_or_default();
  fs::remove_file(file).unwrap_or_default();
  text.lines().map(str::to_owned).collect()
}

fn text(test: &Test, file: &str) -> String {
  fs::read_to_string(test.tmp().join(file)).unwrap()
}

#[test]
fn a_service_is_installed_once_and_removed_with_its_file() {
  let test = world();
  let before = files_below(&test.tmp().join("home"));
  service(&test, "install")
    .stdout(
      "
      wrote      [TMP]/home/.config/systemd/user/memfw.service
      ran        systemctl --user daemon-reload
      ran        systemctl --user enable memfw.service
      ran        systemctl --user start memfw.service
      guards     [TMP]/home/.openclaw/workspace
      before     openclaw-gateway.service
      sandbox    writes only what it guards, the agent's records and its own data
      judge      off (optional; catches plainly worded orders)
      later      once [TMP]/home/.openclaw is there: systemctl --user restart memfw.service

      next: memfw status --wait 30  # what is protected
      next: journalctl --user -fu memfw.service  # what happens
      next: memfw service uninstall  # undo the installation
      ",
    )
    .run();
  assert_eq!(
    said(&test),
    [
      "systemctl [--user] [daemon-reload]",
      "systemctl [--user] [is-active] [--quiet] [memfw.service]",
      "systemctl [--user] [daemon-reload]",
      "systemctl [--user] [enable] [memfw.service]",
      "systemctl [--user] [start] [memfw.service]",
    ]
  );
  let first = text(&test, UNIT);
  assert_eq!(service(&test, "status").output().status, 0);

  let again = ok(&test, "install");
  assert!(
    again.starts_with("unchanged  [TMP]/home/.config/systemd/user/memfw.service\n"),
    "{again}"
  );
  assert!(again.contains("--user start "), "one that runs is left running: {again}");
  assert_eq!(text(&test, UNIT), first);

  service(&test, "uninstall")
    .stdout(
      "
      ran        systemctl --user disable --now memfw.service
      removed    [TMP]/home/.config/systemd/user/memfw.service
      ran        systemctl --user daemon-reload
      unchanged:
      memory     all files, with memfw's comments and placeholders in them
      ledger     [TMP]/memfw/data
      config     [TMP]/memfw/config
      ",
    )
    .run();
  assert_eq!(files_below(&test.tmp().join("home")), before);
  assert!(ok(&test, "uninstall").starts_with("nothing was installed\n"));
  let status = service(&test, "status").output();
  assert_eq!(status.status, 1, "{status:?}");
  assert!(status.stdout.contains("next: memfw service install"), "{status:?}");
}

#[test]
fn what_changed_since_is_seen_and_written_again() {
  let test = world();
  ok(&test, "install");
  let first = text(&test, UNIT);
  drop(test.next().config("[agent]\nprofiles = [\"work\"]\n"));
  let status = service(&test, "status --json").status(1).json();
  assert_eq!((&status["standing"], &status["runs"]), (&"outdated".into(), &true.into()));
  drop(said(&test));
  let output = ok(&test, "install");
  assert!(output.contains("kept       [TMP]/home/.config/systemd/user/memfw.service.old\n"));
  assert!(said(&test).contains(&"systemctl [--user] [restart] [memfw.service]".to_owned()));
  let unit = text(&test, UNIT);
  assert!(unit.contains("\nBefore=openclaw-gateway.service openclaw-gateway-work.service\n"));
  assert_eq!(text(&test, &format!("{UNIT}.old")), first);
  assert_eq!(service(&test, "status --json").json()["standing"], "current");
  // A configuration with an error: no file is written, and `uninstall` still works.
  drop(test.next().config("workspaces = 7\n"));
  assert_eq!(service(&test, "install").output().status, 2);
  assert_eq!(text(&test, UNIT), unit);
  assert_eq!(service(&test, "status --json").status(1).json()["standing"], "unknown");
  ok(&test, "uninstall");
  assert!(!test.tmp().join(UNIT).exists() && !test.tmp().join(format!("{UNIT}.old")).exists());
}

#[test]
fn a_file_of_somebody_else_is_left_alone() {
  let test = world();
  drop(test.next().write(UNIT, "[Service]\nExecStart=/bin/true\n"));
  for words in ["install", "uninstall"] {
    let output = service(&test, words).output();
    assert_eq!(output.status, 2, "{output:?}");
    assert!(output.stderr.contains("is a file that memfw has not written"), "{output:?}");
  }
  assert_eq!(text(&test, UNIT), "[Service]\nExecStart=/bin/true\n");
  assert_eq!(said(&test), [""; 0]);
  assert_eq!(service(&test, "status --json").status(1).json()["standing"], "foreign");
}

/// The home directory of a user that every system has, and that has no memory.
fn home_of_nobody() -> String {
  let table = fs::read_to_string("/etc/passwd").unwrap();
  let line = table.lines().find(|line| line.starts_with("nobody:")).unwrap();
  line.split(':').nth(5).unwrap().to_owned()
}

#[test]
fn a_dry_run_shows_the_file_of_the_source_and_changes_nothing() {
  let test = world();
  let before = files_below(test.tmp());
  let nobody = home_of_nobody();
  let program = program_path();
  let source =
    |file: &str| fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
  for (words, file, is_by_hand, home, here) in [
    ("install --print", "systemd/memfw.service", "%h/.cargo/bin/memfw", "%h", "/nonexistent/ann"),
    (
      "install --manager system --user nobody --print",
      "systemd/memfw@.service",
      "/usr/local/bin/memfw",
      "/home/%i",
      nobody.trim_end_matches('/'),
    ),
    (
      "install --manager launchd --print",
      "launchd/ai.memfw.daemon.plist",
      "<string>/Users/you/.cargo/bin/memfw",
      "<string>/Users/you",
      "<string>/nonexistent/ann",
    ),
  ] {
    // A home where nothing is configured, and memfw's usual directories.
    let test = service(&test, words).env("HOME", "/nonexistent/ann").env("MEMFW_HOME", "");
    let Output { stdout, stderr, status } = test.output();
    assert_eq!((status, stderr.as_str()), (0, ""), "{words}");
    let program =
      if is_by_hand.starts_with('<') { format!("<string>{program}") } else { program.clone() };
    let expected = source(file).replace(is_by_hand, &program).replace(home, here);
    let commands = stdout.strip_prefix(&expected);
    let commands = commands.unwrap_or_else(|| panic!("{words}: {stdout}\nis not\n{expected}"));
    assert!(commands.contains("then:") && commands.lines().count() > 2, "{commands}");
  }
  assert_eq!(ok(&test, "uninstall --print"), "nothing is installed, and nothing would be done\n");
  assert_eq!(files_below(test.tmp()), before);
  assert_eq!(said(&test), [""; 0]);
}

#[test]
fn a_manager_without_user_namespaces_gets_what_it_can_do() {
  let test = world();
  program(&test, "systemd-run", "#!/bin/sh\necho 217 >&2\nexit 217\n");
  let output = ok(&test, "install");
  assert!(output.contains("may write everything that you may"), "{output}");
  let unit = text(&test, UNIT);
  assert!(!unit.contains("\nPrivateUsers=") && !unit.contains("\nProtectSystem="), "{unit}");
  assert!(unit.contains("\nNoNewPrivileges=yes\n"));
  let status = service(&test, "status --json").json();
  assert_eq!(status["standing"], "current");
  assert_eq!(status["sandbox_without"], "this service manager cannot make user namespaces");
  // Once it can, the next installation says so.
  program(&test, "systemd-run", "#!/bin/sh\nexit 0\n");
  ok(&test, "install");
  assert!(text(&test, UNIT).contains("\nPrivateUsers=yes\n"));
}

#[test]
fn a_manager_that_cannot_be_reached_is_reported_before_anything_is_written() {
  let test = world().write("broken", "");
  let output = service(&test, "install").output();
  assert_eq!(output.status, 2, "{output:?}");
  assert!(output.stderr.contains("Failed to connect to bus"), "{output:?}");
  assert!(output.stderr.contains("hint: without a login session: export XDG_RUNTIME_DIR="));
  assert!(!test.tmp().join(UNIT).exists());
  let nowhere = service(&test, "install").env("PATH", "[TMP]/home").output();
  assert_eq!(nowhere.status, 2, "{nowhere:?}");
  assert!(nowhere.stderr.contains("there is no `systemctl` in PATH"), "{nowhere:?}");
}

#[test]
fn a_guard_that_was_started_by_hand_is_not_run_into() {
  let test = world();
  let mut guard: Background =
    test.next().config("workspaces = [\"[TMP]/workspace\"]\n").args(["run"]).start();
  guard.wait_for_log("started");
  let output = service(&test, "install").output();
  assert_eq!(output.status, 2, "{output:?}");
  assert!(output.stderr.contains(&format!("guarding already (pid {})", guard.pid())), "{output:?}");
  assert!(!test.tmp().join(UNIT).exists());
  guard.terminate();
  eventually("it is gone", || guard.has_ended());
  ok(&test, "install");
}

#[test]
fn launchd_gets_its_commands_in_its_own_words() {
  let test = world();
  let uid = rustix::process::geteuid().as_raw();
  ok(&test, "install --manager launchd");
  assert_eq!(
    said(&test),
    [
      format!("launchctl [print] [gui/{uid}/ai.memfw.daemon]"),
      format!("launchctl [enable] [gui/{uid}/ai.memfw.daemon]"),
      format!("launchctl [bootstrap] [gui/{uid}] [{}]", test.tmp().join(PLIST).display()),
    ]
  );
  let plist = text(&test, PLIST);
  assert!(plist.contains("<key>MEMFW_HOME</key>\n"), "{plist}");
  let read = "import plistlib, sys; p = plistlib.load(open(sys.argv[1], 'rb')); \
    print(p['Label'], p['ProgramArguments'][1], p['EnvironmentVariables']['MEMFW_HOME'])";
  let python = Command::new("python3").args(["-c", read]).arg(test.tmp().join(PLIST)).output();
  match python {
    Err(error) => eprintln!("skipped: the agent of launchd is not read by python3: {error}"),
    Ok(output) => {
      let home = test.tmp().join("memfw");
      let expected = format!("ai.memfw.daemon run {}\n", home.display());
      assert_eq!(String::from_utf8(output.stdout).unwrap(), expected, "{:?}", output.stderr);
    }
  }
  assert!(ok(&test, "install --manager launchd").starts_with("unchanged "));
  assert_eq!(said(&test), [format!("launchctl [print] [gui/{uid}/ai.memfw.daemon]")]);
  ok(&test, "uninstall --manager launchd");
  assert!(said(&test).contains(&format!("launchctl [bootout] [gui/{uid}/ai.memfw.daemon]")));
  assert!(!test.tmp().join(PLIST).exists());
}

#[test]
fn a_service_of_the_system_needs_a_user() {
  let test = world();
  for (words, why) in [
    ("install --manager system", "needs `--user`"),
    ("install --manager system --user a/b", "is not a user name"),
    ("install --user ann", "for `--manager system`"),
    ("install --manager system --user no-such-user-7", "no user `no-such-user-7`"),
  ] {
    let output = service(&test, words).output();
    assert_eq!(output.status, 2, "{output:?}");
    assert!(output.stderr.contains(why), "{output:?}");
  }
}

/// Runs `systemd-analyze`; `None`, with a line that says why, where it is missing or too old.
fn analyze(test: &Test, words: &[&str], unit: &Path) -> Option<(bool, String)> {
  let run = |words: &[&str]| {
    let mut command = Command::new("systemd-analyze");
    // The directory in which a user manager would keep its socket; no manager is asked.
    command.args(words).env("XDG_RUNTIME_DIR", test.tmp()).stdin(Stdio::null());
    command.output()
  };
  let version = match run(&["--version"]) {
    Ok(output) => String::from_utf8_lossy(&output.stdout).into_owned(),
    Err(error) => {
      eprintln!("skipped: units are not looked at by systemd-analyze: {error}");
      return None;
    }
  };
  let number = version.split_whitespace().nth(1).and_then(|word| word.parse::<u32>().ok());
  // `security --offline` came with 250.
  if number.is_none_or(|number| number < 250) {
    eprintln!("skipped: this systemd-analyze is too old: {version}");
    return None;
  }
  let words: Vec<&str> = words.iter().copied().chain(unit.to_str()).collect();
  let output = run(&words).unwrap();
  let text = [output.stdout, output.stderr].concat();
  Some((output.status.success(), String::from_utf8_lossy(&text).into_owned()))
}

#[test]
fn the_units_are_hardened_and_right() {
  let test = world();
  ok(&test, "install");
  let system = ok(&test, "install --manager system --user nobody --print");
  // An instance for an ordinary user: systemd warns of a service that runs as nobody.
  let test = test.next().write("memfw@ann.service", system);
  let units = [
    (test.tmp().join(UNIT), "50", vec!["--user", "verify", "--man=no"]),
    (test.tmp().join("memfw@ann.service"), "20", vec!["verify", "--man=no"]),
  ];
  for (unit, threshold, verify) in units {
    // Ten times the number in the last line of its answer.
    let words = ["security", "--offline=true", "--no-pager", "--threshold", threshold];
    let Some((is_below, text)) = analyze(&test, &words, &unit) else { return };
    assert!(is_below && text.contains("Overall exposure level"), "{text}");
    let Some((is_right, text)) = analyze(&test, &verify, &unit) else { return };
    assert!(is_right && !text.contains("memfw"), "{text}");
    // The agent's program would not run.
    assert!(!fs::read_to_string(&unit).unwrap().contains("\nMemoryDenyWriteExecute="));
  }
}
