//! Columns over days, as a drawing without words: what they mean stands beside it in text.
#![forbid(unsafe_code)]

use super::html::Html;

/// Units of the drawing; it is stretched to the width that there is.
const HEIGHT: f64 = 100.0;
/// How much of a day's place its column takes.
const FILLED: f64 = 0.8;

/// One day.
pub(super) struct Column {
  /// What is said about it when somebody points at it.
  pub(super) title: String,
  /// What stands one above the other, lowest first: the name of a colour, and how much of it.
  pub(super) parts: Vec<(&'static str, u64)>,
}

impl Column {
  fn all(&self) -> u64 {
    self.parts.iter().map(|(_, n)| n).sum()
  }
}

/// Draws the columns; `label` says for those who cannot see it what it shows.
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
      // Little is still to be seen beside much.
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
  fn columns_stand_on_each_other_and_never_leave_the_drawing() {
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
