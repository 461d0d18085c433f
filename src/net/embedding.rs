//! Vectors of texts from an endpoint with OpenAI's API or from Ollama.
#![forbid(unsafe_code)]

use std::{cell::RefCell, collections::HashMap, fmt, time::Duration};

use serde_json::json;
use zeroize::Zeroizing;

use super::{Breaker, Clock, Form, NetError, answer, check_url, post::Post};
use crate::{detect::exemplar::Embed, memory::ContentHash};

/// Largest number of bytes of one text that are sent: an exemplar is a sentence, and this many
/// bytes of a block show its subject.
pub const MAX_TEXT: usize = 8 * 1024;
/// Largest number of texts of one request.
const MAX_TEXTS: usize = 128;
/// Largest answer in bytes: [`MAX_TEXTS`] vectors of the largest models, as text.
const MAX_ANSWER: u64 = 16 << 20;
/// Largest number of cached vectors; a process sees fewer texts than that.
const MAX_KEPT: usize = 1024;

/// The endpoint.
#[derive(Clone)]
pub struct Settings {
  /// Its API.
  pub form: Form,
  /// The address up to the path of [`Form`].
  pub url: String,
  /// The model, by the name that the endpoint knows.
  pub model: String,
  /// The bearer token, if any.
  pub key: Option<Zeroizing<String>>,
  /// The time limit of one request.
  pub deadline: Duration,
}

impl fmt::Debug for Settings {
  fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Self { form, url, model, key, deadline } = self;
    let key = key.as_ref().map(|_| "...");
    f.debug_struct("Settings")
      .field("form", form)
      .field("url", url)
      .field("model", model)
      .field("key", &key)
      .field("deadline", deadline)
      .finish()
  }
}

/// A client for one server, which caches vectors by the hashes of their texts.
pub struct Client {
  settings: Settings,
  post: Post,
  clock: Clock,
  state: RefCell<State>,
}

#[derive(Default)]
struct State {
  breaker: Breaker,
  dimension: Option<usize>,
  kept: HashMap<ContentHash, Vec<f32>>,
}

impl Client {
  /// A client; sends nothing yet.
  pub fn new(settings: Settings, clock: Clock) -> Result<Self, NetError> {
    check_url(&settings.url).map_err(NetError::Url)?;
    let address = format!("{}/{}", settings.url.trim_end_matches('/'), settings.form.path());
    let post = Post::new(&address, settings.key.clone(), settings.deadline, MAX_ANSWER)?;
    Ok(Self { settings, post, clock, state: RefCell::default() })
  }

  /// One vector per text, in order; sends only texts that are not cached.
  pub fn vectors(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, NetError> {
    let keys: Vec<ContentHash> = texts.iter().map(|text| self.key_of(text)).collect();
    let mut asked: Vec<(ContentHash, &str)> = Vec::new();
    for (key, text) in keys.iter().zip(texts) {
      let is_new = !self.state.borrow().kept.contains_key(key);
      if is_new && !asked.iter().any(|(other, _)| other == key) {
        asked.push((*key, cut(text)));
      }
    }
    let mut found: HashMap<ContentHash, Vec<f32>> = HashMap::new();
    if !asked.is_empty() {
      let texts: Vec<&str> = asked.iter().map(|(_, text)| *text).collect();
      let vectors = self.ask_guarded(&texts)?;
      found.extend(asked.iter().map(|(key, _)| *key).zip(vectors));
    }
    let mut state = self.state.borrow_mut();
    let answer = keys.iter().map(|key| found.get(key).or(state.kept.get(key)).cloned());
    let answer: Option<Vec<Vec<f32>>> = answer.collect();
    if state.kept.len() + found.len() > MAX_KEPT {
      state.kept.clear();
    }
    state.kept.extend(found);
    answer.ok_or(NetError::Answer("it does not have one vector for each text"))
  }

  /// The cache key of a text, which contains no text.
  fn key_of(&self, text: &str) -> ContentHash {
    let Settings { url, model, .. } = &self.settings;
    let text = cut(text);
    ContentHash::of(format!("{}:{url}{}:{model}{text}", url.len(), model.len()).as_bytes())
  }

  /// Sends a request, unless too many failed recently.
  fn ask_guarded(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, NetError> {
    if texts.len() > MAX_TEXTS {
      return Err(NetError::TooMany(texts.len()));
    }
    if !self.state.borrow().breaker.may_ask((self.clock)()) {
      return Err(NetError::Resting);
    }
    let answer = self.ask(texts);
    let mut state = self.state.borrow_mut();
    match &answer {
      Ok(vectors) => {
        state.breaker.succeeded();
        state.dimension = vectors.first().map(Vec::len);
      }
      Err(_) => state.breaker.failed((self.clock)()),
    }
    answer
  }

  fn ask(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, NetError> {
    let Settings { form, model, .. } = &self.settings;
    let question = match form {
      Form::OpenAi => json!({ "model": model, "input": texts, "encoding_format": "float" }),
      Form::Ollama => json!({ "model": model, "input": texts }),
    };
    let body = self.post.send(question.to_string())?;
    answer::vectors(*form, &body, texts.len(), self.state.borrow().dimension)
  }
}

impl Embed for Client {
  fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, String> {
    self.vectors(texts).map_err(|error| error.to_string())
  }
}

/// The part of a text that is sent.
fn cut(text: &str) -> &str {
  let mut end = text.len().min(MAX_TEXT);
  while !text.is_char_boundary(end) {
    end -= 1;
  }
  text.get(..end).unwrap_or(text)
}
