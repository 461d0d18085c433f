//! `memfw openclaw policy`: answers OpenClaw before it installs or updates a skill.
//!
//! The staged files are checked as an installed skill is, and nothing is recorded: what is installed is seen by the
//! daemon right after.
#![forbid(unsafe_code)]

use std::io::{self, Read as _};

use crate::{
  app::{context::Context, exit::Status, paths::resolved},
  command::skills::Checker,
  daemon::skill_check::{CheckedSkill, SkillPlaces, what_was_found},
  detect::Verdict,
  engine::event::shown,
  openclaw::{
    install_policy::{Asked, Decided, PolicyFinding, answer, asked},
    skills::INSTALLER_FILES,
  },
  skill::SkillState,
  terminal::failure::Failure,
};

/// Largest question that is read, in bytes; OpenClaw asks none that is larger.
const MAX_BYTES: u64 = 256 << 10;

/// Carries the command out. The answer is in the output; a failure is a refusal for OpenClaw.
pub(super) fn run(context: &Context) -> Result<Status, Failure> {
  let mut bytes = Vec::new();
  io::stdin()
    .lock()
    .take(MAX_BYTES)
    .read_to_end(&mut bytes)
    .map_err(|error| Failure::unavailable(format!("cannot read standard input: {error}")))?;
  let (decided, findings) = match asked(&bytes) {
    Asked::Other => (Decided::Allow, vec![]),
    Asked::Unreadable => {
      (Decided::Warn("memfw cannot check it: it is no directory of a skill".to_owned()), vec![])
    }
    Asked::Skill(dir) => {
      let ledger = context.ledger_to_read()?;
      let checker = Checker::new(context, ledger.as_ref())?;
      let places = SkillPlaces { besides: INSTALLER_FILES, ..SkillPlaces::default() };
      decide(&checker.check(&resolved(&dir), &places)?)
    }
  };
  context.out.json_line(&answer(&decided, &findings))?;
  Ok(Status::Yes)
}

/// What a check means for the installation: a rule that may decide alone forbids it, and everything else that flags a
/// skill is the owner's decision.
fn decide(CheckedSkill { check, findings }: &CheckedSkill) -> (Decided, Vec<PolicyFinding>) {
  let listed = findings.listed.iter().filter_map(|one| {
    let code = one.codes.first()?.as_str();
    let why = one.why.first()?;
    Some(PolicyFinding {
      code,
      is_critical: one.verdict == Verdict::Quarantine,
      // OpenClaw shows the code in front of it.
      why: why.strip_prefix(code).and_then(|why| why.strip_prefix(": ")).unwrap_or(why).to_owned(),
      file: shown(&one.file),
      line: one.line,
    })
  });
  let listed: Vec<PolicyFinding> = listed.collect();
  let why = format!("memfw: {}", what_was_found(check));
  let decided = match check.state(None) {
    SkillState::Flagged if findings.worst == Some(Verdict::Quarantine) => Decided::Block(why),
    SkillState::Flagged => Decided::Warn(why),
    _ => Decided::Allow,
  };
  (decided, listed)
}
