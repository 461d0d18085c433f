//! `memfw skills verify`: checks skills now and compares them with what is known. Nothing is changed.
#![forbid(unsafe_code)]

use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _, path::Path};

use serde_json::{Value, json};

use super::{Checker, Skills, args::SkillsVerifyArgs, digits, style};
use crate::{
  app::{context::Context, exit::Status},
  daemon::skill_check::{CheckedSkill, SkillFinding, what_was_found},
  engine::event::shown,
  skill::{Difference, Signature, SkillState},
  store::{Ledger, SkillRow},
  terminal::{
    escape::terminal,
    failure::{Failure, complain},
    output::{Out, Style, count},
    preview::prose,
    time,
  },
};

/// The indentation of what a finding says.
const INDENT: &str = "      ";
/// The most changed files of a skill that are listed for a person; JSON has all of them.
const MAX_LISTED: usize = 20;

/// Carries the command out.
pub(super) fn run(context: &Context, args: &SkillsVerifyArgs) -> Result<Status, Failure> {
  let ledger = context.ledger_to_read()?;
  let skills = Skills::find(context, ledger.as_ref())?;
  let mut chosen = Vec::new();
  for name in &args.names {
    chosen.extend(skills.named(name)?);
  }
  if args.names.is_empty() {
    chosen.extend(&skills.all);
  }
  chosen.sort_by_key(|(dir, _)| dir);
  chosen.dedup_by_key(|(dir, _)| dir);
  let checker = Checker::new(context, ledger.as_ref())?;
  let (mut verified, mut gone) = (Vec::new(), Vec::new());
  for (dir, row) in chosen {
    match checker.check_if_there(dir, &skills.places) {
      Some(found) => verified.push(Verified::of(found, row.as_ref(), ledger.as_ref())?),
      None => gone.push(dir),
    }
  }
  if args.json {
    context.out.json(&verified.iter().map(Verified::to_json).collect::<Vec<_>>())?;
  } else {
    for one in &verified {
      one.print(context)?;
    }
    if verified.is_empty() && gone.is_empty() {
      context.out.line("no skills")?;
    }
  }
  for dir in &gone {
    complain(&format!("`{}` does not exist any more\n", terminal(shown(dir))));
  }
  let is_more = skills.note_gaps();
  let needs_owner =
    is_more || !gone.is_empty() || verified.iter().any(|one| one.state.needs_owner());
  Ok(if needs_owner { Status::No } else { Status::Yes })
}

/// A skill as it is now, beside what is known about it.
struct Verified<'r> {
  found: CheckedSkill,
  row: Option<&'r SkillRow>,
  state: SkillState,
  difference: Difference,
}

impl<'r> Verified<'r> {
  fn of(
    found: CheckedSkill,
    row: Option<&'r SkillRow>,
    ledger: Option<&Ledger>,
  ) -> Result<Self, Failure> {
    let base = match (ledger, row) {
      (Some(ledger), Some(row)) => ledger.skill_manifest(row.base)?,
      _ => None,
    };
    let manifest = &found.check.manifest;
    let difference =
      base.map_or_else(Difference::default, |base| Difference::between(&base, manifest));
    Ok(Self { state: found.check.state(row), row, difference, found })
  }

  fn to_json(&self) -> Value {
    let CheckedSkill { check, findings } = &self.found;
    let paths =
      |list: &[Vec<u8>]| -> Vec<String> { list.iter().map(|path| path_shown(path)).collect() };
    let finding = |one: &SkillFinding| {
      json!({
        "file": shown(&one.file),
        "line": one.line,
        "verdict": one.verdict.as_str(),
        "codes": one.codes.iter().map(|code| code.as_str()).collect::<Vec<_>>(),
        "why": one.why,
      })
    };
    json!({
      "name": check.name,
      "dir": shown(&check.dir),
      "state": self.state.as_str(),
      "first_seen_at": self.row.map(|row| time::rfc3339(row.first_seen_at)),
      "manifest": check.manifest.hash().to_string(),
      "files": check.manifest.len(),
      "bytes": check.manifest.bytes(),
      "whole": check.manifest.is_whole(),
      "changes": {
        "changed": paths(&self.difference.changed),
        "added": paths(&self.difference.added),
        "removed": paths(&self.difference.removed),
      },
      "findings": findings.listed.iter().map(finding).collect::<Vec<_>>(),
      "blocks_with_findings": check.n_findings,
      "signature": check.signature.as_str(),
      "signed_by": check.signature.key(),
    })
  }

  fn print(&self, context: &Context) -> Result<(), Failure> {
    let (out, CheckedSkill { check, findings }) = (&context.out, &self.found);
    let state = out.paint(style(self.state), self.state.as_str());
    out.line(&format!("{}: {state}  {}", terminal(&check.name), terminal(shown(&check.dir))))?;
    let extent = format!(
      "{}, {}, manifest {}",
      count(check.manifest.len() as u64, "file"),
      count(check.manifest.bytes(), "byte"),
      digits(check)
    );
    let signature = match &check.signature {
      Signature::None => String::new(),
      Signature::Valid(key) => format!("; signed by {key}"),
      Signature::Unknown => "; signed by none of the trusted keys".to_owned(),
      Signature::Broken(key, why) => format!("; the signature of {key} is broken: {why}"),
    };
    out.line(&format!("  {extent}{signature}"))?;
    print_difference(out, &self.difference)?;
    for one in &findings.listed {
      let codes: Vec<&str> = one.codes.iter().map(|code| code.as_str()).collect();
      let place = format!("{}:{}", terminal(shown(&one.file)), one.line);
      out.line(&format!("  {place}: {} {}", out.paint(Style::Red, "found"), codes.join(" ")))?;
      let columns = out.table_columns().saturating_sub(INDENT.len());
      for row in one.why.iter().flat_map(|why| prose(why, columns)) {
        out.line(&format!("{INDENT}{row}"))?;
      }
    }
    if let n @ 1.. = findings.n_unlisted() {
      out.line(&format!("  and {} more with findings", count(n, "block")))?;
    }
    let is_listed = findings.n > 0 && check.manifest.is_whole();
    if self.state == SkillState::Flagged && !is_listed {
      out.line(&format!("  {}", terminal(what_was_found(check))))?;
    }
    Ok(())
  }
}

/// Prints the files that differ, one a line.
pub(super) fn print_difference(out: &Out, difference: &Difference) -> Result<(), Failure> {
  let Difference { changed, added, removed } = difference;
  let lists = [("changed", changed), ("added", added), ("removed", removed)];
  let lines = lists.iter().flat_map(|(what, list)| list.iter().map(move |path| (what, path)));
  for (what, path) in lines.clone().take(MAX_LISTED) {
    out.line(&format!("  {} {}", out.paint(Style::Yellow, what), terminal(path_shown(path))))?;
  }
  if let n @ 1.. = lines.count().saturating_sub(MAX_LISTED) {
    out.line(&format!("  and {} more", count(n as u64, "file")))?;
  }
  Ok(())
}

/// A path of a manifest for display.
fn path_shown(path: &[u8]) -> String {
  shown(Path::new(OsStr::from_bytes(path)))
}
