//! Modules of a room that use each other in a circle: none of them can be read or tested alone.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
  ROOMS, assert_none,
  methods::Methods,
  rust_files,
  source::{Source, Token, reaches_within},
};

/// Circles that are known: the room, its modules, and why they are still there. Without modules all circles of
/// the room are known. One that has shrunk is still known; one that is gone leaves the table.
const KNOWN: &[(&str, &[&str], &str)] = &[];

/// Which module of a room uses which other ones; the file of the room itself is `mod`.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// The module below the room that a file belongs to.
fn module(source: &Source) -> String {
  let part = source.path.components().nth(2).map(|part| part.as_os_str().to_string_lossy());
  part.unwrap_or_default().trim_end_matches(".rs").to_owned()
}

fn graph(room: &str, sources: &[Source]) -> Graph {
  let sources: Vec<&Source> =
    sources.iter().filter(|source| source.depth() > 0 && source.room() == room).collect();
  let modules: BTreeSet<String> = sources.iter().map(|source| module(source)).collect();
  let root = sources.iter().find(|source| source.depth() == 1 && module(source) == "mod");
  let exported = root.map(|root| re_exports(&root.code, &modules)).unwrap_or_default();
  let mut methods = Methods::default();
  for source in &sources {
    methods.note(&module(source), &source.code);
  }
  let mut graph = Graph::new();
  for source in &sources {
    let own = module(source);
    // A re-export creates no dependency on the room's own file.
    let code = if own == "mod" { own_code(&source.code) } else { source.code.clone() };
    let mut used: BTreeSet<String> =
      reaches_within(&code, source.depth(), room).into_iter().map(|reach| reach.room).collect();
    if own == "mod" {
      used.extend(named_children(&code, &modules));
    }
    let resolved = used.into_iter().filter_map(|name| match exported.get(&name) {
      _ if modules.contains(&name) => Some(name),
      Some(module) => Some(module.clone()),
      None => root.map(|_| "mod".to_owned()),
    });
    let called = methods.called(&source.code);
    let resolved: Vec<String> = resolved.chain(called).filter(|module| *module != own).collect();
    graph.entry(own).or_default().extend(resolved);
  }
  graph
}

/// The items that a room re-exports, and the module of each: `pub use a::{B, c::D as E};`.
fn re_exports(code: &[Token], modules: &BTreeSet<String>) -> BTreeMap<String, String> {
  let mut found = BTreeMap::new();
  for statement in statements(code).filter(|statement| is_re_export(statement)) {
    let mut module = None;
    for (index, token) in statement.iter().enumerate() {
      let next = statement.get(index + 1).map_or(";", |token| token.text.as_str());
      if next == "::" {
        if modules.contains(&token.text) {
          module = Some(token.text.clone());
        }
      } else if let (Some(module), "," | ";" | "}") = (&module, next) {
        found.insert(token.text.clone(), module.clone());
      }
    }
  }
  found
}

/// Code up to each `;`, as far as it matters for `use` and `mod`.
fn statements(code: &[Token]) -> impl Iterator<Item = &[Token]> {
  code.split(|token| token.text == ";")
}

fn is_re_export(statement: &[Token]) -> bool {
  let at = statement.iter().position(|token| token.text == "use");
  at.is_some_and(|at| statement[..at].iter().any(|token| token.text == "pub"))
    && statement.iter().all(|token| token.text != "fn")
}

/// The file of a room without its re-exports and without the names of its modules.
fn own_code(code: &[Token]) -> Vec<Token> {
  let lists = |statement: &&[Token]| {
    is_re_export(statement)
      || statement.iter().rev().nth(1).is_some_and(|token| token.text == "mod")
  };
  let kept = statements(code).filter(|statement| !lists(statement));
  kept.flatten().cloned().collect()
}

/// Modules that the file of a room names without `self::`.
fn named_children(code: &[Token], modules: &BTreeSet<String>) -> BTreeSet<String> {
  let mut found = BTreeSet::new();
  for (index, token) in code.iter().enumerate() {
    let after = code.get(index + 1).is_some_and(|token| token.text == "::");
    let before = index.checked_sub(1).and_then(|index| code.get(index));
    let own_path = match before.map(|token| token.text.as_str()) {
      Some("::") => index >= 2 && code[index - 2].text == "self",
      _ => true,
    };
    if after && own_path && modules.contains(&token.text) {
      found.insert(token.text.clone());
    }
  }
  found
}

/// Everything that `from` uses, at any distance.
fn reachable(graph: &Graph, from: &str) -> BTreeSet<String> {
  let mut found = BTreeSet::new();
  let mut open: Vec<&String> = graph.get(from).into_iter().flatten().collect();
  while let Some(next) = open.pop() {
    if found.insert(next.clone()) {
      open.extend(graph.get(next).into_iter().flatten());
    }
  }
  found
}

/// The strongly connected components of more than one module: each uses every other one at some distance.
fn circles(graph: &Graph) -> BTreeSet<BTreeSet<String>> {
  let reach: BTreeMap<&String, BTreeSet<String>> =
    graph.keys().map(|module| (module, reachable(graph, module))).collect();
  let mut found = BTreeSet::new();
  for (module, reached) in &reach {
    if reached.contains(*module) {
      let circle =
        reached.iter().filter(|other| reach.get(other).is_some_and(|back| back.contains(*module)));
      found.insert(circle.cloned().collect());
    }
  }
  found
}

#[test]
fn rooms_have_no_circles() {
  let sources = rust_files("src");
  let mut problems = Vec::new();
  let mut needed = BTreeSet::new();
  let mut n_edges = 0;
  for room in ROOMS {
    let graph = graph(room.name, &sources);
    n_edges += graph.values().map(BTreeSet::len).sum::<usize>();
    for circle in circles(&graph) {
      let known = KNOWN.iter().position(|(name, modules, _)| {
        let is_among = |module: &String| modules.is_empty() || modules.contains(&module.as_str());
        *name == room.name && circle.iter().all(is_among)
      });
      if let Some(index) = known {
        needed.insert(index);
        continue;
      }
      let edges = circle.iter().map(|module| {
        let used = graph[module].intersection(&circle).cloned().collect::<Vec<_>>().join(" ");
        format!("\n    {module} -> {used}")
      });
      let edges: String = edges.collect();
      problems.push(format!("`{}`: modules use each other in a circle:{edges}", room.name));
    }
  }
  for (index, (room, modules, why)) in KNOWN.iter().enumerate() {
    if !needed.contains(&index) {
      let modules = modules.join(" ");
      problems.push(format!(
        "`{room}`: the circle of {modules} ({why}) is gone: take it out of the table"
      ));
    }
  }
  assert!(n_edges > 100, "hardly any use of a neighbour was found, so this test sees nothing");
  assert_none(&problems);
}

#[test]
fn circles_are_found_in_every_form_of_path() {
  let file = |path: &str, text: &str| Source::new(path.into(), text.to_owned());
  let found = |files: &[(&str, &str)]| -> Vec<Vec<String>> {
    let sources: Vec<Source> = files.iter().map(|(path, text)| file(path, text)).collect();
    circles(&graph("room", &sources)).into_iter().map(|one| one.into_iter().collect()).collect()
  };
  let mods = "mod a; mod b; pub mod c; pub use a::{A, x::Y as Z}; pub use b::B;";
  let with = |a: &str, b: &str, c: &str| {
    found(&[
      ("src/room/mod.rs", mods),
      ("src/room/a.rs", a),
      ("src/room/b.rs", b),
      ("src/room/c.rs", c),
    ])
  };
  let none: &[&[&str]] = &[];
  assert_eq!(with("use super::b;", "use crate::room::c::C;", ""), none);
  assert_eq!(with("use super::b;", "fn f() { super::a::g() }", ""), [["a", "b"]]);
  assert_eq!(
    with("use super::B;", "use crate::{os, room::{c::{C}}};", "use crate::room::Z;"),
    [["a", "b", "c"]]
  );
  // Tests and comments make no circle, and neither does a module with itself.
  assert_eq!(
    with(
      "use super::b; use super::A;",
      "#[cfg(test)]\nmod tests { use super::super::a; }",
      "//! [`super::b`]"
    ),
    none
  );
  // Methods of one type in two modules.
  let (a, b) =
    ("struct A; impl A { fn f(&self) { self.g() } }", "impl super::A { fn g(&self) {} }");
  assert_eq!(with(a, b, ""), [["a", "b"]]);
  assert_eq!(with("struct A; impl A { fn f(&self) {} }", b, ""), none);
  // A file below a module counts as the module.
  let deep = [("src/room/a.rs", "use super::b;"), ("src/room/b/d.rs", "use super::super::a;")];
  assert_eq!(found(&deep), [["a", "b"]]);
  // The file of the room counts with its own definitions.
  let own = [("src/room/mod.rs", "mod a; pub struct S(a::A);"), ("src/room/a.rs", "use super::S;")];
  assert_eq!(found(&own), [["a", "mod"]]);
}
