//! Opens the ledger and its key for commands.
#![forbid(unsafe_code)]

use super::{
  advice::BEGIN,
  context::Context,
  paths::{KEY, LEDGER},
};
use crate::{
  os::key,
  seal::MasterKey,
  store::{Access, Ledger, StoreError},
  terminal::failure::{Failure, unavailable},
};

impl Context {
  /// The ledger, read-only; `None` where memfw has never run, and a failure with advice where the ledger
  /// is missing.
  pub fn ledger_to_read(&self) -> Result<Option<Ledger>, Failure> {
    match self.ledger_if_there()? {
      Some(ledger) => Ok(Some(ledger)),
      None => self.lost_ledger()?.map_or(Ok(None), |lost| Err(lost.into())),
    }
  }

  /// The ledger, read-only; `None` where there is none, for whatever reason.
  pub fn ledger_if_there(&self) -> Result<Option<Ledger>, Failure> {
    let path = self.home()?.data.join(LEDGER);
    match Ledger::open(&path, Access::ReadOnly, None) {
      Ok(ledger) => Ok(Some(ledger)),
      Err(StoreError::Missing { .. }) => Ok(None),
      Err(error) => Err(error.into()),
    }
  }

  /// The ledger, read-only; a failure with advice where memfw has never run.
  pub fn ledger(&self) -> Result<Ledger, Failure> {
    self
      .ledger_to_read()?
      .ok_or_else(|| Failure::unavailable("memfw has not guarded anything yet").hint(BEGIN))
  }

  /// The ledger, read-only, with its key, so that sealed bytes can be shown.
  pub fn ledger_with_key(&self) -> Result<Ledger, Failure> {
    let home = self.home()?;
    let mut ledger = self.ledger()?;
    if let Some(key) = key::load(&home.data.join(KEY)).map_err(unavailable)? {
      ledger.unlock(MasterKey::new(*key))?;
    }
    Ok(ledger)
  }

  /// The ledger, writable, still without its key.
  pub fn ledger_to_write(&self) -> Result<Ledger, Failure> {
    Ok(self.open_ledger()??)
  }

  /// The ledger, writable, still without its key; the inner error names a fault of the ledger itself.
  pub fn open_ledger(&self) -> Result<Result<Ledger, StoreError>, Failure> {
    let path = self.home()?.data.join(LEDGER);
    Ok(Ledger::open(&path, Access::ReadWrite, None))
  }

  /// Gives the ledger its key, which is made at first use; the inner failure says that the key of this
  /// ledger is not available.
  pub fn unlock(&self, ledger: &mut Ledger) -> Result<Result<(), Failure>, Failure> {
    let path = self.home()?.data.join(KEY);
    let key = match key::load_or_create(&path, ledger.needs_key()?) {
      Ok(key) => key,
      Err(error) => return Ok(Err(unavailable(error))),
    };
    match ledger.unlock(MasterKey::new(*key)) {
      Ok(()) => Ok(Ok(())),
      Err(error @ StoreError::WrongKey { .. }) => Ok(Err(error.into())),
      Err(error) => Err(error.into()),
    }
  }
}

impl From<StoreError> for Failure {
  fn from(error: StoreError) -> Self {
    Self::unavailable(error.to_string()).maybe_hint(error.hint())
  }
}
