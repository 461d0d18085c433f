//! A moment that a person typed.
#![forbid(unsafe_code)]

use jiff::tz::TimeZone;

use crate::{
  os::{Clock as _, SystemClock},
  terminal::{failure::Failure, moment::moment},
};

/// The moment, in microseconds since the epoch.
pub fn time_of(text: &str) -> Result<i64, Failure> {
  moment(text, SystemClock.now(), &TimeZone::system()).ok_or_else(|| {
    Failure::usage(format!("`{text}` is not a time"))
      .hint("write a time as `2026-11-20`, `2026-11-20 14:00`, `2h ago` or `3d`")
  })
}
