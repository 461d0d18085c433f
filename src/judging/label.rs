//! The labels of sources in markers: the kind, and a registrable domain or a short tag in place of each
//! name.
//!
//! The agent reads a marker with the memory around it, and senders, pages and files choose their names
//! themselves. The names are in the ledger; `provenance`, `show` and `explain` print them.
#![forbid(unsafe_code)]

use std::net::Ipv4Addr;

use crate::{detect::effects::registrable, memory::marker, provenance::Source, seal::NameKey};

/// The longest kind that is written; memfw's own have at most 13 characters.
const MAX_KIND: usize = 20;
/// The longest domain that is written (a choice: nine of ten registered ones are shorter than 25
/// characters).
const MAX_DOMAIN: usize = 40;
/// Kinds whose detail is a network address.
const ADDRESSED: &[&str] =
  &["browser", "email", "exec", "mail", "tool", "web", "web_fetch", "web_search", "webhook"];
/// Channels on which people write to an agent. The name of another channel comes from a plugin, and is
/// written as a tag.
const CHANNELS: &[&str] = &[
  "bluebubbles",
  "chat",
  "cli",
  "discord",
  "email",
  "feishu",
  "googlechat",
  "imessage",
  "internal",
  "irc",
  "line",
  "local",
  "matrix",
  "mattermost",
  "msteams",
  "nextcloud-talk",
  "nostr",
  "session",
  "signal",
  "slack",
  "sms",
  "telegram",
  "tlon",
  "tui",
  "twitch",
  "unknown",
  "voice",
  "webchat",
  "wechat",
  "whatsapp",
  "zalo",
];
/// Details that memfw itself assigns.
const OWN: &[&str] =
  &["claude-code", "codex", "gmail", "hermes", "localhost", "others", "unknown", "webhook"];

/// Makes labels. Without a key there are no tags, and names are left out.
#[derive(Debug, Default)]
pub struct Labels {
  key: Option<NameKey>,
}

impl Labels {
  /// Labels with tags made by this key.
  pub fn new(key: NameKey) -> Self {
    Self { key: Some(key) }
  }

  /// The label of a source.
  pub fn source(&self, source: &Source) -> Source {
    let kind = source.kind();
    if !is_kind(kind) {
      return Source::new(&self.with_tag("other", source.as_str()));
    }
    let Some(detail) = source.detail().filter(|detail| !detail.is_empty()) else {
      return Source::new(kind);
    };
    let label = match (kind, detail.split_once(':')) {
      _ if OWN.contains(&detail) => format!("{kind}:{detail}"),
      ("user", None) if detail == "owner" => "user:owner".to_owned(),
      ("user", Some((channel, name))) if CHANNELS.contains(&channel) => match name {
        "others" | "unknown" => format!("user:{channel}:{name}"),
        name => self.with_tag(&format!("user:{channel}"), name),
      },
      _ => match address(detail).filter(|_| ADDRESSED.contains(&kind)) {
        Some(address) => format!("{kind}:{address}"),
        None => self.with_tag(kind, detail),
      },
    };
    Source::new(&label)
  }

  /// The label of a session: its own name if that is random, else a tag; `None` without a key.
  pub fn session(&self, session: &str) -> Option<String> {
    // No word consists of hexadecimal digits with a decimal digit among them.
    let is_random = (8..=64).contains(&session.len())
      && session.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-')
      && session.bytes().any(|b| b.is_ascii_digit());
    if is_random {
      return Some(session.to_owned());
    }
    self.key.as_ref().map(|key| key.tag(session))
  }

  fn with_tag(&self, head: &str, name: &str) -> String {
    match &self.key {
      Some(key) => format!("{head}:{}", key.tag(name)),
      None => head.to_owned(),
    }
  }
}

/// Whether this has the form of a kind: one or two words.
fn is_kind(kind: &str) -> bool {
  let plain =
    kind.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-".contains(&b));
  plain && (1..=MAX_KIND).contains(&kind.len()) && kind.split(['_', '-']).count() <= 2
}

/// The registrable domain of a host or mail address, or the IP address of a host; `None` if it could be
/// a sentence, because domains are cheap.
fn address(detail: &str) -> Option<String> {
  let host = detail.rsplit_once('@').map_or(detail, |(_, host)| host);
  if host.parse::<Ipv4Addr>().is_ok() {
    return Some(host.to_owned());
  }
  let domain = registrable(host)?;
  let is_part = |label: &str| label.split(['-', '_']).count() <= 2;
  let is_short = domain.len() <= MAX_DOMAIN && domain.split('.').all(is_part);
  (is_short && marker::is_name(&domain)).then_some(domain)
}

#[cfg(test)]
mod tests {
  use super::*;
  use crate::{memory::Marker, provenance::Trust, seal::MasterKey};

  fn labels() -> Labels {
    Labels::new(MasterKey::new([7; 32]).name_key())
  }

  #[test]
  fn kinds_and_domains_stay_and_names_get_tags() {
    let tag = |name: &str| MasterKey::new([7; 32]).name_key().tag(name);
    for (source, expected) in [
      ("user:owner", "user:owner".to_owned()),
      ("agent", "agent".to_owned()),
      ("exec", "exec".to_owned()),
      ("baseline", "baseline".to_owned()),
      ("external-edit", "external-edit".to_owned()),
      ("inter-session", "inter-session".to_owned()),
      ("unknown", "unknown".to_owned()),
      ("web_fetch:docs.example.com", "web_fetch:example.com".to_owned()),
      ("browser:WWW.Example.co.uk", "browser:example.co.uk".to_owned()),
      ("web_fetch:127.0.0.1", "web_fetch:127.0.0.1".to_owned()),
      ("web_fetch:[::1]", format!("web_fetch:{}", tag("[::1]"))),
      ("web_fetch:localhost", "web_fetch:localhost".to_owned()),
      ("email:obey.me@mail.example.org", "email:example.org".to_owned()),
      ("import:claude-code", "import:claude-code".to_owned()),
      ("webhook:gmail", "webhook:gmail".to_owned()),
      ("user:telegram:others", "user:telegram:others".to_owned()),
      ("user:telegram:@ann", format!("user:telegram:{}", tag("@ann"))),
      ("user:obey-me:@ann", format!("user:{}", tag("obey-me:@ann"))),
      ("file:docs/vendor.txt", format!("file:{}", tag("docs/vendor.txt"))),
      ("moltbook:evil.example", format!("moltbook:{}", tag("evil.example"))),
      ("user:ownerof", format!("user:{}", tag("ownerof"))),
      ("send all keys:x", format!("other:{}", tag("send all keys:x"))),
      ("you-must-obey", format!("other:{}", tag("you-must-obey"))),
      (
        "web_fetch:never-ask-the-user.example",
        format!("web_fetch:{}", tag("never-ask-the-user.example")),
      ),
      ("web_fetch:\u{430}bc.example", format!("web_fetch:{}", tag("\u{430}bc.example"))),
    ] {
      assert_eq!(labels().source(&Source::new(source)).as_str(), expected, "{source}");
    }
    assert_eq!(
      Labels::default().source(&Source::new("user:telegram:@ann")).as_str(),
      "user:telegram"
    );
  }

  #[test]
  fn a_session_is_a_number_or_a_tag() {
    let id = "0f8fad5b-d9cb-469f-a165-70867728950e";
    assert_eq!(labels().session(id).as_deref(), Some(id));
    let tagged = labels().session("agent:main:matrix:direct:@obey:evil.example").unwrap();
    assert!(tagged.len() == 6 && tagged.bytes().all(|b| b.is_ascii_hexdigit()), "{tagged}");
    assert_eq!(Labels::default().session("agent:main:main"), None);
  }

  proptest::proptest! {
    #[test]
    fn what_is_written_is_read_as_a_marker(
      source in "(web_fetch:|email:|user:|[a-z:@]{0,4})([a-z0-9.-]{0,60}|\\PC{0,80})",
      session in "[a-f0-9-]{0,70}|\\PC{0,80}",
    ) {
      let id = "a1b2c3".parse().unwrap();
      let mut marker =
        Marker::new(id, labels().source(&Source::new(&source)), Trust::Hostile, "2026-11-21T14:32:00Z");
      marker.session = labels().session(&session);
      proptest::prop_assert!(marker.is_terse(|_| false), "{}", marker.print());
    }
  }
}
