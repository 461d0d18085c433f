//! The text that is handed out: the explanation, then entries and lines of memfw.
#![forbid(unsafe_code)]

use super::{
  frame,
  selection::{Entry, Item, Selection, Shown},
};

/// A text under construction. Everything but neighbours in one file is separated by one blank line, so that
/// no line continues a frame.
#[derive(Debug, Default)]
pub struct Sheet {
  out: Vec<u8>,
  /// The position of the excerpt that was written last, if it was written unchanged.
  plain: Option<usize>,
}

impl Sheet {
  /// All files in order, each under its name.
  pub fn of_files(selection: &Selection<'_>) -> Vec<u8> {
    let mut sheet = Self::begin();
    let mut named: Option<&str> = None;
    for item in &selection.items {
      let (Item::Entry(Entry { file, .. }) | Item::Blocked { file, .. }) = item;
      if named != Some(file) {
        sheet.line(&frame::note(None, &format!("file {}", frame::name(file))));
        named = Some(file);
      }
      match item {
        Item::Entry(entry) => entry.shown.iter().for_each(|shown| sheet.excerpt(shown)),
        Item::Blocked { blocked, .. } => sheet.line(&frame::blocked(blocked)),
      }
    }
    sheet.end(selection, "nothing to read")
  }

  /// The results of a query, each under its place.
  pub fn of_hits(selection: &Selection<'_>) -> Vec<u8> {
    let mut sheet = Self::begin();
    for entry in selection.entries() {
      let place = format!("file {}:{}", frame::name(entry.file), entry.line());
      sheet.line(&frame::note(None, &place));
      entry.shown.iter().for_each(|shown| sheet.excerpt(shown));
    }
    sheet.end(selection, "no entry matches")
  }

  /// A part of one file, without the explanation and without a name: a reader has both already.
  pub fn of_part(selection: &Selection<'_>) -> Vec<u8> {
    let mut sheet = Self::default();
    for item in &selection.items {
      match item {
        Item::Entry(entry) => entry.shown.iter().for_each(|shown| sheet.excerpt(shown)),
        Item::Blocked { blocked, .. } => sheet.line(&frame::blocked(blocked)),
      }
    }
    if let Some(words) = selection.left_out.words() {
      sheet.line(&frame::note(None, &words));
    }
    sheet.out
  }

  fn begin() -> Self {
    let mut sheet = Self::default();
    sheet.line(&frame::note(None, frame::EXPLANATION));
    sheet
  }

  fn end(mut self, selection: &Selection<'_>, empty: &str) -> Vec<u8> {
    if selection.items.is_empty() {
      self.line(&frame::note(None, empty));
    }
    if let Some(words) = selection.left_out.words() {
      self.line(&frame::note(None, &words));
    }
    self.out
  }

  /// Writes a line of memfw.
  fn line(&mut self, line: &str) {
    self.part();
    self.out.extend_from_slice(line.as_bytes());
    self.out.push(b'\n');
  }

  fn excerpt(&mut self, shown: &Shown<'_>) {
    if shown.frame.is_some() {
      self.part();
      self.out.extend(text(shown));
      return;
    }
    if self.plain.is_some_and(|last| last + 1 == shown.position) {
      self.out.extend_from_slice(&shown.excerpt.gap);
    } else {
      self.part();
    }
    self.out.extend(text(shown));
    self.plain = Some(shown.position);
  }

  /// Ends the last line, and adds a blank one.
  fn part(&mut self) {
    self.plain = None;
    if !self.out.is_empty() {
      self.end_line();
      self.out.push(b'\n');
    }
  }

  fn end_line(&mut self) {
    if self.out.last().is_some_and(|last| *last != b'\n') {
      self.out.push(b'\n');
    }
  }
}

/// An excerpt in the form in which it is handed out.
pub fn text(shown: &Shown<'_>) -> Vec<u8> {
  match &shown.frame {
    Some(words) => {
      frame::framed(shown.known.map(|known| &known.id), words, shown.text).into_bytes()
    }
    None => frame::plain(shown.text).into_owned(),
  }
}
