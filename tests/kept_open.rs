//! Files that others keep open, and paths that lead elsewhere: work that cannot be done now must
//! neither be postponed without end nor wake the daemon again and again.

use {
  crate::{
    service::assert_at_rest,
    support::{AT_ONCE, Guarded, NEVER, clean, eventually, marks, needle, pace, poison},
  },
  std::{
    fs::{self, File, OpenOptions},
    io::{BufRead as _, BufReader, Write as _},
    os::unix::fs::symlink,
    process::{Command, Stdio},
    time::{Duration, Instant},
  },
};

const FILE: &str = "memory/notes.md";

#[test]
fn a_file_that_is_touched_without_end_is_judged_all_the_same() {
  let mut guarded = Guarded::new(NEVER).memory(FILE, "# Notes\n");
  guarded.start();
  let mut writer = OpenOptions::new().append(true).open(guarded.path(FILE)).unwrap();
  write!(writer, "\n{}\n\n- and", poison(1)).unwrap();
  let started = Instant::now();
  // Never quiet for long enough to look finished, and never at the end of a line.
  while !guarded.holding("workspace", &needle(1)).is_empty() {
    assert!(
      started.elapsed() < Duration::from_secs(20),
      "the poison stays for as long as one writes"
    );
    pace(Duration::from_millis(100));
    write!(writer, " on").unwrap();
  }
  writeln!(writer).unwrap();
  drop(writer);
  let whole = guarded.read(FILE);
  assert!(marks::find(&whole, b"\n- and").is_some(), "{}", marks::show(&whole));
  guarded.stop();
}

#[test]
fn markers_wait_for_a_reader_to_close_the_file_and_wake_nobody_meanwhile() {
  let mut guarded = Guarded::new(AT_ONCE).memory(FILE, "# Notes\n");
  if !marks::reshapes(&guarded.path(FILE)) {
    println!("skipped: files are not leased here");
    return;
  }
  guarded.start();
  guarded.settle();
  let reader = File::open(guarded.path(FILE)).unwrap();
  let mut writer = OpenOptions::new().append(true).open(guarded.path(FILE)).unwrap();
  writeln!(writer, "\n{}", clean(1)).unwrap();
  drop(writer);
  let held = "reads a file that another program keeps open every 60 s";
  eventually("the file is known to be open", || guarded.wakeups() == serde_json::json!([held]));
  assert_at_rest(&guarded);
  assert!(!marks::is_wrapped(&guarded.read(FILE), &clean(1)));
  let closed = Instant::now();
  drop(reader);
  guarded.settle();
  assert!(closed.elapsed() < Duration::from_secs(30), "its close was not heard");
  marks::assert_marked(&guarded.path(FILE), &guarded.read(FILE), &clean(1));
  eventually("nobody is woken any more", || guarded.wakeups() == serde_json::json!([]));
  guarded.stop();
}

#[test]
fn a_person_who_waits_for_a_file_keeps_nobody_else_waiting() {
  let mut guarded =
    Guarded::new(AT_ONCE).memory(FILE, "# Notes\n").memory("MEMORY.md", "# Memory\n");
  if !marks::reshapes(&guarded.path(FILE)) {
    println!("skipped: files are not leased here");
    return;
  }
  guarded.start();
  let add = |file: &str, text: &str| {
    let mut writer = OpenOptions::new().append(true).open(guarded.path(file)).unwrap();
    writeln!(writer, "\n{text}").unwrap();
  };
  add(FILE, &poison(1));
  guarded.wait_for_items(1);
  guarded.settle();
  let item = guarded.waiting().remove(0);
  // An editor has the file open, and the command waits for it.
  let reader = File::open(guarded.path(FILE)).unwrap();
  let id = crate::support::id(&item).to_owned();
  let mut command = guarded.test().args(["quarantine", "approve", &id]).start();
  for n in 2..5 {
    add("MEMORY.md", &poison(n));
    eventually("poison is gone", || guarded.holding("workspace", &needle(n)).is_empty());
  }
  // Had they waited for the command, it would have given up after five seconds.
  drop(reader);
  assert!(command.wait().success(), "{}", String::from_utf8_lossy(&command.stderr()));
  assert!(!guarded.holding("workspace", &needle(1)).is_empty(), "it is back");
  guarded.stop();
}

#[test]
fn many_files_that_others_keep_open_leave_room_for_the_rest() {
  // Fewer descriptors at the start than files that are kept open.
  let limited = ["sh", "-c", "ulimit -S -n 64 && exec \"$@\"", "sh"];
  let mut guarded = Guarded::new(AT_ONCE).before(&limited).memory(FILE, "# Notes\n");
  let names: Vec<String> = (0..120).map(|n| format!("memory/open-{n}.md")).collect();
  for name in &names {
    guarded = guarded.memory(name, "# Note\n");
  }
  guarded.start();
  guarded.settle();
  let append = |name: &String| OpenOptions::new().append(true).open(guarded.path(name)).unwrap();
  let mut kept: Vec<File> = names.iter().map(append).collect();
  for (n, file) in kept.iter_mut().enumerate() {
    writeln!(file, "\n{}", clean(n)).unwrap();
  }
  let mut writer = OpenOptions::new().append(true).open(guarded.path(FILE)).unwrap();
  writeln!(writer, "\n{}", poison(200)).unwrap();
  drop(writer);
  eventually("the poison leaves", || guarded.holding("workspace", &needle(200)).is_empty());
  eventually("all of them are known to be open", || {
    let held = "reads 120 files that another program keeps open every 60 s";
    guarded.wakeups() == serde_json::json!([held])
  });
  assert_eq!(guarded.json(&["status", "--json"])["degradations"], serde_json::json!([]));
  drop(kept);
  guarded.settle();
  guarded.stop();
}

#[test]
fn a_path_on_which_a_link_has_come_is_reported_once_and_wakes_nobody() {
  let mut guarded = Guarded::new(AT_ONCE).memory("memory/sub/a.md", "# Notes\n");
  guarded.start();
  guarded.settle();
  let (sub, away) = (guarded.path("memory/sub"), guarded.tmp().join("away"));
  fs::rename(&sub, &away).unwrap();
  symlink(&away, &sub).unwrap();
  eventually("the link is told", || guarded.memfw(&["status"]).stdout.contains("symbolic link"));
  assert_at_rest(&guarded);
  // Its replacement is guarded again.
  fs::remove_file(&sub).unwrap();
  fs::rename(&away, &sub).unwrap();
  let mut writer = OpenOptions::new().append(true).open(sub.join("a.md")).unwrap();
  writeln!(writer, "{}", poison(1)).unwrap();
  drop(writer);
  eventually("the poison is out", || guarded.holding("workspace", &needle(1)).is_empty());
  guarded.settle();
  guarded.stop();
}

/// Takes a lease for reading, gives way to each program that wants to write, and asks for it again at once.
const RENEWED: &str = "
import fcntl, os, signal, sys, time
file = os.open(sys.argv[1], os.O_RDONLY)
def lease(kind):
  try:
    fcntl.fcntl(file, fcntl.F_SETLEASE, kind)
    return True
  except OSError:
    return False
signal.signal(signal.SIGIO, lambda *_: (lease(fcntl.F_UNLCK), lease(fcntl.F_RDLCK)))
print('held' if lease(fcntl.F_RDLCK) else 'none', flush=True)
while True:
  lease(fcntl.F_RDLCK)
  time.sleep(0.0005)
";

#[test]
fn a_lease_that_is_renewed_again_and_again_does_not_keep_poison_readable() {
  let mut guarded = Guarded::new(NEVER).memory(FILE, "# Notes\n");
  if !marks::reshapes(&guarded.path(FILE)) {
    println!("skipped: files are not leased here");
    return;
  }
  guarded.start();
  guarded.settle();
  let new = guarded.path("memory/new.txt");
  fs::write(&new, format!("# Notes\n\n{}\n", poison(1))).unwrap();
  let python = Command::new("python3")
    .args(["-E", "-S", "-c", RENEWED])
    .arg(&new)
    .stdout(Stdio::piped())
    .spawn();
  let Ok(mut holder) = python else {
    println!("skipped: there is no python3");
    return;
  };
  let mut held = String::new();
  BufReader::new(holder.stdout.take().unwrap()).read_line(&mut held).unwrap();
  assert_eq!(held, "held\n");
  fs::rename(&new, guarded.path(FILE)).unwrap();
  eventually("the poison leaves", || guarded.holding("workspace", &needle(1)).is_empty());
  holder.kill().unwrap();
  holder.wait().unwrap();
  guarded.stop();
}
