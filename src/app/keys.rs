//! Keys of endpoints: from an environment variable, or from a file that only its owner can read.
#![forbid(unsafe_code)]

use std::{fs, os::unix::fs::MetadataExt as _, path::Path};

use zeroize::Zeroizing;

use super::configuration::read as read_file;
use crate::{os::Env, terminal::failure::reason};

/// The variable that holds the key of the endpoint for vectors.
pub const EMBEDDING: &str = "MEMFW_EMBEDDING_KEY";
/// The variable that holds the key of the endpoint that judges.
pub const JUDGE: &str = "MEMFW_JUDGE_KEY";
/// The largest key file that memfw reads, in bytes; keys are single lines.
const MAX_KEY: u64 = 4096;

/// A key, from an environment variable or from a file that only its owner can read.
pub fn read(
  env: &Env,
  variable: &str,
  file: Option<&Path>,
) -> Result<Option<Zeroizing<String>>, String> {
  let text = if let Some(value) = env.get(variable) {
    let value = value.to_str().ok_or_else(|| format!("`{variable}` is not UTF-8"))?;
    Zeroizing::new(value.to_owned())
  } else if let Some(path) = file {
    let name = path.display();
    let metadata = fs::metadata(path)
      .map_err(|error| format!("cannot read the key file `{name}`: {}", reason(&error)))?;
    if metadata.mode() & 0o077 != 0 {
      return Err(format!("the key file `{name}` can be read by others; `chmod 600` it"));
    }
    let text = read_file(path, MAX_KEY)
      .map_err(|why| format!("cannot read the key file `{name}`: {why}"))?;
    Zeroizing::new(text.unwrap_or_default())
  } else {
    return Ok(None);
  };
  let key = text.trim();
  if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
    return Err("the key is not a line of printable characters".to_owned());
  }
  Ok(Some(Zeroizing::new(key.to_owned())))
}
