//! A report as one drawing: the curves of the scores, and their calibration.
//!
//! The drawing is self-contained: no script, no style sheet, no font, no link. Everything in it
//! comes from numbers and memfw's words, except the names of inputs, which are escaped.
#![forbid(unsafe_code)]

use std::fmt::Write as _;

use super::{
  curve::{DECADES, on_log_axis},
  report::{Report, ScoreCurve},
};
use crate::plural::count;

/// Side of a plot, in units of the drawing.
const SIDE: f64 = 320.0;
/// Left edges of the two plots.
const LEFT: [f64; 2] = [70.0, 490.0];
/// Their upper edge.
const TOP: f64 = 70.0;
/// Colours of the curves: also distinguishable with red or green blindness (Okabe and Ito, 2008).
const COLOURS: [&str; 2] = ["#0072b2", "#d55e00"];
/// Longest name of an input that is drawn, in characters.
const MAX_INPUT: usize = 60;

/// The drawing.
pub fn draw(report: &Report) -> String {
  let mut out = String::new();
  write_all(&mut out, report).ok();
  out
}

fn write_all(out: &mut String, report: &Report) -> std::fmt::Result {
  writeln!(
    out,
    "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 860 470\" width=\"860\" height=\"470\" \
     font-family=\"sans-serif\" font-size=\"12\" fill=\"#222\">"
  )?;
  let inputs = report.setup.inputs.join(" ");
  let shown: String = inputs.chars().take(MAX_INPUT).collect();
  let cut = if shown.len() < inputs.len() { "…" } else { "" };
  let title = format!(
    "memfw eval: {}, {} benign, layers {}: {shown}{cut}",
    count(report.cases.attacks, "attack"),
    report.cases.benign,
    report.setup.layers
  );
  writeln!(out, "<title>{}</title>", escaped(&title))?;
  writeln!(out, "<rect width=\"860\" height=\"470\" fill=\"#fff\"/>")?;
  writeln!(out, "<text x=\"70\" y=\"28\" font-size=\"14\">{}</text>", escaped(&title))?;
  frame(out, LEFT[0], "Receiver operating characteristic", "false positives", "recall")?;
  let first = 10.0_f64.powf(-DECADES);
  for decade in 0..=(DECADES as i32) {
    let rate = first * 10.0_f64.powi(decade);
    let percent = rate * 100.0;
    let x = LEFT[0] + on_log_axis(rate) * SIDE;
    tick_below(out, x, &format!("{} %", short(percent)))?;
  }
  frame(out, LEFT[1], "Calibration", "score", "attacks")?;
  for part in 0..=5 {
    let share = f64::from(part) / 5.0;
    tick_below(out, LEFT[1] + share * SIDE, &short(share))?;
    for left in LEFT {
      let y = TOP + (1.0 - share) * SIDE;
      writeln!(
        out,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
        left - 6.0,
        y + 4.0,
        short(share)
      )?;
    }
  }
  // A calibrated score is on the diagonal.
  writeln!(
    out,
    "<path d=\"M{:.1} {:.1}L{:.1} {TOP:.1}\" stroke=\"#999\" stroke-dasharray=\"4 4\"/>",
    LEFT[1],
    TOP + SIDE,
    LEFT[1] + SIDE
  )?;
  for (index, (curve, colour)) in report.curves.iter().zip(COLOURS).enumerate() {
    characteristic(out, curve, colour)?;
    calibration(out, curve, colour)?;
    legend(out, curve, colour, index)?;
  }
  if let (Some(recall), Some(alarms)) =
    (report.all.recall.rate(), report.all.false_positives.rate())
  {
    writeln!(
      out,
      "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\" fill=\"none\" stroke=\"#000\" stroke-width=\"1.5\">\
       <title>as decided</title></circle>",
      LEFT[0] + on_log_axis(alarms) * SIDE,
      TOP + (1.0 - recall) * SIDE
    )?;
  }
  writeln!(out, "</svg>")
}

fn frame(out: &mut String, left: f64, title: &str, x: &str, y: &str) -> std::fmt::Result {
  let middle = left + SIDE / 2.0;
  let height = TOP + SIDE / 2.0;
  writeln!(
    out,
    "<rect x=\"{left:.1}\" y=\"{TOP:.1}\" width=\"{SIDE:.1}\" height=\"{SIDE:.1}\" fill=\"none\" \
     stroke=\"#444\"/>"
  )?;
  writeln!(out, "<text x=\"{middle:.1}\" y=\"56\" text-anchor=\"middle\">{title}</text>")?;
  writeln!(
    out,
    "<text x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{x}</text>",
    TOP + SIDE + 34.0
  )?;
  let at = left - 40.0;
  writeln!(
    out,
    "<text x=\"{at:.1}\" y=\"{height:.1}\" text-anchor=\"middle\" \
     transform=\"rotate(-90 {at:.1} {height:.1})\">{y}</text>"
  )
}

fn tick_below(out: &mut String, x: f64, label: &str) -> std::fmt::Result {
  writeln!(
    out,
    "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
    TOP + SIDE + 16.0
  )
}

fn characteristic(out: &mut String, curve: &ScoreCurve, colour: &str) -> std::fmt::Result {
  write!(out, "<path fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" d=\"")?;
  for (index, point) in curve.curve.points.iter().enumerate() {
    let letter = if index == 0 { 'M' } else { 'L' };
    let x = LEFT[0] + on_log_axis(point.false_positives) * SIDE;
    write!(out, "{letter}{x:.1} {:.1}", TOP + (1.0 - point.recall) * SIDE)?;
  }
  writeln!(out, "\"/>")
}

fn calibration(out: &mut String, curve: &ScoreCurve, colour: &str) -> std::fmt::Result {
  for bin in &curve.curve.bins {
    let (Some(mean), Some(rate), Some((low, high))) =
      (bin.mean, bin.attacks.rate(), bin.attacks.interval())
    else {
      continue;
    };
    let x = LEFT[1] + mean * SIDE;
    let y = |share: f64| TOP + (1.0 - share) * SIDE;
    writeln!(
      out,
      "<path stroke=\"{colour}\" d=\"M{x:.1} {:.1}L{x:.1} {:.1}\"/>\
       <circle cx=\"{x:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"{colour}\"><title>{}</title></circle>",
      y(low),
      y(high),
      y(rate),
      count(bin.attacks.n, "line")
    )?;
  }
  Ok(())
}

fn legend(out: &mut String, curve: &ScoreCurve, colour: &str, index: usize) -> std::fmt::Result {
  let y = TOP + SIDE + 54.0 + 16.0 * index as f64;
  let or_none =
    |value: Option<f64>| value.map_or_else(|| "none".to_owned(), |value| format!("{value:.3}"));
  let (auc, ece, brier) = (curve.curve.auc, curve.curve.ece, curve.curve.brier);
  writeln!(
    out,
    "<text x=\"{:.1}\" y=\"{y:.1}\" fill=\"{colour}\">{} score: AUC {}, calibration error {}, Brier {}</text>",
    LEFT[0],
    escaped(curve.score),
    or_none(auc),
    or_none(ece),
    or_none(brier)
  )
}

/// A number without trailing zeros.
fn short(value: f64) -> String {
  let text = format!("{value:.2}");
  text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Text between tags or quotes. Characters that XML does not allow, or that reorder text, are
/// replaced.
fn escaped(text: &str) -> String {
  let mut out = String::with_capacity(text.len());
  for c in text.chars() {
    match c {
      '<' => out.push_str("&lt;"),
      '>' => out.push_str("&gt;"),
      '&' => out.push_str("&amp;"),
      '"' => out.push_str("&quot;"),
      '\'' => out.push_str("&#39;"),
      '\u{fffe}'
      | '\u{ffff}'
      | '\u{200e}'
      | '\u{200f}'
      | '\u{2028}'..='\u{202e}'
      | '\u{2060}'..='\u{206f}' => out.push('\u{fffd}'),
      c if c.is_control() => out.push('\u{fffd}'),
      c => out.push(c),
    }
  }
  out
}

#[cfg(test)]
mod tests {
  use super::*;
  use crate::eval::{Floors, Setup, Tally};

  fn drawn(input: &str) -> String {
    let setup = Setup {
      inputs: vec![input.to_owned()],
      layers: "all",
      model: false,
      trust: None,
      source: None,
      sensitivity: "medium",
    };
    draw(&Tally::new(Floors::default(), 0).report(setup, std::time::Duration::ZERO))
  }

  #[test]
  fn hostile_names_stay_text() {
    let svg = drawn("</title><script>x</script>\" onload='y'&\u{202e}\u{0}");
    assert!(!svg.contains("<script") && !svg.contains("' ") && !svg.contains('\u{202e}'), "{svg}");
    assert!(svg.contains("&lt;script&gt;") && svg.contains("&quot; onload=&#39;y&#39;&amp;"));
    assert!(!svg.chars().any(|c| c.is_control() && c != '\n'));
  }

  #[test]
  fn it_needs_nothing_beside_it() {
    let svg = drawn("dev");
    for word in ["href", "<script", "@import", "url(", "<style", "<image", "foreignObject"] {
      assert!(!svg.contains(word), "{word}");
    }
    assert_eq!(svg.matches("http").count(), 1, "only the name of the format");
    assert_eq!(svg.matches("<svg").count(), svg.matches("</svg>").count());
  }

  #[test]
  fn numbers_have_no_empty_digits() {
    assert_eq!([short(0.01), short(100.0), short(0.2), short(0.0)], ["0.01", "100", "0.2", "0"]);
  }
}
