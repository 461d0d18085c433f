//! Years of use: markers that are added and removed, old records, other machines, and removal.

use {
  crate::support::{
    AT_ONCE, Guarded, Writer, clean, eventually, files_below, id, marks, needle, poison,
  },
  rusqlite::Connection,
  serde_json::{Value, json},
  std::{
    collections::BTreeMap,
    fs,
    os::unix::{fs::PermissionsExt as _, net::UnixListener},
    path::{Path, PathBuf},
    process::Command,
  },
};

const DATA: &str = "memfw/data";
const LEDGER: &str = "memfw/data/ledger.sqlite";

/// Does all due work, and ends.
#[track_caller]
fn once(guarded: &Guarded) {
  let output = guarded.memfw(&["run", "--once"]);
  assert_eq!(output.status, 0, "{output:?}");
}

/// A workspace with three files to which clean lines were added, and their content without memfw.
fn lived_in() -> (Guarded, BTreeMap<PathBuf, Vec<u8>>) {
  let files = ["MEMORY.md", "memory/2026-11-21.md", "memory/2026-11-22.md"];
  let mut guarded = Guarded::new(AT_ONCE);
  for file in files {
    guarded = guarded.memory(file, "# Notes\n\n- old\n");
  }
  guarded.start();
  for (n, file) in files.iter().take(2).enumerate() {
    for more in 0..2 {
      let line = format!("{}\n", clean(10 * n + more));
      Writer::Shell.add(&guarded.path(file), line.as_bytes());
      guarded.settle();
    }
  }
  let bare = |(path, bytes): (PathBuf, Vec<u8>)| (path, marks::strip(&bytes));
  let without = guarded.files().into_iter().map(bare).collect();
  (guarded, without)
}

#[test]
fn markers_go_from_all_files_and_come_back_beside_the_daemon() {
  let (mut guarded, without) = lived_in();
  let with = guarded.files();
  if marks::reshapes(guarded.tmp()) {
    assert_ne!(with, without);
  }
  let answer = guarded.json(&["markers", "remove", "--json"]);
  assert_eq!(answer.as_array().unwrap().len(), 3);
  assert!(answer.as_array().unwrap().iter().all(|one| one["comments"] == json!(0)), "{answer}");
  assert_eq!(guarded.files(), without);

  // The daemon writes none into later text, also after a restart.
  let line = format!("{}\n", clean(30));
  Writer::Shell.add(&guarded.path("MEMORY.md"), line.as_bytes());
  guarded.settle();
  guarded.stop();
  guarded.start();
  guarded.settle();
  let mut longer = without.clone();
  longer.get_mut(Path::new("MEMORY.md")).unwrap().extend_from_slice(line.as_bytes());
  assert_eq!(guarded.files(), longer);
  if marks::reshapes(guarded.tmp()) {
    assert!(guarded.ok(&["status"]).contains("taken out by `memfw markers remove`"));
  }

  // One file gets them back, then all do; the new line has one of its own.
  let path = guarded.path("memory/2026-11-21.md");
  guarded.ok(&["markers", "add", path.to_str().unwrap()]);
  let file = Path::new("memory/2026-11-21.md");
  assert_eq!(guarded.files()[file], with[file]);
  assert_eq!(guarded.files()[Path::new("MEMORY.md")], longer[Path::new("MEMORY.md")]);
  guarded.ok(&["markers", "add"]);
  guarded.settle();
  let again = guarded.files();
  assert_eq!(again[file], with[file]);
  marks::assert_marked(&guarded.path("MEMORY.md"), &again[Path::new("MEMORY.md")], &clean(30));
  guarded.stop();
}

#[test]
fn leaving_for_good_leaves_clean_files_and_says_what_stays() {
  let (mut guarded, _) = lived_in();
  Writer::Shell.add(&guarded.path("MEMORY.md"), format!("{}\n", poison(1)).as_bytes());
  guarded.settle();
  guarded.stop();
  let item = id(&guarded.waiting()[0]).to_owned();
  let told = guarded.ok(&["markers", "remove"]);
  let place = format!("{}:6", Guarded::named("MEMORY.md"));
  for part in ["1 placeholder stays", &item, &place, "memfw approve ID"] {
    assert!(told.contains(part), "`{part}` is not in:\n{told}");
  }
  let text = String::from_utf8(guarded.read("MEMORY.md")).unwrap();
  assert_eq!(text.matches("memfw").count(), 1, "{text}");
  assert_eq!(text.lines().nth(5), Some(format!("<!-- memfw:{item} quarantined -->").as_str()));
  guarded.ok(&["quarantine", "reject", &item]);
  for (path, bytes) in guarded.files() {
    assert_eq!(marks::find(&bytes, b"memfw"), None, "{}", path.display());
  }
}

#[test]
fn a_file_that_memfw_does_not_guard_has_no_markers_to_remove() {
  let guarded = Guarded::new("").memory("MEMORY.md", "# A\n");
  let output = guarded.memfw(&["markers", "remove"]);
  assert_eq!(output.status, 2, "{output:?}");
  assert!(output.stderr.contains("memfw has not guarded anything yet"), "{output:?}");
  once(&guarded);
  let output = guarded.memfw(&["markers", "remove", "other.md"]);
  assert!(
    output.status == 2 && output.stderr.contains("is not a guarded memory file"),
    "{output:?}"
  );
  assert_eq!(guarded.ok(&["markers", "remove"]).lines().count(), 1);
}

/// The steps to the format of an older memfw, which never change.
const OLD: [&str; 4] = [
  include_str!("../src/store/migrations/0001_ledger.sql"),
  include_str!("../src/store/migrations/0002_versions.sql"),
  include_str!("../src/store/migrations/0003_baseline.sql"),
  include_str!("../src/store/migrations/0004_attribution.sql"),
];

/// Makes the ledger one of that format, with the same rows; which format that is.
fn grow_old(path: &Path) -> usize {
  let today = path.with_file_name("today");
  fs::rename(path, &today).unwrap();
  let conn = Connection::open(path).unwrap();
  conn.execute_batch(&OLD.concat()).unwrap();
  conn.execute("ATTACH ?1 AS today", [today.to_str().unwrap()]).unwrap();
  conn.execute_batch("PRAGMA foreign_keys = OFF").unwrap();
  let words = |sql: &str| -> Vec<String> {
    let mut statement = conn.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
  };
  // The table with a trigger's counts comes after the tables that it counts.
  for table in words(
    "SELECT name FROM main.sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY name",
  ) {
    let columns = words(&format!("SELECT name FROM pragma_table_info('{table}')")).join(", ");
    let name_today = if table == "health" { "state" } else { &table };
    let copy = format!(
      "DELETE FROM main.{table};
       INSERT INTO main.{table} ({columns}) SELECT {columns} FROM today.{name_today};"
    );
    conn.execute_batch(&copy).unwrap();
  }
  // `mfw1`, by which memfw knows its databases.
  conn.pragma_update(None, "application_id", 0x6d66_7731).unwrap();
  conn.pragma_update(None, "user_version", OLD.len() as i64).unwrap();
  drop(conn);
  fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
  fs::remove_file(today).unwrap();
  OLD.len()
}

#[test]
fn an_upgrade_keeps_a_backup_and_an_older_memfw_says_the_way_back() {
  let mut guarded = Guarded::new(AT_ONCE).memory("MEMORY.md", "# Memory\n\n- old\n");
  guarded.start();
  Writer::Shell.add(&guarded.path("MEMORY.md"), format!("{}\n", poison(1)).as_bytes());
  guarded.settle();
  guarded.stop();
  let ledger = guarded.tmp().join(LEDGER);
  let format = grow_old(&ledger);
  once(&guarded);
  let backup = ledger.with_file_name(format!("ledger.sqlite.format-{format}"));
  assert_eq!(fs::metadata(&backup).unwrap().permissions().mode() & 0o777, 0o600);
  assert!(guarded.holding(DATA, &needle(1)).is_empty(), "what is sealed stays sealed");
  assert_eq!(guarded.waiting().len(), 1);

  // To an older memfw all formats of today are new; what it reads is the backup with the same number.
  let conn = Connection::open(&ledger).unwrap();
  conn.pragma_update(None, "user_version", 999).unwrap();
  drop(conn);
  let refused = guarded.memfw(&["status"]);
  let hint = refused.stderr.lines().find(|line| line.starts_with("hint: ")).unwrap();
  for part in
    ["do not delete the file", "return to the backup", "ledger.sqlite.newer", "stop memfw"]
  {
    assert!(hint.contains(part), "`{part}` is not in:\n{hint}");
  }
  let tmp = guarded.tmp().to_str().unwrap().to_owned();
  let commands = hint.split('`').nth(1).unwrap().replace("[TMP]", &tmp);
  assert!(
    Command::new("sh").args(["-c", &commands]).output().unwrap().status.success(),
    "{commands}"
  );
  // This memfw is not old, so it upgrades the ledger, and no row is lost.
  assert_eq!(guarded.memfw(&["run", "--once"]).status, 0);
  assert_eq!(guarded.waiting().len(), 1);
  assert_eq!(fs::metadata(&ledger).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_daemon_whose_ledger_a_newer_memfw_has_upgraded_ends_and_takes_nothing_out_before() {
  let mut guarded = Guarded::new(AT_ONCE).memory("MEMORY.md", "# Memory\n\n- old\n");
  guarded.start();
  guarded.settle();
  let conn = Connection::open(guarded.tmp().join(LEDGER)).unwrap();
  let format = |conn: &Connection| -> i64 {
    conn.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
  };
  let known = format(&conn);
  conn.pragma_update(None, "user_version", 999).unwrap();
  let before = fs::read_to_string(guarded.path("MEMORY.md")).unwrap();
  let added = format!("\n{}\n", poison(1));
  Writer::Shell.add(&guarded.path("MEMORY.md"), added.as_bytes());
  eventually("it ends", || guarded.daemon().has_ended());
  assert!(guarded.log().contains("was made by a newer memfw"), "{}", guarded.log());
  assert_eq!(fs::read_to_string(guarded.path("MEMORY.md")).unwrap(), before + &added);
  assert_eq!(format(&conn), 999, "its rows are another's now");
  guarded.kill();
  // The newer one continues where it ended.
  conn.pragma_update(None, "user_version", known).unwrap();
  drop(conn);
  guarded.start();
  guarded.wait_for_items(1);
  guarded.stop();
}

#[test]
fn another_machine_has_everything_once_the_directories_were_copied() {
  let (mut old, _) = lived_in();
  Writer::Shell.add(&old.path("MEMORY.md"), format!("{}\n", poison(1)).as_bytes());
  old.settle();
  old.stop();
  // The same paths on the other machine, and another home of memfw's.
  let new = old.tmp().join("moved");
  let copied = Command::new("cp").arg("-a").args([&old.tmp().join("memfw"), &new]).status();
  assert!(copied.unwrap().success());
  fs::rename(old.tmp().join("memfw"), old.tmp().join("gone")).unwrap();
  let memfw = |args: &[&str]| -> String {
    let output = old.test().env("MEMFW_HOME", &new).args(args).output();
    assert_eq!((output.status, output.stderr.as_str()), (0, ""), "{args:?}: {}", output.stdout);
    output.stdout
  };
  let before = old.files();
  let log = old.test().env("MEMFW_HOME", &new).args(["run", "--once"]).output();
  assert_eq!(log.status, 0, "{log:?}");
  assert_eq!(old.files(), before, "no text is judged or marked again");
  let waiting: Vec<Value> =
    serde_json::from_str(&memfw(&["quarantine", "list", "--json"])).unwrap();
  assert_eq!(waiting.len(), 1);
  let versions = memfw(&["restore", old.path("MEMORY.md").to_str().unwrap(), "--list", "--json"]);
  assert!(serde_json::from_str::<Vec<Value>>(&versions).unwrap().len() > 1, "{versions}");
  memfw(&["quarantine", "approve", id(&waiting[0])]);
  assert_eq!(old.holding("workspace", &needle(1)), [Path::new("MEMORY.md")]);
  // No daemon guards the copy yet, which is a problem of its own.
  let doctor = old.test().env("MEMFW_HOME", &new).args(["doctor"]).output();
  assert!(doctor.stdout.contains("opens the seals"), "{doctor:?}");
}

#[test]
fn at_another_path_what_is_there_is_a_baseline_and_what_waits_can_still_be_read() {
  let (mut old, _) = lived_in();
  Writer::Shell.add(&old.path("MEMORY.md"), format!("{}\n", poison(1)).as_bytes());
  old.settle();
  old.stop();
  let item = id(&old.waiting()[0]).to_owned();
  let moved = old.tmp().join("elsewhere");
  fs::rename(old.path(""), &moved).unwrap();
  fs::create_dir(old.path("")).unwrap();
  drop(old.test().config("workspaces = [\"[TMP]/elsewhere\"]\n"));
  let before = files_below(&moved);
  once(&old);
  assert_eq!(files_below(&moved), before, "nothing is changed");
  assert!(old.sealed()[&item].contains(&needle(1)));
  assert_eq!(old.memfw(&["quarantine", "approve", &item]).status, 2);
}

#[test]
fn another_machine_without_the_key_says_so_and_makes_no_new_one() {
  let mut old = Guarded::new(AT_ONCE).memory("MEMORY.md", "# Memory\n\n- old\n");
  old.start();
  Writer::Shell.add(&old.path("MEMORY.md"), format!("{}\n", poison(1)).as_bytes());
  old.settle();
  old.stop();
  let key = old.tmp().join(DATA).join("master.key");
  fs::rename(&key, old.tmp().join("forgotten.key")).unwrap();
  let output = old.memfw(&["doctor", "--fix"]);
  assert_eq!(output.status, 1, "{output:?}");
  assert!(output.stdout.contains("the key file is missing"), "{output:?}");
  assert!(!key.exists(), "another key opens nothing");
}

#[test]
fn the_doctor_mends_what_is_safe_and_says_what_it_leaves() {
  let guarded = Guarded::new("").memory("MEMORY.md", "# Memory\n");
  once(&guarded);
  let data = guarded.tmp().join(DATA);
  let open =
    |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
  open(&data, 0o755);
  for name in ["ledger.sqlite", "master.key"] {
    open(&data.join(name), 0o644);
  }
  drop(UnixListener::bind(data.join("gate.sock")).unwrap());
  let left = data.join(".master.key.0123456789abcdef.tmp");
  fs::write(&left, "half").unwrap();
  let hour_ago = std::time::SystemTime::now() - std::time::Duration::from_hours(2);
  fs::File::options().write(true).open(&left).unwrap().set_modified(hour_ago).unwrap();
  let young = data.join(".alarm.0123456789abcdef.tmp");
  fs::write(&young, "being written").unwrap();
  let somebodys = guarded.tmp().join("diary");
  fs::write(&somebodys, "").unwrap();
  open(&somebodys, 0o644);
  std::os::unix::fs::symlink(&somebodys, data.join("link")).unwrap();

  // Without `--fix` it only reports.
  assert_eq!(guarded.memfw(&["doctor"]).status, 1);
  assert_eq!(fs::metadata(&data).unwrap().permissions().mode() & 0o777, 0o755);
  let fixed = guarded.memfw(&["doctor", "--fix"]);
  // The daemon is stopped, and only a person may start it.
  assert_eq!((fixed.status, fixed.stderr.as_str()), (1, ""), "{}", fixed.stdout);
  let parts = [
    "closed to other users, it had mode 755",
    "ledger.sqlite`: closed to other users, it had mode 644",
    "master.key`: closed to other users",
    "another user may have read it",
    "gate.sock`: removed, nothing listens on it",
    ".master.key.0123456789abcdef.tmp`: removed",
  ];
  for part in parts {
    assert!(fixed.stdout.contains(part), "`{part}` is not in:\n{}", fixed.stdout);
  }
  let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
  assert_eq!(mode(&data), 0o700);
  assert_eq!((mode(&data.join("ledger.sqlite")), mode(&data.join("master.key"))), (0o600, 0o600));
  assert!(!data.join("gate.sock").exists() && !left.exists() && young.exists());
  assert_eq!(mode(&somebodys), 0o644, "what a link leads to is nobody's business");
  // Once is enough.
  let again = guarded.memfw(&["doctor", "--fix"]).stdout;
  assert!(!again.contains("mended"), "{again}");

  // Problems that a program cannot decide are left to a person.
  drop(guarded.test().config("workspaces = []\n[files]\nidel_ms = 0\n"));
  let fixed = guarded.memfw(&["doctor", "--fix"]);
  assert_eq!(fixed.status, 1);
  assert!(fixed.stdout.contains("left to you"), "{}", fixed.stdout);
}

#[test]
fn the_doctor_upgrades_a_ledger_that_nobody_uses() {
  let guarded = Guarded::new("").memory("MEMORY.md", "# Memory\n");
  once(&guarded);
  let format = grow_old(&guarded.tmp().join(LEDGER));
  assert_eq!(guarded.memfw(&["doctor"]).status, 1);
  let fixed = guarded.memfw(&["doctor", "--fix"]).stdout;
  assert!(fixed.contains("migrated from format"), "{fixed}");
  assert!(guarded.tmp().join(format!("{LEDGER}.format-{format}")).exists());
}

#[test]
fn a_daemon_takes_old_records_away_at_its_start() {
  let config = "[quarantine]\nrejected_days = 30\n[events]\nkeep_days = 60\n";
  let mut guarded = Guarded::new(config).memory("MEMORY.md", "# Memory\n\n- old\n");
  guarded.start();
  Writer::Shell.add(&guarded.path("MEMORY.md"), format!("{}\n", poison(1)).as_bytes());
  guarded.settle();
  let item = id(&guarded.waiting()[0]).to_owned();
  guarded.ok(&["quarantine", "reject", &item]);
  guarded.stop();
  // A year goes by.
  let year = 365 * 86_400_000_000_i64;
  let conn = Connection::open(guarded.tmp().join(LEDGER)).unwrap();
  conn.execute("UPDATE event SET at = at - ?1", [year]).unwrap();
  conn.execute("UPDATE quarantine SET reviewed_at = reviewed_at - ?1", [year]).unwrap();
  drop(conn);
  let words = || -> Vec<String> {
    let events = guarded.json(&["audit", "--json"]);
    let word = |event: &Value| event["event"].as_str().unwrap().to_owned();
    events.as_array().unwrap().iter().map(word).collect()
  };
  // So long a pause may be an error of the clock, and pruned rows cannot be restored.
  once(&guarded);
  assert!(!words().iter().any(|word| word == "pruned"), "{:?}", words());
  // A row that was just recorded has the time of this clock.
  once(&guarded);
  assert!(!words().iter().any(|word| word == "pruned"), "{:?}", words());
  let conn = Connection::open(guarded.tmp().join(LEDGER)).unwrap();
  conn.execute("UPDATE event SET at = at - ?1", [2 * 86_400_000_000_i64]).unwrap();
  drop(conn);
  once(&guarded);
  let words = words();
  let has = |what: &str| words.iter().any(|word| word == what);
  assert!(has("pruned") && !has("rejected"), "{words:?}");
  let shown = guarded.memfw(&["quarantine", "approve", &item]);
  assert!(shown.status == 2 && shown.stderr.contains("were deleted"), "{shown:?}");
  assert_eq!(guarded.listed("rejected").len(), 1, "the record stays");
}

#[test]
fn nothing_of_memfws_lies_beside_its_own_directories() {
  let (mut guarded, _) = lived_in();
  guarded.stop();
  let outside: Vec<PathBuf> = files_below(guarded.tmp())
    .into_keys()
    .filter(|path| !path.starts_with("memfw") && !path.starts_with("workspace"))
    .collect();
  assert_eq!(outside, Vec::<PathBuf>::new());
}
