//! A restore that is killed at each step: the file has one of the two texts, both are available,
//! and a second try succeeds.

use {
  crate::support::{AT_ONCE, Guarded, clean, marks, poison},
  std::{fs, os::unix::process::ExitStatusExt as _},
};

/// Points that a restore reaches, most of them several times.
const POINTS: [&str; 14] = [
  "store-before-commit",
  "store-after-commit",
  "reshape-before",
  "reshape-torn",
  "reshape-after-write",
  "reshape-after-cut",
  "restore-before-journal",
  "restore-after-journal",
  "restore-after-write",
  "restore-after-follow",
  "restore-after-release",
  "restore-after-sync",
  "restore-after-record",
  "restore-after-finish",
];

/// Whether a restore was killed at this point (`name:n`); it may never reach it.
fn dies(guarded: &Guarded, version: &str, point: &str) -> bool {
  let test = guarded.test().args(["restore", "MEMORY.md", "--at", version]);
  let mut command = test.env(memfw::failpoint::VARIABLE, point).start();
  let status = command.wait();
  let said = String::from_utf8_lossy(&command.stderr()).into_owned();
  assert!(status.signal() == Some(9) || status.code() == Some(0), "{point}: {status:?}, {said}");
  status.signal().is_some()
}

fn versions(guarded: &Guarded) -> Vec<(String, u64)> {
  let list = guarded.json(&["restore", "MEMORY.md", "--list", "--json"]);
  let of = |one: &serde_json::Value| {
    (one["version"].as_str().unwrap().to_owned(), one["bytes"].as_u64().unwrap())
  };
  list.as_array().unwrap().iter().map(of).collect()
}

/// Destroys a file in one way, and kills a restore of it at each point.
fn assert_survives(bad: Option<&str>) {
  let good = format!("# Memory\n\n- old\n{}\n", format!("{}\n", clean(1)).repeat(200));
  let guarded = Guarded::new(AT_ONCE).memory("MEMORY.md", &good);
  assert_eq!(guarded.memfw(&["run", "--once"]).status, 0);
  let version = versions(&guarded).remove(0).0;
  let mut deaths = 0;
  for point in POINTS {
    for n in 1.. {
      match bad {
        Some(bad) => fs::write(guarded.path("MEMORY.md"), bad).unwrap(),
        None => fs::remove_file(guarded.path("MEMORY.md")).unwrap(),
      }
      let point = format!("{point}:{n}");
      let died = dies(&guarded, &version, &point);
      deaths += usize::from(died);
      assert_eq!(guarded.memfw(&["run", "--once"]).status, 0, "{point}");
      let found = fs::read(guarded.path("MEMORY.md")).unwrap_or_default();
      let bare = marks::strip(&found);
      let stands = [good.as_str(), bad.unwrap_or_default()].map(str::as_bytes);
      assert!(stands.contains(&bare.as_slice()), "{point}: {}", marks::show(&bare));
      let kept = versions(&guarded);
      for text in [Some(good.as_str()), bad].into_iter().flatten() {
        assert!(kept.iter().any(|(_, bytes)| *bytes == text.len() as u64), "{point}: {kept:?}");
      }
      let again = guarded.memfw(&["restore", "MEMORY.md", "--at", &version]);
      assert_eq!(again.status, 0, "{point}: {again:?}");
      marks::assert_same(&marks::strip(&guarded.read("MEMORY.md")), good.as_bytes(), &point);
      if !died {
        break;
      }
    }
  }
  println!("{deaths} deaths");
  assert!(deaths > 10, "only {deaths} deaths");
}

/// Points of the redaction that follows a restore of text that must be taken out.
const REDACTION: [&str; 7] = [
  "redact-after-journal",
  "redact-after-write",
  "redact-after-sync",
  "redact-after-record",
  "redact-after-finish",
  "pass-before-record",
  "pass-after-record",
];

#[test]
#[ignore = "takes minutes: just crash"]
fn killed_while_text_is_taken_out_of_a_version_that_comes_back() {
  let (poison, rest) = (format!("{}\n", poison(1)), format!("{}\n", clean(1)).repeat(200));
  let good = format!("# Memory\n\n{rest}{poison}{rest}");
  let guarded = Guarded::new(AT_ONCE).memory("MEMORY.md", &good);
  assert_eq!(guarded.memfw(&["run", "--once"]).status, 0);
  let version = versions(&guarded).remove(0).0;
  // Text that is there at the start is only flagged. A person takes it out, so that it is taken out
  // again when it returns.
  let line = 1 + good[..good.find(&poison).unwrap()].matches('\n').count();
  let place = format!("MEMORY.md:{line}");
  assert_eq!(guarded.memfw(&["quarantine", "add", &place]).status, 0);
  let mut deaths = 0;
  for point in POINTS.iter().chain(&REDACTION) {
    for n in 1.. {
      fs::remove_file(guarded.path("MEMORY.md")).unwrap();
      let point = format!("{point}:{n}");
      let died = dies(&guarded, &version, &point);
      deaths += usize::from(died);
      assert_eq!(guarded.memfw(&["run", "--once"]).status, 0, "{point}");
      let again = guarded.memfw(&["restore", "MEMORY.md", "--at", &version]);
      assert_eq!(again.status, 0, "{point}: {again:?}");
      assert_eq!(guarded.memfw(&["run", "--once"]).status, 0, "{point}");
      let found = String::from_utf8(guarded.read("MEMORY.md")).unwrap();
      assert!(!found.contains(poison.trim_end()), "{point}: {found}");
      let n_clean = found.matches(clean(1).as_str()).count();
      assert_eq!(n_clean, 400, "{point}: nothing is lost or twice");
      let waiting = guarded.json(&["quarantine", "list", "--json"]);
      assert_eq!(waiting.as_array().unwrap().len(), 1, "{point}: {waiting}");
      if !died {
        break;
      }
    }
  }
  println!("{deaths} deaths");
  assert!(deaths > 10, "only {deaths} deaths");
}

#[test]
#[ignore = "takes minutes: just crash"]
fn killed_while_a_longer_text_comes_back() {
  assert_survives(Some("# Summarised\n"));
}

#[test]
#[ignore = "takes minutes: just crash"]
fn killed_while_a_shorter_text_comes_back() {
  assert_survives(Some(&"- a line that nobody asked for\n".repeat(900)));
}

#[test]
#[ignore = "takes minutes: just crash"]
fn killed_while_a_file_that_was_gone_comes_back() {
  assert_survives(None);
}
