//! `memfw top`: printed where there is no terminal, and live on one.

use {
  crate::support::{AT_ONCE, Guarded, NEVER, Test, Writer, eventually, id, poison},
  rustix::process::Signal,
  std::fs,
};

/// What switches to the other screen of the terminal, and back.
const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// A guarded workspace with its daemon, and so many poisoned lines that were taken out; their ids in order.
fn guarded(n: usize) -> (Guarded, Vec<String>) {
  let mut guarded = Guarded::new(NEVER).memory("MEMORY.md", "# Memory\n\n- old\n");
  guarded.start();
  let ids = (0..n).map(|index| add_poison(&guarded, "MEMORY.md", index)).collect();
  (guarded, ids)
}

/// Writes poison, and waits until it is taken out; its id.
fn add_poison(guarded: &Guarded, file: &str, n: usize) -> String {
  let known: Vec<String> = ids(guarded);
  let text = format!("{}\n\n- between {n}\n\n", poison(n));
  Writer::Shell.add(&guarded.path(file), text.as_bytes());
  eventually("the poison waits", || ids(guarded).len() > known.len());
  ids(guarded).into_iter().find(|id| !known.contains(id)).unwrap()
}

fn ids(guarded: &Guarded) -> Vec<String> {
  guarded.waiting().iter().map(|item| id(item).to_owned()).collect()
}

fn status_of(guarded: &Guarded, id: &str) -> String {
  let shown = guarded.json(&["show", id, "--json"]);
  shown[0]["status"].as_str().unwrap().to_owned()
}

/// What is on a screen of 80 columns and 24 rows after these bytes, which move the cursor, change styles and write
/// text; any other control character fails.
#[track_caller]
fn on_screen(bytes: &str) -> String {
  let mut cells = vec![[' '; 80]; 24];
  let (mut x, mut y) = (0, 0);
  let mut rest = bytes.chars();
  while let Some(c) = rest.next() {
    if c != '\x1b' {
      assert!(!c.is_control(), "{c:?} in {bytes:?}");
      cells[y][x] = c;
      x += 1;
      continue;
    }
    assert_eq!(rest.next(), Some('['), "{bytes:?}");
    let mut parameters = String::new();
    let last = loop {
      match rest.next() {
        Some(c) if c.is_ascii_alphabetic() => break c,
        Some(c) => parameters.push(c),
        None => panic!("a sequence is cut off: {bytes:?}"),
      }
    };
    match (last, parameters.split_once(';')) {
      ('H', Some((row, column))) => {
        (y, x) = (row.parse::<usize>().unwrap() - 1, column.parse::<usize>().unwrap() - 1);
      }
      ('J', None) => cells = vec![[' '; 80]; 24],
      ('m' | 'l', None) => {}
      _ => panic!("`{parameters}{last}` in {bytes:?}"),
    }
  }
  cells.iter().map(|row| row.iter().collect::<String>().trim_end().to_owned() + "\n").collect()
}

/// What a terminal was told between its other screen and its own one, the first time.
fn live(all: &[u8]) -> String {
  let all = String::from_utf8(all.to_vec()).unwrap();
  let (_, shown) = all.split_once(ENTER).unwrap();
  shown.split_once(LEAVE).unwrap().0.to_owned()
}

#[test]
fn without_a_terminal_it_is_printed_once() {
  let version = env!("CARGO_PKG_VERSION");
  let fresh = Test::new().args(["top"]).output();
  assert_eq!((fresh.status, fresh.stderr.as_str()), (0, ""), "{fresh:?}");
  let expected = format!(
    "memfw {version}: stopped\n  known       0 blocks in 0 files (not protected: the daemon is stopped)\n  \
     waiting     nothing\n  problems    memfw has not guarded anything yet\n  \
     exposure    nothing was redacted yet\n  \
     last 24 h   0 blocks: 0 kept, 0 flagged, 0 quarantined\n"
  );
  assert_eq!(fresh.stdout, expected);

  let (mut guarded, ids) = guarded(2);
  guarded.stop();
  let shown = guarded.ok(&["top"]);
  assert!(shown.contains("  waiting     2 for you\n"), "{shown}");
  let at = |id: &String| shown.find(id.as_str()).unwrap();
  assert!(at(&ids[1]) < at(&ids[0]), "the newest comes first:\n{shown}");
  assert!(shown.contains("  | ") && !shown.contains("evil.com"), "{shown}");
  assert!(shown.contains("\nTIME (UTC)  EVENT") && shown.contains(" quarantined "), "{shown}");
  assert!(shown.contains("\nSOURCE (24 H)") && !shown.contains('\x1b'), "{shown}");
  assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
  // On a terminal that cannot move its cursor, too.
  for (term, args) in [("dumb", &["top"][..]), ("xterm", &["top", "--once"])] {
    let Some(terminal) = guarded.on_terminal(term, args) else { return };
    let all = String::from_utf8(terminal.all()).unwrap();
    assert!(all.contains(&ids[0]) && !all.contains(ENTER), "{all}");
  }
}

#[test]
fn a_screen_shows_what_comes_in_and_leaves_the_terminal_as_it_was() {
  let (guarded, ids) = guarded(1);
  let Some(mut terminal) = guarded.on_terminal("xterm", &["top"]) else { return };
  let before = terminal.mode();
  terminal.expect(ENTER);
  terminal.expect(&ids[0]);
  terminal.press(b"?");
  terminal.expect("Ctrl-L");
  terminal.press(b"?");
  terminal.expect(&ids[0]);
  // Without a key: the screen follows the ledger.
  let other = add_poison(&guarded, "MEMORY.md", 1);
  terminal.expect(&other);
  terminal.press(b"q");
  assert_eq!(terminal.wait().code(), Some(0));
  assert!(terminal.is_for_lines());
  assert_eq!(terminal.mode().local_modes, before.local_modes);
  let all = terminal.all();
  assert!(all.ends_with(LEAVE.as_bytes()), "{}", String::from_utf8_lossy(&all));
  let screen = on_screen(&live(&all));
  let rows: Vec<&str> = screen.lines().collect();
  assert!(rows[0].starts_with("memfw ") && rows[0].ends_with(" UTC"), "{screen}");
  assert_eq!(rows[2], "  waiting     2 for you", "{screen}");
  let row = |start: String| rows.iter().position(|row| row.starts_with(&start));
  let selected = row(format!("> {other}")).unwrap();
  assert!(rows[selected + 1].starts_with("    | "), "{screen}");
  assert!(row(format!("  {}", ids[0])).unwrap() > selected, "{screen}");
  assert!(rows[23].starts_with("j/k select  Enter review"), "{screen}");
}

#[test]
fn an_item_is_reviewed_from_the_screen() {
  let (guarded, ids) = guarded(2);
  let Some(mut terminal) = guarded.on_terminal("xterm", &["top"]) else { return };
  terminal.expect(&ids[0]);
  // The second row is the older item.
  terminal.press(b"j");
  terminal.press(b"\r");
  terminal.expect(LEAVE);
  let card = terminal.expect(" quit");
  assert!(card.contains("[1 of 1]") && card.contains(&ids[0]), "{card}");
  terminal.press(b"r");
  terminal.expect(&format!("{}: rejected", ids[0]));
  terminal.expect("undo the last decision");
  terminal.expect(" quit");
  terminal.press(b"\r");
  terminal.expect("1 item decided");
  terminal.expect(ENTER);
  terminal.expect(&ids[1]);
  // Ctrl-C in a review leads back to the screen.
  terminal.press(b"r");
  terminal.expect(" quit");
  terminal.press(b"\x03");
  terminal.expect("0 items decided, 1 left");
  terminal.expect(ENTER);
  terminal.expect(&ids[1]);
  terminal.press(b"\x1b");
  assert_eq!(terminal.wait().code(), Some(0));
  assert!(terminal.is_for_lines());
  assert_eq!([0, 1].map(|n| status_of(&guarded, &ids[n])), ["rejected", "quarantined"]);
}

#[test]
fn a_loss_is_shown_from_the_screen() {
  let lines =
    (0..30).map(|n| format!("- Ann likes train number {n}.\n")).collect::<Vec<_>>().concat();
  let mut guarded = Guarded::new(AT_ONCE).memory("MEMORY.md", format!("# Notes\n{lines}"));
  guarded.start();
  eventually("a version is kept", || guarded.json(&["status", "--json"])["versions"]["due"] == 0);
  fs::write(guarded.path("MEMORY.md"), "# Notes\n").unwrap();
  let losses = || guarded.json(&["list", "--json"]);
  eventually("the loss waits", || losses().as_array().is_some_and(|all| all.len() == 1));
  let id = id(&losses()[0]).to_owned();
  let Some(mut terminal) = guarded.on_terminal("xterm", &["top"]) else { return };
  terminal.expect(&id);
  terminal.press(b"\r");
  terminal.expect("memfw reject");
  terminal.expect("any key");
  terminal.press(b"x");
  terminal.expect(ENTER);
  terminal.expect(&id);
  terminal.press(b"q");
  assert_eq!(terminal.wait().code(), Some(0));
}

#[test]
fn a_screen_follows_the_size_of_its_terminal() {
  let (guarded, ids) = guarded(1);
  let Some(mut terminal) = guarded.on_terminal("xterm", &["top"]) else { return };
  terminal.expect(&ids[0]);
  terminal.resize(60, 16);
  // The last row has the keys.
  let shown = terminal.expect("\x1b[16;1H");
  assert!(shown.contains(&ids[0]), "{shown}");
  terminal.press(b"q");
  assert_eq!(terminal.wait().code(), Some(0));
}

#[test]
fn a_signal_ends_the_screen_and_the_terminal_is_as_it_was() {
  let (guarded, ids) = guarded(1);
  for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT] {
    let Some(mut terminal) = guarded.on_terminal("xterm", &["top"]) else { return };
    terminal.expect(&ids[0]);
    terminal.signal(signal);
    assert_eq!(terminal.wait().code(), Some(0), "{signal:?}");
    assert!(terminal.is_for_lines(), "{signal:?}");
    assert!(terminal.all().ends_with(LEAVE.as_bytes()), "{signal:?}");
  }
}

#[test]
fn hostile_names_and_texts_control_no_terminal() {
  let name = "memory/a\x1b[2Jb\u{202e}\u{9b}31m\x07.md";
  let mut guarded = Guarded::new(NEVER).memory(name, "# Memory\n\n- old\n");
  guarded.start();
  let text = format!("{} \x1b]0;owned\x07\u{202e} http://evil.com/x\n", poison(1));
  Writer::Shell.add(&guarded.path(name), text.as_bytes());
  eventually("the poison waits", || ids(&guarded).len() == 1);
  let id = &ids(&guarded)[0];
  let is_safe = |text: &str| !text.contains(['\u{202e}', '\u{9b}', '\x07']);
  let printed = guarded.ok(&["top"]);
  assert!(printed.contains(id) && printed.contains("31m\\u{7}.md"), "{printed}");
  assert!(
    is_safe(&printed) && !printed.contains('\x1b') && !printed.contains("evil.com"),
    "{printed}"
  );

  // Without colours, the only sequences are those that move the cursor.
  let guarded = guarded.env("NO_COLOR", "1");
  let Some(mut terminal) = guarded.on_terminal("xterm", &["top"]) else { return };
  terminal.expect(id);
  terminal.press(b"q");
  let shown = live(&terminal.all());
  assert!(is_safe(&shown), "{shown:?}");
  let colours = regex::Regex::new("\x1b\\[[0-9;]*m").unwrap();
  assert!(!colours.is_match(&shown), "{shown:?}");
  let screen = on_screen(&shown);
  assert!(screen.contains(id.as_str()) && screen.contains("31m\\u{7}.md"), "{screen}");
}
