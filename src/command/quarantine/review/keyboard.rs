//! A person's input: single keys on a terminal, otherwise lines.
//!
//! The terminal is in raw mode only during the wait for a key, so whatever ends the process at another
//! time leaves the terminal in its usual mode. During the wait, a signal that would end the process ends
//! the wait instead, and the usual mode is restored in every case. The kernel edits lines, as usual.
//!
//! Invariant: a key that was pressed before the wait does not count, so a repeating key decides once.
#![forbid(unsafe_code)]

use std::{collections::VecDeque, future::pending, io, os::fd::BorrowedFd, time::Duration};

use rustix::termios::{
  LocalModes, OptionalActions, SpecialCodeIndex, Termios, isatty, tcgetattr, tcsetattr,
};
use tokio::{
  io::{Interest, unix::AsyncFd},
  runtime::Runtime,
  signal::unix::{Signal, SignalKind, signal},
};

use crate::terminal::escape::lossy;

/// Bytes of one read.
const CHUNK: usize = 1024;
/// The longest line in bytes; the rest of a longer line is dropped.
const MAX_LINE: usize = 4096;
/// The key Enter in raw mode, and an empty line.
pub const ENTER: char = '\r';
/// The bytes of Ctrl-C and Ctrl-D, which cause no signal in raw mode.
const INTERRUPTS: [u8; 2] = [3, 4];

/// Typed input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Typed {
  /// A key, and the text after it if keys come as lines. A key that is no single character is U+FFFD.
  Key(char, String),
  /// A line, without its end.
  Line(String),
  /// The end of the input, a key such as Ctrl-C, or a signal that would end the process.
  End,
}

/// The end of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
  /// There is input.
  Input,
  /// A signal would end the process.
  End,
  /// The terminal has another size, or may show something else after a stop.
  Redraw,
  /// Nothing happened in time.
  TimeOut,
}

/// Standard input.
pub struct Keyboard {
  keys: Option<Keys>,
  /// Bytes of lines that were read and not returned yet.
  read: VecDeque<u8>,
}

/// The state for reading single keys.
pub struct Keys {
  runtime: Runtime,
  ends: [Signal; 4],
  /// The process continues after a stop, in which another program may have changed the terminal's mode.
  goes_on: Signal,
  resized: Signal,
}

impl Keyboard {
  /// Reads single keys if they are wanted and standard input is a terminal.
  pub fn new(single_keys: bool) -> io::Result<Self> {
    let keys = if single_keys && isatty(io::stdin()) { Some(Keys::new()?) } else { None };
    Ok(Self { keys, read: VecDeque::new() })
  }

  /// Whether single keys are read.
  pub const fn has_keys(&self) -> bool {
    self.keys.is_some()
  }

  /// Waits for a key; without single keys, for a line, whose first character is the key.
  pub fn key(&mut self) -> io::Result<Typed> {
    if let Some(keys) = &mut self.keys {
      return keys.key();
    }
    loop {
      let Typed::Line(line) = self.line()? else { return Ok(Typed::End) };
      let mut letters = line.trim_start().chars();
      let Some(key) = letters.next() else { continue };
      return Ok(Typed::Key(key, letters.as_str().trim().to_owned()));
    }
  }

  /// Waits for a key like [`Keyboard::key`]; an empty line is the key Enter.
  pub fn key_or_enter(&mut self) -> io::Result<Typed> {
    if let Some(keys) = &mut self.keys {
      return keys.key();
    }
    let Typed::Line(line) = self.line()? else { return Ok(Typed::End) };
    let line = line.trim_start();
    let mut letters = line.chars();
    let key = letters.next().unwrap_or(ENTER);
    Ok(Typed::Key(key, letters.as_str().trim().to_owned()))
  }

  /// Whether a person types at a terminal.
  pub fn is_terminal(&self) -> bool {
    self.keys.is_some() || isatty(io::stdin())
  }

  /// Waits for a line.
  pub fn line(&mut self) -> io::Result<Typed> {
    loop {
      if let Some(end) = self.read.iter().position(|&byte| byte == b'\n') {
        let mut line: Vec<u8> = self.read.drain(..=end).collect();
        line.truncate(end);
        return Ok(Typed::Line(lossy(&line)));
      }
      let n_before = self.read.len();
      if let Some(keys) = &mut self.keys
        && !keys.wait(None)?
      {
        return Ok(Typed::End);
      }
      let bytes = read()?;
      if bytes.is_empty() {
        let rest: Vec<u8> = self.read.drain(..).collect();
        return Ok(if rest.is_empty() { Typed::End } else { Typed::Line(lossy(&rest)) });
      }
      let room = MAX_LINE.saturating_sub(n_before);
      let line_end = bytes.iter().position(|&byte| byte == b'\n').unwrap_or(bytes.len());
      let dropped = room.min(line_end)..line_end;
      let kept = bytes.iter().enumerate().filter(|(at, _)| !dropped.contains(at));
      self.read.extend(kept.map(|(_, byte)| *byte));
    }
  }
}

impl Keys {
  /// Prepares for keys of the terminal at standard input, and for signals.
  pub fn new() -> io::Result<Self> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let entered = runtime.enter();
    let ends = [
      signal(SignalKind::interrupt())?,
      signal(SignalKind::terminate())?,
      signal(SignalKind::hangup())?,
      signal(SignalKind::quit())?,
    ];
    let goes_on = signal(SignalKind::from_raw(libc::SIGCONT))?;
    let resized = signal(SignalKind::window_change())?;
    drop(entered);
    Ok(Self { runtime, ends, goes_on, resized })
  }

  fn key(&mut self) -> io::Result<Typed> {
    let raw = Raw::enter()?;
    if !self.wait(Some(&raw))? {
      return Ok(Typed::End);
    }
    let bytes = read()?;
    drop(raw);
    Ok(match bytes.first() {
      None => Typed::End,
      Some(byte) if INTERRUPTS.contains(byte) => Typed::End,
      // Arrow keys and pastes send several bytes at once, and are no keys of the review.
      Some(_) => Typed::Key(single(&bytes), String::new()),
    })
  }

  /// Waits for input; `false` if a signal ends the wait.
  fn wait(&mut self, raw: Option<&Raw>) -> io::Result<bool> {
    loop {
      match self.wait_for(raw, None)? {
        Waited::Input => return Ok(true),
        Waited::End => return Ok(false),
        Waited::Redraw | Waited::TimeOut => {}
      }
    }
  }

  /// Waits for input or a signal, and no longer than this.
  pub fn wait_for(&mut self, raw: Option<&Raw>, patience: Option<Duration>) -> io::Result<Waited> {
    let Self { runtime, ends: [interrupt, terminate, hangup, quit], goes_on, resized } = self;
    runtime.block_on(async {
      // The replacement is unsafe, for types whose descriptor may change; this type's cannot.
      #[expect(deprecated, reason = "the only form that safe code can call")]
      let input = AsyncFd::with_interest(stdin(), Interest::READABLE)?;
      let late = async {
        match patience {
          Some(patience) => tokio::time::sleep(patience).await,
          None => pending().await,
        }
      };
      tokio::select! {
        biased;
        _ = interrupt.recv() => Ok(Waited::End),
        _ = terminate.recv() => Ok(Waited::End),
        _ = hangup.recv() => Ok(Waited::End),
        _ = quit.recv() => Ok(Waited::End),
        _ = goes_on.recv() => {
          if let Some(raw) = raw {
            raw.again()?;
          }
          Ok(Waited::Redraw)
        }
        _ = resized.recv() => Ok(Waited::Redraw),
        ready = input.readable() => ready.map(|_| Waited::Input),
        () = late => Ok(Waited::TimeOut),
      }
    })
  }
}

/// The terminal without line editing, echo and signals by keys, until this value is dropped.
pub struct Raw {
  before: Termios,
  raw: Termios,
}

impl Raw {
  /// Enters raw mode, and drops what was typed before.
  pub fn enter() -> io::Result<Self> {
    let before = tcgetattr(stdin())?;
    let mut raw = before.clone();
    let line = LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG | LocalModes::IEXTEN;
    raw.local_modes.remove(line);
    raw.special_codes[SpecialCodeIndex::VMIN] = 1;
    raw.special_codes[SpecialCodeIndex::VTIME] = 0;
    tcsetattr(stdin(), OptionalActions::Flush, &raw)?;
    Ok(Self { before, raw })
  }

  fn again(&self) -> io::Result<()> {
    Ok(tcsetattr(stdin(), OptionalActions::Now, &self.raw)?)
  }
}

impl Drop for Raw {
  fn drop(&mut self) {
    // A terminal that is gone has no mode to restore.
    tcsetattr(stdin(), OptionalActions::Now, &self.before).ok();
  }
}

fn stdin() -> BorrowedFd<'static> {
  rustix::stdio::stdin()
}

/// The input that is there; nothing at its end.
pub fn read() -> io::Result<Vec<u8>> {
  let mut buffer = vec![0; CHUNK];
  loop {
    match rustix::io::read(stdin(), buffer.as_mut_slice()) {
      Ok(n) => {
        buffer.truncate(n);
        return Ok(buffer);
      }
      Err(rustix::io::Errno::INTR) => {}
      // The terminal was hung up.
      Err(rustix::io::Errno::IO) => return Ok(vec![]),
      Err(error) => return Err(error.into()),
    }
  }
}

/// The only character of the bytes; U+FFFD if there is none or more than one.
fn single(bytes: &[u8]) -> char {
  let mut letters = lossy(bytes).chars().collect::<Vec<_>>().into_iter();
  match (letters.next(), letters.next()) {
    (Some(key), None) => key,
    _ => char::REPLACEMENT_CHARACTER,
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn one_character_is_a_key_and_nothing_else_is() {
    assert_eq!(single(b"a"), 'a');
    assert_eq!(single("ä".as_bytes()), 'ä');
    for bytes in [b"\x1b[A".as_slice(), b"aa", b"\xff", b""] {
      assert_eq!(single(bytes), char::REPLACEMENT_CHARACTER, "{bytes:?}");
    }
  }
}
