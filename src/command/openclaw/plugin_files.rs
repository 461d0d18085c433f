//! The files of OpenClaw's plugin, which are part of this program.
#![forbid(unsafe_code)]

use std::path::PathBuf;

use crate::openclaw::Installation;

/// The id of the plugin.
pub(super) const ID: &str = "memfw";
/// Its files.
pub(super) const FILES: &[(&str, &str)] = &[
  ("package.json", include_str!("../../../integrations/openclaw/package.json")),
  ("openclaw.plugin.json", include_str!("../../../integrations/openclaw/openclaw.plugin.json")),
  ("index.js", include_str!("../../../integrations/openclaw/index.js")),
  ("link.js", include_str!("../../../integrations/openclaw/link.js")),
  ("chat.js", include_str!("../../../integrations/openclaw/chat.js")),
  ("checked.js", include_str!("../../../integrations/openclaw/checked.js")),
  ("described.js", include_str!("../../../integrations/openclaw/described.js")),
  ("installed.js", include_str!("../../../integrations/openclaw/installed.js")),
  ("judge.js", include_str!("../../../integrations/openclaw/judge.js")),
  ("notices.js", include_str!("../../../integrations/openclaw/notices.js")),
  ("heard.js", include_str!("../../../integrations/openclaw/heard.js")),
  ("reads.js", include_str!("../../../integrations/openclaw/reads.js")),
  (SKILL, include_str!("../../../integrations/openclaw/skills/memfw-memory/SKILL.md")),
];
/// What tells the agent about memfw.
pub(super) const SKILL: &str = "skills/memfw-memory/SKILL.md";

/// Where an installation of OpenClaw keeps the plugin.
pub(in crate::command) fn installed(one: &Installation) -> PathBuf {
  one.layout.state_dir.join("extensions").join(ID)
}
