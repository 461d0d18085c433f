//! Keeps text that is in quarantine out of a version that a person restores.
#![forbid(unsafe_code)]

use std::collections::{HashMap, HashSet};

use super::{
  Engine, EngineError, Target,
  text_copy::{Copy, verdict},
};
use crate::{
  files::Fs,
  judging::{approvals::plain_of, origin::Origin, view::View},
  memory::{BlockId, ContentHash, Fate},
  provenance::State,
  store::{Item, ItemFilter},
};

impl<F: Fs> Engine<F> {
  /// Has text of a restored version taken out that is in quarantine, whatever is found in it: it was taken out since,
  /// and no person has approved it. An item whose placeholder is in the version takes nothing out.
  pub(super) fn keep_out(&self, target: &Target, view: &mut View) -> Result<(), EngineError> {
    let path = target.path();
    let statuses = vec![State::Quarantined, State::Held, State::Rejected, State::Split];
    let filter = ItemFilter { statuses, path: Some(path.clone()) };
    let items = self.ledger.items(&filter)?.into_iter().filter(|item| !item.in_file);
    let parts = self.ledger.joined_texts(&path)?;
    let standing: HashSet<BlockId> = view.document.placeholders().cloned().collect();
    let mut taken: HashMap<ContentHash, HashSet<usize>> = HashMap::new();
    for item in items.filter(|item| !standing.contains(&item.id)) {
      if item.status == State::Split && !self.ledger.has_part_out(&item.id)? {
        continue;
      }
      let Some(plain) = plain_of(&self.ledger, &item.id)? else { continue };
      let texts = [&plain[..]].into_iter().chain(former_parts(&plain, &parts));
      for (at, text) in texts.enumerate() {
        // What the file has now as well was not taken out of it.
        let (present, mut copies): (Vec<Copy>, Vec<Copy>) =
          Copy::all(view, text).into_iter().partition(|copy| copy.is_present);
        if copies.is_empty() {
          continue;
        }
        let hash = ContentHash::of(text);
        let taken = taken.entry(hash).or_default();
        // The copies that a person approved stay, as many as there were.
        let approved = self.approvals().copies(&path, hash)?.saturating_sub(present.len());
        if copies.len() <= taken.len() + approved {
          continue;
        }
        copies.retain(|copy| !taken.contains(&copy.line));
        let nearest = |copy: &Copy| copy.line.abs_diff(item.line as usize);
        let Some(copy) = copies.into_iter().min_by_key(nearest) else { continue };
        taken.insert(copy.line);
        self.take(view, &item, copy);
        if at == 0 {
          break;
        }
      }
    }
    Ok(())
  }

  /// Adds to the judgements of a version that a copy of an item's text leaves it.
  fn take(&self, view: &mut View, item: &Item, copy: Copy) {
    let fresh =
      match (view.comparison.fates.get(copy.block), view.document.blocks().get(copy.block)) {
        (Some(Fate::Edited { fresh, .. }), _) => fresh.clone(),
        (Some(Fate::Inserted), Some(block)) => (0..block.lines.len()).collect(),
        _ => vec![],
      };
    let Some(slot) = view.judgements.get_mut(copy.block) else { return };
    let mut judgement = verdict(item, item.status, copy.lines);
    judgement.taken_from = Some(Origin::of_item(item).with_request(&self.ledger));
    *slot = Some(match slot.take() {
      Some(other) if other.decision.leaves() => judgement.beside(other, || fresh),
      _ => judgement,
    });
  }
}

/// The whole lines of an item's text that were once a part of it, and were joined with it again.
fn former_parts<'t>(
  plain: &'t [u8],
  parts: &'t [(ContentHash, u64)],
) -> impl Iterator<Item = &'t [u8]> {
  let starts = std::iter::once(0).chain(line_ends(plain));
  starts.flat_map(move |start| {
    parts.iter().filter_map(move |(hash, len)| {
      let text = plain.get(start..start.checked_add(usize::try_from(*len).ok()?)?)?;
      let ends = text.ends_with(b"\n") || start + text.len() == plain.len();
      (ends && text.len() < plain.len() && ContentHash::of(text) == *hash).then_some(text)
    })
  })
}

/// The offsets after the line ends of a text.
fn line_ends(text: &[u8]) -> impl Iterator<Item = usize> {
  text.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1)
}
