//! The disk of a schedule: inodes, names, descriptors, leases, and what a power loss leaves.
//!
//! What was not synced reaches the disk page by page in any order; names in the order in which they
//! were changed (as with a journal of metadata), but before or after the bytes that they lead to. On
//! some disks also the length of a file is there before its bytes, which then read as NUL.
#![forbid(unsafe_code)]

use std::{
  collections::{BTreeMap, BTreeSet, VecDeque},
  path::{Path, PathBuf},
};

use memfw::files::{Kind, Stamp};

use super::{book::Book, rng::Rng};

/// The unit in which the page cache reaches the disk.
pub(crate) const PAGE: usize = 4096;

/// One file, or what is in the place of one.
#[derive(Clone, Debug)]
pub(crate) struct Inode {
  pub(crate) kind: Kind,
  /// What readers see.
  pub(crate) data: Vec<u8>,
  /// What a power loss would leave.
  pub(crate) disk: Vec<u8>,
  /// How often a power loss leaves each line: as often as it was synced and no writer wrote there since.
  pub(crate) sure: BTreeMap<u32, u32>,
  time_ns: i64,
  disk_time_ns: i64,
  /// Names.
  pub(crate) links: usize,
  /// Whether it belongs to somebody else.
  pub(crate) foreign: bool,
  /// The call of the engine before which it became something that may not be written (I6).
  pub(crate) unsafe_since: Option<u64>,
  /// Descriptors.
  opens: usize,
  /// Mappings.
  pub(crate) maps: usize,
  /// Pages that count as clean and are not on the disk, because their write failed.
  lost: BTreeSet<usize>,
  /// Whether a page is dirty through a mapping, so that further stores change no times.
  pub(crate) stored: bool,
  /// The descriptor that holds the write lease.
  pub(crate) lease: Option<u64>,
}

impl Inode {
  fn new(kind: Kind, now_ns: i64) -> Self {
    Self {
      kind,
      data: Vec::new(),
      disk: Vec::new(),
      sure: BTreeMap::new(),
      time_ns: now_ns,
      disk_time_ns: now_ns,
      links: 0,
      foreign: false,
      unsafe_since: None,
      opens: 0,
      maps: 0,
      lost: BTreeSet::new(),
      stored: false,
      lease: None,
    }
  }

  /// These bytes are to be written to the disk.
  fn dirty(&mut self, from: usize, to: usize) {
    if !self.lost.is_empty() {
      self.lost.retain(|page| (page + 1) * PAGE <= from || page * PAGE >= to);
    }
  }

  /// A regular file of this user with one name.
  pub(crate) fn may_be_written(&self) -> bool {
    self.kind == Kind::File && self.links <= 1 && !self.foreign
  }
}

#[derive(Clone, Debug)]
struct Descriptor {
  ino: usize,
  append: bool,
  /// The name under which it was opened.
  path: PathBuf,
}

/// All files of a schedule.
#[derive(Debug, Default)]
pub(crate) struct Disk {
  inodes: Vec<Inode>,
  pub(super) names: BTreeMap<PathBuf, usize>,
  /// Changes of names that a power loss may still take, oldest first.
  pub(super) unsynced: VecDeque<(PathBuf, Option<usize>)>,
  pub(super) durable_names: BTreeMap<PathBuf, usize>,
  /// The workspace is elsewhere; and whether an empty directory is in its place.
  pub(super) is_away: Option<bool>,
  descriptors: BTreeMap<u64, Descriptor>,
  next: u64,
  /// Whether a length may reach the disk before the bytes.
  pub(crate) holes: bool,
}

/// What a power loss took.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Taken {
  pub(crate) names: bool,
  pub(crate) pages: bool,
  pub(crate) hole: bool,
}

impl Disk {
  pub(crate) fn lookup(&self, path: &Path) -> Option<usize> {
    self.names.get(path).copied()
  }

  pub(crate) fn inode(&self, ino: usize) -> &Inode {
    &self.inodes[ino]
  }

  pub(crate) fn inode_mut(&mut self, ino: usize) -> &mut Inode {
    &mut self.inodes[ino]
  }

  /// Whether a name leads to the inode.
  pub(crate) fn is_linked(&self, ino: usize) -> bool {
    self.inodes[ino].links > 0
  }

  /// What is at a path.
  pub(crate) fn content(&self, path: &Path) -> Option<&[u8]> {
    self.lookup(path).map(|ino| &self.inodes[ino].data[..])
  }

  pub(crate) fn stamp(&self, ino: usize) -> Stamp {
    let inode = &self.inodes[ino];
    Stamp {
      dev: 1,
      ino: ino as u64 + 1,
      size: inode.data.len() as u64,
      mtime_ns: inode.time_ns,
      ctime_ns: inode.time_ns,
    }
  }

  pub(crate) fn touch(&mut self, ino: usize, time_ns: i64) {
    self.inodes[ino].time_ns = time_ns;
  }

  /// Whether an open would have to wait.
  pub(crate) fn is_leased(&self, path: &Path) -> bool {
    self.lookup(path).is_some_and(|ino| self.inodes[ino].lease.is_some())
  }

  /// How many leases are held.
  pub(crate) fn n_leases(&self) -> usize {
    self.inodes.iter().filter(|inode| inode.lease.is_some()).count()
  }

  fn name(&mut self, path: &Path, ino: Option<usize>) {
    let old = match ino {
      Some(ino) => {
        self.inodes[ino].links += 1;
        self.names.insert(path.to_owned(), ino)
      }
      None => self.names.remove(path),
    };
    if let Some(old) = old {
      self.inodes[old].links -= 1;
    }
    self.unsynced.push_back((path.to_owned(), ino));
  }

  /// Makes a file, or something that is none, at a path.
  pub(crate) fn create(&mut self, path: &Path, kind: Kind, now_ns: i64) -> usize {
    self.inodes.push(Inode::new(kind, now_ns));
    let ino = self.inodes.len() - 1;
    self.name(path, Some(ino));
    ino
  }

  /// Opens a file, makes it where it is missing and asked for. The caller has seen that it is not
  /// leased.
  pub(crate) fn open(
    &mut self,
    path: &Path,
    create: bool,
    append: bool,
    now_ns: i64,
  ) -> Option<u64> {
    let ino = match self.lookup(path) {
      Some(ino) if self.inodes[ino].kind == Kind::File => ino,
      None if create && !self.refuses(path) => self.create(path, Kind::File, now_ns),
      _ => return None,
    };
    self.next += 1;
    self.inodes[ino].opens += 1;
    self.descriptors.insert(self.next, Descriptor { ino, append, path: path.to_owned() });
    Some(self.next)
  }

  /// The inode behind a descriptor; none after a power loss.
  pub(crate) fn ino(&self, fd: u64) -> Option<usize> {
    self.descriptors.get(&fd).map(|descriptor| descriptor.ino)
  }

  /// The name under which a descriptor was opened, if it still leads to its file.
  pub(crate) fn name_of(&self, fd: u64) -> Option<PathBuf> {
    let open = self.descriptors.get(&fd).filter(|open| self.lookup(&open.path) == Some(open.ino));
    open.map(|open| open.path.clone())
  }

  pub(crate) fn is_append(&self, fd: u64) -> bool {
    self.descriptors.get(&fd).is_some_and(|descriptor| descriptor.append)
  }

  pub(crate) fn close(&mut self, fd: u64) {
    if let Some(Descriptor { ino, .. }) = self.descriptors.remove(&fd) {
      let inode = &mut self.inodes[ino];
      inode.opens -= 1;
      if inode.lease == Some(fd) {
        inode.lease = None;
      }
    }
  }

  /// Grants a write lease if nobody else has the file open or, where that is seen, mapped.
  pub(crate) fn lease(&mut self, fd: u64, sees_maps: bool) -> bool {
    let Some(ino) = self.ino(fd) else { return false };
    let inode = &mut self.inodes[ino];
    let free = inode.opens == 1 && (inode.maps == 0 || !sees_maps) && inode.lease.is_none();
    if free {
      inode.lease = Some(fd);
    }
    free
  }

  /// Takes all leases away by force.
  pub(crate) fn break_leases(&mut self) {
    for inode in &mut self.inodes {
      inode.lease = None;
    }
  }

  pub(crate) fn write(&mut self, ino: usize, at: usize, bytes: &[u8], now_ns: i64) {
    let inode = &mut self.inodes[ino];
    let old = inode.data.len();
    let end = old.max(at + bytes.len());
    inode.dirty(at.min(old), at + bytes.len());
    inode.data.resize(end, 0);
    inode.data[at..at + bytes.len()].copy_from_slice(bytes);
    inode.time_ns = now_ns;
  }

  /// A store through a mapping. The kernel sees the first one, which makes the page dirty, and the next one
  /// only when that page was written back; unless nothing is to be `hidden`.
  pub(crate) fn store(&mut self, ino: usize, at: usize, bytes: &[u8], now_ns: i64, hidden: bool) {
    let inode = &mut self.inodes[ino];
    inode.dirty(at, at + bytes.len());
    inode.data[at..at + bytes.len()].copy_from_slice(bytes);
    if !std::mem::replace(&mut inode.stored, true) || !hidden {
      inode.time_ns = now_ns;
    }
  }

  pub(crate) fn truncate(&mut self, ino: usize, len: usize, now_ns: i64) {
    let inode = &mut self.inodes[ino];
    inode.dirty(inode.data.len().min(len), len.max(inode.data.len()));
    inode.data.resize(len, 0);
    inode.time_ns = now_ns;
  }

  pub(crate) fn rename(&mut self, from: &Path, to: &Path, now_ns: i64) {
    if let Some(ino) = self.lookup(from).filter(|_| !self.refuses(to)) {
      // A rename changes the inode's ctime.
      self.inodes[ino].time_ns = now_ns;
      self.name(to, Some(ino));
      self.name(from, None);
    }
  }

  pub(crate) fn link(&mut self, from: &Path, to: &Path, now_ns: i64) {
    if let Some(ino) = self.lookup(from) {
      self.inodes[ino].time_ns = now_ns;
      self.name(to, Some(ino));
    }
  }

  pub(crate) fn unlink(&mut self, path: &Path, now_ns: i64) {
    if let Some(ino) = self.lookup(path) {
      self.inodes[ino].time_ns = now_ns;
      self.name(path, None);
    }
  }

  /// A sync makes the bytes durable, and with them, as journals do, all names.
  pub(crate) fn sync(&mut self, ino: usize, book: &Book) {
    let inode = &mut self.inodes[ino];
    let lost = inode.lost.clone();
    let old = std::mem::replace(&mut inode.disk, inode.data.clone());
    for start in lost.into_iter().map(|page| page * PAGE) {
      let end = (start + PAGE).min(old.len()).min(inode.disk.len());
      if start < end {
        inode.disk[start..end].copy_from_slice(&old[start..end]);
      }
      if start + PAGE > old.len() {
        // Where that page made the file longer, the length did not arrive either.
        inode.disk.truncate(old.len());
        break;
      }
    }
    inode.stored = false;
    inode.disk_time_ns = inode.time_ns;
    inode.sure = book.count(&inode.disk);
    self.commit_names(usize::MAX);
  }

  /// A sync fails: the pages that it was about count as clean from now on, as on Linux.
  pub(crate) fn sync_failed(&mut self, ino: usize) {
    let inode = &mut self.inodes[ino];
    let (data, disk) = (&inode.data, &inode.disk);
    let differs = |page: &usize| {
      let part =
        |bytes: &[u8]| bytes.get(page * PAGE..).map(|rest| rest[..rest.len().min(PAGE)].to_vec());
      part(data) != part(disk)
    };
    inode.lost = (0..data.len().div_ceil(PAGE)).filter(differs).collect();
    inode.stored = false;
  }

  fn commit_names(&mut self, n: usize) {
    for _ in 0..n.min(self.unsynced.len()) {
      match self.unsynced.pop_front() {
        Some((path, Some(ino))) => drop(self.durable_names.insert(path, ino)),
        Some((path, None)) => drop(self.durable_names.remove(&path)),
        None => {}
      }
    }
  }

  /// What the kernel does on its own: one page, the length, the times of a file, or a name reach the
  /// disk.
  pub(crate) fn write_back(&mut self, rng: &mut Rng) {
    if self.inodes.is_empty() {
      return;
    }
    if rng.one_in(4) {
      let n = 1 + rng.below(3);
      self.commit_names(n);
    }
    let ino = rng.below(self.inodes.len());
    let inode = &mut self.inodes[ino];
    if rng.one_in(4) {
      // Of a file that is only overwritten, the times may well be there before the bytes.
      inode.disk_time_ns = inode.time_ns;
      if rng.one_in(2) {
        return;
      }
    }
    inode.stored = false;
    if inode.data.len() < inode.disk.len() && rng.one_in(2) {
      inode.disk.truncate(inode.data.len());
    }
    if self.holes && inode.data.len() > inode.disk.len() && rng.one_in(4) {
      inode.disk.resize(inode.data.len(), 0);
    }
    let n_pages = inode.data.len().div_ceil(PAGE).max(1);
    let start = rng.below(n_pages) * PAGE;
    if start > inode.disk.len() || inode.lost.contains(&(start / PAGE)) {
      // The length grows only with the pages before (data=ordered).
      return;
    }
    let end = inode.data.len().min(start + PAGE);
    let in_place = end.min(inode.disk.len());
    if start < in_place {
      inode.disk[start..in_place].copy_from_slice(&inode.data[start..in_place]);
    }
    if end > inode.disk.len() {
      inode.disk.extend_from_slice(&inode.data[in_place.max(start)..end]);
    }
  }

  /// Only what reached the disk is left, and no process.
  pub(crate) fn power_loss(&mut self, rng: &mut Rng) -> Taken {
    for _ in 0..rng.below(8) {
      self.write_back(rng);
    }
    let mut taken = Taken { names: self.durable_names != self.names, ..Taken::default() };
    self.unsynced.clear();
    self.names.clone_from(&self.durable_names);
    self.descriptors.clear();
    for inode in &mut self.inodes {
      taken.pages |= inode.data != inode.disk;
      taken.hole |= inode.disk.contains(&0) && !inode.data.contains(&0);
      inode.data.clone_from(&inode.disk);
      inode.time_ns = inode.disk_time_ns;
      inode.links = 0;
      inode.opens = 0;
      inode.maps = 0;
      inode.lost.clear();
      inode.stored = false;
      inode.lease = None;
    }
    for ino in self.names.values() {
      self.inodes[*ino].links += 1;
    }
    taken
  }

  /// The latest time that any file carries, in nanoseconds.
  pub(crate) fn latest(&self) -> i64 {
    self.inodes.iter().map(|inode| inode.time_ns).max().unwrap_or(0)
  }
}
