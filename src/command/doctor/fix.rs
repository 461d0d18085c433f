//! `memfw doctor --fix`: repairs that need no decision by a person.
//!
//! Only memfw's own files and directories change: private ones are closed to others, missing directories
//! are created, and leftovers of a crash are removed. Configuration, keys, memory and damaged files are
//! left to a person.
#![forbid(unsafe_code)]

use std::{
  io,
  path::{Path, PathBuf},
};

use super::{Check, Health, KEY, LEDGER};
use crate::{
  app::context::Context,
  daemon::moved::left,
  engine::event::shown,
  os::{Clock as _, DaemonLock, Home, SystemClock, repair, socket},
  store::{Access, Ledger, StateKey, StoreError, backup},
  terminal::failure::{Failure, reason},
};

/// Repairs what is safe to repair; adds what was done, and what failed, to `checks`.
pub(super) fn fix(context: &Context, checks: &mut Vec<Check>) -> Result<(), Failure> {
  let home = context.home()?;
  let mut done = Done(checks);
  done.directories(&home);
  done.permissions(&home.data);
  done.left_behind(&home);
  done.upgrade(&home.data);
  Ok(())
}

/// Confirms that these directories are not guarded any more. Only a person may say so: no other
/// record shows that a workspace has left the guard.
pub(super) fn confirm(
  context: &Context,
  dirs: &[PathBuf],
  checks: &mut Vec<Check>,
) -> Result<(), Failure> {
  let home = context.home()?;
  let mut done = Done(checks);
  let departed = departed(&home.data);
  for dir in dirs {
    let is_it = |path: &Path| {
      path == dir.as_path() || dir.canonicalize().is_ok_and(|real| real.as_path() == path)
    };
    match departed.iter().find(|(.., path)| is_it(path)) {
      Some(one) => done.confirm(&home.data, one),
      None => done.0.push(Check {
        what: "workspace",
        health: Health::Wrong,
        text: format!("`{}` is not a directory that memfw has stopped guarding", shown(dir)),
        hint: Some("memfw doctor names them".to_owned()),
        command: None,
      }),
    }
  }
  Ok(())
}

/// Adds what `--fix` would repair in addition to the ledger, for `memfw doctor` without `--fix`.
pub(super) fn look(home: &Home, checks: &mut Vec<Check>) {
  let hint = || Some("memfw doctor --fix".to_owned());
  for path in repair::files(&home.data).iter().filter(|path| repair::is_open(path)) {
    let text = format!("`{}` is open to other users", shown(path));
    checks.push(Check {
      what: "files",
      health: Health::Wrong,
      text,
      hint: hint(),
      command: hint(),
    });
  }
  for (.., path) in departed(&home.data) {
    let text = format!("`{}` was guarded and no longer is", shown(&path));
    let command = format!("memfw doctor --unguarded {}", shown(&path));
    let hint = format!(
      "name it in `workspaces`, or confirm the change with `memfw doctor --unguarded {}`",
      shown(&path)
    );
    checks.push(Check {
      what: "workspace",
      health: Health::Wrong,
      text,
      hint: Some(hint),
      command: Some(command),
    });
  }
  for path in stale(home) {
    let text = format!("`{}` is left over from a crash", shown(&path));
    checks.push(Check { what: "files", health: Health::Note, text, hint: hint(), command: hint() });
  }
}

/// Workspaces that are no longer guarded and not confirmed: two keys of the ledger, and the path.
fn departed(data: &Path) -> Vec<(StateKey, StateKey, PathBuf)> {
  let ledger = Ledger::open(&data.join(LEDGER), Access::ReadOnly, None);
  ledger.and_then(|ledger| ledger.states()).map(left).unwrap_or_default()
}

/// Leftovers of a crash: temporary files, and the socket of a daemon that is gone.
fn stale(home: &Home) -> Vec<PathBuf> {
  let now = SystemClock.now() / 1_000_000;
  let mut found: Vec<_> =
    [&home.data, &home.config].into_iter().flat_map(|dir| repair::abandoned(dir, now)).collect();
  let address = socket::address(&home.data);
  if repair::is_socket(&address) && is_free(&home.data) {
    found.push(address);
  }
  found
}

/// Whether no daemon runs on a data directory.
fn is_free(data: &Path) -> bool {
  matches!(DaemonLock::holder(data), Ok(None))
}

struct Done<'c>(&'c mut Vec<Check>);

impl Done<'_> {
  fn mended(&mut self, what: &'static str, text: String, hint: Option<String>) {
    self.0.push(Check { what, health: Health::Mended, text, hint, command: None });
  }

  fn failed(&mut self, what: &'static str, path: &Path, error: &io::Error) {
    let text = format!("cannot repair `{}`: {}", shown(path), reason(error));
    self.0.push(Check { what, health: Health::Wrong, text, hint: None, command: None });
  }

  fn directories(&mut self, home: &Home) {
    // Listed before they are created; `permissions` closes and reports directories that already exist.
    let both = [&home.data, &home.config].into_iter().map(PathBuf::as_path);
    let missing: Vec<&Path> = both.filter(|dir| !dir.exists()).collect();
    if missing.is_empty() {
      return;
    }
    match home.create() {
      Ok(()) => {
        for dir in missing {
          self.mended("directories", format!("`{}`: made", shown(dir)), None);
        }
      }
      Err(error) => {
        let text = error.to_string().replace('\n', "; ");
        self.0.push(Check {
          what: "directories",
          health: Health::Wrong,
          text,
          hint: None,
          command: None,
        });
      }
    }
  }

  fn permissions(&mut self, data: &Path) {
    let mut paths = vec![data.to_owned()];
    paths.extend(repair::files(data));
    for path in paths {
      match repair::close(&path) {
        Ok(None) => {}
        Ok(Some(mode)) => {
          let text = format!("`{}`: closed to other users, it had mode {mode:o}", shown(&path));
          let is_key = path.file_name().is_some_and(|name| name == KEY);
          let hint = is_key.then(|| {
            "another user may have read it, and can open the seals of a copy of the ledger with it"
              .to_owned()
          });
          self.mended("permissions", text, hint);
        }
        Err(error) => self.failed("permissions", &path, &error),
      }
    }
  }

  fn left_behind(&mut self, home: &Home) {
    let address = socket::address(&home.data);
    let now = SystemClock.now() / 1_000_000;
    for path in stale(home) {
      let removed = if path == address {
        repair::remove_socket(&path).map(|done| (done, "removed, nothing listens on it"))
      } else {
        repair::remove_abandoned(&path, now)
          .map(|done| (done, "removed, nothing writes it any more"))
      };
      match removed {
        Ok((true, text)) => {
          self.mended("left behind", format!("`{}`: {text}", shown(&path)), None);
        }
        Ok((false, _)) => {}
        Err(error) => self.failed("left behind", &path, &error),
      }
    }
  }

  /// Confirms that a workspace is not guarded any more.
  fn confirm(&mut self, data: &Path, (key, degraded, path): &(StateKey, StateKey, PathBuf)) {
    let ledger = Ledger::open(&data.join(LEDGER), Access::ReadWrite, None);
    let removed = ledger
      .and_then(|mut ledger| ledger.remove_state(key).and_then(|()| ledger.remove_state(degraded)));
    let (health, text) = match removed {
      Ok(()) => (Health::Mended, "confirmed as no longer guarded".to_owned()),
      Err(error) => (Health::Wrong, error.to_string()),
    };
    let text = format!("`{}`: {text}", shown(path));
    self.0.push(Check { what: "workspace", health, text, hint: None, command: None });
  }

  /// Brings the ledger of an older memfw up to date, as a daemon would at its start.
  fn upgrade(&mut self, data: &Path) {
    let path = data.join(LEDGER);
    let older = match Ledger::open(&path, Access::ReadOnly, None) {
      Err(StoreError::Older { found, .. }) if is_free(data) => found,
      // The later checks report all other problems of the ledger.
      _ => return,
    };
    match Ledger::open(&path, Access::ReadWrite, None) {
      Ok(_ledger) => {
        let text = format!("`{}`: migrated from format {older}", shown(&path));
        let copies = backup::backups(&path);
        let hint = copies.into_iter().find(|copy| copy.format == older);
        let hint = hint.map(|copy| format!("backup: {}", shown(&copy.path)));
        self.mended("ledger", text, hint);
      }
      Err(error) => {
        let hint = error.hint();
        let text = error.to_string();
        self.0.push(Check { what: "ledger", health: Health::Wrong, text, hint, command: None });
      }
    }
  }
}
