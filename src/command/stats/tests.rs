//! The tables as people and programs get them, at 80 columns.

use std::{cell::RefCell, io::Write, rc::Rc};

use super::*;
use crate::{
  stats::{Happening, Move, Tally, What, day, levels},
  terminal::escape::width,
};

/// 2026-11-21T12:00:00Z.
const NOON: i64 = 1_795_262_400_000_000;

#[derive(Clone, Default)]
struct Memory(Rc<RefCell<Vec<u8>>>);

impl Write for Memory {
  fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
    self.0.borrow_mut().write(bytes)
  }

  fn flush(&mut self) -> std::io::Result<()> {
    Ok(())
  }
}

fn printed(colour: bool, span: &Span, rows: usize) -> String {
  let memory = Memory::default();
  let out = Out::to(Box::new(memory.clone()), colour, 80);
  print(&out, span, &Reading::default(), rows).unwrap();
  out.flush().unwrap();
  String::from_utf8(memory.0.borrow().clone()).unwrap()
}

/// Three days with some of everything, and names that are too long for a table.
fn sample() -> Span {
  let kept = Happening {
    what: What::Kept,
    at: NOON,
    adopted: None,
    file: Some("/w/MEMORY.md"),
    source: Some("exec"),
    trust: Some(Trust::Untrusted),
    layer: Some(Layer::Rules),
    codes: &[],
    took_us: Some(1_250),
  };
  let evil = "web:\x1b\u{202e}.example";
  let out = Happening {
    what: What::Quarantined,
    source: Some(evil),
    adopted: None,
    file: Some("/w/<script>.md"),
    trust: Some(Trust::Hostile),
    codes: &[Code::ForgedMarker],
    took_us: Some(98_000),
    ..kept
  };
  let mut tally = Tally::default();
  let before =
    Happening { what: What::Adopted(7), at: NOON - 2 * DAY, took_us: None, layer: None, ..kept };
  tally.add(&before);
  (0..9).for_each(|_| tally.add(&kept));
  for one in [
    out,
    Happening { what: What::Returned, ..out },
    Happening { what: What::Approved { is_false_alarm: true }, layer: None, took_us: None, ..out },
    Happening { what: What::Flagged, at: NOON - DAY, ..kept },
  ] {
    tally.add(&one);
  }
  let today = day(NOON);
  let came = |trust, came| Move { day: today - 2, trust, came, went: 0 };
  let moves = [came(Trust::Verified, 7), came(Trust::Untrusted, 10), came(Trust::Trusted, 1)];
  Span {
    since: (today - 2) * DAY,
    until: NOON,
    ahead: 0,
    truncated: false,
    figures: tally.finish(),
    levels: levels(&moves, today - 2, today),
  }
}

#[test]
fn people_get_tables_of_80_columns() {
  let text = printed(false, &sample(), 8);
  assert_eq!(
    text,
    "\
2026-11-19 to 2026-11-21, days of UTC
  seen       18 blocks: 16 kept, 1 flagged, 1 quarantined
  came back  1 time and went out again
  reviewed   1 approved (1 false alarm), 0 rejected
  decided    p50 1.2 ms, slowest 98.0 ms over 3 decisions
  exposure   nothing was redacted yet

TRUST      BLOCKS  SHARE
trusted         1    6 %  █▏
verified        7   39 %  ███████▊
untrusted      10   56 %  ███████████▏
hostile         0    0 %

DAY         SEEN  KEPT  FLAGGED  QUARANTINED  APPROVED
2026-11-19     7     7        0            0         0  ██████████████
2026-11-20     1     0        1            0         0  ██
2026-11-21    10     9        0            1         1  ████████████████████

FILE            SEEN  KEPT  FLAGGED  QUARANTINED  APPROVED      P99
/w/<script>.md     1     0        0            1         1  98.0 ms
/w/MEMORY.md      17    16        1            0         0   1.2 ms

SOURCE                      SEEN  KEPT  FLAGGED  QUARANTINED  APPROVED      P99
web:\\u{1b}\\u{202e}.example     1     0        0            1         1  98.0 ms
exec                          17    16        1            0         0   1.2 ms

CODE           SEEN  KEPT  FLAGGED  QUARANTINED  APPROVED      P99
forged-marker     1     0        0            1         1  98.0 ms

LAYER  SEEN  KEPT  FLAGGED  QUARANTINED  APPROVED      P99
rules    11     9        1            1         0  98.0 ms
"
  );
}

#[test]
fn colours_change_nothing_but_colours() {
  let plain = printed(false, &sample(), 8);
  let coloured = printed(true, &sample(), 8);
  assert!(coloured.contains("\x1b[31m████████████████████\x1b[0m"), "{coloured}");
  let codes = regex::Regex::new("\x1b\\[[0-9]+m").unwrap();
  assert_eq!(codes.replace_all(&coloured, ""), plain);
  for line in plain.lines() {
    assert!(width(line) <= 80, "{line}");
  }
}

#[test]
fn what_is_left_out_is_said() {
  let text = printed(false, &sample(), 1);
  assert!(text.contains("1 more of FILE: memfw stats --rows 2\n"), "{text}");
  assert!(!text.contains("/w/MEMORY.md"), "{text}");
}

#[test]
fn programs_get_everything() {
  let value = to_json(&sample(), &Reading::default());
  assert_eq!(value["since"], "2026-11-19T00:00:00Z");
  assert_eq!(value["all"]["seen"], 18);
  assert_eq!(value["by"]["day"][2]["name"], "2026-11-21");
  assert_eq!(value["by"]["source"][0]["name"], "web:\x1b\u{202e}.example");
  assert_eq!(value["by"]["source"][0]["trust"], "hostile");
  assert_eq!(value["by"]["code"][0]["approved"], 1);
  assert_eq!(value["by"]["layer"][0]["latency"]["max_us"], 98_000.0);
  assert_eq!(
    value["memory"]["by_trust"][2],
    json!({ "trust": "untrusted", "blocks": 10, "share": 0.556 })
  );
  assert_eq!(value["exposure"], Value::Null);
}

#[test]
fn a_bar_is_never_wider_than_its_place_and_never_nothing() {
  assert_eq!((bar(0, 5), bar(5, 0)), (String::new(), String::new()));
  assert_eq!(bar(1, 1_000_000), "▏");
  for n in 1..=100 {
    assert!((1..=BAR).contains(&width(&bar(n, 100))), "{n}");
  }
  assert_eq!(
    [duration(12.0), duration(1_250.0), duration(250_000.0)],
    ["0.01 ms", "1.2 ms", "250 ms"]
  );
}
