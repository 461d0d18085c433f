//! The label of a source in plain words, for a reader who knows nothing about memfw.
#![forbid(unsafe_code)]

use crate::provenance::Source;

/// Where a text with this label comes from: "from web page example.com".
pub fn origin(label: &Source) -> String {
  let clean: String = label.as_str().chars().map(|c| if is_plain(c) { c } else { '?' }).collect();
  let (kind, detail) = match clean.split_once(':') {
    Some((kind, detail)) if !detail.is_empty() => (kind, Some(detail)),
    Some((kind, _)) => (kind, None),
    None => (clean.as_str(), None),
  };
  match (kind, detail) {
    ("user", Some("owner")) => "from the owner".to_owned(),
    ("user", Some(detail)) => person(detail),
    ("user", None) => "from a person".to_owned(),
    ("agent", None) => "from the agent itself".to_owned(),
    ("baseline", _) => "from before memfw".to_owned(),
    ("unknown", _) => "from an unknown source".to_owned(),
    ("external-edit", _) => "from an edit outside the agent".to_owned(),
    ("inter-session", _) => "from another session".to_owned(),
    ("session-event", _) => "from an event of the session".to_owned(),
    ("exec", None) => "from the output of a command".to_owned(),
    ("cron", None) => "from a scheduled job".to_owned(),
    ("web_search", _) => "from a web search".to_owned(),
    ("web_fetch" | "browser" | "web", Some(host)) => format!("from web page {host}"),
    ("web_fetch" | "browser" | "web", None) => "from a web page".to_owned(),
    ("email" | "mail", Some("owner")) => "from the owner's mail".to_owned(),
    ("email" | "mail", Some(domain)) => format!("from an e-mail of {domain}"),
    ("email" | "mail", None) => "from an e-mail".to_owned(),
    ("file" | "memory" | "attachment" | "skill" | "webhook" | "import" | "subagent", None) => {
      format!("from {} {kind}", if kind.starts_with(['a', 'i']) { "an" } else { "a" })
    }
    (kind, Some(detail)) => format!("from {kind} {detail}"),
    (kind, None) => format!("from {kind}"),
  }
}

/// A person other than the owner, by channel and name.
fn person(detail: &str) -> String {
  match detail.split_once(':') {
    Some((channel, "others")) => format!("from others on {channel}"),
    Some((channel, "unknown")) => format!("from an unknown person on {channel}"),
    Some((channel, name)) => format!("from person {name} on {channel}"),
    None => format!("from person {detail}"),
  }
}

/// Whether a label may have this character; a frame could be left with others.
const fn is_plain(c: char) -> bool {
  c.is_ascii_alphanumeric() || matches!(c, ':' | '.' | '-' | '_')
}
