//! Checks a skill: reads its files, judges its text, and asks who signed it. The daemon and the commands do it alike.
//!
//! Nothing of a skill is changed, and no path of its content is opened. A skill is text that is meant to instruct, so
//! what no memory may have (orders, commands, permissions from outside) is what a skill is made of: only the findings
//! of the rules and of the model count, from severity medium on.
#![forbid(unsafe_code)]

use std::{
  cmp::Reverse,
  collections::HashMap,
  ffi::OsStr,
  fs::Metadata,
  io::{self, ErrorKind},
  os::unix::ffi::OsStrExt as _,
  path::{Component, Path, PathBuf},
};

use crate::{
  config::Config,
  detect::{Code, JudgeOptions, Layer, Mode, Scope, Severity, Verdict, model::Kind, rules::Rules},
  engine::{EventKind, Layer2, event::shown},
  files::skill_tree::{Gap, TreeEntry, TreeLimit, find_skills, read_tree},
  judging::{
    assess::{Assessed, Layers, Reads, Sample, assess, facts_of},
    text::BlockText,
  },
  memory::{ContentHash, Document, Known},
  os::SystemClock,
  plural,
  provenance::{Source, Trust},
  skill::{
    Difference, Entry, EntryKind, Excess, LIST, MAIN, Manifest, PublicKey, SIGNATURE, Signature,
    SkillState, check, declared_name,
  },
  store::{SkillCheck, SkillRow},
};

/// The most bytes of text of one skill that are judged (a choice: the first agent framework loads 256 kB).
const MAX_TEXT_BYTES: u64 = 4 << 20;
/// The most findings of one skill that are listed, the strongest first (a choice).
const MAX_FINDINGS: usize = 100;
/// The endings of files whose text is judged; the others are programs or data, which have no findings of their own.
const TEXT_ENDINGS: [&str; 8] = ["md", "markdown", "mdx", "mdc", "txt", "text", "rst", "adoc"];

/// Where skills lie.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SkillPlaces {
  /// The directories below which they are found, existing or not.
  pub roots: Vec<PathBuf>,
  /// The files in a skill that an installer writes beside those of the author.
  pub besides: &'static [&'static str],
  /// Whether the configuration that names further ones cannot be read; the discovery tells that.
  pub is_unread: bool,
}

/// The skills in all places.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SkillList {
  /// Their directories, in order.
  pub dirs: Vec<PathBuf>,
  /// Why these may not be all, in memfw's words.
  pub gaps: Vec<String>,
}

impl SkillPlaces {
  /// Searches the places.
  pub fn skills(&self) -> SkillList {
    let mut list = SkillList::default();
    for root in &self.roots {
      let found = find_skills(root, MAIN);
      list.dirs.extend(found.dirs);
      list.gaps.extend(found.gap.map(|(dir, gap)| {
        let what = match gap {
          Gap::Directories => "has too many directories",
          Gap::Skills => "has too many skills",
          Gap::Unread => "cannot be read",
        };
        format!("`{}` {what}", shown(&dir))
      }));
    }
    list.dirs.sort();
    list.dirs.dedup();
    list.gaps.dedup();
    list
  }

  /// Whether any of the roots is there, readable or not.
  pub fn exist(&self) -> bool {
    self.roots.iter().any(|root| may_exist(root.metadata()))
  }

  /// Keeps the places that were known before, while the configuration that names them cannot be read.
  pub fn keep(&mut self, known: &Self) {
    if self.is_unread {
      let kept = known.roots.iter().filter(|root| !self.roots.contains(root));
      let kept: Vec<PathBuf> = kept.cloned().collect();
      self.roots.extend(kept);
    }
  }
}

/// The criteria by which the text of skills is judged.
#[derive(Clone)]
pub struct SkillJudge {
  /// The configuration in force.
  pub config: Config,
  /// The rules in force.
  pub rules: Rules,
  /// The model of layer 2, if there is one.
  pub model: Layer2,
}

/// What the text of a skill has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SkillFindings {
  /// In how many blocks there are findings.
  pub n: u64,
  /// The strongest verdict of all blocks; `None` without findings.
  pub worst: Option<Verdict>,
  /// The codes of all blocks.
  pub codes: Vec<Code>,
  /// The first blocks, those with the strongest verdict first.
  pub listed: Vec<SkillFinding>,
}

impl SkillFindings {
  fn add(&mut self, finding: SkillFinding) {
    self.n += 1;
    self.worst = self.worst.max(Some(finding.verdict));
    for code in &finding.codes {
      if !self.codes.contains(code) {
        self.codes.push(*code);
      }
    }
    // The list is in the order of the verdicts, and among equal ones in that of the text.
    let at = self.listed.partition_point(|listed| listed.verdict >= finding.verdict);
    if at < MAX_FINDINGS {
      self.listed.insert(at, finding);
      self.listed.truncate(MAX_FINDINGS);
    }
  }

  /// How many blocks are not listed.
  pub fn n_unlisted(&self) -> u64 {
    self.n.saturating_sub(self.listed.len() as u64)
  }
}

/// A block of a skill's text with findings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillFinding {
  /// The file, relative to the skill.
  pub file: PathBuf,
  /// The first line of the block.
  pub line: usize,
  /// The stronger of the two verdicts, if a rule alone decides.
  pub verdict: Verdict,
  /// The codes of the findings that count, the most severe first.
  pub codes: Vec<Code>,
  /// What they say, in memfw's words and in the same order.
  pub why: Vec<String>,
}

/// A skill that was checked.
#[derive(Clone, Debug)]
pub struct CheckedSkill {
  /// What the ledger records.
  pub check: SkillCheck,
  /// The findings.
  pub findings: SkillFindings,
}

/// Findings of an earlier check, with the manifest of the files that they were found in.
pub type Judged = (ContentHash, SkillFindings);

/// Checks the skill in a directory. Findings of an earlier check of exactly these files count again; the error is that
/// the directory does not exist.
pub fn check_skill(
  dir: &Path,
  besides: &[&str],
  keys: &[PublicKey],
  judge: &SkillJudge,
  earlier: Option<&Judged>,
) -> io::Result<CheckedSkill> {
  let mut files = Files::default();
  match read_tree(dir, &mut |path, entry| files.add(path, entry)) {
    Ok(limit) => {
      files.manifest.excess = files.manifest.excess.or(limit.map(|limit| match limit {
        TreeLimit::Files => Excess::Files,
        TreeLimit::Bytes => Excess::Bytes,
        TreeLimit::Depth => Excess::Depth,
      }));
    }
    Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(error),
    Err(_) => files.manifest.insert(b".", Entry::of(EntryKind::Unread, b"")),
  }
  let text = |name: &str| files.texts.iter().find(|(path, _)| path == name.as_bytes());
  let bytes = |name| text(name).map(|(_, bytes)| bytes.as_slice());
  let name = bytes(MAIN)
    .and_then(declared_name)
    .unwrap_or_else(|| dir.file_name().unwrap_or_default().to_string_lossy().into_owned());
  let signature = check(&files.manifest, bytes(LIST), bytes(SIGNATURE), besides, keys);
  let manifest_hash = files.manifest.hash();
  let findings = match earlier.filter(|(hash, _)| *hash == manifest_hash) {
    Some((_, findings)) => findings.clone(),
    None => files.judge(&name, judge),
  };
  let check = SkillCheck {
    dir: dir.to_owned(),
    name,
    manifest: files.manifest,
    n_findings: findings.n,
    codes: findings.codes.clone(),
    signature,
  };
  Ok(CheckedSkill { check, findings })
}

/// The files of a skill as far as they were read.
#[derive(Default)]
struct Files {
  manifest: Manifest,
  /// Texts, list and signature.
  texts: Vec<(Vec<u8>, Vec<u8>)>,
  n_text_bytes: u64,
}

impl Files {
  fn add(&mut self, path: &[u8], entry: TreeEntry<'_>) {
    let (kind, bytes) = match entry {
      TreeEntry::File { bytes, is_program: true } => (EntryKind::Program, bytes),
      TreeEntry::File { bytes, .. } => (EntryKind::File, bytes),
      TreeEntry::Link(target) if stays_inside(path, target) && !is_disguise(path, target) => {
        (EntryKind::Link, target)
      }
      TreeEntry::Link(target) => (EntryKind::Outside, target),
      TreeEntry::Other => (EntryKind::Other, &[][..]),
      TreeEntry::Unread => (EntryKind::Unread, &[][..]),
    };
    self.manifest.insert(path, Entry::of(kind, bytes));
    if !kind.is_read()
      || !(is_text(path) || [LIST, SIGNATURE].iter().any(|name| name.as_bytes() == path))
    {
      return;
    }
    self.n_text_bytes = self.n_text_bytes.saturating_add(bytes.len() as u64);
    if self.n_text_bytes > MAX_TEXT_BYTES {
      self.manifest.excess = Some(Excess::Bytes);
    } else {
      self.texts.push((path.to_vec(), bytes.to_vec()));
    }
  }

  /// The findings in the texts. Equal blocks are judged once.
  fn judge(&self, name: &str, judge: &SkillJudge) -> SkillFindings {
    let source = Source::new(&format!("skill:{name}"));
    let (mut findings, mut judged) = (SkillFindings::default(), HashMap::new());
    for (path, bytes) in self.texts.iter().filter(|(path, _)| is_text(path)) {
      let document = Document::parse(bytes, &Known::default());
      for block in document.blocks() {
        let text = BlockText::new(bytes, block);
        let finding = judged
          .entry(ContentHash::of(text.bytes()))
          .or_insert_with(|| judge.finding(text.bytes(), &source));
        if let Some(finding) = finding {
          let file = PathBuf::from(OsStr::from_bytes(path));
          findings.add(SkillFinding { file, line: block.start_line, ..finding.clone() });
        }
      }
    }
    findings.codes.sort_unstable();
    findings
  }
}

impl SkillJudge {
  /// The findings of a block that count; `None` if there are none.
  fn finding(&self, text: &[u8], source: &Source) -> Option<SkillFinding> {
    let sample = Sample {
      text,
      options: JudgeOptions {
        scope: Scope::Strict,
        mode: Mode::Document,
        rules: Some(self.rules.set()),
        ..JudgeOptions::default()
      },
      // As untrusted text, 31 of the 51 skills that the first agent framework ships would be flagged
      // (docs/skills.md).
      facts: facts_of(source, Trust::Verified, "", &self.config),
      kind: Kind::of(source),
      layers: if self.model.is_some() { Layers::All } else { Layers::Rules },
      reads: Reads::Notable,
      asked: "",
      referral: None,
    };
    let model = self.model.unwrap_or_else(|| crate::detect::model::Model::embedded());
    let Assessed { findings, decision, .. } = assess(&[sample], model, &SystemClock).pop()?;
    let counts = |finding: &&crate::detect::Finding| {
      finding.layer != Layer::Effects && finding.severity >= Severity::Medium
    };
    let mut counted: Vec<_> = findings.iter().filter(counts).collect();
    counted.sort_by_key(|finding| (Reverse(finding.severity), finding.code));
    if decision.verdict == Verdict::Pass || counted.is_empty() {
      return None;
    }
    let (mut codes, mut why): (Vec<Code>, Vec<String>) = Default::default();
    for finding in counted {
      if !codes.contains(&finding.code) {
        codes.push(finding.code);
      }
      let text = format!("{}: {}", finding.code, finding.why);
      if !why.contains(&text) {
        why.push(text);
      }
    }
    Some(SkillFinding { file: PathBuf::new(), line: 0, verdict: decision.verdict, codes, why })
  }
}

/// Whether there is a file, or may be one that cannot be looked at.
pub(super) fn may_exist(found: io::Result<Metadata>) -> bool {
  match found {
    Ok(_) => true,
    Err(error) => !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory),
  }
}

/// Whether a file is judged as text.
fn is_text(path: &[u8]) -> bool {
  let ending = Path::new(OsStr::from_bytes(path)).extension().and_then(OsStr::to_str);
  ending.is_some_and(|ending| TEXT_ENDINGS.iter().any(|known| ending.eq_ignore_ascii_case(known)))
}

/// Whether a link leads to a path in its skill, by its text alone. After a name, which may be a link itself, `..` may
/// lead anywhere.
fn stays_inside(path: &[u8], target: &[u8]) -> bool {
  let mut depth = Path::new(OsStr::from_bytes(path)).components().count().saturating_sub(1);
  let mut is_named = false;
  for part in Path::new(OsStr::from_bytes(target)).components() {
    match part {
      Component::Normal(_) => is_named = true,
      Component::CurDir => {}
      Component::ParentDir if depth > 0 && !is_named => depth -= 1,
      _ => return false,
    }
  }
  !target.is_empty()
}

/// Whether a link gives the name of a text to a file that is not judged as one.
fn is_disguise(path: &[u8], target: &[u8]) -> bool {
  is_text(path) && !is_text(target)
}

/// What is to be told about a checked skill, compared with what the ledger knows: kind and text, in memfw's words.
/// `older` are the files of the last check, if they were different ones.
pub fn news(
  known: Option<&SkillRow>,
  found: &SkillCheck,
  older: Option<&Manifest>,
) -> Vec<(EventKind, String)> {
  let state = found.state(known);
  let is_back = known.is_some_and(|known| !known.is_present);
  let is_changed = known.is_some_and(|known| known.manifest != found.manifest.hash());
  let mut news = Vec::new();
  let signature = match found.signature.as_str() {
    "none" => String::new(),
    word => format!(", signature {word}"),
  };
  if known.is_none() || is_back {
    let files = plural::count(found.manifest.len() as u64, "file");
    let back = if is_back { ", there again" } else { "" };
    news.push((EventKind::SkillNew, format!("{files}{back}{signature}")));
  }
  if is_changed {
    let difference = older.map(|older| Difference::between(older, &found.manifest).in_words());
    let difference = difference.unwrap_or_else(|| "its files are different".to_owned());
    news.push((EventKind::SkillChanged, format!("{difference}{signature}; now {state}")));
  }
  let is_told = known.is_some_and(|known| {
    let is_same = known.n_findings == found.n_findings && !is_changed && !is_back;
    known.state == SkillState::Flagged && is_same
  });
  if state == SkillState::Flagged && !is_told {
    news.push((EventKind::SkillFlagged, what_was_found(found)));
  }
  news
}

/// That there may be further skills, and why.
pub fn gaps_in_words(gaps: &[String]) -> String {
  format!("not all skills can be found: {}", gaps.join("; "))
}

/// Why a skill is flagged, in memfw's words.
pub fn what_was_found(found: &SkillCheck) -> String {
  let mut parts = Vec::new();
  if found.n_findings > 0 {
    let codes: Vec<&str> = found.codes.iter().map(|code| code.as_str()).collect();
    let blocks = plural::count(found.n_findings, "block");
    parts.push(format!("findings in {blocks}: {}", codes.join(" ")));
  }
  parts.extend(found.manifest.excess.map(|excess| {
    let what = match excess {
      Excess::Files => "too many files",
      Excess::Bytes => "too many bytes",
      Excess::Depth => "too many directories in each other",
    };
    format!("not all of it is checked: {what}")
  }));
  if let Signature::Broken(key, why) = &found.signature {
    parts.push(format!("the signature of the key {key} is broken: {why}"));
  }
  let unseen = found.manifest.entries().filter(|(_, entry)| !entry.kind.is_covered()).count();
  if unseen > 0 {
    let files = plural::count(unseen as u64, "file");
    parts.push(format!("{files} cannot be read, or a link leads outside or to no text"));
  }
  if found.manifest.get(MAIN.as_bytes()).is_none_or(|entry| !entry.kind.is_read()) {
    parts.push(format!("its {MAIN} is no regular file"));
  }
  parts.join("; ")
}

#[cfg(test)]
#[path = "skill_check_tests.rs"]
mod tests;
