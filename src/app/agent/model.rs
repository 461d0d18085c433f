//! The agent framework's own model as a judge: one bare message to it, without a session, tools or memory.
#![forbid(unsafe_code)]

use std::{ffi::OsString, path::Path};

use serde::Deserialize;

use crate::daemon::judge::Program;

/// The program that asks the model, and the function that finds the answer in its output. The
/// prompt is one argument: the program reads no standard input.
pub(super) fn judge_program(program: Option<&Path>, model: &str) -> Result<Program, String> {
  let program =
    program.ok_or("`judge.via = \"agent\"` needs the agent's own program, which was not found")?;
  let mut words = vec![program.as_os_str().to_owned()];
  words.extend(["infer", "model", "run", "--local"].map(OsString::from));
  // With `=`, so that no part of the value can be taken for an option.
  words.extend((!model.is_empty()).then(|| OsString::from(format!("--model={model}"))));
  words.push("--prompt".into());
  Ok(Program { words, after: vec!["--json".into()], answer })
}

#[derive(Deserialize)]
struct Printed {
  outputs: Vec<Output>,
}

#[derive(Deserialize)]
struct Output {
  text: Option<String>,
}

/// The one text that the model gave.
fn answer(printed: &[u8]) -> Option<String> {
  let Printed { outputs } = serde_json::from_slice(printed).ok()?;
  let [output] = <[Output; 1]>::try_from(outputs).ok()?;
  output.text
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn the_prompt_is_one_argument_and_no_option() {
    let asked = judge_program(Some(Path::new("/bin/claw")), "p/m --x").unwrap();
    let words: Vec<_> = asked.words.iter().map(|word| word.to_str().unwrap()).collect();
    let expected = ["/bin/claw", "infer", "model", "run", "--local", "--model=p/m --x", "--prompt"];
    assert_eq!((words, asked.after), (expected.to_vec(), vec!["--json".into()]));
    assert!(judge_program(None, "").unwrap_err().contains("was not found"));
  }

  #[test]
  fn only_one_text_is_an_answer() {
    let one = br#"{"provider":"p","model":"m","outputs":[{"text":"yes"}]}"#;
    assert_eq!(answer(one).as_deref(), Some("yes"));
    for bad in [&b"yes"[..], b"", b"{}", br#"{"outputs":[]}"#, br#"{"outputs":[{"text":1}]}"#] {
      assert_eq!(answer(bad), None);
    }
    assert_eq!(answer(br#"{"outputs":[{"text":"a"},{"text":"b"}]}"#), None);
    assert_eq!(answer(br#"{"outputs":[{"kind":"image"}]}"#), None);
  }
}
