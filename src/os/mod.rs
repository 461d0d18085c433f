//! The operating system, except memory files: memfw's own directories, keys, locks, other programs,
//! sockets, the clock and randomness.

pub mod alarm;
pub mod clock;
pub mod descriptors;
pub mod key;
pub mod link_lock;
pub mod lock;
pub mod managed_file;
pub mod paths;
pub mod program;
pub mod random;
pub mod repair;
pub mod report_file;
pub mod shown;
#[cfg(linux)]
pub mod socket;
#[cfg(not(linux))]
#[path = "socket_absent.rs"]
pub mod socket;
pub mod strangers;
pub mod subprocess;
pub mod systemd;
pub mod thread;
mod uid;
pub mod user;
pub mod workspace_lock;

pub use alarm::Alarm;
pub use clock::{Clock, SystemClock, pause};
pub use link_lock::LinkLock;
pub use lock::{DaemonLock, LockError, WriteLock, Writing, is_halted};
pub use paths::{Env, Home};
pub use shown::Shown;
pub use workspace_lock::WorkspaceLock;
