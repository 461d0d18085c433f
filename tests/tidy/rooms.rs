//! The rooms of the crate, and which of them may use which others.

use std::{
  collections::{BTreeMap, BTreeSet},
  path::{Path, PathBuf},
};

use crate::{
  assert_none, files, rust_files,
  source::{Source, reaches},
  text,
};

/// A room of the crate.
pub(crate) struct Room {
  pub(crate) name: &'static str,
  /// 0 is the core; a room uses only rooms of lower layers, and rooms of the core each other.
  layer: u8,
  /// The rooms that it may use. Fewer than its layer would allow where that is part of the design.
  uses: &'static [&'static str],
}

/// Who may use whom. The shells (layer 1) do not know each other: the engine brings them together.
pub(crate) const ROOMS: &[Room] = &[
  // The core is pure. A marker names a source; records of an agent are about content hashes.
  // A number with its noun, for the messages of all.
  Room { name: "plural", layer: 0, uses: &[] },
  Room { name: "hash", layer: 0, uses: &[] },
  Room { name: "provenance", layer: 0, uses: &["hash"] },
  Room { name: "memory", layer: 0, uses: &["hash", "provenance"] },
  Room { name: "detect", layer: 0, uses: &["memory", "provenance", "plural"] },
  Room { name: "seal", layer: 0, uses: &["memory"] },
  // What an agent may read, from excerpts that the engine cuts.
  Room { name: "recall", layer: 0, uses: &["memory", "provenance", "detect"] },
  // Figures know a trust by its name, and do not depend on the judgement of texts.
  Room { name: "eval", layer: 0, uses: &["provenance", "plural"] },
  // Counted events; a latency is computed in one place.
  Room { name: "stats", layer: 0, uses: &["provenance", "detect", "eval", "plural"] },
  // The messages between a plugin inside an agent and memfw, and the text that a call would leave in a file.
  Room { name: "link", layer: 0, uses: &[] },
  // The files of a skill as values: hashes, differences, signatures.
  Room { name: "skill", layer: 0, uses: &["hash"] },
  // The failpoints at which tests kill the process; empty in the product.
  Room { name: "failpoint", layer: 0, uses: &[] },
  Room { name: "config", layer: 1, uses: &["memory", "provenance", "detect"] },
  Room {
    name: "store",
    layer: 1,
    uses: &["memory", "provenance", "detect", "seal", "skill", "failpoint"],
  },
  // Its own directories, locks, other programs, the clock.
  Room { name: "os", layer: 1, uses: &["failpoint"] },
  // Memory files: leases, writes and events handle bytes, not their meaning.
  Room { name: "files", layer: 2, uses: &["os", "failpoint"] },
  // Questions over the network; it handles texts, and knows neither files nor the ledger.
  Room { name: "net", layer: 1, uses: &["memory", "provenance", "detect"] },
  Room { name: "openclaw", layer: 1, uses: &["memory", "provenance", "plural"] },
  // Text is judged by the rules, the model and what the ledger knows, without access to a file.
  Room {
    name: "judging",
    layer: 2,
    uses: &["memory", "provenance", "detect", "seal", "config", "store", "os"],
  },
  // The engine meets an agent framework only through `provenance::AgentRecords`.
  Room {
    name: "engine",
    layer: 3,
    uses: &[
      "plural",
      "memory",
      "provenance",
      "detect",
      "seal",
      "recall",
      "failpoint",
      "config",
      "store",
      "os",
      "files",
      "judging",
    ],
  },
  // The gate is a process of its own: it has neither ledger nor key nor memory text.
  Room { name: "gate", layer: 3, uses: &["os", "files", "plural"] },
  Room {
    name: "daemon",
    layer: 4,
    uses: &[
      "plural",
      "memory",
      "provenance",
      "detect",
      "skill",
      "failpoint",
      "config",
      "store",
      "os",
      "files",
      "engine",
      "judging",
      "gate",
      "stats",
      // The judge asks a model that reads.
      "net",
    ],
  },
  // The output of commands. Neither ledger nor engine: a failure is already text there.
  Room { name: "terminal", layer: 2, uses: &["os", "plural"] },
  // The parts put together: configuration, ledger, engine, daemon, the agent framework.
  Room {
    name: "app",
    layer: 5,
    uses: &[
      "provenance",
      "detect",
      "seal",
      "skill",
      // What a plugin inside the agent asks.
      "link",
      "config",
      "store",
      "os",
      "files",
      "net",
      "openclaw",
      "terminal",
      "engine",
      "daemon",
    ],
  },
  Room {
    name: "command",
    layer: 6,
    uses: &[
      "plural",
      "memory",
      "provenance",
      "detect",
      "seal",
      "skill",
      "recall",
      "eval",
      "stats",
      "link",
      "config",
      "store",
      "os",
      "files",
      // The command about the agent framework.
      "openclaw",
      "terminal",
      "engine",
      "judging",
      "gate",
      "daemon",
      "app",
    ],
  },
];

#[test]
fn the_table_of_rooms_points_downwards_and_is_complete() {
  let layers: BTreeMap<&str, u8> = ROOMS.iter().map(|room| (room.name, room.layer)).collect();
  let mut problems = Vec::new();
  for room in ROOMS {
    for used in room.uses {
      let below = layers[used] < room.layer || (layers[used] == 0 && room.layer == 0);
      if !below {
        problems.push(format!("`{}` may use `{used}`, which is not below it", room.name));
      }
    }
  }
  let lib = Source::new("src/lib.rs".into(), text(Path::new("src/lib.rs")).unwrap());
  let declared: BTreeSet<&str> = lib
    .code
    .windows(2)
    .filter(|pair| pair[0].text == "mod")
    .map(|pair| pair[1].text.as_str())
    .collect();
  let listed: BTreeSet<&str> = layers.keys().copied().collect();
  for name in declared.symmetric_difference(&listed) {
    problems.push(format!("`{name}` is in src/lib.rs or in the table of rooms, but not in both"));
  }
  assert_none(&problems);
}

#[test]
fn modules_only_depend_downwards() {
  let mut problems = Vec::new();
  let mut n_reaches = 0;
  for source in rust_files("src") {
    // The root of the library has no code, and the program uses the library like any other crate.
    if source.depth() == 0 {
      continue;
    }
    let name = source.room();
    let Some(room) = ROOMS.iter().find(|room| room.name == name) else {
      problems.push(format!("{}: `{name}` is no room of the table", source.path.display()));
      continue;
    };
    for reach in reaches(&source.code, source.depth()) {
      n_reaches += 1;
      if reach.room != name && !room.uses.contains(&reach.room.as_str()) {
        let place = format!("{}:{}", source.path.display(), reach.line);
        problems.push(format!("{place}: `{name}` may not use `crate::{}`", reach.room));
      }
    }
  }
  assert!(n_reaches > 0, "no path was found at all, so this test sees nothing");
  assert_none(&problems);
}

#[test]
fn paths_are_seen_in_every_form() {
  let seen = |text: &str, depth| -> Vec<String> {
    let source = Source::new("src/a.rs".into(), text.to_owned());
    reaches(&source.code, depth).into_iter().map(|reach| reach.room).collect()
  };
  assert_eq!(seen("use crate::store::Ledger;", 1), ["store"]);
  assert_eq!(seen("use {super::x, crate::{self, app::{A, B}, os::*}};", 2), ["app", "os"]);
  assert_eq!(
    seen("fn f() -> super::super::engine::E { crate::daemon::run() }", 2),
    ["engine", "daemon"]
  );
  assert_eq!(seen("mod m { use super::super::store; use super::b; }", 1), ["store"]);
  assert_eq!(seen("macro_rules! m { () => { $crate::detect::f() } }", 1), ["detect"]);
  assert_eq!(seen("pub(crate) use crate::*;", 1), ["*"]);
  // Comments, strings and tests are no code.
  assert_eq!(seen("/// [`crate::app`]\nconst A: &str = r#\"crate::app \"# ;", 1), [""; 0]);
  assert_eq!(seen("#[cfg(test)]\nmod tests { use crate::app; }\nuse crate::os;", 1), ["os"]);
  assert_eq!(seen("#![cfg(test)]\nuse crate::app;", 1), [""; 0]);
  // A quote and a lifetime are distinguished.
  assert_eq!(seen("fn f<'a>(c: &'a str) { let q = '\"'; crate::os::g(q, '\\'') }", 1), ["os"]);
}

#[test]
fn only_rooms_have_a_mod_rs() {
  let misplaced = |path: &PathBuf| path.ends_with("mod.rs") && path.components().count() != 3;
  let files = files("src").into_iter().filter(misplaced);
  let problems: Vec<String> = files
    .map(|path| {
      format!("{}: below a room, a module is a file beside its directory", path.display())
    })
    .collect();
  assert_none(&problems);
}
