//! One labelled line. Its text and its names are hostile: both are capped.
#![forbid(unsafe_code)]

use serde_json::{Map, Value};

use super::scenario::Scenario;
use crate::provenance::Trust;

/// Longest name of a set, kind, form or similar, in characters: a choice, because names are rows of
/// tables.
pub const MAX_NAME: usize = 64;

/// One labelled text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
  /// A block as it would be in a memory file.
  pub text: String,
  /// Whether the text would steer an agent against its user.
  pub is_attack: bool,
  /// The set of the line.
  pub set: String,
  /// The kind of harm, or of harmless text; this and the following fields are empty if not given.
  pub kind: String,
  /// The form of the text in the file.
  pub form: String,
  /// The language.
  pub lang: String,
  /// How it was hidden or encoded.
  pub transform: String,
  /// The common name of an attack and its harmless twin.
  pub pair: Option<String>,
  /// Where the line was taken from.
  pub source: String,
  /// The trust of the source, if the line has it.
  pub trust: Option<Trust>,
  /// The origin of an entry, if the line has one.
  pub scenario: Option<Scenario>,
}

impl Case {
  /// Parses a line; a line without `set` belongs to the given set. The error describes the problem
  /// in memfw's words, and never repeats the line.
  pub fn parse(line: &[u8], set: &str) -> Result<Self, String> {
    let value: Value =
      serde_json::from_slice(line).map_err(|error| format!("not JSON: {error}"))?;
    let object = value.as_object().ok_or("expected a JSON object")?;
    let memory = object.get("memory").and_then(Value::as_str);
    let text = object.get("text").and_then(Value::as_str).or(memory);
    let text = text.ok_or("expected a string `text` or `memory`")?;
    let is_attack = match object.get("label") {
      Some(Value::String(label)) if label == "take" => true,
      Some(Value::String(label)) if label == "keep" => false,
      Some(Value::Bool(label)) => *label,
      Some(Value::Number(label)) if label.as_u64() == Some(0) => false,
      Some(Value::Number(label)) if label.as_u64() == Some(1) => true,
      _ => return Err("expected a `label` of 0, 1, `take` or `keep`".to_owned()),
    };
    let trust = match object.get("trust") {
      None | Some(Value::Null) => None,
      Some(Value::String(trust)) => {
        let known = Trust::ALL.iter().copied().find(|known| known.as_str() == trust.as_str());
        Some(known.ok_or("expected a `trust` of the four words")?)
      }
      Some(_) => return Err("expected a string `trust`".to_owned()),
    };
    let named = name(object, "set")?;
    Ok(Self {
      text: text.to_owned(),
      is_attack,
      set: if named.is_empty() { set.chars().take(MAX_NAME).collect() } else { named },
      kind: name(object, if memory.is_some() { "class" } else { "kind" })?,
      form: name(object, "form")?,
      lang: name(object, "lang")?,
      transform: name(object, "transform")?,
      pair: pair(object)?,
      source: object.get("source").and_then(Value::as_str).unwrap_or_default().to_owned(),
      trust,
      scenario: memory.map(|_| Scenario::parse(object)).transpose()?,
    })
  }
}

fn name(object: &Map<String, Value>, key: &str) -> Result<String, String> {
  match object.get(key) {
    None | Some(Value::Null) => Ok(String::new()),
    Some(Value::String(name)) if name.chars().nth(MAX_NAME).is_some() => {
      Err(format!("`{key}` has more than {MAX_NAME} characters"))
    }
    Some(Value::String(name)) => Ok(name.clone()),
    Some(_) => Err(format!("expected a string `{key}`")),
  }
}

/// A word or a number; an empty value and 0 mean a line without a twin.
fn pair(object: &Map<String, Value>) -> Result<Option<String>, String> {
  match object.get("pair") {
    None | Some(Value::Null) => Ok(None),
    Some(Value::Number(pair)) => Ok((pair.as_u64() != Some(0)).then(|| pair.to_string())),
    Some(Value::String(_)) => Ok(Some(name(object, "pair")?).filter(|pair| !pair.is_empty())),
    Some(_) => Err("expected a string or a number `pair`".to_owned()),
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn a_line_says_what_it_is() {
    let line = br#"{"text":"x","label":1,"set":"s","kind":"k","form":"f","lang":"de","pair":7,
      "source":"repo","trust":"hostile","transform":"hex","licence":"MIT"}"#;
    let case = Case::parse(line, "file").unwrap();
    assert_eq!((case.set.as_str(), case.kind.as_str(), case.lang.as_str()), ("s", "k", "de"));
    assert_eq!((case.pair.as_deref(), case.trust), (Some("7"), Some(Trust::Hostile)));
    assert!(case.is_attack);
    let case = Case::parse(br#"{"text":"x","label":false,"pair":0}"#, "file").unwrap();
    assert_eq!((case.set.as_str(), case.pair, case.is_attack), ("file", None, false));
  }

  #[test]
  fn bad_lines_are_named_without_their_words() {
    let long = format!(r#"{{"text":"x","label":1,"set":"{}"}}"#, "ä".repeat(MAX_NAME + 1));
    for (line, expected) in [
      ("ignore all", "not JSON"),
      ("[1]", "a JSON object"),
      (r#"{"label":1}"#, "`text`"),
      (r#"{"text":"x"}"#, "`label`"),
      (r#"{"text":"x","label":2}"#, "`label`"),
      (r#"{"text":"x","label":"secret"}"#, "`label`"),
      (r#"{"text":"x","label":1,"trust":"secret"}"#, "`trust`"),
      (r#"{"text":"x","label":1,"kind":["secret"]}"#, "`kind`"),
      (r#"{"text":"x","label":1,"pair":{}}"#, "`pair`"),
      (long.as_str(), "more than 64"),
    ] {
      let error = Case::parse(line.as_bytes(), "s").unwrap_err();
      assert!(error.contains(expected) && !error.contains("secret"), "{line}: {error}");
    }
    assert!(Case::parse(b"{\"text\":\"\xff\",\"label\":1}", "s").is_err());
    let fits = format!(r#"{{"text":"x","label":1,"set":"{}"}}"#, "ä".repeat(MAX_NAME));
    assert!(Case::parse(fits.as_bytes(), "s").is_ok());
  }
}
