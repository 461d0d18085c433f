//! Changes without an event: a change within the step of coarse file times, the removal of a hard
//! link, a mount over a single file, a directory that could not be read for a while; and the
//! reports about them.

use {
  crate::support::{Guarded, Writer, eventually, needle, poison},
  std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt as _,
    path::Path,
  },
};

fn append(path: &Path, text: &str) {
  Writer::Shell.add(path, text.as_bytes());
}

fn stands(guarded: &Guarded, n: usize) -> bool {
  !guarded.holding("workspace", &needle(n)).is_empty()
}

/// The exit status and the output of `status`.
fn status(guarded: &Guarded) -> (i32, String) {
  let output = guarded.memfw(&["status"]);
  (output.status, output.stdout)
}

#[test]
fn a_file_is_judged_as_soon_as_its_second_hard_link_is_gone() {
  let mut guarded = Guarded::new("").memory("MEMORY.md", "# Memory\n");
  guarded.start();
  let (file, other) = (guarded.path("MEMORY.md"), guarded.tmp().join("link"));
  fs::hard_link(&file, &other).unwrap();
  append(&file, &format!("{}\n", poison(1)));
  eventually("it is named", || status(&guarded).1.contains("it has 2 hard links"));
  assert!(stands(&guarded, 1));
  guarded.settle();
  // This makes no event in the workspace.
  fs::remove_file(&other).unwrap();
  eventually("the poison leaves", || !stands(&guarded, 1));
  eventually("it is whole again", || status(&guarded).0 == 0);
  guarded.stop();
}

#[test]
fn a_mount_over_a_single_file_is_named_until_it_is_gone() {
  let guarded = Guarded::new("").memory("MEMORY.md", "# Memory\n");
  let Some(mut guarded) = guarded.mounts("true") else { return };
  guarded.start();
  assert_eq!(status(&guarded).0, 0);
  let mount = "echo '# Other' > \"$TMP/other.md\" && \
    mount --bind \"$TMP/other.md\" \"$TMP/workspace/MEMORY.md\"";
  guarded.in_mounts(mount);
  eventually("it is named", || {
    let (code, text) = status(&guarded);
    code == 1 && text.contains("it is on another mount than the workspace")
  });
  guarded.in_mounts("umount \"$TMP/workspace/MEMORY.md\"");
  eventually("it is whole again", || status(&guarded).0 == 0);
  append(&guarded.path("MEMORY.md"), &format!("{}\n", poison(2)));
  eventually("it is guarded again", || !stands(&guarded, 2));
  guarded.stop();
}

#[test]
fn a_directory_that_could_not_be_read_is_guarded_when_it_can_be() {
  let guarded = Guarded::new("").memory("memory/note.md", "# Note\n");
  let Some(mut guarded) = guarded.played_by_nobody() else { return };
  guarded.start();
  guarded.stop();
  let dir = guarded.path("memory");
  fs::set_permissions(&dir, Permissions::from_mode(0o0)).unwrap();
  guarded.start();
  eventually("it is said", || status(&guarded).1.contains("permission denied"));
  fs::set_permissions(&dir, Permissions::from_mode(0o755)).unwrap();
  append(&dir.join("note.md"), &format!("{}\n", poison(3)));
  eventually("it is guarded", || !stands(&guarded, 3));
  eventually("it is whole again", || status(&guarded).0 == 0);
  guarded.stop();
}

#[test]
fn a_directory_that_comes_and_goes_is_no_reduced_protection() {
  let mut guarded = Guarded::new("").memory("memory/note.md", "# Note\n");
  guarded.start();
  for n in 0..300 {
    let dir = guarded.path(format!("memory/d{n}"));
    fs::create_dir(&dir).unwrap();
    fs::remove_dir(&dir).unwrap();
  }
  append(&guarded.path("memory/note.md"), &format!("{}\n", poison(4)));
  guarded.settle();
  assert!(!stands(&guarded, 4));
  assert!(!guarded.log().contains("protection is reduced"), "{}", guarded.log());
  guarded.stop();
}

/// A same-size change within one step of the file system's times.
fn overwritten_within_a_step(make: &str) {
  let guarded = Guarded::new("markers = \"none\"\n");
  let setup = format!(
    "truncate -s 16M \"$TMP/image\" && {make} \"$TMP/image\" > /dev/null && \
     mount -o loop \"$TMP/image\" \"$TMP/workspace\" && printf '# Memory\\n\\n' > \"$TMP/workspace/MEMORY.md\""
  );
  let Some(mut guarded) = guarded.mounts(&setup) else { return };
  guarded.start();
  guarded.settle();
  let line = format!("{}\n", poison(5));
  let clean = format!("- {}\n", "walks by the river ".repeat(9).get(..line.len() - 3).unwrap());
  // Both changes have the same times and the same size.
  let script = format!(
    "f=\"$TMP/workspace/MEMORY.md\"; while [ $(($(date +%s%N) % 2000000000)) -gt 200000000 ]; do :; done; \
     cp \"$f\" \"$TMP/before\"; printf '%s' '{clean}' >> \"$f\"; a=$(stat -c '%s %y %z' \"$f\"); sleep 0.3; \
     n=$(stat -c %s \"$TMP/before\"); printf '%s' '{line}' | dd of=\"$f\" bs=1 seek=$n conv=notrunc 2>/dev/null; \
     [ \"$a\" = \"$(stat -c '%s %y %z' \"$f\")\" ]"
  );
  guarded.in_mounts(&script);
  guarded.settle();
  assert!(!stands(&guarded, 5));
  guarded.stop();
}

#[test]
fn a_change_that_has_the_time_of_the_one_before_is_seen_where_files_have_whole_seconds() {
  overwritten_within_a_step("mkfs.ext4 -q -I 128");
}

#[test]
fn a_change_that_has_the_time_of_the_one_before_is_seen_where_files_have_every_second_second() {
  overwritten_within_a_step("mkfs.vfat");
}
