//! Makes a file ready for an edit that a person waits for: everything in it is processed, and no other program
//! has it open.
#![forbid(unsafe_code)]

use std::time::Duration;

use super::{
  Engine, EngineError, Hint, Outcome, Target,
  edit::{Lease, lease_within},
  event::shown,
  pending,
};
use crate::{
  files::{Fs, MemoryFile, Refusal, Touch},
  memory::ContentHash,
  os::WriteLock,
  store::{FileRow, Item, Ledger, Pending},
};

/// How long to wait for a file that another program has open, when a person asked for something.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// How many attempts are made when a file is replaced meanwhile.
pub(super) const ATTEMPTS: u32 = 5;

/// The pause between two looks at a file that others write.
const RETRY: Duration = Duration::from_millis(2);

/// How long a lease is waited for while the write lock is held (a choice: a reader closes the file after 0.3 ms,
/// and the daemon redacts nothing meanwhile).
pub(super) const MOMENT: Duration = Duration::from_millis(10);

/// The pause between two such attempts, in which the daemon gets the write lock.
const PAUSE: Duration = Duration::from_millis(10);

impl<F: Fs> Engine<F> {
  /// Brings the ledger up to date with a file, and waits a while for other programs to close it.
  pub(super) fn catch_up(&mut self, target: &Target) -> Result<(), EngineError> {
    let start = self.clock.monotonic();
    loop {
      let waited = self.clock.monotonic().saturating_sub(start);
      let outcome = self.pass(target, &Hint { waited, ..Hint::default() })?;
      let again = matches!(
        outcome,
        Outcome::Busy | Outcome::HoldOff(_) | Outcome::Changed | Outcome::HeldOpen
      );
      if !again || waited >= PATIENCE {
        return Ok(());
      }
      self.clock.pause(RETRY);
    }
  }

  /// Acquires the write lock and the lease of a file, for up to `patience`. The lock is not held while another
  /// program has the file open: other files have to be guarded meanwhile.
  pub(super) fn lock_leased(
    &mut self,
    target: &Target,
    patience: Duration,
  ) -> Result<(WriteLock, F::File), EngineError> {
    let start = self.clock.monotonic();
    loop {
      let writing = self.lock_file(&target.path())?;
      if let Some(file) = self.open_leased(target, patience.min(MOMENT))? {
        return Ok((writing, file));
      }
      drop(writing);
      if self.clock.monotonic().saturating_sub(start) >= patience {
        let name = shown(&target.path());
        return Err(EngineError::refused_with(
          format!("another program has `{name}` open"),
          "close it there and try again",
        ));
      }
      self.clock.pause(PAUSE);
    }
  }

  /// The error when approved bytes could not be written. If the approval is durable already, the daemon
  /// continues.
  pub(super) fn not_back_yet(
    &mut self,
    item: &Item,
    error: EngineError,
    decided: bool,
  ) -> Result<EngineError, EngineError> {
    let of_file = matches!(
      error,
      EngineError::Fs(_)
        | EngineError::Open(_)
        | EngineError::Root(_)
        | EngineError::Refused { .. }
    );
    if !decided || !of_file {
      return Ok(error);
    }
    pending::add(&mut self.ledger, &item.path, Pending::RESHAPE)?;
    let hint = format!(
      "`{}` is approved: the daemon restores it as soon as its file can be written",
      item.id
    );
    Ok(match error {
      EngineError::Refused { error, .. } => EngineError::refused_with(error, hint),
      error => EngineError::refused_with(error.to_string(), hint),
    })
  }

  /// Opens a file with its lease, if the file system has leases; `None` while another program has the file
  /// open.
  fn open_leased(
    &mut self,
    target: &Target,
    patience: Duration,
  ) -> Result<Option<F::File>, EngineError> {
    self.files.close(target);
    let mut file = match self.files.open_within(target, patience)? {
      Ok(file) => file,
      Err(error) if matches!(error.refusal, Refusal::Busy) => return Ok(None),
      Err(error) => return Err(EngineError::refused(error.to_string())),
    };
    let name = shown(&target.path());
    if let Touch::ReadOnly(reason) = file.access() {
      return Err(EngineError::refused(format!("`{name}` is not written: {reason}")));
    }
    Ok(match lease_within(&mut file, &*self.clock, patience)? {
      // Without a lease, the next steps compare before they write, and change no length.
      Lease::Held | Lease::Unsupported => Some(file),
      Lease::Busy => None,
    })
  }
}

/// Whether the ledger knows this version as completely judged. Poison that was found while the file
/// was not writable still has to be taken out, so then the next pass judges the file again.
pub(super) fn is_judged(
  ledger: &mut Ledger,
  row: Option<&FileRow>,
  hash: ContentHash,
  at: i64,
) -> Result<bool, EngineError> {
  let Some(row) = row.filter(|row| row.hash == Some(hash)) else { return Ok(false) };
  if row.note.is_some() {
    ledger.set_stamp(&row.path, None, None, at)?;
    return Ok(false);
  }
  Ok(true)
}
