//! A drawing of columns, one per day, without words: text beside the drawing explains it.
#![forbid(unsafe_code)]

use super::html::Html;

/// Height of the drawing in its own units; the page stretches the drawing to its width.
const HEIGHT: f64 = 100.0;
/// The part of a day's width that its column fills.
const FILLED: f64 = 0.8;

/// One day.
pub(super) struct Column {
  /// The text that is shown when the pointer is on the column.
  pub(super) title: String,
  /// The parts of the column, lowest first: the name of a colour, and the height.
  pub(super) parts: Vec<(&'static str, u64)>,
}

impl Column {
  fn all(&self) -> u64 {
    self.parts.iter().map(|(_, n)| n).sum()
  }
}

/// Draws the columns; `label` describes the drawing for people who cannot see it.
pub(super) fn draw(html: &mut Html, label: &'static str, columns: &[Column]) {
  let most = columns.iter().map(Column::all).max().unwrap_or(0).max(1);
  html
    .markup("<svg role=\"img\" preserveAspectRatio=\"none\" viewBox=\"0 0 ")
    .number(columns.len().max(1) as u64)
    .markup(" 100\" aria-label=\"")
    .text(label)
    .markup("\">");
  for (index, column) in columns.iter().enumerate() {
    html.markup("<g>").tag("title", &column.title);
    let mut top = HEIGHT;
    for (colour, n) in column.parts.iter().filter(|(_, n)| *n > 0) {
      // A small part must be visible beside large ones.
      let height = (*n as f64 / most as f64 * HEIGHT).max(1.0).min(top);
      top -= height;
      html
        .markup("<rect class=\"")
        .markup(colour)
        .markup("\" x=\"")
        .place(index as f64 + (1.0 - FILLED) / 2.0)
        .markup("\" width=\"")
        .place(FILLED)
        .markup("\" y=\"")
        .place(top)
        .markup("\" height=\"")
        .place(height)
        .markup("\"/>");
    }
    html.markup("</g>");
  }
  html.markup("</svg>");
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn columns_are_on_each_other_and_never_leave_the_drawing() {
    let column =
      |parts: &[(&'static str, u64)]| Column { title: "<day>".into(), parts: parts.to_vec() };
    let mut html = Html::default();
    let columns =
      [column(&[("kept", 75), ("out", 25)]), column(&[("kept", 0), ("out", 1)]), column(&[])];
    draw(&mut html, "blocks", &columns);
    let svg = html.finish();
    assert!(svg.contains("viewBox=\"0 0 3 100\"") && svg.contains("&lt;day&gt;"), "{svg}");
    assert!(
      svg.contains("class=\"kept\" x=\"0.10\" width=\"0.80\" y=\"25.00\" height=\"75.00\""),
      "{svg}"
    );
    assert!(
      svg.contains("class=\"out\" x=\"0.10\" width=\"0.80\" y=\"0.00\" height=\"25.00\""),
      "{svg}"
    );
    assert!(
      svg.contains("class=\"out\" x=\"1.10\" width=\"0.80\" y=\"99.00\" height=\"1.00\""),
      "{svg}"
    );
    assert_eq!(svg.matches("<rect").count(), 3);
    let mut empty = Html::default();
    draw(&mut empty, "nothing", &[]);
    assert!(!empty.finish().contains("NaN"));
  }
}
