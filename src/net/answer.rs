//! Checks an answer: as many vectors as texts, all of one length, all of finite numbers.
#![forbid(unsafe_code)]

use serde::Deserialize;

use super::NetError;

/// Numbers of a vector, at most; the largest model in use has 4,096.
const MAX_DIMENSION: usize = 16_384;

/// The API of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
  /// `POST URL/embeddings`, as OpenAI and compatible servers expect.
  OpenAi,
  /// `POST URL/api/embed`, as Ollama expects.
  Ollama,
}

impl Form {
  pub(super) const fn path(self) -> &'static str {
    match self {
      Self::OpenAi => "embeddings",
      Self::Ollama => "api/embed",
    }
  }
}

/// `{"data": [{"index": 0, "embedding": [..]}, ..]}`
#[derive(Deserialize)]
struct OpenAi {
  data: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
  index: usize,
  embedding: Vec<f64>,
}

/// `{"embeddings": [[..], ..]}`
#[derive(Deserialize)]
struct Ollama {
  embeddings: Vec<Vec<f64>>,
}

/// The vectors of an answer for `n` texts; `dimension` is the length in earlier answers.
pub(super) fn vectors(
  form: Form,
  body: &[u8],
  n_texts: usize,
  dimension: Option<usize>,
) -> Result<Vec<Vec<f32>>, NetError> {
  // The message of serde may repeat the answer.
  let unreadable =
    |_error: serde_json::Error| NetError::Answer("it is not the JSON that was expected");
  let vectors: Vec<Vec<f64>> = match form {
    Form::OpenAi => {
      let OpenAi { mut data } = serde_json::from_slice(body).map_err(unreadable)?;
      data.sort_by_key(|entry| entry.index);
      if data.iter().zip(0..).any(|(entry, n)| entry.index != n) {
        return Err(NetError::Answer("it does not say which vector belongs to which text"));
      }
      data.into_iter().map(|entry| entry.embedding).collect()
    }
    Form::Ollama => {
      let Ollama { embeddings } = serde_json::from_slice(body).map_err(unreadable)?;
      embeddings
    }
  };
  let length = dimension.or(vectors.first().map(Vec::len)).unwrap_or_default();
  if vectors.len() != n_texts {
    return Err(NetError::Answer("it does not have one vector for each text"));
  }
  if length == 0 || length > MAX_DIMENSION || vectors.iter().any(|vector| vector.len() != length) {
    return Err(NetError::Answer("its vectors are not of the right length"));
  }
  let vectors: Vec<Vec<f32>> =
    vectors.iter().map(|vector| vector.iter().map(|number| *number as f32).collect()).collect();
  // A number that is too large for `f32` is infinite here.
  let sound = |vector: &Vec<f32>| {
    vector.iter().all(|n| n.is_finite()) && vector.iter().any(|n| n.abs() > 0.0)
  };
  if !vectors.iter().all(sound) {
    return Err(NetError::Answer("its vectors contain values that are not finite numbers"));
  }
  Ok(vectors)
}

#[cfg(test)]
mod tests {
  use super::*;

  fn why(form: Form, body: &str, n_texts: usize, dimension: Option<usize>) -> String {
    vectors(form, body.as_bytes(), n_texts, dimension).unwrap_err().to_string()
  }

  #[test]
  fn vectors_come_in_the_order_of_the_texts() {
    let body = r#"{"data":[{"index":1,"embedding":[0,2]},{"index":0,"embedding":[1,0]}],"more":1}"#;
    let found = vectors(Form::OpenAi, body.as_bytes(), 2, Some(2)).unwrap();
    assert_eq!(found, [[1.0, 0.0], [0.0, 2.0]]);
    let body = r#"{"model":"m","embeddings":[[1,0],[0,2.5e0]]}"#;
    let found = vectors(Form::Ollama, body.as_bytes(), 2, None).unwrap();
    assert_eq!(found, [[1.0, 0.0], [0.0, 2.5]]);
  }

  #[test]
  fn an_answer_that_does_not_fit_is_refused() {
    for (body, n_texts, dimension, expected) in [
      ("", 1, None, "is not the JSON"),
      ("[]", 1, None, "is not the JSON"),
      (r#"{"embeddings":[["1"]]}"#, 1, None, "is not the JSON"),
      (r#"{"embeddings":[[1],[1]]}"#, 1, None, "one vector for each text"),
      (r#"{"embeddings":[]}"#, 1, None, "one vector for each text"),
      (r#"{"embeddings":[[]]}"#, 1, None, "right length"),
      (r#"{"embeddings":[[1],[1,2]]}"#, 2, None, "right length"),
      (r#"{"embeddings":[[1,2]]}"#, 1, Some(3), "right length"),
      (r#"{"embeddings":[[0,0]]}"#, 1, None, "finite numbers"),
      (r#"{"embeddings":[[1,1e39]]}"#, 1, None, "finite numbers"),
    ] {
      let why = why(Form::Ollama, body, n_texts, dimension);
      assert!(why.contains(expected), "{body}: {why}");
    }
    let body = r#"{"data":[{"index":1,"embedding":[1]},{"index":1,"embedding":[1]}]}"#;
    assert!(why(Form::OpenAi, body, 2, None).contains("which vector belongs"));
    let huge = format!(r#"{{"embeddings":[[{}1]]}}"#, "1,".repeat(MAX_DIMENSION));
    assert!(why(Form::Ollama, &huge, 1, None).contains("right length"));
  }
}
