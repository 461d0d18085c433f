//! A command on a terminal: what a person would see.

use {
  super::{DEADLINE, Test},
  rustix::{
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
  },
  std::{
    ffi::OsString,
    fs::{File, OpenOptions},
    io::Read as _,
    os::unix::ffi::OsStringExt as _,
    process::Stdio,
    sync::mpsc,
    thread,
  },
};

impl Test {
  /// What the command shows on a terminal of so many columns and rows; `None`, with a line that says
  /// so, where no terminal can be had.
  #[track_caller]
  pub(crate) fn on_terminal(&self, columns: u16, rows: u16) -> Option<String> {
    let Some((master, slave)) = pair(columns, rows) else {
      println!("skipped: no terminal can be made here");
      return None;
    };
    let mut command = self.command();
    let stream = || Stdio::from(slave.try_clone().unwrap());
    command.env("TERM", "xterm").stdin(Stdio::null()).stdout(stream()).stderr(stream());
    for (name, value) in &self.env {
      command.env(name, value);
    }
    let mut child = command.spawn().unwrap();
    // Only the child has it now: its end is the end of what can be read.
    drop((command, slave));
    let (sender, seen) = mpsc::channel();
    let reader = thread::spawn(move || sender.send(read(master)));
    let Ok(bytes) = seen.recv_timeout(DEADLINE) else {
      child.kill().unwrap();
      panic!("the command did not end in time");
    };
    assert!(reader.join().unwrap().is_ok());
    child.wait().unwrap();
    Some(self.collapse(&bytes).replace("\r\n", "\n"))
  }
}

/// Both ends of a terminal.
fn pair(columns: u16, rows: u16) -> Option<(File, File)> {
  let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).ok()?;
  grantpt(&master).ok()?;
  unlockpt(&master).ok()?;
  let name = OsString::from_vec(ptsname(&master, Vec::new()).ok()?.into_bytes());
  let slave = OpenOptions::new().read(true).write(true).open(name).ok()?;
  let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
  tcsetwinsize(&slave, size).ok()?;
  Some((File::from(master), slave))
}

/// Everything until the other end is closed, which a terminal tells by an error.
fn read(mut master: File) -> Vec<u8> {
  let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
  while let Ok(n @ 1..) = master.read(&mut piece) {
    bytes.extend_from_slice(&piece[..n]);
  }
  bytes
}
