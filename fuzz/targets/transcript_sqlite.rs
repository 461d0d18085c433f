//! A database: after a byte 0 all of its bytes, else changes to the one that OpenClaw wrote, each a
//! place (three bytes), a length (one byte) and the bytes.
#![no_main]

#[path = "common.rs"]
mod common;

use common::State;
use libfuzzer_sys::fuzz_target;

const REAL: &[u8] = include_bytes!(
  "../../fixtures/openclaw/2026.9.6/agents/main/agent/openclaw-agent.sqlite"
);

fuzz_target!(|bytes: &[u8]| {
  let Some((kind, mut rest)) = bytes.split_first() else { return };
  let state = State::new();
  if *kind == 0 {
    state.file("agent/openclaw-agent.sqlite", rest);
  } else {
    let mut database = REAL.to_vec();
    while let Some(([a, b, c, len], after)) = rest.split_first_chunk::<4>() {
      let at = usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c);
      let at = at % database.len();
      let (change, after) = after.split_at(after.len().min(usize::from(*len)));
      let end = (at + change.len()).min(database.len());
      database[at..end].copy_from_slice(&change[..end - at]);
      rest = after;
    }
    state.file("agent/openclaw-agent.sqlite", &database);
  }
  state.ask_everything();
});
