//! A workspace with the real daemon on it.

use {
  super::{Background, Mounts, Output, Test, eventually, marks},
  serde_json::Value,
  std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::lchown,
    path::{Path, PathBuf},
    process::Command,
    rc::Rc,
  },
  tempfile::TempDir,
};

/// Markers are written as soon as no program has the file open.
pub(crate) const AT_ONCE: &str = "[files]\nidle_ms = 0\n";
/// Markers are never written while a test lasts.
pub(crate) const NEVER: &str = "[files]\nidle_ms = 3600000\n";

/// A uid that owns nothing.
const NOBODY: u32 = 65534;
/// Seconds that `settle` and `status --wait` may take; far more than they need.
const PATIENCE: &str = "180";
/// How often this wait is repeated where a tree is very large.
const LONG_PATIENCE: usize = 4;

/// A workspace of its own, its memfw home, and the daemon while it runs.
pub(crate) struct Guarded {
  temp: Rc<TempDir>,
  env: Vec<(&'static str, String)>,
  uid: Option<u32>,
  /// The mount namespace in which all commands run and files are read.
  mounts: Option<Mounts>,
  /// Further words before the daemon's command.
  before: Vec<String>,
  daemon: Option<Background>,
}

impl Guarded {
  /// An empty workspace that the configuration names; no daemon yet.
  pub(crate) fn new(config: &str) -> Self {
    Self::of(Test::new(), config)
  }

  /// An empty workspace below another directory, as on another file system.
  pub(crate) fn below(dir: &Path, config: &str) -> Self {
    Self::of(Test::below(dir), config)
  }

  fn of(test: Test, config: &str) -> Self {
    let test = test.config(format!("workspaces = [\"[TMP]/workspace\"]\n{config}"));
    Self {
      temp: Rc::clone(&test.temp),
      env: Vec::new(),
      uid: None,
      mounts: None,
      before: Vec::new(),
      daemon: None,
    }
  }

  /// One more variable for all commands.
  pub(crate) fn env(mut self, name: &'static str, value: &str) -> Self {
    self.env.push((name, value.to_owned()));
    self
  }

  /// All commands run as this user.
  pub(crate) fn uid(mut self, uid: u32) -> Self {
    self.uid = Some(uid);
    self
  }

  /// All commands run in a mount namespace in which `setup` was run, with the directory of this world
  /// as `$TMP`; `None`, with a line that says why, where that does not work.
  pub(crate) fn mounts(mut self, setup: &str) -> Option<Self> {
    let setup = format!("TMP='{}' && {setup}", self.tmp().display());
    self.mounts = Some(Mounts::new(&["--mount"], &setup)?);
    Some(self)
  }

  /// Runs a script of the shell in that namespace, with `$TMP` set as there.
  #[track_caller]
  pub(crate) fn in_mounts(&self, script: &str) {
    let script = format!("TMP='{}' && {script}", self.tmp().display());
    self.mounts.as_ref().expect("there is no namespace").run(&script);
  }

  /// Words before the daemon's command.
  pub(crate) fn before(mut self, words: &[&str]) -> Self {
    self.before = words.iter().map(|&word| word.to_owned()).collect();
    self
  }

  /// All commands run as a user who owns only this directory, also where the tests run as root, who
  /// may read and write everything. `None`, with a message, where no other user is available.
  pub(crate) fn played_by_nobody(self) -> Option<Self> {
    if !rustix::process::geteuid().is_root() {
      return Some(self);
    }
    let id = NOBODY.to_string();
    let mut drop = Command::new("setpriv");
    drop.args(["--reuid", &id, "--regid", &id, "--clear-groups", env!("CARGO_BIN_EXE_memfw")]);
    if !drop.arg("--version").output().is_ok_and(|output| output.status.success()) {
      println!(
        "skipped: root may do everything, and setpriv cannot run memfw as somebody else here"
      );
      return None;
    }
    let mut paths = vec![self.tmp().to_owned()];
    while let Some(path) = paths.pop() {
      lchown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
      if path.is_dir() && !path.is_symlink() {
        paths.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
      }
    }
    Some(self.uid(NOBODY))
  }

  /// A file of the workspace.
  pub(crate) fn memory(self, file: &str, text: impl AsRef<[u8]>) -> Self {
    drop(self.test().memory(file, text));
    self
  }

  /// The memory files of a tree, copied into the workspace.
  pub(crate) fn tree(self, from: &Path) -> Self {
    for (file, bytes) in files_below(from) {
      let path = self.path(file);
      fs::create_dir_all(path.parent().unwrap()).unwrap();
      fs::write(path, bytes).unwrap();
    }
    self
  }

  /// The next command in this environment.
  pub(crate) fn test(&self) -> Test {
    let mut test = Test::within(Rc::clone(&self.temp));
    test.uid = self.uid;
    test.before = self.mounts.as_ref().map(Mounts::enter).unwrap_or_default();
    self.env.iter().fold(test, |test, (name, value)| test.env(name, value))
  }

  /// The output of a command, with any exit status.
  pub(crate) fn memfw(&self, args: &[&str]) -> Output {
    self.test().args(args).output()
  }

  /// Standard output of a command that must succeed.
  #[track_caller]
  pub(crate) fn ok(&self, args: &[&str]) -> String {
    let output = self.memfw(args);
    assert_eq!((output.status, output.stderr.as_str()), (0, ""), "{args:?}: {}", output.stdout);
    output.stdout
  }

  /// The JSON answer of a command that must succeed.
  #[track_caller]
  pub(crate) fn json(&self, args: &[&str]) -> Value {
    serde_json::from_str(&self.ok(args)).unwrap()
  }

  /// What wakes the daemon, except the look for the first skill once a minute.
  #[track_caller]
  pub(crate) fn wakeups(&self) -> Value {
    let status: Value = serde_json::from_str(&self.memfw(&["status", "--json"]).stdout).unwrap();
    let all = status["wakeups"].as_array().unwrap();
    all.iter().filter(|one| *one != "looks for skills every 60 s").cloned().collect()
  }

  /// Starts the daemon and does not wait for it.
  pub(crate) fn spawn(&mut self) {
    assert!(self.daemon.is_none(), "a daemon runs already");
    let mut test = self.test().args(["run"]);
    test.before.extend(self.before.clone());
    self.daemon = Some(test.start());
  }

  /// Starts a daemon that is killed at a failpoint (`name:n`), and does not wait for it.
  #[cfg(all(debug_assertions, linux))]
  pub(crate) fn spawn_at(&mut self, failpoint: &str) {
    assert!(self.daemon.is_none(), "a daemon runs already");
    let test = self.test().args(["run"]).env(memfw::failpoint::VARIABLE, failpoint);
    self.daemon = Some(test.start());
  }

  /// Whether such a daemon ends within this time.
  #[cfg(all(debug_assertions, linux))]
  pub(crate) fn ends_within(&mut self, time: std::time::Duration) -> bool {
    let started = std::time::Instant::now();
    let daemon = self.daemon.as_mut().expect("no daemon runs");
    while !daemon.has_ended() && started.elapsed() < time {
      super::pace(std::time::Duration::from_millis(1));
    }
    daemon.has_ended()
  }

  /// Waits until such a daemon has reached its failpoint.
  #[cfg(all(debug_assertions, linux))]
  #[track_caller]
  pub(crate) fn wait_for_death(&mut self, name: &str) {
    use std::os::unix::process::ExitStatusExt as _;
    let mut daemon = self.daemon.take().expect("no daemon runs");
    daemon.wait_for_log(&format!("failpoint {name}"));
    assert_eq!(daemon.wait().signal(), Some(9), "it did not die at {name}");
  }

  /// Starts the daemon and waits until its first scan is done.
  #[track_caller]
  pub(crate) fn start(&mut self) {
    self.spawn();
    self.wait_until_started();
    let output = self.memfw(&["status", "--wait", PATIENCE]);
    assert_eq!(output.status, 0, "the daemon does not start: {output:?}\n{}", self.last_log());
  }

  /// Starts the daemon with more patience, for large trees.
  #[track_caller]
  pub(crate) fn start_patiently(&mut self) {
    self.spawn();
    let is_ready = |guarded: &Self| guarded.memfw(&["status", "--wait", PATIENCE]).status == 0;
    let ready = (0..LONG_PATIENCE).any(|_| is_ready(self));
    assert!(ready, "the daemon does not start:\n{}", self.last_log());
  }

  /// Waits until a daemon that was spawned reports that it guards.
  #[track_caller]
  pub(crate) fn wait_until_started(&mut self) {
    self.daemon.as_mut().expect("no daemon runs").wait_for_log("started");
  }

  /// Ends the daemon in order.
  #[track_caller]
  pub(crate) fn stop(&mut self) {
    let mut daemon = self.daemon.take().expect("no daemon runs");
    let status = daemon.terminate();
    let log = String::from_utf8_lossy(&daemon.stderr()).into_owned();
    assert_eq!(status.code(), Some(0), "the daemon did not end in order:\n{log}");
  }

  /// Runs a closure while the daemon is stopped.
  pub(crate) fn while_stopped(&self, what: impl FnOnce()) {
    self.daemon.as_ref().expect("no daemon runs").while_stopped(what);
  }

  /// Ends the daemon at once.
  #[track_caller]
  pub(crate) fn kill(&mut self) {
    self.daemon.take().expect("no daemon runs").kill();
  }

  /// The daemon that runs.
  pub(crate) fn daemon(&mut self) -> &mut Background {
    self.daemon.as_mut().expect("no daemon runs")
  }

  /// Waits until everything that was written has been processed.
  #[track_caller]
  pub(crate) fn settle(&self) {
    let output = self.memfw(&["settle", PATIENCE]);
    assert_eq!(output.status, 0, "it does not settle: {output:?}\n{}", self.last_log());
  }

  /// The daemon's process id.
  #[track_caller]
  pub(crate) fn pid(&self) -> u32 {
    self.daemon.as_ref().expect("no daemon runs").pid()
  }

  /// Sends the daemon a signal.
  #[track_caller]
  pub(crate) fn signal(&mut self, signal: rustix::process::Signal) {
    self.daemon.as_mut().expect("no daemon runs").signal(signal);
  }

  /// Waits for a line of the daemon's log.
  #[track_caller]
  pub(crate) fn wait_for_log(&mut self, text: &str) {
    self.daemon.as_mut().expect("no daemon runs").wait_for_log(text);
  }

  /// The log of the daemon.
  pub(crate) fn log(&self) -> String {
    let log = self.daemon.as_ref().map(Background::stderr).unwrap_or_default();
    String::from_utf8_lossy(&log).into_owned()
  }

  /// The last lines of that, for messages.
  fn last_log(&self) -> String {
    let log = self.log();
    let lines: Vec<&str> = log.lines().rev().take(8).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join("\n")
  }

  /// The items that wait for a person.
  #[track_caller]
  pub(crate) fn waiting(&self) -> Vec<Value> {
    self.json(&["quarantine", "list", "--json"]).as_array().unwrap().clone()
  }

  /// Waits until this many items wait and none of their texts is in its file: text is recorded
  /// before it is overwritten.
  #[track_caller]
  pub(crate) fn wait_for_items(&self, n: usize) {
    let is_out = |item: &Value| {
      let file = item["file"].as_str().unwrap().replace("[TMP]", self.seen().to_str().unwrap());
      let text = item["text"].as_str().unwrap().trim();
      fs::read(file).is_ok_and(|bytes| marks::find(&bytes, text.as_bytes()).is_none())
    };
    eventually("what waits is out", || {
      let items = self.waiting();
      items.len() >= n && self.shown(&items).iter().all(is_out)
    });
  }

  /// Items as they are shown one by one.
  #[track_caller]
  fn shown(&self, items: &[Value]) -> Vec<Value> {
    if items.is_empty() {
      return Vec::new();
    }
    let mut args = vec!["quarantine", "show", "--json"];
    args.extend(items.iter().map(id));
    self.json(&args).as_array().unwrap().clone()
  }

  /// Items of one state.
  #[track_caller]
  pub(crate) fn listed(&self, status: &str) -> Vec<Value> {
    let list = self.json(&["quarantine", "list", "--status", status, "--json"]);
    list.as_array().unwrap().clone()
  }

  /// The waiting items with their texts, by id.
  #[track_caller]
  pub(crate) fn sealed(&self) -> BTreeMap<String, String> {
    let text = |item: &Value| (id(item).to_owned(), item["text"].as_str().unwrap().to_owned());
    self.shown(&self.waiting()).iter().map(text).collect()
  }

  /// Approves all waiting items.
  #[track_caller]
  pub(crate) fn approve_all(&self) {
    let items = self.waiting();
    if !items.is_empty() {
      let mut args = vec!["quarantine", "approve"];
      args.extend(items.iter().map(id));
      self.ok(&args);
    }
  }

  /// Ends the daemon and keeps all files for inspection; returns their directory.
  pub(crate) fn keep(&mut self) -> PathBuf {
    self.daemon = None;
    // One owner that is never dropped.
    std::mem::forget(Rc::clone(&self.temp));
    self.tmp().to_owned()
  }

  /// The directory of this environment.
  pub(crate) fn tmp(&self) -> &Path {
    self.temp.path()
  }

  /// The directory with the mounts below it.
  fn seen(&self) -> PathBuf {
    let root = self.mounts.as_ref().map(Mounts::root).unwrap_or_default();
    PathBuf::from(format!("{root}{}", self.tmp().display()))
  }

  /// A file of the workspace.
  pub(crate) fn path(&self, file: impl AsRef<Path>) -> PathBuf {
    self.seen().join("workspace").join(file)
  }

  /// A file of the workspace as commands name it in their answers.
  pub(crate) fn named(file: impl AsRef<Path>) -> String {
    format!("[TMP]/workspace/{}", file.as_ref().display())
  }

  /// The content of a file of the workspace.
  #[track_caller]
  pub(crate) fn read(&self, file: impl AsRef<Path>) -> Vec<u8> {
    fs::read(self.path(file)).unwrap()
  }

  /// All files of the workspace.
  pub(crate) fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
    files_below(&self.path(""))
  }

  /// Files below a directory of this environment that contain `needle`.
  pub(crate) fn holding(&self, dir: &str, needle: &str) -> Vec<PathBuf> {
    let mut files = files_below(&self.seen().join(dir));
    files.retain(|_, bytes| marks::find(bytes, needle.as_bytes()).is_some());
    files.into_keys().collect()
  }
}

/// The id of a listed item.
#[track_caller]
pub(crate) fn id(item: &Value) -> &str {
  item["id"].as_str().unwrap()
}

/// All files below a directory, hidden ones too; those that vanish meanwhile are left out.
pub(crate) fn files_below(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
  let mut found = BTreeMap::new();
  let mut dirs = vec![dir.to_owned()];
  while let Some(next) = dirs.pop() {
    for entry in fs::read_dir(next).unwrap().map(Result::unwrap) {
      let kind = entry.file_type().unwrap();
      if kind.is_dir() {
        dirs.push(entry.path());
      } else if kind.is_file()
        && let Ok(bytes) = fs::read(entry.path())
      {
        found.insert(entry.path().strip_prefix(dir).unwrap().to_owned(), bytes);
      }
    }
  }
  found
}
