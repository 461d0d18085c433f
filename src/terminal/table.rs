//! Tables for people, which fit the width of the terminal.
//!
//! Every cell is escaped on the way in. When a table is too wide, the columns that may shrink become
//! narrower, the widest first; ids, states and numbers are never cut.
#![forbid(unsafe_code)]

use {
  super::{
    escape::{Escape, terminal, width},
    failure::Failure,
    output::{Out, Style},
  },
  std::borrow::Cow,
  unicode_width::UnicodeWidthChar as _,
};

/// Escaped text in a style.
pub type Piece = (String, Style);

/// Columns between two columns.
const GAP: usize = 2;

/// What a column does when the table is too wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
  Never,
  /// Loses its end, down to this number of columns.
  End(usize),
  /// Loses its beginning, down to this number of columns.
  Start(usize),
}

/// One column: title, alignment, and how it shrinks.
#[derive(Clone, Debug)]
pub struct Column {
  title: &'static str,
  right: bool,
  cut: Cut,
  is_dispensable: bool,
}

impl Column {
  /// A column of text at the left that is never cut.
  pub const fn new(title: &'static str) -> Self {
    Self { title, right: false, cut: Cut::Never, is_dispensable: false }
  }

  /// Aligns at the right, for numbers.
  #[must_use]
  pub const fn right(self) -> Self {
    Self { right: true, ..self }
  }

  /// May lose its end, down to `min` columns; for prose.
  #[must_use]
  pub const fn cut_end(self, min: usize) -> Self {
    Self { cut: Cut::End(min), ..self }
  }

  /// May lose its beginning, down to `min` columns; for paths, whose ends differ.
  #[must_use]
  pub const fn cut_start(self, min: usize) -> Self {
    Self { cut: Cut::Start(min), ..self }
  }

  /// Is left out where the other columns would not fit beside it; for facts that another command shows as well.
  #[must_use]
  pub const fn dispensable(self) -> Self {
    Self { is_dispensable: true, ..self }
  }

  const fn min(&self) -> Option<usize> {
    match self.cut {
      Cut::Never => None,
      Cut::End(min) | Cut::Start(min) => Some(min),
    }
  }

  fn fit<'c>(&self, text: &'c str, columns: usize) -> Cow<'c, str> {
    if width(text) <= columns {
      return Cow::Borrowed(text);
    }
    Cow::Owned(match self.cut {
      // Escaped text is not escaped again, only cut.
      Cut::Never | Cut::End(_) => Escape::default().max_width(columns).apply(text),
      Cut::Start(_) => keep_end(text, columns),
    })
  }
}

/// One cell: escaped text and a style.
#[derive(Clone, Debug)]
pub struct Cell {
  text: String,
  style: Style,
}

impl Cell {
  /// A cell in a style; the text may be hostile.
  pub fn styled(text: impl AsRef<[u8]>, style: Style) -> Self {
    Self { text: terminal(text), style }
  }
}

impl<T: AsRef<[u8]>> From<T> for Cell {
  fn from(text: T) -> Self {
    Self::styled(text, Style::Plain)
  }
}

/// A table; rows are added, then it is written once.
#[derive(Clone, Debug)]
pub struct Table {
  columns: Vec<Column>,
  rows: Vec<Vec<Cell>>,
}

impl Table {
  /// A table without rows.
  pub fn new(columns: impl Into<Vec<Column>>) -> Self {
    Self { columns: columns.into(), rows: Vec::new() }
  }

  /// Adds a row; missing cells are empty and surplus ones are dropped.
  pub fn row<C: Into<Cell>>(&mut self, cells: impl IntoIterator<Item = C>) -> &mut Self {
    let mut row: Vec<Cell> = cells.into_iter().map(Into::into).take(self.columns.len()).collect();
    row.resize_with(self.columns.len(), || Cell::from(""));
    self.rows.push(row);
    self
  }

  /// Whether there are no rows.
  pub fn is_empty(&self) -> bool {
    self.rows.is_empty()
  }

  /// Writes titles and rows.
  pub fn write(&self, out: &Out) -> Result<(), Failure> {
    out.text(&self.render(out.table_columns(), out.colour()))
  }

  /// The table as text, in this number of columns where possible.
  pub fn render(&self, columns: usize, colour: bool) -> String {
    let mut text = String::new();
    for row in self.rows(columns) {
      text.extend(row.iter().map(|(piece, style)| style.paint(piece, colour)));
      text.push('\n');
    }
    text
  }

  /// Titles and rows as pieces of text with their styles, in this number of columns where possible.
  pub fn rows(&self, columns: usize) -> Vec<Vec<Piece>> {
    let last = self.columns.iter().rposition(|column| column.is_dispensable);
    if let Some(at) = last.filter(|_| self.least() > columns) {
      return self.without(at).rows(columns);
    }
    let widths = self.widths(columns);
    let titles: Vec<Cell> =
      self.columns.iter().map(|column| Cell::styled(column.title, Style::Bold)).collect();
    std::iter::once(&titles).chain(&self.rows).map(|row| self.pieces(row, &widths)).collect()
  }

  fn pieces(&self, row: &[Cell], widths: &[usize]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut pending = 0;
    for ((cell, column), &columns) in row.iter().zip(&self.columns).zip(widths) {
      let shown = column.fit(&cell.text, columns);
      let padding = columns.saturating_sub(width(&shown));
      let (before, after) = if column.right { (padding, 0) } else { (0, padding) };
      // Spaces are written only when something follows, so that no line ends with them.
      if shown.is_empty() {
        pending += padding + GAP;
      } else {
        if pending + before > 0 {
          pieces.push((" ".repeat(pending + before), Style::Plain));
        }
        pieces.push((shown.into_owned(), cell.style));
        pending = after + GAP;
      }
    }
    pieces
  }

  /// The table without one column.
  fn without(&self, at: usize) -> Self {
    fn others<T: Clone>(all: &[T], at: usize) -> Vec<T> {
      all.iter().enumerate().filter(|(index, _)| *index != at).map(|(_, one)| one.clone()).collect()
    }
    let rows = self.rows.iter().map(|row| others(row, at)).collect();
    Self { columns: others(&self.columns, at), rows }
  }

  /// The width of each column if nothing is cut.
  fn whole(&self) -> Vec<usize> {
    let whole = |(at, column): (usize, &Column)| {
      let cells = self.rows.iter().filter_map(|row| row.get(at)).map(|cell| width(&cell.text));
      cells.chain([width(column.title)]).max().unwrap_or(0)
    };
    self.columns.iter().enumerate().map(whole).collect()
  }

  /// The columns that the table needs when every column is as narrow as allowed.
  fn least(&self) -> usize {
    let least = |(whole, column): (usize, &Column)| {
      column.min().map_or(whole, |min| min.max(column.title.len()).min(whole))
    };
    let widths = self.whole().into_iter().zip(&self.columns).map(least);
    widths.sum::<usize>() + self.gaps()
  }

  /// Columns between the columns.
  const fn gaps(&self) -> usize {
    GAP * self.columns.len().saturating_sub(1)
  }

  /// The width of each column.
  fn widths(&self, columns: usize) -> Vec<usize> {
    let mut widths = self.whole();
    let mut surplus = (widths.iter().sum::<usize>() + self.gaps()).saturating_sub(columns);
    while surplus > 0 {
      let widest = widths
        .iter_mut()
        .zip(&self.columns)
        .filter_map(|(width, column)| {
          let min = column.min()?.max(column.title.len());
          (*width > min).then_some(width)
        })
        .max();
      // Every column is at its minimum: the terminal has to wrap.
      let Some(widest) = widest else { break };
      *widest -= 1;
      surplus -= 1;
    }
    widths
  }
}

/// The end of escaped text in this number of columns, with `…` before it.
fn keep_end(text: &str, columns: usize) -> String {
  let mut room = columns.saturating_sub(1);
  let mut end: Vec<char> = Vec::new();
  for c in text.chars().rev() {
    let columns = c.width().unwrap_or(0);
    if columns > room {
      break;
    }
    room -= columns;
    end.push(c);
  }
  // A combining mark without its letter would be painted on the cut sign.
  while end.last().is_some_and(|c| c.width() == Some(0)) {
    end.pop();
  }
  std::iter::once('…').chain(end.into_iter().rev()).collect()
}

#[cfg(test)]
mod tests {
  use {super::*, proptest::prelude::*};

  fn table() -> Table {
    Table::new([
      Column::new("ID"),
      Column::new("FILE").cut_start(10),
      Column::new("LINE").right(),
      Column::new("WHY").cut_end(6),
    ])
  }

  #[test]
  fn what_another_command_tells_is_left_out_where_there_is_no_room() {
    let mut table = Table::new([
      Column::new("ID"),
      Column::new("TRUST").dispensable(),
      Column::new("KNOWN").dispensable().cut_end(6),
      Column::new("FILE").cut_start(6),
    ]);
    table.row(["a1b2c3", "untrusted", "self-reported", "/w/MEMORY.md"]);
    let lines = |columns| table.render(columns, false).lines().nth(1).unwrap().to_owned();
    assert_eq!(lines(80), "a1b2c3  untrusted  self-reported  /w/MEMORY.md");
    assert_eq!(lines(33), "a1b2c3  untrusted  self-…  …RY.md");
    assert_eq!(lines(32), "a1b2c3  untrusted  /w/MEMORY.md");
    assert_eq!(lines(24), "a1b2c3  /w/MEMORY.md");
  }

  #[test]
  fn columns_are_aligned_and_lines_end_clean() {
    let mut table = table();
    table.row(["a1b2c3", "/w/MEMORY.md", "7", "exfiltration-endpoint"]);
    table.row(["d4e5f6", "/w/日.md", "123", ""]);
    assert_eq!(
      table.render(80, false),
      "ID      FILE          LINE  WHY\n\
       a1b2c3  /w/MEMORY.md     7  exfiltration-endpoint\n\
       d4e5f6  /w/日.md       123\n"
    );
  }

  #[test]
  fn the_widest_gives_way_and_ids_never_do() {
    let mut table = table();
    table.row(["a1b2c3", "/home/ann/.agent/workspace/memory/2026-11-21.md", "7", "instruction"]);
    assert_eq!(
      table.render(50, false),
      "ID      FILE                     LINE  WHY\n\
       a1b2c3  …e/memory/2026-11-21.md     7  instruction\n"
    );
    let narrow = table.render(10, false);
    assert!(narrow.contains("a1b2c3  …-11-21.md"), "{narrow}");
    assert!(narrow.ends_with("instr…\n"), "{narrow}");
  }

  #[test]
  fn hostile_cells_stay_in_their_row() {
    let mut table = table();
    table.row(["a\nb", "\x1b[2J", "\u{202e}", "x"]);
    let text = table.render(80, true);
    assert_eq!(text.lines().count(), 2);
    assert!(text.contains("a\\nb") && text.contains("\\u{1b}[2J") && text.contains("\\u{202e}"));
  }

  #[test]
  fn styles_take_no_room() {
    let mut table = Table::new([Column::new("A"), Column::new("B")]);
    table.row([Cell::styled("x", Style::Red), Cell::from("y")]);
    assert_eq!(table.render(80, true), "\x1b[1mA\x1b[0m  \x1b[1mB\x1b[0m\n\x1b[31mx\x1b[0m  y\n");
  }

  proptest! {
    #[test]
    fn any_cells_fit(cells in proptest::collection::vec(any::<String>(), 0..4), columns in 40_usize..120) {
      let mut table = Table::new([
        Column::new("A").cut_end(4),
        Column::new("B").cut_start(4),
        Column::new("C").right().cut_end(4),
      ]);
      table.row(&cells);
      let text = table.render(columns, false);
      prop_assert_eq!(text.lines().count(), 2);
      for line in text.lines() {
        prop_assert!(width(line) <= columns);
      }
    }
  }
}
