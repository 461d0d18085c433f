//! The daemon inside a test, without its event loop.

use {super::pace, memfw::daemon::Daemon, std::time::Duration};

/// Does all work that is due within some seconds, as the loop does.
pub(crate) fn settle(daemon: &mut Daemon) {
  loop {
    if !daemon.work().unwrap() {
      daemon.finish_start().unwrap();
      match daemon.next_due() {
        Some(wait) if wait < Duration::from_secs(10) => pace(wait),
        _ => return,
      }
    }
  }
}
