//! A session's file and `sessions.json`, parted by a byte 0.
#![no_main]

#[path = "common.rs"]
mod common;

use common::State;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
  let mut parts = bytes.splitn(2, |byte| *byte == 0);
  let state = State::new();
  state.file("sessions/s.jsonl", parts.next().unwrap_or_default());
  if let Some(registry) = parts.next() {
    state.file("sessions/sessions.json", registry);
  }
  state.ask_everything();
});
