//! The texts that a command was given: its quoted strings, what it echoes, and its whole lines.
//!
//! Invariant: never a part of a text. A quotation within a quoted string or a here-document is a
//! part of that text, and the author of the whole did not state the part.
#![forbid(unsafe_code)]

use std::{path::Path, str::Chars};

/// Most commands within commands that are read.
const MAX_DEPTH: usize = 3;
/// What ends one command in a line.
const OPERATORS: &[char] = &['\n', '>', '<', '|', ';', '&'];

/// Words of commands that run another author's code.
const RUNS_FOREIGN: &[&str] = &[
  "install", "ci", "clone", "curl", "wget", "make", "npx", "pipx", "uvx", "bunx", "docker",
  "podman", "build", "setup", "upgrade", "update", "bundle", "composer", "gradlew", "mvn",
];

/// Whether a command runs another author's code: an installer, a build, a download.
pub(super) fn runs_foreign_code(command: &str) -> bool {
  let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
  let is_script = |word: &str| Path::new(word).extension().is_some_and(|kind| kind == "sh");
  command.split(|c| !is_word(c)).any(|word| RUNS_FOREIGN.contains(&word) || is_script(word))
}

/// All texts that a command may put somewhere as they are.
pub(super) fn said(command: &str) -> Vec<String> {
  let mut found: Vec<String> = command.lines().map(str::to_owned).collect();
  read(&without_documents(command), 0, &mut found);
  let inserted: Vec<String> = found.iter().filter_map(|text| inserted(text)).collect();
  found.extend(inserted);
  found
}

fn read(command: &str, depth: usize, found: &mut Vec<String>) {
  // How a shell writes an apostrophe in a quoted string.
  let command = command.replace(r"'\''", "’").replace(r#"'"'"'"#, "’");
  let mut rest = command.chars();
  // The text outside of quotes in this command, and whether all of it does.
  let (mut bare, mut is_bare) = (String::new(), true);
  while let Some(c) = rest.next() {
    match c {
      '\'' | '"' => {
        let text = quoted(&mut rest, c);
        if depth < MAX_DEPTH && takes_command(&bare) {
          read(&text, depth + 1, found);
        }
        found.push(text);
        is_bare = false;
      }
      c if OPERATORS.contains(&c) => {
        found.extend(echoed(&bare).filter(|_| is_bare));
        (bare, is_bare) = (String::new(), true);
      }
      '\\' => bare.extend([Some(c), rest.next()].into_iter().flatten()),
      c => bare.push(c),
    }
  }
  found.extend(echoed(&bare).filter(|_| is_bare));
}

/// The rest of a quoted string.
fn quoted(rest: &mut Chars<'_>, quote: char) -> String {
  let mut text = String::new();
  while let Some(c) = rest.next().filter(|c| *c != quote) {
    let escaped = if quote == '"' && c == '\\' { rest.next() } else { None };
    text.extend(Some(c).filter(|_| escaped != Some('"')).into_iter().chain(escaped));
  }
  text
}

/// Whether what follows is a command itself, as in `sh -c`.
fn takes_command(bare: &str) -> bool {
  let option = bare.split_whitespace().next_back().unwrap_or_default();
  option.starts_with('-') && !option.starts_with("--") && option.ends_with('c')
}

/// What a command without quotes prints.
fn echoed(bare: &str) -> Option<String> {
  let mut words = bare.split_whitespace();
  words.next().filter(|word| matches!(*word, "echo" | "printf"))?;
  let is_option =
    |word: &&str| word.strip_prefix('-').is_some_and(|name| !name.is_empty() && name.len() < 4);
  Some(words.skip_while(is_option).collect::<Vec<_>>().join(" "))
}

/// The text that a command of sed puts beside a line, as in `$a\text`.
fn inserted(text: &str) -> Option<String> {
  let end = text.find(|c: char| c.is_whitespace() || c == '\\')?;
  let (address, rest) = text.split_at_checked(end)?;
  let is_address = address.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '$' | '/'));
  (is_address && address.ends_with(['a', 'i', 'c']))
    .then(|| rest.trim_start_matches(|c: char| c.is_whitespace() || c == '\\').to_owned())
}

/// A command without the here-documents in it: quotes in them are the text's own.
fn without_documents(command: &str) -> String {
  let mut kept = String::new();
  let mut lines = command.lines();
  while let Some(line) = lines.next() {
    kept.push_str(line);
    kept.push('\n');
    let Some((_, after)) = line.split_once("<<").filter(|(_, after)| !after.starts_with('<'))
    else {
      continue;
    };
    let word = after.trim_start_matches(['-', '~', ' ']);
    let word = word.split(|c: char| c.is_whitespace() || OPERATORS.contains(&c)).next();
    let word = word.unwrap_or_default().trim_matches(['\'', '"', '\\']);
    lines.by_ref().take_while(|line| line.trim() != word).for_each(drop);
  }
  kept
}

#[cfg(test)]
mod tests {
  use super::*;

  #[track_caller]
  fn assert_said(command: &str, text: &str, expected: bool) {
    let found = said(command);
    assert_eq!(found.iter().any(|one| one == text), expected, "{command}: {found:#?}");
  }

  #[test]
  fn what_a_command_says_is_found() {
    for command in [
      "echo Pay it. >> MEMORY.md",
      "echo -n Pay it. | tee -a MEMORY.md",
      "printf '%s' \"Pay it.\" >> MEMORY.md",
      "cat >> MEMORY.md <<'EOF'\nPay it.\nEOF",
      "sh -c \"echo \\\"Pay it.\\\" >> MEMORY.md\"",
      "python3 -c 'open(\"MEMORY.md\", \"a\").write(\"Pay it.\")'",
      "sed -i '$a\\Pay it.' MEMORY.md",
      "sed -i '3i Pay it.' MEMORY.md",
    ] {
      assert_said(command, "Pay it.", true);
    }
    assert_said("echo 'Don'\\''t pay.' >> MEMORY.md", "Don’t pay.", true);
  }

  #[test]
  fn a_quotation_in_a_text_is_not_said() {
    for command in [
      "echo \"Tom wrote 'Pay it.', a lie\" >> MEMORY.md",
      "echo \"Tom wrote \\\"Pay it.\\\", a lie\" >> MEMORY.md",
      "echo 'Tom wrote \"Pay it.\", a lie' >> MEMORY.md",
      "cat >> MEMORY.md <<EOF\nTom wrote 'Pay it.', a lie\nEOF",
      "python3 -c 'w(\"Tom wrote \\\"Pay it.\\\", a lie\")'",
      "true Pay it.",
    ] {
      assert_said(command, "Pay it.", false);
    }
  }
}
