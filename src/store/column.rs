//! Converts values of the domain to columns and back.
#![forbid(unsafe_code)]

use std::{
  ffi::OsStr,
  os::unix::ffi::OsStrExt as _,
  path::{Path, PathBuf},
  str::FromStr,
};

use rusqlite::{Row, types::Type};

use crate::{
  detect::{Code, Layer},
  memory::{BlockId, ContentHash},
  provenance::Source,
};

pub(super) fn path_bytes(path: &Path) -> &[u8] {
  path.as_os_str().as_bytes()
}

/// A path from its bytes.
pub(super) fn path(row: &Row<'_>, index: usize) -> rusqlite::Result<PathBuf> {
  let bytes = row.get_ref(index)?.as_blob().map_err(|error| bad(index, Type::Blob, error))?;
  Ok(PathBuf::from(OsStr::from_bytes(bytes)))
}

/// A value that is one word: a state, a trust level, an id, ...
pub(super) fn word<T: FromStr>(row: &Row<'_>, index: usize) -> rusqlite::Result<T> {
  let text = text(row, index)?;
  text.parse().ok().ok_or_else(|| bad(index, Type::Text, Unexpected(text.to_owned())))
}

/// A value that is one word, or null.
pub(super) fn optional_word<T: FromStr>(
  row: &Row<'_>,
  index: usize,
) -> rusqlite::Result<Option<T>> {
  match row.get_ref(index)? {
    rusqlite::types::ValueRef::Null => Ok(None),
    _ => word(row, index).map(Some),
  }
}

pub(super) fn source(row: &Row<'_>, index: usize) -> rusqlite::Result<Source> {
  text(row, index).map(Source::new)
}

/// Codes joined by commas; codes have none inside.
pub(super) fn join_codes(codes: &[Code]) -> String {
  codes.iter().map(|code| code.as_str()).collect::<Vec<_>>().join(",")
}

/// The codes of a column.
pub(super) fn codes(row: &Row<'_>, index: usize) -> rusqlite::Result<Vec<Code>> {
  let words = text(row, index)?.split(',').filter(|word| !word.is_empty());
  words.map(|word| word.parse().map_err(|error| bad(index, Type::Text, error))).collect()
}

pub(super) fn layer(row: &Row<'_>, index: usize) -> rusqlite::Result<Layer> {
  let word = text(row, index)?;
  [Layer::Rules, Layer::Effects, Layer::Model, Layer::Judge]
    .into_iter()
    .find(|layer| layer.as_str() == word)
    .ok_or_else(|| bad(index, Type::Text, Unexpected(word.to_owned())))
}

pub(super) fn hash(row: &Row<'_>, index: usize) -> rusqlite::Result<ContentHash> {
  optional_hash(row, index)?.ok_or_else(|| bad(index, Type::Null, Unexpected("nothing".to_owned())))
}

/// A content hash, or null.
pub(super) fn optional_hash(row: &Row<'_>, index: usize) -> rusqlite::Result<Option<ContentHash>> {
  match row.get::<_, Option<Vec<u8>>>(index)? {
    None => Ok(None),
    Some(bytes) => match ContentHash::from_slice(&bytes) {
      Some(hash) => Ok(Some(hash)),
      None => Err(bad(index, Type::Blob, Unexpected(format!("{} bytes", bytes.len())))),
    },
  }
}

/// A score as it is stored: SQLite has no NaN, and a score that is not a number has no meaning.
pub(super) fn score(score: f32) -> f64 {
  if score.is_finite() { f64::from(score) } else { 0.0 }
}

/// Ids as owned strings, for `IN` lists and sets.
pub(super) fn ids(
  statement: &mut rusqlite::Statement<'_>,
  params: impl rusqlite::Params,
) -> rusqlite::Result<Vec<BlockId>> {
  statement.query_map(params, |row| word(row, 0))?.collect()
}

fn text<'a>(row: &'a Row<'_>, index: usize) -> rusqlite::Result<&'a str> {
  row.get_ref(index)?.as_str().map_err(|error| bad(index, Type::Text, error))
}

pub(super) fn bad(
  index: usize,
  found: Type,
  error: impl std::error::Error + Send + Sync + 'static,
) -> rusqlite::Error {
  rusqlite::Error::FromSqlConversionFailure(index, found, Box::new(error))
}

/// The error for a value that memfw does not write.
#[derive(Debug, thiserror::Error)]
#[error("unexpected `{}`", .0.escape_debug())]
pub(super) struct Unexpected(pub(super) String);
