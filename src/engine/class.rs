//! How far the agent framework trusts a file, and when that goes back after an edit of ours.
//!
//! A framework may drop a file for good because of a write of its own that was tainted, or because it had
//! read a version that we edited. The class goes back in two cases alone: the whole of the write that cost
//! it has left the file again, or our edit was all that the framework saw.
//!
//! Invariant: the framework never trusts a file further than it would without our edits, had what we took
//! out never been written; unless a person or the configuration says so. So a class goes back only to one
//! that was on record for the very lines that are left and only across one write of others; or else where
//! the records show of each write since an edit of ours that the framework's own tools made all of it.
#![forbid(unsafe_code)]

use std::collections::HashMap;

use super::{
  Engine, EngineError, Target,
  attribute::{Subject, VersionQuery},
  view::View,
};
use crate::{
  config::Follow,
  files::Fs,
  memory::{ContentHash, Fate, line::line_hash},
  provenance::{Answer, Attestation, Attribution, Followed, Outlook, Standing, State},
  store::{AgentRecord, BlockRow, ClassDowngrade},
};

/// How soon after an edit of ours a tool may write what it made of an older version, in microseconds: a tool
/// reads and writes within one call (a choice; measured calls take milliseconds).
const STALE_READ: i64 = 5_000_000;
/// Most writes since an edit of ours of which the records still have to tell.
const MAX_UNPROVEN: usize = 64;
/// Most lines that may have left the file in them.
const MAX_GONE: usize = 256;

/// What a version did to the lines that were there before.
struct Loss {
  /// It took none away, and changed neither their places nor the blocks that they stand in.
  only_adds: bool,
  /// Hashes of those that are not there any more.
  gone: Vec<[u8; 8]>,
}

impl View {
  /// What happened to the lines that were there before; `None` where blocks were moved, or came back.
  fn loss(&self) -> Option<Loss> {
    let is_there = |known: &usize| self.facts.known.get(*known).is_some_and(|one| !one.former);
    let mut only_adds = !self.comparison.removed.iter().any(is_there);
    for fate in &self.comparison.fates {
      match fate {
        Fate::Unchanged { known } if is_there(known) => {}
        Fate::Edited { known, .. } if is_there(known) => only_adds = false,
        Fate::Inserted => {}
        Fate::Unchanged { .. } | Fate::Moved { .. } | Fate::Edited { .. } => return None,
      }
    }
    let mut left: HashMap<[u8; 8], usize> = HashMap::new();
    for line in self.document.blocks().iter().flat_map(|block| &block.lines) {
      *left.entry(line.hash).or_default() += 1;
    }
    let blank = line_hash(b"");
    let known = self.facts.known.iter().filter(|block| !block.former);
    let mut gone = Vec::new();
    for line in known.flat_map(|block| &block.lines).filter(|line| line.hash != blank) {
      match left.get_mut(&line.hash) {
        Some(n) if *n > 0 => *n -= 1,
        _ => gone.push(line.hash),
      }
    }
    Some(Loss { only_adds, gone })
  }
}

impl<F: Fs> Engine<F> {
  /// Notes how the records stand to a version that was looked at, and whether its write cost the file its
  /// class; if all of that write has left the file already, the class goes back.
  pub(super) fn note_write(
    &mut self,
    target: &Target,
    view: &View,
    at: i64,
  ) -> Result<(), EngineError> {
    let path = target.path();
    let Some((recorded, class)) = self.on_record(target) else { return Ok(()) };
    let before = self.ledger.noted(&path)?;
    if let Some(before) = before.as_ref().filter(|before| before.version == view.hash) {
      // A record of what has still to be written says nothing about this version.
      let is_about = recorded == Some(view.hash);
      let is_news = is_about || !before.is_about_file();
      if is_news && (before.recorded, &before.class) != (recorded, &class) {
        // A person may have given it another class.
        let dropped = self.agent.classes().map(|classes| classes.dropped);
        let fall = before.fall.clone().filter(|_| !is_about || class.as_deref() == dropped);
        self.ledger.note(&path, &AgentRecord { recorded, class, fall, ..before.clone() })?;
      }
      return self.class_back(target);
    }
    let base = view.origin.trail.sighting.map_or(view.hash, |seen| seen.version);
    let edited_at = (base != view.hash).then_some(at);
    let mut noted =
      AgentRecord { version: view.hash, base, recorded, class, edited_at, fall: None };
    noted.fall = before.and_then(|before| self.fall(&before, &noted, view, at));
    self.ledger.note(&path, &noted)?;
    self.class_back(target)
  }

  /// Notes how the records stand to a file that was there before memfw. Only of those at the top of a
  /// workspace, which a framework loads: a first scan sees thousands of notes.
  pub(super) fn note_adopted(
    &mut self,
    target: &Target,
    version: ContentHash,
  ) -> Result<(), EngineError> {
    if target.rel.components().count() > 1 {
      return Ok(());
    }
    let Some((recorded, class)) = self.on_record(target) else { return Ok(()) };
    let noted =
      AgentRecord { version, base: version, recorded, class, edited_at: None, fall: None };
    Ok(self.ledger.note(&target.path(), &noted)?)
  }

  /// Hash and class on record, `None` each where there is no record; nothing where it cannot be read.
  fn on_record(&self, target: &Target) -> Option<(Option<ContentHash>, Option<String>)> {
    match self.agent.standing(&target.root, &target.rel) {
      Standing::Unreadable(_) => None,
      Standing::NoRecord => Some((None, None)),
      Standing::Recorded { hash, class } => Some((Some(hash), class)),
    }
  }

  /// Whether the write that made a version cost the file its class, and that could go back. Where a tool
  /// has put its next write on record already, that is not known yet, but what led there is kept.
  fn fall(
    &self,
    before: &AgentRecord,
    now: &AgentRecord,
    view: &View,
    at: i64,
  ) -> Option<ClassDowngrade> {
    let dropped = self.agent.classes()?.dropped;
    let is_ahead = now.is_behind() && now.recorded != before.recorded;
    let is_dropped = now.is_about_file() && now.class.as_deref() == Some(dropped);
    if !is_ahead && !is_dropped {
      return None;
    }
    let mut fall = before.open_fall().or_else(|| self.upright(before, at))?;
    let loss = view.loss()?;
    fall.version = now.base;
    fall.unproven.push(now.base);
    fall.only_adds &= loss.only_adds;
    // A version in between may not have been recorded, and its losses be counted with the next one.
    let new = loss.gone.into_iter().filter(|hash| !fall.gone.contains(hash));
    let new: Vec<[u8; 8]> = new.collect();
    fall.gone.extend(new);
    fall.after_edit |= is_ahead && now.edited_at.is_some();
    let is_short = fall.unproven.len() <= MAX_UNPROVEN && fall.gone.len() <= MAX_GONE;
    let could_go_back = fall.after_edit || fall.only_adds || is_ahead;
    (is_short && could_go_back).then_some(fall)
  }

  /// What a fall from here starts with; `None` where the file has no class to lose.
  fn upright(&self, noted: &AgentRecord, at: i64) -> Option<ClassDowngrade> {
    let full = self.agent.classes()?.full;
    let has_all = match &noted.class {
      // A first write gives it all, so without a record there is nothing to lose but that.
      None => noted.recorded.is_none(),
      Some(class) => class == full && noted.is_about_file(),
    };
    has_all.then(|| ClassDowngrade {
      version: noted.base,
      former: full.to_owned(),
      after_edit: noted.edited_at.is_some_and(|edited| at.saturating_sub(edited) <= STALE_READ),
      only_adds: true,
      unproven: vec![],
      gone: vec![],
    })
  }

  /// Notes an edit of ours, and whether the record has followed it.
  pub(super) fn note_edit(
    &mut self,
    target: &Target,
    before: ContentHash,
    after: ContentHash,
    followed: bool,
  ) -> Result<(), EngineError> {
    let path = target.path();
    let Some(noted) = self.ledger.noted(&path)?.filter(|noted| noted.version == before) else {
      return Ok(());
    };
    let at = self.now();
    let fall = if followed {
      noted.fall.clone()
    } else {
      // The next write will cost the file its class, and it will have been our edit.
      let fall = noted.open_fall().or_else(|| self.upright(&noted, at));
      fall.map(|fall| ClassDowngrade { after_edit: true, ..fall })
    };
    let recorded = if followed { Some(after) } else { noted.recorded };
    let noted = AgentRecord { version: after, recorded, edited_at: Some(at), fall, ..noted };
    Ok(self.ledger.note(&path, &noted)?)
  }

  /// Lets the record follow edits of ours that it could not follow when they were made, once it can be read. It
  /// follows only from the version that they began with, so nothing of anybody else's goes along.
  pub(super) fn follow_late(&mut self, target: &Target) -> Result<(), EngineError> {
    let key = format!("agent-record:{}", super::event::shown(&target.path()));
    if self.ledger.health(&format!("{}{key}", super::DEGRADED))?.is_none() {
      return Ok(());
    }
    let noted = self.ledger.noted(&target.path())?;
    let Some(noted) = noted.filter(|noted| noted.edited_at.is_some() && !noted.is_about_file())
    else {
      return self.recovered(&key);
    };
    match self.agent.follow(&target.root, &target.rel, noted.base, noted.version, None) {
      Followed::Failed(why) => self.degrade(&key, &why),
      Followed::NotOurs => self.recovered(&key),
      Followed::Yes => {
        // What the next write would have cost is not lost any more.
        let fall = noted.fall.clone().filter(|fall| !fall.unproven.is_empty());
        let recorded = Some(noted.version);
        self.ledger.note(&target.path(), &AgentRecord { recorded, fall, ..noted })?;
        self.recovered(&key)
      }
    }
  }

  /// Lets the class go back where something of the write that cost it was taken out, and nothing of it is
  /// left that nobody has reviewed.
  pub(super) fn class_back(&mut self, target: &Target) -> Result<(), EngineError> {
    let path = target.path();
    let Some(noted) = self.ledger.noted(&path)?.filter(AgentRecord::is_about_file) else {
      return Ok(());
    };
    let is_one = |fall: &ClassDowngrade| fall.only_adds && fall.unproven == [fall.version];
    let Some(fall) = noted.fall.clone().filter(is_one) else { return Ok(()) };
    let Some((row, blocks)) = self.ledger.provenance(&path)? else { return Ok(()) };
    let lenient = self.config.agent_follow == Follow::Validated;
    if row.hash != Some(noted.version)
      || !(lenient || self.ledger.was_taken_from(&path, fall.version)?)
      || blocks.iter().any(|block| is_left(block, fall.version, lenient))
    {
      return Ok(());
    }
    self.give_back(target, noted, &fall.former)
  }

  /// Lets the class go back where the framework saw nothing foreign in the turn that wrote a version, and
  /// an edit of ours came right before it: that was all that it can have stumbled over.
  pub(super) fn clear_of_us(
    &mut self,
    target: &Target,
    visit: &VersionQuery,
    answer: &Answer,
  ) -> Result<(), EngineError> {
    if answer.clean_turn != Some(true) || answer.outlook != Outlook::Final {
      return Ok(());
    }
    let Some(noted) = self.ledger.noted(&target.path())? else { return Ok(()) };
    let version = visit.sighting.version;
    let is_of_it = |fall: &ClassDowngrade| fall.unproven.contains(&version);
    let Some(mut fall) = noted.fall.clone().filter(is_of_it) else { return Ok(()) };
    // Every line of it has to be the tool's own, or somebody else's would go along.
    let is_whole = self.is_all_of(target, visit)?;
    if !is_whole || !answer.attributions.iter().all(is_written_by_tool) {
      return Ok(());
    }
    fall.unproven.retain(|unproven| *unproven != version);
    for line in &answer.replaced {
      // A line that stood there twice has to be taken out twice.
      let hash = line_hash(line.as_bytes());
      if let Some(index) = fall.gone.iter().position(|gone| *gone == hash) {
        fall.gone.swap_remove(index);
      }
    }
    let is_shown = fall.unproven.is_empty() && fall.gone.is_empty();
    if noted.is_about_file() && fall.after_edit && is_shown {
      return self.give_back(target, noted, &fall.former);
    }
    Ok(self.ledger.note(&target.path(), &AgentRecord { fall: Some(fall), ..noted })?)
  }

  /// Whether a question was about all text that was first seen in its version.
  fn is_all_of(&self, target: &Target, visit: &VersionQuery) -> Result<bool, EngineError> {
    let Some((_, blocks)) = self.ledger.provenance(&target.path())? else { return Ok(false) };
    let asked = |block: &BlockRow, number| {
      visit.pieces.iter().any(|piece| piece.of == Subject::Revision(block.id.clone(), number))
    };
    let of_it = |one: &&crate::store::Revision| {
      one.trail.sighting.map(|seen| seen.version) == Some(visit.sighting.version)
    };
    Ok(blocks.iter().all(|block| block.live().filter(of_it).all(|one| asked(block, one.number))))
  }

  fn give_back(
    &mut self,
    target: &Target,
    noted: AgentRecord,
    class: &str,
  ) -> Result<(), EngineError> {
    let (root, rel) = (&target.root, &target.rel);
    let key = format!("agent-record:{}", super::event::shown(&target.path()));
    match self.agent.follow(root, rel, noted.version, noted.version, Some(class)) {
      Followed::Failed(why) => self.degrade(&key, &why),
      Followed::NotOurs => Ok(()),
      Followed::Yes => {
        let noted = AgentRecord { class: Some(class.to_owned()), fall: None, ..noted };
        self.ledger.note(&target.path(), &noted)?;
        self.recovered(&key)
      }
    }
  }
}

/// Whether a block still has a line of a write that nobody has reviewed. To be judged is enough only where
/// the configuration says so.
fn is_left(block: &BlockRow, version: ContentHash, lenient: bool) -> bool {
  block.live().any(|revision| {
    let is_of_it = revision.trail.sighting.map(|seen| seen.version) == Some(version);
    let is_reviewed = block.state == State::Approved
      || revision.approved
      || lenient && block.state == State::Validated && !revision.trail.due;
    is_of_it && !is_reviewed
  })
}

/// Whether a text is what a call of the framework's own tools wrote.
fn is_written_by_tool(said: &Attribution) -> bool {
  said.attestation >= Attestation::ToolObserved
    && said.evidence.written.is_some()
    && !matches!(said.source.kind(), "unknown" | "external-edit")
}
