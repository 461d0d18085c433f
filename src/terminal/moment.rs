//! A moment in the forms that people write: `2026-11-20T14:00:00Z`, `2026-11-20 14:00`, `2h ago`, `3d`. Pure: the
//! current time and the zone are parameters.
#![forbid(unsafe_code)]

use jiff::{Span, Timestamp, civil::DateTime, tz::TimeZone};

/// The moment that a text means, in microseconds since 1970; `None` for other text. A time without
/// a zone is one of `zone`; a duration counts back from `now`.
pub fn moment(text: &str, now: i64, zone: &TimeZone) -> Option<i64> {
  let text = text.trim();
  if let Ok(time) = text.parse::<Timestamp>() {
    return Some(time.as_microsecond());
  }
  if let Ok(time) = text.parse::<DateTime>() {
    return Some(time.to_zoned(zone.clone()).ok()?.timestamp().as_microsecond());
  }
  let span = text.parse::<Span>().ok()?.abs();
  let now = Timestamp::from_microsecond(now).ok()?.to_zoned(zone.clone());
  Some(now.checked_sub(span).ok()?.timestamp().as_microsecond())
}

#[cfg(test)]
mod tests {
  use super::*;

  const SECOND: i64 = 1_000_000;
  const HOUR: i64 = 3600 * SECOND;
  /// 2026-11-21T12:00:00Z.
  const NOON: i64 = 1_795_262_400 * SECOND;

  #[test]
  fn times_are_read_as_people_write_them() {
    let zone = TimeZone::fixed(jiff::tz::offset(1));
    for (text, expected) in [
      ("2026-11-21T12:00:00Z", NOON),
      ("2026-11-21T14:00:00+02:00", NOON),
      (" 2026-11-21 13:00 ", NOON),
      ("2026-11-21T13:00:01", NOON + SECOND),
      ("2026-11-21", NOON - 13 * HOUR),
      ("2h ago", NOON - 2 * HOUR),
      ("2 hours ago", NOON - 2 * HOUR),
      ("90 min", NOON - HOUR - HOUR / 2),
      ("3d", NOON - 72 * HOUR),
      ("1d 2h ago", NOON - 26 * HOUR),
    ] {
      assert_eq!(moment(text, NOON, &zone), Some(expected), "{text}");
    }
  }

  #[test]
  fn a_day_is_one_of_the_calendar() {
    let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
    // The clocks went back on the last Sunday of October 2026.
    let noon = moment("2026-10-25 12:00", NOON, &zone).unwrap();
    assert_eq!(moment("1d", noon, &zone), moment("2026-10-24 12:00", NOON, &zone));
  }

  #[test]
  fn what_is_no_time_is_none() {
    for text in ["", "soon", "3f2a9c01", "2026-13-01", "99999999999999 years", "-", "12"] {
      assert_eq!(moment(text, NOON, &TimeZone::UTC), None, "{text}");
    }
    assert_eq!(moment("3d", i64::MAX, &TimeZone::UTC), None);
  }
}
