//! Chooses items by what is known about them.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;

use crate::{
  app::paths::resolved,
  command::shared::{lookup::find_item, since::time_of},
  config::nearest,
  detect::{Code, effects::Effect, policy::power::code_of},
  provenance::{State, Trust},
  store::{Item, ItemFilter, Ledger, Loss},
  terminal::failure::Failure,
};

/// Which items are meant. Each option may be given several times, and then means any of its values.
#[derive(Clone, Debug, Default, ClapArgs)]
pub struct FilterArgs {
  /// Only of this state, such as held or flagged
  #[arg(long, value_name = "STATUS", value_parser = state)]
  pub status: Vec<State>,

  /// Only of this file, or of files below this directory
  #[arg(long, value_name = "PATH")]
  pub file: Vec<PathBuf>,

  /// Only of this source; `web_fetch` is all of its kind
  #[arg(long, value_name = "SOURCE")]
  pub source: Vec<String>,

  /// Only with this finding code
  #[arg(long, value_name = "CODE", value_parser = code)]
  pub code: Vec<Code>,

  /// Only with this effect, such as payment
  #[arg(long, value_name = "EFFECT", value_parser = effect)]
  pub effect: Vec<Effect>,

  /// Only of this trust, such as untrusted or hostile
  #[arg(long, value_name = "TRUST")]
  pub trust: Vec<Trust>,

  /// Only found after this time, such as `2h ago`
  #[arg(long, value_name = "TIME")]
  pub since: Option<String>,
}

/// The states that an item can have.
const STATES: [State; 8] = [
  State::Flagged,
  State::Quarantined,
  State::Held,
  State::Approved,
  State::Rejected,
  State::Corrected,
  State::Forgotten,
  State::Split,
];

fn state(word: &str) -> Result<State, String> {
  let known = word.parse().ok().filter(|state| STATES.contains(state));
  known.ok_or_else(|| {
    let words = STATES.map(State::as_str).join(", ");
    format!("no item is `{word}`; items are {words}")
  })
}

fn code(word: &str) -> Result<Code, String> {
  word.parse::<Code>().map_err(|error| {
    // Without a similar word, one with a common beginning or part is what a person may have meant.
    let words = || Code::ALL.iter().map(|code| code.as_str());
    let near = nearest(word, words())
      .or_else(|| words().find(|code| code.split('-').any(|part| part == word)))
      .map_or_else(|| ";".to_owned(), |near| format!("; did you mean `{near}`?"));
    format!(
      "{error}{near} `memfw list --json` shows the codes of items, docs/findings.md all of them"
    )
  })
}

fn effect(word: &str) -> Result<Effect, String> {
  word.parse::<Effect>().ok().ok_or_else(|| {
    let words: Vec<&str> = Effect::ALL.iter().map(|effect| effect.as_str()).collect();
    format!("no effect is `{word}`; effects are {}", words.join(", "))
  })
}

impl FilterArgs {
  /// Whether every item is meant.
  pub(super) fn is_empty(&self) -> bool {
    let Self { status, file, source, code, effect, trust, since } = self;
    status.is_empty()
      && file.is_empty()
      && source.is_empty()
      && code.is_empty()
      && effect.is_empty()
      && trust.is_empty()
      && since.is_none()
  }

  /// The chosen items: those that are out of their file first, and the oldest first.
  pub(in crate::command) fn items(
    &self,
    ledger: &Ledger,
    unless: Unless,
  ) -> Result<Vec<Item>, Failure> {
    let waiting = match unless {
      _ if !self.status.is_empty() => return self.items_in(ledger, self.status.clone()),
      Unless::Any => return self.items_in(ledger, vec![]),
      Unless::Open => ItemFilter::open(),
      Unless::Out => ItemFilter::waiting(),
    };
    let mut items = self.items_in(ledger, waiting.statuses)?;
    items.sort_by_key(|item| item.in_file);
    // A person has decided about these, but their text is not in its file yet.
    let approved = self.items_in(ledger, vec![State::Approved])?;
    items.extend(approved.into_iter().filter(|item| item.awaited));
    Ok(items)
  }

  /// The chosen losses that wait; a loss has no state of an item, no source and no code.
  pub(super) fn losses(&self, ledger: &Ledger) -> Result<Vec<Loss>, Failure> {
    let Self { status, file, source, code, effect, trust, since } = self;
    let is_about_items = !(status.is_empty()
      && source.is_empty()
      && code.is_empty()
      && effect.is_empty()
      && trust.is_empty());
    if is_about_items {
      return Ok(vec![]);
    }
    let files: Vec<(&PathBuf, PathBuf)> = file.iter().map(|file| (file, resolved(file))).collect();
    let since = since.as_deref().map(time_of).transpose()?;
    let mut losses = ledger.waiting_losses()?;
    losses
      .retain(|loss| is_of(&loss.path, &files) && since.is_none_or(|since| loss.found_at >= since));
    Ok(losses)
  }

  /// The chosen items in these states; in any, if there are none.
  fn items_in(&self, ledger: &Ledger, statuses: Vec<State>) -> Result<Vec<Item>, Failure> {
    let files: Vec<(&PathBuf, PathBuf)> =
      self.file.iter().map(|file| (file, resolved(file))).collect();
    let since = self.since.as_deref().map(time_of).transpose()?;
    let mut items = ledger.items(&ItemFilter { statuses, path: None })?;
    items.retain(|item| {
      self.chooses(item, &files) && since.is_none_or(|since| item.quarantined_at >= since)
    });
    Ok(items)
  }

  /// Whether an item is chosen; `files` are the chosen files as typed and as they are found.
  fn chooses(&self, item: &Item, files: &[(&PathBuf, PathBuf)]) -> bool {
    let is_source =
      |source: &String| *source == item.source.as_str() || source == item.source.kind();
    is_of(&item.path, files)
      && (self.source.is_empty() || self.source.iter().any(is_source))
      && (self.code.is_empty() || self.code.iter().any(|code| item.codes.contains(code)))
      // A text of a source that has no right to an effect has the code of that effect.
      && (self.effect.is_empty() || self.effect.iter().any(|effect| item.codes.contains(&code_of(*effect))))
      && (self.trust.is_empty() || self.trust.contains(&item.trust))
  }
}

/// Whether a path is one of the chosen files, or below one; any is if none is chosen.
fn is_of(path: &Path, files: &[(&PathBuf, PathBuf)]) -> bool {
  let is_file =
    |(typed, found): &(&PathBuf, PathBuf)| path.ends_with(typed) || path.starts_with(found);
  files.is_empty() || files.iter().any(is_file)
}

/// Which states are meant if none is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::command) enum Unless {
  /// Those that wait for a person, out of their file or flagged in it.
  Open,
  /// Those that wait for a person, out of their file.
  Out,
  /// All.
  Any,
}

/// The named items, or, where none is named, those that the filters choose.
pub(super) fn chosen(
  ledger: &Ledger,
  names: &[String],
  filter: &FilterArgs,
  unless: Unless,
) -> Result<Vec<Item>, Failure> {
  match (names.is_empty(), filter.is_empty()) {
    (true, _) => filter.items(ledger, unless),
    (false, true) => names.iter().map(|name| find_item(ledger, name)).collect(),
    (false, false) => Err(
      Failure::usage("items are named, and filters given as well").hint("leave one of them out"),
    ),
  }
}

/// Items like [`chosen`], for a command that changes them: a person must have said which. A filter chooses no text that
/// is approved and only not back yet.
pub(super) fn chosen_to_change(
  ledger: &Ledger,
  names: &[String],
  filter: &FilterArgs,
) -> Result<Vec<Item>, Failure> {
  if names.is_empty() && filter.is_empty() {
    return Err(
      Failure::usage("no item is named")
        .hint("name items, or choose them: `--file`, `--code`, `--effect`, `--source`"),
    );
  }
  let mut items = chosen(ledger, names, filter, Unless::Out)?;
  items.retain(|item| !names.is_empty() || !item.awaited);
  if items.is_empty() {
    return Err(Failure::unavailable("no item is like that").hint("`memfw list` shows what waits"));
  }
  Ok(items)
}
