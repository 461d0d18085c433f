//! A tool call that a plugin inside the agent asks about: which file it means, and who writes the text.
#![forbid(unsafe_code)]

use std::{
  ffi::OsString,
  os::unix::ffi::OsStringExt as _,
  path::{Component, Path, PathBuf},
};

use super::installations;
use crate::{
  app::paths::resolved,
  config::Config,
  files::Shapes,
  link::{Call, HeardKind, limits::MAX_NAME_BYTES},
  openclaw::observed::{Observed, Pending},
  os::Env,
  provenance::Attribution,
};

/// The most links that lead to a file that does not exist yet (a choice; the kernel follows 40).
const MAX_LINKS: usize = 8;

/// The guarded directories, and how relative paths of a call are meant.
#[derive(Debug)]
pub struct Places {
  /// The guarded directories, without links in their paths.
  pub roots: Vec<PathBuf>,
  /// Those of them that are not workspaces.
  pub shapes: Shapes,
  /// The home directory.
  pub home: Option<PathBuf>,
  /// The workspace of each agent.
  agents: Vec<(String, PathBuf)>,
  default: Option<PathBuf>,
}

impl Places {
  /// The places of these guarded directories.
  pub fn new(env: &Env, config: &Config, roots: Vec<PathBuf>, shapes: Shapes) -> Self {
    let found = installations(env, config);
    let all = || found.iter().flat_map(|one| &one.agents);
    let place = |agent: &crate::openclaw::Agent| resolved(&agent.workspace);
    let first = roots.first().filter(|_| roots.len() == 1).cloned();
    Self {
      agents: all().map(|agent| (agent.id.clone(), place(agent))).collect(),
      default: first.or_else(|| all().find(|agent| agent.is_default).map(place)),
      home: env.path("HOME"),
      roots,
      shapes,
    }
  }

  /// The memory file that a name in a call means: a guarded directory, and the path below it. `None` if the file
  /// is no memory that memfw guards.
  pub fn memory_file(&self, call: &Call, named: &str) -> Option<(PathBuf, PathBuf)> {
    self.place(call, named).and_then(|file| self.memory(&file)).or_else(|| {
      // A plugin may have left blanks around a name.
      let file = self.place(call, named.trim()).filter(|_| named != named.trim())?;
      self.memory(&file)
    })
  }

  /// The guarded directory of a memory file, and its path below it.
  pub fn memory(&self, file: &Path) -> Option<(PathBuf, PathBuf)> {
    self.below(file).filter(|(root, rel)| self.shapes.of(root).has(rel))
  }

  /// The guarded directory that a file is in, and its path below it.
  pub fn below(&self, file: &Path) -> Option<(PathBuf, PathBuf)> {
    let below = |root: &PathBuf| Some((root.clone(), file.strip_prefix(root).ok()?.to_owned()));
    let all: Vec<_> = self.roots.iter().filter_map(below).collect();
    let memory = all.iter().find(|(root, rel)| self.shapes.of(root).has(rel));
    memory.or_else(|| all.first()).cloned()
  }

  /// The file that a name in a call means, as OpenClaw's tools understand it (2026.9.6), without links.
  pub fn place(&self, call: &Call, named: &str) -> Option<PathBuf> {
    // A patch may contain a name of any length; no file has a longer one.
    if named.len() > MAX_NAME_BYTES {
      return None;
    }
    let dir = self.directory(call);
    let named = whole_name(named);
    // A name may begin with `@`, but usually that marks a reference.
    let is_literal = || {
      let first = Path::new(named).components().next();
      dir.as_ref().zip(first).is_some_and(|(dir, first)| dir.join(first).symlink_metadata().is_ok())
    };
    let named = match named.strip_prefix('@') {
      Some(_) if is_literal() => named,
      Some(after) => after,
      None => named,
    };
    let path = if let Some(url) = named.strip_prefix("file://") {
      path_of_url(url)?
    } else if named == "~" || named.starts_with("~/") {
      let below = named.trim_start_matches('~').trim_start_matches('/');
      self.home.as_ref()?.join(below)
    } else {
      PathBuf::from(named)
    };
    let path = if path.is_absolute() { path } else { dir?.join(path) };
    let plain = without_dots(&path);
    let real = real(&plain, MAX_LINKS);
    // A guarded file that was replaced by a link is still the one that is meant.
    let is_guarded = |path: &PathBuf| self.memory(path).is_some();
    let found = [real.clone(), plain].into_iter().find(is_guarded);
    Some(found.unwrap_or(real))
  }

  /// The directory in which relative names begin.
  fn directory(&self, call: &Call) -> Option<PathBuf> {
    let of_agent = || {
      let id = call.agent.as_ref()?;
      self.agents.iter().find(|(agent, _)| agent == id).map(|(_, workspace)| workspace.clone())
    };
    let told = call.workspace.as_deref().map(Path::new).filter(|path| path.is_absolute());
    told.map(resolved).or_else(of_agent).or_else(|| self.default.clone())
  }
}

/// The name without the rest of a tag, which OpenClaw takes off.
fn whole_name(named: &str) -> &str {
  let before = named.trim_end_matches('>');
  match before.strip_suffix("</arg_value") {
    Some(name) if named.len() - before.len() >= 2 => name,
    _ => named,
  }
}

/// The path in a URL, of which `url` is what follows `file://`.
fn path_of_url(url: &str) -> Option<PathBuf> {
  let url = url.strip_prefix("localhost").unwrap_or(url);
  let url = url.split(['?', '#']).next().unwrap_or_default();
  let mut bytes = Vec::with_capacity(url.len());
  let mut rest = url.as_bytes();
  while let [first, after @ ..] = rest {
    rest = after;
    match (first, after) {
      (b'%', [high, low, after @ ..]) => {
        let digit = |byte: &u8| char::from(*byte).to_digit(16);
        bytes.push(u8::try_from(digit(high)? * 16 + digit(low)?).ok()?);
        rest = after;
      }
      (b'\\', _) => bytes.push(b'/'),
      // A URL ignores these.
      (b'\t' | b'\n' | b'\r', _) => {}
      _ => bytes.push(*first),
    }
  }
  let path = PathBuf::from(OsString::from_vec(bytes));
  path.is_absolute().then_some(path)
}

/// The path without `.` and `..`.
pub fn without_dots(path: &Path) -> PathBuf {
  let mut plain = PathBuf::new();
  for part in path.components() {
    match part {
      Component::ParentDir => drop(plain.pop()),
      Component::CurDir => {}
      part => plain.push(part),
    }
  }
  plain
}

/// Where a file is or would be created: links of existing files and directories are followed.
fn real(path: &Path, links: usize) -> PathBuf {
  if let Ok(real) = path.canonicalize() {
    return real;
  }
  let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else { return path.to_owned() };
  let path = real(dir, links).join(name);
  // A link may lead to a file that does not exist yet.
  match path.read_link() {
    Ok(to) if links > 0 => real(&without_dots(&path.with_file_name("").join(to)), links - 1),
    _ => path,
  }
}

/// Who writes the text, by what came into the run.
pub fn attribution(
  call: &Call,
  (root, rel): (&Path, &Path),
  text: &str,
  config: &Config,
  at: i64,
) -> Attribution {
  let session = call.session_id.as_deref().or(call.run.as_deref()).unwrap_or("unknown");
  let key = call.session.as_deref().unwrap_or_default();
  let mut observed = Observed::new(session, key, call.channel.as_deref(), root);
  // A plugin that may not read conversations knows who asked, and not the words.
  if !call.heard.iter().any(|heard| heard.kind == HeardKind::Message)
    && call.sender_is_owner.is_some()
  {
    observed.message("", call.sender_is_owner, call.sender.as_deref());
  }
  for heard in &call.heard {
    match heard.kind {
      HeardKind::Message => {
        observed.message(&heard.passage, heard.owner, heard.sender.as_deref());
      }
      HeardKind::Tool => {
        let (tool, text) = (&heard.tool, &heard.passage);
        observed.answer(tool, &heard.subject, text, heard.is_error, heard.network);
      }
    }
  }
  observed.attribute(&Pending {
    workspace: root,
    file: rel,
    tool: &call.tool,
    text,
    at,
    owner_devices: &config.agent_owner_devices,
  })
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn a_call_means_a_file_of_a_guarded_directory() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap().join("w");
    std::fs::create_dir_all(root.join("memory")).unwrap();
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(&root, &link).unwrap();
    let roots = vec![root.clone()];
    let env = Env::from_pairs([("HOME", dir.path().display().to_string())]);
    let places = Places::new(&env, &Config::default(), roots, Shapes::default());
    let file = |path: &str| {
      places.memory_file(&Call::default(), path).map(|(of, rel)| {
        assert_eq!(of, root);
        rel.display().to_string()
      })
    };
    let memory = Some("MEMORY.md".to_owned());
    for path in ["MEMORY.md", "./MEMORY.md", "memory/../MEMORY.md", "~/w/MEMORY.md"] {
      assert_eq!(file(path), memory, "{path}");
    }
    assert_eq!(file(&root.join("MEMORY.md").display().to_string()), memory);
    assert_eq!(file(&link.join("MEMORY.md").display().to_string()), memory);
    assert_eq!(file("memory/2026-01-01.md").as_deref(), Some("memory/2026-01-01.md"));
    for (to, alias) in [("MEMORY.md", "alias.txt"), ("memory/later.md", "later.txt")] {
      std::os::unix::fs::symlink(to, root.join(alias)).unwrap();
    }
    std::fs::File::create_new(root.join("MEMORY.md")).unwrap();
    let url = format!("file://{}/%4dEMORY.md?a#b", root.display());
    for path in [
      url.as_str(),
      "MEMORY.md</arg_value>>",
      "MEMORY.md</arg_value>>>",
      "@MEMORY.md",
      "alias.txt",
      " MEMORY.md",
      "@@MEMORY.md",
    ] {
      // The second `@` belongs to the name.
      assert_eq!(file(path), memory.clone().filter(|_| path != "@@MEMORY.md"), "{path}");
    }
    for path in ["@memory/z.md", "memory//z.md", "memory/./z.md", "memory/x/../z.md"] {
      assert_eq!(file(path).as_deref(), Some("memory/z.md"), "{path}");
    }
    assert_eq!(file("later.txt").as_deref(), Some("memory/later.md"));
    // A directory of that name makes it one.
    std::fs::create_dir_all(root.join("@memory")).unwrap();
    assert_eq!(file("@memory/z.md"), None);
    for path in ["MEMORY.md</arg_value>", "file://host/MEMORY.md", "file:///%zz", "~"] {
      assert_eq!(file(path), None, "{path}");
    }
    for path in ["notes.txt", "../MEMORY.md", "/etc/passwd", "", "/", "~/MEMORY.md"] {
      assert_eq!(file(path), None, "{path}");
    }
  }
}
