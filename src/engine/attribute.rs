//! Who wrote it: what was seen for the first time is asked about in the agent's records, after whatever
//! had to leave its file has left it.
//!
//! Three steps, so that the middle one may take its time elsewhere: [`Engine::asking`] gathers the text,
//! [`AttributionRequest::ask`] asks the records, [`Engine::answered`] writes down what they said, has policy decide
//! once more where the source is news to it, and says whether to ask again. No lease is held meanwhile.
//!
//! Invariant: only what the records say changes a source, and what is asked about is kept in the ledger
//! alone, so a restart asks again.
#![forbid(unsafe_code)]

use std::{
  path::{Path, PathBuf},
  time::Duration,
};

use zeroize::Zeroizing;

use super::{Engine, EngineError, Event, EventKind, Target, event::shown, origin::Origin};
use crate::{
  files::{Fs, Stamp},
  memory::{BlockId, ContentHash},
  provenance::{AgentRecords, Answer, Attribution, Outlook, Question, Remembered, Request, Trust},
  store::{
    AgentRecord, AttributionRecord, BlockRow, FileStatus, ItemOrigin, OriginRecord, Pending,
    Sighting, StoreError,
  },
};

/// How long an answer may still come. An agent writes its tool calls down within seconds, and the result of
/// a slow one when it is done; after this time what there is is taken (a choice: markers wait for it).
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The same where nothing on record did it and no call is under way: an agent notes its calls before it makes
/// them.
const PATIENCE_UNSEEN: Duration = Duration::from_secs(4);

/// How it stands with asking about one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attributing {
  /// Nothing is due any more. Whether markers are to be renewed.
  Done {
    /// They are, when the file is idle.
    reshape_due: bool,
  },
  /// The write is not on record yet: ask again.
  Later,
  /// The file is not what the ledger knows, or somebody uses it: again, soon.
  NotNow,
  /// The records cannot be read; `status` says so. Asked again when the file changes, at a start, and after a while.
  Unreadable,
}

/// What is asked about at one time: all that is due in one file.
#[derive(Debug)]
pub struct AttributionRequest {
  root: PathBuf,
  rel: PathBuf,
  /// The version of the file in which its text stands, with its bytes; none where nothing in it is due.
  pub(super) file: Option<(ContentHash, Vec<u8>)>,
  pub(super) visits: Vec<VersionQuery>,
  /// What else stands in the memory of the workspace, where its origin is known.
  memory: Vec<Remembered>,
  /// Devices of the owner's.
  owner_devices: Vec<String>,
  /// Items whose bytes cannot be had any more.
  lost: Vec<BlockId>,
}

/// What was first seen in one version.
#[derive(Debug)]
pub(super) struct VersionQuery {
  pub(super) sighting: Sighting,
  on_record: ContentHash,
  pub(super) seen_at: i64,
  pub(super) pieces: Vec<Piece>,
}

/// One text.
#[derive(Debug)]
pub(super) struct Piece {
  pub(super) of: Subject,
  text: Zeroizing<Vec<u8>>,
}

/// Where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Subject {
  /// In its file: a block, and the number of its revision.
  Revision(BlockId, u32),
  /// In quarantine.
  Item(BlockId),
}

impl AttributionRequest {
  /// Asks; one answer for each version.
  pub fn ask(&self, agent: &dyn AgentRecords) -> Vec<Answer> {
    let ask = |visit: &VersionQuery| {
      let texts: Vec<&[u8]> = visit.pieces.iter().map(|piece| piece.text.as_slice()).collect();
      agent.attribute(&Question {
        workspace: &self.root,
        file: &self.rel,
        version: visit.sighting.version,
        on_record: visit.on_record,
        seen_at: visit.seen_at,
        changed_at: visit.sighting.changed_at,
        memory: &self.memory,
        owner_devices: &self.owner_devices,
        texts: &texts,
      })
    };
    self.visits.iter().map(ask).collect()
  }

  /// The answers where the records could not be asked; the text says why.
  pub fn unreadable(&self, why: &str) -> Vec<Answer> {
    let answer = |_: &VersionQuery| Answer {
      attributions: vec![],
      outlook: Outlook::Unreadable(why.to_owned()),
      clean_turn: None,
      replaced: vec![],
    };
    self.visits.iter().map(answer).collect()
  }

  fn push(&mut self, sighting: Sighting, seen_at: i64, piece: Piece) {
    if let Some(visit) = self.visits.iter_mut().find(|visit| visit.sighting == sighting) {
      visit.seen_at = visit.seen_at.min(seen_at);
      visit.pieces.push(piece);
      return;
    }
    let on_record = sighting.version;
    self.visits.push(VersionQuery { sighting, on_record, seen_at, pieces: vec![piece] });
  }
}

/// What was said about a text, and is to be taken as it is.
pub(super) struct Attributed {
  pub(super) of: Subject,
  pub(super) sighting: Sighting,
  attribution: Attribution,
}

impl<F: Fs> Engine<F> {
  /// Asks about all that is due in a file and writes down what is said. `waited`: how long it is due
  /// already, by a clock that nobody sets.
  pub fn attribute(
    &mut self,
    target: &Target,
    waited: Duration,
  ) -> Result<Attributing, EngineError> {
    let Some(asking) = self.asking(target)? else { return Ok(Attributing::NotNow) };
    let answers = asking.ask(&*self.agent);
    self.answered(target, &asking, &answers, waited)
  }

  /// Where the record of each version is found by now.
  fn with_records(
    &self,
    mut asking: AttributionRequest,
    path: &Path,
  ) -> Result<AttributionRequest, EngineError> {
    if let Some(noted) = self.ledger.noted(path)?.filter(AgentRecord::is_about_file) {
      let visits = asking.visits.iter_mut();
      for visit in visits.filter(|visit| visit.sighting.version == noted.base) {
        visit.on_record = noted.version;
      }
    }
    Ok(asking)
  }

  /// All about which the agent's records are to be asked in a file; `None` while the file is not what the
  /// ledger knows.
  pub fn asking(&mut self, target: &Target) -> Result<Option<AttributionRequest>, EngineError> {
    let Some(mut asking) = self.gather(target)? else { return Ok(None) };
    if !asking.visits.is_empty() {
      asking.memory = self.remembered(&target.root)?;
    }
    self.with_records(asking, &target.path()).map(Some)
  }

  fn gather(&mut self, target: &Target) -> Result<Option<AttributionRequest>, EngineError> {
    let path = target.path();
    let (root, rel) = (target.root.clone(), target.rel.clone());
    let owner_devices = self.config.agent_owner_devices.clone();
    let (file, visits, memory, lost) = (None, vec![], vec![], vec![]);
    let mut asking = AttributionRequest { root, rel, file, visits, memory, owner_devices, lost };
    if !self.ledger.has_key() {
      return Ok(Some(asking));
    }
    for item in self.ledger.due_items(&path)? {
      match self.ledger.unseal(&item.id) {
        Ok(text) => {
          asking.push(item.sighting, item.seen_at, Piece { of: Subject::Item(item.id), text });
        }
        Err(StoreError::Deleted { .. } | StoreError::Unsealable { .. }) => {
          asking.lost.push(item.id);
        }
        Err(error) => return Err(error.into()),
      }
    }
    let Some((row, blocks)) = self.ledger.provenance(&path)? else { return Ok(Some(asking)) };
    let is_due = blocks.iter().any(|block| block.live().any(|one| one.trail.due));
    // What is gone is asked about when it is back.
    if !is_due || row.status != FileStatus::Watched {
      return Ok(Some(asking));
    }
    let Some(bytes) = self.read_known(target, row.hash)? else {
      // What was taken out of it is asked about all the same.
      return Ok((!asking.visits.is_empty()).then_some(asking));
    };
    let document = self.view(target, Some(&row), bytes.clone(), Origin::unknown(), None)?.document;
    for (block, text) in blocks.iter().zip(document.blocks()) {
      for revision in block.revisions.iter().filter(|one| one.trail.due) {
        let Some(sighting) = revision.trail.sighting else { continue };
        let text: Vec<u8> = lines_of(block, text, &[revision.number])
          .flat_map(|line| bytes.get(line.span.clone()).unwrap_or_default())
          .copied()
          .collect();
        if text.is_empty() {
          continue;
        }
        let of = Subject::Revision(block.id.clone(), revision.number);
        asking.push(sighting, revision.at, Piece { of, text: Zeroizing::new(text) });
      }
    }
    asking.file = row.hash.map(|hash| (hash, bytes));
    Ok(Some(asking))
  }

  /// Writes down what the agent's records said.
  pub fn answered(
    &mut self,
    target: &Target,
    asking: &AttributionRequest,
    answers: &[Answer],
    waited: Duration,
  ) -> Result<Attributing, EngineError> {
    let path = target.path();
    if !self.ledger.has_key() {
      return self.no_longer_due(target, Pending::ATTRIBUTE).map(|()| Attributing::Unreadable);
    }
    let mut said: Vec<Attributed> = Vec::new();
    let (mut later, mut unreadable) = (false, None);
    for (visit, answer) in asking.visits.iter().zip(answers) {
      match &answer.outlook {
        Outlook::Unreadable(why) => unreadable = Some(why.clone()),
        Outlook::Later if !self.is_overdue(visit.seen_at, waited, PATIENCE) => later = true,
        Outlook::Unseen if !self.is_overdue(visit.seen_at, waited, PATIENCE_UNSEEN) => {
          later = true;
        }
        Outlook::Later | Outlook::Unseen | Outlook::Final => {
          for (piece, attribution) in visit.pieces.iter().zip(&answer.attributions) {
            let (of, sighting) = (piece.of.clone(), visit.sighting);
            said.push(Attributed { of, sighting, attribution: attribution.clone() });
          }
        }
      }
    }
    let key = format!("attribution:{}", shown(&path));
    if let Some(why) = &unreadable {
      self.degrade(&key, &format!("who wrote new text cannot be told: {why}"))?;
    } else {
      self.recovered(&key)?;
      self.follow_late(target)?;
    }
    self.give_back_to_owner(target, asking, &mut said, waited)?;
    let left = !said.is_empty() || !asking.lost.is_empty() || !(later || unreadable.is_some());
    if left && !self.record_answers(target, asking, &said)? {
      return Ok(Attributing::NotNow);
    }
    for (visit, answer) in asking.visits.iter().zip(answers) {
      self.clear_of_us(target, visit, answer)?;
    }
    self.class_back(target)?;
    if later {
      return Ok(Attributing::Later);
    }
    if unreadable.is_some() {
      self.no_longer_due(target, Pending::ATTRIBUTE)?;
      return Ok(Attributing::Unreadable);
    }
    // New text may have come meanwhile.
    let row = self.ledger.file(&path)?;
    let pending = row.map_or(Pending::NONE, |row| row.pending);
    if pending.contains(Pending::ATTRIBUTE) {
      return Ok(Attributing::NotNow);
    }
    Ok(Attributing::Done { reshape_due: pending.contains(Pending::RESHAPE) })
  }

  /// Files about whose text the records are to be asked, also those whose records could not be read.
  pub fn attributions_due(&self) -> Result<Vec<Target>, EngineError> {
    let due = self.ledger.attributions_due()?.into_iter();
    Ok(
      due
        .filter_map(|(root, path)| path.strip_prefix(&root).ok().map(|rel| Target::new(&root, rel)))
        .collect(),
    )
  }

  /// Whether the records are to be asked about text of a file.
  pub fn is_attribution_pending(&self, target: &Target) -> Result<bool, EngineError> {
    let row = self.ledger.file(&target.path())?;
    Ok(row.is_some_and(|row| row.pending.contains(Pending::ATTRIBUTE)))
  }

  /// Where new text in these bytes is first seen; `None` where there are no records to ask.
  pub(super) fn sighting(
    &self,
    target: &Target,
    version: ContentHash,
    stamp: &Stamp,
  ) -> Result<Option<Sighting>, EngineError> {
    if !self.agent.keeps_records() {
      return Ok(None);
    }
    let changed_at = stamp.mtime_ns / 1000;
    let noted = self.ledger.noted(&target.path())?;
    let ours = noted.filter(|noted| noted.version == version && noted.edited_at.is_some());
    let Some(AgentRecord { base, .. }) = ours else {
      return Ok(Some(Sighting { version, changed_at }));
    };
    // What stands in a version of ours that the ledger does not know was brought back by a person, or it is
    // what was left of the version that we edited.
    if self.ledger.file(&target.path())?.is_some_and(|row| row.hash == Some(base)) {
      return Ok(None);
    }
    let mut due = self.ledger.due_items(&target.path())?.into_iter().map(|item| item.sighting);
    let taken = due.find(|sighting| sighting.version == base);
    Ok(Some(taken.unwrap_or(Sighting { version: base, changed_at })))
  }

  /// Whether the records are to be asked about text of a file whose blocks have these rows.
  pub(super) fn asking_due(&self, path: &Path, rows: &[BlockRow]) -> Result<Pending, EngineError> {
    let is_due = rows.iter().any(|row| row.live().any(|one| one.trail.due))
      || !self.ledger.due_items(path)?.is_empty();
    Ok(if is_due { Pending::ATTRIBUTE } else { Pending::NONE })
  }

  /// Whether what was seen at a time has been waited for long enough.
  pub(super) fn is_overdue(&self, seen_at: i64, waited: Duration, patience: Duration) -> bool {
    match u64::try_from(self.now().saturating_sub(seen_at)) {
      Ok(age) => Duration::from_micros(age) >= patience,
      // The clock was set back.
      Err(_) => waited >= patience,
    }
  }

  /// Leaves something due, also over a restart.
  pub fn still_due(&mut self, path: &Path, due: Pending) -> Result<(), EngineError> {
    if self.ledger.file(path)?.is_some() {
      self.ledger.change_pending(path, Pending::NONE, due)?;
    }
    Ok(())
  }

  pub(super) fn no_longer_due(
    &mut self,
    target: &Target,
    done: Pending,
  ) -> Result<(), EngineError> {
    if let Some(row) = self.ledger.file(&target.path())? {
      self.ledger.change_pending(&row.path, done, Pending::NONE)?;
    }
    Ok(())
  }

  /// Puts what was said into the ledger; `false` when the file has changed since.
  fn record_answers(
    &mut self,
    target: &Target,
    asking: &AttributionRequest,
    said: &[Attributed],
  ) -> Result<bool, EngineError> {
    let path = target.path();
    let writing = self.lock()?;
    let Some((row, blocks)) = self.ledger.provenance(&path)? else { return Ok(true) };
    if asking.file.as_ref().is_some_and(|(hash, _)| row.hash != Some(*hash)) {
      return Ok(false);
    }
    let at = self.now();
    let mut events = Vec::new();
    let mut items = Vec::new();
    let mut requests: Vec<Request> = Vec::new();
    for one in said {
      let Subject::Item(id) = &one.of else { continue };
      let origin = self.origin_of(one);
      requests.extend(origin.request.clone());
      items.push(item_origin(id, &origin));
      events.extend(self.told_of_item(target, id, &origin)?);
    }
    for id in &asking.lost {
      let item = self.ledger.item(id.as_str())?;
      let mut origin = Origin::of_item(&item);
      origin.trail.due = false;
      items.push(item_origin(id, &origin));
    }
    let mut known = super::rejudge::Known::new(blocks);
    for one in said {
      let Subject::Revision(id, number) = &one.of else { continue };
      let origin = self.origin_of(one);
      requests.extend(origin.request.clone());
      if known.fill(id, *number, one.sighting, &origin) && origin.source.kind() != "unknown" {
        events.push(Event::new(EventKind::Attributed).path(&path).block(id).of(&origin));
      }
    }
    known.forget_dead();
    let verdicts = match &asking.file {
      Some((_, bytes)) => self.judge_again(target, &row, bytes, &mut known, &writing)?,
      None => vec![],
    };
    let rows = known.rows();
    // Items that came meanwhile are asked about next time.
    let is_there = row.status == FileStatus::Watched;
    let still = is_there && rows.iter().any(|row| row.live().any(|one| one.trail.due))
      || self.ledger.due_items(&path)?.iter().any(|due| !items.iter().any(|one| one.id == due.id));
    let mut due = if still { Pending::ATTRIBUTE } else { Pending::NONE };
    if known.unread {
      // It may have been read before, while nobody knew whose words it is.
      due = due | Pending::MODEL;
    }
    if !said.is_empty() && self.is_judged_by_model(target) {
      due = due | Pending::JUDGE;
    }
    if let Some((_, bytes)) = &asking.file
      && verdicts.is_empty()
      && self.is_marking_due(target, &row, bytes, &rows)?
    {
      due = due | Pending::RESHAPE;
    }
    let changed: Vec<BlockRow> = known.changed();
    let event_rows: Vec<_> = events.iter().map(Event::row).collect();
    self.ledger.attribute(&AttributionRecord {
      path: &path,
      blocks: &changed,
      items: &items,
      requests: &requests,
      done: Pending::ATTRIBUTE,
      due,
      events: &event_rows,
      at,
    })?;
    for event in &events {
      event.log(None);
    }
    drop(writing);
    match &asking.file {
      Some((hash, _)) if !verdicts.is_empty() => self.take_out(target, *hash, &verdicts),
      _ => Ok(true),
    }
  }

  /// The origin with what the owner had asked for, where the ledger has it. What cannot be read any more was
  /// not asked for: that is the stricter answer.
  pub(super) fn with_request(&self, mut origin: Origin) -> Origin {
    if let (None, Some(hash)) = (&origin.request, origin.trail.request) {
      origin.request = self.ledger.request(hash).ok().flatten();
    }
    origin
  }

  pub(super) fn origin_of(&self, said: &Attributed) -> Origin {
    let trail = OriginRecord::asked(said.sighting);
    Origin::attributed(&self.config, &said.attribution, &trail)
  }

  /// What there is to tell about something in quarantine.
  fn told_of_item(
    &self,
    target: &Target,
    id: &BlockId,
    origin: &Origin,
  ) -> Result<Option<Event>, EngineError> {
    let event = |kind| Event::new(kind).path(&target.path()).block(id).of(origin);
    let waits = self.ledger.item(id.as_str())?.status.is_waiting();
    if waits && origin.trust == Trust::Trusted {
      let next = format!("it stays out; `memfw quarantine approve {id}` brings it back");
      return Ok(Some(event(EventKind::FoundTrusted).detail(next)));
    }
    let is_news = origin.source.kind() != "unknown";
    Ok(is_news.then(|| event(EventKind::Attributed)))
  }
}

pub(super) fn item_origin(id: &BlockId, origin: &Origin) -> ItemOrigin {
  ItemOrigin {
    id: id.clone(),
    source: origin.source.clone(),
    trust: origin.trust,
    attestation: origin.attestation,
    session: origin.session.clone(),
    trail: origin.trail.clone(),
  }
}

/// The lines of a block that these revisions brought.
pub(super) fn lines_of<'a>(
  row: &'a BlockRow,
  block: &'a crate::memory::Block,
  revisions: &'a [u32],
) -> impl Iterator<Item = &'a crate::memory::Line> {
  let lines = block.lines.iter().zip(&row.lines);
  lines.filter(|(_, known)| revisions.contains(&known.revision)).map(|(line, _)| line)
}
