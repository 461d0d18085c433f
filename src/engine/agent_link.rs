//! The connection to the agent framework's records: how they follow edits of memfw, how far the
//! framework trusts a file (its class), and when a class returns after an edit of
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

use std::{collections::HashMap, sync::Arc};

use super::{
  EngineError, Target,
  attribution_request::{Subject, VersionQuery},
  degraded,
};
use crate::{
  config::{Config, Follow},
  files::Stamp,
  judging::view::View,
  memory::{ContentHash, Fate, LineHash, line::line_hash},
  os::Clock,
  provenance::{
    AgentRecords, Answer, Attestation, Attribution, Followed, Outlook, Standing, State,
  },
  store::{AgentRecord, BlockRow, ClassDowngrade, Ledger, PartKind, Sighting, StateKey},
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
    let mut left: HashMap<LineHash, usize> = HashMap::new();
    for line in self.document.blocks().iter().flat_map(|block| &block.lines) {
      *left.entry(line.hash).or_default() += 1;
    }
    // A removed blank line is no lost text.
    let blank = line_hash(b"");
    let known = self.facts.known.iter().filter(|block| !block.former);
    let mut gone = Vec::new();
    for line in known.flat_map(|block| &block.lines).filter(|line| line.hash != blank) {
      match left.get_mut(&line.hash) {
        Some(n) if *n > 0 => *n -= 1,
        _ => gone.push(line.hash.short()),
      }
    }
    Some(Loss { only_adds, gone })
  }
}

/// The connection to the agent framework's records.
pub(super) struct AgentLink {
  records: Arc<dyn AgentRecords>,
  clock: Arc<dyn Clock>,
  config: Arc<Config>,
}

impl AgentLink {
  /// A connection to these records.
  pub(super) fn new(
    records: Box<dyn AgentRecords>,
    clock: Arc<dyn Clock>,
    config: Arc<Config>,
  ) -> Self {
    Self { records: Arc::from(records), clock, config }
  }

  /// Replaces the configuration.
  pub(super) fn configure(&mut self, config: Arc<Config>) {
    self.config = config;
  }

  /// Replaces the records.
  pub(super) fn set_records(&mut self, records: Box<dyn AgentRecords>) {
    self.records = Arc::from(records);
  }

  pub(super) fn records(&self) -> &Arc<dyn AgentRecords> {
    &self.records
  }

  /// What the records say about a file.
  pub(super) fn standing(&self, target: &Target) -> Standing {
    self.records.standing(&target.root, &target.rel)
  }

  /// Whether the agent has exactly this version on record, so its tools may be working with it.
  pub(super) fn is_on_record(&self, target: &Target, version: ContentHash) -> bool {
    self.standing(target).is_about(version)
  }

  /// Whether memfw made this version, so that no tool verifies it. The tool that wrote the version before was waited
  /// for already.
  pub(super) fn is_own(
    ledger: &Ledger,
    target: &Target,
    version: ContentHash,
  ) -> Result<bool, EngineError> {
    let record = ledger.agent_record(&target.path())?;
    Ok(record.is_some_and(|record| record.version == version && record.edited_at.is_some()))
  }

  /// Where new text in these bytes was first seen; `None` where there are no records to ask.
  pub(super) fn sighting(
    &self,
    ledger: &Ledger,
    target: &Target,
    version: ContentHash,
    stamp: &Stamp,
  ) -> Result<Option<Sighting>, EngineError> {
    if !self.records.keeps_records() {
      return Ok(None);
    }
    let changed_at = stamp.mtime_ns / 1000;
    let record = ledger.agent_record(&target.path())?;
    let ours = record.filter(|record| record.version == version && record.edited_at.is_some());
    let Some(AgentRecord { base, .. }) = ours else {
      return Ok(Some(Sighting { version, changed_at }));
    };
    // Unknown text in a version by memfw was restored by a person, or is a rest of memfw's edit.
    if ledger.file(&target.path())?.is_some_and(|row| row.hash == Some(base)) {
      return Ok(None);
    }
    let mut due = ledger.due_items(&target.path())?.into_iter().map(|item| item.sighting);
    let taken = due.find(|sighting| sighting.version == base);
    Ok(Some(taken.unwrap_or(Sighting { version: base, changed_at })))
  }

  /// Makes the record follow an edit of memfw. A failure is reported, but is no reason to stop.
  pub(super) fn follow(
    &self,
    ledger: &mut Ledger,
    target: &Target,
    before: ContentHash,
    after: ContentHash,
  ) -> Result<(), EngineError> {
    let followed = self.records.follow(&target.root, &target.rel, before, after, None);
    self.note_edit(ledger, target, before, after, followed == Followed::Yes)?;
    match followed {
      Followed::Failed(why) => self.degrade(ledger, target, &why),
      Followed::Yes => self.recovered(ledger, target),
      Followed::NotOurs => Ok(()),
    }
  }

  /// Notes that the record of a file could not follow an edit of memfw.
  fn degrade(&self, ledger: &mut Ledger, target: &Target, why: &str) -> Result<(), EngineError> {
    Ok(degraded::degrade(ledger, target.part(PartKind::AgentRecord), why, self.clock.now())?)
  }

  /// Notes that the record of a file follows edits of memfw again.
  fn recovered(&self, ledger: &mut Ledger, target: &Target) -> Result<(), EngineError> {
    Ok(degraded::recovered(ledger, target.part(PartKind::AgentRecord), self.clock.now())?)
  }

  /// Notes the agent record for a version that was scanned, and whether its write caused a class
  /// downgrade. If all of that write has left the file already, the class returns.
  pub(super) fn note_write(
    &self,
    ledger: &mut Ledger,
    target: &Target,
    view: &View,
    at: i64,
  ) -> Result<(), EngineError> {
    let path = target.path();
    let Some((recorded, class)) = self.on_record(target) else { return Ok(()) };
    let before = ledger.agent_record(&path)?;
    if let Some(before) = before.as_ref().filter(|before| before.version == view.hash) {
      // A record of a write that is still to come says nothing about this version.
      let is_about = recorded == Some(view.hash);
      let is_news = is_about || !before.is_about_file();
      if is_news && (before.recorded, &before.class) != (recorded, &class) {
        // A person may have given the file another class.
        let dropped = self.records.classes().map(|classes| classes.dropped);
        let downgrade =
          before.downgrade.clone().filter(|_| !is_about || class.as_deref() == dropped);
        ledger
          .set_agent_record(&path, &AgentRecord { recorded, class, downgrade, ..before.clone() })?;
      }
      return self.class_back(ledger, target);
    }
    let base = view.origin.trail.sighting.map_or(view.hash, |seen| seen.version);
    let edited_at = (base != view.hash).then_some(at);
    let mut record =
      AgentRecord { version: view.hash, base, recorded, class, edited_at, downgrade: None };
    record.downgrade = before.and_then(|before| self.downgrade(&before, &record, view, at));
    ledger.set_agent_record(&path, &record)?;
    self.class_back(ledger, target)
  }

  /// Notes the agent record of a file from before memfw, only at the top of a workspace. A framework
  /// loads these files; a first scan sees thousands of others.
  pub(super) fn note_adopted(
    &self,
    ledger: &mut Ledger,
    target: &Target,
    version: ContentHash,
  ) -> Result<(), EngineError> {
    if target.rel.components().count() > 1 {
      return Ok(());
    }
    let Some((recorded, class)) = self.on_record(target) else { return Ok(()) };
    let record =
      AgentRecord { version, base: version, recorded, class, edited_at: None, downgrade: None };
    Ok(ledger.set_agent_record(&target.path(), &record)?)
  }

  /// Hash and class on record, each `None` without a record; the outer `None` where the record cannot
  /// be read.
  fn on_record(&self, target: &Target) -> Option<(Option<ContentHash>, Option<String>)> {
    match self.standing(target) {
      Standing::Unreadable(_) => None,
      Standing::NoRecord => Some((None, None)),
      Standing::Recorded { hash, class } => Some((Some(hash), class)),
    }
  }

  /// The class downgrade that the write of a version caused, if the class could return. A tool may have
  /// put its next write on record already; then the cause is not known yet, but the history is kept.
  fn downgrade(
    &self,
    before: &AgentRecord,
    now: &AgentRecord,
    view: &View,
    at: i64,
  ) -> Option<ClassDowngrade> {
    let dropped = self.records.classes()?.dropped;
    let is_ahead = now.is_behind() && now.recorded != before.recorded;
    let is_dropped = now.is_about_file() && now.class.as_deref() == Some(dropped);
    if !is_ahead && !is_dropped {
      return None;
    }
    let mut downgrade = before.open_downgrade().or_else(|| self.new_downgrade(before, at))?;
    let loss = view.loss()?;
    downgrade.version = now.base;
    downgrade.unproven.push(now.base);
    downgrade.only_adds &= loss.only_adds;
    // A version in between may not have been recorded; its removed lines are counted with the next
    // version.
    let new = loss.gone.into_iter().filter(|hash| !downgrade.gone.contains(hash));
    let new: Vec<[u8; 8]> = new.collect();
    downgrade.gone.extend(new);
    downgrade.after_edit |= is_ahead && now.edited_at.is_some();
    let is_short = downgrade.unproven.len() <= MAX_UNPROVEN && downgrade.gone.len() <= MAX_GONE;
    let could_go_back = downgrade.after_edit || downgrade.only_adds || is_ahead;
    (is_short && could_go_back).then_some(downgrade)
  }

  /// The start of a class downgrade from this record; `None` where the file has no class to lose.
  fn new_downgrade(&self, record: &AgentRecord, at: i64) -> Option<ClassDowngrade> {
    let full = self.records.classes()?.full;
    let has_all = match &record.class {
      // A first write gives a file the full class, so a file without a record can lose that.
      None => record.recorded.is_none(),
      Some(class) => class == full && record.is_about_file(),
    };
    has_all.then(|| ClassDowngrade {
      version: record.base,
      former: full.to_owned(),
      after_edit: record.edited_at.is_some_and(|edited| at.saturating_sub(edited) <= STALE_READ),
      only_adds: true,
      unproven: vec![],
      gone: vec![],
    })
  }

  /// Notes an edit of memfw, and whether the record has followed it.
  pub(super) fn note_edit(
    &self,
    ledger: &mut Ledger,
    target: &Target,
    before: ContentHash,
    after: ContentHash,
    followed: bool,
  ) -> Result<(), EngineError> {
    let path = target.path();
    let Some(record) = ledger.agent_record(&path)?.filter(|record| record.version == before) else {
      return Ok(());
    };
    let at = self.clock.now();
    let downgrade = if followed {
      record.downgrade.clone()
    } else {
      // The next write will cost the file its class, because of memfw's edit.
      let downgrade = record.open_downgrade().or_else(|| self.new_downgrade(&record, at));
      downgrade.map(|downgrade| ClassDowngrade { after_edit: true, ..downgrade })
    };
    let recorded = if followed { Some(after) } else { record.recorded };
    let record = AgentRecord { version: after, recorded, edited_at: Some(at), downgrade, ..record };
    Ok(ledger.set_agent_record(&path, &record)?)
  }

  /// Makes the record follow earlier edits of memfw, once the record can be read. It follows only from
  /// the version before those edits, so no foreign text gains trust.
  pub(super) fn follow_late(
    &self,
    ledger: &mut Ledger,
    target: &Target,
  ) -> Result<(), EngineError> {
    if ledger.state(&StateKey::degraded(target.part(PartKind::AgentRecord)))?.is_none() {
      return Ok(());
    }
    let record = ledger.agent_record(&target.path())?;
    let Some(record) =
      record.filter(|record| record.edited_at.is_some() && !record.is_about_file())
    else {
      return self.recovered(ledger, target);
    };
    match self.records.follow(&target.root, &target.rel, record.base, record.version, None) {
      Followed::Failed(why) => self.degrade(ledger, target, &why),
      Followed::NotOurs => self.recovered(ledger, target),
      Followed::Yes => {
        // The downgrade that the next write would have caused cannot happen any more.
        let downgrade = record.downgrade.clone().filter(|downgrade| !downgrade.unproven.is_empty());
        let recorded = Some(record.version);
        ledger.set_agent_record(&target.path(), &AgentRecord { recorded, downgrade, ..record })?;
        self.recovered(ledger, target)
      }
    }
  }

  /// Gives the class back when something of the write that caused the downgrade was taken out, and no
  /// line of that write without a review is left.
  pub(super) fn class_back(&self, ledger: &mut Ledger, target: &Target) -> Result<(), EngineError> {
    let path = target.path();
    let Some(record) = ledger.agent_record(&path)?.filter(AgentRecord::is_about_file) else {
      return Ok(());
    };
    // Across several writes, or after a removal, the lines that are left are not those that had the
    // class.
    let is_one =
      |downgrade: &ClassDowngrade| downgrade.only_adds && downgrade.unproven == [downgrade.version];
    let Some(downgrade) = record.downgrade.clone().filter(is_one) else { return Ok(()) };
    let Some((row, blocks)) = ledger.provenance(&path)? else { return Ok(()) };
    let lenient = self.config.agent_follow == Follow::Validated;
    if row.hash != Some(record.version)
      || !(lenient || ledger.was_taken_from(&path, downgrade.version)?)
      || blocks.iter().any(|block| is_left(block, downgrade.version, lenient))
    {
      return Ok(());
    }
    self.give_back(ledger, target, record, &downgrade.former)
  }

  /// Gives the class back when the framework read nothing foreign in the turn that wrote a version, and
  /// an edit of memfw came right before it: only that edit can have caused the downgrade.
  pub(super) fn clear_of_us(
    &self,
    ledger: &mut Ledger,
    target: &Target,
    query: &VersionQuery,
    answer: &Answer,
  ) -> Result<(), EngineError> {
    if answer.clean_turn != Some(true) || answer.outlook != Outlook::Final {
      return Ok(());
    }
    let Some(record) = ledger.agent_record(&target.path())? else { return Ok(()) };
    let version = query.sighting.version;
    let is_of_it = |downgrade: &ClassDowngrade| downgrade.unproven.contains(&version);
    let Some(mut downgrade) = record.downgrade.clone().filter(is_of_it) else { return Ok(()) };
    // Every line of the version must come from the tool, or foreign text would gain trust.
    let is_whole = is_all_of(ledger, target, query)?;
    if !is_whole || !answer.attributions.iter().all(is_written_by_tool) {
      return Ok(());
    }
    downgrade.unproven.retain(|unproven| *unproven != version);
    for line in &answer.replaced {
      // A line that was in the file twice must be removed twice.
      let hash = line_hash(line.as_bytes()).short();
      if let Some(index) = downgrade.gone.iter().position(|gone| *gone == hash) {
        downgrade.gone.swap_remove(index);
      }
    }
    let is_shown = downgrade.unproven.is_empty() && downgrade.gone.is_empty();
    // Without an edit of memfw before the write, the framework had a reason of its own.
    if record.is_about_file() && downgrade.after_edit && is_shown {
      return self.give_back(ledger, target, record, &downgrade.former);
    }
    Ok(
      ledger
        .set_agent_record(&target.path(), &AgentRecord { downgrade: Some(downgrade), ..record })?,
    )
  }

  fn give_back(
    &self,
    ledger: &mut Ledger,
    target: &Target,
    record: AgentRecord,
    class: &str,
  ) -> Result<(), EngineError> {
    let (root, rel) = (&target.root, &target.rel);
    match self.records.follow(root, rel, record.version, record.version, Some(class)) {
      Followed::Failed(why) => self.degrade(ledger, target, &why),
      Followed::NotOurs => Ok(()),
      Followed::Yes => {
        let record = AgentRecord { class: Some(class.to_owned()), downgrade: None, ..record };
        ledger.set_agent_record(&target.path(), &record)?;
        self.recovered(ledger, target)
      }
    }
  }
}

/// Whether a question covered all text that was first seen in its version.
fn is_all_of(ledger: &Ledger, target: &Target, query: &VersionQuery) -> Result<bool, EngineError> {
  let Some((_, blocks)) = ledger.provenance(&target.path())? else { return Ok(false) };
  let asked = |block: &BlockRow, number| {
    query.pieces.iter().any(|piece| piece.of == Subject::Revision(block.id.clone(), number))
  };
  let of_it = |one: &&crate::store::Revision| {
    one.trail.sighting.map(|seen| seen.version) == Some(query.sighting.version)
  };
  Ok(blocks.iter().all(|block| block.live().filter(of_it).all(|one| asked(block, one.number))))
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
