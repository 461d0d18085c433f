//! Text that no call on record wrote, and whose words the agent had just read in a foreign text.
//!
//! A program that the agent started may write after its call is over, at a time that an attacker
//! chooses. So such a text is no edit by an unknown program as long as the text that the agent had
//! read explains it.
#![forbid(unsafe_code)]

use super::{Inquiry, choose::MARGIN, material::Role, memory::IS_COPY, rank::rank, search::Scenes};
use crate::provenance::{
  Attestation, Attribution, Evidence, Fed, Request, Source, overlap::Text, passage::passage,
};

/// Sessions that are looked at, the latest first.
const MAX_SCENES: usize = 16;
/// Bytes of what they had read that are compared, the latest of each session first.
const MAX_COMPARED: usize = 4 * 1024 * 1024;
/// How many words they must share: a date and a name are in many texts (a choice).
const MIN_SHARED: usize = 4;

/// Foreign text that explains a text.
struct Candidate {
  source: Source,
  at: i64,
  share: f32,
  request: Request,
  session: String,
}

impl Inquiry<'_> {
  /// The origin of a text that nothing on record wrote, by what the sessions that were at work had read.
  pub(super) fn heard(&mut self, scenes: &Scenes, text: &str) -> Option<Attribution> {
    let mut found: Vec<Candidate> = Vec::new();
    let words = Text::new(text);
    let mut left = MAX_COMPARED;
    for scene in scenes.all.iter().take(MAX_SCENES) {
      let records = self.history(scene);
      let until = self.question.seen_at.max(self.question.changed_at);
      let end = records.iter().take_while(|record| record.at <= until).count();
      let mut before = self.context(&scene.session, &records, end, None);
      before.widen();
      let owners = |role: Role| matches!(role, Role::Owner | Role::Task);
      let mut own = words.nothing();
      for material in before.materials.iter().filter(|one| owners(one.role)) {
        own.add(&words.cover(&material.text));
      }
      let own = words.share_of_all(&own);
      for material in before.materials.iter().rev().filter(|one| one.role == Role::Foreign) {
        if left == 0 {
          break;
        }
        left = left.saturating_sub(material.text.len());
        let cover = words.cover(&material.text);
        let share = words.share_of_all(&cover);
        if share >= IS_COPY && share > own + MARGIN && cover.n_words() >= MIN_SHARED {
          let asked = asked(&before.materials, material.at);
          found.push(Candidate {
            source: material.source.clone(),
            at: material.at,
            share,
            request: Request::new(&asked, &passage(text, std::iter::once(&*material.text))),
            session: Evidence::capped(&scene.session.id),
          });
        }
      }
    }
    found.sort_by_key(|one| (rank(&one.source), std::cmp::Reverse(one.at)));
    let mut found = found.into_iter();
    let first = found.next()?;
    let mut fed_by: Vec<Source> = Vec::new();
    for one in found {
      if one.source != first.source && !fed_by.contains(&one.source) {
        fed_by.push(one.source);
      }
    }
    let evidence = Evidence {
      fed: Some(Fed {
        source: Evidence::capped(first.source.as_str()),
        at: first.at,
        share: Some(f64::from(first.share.min(1.0))),
      }),
      note: Some("no call on record wrote it, and the agent had read these words".to_owned()),
      ..Evidence::default()
    };
    Some(Attribution {
      source: first.source,
      fed_by,
      attestation: Attestation::ToolObserved,
      session: Some(first.session),
      evidence,
      request: Some(first.request).filter(|request| !request.is_empty()),
    })
  }
}

/// What the owner had asked for last before a moment.
fn asked(materials: &[super::Material<'_>], at: i64) -> String {
  let said = materials.iter().rev().find(|one| one.role == Role::Owner && one.at <= at);
  said.map_or_else(String::new, |one| one.text.trim().to_owned())
}
