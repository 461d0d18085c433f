//! Imitates the user manager of systemd: reads the installed unit and runs its commands.
//!
//! `systemctl` in the environment's `PATH` passes its arguments to a thread of the test, which
//! answers as systemd would. The sandbox of the unit, which needs the kernel, is not imitated.
#![forbid(unsafe_code)]

use {
  crate::support::{Background, DEADLINE, pace},
  std::{
    collections::BTreeMap,
    fs,
    os::unix::{fs::PermissionsExt as _, net::UnixDatagram},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
      Arc, Mutex,
      atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
  },
};

/// The unit.
const NAME: &str = "memfw.service";
/// Passes its arguments on, waits for the answer, and exits with that status. Its own `PATH` is
/// that of the tests, because it needs `mv` and `sleep`; the environment's has neither.
const SYSTEMCTL: &str = "#!/bin/sh
PATH='[PATH]'
ask='[DIR]'/$$
printf '%s\\n' \"$@\" > \"$ask.new\" && mv \"$ask.new\" \"$ask.ask\"
n=0
while [ ! -e \"$ask.answer\" ]; do
  n=$((n + 1))
  [ $n -lt 6000 ] || exit 1
  sleep 0.01
done
read -r status < \"$ask.answer\"
exit \"$status\"
";

/// A manager that listens until it is dropped, and then ends the programs that it has started.
pub(super) struct Manager {
  state: Arc<Mutex<State>>,
  stop: Arc<AtomicBool>,
  thread: Option<JoinHandle<()>>,
}

impl Manager {
  /// Puts `systemctl` into `bin` and listens; units are in `units`, and a service gets `env`.
  pub(super) fn new(bin: &Path, units: &Path, env: BTreeMap<String, PathBuf>) -> Self {
    let dir = bin.with_file_name("manager");
    fs::create_dir_all(&dir).unwrap();
    let path = std::env::var("PATH").unwrap_or_else(|_| "/usr/bin:/bin".to_owned());
    let text = SYSTEMCTL.replace("[PATH]", &path).replace("[DIR]", dir.to_str().unwrap());
    program(&bin.join("systemctl"), &text);
    // This says that the manager can make user namespaces; the machine's own manager is not asked.
    program(&bin.join("systemd-run"), "#!/bin/sh\nexit 0\n");
    let state = State {
      units: units.to_owned(),
      dir: dir.clone(),
      env,
      loaded: None,
      service: None,
      enabled: false,
      asked: Vec::new(),
    };
    let state = Arc::new(Mutex::new(state));
    let stop = Arc::<AtomicBool>::default();
    let (shared, ends) = (Arc::clone(&state), Arc::clone(&stop));
    let thread = std::thread::spawn(move || {
      while !ends.load(Relaxed) {
        answer_all(&dir, &shared);
        pace(Duration::from_millis(5));
      }
    });
    Self { state, stop, thread: Some(thread) }
  }

  /// The commands so far, a line each.
  pub(super) fn asked(&self) -> Vec<String> {
    self.state.lock().unwrap().asked.clone()
  }

  /// Whether the service runs.
  pub(super) fn runs(&self) -> bool {
    self.state.lock().unwrap().runs()
  }

  /// The log of the service so far.
  pub(super) fn log(&self) -> String {
    let state = self.state.lock().unwrap();
    let log = state.service.as_ref().map(|service| service.process.stderr()).unwrap_or_default();
    String::from_utf8_lossy(&log).into_owned()
  }
}

impl Drop for Manager {
  fn drop(&mut self) {
    self.stop.store(true, Relaxed);
    // A failure in the thread was printed when it happened; here it would hide the failure of the
    // test.
    drop(self.thread.take().map(JoinHandle::join));
  }
}

fn answer_all(dir: &Path, state: &Mutex<State>) {
  let asks = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
  for ask in asks.filter(|path| path.extension().is_some_and(|end| end == "ask")) {
    let words = fs::read_to_string(&ask).unwrap();
    fs::remove_file(&ask).unwrap();
    let words: Vec<&str> = words.lines().collect();
    let status = i32::from(!state.lock().unwrap().answer(&words));
    let new = ask.with_extension("status");
    fs::write(&new, format!("{status}\n")).unwrap();
    fs::rename(new, ask.with_extension("answer")).unwrap();
  }
}

/// The state of systemd.
struct State {
  units: PathBuf,
  dir: PathBuf,
  env: BTreeMap<String, PathBuf>,
  /// The unit at the last reload.
  loaded: Option<Unit>,
  service: Option<Service>,
  enabled: bool,
  asked: Vec<String>,
}

/// A started service.
struct Service {
  process: Background,
  /// The socket on which it reports that it is ready and alive.
  _socket: UnixDatagram,
}

impl State {
  fn answer(&mut self, words: &[&str]) -> bool {
    self.asked.push(words.join(" "));
    match words {
      ["--user", "daemon-reload"] => {
        self.loaded = fs::read_to_string(self.units.join(NAME)).ok().map(|text| Unit::new(&text));
        true
      }
      ["--user", "show", "--property=Version"] => true,
      ["--user", "is-active", "--quiet", NAME] => self.runs(),
      ["--user", "is-enabled", "--quiet", NAME] => self.enabled,
      ["--user", "enable", NAME] => {
        let wanted = |unit: &Unit| unit.value("Install", "WantedBy") == "default.target";
        self.enabled = self.loaded.as_ref().is_some_and(wanted);
        self.enabled
      }
      ["--user", "start", NAME] => self.runs() || self.start(),
      ["--user", "disable", "--now", NAME] => {
        self.enabled = false;
        if let Some(mut service) = self.service.take() {
          let status = service.process.terminate();
          assert_eq!(status.code(), Some(0), "the service did not end in order");
        }
        true
      }
      _ => false,
    }
  }

  fn runs(&self) -> bool {
    // A process that has ended is a zombie until it was waited for.
    self.service.as_ref().is_some_and(|service| {
      let stat = fs::read_to_string(format!("/proc/{}/stat", service.process.pid()));
      stat.is_ok_and(|stat| !stat.contains(") Z "))
    })
  }

  /// Runs the command of the unit, and waits until it reports that it is ready.
  fn start(&mut self) -> bool {
    let Some(unit) = &self.loaded else { return false };
    assert_eq!(unit.value("Service", "Type"), "notify");
    let path = self.dir.join("notify");
    fs::remove_file(&path).unwrap_or_default();
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let command = |line: &str| {
      let mut words = line.split(' ').map(word);
      let mut command = Command::new(words.next().unwrap());
      command.args(words).env_clear().envs(&self.env).stdin(Stdio::null()).current_dir("/");
      for line in unit.values("Service", "Environment") {
        let line = word(line);
        let (name, value) = line.split_once('=').unwrap();
        command.env(name, value);
      }
      command
    };
    for line in unit.values("Service", "ExecStartPre") {
      let (may_fail, line) = line.strip_prefix('-').map_or((false, line), |line| (true, line));
      let output = command(line).output().unwrap();
      if !output.status.success() && !may_fail {
        return false;
      }
    }
    let seconds: u64 = unit.value("Service", "WatchdogSec").parse().unwrap();
    let mut main = command(unit.value("Service", "ExecStart"));
    main.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", (seconds * 1_000_000).to_string());
    let mut process =
      Background::new(main.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let (started, mut buffer) = (Instant::now(), [0; 4096]);
    while started.elapsed() < DEADLINE && !process.has_ended() {
      let Ok(length) = socket.recv(&mut buffer) else { continue };
      if buffer[..length].split(|byte| *byte == b'\n').any(|line| line == b"READY=1") {
        self.service = Some(Service { process, _socket: socket });
        return true;
      }
    }
    false
  }
}

/// The settings of a unit.
struct Unit(Vec<(String, String, String)>);

impl Unit {
  fn new(text: &str) -> Self {
    let mut section = String::new();
    let mut lines = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with(['#', ';'])) {
      assert!(!line.ends_with('\\'), "no line goes on in the next one: {line}");
      if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
        name.clone_into(&mut section);
      } else {
        let (key, value) = line.split_once('=').unwrap();
        lines.push((section.clone(), key.to_owned(), value.to_owned()));
      }
    }
    Self(lines)
  }

  fn values<'u>(&'u self, section: &'u str, key: &'u str) -> impl Iterator<Item = &'u str> {
    let is_it = move |line: &&(String, String, String)| line.0 == section && line.1 == key;
    self.0.iter().filter(is_it).map(|line| line.2.as_str())
  }

  #[track_caller]
  fn value<'u>(&'u self, section: &'u str, key: &'u str) -> &'u str {
    let found: Vec<&str> = self.values(section, key).collect();
    assert_eq!(found.len(), 1, "{section}: {key}={found:?}");
    found[0]
  }
}

/// A word of a unit without its quotes; no path of the walk needs more than that.
fn word(text: &str) -> String {
  let text = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
  assert!(!text.contains(['%', '\\', '"', '$']), "not played: {text}");
  text.to_owned()
}

/// Writes a program.
pub(super) fn program(path: &Path, text: &str) {
  fs::write(path, text).unwrap();
  fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}
