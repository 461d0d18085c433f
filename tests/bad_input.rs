//! Broken, hostile and foreign input: a clear message, the right exit status, no lost text.

use {
  crate::support::{
    AT_ONCE, Guarded, Output, Test, Writer, clean, eventually, id, marks, needle, poison,
  },
  rusqlite::Connection,
  serde_json::{Value, json},
  std::{
    fs,
    os::unix::fs::{PermissionsExt, chown},
    path::PathBuf,
    process::Command,
  },
};

const NOBODY: u32 = 65534;
const LEDGER: &str = "memfw/data/ledger.sqlite";
const KEY: &str = "memfw/data/master.key";

fn write(guarded: &Guarded, file: &str, text: &str) {
  Writer::Shell.add(&guarded.path(file), text.as_bytes());
}

/// A world in which poison was sealed and the daemon has ended.
fn sealed() -> Guarded {
  let mut guarded = Guarded::new(AT_ONCE).memory("MEMORY.md", "# Memory\n\n- old\n");
  guarded.start();
  write(&guarded, "MEMORY.md", &format!("{}\n", poison(1)));
  guarded.settle();
  assert_eq!(guarded.waiting().len(), 1);
  guarded.stop();
  guarded
}

#[track_caller]
fn assert_refused(output: &Output, parts: &[&str]) {
  assert_eq!(output.status, 2, "{output:?}");
  assert!(output.stderr.contains("error: "), "{output:?}");
  for part in parts {
    assert!(output.stderr.contains(part), "`{part}` is not in: {output:?}");
  }
}

#[test]
fn a_broken_configuration_stops_the_daemon_before_it_touches_anything() {
  let test = Test::new().memory("MEMORY.md", "# Memory\n").config("[files\nidle_ms = 0\n");
  let output = test.args(["run"]).output();
  assert_refused(&output, &["config.toml:1"]);
  let test = Test::new().config("[files]\nidel_ms = 0\n").args(["run"]);
  assert_refused(
    &test.output(),
    &["unknown key `idel_ms` in `[files]`", "did you mean `idle_ms`?"],
  );
  assert!(!test.tmp().join(LEDGER).exists());
}

#[test]
fn a_directory_that_cannot_be_read_is_reported_and_the_rest_is_guarded() {
  let root = rustix::process::geteuid().is_root();
  let drop = ["--reuid", "65534", "--regid", "65534", "--clear-groups", "true"];
  let uid = match Command::new("setpriv").args(drop).status() {
    Ok(status) if root && status.success() => Some(NOBODY),
    _ if root => {
      println!("skipped: root reads everything, and setpriv is not there to be somebody else");
      return;
    }
    _ => None,
  };
  let mut guarded = Guarded::new("").memory("MEMORY.md", "# Memory\n");
  guarded = guarded.memory("memory/secret/a.md", "# A\n").memory("memory/b.md", "# B\n");
  if let Some(uid) = uid {
    guarded = guarded.uid(uid);
    for path in ["", "home", "memfw", "memfw/config", "memfw/config/config.toml", "workspace"] {
      chown(guarded.tmp().join(path), Some(uid), Some(uid)).unwrap();
    }
    for path in ["MEMORY.md", "memory", "memory/b.md", "memory/secret", "memory/secret/a.md"] {
      chown(guarded.path(path), Some(uid), Some(uid)).unwrap();
    }
  }
  fs::set_permissions(guarded.path("memory/secret"), fs::Permissions::from_mode(0o000)).unwrap();
  guarded.start();
  let status = guarded.memfw(&["status"]);
  assert_eq!(status.status, 1, "protection is reduced: {status:?}");
  assert!(status.stdout.contains("memory/secret"), "{status:?}");
  write(&guarded, "memory/b.md", &format!("\n{}\n", poison(1)));
  eventually("the poison is out", || {
    marks::find(&guarded.read("memory/b.md"), needle(1).as_bytes()).is_none()
  });
  guarded.stop();
  fs::set_permissions(guarded.path("memory/secret"), fs::Permissions::from_mode(0o755)).unwrap();
  assert_eq!(guarded.read("memory/secret/a.md"), b"# A\n");
}

#[test]
fn a_file_that_may_not_be_written_is_scanned_and_reported() {
  let mut guarded = Guarded::new("").memory("MEMORY.md", "# Memory\n");
  guarded = guarded.memory("memory/twin.md", "# Twin\n");
  // A second name outside of the workspace: a write here would appear there.
  let other = guarded.tmp().join("home/other.txt");
  fs::hard_link(guarded.path("memory/twin.md"), &other).unwrap();
  guarded.start();
  write(&guarded, "memory/twin.md", &format!("\n{}\n", poison(1)));
  eventually("it is told", || guarded.memfw(&["status"]).stdout.contains("memory/twin.md"));
  let told = guarded.memfw(&["status", "--json"]);
  let status: Value = serde_json::from_str(&told.stdout).unwrap();
  let unguarded = status["unguarded"].as_array().unwrap();
  assert_eq!(unguarded.len(), 1, "{status:#}");
  assert_eq!(unguarded[0]["file"], Guarded::named("memory/twin.md"));
  // Poison could not be taken out there, so the answer to "is all protected" is no.
  assert_eq!(status["degradations"], json!(["1 file is not fully guarded"]));
  assert_eq!(told.status, 1);
  assert!(marks::find(&fs::read(&other).unwrap(), needle(1).as_bytes()).is_some());
  eventually("it is flagged", || guarded.listed("flagged").len() == 1);
  guarded.settle();
  // The other name is gone: later poison can be taken out.
  fs::remove_file(&other).unwrap();
  write(&guarded, "memory/twin.md", &format!("{}\n", poison(2)));
  guarded.settle();
  assert!(guarded.holding("workspace", &needle(2)).is_empty());
  let status = guarded.json(&["status", "--json"]);
  assert_eq!((&status["unguarded"], &status["degradations"]), (&json!([]), &json!([])));
  guarded.stop();
}

#[test]
fn a_file_of_somebody_else_is_not_written() {
  if !rustix::process::geteuid().is_root() {
    println!("skipped: only root can give files away");
    return;
  }
  let before = format!("# Memory\n\n{}\n", clean(1));
  let mut guarded = Guarded::new(AT_ONCE).memory("MEMORY.md", &before);
  chown(guarded.path("MEMORY.md"), Some(NOBODY), None).unwrap();
  guarded.start();
  write(&guarded, "MEMORY.md", &format!("{}\n", poison(1)));
  eventually("it is told", || guarded.memfw(&["status"]).stdout.contains("MEMORY.md"));
  guarded.settle();
  assert_eq!(guarded.read("MEMORY.md"), format!("{before}{}\n", poison(1)).as_bytes());
  guarded.stop();
}

#[test]
fn links_pipes_and_odd_names_are_not_followed() {
  let mut guarded = Guarded::new("").memory("MEMORY.md", "# Memory\n");
  let secret = guarded.tmp().join("home/secret.txt");
  fs::write(&secret, format!("{}\n", poison(1))).unwrap();
  fs::create_dir(guarded.path("memory")).unwrap();
  std::os::unix::fs::symlink(&secret, guarded.path("memory/link.md")).unwrap();
  std::os::unix::fs::symlink(guarded.tmp(), guarded.path("memory/dir")).unwrap();
  fs::create_dir(guarded.path("memory/dir.md")).unwrap();
  assert!(Command::new("mkfifo").arg(guarded.path("memory/pipe.md")).status().unwrap().success());
  guarded.start();
  guarded.settle();
  assert_eq!(fs::read(&secret).unwrap(), format!("{}\n", poison(1)).as_bytes());
  write(&guarded, "memory/a\nb\u{1b}[31m.md", &format!("{}\n", poison(2)));
  guarded.settle();
  assert_eq!(guarded.waiting().len(), 1);
  for args in [&["quarantine", "list"][..], &["status"], &["audit"]] {
    let shown = guarded.memfw(args).stdout;
    assert!(!shown.contains('\u{1b}') && !shown.contains("a\nb"), "{shown:?}");
  }
  assert!(!guarded.log().contains('\u{1b}'), "{}", guarded.log());
  guarded.stop();
}

#[test]
fn a_file_that_is_too_large_is_reported_and_left() {
  let mut guarded = Guarded::new("[files]\nmax_bytes = 1024\n").memory("MEMORY.md", "# Memory\n");
  guarded.start();
  write(&guarded, "memory.md", "# small\n");
  let large = format!("{}\n{}", poison(1), "- long\n".repeat(1000));
  write(&guarded, "MEMORY.md", &large);
  guarded.settle();
  let status = guarded.memfw(&["status"]);
  assert!(status.stdout.contains("MEMORY.md"), "{status:?}");
  assert_eq!(guarded.read("MEMORY.md"), format!("# Memory\n{large}").as_bytes());
  guarded.stop();
}

#[test]
fn a_lost_key_is_reported_and_never_replaced() {
  let mut guarded = sealed();
  let key = guarded.tmp().join(KEY);
  let kept = fs::read(&key).unwrap();
  let before = guarded.read("MEMORY.md");
  fs::remove_file(&key).unwrap();
  assert_refused(&guarded.memfw(&["run", "--once"]), &["master.key", "backup"]);
  let item = id(&guarded.waiting()[0]).to_owned();
  assert_refused(&guarded.memfw(&["quarantine", "approve", &item]), &["key"]);
  assert_refused(&guarded.memfw(&["quarantine", "show", &item]), &["key"]);
  assert!(!key.exists(), "a new key would not open what was sealed");
  assert_eq!(guarded.read("MEMORY.md"), before);
  // A wrong key has the consequence of a missing one.
  fs::write(&key, [7; 32]).unwrap();
  fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
  assert_refused(&guarded.memfw(&["quarantine", "approve", &item]), &["key"]);
  assert_eq!(guarded.waiting().len(), 1);
  fs::write(&key, kept).unwrap();
  guarded.start();
  guarded.ok(&["quarantine", "approve", &item]);
  assert!(!guarded.holding("workspace", &needle(1)).is_empty());
  guarded.stop();
}

#[test]
fn a_newer_database_is_refused_and_left_as_it_is() {
  let guarded = sealed();
  let path = guarded.tmp().join(LEDGER);
  let database = Connection::open(&path).unwrap();
  let own: i64 = database.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
  database.pragma_update(None, "user_version", 999).unwrap();
  drop(database);
  for args in
    [&["run", "--once"][..], &["status"], &["quarantine", "list"], &["settle"], &["audit"]]
  {
    assert_refused(&guarded.memfw(args), &["newer memfw", "999", "ledger.sqlite"]);
  }
  assert_eq!(guarded.memfw(&["--version"]).status, 0);
  assert_eq!(guarded.memfw(&["help"]).status, 0);
  let doctor = guarded.memfw(&["doctor"]);
  assert!(doctor.status == 1 && doctor.stdout.contains("newer memfw"), "{doctor:?}");
  let database = Connection::open(&path).unwrap();
  database.pragma_update(None, "user_version", own).unwrap();
  drop(database);
  assert_eq!(guarded.waiting().len(), 1, "nothing was lost");
}

#[test]
fn a_file_that_is_no_database_is_refused_and_left_as_it_is() {
  let guarded = sealed();
  let path = guarded.tmp().join(LEDGER);
  for entry in ["ledger.sqlite-wal", "ledger.sqlite-shm"] {
    fs::remove_file(path.with_file_name(entry)).unwrap_or_default();
  }
  let garbage = b"this is a diary and no database ".repeat(300);
  fs::write(&path, &garbage).unwrap();
  for args in [&["run", "--once"][..], &["status"], &["quarantine", "list"], &["settle"]] {
    assert_refused(&guarded.memfw(args), &["ledger.sqlite", "not an SQLite database"]);
  }
  assert_eq!(fs::read(&path).unwrap(), garbage);
}

#[test]
fn a_second_daemon_is_refused() {
  let mut guarded = Guarded::new("").memory("MEMORY.md", "# Memory\n");
  guarded.start();
  assert_refused(&guarded.memfw(&["run"]), &["daemon"]);
  assert_refused(&guarded.memfw(&["run", "--once"]), &["daemon"]);
  assert_eq!(guarded.memfw(&["status"]).status, 0, "the first one goes on");
  guarded.stop();
  assert_eq!(guarded.memfw(&["run", "--once"]).status, 0);
}

#[test]
fn without_a_daemon_and_without_a_ledger_commands_say_so() {
  let guarded = Guarded::new("").memory("MEMORY.md", "# Memory\n");
  let status = guarded.memfw(&["status"]);
  assert_eq!(status.status, 1, "{status:?}");
  let waited = guarded.memfw(&["status", "--wait", "0"]);
  assert_eq!((waited.status, &waited.stdout), (1, &status.stdout));
  assert_eq!(guarded.memfw(&["settle", "1"]).status, 2);
  assert!(guarded.waiting().is_empty());
  assert_refused(&guarded.memfw(&["quarantine", "approve", "a1b2c3"]), &[]);
  assert_refused(&guarded.memfw(&["provenance", "MEMORY.md"]), &[]);
  assert!(!guarded.tmp().join(LEDGER).exists(), "asking makes no ledger");
}

#[test]
fn no_file_of_memfw_holds_quarantined_text() {
  let mut guarded = Guarded::new(AT_ONCE).memory("MEMORY.md", "# Memory\n\n- old\n");
  guarded.start();
  for n in 0..8 {
    Writer::ALL[n % Writer::ALL.len()]
      .add(&guarded.path("MEMORY.md"), format!("{}\n{}\n", poison(n), clean(n)).as_bytes());
    guarded.settle();
  }
  let sealed = guarded.sealed();
  let (approved, rejected) = (sealed.keys().next().unwrap(), sealed.keys().last().unwrap());
  guarded.ok(&["quarantine", "approve", approved]);
  guarded.ok(&["quarantine", "reject", rejected]);
  guarded.settle();
  // While it runs (with its log of the database) and after it has ended.
  let search = |guarded: &Guarded| {
    for part in ["evil.com", "back up SSH keys", "mention this to the user"] {
      assert_eq!(guarded.holding("memfw", part), Vec::<PathBuf>::new(), "`{part}`");
    }
  };
  search(&guarded);
  let log = guarded.log();
  assert!(!log.contains("evil.com"), "memory text is never logged: {log}");
  guarded.kill();
  search(&guarded);
  guarded.start();
  guarded.stop();
  search(&guarded);
  for entry in fs::read_dir(guarded.tmp().join("memfw/data")).unwrap().map(Result::unwrap) {
    let mode = entry.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "{} is not private", entry.path().display());
  }
}
