//! Finds texts that follow each other in a file, with nothing but memfw's markers between them.
#![forbid(unsafe_code)]

use std::ops::Range;

use crate::memory::{Document, SegmentKind, line, marker};

/// How many places of the first text are examined (a choice: more copies give no useful place).
const MAX_PLACES: usize = 64;

/// Where these texts follow each other in the file; each may have one of several forms, also none. The range has the
/// markers between the texts, and not those around them.
pub fn find(bytes: &[u8], document: &Document, texts: &[Vec<Vec<u8>>]) -> Option<Range<usize>> {
  let bare = Bare::of(bytes, document);
  (0..texts.len())
    .take_while(|&skipped| texts.iter().take(skipped).all(|forms| forms.contains(&vec![])))
    .find_map(|skipped| bare.find(texts.get(skipped..)?))
}

impl Bare {
  fn find(&self, texts: &[Vec<Vec<u8>>]) -> Option<Range<usize>> {
    let bare = self;
    let first = texts.first()?;
    let mut places = 0;
    for form in first {
      let mut at = 0;
      while let Some(start) = marker::find(&bare.text, form, at).filter(|_| !form.is_empty()) {
        at = start + 1;
        places += 1;
        if places > MAX_PLACES {
          return None;
        }
        if let Some(end) = end_of(&bare.text, start, texts) {
          return bare.in_file(&(start..end));
        }
      }
    }
    None
  }
}

/// Where the texts end that begin at `start`.
fn end_of(bytes: &[u8], start: usize, texts: &[Vec<Vec<u8>>]) -> Option<usize> {
  texts.iter().try_fold(start, |at, forms| {
    let rest = bytes.get(at..)?;
    let form = forms.iter().filter(|form| rest.starts_with(form)).max_by_key(|form| form.len())?;
    Some(at + form.len())
  })
}

/// A file without memfw's markers.
struct Bare {
  text: Vec<u8>,
  /// The runs of the file that it has, with their offsets in `text`.
  runs: Vec<(usize, Range<usize>)>,
}

impl Bare {
  fn of(bytes: &[u8], document: &Document) -> Self {
    let mut bare = Self { text: Vec::with_capacity(bytes.len()), runs: vec![] };
    for segment in document.segments() {
      let is_marker = matches!(
        segment.kind,
        SegmentKind::Opener(_) | SegmentKind::Closer | SegmentKind::IdMark(_)
      );
      if !is_marker {
        bare.runs.push((bare.text.len(), segment.span.clone()));
        bare.text.extend_from_slice(line::slice(bytes, segment.span.clone()));
      }
    }
    bare
  }

  /// The range of the file from the first to the last byte of a range of the text.
  fn in_file(&self, span: &Range<usize>) -> Option<Range<usize>> {
    let place = |at: usize| {
      let (start, run) = self.runs.iter().rfind(|(start, _)| *start <= at)?;
      let place = run.start + (at - start);
      (place < run.end).then_some(place)
    };
    let last = span.end.checked_sub(1).filter(|last| *last >= span.start)?;
    Some(place(span.start)?..place(last)? + 1)
  }
}

#[cfg(test)]
mod tests {
  use super::*;
  use crate::memory::Known;

  fn found<'t>(file: &'t str, texts: &[&[&str]]) -> Option<&'t str> {
    let known = Known { markers: ["d4e5f6".parse().unwrap()].into(), ..Known::default() };
    let document = Document::parse(file.as_bytes(), &known);
    let forms = |texts: &&[&str]| texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    let texts: Vec<Vec<Vec<u8>>> = texts.iter().map(forms).collect();
    find(file.as_bytes(), &document, &texts).and_then(|span| file.get(span))
  }

  #[test]
  fn texts_that_follow_each_other_are_found_in_any_of_their_forms() {
    let texts: [&[&str]; 2] = [&["- a\n"], &["- b\n", "P\n"]];
    assert_eq!(found("- x\n- a\n- b\n- c\n", &texts), Some("- a\n- b\n"));
    assert_eq!(found("- a\n- x\n- a\nP\n", &texts), Some("- a\nP\n"));
    assert_eq!(found("- a\n\n- b\n", &texts), None);
    assert_eq!(found("", &texts), None);
    assert_eq!(found("- a\n", &[]), None);
    let texts: [&[&str]; 3] = [&["P\n", ""], &["- a\n"], &["Q\n", ""]];
    assert_eq!(found("x\n- a\ny\n", &texts), Some("- a\n"));
    assert_eq!(found("x\nP\n- a\nQ\ny\n", &texts), Some("P\n- a\nQ\n"));
  }

  #[test]
  fn a_marker_of_which_one_line_is_replaced_keeps_both() {
    let ids = ["d4e5f6", "a1b2c3"].map(|id| {
      format!("<!-- memfw:id={id} source=exec trust=untrusted ts=2026-11-21T14:32:00Z -->\n")
    });
    let [one, two] = &ids;
    let close = "<!-- /memfw -->\n";
    let known = Known {
      markers: ["d4e5f6".parse().unwrap(), "a1b2c3".parse().unwrap()].into(),
      ..Known::default()
    };
    let replaced = |head: &str, range: &str, tail: &str, with: &str| {
      let file = [head, range, tail].concat();
      let document = Document::parse(file.as_bytes(), &known);
      let range = head.len()..head.len() + range.len();
      let new = document.with_pairs(file.as_bytes(), &range, with.as_bytes().to_vec());
      String::from_utf8(new).unwrap()
    };
    // Whole pairs go, and pairs outside are not touched.
    assert_eq!(replaced("x\n", &format!("{one}- a\n{close}"), "y\n", "P\n"), "P\n");
    assert_eq!(replaced(one, "- a\n", close, "P\n"), "P\n");
    assert_eq!(replaced(one, &format!("- a\n{close}- b\n"), "", "P\n"), format!("{close}P\n"));
    assert_eq!(replaced("", &format!("- b\n{one}- a\n"), close, "P\n"), format!("{one}P\n"));
    let both = format!("- a\n{close}- b\n{two}- c\n");
    assert_eq!(replaced(one, &both, close, "P\n"), format!("{close}{two}P\n"));
    // Within a line it is put after that line.
    let within = replaced(&format!("{one}- x "), &format!("a\n{close}- b\n"), "", "P\n  \n");
    assert_eq!(within, format!("P\n{close}  \n"));
  }

  #[test]
  fn markers_between_them_do_not_count() {
    let marker = "<!-- memfw:id=d4e5f6 source=exec trust=untrusted ts=2026-11-21T14:32:00Z -->\n";
    let file = format!("P\n{marker}- a\n<!-- /memfw -->\n- b\n");
    let expected = format!("P\n{marker}- a\n<!-- /memfw -->\n- b\n");
    assert_eq!(found(&file, &[&["P\n"], &["- a\n"], &["- b\n"]]), Some(expected.as_str()));
    assert_eq!(
      found("- a <!-- memfw:d4e5f6 -->\nP\n", &[&["- a\n"], &["P\n"]]),
      Some("- a <!-- memfw:d4e5f6 -->\nP\n")
    );
  }
}
