//! Commands and options that a page names, compared with the command line as clap defines it.
#![forbid(unsafe_code)]

use {
  clap::{Command, CommandFactory as _},
  std::collections::BTreeSet,
};

/// The command line, and its commands and options that were named so far.
pub(super) struct Tree {
  root: Command,
  named: BTreeSet<String>,
}

impl Tree {
  pub(super) fn new() -> Self {
    let mut root = memfw::command::Args::command();
    root.build();
    Self { root, named: BTreeSet::new() }
  }

  /// Checks a code span or a line of the shell; returns its errors.
  pub(super) fn check(&mut self, text: &str) -> Vec<String> {
    let words: Vec<&str> = text.split_whitespace().map(bare).collect();
    let mut problems = Vec::new();
    for (at, _) in words.iter().enumerate().filter(|&(_, word)| is_memfw(word)) {
      let ends = |word: &&&str| !matches!(**word, "|" | "&&" | "||" | ";" | ">" | ">>" | "<" | "#");
      let rest: Vec<&str> = words[at + 1..].iter().take_while(ends).copied().collect();
      problems.extend(self.walk(&rest));
    }
    if let Some(option) = words.first().filter(|word| word.starts_with("--") && word.len() > 2) {
      problems.extend(self.alone(option));
    }
    problems.into_iter().map(|problem| format!("`{text}`: {problem}")).collect()
  }

  /// Follows the words behind `memfw`.
  fn walk(&mut self, words: &[&str]) -> Option<String> {
    let mut node = self.root.clone();
    let mut path = "memfw".to_owned();
    for &word in words {
      if word == "--" {
        break;
      } else if let Some(option) = word.strip_prefix("--") {
        for name in option.split('|').map(|name| name.trim_start_matches('-')) {
          let name = name.split(['=', '[']).next().unwrap_or_default();
          if !has_long(&node, name) {
            return Some(format!("`{path}` has no option `--{name}`"));
          }
        }
      } else if let Some(short) = word.strip_prefix('-').filter(|short| !short.is_empty()) {
        let is_known = |arg: &clap::Arg| short.chars().next() == arg.get_short();
        if !node.get_arguments().any(is_known) {
          return Some(format!("`{path}` has no option `-{short}`"));
        }
      } else if node.has_subcommands() {
        // A word in capitals, or three dots, may be any word.
        if word.starts_with("...") || word.chars().all(|c| c.is_ascii_uppercase()) {
          return None;
        }
        let mut next = None;
        for name in word.split('|') {
          let Some(found) = node.find_subcommand(name) else {
            return Some(format!("`{path}` has no command `{name}`"));
          };
          self.named.insert(format!("{path} {name}"));
          next = Some(found.clone());
        }
        path = format!("{path} {word}");
        node = next?;
      }
    }
    None
  }

  /// An option in a span of its own belongs to some command.
  fn alone(&self, option: &str) -> Option<String> {
    let name = option.split(['=', '[', '|']).next().unwrap_or_default();
    let name = name.trim_start_matches('-');
    (!anywhere(&self.root, name)).then(|| format!("no command has an option `--{name}`"))
  }

  /// The command of `words`, of which the first is memfw: its path, without options and arguments.
  pub(super) fn path(&self, words: &[String]) -> String {
    let mut node = &self.root;
    let mut path = String::new();
    for word in words.iter().skip(1) {
      if let Some(next) = node.find_subcommand(word) {
        path = format!("{path} {word}");
        node = next;
      }
    }
    path.trim().to_owned()
  }

  /// Commands that no page names.
  pub(super) fn left_out(&self) -> Vec<String> {
    let mut problems = Vec::new();
    collect(&self.root, "memfw", &self.named, &mut problems);
    problems
  }
}

fn collect(node: &Command, path: &str, named: &BTreeSet<String>, problems: &mut Vec<String>) {
  for child in node.get_subcommands() {
    let path = format!("{path} {}", child.get_name());
    if child.is_hide_set() || child.get_name() == "help" {
      continue;
    }
    if !named.contains(&path) {
      problems.push(format!("no page names `{path}`"));
    }
    collect(child, &path, named, problems);
  }
}

fn has_long(node: &Command, name: &str) -> bool {
  node.get_arguments().any(|arg| arg.get_long() == Some(name))
}

fn anywhere(node: &Command, name: &str) -> bool {
  has_long(node, name) || node.get_subcommands().any(|child| anywhere(child, name))
}

/// A word without the quotes and brackets around it.
fn bare(word: &str) -> &str {
  word.trim_start_matches(['(', '"', '\'', '$', '<', '[']).trim_end_matches([')', '"', '\'', ']'])
}

fn is_memfw(word: &str) -> bool {
  super::MEMFW.contains(&word)
}

#[test]
fn what_does_not_exist_is_refused() {
  let mut tree = Tree::new();
  for good in [
    "memfw",
    "memfw quarantine list|show|add ID --json",
    "memfw quarantine COMMAND",
    "memfw scan --fail-on=flag notes | head",
    "sudo MEMFW_HOME=\"$MEMFW_HOME\" memfw gate --workspace DIR",
    "memfw config example > \"$(memfw config path)\"",
    "memfw config set notify.command -- say -v anna",
    "memfw log -n 20",
    "target/release/memfw --version",
    "--reason TEXT",
    "<!-- /memfw -->",
    "cargo uninstall memfw",
  ] {
    assert_eq!(tree.check(good), Vec::<String>::new());
  }
  for (bad, why) in [
    ("memfw frobnicate", "`memfw` has no command `frobnicate`"),
    ("memfw quarantine list|shw", "`memfw quarantine` has no command `shw`"),
    ("memfw scan --yes", "`memfw scan` has no option `--yes`"),
    ("memfw log -x", "`memfw log` has no option `-x`"),
    ("echo | memfw statsu", "`memfw` has no command `statsu`"),
    ("--frobnicate N", "no command has an option `--frobnicate`"),
  ] {
    assert_eq!(tree.check(bad), [format!("`{bad}`: {why}")]);
  }
  let left_out = tree.left_out();
  assert!(left_out.contains(&"no page names `memfw report`".to_owned()), "{left_out:?}");
  assert!(!left_out.iter().any(|line| line.contains("memfw config path")), "{left_out:?}");
  let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
  assert_eq!(tree.path(&words("memfw quarantine list --json")), "quarantine list");
}
