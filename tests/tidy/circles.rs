//! Sibling modules that use each other in a circle: none of them can be read or tested alone.
//!
//! Each module that has children is checked for itself: its children, with everything below them,
//! are the nodes. A child may use what its parent declares, as children of one type's module do;
//! only the file of a room counts as a node as well, because a room is what others depend on.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
  assert_none,
  methods::Methods,
  rust_files,
  source::{Source, Token, uses},
};

/// Circles that are known: the module, its children, and why they are still there. Without children all
/// circles of the module are known. One that has shrunk is still known; one that is gone leaves the table.
const KNOWN: &[(&str, &[&str], &str)] = &[
  ("command/link", &["chat", "news"], "a notice names a file as the answers in a chat do"),
  (
    "detect/normalize",
    &["decode", "obfuscation", "spaced_letters", "spelled"],
    "what one of them reads may be encoded or disguised again: a recursion, `MAX_LAYERS` deep at most",
  ),
];

/// Which child of a module uses which other ones; the module's own file is `mod`.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// The names of a module below the root of the crate.
type Names = Vec<String>;

/// The crate as modules.
struct Crate<'s> {
  sources: Vec<(Names, &'s Source)>,
  /// Where the items that a module imports are defined, or imported from.
  imports: BTreeMap<Names, Names>,
}

impl<'s> Crate<'s> {
  fn new(sources: &'s [Source]) -> Self {
    let sources: Vec<(Names, &Source)> =
      sources.iter().map(|source| (source.module(), source)).collect();
    let mut read = Self { sources, imports: BTreeMap::new() };
    for (module, source) in &read.sources {
      for one in uses(&source.code, module) {
        let local = [module.as_slice(), std::slice::from_ref(&one.name)].concat();
        if one.is_import && local != one.path && one.name != "*" {
          read.imports.insert(local, one.path);
        }
      }
    }
    read
  }

  /// The modules that have children, the rooms among them.
  fn parents(&self) -> BTreeSet<Names> {
    let parents = self.sources.iter().filter_map(|(module, _)| Some(module.split_last()?.1));
    parents.filter(|parent| !parent.is_empty()).map(<[String]>::to_vec).collect()
  }

  /// The path of an item where it is defined, as far as imports lead.
  fn resolved(&self, mut path: Names) -> Names {
    // An import of an import of an import; a circle of imports does not compile.
    for _ in 0..8 {
      let import =
        (1..=path.len()).find_map(|end| Some((end, self.imports.get(path.get(..end)?)?)));
      let Some((end, target)) = import else { break };
      path = [target.as_slice(), path.get(end..).unwrap_or_default()].concat();
    }
    path
  }

  /// The graph of the children of one module.
  fn graph(&self, parent: &[String]) -> Graph {
    let below = || self.sources.iter().filter(|(module, _)| module.starts_with(parent));
    let children: BTreeSet<&str> = below().map(|(module, _)| child(module, parent)).collect();
    let mut methods = Methods::default();
    for (module, source) in below() {
      methods.note(child(module, parent), &source.code);
    }
    let mut graph = Graph::new();
    for (module, source) in below() {
      let own = child(module, parent);
      // A re-export creates no dependency on the module's own file.
      let code = if own == "mod" { own_code(&source.code) } else { source.code.clone() };
      let used = uses(&code, module).into_iter().map(|one| self.resolved(one.path));
      let used = used.filter(|path| path.len() > parent.len() && path.starts_with(parent));
      let named = if own == "mod" { named_children(&code, &children) } else { BTreeSet::new() };
      let used = used.map(|path| match child(&path, parent) {
        name if children.contains(name) => name.to_owned(),
        _ => "mod".to_owned(),
      });
      let used = used.chain(named).chain(methods.called(&source.code));
      let used: Vec<String> = used.filter(|name| name != own).collect();
      graph.entry(own.to_owned()).or_default().extend(used);
    }
    if parent.len() > 1 || !children.contains("mod") {
      graph.remove("mod");
      for used in graph.values_mut() {
        used.remove("mod");
      }
    }
    graph
  }
}

/// The child of a module that an item below the module belongs to.
fn child<'m>(item: &'m [String], module: &[String]) -> &'m str {
  item.get(module.len()).map_or("mod", String::as_str)
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
  let mut kept = Vec::new();
  for statement in statements(code).filter(|statement| !lists(statement)) {
    kept.extend_from_slice(statement);
    kept.push(Token { text: ";".to_owned(), line: 0 });
  }
  kept
}

/// Modules that the file of a room names without `self::`.
fn named_children(code: &[Token], modules: &BTreeSet<&str>) -> BTreeSet<String> {
  let mut found = BTreeSet::new();
  for (index, token) in code.iter().enumerate() {
    let after = code.get(index + 1).is_some_and(|token| token.text == "::");
    let before = index.checked_sub(1).and_then(|index| code.get(index));
    let own_path = match before.map(|token| token.text.as_str()) {
      Some("::") => index >= 2 && code[index - 2].text == "self",
      _ => true,
    };
    if after && own_path && modules.contains(token.text.as_str()) {
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

/// The problem that each circle is which the table does not have, and the lines of the table that were needed.
fn unknown_circles(
  parent: &str,
  graph: &Graph,
  needed: &mut BTreeSet<usize>,
) -> impl Iterator<Item = String> {
  let mut problems = Vec::new();
  for circle in circles(graph) {
    let known = KNOWN.iter().position(|(name, modules, _)| {
      let is_among = |module: &String| modules.is_empty() || modules.contains(&module.as_str());
      *name == parent && circle.iter().all(is_among)
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
    problems.push(format!("`{parent}`: modules use each other in a circle:{edges}"));
  }
  problems.into_iter()
}

#[test]
fn siblings_form_no_circles_at_any_depth() {
  let sources = rust_files("src");
  let read = Crate::new(&sources);
  let mut problems = Vec::new();
  let mut needed = BTreeSet::new();
  let mut n_edges = [0, 0];
  for parent in read.parents() {
    let graph = read.graph(&parent);
    n_edges[usize::from(parent.len() > 1)] += graph.values().map(BTreeSet::len).sum::<usize>();
    problems.extend(unknown_circles(&parent.join("/"), &graph, &mut needed));
  }
  for (index, (parent, modules, why)) in KNOWN.iter().enumerate() {
    if !needed.contains(&index) {
      let modules = modules.join(" ");
      problems.push(format!(
        "`{parent}`: the circle of {modules} ({why}) is gone: take it out of the table"
      ));
    }
  }
  let enough = n_edges[0] > 100 && n_edges[1] > 50;
  assert!(
    enough,
    "hardly any use of a neighbour was found, so this test sees nothing: {n_edges:?}"
  );
  assert_none(&problems);
}

#[test]
fn circles_are_found_in_every_form_of_path() {
  let file = |path: &str, text: &str| Source::new(path.into(), text.to_owned());
  let found = |files: &[(&str, &str)]| -> Vec<Vec<String>> {
    let sources: Vec<Source> = files.iter().map(|(path, text)| file(path, text)).collect();
    let read = Crate::new(&sources);
    let graphs = read.parents().into_iter().map(|parent| read.graph(&parent));
    graphs.flat_map(|graph| circles(&graph)).map(|one| one.into_iter().collect()).collect()
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

#[test]
fn circles_are_found_below_a_room() {
  let found = |parent: &str, d: &str, e: &str| -> Vec<Vec<String>> {
    let files = [
      ("src/room/mod.rs", "mod b; pub use b::D as Dee;"),
      ("src/room/b.rs", parent),
      ("src/room/b/d.rs", d),
      ("src/room/b/e.rs", e),
    ];
    let sources = files.map(|(path, text)| Source::new(path.into(), text.to_owned()));
    let read = Crate::new(&sources);
    let graphs = read.parents().into_iter().map(|parent| read.graph(&parent));
    graphs.flat_map(|graph| circles(&graph)).map(|one| one.into_iter().collect()).collect()
  };
  let none: &[&[&str]] = &[];
  let parent = "mod d; mod e; pub use d::D; struct S; impl S { fn f(&self) { self.g() } }";
  assert_eq!(found(parent, "use super::e;", "use super::d::X;"), [["d", "e"]]);
  // A name that the parent imports leads to the child that defines it, at any distance.
  assert_eq!(found(parent, "use super::e;", "use super::D;"), [["d", "e"]]);
  assert_eq!(found(parent, "use super::e;", "use crate::room::Dee;"), [["d", "e"]]);
  // A child may use what its parent declares, and the parent its children.
  assert_eq!(found(parent, "use super::S; impl S { fn g(&self) {} }", "use super::S;"), none);
}
