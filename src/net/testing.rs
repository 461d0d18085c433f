//! A local server for tests.
#![forbid(unsafe_code)]

use std::{
  io::{BufRead as _, BufReader, Read as _, Write as _},
  net::{TcpListener, TcpStream},
  sync::mpsc::{Receiver, channel},
  thread,
};

/// What the server does with one connection, given the body of the request.
pub(super) type Answer = Box<dyn FnMut(&mut TcpStream, &str) + Send>;

/// A server on its own port that handles each request alike, and records the requests.
pub(super) fn serve(mut answer: Answer) -> (String, Receiver<String>) {
  let listener = TcpListener::bind("127.0.0.1:0").unwrap();
  let url = format!("http://{}", listener.local_addr().unwrap());
  let (sender, questions) = channel();
  thread::spawn(move || {
    for stream in listener.incoming() {
      let Ok(mut stream) = stream else { return };
      let Some(question) = question(&stream) else { continue };
      let body = question.split_once("\n\n").map_or(String::new(), |(_, body)| body.to_owned());
      if sender.send(question).is_err() {
        return;
      }
      answer(&mut stream, &body);
    }
  });
  (url, questions)
}

/// The head and body of a request; `None` for a connection that sends nothing.
fn question(stream: &TcpStream) -> Option<String> {
  let mut reader = BufReader::new(stream);
  let mut head = String::new();
  let mut length = 0;
  loop {
    let mut line = String::new();
    if reader.read_line(&mut line).ok()? == 0 {
      return None;
    }
    let line = line.trim_end();
    if let Some((name, value)) = line.split_once(':')
      && name.eq_ignore_ascii_case("content-length")
    {
      length = value.trim().parse().ok()?;
    }
    head.push_str(line);
    head.push('\n');
    if line.is_empty() {
      break;
    }
  }
  let mut body = vec![0; length];
  reader.read_exact(&mut body).ok()?;
  Some(head + &String::from_utf8(body).ok()?)
}

/// A complete answer, after which the connection is closed.
pub(super) fn respond(stream: &mut TcpStream, status: &str, more: &str, body: &str) {
  let length = body.len();
  let text = format!(
    "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n{more}\r\n{body}"
  );
  stream.write_all(text.as_bytes()).ok();
}

/// An answer with this status and body.
pub(super) fn by(answer: impl FnMut(&mut TcpStream, &str) + Send + 'static) -> Answer {
  Box::new(answer)
}

/// Gives an identical answer to each request.
pub(super) fn always(status: &'static str, more: &'static str, body: &'static str) -> Answer {
  by(move |stream, _| respond(stream, status, more, body))
}
