//! Answers of a judge, from an endpoint with OpenAI's API.
#![forbid(unsafe_code)]

use std::{fmt, time::Duration};

use serde::Deserialize;
use serde_json::json;
use zeroize::Zeroizing;

use super::{Breaker, Clock, NetError, check_url, post::Post};

/// The time limit of one request.
pub const CHAT_DEADLINE: Duration = Duration::from_secs(20);
/// Largest answer in bytes: an answer has a few hundred, and the server adds metadata.
const MAX_ANSWER: u64 = 1 << 20;
/// Largest number of tokens of an answer: three entries with their quotations, and room for
/// reasoning.
const MAX_TOKENS: u32 = 2048;

/// The endpoint.
#[derive(Clone)]
pub struct ChatSettings {
  /// The address up to `/chat/completions`.
  pub url: String,
  /// The model, by the name that the endpoint knows.
  pub model: String,
  /// The bearer token, if any.
  pub key: Option<Zeroizing<String>>,
  /// The time limit of one request.
  pub deadline: Duration,
}

impl fmt::Debug for ChatSettings {
  fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Self { url, model, key, deadline } = self;
    f.debug_struct("ChatSettings")
      .field("url", url)
      .field("model", model)
      .field("key", &key.as_ref().map(|_| "..."))
      .field("deadline", deadline)
      .finish()
  }
}

/// A client for one server, which pauses while the server fails.
pub struct Chat {
  model: String,
  post: Post,
  clock: Clock,
  breaker: Breaker,
}

impl Chat {
  /// A client; sends nothing yet.
  pub fn new(settings: ChatSettings, clock: Clock) -> Result<Self, NetError> {
    let ChatSettings { url, model, key, deadline } = settings;
    check_url(&url).map_err(NetError::Url)?;
    let address = format!("{}/chat/completions", url.trim_end_matches('/'));
    let post = Post::new(&address, key, deadline, MAX_ANSWER)?;
    Ok(Self { model, post, clock, breaker: Breaker::default() })
  }

  /// The unchecked answer to one prompt. Each prompt is a request of its own, without anything of
  /// an earlier one.
  pub fn ask(&mut self, prompt: &str) -> Result<String, NetError> {
    if !self.breaker.may_ask((self.clock)()) {
      return Err(NetError::Resting);
    }
    let answer = self.ask_once(prompt);
    match &answer {
      // A server that does not answer one request may answer the next.
      Ok(_) | Err(NetError::Silent) => self.breaker.succeeded(),
      Err(_) => self.breaker.failed((self.clock)()),
    }
    answer
  }

  fn ask_once(&self, prompt: &str) -> Result<String, NetError> {
    let question = json!({
      "model": self.model,
      "messages": [{ "role": "user", "content": prompt }],
      "temperature": 0,
      "max_tokens": MAX_TOKENS,
      "stream": false,
    });
    let body = self.post.send(question.to_string())?;
    // The message of serde may repeat the answer.
    let completion: Completion = serde_json::from_slice(&body)
      .map_err(|_error| NetError::Answer("it is not the JSON that was expected"))?;
    let [choice] = <[Choice; 1]>::try_from(completion.choices)
      .map_err(|_choices| NetError::Answer("it does not have one choice"))?;
    choice.message.content.ok_or(NetError::Silent)
  }
}

#[derive(Deserialize)]
struct Completion {
  choices: Vec<Choice>,
}

#[derive(Deserialize)]
struct Choice {
  message: Message,
}

#[derive(Deserialize)]
struct Message {
  content: Option<String>,
}
