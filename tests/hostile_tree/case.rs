//! Directories in which names that differ only in the case of their letters are one file.

use crate::support::{AT_ONCE, Guarded, Writer, clean, eventually, marks, needle, poison};

/// The name that the file was made with, and two others for it.
const MADE: &str = "memory/note.md";
const OTHERS: [&str; 2] = ["memory/Note.md", "memory/NOTE.MD"];

/// How often a file has these words.
fn count(guarded: &Guarded, words: &str) -> usize {
  String::from_utf8_lossy(&guarded.read(MADE)).matches(words).count()
}

/// A memory file that is written under other cases of its name. `make` makes the file system, `fold` the directory
/// in which the names are one.
fn written_under_another_case(make: &str, fold: &str) {
  let setup = format!(
    "truncate -s 16M \"$TMP/image\" && {make} \"$TMP/image\" > /dev/null && \
     mount -o loop \"$TMP/image\" \"$TMP/workspace\" && cd \"$TMP/workspace\" && mkdir memory && {fold} && \
     printf '# Memory\\n' > MEMORY.md && printf '# Note\\n\\n' > {MADE} && [ -e {} ]",
    OTHERS[0]
  );
  // Without the right to mount, or a kernel that folds names, `mounts` says so, and the test is skipped.
  let Some(mut guarded) = Guarded::new(AT_ONCE).mounts(&setup) else { return };
  guarded.start();
  guarded.settle();
  for (n, name) in OTHERS.iter().enumerate() {
    let line = format!("{}\n\n{}\n\n", clean(n), poison(n));
    Writer::Shell.add(&guarded.path(name), line.as_bytes());
    eventually("the poison is gone", || {
      marks::find(&guarded.read(MADE), needle(n).as_bytes()).is_none()
    });
    guarded.settle();
    assert_eq!(count(&guarded, &clean(n)), 1, "{}", marks::show(&guarded.read(MADE)));
  }
  // Each text is one item, also for the daemon that finds the file at its start.
  guarded.wait_for_items(OTHERS.len());
  guarded.stop();
  guarded.start();
  guarded.settle();
  assert_eq!(guarded.waiting().len(), OTHERS.len(), "{:?}", guarded.waiting());
  let status = guarded.memfw(&["status"]);
  assert_eq!(status.status, 0, "{status:?}");
  assert!(!guarded.log().contains("error "), "{}", guarded.log());
  // Each text comes back once.
  guarded.approve_all();
  guarded.settle();
  for n in 0..OTHERS.len() {
    assert_eq!(count(&guarded, &poison(n)), 1, "{}", marks::show(&guarded.read(MADE)));
    assert_eq!(count(&guarded, &clean(n)), 1, "{}", marks::show(&guarded.read(MADE)));
  }
  assert_eq!(guarded.waiting().len(), 0);
  guarded.stop();
}

#[test]
fn a_file_that_is_written_under_another_case_of_its_name_is_guarded_once_where_ext4_folds_names() {
  written_under_another_case("mkfs.ext4 -q -O casefold -E encoding=utf8", "chattr +F memory");
}

#[test]
fn a_file_that_is_written_under_another_case_of_its_name_is_guarded_once_on_vfat() {
  written_under_another_case("mkfs.vfat", "true");
}
