//! One event of a transcript: any bytes, as JSON or not.
#![no_main]

use libfuzzer_sys::fuzz_target;
use memfw::openclaw::transcript::parse::{self, Blocks};

fuzz_target!(|bytes: &[u8]| {
  for blocks in [Blocks::NameSender, Blocks::ProveNothing] {
    if let Ok(event) = parse::event(bytes, blocks) {
      // The quick way to the time of an event is the same as the long one.
      assert_eq!(parse::time_of(bytes), event.at);
    }
  }
});
