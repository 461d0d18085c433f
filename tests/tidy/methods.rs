//! Calls of methods between the modules of a room: a type may have methods in several modules, and a
//! module that calls one of them uses the module that defines it.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::Token;

/// The methods that the modules of a room define.
#[derive(Default)]
pub(crate) struct Methods {
  /// Which modules define a method, by the type and the name of the method.
  by: BTreeMap<(String, String), BTreeSet<String>>,
  /// Which modules define a type of this name.
  types: BTreeMap<String, BTreeSet<String>>,
}

/// A block `impl Type { … }` or `impl Trait for Type { … }`.
struct Impl<'t> {
  of: &'t str,
  is_of_trait: bool,
  body: &'t [Token],
}

impl Methods {
  /// Adds the types and methods of a module. Methods of traits are not among them.
  pub(crate) fn note(&mut self, module: &str, code: &[Token]) {
    for pair in code.windows(2).filter(|pair| matches!(&*pair[0].text, "struct" | "enum")) {
      self.types.entry(pair[1].text.clone()).or_default().insert(module.to_owned());
    }
    for one in impls(code).iter().filter(|one| !one.is_of_trait) {
      let mut depth = 0_usize;
      for (index, token) in one.body.iter().enumerate() {
        match token.text.as_str() {
          "{" => depth += 1,
          "}" => depth = depth.saturating_sub(1),
          "fn" if depth == 0 => {
            let name = text(one.body, index + 1).to_owned();
            self.by.entry((one.of.to_owned(), name)).or_default().insert(module.to_owned());
          }
          _ => {}
        }
      }
    }
  }

  /// The modules whose methods this code calls. What a call is made on is known where it is `self`, the name of
  /// a type, a variable whose type is written down, or, in a closure of a type's own method, a variable that is
  /// called like the type: `|engine| engine.now()`.
  pub(crate) fn called(&self, code: &[Token]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut note = |of: &str, name: &str| {
      // Of two types with one name, it is not known which one is meant.
      if self.types.get(of).is_some_and(|modules| modules.len() == 1) {
        found.extend(self.by.get(&(of.to_owned(), name.to_owned())).into_iter().flatten().cloned());
      }
    };
    for one in impls(code) {
      let own = snake_case(one.of);
      for index in 0..one.body.len() {
        let at = |index| text(one.body, index);
        let is_own = at(index) == "self" || at(index) == own;
        if is_own && is_call_on(one.body, index) || (at(index), at(index + 1)) == ("Self", "::") {
          note(one.of, at(index + 2));
        }
      }
    }
    let variables = variables(code);
    for index in 0..code.len() {
      let at = |index| text(code, index);
      if at(index + 1) == "::" {
        note(at(index), at(index + 2));
      } else if is_call_on(code, index)
        && let Some(Some(of)) = variables.get(at(index))
      {
        note(of, at(index + 2));
      }
    }
    found
  }
}

/// The types of variables whose type is written down, by their names; `None` where they differ.
fn variables(code: &[Token]) -> BTreeMap<&str, Option<&str>> {
  let mut found: BTreeMap<&str, Option<&str>> = BTreeMap::new();
  for (index, token) in code.iter().enumerate().filter(|(index, _)| text(code, index + 1) == ":") {
    let mut at = index + 2;
    while matches!(text(code, at), "&" | "mut") || text(code, at) == "'" {
      at += if text(code, at) == "'" { 2 } else { 1 };
    }
    let of = text(code, at);
    found
      .entry(&token.text)
      .and_modify(|known| *known = known.filter(|one| *one == of))
      .or_insert(Some(of));
  }
  found
}

/// Whether a method is called on the word at this index, which is no field.
fn is_call_on(code: &[Token], index: usize) -> bool {
  let is_field = index > 0 && text(code, index - 1) == ".";
  !is_field && text(code, index + 1) == "." && matches!(text(code, index + 3), "(" | "::")
}

fn text(tokens: &[Token], index: usize) -> &str {
  tokens.get(index).map_or("", |token| token.text.as_str())
}

fn impls(code: &[Token]) -> Vec<Impl<'_>> {
  let mut found = Vec::new();
  for (index, token) in code.iter().enumerate() {
    // In other places, `impl` stands for a type.
    let begins =
      index == 0 || matches!(text(code, index - 1), "}" | "]" | ";" | "unsafe" | "default");
    if token.text != "impl" || !begins {
      continue;
    }
    let rest = &code[index + 1..];
    let Some(open) = rest.iter().position(|token| token.text == "{") else { continue };
    let (header, body) = (without_generics(&rest[..open]), &rest[open + 1..]);
    let is_of_trait = header.contains(&"for");
    let names =
      header.iter().skip(header.iter().position(|one| *one == "for").map_or(0, |at| at + 1));
    // The last part of a path is the name.
    let names = names.copied().take_while(|one| *one != "where");
    let is_word = |one: &&str| one.starts_with(|c: char| c.is_alphabetic());
    let Some(of) = names.filter(is_word).last() else { continue };
    let mut depth = 1_usize;
    let end = body.iter().position(|token| {
      match token.text.as_str() {
        "{" => depth += 1,
        "}" => depth -= 1,
        _ => {}
      }
      depth == 0
    });
    found.push(Impl { of, is_of_trait, body: &body[..end.unwrap_or(body.len())] });
  }
  found
}

/// The words of a header outside `<…>`.
fn without_generics(header: &[Token]) -> Vec<&str> {
  let mut depth = 0_usize;
  let mut kept = Vec::new();
  for (index, token) in header.iter().enumerate() {
    match token.text.as_str() {
      "<" => depth += 1,
      // In `->` it closes nothing.
      ">" if index > 0 && text(header, index - 1) != "-" => depth = depth.saturating_sub(1),
      word if depth == 0 => kept.push(word),
      _ => {}
    }
  }
  kept
}

/// `AgentLink` as the name of a variable: `agent_link`.
fn snake_case(name: &str) -> String {
  let mut snake = String::new();
  for (index, c) in name.char_indices() {
    if c.is_uppercase() && index > 0 {
      snake.push('_');
    }
    snake.extend(c.to_lowercase());
  }
  snake
}

#[test]
fn calls_of_methods_are_seen_across_modules() {
  let code = |text: &str| crate::Source::new("src/room/a.rs".into(), text.to_owned()).code;
  let mut methods = Methods::default();
  methods
    .note("core", &code("pub struct Engine<F: Fs>; impl<F: Fs> Engine<F> { fn now(&self) {} }"));
  let other = "impl<F: Fs> Engine<F> { fn pass(&self) { fn inner() {} } } impl Show for Engine<F> { fn show() {} }";
  methods.note("pass", &code(other));
  methods.note("one", &code("struct Twice; impl Twice { fn go(&self) {} }"));
  methods.note("two", &code("struct Twice; impl Twice { fn come(&self) {} }"));
  let called = |text: &str| methods.called(&code(text)).into_iter().collect::<Vec<_>>().join(" ");
  assert_eq!(
    called("impl<F: Fs> Engine<F> { fn lazy(&self) { self.pass(); self.now() } }"),
    "core pass"
  );
  assert_eq!(called("impl Show for Engine<F> { fn show(&self) { Self::pass(self) } }"), "pass");
  assert_eq!(
    called("impl Edit { fn end(self, engine: &'e mut Engine<F>) { engine.now() } }"),
    "core"
  );
  assert_eq!(called("impl Engine<F> { fn f(&self) { decide(|engine| engine.pass()) } }"), "pass");
  assert_eq!(called("fn f() { Engine::pass(&x) }"), "pass");
  // Methods of other types, of traits and of types whose name is used twice are not meant, nor are fields.
  assert_eq!(called("impl Other { fn f(&self) { self.pass(); self.engine.now() } }"), "");
  assert_eq!(called("impl Engine<F> { fn f(&self) { self.show(); self.inner(); self.pass } }"), "");
  assert_eq!(called("fn f(engine: Loop) { engine.pass() }"), "");
  assert_eq!(called("impl Twice { fn f(&self) { self.go(); self.come() } }"), "");
}
