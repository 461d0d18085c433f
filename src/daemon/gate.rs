//! The daemon's side of the connection to the gate: a thread accepts connections and passes messages on.
//!
//! Only the daemon's own user and root may connect. The gate learns paths and stamps, and nothing else.
//! `gate_request` answers.
#![forbid(unsafe_code)]

use std::sync::{
  Arc,
  atomic::{AtomicBool, Ordering::SeqCst},
};

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::UnboundedSender;

use crate::{
  gate::message::ToDaemon,
  os::{
    socket::{Channel, Listener},
    user,
  },
};

/// The state of the gate, for `status`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateHealth {
  /// Whether the gate is connected.
  pub connected: bool,
  /// The gate's process id.
  pub pid: Option<i32>,
  /// Since when the gate has been in this state, in microseconds since the epoch.
  pub since: i64,
  /// In how many directories readers wait at the gate.
  pub directories: u32,
  /// A watched directory whose readers do not wait at the gate.
  #[serde(default)]
  pub ungated: Option<String>,
  /// How many reads of unjudged bytes the gate let through since it connected.
  pub let_through: u64,
  /// When the gate last reported such reads, in microseconds since the epoch.
  pub let_through_at: Option<i64>,
  /// Why the gate let them through.
  pub why: Option<String>,
}

/// What the accepting thread passes to the loop; the number is that of the connection.
#[derive(Debug)]
pub enum FromGate {
  /// A connection was accepted.
  Came(u64, Channel),
  /// A message arrived.
  Message(u64, ToDaemon),
  /// A connection ended.
  Gone(u64),
}

/// Accepts connections of the own user and root, and passes on their messages.
pub(super) fn accept(
  listener: &Listener,
  sender: &UnboundedSender<FromGate>,
  asked: &Arc<AtomicBool>,
) {
  let mut number = 0;
  while let Ok(channel) = listener.accept() {
    let peer = channel.peer();
    if peer.uid != 0 && peer.uid != user::effective_uid() {
      tracing::warn!(
        target: "memfw", uid = peer.uid, pid = peer.pid,
        "a process of another user connected as a gate"
      );
      continue;
    }
    number += 1;
    let (from, to, asked) = (channel.clone(), sender.clone(), Arc::clone(asked));
    // The loop must hear of a connection before its messages.
    if sender.send(FromGate::Came(number, channel)).is_err() {
      return;
    }
    let spawned = std::thread::Builder::new().name("gate".to_owned()).spawn(move || {
      while let Ok(Some(bytes)) = from.receive() {
        // A message that cannot be decoded ends the connection.
        let Ok(message) = ToDaemon::decode(&bytes) else { break };
        asked.store(true, SeqCst);
        if to.send(FromGate::Message(number, message)).is_err() {
          return;
        }
      }
      from.close();
      to.send(FromGate::Gone(number)).ok();
    });
    if spawned.is_err() {
      sender.send(FromGate::Gone(number)).ok();
    }
  }
}
