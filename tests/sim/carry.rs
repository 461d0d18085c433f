//! One system call of a writer, carried out.
#![forbid(unsafe_code)]

use std::time::Duration;

use memfw::{
  files::{Kind, Rung},
  memory::ContentHash,
};

use super::{
  world::World,
  writer::{Actor, Closing, LAST, Step},
};

/// How long a tool's verifying read may come after its close and still has to see what the tool wrote:
/// the hold-off of 50 ms, less what coarse file times hide.
const VERIFIED: Duration = Duration::from_millis(45);

impl World {
  /// Carries out a step; `false` when it waits for a lease.
  pub(crate) fn carry_out(&mut self, actor: &mut Actor, step: &Step) -> bool {
    if let Step::Open { path, .. } = step
      && self.disk.is_leased(path)
    {
      if !actor.waits {
        self.note("lease makes a writer wait");
      }
      actor.waits = true;
      return false;
    }
    actor.waits = false;
    if !matches!(step, Step::Nothing) {
      let name = actor.name;
      self.say(|| format!("  {name}: {}", shown(step)));
    }
    let now = self.now_ns();
    let ino = actor.fd.and_then(|fd| self.disk.ino(fd));
    match step {
      Step::Open { path, create, truncate, append } => {
        let is_new = self.disk.lookup(path).is_none();
        actor.wrote = false;
        actor.fd = self.disk.open(path, *create, *append, now);
        actor.at = 0;
        self.n_opens += 1;
        if let Some(opened) = self.opened.get_mut(path) {
          *opened = true;
        }
        let ino = actor.fd.and_then(|fd| self.disk.ino(fd));
        if let (true, Some(ino)) = (truncate, ino) {
          self.change(ino, |disk| disk.truncate(ino, 0, now), 0..usize::MAX);
          self.opened.insert(path.clone(), false);
          self.hear_write(actor);
        }
        if is_new && actor.fd.is_some() {
          self.hear_of(path);
        }
      }
      Step::Read => {
        actor.buffer = ino.map(|ino| self.disk.inode(ino).data.clone()).unwrap_or_default();
      }
      Step::Prepend(text) => {
        actor.buffer.splice(0..0, text.iter().copied());
      }
      Step::Extend(text) => actor.buffer.extend_from_slice(text),
      Step::Replace(line, text) => replace(&mut actor.buffer, *line, text),
      Step::Write(from, to) => {
        let part = actor.buffer.len() * from / 100..actor.buffer.len() * to / 100;
        let (at, bytes) = (part.start, actor.buffer[part].to_vec());
        if let Some(ino) = ino {
          self.write(ino, at, &bytes);
          self.hear_write(actor);
        }
      }
      Step::Put(text) => {
        let append = actor.fd.is_some_and(|fd| self.disk.is_append(fd));
        if let Some(ino) = ino {
          let at = if append { self.disk.inode(ino).data.len() } else { actor.at };
          self.write(ino, at, text);
          self.hear_write(actor);
          actor.at = at + text.len();
        }
      }
      Step::Cut => {
        if let Some(ino) = ino {
          let len = actor.buffer.len();
          self.change(ino, |disk| disk.truncate(ino, len, now), len..usize::MAX);
          self.hear_write(actor);
        }
      }
      Step::Sync => {
        if let Some(ino) = ino {
          self.disk.sync(ino, &self.book);
        }
      }
      Step::Close => self.close(actor),
      Step::CloseTool(path) => {
        self.close(actor);
        if self.disk.content(path) != Some(&actor.buffer[..]) {
          // Somebody else was there already.
          return true;
        }
        if self.agent.hash(path) != Some(ContentHash::of(&actor.buffer)) {
          // The framework has one row for a file, and another tool's took its place.
          return true;
        }
        for opened in self.opened.values_mut() {
          *opened = false;
        }
        let written = self.disk.lookup(path).map_or(now, |ino| self.disk.stamp(ino).mtime_ns);
        let ago = Duration::from_nanos(u64::try_from(now - written).unwrap_or(0));
        actor.closing = Some(Closing {
          at: self.clock.elapsed().saturating_sub(ago),
          n_jumps: self.n_jumps,
          n_changes: self.n_changes,
          n_opens: actor.n_opens_renamed.take().unwrap_or(self.n_opens),
          n_records: self.n_records,
          n_others: self.oracle.n_blind_writes,
        });
      }
      Step::Record(path) => {
        self.n_records += 1;
        self.agent.record(path, &actor.buffer);
      }
      Step::Verify(path) => self.verify(actor, path),
      Step::Map => {
        actor.map = ino;
        actor.map_name = actor.fd.and_then(|fd| self.disk.name_of(fd));
        if let Some(ino) = ino {
          let inode = self.disk.inode_mut(ino);
          inode.maps += 1;
          // The kernel sees the first store through each mapping, whose pages are write-protected.
          inode.stored = false;
        }
      }
      Step::Store(text) => {
        if let Some(ino) = actor.map {
          let at = self.disk.inode(ino).data.len();
          self.write(ino, at, text);
          self.hear_mapped(actor);
        }
      }
      Step::StoreOver(line, text) => {
        let found = actor.map.and_then(|ino| fitted(&self.disk.inode(ino).data, *line, text));
        if let (Some(ino), Some((at, text))) = (actor.map, found) {
          // Where leases do not see mappings that is a documented remainder (a scene plays it), so the times
          // tell there.
          let hidden = self.rung == Rung::Lease;
          let range = at..at + text.len();
          self.change(ino, |disk| disk.store(ino, at, &text, now, hidden), range);
          self.note("store through a mapping");
        }
      }
      Step::PutOver(line, text) => {
        let found = ino.and_then(|ino| fitted(&self.disk.inode(ino).data, *line, text));
        if let (Some(ino), Some((at, text))) = (ino, found) {
          self.write(ino, at, &text);
          self.hear_write(actor);
          self.note("overwritten at equal length");
        }
      }
      Step::Unmap => {
        self.hear_mapped(actor);
        if let Some(ino) = actor.map.take() {
          self.disk.inode_mut(ino).maps -= 1;
        }
      }
      Step::Rename(from, to) => {
        let before = self.visible_at_removal(to);
        self.disk.rename(from, to, now);
        self.hear_of(from);
        self.hear_of(to);
        actor.n_opens_renamed = Some(self.n_opens);
        self.opened.insert(to.clone(), false);
        self.judge_target(to);
        self.noted(&before);
      }
      Step::Link(from, to) => {
        self.disk.link(from, to, now);
        self.hear_of(to);
        self.judge_target(from);
      }
      Step::Unlink(path) => {
        let before = self.visible_at_removal(path);
        let ino = self.disk.lookup(path);
        self.disk.unlink(path, now);
        self.hear_of(path);
        // The other name of a hard link may be the last one now.
        for path in self.paths.clone() {
          if ino.is_some() && self.ino_of(&path) == ino {
            self.judge_target(&path);
          }
        }
        self.noted(&before);
      }
      Step::Place(path, kind) => {
        if self.disk.lookup(path).is_none() && !self.disk.refuses(path) {
          self.disk.create(path, *kind, now);
          self.hear_of(path);
          self.judge_target(path);
        }
      }
      Step::Chown(path, foreign) => {
        if let Some(ino) = self.disk.lookup(path) {
          self.disk.inode_mut(ino).foreign = *foreign;
          self.disk.touch(ino, now);
          self.hear_of(path);
          self.judge_target(path);
        }
      }
      Step::Nothing => {}
    }
    true
  }

  fn close(&mut self, actor: &mut Actor) {
    if let Some(fd) = actor.fd.take() {
      self.hear_close(fd, actor.wrote);
      self.disk.close(fd);
    }
  }

  fn write(&mut self, ino: usize, at: usize, bytes: &[u8]) {
    let now = self.now_ns();
    self.change(ino, |disk| disk.write(ino, at, bytes, now), at..at + bytes.len());
    for path in self.paths.clone() {
      if self.ino_of(&path) == Some(ino) {
        self.opened.insert(path, false);
      }
    }
  }

  /// A tool that reads back what it wrote finds it, unless somebody else wrote since.
  fn verify(&mut self, actor: &Actor, path: &std::path::Path) {
    let Some(closing) = actor.closing else { return };
    let Some(ino) = self.disk.lookup(path) else { return };
    let undisturbed = closing.n_jumps == self.n_jumps
      && closing.n_changes == self.n_changes
      && closing.n_opens + 1 == self.n_opens
      && closing.n_records == self.n_records
      && closing.n_others == self.oracle.n_blind_writes
      && self.disk.inode(ino).kind == Kind::File;
    if !undisturbed || self.clock.elapsed().saturating_sub(closing.at) > VERIFIED {
      return;
    }
    self.note("verifying read");
    if self.disk.inode(ino).data != actor.buffer {
      self.oracle.violation("P4: a tool does not find what it has just written");
    }
  }
}

/// Where the n-th line stands, or the last one that is not empty ([`LAST`]), and what to put there at equal length.
fn fitted(data: &[u8], line: usize, text: &[u8]) -> Option<(usize, Vec<u8>)> {
  let lines: Vec<&[u8]> = data.split(|&byte| byte == b'\n').collect();
  let last = lines.iter().rposition(|line| !line.is_empty()).unwrap_or(0);
  let index = if line == LAST { last } else { line % lines.len() };
  let at = lines[..index].iter().map(|line| line.len() + 1).sum();
  let mut text = text.to_vec();
  let fits = text.len() <= lines[index].len();
  text.resize(lines[index].len(), b' ');
  fits.then_some((at, text))
}

/// Takes the n-th line out of a text and puts another in its place.
fn replace(buffer: &mut Vec<u8>, line: usize, text: &[u8]) {
  let lines: Vec<&[u8]> = buffer.split_inclusive(|&byte| byte == b'\n').collect();
  if lines.is_empty() {
    buffer.extend_from_slice(text);
    return;
  }
  let out = line % lines.len();
  *buffer = [&lines[..out], &[text], &lines[out + 1..]].concat().concat();
}

fn shown(step: &Step) -> String {
  let mut text = format!("{step:?}");
  if let Step::Put(bytes)
  | Step::Extend(bytes)
  | Step::Prepend(bytes)
  | Step::Store(bytes)
  | Step::StoreOver(_, bytes)
  | Step::PutOver(_, bytes)
  | Step::Replace(_, bytes) = step
  {
    let name = text.split_once('(').map_or("", |(name, _)| name).to_owned();
    text = format!("{name} {:?}", bytes.escape_ascii().to_string());
  }
  text
}
