//! Sets or removes one value of a configuration document; comments, order and spaces are preserved.
//!
//! Invariant: a changed document differs from the original only in the value of that key; if this
//! is not possible, no changed document is returned.
#![forbid(unsafe_code)]

use {
  super::{
    effective::{Effective, ValueOrigin},
    key::{Config, KEYS, Key},
    nearest::nearest,
    setting::{Complaint, Rules},
  },
  std::path::Path,
  toml::{Spanned, Table, Value, de::DeValue},
  toml_edit::{DocumentMut, Item, TableLike},
};

/// Why the arguments are not a value of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
  /// What was found and what was expected, lower case.
  pub message: String,
  /// What to type instead, if there is a suggestion.
  pub hint: Option<String>,
}

/// The name of the key that was probably meant, found also by its last part alone.
pub fn suggest(name: &str) -> Option<&'static str> {
  nearest(name, KEYS.iter().map(|key| key.name)).or_else(|| {
    let leaf = nearest(name, KEYS.iter().map(Key::leaf))?;
    KEYS.iter().find(|key| key.leaf() == leaf).map(|key| key.name)
  })
}

/// The TOML of a value that is given as one argument or as several, which become array elements.
///
/// An argument is TOML or plain text: `0`, `true`, `strict`, `~/notes`, `["a", "b"]`.
pub fn value_of(key: &Key, words: &[String], home: Option<&Path>) -> Result<String, Rejected> {
  let default = key.value(&Config::default());
  let mut told: Option<Rejected> = None;
  for value in readings(words) {
    let text = value.to_string();
    let complaint = match DeValue::parse(&text) {
      Ok(parsed) => match read(key, &parsed, home) {
        Ok(()) => return Ok(text),
        Err(complaint) => Rejected { message: complaint.message, hint: complaint.hint },
      },
      Err(error) => Rejected { message: error.message().to_owned(), hint: None },
    };
    // Of several readings, return the one whose type is that of the key.
    if told.is_none() || value.same_type(&default) {
      told = Some(complaint);
    }
  }
  let nothing = || Rejected { message: format!("`{}` needs a value", key.name), hint: None };
  Err(told.unwrap_or_else(nothing))
}

fn read(key: &Key, value: &Spanned<DeValue<'_>>, home: Option<&Path>) -> Result<(), Complaint> {
  let rules = Rules { name: key.name, bounds: key.bounds.clone(), home };
  (key.read)(&mut Config::default(), value, &rules)
}

/// The possible readings of the arguments, the likeliest first.
fn readings(words: &[String]) -> Vec<Value> {
  let text = |word: &String| Value::String(word.clone());
  let literal = |word: &String| word.parse::<Value>().ok();
  let either = |word: &String| literal(word).unwrap_or_else(|| text(word));
  let mut readings = Vec::new();
  if let [word] = words {
    readings.extend(literal(word));
    readings.push(text(word));
  }
  readings.push(Value::Array(words.iter().map(text).collect()));
  readings.push(Value::Array(words.iter().map(either).collect()));
  readings
}

/// The document with this value, which is TOML; `None` if the document is invalid or would be.
pub fn set(document: &str, key: &Key, value: &str) -> Option<String> {
  let ways = [below_its_example, at_the_end, in_place];
  let mut changed = ways.iter().filter_map(|way| way(document, key, value));
  let wanted = value.parse::<Value>().ok()?;
  changed.find(|changed| is_only_change(document, changed, key, Some(&wanted)))
}

/// The document without a value for this key; `None` if the document is invalid.
pub fn unset(document: &str, key: &Key) -> Option<String> {
  let ways = [without_line, without_item];
  let mut changed = ways.iter().filter_map(|way| way(document, key));
  changed.find(|changed| is_only_change(document, changed, key, None))
}

/// Whether two documents are equal except for one key, which now has this value.
fn is_only_change(before: &str, after: &str, key: &Key, value: Option<&Value>) -> bool {
  let (Ok(mut before), Ok(mut after)) = (before.parse::<Table>(), after.parse::<Table>()) else {
    return false;
  };
  take(&mut before, key);
  take(&mut after, key).as_ref() == value && before == after
}

/// Removes a key, and its table if the table is then empty.
fn take(table: &mut Table, key: &Key) -> Option<Value> {
  if key.section().is_empty() {
    return table.remove(key.leaf());
  }
  let section = table.get_mut(key.section())?.as_table_mut()?;
  let taken = section.remove(key.leaf());
  if section.is_empty() {
    table.remove(key.section());
  }
  taken
}

/// Below the line where the printed example has this key commented out.
fn below_its_example(document: &str, key: &Key, value: &str) -> Option<String> {
  let example = format!("# {} = ", key.leaf());
  let (mut section, mut end) = ("", 0);
  for line in document.split_inclusive('\n') {
    end += line.len();
    let header = line.trim().strip_prefix('[').and_then(|line| line.strip_suffix(']'));
    section = header.map_or(section, str::trim);
    if section == key.section() && line.starts_with(&example) && line.ends_with('\n') {
      let (before, after) = document.split_at_checked(end)?;
      return Some(format!("{before}{} = {value}\n{after}", key.leaf()));
    }
  }
  None
}

/// After all comments, in a document without keys.
fn at_the_end(document: &str, key: &Key, value: &str) -> Option<String> {
  if !document.parse::<Table>().ok()?.is_empty() {
    return None;
  }
  let end = if document.is_empty() || document.ends_with('\n') { "" } else { "\n" };
  let header = match key.section() {
    "" => String::new(),
    section if document.is_empty() => format!("[{section}]\n"),
    section => format!("\n[{section}]\n"),
  };
  Some(format!("{document}{end}{header}{} = {value}\n", key.leaf()))
}

/// The position of the value, or the end of its table.
fn in_place(document: &str, key: &Key, value: &str) -> Option<String> {
  let mut document = document.parse::<DocumentMut>().ok()?;
  let mut new = value.parse::<toml_edit::Value>().ok()?;
  let table = table_of(&mut document, key)?;
  if let Some(Item::Value(old)) = table.get_mut(key.leaf()) {
    // Its comment and the spaces around it.
    *new.decor_mut() = old.decor().clone();
    *old = new;
  } else {
    table.remove(key.leaf());
    table.insert(key.leaf(), Item::Value(new));
  }
  Some(document.to_string())
}

/// The table of a key; created if it does not exist.
fn table_of<'d>(document: &'d mut DocumentMut, key: &Key) -> Option<&'d mut dyn TableLike> {
  let section = key.section();
  if section.is_empty() {
    return Some(document.as_table_mut());
  }
  let root = document.as_table_mut();
  root.entry(section).or_insert_with(|| Item::Table(toml_edit::Table::new())).as_table_like_mut()
}

/// Removes the line of a value, and keeps the comments around it.
fn without_line(document: &str, key: &Key) -> Option<String> {
  let ValueOrigin::File { line } =
    Effective::parse(document, Some(Path::new("/"))).ok()?.origin(key)
  else {
    return Some(document.to_owned());
  };
  let lines = document.split_inclusive('\n').enumerate();
  Some(lines.filter(|(n, _)| n + 1 != line).map(|(_, line)| line).collect())
}

/// Removes the value wherever it is, without the comments that belong to it.
fn without_item(document: &str, key: &Key) -> Option<String> {
  let mut document = document.parse::<DocumentMut>().ok()?;
  if let Some(table) = table_of(&mut document, key) {
    table.remove(key.leaf());
  }
  Some(document.to_string())
}

#[cfg(test)]
mod tests {
  use {
    super::{
      super::{example::example, key::find},
      *,
    },
    proptest::prelude::*,
  };

  fn key(name: &str) -> &'static Key {
    find(name).unwrap()
  }

  fn words(text: &str) -> Vec<String> {
    text.split('|').map(str::to_owned).collect()
  }

  fn value(name: &str, typed: &str) -> Result<String, Rejected> {
    value_of(key(name), &words(typed), Some(Path::new("/home/ann")))
  }

  #[test]
  fn words_are_read_as_their_key_wants_them() {
    for (name, typed, expected) in [
      ("files.idle_ms", "0", "0"),
      ("gate.enabled", "true", "true"),
      ("markers", "id", "\"id\""),
      ("markers", "\"id\"", "\"id\""),
      ("notify.channel", "123", "\"123\""),
      ("notify.channel", "say \"it\"", "'say \"it\"'"),
      ("workspaces", "~/notes", "[\"~/notes\"]"),
      ("workspaces", "[]", "[]"),
      ("workspaces", "/a|/b", "[\"/a\", \"/b\"]"),
      ("files.owners", "ann|1000", "[\"ann\", 1000]"),
      ("notify.command", "say|5", "[\"say\", \"5\"]"),
      (
        "trust.rule",
        "[{source = \"exec\", trust = \"hostile\"}]",
        "[{ source = \"exec\", trust = \"hostile\" }]",
      ),
    ] {
      assert_eq!(value(name, typed).as_deref(), Ok(expected), "{name} {typed}");
    }
  }

  #[test]
  fn what_is_no_value_is_reported_in_the_form_of_the_key() {
    for (name, typed, message, hint) in [
      ("markers", "warp", "found `warp`", Some("did you mean `wrap`?")),
      ("files.idle_ms", "soon", "a whole number from 0 to 86400000, found a string", None),
      ("files.max_bytes", "0", "from 1 to 67108864, found 0", None),
      ("workspaces", "notes", "absolute or begins with `~/`, found `notes`", Some("try `~/notes`")),
      ("notify.channel", "a\nb", "contains a control character", None),
    ] {
      let rejected = value(name, typed).unwrap_err();
      assert!(rejected.message.contains(message), "{name} {typed}: {rejected:?}");
      assert_eq!(rejected.hint.as_deref(), hint, "{name} {typed}");
    }
  }

  #[test]
  fn the_key_that_was_meant_is_found() {
    assert_eq!(suggest("files.idel_ms"), Some("files.idle_ms"));
    assert_eq!(suggest("sensitivty"), Some("detection.sensitivity"));
    assert_eq!(suggest("marker"), Some("markers"));
    assert_eq!(suggest("telemetry"), None);
  }

  const COMMENTED: &str = "# mine\nmarkers = 'wrap'   # as I like it\n\n# about files\n[files]\n\
    # long\nidle_ms=5000 # ms\n\n[log] # last\nlevel = \"info\"\n";

  #[test]
  fn a_value_is_changed_and_nothing_around_it() {
    let changed = set(COMMENTED, key("files.idle_ms"), "7").unwrap();
    assert_eq!(changed, COMMENTED.replace("idle_ms=5000 #", "idle_ms=7 #"));
    let changed = set(COMMENTED, key("markers"), "\"id\"").unwrap();
    assert_eq!(changed, COMMENTED.replace("'wrap'", "\"id\""));
  }

  #[test]
  fn a_new_value_is_in_its_table() {
    let changed = set(COMMENTED, key("files.max_bytes"), "9").unwrap();
    let expected = COMMENTED.replace("idle_ms=5000 # ms\n", "idle_ms=5000 # ms\nmax_bytes = 9\n");
    assert_eq!(changed, expected);
    let changed = set(COMMENTED, key("gate.enabled"), "true").unwrap();
    assert_eq!(changed, format!("{COMMENTED}\n[gate]\nenabled = true\n"));
    let changed = set("[log]\nlevel = \"warn\"\n", key("preset"), "\"quiet\"").unwrap();
    assert!(changed.starts_with("preset = \"quiet\"\n"), "{changed}");
    assert_eq!(set("", key("log.level"), "\"warn\"").unwrap(), "[log]\nlevel = \"warn\"\n");
    assert_eq!(
      set("# only this", key("markers"), "\"id\"").unwrap(),
      "# only this\nmarkers = \"id\"\n"
    );
    let inline = set("log = { level = \"warn\" }\n", key("log.format"), "\"json\"").unwrap();
    assert_eq!(inline, "log = { level = \"warn\" , format = \"json\" }\n");
    let dotted = set("files.idle_ms = 1\n", key("files.max_bytes"), "2").unwrap();
    assert_eq!(dotted, "files.idle_ms = 1\nfiles.max_bytes = 2\n");
  }

  #[test]
  fn in_the_printed_example_a_value_is_below_its_explanation() {
    for key in KEYS {
      let value = key.value(&Config::default()).to_string();
      let changed = set(&example(), key, &value).unwrap();
      let line = format!("# {0} = {value}\n{0} = {value}\n", key.leaf());
      assert!(changed.contains(&line), "{}", key.name);
      assert_eq!(unset(&changed, key).unwrap(), example(), "{}", key.name);
    }
  }

  #[test]
  fn a_value_is_taken_out_and_its_comments_stay() {
    let changed = unset(COMMENTED, key("files.idle_ms")).unwrap();
    assert_eq!(changed, COMMENTED.replace("idle_ms=5000 # ms\n", ""));
    assert_eq!(unset(COMMENTED, key("files.owners")).unwrap(), COMMENTED);
    let rules = "[log]\nlevel = \"warn\"\n[[trust.rule]]\nsource = \"exec\"\ntrust = \"hostile\"\n";
    assert_eq!(unset(rules, key("trust.rule")).unwrap(), "[log]\nlevel = \"warn\"\n");
    let long = "workspaces = [\n  \"/a\", # one\n]\nmarkers = \"id\"\n";
    assert_eq!(unset(long, key("workspaces")).unwrap(), "markers = \"id\"\n");
  }

  #[test]
  fn rules_of_trust_are_replaced_as_a_whole() {
    let rules = "[[trust.rule]]\nsource = \"exec\"\ntrust = \"hostile\"\n";
    let changed = set(rules, key("trust.rule"), "[]").unwrap();
    assert_eq!(Effective::parse(&changed, None).unwrap().config, Config::default());
  }

  #[test]
  fn a_broken_document_is_not_changed() {
    for broken in ["=", "files = 1\n", "[files]\nidle_ms = \n", "a = 1\na = 2\n"] {
      assert_eq!(set(broken, key("files.idle_ms"), "1"), None, "{broken}");
    }
  }

  #[test]
  fn what_looks_like_the_example_within_a_text_is_left_alone() {
    let hidden = "agent.program = \"\"\"\n[log]\n# level = x\n\"\"\"\n";
    let changed = set(hidden, key("log.level"), "\"warn\"").unwrap();
    assert!(changed.starts_with(hidden), "{changed}");
  }

  proptest! {
    #[test]
    fn any_document_and_any_word_are_answered(
      text in "([a-z\\[\\]\\.=\"#0-9\n ]{0,120})", word in "\\PC{0,20}", at in 0..KEYS.len(),
    ) {
      let key = &KEYS[at];
      if let Ok(value) = value_of(key, &[word], None)
        && let Some(changed) = set(&text, key, &value)
      {
        let wanted = value.parse::<Value>().unwrap();
        prop_assert!(is_only_change(&text, &changed, key, Some(&wanted)));
        prop_assert!(unset(&changed, key).is_some());
      }
    }
  }
}
