//! The context of a text: the lines around it that a decision about it depended on.
//!
//! The context is: the headings above the text, whether a thematic break (`---`) separates it from them, the
//! line that introduces it, the HTML elements that contain it, the front matter of its file, and the sentence
//! that it is part of. Neighbouring entries that are
//! complete by themselves are not part of the context, because they come and go daily.
#![forbid(unsafe_code)]

use std::ops::Range;

use crate::memory::{
  ContentHash, Document,
  present_lines::{Absent, PresentLines, ShortHash, short_hash},
};

/// How many bytes at the start of a name are the hash of the neighbours alone.
const NEIGHBOURS: usize = 16;

/// The bytes after them in a name that covers more. Names of version 1 do not cover [`Around::holders`], and
/// those of version 2 do not cover [`Around::is_parted`].
const WIDE_1: &[u8] = b"wide";
const WIDE_2: &[u8] = b"wid2";
const WIDE: &[u8] = b"wid3";
const VERSIONS: [&[u8]; 3] = [WIDE, WIDE_2, WIDE_1];

/// The lines around a run of bytes in its file, as hashes. Blank lines and memfw's own comments do not count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Around {
  /// The neighbours in its block: all that older versions counted.
  above: Option<ShortHash>,
  below: Option<ShortHash>,
  /// Whether code or HTML began before the text and contains it, and whether that is HTML.
  inside: Option<bool>,
  /// The headings above it, the nearest first.
  headings: Vec<ShortHash>,
  /// The lines that introduce it, the nearest first.
  intro: Vec<ShortHash>,
  /// The lines above it that belong to its statement, the nearest first.
  before: Vec<ShortHash>,
  /// The lines below it that do, the nearest first.
  after: Vec<ShortHash>,
  /// After how many of those a new statement begins: the rest may have been added since.
  ends: Vec<usize>,
  /// The title right above its list, the HTML elements that are open at its start, and the front matter.
  holders: Vec<ShortHash>,
  /// Whether a thematic break is between it and the nearest heading, or the start of the file.
  is_parted: bool,
}

impl Around {
  /// The lines around `span`, in bytes of `file`. If the span begins or ends within a line, the rest of that
  /// line is its neighbour.
  pub fn of(file: &[u8], document: &Document, span: &Range<usize>) -> Self {
    Self::without(file, document, span, &[])
  }

  /// Like [`Around::of`], as if the lines in `absent` were not in the file: those that the same edit takes
  /// out, or that were restored next to the text.
  pub fn without(
    file: &[u8],
    document: &Document,
    span: &Range<usize>,
    absent: &[Range<usize>],
  ) -> Self {
    let blocks = document.undivided();
    let Some(at) = document.block_at(span.start) else { return Self::default() };
    let present = PresentLines { file, blocks, absent: Absent::of(absent) };
    let Some(block) = blocks.get(at) else { return Self::default() };
    let (above, below) = present.neighbours(block, span);
    let enclosure = document.enclosure(span.start).filter(|one| !present.is_absent(one.span.start));
    let (after, ends) = present.after(block, span);
    Self {
      above,
      below,
      inside: enclosure.map(|one| one.is_html),
      headings: present.headings(at, span),
      intro: present.intro(at),
      before: present.before(block, span),
      after,
      ends,
      holders: present.holders(at, span),
      is_parted: present.is_parted(at),
    }
  }

  /// Whether the text is the whole content of its block.
  pub const fn is_whole(&self) -> bool {
    self.above.is_none() && self.below.is_none()
  }

  /// A name for this context in the file at `path`.
  pub fn name(&self, path: &[u8]) -> ContentHash {
    self.cut(path, self.after.len(), WIDE)
  }

  /// Whether the decision with this context name was made in this context, or before something was added
  /// below the text. Names of older versions cover only neighbours, so only those are compared.
  pub fn is_of(&self, path: &[u8], name: &ContentHash) -> bool {
    if !Self::is_wide(name) {
      return *name == self.neighbours(path);
    }
    let rest = name.0.get(NEIGHBOURS..).unwrap_or_default();
    let version = VERSIONS.into_iter().find(|one| rest.starts_with(one)).unwrap_or(WIDE);
    let mut ends = self.ends.iter().copied().chain([self.after.len()]);
    ends.any(|end| self.cut(path, end, version).0.get(NEIGHBOURS..) == Some(rest))
  }

  /// Whether a decision was made between equal neighbours, regardless of the rest of the context.
  pub fn is_beside(&self, path: &[u8], name: &ContentHash) -> bool {
    self.neighbours(path).0.get(..NEIGHBOURS) == name.0.get(..NEIGHBOURS)
  }

  /// Whether a name covers more than the neighbours; names of older versions do not.
  pub fn is_wide(name: &ContentHash) -> bool {
    let rest = name.0.get(NEIGHBOURS..).unwrap_or_default();
    VERSIONS.iter().any(|one| rest.starts_with(one))
  }

  /// The name in older versions: a hash of the neighbours.
  pub fn neighbours(&self, path: &[u8]) -> ContentHash {
    // The flag distinguishes a missing neighbour from one whose hash is zero.
    let byte = |one: Option<ShortHash>| [u8::from(one.is_some())];
    let (above, below) = (self.above.unwrap_or_default(), self.below.unwrap_or_default());
    let parts = [&byte(self.above)[..], &above, &byte(self.below), &below, path];
    ContentHash::of_parts(parts)
  }

  /// The name of this version as if only `below` lines followed.
  fn cut(&self, path: &[u8], below: usize, version: &[u8]) -> ContentHash {
    let inside = [self.inside.map_or(0, |is_html| 1 + u8::from(is_html))];
    let mut lists = vec![
      &self.headings[..],
      &self.intro[..],
      &self.before[..],
      self.after.get(..below).unwrap_or_default(),
    ];
    if version != WIDE_1 {
      lists.push(&self.holders);
    }
    let parted = [short_hash(b"---")];
    if version == WIDE && self.is_parted {
      lists.push(&parted);
    }
    // The lengths prevent lines of one list from counting as lines of the next.
    let lengths: Vec<[u8; 8]> =
      lists.iter().map(|list| (list.len() as u64).to_le_bytes()).collect();
    let lines = lists.iter().flat_map(|list| list.iter()).map(|hash| &hash[..]);
    let lengths = lengths.iter().map(|length| &length[..]);
    let all =
      ContentHash::of_parts(std::iter::once(&inside[..]).chain(lengths).chain(lines).chain([path]));
    let head = self.neighbours(path).0.into_iter().take(NEIGHBOURS);
    let mut name = [0; 32];
    for (to, from) in name.iter_mut().zip(head.chain(version.iter().copied()).chain(all.0)) {
      *to = from;
    }
    ContentHash(name)
  }
}

#[cfg(test)]
mod tests {
  use super::*;
  use crate::memory::Known;

  const PATH: &[u8] = b"/a.md";

  fn of(text: &str, what: &str) -> Around {
    let document = Document::parse(text.as_bytes(), &Known::default());
    let start = text.find(what).unwrap();
    Around::of(text.as_bytes(), &document, &(start..start + what.len()))
  }

  /// Whether a decision about the first text is valid in the second one.
  fn holds(before: &str, now: &str) -> bool {
    of(now, "Tea").is_of(PATH, &of(before, "Tea").name(PATH))
  }

  #[test]
  fn a_text_alone_in_its_block_is_whole() {
    assert!(of("Tea.\n", "Tea.\n").is_whole());
    assert!(of("a\n\nTea.\n\nb\n", "Tea.\n").is_whole(), "other blocks are no neighbours");
    assert!(of("- a\n- Tea.\n- b\n", "- Tea.\n").is_whole());
    assert!(!of("# Drinks\n\nTea.\n", "Tea.\n").is_whole(), "a heading belongs to its block");
  }

  #[test]
  fn what_changes_the_meaning_counts() {
    for (before, now) in [
      ("# A\n\nTea\n", "# B\n\nTea\n"),
      ("# A\n\n## C\n\nx\n\nTea\n", "# B\n\n## C\n\nx\n\nTea\n"),
      ("A\nb\n===\n\nx\n\nTea\n", "B\nb\n===\n\nx\n\nTea\n"),
      ("A:\n\n- x\n- Tea\n", "B:\n\n- x\n- Tea\n"),
      ("A\nb:\n\nTea\n", "B\nb:\n\nTea\n"),
      ("**A**\n\n1. x\n2. Tea\n", "**B**\n\n1. x\n2. Tea\n"),
      ("A：\n\n- Tea\n", "B：\n\n- Tea\n"),
      ("A\nb\nTea\n", "B\nb\nTea\n"),
      ("Tea\na\nb\n", "Tea\na\nB\n"),
      ("Tea\nA\n", "Tea\nB\n"),
      ("Tea\n", "Tea\nis bad\n"),
      ("Tea,\n", "Tea,\nA\n"),
      ("Tea\n", "A\nTea\n"),
      ("Tea\n", "```\nTea\n```\n"),
      ("Tea\n", "<!--\nTea\n-->\n"),
      ("- A\n  - x\n  - Tea\n", "- B\n  - x\n  - Tea\n"),
      ("- A\n  - x\n    y\n  - Tea\n    more\n", "- A\n  - x\n    y\n  - Tea\n    less\n"),
      (
        "| A | b |\n|---|---|\n| x | y |\n| Tea | z |\n",
        "| B | b |\n|---|---|\n| x | y |\n| Tea | z |\n",
      ),
      ("Buy Tea\n", "Sell Tea\n"),
      ("# A\n\nTea\n", "# A\n\n<h2>B</h2>\n\nTea\n"),
      ("<h2>\nA\n</h2>\n\nx\n\nTea\n", "<h2>\nB\n</h2>\n\nx\n\nTea\n"),
      ("## A\n\n<h3>B</h3>\n\nx\n\nTea\n", "## C\n\n<h3>B</h3>\n\nx\n\nTea\n"),
      (
        "<details><summary>A</summary>\n\n# B\n\nTea\n",
        "<details><summary>C</summary>\n\n# B\n\nTea\n",
      ),
      (
        "<details>\n<summary>A</summary>\n\n<details>\nx\n</details>\n\nTea\n",
        "<details>\n<summary>B</summary>\n\n<details>\nx\n</details>\n\nTea\n",
      ),
      ("A:<br>\n\n- Tea\n", "B:<br>\n\n- Tea\n"),
      ("A\n\n- x\n- Tea\n", "B\n\n- x\n- Tea\n"),
      ("A\n- Tea\n", "- Tea\n"),
      ("<del>\n\nx\n\nTea\n\n</del>\n", "x\n\nTea\n"),
      ("<template>\n\n# A\n\nTea\n\n</template>\n", "# A\n\nTea\n"),
      (
        "<div class=\"false\">\n\nx\n\nTea\n\n</div>\n",
        "<div class=\"true\">\n\nx\n\nTea\n\n</div>\n",
      ),
      ("<del>\n\nx\n\nTea\n\n</del>\n", "<del>\n\nx\n\n</del>\n\nTea\n"),
      ("---\nkind: examples of fraud\n---\n\nTea\n", "Tea\n"),
      ("*A*\n\n- Tea\n", "*B*\n\n- Tea\n"),
      ("> A:\n>\n> x\n\nTea\n", "Tea\n"),
      ("> A:\n>\n> x\n\n- x\n- Tea\n", "> B:\n>\n> x\n\n- x\n- Tea\n"),
      ("# A\n\nTea\n", "# A\n\n---\n\nTea\n"),
      ("# A\n\n---\n\nx\n\nTea\n", "# A\n\nx\n\nTea\n"),
      ("x\n\nTea\n", "x\n\n***\n\nTea\n"),
    ] {
      assert!(holds(before, before), "{before}");
      assert!(!holds(before, now), "{now}");
    }
  }

  #[test]
  fn what_stands_for_itself_does_not_count() {
    for (before, now) in [
      ("# A\n\n## B\n\nTea\n", "# A\n\n## X\n\nx\n\n## B\n\nTea\n\n## C\n\nmore\n"),
      ("# A\n\n# B\n\nTea\n", "# C\n\n# B\n\nTea\n"),
      ("A\n===\n\nB\n===\n\nTea\n", "C\n===\n\nB\n===\n\nTea\n"),
      ("A:\n\n- x\n- Tea\n", "A:\n\n- y\n- z\n- Tea\n- x\n"),
      ("A.\n\n- Tea\n", "B.\n\n- Tea\n"),
      ("A\n\n## C\n\n- Tea\n", "B\n\n## C\n\n- Tea\n"),
      ("<del>\n\nx\n\n</del>\n\nTea\n", "<ins>\n\nx\n\n</ins>\n\nTea\n"),
      ("x\n\nTea\n", "x\n\nTea\n\n<del>\n\ny\n\n</del>\n"),
      ("---\nupdated: 2026-11-01\n---\n\nTea\n", "---\nupdated: 2026-11-02\n---\n\nTea\n"),
      ("A:\n\nx\n\nTea\n", "B:\n\nx\n\nTea\n"),
      ("Tea.\n", "Tea.\nMilk\nand more\n"),
      ("- A\n  - x\n  - Tea\n", "- A\n  - y\n    z\n  - Tea\n  - x\n"),
      ("- a\n\n  Tea.\n", "- a\n  Tea.\n"),
      (
        "| A | b |\n|---|---|\n| Tea | z |\n",
        "| A | b |\n|---|---|\n| x | y |\n| Tea | z |\n| z | z |\n",
      ),
      ("Tea.\r\n", "Tea.\n"),
      ("<h2>A</h2>\n\n## B\n\nTea\n", "<h2>C</h2>\n\n## B\n\nTea\n"),
      (
        "<details><summary>A</summary>\n\nx\n\n</details>\n\nTea\n",
        "<details><summary>B</summary>\n\nx\n\n</details>\n\nTea\n",
      ),
      ("> A\n\nTea\n", "> B\n\nTea\n"),
      ("# A\n\n---\n\nTea\n", "# A\n\n---\n\nx\n\n---\n\nTea\n"),
      ("# A\n\nx\n\n## B\n\nTea\n", "# A\n\nx\n\n---\n\n## B\n\nTea\n\n---\n"),
    ] {
      assert!(holds(before, now), "{now}");
    }
  }

  #[test]
  fn what_leaves_in_the_same_edit_does_not_count() {
    let text = b"one\nMilk\nTea.\nthree\n";
    let document = Document::parse(text, &Known::default());
    let without = Around::without(text, &document, &(9..14), std::slice::from_ref(&(4..9)));
    assert_eq!(without, of("one\nTea.\nthree\n", "Tea.\n"));
    assert_ne!(without, Around::of(text, &document, &(9..14)));
  }

  #[test]
  fn names_of_older_versions_are_known_and_distinguished() {
    let (here, moved) = (of("# A\n\nx\nTea\n", "Tea\n"), of("# B\n\nx\nTea\n", "Tea\n"));
    assert!(Around::is_wide(&here.name(PATH)) && !Around::is_wide(&here.neighbours(PATH)));
    let held = of("<del>\n\nx\n\nTea\n", "Tea\n");
    let before = held.cut(PATH, 0, WIDE_1);
    assert!(Around::is_wide(&before) && held.is_of(PATH, &before));
    assert!(of("x\n\nTea\n", "Tea\n").is_of(PATH, &before), "version 1 did not know the element");
    let (plain, parted) = (of("x\n\nTea\n", "Tea\n"), of("x\n\n---\n\nTea\n", "Tea\n"));
    assert!(parted.is_of(PATH, &plain.cut(PATH, 0, WIDE_2)), "version 2 did not know the break");
    assert!(!parted.is_of(PATH, &plain.name(PATH)));
    assert!(moved.is_of(PATH, &here.neighbours(PATH)) && !moved.is_of(PATH, &here.name(PATH)));
    assert!(
      moved.is_beside(PATH, &here.name(PATH)) && moved.is_beside(PATH, &here.neighbours(PATH))
    );
    assert_ne!(here.name(PATH), here.name(b"/b.md"), "another file is another context");
    assert!(!here.is_beside(b"/b.md", &here.name(PATH)));
  }
}
