//! `memfw skills`: lists the agent's skills, compares them with what is known, and records what the owner trusts.
//!
//! `list` shows what the last check has found, `verify` checks now and changes nothing. All that a skill says, its name
//! and the names of its files included, is escaped.
#![forbid(unsafe_code)]

mod args;
mod key;
mod verify;

pub use args::{SkillKeyArgs, SkillKeyCommand, SkillsArgs, SkillsCommand};

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use self::args::SkillsTrustArgs;
use super::shared::args::JsonArgs;
use crate::{
  app::{context::Context, exit::Status, paths::resolved},
  config::nearest,
  daemon::skill_check::{
    CheckedSkill, SkillJudge, SkillList, SkillPlaces, check_skill, gaps_in_words, what_was_found,
  },
  detect::model::Model,
  engine::{Event, EventKind, event::shown},
  os::{Clock as _, SystemClock},
  skill::{Difference, PublicKey, SkillState},
  store::{Ledger, SkillCheck, SkillRow},
  terminal::{
    escape::terminal,
    failure::{Failure, complain, unavailable},
    output::{Style, count},
    table::{Cell, Column, Table},
    time,
  },
};

/// Digits of a manifest's hash that are shown (a choice: enough to compare two by eye).
const DIGITS: usize = 12;

/// Carries the command out.
pub fn run(context: &Context, args: SkillsArgs) -> Result<Status, Failure> {
  match args.command {
    SkillsCommand::List(args) => list(context, args),
    SkillsCommand::Verify(args) => verify::run(context, &args),
    SkillsCommand::Trust(args) => trust(context, &args),
    SkillsCommand::Key(args) => key::run(context, args.command),
  }
}

/// Skills by their directories, as far as the places or the ledger know them.
struct Skills {
  places: SkillPlaces,
  /// Each with what the ledger knows, even if it was gone at the last check.
  all: Vec<(PathBuf, Option<SkillRow>)>,
  /// Why there may be further ones.
  gaps: Vec<String>,
}

impl Skills {
  fn find(context: &Context, ledger: Option<&Ledger>) -> Result<Self, Failure> {
    let config = context.config()?.config;
    let places = context.discover(&config, &[]).map(|found| found.skills).unwrap_or_default();
    let known = ledger.map_or_else(|| Ok(vec![]), Ledger::skills)?;
    let SkillList { mut dirs, mut gaps } = places.skills();
    if places.is_unread {
      gaps.push("the configuration of the agent cannot be read".to_owned());
    }
    // A daemon may guard further workspaces, which were named to it alone.
    dirs.extend(known.iter().filter(|row| row.is_present).map(|row| row.dir.clone()));
    dirs.sort();
    dirs.dedup();
    let row = |dir: &PathBuf| known.iter().find(|row| row.dir == *dir).cloned();
    let all = dirs.iter().map(|dir| (dir.clone(), row(dir))).collect();
    Ok(Self { places, all, gaps })
  }

  /// Says that there may be further skills; whether that is so.
  fn note_gaps(&self) -> bool {
    if !self.gaps.is_empty() {
      complain(&format!("{}\n", terminal(gaps_in_words(&self.gaps))));
    }
    !self.gaps.is_empty()
  }

  /// The skills that a person names by a path, by the name of the directory, or by the name that the skill gives itself.
  /// A path is that of one skill, whatever others call themselves.
  fn named(&self, typed: &str) -> Result<Vec<&(PathBuf, Option<SkillRow>)>, Failure> {
    let path = resolved(Path::new(typed));
    if let Some(one) = self.all.iter().find(|(dir, _)| *dir == path) {
      return Ok(vec![one]);
    }
    let is_meant = |(dir, row): &&(PathBuf, Option<SkillRow>)| {
      dir.file_name().is_some_and(|name| name == typed)
        || row.as_ref().is_some_and(|row| row.name == typed)
    };
    let found: Vec<_> = self.all.iter().filter(is_meant).collect();
    if !found.is_empty() {
      return Ok(found);
    }
    let names = self.all.iter().filter_map(|(dir, _)| dir.file_name()?.to_str());
    let hint = nearest(typed, names).map_or_else(
      || "`memfw skills list` lists them".to_owned(),
      |name| format!("did you mean `{name}`?"),
    );
    Err(Failure::usage(format!("there is no skill `{typed}`")).hint(hint))
  }

  /// The one skill that a person names.
  fn one(&self, typed: &str) -> Result<&(PathBuf, Option<SkillRow>), Failure> {
    match self.named(typed)?.as_slice() {
      [one] => Ok(one),
      several => {
        let paths: Vec<String> =
          several.iter().map(|(dir, _)| format!("`{}`", shown(dir))).collect();
        Err(
          Failure::usage(format!("{} skills are named `{typed}`", several.len()))
            .hint(format!("name the directory: {}", paths.join(", "))),
        )
      }
    }
  }
}

/// Checks skills as the daemon does.
pub(super) struct Checker {
  judge: SkillJudge,
  keys: Vec<PublicKey>,
}

impl Checker {
  pub(super) fn new(context: &Context, ledger: Option<&Ledger>) -> Result<Self, Failure> {
    let keys = ledger.map_or_else(|| Ok(vec![]), Ledger::public_keys)?;
    Ok(Self {
      judge: SkillJudge {
        config: context.config()?.config,
        rules: context.rules()?,
        model: Some(Model::embedded()),
      },
      keys,
    })
  }

  pub(super) fn check(&self, dir: &Path, places: &SkillPlaces) -> Result<CheckedSkill, Failure> {
    self.check_if_there(dir, places).ok_or_else(|| absent(dir))
  }

  /// The skill in a directory; `None` if the directory does not exist.
  fn check_if_there(&self, dir: &Path, places: &SkillPlaces) -> Option<CheckedSkill> {
    check_skill(dir, places.besides, &self.keys, &self.judge, None).ok()
  }
}

fn absent(dir: &Path) -> Failure {
  Failure::unavailable(format!("`{}` does not exist", shown(dir)))
}

fn list(context: &Context, args: JsonArgs) -> Result<Status, Failure> {
  let ledger = context.ledger_to_read()?;
  let skills = Skills::find(context, ledger.as_ref())?;
  skills.note_gaps();
  // A skill that was gone at the last check is not checked yet.
  let checked = |row: &Option<SkillRow>| row.clone().filter(|row| row.is_present);
  if args.json {
    let one = |(dir, row): &(PathBuf, _)| row_json(dir, checked(row).as_ref());
    let all: Vec<Value> = skills.all.iter().map(one).collect();
    context.out.json(&all)?;
    return Ok(Status::Yes);
  }
  if skills.all.is_empty() {
    context.out.line("no skills")?;
    return Ok(Status::Yes);
  }
  let now = SystemClock.now();
  let mut table = Table::new([
    Column::new("SKILL").cut_end(16),
    Column::new("STATE"),
    Column::new("FINDINGS").right(),
    Column::new("SIGNED BY").dispensable(),
    Column::new("FIRST SEEN").dispensable(),
    Column::new("DIRECTORY").cut_start(20),
  ]);
  for (dir, row) in &skills.all {
    let row = checked(row);
    let row = row.as_ref();
    let state = row.map_or(SkillState::New, |row| row.state);
    let own = dir.file_name().unwrap_or_default().to_string_lossy();
    table.row([
      Cell::styled(row.map_or(&*own, |row| row.name.as_str()), Style::Cyan),
      Cell::styled(state.as_str(), style(state)),
      Cell::from(row.map_or_else(|| "-".to_owned(), |row| row.n_findings.to_string())),
      Cell::from(row.and_then(|row| row.signed_by.clone()).unwrap_or_default()),
      Cell::from(
        row.map_or_else(|| "not checked yet".to_owned(), |row| time::short(row.first_seen_at, now)),
      ),
      Cell::from(shown(dir)),
    ]);
  }
  context.out.page();
  table.write(&context.out)?;
  Ok(Status::Yes)
}

fn row_json(dir: &Path, row: Option<&SkillRow>) -> Value {
  let own = dir.file_name().unwrap_or_default().to_string_lossy();
  let trusted = row.and_then(|row| row.trusted.as_ref());
  json!({
    "name": row.map_or(&*own, |row| row.name.as_str()),
    "dir": shown(dir),
    "state": row.map_or(SkillState::New, |row| row.state).as_str(),
    "first_seen_at": row.map(|row| time::rfc3339(row.first_seen_at)),
    "changed_at": row.map(|row| time::rfc3339(row.changed_at)),
    "manifest": row.map(|row| row.manifest.to_string()),
    "trusted_at": trusted.map(|(at, _)| time::rfc3339(*at)),
    "trusted_by": trusted.map(|(_, by)| by),
    "findings": row.map(|row| row.n_findings),
    "codes": row.map_or_else(Vec::new, |row| row.codes.iter().map(|code| code.as_str()).collect()),
    "signature": row.map(|row| row.signature.as_str()),
    "signed_by": row.and_then(|row| row.signed_by.as_deref()),
  })
}

const fn style(state: SkillState) -> Style {
  match state {
    SkillState::New => Style::Plain,
    SkillState::Trusted => Style::Green,
    SkillState::Changed => Style::Yellow,
    SkillState::Flagged => Style::Red,
  }
}

fn trust(context: &Context, args: &SkillsTrustArgs) -> Result<Status, Failure> {
  context.home()?.create().map_err(unavailable)?;
  let mut ledger = context.ledger_to_write()?;
  let skills = Skills::find(context, Some(&ledger))?;
  // All names are looked up before the first decision.
  let chosen = args.names.iter().map(|name| skills.one(name)).collect::<Result<Vec<_>, _>>()?;
  let (by, out) = (context.user(), &context.out);
  if args.withdraw {
    let mut status = Status::Yes;
    for (dir, _) in chosen {
      let event = Event::new(EventKind::SkillWithdrawn).path(dir).detail(format!("by {by}"));
      let path = terminal(shown(dir));
      if ledger.distrust_skill(dir, &[event.row()], SystemClock.now())? {
        out.line(&format!(
          "{path}: no longer trusted; it is still compared with what was trusted"
        ))?;
      } else {
        out.line(&format!("{path}: it was not trusted"))?;
        status = Status::No;
      }
    }
    return Ok(status);
  }
  let checker = Checker::new(context, Some(&ledger))?;
  let mut checked = Vec::new();
  for (dir, row) in chosen {
    let found = checker.check(dir, &skills.places)?.check;
    if !found.manifest.is_whole() {
      let what = what_was_found(&found);
      return Err(
        Failure::unavailable(format!("`{}` cannot be trusted: {what}", shown(dir)))
          .hint("what memfw cannot read may change without a difference"),
      );
    }
    checked.push((dir, row, found));
  }
  for (dir, row, found) in checked {
    let hash = digits(&found);
    let files = count(found.manifest.len() as u64, "file");
    let event = Event::new(EventKind::SkillTrusted)
      .path(dir)
      .detail(format!("{files}, manifest {hash}, by {by}"))
      .count(found.n_findings as usize);
    let base = row.as_ref().map(|row| ledger.skill_manifest(row.base)).transpose()?.flatten();
    ledger.trust_skill(&found, &by, &[event.row()], SystemClock.now())?;
    let bytes = count(found.manifest.bytes(), "byte");
    out.line(&format!("{}: trusted ({files}, {bytes}, manifest {hash})", terminal(shown(dir))))?;
    if let Some(base) = base {
      verify::print_difference(out, &Difference::between(&base, &found.manifest))?;
    }
    if found.n_findings > 0 {
      let what = terminal(what_was_found(&found));
      out.line(&format!("  {}: {what}", out.paint(Style::Yellow, "accepted as well")))?;
    }
  }
  Ok(Status::Yes)
}

/// The first digits of the hash of a skill's manifest.
fn digits(found: &SkillCheck) -> String {
  found.manifest.hash().to_hex().chars().take(DIGITS).collect()
}
