//! The daemon as a service: reload, watchdog, rest, and a quick start.

use {
  crate::support::{AT_ONCE, DEADLINE, Guarded, Writer, clean, eventually, needle, poison},
  rustix::{
    fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags},
    process::Signal,
  },
  serde_json::json,
  std::{
    fs,
    mem::MaybeUninit,
    os::unix::net::UnixDatagram,
    path::Path,
    time::{Duration, Instant},
  },
};

fn config(guarded: &Guarded, text: &str) {
  drop(guarded.test().config(text));
}

fn gone(guarded: &Guarded, n: usize) -> bool {
  guarded.holding("workspace", &needle(n)).is_empty()
    && guarded.holding("other", &needle(n)).is_empty()
}

#[test]
fn a_changed_configuration_takes_effect_and_a_broken_one_changes_nothing() {
  let mut guarded = Guarded::new("").memory("MEMORY.md", "# Memory\n");
  let other = guarded.tmp().join("other");
  fs::create_dir_all(other.join("memory")).unwrap();
  fs::write(other.join("memory/a.md"), format!("# A\n\n{}\n", poison(1))).unwrap();
  guarded.start();

  // Another workspace: its current text is its baseline, later text is guarded.
  config(&guarded, "workspaces = [\"[TMP]/workspace\", \"[TMP]/other\"]\n");
  guarded.signal(Signal::HUP);
  guarded.wait_for_log("configuration reloaded");
  eventually("the baseline is adopted", || guarded.listed("flagged").len() == 1);
  guarded.settle();
  Writer::Shell.add(&other.join("memory/b.md"), format!("{}\n", poison(2)).as_bytes());
  eventually("the new workspace is guarded", || gone_in(&guarded, "other", 2));
  assert_eq!(guarded.holding("other", &needle(1)).len(), 1, "its baseline stays");

  // An error: the old configuration stays in force, and `status` reports it until it is repaired.
  config(&guarded, "workspaces = []\n[files]\nidel_ms = 0\n");
  guarded.signal(Signal::HUP);
  guarded.wait_for_log("the changed configuration is invalid");
  let output = guarded.memfw(&["status", "--json"]);
  assert_eq!(output.status, 1, "{output:?}");
  assert!(output.stdout.contains("unknown key `idel_ms`"), "{output:?}");
  Writer::Shell.add(&other.join("memory/b.md"), format!("\n{}\n", poison(3)).as_bytes());
  eventually("it is guarded as before", || gone(&guarded, 3));

  // Repaired, with the workspace removed again.
  config(&guarded, "workspaces = [\"[TMP]/workspace\"]\n");
  guarded.signal(Signal::HUP);
  eventually("all is well again", || guarded.memfw(&["status"]).status == 0);
  let status = guarded.json(&["status", "--json"]);
  assert_eq!(status["workspaces"].as_array().unwrap().len(), 1, "{status:#}");
  Writer::Shell.add(&other.join("memory/b.md"), format!("\n{}\n", poison(4)).as_bytes());
  Writer::Shell.add(&guarded.path("MEMORY.md"), format!("\n{}\n", poison(5)).as_bytes());
  eventually("the rest is guarded", || gone_in(&guarded, "workspace", 5));
  guarded.settle();
  assert_eq!(guarded.holding("other", &needle(4)).len(), 1, "it is nobody's business any more");
  guarded.stop();
}

fn gone_in(guarded: &Guarded, dir: &str, n: usize) -> bool {
  guarded.holding(dir, &needle(n)).is_empty()
}

#[test]
fn a_raised_limit_lets_a_file_be_guarded() {
  let workspaces = "workspaces = [\"[TMP]/workspace\"]\n";
  let mut guarded = Guarded::new("[files]\nmax_bytes = 64\n").memory("MEMORY.md", "# Memory\n");
  guarded.start();
  Writer::Shell.add(&guarded.path("MEMORY.md"), format!("\n{}\n", poison(1)).as_bytes());
  guarded.settle();
  assert!(!gone_in(&guarded, "workspace", 1));
  config(&guarded, &format!("{workspaces}[files]\nmax_bytes = 65536\n"));
  guarded.signal(Signal::HUP);
  eventually("it is checked again", || gone_in(&guarded, "workspace", 1));
  guarded.settle();
  assert_eq!(guarded.json(&["status", "--json"])["unguarded"], json!([]));
  guarded.stop();
}

/// The service manager's end of the socket.
struct Manager {
  socket: UnixDatagram,
  seen: String,
}

impl Manager {
  fn new(path: &Path) -> Self {
    let socket = UnixDatagram::bind(path).unwrap();
    socket.set_read_timeout(Some(DEADLINE)).unwrap();
    Self { socket, seen: String::new() }
  }

  /// Waits for a message with this line, and returns the whole message.
  #[track_caller]
  fn wait_for(&mut self, line: &str) -> String {
    let mut buffer = [0; 4096];
    loop {
      let length =
        self.socket.recv(&mut buffer).unwrap_or_else(|_| panic!("`{line}` after {}", self.seen));
      let message = String::from_utf8(buffer[..length].to_vec()).unwrap();
      self.seen.push_str(&message);
      if message.lines().any(|found| found.starts_with(line)) {
        return message;
      }
    }
  }
}

#[test]
fn the_service_manager_hears_what_it_asks_for() {
  let guarded = Guarded::new("").memory("MEMORY.md", "# Memory\n");
  let socket = guarded.tmp().join("notify");
  let mut manager = Manager::new(&socket);
  let mut guarded =
    guarded.env("NOTIFY_SOCKET", socket.to_str().unwrap()).env("WATCHDOG_USEC", "400000");
  guarded.start();
  manager.wait_for("EXTEND_TIMEOUT_USEC=60000000");
  manager.wait_for("READY=1");
  let mut last = Instant::now();
  for _ in 0..5 {
    manager.wait_for("WATCHDOG=1");
    // Twice in the time after which it would count as dead; that time itself on a busy machine.
    assert!(last.elapsed() < Duration::from_secs(5), "{:?}", last.elapsed());
    last = Instant::now();
  }
  assert_eq!(guarded.wakeups(), json!(["pings the service manager every 0.2 s"]));
  guarded.signal(Signal::HUP);
  let reloading = manager.wait_for("RELOADING=1");
  assert!(reloading.contains("MONOTONIC_USEC="), "{reloading}");
  manager.wait_for("READY=1");
  // A loop that does not progress sends no message.
  guarded.signal(Signal::STOP);
  let mut buffer = [0; 4096];
  // An earlier message may still be in the socket on a busy machine.
  manager.socket.set_nonblocking(true).unwrap();
  while manager.socket.recv(&mut buffer).is_ok() {}
  manager.socket.set_nonblocking(false).unwrap();
  manager.socket.set_read_timeout(Some(Duration::from_millis(600))).unwrap();
  let quiet = (0..4).any(|_| manager.socket.recv(&mut buffer).is_err());
  assert!(quiet, "a stopped daemon is silent");
  manager.socket.set_read_timeout(Some(DEADLINE)).unwrap();
  guarded.signal(Signal::CONT);
  manager.wait_for("WATCHDOG=1");
  guarded.stop();
  manager.wait_for("STOPPING=1");
}

/// How often the threads of a process went to sleep so far, and so woke up.
fn switches(pid: u32) -> u64 {
  let count = |text: &str| {
    let line = text.lines().find(|line| line.starts_with("voluntary_ctxt_switches:"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).unwrap_or(0)
  };
  let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
  let status = |task: fs::DirEntry| fs::read_to_string(task.path().join("status")).ok();
  tasks.filter_map(|task| status(task.ok()?)).map(|text| count(&text)).sum()
}

/// The daemon comes to rest: within the deadline there are three seconds with one wakeup at most.
#[track_caller]
pub(crate) fn assert_at_rest(guarded: &Guarded) {
  let start = Instant::now();
  loop {
    let before = switches(guarded.pid());
    crate::support::pace(Duration::from_secs(3));
    let woken = switches(guarded.pid()) - before;
    if woken <= 1 {
      return;
    }
    assert!(start.elapsed() < DEADLINE, "{woken} wakeups in 3 s");
  }
}

#[test]
fn a_daemon_at_rest_sleeps() {
  let mut guarded = Guarded::new(AT_ONCE).memory("MEMORY.md", "# Memory\n");
  guarded.start();
  Writer::Shell
    .add(&guarded.path("MEMORY.md"), format!("{}\n{}\n", clean(1), poison(1)).as_bytes());
  guarded.settle();
  assert_eq!(guarded.wakeups(), json!([]));
  assert_at_rest(&guarded);
  guarded.stop();
}

#[test]
fn file_times_from_the_future_keep_nobody_awake() {
  let mut guarded = Guarded::new(AT_ONCE).memory("MEMORY.md", "# Memory\n");
  let future = std::time::SystemTime::now() + Duration::from_hours(100 * 365 * 24);
  let date = |guarded: &Guarded| {
    let file = fs::File::options().append(true).open(guarded.path("MEMORY.md")).unwrap();
    file.set_modified(future).unwrap();
  };
  date(&guarded);
  guarded.start();
  guarded.settle();
  assert_at_rest(&guarded);
  // It cannot be used to keep poison either: neither at once, nor while the time is unchanged.
  for n in 0..2 {
    Writer::Shell
      .add(&guarded.path("MEMORY.md"), format!("{}\n{}\n", clean(n), poison(n)).as_bytes());
    date(&guarded);
    eventually("the poison goes", || gone_in(&guarded, "workspace", n));
    date(&guarded);
  }
  guarded.settle();
  assert_at_rest(&guarded);
  assert_eq!(guarded.waiting().len(), 2);
  guarded.stop();
}

#[test]
fn known_files_are_not_opened_at_a_start() {
  const FILES: usize = 1000;
  let mut guarded = Guarded::new("").memory("MEMORY.md", "# Memory\n");
  for n in 0..FILES {
    drop(guarded.test().memory(&format!("memory/{n:04}.md"), format!("{}\n", clean(n))));
  }
  guarded.start();
  guarded.settle();
  let kept = || guarded.json(&["status", "--json"])["versions"]["due"] == 0;
  eventually("a version of each file is kept", kept);
  guarded.stop();
  let watch = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).unwrap();
  inotify::add_watch(&watch, guarded.path("memory"), WatchFlags::OPEN).unwrap();
  inotify::add_watch(&watch, guarded.path(""), WatchFlags::OPEN).unwrap();
  // One file is new and has to be opened, so that the count is known to count.
  fs::write(guarded.path("memory/new.md"), "- new\n").unwrap();
  guarded.start();
  guarded.settle();
  guarded.stop();
  let mut opened = Vec::new();
  let mut buffer = [MaybeUninit::uninit(); 4096];
  let mut reader = inotify::Reader::new(&watch, &mut buffer);
  while let Ok(event) = reader.next() {
    let name = event.file_name().map(|name| name.to_string_lossy().into_owned());
    if let Some(name) = name.filter(|_| !event.events().contains(ReadFlags::ISDIR)) {
      opened.push(name);
    }
  }
  // The unnamed file of the probe is shown as a number.
  opened.retain(|name: &String| !name.starts_with('#'));
  opened.sort();
  opened.dedup();
  assert_eq!(opened, ["new.md"]);
}
