//! Rust source as tokens: enough of a lexer to separate code from comments, strings and tests.
//!
//! It knows no grammar beyond attributes, brackets and `use` trees. It misreads only code that
//! rustfmt would reformat.

use std::{
  collections::BTreeSet,
  path::{Path, PathBuf},
};

/// Suites that have a recipe in the justfile, and that `.ci/run slow` starts.
const SLOW_SUITES: &[&str] = &["crash", "powerloss", "leases", "faults"];

/// One word, number, literal or sign; `::` is one token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
  /// The text in the file, unchanged.
  pub(crate) text: String,
  /// The line, from 1.
  pub(crate) line: usize,
}

/// One file of the crate.
#[derive(Debug)]
pub(crate) struct Source {
  /// Relative to the repository.
  pub(crate) path: PathBuf,
  /// All of it.
  pub(crate) text: String,
  /// The tokens that are compiled into the program.
  pub(crate) code: Vec<Token>,
  /// The tokens that are compiled only for tests.
  pub(crate) tests: Vec<Token>,
}

impl Source {
  /// Reads a file.
  pub(crate) fn new(path: PathBuf, text: String) -> Self {
    let (code, tests) = split(tokens(&text));
    Self { path, text, code, tests }
  }

  /// The depth of the file below the root of the crate, in modules.
  pub(crate) fn depth(&self) -> usize {
    let below = self.path.components().count().saturating_sub(1);
    let name = self.path.file_name().and_then(|name| name.to_str());
    below - usize::from(matches!(name, Some("lib.rs" | "main.rs" | "mod.rs")))
  }

  /// The room that the file belongs to: the first module below the root of the crate.
  pub(crate) fn room(&self) -> String {
    let first = self.path.components().nth(1).map(|part| part.as_os_str().to_string_lossy());
    first.unwrap_or_default().trim_end_matches(".rs").to_owned()
  }

  /// The names of its module below the root of the crate.
  pub(crate) fn module(&self) -> Vec<String> {
    let names = self.path.components().skip(1).take(self.depth());
    let names = names.map(|part| part.as_os_str().to_string_lossy());
    names.map(|name| name.trim_end_matches(".rs").to_owned()).collect()
  }

  /// Whether no part of it is compiled into the program.
  pub(crate) fn is_only_for_tests(&self) -> bool {
    self.code.is_empty() && !self.tests.is_empty()
  }

  /// Whether the file has only the names of modules.
  pub(crate) fn is_list_of_modules(&self) -> bool {
    let mut rest = self.code.as_slice();
    while let Some((first, tail)) = rest.split_first() {
      if first.text == "#" {
        rest = skip_attribute(rest);
        continue;
      }
      let words: Vec<&str> = rest.iter().take(2).map(|token| token.text.as_str()).collect();
      let lists = matches!(words.as_slice(), ["mod" | "use", ..] | ["pub", "mod" | "use"]);
      let Some(end) = tail.iter().position(|token| token.text == ";") else { return false };
      if !lists {
        return false;
      }
      rest = &tail[end + 1..];
    }
    true
  }

  /// Tests among `tokens` that are switched off and whose name no string of the file holds.
  pub(crate) fn ignored_tests<'t>(&self, tokens: &'t [Token]) -> Vec<&'t Token> {
    let is_started = |name: &str| {
      let mut all = self.code.iter().chain(&self.tests);
      all.any(|token| token.text.ends_with('"') && token.text.contains(name))
    };
    let ignored = tokens
      .windows(2)
      .enumerate()
      .filter(|(_, pair)| pair[0].text == "[" && pair[1].text == "ignore");
    let name_of = |index: usize| {
      let rest = tokens.get(index..).unwrap_or_default();
      rest.windows(2).find(|pair| pair[0].text == "fn").map(|pair| &pair[1])
    };
    // Suites that take minutes have a recipe of their own, which the gate starts as well.
    let is_recipe = |index: usize| {
      let reason = tokens.get(index + 3).map(|token| token.text.trim_matches('"'));
      let recipe = reason.and_then(|reason| reason.strip_prefix("takes minutes: just "));
      recipe.is_some_and(|recipe| SLOW_SUITES.contains(&recipe))
    };
    ignored
      .filter(|(index, _)| !is_recipe(*index))
      .filter_map(|(index, _)| name_of(index))
      .filter(|name| !is_started(&name.text))
      .collect()
  }

  /// Files that are modules of the tests of this one.
  fn test_modules(&self) -> Vec<PathBuf> {
    let dir = self.path.parent().unwrap_or(Path::new(""));
    let stem = self.path.file_stem().unwrap_or_default();
    let own = if matches!(stem.to_str(), Some("lib" | "main" | "mod")) {
      dir.into()
    } else {
      dir.join(stem)
    };
    let mut named = None;
    let mut found = Vec::new();
    for window in self.tests.windows(3) {
      let [first, second, third] = window else { continue };
      match (first.text.as_str(), second.text.as_str(), third.text.as_str()) {
        ("path", "=", file) => named = Some(dir.join(file.trim_matches('"'))),
        ("mod", name, ";") => {
          let usual = [own.join(format!("{name}.rs")), own.join(name).join("mod.rs")];
          found.extend(named.take().map_or(usual.to_vec(), |path| vec![path]));
        }
        _ => {}
      }
    }
    found
  }
}

/// Moves files that are only compiled for tests to the tests as a whole.
pub(crate) fn settle_tests(sources: &mut [Source]) {
  let mut done: BTreeSet<PathBuf> = BTreeSet::new();
  loop {
    let wanted: BTreeSet<PathBuf> = sources.iter().flat_map(Source::test_modules).collect();
    let next = sources
      .iter_mut()
      .find(|source| wanted.contains(&source.path) && !done.contains(&source.path));
    let Some(source) = next else { return };
    let code = std::mem::take(&mut source.code);
    source.tests.splice(0..0, code);
    done.insert(source.path.clone());
  }
}

/// One path out of the module tree: the first name below the root of the crate.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reach {
  /// The name, or `*`.
  pub(crate) room: String,
  /// The line, from 1.
  pub(crate) line: usize,
}

/// The names that code `depth` modules deep reaches through `crate::` and through `super::`.
pub(crate) fn reaches(code: &[Token], depth: usize) -> Vec<Reach> {
  let mut found = Vec::new();
  // Open brackets; one that opened an inline module is marked.
  let mut open: Vec<bool> = Vec::new();
  let text = |index: usize| code.get(index).map_or("", |token| token.text.as_str());
  let mut index = 0;
  while index < code.len() {
    match text(index) {
      "{" => open.push(index >= 2 && text(index - 2) == "mod"),
      "}" => drop(open.pop()),
      "crate" if text(index + 1) == "::" => heads(code, index + 2, &mut found),
      "super" if index == 0 || text(index - 1) != "::" || text(index - 2) == "self" => {
        let mut n_supers = 1;
        while text(index + 1) == "::" && text(index + 2) == "super" {
          n_supers += 1;
          index += 2;
        }
        let here = depth + open.iter().filter(|module| **module).count();
        if n_supers == here && text(index + 1) == "::" {
          heads(code, index + 2, &mut found);
        }
      }
      _ => {}
    }
    index += 1;
  }
  found
}

/// One use of an item by its path.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Use {
  /// The names from the root of the crate.
  pub(crate) path: Vec<String>,
  /// The name that the code gives to it: its last one, or the one after `as`.
  pub(crate) name: String,
  /// Whether it is in a `use` declaration of the file's own module.
  pub(crate) is_import: bool,
}

/// The items that the code of a module uses through `crate::`, `super::`, `self::` and, in a `use`, by the name of
/// a child. Paths that begin with another crate look like those of a child, and lead nowhere.
pub(crate) fn uses(code: &[Token], module: &[String]) -> Vec<Use> {
  let mut found = Vec::new();
  let text = |index: usize| code.get(index).map_or("", |token| token.text.as_str());
  // Open brackets, with the name of the inline module that one opened.
  let mut open: Vec<Option<String>> = Vec::new();
  let mut index = 0;
  while index < code.len() {
    let starts = index == 0 || text(index - 1) != "::";
    match text(index) {
      "{" => {
        let is_module = index >= 2 && text(index - 2) == "mod";
        open.push(is_module.then(|| text(index - 1).to_owned()));
      }
      "}" => drop(open.pop()),
      "use" => {
        let here = [module, &open.iter().flatten().cloned().collect::<Vec<_>>()].concat();
        let from = found.len();
        index = use_tree(code, index + 1, &here, &mut found);
        let is_import = open.is_empty();
        found[from..].iter_mut().for_each(|one| one.is_import = is_import);
        continue;
      }
      "crate" | "super" | "self" if starts && text(index + 1) == "::" => {
        let here = [module, &open.iter().flatten().cloned().collect::<Vec<_>>()].concat();
        index = use_tree(code, index, &here, &mut found);
        continue;
      }
      _ => {}
    }
    index += 1;
  }
  found
}

/// Adds the items of the `use` tree at `index`, whose names follow `prefix`, and returns the index after it.
fn use_tree(code: &[Token], mut index: usize, prefix: &[String], found: &mut Vec<Use>) -> usize {
  let text = |index: usize| code.get(index).map_or("", |token| token.text.as_str());
  let mut path = prefix.to_vec();
  loop {
    match text(index) {
      "{" => {
        index += 1;
        while index < code.len() && text(index) != "}" {
          index = use_tree(code, index, &path, found);
          index += usize::from(text(index) == ",");
        }
        return index + 1;
      }
      "super" => drop(path.pop()),
      "self" => {}
      "crate" | "::" => path.clear(),
      name => path.push(name.to_owned()),
    }
    if text(index) != "::" {
      index += 1;
    }
    if text(index) != "::" {
      break;
    }
    index += 1;
    // Parameters of a type, as in `Vec::<u8>`, end the path.
    if text(index) == "<" {
      break;
    }
  }
  let mut name = path.last().cloned().unwrap_or_default();
  if text(index) == "as" {
    text(index + 1).clone_into(&mut name);
    index += 2;
  }
  found.push(Use { path, name, is_import: false });
  index
}

/// The first name of each branch of a `use` tree that begins at `index`.
fn heads(code: &[Token], index: usize, found: &mut Vec<Reach>) {
  let named = |index: usize| code.get(index).filter(|token| token.text != "self");
  let tokens = branches(code, index).into_iter().filter_map(named);
  found.extend(tokens.map(|token| Reach { room: token.text.clone(), line: token.line }));
}

/// The beginnings of the branches of the `use` tree at `index`.
fn branches(code: &[Token], index: usize) -> Vec<usize> {
  let Some(first) = code.get(index) else { return Vec::new() };
  if first.text != "{" {
    return vec![index];
  }
  let mut found = Vec::new();
  let mut level = 0_usize;
  let mut at_start = true;
  for (index, token) in code.iter().enumerate().skip(index) {
    match token.text.as_str() {
      "{" => {
        level += 1;
        at_start = level == 1;
      }
      "}" => level -= 1,
      "," if level == 1 => at_start = true,
      _ if at_start => {
        found.push(index);
        at_start = false;
      }
      _ => {}
    }
    if level == 0 {
      break;
    }
  }
  found
}

/// The tokens of a text; comments and white space are none.
fn tokens(text: &str) -> Vec<Token> {
  let chars: Vec<char> = text.chars().collect();
  let at = |index: usize| chars.get(index).copied().unwrap_or('\0');
  let mut tokens = Vec::new();
  let mut line = 1;
  let mut index = 0;
  while index < chars.len() {
    let start = index;
    let is_token = match (at(index), at(index + 1)) {
      (c, _) if c.is_whitespace() => {
        index += 1;
        false
      }
      ('/', '/') => {
        while index < chars.len() && at(index) != '\n' {
          index += 1;
        }
        false
      }
      ('/', '*') => {
        index = end_of_comment(&chars, index);
        false
      }
      (c, _) if let Some(end) = end_of_string(&chars, index, c) => {
        index = end;
        true
      }
      ('\'', '\\') => {
        index += 3;
        while index < chars.len() && at(index) != '\'' {
          index += 1;
        }
        index += 1;
        true
      }
      ('\'', _) if at(index + 2) == '\'' => {
        index += 3;
        true
      }
      (c, _) if c == '_' || c.is_alphanumeric() => {
        while at(index) == '_' || at(index).is_alphanumeric() {
          index += 1;
        }
        true
      }
      (':', ':') => {
        index += 2;
        true
      }
      _ => {
        index += 1;
        true
      }
    };
    let text: String = chars.iter().skip(start).take(index - start).collect();
    let n_lines = text.matches('\n').count();
    if is_token {
      tokens.push(Token { text, line });
    }
    line += n_lines;
  }
  tokens
}

fn end_of_comment(chars: &[char], start: usize) -> usize {
  let mut level = 0_usize;
  let mut index = start;
  while index < chars.len() {
    match (chars.get(index), chars.get(index + 1)) {
      (Some('/'), Some('*')) => (level, index) = (level + 1, index + 2),
      (Some('*'), Some('/')) => (level, index) = (level - 1, index + 2),
      _ => index += 1,
    }
    if level == 0 {
      break;
    }
  }
  index
}

/// The end of a string literal that begins here, prefixes and raw strings included.
fn end_of_string(chars: &[char], start: usize, first: char) -> Option<usize> {
  let at = |index: usize| chars.get(index).copied().unwrap_or('\0');
  let mut index = start;
  if matches!(first, 'b' | 'c') {
    index += 1;
  }
  let raw = at(index) == 'r';
  index += usize::from(raw);
  let mut hashes = 0;
  while raw && at(index) == '#' {
    hashes += 1;
    index += 1;
  }
  if at(index) != '"' {
    return None;
  }
  index += 1;
  while index < chars.len() {
    match at(index) {
      '\\' if !raw => index += 2,
      '"' if (1..=hashes).all(|offset| at(index + offset) == '#') => {
        return Some(index + 1 + hashes);
      }
      _ => index += 1,
    }
  }
  Some(index)
}

/// Separates tokens that are compiled into the program from those that are compiled only for tests.
fn split(tokens: Vec<Token>) -> (Vec<Token>, Vec<Token>) {
  let mut code = Vec::new();
  let mut tests = Vec::new();
  let mut rest = tokens.as_slice();
  while let Some(first) = rest.first() {
    if first.text != "#" {
      code.push(first.clone());
      rest = &rest[1..];
      continue;
    }
    let after = skip_attribute(rest);
    let attribute = &rest[..rest.len() - after.len()];
    let inner = attribute.get(1).is_some_and(|token| token.text == "!");
    if !is_for_tests(attribute) {
      code.extend_from_slice(attribute);
      rest = after;
    } else if inner {
      tests.append(&mut code);
      tests.extend_from_slice(rest);
      break;
    } else {
      let end = skip_item(after);
      tests.extend_from_slice(&rest[..rest.len() - end.len()]);
      rest = end;
    }
  }
  (code, tests)
}

/// Whether an attribute is `test`, or a `cfg` that requires it.
fn is_for_tests(attribute: &[Token]) -> bool {
  let words: Vec<&str> = attribute
    .iter()
    .map(|token| token.text.as_str())
    .filter(|text| !matches!(*text, "#" | "!" | "[" | "]" | "(" | ")"))
    .collect();
  matches!(words.as_slice(), ["test"] | ["cfg", "test"] | ["cfg", "all", "test", ..])
}

/// The tokens after the first attribute.
fn skip_attribute(tokens: &[Token]) -> &[Token] {
  let mut level = 0_usize;
  for (index, token) in tokens.iter().enumerate() {
    match token.text.as_str() {
      "[" => level += 1,
      "]" if level == 1 => return &tokens[index + 1..],
      "]" => level -= 1,
      _ => {}
    }
  }
  &[]
}

/// The tokens after the first item: after its `;`, or the bracket that closes its body.
fn skip_item(tokens: &[Token]) -> &[Token] {
  let mut level = 0_usize;
  for (index, token) in tokens.iter().enumerate() {
    let text = token.text.as_str();
    match text {
      "(" | "[" | "{" => level += 1,
      ")" | "]" | "}" => level = level.saturating_sub(1),
      _ => {}
    }
    if level == 0 && matches!(text, ";" | "}") {
      return &tokens[index + 1..];
    }
  }
  &[]
}
