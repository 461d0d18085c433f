//! Transcripts up to 2026.7: one JSONL file a session, and `sessions.json` about all of them.
//!
//! A file is read from its end backwards, never whole; a moment in the past is found by halving. An
//! id becomes the name of a file only where it consists of letters, digits, `-` and `_`, so none
//! leaves the directory; the paths that `sessions.json` contains are never opened.
#![forbid(unsafe_code)]

use std::{
  cell::{Cell, OnceCell},
  cmp::Reverse,
  collections::HashMap,
  fs::{self, File},
  io::{self, Read as _},
  ops::ControlFlow,
  os::unix::fs::FileExt as _,
  path::{Path, PathBuf},
};

use super::{
  entry::{self, Entry},
  gather::Gather,
  json,
  lines::{LinesBack, spend},
  model::{Message, ReadResult, Record, Session, Window},
  parse::{self, MAX_EVENT},
};

/// Longest `sessions.json` that is read; an entry takes some twenty kilobytes.
const MAX_REGISTRY: u64 = 32 * 1024 * 1024;
/// Most entries of it that are kept.
const MAX_ENTRIES: usize = 20_000;
/// Most names of the directory that are looked at.
const MAX_NAMES: usize = 20_000;
/// Most files, the latest by their time stamps, that are looked into for a window.
const MAX_FILES: usize = 128;
/// Lines in a row without a time that are passed over.
const MAX_TIMELESS: usize = 64;
/// Most bytes that one question reads.
const MAX_READ: u64 = 256 * 1024 * 1024;
/// From this length on the end of a window is searched by halving, down to this length.
const HALVED: u64 = 32 * 1024;
/// The first line of a file is shorter.
const HEAD: usize = 1024;

/// The transcripts of one agent.
#[derive(Debug)]
pub(super) struct JsonlStore {
  directory: PathBuf,
  agent: String,
  registry: OnceCell<ReadResult<Registry>>,
  /// Bytes that may still be read.
  allowance: Cell<u64>,
}

/// `sessions.json`: keys and entries by the id of the session.
#[derive(Clone, Debug, Default, PartialEq)]
struct Registry {
  by_id: HashMap<String, Session>,
  /// When each was used last by its own account, in microseconds UTC.
  used_at: HashMap<String, i64>,
  id_by_key: HashMap<String, String>,
}

impl JsonlStore {
  /// The transcripts in `directory`; `None` where there is no such directory.
  pub(super) fn open(directory: &Path, agent: &str) -> Option<Self> {
    let is_there = fs::symlink_metadata(directory).is_ok_and(|meta| meta.is_dir());
    is_there.then(|| Self {
      directory: directory.to_owned(),
      agent: agent.to_owned(),
      registry: OnceCell::new(),
      allowance: Cell::new(MAX_READ),
    })
  }

  /// Sessions with records in `window`, each with the time of its last one.
  pub(super) fn active(&self, window: Window) -> ReadResult<Vec<(i64, Session)>> {
    let mut answer: ReadResult<Vec<(i64, Session)>> = ReadResult::default();
    for id in self.latest_ids(&mut answer.problems) {
      match self.last_in(&id, window) {
        Ok(Some(at)) => answer.found.push((at, self.describe(&id))),
        Ok(None) => {}
        Err(error) => answer.problems.push(self.failed(&id, &error)),
      }
    }
    if !answer.found.is_empty() {
      answer.problems.extend(self.registry().problems.iter().cloned());
    }
    answer.problems.extend(self.missing(window));
    answer
  }

  /// A session that was used since the window began, and whose transcript is not there: what it did is not known.
  fn missing(&self, window: Window) -> Option<String> {
    let mut used = self.registry().found.used_at.iter().filter(|(_, at)| **at >= window.from);
    used.find_map(|(id, _)| match self.file(id) {
      Ok(Some(_)) => None,
      Ok(None) if !is_plain(id) => None,
      Ok(None) => Some(self.failed(id, &io::Error::from(io::ErrorKind::NotFound))),
      Err(error) => Some(self.failed(id, &error)),
    })
  }

  /// One session by id or key.
  pub(super) fn session(&self, id_or_key: &str) -> ReadResult<Option<Session>> {
    let registry = self.registry();
    let id = registry.found.id_by_key.get(id_or_key).map_or(id_or_key, String::as_str);
    let has_file = self.file(id).is_ok_and(|file| file.is_some());
    let found = (has_file || registry.found.by_id.contains_key(id)).then(|| self.describe(id));
    ReadResult { found, problems: registry.problems.clone() }
  }

  /// Records of one session.
  pub(super) fn records(&self, id: &str, window: Window, limit: usize) -> ReadResult<Vec<Record>> {
    let session = self.describe(id);
    let mut gather = Gather::new(window, limit);
    let problem = self.gather(id, window, &mut gather).err();
    let mut found = gather.finish();
    if let Some(peer) = direct_peer(&session.key) {
      for record in &mut found {
        name_peer(record, peer);
      }
    }
    ReadResult {
      found,
      problems: problem.map(|error| self.failed(id, &error)).into_iter().collect(),
    }
  }

  fn gather(&self, id: &str, window: Window, gather: &mut Gather) -> io::Result<()> {
    let Some((file, len)) = self.file(id)? else { return Ok(()) };
    let mut lines = self.lines_until(&file, len, window.to)?;
    while let Some(line) = lines.line()? {
      let event = match &line.bytes {
        // A line of white space is no event, and no event that cannot be read.
        Some(bytes) if bytes.iter().all(u8::is_ascii_whitespace) => continue,
        Some(bytes) => Ok(bytes.as_slice()),
        None => Err("it is longer than four megabytes".to_owned()),
      };
      let seq = i64::try_from(line.offset).unwrap_or(i64::MAX);
      if gather.take(seq, None, event) == ControlFlow::Break(()) {
        break;
      }
    }
    Ok(())
  }

  /// The lines of a file backwards, from a place after which all are later than `to`, as far as
  /// halving finds one.
  fn lines_until<'a>(&'a self, file: &'a File, len: u64, to: i64) -> io::Result<LinesBack<'a>> {
    let lines = |end| LinesBack::new(file, end, MAX_EVENT, &self.allowance);
    let time_at = |end| {
      let line = lines(end).line()?.and_then(|line| line.bytes);
      Ok::<_, io::Error>(line.and_then(|bytes| parse::time_of(&bytes)))
    };
    if len <= HALVED || time_at(len)?.is_none_or(|at| at <= to) {
      return Ok(lines(len));
    }
    let (mut low, mut high) = (0, len);
    while high - low > HALVED {
      // The line that ends last before the middle.
      let Some(end) = line_end(file, low, u64::midpoint(low, high), &self.allowance)? else {
        break;
      };
      match time_at(end)? {
        Some(at) if at > to => high = end,
        Some(_) => low = end,
        None => break,
      }
    }
    Ok(lines(high))
  }

  /// The time of a session's last event in a window.
  fn last_in(&self, id: &str, window: Window) -> io::Result<Option<i64>> {
    let Some((file, len)) = self.file(id)? else { return Ok(None) };
    if first_time(&file)?.is_some_and(|at| at > window.to) {
      return Ok(None);
    }
    let mut lines = self.lines_until(&file, len, window.to)?;
    let mut timeless = 0;
    while let Some(line) = lines.line()? {
      match line.bytes.as_deref().and_then(parse::time_of) {
        Some(at) if at < window.from => return Ok(None),
        Some(at) if at <= window.to => return Ok(Some(at)),
        Some(_) => {}
        None if timeless > MAX_TIMELESS => return Ok(None),
        None => timeless += 1,
      }
    }
    Ok(None)
  }

  /// The ids of the files that were written to last.
  fn latest_ids(&self, problems: &mut Vec<String>) -> Vec<String> {
    let entries = match fs::read_dir(&self.directory) {
      Ok(entries) => entries,
      Err(error) => {
        problems.push(format!("`{}`: {error}", self.directory.display()));
        return vec![];
      }
    };
    let mut files = Vec::new();
    for entry in entries.take(MAX_NAMES).flatten() {
      let name = entry.file_name();
      let id = name.to_str().and_then(|name| match name.strip_suffix(".jsonl") {
        None => Some(name).filter(|name| is_archived(name)),
        id => id.filter(|id| is_plain(id)),
      });
      // The metadata of an entry is that of a link itself.
      let meta = entry.metadata().ok().filter(fs::Metadata::is_file);
      if let (Some(id), Some(meta)) = (id, meta) {
        files.push((Reverse(meta.modified().ok()), id.to_owned()));
      }
    }
    files.sort_unstable();
    files.truncate(MAX_FILES);
    files.into_iter().map(|(_, id)| id).collect()
  }

  /// The file of a session and its length; `None` where there is none.
  fn file(&self, id: &str) -> io::Result<Option<(File, u64)>> {
    let name = match id {
      id if is_plain(id) => format!("{id}.jsonl"),
      id if is_archived(id) => id.to_owned(),
      _ => return Ok(None),
    };
    match open_plain(&self.directory.join(name)) {
      Ok(file) => {
        let len = file.metadata()?.len();
        Ok(Some((file, len)))
      }
      Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
      Err(error) => Err(error),
    }
  }

  fn describe(&self, id: &str) -> Session {
    self.registry().found.by_id.get(id).cloned().unwrap_or_else(|| Session {
      id: id.to_owned(),
      agent: self.agent.clone(),
      ..Session::default()
    })
  }

  fn registry(&self) -> &ReadResult<Registry> {
    self.registry.get_or_init(|| {
      let path = self.directory.join("sessions.json");
      match self.read_registry(&path) {
        Ok(found) => ReadResult { found, problems: vec![] },
        Err(error) if error.kind() == io::ErrorKind::NotFound => ReadResult::default(),
        Err(error) => {
          let problem = format!("`{}`: {error}", path.display());
          ReadResult { found: Registry::default(), problems: vec![problem] }
        }
      }
    })
  }

  fn read_registry(&self, path: &Path) -> io::Result<Registry> {
    let file = open_plain(path)?;
    if file.metadata()?.len() > MAX_REGISTRY {
      return Err(io::Error::other("it is longer than 32 megabytes"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_REGISTRY).read_to_end(&mut bytes)?;
    let mut registry = Registry::default();
    json::pick(&bytes, entry::MEMBERS, &mut |key, members| {
      self.enter(&mut registry, key, &Entry::new(members));
      registry.id_by_key.len() < MAX_ENTRIES
    })?;
    Ok(registry)
  }

  fn enter(&self, registry: &mut Registry, key: String, entry: &Entry) {
    let Some(id) = entry.word("sessionId") else { return };
    let mut session =
      Session { id: id.clone(), key: key.clone(), agent: self.agent.clone(), ..Session::default() };
    entry.complete(&mut session);
    // A thread of a channel has a file of its own, named after the session and the thread.
    let file = entry.word("sessionFile");
    let stem = file.as_deref().and_then(|file| file.rsplit('/').next()?.strip_suffix(".jsonl"));
    let stem = stem.filter(|stem| is_plain(stem)).unwrap_or(&id).to_owned();
    session.id.clone_from(&stem);
    registry.id_by_key.insert(key, stem.clone());
    registry.used_at.extend(entry.used_at().map(|at| (stem.clone(), at)));
    registry.by_id.insert(stem, session);
  }

  fn failed(&self, id: &str, error: &io::Error) -> String {
    format!("`{}`: {error}", self.directory.join(format!("{id}.jsonl")).display())
  }
}

/// Opens a regular file; no link, and nothing that makes the opener wait.
fn open_plain(path: &Path) -> io::Result<File> {
  use rustix::fs::{Mode, OFlags, open};
  let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
  let file = File::from(open(path, flags, Mode::empty())?);
  if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is no regular file")) }
}

/// Whether a name is one that OpenClaw gives to a session: no path, no other kind of file.
fn is_plain(id: &str) -> bool {
  !id.is_empty()
    && id.len() <= 128
    && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
}

/// Whether it is the name of a transcript that OpenClaw has put aside: `ID.jsonl.reset.2026-02-16T10-00-00.000Z`.
/// Such a session is in no list any more.
fn is_archived(name: &str) -> bool {
  let Some((id, rest)) = name.split_once(".jsonl.") else { return false };
  let is_time = |time: &str| {
    time.len() <= 40
      && time.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b':'))
      && !time.contains("..")
  };
  let time = rest.strip_prefix("reset.").or_else(|| rest.strip_prefix("deleted."));
  is_plain(id) && time.is_some_and(is_time)
}

/// The time of the first line, where it is as short as that of OpenClaw.
fn first_time(file: &File) -> io::Result<Option<i64>> {
  let mut head = [0; HEAD];
  let n = file.read_at(&mut head, 0)?;
  let line = head.get(..n).and_then(|head| head.split(|byte| *byte == b'\n').next());
  Ok(line.and_then(parse::time_of))
}

/// The last end of a line in a part of a file.
fn line_end(file: &File, from: u64, to: u64, allowance: &Cell<u64>) -> io::Result<Option<u64>> {
  let mut end = to;
  while end > from {
    let start = end.saturating_sub(8 * 1024).max(from);
    spend(allowance, end - start)?;
    let mut block = vec![0; (end - start) as usize];
    file.read_exact_at(&mut block, start)?;
    if let Some(newline) = block.iter().rposition(|byte| *byte == b'\n') {
      let found = start + newline as u64 + 1;
      return Ok((found > from).then_some(found));
    }
    end = start;
  }
  Ok(None)
}

/// The other end of a direct chat that has a session of its own: `agent:main:telegram:direct:42`.
fn direct_peer(key: &str) -> Option<&str> {
  let parts: Vec<&str> = key.split(':').collect();
  match parts.as_slice() {
    ["agent", _, .., "direct" | "dm", peer] if !peer.is_empty() => Some(peer),
    _ => None,
  }
}

/// In a direct chat no other person speaks, whatever a block in the text says.
fn name_peer(record: &mut Record, peer: &str) {
  if let Message::User { sender: Some(sender), .. } = &mut record.message
    && sender.id.as_deref() != Some(peer)
  {
    *sender = super::model::Sender { id: Some(peer.to_owned()), ..Default::default() };
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  #[expect(clippy::disallowed_methods, reason = "a test makes its files")]
  fn a_session_in_use_whose_transcript_is_not_there_is_a_problem() {
    let dir = tempfile::tempdir().unwrap();
    let entry = r#"{"agent:main:main":{"sessionId":"s1","updatedAt":1000}}"#;
    fs::write(dir.path().join("sessions.json"), entry).unwrap();
    let problems = |from| {
      let store = JsonlStore::open(dir.path(), "main").unwrap();
      store.active(Window { from, to: i64::MAX }).problems
    };
    assert_eq!(problems(1_000_000).len(), 1);
    assert_eq!(problems(1_000_001), [""; 0], "it was not used since");
    fs::create_dir(dir.path().join("s1.jsonl")).unwrap();
    assert_eq!(problems(0).len(), 1, "it is no file");
    fs::remove_dir(dir.path().join("s1.jsonl")).unwrap();
    fs::write(dir.path().join("s1.jsonl"), "").unwrap();
    assert_eq!(problems(0), [""; 0]);
  }
}
