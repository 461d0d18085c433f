//! Candidates for the values of the command line, from the ledger and from lists of words.
#![forbid(unsafe_code)]

use std::{
  collections::BTreeSet,
  ffi::{OsStr, OsString},
  path::{Path, PathBuf},
  sync::Arc,
  time::Duration,
};

use clap::builder::StyledStr;
use clap_complete::engine::{
  ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter as _,
};

use super::{MAX_OFFERED, Shell};
use crate::{
  app::paths::LEDGER,
  command::policy,
  config::{self, JudgeVia, KEYS, LogLevel, Markers, NotifyVia, Preset, Scope, Sensitivity},
  detect::Code,
  engine::{EventKind, event::shown},
  os::{Env, Home},
  provenance::{State, Trust},
  store::{Access, Ledger, StoreError},
};

/// How long to wait for a busy ledger: a person has pressed a key.
const PATIENCE: Duration = Duration::from_millis(200);

/// The kind of a value of the command line.
#[derive(Clone, Copy, Debug)]
enum What {
  /// An item for review; waiting items come first.
  Item,
  /// An approval, as `memfw policy check` names it.
  Approval,
  /// A guarded file.
  File,
  /// An item, or a finding code.
  ItemOrCode,
  /// A key of the configuration.
  Key,
  /// A value of the key that comes before it on the command line.
  Value,
  /// The kind of a source that the ledger knows.
  Source,
  /// One word of a fixed list.
  Words(fn() -> Vec<&'static str>),
}

impl What {
  /// The kind for a command and the name that the value has in the help.
  fn of(command: &str, arg: &clap::Arg) -> Option<Self> {
    let name = arg.get_value_names()?.first()?.as_str();
    Some(match (command, name) {
      ("withdraw", "ID") => Self::Approval,
      (_, "ID" | "ID|FILE:LINE") => Self::Item,
      (_, "ID|FILE:LINE|CODE") => Self::ItemOrCode,
      (_, "CODE") => Self::Words(|| Code::ALL.iter().map(|code| code.as_str()).collect()),
      (_, "FILE[:LINE]|ID") | ("restore" | "retrust", "FILE") => Self::File,
      (_, "KEY") => Self::Key,
      ("set", "VALUE") => Self::Value,
      (_, "SOURCE") => Self::Source,
      (_, "LEVEL") => Self::Words(|| LogLevel::ALL.iter().map(|word| word.as_str()).collect()),
      (_, "SCOPE") => Self::Words(|| Scope::ALL.iter().map(|word| word.as_str()).collect()),
      (_, "SENSITIVITY") => {
        Self::Words(|| Sensitivity::ALL.iter().map(|word| word.as_str()).collect())
      }
      (_, "TRUST") => Self::Words(|| Trust::ALL.iter().map(|word| word.as_str()).collect()),
      (_, "STATUS") => Self::Words(|| State::ALL.iter().map(|word| word.as_str()).collect()),
      (_, "EVENT") => Self::Words(|| EventKind::ALL.iter().map(|word| word.as_str()).collect()),
      (_, "PRESET") => Self::Words(|| Preset::ALL.iter().map(|word| word.as_str()).collect()),
      (_, "MARKERS") => Self::Words(|| Markers::ALL.iter().map(|word| word.as_str()).collect()),
      ("init", "MANAGER") => Self::Words(|| vec!["user", "system", "launchd", "none"]),
      ("init", "HOW") => Self::Words(|| NotifyVia::ALL.iter().map(|word| word.as_str()).collect()),
      ("init", "JUDGE") => Self::Words(|| JudgeVia::ALL.iter().map(|word| word.as_str()).collect()),
      _ => return None,
    })
  }
}

/// Adds candidates to the arguments of a command and of all commands below it.
pub fn with_lookup(command: clap::Command, lookup: &Arc<Lookup>) -> clap::Command {
  let name = command.get_name().to_owned();
  let with = |arg: clap::Arg| match What::of(&name, &arg) {
    Some(what) => {
      let lookup = Arc::clone(lookup);
      arg.add(ArgValueCompleter::new(move |typed: &OsStr| lookup.candidates(what, typed)))
    }
    None => arg,
  };
  command.mut_args(with).mut_subcommands(|below| with_lookup(below, lookup))
}

/// Where to look for candidates.
#[derive(Debug)]
pub struct Lookup {
  ledger: Option<PathBuf>,
  home: Option<PathBuf>,
  here: Option<PathBuf>,
  /// Whether the shell keeps a `~` at the beginning of a candidate unquoted.
  knows_home: bool,
  /// The key whose value is being typed.
  key: Option<&'static config::Key>,
}

impl Lookup {
  /// For the words typed so far.
  pub fn new(env: &Env, shell: Shell, words: &[OsString]) -> Self {
    let key = words.windows(2).find(|pair| pair.first().is_some_and(|word| word == "set"));
    let key = key.and_then(|pair| config::find(pair.get(1)?.to_str()?));
    Self {
      ledger: Home::find(env).ok().map(|home| home.data.join(LEDGER)),
      home: env.path("HOME"),
      here: std::env::current_dir().ok(),
      knows_home: shell != Shell::Zsh,
      key,
    }
  }

  fn candidates(&self, what: What, typed: &OsStr) -> Vec<CompletionCandidate> {
    // All names that memfw knows are UTF-8, so other bytes match none of them.
    let Some(text) = typed.to_str() else { return Vec::new() };
    let words = |words: Vec<&'static str>| {
      words.into_iter().map(|word| (word.to_owned(), String::new())).collect()
    };
    let found: Vec<(String, String)> = match what {
      What::Item => self.ask(|ledger| items(ledger, text)),
      What::ItemOrCode => {
        let mut found = self.ask(|ledger| items(ledger, text));
        found.extend(Code::ALL.iter().map(|code| (code.to_string(), code.title().to_owned())));
        found
      }
      What::Approval => self.ask(policy::names),
      What::Source => self.ask(sources),
      What::Key => KEYS.iter().map(|key| (key.name.to_owned(), about(key))).collect(),
      What::Value => words(self.key.map(|key| (key.words)()).unwrap_or_default()),
      What::Words(all) => words(all()),
      What::File => {
        let files = self.ask(|ledger| self.files(ledger, text));
        // The user may also mean a file that was never guarded.
        if files.is_empty() {
          return PathCompleter::file().complete(typed);
        }
        files
      }
    };
    let matching = found.into_iter().filter(|(value, _)| value.starts_with(text));
    matching
      .take(MAX_OFFERED)
      .enumerate()
      .map(|(at, (value, about))| {
        let about = (!about.is_empty()).then(|| StyledStr::from(about));
        CompletionCandidate::new(value).help(about).display_order(Some(at))
      })
      .collect()
  }

  /// The answer of the ledger; empty if the ledger cannot be read.
  fn ask<T>(&self, question: impl FnOnce(&Ledger) -> Result<Vec<T>, StoreError>) -> Vec<T> {
    let Some(path) = &self.ledger else { return Vec::new() };
    let Ok(mut ledger) = Ledger::open(path, Access::ReadOnly, None) else { return Vec::new() };
    ledger.set_patience(PATIENCE);
    question(&ledger).unwrap_or_default()
  }

  /// The guarded files, each as the user began to type it: absolute, below `~`, or relative.
  fn files(&self, ledger: &Ledger, typed: &str) -> Result<Vec<(String, String)>, StoreError> {
    let forms = |path: &Path| -> Option<String> {
      let below = |dir: &Option<PathBuf>| {
        path.strip_prefix(dir.as_deref()?).ok()?.to_str().map(str::to_owned)
      };
      let absolute = path.to_str()?.to_owned();
      let at_home = || below(&self.home).filter(|_| self.knows_home).map(|rel| format!("~/{rel}"));
      match typed {
        "" => below(&self.here).or(Some(absolute)),
        _ if typed.starts_with('/') => Some(absolute),
        _ if typed.starts_with('~') => at_home(),
        _ => below(&self.here),
      }
    };
    let files = ledger.files()?;
    Ok(files.iter().filter_map(|file| Some((forms(&file.path)?, String::new()))).collect())
  }
}

/// The items whose id begins with `typed`: waiting, then flagged, then decided; each group newest first.
fn items(ledger: &Ledger, typed: &str) -> Result<Vec<(String, String)>, StoreError> {
  let mut items = ledger.items(&crate::store::ItemFilter::default())?;
  items.retain(|item| item.id.as_str().starts_with(typed));
  let rank = |state: State| match state {
    state if state.is_waiting() => 0,
    State::Flagged => 1,
    _ => 2,
  };
  items.sort_by_key(|item| (rank(item.status), std::cmp::Reverse(item.quarantined_at)));
  let about = |codes: &[Code]| codes.first().map_or("", |code| code.as_str());
  let name = |path: &Path| path.file_name().map(|name| shown(Path::new(name))).unwrap_or_default();
  let losses = ledger.waiting_losses()?.into_iter();
  let losses = losses.map(|loss| (loss.id.to_string(), format!("lost {}", name(&loss.path))));
  let items = items.iter().map(|item| {
    let about = format!("{} {} {}", item.status, about(&item.codes), name(&item.path));
    (item.id.to_string(), about)
  });
  Ok(losses.chain(items).collect())
}

/// The kinds of the sources of all items.
fn sources(ledger: &Ledger) -> Result<Vec<(String, String)>, StoreError> {
  let items = ledger.items(&crate::store::ItemFilter::default())?;
  let kinds: BTreeSet<&str> = items.iter().map(|item| item.source.kind()).collect();
  Ok(kinds.into_iter().map(|kind| (kind.to_owned(), String::new())).collect())
}

/// The first clause of the description of a key.
fn about(key: &config::Key) -> String {
  let text: String = key.about.concat();
  text.trim().split([':', '.', ';']).next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
  use super::*;
  use crate::command::Args;
  use clap::CommandFactory as _;

  /// The arguments whose values are looked up, as `command VALUE`.
  fn known(command: &clap::Command, found: &mut Vec<String>) {
    for arg in command.get_arguments() {
      if What::of(command.get_name(), arg).is_some() {
        let name = arg.get_value_names().and_then(<[_]>::first).unwrap();
        found.push(format!("{} {name}", command.get_name()));
      }
    }
    command.get_subcommands().for_each(|below| known(below, found));
  }

  #[test]
  fn values_are_known_by_their_names_in_the_help() {
    let mut found = Vec::new();
    known(&Args::command(), &mut found);
    for value in [
      "approve ID|FILE:LINE",
      "withdraw ID",
      "provenance FILE[:LINE]|ID",
      "restore FILE",
      "show KEY",
      "set KEY",
      "set VALUE",
      "list STATUS",
      "audit EVENT",
      "audit SOURCE",
      "scan TRUST",
      "memfw LEVEL",
      "init PRESET",
      "init MANAGER",
      "init HOW",
      "init MARKERS",
      "init JUDGE",
    ] {
      assert!(found.iter().any(|known| known == value), "`{value}` is not looked up: {found:?}");
    }
  }

  #[test]
  fn without_a_ledger_there_are_words_and_no_ids() {
    let words = ["memfw", "config", "set", "preset"].map(OsString::from);
    let lookup = Lookup::new(&Env::from_pairs([("MEMFW_HOME", "/no/such")]), Shell::Zsh, &words);
    let offered = |what, typed: &str| -> Vec<String> {
      let found = lookup.candidates(what, OsStr::new(typed));
      found.iter().map(|one| one.get_value().to_str().unwrap().to_owned()).collect()
    };
    assert_eq!(offered(What::Value, ""), ["quiet", "balanced", "strict"]);
    assert_eq!(offered(What::Key, "files.id"), ["files.idle_ms"]);
    assert!(offered(What::Item, "").is_empty());
    assert!(offered(What::Approval, "").is_empty());
  }
}
