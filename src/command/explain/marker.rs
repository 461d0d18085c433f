//! `memfw explain ID` for an id that a marker in a file has: where the text inside came from, and what
//! was found in it.
#![forbid(unsafe_code)]

use serde_json::{Value, json};

use super::{Page, readers::Readers};
use crate::{
  app::{context::Context, exit::Status},
  command::shared::{
    evidence,
    json::{object, of_revision},
  },
  engine::event::{rounded, shown},
  memory::BlockId,
  store::{Ledger, Place, Revision},
  terminal::{escape::terminal, failure::Failure, time},
};

/// Explains the blocks of the marker with this id.
pub(super) fn explain(
  context: &Context,
  ledger: &Ledger,
  (id, places): (&BlockId, &[Place]),
  as_json: bool,
) -> Result<Status, Failure> {
  if as_json {
    let mut blocks: Vec<Value> = Vec::with_capacity(places.len());
    for place in places {
      blocks.push(to_json(place, &Readers::of_block(ledger, &place.block)?));
    }
    context.out.json(&json!({ "id": id.as_str(), "blocks": blocks }))?;
    return Ok(Status::Yes);
  }
  let page = Page { context };
  for place in places {
    print(&page, id, place, &Readers::of_block(ledger, &place.block)?)?;
  }
  Ok(Status::Yes)
}

fn print(page: &Page<'_>, id: &BlockId, place: &Place, readers: &Readers) -> Result<(), Failure> {
  let Place { path, present, block } = place;
  page.head(block.id.as_str(), block.state.as_str())?;
  if block.id != *id {
    page.row("marker", &format!("{id}, shared with other blocks of one source"))?;
  }
  let lines = if block.start_line == block.end_line {
    block.start_line.to_string()
  } else {
    format!("{}-{}", block.start_line, block.end_line)
  };
  let file = terminal(shown(path));
  if *present {
    page.row("where", &format!("{file}:{lines}"))?;
  } else {
    page.row("where", &format!("no longer in {file}, where it was last seen at line {lines}"))?;
  }
  for revision in block.live() {
    let Revision { source, trust, attestation, .. } = revision;
    page.row("when", &time::rfc3339(revision.at))?;
    page.row("source", &evidence::origin(source, *trust, *attestation))?;
    let line = evidence::line(&revision.trail.evidence_json);
    page.row("how", &terminal(line.unwrap_or_else(|| "nothing on record".to_owned())))?;
    if revision.approved {
      page.row("review", "a person has approved this text")?;
    }
  }
  for code in &block.codes {
    page.row("found", &format!("{code}: {}", code.title()))?;
  }
  if block.codes.is_empty() {
    page.row("found", "nothing")?;
  }
  readers.print(page)?;
  let next = match block.codes.first() {
    Some(code) => format!("memfw explain {code}"),
    None if *present => format!("memfw provenance {file}:{}", block.start_line),
    None => format!("memfw restore {file} --diff"),
  };
  page.row("next", &next)
}

fn to_json(place: &Place, readers: &Readers) -> Value {
  let Place { path, present, block } = place;
  let revision = |one: &Revision| {
    let mut value = of_revision(one);
    value.extend(object(json!({ "ts": time::rfc3339(one.at), "approved": one.approved })));
    value
  };
  json!({
    "id": block.id.as_str(),
    "marker_id": block.marker.as_ref().map(BlockId::as_str),
    "file": shown(path),
    "present": present,
    "start_line": block.start_line,
    "end_line": block.end_line,
    "status": block.state.as_str(),
    "score": rounded(block.score),
    "codes": block.codes.iter().map(|code| code.as_str()).collect::<Vec<_>>(),
    "sources": block.live().map(revision).collect::<Vec<_>>(),
    "read_by": readers.to_json(),
  })
}
