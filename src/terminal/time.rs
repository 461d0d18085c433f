//! Times for people and programs; this module reads no clock.
#![forbid(unsafe_code)]

use jiff::tz::Offset;

use crate::os::clock::timestamp;
pub use crate::os::clock::{local_ahead, rfc3339};

const SECOND: i64 = 1_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
/// Microseconds of a day.
pub const DAY: i64 = 24 * HOUR;

/// A time in words: `now`, `5 min ago`, `3 h ago`, `2 d ago`, and the date after 30 days or
/// for a future time.
pub fn short(micros: i64, now: i64) -> String {
  match now.saturating_sub(micros) {
    age @ 0..MINUTE if age < MINUTE => "now".to_owned(),
    age @ MINUTE..HOUR => format!("{} min ago", age / MINUTE),
    age @ HOUR..DAY => format!("{} h ago", age / HOUR),
    age if (DAY..30 * DAY).contains(&age) => format!("{} d ago", age / DAY),
    _ => date(micros),
  }
}

/// A time for an ordered list, in UTC: `14:00:03` within a day, `2026-11-20 14:00` before.
pub fn exact(micros: i64, now: i64) -> String {
  let format =
    if (0..DAY).contains(&now.saturating_sub(micros)) { "%H:%M:%S" } else { "%Y-%m-%d %H:%M" };
  timestamp(micros).strftime(format).to_string()
}

/// The day of a time in UTC: `2026-11-21`.
pub fn date(micros: i64) -> String {
  timestamp(micros).strftime("%Y-%m-%d").to_string()
}

/// A time as RFC 3339 in a local time that is `ahead` of UTC, in microseconds: `2026-11-21T13:00:00+01:00`.
pub fn local(micros: i64, ahead: i64) -> String {
  match offset(ahead) {
    Some(offset) => timestamp(micros).display_with_offset(offset).to_string(),
    None => rfc3339(micros),
  }
}

/// The name of a local time that is `ahead` of UTC, in microseconds: `UTC`, `UTC+01:00`.
pub fn zone(ahead: i64) -> String {
  let text = offset(ahead).map(|offset| timestamp(0).display_with_offset(offset).to_string());
  let shift = text.as_deref().and_then(|text| text.get("1970-01-01T00:00:00".len()..));
  format!("UTC{}", shift.unwrap_or_default())
}

/// `None` for UTC itself, and for what is no local time.
fn offset(ahead: i64) -> Option<Offset> {
  let seconds = i32::try_from(ahead / SECOND).ok().filter(|seconds| *seconds != 0)?;
  Offset::from_seconds(seconds).ok()
}

#[cfg(test)]
mod tests {
  use super::*;

  const NOON: i64 = 1_795_262_400 * SECOND;

  #[test]
  fn programs_get_whole_seconds_in_utc() {
    assert_eq!(rfc3339(NOON), "2026-11-21T12:00:00Z");
    assert_eq!(rfc3339(NOON + 999_999), "2026-11-21T12:00:00Z");
    assert_eq!(rfc3339(-1), "1969-12-31T23:59:59Z");
  }

  #[test]
  fn people_get_an_age_then_a_date() {
    let ago = |age| short(NOON - age, NOON);
    assert_eq!(ago(0), "now");
    assert_eq!(ago(MINUTE - 1), "now");
    assert_eq!(ago(MINUTE), "1 min ago");
    assert_eq!(ago(3 * HOUR + 59 * MINUTE), "3 h ago");
    assert_eq!(ago(29 * DAY), "29 d ago");
    assert_eq!(ago(30 * DAY), "2026-10-22");
    assert_eq!(ago(-HOUR), "2026-11-21", "a clock that was set back");
  }

  #[test]
  fn rows_of_a_list_are_distinguished_by_the_second_and_then_by_the_minute() {
    let exact = |age| exact(NOON - age, NOON);
    assert_eq!((exact(0), exact(SECOND)), ("12:00:00".to_owned(), "11:59:59".to_owned()));
    assert_eq!(exact(DAY - 1), "12:00:00");
    assert_eq!(exact(DAY), "2026-11-20 12:00");
    assert_eq!(exact(-SECOND), "2026-11-21 12:00", "a clock that was set back");
  }

  #[test]
  fn a_local_time_says_how_far_it_is_ahead() {
    assert_eq!(local(NOON, HOUR), "2026-11-21T13:00:00+01:00");
    assert_eq!(local(NOON, -(3 * HOUR + 30 * MINUTE)), "2026-11-21T08:30:00-03:30");
    assert_eq!(local(NOON, 0), rfc3339(NOON));
    assert_eq!(zone(HOUR), "UTC+01:00");
    assert_eq!(zone(-(3 * HOUR + 30 * MINUTE)), "UTC-03:30");
    assert_eq!((zone(0), zone(i64::MAX)), ("UTC".to_owned(), "UTC".to_owned()));
  }

  #[test]
  fn any_number_is_some_time() {
    assert!(rfc3339(i64::MIN).starts_with('-'));
    assert!(rfc3339(i64::MAX).starts_with("9999-"));
    assert!(!short(i64::MIN, i64::MAX).is_empty());
    assert!(!short(i64::MAX, i64::MIN).is_empty());
  }
}
