//! Tests provenance with random walks of a file. Whatever is written, changed, moved, joined, split,
//! deleted and restored, and whenever the agent's records answer, no line is ever reported as more
//! trusted than its writers.
#![forbid(unsafe_code)]

use std::{
  collections::{BTreeMap, HashMap, HashSet},
  convert::Infallible,
};

use super::rejudge::Known;
use crate::{
  judging::{facts::FileFacts, label::Labels, origin::Origin, view::View},
  memory::{BlockId, ContentHash, Document, LineHash, MarkerMode, compare, line},
  provenance::{Source, Trust},
  store::{BlockRow, OriginRecord, Sighting},
};

/// The number of walks and the steps of each; `cargo test` hardly takes longer.
const WALKS: u64 = 40;
const STEPS: usize = 50;

/// A small generator of pseudo-random numbers (splitmix64); a seed reproduces a walk.
struct Dice(u64);

impl Dice {
  fn below(&mut self, n: usize) -> usize {
    self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = self.0;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) % n as u64) as usize
  }
}

/// The file, what the ledger would know of it, and the real writers.
struct Walk {
  dice: Dice,
  text: String,
  rows: Vec<BlockRow>,
  former: Vec<BlockRow>,
  /// The trust of the writers of each current line, by its text.
  truth: BTreeMap<String, Vec<Trust>>,
  /// Deleted lines that may come back.
  gone: Vec<String>,
  /// The most trusted writer that each text ever had.
  best: HashMap<String, Trust>,
  /// The real writer of each new text, where only the records know it.
  writers: HashMap<Sighting, Trust>,
  n_texts: usize,
  n_ids: usize,
  trace: Vec<String>,
}

impl Walk {
  fn new(seed: u64) -> Self {
    let mut walk = Self {
      dice: Dice(seed),
      text: String::new(),
      rows: vec![],
      former: vec![],
      truth: BTreeMap::new(),
      gone: vec![],
      best: HashMap::new(),
      writers: HashMap::new(),
      n_texts: 0,
      n_ids: 0,
      trace: vec![],
    };
    for _ in 0..3 {
      walk.add(Trust::Verified);
    }
    walk.look(Origin::baseline());
    walk
  }

  fn fresh(&mut self, kind: &str, trust: Trust) -> String {
    self.n_texts += 1;
    let text = format!("{kind}{} {}", trust, self.n_texts);
    self.truth.insert(text.clone(), vec![trust]);
    text
  }

  fn lines(&self) -> Vec<String> {
    self.text.lines().map(str::to_owned).collect()
  }

  fn write(&mut self, lines: &[String]) {
    self.text = lines.iter().flat_map(|line| [line, "\n"]).collect();
  }

  /// The indices of lines that are not blank and not memfw's comments.
  fn said(lines: &[String]) -> Vec<usize> {
    let said = |line: &&String| !line.is_empty() && !line.starts_with("<!--");
    (0..lines.len()).filter(|at| lines.get(*at).as_ref().is_some_and(said)).collect()
  }

  /// A writer appends text.
  fn add(&mut self, trust: Trust) {
    let mut lines = self.lines();
    match self.dice.below(5) {
      0 => lines.extend([self.fresh("# ", trust), String::new(), self.fresh("- ", trust)]),
      1 => {
        lines.push(String::new());
        lines.extend([self.fresh("", trust), self.fresh("", trust), self.fresh("", trust)]);
      }
      2 => lines.extend([self.fresh("- ", trust), self.fresh("  - ", trust)]),
      3 => lines.push(self.copy(trust)),
      _ => lines.push(self.fresh("- ", trust)),
    }
    self.write(&lines);
  }

  /// The text of an item that is already in the file.
  fn copy(&mut self, trust: Trust) -> String {
    let old: Vec<String> = self
      .truth
      .iter()
      .filter(|(text, all)| text.starts_with("- ") && !all.is_empty() && !self.has_left(text))
      .map(|(text, _)| text.clone())
      .collect();
    if old.is_empty() {
      return self.fresh("- ", trust);
    }
    let text = old[self.dice.below(old.len())].clone();
    self.truth.entry(text.clone()).or_default().push(trust);
    text
  }

  /// Whether the ledger knows a former block with this line; a copy could be that block.
  fn has_left(&self, text: &str) -> bool {
    let hash = line::line_hash(text.as_bytes());
    self.former.iter().any(|row| row.lines.iter().any(|line| line.hash == hash))
  }

  /// Takes a line out; equal lines cannot be distinguished, so the walk takes the least trusted one.
  fn take(&mut self, lines: &mut Vec<String>) -> Option<(String, Trust)> {
    let said = Self::said(lines);
    if said.is_empty() {
      return None;
    }
    let text = lines.remove(said[self.dice.below(said.len())]);
    let all = self.truth.get_mut(&text).unwrap();
    all.sort_unstable();
    let trust = all.remove(0);
    let best = self.best.entry(text.clone()).or_insert(trust);
    *best = trust.max(*best).max(all.last().copied().unwrap_or(trust));
    Some((text, trust))
  }

  fn put(&mut self, lines: &mut Vec<String>, text: String, trust: Trust) {
    let at = self.dice.below(lines.len() + 1);
    self.truth.entry(text.clone()).or_default().push(trust);
    lines.insert(at, text);
  }

  fn step(&mut self) {
    let trust = Trust::ALL[self.dice.below(4)];
    let mut lines = self.lines();
    let what = self.dice.below(9);
    self.trace.push(format!("{what} {trust}"));
    match what {
      0 | 1 => {
        self.add(trust);
        lines = self.lines();
      }
      // Move one or more lines.
      2..=4 => {
        for _ in 0..=self.dice.below(3) {
          if let Some((text, trust)) = self.take(&mut lines) {
            self.put(&mut lines, text, trust);
          }
        }
      }
      5 => {
        let left = self.take(&mut lines);
        self.gone.extend(left.map(|(text, _)| text));
      }
      6 if !self.gone.is_empty() => {
        let at = self.dice.below(self.gone.len());
        // It may be any former line with this text, or written by the current writer.
        let text = self.gone.remove(at);
        let best = self.best.get(&text).copied().unwrap_or(trust);
        self.put(&mut lines, text, best.max(trust));
      }
      // Rewrite a line in place.
      7 => {
        let said = Self::said(&lines);
        if !said.is_empty() {
          let at = said[self.dice.below(said.len())];
          let mut one = vec![lines[at].clone()];
          let left = self.take(&mut one);
          self.gone.extend(left.map(|(text, _)| text));
          lines[at] = self.fresh("- ", trust);
        }
      }
      // Join or split blocks.
      _ => {
        let blank: Vec<usize> = (0..lines.len()).filter(|at| lines[*at].is_empty()).collect();
        if self.dice.below(2) == 0 && !blank.is_empty() {
          lines.remove(blank[self.dice.below(blank.len())]);
        } else {
          lines.insert(self.dice.below(lines.len() + 1), String::new());
        }
      }
    }
    self.write(&lines);
    let origin = if self.dice.below(2) == 0 { known_origin(trust) } else { self.unasked(trust) };
    self.look(origin);
    if self.dice.below(3) == 0 {
      self.trace.push("asked".to_owned());
      self.ask();
    }
  }

  /// An origin that is unknown until the records are asked.
  fn unasked(&mut self, trust: Trust) -> Origin {
    let version = ContentHash::of(self.text.as_bytes());
    let sighting = Sighting { version, changed_at: self.writers.len() as i64 };
    self.writers.insert(sighting, trust);
    Origin {
      trail: OriginRecord::asked(sighting),
      ..Origin::assumed(Source::unknown(), Trust::Hostile)
    }
  }

  /// The records answer some of the due questions.
  fn ask(&mut self) {
    let mut known = Known::new(self.rows.clone());
    for row in self.rows.clone() {
      for revision in row.live().filter(|one| one.trail.due) {
        let sighting = revision.trail.sighting.unwrap();
        if self.dice.below(3) > 0 {
          let trail = OriginRecord { sighting: Some(sighting), ..OriginRecord::default() };
          let origin = Origin { trail, ..known_origin(self.writers[&sighting]) };
          assert!(known.fill(&row.id, revision.number, sighting, &origin));
        }
      }
    }
    known.forget_dead();
    known.renew_markers();
    self.rows = known.rows().to_vec();
    let facts = self.facts();
    self.check(&View::renewed(self.text.clone().into_bytes(), self.rows.clone(), &facts));
  }

  fn facts(&self) -> FileFacts {
    let all = self.rows.iter().chain(&self.former);
    let markers = all.flat_map(|row| row.marker.clone().into_iter().chain([row.id.clone()]));
    let markers = markers.collect();
    let (rows, former) = (self.rows.clone(), self.former.clone());
    FileFacts::new(rows, former, markers, &HashMap::new(), HashMap::new())
  }

  /// Runs the pass over the new text, and sometimes the lazy pass.
  fn look(&mut self, origin: Origin) {
    let bytes = self.text.clone().into_bytes();
    let facts = self.facts();
    let document = Document::parse(&bytes, &facts.ids);
    let comparison = compare(&document, &facts.known);
    let judgements = document.blocks().iter().map(|_| None).collect();
    let hash = ContentHash::of(&bytes);
    let view = View {
      bytes: bytes.into(),
      hash,
      document,
      facts,
      comparison,
      judgements,
      origin,
      is_undo: false,
    };
    let mut next = self.n_ids;
    let rows = view
      .rows(1, || {
        next += 1;
        Ok::<_, Infallible>(format!("{next:06x}").parse::<BlockId>().unwrap())
      })
      .unwrap();
    self.n_ids = next;
    let left = std::mem::replace(&mut self.rows, rows);
    self.former.splice(0..0, left);
    let there: HashSet<&BlockId> = self.rows.iter().map(|row| &row.id).collect();
    self.former.retain(|row| !there.contains(&row.id));
    self.check(&view);
    if self.dice.below(2) == 0 {
      let renewed = View::renewed(view.bytes.clone(), self.rows.clone(), &view.facts);
      let labels = Labels::default();
      if let Some(new) = renewed.plan(MarkerMode::Wrap, true, &self.rows, &labels).reshape {
        let renewed = View::renewed(new, self.rows.clone(), &view.facts);
        self.rows =
          renewed.rows(2, || -> Result<BlockId, Infallible> { panic!("no block is new") }).unwrap();
        self.text = String::from_utf8(renewed.bytes.to_vec()).unwrap();
        self.check(&renewed);
      }
    }
  }

  fn check(&self, view: &View) {
    let text = &self.text;
    let story = || format!("{}\n=>\n{text}", self.trace.join("\n"));
    let mut reported: HashMap<LineHash, Vec<Trust>> = HashMap::new();
    let tags = FileFacts::tags(&self.rows, &Labels::default());
    for (block, row) in view.document.blocks().iter().zip(&self.rows) {
      assert_eq!(row.lines.len(), block.lines.len(), "{}", story());
      for (number, revision) in row.revisions.iter().enumerate() {
        assert_eq!(revision.number as usize, number, "{}", story());
      }
      let outside = row.live().filter(|revision| !revision.source.is_baseline());
      let worst = outside.map(|revision| revision.trust).min();
      let said = row.marker.as_ref().map(|marker| tags[marker].trust);
      assert_eq!(said.is_some(), worst.is_some(), "{}", story());
      assert!(said <= worst, "a marker says too much: {}", story());
      for line in &row.lines {
        let trust = row.revision(line.revision).unwrap().trust;
        reported.entry(line.hash).or_default().push(trust);
      }
    }
    for (text, truth) in &self.truth {
      let mut truth = truth.clone();
      truth.sort_unstable();
      let mut found = reported.remove(&line::line_hash(text.as_bytes())).unwrap_or_default();
      found.sort_unstable();
      assert_eq!(found.len(), truth.len(), "`{text}`: {}", story());
      for (found, truth) in found.iter().zip(&truth) {
        assert!(found <= truth, "`{text}` is {truth} and reported as {found}: {}", story());
      }
    }
  }
}

/// An observed source.
fn known_origin(trust: Trust) -> Origin {
  Origin::assumed(Source::new(&format!("mcp:{trust}")), trust)
}

#[test]
fn no_line_is_ever_reported_as_more_trusted_than_its_writer() {
  for seed in 0..WALKS {
    let mut walk = Walk::new(seed);
    for _ in 0..STEPS {
      walk.trace = vec![format!("seed {seed}"), walk.text.clone()];
      walk.step();
    }
  }
}
