//! Frames: what kinds of words in what order say that an entry has an effect. They are data.
//!
//! `rules/effects/frames.toml` has the frames, the other files of that directory the words, by language:
//!
//! ```toml
//! [de]                       # words of a class, as in rules/classes.toml: `word*` matches at its start
//! tell = ["erzähl*", "sag*"]
//!
//! [[frame]]
//! id = "hide-from-owner"     # unique
//! effect = "secrecy"         # one of the effects
//! strength = "blatant"       # weak, plain or blatant
//! seq = ["not-tell", "owner|@person"] # in this order, each within `gap` bytes of the one before
//! gap = 48                   # the default
//! all = ["later"]            # and these anywhere in the sentence
//! not = ["past"]             # and none of these
//! start = true               # the first of `seq` begins the sentence, a clause or a list item
//! guards = ["negated"]       # negated, reported, quoted; default: all
//! why = "..."                # in plain words
//! hits = ["..."]             # run as tests
//! misses = ["..."]
//! ```
//!
//! `a|b` is one or the other. `@account`, `@place`, `@reach`, `@email`, `@person`, `@package`,
//! `@path`, `@amount`, `@world`, `@pipe` and `@code` are slots and shapes that the reader finds
//! itself.
#![forbid(unsafe_code)]

use std::{collections::BTreeMap, sync::OnceLock};

use serde::Deserialize;

use super::effect::{ASKED_KINDS, AskedKind, Effect, Strength};
use crate::detect::rules::lexicon::{Class, Classes, Kind, Lexicon, LexiconBuilder};

/// The embedded files.
pub(super) const FILES: &[(&str, &str)] = &[
  ("rules/effects/english.toml", include_str!("../../../rules/effects/english.toml")),
  ("rules/effects/germanic.toml", include_str!("../../../rules/effects/germanic.toml")),
  ("rules/effects/romance.toml", include_str!("../../../rules/effects/romance.toml")),
  ("rules/effects/slavic.toml", include_str!("../../../rules/effects/slavic.toml")),
  ("rules/effects/asian.toml", include_str!("../../../rules/effects/asian.toml")),
  ("rules/effects/checks.toml", include_str!("../../../rules/effects/checks.toml")),
  ("rules/effects/frames.toml", include_str!("../../../rules/effects/frames.toml")),
];

/// Slots and shapes as classes of words, by their names in frames.
pub(super) const SHAPES: &[&str] = &[
  "@account", "@place", "@reach", "@email", "@person", "@package", "@path", "@amount", "@world",
  "@pipe", "@code", "@filled",
];

/// Most bytes between two steps of a sequence, unless the frame says otherwise.
const GAP: usize = 48;

/// The words of all languages, and the frames.
#[derive(Debug)]
pub(super) struct Frames {
  pub(super) lexicon: Lexicon,
  pub(super) list: Vec<Frame>,
  /// For each class, the frames that it is the anchor of.
  pub(super) by_anchor: Vec<Vec<u16>>,
  /// All anchors.
  pub(super) anchors: Classes,
  /// The classes of [`SHAPES`], in that order.
  pub(super) shapes: Vec<Class>,
  pub(super) negator: Class,
  pub(super) unnegate: Class,
  pub(super) report: Class,
  pub(super) claim: Class,
  pub(super) lead: Class,
  pub(super) keep: Class,
  pub(super) keep_not: Class,
  /// The words that say what an owner asks for, with the kind that they name.
  pub(super) asked_kinds: Vec<(Class, AskedKind)>,
}

/// One of several classes.
pub(super) type Step = Vec<Class>;

/// One frame.
#[derive(Debug)]
pub(super) struct Frame {
  pub(super) id: String,
  pub(super) effect: Effect,
  pub(super) strength: Strength,
  pub(super) seq: Vec<Step>,
  pub(super) all: Vec<Step>,
  pub(super) not: Classes,
  pub(super) gap: usize,
  pub(super) start: bool,
  pub(super) negated: bool,
  pub(super) reported: bool,
  pub(super) quoted: bool,
  pub(super) why: String,
  /// Texts that it must hit.
  pub(super) hits: Vec<String>,
  /// Texts that it must not hit.
  pub(super) misses: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFrames {
  frame: Vec<RawFrame>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFrame {
  id: String,
  effect: String,
  strength: String,
  #[serde(default)]
  seq: Vec<String>,
  #[serde(default)]
  all: Vec<String>,
  #[serde(default)]
  not: Vec<String>,
  gap: Option<usize>,
  #[serde(default)]
  start: bool,
  guards: Option<Vec<String>>,
  why: String,
  #[serde(default)]
  hits: Vec<String>,
  #[serde(default)]
  misses: Vec<String>,
}

/// Language, class, words.
type RawWords = BTreeMap<String, BTreeMap<String, Vec<String>>>;

/// The embedded frames, compiled once.
///
/// # Panics
/// Never in a released build: a test loads every embedded file.
pub(super) fn builtin() -> &'static Frames {
  static FRAMES: OnceLock<Frames> = OnceLock::new();
  FRAMES.get_or_init(|| {
    load(FILES).unwrap_or_else(|error| unreachable!("embedded frames are tested: {error}"))
  })
}

/// Endings that a star inside a phrase matches: those of the participles of Romance languages.
const ENDINGS: &[&str] = &["", "o", "a", "os", "as", "e", "s", "es", "i"];

/// The phrases that a word of a file matches: a star at its end is that of the lexicon, and a star before a
/// space matches one of [`ENDINGS`].
fn forms(word: &str) -> Vec<String> {
  let mut forms = vec![String::new()];
  let mut parts = word.split("* ").peekable();
  while let Some(part) = parts.next() {
    let endings = if parts.peek().is_some() { ENDINGS } else { &[""] };
    let space = if parts.peek().is_some() { " " } else { "" };
    let longer = forms
      .iter()
      .flat_map(|form| endings.iter().map(move |ending| format!("{form}{part}{ending}{space}")));
    forms = longer.collect();
  }
  forms
}

/// Reads and compiles; the last file has the frames.
pub(super) fn load(files: &[(&str, &str)]) -> Result<Frames, String> {
  let mut lexicon = LexiconBuilder::default();
  let mut shapes = Vec::new();
  for shape in SHAPES {
    shapes.push(lexicon.class(Some(shape), Kind::default()).ok_or("there are too many classes")?);
  }
  let (last, words) = files.split_last().ok_or("there are no files")?;
  for (name, text) in words {
    let raw: RawWords = toml::from_str(text).map_err(|error| format!("{name}: {error}"))?;
    for (class, words) in raw.into_values().flatten() {
      let number = class_of(&mut lexicon, &class)?;
      for word in words {
        for word in forms(&word) {
          lexicon.word(number, &word).map_err(|why| format!("{name}: {class}: {why}"))?;
        }
      }
    }
  }
  let raw: RawFrames = toml::from_str(last.1).map_err(|error| format!("{}: {error}", last.0))?;
  let mut frames: Vec<Frame> = Vec::new();
  for raw in raw.frame {
    let id = raw.id.clone();
    if frames.iter().any(|frame| frame.id == id) {
      return Err(format!("{id}: the id is used twice"));
    }
    frames.push(compile(raw, &lexicon).map_err(|why| format!("{id}: {why}"))?);
  }
  let mut special = |name: &str| class_of(&mut lexicon, name);
  let (negator, unnegate) = (special("negator")?, special("unnegate")?);
  let claim = special("claim")?;
  let (report, lead) = (special("report")?, special("lead")?);
  let (keep, keep_not) = (special("keep")?, special("keep-not")?);
  let mut asked_kinds = Vec::new();
  for (name, kind) in ASKED_KINDS {
    asked_kinds.push((special(name)?, *kind));
  }
  let mut by_anchor: Vec<Vec<u16>> = Vec::new();
  let mut anchors = Classes::default();
  for (index, frame) in frames.iter().enumerate() {
    for class in frame.seq.first().or(frame.all.first()).into_iter().flatten() {
      let at = usize::from(*class);
      if by_anchor.len() <= at {
        by_anchor.resize_with(at + 1, Vec::new);
      }
      if let Some(list) = by_anchor.get_mut(at) {
        list.push(index as u16);
      }
      anchors.insert(*class);
    }
  }
  Ok(Frames {
    lexicon: lexicon.build()?,
    list: frames,
    by_anchor,
    anchors,
    shapes,
    negator,
    unnegate,
    report,
    claim,
    lead,
    keep,
    keep_not,
    asked_kinds,
  })
}

fn class_of(lexicon: &mut LexiconBuilder, name: &str) -> Result<Class, String> {
  match lexicon.named(name) {
    Some(class) => Ok(class),
    None => lexicon
      .class(Some(name), Kind { prose: name == "report", ..Kind::default() })
      .ok_or_else(|| "there are too many classes".to_owned()),
  }
}

fn compile(raw: RawFrame, lexicon: &LexiconBuilder) -> Result<Frame, String> {
  let class = |name: &str| lexicon.named(name).ok_or_else(|| format!("no class `{name}`"));
  let step = |text: &String| text.split('|').map(class).collect::<Result<Step, String>>();
  let steps = |list: &[String]| list.iter().map(step).collect::<Result<Vec<Step>, String>>();
  let mut not = Classes::default();
  for number in steps(&raw.not)?.into_iter().flatten() {
    not.insert(number);
  }
  let guards = raw.guards.as_deref();
  if let Some(unknown) = guards
    .into_iter()
    .flatten()
    .find(|one| !matches!(one.as_str(), "negated" | "reported" | "quoted"))
  {
    return Err(format!("no guard `{unknown}`"));
  }
  let guarded = |name: &str| guards.is_none_or(|list| list.iter().any(|one| one == name));
  if raw.seq.is_empty() && raw.all.is_empty() {
    return Err("it has neither `seq` nor `all`".to_owned());
  }
  Ok(Frame {
    effect: raw
      .effect
      .parse()
      .map_err(|error: crate::detect::rules::UnknownWord| error.to_string())?,
    strength: raw
      .strength
      .parse()
      .map_err(|error: crate::detect::rules::UnknownWord| error.to_string())?,
    seq: steps(&raw.seq)?,
    all: steps(&raw.all)?,
    not,
    gap: raw.gap.unwrap_or(GAP),
    start: raw.start,
    negated: guarded("negated"),
    reported: guarded("reported"),
    quoted: guarded("quoted"),
    why: raw.why,
    hits: raw.hits,
    misses: raw.misses,
    id: raw.id,
  })
}
