//! Calls that would change memfw itself: its configuration, its data, or its plugin. A model that may write there
//! can switch memfw off.
#![forbid(unsafe_code)]

use std::{
  iter,
  path::{Path, PathBuf},
};

use crate::{
  app::{
    agent::{call::without_dots, installations},
    context::Context,
    paths::resolved,
  },
  command::openclaw::plugin_dir,
  config::Config,
  link::{
    Call, Change, Decision, Reason, Reply, limits::MAX_NAME_BYTES, message::Answer, outcome::lossy,
  },
};

/// What the refusal is called: it is no finding about a text.
const CODE: &str = "own-files";

/// The directories of memfw itself.
#[derive(Debug, Default)]
pub(super) struct OwnFiles {
  dirs: Vec<PathBuf>,
  home: Option<PathBuf>,
  /// Where a relative path may begin.
  workspaces: Vec<PathBuf>,
}

impl OwnFiles {
  /// Those of this memfw, and of its plugin in each installation of the agent.
  pub(super) fn of(context: &Context, config: &Config, workspaces: &[PathBuf]) -> Self {
    let env = &context.surroundings.env;
    let home = context.home().ok();
    let own = home.into_iter().flat_map(|home| [home.config, home.data]);
    let plugins = installations(env, config);
    let dirs = own.chain(plugins.iter().map(plugin_dir)).map(|dir| without_dots(&dir)).collect();
    Self { dirs, home: env.path("HOME"), workspaces: workspaces.to_vec() }
  }

  /// Whether a call would write there, by its path or by a name in its patch. A patch may name many files: who
  /// does not wait any more is told nothing.
  pub(super) fn has(&self, call: &Call, is_late: &dyn Fn() -> bool) -> bool {
    let real_dirs: Vec<PathBuf> = self.dirs.iter().map(|dir| real(dir)).collect();
    let is_own =
      |path: &PathBuf| self.dirs.iter().chain(&real_dirs).any(|dir| path.starts_with(dir));
    let in_patch = call.change.as_ref().map(Change::names).unwrap_or_default();
    iter::once(call.path.as_str()).chain(in_patch).take_while(|_| !is_late()).any(|named| {
      // The tools of an agent shorten some names before they open them, so that one of any length may lead there.
      named.len() > MAX_NAME_BYTES
        || self
          .meant(call, named)
          .iter()
          .map(|path| without_dots(path))
          .any(|path| is_own(&path) || is_own(&real(&path)))
    })
  }

  /// The paths that a name in the call may mean, as the tools of an agent read a path.
  fn meant(&self, call: &Call, named: &str) -> Vec<PathBuf> {
    let path = named.split("</arg_value>").next().unwrap_or_default();
    let is_blank = |c: char| {
      matches!(c, '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}')
    };
    let path = path.replace(is_blank, " ");
    let path = path.trim();
    let path = path.strip_prefix('@').unwrap_or(path);
    if let Some(url) = path.strip_prefix("file://") {
      let url = url.strip_prefix("localhost").unwrap_or(url);
      return vec![PathBuf::from(decoded(url))];
    }
    if let (Some(below), Some(home)) = (path.strip_prefix("~/"), &self.home) {
      return vec![home.join(below)];
    }
    let told = call.workspace.as_deref().map(PathBuf::from);
    let bases = told.iter().chain(&self.workspaces);
    bases
      .map(|base| base.join(path))
      .chain([PathBuf::from(path)])
      .filter(|path| path.is_absolute())
      .collect()
  }
}

/// A URL's path without percent signs.
fn decoded(path: &str) -> String {
  let mut bytes = Vec::with_capacity(path.len());
  let mut parts = path.split('%');
  bytes.extend_from_slice(parts.next().unwrap_or_default().as_bytes());
  for part in parts {
    let digits = part.get(..2).filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
    if let Some(byte) = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
      bytes.push(byte);
      bytes.extend_from_slice(part.get(2..).unwrap_or_default().as_bytes());
    } else {
      bytes.push(b'%');
      bytes.extend_from_slice(part.as_bytes());
    }
  }
  lossy(&bytes)
}

/// The path without links, as far as it exists.
fn real(path: &Path) -> PathBuf {
  let there = path.ancestors().find(|path| path.exists()).unwrap_or(path);
  let rest = path.strip_prefix(there).unwrap_or_else(|_| Path::new(""));
  if rest.as_os_str().is_empty() { resolved(there) } else { resolved(there).join(rest) }
}

/// The refusal. Nothing was judged: whatever the text is, it does not go there.
pub(super) fn refusal(id: u64) -> Reply {
  let what = "this call would change files of memfw itself".to_owned();
  let rephrase =
    "Only the owner changes memfw: tell the owner what you wanted to do, and do not try it in \
                  another way."
      .to_owned();
  let reason = Reason {
    text: format!("memfw: {what} ({CODE}). Nothing was written. {rephrase}"),
    what,
    codes: vec![CODE.to_owned()],
    score: 0.0,
    source: "unknown".to_owned(),
    rephrase,
    allow: "The owner can change these files.".to_owned(),
    items: vec![],
  };
  let reason = Some(Box::new(reason));
  let body = Answer::Verdict { decision: Decision::Refuse, judged: false, note: None, reason };
  Reply { id: Some(id), body }
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn a_path_leads_to_memfw_however_it_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().canonicalize().unwrap();
    let config = home.join(".config/memfw");
    let workspace = home.join("w");
    std::fs::create_dir_all(&config).unwrap();
    std::fs::create_dir_all(&workspace).unwrap();
    std::os::unix::fs::symlink(&config, workspace.join("notes")).unwrap();
    let own = OwnFiles {
      dirs: vec![config.clone()],
      home: Some(home.clone()),
      workspaces: vec![workspace],
    };
    let has = |path: &str| {
      let patch =
        Change::Patch(format!("*** Begin Patch\n*** Add File: a\n+x\n*** Add File: {path}\n+x\n"));
      let by_path = own.has(&Call { path: path.to_owned(), ..Call::default() }, &|| false);
      let in_patch = own.has(&Call { change: Some(patch), ..Call::default() }, &|| false);
      assert_eq!(by_path, in_patch, "{path}");
      by_path
    };
    let file = config.join("config.toml").display().to_string();
    for path in [
      file.clone(),
      format!("@{file}"),
      format!(" {file}</arg_value>>"),
      format!("file://{file}"),
      format!("file://{}", file.replace("memfw", "mem%66w")),
      "~/.config/memfw/new/rules.toml".to_owned(),
      "../.config/memfw/config.toml".to_owned(),
      "x/../../.config/./memfw/config.toml".to_owned(),
      "notes/config.toml".to_owned(),
    ] {
      assert!(has(&path), "{path}");
    }
    for path in ["MEMORY.md", "~/.config/memfw-notes/a", "~/.config/other", "/etc/passwd", "", "%"]
    {
      assert!(!has(path), "{path}");
    }
  }
}
