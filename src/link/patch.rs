//! What the tool `apply_patch` would leave in the files that a patch names, as the agent's tool does it.
#![forbid(unsafe_code)]

use std::{
  collections::HashMap,
  path::{Path, PathBuf},
};

use super::{
  hunk::Chunk,
  outcome::{Files, Outcome, Version, lossy},
};

const ADD: &str = "*** Add File: ";
const DELETE: &str = "*** Delete File: ";
const UPDATE: &str = "*** Update File: ";
const MOVE: &str = "*** Move to: ";

/// One part of a patch.
#[derive(Debug, PartialEq, Eq)]
enum Part<'a> {
  Add { path: &'a str, content: String },
  Delete { path: &'a str },
  Update { path: &'a str, to: Option<&'a str>, chunks: Vec<Chunk<'a>> },
}

/// The names of files in a patch, also in one that the tool would not take.
pub(super) fn names(patch: &str) -> Vec<&str> {
  let name = |line: &'_ str| -> Option<(usize, usize)> {
    let start = line.find("***")?;
    let from = start + line.get(start..)?.find(": ")? + 2;
    Some((from, line.trim_end().len()))
  };
  let named = patch.lines().filter_map(|line| name(line).and_then(|(from, to)| line.get(from..to)));
  let mut names: Vec<&str> = named.filter(|name| !name.is_empty()).collect();
  names.sort_unstable();
  names.dedup();
  names
}

/// What the patch may leave in each file that it names; also what a part of it leaves, because the tool stops at a
/// part that fails, and what it would leave if the tool were more lenient than memfw.
pub(super) fn outcomes(patch: &str, path: &str, files: &dyn Files) -> Vec<Outcome> {
  let mut found = Found { files, known: HashMap::new(), outcomes: vec![] };
  if let Some(parts) = parts(patch) {
    for part in &parts {
      found.take(part);
    }
    return found.outcomes;
  }
  let lines = lines(patch);
  let text = lines.iter().filter_map(|line| line.trim_start().strip_prefix('+'));
  let text: String = text.flat_map(|line| [line, "\n"]).collect();
  for name in names(patch).into_iter().chain([path]) {
    if let Some(file) = files.place(name) {
      found.add(&file, Version::added(&text));
    }
  }
  found.outcomes
}

/// What was found so far.
struct Found<'f> {
  files: &'f dyn Files,
  /// The content of the files after the parts so far; `None` for what is not there or not known.
  known: HashMap<PathBuf, Option<String>>,
  outcomes: Vec<Outcome>,
}

impl Found<'_> {
  fn content(&mut self, file: &Path) -> Option<String> {
    let read = || self.files.content(file).map(|bytes| lossy(&bytes));
    self.known.entry(file.to_owned()).or_insert_with(read).clone()
  }

  fn add(&mut self, file: &Path, versions: impl IntoIterator<Item = Version>) {
    if let Some(one) = self.outcomes.iter_mut().find(|one| one.file == *file) {
      one.versions.extend(versions);
    } else {
      let versions = versions.into_iter().collect();
      self.outcomes.push(Outcome { file: file.to_owned(), versions });
    }
  }

  fn take(&mut self, part: &Part<'_>) {
    match part {
      Part::Delete { path } => {
        if let Some(file) = self.files.place(path) {
          self.known.insert(file, None);
        }
      }
      Part::Add { path, content } => {
        let Some(file) = self.files.place(path) else { return };
        self.add(&file, [Version::Content(content.clone().into_bytes())]);
        self.known.insert(file, Some(content.clone()));
      }
      Part::Update { path, to, chunks } => {
        let from = self.files.place(path);
        let to = match to {
          Some(to) => self.files.place(to),
          None => from.clone(),
        };
        let before = from.as_ref().and_then(|from| self.content(from));
        let after = before.and_then(|before| super::hunk::apply(&before, chunks));
        let Some(to) = to else { return };
        if let Some(after) = after {
          self.add(&to, [Version::Content(after.clone().into_bytes())]);
          if let Some(from) = from {
            self.known.insert(from, None);
          }
          self.known.insert(to, Some(after));
        } else {
          for chunk in chunks {
            self.add(&to, Version::added(&chunk.new_text()));
          }
        }
      }
    }
  }
}

/// The lines as the tool takes them.
fn lines(patch: &str) -> Vec<&str> {
  patch.trim().lines().collect()
}

/// The parts; `None` where the tool would take none of them.
fn parts(patch: &str) -> Option<Vec<Part<'_>>> {
  let lines = lines(patch);
  let is_whole = |lines: &[&str]| match lines {
    [first, .., last] => first.trim() == "*** Begin Patch" && last.trim() == "*** End Patch",
    _ => false,
  };
  let whole = match lines.as_slice() {
    whole if is_whole(whole) => whole,
    [first, inner @ .., last]
      if ["<<EOF", "<<'EOF'", "<<\"EOF\""].contains(first)
        && last.ends_with("EOF")
        && is_whole(inner) =>
    {
      inner
    }
    _ => return None,
  };
  let mut rest = whole.get(1..whole.len() - 1)?;
  let mut parts = Vec::new();
  while let [first, after @ ..] = rest {
    let first = first.trim();
    rest = after;
    if let Some(path) = first.strip_prefix(ADD) {
      let n = rest.iter().take_while(|line| line.starts_with('+')).count();
      let (added, after) = rest.split_at_checked(n)?;
      let content =
        added.iter().flat_map(|line| [line.get(1..).unwrap_or_default(), "\n"]).collect();
      parts.push(Part::Add { path, content });
      rest = after;
    } else if let Some(path) = first.strip_prefix(DELETE) {
      parts.push(Part::Delete { path });
    } else {
      let path = first.strip_prefix(UPDATE)?;
      let to = rest.first().and_then(|line| line.trim().strip_prefix(MOVE));
      rest = rest.get(usize::from(to.is_some())..)?;
      let mut chunks = Vec::new();
      while let [line, after @ ..] = rest {
        if line.trim().is_empty() {
          rest = after;
        } else if line.starts_with("***") {
          break;
        } else {
          let (chunk, after) = Chunk::read(rest, chunks.is_empty())?;
          chunks.push(chunk);
          rest = after;
        }
      }
      if chunks.is_empty() {
        return None;
      }
      parts.push(Part::Update { path, to, chunks });
    }
  }
  Some(parts)
}

#[cfg(test)]
mod tests {
  use super::*;

  struct Memory(Vec<(&'static str, &'static str)>);

  impl Files for Memory {
    fn place(&self, named: &str) -> Option<PathBuf> {
      Some(Path::new("/w").join(named))
    }

    fn content(&self, file: &Path) -> Option<Vec<u8>> {
      let found = self.0.iter().find(|(name, _)| Path::new("/w").join(name) == file);
      found.map(|(_, text)| text.as_bytes().to_vec())
    }
  }

  /// The contents that are foreseen, with `+` before text that only counts as added.
  fn after(files: &[(&'static str, &'static str)], patch: &str, name: &str) -> Vec<String> {
    let found = outcomes(patch, "MEMORY.md", &Memory(files.to_vec()));
    let of = found.into_iter().filter(|one| one.file == Path::new("/w").join(name));
    let text = |version: Version| match version {
      Version::Content(bytes) => String::from_utf8(bytes).unwrap(),
      Version::Added(text) => format!("+{text}"),
    };
    of.flat_map(|one| one.versions).map(text).collect()
  }

  const TWO: [(&str, &str); 2] = [("MEMORY.md", "- a\n- b\n"), ("draft.txt", "x\ny\n")];

  #[test]
  fn each_file_that_is_named_gets_its_own_part() {
    let patch = "*** Begin Patch\n*** Update File: other.md\n@@\n+- other\n\
                 *** Update File: MEMORY.md\n@@\n - a\n-- b\n+- B\n+- c\n*** End Patch\n";
    assert_eq!(after(&TWO, patch, "MEMORY.md"), ["- a\n- B\n- c\n"]);
    assert_eq!(after(&TWO, patch, "memory/a.md"), [""; 0]);
    let add = "*** Begin Patch\n*** Add File: memory/a.md\n+- new\n*** End Patch";
    assert_eq!(after(&TWO, add, "memory/a.md"), ["- new\n"]);
  }

  #[test]
  fn headers_may_be_indented_and_files_may_be_moved() {
    let blank = "*** Begin Patch\n  *** Update File: MEMORY.md\n@@\n- - a\n+- A\n*** End Patch";
    assert_eq!(after(&TWO, &blank.replace("- - a", "-- a"), "MEMORY.md"), ["- A\n- b\n"]);
    let moved = "<<'EOF'\n*** Begin Patch\n*** Update File: draft.txt\n *** Move to: memory/z.md\n@@\n-x\n+X\n\
                 *** End Patch\nEOF";
    assert_eq!(after(&TWO, moved, "memory/z.md"), ["X\ny\n"]);
    // The source is not known.
    let moved = moved.replace("draft.txt", "/elsewhere");
    assert_eq!(after(&TWO, &moved, "memory/z.md"), ["+X\n", "X\n"]);
  }

  #[test]
  fn each_state_on_the_way_counts() {
    let patch = "*** Begin Patch\n*** Add File: memory/z.md\n+one\n*** Update File: memory/z.md\n@@\n-one\n+two\n\
                 *** Update File: memory/z.md\n@@\n-none\n+three\n*** End Patch";
    assert_eq!(after(&TWO, patch, "memory/z.md"), ["one\n", "two\n", "+three\n", "three\n"]);
  }

  #[test]
  fn of_what_is_no_patch_all_added_lines_count_in_each_file_that_it_may_name() {
    let patch = "*** Begin Patch\n***  Update File: memory/z.md\n+bad\n";
    for name in ["memory/z.md", "MEMORY.md"] {
      assert_eq!(after(&TWO, patch, name), ["+bad\n", "bad\n"], "{name}");
    }
    assert_eq!(names(patch), ["memory/z.md"]);
  }

  #[test]
  fn any_text_is_a_patch_or_none() {
    for patch in ["", "*** ", "*** Update File: ", "+\n-\n@", "*** Update File: a\n\u{e9}\n"] {
      after(&TWO, patch, "a");
      after(&TWO, &format!("*** Begin Patch\n{patch}\n*** End Patch"), "a");
    }
  }
}
