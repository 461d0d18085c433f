//! No socket for a gate: only Linux can make readers wait, so no process listens or connects.
#![forbid(unsafe_code)]

use std::{
  io,
  path::{Path, PathBuf},
};

/// The peer of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
  /// Process id.
  pub pid: i32,
  /// User.
  pub uid: u32,
}

/// A socket that others can connect to: no function makes one.
#[derive(Debug)]
pub struct Listener(());

/// A connection: no function makes one.
#[derive(Clone, Debug)]
pub struct Channel(());

impl Listener {
  /// Always an error.
  pub fn bind(_path: &Path) -> io::Result<Self> {
    Err(absent())
  }

  /// Always an error.
  pub fn accept(&self) -> io::Result<Channel> {
    Err(absent())
  }

  /// The same listener for another thread.
  #[must_use]
  pub fn share(&self) -> Self {
    Self(())
  }

  /// No thread waits for a connection here.
  pub fn close(&self) {}
}

impl Channel {
  /// A peer with process 0 and user 0: there is no connection.
  pub fn peer(&self) -> Peer {
    Peer { pid: 0, uid: u32::MAX }
  }

  /// Always an error.
  pub fn send(&self, _message: &[u8]) -> io::Result<()> {
    Err(absent())
  }

  /// Always an error.
  pub fn receive(&self) -> io::Result<Option<Vec<u8>>> {
    Err(absent())
  }

  /// Does nothing: there is no connection.
  pub fn close(&self) {}
}

fn absent() -> io::Error {
  io::Error::new(io::ErrorKind::Unsupported, "only Linux can make readers wait")
}

/// Where the daemon of this data directory would listen; a memfw for Linux may have left a socket
/// there.
pub fn address(data: &Path) -> PathBuf {
  data.join("gate.sock")
}
