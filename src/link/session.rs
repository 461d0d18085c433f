//! Reads lines, checks limits, and keeps the handshake.
#![forbid(unsafe_code)]

use serde::Deserialize;

use super::{
  chat::Chat,
  lenient::mended,
  limits::{
    DEADLINE_MS, MAX_CHAT_DEADLINE_MS, MAX_DEADLINE_MS, MAX_HEARD, MAX_LINE_BYTES, MAX_NAME_BYTES,
    MAX_PASSAGE_BYTES, VERSION,
  },
  message::{Answer, Body, Call, Fault, Heard, Reply, Request, Resolved},
  recall::{Inject, Recall},
};

/// What memfw says about itself in the handshake.
#[derive(Clone, Debug)]
pub struct Session {
  /// The release of memfw.
  memfw: String,
  /// The configured mode.
  mode: String,
  is_greeted: bool,
}

/// A question that must be answered.
#[derive(Clone, Debug, PartialEq)]
pub struct Ask {
  /// The id of the request.
  pub id: u64,
  /// How long the plugin waits, in milliseconds.
  pub deadline_ms: u32,
  /// What is asked.
  pub what: Question,
}

/// What a plugin asks after the handshake.
#[derive(Clone, Debug, PartialEq)]
pub enum Question {
  /// Whether a tool call may write.
  Check(Box<Call>),
  /// In which form memory may reach the model.
  Recall(Box<Recall>),
  /// Which run got it.
  Inject(Box<Inject>),
  /// How the owner answered the question that followed from a check.
  Resolved(Resolved),
  /// What a person asks in a chat.
  Chat(Box<Chat>),
  /// What the owner is to be told.
  News,
}

impl Question {
  /// What is longer than its limit.
  fn over_limit(&self) -> Option<&'static str> {
    match self {
      Self::Check(call) => over_limit(call),
      Self::Recall(recall) => recall.over_limit(),
      Self::Inject(inject) => inject.over_limit(),
      Self::Chat(chat) => chat.over_limit(),
      Self::Resolved(_) | Self::News => None,
    }
  }

  /// The longest that a plugin may wait for the reply, in milliseconds.
  const fn max_deadline_ms(&self) -> u32 {
    match self {
      Self::Chat(_) | Self::News => MAX_CHAT_DEADLINE_MS,
      Self::Check(_) | Self::Recall(_) | Self::Inject(_) | Self::Resolved(_) => MAX_DEADLINE_MS,
    }
  }
}

/// The id alone, which a request may have that is wrong otherwise.
#[derive(Deserialize)]
struct Numbered {
  id: Option<u64>,
}

impl Session {
  /// A session that waits for the handshake.
  pub fn new(memfw: &str, mode: &str) -> Self {
    Self { memfw: memfw.to_owned(), mode: mode.to_owned(), is_greeted: false }
  }

  /// Reads a line without its line end: a question, or the reply to what is no question.
  pub fn read(&mut self, line: &[u8]) -> Result<Ask, Reply> {
    if line.len() > MAX_LINE_BYTES {
      return Err(Self::too_long());
    }
    let parsed = serde_json::from_slice(line)
      .or_else(|error| mended(line).and_then(|line| serde_json::from_str(&line).ok()).ok_or(error));
    let request: Request = match parsed {
      Ok(request) => request,
      Err(error) => {
        let id = serde_json::from_slice::<Numbered>(line).ok().and_then(|numbered| numbered.id);
        // serde's message may quote the line.
        let place = format!("line {} column {}", error.line(), error.column());
        let why = format!("this is no request that memfw knows, at {place}");
        return Err(Reply::failed(id, Fault::BadRequest, why));
      }
    };
    let id = Some(request.id);
    match request.body {
      Body::Hello(hello) if hello.version != VERSION => {
        let why = format!("this memfw speaks version {VERSION} of the protocol");
        Err(Reply::failed(id, Fault::Version, why))
      }
      Body::Hello(_) => {
        self.is_greeted = true;
        let body = Answer::Hello {
          version: VERSION,
          memfw: self.memfw.clone(),
          mode: self.mode.clone(),
          deadline_ms: DEADLINE_MS,
        };
        Err(Reply { id, body })
      }
      _ if !self.is_greeted => {
        Err(Reply::failed(id, Fault::NoHello, "the first request must be `hello`"))
      }
      Body::Check(call) => ask(request.id, request.deadline_ms, Question::Check(call)),
      Body::Recall(recall) => ask(request.id, request.deadline_ms, Question::Recall(recall)),
      Body::Inject(inject) => ask(request.id, request.deadline_ms, Question::Inject(inject)),
      Body::Resolved(resolved) => {
        ask(request.id, request.deadline_ms, Question::Resolved(resolved))
      }
      Body::Chat(chat) => ask(request.id, request.deadline_ms, Question::Chat(chat)),
      Body::News => ask(request.id, request.deadline_ms, Question::News),
    }
  }

  /// The reply to a line that is longer than any request.
  pub fn too_long() -> Reply {
    let why = format!("a line has at most {MAX_LINE_BYTES} bytes");
    Reply::failed(None, Fault::TooLarge, why)
  }
}

/// A question that keeps the limits.
fn ask(id: u64, deadline_ms: Option<u32>, what: Question) -> Result<Ask, Reply> {
  if let Some(what) = what.over_limit() {
    return Err(Reply::failed(Some(id), Fault::TooLarge, format!("{what} is too long")));
  }
  let wanted = deadline_ms.unwrap_or(DEADLINE_MS);
  Ok(Ask { id, deadline_ms: wanted.clamp(1, what.max_deadline_ms()), what })
}

/// What in a call is longer than its limit.
fn over_limit(call: &Call) -> Option<&'static str> {
  let names = [
    ("tool", Some(&call.tool)),
    ("path", Some(&call.path)),
    ("workspace", call.workspace.as_ref()),
    ("agent", call.agent.as_ref()),
    ("run", call.run.as_ref()),
    ("session", call.session.as_ref()),
    ("session_id", call.session_id.as_ref()),
    ("channel", call.channel.as_ref()),
    ("sender", call.sender.as_ref()),
    ("trigger", call.trigger.as_ref()),
  ];
  let long = names.iter().find(|(_, name)| name.is_some_and(|name| name.len() > MAX_NAME_BYTES));
  let is_long = |heard: &Heard| {
    let names = [&heard.tool, &heard.subject, &heard.sha256];
    heard.passage.len() > MAX_PASSAGE_BYTES
      || names.iter().any(|name| name.len() > MAX_NAME_BYTES)
      || heard.sender.as_ref().is_some_and(|sender| sender.len() > MAX_NAME_BYTES)
  };
  let is_heard = call.heard.len() > MAX_HEARD || call.heard.iter().any(is_long);
  let is_change = call.change.as_ref().is_some_and(|change| !change.is_within_limits());
  long.map(|(what, _)| *what).or(is_heard.then_some("heard")).or(is_change.then_some("change"))
}

#[cfg(test)]
mod tests {
  use serde_json::json;

  use super::*;
  use crate::link::{
    Change, HeardKind,
    limits::{MAX_TEXT_BYTES, MAX_TEXTS},
    message::OwnerAnswer,
    recall::Wanted,
  };

  fn line(value: &serde_json::Value) -> Vec<u8> {
    serde_json::to_vec(value).unwrap()
  }

  fn greeted() -> Session {
    let mut session = Session::new("1.2.3", "refuse");
    let hello = json!({ "id": 1, "type": "hello", "version": 1, "client": "test" });
    let reply = session.read(&line(&hello)).unwrap_err();
    let expected = "{\"id\":1,\"type\":\"hello\",\"version\":1,\"memfw\":\"1.2.3\",\"mode\":\"refuse\",\
                    \"deadline_ms\":50}\n";
    assert_eq!(reply.to_line(), expected);
    session
  }

  fn fault(session: &mut Session, bytes: &[u8]) -> (Option<u64>, Fault) {
    let reply = session.read(bytes).unwrap_err();
    match reply.body {
      Answer::Error(failed) => (reply.id, failed.code),
      other => panic!("{other:?}"),
    }
  }

  #[test]
  fn a_check_is_read() {
    let check = json!({
      "id": 7, "type": "check", "deadline_ms": 80, "tool": "edit", "path": "MEMORY.md",
      "change": { "edits": [{ "old": "a", "new": "b" }] }, "sender_is_owner": true, "later": [],
      "heard": [{ "kind": "tool", "tool": "web_fetch", "subject": "https://a.example", "passage": "x" }],
    });
    let ask = greeted().read(&line(&check)).unwrap();
    assert_eq!((ask.id, ask.deadline_ms), (7, 80));
    let Question::Check(call) = ask.what else { panic!("{:?}", ask.what) };
    assert_eq!(call.heard.first().unwrap().kind, HeardKind::Tool);
    assert!(matches!(call.change, Some(Change::Edits(_))));
    let patient = json!({ "id": 8, "type": "check", "deadline_ms": 99_999_999 });
    assert_eq!(greeted().read(&line(&patient)).unwrap().deadline_ms, MAX_DEADLINE_MS);
  }

  #[test]
  fn a_recall_is_read_and_its_sizes_have_limits() {
    let text = json!({ "path": "MEMORY.md", "from": 3, "lines": 2, "score": 0.5 });
    let recall =
      json!({ "id": 8, "type": "recall", "via": "memory_get", "run": "r", "texts": [text] });
    let ask = greeted().read(&line(&recall)).unwrap();
    let Question::Recall(read) = ask.what else { panic!("{:?}", ask.what) };
    assert_eq!((read.of.run.as_deref(), read.via.as_str()), (Some("r"), "memory_get"));
    let wanted = Wanted { path: "MEMORY.md".into(), from: Some(3), lines: Some(2), text: None };
    assert_eq!(read.texts, [wanted]);
    let text = |n: usize| json!({ "text": "x".repeat(n) });
    for (key, value) in [
      ("session", json!("x".repeat(MAX_NAME_BYTES + 1))),
      ("via", json!("x".repeat(65))),
      ("texts", json!(vec![text(1); MAX_TEXTS + 1])),
      ("texts", json!([text(MAX_PASSAGE_BYTES + 1)])),
      ("texts", json!(vec![text(MAX_PASSAGE_BYTES); 17])),
      ("texts", json!([{ "path": "x".repeat(MAX_NAME_BYTES + 1) }])),
    ] {
      let recall = json!({ "id": 5, "type": "recall", key: value });
      assert_eq!(fault(&mut greeted(), &line(&recall)), (Some(5), Fault::TooLarge), "{key}");
    }
    let inject = json!({ "id": 6, "type": "inject", "recalls": vec![1; MAX_TEXTS + 1] });
    assert_eq!(fault(&mut greeted(), &line(&inject)), (Some(6), Fault::TooLarge));
  }

  #[test]
  fn the_answer_of_an_owner_is_read() {
    for (decision, expected) in [
      (json!("allow-once"), OwnerAnswer::AllowOnce),
      (json!("deny"), OwnerAnswer::Deny),
      (json!("perhaps"), OwnerAnswer::Unknown),
    ] {
      let line = line(&json!({ "id": 9, "type": "resolved", "check": 4, "decision": decision }));
      let ask = greeted().read(&line).unwrap();
      assert_eq!(ask.what, Question::Resolved(Resolved { check: 4, decision: expected }));
    }
  }

  #[test]
  fn a_text_that_is_no_unicode_is_read_as_its_file_would_have_it() {
    let escaped =
      br#"{"id":7,"type":"check","change":{"write":"a\ud800"},"heard":[{"passage":"\udc00b"}]}"#;
    let bytes = b"{\"id\":7,\"type\":\"check\",\"change\":{\"write\":\"a\xff\"},\"heard\":[{\"passage\":\"\xffb\"}]}";
    for line in [&escaped[..], bytes] {
      let ask = greeted().read(line).unwrap();
      let Question::Check(call) = ask.what else { panic!("{:?}", ask.what) };
      assert_eq!(call.change, Some(Change::Write("a\u{fffd}".into())));
      assert_eq!(call.heard.first().unwrap().passage, "\u{fffd}b");
    }
  }

  #[test]
  fn what_is_no_request_is_said() {
    let mut session = greeted();
    for bytes in [&b""[..], b"x", b"\xff\xfe", b"[]", b"{}", b"{\"id\":\"a\"}", b"null"] {
      assert_eq!(fault(&mut session, bytes), (None, Fault::BadRequest), "{bytes:?}");
    }
    for body in [json!({ "id": 3 }), json!({ "id": 3, "type": "erase" })] {
      assert_eq!(fault(&mut session, &line(&body)), (Some(3), Fault::BadRequest));
    }
    // The reply does not repeat the line.
    let reply = session.read(b"{\"id\": 4, \"type\": \"secret words\"}").unwrap_err();
    assert!(!reply.to_line().contains("secret"), "{reply:?}");
    // Deep nesting is no way to overflow the stack.
    let deep = "[".repeat(200_000);
    assert_eq!(fault(&mut session, deep.as_bytes()), (None, Fault::BadRequest));
  }

  #[test]
  fn an_unknown_version_and_a_missing_handshake_are_refused() {
    let mut session = Session::new("1.2.3", "refuse");
    let check = line(&json!({ "id": 1, "type": "check" }));
    assert_eq!(fault(&mut session, &check), (Some(1), Fault::NoHello));
    let hello = line(&json!({ "id": 2, "type": "hello", "version": 2 }));
    assert_eq!(fault(&mut session, &hello), (Some(2), Fault::Version));
    assert_eq!(fault(&mut session, &check), (Some(1), Fault::NoHello));
  }

  #[test]
  fn each_size_has_a_limit() {
    let long = "x".repeat(MAX_NAME_BYTES + 1);
    let heard = |passage: &str| json!({ "kind": "message", "passage": passage });
    for (key, value) in [
      ("path", json!(long)),
      ("run", json!(long)),
      ("sender", json!(long)),
      ("change", json!({ "write": "x".repeat(MAX_TEXT_BYTES + 1) })),
      ("heard", json!([heard(&"x".repeat(MAX_PASSAGE_BYTES + 1))])),
      ("heard", json!(vec![heard(""); MAX_HEARD + 1])),
      ("heard", json!([{ "subject": long }])),
    ] {
      let check = json!({ "id": 5, "type": "check", key: value });
      assert_eq!(fault(&mut greeted(), &line(&check)), (Some(5), Fault::TooLarge), "{key}");
    }
    let line = vec![b' '; MAX_LINE_BYTES + 1];
    assert_eq!(fault(&mut greeted(), &line), (None, Fault::TooLarge));
  }
}
