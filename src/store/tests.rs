//! Tests of the whole room, and what all tests here share.
#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "the files here are temporary ones of the tests")]

mod crash;
mod damage;
mod openers;
mod permissions;
mod secrecy;
mod upgrade;
mod versions;

use std::{
  ops::{Deref, DerefMut},
  path::{Path, PathBuf},
  sync::Arc,
};

use tempfile::TempDir;

use super::{
  Access, BlockLine, BlockRow, FileStatus, Ledger, NewItem, NewOp, OpKind, OriginRecord, Pending,
  Revision, ScanRecord, Stamp,
};
use crate::{
  detect::{KeptFindings, Layer},
  memory::{BlockId, ContentHash, LineHash},
  provenance::{Attestation, Source, State, Trust},
  seal::MasterKey,
};

/// A state directory that lasts as long as anything in it is open.
#[derive(Clone)]
pub(super) struct Home(Arc<TempDir>);

impl Home {
  pub(super) fn new() -> Self {
    Self(Arc::new(TempDir::new().unwrap()))
  }

  pub(super) fn dir(&self) -> PathBuf {
    self.0.path().join("state")
  }

  pub(super) fn path(&self) -> PathBuf {
    self.dir().join("ledger.db")
  }

  pub(super) fn ledger(&self) -> Held {
    let ledger = Ledger::open(&self.path(), Access::ReadWrite, Some(key())).unwrap();
    Held { ledger, _home: self.clone() }
  }

  pub(super) fn reader(&self) -> Held {
    let ledger = Ledger::open(&self.path(), Access::ReadOnly, Some(key())).unwrap();
    Held { ledger, _home: self.clone() }
  }
}

pub(super) struct Held {
  ledger: Ledger,
  _home: Home,
}

impl Deref for Held {
  type Target = Ledger;

  fn deref(&self) -> &Ledger {
    &self.ledger
  }
}

impl DerefMut for Held {
  fn deref_mut(&mut self) -> &mut Ledger {
    &mut self.ledger
  }
}

pub(super) fn key() -> MasterKey {
  MasterKey::new([3; 32])
}

pub(super) fn id(digits: &str) -> BlockId {
  digits.parse().unwrap()
}

pub(super) fn stamp(size: u64) -> Stamp {
  Stamp { dev: u64::MAX, ino: 7, size, mtime_ns: -1, ctime_ns: 5 }
}

pub(super) fn block(digits: &str, ordinal: u32) -> BlockRow {
  let hash = ContentHash::of(digits.as_bytes());
  BlockRow {
    id: id(digits),
    hash,
    norm_hash: hash,
    lines: vec![
      BlockLine {
        hash: LineHash::from_short([1, 2, 3, 4, 5, 6, 7, 255]),
        revision: 0x0102_0304,
        offset: 0x0506_0708
      };
      3
    ],
    marker: None,
    ordinal,
    start_line: ordinal * 4 + 1,
    end_line: ordinal * 4 + 3,
    state: State::Validated,
    codes: Vec::new(),
    score: 0.0,
    findings: KeptFindings::default(),
    revisions: vec![Revision {
      number: 0,
      source: Source::unknown(),
      trust: Trust::Untrusted,
      attestation: Attestation::SelfReported,
      session: None,
      at: 1,
      trail: OriginRecord::default(),
      approved: false,
    }],
  }
}

pub(super) fn scan<'a>(path: &'a str, blocks: &'a [BlockRow], at: i64) -> ScanRecord<'a> {
  ScanRecord {
    path: Path::new(path),
    workspace: Path::new("/w"),
    stamp: Some(stamp(1)),
    hash: Some(ContentHash::of(path.as_bytes())),
    status: FileStatus::Watched,
    note: None,
    blocks,
    adopted: false,
    known: Pending::ALL,
    pending: Pending::NONE,
    marker_mode: "id",
    unmarked: Some("too long"),
    events: &[],
    at,
  }
}

pub(super) fn item<'a>(id: &BlockId, bytes: &'a [u8]) -> NewItem<'a> {
  NewItem {
    id: id.clone(),
    path: Path::new("/w/a.md"),
    line: 3,
    bytes,
    redacted: b"<!-- memfw:a1b2c3 quarantined -->",
    n: 0,
    terminated: true,
    status: State::Quarantined,
    source: Source::new("web_fetch:example.com"),
    trust: Trust::Untrusted,
    attestation: Attestation::ToolObserved,
    session: None,
    score: 0.5,
    layer: Layer::Rules,
    codes: Vec::new(),
    findings: KeptFindings::new(&[]),
    trail: OriginRecord::default(),
    context: None,
  }
}

pub(super) fn op() -> NewOp<'static> {
  NewOp {
    kind: OpKind::Redact,
    path: Path::new("/w/a.md"),
    dev: 1,
    ino: 2,
    offset: 30,
    before: b"poison\n",
    after: b"      \n",
  }
}
