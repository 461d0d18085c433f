//! Answers of a model that reads, from an OpenAI-compatible endpoint.
#![forbid(unsafe_code)]

use std::{fmt, time::Duration};

use serde::Deserialize;
use serde_json::json;
use zeroize::Zeroizing;

use super::{Breaker, Clock, NetError, check_url, post::Post};

/// How long one question may take in all.
pub const CHAT_DEADLINE: Duration = Duration::from_secs(20);
/// Bytes of an answer, at most: one has a few hundred, and what a server says of itself beside it.
const MAX_ANSWER: u64 = 1 << 20;
/// Tokens of an answer, at most: three entries with their quotations, and room for a model that thinks.
const MAX_TOKENS: u32 = 2048;

/// Whom to ask.
#[derive(Clone)]
pub struct ChatSettings {
  /// The address up to `/chat/completions`.
  pub url: String,
  /// The model.
  pub model: String,
  /// What is sent as a bearer token, if anything.
  pub key: Option<Zeroizing<String>>,
  /// How long one question may take in all.
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

/// Asks one server, and leaves it in peace while it fails.
pub struct Chat {
  model: String,
  post: Post,
  clock: Clock,
  breaker: Breaker,
}

impl Chat {
  /// A client; nothing is sent yet.
  pub fn new(settings: ChatSettings, clock: Clock) -> Result<Self, NetError> {
    let ChatSettings { url, model, key, deadline } = settings;
    check_url(&url).map_err(NetError::Url)?;
    let address = format!("{}/chat/completions", url.trim_end_matches('/'));
    let post = Post::new(&address, key, deadline, MAX_ANSWER)?;
    Ok(Self { model, post, clock, breaker: Breaker::default() })
  }

  /// The answer to one prompt, as it came: text that nobody has checked. A prompt is one question of its own,
  /// and nothing of an earlier one goes with it.
  pub fn ask(&mut self, prompt: &str) -> Result<String, NetError> {
    if !self.breaker.may_ask((self.clock)()) {
      return Err(NetError::Resting);
    }
    let answer = self.ask_once(prompt);
    match &answer {
      // Who says nothing to one question may answer the next.
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
    // What serde says may repeat what stands there.
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
