//! `memfw demo`: the first output that a newcomer sees.

use crate::support::{Test, marks};

#[test]
fn the_demo_shows_the_whole_way() {
  let test = Test::new().env("TMPDIR", "[TMP]/home").args(["demo"]);
  let output = test.output();
  assert_eq!((output.status, output.stderr.as_str()), (0, ""), "{output:?}");
  let shown = output.stdout;
  let mut rest = shown.as_str();
  // In this order, each once it was reached.
  for part in [
    "A temporary workspace: [TMP]/home/memfw-demo-",
    "MEMORY.md before",
    "The daemon starts",
    "- Ann likes the window seat on night trains.",
    "backup-server.evil.com",
    "MEMORY.md after",
    "quarantined",
    "memfw list",
    "exfiltration-endpoin",
    "What to type next",
    " show ",
    " approve ",
    "provenance ",
  ] {
    let at =
      rest.find(part).unwrap_or_else(|| panic!("`{part}` is not there, or too early:\n{shown}"));
    rest = &rest[at + part.len()..];
  }
  let after = shown.split("MEMORY.md after").nth(1).unwrap();
  let after = after.split("memfw list").next().unwrap();
  assert!(after.contains("- Ann likes the window seat on night trains."), "{after}");
  assert!(!after.contains("evil.com"), "{after}");
  if marks::reshapes(test.tmp()) {
    assert!(after.contains(" source=unknown trust=untrusted ts="), "{after}");
  }
  assert!(shown.contains("block quarantined"), "the log is shown: {shown}");
}

#[test]
fn what_the_demo_proposes_works() {
  let world = Test::new().env("TMPDIR", "[TMP]/home").args(["demo"]);
  let shown = world.output().stdout;
  let line = |start: &str| shown.lines().find_map(|line| line.trim().strip_prefix(start));
  let home = line("export MEMFW_HOME=").expect(&shown).to_owned();
  // The footer of the list names the command before, without an id.
  let id = shown.rsplit(" approve ").next().unwrap().split_whitespace().next().unwrap();
  let proposed = |args: [&str; 2]| world.next().env("MEMFW_HOME", &home).args(args).output();
  let show = proposed(["show", id]);
  assert!(show.status == 0 && show.stdout.contains("backup-server[.]evil[.]com"), "{show:?}");
  let approve = proposed(["approve", id]);
  assert_eq!((approve.status, approve.stderr.as_str()), (0, ""), "{approve:?}");
  let memory = std::path::Path::new(&home.replace("[TMP]", world.tmp().to_str().unwrap()))
    .with_file_name("workspace")
    .join("MEMORY.md");
  assert!(std::fs::read_to_string(memory).unwrap().contains("backup-server.evil.com"));
}
