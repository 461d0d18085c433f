//! Trust rules as a setting: an array of tables, each with a pattern of sources and a word.
#![forbid(unsafe_code)]

use {
  super::{
    nearest::nearest,
    setting::{Complaint, Rules, Setting, kind},
    word::list_of,
  },
  crate::provenance::{SourcePattern, Trust, TrustRule},
  std::ops::Range,
  toml::{Spanned, Table, Value, de::DeValue},
};

/// The keys of a rule.
const KEYS: [&str; 2] = ["source", "trust"];

impl Setting for TrustRule {
  fn read(value: &Spanned<DeValue<'_>>, rules: &Rules<'_>) -> Result<Self, Complaint> {
    let name = rules.name;
    let complain =
      |span: Range<usize>, message: String, hint| Err(Complaint { span, message, hint });
    let form = || Some(format!("write `[[{name}]]` and below it `source = ...`, `trust = ...`"));
    let DeValue::Table(table) = value.get_ref() else {
      let message = format!("`{name}` must be an array of tables, found {}", kind(value.get_ref()));
      return complain(value.span(), message, form());
    };
    let (mut source, mut trust) = (None, None);
    for (key, value) in table {
      let Some(text) = value.get_ref().as_str() else {
        let found = kind(value.get_ref());
        let message = format!("`{}` of `{name}` must be a string, found {found}", key.get_ref());
        return complain(value.span(), message, None);
      };
      match key.get_ref().as_ref() {
        "source" => match SourcePattern::new(text) {
          Ok(pattern) => source = Some(pattern),
          Err(error) => {
            let message = format!("`source` of `{name}` is not a pattern: {error}");
            return complain(value.span(), message, None);
          }
        },
        "trust" => {
          let Ok(level) = text.parse::<Trust>() else {
            let words: Vec<&str> = Trust::ALL.iter().map(|level| level.as_str()).collect();
            let message =
              format!("`trust` of `{name}` must be {}, found `{text}`", list_of(&words));
            let near = nearest(text, words).map(|word| format!("did you mean `{word}`?"));
            return complain(value.span(), message, near);
          };
          trust = Some(level);
        }
        other => {
          let message = format!("unknown key `{other}` in `[[{name}]]`");
          let near = nearest(other, KEYS).map(|key| format!("did you mean `{key}`?"));
          return complain(key.span(), message, near.or_else(form));
        }
      }
    }
    match (source, trust) {
      (Some(source), Some(trust)) => Ok(Self { source, trust }),
      (source, _) => {
        let missing = if source.is_none() { "source" } else { "trust" };
        complain(value.span(), format!("a rule of `{name}` has no `{missing}`"), form())
      }
    }
  }

  fn show(&self) -> Value {
    let mut table = Table::new();
    table.insert("source".to_owned(), Value::String(self.source.as_str().to_owned()));
    table.insert("trust".to_owned(), Value::String(self.trust.as_str().to_owned()));
    Value::Table(table)
  }
}

#[cfg(test)]
mod tests {
  use {
    super::*,
    crate::config::{Effective, KEYS as ALL_KEYS},
  };

  fn problems(text: &str) -> Vec<String> {
    let problems = Effective::parse(text, None).unwrap_err();
    problems.iter().map(|one| format!("{one} ({})", one.hint.as_deref().unwrap_or("-"))).collect()
  }

  #[test]
  fn rules_keep_their_order_and_can_be_shown() {
    let text = "[[trust.rule]]\nsource = \"web_fetch:*.example.com\"\ntrust = \"verified\"\n\
      [[trust.rule]]\ntrust = \"hostile\"\nsource = \"mcp:*\"\n";
    let effective = Effective::parse(text, None).unwrap();
    let rules = &effective.config.trust_rules;
    let found: Vec<_> = rules.iter().map(|rule| (rule.source.as_str(), rule.trust)).collect();
    let expected = [("web_fetch:*.example.com", Trust::Verified), ("mcp:*", Trust::Hostile)];
    assert_eq!(found, expected);
    let key = ALL_KEYS.iter().find(|key| key.name == "trust.rule").unwrap();
    let shown = format!("trust.rule = {}", key.value(&effective.config));
    assert_eq!(Effective::parse(&shown, None).unwrap().config, effective.config);
  }

  #[test]
  fn a_wrong_rule_is_reported_with_its_place() {
    let form = "write `[[trust.rule]]` and below it `source = ...`, `trust = ...`";
    for (text, expected) in [
      (
        "[[trust.rule]]\nsource = \"exec\"\n",
        format!("line 1, column 1: a rule of `trust.rule` has no `trust` ({form})"),
      ),
      (
        "[[trust.rule]]\nsource = \"exec\"\ntrust = \"trused\"\n",
        "line 3, column 9: `trust` of `trust.rule` must be `hostile`, `untrusted`, `verified` or \
         `trusted`, found `trused` (did you mean `trusted`?)"
          .to_owned(),
      ),
      (
        "[[trust.rule]]\nsuorce = \"exec\"\ntrust = \"trusted\"\n",
        "line 2, column 1: unknown key `suorce` in `[[trust.rule]]` (did you mean `source`?)"
          .to_owned(),
      ),
      (
        "[[trust.rule]]\nsource = \"\"\ntrust = \"trusted\"\n",
        "line 2, column 10: `source` of `trust.rule` is not a pattern: it is empty (-)".to_owned(),
      ),
      (
        "[trust]\nrule = [\"exec\"]\n",
        format!(
          "line 2, column 9: `trust.rule` must be an array of tables, found a string ({form})"
        ),
      ),
      (
        "[[trust.rule]]\nsource = 1\n",
        "line 2, column 10: `source` of `trust.rule` must be a string, found an integer (-)"
          .to_owned(),
      ),
    ] {
      assert_eq!(problems(text), [expected], "{text}");
    }
  }
}
