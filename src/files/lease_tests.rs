//! Leases between processes, and the signal of their break.

use std::{
  fs::{File, OpenOptions},
  os::fd::AsFd as _,
  path::Path,
  process::{Child, Command},
  time::Duration,
};

use super::*;
use crate::os::{Clock as _, SystemClock};

/// Waits until `done`, and fails the test after ten seconds.
#[expect(clippy::disallowed_methods, reason = "polls a condition with a deadline")]
pub(crate) fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
  let deadline = SystemClock.monotonic() + Duration::from_secs(10);
  while !done() {
    assert!(SystemClock.monotonic() < deadline, "no {what} in time");
    std::thread::sleep(Duration::from_millis(1));
  }
}

fn open(path: &Path) -> File {
  OpenOptions::new().read(true).write(true).open(path).unwrap()
}

fn shell(script: &str, path: &Path) -> Child {
  Command::new("sh").arg("-c").arg(script).arg("sh").arg(path).spawn().unwrap()
}

fn granted(file: &File) -> bool {
  match acquire(file.as_fd()).unwrap() {
    Grant::Granted => true,
    Grant::Busy => false,
    Grant::Unsupported(error) => panic!("no leases on the test directory: {error}"),
  }
}

/// A child of another test delays the lease between fork and exec, while it still has all
/// descriptors of this process, also those that were just closed here.
fn take(file: &File) {
  wait_until("lease", || granted(file));
}

#[expect(clippy::disallowed_methods, reason = "the test's own file")]
fn fixture() -> (tempfile::TempDir, std::path::PathBuf) {
  let dir = tempfile::tempdir().unwrap();
  let path = dir.path().join("MEMORY.md");
  std::fs::write(&path, "- a\n").unwrap();
  (dir, path)
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test's own file")]
fn a_writer_waits_while_the_lease_is_held_and_we_survive_its_break() {
  let (_dir, path) = fixture();
  let file = open(&path);
  take(&file);
  assert!(undisturbed(file.as_fd()).unwrap());

  let mut writer = shell("echo x >> \"$1\"", &path);
  wait_until("lease break", || !undisturbed(file.as_fd()).unwrap());
  assert!(writer.try_wait().unwrap().is_none(), "the writer did not wait");
  let mut content = String::new();
  std::io::Read::read_to_string(&mut &file, &mut content).unwrap();
  assert_eq!(content, "- a\n");

  release(file.as_fd());
  assert!(writer.wait().unwrap().success());
  assert_eq!(std::fs::read_to_string(&path).unwrap(), "- a\nx\n");
}

#[test]
fn a_break_after_the_signal_was_reset_by_a_release_is_survived_too() {
  let (_dir, path) = fixture();
  let file = open(&path);
  take(&file);
  release(file.as_fd());
  // Without setting owner and signal again, as a bare F_SETLEASE would be.
  wait_until("lease", || matches!(linux::grant(file.as_fd()).unwrap(), Grant::Granted));
  let mut reader = shell("cat \"$1\" > /dev/null", &path);
  wait_until("lease break", || !undisturbed(file.as_fd()).unwrap());
  release(file.as_fd());
  assert!(reader.wait().unwrap().success());
}

#[test]
fn the_signal_of_a_break_is_ignored_once_prepared() {
  prepare().unwrap();
  assert_ne!(linux::disposition().unwrap(), libc::SIG_DFL);
}

#[test]
fn a_held_reader_makes_the_lease_fail_until_it_closes() {
  let (_dir, path) = fixture();
  let file = open(&path);
  let reader = OpenOptions::new().read(true).open(&path).unwrap();
  assert!(!granted(&file));
  drop(reader);
  take(&file);
  release(file.as_fd());
  release(file.as_fd());
}

#[test]
fn a_descriptor_without_a_file_behind_it_gets_no_lease_ever() {
  let (reader, _writer) = std::io::pipe().unwrap();
  assert!(matches!(acquire(reader.as_fd()).unwrap(), Grant::Unsupported(_)));
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test's own file")]
fn a_leased_file_is_read_through_a_mapping_at_any_place() {
  let (_dir, path) = fixture();
  let bytes: Vec<u8> = (0..200_000_u32).map(|n| (n % 251) as u8).collect();
  std::fs::write(&path, &bytes).unwrap();
  let file = open(&path);
  take(&file);
  for (offset, len) in [(0, 200_000), (0, 1), (0, 0), (4095, 2), (65_535, 70_000), (199_999, 1)] {
    let mut buffer = vec![0; len];
    read(file.as_fd(), offset as u64, &mut buffer).unwrap();
    assert_eq!(buffer, bytes[offset..offset + len], "{len} bytes at {offset}");
  }
  assert!(undisturbed(file.as_fd()).unwrap());
  // Pages that are not there are an error and no signal.
  let mut beyond = vec![0; 300_000];
  assert!(read(file.as_fd(), 0, &mut beyond).is_err());
  release(file.as_fd());
}
