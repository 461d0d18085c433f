//! Errors in a rule file name their place.
#![forbid(unsafe_code)]

use super::*;

const RULE: &str = "[[rule]]\nid = \"a\"\ncode = \"concealment\"\nseverity = \"high\"\n\
                    kind = \"signature\"\nwhy = \"w\"\n";

fn problems(text: &str) -> Vec<String> {
  let errors = load(&[], &[("user.toml", text)]).err().unwrap();
  let told = errors.iter().map(|error| match &error.hint {
    Some(hint) => format!("{error} ({hint})"),
    None => error.to_string(),
  });
  told.collect()
}

#[test]
fn every_problem_names_file_place_rule_and_reason() {
  for (text, expected) in [
    (
      format!("{RULE}words = [[\"x\"]]\npattern = '('\n"),
      "user.toml:8:11: rule `a`: the pattern does not compile: unclosed group (patterns are regular \
       expressions without look-around and back-references)",
    ),
    (format!("{RULE}all = [\"nothing\"]\n"), "user.toml:7:8: rule `a`: unknown class `nothing`"),
    (
      RULE.to_owned(),
      "user.toml:2:6: rule `a`: `all` or `words` must name at least one class that is always there \
       (words = [[\"one\", \"another\"]])",
    ),
    (
      format!("{RULE}words = [[\"\"]]\n"),
      "user.toml:2:6: rule `a`: an empty word would match everywhere",
    ),
    (
      format!("{RULE}words = [[\"x\"]]\nreach = \"far\"\n"),
      "user.toml:8:9: rule `a`: unknown reach `far`, expected `sentence` or `near`",
    ),
    (
      format!("{RULE}words = [[\"x\"]]\nmodes = [\"read\"]\n"),
      "user.toml:8:10: rule `a`: unknown mode `read`, expected `write`, `recall` or `document`",
    ),
    (
      format!("{RULE}words = [[\"x\"]]\nscope = \"wide\"\n"),
      "user.toml:8:9: rule `a`: unknown scope `wide`, expected `strict` or `relaxed`",
    ),
    (
      format!("{RULE}words = [[\"x\"]]\nguards = [\"x\"]\n"),
      "user.toml:8:11: rule `a`: unknown guard `x`, expected `negated`, `quoted` or `reported`",
    ),
    (
      RULE.replace("concealment", "concealmint"),
      "user.toml:3:8: rule `a`: unknown finding code `concealmint` (did you mean `concealment`?)",
    ),
    (
      RULE.replace("high", "worst"),
      "user.toml:4:12: rule `a`: unknown severity `worst`, expected `info`, `low`, `medium`, `high` or `critical`",
    ),
    (
      RULE.replace("signature", "law"),
      "user.toml:5:8: rule `a`: unknown kind `law`, expected `signature` or `trigger`",
    ),
    (RULE.replace("\"w\"", "\" \""), "user.toml:6:7: rule `a`: `why` is empty"),
    (
      format!("{RULE}words = [[\"x\"]]\n{RULE}words = [[\"x\"]]\n"),
      "user.toml:9:6: rule `a`: the id is used already, in `user.toml`, line 2 \
       (choose another id; a rule cannot be replaced)",
    ),
    (
      "[[class]]\nname = \"c\"\nwords = [\"*\"]\n".to_owned(),
      "user.toml:2:8: class `c`: an empty word would match everywhere",
    ),
  ] {
    assert_eq!(problems(&text), [expected], "{text}");
  }
}

#[test]
fn what_is_no_rule_file_has_a_place_too() {
  let unknown = problems(&format!("{RULE}colour = 1\n"));
  assert!(unknown[0].starts_with("user.toml:7:1: unknown field `colour`"), "{unknown:?}");
  let broken = problems("[[rule]]\nid = = 3\n");
  assert!(broken[0].starts_with("user.toml:2:"), "{broken:?}");
}

#[test]
fn classes_of_other_files_can_be_widened_and_not_changed() {
  let class = "[[class]]\nname = \"fruit\"\nwords = [\"apple\"]\nconfirm = 'a'\n";
  let wider = "[[class]]\nname = \"fruit\"\nwords = [\"pear\"]\n";
  let rule = format!("{RULE}all = [\"fruit\"]\n");
  let rules = load(&[("class.toml", class)], &[("a.toml", wider), ("b.toml", &rule)]).unwrap();
  assert_eq!(rules.rules().len(), 1);
  let again = load(&[("class.toml", class)], &[("a.toml", class)]).err().unwrap();
  assert_eq!(
    again[0].to_string(),
    "a.toml:2:8: class `fruit`: the class is there already and cannot get another pattern"
  );
  let near = load(&[("class.toml", class)], &[("b.toml", &rule.replace("fruit", "friut"))]);
  assert_eq!(near.err().unwrap()[0].hint.as_deref(), Some("did you mean `fruit`?"));
}

#[test]
fn all_problems_come_at_once() {
  let text = format!(
    "{}{}",
    RULE.replace("\"a\"", "\"one\""),
    RULE.replace("\"a\"", "\"two\"").replace("high", "worst")
  );
  assert_eq!(problems(&text).len(), 2);
}

#[test]
fn what_users_write_has_caps() {
  let words = vec!["\"x\""; MAX_WORDS + 1].join(", ");
  let examples = vec!["\"x\""; MAX_EXAMPLES + 1].join(", ");
  let rule = format!("{RULE}words = [[\"x\"]]\n");
  let many: String = (0..MAX_USER_RULES + 2)
    .map(|n| RULE.replace("\"a\"", &format!("\"r{n}\"")) + "all = [\"c\"]\n")
    .collect();
  for (text, expected) in [
    (format!("{RULE}words = [[{words}]]\n"), "words, at most"),
    (format!("[[class]]\nname = \"c\"\nwords = [{words}]\n"), "words, at most"),
    (format!("{rule}hits = [{examples}]\n"), "examples, at most"),
    (format!("{rule}misses = [\"{}\"]\n", "x".repeat(MAX_EXAMPLE_BYTES + 1)), "an example has"),
    (rule.replace("\"w\"", &format!("\"{}\"", "w".repeat(MAX_WHY_CHARS + 1))), "`why` has more"),
    (rule.replace("\"w\"", "\"\\u001b[2J\""), "`why` must be one line"),
    (format!("[[class]]\nname = \"c\"\nwords = [\"x\"]\n{many}"), "more than 256 rules"),
  ] {
    let problems = problems(&text);
    assert!(problems.len() == 1 && problems[0].contains(expected), "{expected}: {problems:?}");
    // The built-in rules have no empty word.
    assert!(expected == "an empty word" || load(&[("built-in.toml", &text)], &[]).is_ok());
  }
}

#[test]
fn there_is_an_end_of_classes() {
  let groups = vec!["[\"x\"]"; super::super::lexicon::MAX_CLASSES + 1].join(", ");
  let found = problems(&format!("{RULE}words = [{groups}]\n"));
  let expected = "user.toml:2:6: rule `a`: there are too many word classes \
                  (put words that mean the same into one class)";
  assert_eq!(found[0], expected);
}
