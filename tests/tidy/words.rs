//! Words that are not accepted in file names, comments, messages and pages, and what to write instead.
//!
//! The lists have phrases that were once used here and had to be explained to every newcomer. They
//! are not a style checker: CONTRIBUTING.md has the rule, and these are the cases that a machine
//! can find.

use std::{collections::BTreeSet, path::Path};

use crate::{assert_none, files, is_excepted, links, rust_files, source::Source, text, unused};

/// File names that say nothing about their content, without the extension, and better ones.
const FILE_NAMES: &[(&str, &str)] = &[
  ("apart", "name what is recognised, as in `spaced_letters`"),
  ("asker", "`attribution_worker`"),
  ("attend", "`gate_request`"),
  ("desk", "`event_loop`"),
  ("disguise", "`obfuscation`"),
  ("errand", "`subprocess`"),
  ("errands", "`notifications`"),
  ("forms", "`placeholder_cache`"),
  ("found", "`discovery`, or `finding`"),
  ("held", "`open_files`"),
  ("keep", "`housekeeping`"),
  ("look", "`rescan`"),
  ("mend", "`repair`"),
  ("page", "name the kind of page, as in `report_file`"),
  ("passed", "`gate_check`"),
  ("placed", "`managed_file`"),
  ("porter", "`reader_thread`"),
  ("reader", "name what is read, as in `verifying_read`"),
  ("scorer", "`model_worker`"),
  ("shape", "name what has the shape, as in `memory_layout`"),
  ("told", "`finding`, or `report`"),
  ("trouble", "`outage`"),
  ("work", "`dispatch`"),
];

/// Words that are not accepted in names of functions, between underscores, and better ones.
const FUNCTION_WORDS: &[(&str, &str)] = &[
  ("anew", "again"),
  ("in_peace", "name what is not done"),
  ("of_ours", "of_memfw"),
  ("stood", "was"),
  ("told", "reported, notified, or distinguished"),
];

/// Files whose functions may have such names, with the reason.
const NAMED_FUNCTIONS: &[(&str, &str)] = &[
  ("src/command/link/chat.rs", "`told` is the type of a reply in the protocol of the link"),
  ("src/command/link/news.rs", "its reply has the type `told`"),
  ("src/command/link/runs.rs", "a run is told which findings there were, as docs/openclaw.md says"),
];

/// Files that keep such a name, with the reason.
const NAMED_FILES: &[(&str, &str)] = &[
  ("src/command/report/page.rs", "the page of the report is the term of HTML"),
  ("src/detect/normalize/shape.rs", "the shape of a text is the term of the normaliser"),
  ("tests/docs/page.rs", "a page of the documentation is the term of its tests"),
];

/// Files whose strings may have such a phrase, with the reason.
const STRINGS: &[(&str, &str)] = &[
  ("src/detect/reading/prompt.rs", "the prompt was measured in these words"),
  ("src/openclaw/attribute/quoted.rs", "a sentence that a person may write"),
  ("tests/tidy/words.rs", "the list itself, and its tests"),
];

/// Phrases in lower case, and what to write instead.
const PHRASES: &[(&str, &str)] = &[
  ("a person's word", "a person's decision"),
  ("all the same", "still, or anyway"),
  ("amounts to for", "follows from it for"),
  ("anew", "again"),
  ("are believed", "memfw trusts, or never trusts"),
  ("as it stands", "unchanged, or the current"),
  ("as they stand", "unchanged, or the current"),
  ("besides", "in addition to, or other than"),
  ("by a person's word", "by a person's decision"),
  ("cannot be had", "is not available"),
  ("come to stand", "are now"),
  ("comes in its place", "replaces it"),
  ("comes to stand", "is now"),
  ("costs a text", "withholds a text"),
  ("ends with 0", "exits with status 0"),
  ("ends with 1", "exits with status 1"),
  ("ends with status", "exits with status"),
  ("for they are", "because they are"),
  ("for whose sake", "because of which"),
  ("foreign place", "a place outside"),
  ("gives the lease back", "releases the lease"),
  ("has to leave", "must be taken out"),
  ("in its hands", "say what the process has or does"),
  ("is believed", "memfw trusts, or never trusts"),
  ("is not impressed", "is unaffected"),
  ("is of no use to", "is useless"),
  ("is the way back", "undoes it"),
  ("is told of", "is notified of, or gets"),
  ("left as it is", "left unchanged"),
  ("left in peace", "not changed, or paused"),
  ("let stand", "left in place"),
  ("lets stand", "leaves in place"),
  ("looked at again", "checked again"),
  ("may stand", "may be"),
  ("might stand", "might be"),
  ("must stand", "must be"),
  ("nobody but", "only"),
  ("nobody knows", "is not known"),
  ("nobody waits", "nothing waits"),
  ("of late", "recently"),
  ("of ours", "of memfw"),
  ("put behind it", "added after it"),
  ("said aloud", "with a message"),
  ("so many that", "too many"),
  ("stand behind", "follow"),
  ("stand beside", "are beside"),
  ("stand there", "are there"),
  ("stand still", "are stopped"),
  ("standing there", "being there"),
  ("stands at", "is at"),
  ("stands behind", "follows"),
  ("stands beside", "is beside"),
  ("stands in", "is in"),
  ("stands nowhere", "is nowhere"),
  ("stands on", "is on"),
  ("stands there", "is there"),
  ("stands still", "is stopped"),
  ("stands under", "is under"),
  ("steps down to", "is shortened to"),
  ("still stands", "is still there"),
  ("stood before", "was there before"),
  ("stood behind", "followed"),
  ("stood in", "was in"),
  ("stood there", "was there"),
  ("tells them", "distinguishes them"),
  ("the lease is given back", "the lease is released"),
  ("the owner is told", "the owner is notified"),
  ("the same but for", "equal except for"),
  ("the same holds", "this also applies"),
  ("to be had", "available"),
  ("to be looked at", "to be checked"),
  ("told apart", "distinguished"),
  ("was to leave", "had to be taken out"),
  ("were to leave", "had to be taken out"),
  ("what has to go", "what must be taken out"),
  ("what is to leave", "what must be taken out"),
  ("what somebody", "name the thing and the person"),
  ("what stands", "the content"),
  ("what stood", "the former content"),
  ("where it stands", "where it is"),
  ("where they stand", "where they are"),
  ("whoever", "name the program or person"),
  ("will stand", "will be"),
  ("words of ours", "memfw's words"),
];

/// Whether a page is prose of the project: not its changelog, and not material from elsewhere.
fn is_checked_page(path: &Path) -> bool {
  let skipped = ["CHANGELOG.md", "fixtures", "training/data", "models/LICENSES.md"];
  path.extension().is_some_and(|extension| extension == "md")
    && !skipped.iter().any(|skip| path.starts_with(skip))
}

/// A stretch of prose: its words with single spaces, in lower case, and the line of each word.
struct Prose {
  text: String,
  /// Where each line begins in `text`, with its number.
  lines: Vec<(usize, usize)>,
}

impl Prose {
  fn new() -> Self {
    Self { text: " ".to_owned(), lines: Vec::new() }
  }

  fn push(&mut self, number: usize, line: &str) {
    self.lines.push((self.text.len(), number));
    for word in line.split_whitespace() {
      self.text.push_str(&word.to_lowercase());
      self.text.push(' ');
    }
  }

  /// The line of each banned phrase, with the phrase and its replacement.
  fn banned(&self) -> Vec<(usize, &'static str, &'static str)> {
    let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let mut found = Vec::new();
    for &(phrase, instead) in PHRASES {
      for (at, _) in self.text.match_indices(phrase) {
        let before = self.text.get(..at).and_then(|text| text.chars().next_back());
        let after = self.text.get(at + phrase.len()..).and_then(|text| text.chars().next());
        if is_word(before) || is_word(after) {
          continue;
        }
        let line = self.lines.iter().rev().find(|(start, _)| *start <= at);
        found.push((line.map_or(0, |(_, number)| *number), phrase, instead));
      }
    }
    found
  }
}

/// The comments of a Rust file that have lines of their own; those of neighbouring lines are one stretch.
fn comments(text: &str) -> Vec<Prose> {
  let mut all = Vec::new();
  let mut current: Option<Prose> = None;
  for (index, line) in text.lines().enumerate() {
    let comment = line.trim_start().strip_prefix("//");
    match comment {
      Some(comment) => {
        let outside: Vec<&str> = comment.split('`').step_by(2).collect();
        let outside = outside.join("`");
        current
          .get_or_insert_with(Prose::new)
          .push(index + 1, outside.trim_start_matches(['/', '!']));
      }
      None => all.extend(current.take()),
    }
  }
  all.extend(current);
  all
}

/// Banned phrases in the comments of a Rust file, one line each.
fn in_comments(path: &Path, text: &str) -> Vec<String> {
  comments(text).iter().flat_map(|prose| complaints(path, prose)).collect()
}

/// Banned phrases in the string literals of a Rust file, one line each: messages, and the texts of tests.
fn in_strings(source: &Source) -> Vec<String> {
  let tokens = source.code.iter().chain(&source.tests);
  let strings = tokens.filter(|token| token.text.ends_with('"') && token.text.len() > 1);
  let mut problems = Vec::new();
  for token in strings {
    // A line of a literal may continue in the next one, and a line end may be an escape.
    let text = token.text.replace("\\\n", " ").replace("\\n", " ");
    let outside: Vec<&str> = text.split('`').step_by(2).collect();
    let mut prose = Prose::new();
    prose.push(token.line, &outside.join("`").replace('"', " "));
    problems.extend(complaints(&source.path, &prose));
  }
  problems
}

/// Banned phrases in a page, outside of its code.
fn in_page(path: &Path, text: &str) -> Vec<String> {
  let mut prose = Prose::new();
  for (number, line) in links::prose(text) {
    prose.push(number, &line);
  }
  complaints(path, &prose)
}

fn complaints(path: &Path, prose: &Prose) -> Vec<String> {
  let path = path.display();
  let say = |(line, phrase, instead)| format!("{path}:{line}: \"{phrase}\": write: {instead}");
  prose.banned().into_iter().map(say).collect()
}

#[test]
fn files_have_names_that_say_what_they_are_for() {
  let mut problems = Vec::new();
  let mut used = BTreeSet::new();
  for source in rust_files("src").iter().chain(&rust_files("tests")) {
    let stem = source.path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let Some((_, instead)) = FILE_NAMES.iter().find(|(name, _)| *name == stem) else {
      continue;
    };
    used.insert(source.path.clone());
    if !is_excepted(NAMED_FILES, &source.path) {
      problems.push(format!("{}: a better name: {instead}", source.path.display()));
    }
  }
  problems.extend(unused(NAMED_FILES, &used));
  assert_none(&problems);
}

#[test]
fn comments_messages_and_pages_are_in_plain_words() {
  let mut problems = Vec::new();
  let mut used = BTreeSet::new();
  for source in rust_files("src").iter().chain(&rust_files("tests")) {
    problems.extend(in_comments(&source.path, &source.text));
    let in_strings = in_strings(source);
    if is_excepted(STRINGS, &source.path) && !in_strings.is_empty() {
      used.insert(source.path.clone());
    } else {
      problems.extend(in_strings);
    }
  }
  problems.extend(unused(STRINGS, &used));
  for path in files("").into_iter().filter(|path| is_checked_page(path)) {
    let page = text(&path).unwrap();
    problems.extend(in_page(&path, &page));
  }
  assert_none(&problems);
}

#[test]
fn banned_words_are_seen_across_lines_and_in_strings_and_not_in_code() {
  let path = Path::new("a.rs");
  let seen = in_comments(path, "/// The text that stands\n/// there.\nlet a = 1;");
  assert_eq!(seen, ["a.rs:1: \"stands there\": write: is there"]);
  for text in [
    "let a = \"stands there\";",
    "// `stands there`",
    "// understands there",
    "// stands\nlet a = 1;\n// there",
  ] {
    assert_eq!(in_comments(path, text), [""; 0], "{text}");
  }
  for (text, expected) in [
    ("const A: &str = \"it stands\\\n  there\";", 1),
    ("#[test]\nfn f() { assert!(true, \"it\\nstands there\"); }", 1),
    ("const A: &str = \"`stands there`\";", 0),
    ("// stands there\nconst A: &str = \"understands there\";", 0),
  ] {
    let seen = in_strings(&Source::new(path.to_owned(), text.to_owned()));
    assert_eq!(seen.len(), expected, "{text}: {seen:?}");
  }
  let page = "It stands there.\n\n```sh\nstands there\n```\n";
  assert_eq!(in_page(path, page).len(), 1);
  assert!(!is_checked_page(Path::new("CHANGELOG.md")));
  assert!(is_checked_page(Path::new("docs/adr/0001-one-package.md")));
  assert!(is_checked_page(Path::new("docs/faq.md")));
}

#[test]
fn functions_have_plain_names() {
  let mut problems = Vec::new();
  let mut used = BTreeSet::new();
  for source in rust_files("src").iter().chain(&rust_files("tests")) {
    for tokens in [&source.code, &source.tests] {
      for pair in tokens.windows(2).filter(|pair| pair[0].text == "fn") {
        let name = format!("_{}_", pair[1].text);
        let banned = FUNCTION_WORDS.iter().find(|(word, _)| name.contains(&format!("_{word}_")));
        let Some((word, instead)) = banned else { continue };
        used.insert(source.path.clone());
        if !is_excepted(NAMED_FUNCTIONS, &source.path) {
          let place = format!("{}:{}", source.path.display(), pair[1].line);
          problems.push(format!("{place}: `{}`: in place of \"{word}\": {instead}", pair[1].text));
        }
      }
    }
  }
  problems.extend(unused(NAMED_FUNCTIONS, &used));
  assert_none(&problems);
}
