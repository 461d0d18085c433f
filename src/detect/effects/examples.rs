//! The examples of the frames: texts that a frame must hit, and texts that it must not hit.
#![forbid(unsafe_code)]

use super::{frame::builtin, known::Setting, read::read};

/// The examples of the embedded frames that do not do what they say: the frame, and what is wrong.
pub fn wrong_examples() -> Vec<String> {
  let mut wrong = Vec::new();
  for frame in &builtin().list {
    let has = |text: &str| {
      let found = read(text.as_bytes(), &Setting::default());
      found.iter().any(|one| one.effect == frame.effect && one.strength >= frame.strength)
    };
    let missed = frame.hits.iter().filter(|text| !has(text));
    wrong.extend(missed.map(|text| format!("{} misses: {text}", frame.id)));
    let hit = frame.misses.iter().filter(|text| has(text));
    wrong.extend(hit.map(|text| format!("{} hits: {text}", frame.id)));
  }
  wrong
}
