//! Rows on a terminal: ratatui keeps the two last screens and finds what differs, and this backend turns that into
//! control sequences.
//!
//! A backend of memfw's own, because the command line already reads keys and signals (`review::keyboard`) and writes
//! through one `Out`; the backends that ratatui offers would bring a second reader of the terminal.
//!
//! Invariant: the only control characters are those of the sequences here. ratatui drops control characters of a text,
//! and the rows are escaped already.
#![forbid(unsafe_code)]

use std::{convert::Infallible, fmt::Write as _};

use ratatui_core::{
  backend::{Backend, ClearType, WindowSize},
  buffer::Cell,
  layout::{Position, Size},
  style::{Color, Modifier, Style as CellStyle},
  terminal::Frame,
};
use rustix::termios::tcgetwinsize;

use super::layout::{Room, Row};
use crate::terminal::output::{DEFAULT_COLUMNS, Style};

/// The rows where the terminal reports no height.
const DEFAULT_ROWS: usize = 24;

/// Draws rows, in colour or not.
pub(super) fn draw(frame: &mut Frame<'_>, rows: &[Row], colour: bool) {
  let area = frame.area();
  let buffer = frame.buffer_mut();
  for (row, y) in rows.iter().zip(area.top()..area.bottom()) {
    let mut x = area.left();
    for (text, style) in row {
      let left = usize::from(area.right().saturating_sub(x));
      let style = if colour { cell_style(*style) } else { CellStyle::new() };
      (x, _) = buffer.set_stringn(x, y, text, left, style);
    }
  }
}

fn cell_style(style: Style) -> CellStyle {
  let plain = CellStyle::new();
  match style {
    Style::Plain => plain,
    Style::Bold => plain.add_modifier(Modifier::BOLD),
    Style::Dim => plain.add_modifier(Modifier::DIM),
    Style::Red => plain.fg(Color::Red),
    Style::Green => plain.fg(Color::Green),
    Style::Yellow => plain.fg(Color::Yellow),
    Style::Cyan => plain.fg(Color::Cyan),
  }
}

/// The style of a cell; the inverse of [`cell_style`].
fn style_of(cell: &Cell) -> Style {
  match cell.fg {
    Color::Red => Style::Red,
    Color::Green => Style::Green,
    Color::Yellow => Style::Yellow,
    Color::Cyan => Style::Cyan,
    _ if cell.modifier.contains(Modifier::BOLD) => Style::Bold,
    _ if cell.modifier.contains(Modifier::DIM) => Style::Dim,
    _ => Style::Plain,
  }
}

/// The size of the terminal at standard output.
pub(super) fn room() -> Room {
  let size = tcgetwinsize(std::io::stdout()).ok();
  let known =
    |n: Option<u16>, otherwise| n.map(usize::from).filter(|n| *n > 0).unwrap_or(otherwise);
  Room {
    columns: known(size.map(|size| size.ws_col), DEFAULT_COLUMNS),
    rows: known(size.map(|size| size.ws_row), DEFAULT_ROWS),
  }
}

/// The control sequences and the text that are still to be written.
#[derive(Debug, Default)]
pub(super) struct Sequences {
  text: String,
}

impl Sequences {
  /// Everything since the last call.
  pub(super) fn take(&mut self) -> String {
    std::mem::take(&mut self.text)
  }

  fn move_to(&mut self, x: u16, y: u16) {
    // Writing to a string cannot fail.
    write!(self.text, "\x1b[{};{}H", y.saturating_add(1), x.saturating_add(1)).ok();
  }

  fn end(&mut self, run: Option<Run>) {
    if let Some(Run { style, text, .. }) = run {
      self.text.push_str(&style.paint(&text, true));
    }
  }
}

/// Neighbouring cells in one style, which are written at once.
struct Run {
  /// The place after the last cell.
  next: (u16, u16),
  style: Style,
  text: String,
}

impl Backend for Sequences {
  type Error = Infallible;

  fn draw<'a, I>(&mut self, content: I) -> Result<(), Infallible>
  where
    I: Iterator<Item = (u16, u16, &'a Cell)>,
  {
    let mut run: Option<Run> = None;
    for (x, y, cell) in content {
      let (style, next) = (style_of(cell), (x.saturating_add(1), y));
      match &mut run {
        Some(run) if run.next == (x, y) && run.style == style => {
          run.text.push_str(cell.symbol());
          run.next = next;
        }
        _ => {
          self.end(run.take());
          // After a wide character, the next cell is not its neighbour, and begins another run.
          self.move_to(x, y);
          run = Some(Run { next, style, text: cell.symbol().to_owned() });
        }
      }
    }
    self.end(run);
    Ok(())
  }

  fn hide_cursor(&mut self) -> Result<(), Infallible> {
    self.text.push_str("\x1b[?25l");
    Ok(())
  }

  fn show_cursor(&mut self) -> Result<(), Infallible> {
    self.text.push_str("\x1b[?25h");
    Ok(())
  }

  fn get_cursor_position(&mut self) -> Result<Position, Infallible> {
    // Only asked for a screen below the cursor, which this one is not.
    Ok(Position::ORIGIN)
  }

  fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> Result<(), Infallible> {
    let Position { x, y } = position.into();
    self.move_to(x, y);
    Ok(())
  }

  fn clear(&mut self) -> Result<(), Infallible> {
    self.text.push_str("\x1b[2J");
    Ok(())
  }

  fn clear_region(&mut self, _: ClearType) -> Result<(), Infallible> {
    self.clear()
  }

  fn size(&self) -> Result<Size, Infallible> {
    let Room { columns, rows } = room();
    let number = |n: usize| u16::try_from(n).unwrap_or(u16::MAX);
    Ok(Size::new(number(columns), number(rows)))
  }

  fn window_size(&mut self) -> Result<WindowSize, Infallible> {
    Ok(WindowSize { columns_rows: self.size()?, pixels: Size::ZERO })
  }

  fn flush(&mut self) -> Result<(), Infallible> {
    Ok(())
  }
}

#[cfg(test)]
mod tests {
  use ratatui_core::terminal::Terminal;

  use super::*;

  fn row(text: &str, style: Style) -> Row {
    vec![(text.to_owned(), style)]
  }

  /// The bytes that show these rows after those.
  fn written(before: &[Row], rows: &[Row], colour: bool) -> String {
    let mut terminal = Terminal::new(Sequences::default()).unwrap();
    terminal.draw(|frame| draw(frame, before, colour)).unwrap();
    terminal.backend_mut().take();
    terminal.draw(|frame| draw(frame, rows, colour)).unwrap();
    terminal.backend_mut().take().replace("\x1b[?25l", "")
  }

  #[test]
  fn only_what_differs_is_written() {
    let rows = [row("one", Style::Plain), row("two", Style::Red)];
    assert_eq!(written(&[], &rows, true), "\x1b[1;1Hone\x1b[2;1H\x1b[31mtwo\x1b[0m");
    assert_eq!(written(&[], &rows, false), "\x1b[1;1Hone\x1b[2;1Htwo");
    assert_eq!(written(&rows, &rows, true), "");
    assert_eq!(written(&rows, &[row("ore", Style::Plain), rows[1].clone()], true), "\x1b[1;2Hr");
    assert_eq!(written(&rows, &rows[..1], true), "\x1b[2;1H   ");
  }

  #[test]
  fn a_wide_character_moves_the_cursor() {
    assert_eq!(written(&[], &[row("a日b", Style::Plain)], true), "\x1b[1;1Ha日\x1b[1;4Hb");
  }

  #[test]
  fn control_characters_of_a_text_never_arrive() {
    let shown = written(&[], &[row("a\x1b[2J\x07\u{9b}b\nc", Style::Plain)], true);
    assert_eq!(shown.matches('\x1b').count(), 1, "{shown:?}");
    assert!(!shown.contains(['\x07', '\u{9b}', '\n']), "{shown:?}");
  }

  #[test]
  fn every_style_is_one_of_the_output() {
    use Style::{Bold, Cyan, Dim, Green, Plain, Red, Yellow};
    for style in [Plain, Bold, Dim, Red, Green, Yellow, Cyan] {
      let mut cell = Cell::default();
      cell.set_style(cell_style(style));
      assert_eq!(style_of(&cell), style);
    }
  }
}
