//! Vectors of texts from an OpenAI-compatible endpoint or Ollama.
#![forbid(unsafe_code)]

use std::{cell::RefCell, collections::HashMap, fmt, time::Duration};

use serde_json::json;
use ureq::Agent;
use zeroize::Zeroizing;

use super::{Breaker, answer, check_url};
use crate::{detect::exemplar::Embed, memory::ContentHash};

/// Bytes of one text that are sent, at most: an exemplar is a sentence, and a block of that length says
/// what it is about.
pub const MAX_TEXT: usize = 8 * 1024;
/// Texts of one question, at most.
const MAX_TEXTS: usize = 128;
/// Bytes of an answer, at most: [`MAX_TEXTS`] vectors of the largest models, as text.
const MAX_ANSWER: u64 = 16 << 20;
/// Vectors that are remembered, at most; by then a process has seen more texts than it will see again.
const MAX_KEPT: usize = 1024;
/// How long a connection is waited for.
const CONNECT: Duration = Duration::from_secs(3);

/// How a server wants to be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
  /// `POST URL/embeddings`, as OpenAI and those who copy it.
  OpenAi,
  /// `POST URL/api/embed`, as Ollama.
  Ollama,
}

impl Form {
  const fn path(self) -> &'static str {
    match self {
      Self::OpenAi => "embeddings",
      Self::Ollama => "api/embed",
    }
  }
}

/// Whom to ask, and how.
#[derive(Clone)]
pub struct Settings {
  /// How it wants to be asked.
  pub form: Form,
  /// The address up to the path of [`Form`].
  pub url: String,
  /// The model.
  pub model: String,
  /// What is sent as a bearer token, if anything.
  pub key: Option<Zeroizing<String>>,
  /// How long one question may take in all.
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

/// Why there are no vectors. Nothing of an answer, a text or a key stands in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetError {
  /// The address may not be used.
  #[error("{0}")]
  Url(String),
  /// More texts than one question may have.
  #[error("{0} texts are more than one question may have")]
  TooMany(usize),
  /// It did not answer in time.
  #[error("no answer came within {} ms", .0.as_millis())]
  Deadline(Duration),
  /// It could not be reached, or the connection broke.
  #[error("the server cannot be reached: {0}")]
  Unreachable(String),
  /// It answered, with this HTTP status.
  #[error("the server answered with status {0}")]
  Status(u16),
  /// It wanted the question to go elsewhere.
  #[error("the server points elsewhere, which is not followed")]
  Redirect,
  /// The answer was longer than any that fits.
  #[error("the answer has more than {} bytes", MAX_ANSWER)]
  TooLarge,
  /// The answer is not what was asked for.
  #[error("the answer cannot be used: {0}")]
  Answer(&'static str),
  /// It failed too often and is not asked for a while.
  #[error("it failed several times and is not asked for a while")]
  Resting,
}

/// A clock that only goes on.
type Clock = Box<dyn Fn() -> Duration>;

/// Asks one server for vectors, and remembers them by the hashes of their texts.
pub struct Client {
  settings: Settings,
  agent: Agent,
  address: String,
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
  /// A client; nothing is sent yet.
  pub fn new(settings: Settings, clock: Clock) -> Result<Self, NetError> {
    let uri = check_url(&settings.url).map_err(NetError::Url)?;
    let config = Agent::config_builder()
      .https_only(uri.scheme_str() == Some("https"))
      .http_status_as_error(false)
      .max_redirects(0)
      .proxy(None)
      .user_agent(concat!("memfw/", env!("CARGO_PKG_VERSION")))
      .timeout_global(Some(settings.deadline))
      .timeout_connect(Some(CONNECT.min(settings.deadline)))
      .build();
    let address = format!("{}/{}", settings.url.trim_end_matches('/'), settings.form.path());
    let state = RefCell::default();
    Ok(Self { settings, agent: config.into(), address, clock, state })
  }

  /// One vector a text, in order; only texts that were not asked about before are sent.
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

  /// The name under which a vector is remembered: no text.
  fn key_of(&self, text: &str) -> ContentHash {
    let Settings { url, model, .. } = &self.settings;
    let text = cut(text);
    ContentHash::of(format!("{}:{url}{}:{model}{text}", url.len(), model.len()).as_bytes())
  }

  /// Asks, unless it failed too often of late.
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
    let Settings { form, model, key, .. } = &self.settings;
    let question = match form {
      Form::OpenAi => json!({ "model": model, "input": texts, "encoding_format": "float" }),
      Form::Ollama => json!({ "model": model, "input": texts }),
    };
    let mut request = self.agent.post(&self.address).header("content-type", "application/json");
    if let Some(key) = key {
      let bearer = Zeroizing::new(format!("Bearer {}", key.as_str()));
      request = request.header("authorization", bearer.as_str());
    }
    let mut response = request.send(question.to_string()).map_err(|error| self.why(&error))?;
    match response.status().as_u16() {
      200..=299 => {}
      300..=399 => return Err(NetError::Redirect),
      status => return Err(NetError::Status(status)),
    }
    let body = response.body_mut().with_config().limit(MAX_ANSWER).read_to_vec();
    let body = body.map_err(|error| self.why(&error))?;
    answer::vectors(*form, &body, texts.len(), self.state.borrow().dimension)
  }

  fn why(&self, error: &ureq::Error) -> NetError {
    match error {
      ureq::Error::Timeout(_) => NetError::Deadline(self.settings.deadline),
      ureq::Error::BodyExceedsLimit(_) => NetError::TooLarge,
      ureq::Error::TooManyRedirects | ureq::Error::RedirectFailed => NetError::Redirect,
      ureq::Error::Io(error) => NetError::Unreachable(error.kind().to_string()),
      ureq::Error::HostNotFound => NetError::Unreachable("the host is not known".to_owned()),
      ureq::Error::ConnectionFailed => NetError::Unreachable("no connection".to_owned()),
      ureq::Error::Tls(_) | ureq::Error::Rustls(_) | ureq::Error::TlsRequired => {
        NetError::Unreachable("it cannot be encrypted, or the certificate is not valid".to_owned())
      }
      // What else the library says may repeat a header or an address.
      _ => NetError::Unreachable("the answer is not HTTP".to_owned()),
    }
  }
}

impl Embed for Client {
  fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, String> {
    self.vectors(texts).map_err(|error| error.to_string())
  }
}

/// The beginning of a text that is sent.
fn cut(text: &str) -> &str {
  let mut end = text.len().min(MAX_TEXT);
  while !text.is_char_boundary(end) {
    end -= 1;
  }
  text.get(..end).unwrap_or(text)
}
