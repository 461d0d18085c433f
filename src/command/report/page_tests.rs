//! Takes the page apart again: all its tags are memfw's, whatever others have chosen.

use std::path::PathBuf;

use super::*;
use crate::{
  detect::KeptFindings,
  memory::ContentHash,
  provenance::{Attestation, State},
  stats::{DAY, Happening, Move, Tally, What, day, levels},
  store::OriginRecord,
};

/// 2026-11-21T12:00:00Z.
const NOON: i64 = 1_795_262_400_000_000;

/// Facts in which everything that others can choose is `name`.
fn facts(name: &str) -> Facts {
  let path = PathBuf::from(format!("/w/{name}.md"));
  let file = shown(&path);
  let happening = Happening {
    what: What::Quarantined,
    at: NOON,
    adopted: None,
    file: Some(&file),
    source: Some(name),
    trust: Some(Trust::Hostile),
    layer: Some(Layer::Rules),
    codes: &[Code::ForgedMarker],
    took_us: Some(1_500),
  };
  let mut tally = Tally::default();
  tally.add(&happening);
  tally.add(&Happening { what: What::Kept, codes: &[], ..happening });
  let today = day(NOON);
  let moves = [Move { day: today, trust: Trust::Hostile, came: 3, went: 1 }];
  let span = Span {
    since: (today - 1) * DAY,
    until: NOON,
    ahead: 0,
    truncated: true,
    figures: tally.finish(),
    levels: levels(&moves, today - 1, today),
  };
  let item = Item {
    id: "a1b2c3".parse().unwrap(),
    path: path.clone(),
    line: 3,
    hash: ContentHash::of(b"x"),
    n: 0,
    status: State::Quarantined,
    source: Source::new(name),
    trust: Trust::Hostile,
    attestation: Attestation::SelfReported,
    session: Some(name.to_owned()),
    score: 1.0,
    layer: Some(Layer::Rules),
    codes: vec![Code::ForgedMarker],
    findings: KeptFindings::new(&[]),
    quarantined_at: NOON,
    seen_at: NOON,
    reviewed_at: None,
    reviewed_by: None,
    occurrences: 1,
    len: Some(9),
    terminated: true,
    in_file: false,
    trail: OriginRecord::default(),
    awaited: false,
    part: None,
  };
  let event = EventRow {
    id: 1,
    at: NOON,
    event: EventKind::Quarantined,
    path: Some(path),
    block: "a1b2c3".parse().ok(),
    source: Some(Source::new(name)),
    trust: Some(Trust::Hostile),
    attestation: None,
    session: Some(name.to_owned()),
    layer: Some(Layer::Rules),
    codes: vec![Code::ForgedMarker],
    score: Some(1.0),
    action: Some(name.to_owned()),
    detail: name.to_owned(),
    took_us: Some(1),
    count: None,
  };
  Facts {
    span,
    waiting: vec![(item, Some(name.as_bytes().to_vec()))],
    more_waiting: 4,
    degradations: vec![name.to_owned()],
    exposure: name.to_owned(),
    events: vec![event],
    more_events: true,
  }
}

/// The tags of a page, as a browser finds them: everything from a `<` to the next `>`.
fn tags(page: &str) -> Vec<&str> {
  let mut tags = Vec::new();
  let mut rest = page;
  while let Some((_, after)) = rest.split_once('<') {
    let (tag, after) = after.split_once('>').expect("a tag that does not end");
    tags.push(tag);
    rest = after;
  }
  tags
}

const HOSTILE: [&str; 9] = [
  "<script>document.title='PWNED'</script>",
  "\"><img src=x onerror=alert(1)>",
  "' onmouseover='alert(1)' x='",
  "</style><style>*{display:none}</style>",
  "--><!-- <![CDATA[",
  "</pre></li></ul></section></body></html><meta http-equiv=refresh content='0;url=http://evil.example'>",
  "&lt;script&gt;&#60;b&#62;",
  "\u{202e}gnp.\u{200b}\u{e0041}\0\u{1b}[2J\r\n",
  "javascript:alert(1)//`${x}`",
];

#[test]
fn whatever_others_choose_the_tags_are_ours() {
  let harmless = page(&facts("name"));
  let ours = tags(&harmless);
  for name in HOSTILE {
    let hostile = page(&facts(name));
    assert_eq!(tags(&hostile), ours, "{name:?}");
    for part in ["<script", "<img", "<meta http-equiv=refresh", "\u{202e}", "\u{200b}", "\0", "\r"]
    {
      assert!(!hostile.contains(part), "{name:?}: {part:?}");
    }
    // The page has the name in file, source, item, event, text, detail and degradation.
    let mut shown = Html::default();
    shown.text(name);
    assert!(hostile.matches(&shown.finish()).count() >= 7, "{name:?}");
  }
}

#[test]
fn the_page_asks_for_nothing_and_lets_nothing_in() {
  let page = page(&facts("name"));
  assert!(page.starts_with(MARK));
  for part in [
    "<script", "<a ", "href", "src=", "url(", "@import", " style=", "<link", "<iframe", "http:",
    "https:",
  ] {
    assert!(!page.contains(part), "{part}");
  }
  let policy = format!(
    "content=\"default-src 'none'; style-src '{}'; base-uri 'none'; form-action 'none'\"",
    policy_hash(STYLE)
  );
  assert!(page.contains(&policy), "{policy}");
  let style = page.split("<style>").nth(1).and_then(|rest| rest.split("</style>").next());
  assert_eq!(style, Some(STYLE), "the policy is about these very bytes");
  for tag in
    ["section", "ul", "li", "svg", "g", "table", "tr", "td", "div", "span", "p", "h2", "pre", "b"]
  {
    let (open, close) = (format!("<{tag}"), format!("</{tag}>"));
    // `<b` is also the beginning of `<body`.
    let is_whole = |after: &&str| !after.starts_with(|c: char| c.is_ascii_alphanumeric());
    let n_open = page.split(&open).skip(1).filter(is_whole).count();
    assert_eq!(n_open, page.matches(&close).count(), "{tag}");
  }
}

#[test]
fn every_part_tells_its_figures() {
  let page = page(&facts("web_fetch:example.com"));
  for part in [
    "2026-11-20 to 2026-11-21, days of UTC; made at 2026-11-21T12:00:00Z",
    "only the newest events are counted",
    "<b>2</b>blocks in memory",
    "<b>5</b>wait for you",
    "<title>2026-11-21: 1 kept, 0 flagged, 1 quarantined</title>",
    "<title>2026-11-21: 0 trusted, 0 verified, 0 untrusted, 2 hostile</title>",
    "<td class=\"name\">web_fetch:example.com</td><td class=\"trust\">hostile</td>\
      <td class=\"n\" data-what=\"seen\">2</td>",
    "<td class=\"n\" data-what=\"p99\">1.5 ms</td>",
    "forged-marker: a provenance comment that memfw did not write",
    "And 4 more: <code>memfw list</code>",
    "<b class=\"bad\">degraded</b> web_fetch:example.com",
    "<code>memfw audit</code>",
  ] {
    assert!(page.contains(part), "{part}\n{page}");
  }
  let quiet = Facts {
    waiting: vec![],
    more_waiting: 0,
    degradations: vec![],
    events: vec![],
    more_events: false,
    span: Span {
      since: 0,
      until: NOON,
      ahead: 0,
      truncated: false,
      figures: Tally::default().finish(),
      levels: levels(&[], 0, 0),
    },
    exposure: String::new(),
  };
  let page = super::page(&quiet);
  for part in ["Everything is protected.", "Nothing waits for you.", "Nothing happened."] {
    assert!(page.contains(part), "{part}");
  }
}
