//! The program or endpoint that embeds texts, as configured, and the texts they are compared with.
//!
//! This file is the only place from which a text leaves this machine: for a person who asks why a block was
//! taken out, to the configured endpoint, and only if the block came from an untrusted or hostile
//! source. The daemon sends no text.
#![forbid(unsafe_code)]

use std::time::Duration;

use serde_json::{Value, json};

use super::{
  context::Context,
  keys,
  rules::{EXEMPLARS, exemplars},
};
use crate::{
  config::{Config, EmbeddingProvider},
  detect::exemplar::{Embed, Exemplars, Nearest, Ngrams},
  engine::{Event, EventKind},
  net::{Client, Form, Settings},
  os::{Clock as _, SystemClock},
  provenance::Trust,
  store::{Item, Ledger, PartKind, StateKey, StoreError},
};

/// How long a person waits for an explanation.
const DEADLINE: Duration = Duration::from_secs(10);

/// The known text that a text is most like, or why there is no answer.
pub struct Likeness<'c> {
  provider: EmbeddingProvider,
  embedder: Result<Box<dyn Embed>, String>,
  exemplars: Result<Exemplars, String>,
  context: &'c Context,
}

impl<'c> Likeness<'c> {
  /// Reads the configuration.
  pub fn new(context: &'c Context, config: &Config) -> Self {
    let exemplars = context.home().map_err(|failure| failure.error).and_then(|home| {
      exemplars(&home.config).map_err(|problems| {
        let first = problems.into_iter().next().map(|problem| problem.message);
        format!("`{EXEMPLARS}` is invalid: {}", first.unwrap_or_default())
      })
    });
    let provider = config.embedding_provider;
    Self { provider, embedder: embedder(context, config), exemplars, context }
  }

  /// What the text of an item is most like; `None` where its source excludes it from being sent.
  pub fn of(&self, item: &Item, text: &str) -> Option<Result<Nearest<'_>, String>> {
    let is_remote = self.provider != EmbeddingProvider::Local;
    if is_remote && item.trust > Trust::Untrusted {
      return None;
    }
    let answer = match (&self.embedder, &self.exemplars) {
      (Ok(embedder), Ok(exemplars)) => {
        exemplars.nearest(text, item.trust, embedder.as_ref()).transpose()?
      }
      (Err(why), _) | (_, Err(why)) => Err(why.clone()),
    };
    // `status` reports a failed explanation as well, if the ledger can be written.
    let why = answer.as_ref().err().filter(|_| is_remote);
    note(self.context, self.provider, why).ok();
    Some(answer)
  }

  /// The line for a person; `None` where the text is like no known text.
  pub fn line(&self, answer: &Result<Nearest<'_>, String>) -> Option<String> {
    match answer {
      Ok(near) if near.is_near() => Some(format!(
        "{} ({}): {:.2}, near from {:.2} on, by {}",
        near.exemplar.name, near.exemplar.code, near.similarity, near.threshold, self.provider
      )),
      Ok(_) => None,
      Err(why) => Some(format!("cannot be computed by {}: {why}", self.provider)),
    }
  }

  /// The value in JSON.
  pub fn to_json(&self, answer: Option<&Result<Nearest<'_>, String>>) -> Value {
    match answer {
      Some(Ok(near)) => json!({
        "exemplar": near.exemplar.name,
        "code": near.exemplar.code.as_str(),
        "similarity": two_digits(near.similarity),
        "threshold": two_digits(near.threshold),
        "provider": self.provider.as_str(),
      }),
      Some(Err(_)) | None => Value::Null,
    }
  }
}

/// Further digits carry no information.
fn two_digits(number: f32) -> f64 {
  (f64::from(number) * 1e2).round() / 1e2
}

/// The embedding provider.
pub fn embedder(context: &Context, config: &Config) -> Result<Box<dyn Embed>, String> {
  let (form, url, model) = match config.embedding_provider {
    EmbeddingProvider::Local => return Ok(Box::new(Ngrams)),
    EmbeddingProvider::OpenAi => {
      (Form::OpenAi, "https://api.openai.com/v1", "text-embedding-3-small")
    }
    EmbeddingProvider::Ollama => (Form::Ollama, "http://127.0.0.1:11434", "nomic-embed-text"),
  };
  let or = |set: &str, usual: &str| if set.is_empty() { usual.to_owned() } else { set.to_owned() };
  let settings = Settings {
    form,
    url: or(&config.embedding_url, url),
    model: or(&config.embedding_model, model),
    key: keys::read(
      &context.surroundings.env,
      keys::EMBEDDING,
      config.embedding_key_file.as_deref(),
    )?,
    deadline: DEADLINE,
  };
  let client = Client::new(settings, Box::new(|| SystemClock.monotonic()));
  client.map(|client| Box::new(client) as Box<dyn Embed>).map_err(|error| error.to_string())
}

/// Makes `status` report that the endpoint does not answer, until it answers.
fn note(
  context: &Context,
  provider: EmbeddingProvider,
  why: Option<&String>,
) -> Result<(), StoreError> {
  let key = StateKey::degraded(PartKind::Embedding);
  let text =
    why.map(|why| format!("nearest known attacks cannot be computed by {provider}: {why}"));
  let json = text.as_ref().map(|text| Value::from(text.as_str()).to_string());
  let known = |ledger: &Ledger| -> Result<Option<String>, StoreError> {
    Ok(ledger.state(&key)?.map(|(known, _)| known))
  };
  match context.ledger_to_read() {
    Ok(Some(ledger)) if known(&ledger)? != json => {}
    _ => return Ok(()),
  }
  let Ok(Ok(mut ledger)) = context.open_ledger() else { return Ok(()) };
  let at = SystemClock.now();
  let event = if let (Some(json), Some(text)) = (&json, &text) {
    ledger.set_state(&key, json, at)?;
    Event::new(EventKind::Degraded).detail(text)
  } else {
    ledger.remove_state(&key)?;
    Event::new(EventKind::Restored).detail(key.to_string())
  };
  ledger.append_events(&[event.row()], at)?;
  Ok(())
}
