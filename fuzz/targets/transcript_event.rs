//! One event of a transcript: any bytes, as JSON or not.
#![no_main]

use libfuzzer_sys::fuzz_target;
use memfw::openclaw::transcript::parse;

fuzz_target!(|bytes: &[u8]| {
  if let Ok(event) = parse::event(bytes) {
    // The quick way to the time of an event is the same as the long one.
    assert_eq!(parse::time_of(bytes), event.at);
  }
});
