//! Patches as the tool `apply_patch` takes them, applied to one file.
#![forbid(unsafe_code)]

/// The content of the file named `path` after the patch; `None` if the patch does not name the file.
///
/// A part whose place is not found counts as appended: the tool may be more lenient than this function, and text
/// that would be written must be judged.
pub(super) fn apply(patch: &str, before: &str, path: &str) -> Option<String> {
  let mut text = before.to_owned();
  let mut is_named = false;
  let mut is_ours = false;
  let mut hunk = Hunk::default();
  for line in patch.lines() {
    if let Some(header) = line.strip_prefix("*** ") {
      hunk.take(&mut text);
      let file = ["Add File: ", "Update File: "].iter().find_map(|word| header.strip_prefix(word));
      is_ours = match file {
        Some(file) => is_same(file.trim(), path),
        // A file that is moved keeps its content.
        None => is_ours && (header.starts_with("Move to: ") || header.starts_with("End of File")),
      };
      is_named |= is_ours;
      if is_ours && header.starts_with("Add File: ") {
        text.clear();
      }
      continue;
    }
    if !is_ours {
      continue;
    }
    match line.split_at_checked(1) {
      Some(("@", _)) => hunk.take(&mut text),
      Some(("+", rest)) => hunk.new.extend([rest, "\n"]),
      Some(("-", rest)) => hunk.old.extend([rest, "\n"]),
      Some((" ", rest)) => {
        hunk.old.extend([rest, "\n"]);
        hunk.new.extend([rest, "\n"]);
      }
      _ => {
        hunk.old.push('\n');
        hunk.new.push('\n');
      }
    }
  }
  hunk.take(&mut text);
  is_named.then_some(text)
}

/// The lines of one part.
#[derive(Default)]
struct Hunk {
  old: String,
  new: String,
}

impl Hunk {
  /// Applies the part, and begins the next one.
  fn take(&mut self, text: &mut String) {
    let Self { old, new } = std::mem::take(self);
    if old == new {
      return;
    }
    let place = text.find(old.as_str()).filter(|_| !old.is_empty());
    if let Some(at) = place {
      text.replace_range(at..at + old.len(), &new);
      return;
    }
    if !text.is_empty() && !text.ends_with('\n') {
      text.push('\n');
    }
    text.push_str(&new);
  }
}

/// Whether a patch and a call name one file: the patch may name it from the workspace on.
fn is_same(named: &str, path: &str) -> bool {
  let named = named.trim_start_matches("./");
  let path = path.trim_start_matches("./");
  named == path
    || path.strip_suffix(named).is_some_and(|head| head.ends_with('/'))
    || named.strip_suffix(path).is_some_and(|head| head.ends_with('/'))
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn a_patch_is_applied_to_its_own_file() {
    let patch = "*** Begin Patch\n*** Update File: other.md\n@@\n+- other\n\
                 *** Update File: MEMORY.md\n@@\n - a\n-- b\n+- B\n+- c\n*** End Patch\n";
    assert_eq!(apply(patch, "- a\n- b\n", "MEMORY.md").as_deref(), Some("- a\n- B\n- c\n"));
    assert_eq!(apply(patch, "- a\n- b\n", "/w/MEMORY.md").as_deref(), Some("- a\n- B\n- c\n"));
    assert_eq!(apply(patch, "x\n", "memory/a.md"), None);
    // The place is not found.
    assert_eq!(apply(patch, "- z", "MEMORY.md").as_deref(), Some("- z\n- a\n- B\n- c\n"));
    let add = "*** Begin Patch\n*** Add File: memory/a.md\n+- new\n*** End Patch";
    assert_eq!(apply(add, "", "memory/a.md").as_deref(), Some("- new\n"));
  }

  #[test]
  fn any_text_is_a_patch_or_none() {
    for patch in ["", "*** ", "*** Update File: ", "+\n-\n@", "*** Update File: a\n\u{e9}\n"] {
      apply(patch, "a", "a");
    }
  }
}
