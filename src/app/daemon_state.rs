//! The state of the daemon as its lock and the ledger show it, without a request to the daemon.
#![forbid(unsafe_code)]

use std::path::PathBuf;

use super::context::Context;
use crate::{
  daemon::health::{Health, Phase},
  os::DaemonLock,
  store::{Ledger, StateKey},
  terminal::failure::Failure,
};

/// What the lock and the ledger show about the daemon, possibly after its end.
pub struct DaemonState {
  /// Its process id, while it runs.
  pub pid: Option<u32>,
  /// Its last report about itself.
  pub health: Option<Health>,
}

impl DaemonState {
  /// Reads the lock of the daemon and its report in the ledger.
  pub fn find(context: &Context, ledger: Option<&Ledger>) -> Result<Self, Failure> {
    let data = context.home()?.data;
    let holder =
      DaemonLock::holder(&data).map_err(|error| Failure::unavailable(error.to_string()))?;
    let health = match ledger {
      Some(ledger) => {
        ledger.state(&StateKey::Daemon)?.and_then(|(json, _)| serde_json::from_str(&json).ok())
      }
      None => None,
    };
    Ok(Self { pid: holder.and_then(|holder| holder.pid), health })
  }

  /// Whether a running daemon has finished its first scan.
  pub fn is_guarding(&self) -> bool {
    self
      .health
      .as_ref()
      .is_some_and(|health| Some(health.pid) == self.pid && health.phase == Phase::Guarding)
  }

  /// How far the first scan of a daemon that is still starting is.
  pub fn scan_progress(&self) -> Option<String> {
    let health = self.health.as_ref().filter(|health| Some(health.pid) == self.pid)?;
    Some(format!("first scan: {}", health.scan?))
  }

  /// The workspaces of the daemon; without a daemon, those that it would guard.
  pub fn workspaces(&self, context: &Context) -> Result<Vec<PathBuf>, Failure> {
    if let Some(health) = &self.health {
      return Ok(health.roots());
    }
    let config = context.config()?.config;
    Ok(context.workspaces(&config, &[]).unwrap_or_default())
  }
}
