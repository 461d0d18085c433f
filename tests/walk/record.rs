//! The typed lines and the output, as in docs/walk.txt, and the commands that a newcomer can find.
#![forbid(unsafe_code)]

use {
  regex::{Captures, Regex},
  std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::LazyLock,
  },
};

/// If set, the recording is written again.
const RECORD: &str = "MEMFW_RECORD";
/// The recording.
const FILE: &str = "docs/walk.txt";
/// The pages that must contain every command of the walk.
const PAGES: [&str; 2] = ["README.md", "docs/quick-start.md"];
/// How the recording begins.
const HEAD: &str = "\
# A newcomer's first minutes with memfw, on a terminal of 80 columns.
# Recorded by `MEMFW_RECORD=1 cargo test walk`; `cargo test` repeats it each time, with other ids and
# times. Durations are left out (#), because they depend on the machine and on a test build.
";
/// The ids of the recording, in the order in which they appear.
const IDS: [&str; 4] = ["098740", "3fa2c1", "c04d5e", "71be90"];
/// The home directory of the recording.
const HOME: &str = "/home/ann";

fn regex(text: &str) -> Regex {
  Regex::new(text).unwrap()
}

/// The recording so far.
pub(super) struct Record {
  home: PathBuf,
  text: String,
}

impl Record {
  pub(super) fn new(home: &Path) -> Self {
    Self { home: home.to_owned(), text: HEAD.to_owned() }
  }

  /// A line of the recording.
  pub(super) fn line(&mut self, line: &str) {
    self.text.push_str(line);
    self.text.push('\n');
  }

  /// Adds output to the recording.
  pub(super) fn shown(&mut self, shown: &str) {
    self.text.push_str(shown);
    if !shown.is_empty() && !shown.ends_with('\n') {
      self.text.push('\n');
    }
  }

  /// Compares with the committed recording, or writes it again.
  #[track_caller]
  pub(super) fn settle(&self, ids: &[String]) {
    let found = self.tidied(ids);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(FILE);
    if std::env::var_os(RECORD).is_some() {
      fs::write(&path, &found).unwrap();
      eprintln!("{FILE} was recorded again");
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    let (expected, found) = (shape(&committed), shape(&found));
    let hint = format!("if that is meant: {RECORD}=1 cargo test walk");
    for (number, (expected, found)) in expected.iter().zip(&found).enumerate() {
      assert_eq!(expected, found, "line {} of {FILE}; {hint}", number + 1);
    }
    assert_eq!(expected.len(), found.len(), "lines of {FILE}; {hint}");
  }

  /// The recording with neutral paths, ids and times.
  fn tidied(&self, ids: &[String]) -> String {
    static TIME: LazyLock<Regex> = LazyLock::new(|| regex(r"\d{4}-\d\d-\d\dT[\d:.]+Z"));
    static SPAN: LazyLock<Regex> = LazyLock::new(|| regex(r"(?m)^[\d-]+ to [\d-]+, days"));
    static DAY: LazyLock<Regex> = LazyLock::new(|| regex(r"(?m)^\d{4}-\d\d-\d\d( +\d)"));
    static PID: LazyLock<Regex> = LazyLock::new(|| regex(r"pid \d+"));
    static DURATION: LazyLock<Regex> = LazyLock::new(|| regex(r"[\d.]+ ms\b"));
    static SYSTEM: LazyLock<Regex> = LazyLock::new(|| regex(r"(?m)^( +)\w+: lease$"));
    assert!(ids.len() <= IDS.len(), "{ids:?}");
    let home = self.home.to_str().unwrap();
    // A cell of a table keeps its width.
    let cell = regex(&format!(r"{}([^ \n]*)( {{2,}})?", regex::escape(home)));
    let kept = " ".repeat(home.len() - HOME.len());
    let mut text = cell
      .replace_all(&self.text, |found: &Captures<'_>| {
        let gap = found.get(2).map(|gap| format!("{}{kept}", gap.as_str())).unwrap_or_default();
        format!("{HOME}{}{gap}", &found[1])
      })
      .into_owned();
    for (id, name) in ids.iter().zip(IDS) {
      text = text.replace(id.as_str(), name);
    }
    for (mark, by) in [
      (&TIME, "2026-11-21T14:32:00Z"),
      (&SPAN, "2026-10-23 to 2026-11-21, days"),
      (&DAY, "2026-11-21$1"),
      (&PID, "pid 4242"),
      (&SYSTEM, "${1}ext4: lease"),
    ] {
      text = mark.replace_all(&text, by).into_owned();
    }
    let digits = |found: &Captures<'_>| found[0].replace(|c: char| c.is_ascii_digit(), "#");
    DURATION.replace_all(&text, digits).into_owned()
  }
}

/// The lines of a recording without the values that differ each time: ages, durations, numbers of
/// versions and lines, the width of columns, and words that were cut to it.
fn shape(text: &str) -> Vec<String> {
  static AGE: LazyLock<Regex> = LazyLock::new(|| regex(r"\bnow\b|\b\d+ min ago\b"));
  static DURATION: LazyLock<Regex> = LazyLock::new(|| regex(r"#[#.]* ms"));
  static DECISIONS: LazyLock<Regex> = LazyLock::new(|| regex(r"over [\d#]+ decisions?"));
  static CUT: LazyLock<Regex> = LazyLock::new(|| regex(r"[^ ]*…[^ ]*"));
  static NUMBER: LazyLock<Regex> = LazyLock::new(|| regex(r"^ +\d+ "));
  static KEPT: LazyLock<Regex> = LazyLock::new(|| regex(r"^ +versions .*"));
  static SPACE: LazyLock<Regex> = LazyLock::new(|| regex(" +"));
  let masked = |line: &str| {
    let line = AGE.replace_all(line, "AGE").into_owned();
    let line = DURATION.replace_all(&line, "# ms").into_owned();
    let line = DECISIONS.replace(&line, "over N decisions").into_owned();
    let line = NUMBER.replace(&line, "N ").into_owned();
    let line = KEPT.replace(&line, " versions").into_owned();
    let line = CUT.replace_all(&line, "…").into_owned();
    SPACE.replace_all(&line, " ").into_owned()
  };
  text.lines().map(masked).collect()
}

/// The commands in the blocks and spans of code of [`PAGES`], with `ID` for each id.
pub(super) fn documented() -> BTreeSet<String> {
  static SPAN: LazyLock<Regex> = LazyLock::new(|| regex(r"`([^`\n]+)`"));
  let mut found = BTreeSet::new();
  for page in PAGES {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(page);
    let mut fenced = false;
    for line in fs::read_to_string(path).unwrap_or_default().lines() {
      if line.trim_start().starts_with("```") {
        fenced = !fenced;
      } else if fenced {
        let line = line.trim_start();
        let line = line.strip_prefix("$ ").unwrap_or(line);
        found.insert(without_ids(line.split(" #").next().unwrap_or(line).trim_end()));
      } else {
        found.extend(SPAN.captures_iter(line).map(|span| without_ids(&span[1])));
      }
    }
  }
  found
}

/// A command as it is compared.
pub(super) fn without_ids(command: &str) -> String {
  static ID: LazyLock<Regex> = LazyLock::new(|| regex(r"\b[0-9a-f]{6}\b"));
  ID.replace_all(command, "ID").into_owned()
}
