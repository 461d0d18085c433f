//! One cell of the matrix: the real daemon, which reshapes whenever it may, and writers of one kind.
#![forbid(unsafe_code)]

use {
  super::{
    account::{Account, Confirmed, account},
    block::{HEADER, is_poison, text},
    way::{Hand, Way},
  },
  crate::support::{AT_ONCE, Guarded, id},
  std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs,
    path::{Path, PathBuf},
    sync::{
      Mutex,
      atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
  },
};

/// Blocks of one file.
pub(crate) const PER_FILE: usize = 40;
/// Files that are written to at the same time.
const LANES: usize = 4;
/// Items that are approved at the end.
const APPROVED: usize = 8;

/// The result of one cell.
pub(crate) struct Row {
  pub(crate) way: Way,
  pub(crate) blocks: usize,
  poison: usize,
  /// How often poison returned with a stale write and was taken out again.
  pub(crate) returned: u64,
  /// How often the daemon rewrote a file: without rewrites there is no race.
  pub(crate) reshaped: usize,
  /// How often a writer had to try again.
  again: usize,
  /// The blocks that a writer could not write, and why.
  pub(crate) refused: Vec<String>,
  pub(crate) account: Account,
  seconds: f64,
}

impl Row {
  /// Whether there is no error.
  pub(crate) fn is_clean(&self) -> bool {
    self.refused.is_empty() && self.account.is_clean()
  }

  pub(crate) fn head() -> String {
    format!(
      "{:16}{:>8}{:>8}{:>10}{:>10}{:>7}{:>8}{:>6}{:>7}{:>5}{:>5}{:>5}{:>9}",
      "writer",
      "blocks",
      "poison",
      "returned",
      "reshaped",
      "again",
      "errors",
      "lost",
      "twice",
      "NUL",
      "raw",
      "odd",
      "seconds"
    )
  }
}

impl fmt::Display for Row {
  fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Account { lost, twice, nul, raw, odd } = &self.account;
    let (lost, twice, odd) = (lost.len(), twice.len(), odd.len());
    write!(f, "{:16}{:>8}{:>8}", self.way.name(), self.blocks, self.poison)?;
    write!(f, "{:>10}{:>10}", self.returned, self.reshaped)?;
    write!(f, "{:>7}{:>8}", self.again, self.refused.len())?;
    write!(f, "{lost:>6}{twice:>7}{nul:>5}{raw:>5}{odd:>5}{:>9.1}", self.seconds)
  }
}

/// The work of the writers.
#[derive(Default)]
pub(crate) struct Written {
  /// The files, with their confirmed blocks.
  pub(crate) files: BTreeMap<PathBuf, Confirmed>,
  /// How often writers had to try again, because they open without waiting.
  again: usize,
  /// The blocks that could not be written, and why.
  refused: Vec<String>,
}

impl Written {
  /// The numbers of all confirmed blocks.
  fn numbers(&self) -> impl Iterator<Item = usize> {
    self.files.values().flatten().flatten().copied()
  }
}

/// Runs one cell below a directory, which determines the file system.
pub(crate) fn run(below: &Path, way: Way, blocks: usize, seed: u64) -> Row {
  let started = Instant::now();
  let mut cell = Cell { guarded: Guarded::below(below, AT_ONCE), way };
  let dir = cell.guarded.path("memory");
  fs::create_dir(&dir).unwrap();
  cell.guarded.start();
  let written = write(way, &dir, blocks, seed);
  cell.guarded.settle();
  let mut row = cell.judge(&written);
  if row.is_clean() {
    row.account = cell.approve(&written);
  }
  row.seconds = started.elapsed().as_secs_f64();
  if row.is_clean() {
    cell.guarded.stop();
  } else {
    cell.tell(&row);
  }
  row
}

/// Lets writers of one kind write blocks into files of their own below a directory.
pub(crate) fn write(way: Way, dir: &Path, blocks: usize, seed: u64) -> Written {
  let n_files = blocks.div_ceil(PER_FILE);
  let (next, written) = (AtomicUsize::new(0), Mutex::new(Written::default()));
  std::thread::scope(|scope| {
    for lane in 0..LANES.min(n_files) {
      let (next, written) = (&next, &written);
      scope.spawn(move || {
        let hands = 0..way.hands();
        let hand = |hand| Hand::new(way, seed ^ ((lane * 8 + hand + 1) as u64) << 32);
        let mut hands: Vec<Hand> = hands.map(hand).collect();
        loop {
          let n = next.fetch_add(1, Ordering::Relaxed);
          if n >= n_files {
            break;
          }
          let numbers: Vec<usize> = (n * PER_FILE..blocks.min((n + 1) * PER_FILE)).collect();
          let file = dir.join(format!("notes-{n:04}.md"));
          fs::write(&file, HEADER).unwrap();
          let shares = fill(way, &file, &mut hands, &numbers);
          let mut written = written.lock().unwrap();
          for share in &shares {
            written.again += share.again;
            written.refused.extend_from_slice(&share.refused);
          }
          let confirmed = shares.into_iter().map(|share| share.confirmed).collect();
          written.files.insert(file, confirmed);
        }
      });
    }
  });
  written.into_inner().unwrap()
}

/// The work of one hand on one file.
#[derive(Default)]
struct Share {
  confirmed: Vec<usize>,
  again: usize,
  refused: Vec<String>,
}

/// Writes blocks into one file, with all hands at the same time.
fn fill(way: Way, file: &Path, hands: &mut [Hand], numbers: &[usize]) -> Vec<Share> {
  let size = numbers.len().div_ceil(hands.len());
  std::thread::scope(|scope| {
    let writers: Vec<_> = hands
      .iter_mut()
      .zip(numbers.chunks(size))
      .map(|(hand, numbers)| {
        scope.spawn(move || {
          let mut share = Share::default();
          hand.turn_to(file);
          for &n in numbers {
            match hand.add(text(way, n).as_bytes()) {
              Ok(again) => {
                share.confirmed.push(n);
                share.again += again;
              }
              Err(why) => share.refused.push(format!("block {n}: {why}")),
            }
            hand.rest();
          }
          hand.end();
          share
        })
      })
      .collect();
    writers.into_iter().map(|writer| writer.join().unwrap()).collect()
  })
}

struct Cell {
  guarded: Guarded,
  way: Way,
}

impl Cell {
  /// The account of all files in their current state.
  fn judge(&self, written: &Written) -> Row {
    let events = ["audit", "--event", "reshaped", "--json"];
    let items = self.guarded.waiting();
    let occurrences: u64 = items.iter().map(|item| item["occurrences"].as_u64().unwrap()).sum();
    Row {
      way: self.way,
      blocks: written.numbers().count(),
      poison: written.numbers().filter(|n| is_poison(*n)).count(),
      returned: occurrences - items.len() as u64,
      reshaped: self.guarded.json(&events).as_array().unwrap().len(),
      again: written.again,
      refused: written.refused.clone(),
      account: self.account(written, &BTreeSet::new()),
      seconds: 0.0,
    }
  }

  /// Approves a few items; the account of all files afterwards, with these exact bytes in their places.
  fn approve(&self, written: &Written) -> Account {
    let sealed = self.guarded.sealed();
    let step = sealed.len().div_ceil(APPROVED).max(1);
    let sample: BTreeMap<_, _> = sealed.iter().step_by(step).collect();
    let mut args = vec!["quarantine", "approve"];
    args.extend(sample.keys().map(|id| id.as_str()));
    self.guarded.ok(&args);
    self.guarded.settle();
    let is_approved = |n: &usize| sample.values().any(|text| **text == self::text(self.way, *n));
    let approved: BTreeSet<usize> = written.numbers().filter(is_approved).collect();
    assert_eq!(approved.len(), sample.len(), "each approved text is that of a block");
    self.account(written, &approved)
  }

  fn account(&self, written: &Written, approved: &BTreeSet<usize>) -> Account {
    let sealed = self.guarded.sealed();
    let mut by_file: BTreeMap<PathBuf, Vec<String>> = BTreeMap::new();
    for item in self.guarded.waiting() {
      let file = item["file"].as_str().unwrap();
      let rel = Path::new(file).strip_prefix(Guarded::named("")).unwrap();
      by_file.entry(self.guarded.path(rel)).or_default().push(sealed[id(&item)].clone());
    }
    let mut total = Account::default();
    for (file, confirmed) in &written.files {
      let sealed = by_file.remove(file).unwrap_or_default();
      let here: BTreeSet<usize> = confirmed.iter().flatten().copied().collect();
      let approved = here.intersection(approved).copied().collect();
      let Ok(bytes) = fs::read(file) else {
        total.lost.push(format!("{} is gone", file.display()));
        continue;
      };
      let mut found = account(self.way, confirmed, &bytes, &sealed, &approved);
      let name = file.file_name().unwrap().display();
      for line in found.lost.iter_mut().chain(&mut found.twice).chain(&mut found.odd) {
        *line = format!("{name}: {line}");
      }
      total.add(found);
    }
    for (file, _) in self.guarded.files() {
      if !written.files.contains_key(&self.guarded.path(&file)) {
        total.odd.push(format!("somebody left {}", file.display()));
      }
    }
    total
  }

  /// Prints the errors, and keeps all files for inspection.
  fn tell(&mut self, row: &Row) {
    let Account { lost, twice, odd, .. } = &row.account;
    println!("{} fails: {} NUL, {} raw", row.way.name(), row.account.nul, row.account.raw);
    for (what, lines) in [("error", &row.refused), ("lost", lost), ("twice", twice), ("odd", odd)] {
      for line in lines.iter().take(10) {
        println!("  {what}: {line}");
      }
    }
    fs::write(self.guarded.tmp().join("daemon.log"), self.guarded.log()).unwrap();
    println!("  kept: {}", self.guarded.keep().display());
  }
}

impl Drop for Cell {
  fn drop(&mut self) {
    if std::thread::panicking() {
      println!("{} fails; kept: {}", self.way.name(), self.guarded.keep().display());
    }
  }
}
