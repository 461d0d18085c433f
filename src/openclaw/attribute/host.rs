//! The host of an address, as a browser would see it.
//!
//! Addresses come from pages and models and are hostile: `https://good.example@evil.example/` is
//! evil.example. What no browser would open has no host.
#![forbid(unsafe_code)]

use crate::provenance::words;

/// Longest host that can be registered, in characters (RFC 1035).
const MAX_HOST_CHARS: usize = 253;

/// The host in lower case, without user, port and final dot; IPv6 in brackets; international names as
/// punycode. `None` where there is none or it could not be one.
pub(super) fn host(url: &str) -> Option<String> {
  // A browser removes these characters at any place.
  let url: String = url.trim().chars().filter(|c| !matches!(c, '\t' | '\n' | '\r')).collect();
  let (scheme, rest) = url.split_once(':')?;
  let is_web = ["http", "https", "ws", "wss", "ftp"].iter().any(|s| scheme.eq_ignore_ascii_case(s));
  if !is_web {
    return None;
  }
  let rest = rest.trim_start_matches(['/', '\\']);
  let authority = rest.split(['/', '\\', '?', '#']).next()?;
  let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
  if let Some(inner) = host.strip_prefix('[') {
    let (inner, _) = inner.split_once(']')?;
    let is_address = !inner.is_empty()
      && inner.len() <= 45
      && inner.chars().all(|c| c.is_ascii_hexdigit() || matches!(c, ':' | '.'));
    return is_address.then(|| format!("[{}]", inner.to_ascii_lowercase()));
  }
  let host = host.split(':').next()?;
  let host = percent_decoded(host)?;
  let labels: Option<Vec<String>> =
    host.trim_end_matches('.').split(['.', '。', '．']).map(label).collect();
  let host = labels?.join(".");
  (!host.is_empty() && host.len() <= MAX_HOST_CHARS).then_some(host)
}

/// One part of a name; `None` where it could not be one.
fn label(text: &str) -> Option<String> {
  let is_allowed = |c: char| !c.is_ascii() || c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
  if text.is_ascii() {
    let is_plain = !text.is_empty() && text.len() <= 63 && text.chars().all(is_allowed);
    return is_plain.then(|| text.to_ascii_lowercase());
  }
  let plain: String = text
    .chars()
    .filter(|c| !words::is_invisible(*c))
    .flat_map(|c| unicode_normalization::UnicodeNormalization::nfkc(std::iter::once(c)))
    .flat_map(char::to_lowercase)
    .collect();
  if plain.is_ascii() {
    return label(&plain);
  }
  // Punycode keeps what is ASCII as it is.
  plain.chars().all(is_allowed).then(|| punycode(&plain)).flatten()
}

fn percent_decoded(host: &str) -> Option<String> {
  if !host.contains('%') {
    return Some(host.to_owned());
  }
  let mut bytes = Vec::with_capacity(host.len());
  let mut rest = host.bytes();
  while let Some(byte) = rest.next() {
    if byte == b'%' {
      let digits = [rest.next()?, rest.next()?];
      let digits = std::str::from_utf8(&digits).ok()?;
      bytes.push(u8::from_str_radix(digits, 16).ok()?);
    } else {
      bytes.push(byte);
    }
  }
  String::from_utf8(bytes).ok()
}

/// RFC 3492, with the prefix; `None` where the label would become too long.
fn punycode(label: &str) -> Option<String> {
  const BASE: u32 = 36;
  let digit = |value: u32| char::from_digit(value, 36).map(swap_ranges);
  let mut out: String = label.chars().filter(char::is_ascii).collect();
  let n_basic = u32::try_from(out.len()).ok()?;
  let n_chars = u32::try_from(label.chars().count()).ok()?;
  if n_chars > 63 {
    return None;
  }
  if n_basic > 0 {
    out.push('-');
  }
  let (mut n, mut delta, mut bias, mut done) = (128_u32, 0_u32, 72_u32, n_basic);
  while done < n_chars {
    let next = label.chars().map(u32::from).filter(|c| *c >= n).min()?;
    delta = delta.checked_add((next - n).checked_mul(done + 1)?)?;
    n = next;
    for c in label.chars().map(u32::from) {
      if c < n {
        delta = delta.checked_add(1)?;
      }
      if c == n {
        let (mut q, mut k) = (delta, BASE);
        loop {
          let t = k.saturating_sub(bias).clamp(1, 26);
          if q < t {
            break;
          }
          out.push(digit(t + (q - t) % (BASE - t))?);
          q = (q - t) / (BASE - t);
          k += BASE;
        }
        out.push(digit(q)?);
        bias = adapt(delta, done + 1, done == n_basic);
        delta = 0;
        done += 1;
      }
    }
    delta += 1;
    n += 1;
  }
  (out.len() <= 59).then(|| format!("xn--{out}"))
}

/// Punycode counts letters before digits, `from_digit` digits before letters.
fn swap_ranges(c: char) -> char {
  match c {
    '0'..='9' => char::from(c as u8 - b'0' + b'a'),
    'a'..='p' => char::from(c as u8 - b'a' + b'k'),
    _ => char::from((c as u8).saturating_sub(b'q') + b'0'),
  }
}

fn adapt(delta: u32, n_points: u32, is_first: bool) -> u32 {
  let mut delta = if is_first { delta / 700 } else { delta / 2 };
  delta += delta / n_points;
  let mut k = 0;
  while delta > 455 {
    delta /= 35;
    k += 36;
  }
  k + 36 * delta / (delta + 38)
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn the_host_is_the_one_that_a_browser_would_ask() {
    let cases = [
      ("https://example.com/a?b#c", Some("example.com")),
      ("HTTPS://Example.COM.:8443/", Some("example.com")),
      ("https://good.example@evil.example/", Some("evil.example")),
      ("https://good.example:pw@evil.example:80/", Some("evil.example")),
      ("https://good.example\\@evil.example/", Some("good.example")),
      ("https://good.example#@evil.example/", Some("good.example")),
      ("https://good.example?x=@evil.example/", Some("good.example")),
      ("https:/\\/evil.example", Some("evil.example")),
      ("https:evil.example", Some("evil.example")),
      ("https://ev\nil.example/", Some("evil.example")),
      ("https://%65vil.example/", Some("evil.example")),
      ("http://127.0.0.1:18944/retries.html", Some("127.0.0.1")),
      ("http://[2001:DB8::1]:80/", Some("[2001:db8::1]")),
      ("https://xn--bcher-kva.example/", Some("xn--bcher-kva.example")),
      ("https://Bücher.example/", Some("xn--bcher-kva.example")),
      ("https://例え。テスト/", Some("xn--r8jz45g.xn--zckzah")),
      ("https://пример.example", Some("xn--e1afmkfd.example")),
      ("https://ｅｖｉｌ.example", Some("evil.example")),
      ("javascript:alert(1)", None),
      ("file:///etc/passwd", None),
      ("https://a b.example/", None),
      ("https://../", None),
      ("https://", None),
      ("example.com/no-scheme", None),
      ("http:%2f例[", None),
      ("", None),
    ];
    for (url, expected) in cases {
      assert_eq!(host(url).as_deref(), expected, "{url:?}");
    }
    assert_eq!(host(&format!("https://{}.example", "a".repeat(64))), None);
    assert_eq!(host(&format!("https://{}", "a.".repeat(200))), None);
  }

  proptest::proptest! {
    #[test]
    fn any_address_is_read(url in "(https?:)?[/\\\\@:a-z%0-9.\\[\\]é例]{0,80}|\\PC{0,60}") {
      if let Some(host) = host(&url) {
        proptest::prop_assert!(host.is_ascii() && !host.contains(['/', '@', ' ']));
      }
    }
  }
}
