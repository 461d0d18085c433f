//! `memfw config set`, `config show` with presets, and what the documentation says about keys.

use {
  crate::support::{CONFIG, Test},
  memfw::config::{Config, Effective, KEYS, PARTS, Preset, find},
  serde_json::json,
  std::{fs, os::unix::fs::PermissionsExt as _, path::Path},
};

const MINE: &str = "# my own words\nmarkers = \"wrap\"  # as I like it\n\n[files]\n# why: tests\n\
  idle_ms = 5000\n";

fn text(test: &Test) -> String {
  fs::read_to_string(test.tmp().join(CONFIG)).unwrap()
}

#[test]
fn one_value_is_changed_and_comments_stay() {
  let test = Test::new()
    .config(MINE)
    .args(["config", "set", "files.idle_ms", "250"])
    .stdout("files.idle_ms = 250, was 5000\n")
    .run()
    .then();
  assert_eq!(text(&test), MINE.replace("5000", "250"));
  let test = test
    .args(["config", "set", "markers", "id"])
    .stdout("markers = \"id\", was \"wrap\"\n")
    .run()
    .then()
    .args(["config", "set", "markers", "id"])
    .stdout("markers = \"id\", unchanged\n")
    .run()
    .then()
    .args(["config", "set", "files.idle_ms", "--default"])
    .stdout("files.idle_ms = 5000 (default), was 250\n")
    .run()
    .then();
  assert_eq!(text(&test), MINE.replace("wrap", "id").replace("idle_ms = 5000\n", ""));
  let answer = test.args(["config", "set", "notify.command", "--json", "--", "say", "-v"]).json();
  assert_eq!(
    answer,
    json!({
      "file": "[TMP]/memfw/config/config.toml",
      "key": "notify.command", "value": ["say", "-v"], "was": [], "changed": true, "active": null,
    })
  );
}

#[test]
fn a_file_is_made_where_there_is_none_and_nothing_else_is() {
  let test = Test::new()
    .args(["config", "set", "preset", "strict"])
    .stdout("preset = \"strict\", was \"balanced\"\n")
    .run()
    .then();
  assert_eq!(text(&test), "preset = \"strict\"\n");
  let dir = test.tmp().join("memfw/config");
  let names: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
  assert_eq!(names, ["config.toml"]);
  assert_eq!(fs::read_dir(test.tmp().join("memfw/data")).unwrap().count(), 0);
}

#[test]
fn what_does_not_hold_is_not_written() {
  for (args, stderr) in [
    (
      &["files.idel_ms", "3"][..],
      "error: unknown key `files.idel_ms`\nhint: did you mean `files.idle_ms`?\n",
    ),
    (&["idle_ms", "3"][..], "error: unknown key `idle_ms`\nhint: did you mean `files.idle_ms`?\n"),
    (
      &["markers", "warp"][..],
      "error: `markers` must be `auto`, `wrap`, `id` or `none`, found `warp`\n\
       hint: did you mean `wrap`?\n",
    ),
    (
      &["files.max_bytes", "0"][..],
      "error: `files.max_bytes` must be a whole number from 1 to 67108864, found 0\n",
    ),
    (&["detection.embedding_url", "http://example.com"][..], "error: `detection.embedding_url`: "),
    (&["\x1b[2J", "1"][..], "error: unknown key `\\u{1b}[2J`\n"),
  ] {
    let test = Test::new().config(MINE).args(["config", "set"]).args(args);
    let output = test.output();
    assert_eq!((output.status, output.stdout.as_str()), (2, ""), "{args:?}");
    assert!(output.stderr.starts_with(stderr), "{args:?}: {}", output.stderr);
    assert_eq!(text(&test), MINE);
  }
}

#[test]
fn a_mistake_elsewhere_is_reported_and_one_can_be_mended() {
  let broken = "marker = 1\n[log]\nlevel = \"wran\"\n";
  let stderr = "
    error: [TMP]/memfw/config/config.toml:1:1: unknown key `marker`
    hint: did you mean `markers`?
    ";
  let test = Test::new()
    .config(broken)
    .args(["config", "set", "log.level", "warn"])
    .stderr(stderr)
    .status(2)
    .run()
    .then();
  assert_eq!(text(&test), broken);
  let test = test
    .config("[log]\nlevel = \"wran\"\n")
    .args(["config", "set", "log.level", "warn"])
    .stdout("log.level = \"warn\"\n")
    .run()
    .then();
  assert_eq!(text(&test), "[log]\nlevel = \"warn\"\n");
  let test = test.config("[log\n").args(["config", "set", "log.level", "warn"]);
  assert_eq!(test.output().status, 2);
  assert_eq!(text(&test), "[log\n");
}

#[test]
fn a_link_and_permissions_stay() {
  let test = Test::new().write("dotfiles/memfw.toml", MINE);
  let real = test.tmp().join("dotfiles/memfw.toml");
  fs::set_permissions(&real, fs::Permissions::from_mode(0o644)).unwrap();
  let link = test.tmp().join(CONFIG);
  fs::create_dir_all(link.parent().unwrap()).unwrap();
  std::os::unix::fs::symlink(&real, &link).unwrap();
  let test = test
    .args(["config", "set", "files.idle_ms", "1"])
    .stdout("files.idle_ms = 1, was 5000\n")
    .run()
    .then();
  assert!(link.is_symlink());
  assert_eq!(fs::read_to_string(&real).unwrap(), MINE.replace("5000", "1"));
  assert_eq!(real.metadata().unwrap().permissions().mode() & 0o777, 0o644);
  assert_eq!(fs::read_dir(real.parent().unwrap()).unwrap().count(), 1);
  drop(test);
}

#[test]
fn some_keys_can_be_shown_with_the_preset_that_they_come_from() {
  let config = "preset = \"strict\"\n[baseline]\naction = \"flag\"\n";
  Test::new()
    .config(config)
    .args(["config", "show", "preset", "baseline", "detection.sensitivity", "markers"])
    .stdout(
      r#"
      KEY                    VALUE     ORIGIN
      preset                 "strict"  [TMP]/memfw/config/config.toml:1
      markers                "auto"    default
      baseline.action        "flag"    [TMP]/memfw/config/config.toml:3
      detection.sensitivity  "high"    preset strict
      "#,
    )
    .run()
    .then()
    .args(["config", "show", "detection.sensitivity", "preset", "--preset", "quiet"])
    .stdout(
      r#"
      KEY                    VALUE    ORIGIN
      preset                 "quiet"  --preset
      detection.sensitivity  "low"    preset quiet
      "#,
    )
    .run()
    .then()
    .args(["config", "show", "detecton"])
    .stderr("error: unknown key `detecton`\nhint: did you mean `detection`?\n")
    .status(2)
    .run();
  let args = ["config", "show", "baseline.action", "--preset", "strict", "--json"];
  let shown = Test::new().args(args).json();
  assert_eq!(
    shown["values"],
    json!([{
      "key": "baseline.action", "value": "quarantine", "origin": "preset", "line": null,
      "name": "strict",
    }])
  );
  let both = ["config", "show", "--preset", "strict", "--preset", "quiet"];
  let both = Test::new().args(both).output();
  assert_eq!(both.status, 2, "{}", both.stderr);
}

/// The page about the configuration, by the headings of its keys.
fn page() -> String {
  let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/configuration.md");
  fs::read_to_string(page).unwrap()
}

#[test]
fn the_documentation_has_the_defaults_bounds_and_words_of_the_example() {
  let page = page();
  let defaults = Config::default();
  for key in KEYS {
    let (_, section) = page.split_once(&format!("\n## `{}`\n", key.name)).expect(key.name);
    let section = section.split("\n## ").next().unwrap();
    let default = format!("\nDefault: `{}`", key.value(&defaults));
    assert!(section.contains(&default), "{}: no line `{}`", key.name, default.trim());
    if *key.bounds.end() != u64::MAX {
      let (low, high) = (key.bounds.start(), key.bounds.end());
      let bounds = format!("from {low} to {high}");
      assert!(section.contains(&bounds), "{}: not `{bounds}`", key.name);
    }
    // The names of files are listed once, with the first key that takes them.
    let words = if key.value(&defaults).is_array() { vec![] } else { (key.words)() };
    for word in words {
      let word =
        if key.value(&defaults).is_bool() { format!("`{word}`") } else { format!("`\"{word}\"`") };
      assert!(section.contains(&word), "{}: {word} is not explained", key.name);
    }
  }
}

#[test]
fn the_table_of_presets_is_what_they_do() {
  let page = page();
  let value = |preset: &str, key: &str| {
    let text = format!("preset = \"{preset}\"\n");
    let effective = Effective::parse(&text, None).unwrap();
    find(key).unwrap().value(&effective.config).to_string()
  };
  for part in PARTS {
    let values: Vec<String> = Preset::ALL
      .iter()
      .map(|preset| format!(" `{}` |", value(preset.as_str(), part.key)))
      .collect();
    let row = format!("\n| `{}` |{}\n", part.key, values.concat());
    assert!(page.contains(&row), "no row `{}`", row.trim());
  }
  let rows = page.split("\n## `preset`\n").nth(1).unwrap().split("\n## ").next().unwrap();
  let rows = rows.lines().filter(|line| line.starts_with("| `") && line.contains('.')).count();
  assert_eq!(rows, PARTS.len());
}

#[test]
fn examples_of_configuration_in_the_documentation_hold() {
  let page = page();
  let blocks: Vec<&str> = page.split("```toml\n").skip(1).collect();
  assert!(!blocks.is_empty());
  for block in blocks {
    let block = block.split("```").next().unwrap();
    assert!(Effective::parse(block, Some(Path::new("/home/ann"))).is_ok(), "{block}");
  }
}
