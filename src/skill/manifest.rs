//! The manifest of a skill: each of its files with a hash, in one canonical text, and how two manifests differ.
//!
//! Invariant: equal manifests have equal texts, different ones have different texts, and a text that was written
//! comes back as its manifest (tests below).
#![forbid(unsafe_code)]

use std::{collections::BTreeMap, fmt::Write as _, str::FromStr as _};

use super::MAIN;
use crate::hash::{ContentHash, from_hex};

/// What an entry is.
#[derive(
  Clone,
  Copy,
  Debug,
  PartialEq,
  Eq,
  Hash,
  strum::EnumString,
  strum::IntoStaticStr,
  strum::VariantArray,
)]
#[strum(serialize_all = "kebab-case")]
pub enum EntryKind {
  /// A regular file.
  File,
  /// A regular file that may be run.
  Program,
  /// A symbolic link to a path in the skill, which is not followed; its hash is that of its target's path.
  Link,
  /// A symbolic link to a path outside, which is not followed either.
  Outside,
  /// A pipe, a socket or a device, which is not opened.
  Other,
  /// A file that could not be read.
  Unread,
}

impl EntryKind {
  /// The word used in the ledger and in JSON.
  pub fn as_str(self) -> &'static str {
    self.into()
  }

  /// Whether a manifest says all about it: it was read, or what it leads to was.
  pub const fn is_covered(self) -> bool {
    matches!(self, Self::File | Self::Program | Self::Link)
  }

  /// Whether its content is in its hash.
  pub const fn is_read(self) -> bool {
    matches!(self, Self::File | Self::Program)
  }
}

/// Which limit a skill exceeds, so that not all of it is in its manifest.
#[derive(
  Clone,
  Copy,
  Debug,
  PartialEq,
  Eq,
  Hash,
  strum::EnumString,
  strum::IntoStaticStr,
  strum::VariantArray,
)]
#[strum(serialize_all = "kebab-case")]
pub enum Excess {
  /// Too many files.
  Files,
  /// Too many bytes.
  Bytes,
  /// Too many directories in each other.
  Depth,
}

impl Excess {
  /// The word used in the ledger and in JSON.
  pub fn as_str(self) -> &'static str {
    self.into()
  }
}

/// One file of a skill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
  /// What it is.
  pub kind: EntryKind,
  /// Its size in bytes.
  pub size: u64,
  /// The hash of its content; of a link, of its target's path; otherwise of nothing.
  pub hash: ContentHash,
}

impl Entry {
  /// An entry with this content.
  pub fn of(kind: EntryKind, bytes: &[u8]) -> Self {
    Self { kind, size: bytes.len() as u64, hash: ContentHash::of(bytes) }
  }
}

/// The files of a skill by their paths, which are relative to its directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
  entries: BTreeMap<Vec<u8>, Entry>,
  /// Which limit was exceeded, if any.
  pub excess: Option<Excess>,
}

impl Manifest {
  /// Adds a file; a second one of this path replaces the first.
  pub fn insert(&mut self, path: &[u8], entry: Entry) {
    self.entries.insert(path.to_vec(), entry);
  }

  /// The files in the order of the bytes of their paths.
  pub fn entries(&self) -> impl Iterator<Item = (&[u8], &Entry)> {
    self.entries.iter().map(|(path, entry)| (path.as_slice(), entry))
  }

  /// The file of a path.
  pub fn get(&self, path: &[u8]) -> Option<&Entry> {
    self.entries.get(path)
  }

  /// How many files there are.
  pub fn len(&self) -> usize {
    self.entries.len()
  }

  /// Whether there is no file.
  pub fn is_empty(&self) -> bool {
    self.entries.is_empty()
  }

  /// How many bytes the files have together.
  pub fn bytes(&self) -> u64 {
    self.entries.values().fold(0, |sum, entry| sum.saturating_add(entry.size))
  }

  /// Whether the content of every file is in it, so that nothing of the skill escapes a comparison, and that of the
  /// main file itself, so that its text was judged.
  pub fn is_whole(&self) -> bool {
    self.excess.is_none()
      && self.entries.values().all(|entry| entry.kind.is_covered())
      && self.get(MAIN.as_bytes()).is_some_and(|entry| entry.kind.is_read())
  }

  /// Its hash: the name that the ledger gives to this state of a skill.
  pub fn hash(&self) -> ContentHash {
    ContentHash::of(self.to_text().as_bytes())
  }

  /// The canonical text: one line for each file.
  pub fn to_text(&self) -> String {
    let mut text = String::new();
    if let Some(excess) = self.excess {
      // Writing to a String cannot fail.
      writeln!(text, "excess {}", excess.as_str()).ok();
    }
    for (path, Entry { kind, size, hash }) in &self.entries {
      writeln!(text, "{} {hash} {size} {}", kind.as_str(), encoded(path)).ok();
    }
    text
  }

  /// The manifest of a canonical text; `None` for any other text.
  pub fn from_text(text: &str) -> Option<Self> {
    let mut manifest = Self::default();
    for line in text.lines() {
      let words: Vec<&str> = line.split(' ').collect();
      match words.as_slice() {
        ["excess", word] => manifest.excess = Some(Excess::from_str(word).ok()?),
        [kind, hash, size, path] => {
          let kind = EntryKind::from_str(kind).ok()?;
          let hash = ContentHash::from_slice(&from_hex(hash)?)?;
          manifest.insert(&decoded(path)?, Entry { kind, size: size.parse().ok()?, hash });
        }
        _ => return None,
      }
    }
    (manifest.to_text() == text).then_some(manifest)
  }
}

/// A path as one word: bytes that are not visible ASCII as `%` and two hex digits.
fn encoded(path: &[u8]) -> String {
  let mut text = String::with_capacity(path.len());
  for byte in path {
    match byte {
      b'%' => text.push_str("%25"),
      b'!'..=b'~' => text.push(char::from(*byte)),
      // Writing to a String cannot fail.
      byte => drop(write!(text, "%{byte:02x}")),
    }
  }
  text
}

fn decoded(text: &str) -> Option<Vec<u8>> {
  let mut bytes = Vec::with_capacity(text.len());
  let mut rest = text.bytes();
  while let Some(byte) = rest.next() {
    if byte != b'%' {
      bytes.push(byte);
      continue;
    }
    let digits = [rest.next()?, rest.next()?];
    bytes.extend(from_hex(std::str::from_utf8(&digits).ok()?)?);
  }
  Some(bytes)
}

/// How one state of a skill differs from another; paths in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
  /// Files that only the newer one has.
  pub added: Vec<Vec<u8>>,
  /// Files that only the older one has.
  pub removed: Vec<Vec<u8>>,
  /// Files with another content, or of another kind.
  pub changed: Vec<Vec<u8>>,
}

impl Difference {
  /// What is different in the newer one.
  pub fn between(older: &Manifest, newer: &Manifest) -> Self {
    let only = |one: &Manifest, other: &Manifest| -> Vec<Vec<u8>> {
      one.entries.keys().filter(|path| !other.entries.contains_key(*path)).cloned().collect()
    };
    let changed = newer
      .entries
      .iter()
      .filter(|(path, entry)| older.entries.get(*path).is_some_and(|before| before != *entry));
    Self {
      added: only(newer, older),
      removed: only(older, newer),
      changed: changed.map(|(path, _)| path.clone()).collect(),
    }
  }

  /// Whether there is none.
  pub fn is_empty(&self) -> bool {
    self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
  }

  /// The counts in words, without a name of a file.
  pub fn in_words(&self) -> String {
    let counts = [
      (self.changed.len(), "changed"),
      (self.added.len(), "added"),
      (self.removed.len(), "removed"),
    ];
    let words = counts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}"));
    let words: Vec<String> = words.collect();
    if words.is_empty() { "nothing changed".to_owned() } else { words.join(", ") }
  }
}

#[cfg(test)]
mod tests {
  use proptest::{collection::btree_map, option, prelude::*, sample::select};
  use strum::VariantArray as _;

  use super::*;

  fn manifests() -> impl Strategy<Value = Manifest> {
    let path = prop_oneof![
      prop::collection::vec(any::<u8>(), 0..12),
      "[a-c/%\\n ]{0,6}".prop_map(String::into_bytes),
    ];
    let entry = (select(EntryKind::VARIANTS), prop::collection::vec(any::<u8>(), 0..3))
      .prop_map(|(kind, bytes)| Entry::of(kind, &bytes));
    let excess = option::of(select(Excess::VARIANTS));
    (btree_map(path, entry, 0..6), excess)
      .prop_map(|(entries, excess)| Manifest { entries, excess })
  }

  proptest! {
    #[test]
    fn a_manifest_comes_back_from_its_text(manifest in manifests()) {
      let text = manifest.to_text();
      prop_assert!(text.is_ascii());
      prop_assert_eq!(text.lines().count(), manifest.len() + usize::from(manifest.excess.is_some()));
      prop_assert_eq!(Manifest::from_text(&text), Some(manifest));
    }

    #[test]
    fn different_manifests_have_different_hashes(one in manifests(), other in manifests()) {
      prop_assert_eq!(one == other, one.hash() == other.hash());
      let difference = Difference::between(&one, &other);
      prop_assert_eq!(difference.is_empty(), one.entries == other.entries);
      let back = Difference::between(&other, &one);
      prop_assert_eq!((&back.added, &back.removed), (&difference.removed, &difference.added));
      prop_assert_eq!(back.changed, difference.changed);
    }

    #[test]
    fn a_text_with_another_character_is_none_or_another_manifest(
      manifest in manifests(),
      at in any::<prop::sample::Index>(),
      other in "[a-f0-9% \n]",
    ) {
      let text = manifest.to_text();
      if !text.is_empty() {
        let mut changed = text.clone();
        let at = at.index(text.len());
        changed.replace_range(at..=at, &other);
        prop_assert_eq!(Manifest::from_text(&changed) == Some(manifest), changed == text);
      }
    }

    #[test]
    fn any_text_is_answered(text in "\\PC{0,60}|(file|link|excess|[0-9a-f]{64}|%|[ \n]){0,8}") {
      let _answer = Manifest::from_text(&text);
    }
  }

  #[test]
  fn a_difference_names_each_file_once() {
    use EntryKind::{File, Link, Program};
    let manifest = |files: &[(&str, EntryKind, &str)]| {
      let mut manifest = Manifest::default();
      for (path, kind, text) in files {
        manifest.insert(path.as_bytes(), Entry::of(*kind, text.as_bytes()));
      }
      manifest
    };
    let older = manifest(&[("a", File, "1"), ("b", File, "1"), ("c", File, "1"), ("d", Link, "a")]);
    let newer =
      manifest(&[("a", File, "2"), ("b", Program, "1"), ("d", Link, "a"), ("e", File, "")]);
    let found = Difference::between(&older, &newer);
    let names =
      |list: &[&str]| list.iter().map(|name| name.as_bytes().to_vec()).collect::<Vec<_>>();
    assert_eq!(found.changed, names(&["a", "b"]), "a file that may be run now counts as well");
    assert_eq!((found.added.clone(), found.removed.clone()), (names(&["e"]), names(&["c"])));
    assert_eq!(found.in_words(), "2 changed, 1 added, 1 removed");
    assert_eq!(Difference::default().in_words(), "nothing changed");
    let whole = |files: &[(&str, EntryKind, &str)]| manifest(files).is_whole();
    let text = ("SKILL.md", File, "");
    assert!(whole(&[text, ("b", Link, "a"), ("c", Program, "")]));
    assert!(!whole(&[text, ("b", EntryKind::Outside, "/")]) && !whole(&[("SKILL.md", Link, "a")]));
    assert!(!whole(&[text, ("b", EntryKind::Unread, "")]) && !whole(&[("b", File, "")]));
  }
}
