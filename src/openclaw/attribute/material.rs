//! The material that was put before the agent: each record as a text with a source.
//!
//! The source is the one that OpenClaw recorded, never what the text claims. Only OpenClaw
//! determines who is the owner; a name that a sender chose proves nothing.
#![forbid(unsafe_code)]

use std::{borrow::Cow, path::Path};

use serde_json::Value;

use super::{
  super::transcript::{Call, Outcome, Sender, Session, UNSEEN, is_local_channel},
  answer::content,
  host::host,
  parts::{WRAPPER, has_content, parts},
  path,
  quoted::FORWARDED,
};
use crate::provenance::{Source, words::squeezed};

/// What OpenClaw calls its own messages in a session.
const SESSION_EVENT: &str = "[OpenClaw session event]";
/// How OpenClaw's own prompts begin, which a transcript records like messages of the user: before a
/// compaction, at the start of a session, at a heartbeat, after a command or a reminder.
const PROMPTS: &[&str] = &[
  "Pre-compaction memory flush",
  "A new session was started via",
  "Session startup",
  "Read HEARTBEAT.md if it exists",
  "Consider outstanding tasks",
  "A scheduled reminder has been triggered",
  "An async command you ran earlier has completed",
  "Exec completed",
  "Handle the result internally",
  "Continue where you left off",
];
/// Answers that say that something was done, and not what was found, in letters and digits.
const DONE: &[&str] = &[
  "",
  "nooutput",
  "ok",
  "okay",
  "done",
  "success",
  "succeeded",
  "true",
  "null",
  "none",
  "exit0",
  "exitcode0",
  "completed",
  "finished",
  "noresults",
];
/// A longer answer of a tool that writes says more than that it was done, in bytes.
const MAX_CONFIRMATION: usize = 160;
/// Whose words a material is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
  /// The owner's own.
  Owner,
  /// What the session that spawned this one asked for.
  Task,
  /// Memory that existed before; the ledger has its origin.
  Memory,
  /// Anybody else's.
  Foreign,
}

/// A text that the agent had read.
#[derive(Clone, Debug)]
pub(super) struct Material<'r> {
  pub(super) source: Source,
  pub(super) role: Role,
  pub(super) text: Cow<'r, str>,
  /// When the agent got it, in microseconds UTC.
  pub(super) at: i64,
  /// Whether it came since the last message of a person.
  pub(super) in_turn: bool,
  /// Whether text that the agent then wrote may come from the material even where they share no
  /// words.
  pub(super) taints: bool,
  /// Another name of the source, such as the host that was asked before a redirection.
  pub(super) also: Option<String>,
  /// Whether there was more than the text, such as a picture, that is not on record.
  pub(super) is_partial: bool,
}

impl<'r> Material<'r> {
  pub(super) fn new(source: Source, role: Role, text: impl Into<Cow<'r, str>>, at: i64) -> Self {
    let taints = role == Role::Foreign;
    Self {
      source,
      role,
      text: text.into(),
      at,
      in_turn: true,
      taints,
      also: None,
      is_partial: false,
    }
  }

  fn foreign(kind: &str, detail: Option<&str>, text: &'r str, at: i64) -> Self {
    Self::new(source(kind, detail), Role::Foreign, text, at)
  }
}

/// `kind:detail`, or the kind alone.
pub(super) fn source(kind: &str, detail: Option<&str>) -> Source {
  match detail.map(str::trim).filter(|detail| !detail.is_empty()) {
    Some(detail) => Source::new(&format!("{kind}:{detail}")),
    None => Source::new(kind),
  }
}

/// How a session came to be, as far as it says whose words its messages are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SessionStart {
  /// A person talks to it.
  Person,
  /// Content from outside started it.
  Hook(Source),
  /// A schedule started it; who made the schedule is not on record.
  Cron,
  /// Another session spawned it.
  Subagent,
  /// OpenClaw has a transcript of it and nothing else (any more): after the next run of a schedule, a daily reset or
  /// `/new`, its key belongs to another session.
  Unlisted,
}

/// How a session came to be. Everything that OpenClaw notes counts, the least trusted first.
pub(super) fn origin(session: &Session) -> SessionStart {
  let parts: Vec<&str> = session.key.split(':').collect();
  if let Some(hook) = session.hook_source.as_deref().filter(|hook| !hook.is_empty()) {
    return SessionStart::Hook(source("webhook", (hook != "webhook").then_some(hook)));
  }
  if parts.first() == Some(&"hook") || parts.get(2) == Some(&"hook") {
    return SessionStart::Hook(source("webhook", None));
  }
  if parts.contains(&"subagent") || session.created_via.as_deref() == Some("spawn") {
    return SessionStart::Subagent;
  }
  if parts.get(2) == Some(&"cron") || session.created_via.as_deref() == Some("cron") {
    return SessionStart::Cron;
  }
  let is_listed =
    !session.key.is_empty() || session.channel.is_some() || session.created_via.is_some();
  if is_listed { SessionStart::Person } else { SessionStart::Unlisted }
}

/// A message that was given to the agent.
pub(super) struct Given<'r, 'q> {
  pub(super) text: &'r str,
  pub(super) context: &'r str,
  pub(super) owner: Option<bool>,
  pub(super) sender: Option<&'r Sender>,
  pub(super) provenance: Option<&'r str>,
  /// Devices of the owner's.
  pub(super) owner_devices: &'q [String],
}

impl<'r> Given<'r, '_> {
  /// Whether a new turn begins with it: a person spoke.
  pub(super) fn begins_turn(&self, session: &Session) -> bool {
    matches!(origin(session), SessionStart::Person | SessionStart::Unlisted)
      && !self.is_event()
      && self.provenance != Some("inter_session")
  }

  fn is_event(&self) -> bool {
    // A named sender who is not the owner may type that as well, and remains this sender.
    let is_strangers = self.owner == Some(false) && self.sender.is_some();
    self.provenance == Some("internal_system")
      || (!is_strangers && (self.text.trim_start().starts_with(SESSION_EVENT) || self.is_prompt()))
  }

  /// Whether it is a prompt of OpenClaw itself, for which no person asked.
  fn is_prompt(&self) -> bool {
    let text = self.text.trim_start();
    PROMPTS.iter().any(|prompt| text.starts_with(prompt))
  }

  /// What it put before the agent.
  pub(super) fn materials(&self, session: &Session, at: i64) -> Vec<Material<'r>> {
    let (role, own) = self.speaker(session);
    let is_prompt =
      self.is_prompt() && self.is_event() && self.provenance != Some("internal_system");
    let text = if is_prompt { "" } else { self.text };
    let parts = parts(text, self.context, role != Role::Task);
    let mut found = Vec::new();
    if is_prompt {
      let mut prompt = Material::new(Source::new("session-event"), Role::Foreign, self.text, at);
      // OpenClaw's own words never vary, and come from no person.
      prompt.taints = false;
      found.push(prompt);
    }
    // Somebody else spoke, and what was said is not on record: an image, or words that a plugin may not see.
    if role == Role::Foreign
      && self.owner == Some(false)
      && [self.text, self.context].iter().all(|text| text.trim().is_empty())
    {
      found.push(Material::new(own.clone(), role, "", at));
    }
    for text in parts.words.iter().filter(|text| !text.trim().is_empty()) {
      found.push(Material::new(own.clone(), role, *text, at));
    }
    for (kind, detail, text) in parts.passed {
      let from = match kind {
        // A sender who is not the owner may pass on any text.
        _ if role == Role::Foreign => own.clone(),
        FORWARDED => others(session),
        kind => source(kind, detail),
      };
      found.push(Material::new(from, Role::Foreign, text, at));
    }
    if !self.context.trim().is_empty() {
      let mut context = Material::new(others(session), Role::Foreign, self.context, at);
      // Names and numbers of a message are about it; what others said in it is content.
      context.taints = has_content(self.context);
      found.push(context);
    }
    found
  }

  /// Whose words the message contains.
  fn speaker(&self, session: &Session) -> (Role, Source) {
    let foreign = |source: Source| (Role::Foreign, source);
    if self.is_event() {
      return foreign(Source::new("session-event"));
    }
    if self.provenance == Some("inter_session") {
      return foreign(Source::new("inter-session"));
    }
    match origin(session) {
      SessionStart::Hook(hook) => return foreign(hook),
      SessionStart::Cron if self.text.contains(WRAPPER) => return foreign(Source::new("webhook")),
      SessionStart::Cron => return foreign(Source::new("cron")),
      SessionStart::Subagent => return (Role::Task, Source::new("agent")),
      // Only OpenClaw's own record of the message says who sent it.
      SessionStart::Unlisted if self.owner != Some(true) => {
        let is_named = self.owner == Some(false) || self.sender.is_some();
        return foreign(if is_named { self.peer(session) } else { Source::unknown() });
      }
      SessionStart::Person | SessionStart::Unlisted => {}
    }
    let local = session.channel.as_deref().is_none_or(is_local_channel);
    let is_typed_here = match self.sender {
      Some(sender) => (local || session.is_shared) && sender.is_local_client(),
      None => local,
    };
    let is_owner = match self.owner {
      Some(is_owner) => is_owner,
      // Before 2026.8 OpenClaw did not say: only who types on this machine is surely the owner.
      None if self.is_by_owners_device(session) => true,
      None => is_typed_here && session.created_via.as_deref() != Some("plugin"),
    };
    if is_owner { (Role::Owner, Source::new("user:owner")) } else { foreign(self.peer(session)) }
  }

  /// Whether the message came from a device that the configuration names as the owner's. An id on
  /// another channel may belong to another person.
  fn is_by_owners_device(&self, session: &Session) -> bool {
    let channel = session.channel.as_deref();
    let is_devices =
      channel.is_none_or(|channel| is_local_channel(channel) || DEVICE_CHANNELS.contains(&channel));
    let id = match self.sender {
      Some(sender) => sender.id.as_deref(),
      None => session.peer.as_deref(),
    };
    is_devices && id.is_some_and(|id| self.owner_devices.iter().any(|device| device == id))
  }

  /// The source of a person who is not the owner. There are always three parts, so that no name can
  /// make it the owner.
  fn peer(&self, session: &Session) -> Source {
    let channel = match session.channel.as_deref() {
      // `user:owner:...` is the owner.
      Some("owner") | None => "unknown".to_owned(),
      Some(channel) => part(channel),
    };
    let named = self.sender.and_then(|sender| {
      let username = sender.username.as_deref().map(|name| format!("@{}", part(name)));
      username.or_else(|| sender.id.as_deref().or(sender.name.as_deref()).map(part))
    });
    let named = named.or_else(|| session.peer.as_deref().map(part));
    source("user", Some(&format!("{channel}:{}", named.as_deref().unwrap_or("unknown"))))
  }
}

/// The source of the other people on the channel.
fn others(session: &Session) -> Source {
  let channel = match session.channel.as_deref() {
    // `user:owner:...` is the owner.
    Some("owner") => "unknown",
    channel => channel.unwrap_or("session"),
  };
  source("user", Some(&format!("{}:others", part(channel))))
}

/// Channels of devices that are paired.
const DEVICE_CHANNELS: &[&str] = &["node", "ios", "android", "macos", "watch", "talk", "voice"];

/// A name as one part of a source.
fn part(name: &str) -> String {
  name.trim().trim_start_matches('@').replace(':', "_")
}

/// What a tool put before the agent; `None` where the answer only says that something was done.
/// `page` is the address that the browser shows, and follows it.
pub(super) fn of_outcome<'r>(
  outcome: &'r Outcome,
  call: Option<&'r Call>,
  workspace: &Path,
  page: &mut Option<String>,
  at: i64,
) -> Option<Material<'r>> {
  let tool = outcome.tool.as_str();
  let argument = |names: &[&str]| {
    let arguments = &call?.arguments;
    names.iter().find_map(|name| arguments.get(name)?.as_str())
  };
  let text = outcome.text.as_str();
  let says_nothing = text.len() < 32 && !outcome.network && DONE.contains(&squeezed(text).as_str());
  let foreign = |kind: &str, detail: Option<&str>| Material::foreign(kind, detail, text, at);
  let mut material = match tool {
    "web_fetch" | "fetch" | "firecrawl_scrape" => {
      // Only OpenClaw's own tool answers with an object of its own around the page.
      let (last, first) = addresses(outcome, argument(&["url"]), tool == "web_fetch");
      let mut material = web("web_fetch", last.as_deref(), text, at);
      let first = first.filter(|first| last.as_deref().and_then(host) != host(first));
      material.also = first.and_then(|first| host(&first)).map(|host| format!("web_fetch:{host}"));
      material
    }
    "browser" => {
      let details =
        ["url", "targetUrl"].iter().find_map(|name| outcome.details.get(name)?.as_str());
      let shown = details.or_else(|| argument(&["url", "targetUrl"]));
      match (shown, argument(&["action"])) {
        (Some(shown), _) => *page = Some(shown.to_owned()),
        // A click leads anywhere.
        (
          None,
          Some("act" | "click" | "press" | "type" | "fill" | "back" | "forward" | "evaluate"),
        ) => {
          *page = None;
        }
        (None, _) => {}
      }
      web("browser", page.as_deref(), text, at)
    }
    _ if says_nothing => return None,
    "read" | "read_file" | "view" | "memory_get" => {
      let named = argument(PATH_KEYS).or_else(|| outcome.details.get("path")?.as_str());
      let below = named.and_then(|named| path::relative(named, workspace));
      match below.as_deref() {
        Some(below) => of_file(below, text, at),
        None if tool == "memory_get" => {
          Material::new(Source::new("memory"), Role::Memory, text, at)
        }
        None => foreign("file", None),
      }
    }
    "memory_search" | "memory_recall" => match found_elsewhere(text, workspace) {
      Some(elsewhere) => Material::new(elsewhere, Role::Foreign, text, at),
      None => Material::new(Source::new("memory"), Role::Memory, text, at),
    },
    "exec" | "bash" | "shell" | "process" | "code_execution" | "system.run" => {
      let command = argument(&["command", "cmd", "script", "code"]).unwrap_or_default();
      foreign(if asks_moltbook(command) { "moltbook" } else { "exec" }, None)
    }
    // A failed edit shows the file as it is.
    "write" | "edit" | "apply_patch" if outcome.is_error => {
      let below = argument(PATH_KEYS).and_then(|named| path::relative(named, workspace));
      match below.filter(|_| text.len() > MAX_CONFIRMATION) {
        Some(below) => of_file(&below, text, at),
        None if text.len() > MAX_CONFIRMATION => foreign("file", None),
        None => Material::new(Source::new("memory"), Role::Memory, text, at),
      }
    }
    "write" | "edit" | "apply_patch" | "sessions_spawn"
      if !outcome.network && !text.contains(WRAPPER) && text.len() <= MAX_CONFIRMATION =>
    {
      return None;
    }
    // Hooks, formatters and linters speak there as well.
    "write" | "edit" | "apply_patch" => foreign("tool", Some(tool)),
    // The agent planned or said this itself; the tool's answer is not the agent's text.
    "sessions_yield" | "update_plan" | "tts" | "agents_list" if !outcome.network => {
      let mut material = foreign("tool", Some(tool));
      material.taints = false;
      material
    }
    // The answer contains labels and last messages of others.
    "sessions_send" | "sessions_history" | "sessions_list" | "session_status"
    | "sessions_search" | "conversations_list" => foreign("inter-session", None),
    "subagents" | "sessions_spawn" => foreign("subagent", None),
    "web_search" | "x_search" => foreign("web_search", None),
    "skill" => foreign("skill", argument(&["name", "skill"])),
    _ if tool.starts_with("moltbook") => foreign("moltbook", None),
    _ => match tool.trim_start_matches("mcp__").split_once("__") {
      Some((server, _)) => foreign("mcp", Some(server)),
      None => foreign("tool", Some(tool)),
    },
  };
  // A tool of this machine that fails says why. What others give to a call may make it fail, and say anything.
  let is_local = matches!(material.source.kind(), "file" | "memory" | "import" | "skill");
  let is_short = text.len() <= MAX_CONFIRMATION;
  if outcome.is_error && is_local && is_short && !outcome.network && !text.contains(WRAPPER) {
    material.taints = false;
  }
  if outcome.network && material.role != Role::Foreign {
    material.role = Role::Foreign;
    material.taints = true;
  }
  let is_web =
    matches!(material.source.kind(), "web_fetch" | "browser" | "web_search" | "moltbook");
  material.text = content(text, is_web);
  material.is_partial = text.contains(UNSEEN);
  Some(material)
}

/// Where a search of memory found something that is no memory of this workspace: in a transcript, or in notes that
/// the configuration adds (`memorySearch.extraPaths`). The least trusted of them.
fn found_elsewhere(text: &str, workspace: &Path) -> Option<Source> {
  let values = |key: &str| {
    let key = format!("\"{key}\"");
    let found = text.match_indices(&key).filter_map(move |(at, key)| {
      let rest = text.get(at + key.len()..)?.trim_start().strip_prefix(':')?;
      let rest = rest.trim_start().strip_prefix('"')?;
      rest.split_once('"').map(|(value, _)| value)
    });
    found.collect::<Vec<&str>>()
  };
  let is_session = |path: &&str| path.starts_with("sessions/") || path.contains(".jsonl");
  if values("source").contains(&"sessions") || values("path").iter().any(is_session) {
    return Some(Source::new("inter-session"));
  }
  let is_memory = |named: &&str| {
    path::relative(named, workspace).is_some_and(|below| path::is_memory(&below))
      || (!named.starts_with(['/', '~']) && path::is_memory(Path::new(named)))
  };
  values("path").iter().any(|path| !is_memory(path)).then(|| Source::new("file"))
}

/// What a call whose answer is not on record may have put before the agent. Calls that write or only
/// say that something was done are left out.
pub(super) fn of_lost<'r>(call: &'r Call, workspace: &Path, at: i64) -> Option<Material<'r>> {
  let is_silent = ["write", "edit", "apply_patch"].contains(&call.tool.as_str());
  // The text only has to be an answer at all.
  let answer = Outcome {
    call: call.id.clone(),
    tool: call.tool.clone(),
    text: LOST.to_owned(),
    details: Value::Null,
    is_error: false,
    network: false,
  };
  let material = of_outcome(&answer, Some(call), workspace, &mut None, at)?;
  (!is_silent).then(|| Material::new(material.source, material.role, "", at))
}

/// Replaces an answer that is not on record.
const LOST: &str = "an answer that is not on record";

/// Whether a command asks a social network for agents, as its own skill does with `curl`.
fn asks_moltbook(command: &str) -> bool {
  command.to_ascii_lowercase().contains("moltbook.com")
}

/// Argument names for a path, in the spellings that tools use.
pub(super) const PATH_KEYS: &[&str] = &[
  "path",
  "file_path",
  "filePath",
  "filepath",
  "file",
  "filename",
  "fileName",
  "target_file",
  "targetFile",
  "notebook_path",
  "uri",
];

fn of_file<'r>(below: &Path, text: &'r str, at: i64) -> Material<'r> {
  let name = below.to_string_lossy();
  if let Some(importer) = path::importer(below) {
    return Material::foreign("import", Some(importer), text, at);
  }
  if path::is_memory(below) {
    return Material::new(source("memory", Some(&name)), Role::Memory, text, at);
  }
  match path::skill(below) {
    Some(skill) => Material::foreign("skill", Some(&skill), text, at),
    None => Material::foreign("file", Some(&name), text, at),
  }
}

/// A page, by the host that it really came from.
fn web<'r>(kind: &str, address: Option<&str>, text: &'r str, at: i64) -> Material<'r> {
  let host = address.and_then(host);
  let is_moltbook =
    host.as_deref().is_some_and(|host| host == "moltbook.com" || host.ends_with(".moltbook.com"));
  if is_moltbook {
    let user = address.and_then(|address| address.split_once("/u/")).map(|(_, user)| user);
    let user = user.and_then(|user| user.split(['/', '?', '#']).next());
    return Material::foreign("moltbook", user.map(part).as_deref(), text, at);
  }
  Material::foreign(kind, host.as_deref(), text, at)
}

/// The address that a page came from in the end, and the one that was asked for.
fn addresses(
  outcome: &Outcome,
  asked: Option<&str>,
  is_object: bool,
) -> (Option<String>, Option<String>) {
  let detail = |name: &str| outcome.details.get(name)?.as_str().map(str::to_owned);
  let asked = asked.map(str::to_owned).or_else(|| detail("url"));
  if let Some(last) = detail("finalUrl") {
    return (Some(last), asked);
  }
  // The answer is JSON of OpenClaw's; in what it quotes, a quotation mark has a backslash before it.
  let last = match serde_json::from_str::<Value>(&outcome.text) {
    _ if !is_object => None,
    Ok(answer) => answer.get("finalUrl").and_then(Value::as_str).map(str::to_owned),
    Err(_) if !outcome.text.trim_start().starts_with('{') => None,
    // Cut. The part behind the text may be the page's.
    Err(_) => {
      let head = outcome.text.split("\"text\":").next().unwrap_or_default();
      let found = head.split_once("\"finalUrl\": \"");
      found.and_then(|(_, rest)| Some(rest.split_once('"')?.0.to_owned()))
    }
  };
  (last.or_else(|| asked.clone()), asked)
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn a_device_that_is_named_speaks_for_the_owner_on_its_own_channels() {
    let devices = ["7f".to_owned()];
    let source = |channel: &str, peer: Option<&str>, sender: Option<&str>, owner| {
      let sender = sender.map(|id| Sender { id: Some(id.to_owned()), ..Sender::default() });
      let given = Given {
        text: "Pay Halden.",
        context: "",
        owner,
        sender: sender.as_ref(),
        provenance: None,
        owner_devices: &devices,
      };
      let session = Session {
        channel: Some(channel.to_owned()),
        peer: peer.map(str::to_owned),
        ..Session::default()
      };
      given.materials(&session, 0).remove(0).source.to_string()
    };
    assert_eq!(source("node", Some("7f"), None, None), "user:owner");
    assert_eq!(source("ios", None, Some("7f"), None), "user:owner");
    assert_eq!(source("webchat", None, Some("7f"), None), "user:owner");
    // Another device, another channel, and OpenClaw's own decision.
    assert_eq!(source("node", Some("80"), None, None), "user:node:80");
    assert_eq!(source("node", Some("7f"), Some("80"), None), "user:node:80");
    assert_eq!(source("telegram", Some("7f"), Some("7f"), None), "user:telegram:7f");
    assert_eq!(source("node", Some("7f"), None, Some(false)), "user:node:7f");
  }
}
