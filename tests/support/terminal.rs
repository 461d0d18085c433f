//! A terminal with a command on it: the output that a person would see, and the keys that a person
//! types.

use {
  super::{DEADLINE, Test, eventually, guarded::Guarded},
  rustix::{
    process::{Pid, Signal, kill_process},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{LocalModes, Termios, Winsize, tcgetattr, tcsetwinsize},
  },
  std::{
    ffi::OsString,
    fs::{File, OpenOptions},
    io::{Read as _, Write as _},
    os::unix::{ffi::OsStringExt as _, fs::OpenOptionsExt as _},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex},
    thread::JoinHandle,
    time::Instant,
  },
};

/// A pseudo-terminal, and the command that has it.
pub(crate) struct Terminal {
  child: Child,
  keyboard: File,
  /// The command's end of it, to look at its mode.
  end: Option<File>,
  reader: JoinHandle<()>,
  shown: Arc<Mutex<Vec<u8>>>,
  /// Up to where it was read.
  read: usize,
}

impl Terminal {
  /// Starts a command on a terminal of so many columns and rows; `None`, with a message, where
  /// there are no pseudo-terminals. Its standard input is the terminal, or nothing.
  pub(crate) fn start(
    mut command: Command,
    (columns, rows): (u16, u16),
    asks: bool,
  ) -> Option<Self> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let opened = openpt(flags).and_then(|master| {
      grantpt(&master)?;
      unlockpt(&master)?;
      let name = ptsname(&master, Vec::new())?;
      Ok((master, OsString::from_vec(name.into_bytes())))
    });
    let (master, name) = match opened {
      Ok(opened) => opened,
      Err(error) => {
        eprintln!("skipped: there are no pseudo-terminals here ({error})");
        return None;
      }
    };
    let mut options = OpenOptions::new();
    let end = options.read(true).write(true).custom_flags(libc::O_NOCTTY).open(name).unwrap();
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&end, size).unwrap();
    let stream = || Stdio::from(end.try_clone().unwrap());
    command.stdin(if asks { stream() } else { Stdio::null() }).stdout(stream()).stderr(stream());
    let child = command.spawn().unwrap();
    // It keeps its own copies of the end.
    drop(command);
    let keyboard = File::from(master);
    let mut screen = keyboard.try_clone().unwrap();
    let shown = Arc::<Mutex<Vec<u8>>>::default();
    let shared = Arc::clone(&shown);
    // It ends with an error once no process has the other end.
    let reader = std::thread::spawn(move || {
      let mut buffer = [0; 4096];
      while let Ok(n @ 1..) = screen.read(&mut buffer) {
        shared.lock().unwrap().extend_from_slice(&buffer[..n]);
      }
    });
    Some(Self { child, keyboard, end: Some(end), reader, shown, read: 0 })
  }

  /// Waits until this is shown, after the text of the last wait; returns everything up to it.
  #[track_caller]
  pub(crate) fn expect(&mut self, text: &str) -> String {
    let started = Instant::now();
    loop {
      let all = self.shown.lock().unwrap().clone();
      let fresh = &all[self.read..];
      let found = fresh.windows(text.len()).position(|window| window == text.as_bytes());
      if let Some(at) = found {
        let end = at + text.len();
        self.read += end;
        return String::from_utf8_lossy(&fresh[..end]).into_owned();
      }
      let late = started.elapsed() > DEADLINE;
      assert!(!late, "`{text}` was never shown behind:\n{}", String::from_utf8_lossy(fresh));
      super::pace(std::time::Duration::from_millis(2));
    }
  }

  /// Presses a key, once the command waits for one.
  #[track_caller]
  pub(crate) fn press(&mut self, key: &[u8]) {
    eventually("a key is waited for", || !self.is_for_lines());
    self.keyboard.write_all(key).unwrap();
  }

  /// Types a line, once the command waits for one.
  #[track_caller]
  pub(crate) fn enter(&mut self, line: &str) {
    eventually("a line is waited for", || self.is_for_lines());
    self.keyboard.write_all(line.as_bytes()).unwrap();
    self.keyboard.write_all(b"\n").unwrap();
  }

  /// Sends a signal, once the command waits for a key.
  #[track_caller]
  pub(crate) fn signal(&mut self, signal: Signal) {
    eventually("a key is waited for", || !self.is_for_lines());
    kill_process(Pid::from_child(&self.child), signal).unwrap();
  }

  /// Ends the input, as Ctrl-D does in an empty line, once the command waits for a line.
  #[track_caller]
  pub(crate) fn end_input(&mut self) {
    eventually("a line is waited for", || self.is_for_lines());
    self.keyboard.write_all(b"\x04").unwrap();
  }

  /// Interrupts the command, as Ctrl-C does while it waits for a line.
  #[track_caller]
  pub(crate) fn interrupt(&self) {
    kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
  }

  /// Changes the size of the terminal.
  pub(crate) fn resize(&self, columns: u16, rows: u16) {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(self.end.as_ref().unwrap(), size).unwrap();
  }

  /// The mode that the terminal is in.
  pub(crate) fn mode(&self) -> Termios {
    tcgetattr(self.end.as_ref().unwrap()).unwrap()
  }

  /// Whether the kernel edits lines and echoes typed characters, as usual.
  pub(crate) fn is_for_lines(&self) -> bool {
    self.mode().local_modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG)
  }

  /// Waits for the end of the command.
  #[track_caller]
  pub(crate) fn wait(&mut self) -> ExitStatus {
    let started = Instant::now();
    loop {
      if let Some(status) = self.child.try_wait().unwrap() {
        return status;
      }
      assert!(started.elapsed() < DEADLINE, "the command does not end");
      super::pace(std::time::Duration::from_millis(2));
    }
  }

  /// Waits for the end of the command; everything that it has shown.
  #[track_caller]
  pub(crate) fn all(mut self) -> Vec<u8> {
    self.wait();
    // That was the last copy: reading ends there.
    self.end = None;
    eventually("everything shown is read", || self.reader.is_finished());
    self.shown.lock().unwrap().clone()
  }
}

impl Drop for Terminal {
  fn drop(&mut self) {
    if matches!(self.child.try_wait(), Ok(None)) {
      self.child.kill().unwrap_or_default();
      drop(self.child.wait());
    }
  }
}

impl Test {
  /// The output of the command on a terminal of so many columns and rows, without input.
  #[track_caller]
  pub(crate) fn on_terminal(&self, columns: u16, rows: u16) -> Option<String> {
    let mut command = self.command();
    if !self.env.iter().any(|(name, _)| name == "TERM") {
      command.env("TERM", "xterm");
    }
    let bytes = Terminal::start(command, (columns, rows), false)?.all();
    Some(self.collapse(&bytes).replace("\r\n", "\n"))
  }
}

impl Test {
  /// A command that asks, on a terminal of so many columns.
  pub(crate) fn on_terminal_that_asks(&self, columns: u16) -> Option<Terminal> {
    Terminal::start(self.command(), (columns, 24), true)
  }
}

impl Guarded {
  /// A command that asks, on a terminal of its own.
  pub(crate) fn on_terminal(&self, term: &str, args: &[&str]) -> Option<Terminal> {
    let command = self.test().env("TERM", term).args(args).command();
    Terminal::start(command, (80, 24), true)
  }
}

/// What is left on the screen of lines that show progress, on a machine that is so slow that there are any: each erases
/// the line first.
pub(crate) fn without_progress(text: &str) -> String {
  let last = |line: &'_ str| line.rsplit("\x1b[K").next().unwrap_or_default().to_owned();
  text.split_inclusive('\n').map(last).collect()
}
