//! The signals to which the daemon listens.
#![forbid(unsafe_code)]

use tokio::signal::unix::{Signal, SignalKind, signal};

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
  /// SIGTERM or SIGINT: finish the current operation and stop.
  Terminate,
  /// SIGHUP: read the configuration again.
  Reload,
}

/// SIGTERM, SIGINT and SIGHUP.
pub(super) struct Signals {
  terminate: Signal,
  interrupt: Signal,
  hangup: Signal,
  /// A write beyond a limit on the size of files then fails, and is reported like a full disk.
  _file_size: Signal,
}

impl Signals {
  pub(super) fn new() -> std::io::Result<Self> {
    Ok(Self {
      terminate: signal(SignalKind::terminate())?,
      interrupt: signal(SignalKind::interrupt())?,
      hangup: signal(SignalKind::hangup())?,
      _file_size: signal(SignalKind::from_raw(libc::SIGXFSZ))?,
    })
  }

  pub(super) async fn wait(&mut self) -> Asked {
    tokio::select! {
      biased;
      _ = self.terminate.recv() => Asked::Terminate,
      _ = self.interrupt.recv() => Asked::Terminate,
      _ = self.hangup.recv() => Asked::Reload,
    }
  }

  /// Waits until the daemon must stop.
  pub(super) async fn until_end(&mut self) {
    while !matches!(self.wait().await, Asked::Terminate) {}
  }

  /// Whether the daemon must stop, without waiting.
  pub(super) fn terminated(&mut self) -> bool {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    self.terminate.poll_recv(&mut context).is_ready()
      || self.interrupt.poll_recv(&mut context).is_ready()
  }
}
