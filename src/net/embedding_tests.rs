//! The client against a local test server: one that answers, and every kind of failure.
#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "what a slow server may take is measured")]

use std::{
  cell::Cell,
  io::{Read as _, Write as _},
  net::TcpListener,
  rc::Rc,
  time::{Duration, Instant},
};

use zeroize::Zeroizing;

use super::{
  testing::{Answer, always, by, respond, serve},
  *,
};
use crate::detect::exemplar::{Embed as _, Exemplars};
use crate::provenance::Trust;

/// As many vectors as texts, made of the lengths of the texts.
fn lengths(form: Form) -> Answer {
  by(move |stream, body| {
    let question: serde_json::Value = serde_json::from_str(body).unwrap();
    let texts = question["input"].as_array().unwrap();
    let vectors = texts.iter().map(|text| vec![text.as_str().unwrap().len() as f32, 1.0]);
    let body = match form {
      Form::OpenAi => {
        let data = vectors.zip(0..).map(|(embedding, index)| {
          serde_json::json!({ "index": index, "embedding": embedding, "object": "embedding" })
        });
        serde_json::json!({ "data": data.collect::<Vec<_>>() })
      }
      Form::Ollama => serde_json::json!({ "embeddings": vectors.collect::<Vec<_>>() }),
    };
    respond(stream, "200 OK", "", &body.to_string());
  })
}

fn settings(form: Form, url: &str) -> Settings {
  Settings {
    form,
    url: url.to_owned(),
    model: "m".to_owned(),
    key: None,
    deadline: Duration::from_secs(20),
  }
}

fn client(settings: Settings) -> Client {
  Client::new(settings, Box::new(|| Duration::ZERO)).unwrap()
}

#[test]
fn both_forms_are_asked_as_they_want_and_the_key_goes_with_it() {
  for (form, path) in [(Form::OpenAi, "/v1/embeddings"), (Form::Ollama, "/v1/api/embed")] {
    let (url, questions) = serve(lengths(form));
    let key = Some(Zeroizing::new("sk-secret".to_owned()));
    let settings = Settings { key, ..settings(form, &format!("{url}/v1/")) };
    assert!(!format!("{settings:?}").contains("secret"));
    let client = client(settings);
    assert_eq!(client.vectors(&["ab", "abc"]).unwrap(), [[2.0, 1.0], [3.0, 1.0]]);
    let question = questions.recv().unwrap();
    assert!(question.starts_with(&format!("POST {path} HTTP/1.1\n")), "{question}");
    assert!(question.to_lowercase().contains("authorization: bearer sk-secret\n"), "{question}");
    assert!(question.contains(r#""model":"m","input":["ab","abc"]"#), "{question}");
  }
}

#[test]
fn a_text_is_sent_once() {
  let (url, questions) = serve(lengths(Form::Ollama));
  let client = client(settings(Form::Ollama, &url));
  assert_eq!(client.vectors(&["a", "a", "bb"]).unwrap(), [[1.0, 1.0], [1.0, 1.0], [2.0, 1.0]]);
  assert_eq!(client.vectors(&["bb", "a"]).unwrap(), [[2.0, 1.0], [1.0, 1.0]]);
  assert_eq!(client.vectors(&["bb", "ccc"]).unwrap(), [[2.0, 1.0], [3.0, 1.0]]);
  let sent: Vec<String> = questions.try_iter().collect();
  assert_eq!(sent.len(), 2, "{sent:?}");
  assert!(sent[0].ends_with(r#""input":["a","bb"]}"#), "{sent:?}");
  assert!(sent[1].ends_with(r#""input":["ccc"]}"#), "{sent:?}");
}

#[test]
fn long_texts_are_cut_and_long_lists_refused() {
  let (url, _questions) = serve(lengths(Form::OpenAi));
  let client = client(settings(Form::OpenAi, &url));
  let found = client.vectors(&[&"é".repeat(MAX_TEXT)]).unwrap();
  assert_eq!(found, [[MAX_TEXT as f32, 1.0]]);
  let many: Vec<String> = (0..200).map(|n| n.to_string()).collect();
  let many: Vec<&str> = many.iter().map(String::as_str).collect();
  assert_eq!(client.vectors(&many), Err(NetError::TooMany(200)));
}

#[test]
fn what_is_no_answer_is_reported_without_repeating_it() {
  let cases: Vec<(Answer, NetError)> = vec![
    (always("500 Oops", "", "secret of the server"), NetError::Status(500)),
    (always("401 No", "", "{}"), NetError::Status(401)),
    (always("302 Found", "location: http://192.0.2.10/steal\r\n", ""), NetError::Redirect),
    (
      always("200 OK", "", "\u{0}garbage"),
      NetError::Answer("it is not the JSON that was expected"),
    ),
    (
      always("200 OK", "", r#"{"embeddings":[[1,2],[3]]}"#),
      NetError::Answer("it does not have one vector for each text"),
    ),
    (
      by(|stream, _| stream.write_all(b"no http at all\r\n\r\n").unwrap_or_default()),
      NetError::Unreachable("the answer is not HTTP".to_owned()),
    ),
  ];
  for (answer, expected) in cases {
    let (url, _questions) = serve(answer);
    assert_eq!(client(settings(Form::Ollama, &url)).vectors(&["a"]), Err(expected));
  }
}

#[test]
fn another_length_than_before_is_refused() {
  let mut n = 0;
  let (url, _questions) = serve(by(move |stream, _| {
    n += 1;
    let body = if n == 1 { r#"{"embeddings":[[1,2]]}"# } else { r#"{"embeddings":[[1,2,3]]}"# };
    respond(stream, "200 OK", "", body);
  }));
  let client = client(settings(Form::Ollama, &url));
  assert!(client.vectors(&["a"]).is_ok());
  let why = "its vectors are not of the right length";
  assert_eq!(client.vectors(&["b"]), Err(NetError::Answer(why)));
}

#[test]
fn an_endless_answer_ends() {
  let (url, _questions) = serve(by(|stream, _| {
    stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").unwrap_or_default();
    let chunk = format!("10000\r\n{}\r\n", " ".repeat(0x10000));
    while stream.write_all(chunk.as_bytes()).is_ok() {}
  }));
  assert_eq!(
    client(settings(Form::Ollama, &url)).vectors(&["a"]),
    Err(NetError::TooLarge(16 << 20))
  );
}

#[test]
fn a_server_that_does_not_answer_is_left_after_the_deadline() {
  let deadline = Duration::from_millis(200);
  for drips in [false, true] {
    let (url, _questions) = serve(by(move |stream, _| {
      if drips {
        stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        // Sending single bytes keeps the time limit of each read from expiring.
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 9999\r\n\r\n").unwrap_or_default();
        while stream.write_all(b" ").is_ok() {
          stream.read_exact(&mut [0; 1]).ok();
        }
      } else {
        stream.read_to_end(&mut Vec::new()).ok();
      }
    }));
    let start = Instant::now();
    let client = client(Settings { deadline, ..settings(Form::Ollama, &url) });
    assert_eq!(client.vectors(&["a"]), Err(NetError::Deadline(deadline)), "{drips}");
    assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
  }
}

#[test]
fn who_fails_three_times_is_not_asked_for_a_while() {
  let (url, questions) = serve(always("503 Busy", "", ""));
  let now = Rc::new(Cell::new(Duration::ZERO));
  let clock = Rc::clone(&now);
  let client = Client::new(settings(Form::OpenAi, &url), Box::new(move || clock.get())).unwrap();
  for _ in 0..3 {
    assert_eq!(client.vectors(&["a"]), Err(NetError::Status(503)));
  }
  assert_eq!(client.vectors(&["a"]), Err(NetError::Resting));
  assert_eq!(questions.try_iter().count(), 3);
  now.set(Duration::from_secs(30));
  assert_eq!(client.vectors(&["a"]), Err(NetError::Status(503)));
  assert_eq!(client.vectors(&["a"]), Err(NetError::Resting));
}

#[test]
fn nobody_there_is_an_error_too() {
  let listener = TcpListener::bind("127.0.0.1:0").unwrap();
  let url = format!("http://{}", listener.local_addr().unwrap());
  drop(listener);
  let answer = client(settings(Form::OpenAi, &url)).vectors(&["a"]);
  assert!(matches!(answer, Err(NetError::Unreachable(_))), "{answer:?}");
  let outside =
    Client::new(settings(Form::OpenAi, "http://192.0.2.10/v1"), Box::new(|| Duration::ZERO));
  assert!(matches!(outside.err(), Some(NetError::Url(_))));
}

#[test]
fn exemplars_are_compared_by_its_vectors() {
  let (url, _questions) = serve(lengths(Form::Ollama));
  let client = client(settings(Form::Ollama, &url));
  let all = Exemplars::built_in();
  let like = all.list()[3].text.replace('S', "s");
  let found = all.nearest(&like, Trust::Untrusted, &client).unwrap().unwrap();
  assert!((found.similarity - 1.0).abs() < 1e-3 && found.is_near());
  assert!(client.embed(&[]).unwrap().is_empty());
}
