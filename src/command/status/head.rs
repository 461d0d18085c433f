//! The first lines of `status`, which other commands show as well.
#![forbid(unsafe_code)]

use super::{Place, StatusReport};
use crate::{
  app::context::Context,
  plural::choose,
  terminal::{
    output::{Style, count},
    table::Piece,
  },
};

impl StatusReport {
  /// The program and whether it guards.
  pub(in crate::command) fn title(&self, context: &Context) -> String {
    self.title_pieces().iter().map(|(text, style)| context.out.paint(*style, text)).collect()
  }

  /// The pieces of the title.
  pub(in crate::command) fn title_pieces(&self) -> [Piece; 3] {
    let style = if self.daemon == "guarding" { Style::Green } else { Style::Yellow };
    let pid = self.pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default();
    [
      (format!("memfw {}: ", env!("CARGO_PKG_VERSION")), Style::Plain),
      (self.daemon.to_owned(), style),
      (pid, Style::Plain),
    ]
  }

  /// How much is protected, or only known.
  pub(in crate::command) fn extent(&self) -> String {
    let (name, text) = self.extent_words();
    format!("  {name:<12}{text}")
  }

  /// The name of the line about the extent, and its text.
  pub(in crate::command) fn extent_words(&self) -> (&'static str, String) {
    let known = format!("{} in {}", count(self.n_blocks, "block"), count(self.n_files, "file"));
    match self.daemon {
      "stopped" => ("known", format!("{known} (not protected: the daemon is stopped)")),
      _ => ("protected", known),
    }
  }

  /// What waits for a person.
  pub(in crate::command) fn waiting(&self, context: &Context, next: &str) -> String {
    let waiting = self.waiting_words().map_or_else(
      || "nothing".to_owned(),
      |words| context.out.paint(Style::Yellow, &format!("{words}{next}")),
    );
    format!("  waiting     {waiting}")
  }

  /// How many items wait for a person; `None` if none does.
  pub(in crate::command) fn waiting_words(&self) -> Option<String> {
    let flagged = match self.n_flagged {
      0 => String::new(),
      n => format!(" ({n} flagged, in {})", choose(n, "its file", "their files")),
    };
    match self.n_open() {
      0 => None,
      n => Some(format!("{n} for you{flagged}")),
    }
  }

  /// How long poison was readable.
  pub(in crate::command) fn exposure(&self, now: i64) -> String {
    self.reading.line(now)
  }

  /// The guarded directories, as displayed.
  pub(in crate::command) fn workspaces(&self) -> Vec<&str> {
    self.places.iter().map(|Place { path, .. }| path.as_str()).collect()
  }
}
