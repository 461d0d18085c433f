//! Notifications to the service manager: ready, reloading, status, stopping, watchdog, extend
//! timeout.
//!
//! Without `NOTIFY_SOCKET` these functions do nothing. A failed notification is not a failure of
//! the daemon, so the error is returned as text for the log and never stops the daemon.
#![forbid(unsafe_code)]

use std::{io, time::Duration};

use sd_notify::NotifyState;

/// Longest status line that is sent, in bytes; `systemctl status` shows one line.
const MAX_STATUS: usize = 200;

/// The start-up scan has finished and changes are watched from now on.
pub fn ready() -> io::Result<()> {
  sd_notify::notify(&[NotifyState::Ready])
}

/// One line about what the daemon is doing.
pub fn status(text: &str) -> io::Result<()> {
  sd_notify::notify(&[NotifyState::Status(&one_line(text))])
}

/// The daemon is finishing the current operation.
pub fn stopping() -> io::Result<()> {
  sd_notify::notify(&[NotifyState::Stopping])
}

/// The daemon is reading its configuration again; [`ready`] ends this. The time tells the service
/// manager which of two overlapping reloads was answered (`Type=notify-reload`).
pub fn reloading() -> io::Result<()> {
  sd_notify::notify(&[NotifyState::Reloading, NotifyState::monotonic_usec_now()?])
}

/// The start takes longer: at most this time from now on.
pub fn extend(by: Duration) -> io::Result<()> {
  let micros = u32::try_from(by.as_micros()).unwrap_or(u32::MAX);
  sd_notify::notify(&[NotifyState::ExtendTimeoutUsec(micros)])
}

/// The daemon is alive.
pub fn watchdog() -> io::Result<()> {
  sd_notify::notify(&[NotifyState::Watchdog])
}

/// How often the service manager expects a watchdog notification, if it does: half of the time
/// after which it considers the daemon dead (sd_watchdog_enabled(3)).
pub fn watchdog_interval() -> Option<Duration> {
  sd_notify::watchdog_enabled().map(|limit| limit / 2).filter(|interval| !interval.is_zero())
}

/// A line break would start another assignment of the notification protocol.
fn one_line(text: &str) -> String {
  let mut line = String::with_capacity(text.len().min(MAX_STATUS));
  for c in text.chars().map(|c| if c.is_control() { ' ' } else { c }) {
    if line.len() + c.len_utf8() > MAX_STATUS {
      break;
    }
    line.push(c);
  }
  line
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn a_status_cannot_smuggle_another_assignment() {
    assert_eq!(one_line("4 files\nREADY=1"), "4 files READY=1");
    assert_eq!(one_line(&"é".repeat(150)).len(), MAX_STATUS);
  }
}
