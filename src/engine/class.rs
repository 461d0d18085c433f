//! How far the agent framework trusts a file (its class), and when a class returns after an edit of
//! memfw.
//!
//! A framework may lower the class of a file because of a tainted write of its own, or because it had
//! read a version that memfw edited. The class returns in only two cases: all text of the write that
//! caused the downgrade has left the file again, or the edit of memfw was all that the framework saw.
//!
//! Invariant: the framework never trusts a file further than it would without memfw's edits if the text
//! that memfw took out had never been written, unless a person or the configuration says so. So a class
//! returns only to one that was on record for exactly the lines that are left and only across one
//! foreign write, or where the records show for each write since an edit of memfw that the framework's
//! own tools made all of it.
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
  store::{AgentRecord, BlockRow, ClassDowngrade, StateKey},
};

/// How long after an edit of memfw a tool may write text based on an older version, in microseconds: a
/// tool reads and writes within one call (a choice; measured calls take milliseconds).
const STALE_READ: i64 = 5_000_000;
/// The most writes since an edit of memfw that wait for an answer of the records.
const MAX_UNPROVEN: usize = 64;
/// The most lines that may have left the file in those writes.
const MAX_GONE: usize = 256;

/// What a version changed in the lines of the version before it.
struct Loss {
  /// Whether it removed no line, and changed neither the order nor the blocks of the lines.
  only_adds: bool,
  /// Hashes of the removed lines.
  gone: Vec<[u8; 8]>,
}

impl View {
  /// What happened to the former lines; `None` where blocks were moved, or came back.
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
  /// Notes the agent record for a version that was scanned, and whether its write caused a class
  /// downgrade. If all of that write has left the file already, the class returns.
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
      // A record of a write that is still to come says nothing about this version.
      let is_about = recorded == Some(view.hash);
      let is_news = is_about || !before.is_about_file();
      if is_news && (before.recorded, &before.class) != (recorded, &class) {
        // A person may have given the file another class.
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

  /// Notes the agent record of a file from before memfw, only at the top of a workspace. A framework
  /// loads these files; a first scan sees thousands of others.
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

  /// Hash and class on record, each `None` without a record; the outer `None` where the record cannot
  /// be read.
  fn on_record(&self, target: &Target) -> Option<(Option<ContentHash>, Option<String>)> {
    match self.agent.standing(&target.root, &target.rel) {
      Standing::Unreadable(_) => None,
      Standing::NoRecord => Some((None, None)),
      Standing::Recorded { hash, class } => Some((Some(hash), class)),
    }
  }

  /// The class downgrade that the write of a version caused, if the class could return. A tool may have
  /// put its next write on record already; then the cause is not known yet, but the history is kept.
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
    // A version in between may not have been recorded; its removed lines are counted with the next
    // version.
    let new = loss.gone.into_iter().filter(|hash| !fall.gone.contains(hash));
    let new: Vec<[u8; 8]> = new.collect();
    fall.gone.extend(new);
    fall.after_edit |= is_ahead && now.edited_at.is_some();
    let is_short = fall.unproven.len() <= MAX_UNPROVEN && fall.gone.len() <= MAX_GONE;
    let could_go_back = fall.after_edit || fall.only_adds || is_ahead;
    (is_short && could_go_back).then_some(fall)
  }

  /// The start of a class downgrade from this record; `None` where the file has no class to lose.
  fn upright(&self, noted: &AgentRecord, at: i64) -> Option<ClassDowngrade> {
    let full = self.agent.classes()?.full;
    let has_all = match &noted.class {
      // A first write gives a file the full class, so a file without a record can lose that.
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

  /// Notes an edit of memfw, and whether the record has followed it.
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
      // The next write will cost the file its class, because of memfw's edit.
      let fall = noted.open_fall().or_else(|| self.upright(&noted, at));
      fall.map(|fall| ClassDowngrade { after_edit: true, ..fall })
    };
    let recorded = if followed { Some(after) } else { noted.recorded };
    let noted = AgentRecord { version: after, recorded, edited_at: Some(at), fall, ..noted };
    Ok(self.ledger.note(&path, &noted)?)
  }

  /// Makes the record follow earlier edits of memfw, once the record can be read. It follows only from
  /// the version before those edits, so no foreign text gains trust.
  pub(super) fn follow_late(&mut self, target: &Target) -> Result<(), EngineError> {
    let key = format!("agent-record:{}", super::event::shown(&target.path()));
    if self.ledger.state(&StateKey::degraded(key.as_str()))?.is_none() {
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
        // The downgrade that the next write would have caused cannot happen any more.
        let fall = noted.fall.clone().filter(|fall| !fall.unproven.is_empty());
        let recorded = Some(noted.version);
        self.ledger.note(&target.path(), &AgentRecord { recorded, fall, ..noted })?;
        self.recovered(&key)
      }
    }
  }

  /// Gives the class back when something of the write that caused the downgrade was taken out, and no
  /// line of that write without a review is left.
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

  /// Gives the class back when the framework read nothing foreign in the turn that wrote a version, and
  /// an edit of memfw came right before it: only that edit can have caused the downgrade.
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
    // Every line of the version must come from the tool, or foreign text would gain trust.
    let is_whole = self.is_all_of(target, visit)?;
    if !is_whole || !answer.attributions.iter().all(is_written_by_tool) {
      return Ok(());
    }
    fall.unproven.retain(|unproven| *unproven != version);
    for line in &answer.replaced {
      // A line that was in the file twice must be removed twice.
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

  /// Whether a question covered all text that was first seen in its version.
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

/// Whether a block still has a line of a write that no person has reviewed. A judgement counts as a
/// review only where the configuration says so.
fn is_left(block: &BlockRow, version: ContentHash, lenient: bool) -> bool {
  block.live().any(|revision| {
    let is_of_it = revision.trail.sighting.map(|seen| seen.version) == Some(version);
    let is_reviewed = block.state == State::Approved
      || revision.approved
      || lenient && block.state == State::Validated && !revision.trail.due;
    is_of_it && !is_reviewed
  })
}

/// Whether a text was written by a call of the framework's own tools.
fn is_written_by_tool(said: &Attribution) -> bool {
  said.attestation >= Attestation::ToolObserved
    && said.evidence.written.is_some()
    && !matches!(said.source.kind(), "unknown" | "external-edit")
}
