//! Two ways to clean files that lose the text of others. If they lose no text here, the race does
//! not work.
#![forbid(unsafe_code)]

use super::block::NEEDLE;
use crate::support::marks;
use memfw::files::{Fs as _, MemoryFile as _, RealFs, TargetRules};
use std::{
  collections::{BTreeMap, BTreeSet},
  ffi::OsString,
  fs,
  path::Path,
  sync::atomic::{AtomicBool, Ordering},
};

/// The text that replaces poison.
const OUT: &[u8] = b"<!-- out -->\n";

#[derive(Clone, Copy, Debug)]
pub(crate) enum Control {
  /// Read, write a temporary file, rename it over the file.
  Rename,
  /// Like `Rename`, under a write lease: a program that waits for the lease then writes into a file
  /// without a name.
  LeaseAndRename,
}

/// Cleans each file of a directory after each change, until `stop`; the lines that were taken out.
pub(crate) fn clean(control: Control, dir: &Path, stop: &AtomicBool) -> BTreeSet<Vec<u8>> {
  let (mut taken, mut done) = (BTreeSet::new(), BTreeMap::<OsString, Vec<u8>>::new());
  loop {
    // Asked before the files are looked at, so that the last round sees the last write.
    let last = stop.load(Ordering::Acquire);
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
      let (path, name) = (entry.path(), entry.file_name());
      if path.extension().is_none_or(|extension| extension != "md") {
        continue;
      }
      let cleaned = match control {
        Control::Rename => fs::read(&path).ok().map(|bytes| {
          let cleaned = without_poison(&bytes, &mut taken);
          if done.get(&name) != Some(&bytes) {
            replace(&path, &cleaned);
          }
          cleaned
        }),
        Control::LeaseAndRename => leased(dir, &path, done.get(&name), &mut taken),
      };
      if let Some(cleaned) = cleaned {
        done.insert(name, cleaned);
      }
    }
    if last {
      return taken;
    }
  }
}

/// Cleans under a lease; `None` while another program has the file open.
fn leased(
  dir: &Path,
  path: &Path,
  done: Option<&Vec<u8>>,
  taken: &mut BTreeSet<Vec<u8>>,
) -> Option<Vec<u8>> {
  let rules = TargetRules { max_bytes: 1 << 20, owners: vec![] };
  let fs = RealFs::default();
  let root = fs.open_root(dir).unwrap();
  let mut file = fs.open(&root, path.strip_prefix(dir).unwrap(), &rules).ok()?;
  if !file.try_lease().unwrap() {
    return None;
  }
  let bytes = file.read_all().unwrap();
  let cleaned = without_poison(&bytes, taken);
  if done != Some(&bytes) {
    replace(path, &cleaned);
  }
  file.release();
  Some(cleaned)
}

fn without_poison(bytes: &[u8], taken: &mut BTreeSet<Vec<u8>>) -> Vec<u8> {
  let mut cleaned = Vec::with_capacity(bytes.len());
  for line in bytes.split_inclusive(|byte| *byte == b'\n') {
    if marks::find(line, NEEDLE).is_some() {
      taken.insert(line.to_owned());
      cleaned.extend_from_slice(OUT);
    } else {
      cleaned.extend_from_slice(line);
    }
  }
  cleaned
}

fn replace(path: &Path, bytes: &[u8]) {
  let temporary = path.with_extension("md.new");
  fs::write(&temporary, bytes).unwrap();
  fs::rename(&temporary, path).unwrap();
}

/// How many confirmed blocks are neither in the files nor among the lines that were taken out, by
/// first lines.
pub(crate) fn lost(
  written: &super::cell::Written,
  way: super::Way,
  taken: &BTreeSet<Vec<u8>>,
) -> usize {
  let mut lost = 0;
  for (file, confirmed) in &written.files {
    let bytes = fs::read(file).unwrap();
    let lines: BTreeSet<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    for n in confirmed.iter().flatten() {
      let text = super::block::text(way, *n);
      let first = text.split_inclusive('\n').next().unwrap().as_bytes();
      lost += usize::from(!lines.contains(first) && !taken.contains(first));
    }
  }
  lost
}
