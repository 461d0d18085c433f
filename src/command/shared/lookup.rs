//! Finds guarded files and items by what people type: a path, `FILE:LINE`, the beginning of an id.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use crate::{
  app::paths::resolved,
  config::nearest,
  engine::event::shown,
  memory::BlockId,
  store::{FileRow, FileStatus, Item, ItemFilter, Ledger, Place, StoreError},
  terminal::failure::Failure,
};

/// Where a person finds what is guarded.
pub const GUARDED: &str = "`memfw status` names the guarded workspaces";
/// The most candidates that an error names (a choice).
const MAX_NAMED: usize = 6;

/// Splits `FILE` or `FILE:LINE` as it was typed. An existing file whose name itself ends like that wins.
pub fn typed_place(text: &str) -> (&str, Option<usize>) {
  if let (Some((file, line)), false) = (text.rsplit_once(':'), Path::new(text).exists())
    && let Ok(line) = line.parse::<usize>()
  {
    return (file, Some(line));
  }
  (text, None)
}

/// Splits `FILE` or `FILE:LINE`, with the path of the file.
pub fn place(text: &str) -> (PathBuf, Option<usize>) {
  let (file, line) = typed_place(text);
  (resolved(Path::new(file)), line)
}

/// The guarded file that is typed as `FILE` or `FILE:LINE`, from any directory: the file at this path, or else
/// the only one whose path ends like that. `None` if there is none.
pub fn find_anywhere(
  ledger: &Ledger,
  typed: &str,
) -> Result<Option<(FileRow, Option<usize>)>, Failure> {
  let (name, line) = typed_place(typed);
  let row = match ledger.file(&resolved(Path::new(name)))? {
    Some(row) => Some(row),
    None => only_named(ledger, Path::new(name))?,
  };
  Ok(row.map(|row| (row, line)))
}

/// The only guarded file whose path ends like that; of several, the only one that exists.
fn only_named(ledger: &Ledger, name: &Path) -> Result<Option<FileRow>, Failure> {
  let is_like = |file: &FileRow| !name.as_os_str().is_empty() && file.path.ends_with(name);
  let mut files: Vec<FileRow> = ledger.files()?.into_iter().filter(is_like).collect();
  if files.iter().any(|file| file.status != FileStatus::Missing) {
    files.retain(|file| file.status != FileStatus::Missing);
  }
  match files.len() {
    0 | 1 => Ok(files.pop()),
    n => {
      let paths: Vec<String> =
        files.iter().take(MAX_NAMED).map(|file| format!("`{}`", shown(&file.path))).collect();
      let more = if n > MAX_NAMED { format!(" and {} more", n - MAX_NAMED) } else { String::new() };
      Err(
        Failure::usage(format!("{n} guarded files are named `{}`", shown(name)))
          .hint(format!("name one of them: {}{more}", paths.join(", "))),
      )
    }
  }
}

/// The guarded file that an unknown path probably means: one with this name, or with a similar name.
pub fn meant(ledger: &Ledger, path: &Path) -> Option<PathBuf> {
  let name = path.file_name()?.to_str()?;
  let files = ledger.files().ok()?;
  let named = |name: &str| {
    files.iter().map(|file| &file.path).find(|path| path.file_name().is_some_and(|it| it == name))
  };
  let names = files.iter().filter_map(|file| file.path.file_name()?.to_str());
  named(name).or_else(|| named(nearest(name, names)?)).cloned()
}

/// The path of a file as the ledger knows it; the file may be gone. If there is no file at this path, the only guarded
/// file whose path ends like that is meant.
pub fn find_file(ledger: &Ledger, typed: &Path) -> Result<PathBuf, Failure> {
  // The file may be gone or replaced by a link, so also try the resolved directory with the typed name.
  let below = typed.parent().zip(typed.file_name()).map(|(parent, name)| {
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    resolved(parent).join(name)
  });
  let path = resolved(typed);
  for path in below.iter().chain([&path]) {
    if ledger.file(path)?.is_some() {
      return Ok(path.clone());
    }
  }
  // A file that is there and not guarded was meant itself.
  if !typed.exists()
    && let Some(row) = only_named(ledger, typed)?
  {
    return Ok(row.path);
  }
  let hint = match meant(ledger, &path) {
    Some(meant) => format!("did you mean `{}`?", shown(&meant)),
    None => GUARDED.to_owned(),
  };
  Err(Failure::unavailable(format!("`{}` is not a guarded memory file", shown(&path))).hint(hint))
}

/// The id in what people copy from a comment in a file: `id=a1b2c3`, `memfw:id=a1b2c3` or `memfw:a1b2c3`.
pub fn bare_id(typed: &str) -> &str {
  let typed = typed.strip_prefix("memfw:").unwrap_or(typed);
  typed.strip_prefix("id=").unwrap_or(typed)
}

/// Blocks by the id of their marker: the id, and the blocks that it encloses. `None` if the name is that
/// of an item, or unknown.
pub fn find_marked(ledger: &Ledger, name: &str) -> Result<Option<(BlockId, Vec<Place>)>, Failure> {
  let (id, places) = match ledger.marked(name) {
    Ok(found) => found,
    Err(StoreError::UnknownId { .. }) => return Ok(None),
    Err(error) => return Err(error.into()),
  };
  match ledger.item(name) {
    // A whole id is itself, also where it is the beginning of others.
    Ok(item) if item.id == id || !id.as_str().eq_ignore_ascii_case(name) => Ok(None),
    Err(StoreError::AmbiguousId { .. }) if !id.as_str().eq_ignore_ascii_case(name) => Ok(None),
    Ok(_) | Err(StoreError::AmbiguousId { .. } | StoreError::UnknownId { .. }) => {
      Ok(Some((id, places)))
    }
    Err(error) => Err(error.into()),
  }
}

/// The item with an id, with the beginning of an id, or at a place in a file.
pub fn find_item(ledger: &Ledger, name: &str) -> Result<Item, Failure> {
  if let (file, Some(line)) = typed_place(name) {
    let typed = Path::new(file);
    // Items stay when their file is guarded no longer.
    let path = find_file(ledger, typed).unwrap_or_else(|_| resolved(typed));
    let filter = ItemFilter { path: Some(path.clone()), ..ItemFilter::default() };
    return ledger.items(&filter)?.into_iter().find(|item| item.line as usize == line).ok_or_else(
      || {
        Failure::unavailable(format!("no item of `{}` line {line} is in quarantine", shown(&path)))
          .hint("`memfw list` names what waits")
      },
    );
  }
  match ledger.item(name) {
    Err(StoreError::UnknownId { .. }) if ledger.loss(name)?.is_some() => Err(
      Failure::usage(format!("`{name}` is a loss, not an item"))
        .hint(format!("`memfw show {name}`")),
    ),
    // A person may have taken the block with this id out, and the item has another one.
    Err(unknown @ StoreError::UnknownId { .. }) => match ledger.taken_as(name) {
      Ok(id) => Ok(ledger.item(id.as_str())?),
      Err(StoreError::UnknownId { .. }) => Err(unknown.into()),
      Err(error) => Err(error.into()),
    },
    found => Ok(found?),
  }
}
