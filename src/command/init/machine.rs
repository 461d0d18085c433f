//! What `memfw init` finds on this machine: agents, the directories whose memory would be guarded, the
//! configuration and the service. Nothing is changed here.
#![forbid(unsafe_code)]

use std::{
  fs::DirEntry,
  path::{Component, Path, PathBuf},
};

use serde_json::{Value, json};

use super::answers::{Answers, ServiceAnswer};
use crate::{
  app::{
    agent::roster::Roster,
    configuration::{ConfigError, DISTRUST_HINT, MAX_BYTES, distrust, parse, read},
    context::Context,
    paths::resolved,
  },
  command::service::{setup::ServiceSetup, supervisor::Supervisor},
  config::Config,
  engine::event::shown,
  files::{RealFs, Shape, Workspace},
  store::StateKey,
  terminal::{
    escape::terminal,
    failure::{Failure, reason},
    output::{Style, count},
  },
};

/// How many entries of a directory are looked at for a warning (a choice); a directory can have any number.
const MAX_ENTRIES: usize = 1000;

/// The facts.
pub(super) struct Machine {
  /// The agents that were found.
  pub(super) roster: Roster,
  /// The configuration file.
  pub(super) file: PathBuf,
  /// Its text; `None` if there is no file.
  pub(super) text: Option<String>,
  /// The values in it, without flags and the environment.
  pub(super) config: Config,
  /// The directories that a flag names, as the configuration has them.
  pub(super) named: Option<Vec<String>>,
  /// The services that this user may have.
  pub(super) services: Vec<ServiceSetup>,
  /// What the ledger has about baselines; empty without a ledger.
  baselines: Vec<StateKey>,
}

/// A directory whose memory is guarded.
pub(super) struct Place {
  pub(super) path: PathBuf,
  /// The agents that keep their memory there.
  agents: Vec<String>,
  /// The number of its memory files; `None` if it does not exist, or cannot be read.
  pub(super) n_files: Option<usize>,
  /// Whether its first scan has to be done, or done to its end.
  pub(super) is_unscanned: bool,
  /// Whether what is there then is its baseline.
  pub(super) gets_baseline: bool,
}

impl Machine {
  /// Finds the facts; `dirs` are directories that a flag names.
  pub(super) fn find(context: &Context, dirs: &[PathBuf]) -> Result<Self, Failure> {
    let file = context.config_file()?;
    if let Some(why) = distrust(&file) {
      return Err(Failure::config(why).hint(DISTRUST_HINT));
    }
    let unreadable = |why| ConfigError::Unreadable { file: file.clone(), why };
    let text = read(&file, MAX_BYTES).map_err(unreadable)?;
    let home = context.surroundings.home();
    let effective = parse(text.as_deref().unwrap_or_default(), None, home.as_deref(), true);
    let broken = |problems| ConfigError::Broken { file: file.clone(), problems };
    let config = effective.map_err(broken)?.config;
    let named = if dirs.is_empty() { None } else { Some(named(dirs)?) };
    let roster = Roster::find(&context.surroundings.env, &config);
    if roster.found.is_empty() && config.workspaces.is_empty() && named.is_none() {
      return Err(nothing_found(&roster));
    }
    let managers = match Supervisor::native() {
      Supervisor::Launchd => vec![Supervisor::Launchd],
      _ => vec![Supervisor::User, Supervisor::System],
    };
    // A user whom the system does not know has no service of the system.
    let services =
      managers.into_iter().filter_map(|manager| ServiceSetup::find(context, manager).ok());
    let services = services.collect();
    let ledger = context.ledger_to_read()?;
    let states = ledger.map_or_else(|| Ok(Vec::new()), |ledger| ledger.states())?;
    let baselines = states.into_iter().map(|(key, ..)| key).collect();
    Ok(Self { roster, file, text, config, named, services, baselines })
  }

  /// The current values; the service is the one that is installed, or that can be installed.
  pub(super) fn present(&self, context: &Context) -> Answers {
    Answers::of(&self.config, self.present_service(context))
  }

  fn present_service(&self, context: &Context) -> ServiceAnswer {
    if let Some(service) = self.services.iter().find(|service| service.is_installed()) {
      return ServiceAnswer::Manager(service.manager());
    }
    // Without a manager that can be reached, or while the person's own daemon runs, there is none.
    let usable = self.services.iter().find(|service| service.check_install(context).is_ok());
    usable.map_or(ServiceAnswer::None, |service| ServiceAnswer::Manager(service.manager()))
  }

  /// The service managers that can work here.
  pub(super) fn managers(&self, context: &Context) -> Vec<Supervisor> {
    let works =
      |service: &&ServiceSetup| service.is_installed() || service.check_install(context).is_ok();
    self.services.iter().filter(works).map(ServiceSetup::manager).collect()
  }

  /// The directories that are guarded under a configuration.
  pub(super) fn places(&self, context: &Context, config: &Config) -> Result<Vec<Place>, Failure> {
    let found = context.discover(config, &[])?;
    let is_first = !self.baselines.iter().any(|key| matches!(key, StateKey::Adopted(_)));
    let place = |path: PathBuf| {
      let agents = self.roster.found.iter().flat_map(|one| &one.agents);
      let agents = agents.filter(|(_, workspace)| resolved(workspace) == path);
      let agents = agents.map(|(name, _)| name.clone()).collect();
      let n_files = n_files(&path, found.shapes.of(&path));
      // The daemon records a baseline when it has read all of it, and continues with one that was begun.
      let has = |key| self.baselines.contains(&key);
      let is_unscanned = n_files.is_some() && !has(StateKey::Adopted(shown(&path)));
      let gets_baseline =
        is_unscanned && (found.is_named || is_first || has(StateKey::Adopting(shown(&path))));
      Place { path, agents, n_files, is_unscanned, gets_baseline }
    };
    Ok(found.workspaces.iter().cloned().map(place).collect())
  }

  /// What is probably not meant about the directories that a person names, a sentence each.
  pub(super) fn warnings(&self, places: &[Place]) -> Vec<String> {
    let Some(named) = &self.named else { return Vec::new() };
    let is_named = |path: &Path| named.iter().any(|dir| resolved(Path::new(dir)) == path);
    let without_memory = places
      .iter()
      .filter(|place| place.n_files == Some(0) && is_named(&place.path) && has_notes(&place.path));
    let without_memory = without_memory.map(|place| {
      let dir = shown(&place.path);
      format!("no .md file in `{dir}` counts as memory: only MEMORY.md and memory/**/*.md do")
    });
    let is_dropped =
      |dir: &Path| dir.is_dir() && !places.iter().any(|place| place.path == resolved(dir));
    let agents = self.roster.found.iter().flat_map(|one| &one.agents);
    let dropped = agents.filter(|(_, dir)| is_dropped(dir)).map(|(agent, dir)| {
      let dir = shown(dir);
      format!("`{dir}` of agent {agent} is not guarded: `--workspace` names other directories")
    });
    without_memory.chain(dropped).collect()
  }

  /// Prints what was found.
  pub(super) fn print(&self, context: &Context, places: &[Place]) -> Result<(), Failure> {
    let out = &context.out;
    for one in &self.roster.found {
      let version = one.version.as_deref().map(|version| format!(" {version}"));
      let name = format!("{}{}", one.name, version.unwrap_or_default());
      let name = out.paint(Style::Bold, &terminal(name));
      out.line(&format!("Found {name} in {}", terminal(shown(&one.home))))?;
    }
    for note in &self.roster.notes {
      out.line(&format!("  note: {}", terminal(note)))?;
    }
    out.line("Memory to guard:")?;
    for place in places {
      out.line(&format!("  {}", terminal(shown(&place.path))))?;
      let mut facts: Vec<String> =
        place.agents.iter().map(|name| format!("agent {}", terminal(name))).collect();
      facts.push(
        place
          .n_files
          .map_or_else(|| "not there yet".to_owned(), |n| count(n as u64, "memory file")),
      );
      out.line(&format!("    {}", facts.join(", ")))?;
    }
    Ok(())
  }

  /// The agents, for a program.
  pub(super) fn found_json(&self) -> Value {
    let found = self.roster.found.iter().map(|one| {
      let agents = one.agents.iter();
      let agents = agents.map(|(id, dir)| json!({ "id": id, "workspace": shown(dir) }));
      json!({
        "name": one.name, "version": one.version, "home": shown(&one.home),
        "agents": agents.collect::<Vec<_>>(),
      })
    });
    found.collect()
  }
}

impl Place {
  /// The directory, for a program.
  pub(super) fn to_json(&self) -> Value {
    json!({ "path": shown(&self.path), "agents": self.agents, "files": self.n_files })
  }
}

/// The directories as the configuration has them.
fn named(dirs: &[PathBuf]) -> Result<Vec<String>, Failure> {
  let named = |dir: &PathBuf| {
    let wrong = |why: &str| Err(Failure::usage(format!("`{}` {why}", dir.display())));
    // A link is kept, so that it may lead elsewhere later; `..` cannot be removed without following links.
    let goes_up = dir.components().any(|part| part == Component::ParentDir);
    let whole = match if goes_up { dir.canonicalize() } else { std::path::absolute(dir) } {
      Ok(whole) => whole,
      Err(error) => return wrong(&format!("cannot be used: {}", reason(&error))),
    };
    if !whole.is_dir() {
      return wrong("is not a directory");
    }
    match whole.to_str() {
      Some(text) => Ok(text.to_owned()),
      None => wrong("is not UTF-8, and the configuration cannot contain it"),
    }
  };
  dirs.iter().map(named).collect()
}

/// The failure where there is no agent.
fn nothing_found(roster: &Roster) -> Failure {
  let dirs: Vec<String> =
    roster.searched.iter().map(|dir| format!("`{}`", dir.display())).collect();
  let searched = match dirs.split_last() {
    Some((last, rest)) if !rest.is_empty() => {
      format!(": there is neither {} nor {last}", rest.join(", "))
    }
    Some((only, _)) => format!(": there is no {only}"),
    None => String::new(),
  };
  Failure::unavailable(format!("no agent was found{searched}"))
    .hint("name the directory with its memory: `memfw init --workspace DIR`")
    .hint(Roster::advice())
}

/// The number of memory files in a directory.
fn n_files(dir: &Path, shape: &Shape) -> Option<usize> {
  let fs = RealFs::default();
  let workspace = Workspace::open(&fs, dir).ok()?;
  Some(workspace.walk_as(&fs, shape).files.len())
}

/// Whether a directory, or one directly in it, has markdown files. At most [`MAX_ENTRIES`] entries are looked at.
fn has_notes(dir: &Path) -> bool {
  let entries = |dir: &Path| dir.read_dir().into_iter().flatten().flatten().take(MAX_ENTRIES);
  let is_note = |entry: &DirEntry| entry.file_name().as_encoded_bytes().ends_with(b".md");
  let is_dir = |entry: &DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
  let inside = |entry: DirEntry| entries(&entry.path()).any(|entry| is_note(&entry));
  entries(dir).any(|entry| is_note(&entry) || is_dir(&entry) && inside(entry))
}
