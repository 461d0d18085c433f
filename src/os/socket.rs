//! The gate's socket: whole messages between two processes of one machine, and the identity of the
//! peer.
//!
//! Only the optional gate uses it; commands and daemon share only the ledger (docs/adr/0004). A
//! message is at most [`MAX_MESSAGE`] bytes, and a longer one ends the connection. Sending never
//! waits.
#![forbid(unsafe_code)]

use std::{
  io,
  os::fd::OwnedFd,
  path::{Path, PathBuf},
  sync::Arc,
};

use rustix::{
  fs::{Mode, OFlags},
  net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType, bind,
    connect, listen, recv, send, shutdown, socket_with,
  },
};

/// Longest message: a path of the system's longest length, and the other fields.
pub const MAX_MESSAGE: usize = 4096 + 128;
/// Connections that may wait to be accepted.
const BACKLOG: i32 = 4;

/// The peer, according to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
  /// Process id in the own namespace; for a listener, the process that began to listen.
  pub pid: i32,
  /// User.
  pub uid: u32,
}

/// A socket in memfw's data directory that others can connect to.
#[derive(Debug)]
pub struct Listener {
  socket: Arc<OwnedFd>,
}

impl Listener {
  /// Listens at `path`, for the user alone (0600). Replaces the socket of a dead listener, so the
  /// caller makes sure that there is no living one.
  pub fn bind(path: &Path) -> io::Result<Self> {
    let address = SocketAddrUnix::new(path)?;
    match rustix::fs::unlink(path) {
      Ok(()) | Err(rustix::io::Errno::NOENT) => {}
      Err(error) => return Err(error.into()),
    }
    let socket = new_socket(SocketFlags::CLOEXEC)?;
    bind(&socket, &address)?;
    rustix::fs::chmod(path, Mode::RUSR | Mode::WUSR)?;
    listen(&socket, BACKLOG)?;
    Ok(Self { socket: Arc::new(socket) })
  }

  /// Waits for the next connection; an error once [`Listener::close`] was called.
  pub fn accept(&self) -> io::Result<Channel> {
    loop {
      match rustix::net::accept_with(&self.socket, SocketFlags::CLOEXEC) {
        Ok(socket) => return Channel::new(socket),
        // The peer has already disconnected.
        Err(rustix::io::Errno::INTR | rustix::io::Errno::CONNABORTED) => {}
        Err(error) => return Err(error.into()),
      }
    }
  }

  /// A handle of this listener for another thread.
  #[must_use]
  pub fn share(&self) -> Self {
    Self { socket: Arc::clone(&self.socket) }
  }

  /// Wakes a thread that waits for a connection; there will be none.
  pub fn close(&self) {
    // This fails only if the listener is already closed.
    shutdown(&self.socket, Shutdown::Both).ok();
  }
}

/// A connection. Clones share the connection.
#[derive(Clone, Debug)]
pub struct Channel {
  socket: Arc<OwnedFd>,
  peer: Peer,
}

impl Channel {
  fn new(socket: OwnedFd) -> io::Result<Self> {
    let peer = peer(&socket)?;
    Ok(Self { socket: Arc::new(socket), peer })
  }

  /// Connects to a listener; an error at once if there is none, or if it does not accept.
  pub fn connect(path: &Path) -> io::Result<Self> {
    let address = SocketAddrUnix::new(path)?;
    let socket = new_socket(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
    connect(&socket, &address)?;
    rustix::fs::fcntl_setfl(&socket, OFlags::empty())?;
    Self::new(socket)
  }

  /// The process and the user at the other end, as the kernel reports them.
  pub fn peer(&self) -> Peer {
    self.peer
  }

  /// Sends one message; an error if the peer does not read, or is gone.
  pub fn send(&self, message: &[u8]) -> io::Result<()> {
    let n = send(&self.socket, message, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?;
    if n == message.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
  }

  /// Waits for one message; `None` if the peer is gone.
  pub fn receive(&self) -> io::Result<Option<Vec<u8>>> {
    let mut buffer = vec![0; MAX_MESSAGE];
    loop {
      match recv(&self.socket, &mut buffer[..], RecvFlags::TRUNC) {
        Ok((_, 0)) | Err(rustix::io::Errno::CONNRESET) => return Ok(None),
        Ok((_, n)) if n > MAX_MESSAGE => return Err(io::ErrorKind::InvalidData.into()),
        Ok((_, n)) => {
          buffer.truncate(n);
          return Ok(Some(buffer));
        }
        Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error.into()),
      }
    }
  }

  /// Ends the connection for all clones.
  pub fn close(&self) {
    // This fails only if the peer has already closed it.
    shutdown(&self.socket, Shutdown::Both).ok();
  }
}

/// The path of the daemon's socket in this data directory.
pub fn address(data: &Path) -> PathBuf {
  data.join("gate.sock")
}

fn new_socket(flags: SocketFlags) -> io::Result<OwnedFd> {
  Ok(socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

fn peer(socket: &OwnedFd) -> io::Result<Peer> {
  let found = rustix::net::sockopt::socket_peercred(socket)?;
  Ok(Peer { pid: found.pid.as_raw_nonzero().get(), uid: found.uid.as_raw() })
}

#[cfg(test)]
mod tests {
  use std::os::unix::fs::PermissionsExt as _;

  use super::*;
  use crate::os::user::effective_uid;

  fn pair() -> (tempfile::TempDir, Channel, Channel) {
    let dir = tempfile::tempdir().unwrap();
    let listener = Listener::bind(&address(dir.path())).unwrap();
    let one = Channel::connect(&address(dir.path())).unwrap();
    let other = listener.accept().unwrap();
    (dir, one, other)
  }

  #[test]
  fn messages_arrive_whole_and_say_who_sent_them() {
    let (_dir, one, other) = pair();
    one.send(b"first").unwrap();
    one.send(&[7; MAX_MESSAGE]).unwrap();
    assert_eq!(other.receive().unwrap().unwrap(), b"first");
    assert_eq!(other.receive().unwrap().unwrap(), [7; MAX_MESSAGE]);
    let own = Peer { pid: std::process::id() as i32, uid: effective_uid() };
    assert_eq!((one.peer(), other.peer()), (own, own));
    drop(one);
    assert_eq!(other.receive().unwrap(), None);
    assert!(other.send(b"to nobody").is_err());
  }

  #[test]
  fn a_message_that_is_too_long_is_an_error() {
    let (_dir, one, other) = pair();
    one.send(&[7; MAX_MESSAGE + 1]).unwrap();
    assert_eq!(other.receive().unwrap_err().kind(), io::ErrorKind::InvalidData);
  }

  #[test]
  fn sending_to_one_who_does_not_read_never_waits() {
    let (_dir, one, _other) = pair();
    let full = (0..100_000).find_map(|_| one.send(&[7; MAX_MESSAGE]).err()).unwrap();
    assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
  }

  #[test]
  fn a_dead_listener_is_replaced_and_nobody_connects_to_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = address(dir.path());
    assert!(Channel::connect(&path).is_err());
    drop(Listener::bind(&path).unwrap());
    assert!(Channel::connect(&path).is_err());
    let listener = Listener::bind(&path).unwrap();
    Channel::connect(&path).unwrap();
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let waiting = std::thread::spawn({
      let listener = listener.share();
      move || std::iter::repeat_with(|| listener.accept()).find_map(Result::err)
    });
    listener.close();
    assert!(waiting.join().unwrap().is_some());
  }
}
