//! Standard output: all answers of commands are written here.
//!
//! Text from memory, file names or the ledger goes through [`super::escape`] before it
//! comes here; tables escape their cells themselves. Errors of writing are returned to the command, which
//! ends; a reader that closes the output is no error.
#![forbid(unsafe_code)]

use {
  super::{
    failure::{Failure, of_output},
    pager::Pager,
  },
  rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    termios::{isatty, tcgetwinsize},
  },
  serde::Serialize,
  std::{
    cell::RefCell,
    io::{self, BufWriter, Write},
  },
};

/// The columns where the terminal reports no width.
pub const DEFAULT_COLUMNS: usize = 80;

/// The bytes that one write puts into a pipe atomically (`PIPE_BUF` of Linux; POSIX has at least 512).
const WHOLE: usize = 4096;

/// A colour or weight, only for text that is already escaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
  /// Unchanged.
  Plain,
  /// Headings.
  Bold,
  /// Less important text.
  Dim,
  /// Poison and failures.
  Red,
  /// Clean text and success.
  Green,
  /// Items that wait for a person.
  Yellow,
  /// Names to type.
  Cyan,
}

impl Style {
  const fn code(self) -> &'static str {
    match self {
      Self::Plain => "",
      Self::Bold => "1",
      Self::Dim => "2",
      Self::Red => "31",
      Self::Green => "32",
      Self::Yellow => "33",
      Self::Cyan => "36",
    }
  }

  /// `text` in this style when `colour` is wanted, else unchanged.
  pub fn paint(self, text: &str, colour: bool) -> String {
    if colour && self != Self::Plain && !text.is_empty() {
      format!("\x1b[{}m{text}\x1b[0m", self.code())
    } else {
      text.to_owned()
    }
  }
}

/// When colours are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colours {
  /// Colours are never used.
  Never,
  /// Colours are used on a terminal only.
  OnTerminals,
  /// Also in files and pipes.
  Always,
}

impl Colours {
  /// Whether colours are used on a terminal, or elsewhere.
  pub const fn on(self, terminal: bool) -> bool {
    match self {
      Self::Never => false,
      Self::OnTerminals => terminal,
      Self::Always => true,
    }
  }
}

pub use crate::plural::count;

/// The output of a command.
pub struct Out {
  writer: RefCell<BufWriter<Box<dyn Write>>>,
  terminal: bool,
  colour: bool,
  columns: usize,
  rows: usize,
  quiet: bool,
  pager: Option<Pager>,
  /// The text for the pager, since [`Out::page`].
  held: RefCell<Option<Vec<u8>>>,
}

impl Out {
  /// Standard output of this process, as wide as the terminal, else [`DEFAULT_COLUMNS`]; on a terminal, long
  /// lists go through the pager, if there is one.
  pub fn stdout(colours: Colours, pager: impl FnOnce() -> Option<Pager>) -> Self {
    let stdout = io::stdout();
    let terminal = isatty(&stdout);
    let size = tcgetwinsize(&stdout).ok().filter(|_| terminal);
    let known = |n: u16| Some(usize::from(n)).filter(|&n| n > 0);
    let columns = size.and_then(|size| known(size.ws_col)).unwrap_or(DEFAULT_COLUMNS);
    let rows = size.and_then(|size| known(size.ws_row)).unwrap_or(usize::MAX);
    let writer: Box<dyn Write> = Box::new(stdout);
    let writer = RefCell::new(BufWriter::new(writer));
    let (colour, held) = (colours.on(terminal), RefCell::new(None));
    let pager = terminal.then(pager).flatten();
    Self { writer, terminal, colour, columns, rows, quiet: false, pager, held }
  }

  /// Any other output, which is no terminal, with or without colours, `columns` wide.
  pub fn to(writer: Box<dyn Write>, colour: bool, columns: usize) -> Self {
    let writer = RefCell::new(BufWriter::new(writer));
    let (rows, held) = (usize::MAX, RefCell::new(None));
    Self { writer, terminal: false, colour, columns, rows, quiet: false, pager: None, held }
  }

  /// Leaves remarks out.
  #[must_use]
  pub fn quiet(self, quiet: bool) -> Self {
    Self { quiet, ..self }
  }

  /// Whether remarks are left out.
  pub const fn is_quiet(&self) -> bool {
    self.quiet
  }

  /// Writes a remark and a line end: what was done, or what to do next. It is no answer, so `--quiet` leaves it
  /// out.
  pub fn note(&self, text: &str) -> Result<(), Failure> {
    if self.quiet { Ok(()) } else { self.line(text) }
  }

  /// Whether the output is a terminal, which raw bytes could reach.
  pub const fn is_terminal(&self) -> bool {
    self.terminal
  }

  /// Whether colours are used.
  pub const fn colour(&self) -> bool {
    self.colour
  }

  /// The number of columns.
  pub const fn columns(&self) -> usize {
    self.columns
  }

  /// The number of columns for a table. In a pipe or a file nothing is cut, because people search and copy ids
  /// and paths there.
  pub const fn table_columns(&self) -> usize {
    if self.terminal { self.columns } else { usize::MAX }
  }

  /// `text` in a style, or unchanged where colours are off.
  pub fn paint(&self, style: Style, text: &str) -> String {
    style.paint(text, self.colour)
  }

  /// Marks the following output as a list: if it is longer than the terminal, it goes through the pager when
  /// it is complete.
  pub fn page(&self) {
    if self.pager.is_some() {
      self.held.borrow_mut().get_or_insert_default();
    }
  }

  /// Writes text unchanged.
  pub fn text(&self, text: &str) -> Result<(), Failure> {
    self.bytes(text.as_bytes())
  }

  /// Writes text and a line end.
  pub fn line(&self, text: &str) -> Result<(), Failure> {
    self.bytes(text.as_bytes())?;
    self.bytes(b"\n")
  }

  /// Writes bytes unchanged; never memory text to a terminal.
  pub fn bytes(&self, bytes: &[u8]) -> Result<(), Failure> {
    if let Some(held) = self.held.borrow_mut().as_mut() {
      held.extend_from_slice(bytes);
      return Ok(());
    }
    self.writer.borrow_mut().write_all(bytes).map_err(|error| of_output(&error))
  }

  /// Writes a value as indented JSON and a line end.
  ///
  /// JSON escapes C0 controls only, so on a terminal the other controls are escaped as well; a program
  /// reads an equal value.
  pub fn json(&self, value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(|error| json_failure(&error))?;
    self.line(&ascii_escapes(&text))
  }

  /// Writes a value as JSON on one line and flushes it: a reader may wait for each line.
  pub fn json_line(&self, value: &impl Serialize) -> Result<(), Failure> {
    self.line(&one_line(value)?)?;
    self.flush()
  }

  /// Writes whole lines and flushes them in parts: interrupted output ends with a complete line.
  pub fn lines(&self, lines: &[String]) -> Result<(), Failure> {
    let mut pending = 0;
    for line in lines {
      if pending > 0 && pending + line.len() + 1 > WHOLE {
        self.flush()?;
        pending = 0;
      }
      self.line(line)?;
      pending += line.len() + 1;
    }
    self.flush()
  }

  /// Whether the reader of standard output has closed it.
  pub fn is_deserted(&self) -> bool {
    let stdout = io::stdout();
    let mut ends = [PollFd::new(&stdout, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut ends, Some(&now)).is_ok()
      && ends.iter().any(|end| end.revents().intersects(PollFlags::ERR | PollFlags::HUP))
  }

  /// Flushes what was written.
  pub fn flush(&self) -> Result<(), Failure> {
    if let Some(held) = self.held.take() {
      let lines = held.split(|&byte| byte == b'\n').skip(1).count();
      // One row is for the prompt that follows.
      let is_long = lines >= self.rows;
      if is_long && self.pager.as_ref().is_some_and(|pager| pager.show(&held)) {
        return Ok(());
      }
      self.writer.borrow_mut().write_all(&held).map_err(|error| of_output(&error))?;
    }
    self.writer.borrow_mut().flush().map_err(|error| of_output(&error))
  }
}

/// A value as JSON on one line, as [`Out::json_line`] writes it.
pub fn one_line(value: &impl Serialize) -> Result<String, Failure> {
  let text = serde_json::to_string(value).map_err(|error| json_failure(&error))?;
  Ok(ascii_escapes(&text))
}

fn json_failure(error: &serde_json::Error) -> Failure {
  Failure::internal(format!("cannot write JSON: {error}"))
}

/// JSON text with the characters that [`super::escape`] would make visible as `\u` escapes.
///
/// These characters occur only inside strings, where the escape means the character itself.
fn ascii_escapes(json: &str) -> String {
  let mut text = String::with_capacity(json.len());
  for c in json.chars() {
    if c == '\n' || c.is_ascii_graphic() || c == ' ' || !super::escape::is_hidden(c) {
      text.push(c);
    } else {
      let mut units = [0; 2];
      for unit in c.encode_utf16(&mut units) {
        text.push_str(&format_unit(*unit));
      }
    }
  }
  text
}

fn format_unit(unit: u16) -> String {
  format!("\\u{unit:04x}")
}

#[cfg(test)]
mod tests {
  use {
    super::*,
    proptest::prelude::*,
    std::{cell::RefCell, rc::Rc},
  };

  #[derive(Clone, Default)]
  struct Memory(Rc<RefCell<Vec<u8>>>);

  impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
      self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
      Ok(())
    }
  }

  fn written(write: impl FnOnce(&Out)) -> String {
    let memory = Memory::default();
    let out = Out::to(Box::new(memory.clone()), false, 80);
    write(&out);
    out.flush().unwrap();
    String::from_utf8(memory.0.borrow().clone()).unwrap()
  }

  #[test]
  fn colours_only_where_wanted() {
    assert_eq!(Style::Red.paint("x", true), "\x1b[31mx\x1b[0m");
    assert_eq!(Style::Red.paint("x", false), "x");
    assert_eq!(Style::Plain.paint("x", true), "x");
  }

  #[test]
  fn remarks_are_left_out_on_request() {
    let memory = Memory::default();
    let out = Out::to(Box::new(memory.clone()), false, 80).quiet(true);
    out.note("it is done").unwrap();
    out.line("the answer").unwrap();
    out.flush().unwrap();
    assert_eq!(memory.0.borrow().as_slice(), b"the answer\n");
    assert_eq!(written(|out| out.note("it is done").unwrap()), "it is done\n");
  }

  #[test]
  fn json_is_safe_on_a_terminal_and_means_the_same() {
    let text = written(|out| out.json_line(&"a\u{9b}\u{202e}\u{e0041}é").unwrap());
    assert_eq!(text, "\"a\\u009b\\u202e\\udb40\\udc41é\"\n");
    assert_eq!(serde_json::from_str::<String>(&text).unwrap(), "a\u{9b}\u{202e}\u{e0041}é");
  }

  #[test]
  fn a_reader_that_went_away_is_distinguished() {
    struct Closed;
    impl Write for Closed {
      fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
      }

      fn flush(&mut self) -> io::Result<()> {
        Ok(())
      }
    }
    let out = Out::to(Box::new(Closed), false, 80);
    out.line("x").unwrap();
    assert_eq!(out.flush().unwrap_err().kind, crate::terminal::failure::FailureKind::BrokenPipe);
  }

  proptest! {
    #[test]
    fn json_round_trips(text in any::<String>()) {
      let json = written(|out| out.json(&[&text]).unwrap());
      prop_assert!(!json.chars().any(|c| c.is_control() && c != '\n'));
      prop_assert_eq!(serde_json::from_str::<Vec<String>>(&json).unwrap(), vec![text]);
    }
  }
}
