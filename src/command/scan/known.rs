//! Findings that need no answer any more: those that an ignore file excuses, and those of an earlier scan.
//!
//! Both know a block by the hash of its bytes, so a changed block is judged as new. Neither file is looked for: text
//! in a repository must not excuse itself, so the command line names the file.
#![forbid(unsafe_code)]

use std::{
  cell::Cell,
  collections::{HashMap, HashSet},
  path::{Path, PathBuf},
};

use serde::Deserialize;
use serde_json::Value;
use toml::{Spanned, value::Datetime};

use crate::{
  app::{
    configuration::{MAX_BYTES, read},
    paths::resolved,
  },
  detect::Code,
  engine::event::shown,
  memory::ContentHash,
  os::paths::read_own,
  terminal::failure::Failure,
};

/// The most bytes of an earlier scan: a choice, a hundred thousand findings.
const MAX_BASELINE: u64 = 256 << 20;
/// The hexadecimal digits of a fingerprint. All of them are needed: a text with a few equal digits can be made.
const DIGITS: usize = 64;

/// Why a finding does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Excuse {
  /// A line of the ignore file.
  Ignored,
  /// An earlier scan had it.
  Known,
}

/// Findings that do not count.
#[derive(Debug, Default)]
pub(super) struct Excuses {
  ignore: Option<IgnoreFile>,
  /// The codes of each known block.
  baseline: HashMap<String, HashSet<String>>,
}

impl Excuses {
  /// Reads the files that the command line names; `today` is a date such as `2026-11-28`.
  pub(super) fn read(
    ignore: Option<&Path>,
    baseline: Option<&Path>,
    today: &str,
  ) -> Result<Self, Failure> {
    let ignore = ignore.map(|file| IgnoreFile::read(file, today)).transpose()?.flatten();
    let baseline = baseline.map(earlier).transpose()?.unwrap_or_default();
    Ok(Self { ignore, baseline })
  }

  /// Why a block with these codes does not count, if so.
  pub(super) fn of(&self, file: &Path, hash: ContentHash, codes: &[Code]) -> Option<Excuse> {
    let hash = hash.to_string();
    if self.ignore.as_ref().is_some_and(|ignore| ignore.excuses(file, &hash, codes)) {
      return Some(Excuse::Ignored);
    }
    let known = self.baseline.get(&hash)?;
    codes.iter().all(|code| known.contains(code.as_str())).then_some(Excuse::Known)
  }

  /// What a person should tidy up, a line each: `scanned` are the files of this scan.
  pub(super) fn remarks(&self, scanned: &HashSet<PathBuf>) -> Vec<String> {
    self.ignore.as_ref().map(|ignore| ignore.remarks(scanned)).unwrap_or_default()
  }
}

/// The findings of an earlier `scan --json`.
fn earlier(file: &Path) -> Result<HashMap<String, HashSet<String>>, Failure> {
  let cannot =
    |why: &str| Failure::unavailable(format!("cannot read the baseline `{}`: {why}", shown(file)));
  let bytes = read_own(file, MAX_BASELINE).map_err(|error| cannot(&error.to_string()))?;
  let bytes = bytes.ok_or_else(|| {
    cannot("it does not exist").hint(format!("make it: memfw scan --json PATH > {}", shown(file)))
  })?;
  let found: Vec<Value> = serde_json::from_slice(&bytes)
    .map_err(|error| cannot(&error.to_string()).hint("it is the output of `memfw scan --json`"))?;
  let mut known: HashMap<String, HashSet<String>> = HashMap::new();
  for one in &found {
    let Some(hash) = one.get("fingerprint").and_then(Value::as_str) else {
      return Err(cannot("a finding has no `fingerprint`").hint("make it again with this memfw"));
    };
    let codes = one.get("codes").and_then(Value::as_array).into_iter().flatten();
    let codes = codes.filter_map(Value::as_str).map(str::to_owned);
    known.entry(hash.to_owned()).or_default().extend(codes);
  }
  Ok(known)
}

/// The content of an ignore file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
  #[serde(default)]
  ignore: Vec<Spanned<RawEntry>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEntry {
  fingerprint: Spanned<String>,
  file: PathBuf,
  reason: Spanned<String>,
  codes: Option<Vec<Spanned<String>>>,
  until: Option<Spanned<Datetime>>,
}

/// A finding that a person has excused.
#[derive(Debug)]
struct Entry {
  line: usize,
  fingerprint: String,
  /// The file without links.
  file: PathBuf,
  /// The excused codes; all codes if there are none.
  codes: Vec<Code>,
  /// The last day, such as `2026-12-31`.
  until: Option<String>,
  is_expired: bool,
  is_used: Cell<bool>,
}

/// An ignore file.
#[derive(Debug)]
struct IgnoreFile {
  path: PathBuf,
  entries: Vec<Entry>,
}

impl IgnoreFile {
  /// Reads a file; `None` if there is none, so that a hook can name it before there is anything to ignore.
  fn read(path: &Path, today: &str) -> Result<Option<Self>, Failure> {
    let text = read(path, MAX_BYTES).map_err(|why| {
      Failure::unavailable(format!("cannot read the ignore file `{}`: {why}", shown(path)))
    })?;
    let Some(text) = text else { return Ok(None) };
    let dir = resolved(path).parent().map(Path::to_owned).unwrap_or_default();
    let entries = entries(&text, &dir, today).map_err(|(at, why)| {
      let (line, column) = place(&text, at);
      Failure::config(format!("{}:{line}:{column}: {why}", shown(path)))
        .hint("docs/review.md describes the file")
    })?;
    Ok(Some(Self { path: path.to_owned(), entries }))
  }

  fn excuses(&self, file: &Path, hash: &str, codes: &[Code]) -> bool {
    let file = resolved(file);
    let is_it = |entry: &&Entry| {
      let is_covered = entry.codes.is_empty() || codes.iter().all(|one| entry.codes.contains(one));
      !entry.is_expired && entry.fingerprint == hash && entry.file == file && is_covered
    };
    let found = self.entries.iter().find(is_it);
    found.inspect(|entry| entry.is_used.set(true)).is_some()
  }

  fn remarks(&self, scanned: &HashSet<PathBuf>) -> Vec<String> {
    let remark = |entry: &Entry| {
      let why = if let (true, Some(until)) = (entry.is_expired, &entry.until) {
        format!("expired: it was valid until {until}")
      } else if entry.is_used.get() {
        return None;
      } else if scanned.contains(&entry.file) {
        "not needed: the file has no such finding".to_owned()
      } else if !entry.file.exists() {
        "not needed: the file does not exist".to_owned()
      } else {
        // This scan did not read the file.
        return None;
      };
      Some(format!("{}:{}: {why}", shown(&self.path), entry.line))
    };
    self.entries.iter().filter_map(remark).collect()
  }
}

/// The entries of a text, or the first mistake and its byte.
fn entries(text: &str, dir: &Path, today: &str) -> Result<Vec<Entry>, (usize, String)> {
  let raw: Raw = toml::from_str(text)
    .map_err(|error| (error.span().map_or(0, |span| span.start), error.message().to_owned()))?;
  let mut found = Vec::with_capacity(raw.ignore.len());
  for one in raw.ignore {
    let start = one.span().start;
    let RawEntry { fingerprint, file, reason, codes, until } = one.into_inner();
    let digits = fingerprint.get_ref();
    if digits.len() != DIGITS
      || !digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    {
      let why = "`fingerprint` has 64 hexadecimal digits, as `memfw scan` prints them";
      return Err((fingerprint.span().start, why.to_owned()));
    }
    if reason.get_ref().trim().is_empty() {
      return Err((reason.span().start, "`reason` is empty".to_owned()));
    }
    let mut known = Vec::new();
    for code in codes.unwrap_or_default() {
      let at = code.span().start;
      known.push(code.get_ref().parse::<Code>().map_err(|error| (at, error.to_string()))?);
    }
    let until = until.map(|until| {
      let at = until.span().start;
      let Some(day) = until.get_ref().date else {
        return Err((at, "`until` is a date such as 2026-12-31".to_owned()));
      };
      Ok(format!("{:04}-{:02}-{:02}", day.year, day.month, day.day))
    });
    let until = until.transpose()?;
    found.push(Entry {
      line: place(text, start).0,
      fingerprint: digits.clone(),
      file: resolved(&dir.join(file)),
      codes: known,
      is_expired: until.as_deref().is_some_and(|until| until < today),
      until,
      is_used: Cell::new(false),
    });
  }
  Ok(found)
}

/// Line and column of a byte, from 1.
fn place(text: &str, at: usize) -> (usize, usize) {
  let before = text.get(..at).unwrap_or(text);
  let line = before.matches('\n').count() + 1;
  let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
  (line, column)
}

#[cfg(test)]
mod tests {
  use super::*;

  const HASH: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

  fn read(more: &str) -> Result<Vec<Entry>, (usize, usize, String)> {
    let text = format!("# ours\n[[ignore]]\nfingerprint = \"{HASH}\"\nfile = \"a.md\"\n{more}");
    entries(&text, Path::new("/w"), "2026-11-28").map_err(|(at, why)| {
      let (line, column) = place(&text, at);
      (line, column, why)
    })
  }

  #[test]
  fn mistakes_have_a_place() {
    for (more, line, column, why) in [
      ("", 2, 1, "missing field `reason`"),
      ("reason = \" \"\n", 5, 10, "`reason` is empty"),
      ("reason = \"x\"\ncodes = [\"concealment\", \"x\"]\n", 6, 25, "unknown finding code `x`"),
      ("reason = \"x\"\nuntil = 10:00:00\n", 6, 9, "`until` is a date such as 2026-12-31"),
      ("reason = \"x\"\nuntill = 2026-01-01\n", 6, 1, "unknown field `untill`"),
    ] {
      let found = read(more).unwrap_err();
      assert_eq!((found.0, found.1), (line, column), "{more}: {found:?}");
      assert!(found.2.starts_with(why), "{more}: {found:?}");
    }
    let text = "[[ignore]]\nfingerprint = \"0011\"\nfile = \"a\"\nreason = \"x\"\n";
    let (at, why) = entries(text, Path::new("/w"), "2026-11-28").unwrap_err();
    assert_eq!(place(text, at), (2, 15));
    assert!(why.contains("64 hexadecimal digits"), "{why}");
  }

  #[test]
  fn an_entry_excuses_one_block_of_one_file_until_its_day_ends() {
    let ignored = |more: &str, file: &str, hash: &str, codes: &[Code]| {
      let entries = read(more).unwrap();
      let file_of = IgnoreFile { path: PathBuf::from("i.toml"), entries };
      let is = file_of.excuses(Path::new(file), hash, codes);
      (is, file_of.remarks(&HashSet::from([PathBuf::from("/w/a.md")])))
    };
    let codes = [Code::Concealment];
    let reason = "reason = \"x\"\n";
    assert_eq!(ignored(reason, "/w/a.md", HASH, &codes), (true, vec![]));
    let unused = "i.toml:2: not needed: the file has no such finding".to_owned();
    assert_eq!(ignored(reason, "/w/b.md", HASH, &codes), (false, vec![unused.clone()]));
    assert_eq!(ignored(reason, "/w/a.md", &"0".repeat(64), &codes), (false, vec![unused.clone()]));
    let other = format!("{reason}codes = [\"exfiltration-endpoint\"]\n");
    assert_eq!(ignored(&other, "/w/a.md", HASH, &codes), (false, vec![unused]));
    let today = format!("{reason}until = 2026-11-28\n");
    assert!(ignored(&today, "/w/a.md", HASH, &codes).0);
    let over = format!("{reason}until = 2026-11-27\n");
    let expired = "i.toml:2: expired: it was valid until 2026-11-27".to_owned();
    assert_eq!(ignored(&over, "/w/a.md", HASH, &codes), (false, vec![expired]));
  }
}
