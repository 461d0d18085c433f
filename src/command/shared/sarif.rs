//! SARIF 2.1.0: findings as code scanning services, editors and CI read them. Pure.
//!
//! The output has no text of memory: messages are memfw's own words, and the text is named by its hash.
//! Paths are as given, relative to the root of the repository or absolute.
#![forbid(unsafe_code)]

use std::{fmt::Write as _, ops::Range, os::unix::ffi::OsStrExt as _, path::Path};

use serde_json::{Value, json};

use super::pages;
use crate::{detect::Code, memory::ContentHash};

/// The schema that the output follows.
const SCHEMA: &str =
  "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";
/// The base of relative paths, by the name that services know.
const BASE: &str = "%SRCROOT%";
/// The bytes of a line in which columns are counted: a later column is of no interest, and the work stays
/// linear.
const MAX_COLUMN_BYTES: usize = 10_000;

/// The level of a result, in SARIF's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Level {
  /// Quarantined.
  Error,
  /// Flagged.
  Warning,
  /// Did not decide.
  Note,
}

impl Level {
  fn as_str(self) -> &'static str {
    self.into()
  }
}

/// A place in a file, as SARIF writes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
  artifact: Value,
  region: Value,
}

impl Place {
  /// A line of a file, from 1.
  pub fn line(path: &Path, line: usize) -> Self {
    Self { artifact: artifact(path), region: json!({ "startLine": line.max(1) }) }
  }

  /// A span of lines of a file.
  pub fn span(path: &Path, lines: &Lines<'_>, span: &Range<usize>) -> Self {
    Self { artifact: artifact(path), region: lines.region(span) }
  }
}

/// The lines of a file, for finding places.
#[derive(Clone, Debug)]
pub struct Lines<'t> {
  text: &'t [u8],
  starts: Vec<usize>,
  /// The number of the first line.
  first: usize,
}

impl<'t> Lines<'t> {
  /// The lines of a text; the first has the number `first`.
  pub fn of(text: &'t [u8], first: usize) -> Self {
    let ends = text.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    Self { text, starts: std::iter::once(0).chain(ends).collect(), first: first.max(1) }
  }

  /// The line and column of a byte, from 1, in Unicode characters; no column far into a long line.
  fn place(&self, at: usize) -> (usize, Option<usize>) {
    let at = at.min(self.text.len());
    let line = self.starts.partition_point(|&start| start <= at).max(1);
    let start = self.starts.get(line - 1).copied().unwrap_or(0);
    let before = self.text.get(start..at).unwrap_or_default();
    let characters = || {
      before
        .utf8_chunks()
        .map(|one| one.valid().chars().count() + usize::from(!one.invalid().is_empty()))
    };
    (
      self.first + line - 1,
      (before.len() <= MAX_COLUMN_BYTES).then(|| characters().sum::<usize>() + 1),
    )
  }

  fn region(&self, span: &Range<usize>) -> Value {
    let (start_line, start_column) = self.place(span.start);
    // The end column is after the last character; a final line end is not part of the region.
    let bytes = self.text.get(span.clone()).unwrap_or_default();
    let n = bytes.trim_ascii_end().len().max(usize::from(!bytes.is_empty()));
    let (end_line, end_column) = self.place(span.start + n);
    match (start_column, end_column) {
      (Some(start), Some(end)) => json!({
        "startLine": start_line, "startColumn": start, "endLine": end_line, "endColumn": end,
      }),
      _ => json!({ "startLine": start_line, "endLine": end_line }),
    }
  }
}

/// One finding.
#[derive(Clone, Debug)]
pub struct SarifFinding<'a> {
  /// The finding code.
  pub code: Code,
  /// How severe services show the result.
  pub level: Level,
  /// Why it is a finding, in memfw's words.
  pub why: &'a str,
  /// Where services show the result.
  pub place: &'a Place,
  /// The hash of the block.
  pub hash: ContentHash,
  /// Further facts.
  pub properties: Value,
  /// Whether a person has approved it.
  pub is_suppressed: bool,
}

/// A log under construction.
#[derive(Clone, Debug, Default)]
pub struct SarifLog {
  codes: Vec<Code>,
  results: Vec<Value>,
}

impl SarifLog {
  /// Adds a finding.
  pub fn add(&mut self, found: &SarifFinding<'_>) {
    let index = self.codes.iter().position(|code| *code == found.code).unwrap_or_else(|| {
      self.codes.push(found.code);
      self.codes.len() - 1
    });
    let Place { artifact, region } = found.place;
    let mut result = json!({
      "ruleId": found.code.as_str(),
      "ruleIndex": index,
      "level": found.level.as_str(),
      "message": { "text": found.why },
      "locations": [{ "physicalLocation": { "artifactLocation": artifact, "region": region } }],
      "partialFingerprints": { "memfwBlock/v1": found.hash.to_string() },
      "properties": found.properties,
    });
    if let (true, Some(result)) = (found.is_suppressed, result.as_object_mut()) {
      let suppressions = json!([{ "kind": "external", "status": "accepted" }]);
      result.insert("suppressions".to_owned(), suppressions);
    }
    self.results.push(result);
  }

  /// The whole log, as JSON.
  pub fn log(self) -> Value {
    json!({
      "$schema": SCHEMA,
      "version": "2.1.0",
      "runs": [{
        "tool": {
          "driver": {
            "name": "memfw",
            "version": env!("CARGO_PKG_VERSION"),
            "semanticVersion": env!("CARGO_PKG_VERSION"),
            "rules": self.codes.iter().map(|code| rule(*code)).collect::<Vec<_>>(),
          },
        },
        "columnKind": "unicodeCodePoints",
        "invocations": [{ "executionSuccessful": true }],
        "results": self.results,
      }],
    })
  }
}

fn rule(code: Code) -> Value {
  json!({
    "id": code.as_str(),
    "shortDescription": { "text": code.title() },
    "fullDescription": { "text": pages::meaning(code).unwrap_or(code.title()) },
    "help": { "text": pages::page(code).unwrap_or(code.title()) },
    "defaultConfiguration": { "level": Level::Warning.as_str() },
    "properties": { "tags": ["security", "memory-poisoning"] },
  })
}

fn artifact(path: &Path) -> Value {
  let bytes = path.as_os_str().as_bytes();
  if path.is_absolute() {
    return json!({ "uri": format!("file://{}", encoded(bytes)) });
  }
  let bytes = bytes.strip_prefix(b"./").unwrap_or(bytes);
  json!({ "uri": encoded(bytes), "uriBaseId": BASE })
}

/// A path as part of a URI: everything but unreserved characters and slashes percent-encoded.
fn encoded(path: &[u8]) -> String {
  let mut text = String::with_capacity(path.len());
  for &byte in path {
    if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
      text.push(char::from(byte));
    } else {
      // Writing to a string cannot fail.
      write!(text, "%{byte:02X}").unwrap_or_default();
    }
  }
  text
}

#[cfg(test)]
mod tests {
  use std::ffi::OsStr;

  use proptest::prelude::*;

  use super::*;

  #[test]
  fn paths_are_uris() {
    let uri = |path: &[u8]| artifact(Path::new(OsStr::from_bytes(path)));
    assert_eq!(uri(b"./memory/a b.md"), json!({"uri": "memory/a%20b.md", "uriBaseId": BASE}));
    assert_eq!(uri(b"a:b\xff.md"), json!({"uri": "a%3Ab%FF.md", "uriBaseId": BASE}));
    assert_eq!(uri("/home/ann/ü.md".as_bytes()), json!({"uri": "file:///home/ann/%C3%BC.md"}));
  }

  #[test]
  fn places_are_lines_and_characters_from_one() {
    let text = "# Ä\n- one two\n- three\n";
    let region = |word: &str| {
      let start = text.find(word).unwrap();
      Lines::of(text.as_bytes(), 1).region(&(start..start + word.len()))
    };
    let at = |start_line, start, end_line, end| json!({"startLine": start_line, "startColumn": start, "endLine": end_line, "endColumn": end});
    assert_eq!(region("Ä"), at(1, 3, 1, 4));
    assert_eq!(region("two"), at(2, 7, 2, 10));
    assert_eq!(region("two\n- three\n"), at(2, 7, 3, 8));
    let long = vec![b'a'; MAX_COLUMN_BYTES + 10];
    let far = Lines::of(&long, 7).region(&(MAX_COLUMN_BYTES + 2..MAX_COLUMN_BYTES + 4));
    assert_eq!(far, json!({"startLine": 7, "endLine": 7}));
  }

  proptest! {
    #[test]
    fn any_span_of_any_bytes_is_a_region(
      bytes in proptest::collection::vec(prop_oneof![Just(b'\n'), any::<u8>()], 0..60),
      start in 0_usize..70,
      len in 0_usize..70,
    ) {
      let region = Lines::of(&bytes, 1).region(&(start..start + len));
      let number = |key: &str| region[key].as_u64().unwrap();
      prop_assert!(number("startLine") >= 1 && number("startColumn") >= 1);
      let from = (number("startLine"), number("startColumn"));
      prop_assert!(from <= (number("endLine"), number("endColumn")), "{region}");
    }
  }
}
