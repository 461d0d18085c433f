//! From the records of a session to what the agent had read when it made a call.
//!
//! A turn begins with the last message of a person. Material from before the turn is still in the
//! agent's context and can be the source of a text; but only material of the turn makes the turn
//! tainted.
#![forbid(unsafe_code)]

use std::{collections::HashMap, path::Path};

use super::{
  super::transcript::{Call, Message, Record, Session},
  material::{Given, Material, Role, SessionStart, of_lost, of_outcome, origin, source},
  parts::has_content,
  rank::rank,
};
use crate::provenance::{Question, Source};

/// Most calls without an answer in one turn of which each is named.
const MAX_LOST: usize = 64;

/// What the agent had read at one moment.
#[derive(Debug)]
pub(super) struct Context<'r> {
  /// Oldest first.
  pub(super) materials: Vec<Material<'r>>,
  /// Whether OpenClaw marked a message of the turn as tainted.
  pub(super) is_marked: bool,
  /// How the session came to be.
  pub(super) origin: SessionStart,
  /// Whether no person asked for the text: the agent stores its context by itself.
  pub(super) is_background: bool,
  /// What the call in question was given to write; empty where that is not known.
  pub(super) given: String,
  /// Whether the text was there before, so that it may be what the owner said in an earlier turn.
  pub(super) was_there: bool,
}

/// What the agent had read before the record at `end` in `records`, when it made the call `own`;
/// `is_cut` says that there is more before them.
pub(super) fn context<'r>(
  session: &Session,
  records: &'r [Record],
  end: usize,
  is_cut: bool,
  own: Option<&str>,
  question: &Question<'_>,
) -> Context<'r> {
  let workspace = question.workspace;
  let mut context = Context {
    materials: vec![],
    is_marked: false,
    origin: origin(session),
    is_background: false,
    given: String::new(),
    was_there: false,
  };
  let records_before = records.get(..end).unwrap_or(records);
  if is_cut || context.origin == SessionStart::Person && !begins_with_a_person(records_before) {
    let at = records_before.first().map_or(0, |record| record.at);
    context.materials.push(Material::new(Source::unknown(), Role::Foreign, "", at));
  }
  // Answers may precede their calls, so all calls are known from the start.
  let mut calls: HashMap<&str, &Call> = all_calls(records_before).collect();
  let mut open: Vec<(&'r Call, i64)> = Vec::new();
  let mut early: Vec<&str> = Vec::new();
  let mut page = None;
  for record in records_before {
    let at = record.at;
    match &record.message {
      Message::User { text, context: around, owner, sender, provenance } => {
        let given = Given {
          text,
          context: around,
          owner: *owner,
          sender: sender.as_ref(),
          provenance: provenance.as_deref(),
          owner_devices: question.owner_devices,
        };
        if given.begins_turn(session) {
          context.lost(&mut open, workspace);
          context.end_turn();
        }
        context.materials.extend(given.materials(session, at));
      }
      Message::Assistant { calls: made, tainted, .. } => {
        context.is_marked |= tainted;
        calls.extend(made.iter().map(|call| (call.id.as_str(), call)));
        for call in made.iter().filter(|call| own != Some(&call.id)) {
          match early.iter().position(|id| *id == call.id) {
            Some(place) => drop(early.swap_remove(place)),
            None => open.push((call, at)),
          }
        }
      }
      Message::Tool(outcome) => {
        let call = calls.get(outcome.call.as_str()).copied();
        let n_open = open.len();
        open.retain(|(open, _)| open.id != outcome.call);
        if open.len() == n_open {
          early.push(&outcome.call);
        }
        context.materials.extend(of_outcome(outcome, call, workspace, &mut page, at));
      }
      Message::Injected { kind, text } => context.materials.push(injected(kind, text, at)),
      Message::Unread { .. } => {
        context.materials.push(Material::new(Source::unknown(), Role::Foreign, "", at));
      }
      Message::Compaction { summary } => {
        let source = context.worst().unwrap_or_else(Source::unknown);
        context.materials.push(Material::new(source, Role::Foreign, summary.as_str(), at));
      }
      Message::Reset => {
        context.materials.clear();
        open.clear();
        context.is_marked = false;
      }
    }
  }
  context.lost(&mut open, workspace);
  context
}

/// Whether no record is missing at the beginning: an agent acts because a person asked it to.
fn begins_with_a_person(records: &[Record]) -> bool {
  let first = records.first().map(|record| &record.message);
  matches!(first, None | Some(Message::User { .. } | Message::Reset))
}

fn all_calls(records: &[Record]) -> impl Iterator<Item = (&str, &Call)> {
  let calls = records.iter().rev().filter_map(|record| match &record.message {
    Message::Assistant { calls, .. } => Some(calls),
    _ => None,
  });
  calls.flatten().map(|call| (call.id.as_str(), call))
}

impl<'r> Context<'r> {
  /// Calls whose answers are not on record: the agent may have got them nevertheless.
  fn lost(&mut self, open: &mut Vec<(&'r Call, i64)>, workspace: &Path) {
    let too_many = open.get(MAX_LOST).map(|(_, at)| *at);
    for (call, at) in open.drain(..).take(MAX_LOST) {
      self.materials.extend(of_lost(call, workspace, at));
    }
    let rest = too_many.map(|at| Material::new(Source::unknown(), Role::Foreign, "", at));
    self.materials.extend(rest);
  }

  fn end_turn(&mut self) {
    self.is_marked = false;
    for material in &mut self.materials {
      material.in_turn = false;
    }
  }

  /// The least trusted source of the foreign materials.
  fn worst(&self) -> Option<Source> {
    let foreign = self.materials.iter().filter(|material| material.role == Role::Foreign);
    foreign.map(|material| &material.source).min_by_key(|source| rank(source)).cloned()
  }

  /// The owner's words of the turn; empty where no person asked for the text.
  pub(super) fn asked(&self) -> String {
    let is_owners = |material: &&Material<'_>| material.in_turn && material.role == Role::Owner;
    let words = self.materials.iter().filter(is_owners).map(|material| material.text.trim());
    if self.is_background { String::new() } else { words.collect::<Vec<_>>().join("\n") }
  }

  /// Takes everything as one turn: for texts that the agent wrote about all that it remembered.
  pub(super) fn widen(&mut self) {
    self.is_background = true;
    for material in &mut self.materials {
      material.in_turn = true;
    }
  }
}

/// Whether OpenClaw itself put it in, and not a plugin that begins like it.
fn is_openclaws(name: &str) -> bool {
  name == "openclaw" || name.starts_with("openclaw.") || name.starts_with("openclaw:")
}

/// Whether text that OpenClaw put in repeats words of others.
fn says_who_said(text: &str) -> bool {
  ["istory", "eplied", "hread starter", "orwarded"].iter().any(|sign| text.contains(sign))
}

/// The text that OpenClaw or a plugin added.
fn injected<'r>(kind: &str, text: &'r str, at: i64) -> Material<'r> {
  let from = match kind.split_once(':') {
    None if kind == "bash" => Source::new("exec"),
    // A branch is a part of the same talk; what fed it is not on record here.
    None => Source::unknown(),
    Some((_, name)) if is_openclaws(name) && !has_content(text) && !says_who_said(text) => {
      return Material::new(Source::new("memory"), Role::Memory, text, at);
    }
    Some((_, name)) => source("plugin", Some(name)),
  };
  Material::new(from, Role::Foreign, text, at)
}
