//! Who wrote new text, from what OpenClaw has on record.
//!
//! First the call that wrote it ([`search`], [`writes`]), then what the agent had read when it
//! made that call ([`turns`], [`material`]), then which of it the text comes from ([`mod@choose`]).
//! OpenClaw's ledger tells the session by the hash of the file, also for writes that no transcript
//! has. Nothing is opened or written here; records are hostile and bounded.
#![forbid(unsafe_code)]

mod answer;
mod choose;
mod governed;
mod heading;
mod heard;
mod host;
mod letter;
mod material;
mod memory;
mod owner;
mod parts;
mod passed_on;
mod path;
mod promoted;
mod questions;
mod quoted;
mod rank;
mod search;
mod sentence;
mod shell;
mod subagent;
#[cfg(test)]
mod tests;
mod turns;
mod writes;

use std::{collections::HashMap, rc::Rc};

use self::{
  choose::{Decision, choose},
  material::{Material, Role, SessionStart},
  rank::{is_foreign, rank},
  search::{By, MAX_SESSIONS, Open, Pick, Scene, Scenes, Search, latest_call, window},
  turns::{Context, context},
  writes::Write,
};
use super::{
  ledger_row::LedgerRow,
  transcript::{ReadResult, Record, Session, Sessions, Window},
};
use crate::provenance::{
  Answer, Attestation, Attribution, Evidence, Fed, Outlook, Question, Source, Written,
};

/// How far back what an agent read may still be in its context, in microseconds.
const MEMORY_OF_AGENT: i64 = 6 * 3600 * 1_000_000;
/// Most records of a session from which a context is made.
const MAX_RECORDS: usize = 600;
/// Which part of a text's words a session must have for it to be the one that the text is about, and below which
/// part another one has nothing to do with it.
const IS_ABOUT: f32 = 0.6;
const HAS_NOTHING: f32 = 0.1;
/// Most sources that are kept beside another, of two parts of a text.
const MAX_FED_BY: usize = 2 * choose::MAX_BESIDE;

/// How long after a change the answer of its call is noted, in microseconds; the last where a session does much.
const SOON_AFTER: [i64; 3] = [60_000_000, 5_000_000, 500_000];

/// Adds the records that are later than all of these.
fn add_later(records: &mut Vec<Record>, mut later: Vec<Record>) {
  let last = records.last().map_or(i64::MIN, |record| record.seq);
  later.retain(|record| record.seq > last);
  records.append(&mut later);
}

/// Answers a question from the ledger's row about the file and from the sessions.
pub(super) fn attribute(
  question: &Question<'_>,
  row: Result<Option<LedgerRow>, String>,
  sessions: &dyn Sessions,
) -> Answer {
  let mut inquiry = Inquiry { question, sessions, problems: vec![], histories: HashMap::new() };
  let row = row.unwrap_or_else(|problem| {
    inquiry.problems.push(problem);
    None
  });
  // An OpenClaw that keeps no ledger does not tell clean turns from others either.
  let keeps_ledger = row.is_some();
  let row = row.filter(|row| row.hash == question.on_record);
  let scenes = inquiry.scenes(row.as_ref());
  let search = Search::new(&scenes, question);
  let (mut open, mut is_clean) = (Open::No, true);
  let mut attributions = Vec::with_capacity(question.texts.len());
  for bytes in question.texts {
    let picks = search.picks(&lossy(bytes), question);
    open = picks.iter().map(|pick| search.open(pick, question)).fold(open, Open::max);
    is_clean &= picks.iter().all(Pick::is_clean);
    let parts: Vec<Attribution> = picks.iter().map(|pick| inquiry.of_pick(&scenes, pick)).collect();
    let whole = parts.into_iter().reduce(worse);
    attributions.push(whole.unwrap_or_else(|| Attribution::without_evidence(Source::unknown())));
  }
  // The row is about the last write alone; of one before it the calls themselves have to tell.
  let clean_turn = match &row {
    Some(row) => search.clean_turn(row),
    None => (keeps_ledger && is_clean).then_some(true),
  };
  let outlook = match inquiry.problems.into_iter().next() {
    Some(problem) => Outlook::Unreadable(problem),
    None => match open {
      Open::Yes => Outlook::Later,
      Open::Briefly => Outlook::Unseen,
      Open::No => Outlook::Final,
    },
  };
  Answer { attributions, outlook, clean_turn, replaced: search.replaced(question) }
}

/// What a call has to do with a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum As {
  /// It was given the text.
  Text,
  /// It was not, and ran when the file was changed.
  Output,
  /// It may have made the text out of what was there.
  Rival,
}

/// One question on its way through the records.
struct Inquiry<'a> {
  question: &'a Question<'a>,
  sessions: &'a dyn Sessions,
  /// What could not be read.
  problems: Vec<String>,
  /// Sessions that were read once: one question may be about many texts of the same call.
  histories: HashMap<String, Rc<[Record]>>,
}

impl Inquiry<'_> {
  fn note<T>(&mut self, found: ReadResult<T>) -> T {
    self.problems.extend(found.problems);
    found.found
  }

  fn records(&mut self, session: &Session, window: Window) -> Rc<[Record]> {
    let records = self.note(self.sessions.records(&session.id, window, MAX_RECORDS));
    if records.len() < MAX_RECORDS {
      return records.into();
    }
    // Later records of a busy session may have pushed the call out.
    let to = latest_call(self.question).min(window.to);
    let mut until_then =
      self.note(self.sessions.records(&session.id, Window { to, ..window }, MAX_RECORDS));
    // Then the records between the change and the moment at which memfw saw it.
    for after in SOON_AFTER {
      let is_cut = until_then.len() >= MAX_RECORDS
        && until_then.first().is_some_and(|first| first.at > self.question.changed_at);
      if !is_cut {
        break;
      }
      let to = self.question.changed_at.saturating_add(after).min(to);
      let mut first =
        self.note(self.sessions.records(&session.id, Window { to, ..window }, MAX_RECORDS));
      add_later(&mut first, until_then);
      until_then = first;
    }
    add_later(&mut until_then, records);
    until_then.into()
  }

  /// The sessions that may have written.
  fn scenes(&mut self, row: Option<&LedgerRow>) -> Scenes {
    let window = window(self.question);
    let mut scenes = Scenes { has_records: row.is_some(), ..Scenes::default() };
    let names = row.into_iter().flat_map(|row| [&row.session_id, &row.session_key]);
    for name in names.flatten() {
      if let Some(session) = self.note(self.sessions.session(name)) {
        let records = self.records(&session, window);
        scenes.all.push(Scene { session, records });
        scenes.first_is_ledgers = true;
        break;
      }
    }
    let named = row.filter(|row| row.session_id.is_some() || row.session_key.is_some());
    let agent = |row: &LedgerRow| {
      let key = row.session_key.as_deref().unwrap_or_default();
      key
        .match_indices(':')
        .nth(1)
        .and_then(|(end, _)| key.get(..=end))
        .unwrap_or_default()
        .to_owned()
    };
    scenes.private = named.filter(|_| !scenes.first_is_ledgers).map(agent);
    scenes.are_all = true;
    let mut active = self.note(self.sessions.active(window));
    if scenes.private.is_some() && active.is_empty() {
      // Its turn began after a rest, and is noted when it ends.
      let from = window.from.saturating_sub(MEMORY_OF_AGENT);
      active = self.note(self.sessions.active(Window { from, ..window }));
    }
    for session in active {
      let is_known = scenes.all.iter().any(|scene| scene.session.id == session.id);
      if !is_known && scenes.all.len() < MAX_SESSIONS {
        let records = self.records(&session, window);
        scenes.all.push(Scene { session, records });
      } else if !is_known {
        scenes.are_all = false;
      }
    }
    if scenes.all.is_empty() {
      let ever = Window { from: 0, ..window };
      scenes.has_records |= !self.note(self.sessions.active(ever)).is_empty();
    }
    scenes.has_records |= !scenes.all.is_empty();
    scenes
  }

  /// Where the lines of one pick come from: from nothing better than what those read that may have made
  /// them as well.
  fn of_pick(&mut self, scenes: &Scenes, pick: &Pick<'_, '_>) -> Attribution {
    let first = self.attribution(scenes, pick);
    let mut foreign = Vec::new();
    for (scene, write) in &pick.rivals {
      let said = self.of_call(scene, write, &pick.text, is_ledgers(scenes, scene), As::Rival);
      let mut sources = std::iter::once(&said.source).chain(&said.fed_by);
      foreign.extend(sources.any(is_foreign).then_some(said));
    }
    match foreign.into_iter().reduce(worse) {
      // Nothing else on record did it.
      Some(said) if first.source.kind() == "external-edit" => said,
      Some(said) => worse(first, said),
      None => first,
    }
  }

  /// The attribution by the call that a pick names, or without a call.
  fn attribution(&mut self, scenes: &Scenes, pick: &Pick<'_, '_>) -> Attribution {
    match pick.by {
      By::Nobody => {
        // The agent keeps records, they could be read, and they know nothing of this write.
        let is_told = scenes.are_all && self.problems.is_empty();
        match path::importer(self.question.file) {
          // No session was at work, so none can have written where imports lie.
          Some(importer) if is_told && scenes.all.is_empty() => imported(importer),
          _ if is_told && scenes.has_records => self
            .promoted(&pick.text)
            .or_else(|| self.heard(scenes, &pick.text))
            .unwrap_or_else(|| Attribution::without_evidence(Source::new("external-edit"))),
          _ => Attribution::without_evidence(Source::unknown()),
        }
      }
      By::Call(scene, write) => {
        self.of_call(scene, write, &pick.text, is_ledgers(scenes, scene), As::Text)
      }
      By::Output(scene, write) => {
        self.of_call(scene, write, &pick.text, is_ledgers(scenes, scene), As::Output)
      }
      By::Ledger(scene) => {
        let same_key = |other: &&Scene| other.session.key == scene.session.key;
        self.of_ledger(scenes.all.iter().filter(same_key), &pick.text)
      }
      By::Private => self.of_ledger(scenes.of_agent(), &pick.text),
    }
  }

  /// A call of a tool wrote it.
  fn of_call(
    &mut self,
    scene: &Scene,
    write: &Write<'_>,
    text: &str,
    is_ledgers: bool,
    how: As,
  ) -> Attribution {
    let records = self.history(scene);
    // Up to the answer, for answers to several calls of one message come in any order.
    let last = write.answer.map_or(i64::MAX, |(_, _, seq)| seq);
    let end = records.partition_point(|record| record.seq < last);
    let id = write.call.id.as_str();
    let mut before = self.context(&scene.session, &records, end, Some(id));
    before.is_marked |= write.is_marked;
    before.given = write.given();
    before.was_there = how == As::Rival;
    if how == As::Output {
      before.materials.push(Material::new(Source::new("exec"), Role::Foreign, "", write.at));
    }
    let decision = self.decide(text, &before, &scene.session);
    let at = write.answer.map_or(write.at, |(_, at, _)| at);
    let mut said = finish(decision, &scene.session, &write.call.tool, at, is_ledgers);
    said.evidence.note = (how == As::Output)
      .then(|| "the command ran then, and does not contain this text".to_owned());
    said
  }

  /// OpenClaw's ledger names a session, and there is no call on record: the memory flush before a
  /// compaction, or the hook that keeps an ended session. Both write about all that the session
  /// remembers, so all of it counts as one turn. The flush works in a copy of its session that is
  /// removed when it is done, and no record says which one: the text may come from any of `scenes`.
  fn of_ledger<'s>(&mut self, scenes: impl Iterator<Item = &'s Scene>, text: &str) -> Attribution {
    let at = self.question.changed_at;
    let mut found: Vec<(Decision, &Session)> = Vec::new();
    let mut supports: Vec<f32> = Vec::new();
    for scene in scenes {
      let records = self.history(scene);
      let until = self.question.seen_at.max(at);
      let end = records.iter().take_while(|record| record.at <= until).count();
      let mut before = self.context(&scene.session, &records, end, None);
      before.widen();
      supports.push(choose::support(text, &before));
      found.push((self.decide(text, &before, &scene.session), &scene.session));
    }
    // Text of which one session has nearly all words was not written about a session that has none
    // of them.
    if supports.iter().any(|support| *support >= IS_ABOUT) {
      let mut supports = supports.into_iter();
      found.retain(|_| supports.next().is_none_or(|support| support >= HAS_NOTHING));
    }
    let [(_, session), ..] = found.as_slice() else {
      let note = "the agent's ledger names a session that is not on record".to_owned();
      return Attribution {
        evidence: Evidence { ledger_hash: true, note: Some(note), ..Evidence::default() },
        ..Attribution::without_evidence(Source::unknown())
      };
    };
    // The hook runs when another session has already taken the key, and of several copies none is known to be the one.
    let (session, is_told) = (*session, found.iter().all(|(_, other)| other.key == session.key));
    let decisions = found.into_iter().map(|(decision, _)| decision);
    let decision =
      decisions.reduce(choose::merge).unwrap_or_else(|| Decision::of(Source::unknown()));
    let mut said = finish(decision, session, "memory flush", at, true);
    if !is_told {
      said.session = None;
      said.evidence.written.iter_mut().for_each(|written| written.session = None);
    }
    said
  }

  /// What the agent may have had in its context when it wrote: what is known already, and what is older.
  fn history(&mut self, scene: &Scene) -> Rc<[Record]> {
    if let Some(known) = self.histories.get(&scene.session.id) {
      return Rc::clone(known);
    }
    let latest = latest_call(self.question);
    let n_before = scene.records.iter().filter(|record| record.at <= latest).count();
    let mut older = match MAX_RECORDS.saturating_sub(n_before) {
      0 => vec![],
      left => {
        let to = window(self.question).from;
        let window = Window { from: to.saturating_sub(MEMORY_OF_AGENT), to: to.saturating_sub(1) };
        self.note(self.sessions.records(&scene.session.id, window, left))
      }
    };
    let records = if older.is_empty() {
      Rc::clone(&scene.records)
    } else {
      older.extend_from_slice(&scene.records);
      older.sort_by_key(|record| record.seq);
      older.into()
    };
    self.histories.insert(scene.session.id.clone(), Rc::clone(&records));
    records
  }

  /// The history of a session that wrote nothing itself.
  fn history_of(&mut self, session: &Session) -> Rc<[Record]> {
    if let Some(known) = self.histories.get(&session.id) {
      return Rc::clone(known);
    }
    let window = window(self.question);
    let from = window.from.saturating_sub(MEMORY_OF_AGENT);
    let records = self.records(session, Window { from, ..window });
    self.histories.insert(session.id.clone(), Rc::clone(&records));
    records
  }

  /// What the agent had read before the record at `end`, when it made the call `own`.
  fn context<'r>(
    &self,
    session: &Session,
    records: &'r [Record],
    end: usize,
    own: Option<&str>,
  ) -> Context<'r> {
    let is_cut = records.len() >= MAX_RECORDS;
    context(session, records, end, is_cut, own, self.question)
  }

  /// Where a text comes from, by its words and by how the session came to be.
  fn decide(&mut self, text: &str, before: &Context<'_>, session: &Session) -> Decision {
    let mut decision = choose(text, before);
    self.follow_memory(text, before, &mut decision);
    match &before.origin {
      SessionStart::Person | SessionStart::Unlisted => {}
      SessionStart::Hook(hook) => decision.started_by(hook),
      SessionStart::Cron => {
        let asked = before.materials.iter().find(|material| material.role == Role::Foreign);
        decision.started_by(&asked.map_or_else(|| Source::new("cron"), |m| m.source.clone()));
      }
      SessionStart::Subagent => {
        let parent = self.parent(session, 0);
        decision.delegated(&parent);
      }
    }
    decision
  }
}

/// Whether OpenClaw's ledger names this session as the writer.
fn is_ledgers(scenes: &Scenes, scene: &Scene) -> bool {
  let first = scenes.all.first().filter(|_| scenes.first_is_ledgers);
  first.is_some_and(|first| first.session.id == scene.session.id)
}

/// Text of OpenClaw's import, by the folder in which it lies.
fn imported(importer: &str) -> Attribution {
  let note = "it lies where imports do, and no session was at work when it came".to_owned();
  Attribution {
    evidence: Evidence { note: Some(note), ..Evidence::default() },
    ..Attribution::without_evidence(material::source("import", Some(importer)))
  }
}

/// The attribution that a decision amounts to.
fn finish(
  decision: Decision,
  session: &Session,
  tool: &str,
  at: i64,
  is_ledgers: bool,
) -> Attribution {
  let id = Evidence::capped(&session.id);
  let attestation = if is_ledgers || decision.is_copy {
    Attestation::ContentHashed
  } else {
    Attestation::ToolObserved
  };
  let fed_source = decision.fed.as_ref().unwrap_or(&decision.source);
  let evidence = Evidence {
    written: Some(Written { tool: Evidence::capped(tool), at, session: Some(id.clone()) }),
    fed_by: vec![],
    fed: decision.at.map(|at| Fed {
      source: Evidence::capped(fed_source.as_str()),
      at,
      share: decision.share.map(f64::from),
    }),
    also: decision.also.iter().map(|name| Evidence::capped(name)).collect(),
    ledger_hash: is_ledgers,
    note: None,
  };
  let mut fed_by = decision.fed_by;
  fed_by.truncate(MAX_FED_BY);
  let request = Some(decision.request).filter(|request| !request.is_empty());
  Attribution { source: decision.source, fed_by, attestation, session: Some(id), evidence, request }
}

/// The less trusted of two attributions of parts of one text; the other is named beside it.
fn worse(one: Attribution, other: Attribution) -> Attribution {
  let (mut least, other) =
    if rank(&other.source) < rank(&one.source) { (other, one) } else { (one, other) };
  let sources = std::iter::once(other.source).chain(other.fed_by);
  for source in sources.filter(is_foreign) {
    let is_known = source == least.source || least.fed_by.contains(&source);
    if !is_known && least.fed_by.len() < MAX_FED_BY {
      least.fed_by.push(source);
    }
  }
  least.attestation = least.attestation.min(other.attestation);
  least.evidence.ledger_hash &= other.evidence.ledger_hash;
  let other = other.request.unwrap_or_default();
  least.request = least.request.map(|request| choose::of_both(request, &other));
  least
}

/// The text of a file's bytes; bytes that are no text have no words.
fn lossy(bytes: &[u8]) -> String {
  let mut text = String::with_capacity(bytes.len());
  for chunk in bytes.utf8_chunks() {
    text.push_str(chunk.valid());
    if !chunk.invalid().is_empty() {
      text.push('\u{fffd}');
    }
  }
  text
}
