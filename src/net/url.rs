//! The addresses to which a text may be sent.
#![forbid(unsafe_code)]

use std::net::IpAddr;

use ureq::http::Uri;

/// Refuses an address that would send text unencrypted, or that hides its host. The error is a
/// sentence in lower case.
pub fn check_url(text: &str) -> Result<Uri, String> {
  let uri = text.parse::<Uri>().map_err(|error| format!("`{text}` is not an address: {error}"))?;
  let Some(authority) = uri.authority() else {
    return Err(format!("`{text}` is not an address: it has no host"));
  };
  if authority.as_str().contains('@') {
    return Err("the address contains a user name or a password; put a key into a file".to_owned());
  }
  let host = authority.host().trim_start_matches('[').trim_end_matches(']');
  match uri.scheme_str() {
    Some("https") => Ok(uri),
    Some("http") if is_here(host) => Ok(uri),
    Some("http") => Err(format!("`{text}` is not encrypted; `http` reaches only this machine")),
    _ => Err(format!("`{text}` must begin with `https://`")),
  }
}

/// Whether a host is this machine.
fn is_here(host: &str) -> bool {
  host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn text_leaves_this_machine_only_encrypted() {
    for good in [
      "https://api.openai.com/v1",
      "https://[2001:db8::1]:8443/v1",
      "http://127.0.0.1:11434",
      "http://localhost:11434",
      "http://[::1]:11434",
    ] {
      assert!(check_url(good).is_ok(), "{good}");
    }
    for (bad, why) in [
      ("http://api.example.com/v1", "is not encrypted"),
      ("http://192.0.2.10/", "is not encrypted"),
      ("http://localhost.example.com/", "is not encrypted"),
      ("https://key@api.example.com/v1", "put a key into a file"),
      ("ftp://api.example.com/", "must begin with `https://`"),
      ("api.example.com/v1", "is not an address"),
      ("/v1", "it has no host"),
      ("", "is not an address"),
      ("https://", "is not an address"),
    ] {
      let error = check_url(bad).unwrap_err();
      assert!(error.contains(why), "{bad}: {error}");
    }
  }
}
