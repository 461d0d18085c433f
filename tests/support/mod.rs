//! Runs the real binary in an environment of its own.
//!
//! A test names the files, the command line and the expected output; both streams are compared
//! exactly, and must be empty where the test expects no text. In arguments, files and expectations
//! `[TMP]` is the directory of the test.

mod background;
mod guarded;
#[expect(dead_code, reason = "the unit tests use what these tests do not")]
mod harness;
pub(crate) mod http;
mod inside;
pub(crate) mod marks;
mod mounts;
mod sample;
mod terminal;
mod text;
mod writers;

pub(crate) use {
  background::{Background, eventually},
  guarded::{AT_ONCE, Guarded, NEVER, files_below, id},
  harness::{Ahead, Harness, ledger_in},
  inside::{Inside, Stage, settle},
  mounts::Mounts,
  sample::{Random, block, clean, eol, needle, pace, poison, trees},
  terminal::{Terminal, without_progress},
  writers::Writer,
};

use {
  std::{
    ffi::{OsStr, OsString},
    fs,
    io::Write as _,
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    rc::Rc,
    time::Duration,
  },
  tempfile::TempDir,
};

/// Longest time that a command may take; far more than any needs on a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_mins(1);

/// The configuration file below `[TMP]`.
pub(crate) const CONFIG: &str = "memfw/config/config.toml";

/// The program as it names itself: by its own path, links in it followed (`target` may be one).
pub(crate) fn program_path() -> String {
  let path = fs::canonicalize(env!("CARGO_BIN_EXE_memfw")).unwrap();
  path.into_os_string().into_string().unwrap()
}

/// One command line with its environment and its expected output.
#[must_use = "nothing happens before `run`"]
pub(crate) struct Test {
  temp: Rc<TempDir>,
  args: Vec<OsString>,
  env: Vec<(OsString, OsString)>,
  stdin: Vec<u8>,
  stdout: String,
  stderr: String,
  status: i32,
  files: Vec<(PathBuf, Vec<u8>)>,
  uid: Option<u32>,
  /// Words before the command.
  before: Vec<String>,
}

/// The environment after a command.
pub(crate) struct World {
  temp: Rc<TempDir>,
}

impl World {
  /// The next command in this environment.
  pub(crate) fn then(self) -> Test {
    Test::within(self.temp)
  }
}

/// The output of a command, with the directory of the test as `[TMP]`.
#[derive(Debug)]
pub(crate) struct Output {
  pub(crate) stdout: String,
  pub(crate) stderr: String,
  pub(crate) status: i32,
}

impl Test {
  /// An empty workspace, an empty home, no configuration.
  pub(crate) fn new() -> Self {
    Self::below(Path::new("/tmp"))
  }

  /// An empty workspace and home below another directory, as on another file system.
  fn below(dir: &Path) -> Self {
    // A path of constant length, so that tables are equal everywhere.
    let temp = tempfile::Builder::new().prefix("memfw-").tempdir_in(dir).unwrap();
    for dir in ["home", "workspace"] {
      fs::create_dir(temp.path().join(dir)).unwrap();
    }
    Self::within(Rc::new(temp))
  }

  fn within(temp: Rc<TempDir>) -> Self {
    Self {
      temp,
      args: Vec::new(),
      env: Vec::new(),
      stdin: Vec::new(),
      stdout: String::new(),
      stderr: String::new(),
      status: 0,
      files: Vec::new(),
      uid: None,
      before: Vec::new(),
    }
  }

  /// The next command in this environment.
  pub(crate) fn next(&self) -> Self {
    Self::within(Rc::clone(&self.temp))
  }

  /// The directory that `[TMP]` names.
  pub(crate) fn tmp(&self) -> &Path {
    self.temp.path()
  }

  /// A file of the workspace.
  pub(crate) fn memory(self, file: &str, text: impl AsRef<[u8]>) -> Self {
    let path = Path::new("workspace").join(file);
    self.write(path, text)
  }

  /// The configuration file.
  pub(crate) fn config(self, text: impl AsRef<[u8]>) -> Self {
    self.write(CONFIG, text)
  }

  /// Any file below `[TMP]`, with its directories.
  pub(crate) fn write(self, path: impl AsRef<Path>, text: impl AsRef<[u8]>) -> Self {
    let path = self.tmp().join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, self.expand(text.as_ref())).unwrap();
    self
  }

  /// More arguments.
  pub(crate) fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
    for arg in args {
      let arg = self.expand(arg.as_ref().as_bytes());
      self.args.push(OsString::from_vec(arg));
    }
    self
  }

  /// One more variable of the environment, which is otherwise empty.
  pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
    let value = self.expand(value.as_ref().as_bytes());
    self.env.push((name.into(), OsString::from_vec(value)));
    self
  }

  /// Runs as the user who runs the tests, whatever the environment's user is.
  #[cfg(linux)]
  pub(crate) fn by_root(mut self) -> Self {
    self.uid = None;
    self
  }

  /// A line for the shell in place of arguments; it finds memfw as any other program, in `PATH`.
  pub(crate) fn shell(mut self, line: &str) -> Self {
    self.before.extend(["sh", "-c", line].map(Into::into));
    self
  }

  /// The bytes of standard input.
  pub(crate) fn stdin(mut self, text: impl AsRef<[u8]>) -> Self {
    self.stdin = text.as_ref().to_vec();
    self
  }

  /// The expected standard output; one that begins with a line end is written indented.
  pub(crate) fn stdout(mut self, text: &str) -> Self {
    self.stdout = text::unindent(text);
    self
  }

  /// The expected standard error; one that begins with a line end is written indented.
  pub(crate) fn stderr(mut self, text: &str) -> Self {
    self.stderr = text::unindent(text);
    self
  }

  /// The expected exit status.
  pub(crate) fn status(mut self, status: i32) -> Self {
    self.status = status;
    self
  }

  /// The expected content of a file of the workspace afterwards.
  pub(crate) fn expect_file(mut self, file: &str, text: impl AsRef<[u8]>) -> Self {
    let path = self.tmp().join("workspace").join(file);
    self.files.push((path, self.expand(text.as_ref())));
    self
  }

  /// Runs the command and compares everything.
  #[track_caller]
  pub(crate) fn run(self) -> World {
    let output = self.output();
    text::compare("standard error", &self.stderr, &output.stderr);
    text::compare("standard output", &self.stdout, &output.stdout);
    assert_eq!(self.status, output.status, "exit status of {:?}", self.args);
    for (path, expected) in &self.files {
      let found = fs::read(path).unwrap();
      let shown = path.display().to_string();
      text::compare(&shown, &text::visible(expected), &text::visible(&found));
    }
    World { temp: self.temp }
  }

  /// Runs the command and gives its answer as JSON; only exit status and standard error are
  /// compared.
  #[track_caller]
  pub(crate) fn json(self) -> serde_json::Value {
    let output = self.output();
    text::compare("standard error", &self.stderr, &output.stderr);
    assert_eq!(self.status, output.status, "exit status of {:?}", self.args);
    serde_json::from_str(&output.stdout).expect(&output.stdout)
  }

  /// Runs the command without comparing its output.
  #[track_caller]
  pub(crate) fn output(&self) -> Output {
    let mut command = self.command();
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let stdin = self.stdin.clone();
    // In a thread, because the command may answer before it has read everything, or without
    // reading.
    let writer = std::thread::spawn(move || input.write_all(&stdin).is_ok());
    let mut background = Background::new(child);
    let status = background.wait();
    writer.join().unwrap();
    Output {
      stdout: self.collapse(&background.stdout()),
      stderr: self.collapse(&background.stderr()),
      status: status.code().expect("the command was killed by a signal"),
    }
  }

  /// Starts the command and leaves it running, as for `memfw run`; it is killed when dropped.
  pub(crate) fn start(&self) -> Background {
    let mut command = self.command();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Background::new(command.spawn().unwrap())
  }

  fn command(&self) -> Command {
    let mut words = self.before.clone();
    if let Some(uid) = self.uid.map(|uid| uid.to_string()) {
      words.extend(["setpriv", "--reuid", &uid, "--regid", &uid, "--clear-groups"].map(Into::into));
    }
    words.push(env!("CARGO_BIN_EXE_memfw").to_owned());
    let mut command = Command::new(&words[0]);
    command
      .args(&words[1..])
      .args(&self.args)
      .current_dir(self.tmp().join("workspace"))
      .env_clear()
      .env("HOME", self.tmp().join("home"))
      .env("MEMFW_HOME", self.tmp().join("memfw"))
      .envs(self.env.iter().map(|(name, value)| (name, value)));
    command
  }

  fn expand(&self, bytes: &[u8]) -> Vec<u8> {
    text::replace(bytes, b"[TMP]", self.tmp().as_os_str().as_bytes())
  }

  fn collapse(&self, bytes: &[u8]) -> String {
    let bytes = text::replace(bytes, self.tmp().as_os_str().as_bytes(), b"[TMP]");
    String::from_utf8(bytes).expect("the output is not UTF-8")
  }
}
