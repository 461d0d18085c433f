//! Addresses of hosts, pages, people and files in one token of a text.
#![forbid(unsafe_code)]

use std::{
  net::{Ipv4Addr, Ipv6Addr},
  ops::Range,
};

use super::slot::SlotKind;

/// A value in a token.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Token {
  pub(super) kind: SlotKind,
  /// In bytes of the token.
  pub(super) span: Range<usize>,
  pub(super) value: String,
}

/// Longer tokens are data, not addresses.
const MAX_TOKEN: usize = 2048;
/// Endings of names that are reserved for examples and inner networks (RFC 2606, 6762, 8375).
const RESERVED: &[&str] =
  &["example", "test", "invalid", "localhost", "internal", "local", "lan", "onion", "corp"];
/// Endings that are those of files more often than of hosts.
const FILES: &[&str] = &[
  "md", "rs", "py", "sh", "pl", "so", "cc", "zip", "mov", "js", "ts", "go", "json", "toml", "yaml",
  "yml", "txt", "csv", "html", "css", "pdf", "png", "jpg", "cfg", "conf", "ini", "log", "sql",
  "db", "lock", "bat", "ps1", "exe", "docx", "xlsx", "ipynb", "jsonl", "xml", "java", "rb", "c",
  "h", "cpp", "kt", "swift", "vue", "tsx", "jsx",
];

/// The values that the token contains.
pub(super) fn read(token: &str) -> Vec<Token> {
  if token.len() > MAX_TOKEN {
    return Vec::new();
  }
  let trimmed =
    token.trim_end_matches(['.', ':', '!', '?', '…', '*', '_', '~', '。', '-', '&', '\\']);
  let core =
    trimmed.trim_start_matches(['*', '_', '-', '!', '#', '.', ':', '&', '+', '$', '^', '\\']);
  let (core, at) =
    if trimmed.starts_with("./") || trimmed.starts_with("../") || trimmed.starts_with(".env") {
      (trimmed, 0)
    } else {
      (core, trimmed.len() - core.len())
    };
  if core.len() < 3 || !core.contains(['.', '@', '/', ':', '-']) {
    return wallet(core, at).into_iter().collect();
  }
  let one = |kind, value: String| vec![Token { kind, span: at..at + core.len(), value }];
  if let Some((scheme, rest)) = core.split_once("://") {
    return url(scheme, rest, core, at);
  }
  let plain = core.strip_prefix("mailto:").unwrap_or(core);
  if let Some((local, domain)) = plain.rsplit_once('@') {
    if local.is_empty() {
      let is_name = domain.len() >= 2
        && domain.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'));
      return if is_name {
        one(SlotKind::Handle, format!("@{}", domain.to_lowercase()))
      } else {
        Vec::new()
      };
    }
    let is_local =
      local.bytes().all(|b| b.is_ascii_alphanumeric() || b"._%+-".contains(&b) || b >= 0x80);
    if is_local && registrable(domain).is_some() {
      return one(SlotKind::Email, plain.to_lowercase());
    }
  } else if let Some(handle) = plain.strip_prefix('@') {
    return one(SlotKind::Package, format!("@{}", handle.to_lowercase()));
  }
  if let Some(token) = ip(core) {
    return one(token.0, token.1);
  }
  let (authority, path) = core.split_once('/').map_or((core, ""), |(host, path)| (host, path));
  let host = without_port(authority);
  if let Some(domain) = registrable(host) {
    let is_file = path.is_empty() && host == authority && is_file(host);
    if !is_file {
      let mut tokens =
        vec![Token { kind: SlotKind::Domain, span: at..at + core.len(), value: domain }];
      let address = core.trim_end_matches('/').to_lowercase();
      tokens.push(Token {
        kind: SlotKind::Host,
        span: at..at + core.len(),
        value: host.to_lowercase(),
      });
      if !path.is_empty() {
        tokens.push(Token { kind: SlotKind::Url, span: at..at + core.len(), value: address });
      }
      return tokens;
    }
  }
  if authority.starts_with("localhost")
    && (authority.len() == 9 || authority.get(9..10) == Some(":"))
  {
    return one(SlotKind::Host, "localhost".to_owned());
  }
  if let Some(token) = wallet(core, at) {
    return vec![token];
  }
  if is_path(core) { one(SlotKind::Path, core.to_owned()) } else { Vec::new() }
}

fn url(scheme: &str, rest: &str, core: &str, at: usize) -> Vec<Token> {
  let is_scheme = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
  let start = scheme.rfind(|c| !is_scheme(c)).map_or(0, |at| at + 1);
  let scheme = scheme.get(start..).unwrap_or_default().to_ascii_lowercase();
  if scheme.is_empty() || rest.is_empty() {
    return Vec::new();
  }
  let span = at + start..at + core.len();
  let (authority, path) = rest.split_once(['/', '?', '#']).unwrap_or((rest, ""));
  let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
  let bare = without_port(host).to_lowercase();
  let mut value = format!("{scheme}://{}", authority.to_lowercase());
  if !path.is_empty() {
    value.push('/');
    value.push_str(path.trim_end_matches('/'));
  }
  let mut tokens = vec![Token { kind: SlotKind::Url, span: span.clone(), value }];
  let (kind, value) = match (ip(&bare), registrable(&bare)) {
    (Some((kind, value)), _) => (kind, value),
    (None, Some(domain)) => (SlotKind::Domain, domain),
    (None, None) => (SlotKind::Host, bare.clone()),
  };
  if kind == SlotKind::Domain {
    tokens.push(Token { kind: SlotKind::Host, span: span.clone(), value: bare });
  }
  tokens.push(Token { kind, span, value });
  tokens
}

fn without_port(host: &str) -> &str {
  match host.rsplit_once(':') {
    Some((name, port))
      if !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit() || b == b'*') =>
    {
      name
    }
    _ => host,
  }
}

/// The registrable part of a host name, lower case; `None` where it is none.
pub fn registrable(host: &str) -> Option<String> {
  let host = host.trim_end_matches('.');
  let host = host.strip_prefix("*.").unwrap_or(host);
  if host.len() > 253 || !host.contains('.') || host.starts_with('.') {
    return None;
  }
  let mut last = "";
  let mut first_is_lower = true;
  for (index, label) in host.split('.').enumerate() {
    let is_label = !label.is_empty()
      && label.len() <= 63
      && !label.starts_with('-')
      && label.chars().all(|c| c.is_alphanumeric() || c == '-' || c == '_');
    // "again.The" is the end of one sentence and the start of another.
    let is_lower = label.chars().next().is_some_and(|c| !c.is_uppercase());
    first_is_lower = if index == 0 { is_lower } else { first_is_lower };
    if !is_label || (index > 0 && first_is_lower && !is_lower) {
      return None;
    }
    last = label;
  }
  if last.len() < 2 || !last.chars().all(char::is_alphabetic) && !last.starts_with("xn--") {
    return None;
  }
  let lower = host.to_lowercase();
  let last = last.to_lowercase();
  if RESERVED.contains(&last.as_str()) {
    let mut labels = lower.rsplit('.');
    let (top, name) = (labels.next()?, labels.next()?);
    return Some(format!("{name}.{top}"));
  }
  let suffix = psl::suffix(lower.as_bytes())?;
  if !suffix.is_known() {
    return None;
  }
  let domain = psl::domain_str(&lower)?;
  Some(domain.to_owned())
}

fn is_file(name: &str) -> bool {
  let Some((stem, ending)) = name.rsplit_once('.') else { return false };
  let ending = ending.to_ascii_lowercase();
  FILES.contains(&ending.as_str()) && !stem.starts_with("www.") && !stem.contains('.')
}

fn ip(text: &str) -> Option<(SlotKind, String)> {
  let (address, bits) = match text.split_once('/') {
    Some((address, bits)) => (address, Some(bits.parse::<u8>().ok()?)),
    None => (text, None),
  };
  let value = if let Ok(v4) = without_port(address).parse::<Ipv4Addr>() {
    v4.to_string()
  } else if address.bytes().filter(|b| *b == b':').count() >= 2 {
    address.parse::<Ipv6Addr>().ok()?.to_string()
  } else {
    return None;
  };
  Some(match bits {
    Some(bits) if bits <= 128 => (SlotKind::Cidr, format!("{value}/{bits}")),
    Some(_) => return None,
    None => (SlotKind::Ip, value),
  })
}

/// An address of a cryptocurrency by its shape: Ethereum and its like, Bitcoin (both forms), or a token that
/// calls itself a wallet.
fn wallet(token: &str, at: usize) -> Option<Token> {
  let lower = token.to_ascii_lowercase();
  let is_hex = |text: &str| text.bytes().all(|b| b.is_ascii_hexdigit());
  let is_wallet = if let Some(hex) = lower.strip_prefix("0x") {
    (12..=64).contains(&hex.len()) && is_hex(hex)
  } else {
    let digits = token.bytes().filter(u8::is_ascii_digit).count();
    let bech32 = ["bc1", "ltc1", "addr1"].iter().any(|p| lower.starts_with(p)) && token.len() >= 14;
    let base58 = (26..=44).contains(&token.len())
      && matches!(token.as_bytes().first(), Some(b'1' | b'3' | b'T' | b'L' | b'D' | b'X'))
      && digits >= 3
      && token.bytes().any(|b| b.is_ascii_lowercase())
      && token.bytes().any(|b| b.is_ascii_uppercase())
      && token.bytes().all(|b| b.is_ascii_alphanumeric() && !b"0OIl".contains(&b));
    let named = lower.contains("wallet-") && digits > 0;
    (bech32 && token.bytes().all(|b| b.is_ascii_alphanumeric())) || base58 || named
  };
  is_wallet.then(|| Token { kind: SlotKind::Wallet, span: at..at + token.len(), value: lower })
}

fn is_path(token: &str) -> bool {
  let plain =
    token.bytes().all(|b| b.is_ascii_alphanumeric() || b"/._~-+@%*".contains(&b) || b >= 0x80);
  let rooted = ["/", "~/", "./", "../"].iter().any(|prefix| token.starts_with(prefix));
  let named =
    token.rsplit('/').next().is_some_and(|last| is_file(last) || last.starts_with(".env"));
  plain && ((rooted && token.len() > 2 && token.bytes().any(|b| b.is_ascii_alphabetic())) || named)
}
