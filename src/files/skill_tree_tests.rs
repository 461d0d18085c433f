//! Trees as an attacker would make them.
#![cfg(test)]
#![expect(clippy::disallowed_methods, reason = "a test's own files")]

use std::{
  fs,
  os::unix::{
    ffi::OsStrExt as _,
    fs::{PermissionsExt as _, symlink},
  },
};

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

fn tree(files: &[(&str, &str)]) -> TempDir {
  let dir = tempfile::tempdir().unwrap();
  for (name, text) in files {
    let path = dir.path().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
  }
  dir
}

fn read(dir: &Path) -> (Vec<String>, Option<TreeLimit>) {
  let mut seen = Vec::new();
  let limit = read_tree(dir, &mut |path, entry| {
    let path = String::from_utf8_lossy(path).into_owned();
    seen.push(match entry {
      TreeEntry::File { bytes, is_program } => {
        let kind = if is_program { "program" } else { "file" };
        format!("{path}: {kind} {}", String::from_utf8_lossy(bytes))
      }
      TreeEntry::Link(target) => format!("{path}: link {}", String::from_utf8_lossy(target)),
      TreeEntry::Other => format!("{path}: other"),
      TreeEntry::Unread => format!("{path}: unread"),
    });
  });
  (seen, limit.unwrap())
}

#[test]
fn every_entry_is_read_and_no_link_is_followed() {
  let outside = tree(&[("secret", "key")]);
  let dir = tree(&[("SKILL.md", "text"), ("scripts/run.sh", "echo"), ("a/.hidden", "x")]);
  let path = |name: &str| dir.path().join(name);
  fs::set_permissions(path("scripts/run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
  symlink(outside.path(), path("out")).unwrap();
  symlink("SKILL.md", path("a/same")).unwrap();
  rustix::fs::mknodat(rustix::fs::CWD, path("pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
  let (seen, limit) = read(dir.path());
  let link = format!("out: link {}", outside.path().display());
  let expected = [
    "SKILL.md: file text",
    "a/.hidden: file x",
    "a/same: link SKILL.md",
    &link,
    "pipe: other",
    "scripts/run.sh: program echo",
  ];
  assert_eq!((seen, limit), (expected.map(str::to_owned).to_vec(), None));
  assert!(read_tree(&path("gone"), &mut |_, _| ()).is_err());
}

#[test]
fn what_exceeds_a_limit_is_not_read_to_its_end() {
  let deep = vec!["d"; MAX_DEPTH + 1].join("/");
  let dir = tree(&[(&format!("{deep}/f"), "x")]);
  assert_eq!(read(dir.path()).1, Some(TreeLimit::Depth));
  let dir = tree(&[("a", "1"), ("b", "2")]);
  let big = File::create(dir.path().join("big")).unwrap();
  big.set_len(MAX_BYTES).unwrap();
  let (seen, limit) = read(dir.path());
  assert_eq!((seen.len(), limit), (2, Some(TreeLimit::Bytes)));
  let dir = tempfile::tempdir().unwrap();
  for n in 0..=MAX_FILES {
    File::create(dir.path().join(n.to_string())).unwrap();
  }
  let (seen, limit) = read(dir.path());
  assert_eq!((seen.len(), limit), (MAX_FILES, Some(TreeLimit::Files)));
}

#[test]
fn skills_are_found_in_groups_and_behind_links() {
  let outside = tree(&[("far/SKILL.md", "x"), ("far/sub/SKILL.md", "not searched"), ("no/a", "x")]);
  let dir = tree(&[
    ("weather/SKILL.md", "x"),
    ("weather/sub/SKILL.md", "below a skill"),
    ("group/of/notes/SKILL.md", "x"),
    (".hidden/SKILL.md", "x"),
    ("node_modules/p/SKILL.md", "x"),
    ("1/2/3/4/5/6/SKILL.md", "x"),
    ("1/2/3/4/5/7/8/SKILL.md", "too deep"),
    ("SKILL.txt", "no skill"),
  ]);
  symlink(outside.path().join("far"), dir.path().join("linked")).unwrap();
  symlink(outside.path(), dir.path().join("other")).unwrap();
  symlink("loop", dir.path().join("loop")).unwrap();
  fs::create_dir(dir.path().join("odd")).unwrap();
  symlink("/dev/zero", dir.path().join("odd/SKILL.md")).unwrap();
  let FoundSkills { dirs: found, gap } = find_skills(dir.path(), "SKILL.md");
  let mut expected = vec![outside.path().join("far")];
  expected
    .extend(["1/2/3/4/5/6", "group/of/notes", "odd", "weather"].map(|name| dir.path().join(name)));
  let real = |path: PathBuf| path.canonicalize().unwrap();
  let mut expected: Vec<PathBuf> = expected.into_iter().map(real).collect();
  expected.sort();
  assert_eq!((found, gap), (expected, None));
  assert_eq!(find_skills(&dir.path().join("gone"), "SKILL.md"), FoundSkills::default());
}

#[test]
fn a_skill_is_not_hidden_among_others() {
  let dir = tree(&[("weather/SKILL.md", "x")]);
  let decoys = dir.path().join("zz");
  fs::create_dir(&decoys).unwrap();
  for n in 0..MAX_DIRECTORIES {
    fs::create_dir(decoys.join(n.to_string())).unwrap();
  }
  let real = dir.path().canonicalize().unwrap();
  let found = find_skills(&real, "SKILL.md");
  assert_eq!(found.dirs, [real.join("weather")]);
  assert_eq!(found.gap, Some((real.clone(), Gap::Directories)), "not all were searched");
  fs::remove_dir_all(&decoys).unwrap();
  for n in 0..=MAX_SKILLS {
    fs::create_dir(real.join(n.to_string())).unwrap();
    fs::write(real.join(n.to_string()).join("SKILL.md"), "x").unwrap();
  }
  let found = find_skills(&real, "SKILL.md");
  assert_eq!((found.dirs.len(), found.gap), (MAX_SKILLS, Some((real, Gap::Skills))));
}

#[test]
fn a_root_that_is_a_skill_hides_none_below() {
  let dir = tree(&[("SKILL.md", "x"), ("weather/SKILL.md", "x"), ("weather/sub/SKILL.md", "x")]);
  let real = dir.path().canonicalize().unwrap();
  let found = find_skills(&real, "SKILL.md");
  assert_eq!((found.dirs, found.gap), (vec![real.clone(), real.join("weather")], None));
}

#[test]
fn what_cannot_be_read_is_not_empty() {
  let dir = tree(&[("group/weather/SKILL.md", "x")]);
  let group = dir.path().join("group");
  fs::set_permissions(&group, fs::Permissions::from_mode(0o000)).unwrap();
  let found = find_skills(dir.path(), "SKILL.md");
  fs::set_permissions(&group, fs::Permissions::from_mode(0o700)).unwrap();
  // A superuser reads it nevertheless.
  if !rustix::process::geteuid().is_root() {
    assert_eq!((found.dirs, found.gap), (vec![], Some((group, Gap::Unread))));
  }
  let long = dir.path().join("n".repeat(300));
  assert_eq!(find_skills(&long, "SKILL.md").gap, Some((long, Gap::Unread)));
}

proptest! {
  #![proptest_config(ProptestConfig::with_cases(64))]
  #[test]
  fn any_names_are_read_once(names in prop::collection::btree_set(
    prop::collection::vec(any::<u8>(), 1..8), 0..6,
  )) {
    let dir = tempfile::tempdir().unwrap();
    let mut expected = Vec::new();
    for name in names {
      let os = OsStr::from_bytes(&name);
      // The system refuses some names, such as those with a slash.
      if name.contains(&b'/') || fs::write(dir.path().join(os), &name).is_err() {
        continue;
      }
      expected.push(name);
    }
    let mut seen = Vec::new();
    let limit = read_tree(dir.path(), &mut |path, entry| {
      assert_eq!(entry, TreeEntry::File { bytes: path, is_program: false });
      seen.push(path.to_vec());
    });
    prop_assert_eq!((seen, limit.unwrap()), (expected, None));
  }
}
