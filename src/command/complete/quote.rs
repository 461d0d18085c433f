//! Shell quoting: reads a word as it was typed, and escapes a word for bash.
#![forbid(unsafe_code)]

use std::ffi::{OsStr, OsString};

/// The meaning of a typed word; `None` inside quotation marks, where shells have other rules.
pub(super) fn unquoted(word: &OsStr) -> Option<OsString> {
  let Some(text) = word.to_str() else { return Some(word.to_owned()) };
  let mut plain = String::with_capacity(text.len());
  let mut letters = text.chars();
  while let Some(letter) = letters.next() {
    match letter {
      '\'' | '"' => return None,
      // A final backslash escapes a character that is not typed yet.
      '\\' => plain.extend(letters.next()),
      letter => plain.push(letter),
    }
  }
  Some(plain.into())
}

/// Escapes a text so that bash reads it as one word; `None` if bash's completion would split the word.
///
/// Bash inserts candidates into the command line unchanged, so a backslash precedes every character that
/// bash may interpret. In bash's completion a colon or an equals sign begins a new word.
pub(super) fn for_bash(text: &str) -> Option<String> {
  if text.contains([':', '=']) {
    return None;
  }
  let below_home = text.starts_with("~/");
  let mut quoted = String::with_capacity(text.len());
  for (at, letter) in text.char_indices() {
    let is_plain = letter.is_alphanumeric()
      || matches!(letter, '.' | '_' | '/' | '-' | '+' | ',' | '@' | '%')
      || (at == 0 && below_home);
    if !is_plain {
      quoted.push('\\');
    }
    quoted.push(letter);
  }
  Some(quoted)
}

#[cfg(test)]
mod tests {
  use {super::*, proptest::prelude::*, std::process::Command};

  #[test]
  fn what_was_typed_is_read_back() {
    let read = |text: &str| unquoted(OsStr::new(text)).map(|word| word.into_string().unwrap());
    assert_eq!(read("My\\ Notes/a\\$b").as_deref(), Some("My Notes/a$b"));
    assert_eq!(read("a\\").as_deref(), Some("a"));
    assert_eq!(read("'a b"), None);
    assert_eq!(read("\"a b"), None);
  }

  #[test]
  fn a_directory_below_home_stays_one() {
    assert_eq!(for_bash("~/my notes").as_deref(), Some("~/my\\ notes"));
    assert_eq!(for_bash("~ann").as_deref(), Some("\\~ann"));
    assert_eq!(for_bash("a:b"), None);
  }

  #[test]
  fn bash_takes_hostile_names_for_words() {
    let names = [
      "$(touch /tmp/memfw-was-here)",
      "`id`",
      "a b",
      "a;b",
      "a&&b",
      "a|b",
      "a>b",
      "a\\b",
      "it's",
      "\"q\"",
      "*",
      "?",
      "[ab]",
      "{a,b}",
      "!!",
      "#x",
      "-rf",
      "~root",
      "~",
      "<x",
      "(x)",
      "ü日",
    ];
    for name in names {
      let word = for_bash(name).unwrap();
      let script = format!("printf %s {word}");
      let Ok(output) = Command::new("bash").args(["-c", &script]).output() else {
        println!("skipped: there is no bash here");
        return;
      };
      assert_eq!(String::from_utf8(output.stdout).unwrap(), name, "{word}");
      assert!(output.stderr.is_empty(), "{word}");
    }
  }

  proptest! {
    #[test]
    fn a_quoted_word_is_read_back(text in "[^:='\"\\x00-\\x1f]{0,30}") {
      let quoted = for_bash(&text).unwrap();
      let read = unquoted(OsStr::new(&quoted)).unwrap();
      prop_assert_eq!(read.to_str(), Some(text.as_str()));
    }
  }
}
