//! One request to an endpoint that is made up.

use std::{
  io::{BufRead as _, BufReader, Read as _},
  net::TcpStream,
};

use serde_json::Value;

/// The key and the JSON of a request; `None` where it is none.
pub(crate) fn question(stream: &TcpStream) -> Option<(String, Value)> {
  let mut reader = BufReader::new(stream);
  let (mut length, mut key) = (0, String::new());
  loop {
    let mut line = String::new();
    if reader.read_line(&mut line).ok()? == 0 {
      return None;
    }
    let (name, value) = line.trim_end().split_once(':').unwrap_or((line.trim_end(), ""));
    match name.to_lowercase().as_str() {
      "content-length" => length = value.trim().parse().ok()?,
      "authorization" => value.trim().clone_into(&mut key),
      "" => break,
      _ => {}
    }
  }
  let mut body = vec![0; length];
  reader.read_exact(&mut body).ok()?;
  Some((key, serde_json::from_slice(&body).ok()?))
}
