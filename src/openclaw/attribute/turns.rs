//! From the records of a session to what stood before the agent when it made a call.
//!
//! A turn begins with the last message of a person. What came before it is still in the agent's
//! context and can be where a text comes from; but only what came in the turn makes the turn tainted.
#![forbid(unsafe_code)]

use std::{collections::HashMap, path::Path};

use super::{
  super::transcript::{Call, Message, Record, Session},
  material::{Given, Material, Origin, Role, WRAPPER, of_outcome, origin, source},
  rank::rank,
};
use crate::provenance::Source;

/// What stood before the agent at one moment.
#[derive(Debug)]
pub(super) struct Context<'r> {
  /// Oldest first.
  pub(super) materials: Vec<Material<'r>>,
  /// Whether OpenClaw marked a message of the turn as tainted.
  pub(super) is_marked: bool,
  /// How the session came to be.
  pub(super) origin: Origin,
}

/// What stood before the agent before the record at `end` in `records`.
pub(super) fn context<'r>(
  session: &Session,
  records: &'r [Record],
  end: usize,
  workspace: &Path,
) -> Context<'r> {
  let mut context = Context { materials: vec![], is_marked: false, origin: origin(session) };
  let mut calls: HashMap<&str, &Call> = HashMap::new();
  let mut page = None;
  for record in records.get(..end).unwrap_or(records) {
    let at = record.at;
    match &record.message {
      Message::User { text, context: around, owner, sender, provenance } => {
        let given = Given {
          text,
          context: around,
          owner: *owner,
          sender: sender.as_ref(),
          provenance: provenance.as_deref(),
        };
        if given.begins_turn(session) {
          context.end_turn();
        }
        context.materials.extend(given.materials(session, at));
      }
      Message::Assistant { calls: made, tainted, .. } => {
        context.is_marked |= tainted;
        calls.extend(made.iter().map(|call| (call.id.as_str(), call)));
      }
      Message::Tool(outcome) => {
        let call = calls.get(outcome.call.as_str()).copied();
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
        context.is_marked = false;
      }
    }
  }
  context
}

impl Context<'_> {
  fn end_turn(&mut self) {
    self.is_marked = false;
    for material in &mut self.materials {
      material.in_turn = false;
    }
  }

  /// The least trusted source of what is foreign.
  fn worst(&self) -> Option<Source> {
    let foreign = self.materials.iter().filter(|material| material.role == Role::Foreign);
    foreign.map(|material| &material.source).min_by_key(|source| rank(source)).cloned()
  }

  /// Takes everything as one turn: for texts that the agent wrote about all that it remembered.
  pub(super) fn widen(&mut self) {
    for material in &mut self.materials {
      material.in_turn = true;
    }
  }
}

/// What OpenClaw or a plugin put in besides.
fn injected<'r>(kind: &str, text: &'r str, at: i64) -> Material<'r> {
  let from = match kind.split_once(':') {
    None if kind == "bash" => Source::new("exec"),
    // A branch is a part of the same talk; what fed it is not on record here.
    None => Source::unknown(),
    Some((_, name)) if name.starts_with("openclaw") && !text.contains(WRAPPER) => {
      return Material::new(Source::new("memory"), Role::Memory, text, at);
    }
    Some((_, name)) => source("plugin", Some(name)),
  };
  Material::new(from, Role::Foreign, text, at)
}
