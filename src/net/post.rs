//! One HTTP request, and all its errors.
#![forbid(unsafe_code)]

use std::time::Duration;

use ureq::Agent;
use zeroize::Zeroizing;

use super::check_url;

/// The time limit for connecting.
const CONNECT: Duration = Duration::from_secs(3);

/// A monotonic clock.
pub type Clock = Box<dyn Fn() -> Duration>;

/// Why there is no answer. Contains nothing of an answer, a text or a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetError {
  /// The address may not be used.
  #[error("{0}")]
  Url(String),
  /// More texts than one request may have.
  #[error("too many texts for one request: {0}")]
  TooMany(usize),
  /// The server did not answer in time.
  #[error("no answer came within {} ms", .0.as_millis())]
  Deadline(Duration),
  /// The server could not be reached, or the connection broke.
  #[error("the server cannot be reached: {0}")]
  Unreachable(String),
  /// The server answered with this HTTP status.
  #[error("the server answered with status {0}")]
  Status(u16),
  /// The server tried to redirect.
  #[error("the server redirects, and memfw follows no redirects")]
  Redirect,
  /// The answer was longer than the cap.
  #[error("the answer has more than {0} bytes")]
  TooLarge(u64),
  /// The answer was empty.
  #[error("the server sent an empty answer")]
  Silent,
  /// The answer has another format than requested.
  #[error("the answer cannot be used: {0}")]
  Answer(&'static str),
  /// The server failed too often, and requests are paused.
  #[error("it failed several times and is paused for a while")]
  Resting,
}

/// Sends JSON to one address, after the address was checked.
pub(super) struct Post {
  agent: Agent,
  address: String,
  key: Option<Zeroizing<String>>,
  deadline: Duration,
  most: u64,
}

impl Post {
  /// Requests to `address` take at most `deadline`; an answer has at most `most` bytes.
  pub(super) fn new(
    address: &str,
    key: Option<Zeroizing<String>>,
    deadline: Duration,
    most: u64,
  ) -> Result<Self, NetError> {
    let uri = check_url(address).map_err(NetError::Url)?;
    let config = Agent::config_builder()
      .https_only(uri.scheme_str() == Some("https"))
      .http_status_as_error(false)
      .max_redirects(0)
      .proxy(None)
      .user_agent(concat!("memfw/", env!("CARGO_PKG_VERSION")))
      .timeout_global(Some(deadline))
      .timeout_connect(Some(CONNECT.min(deadline)))
      .build();
    Ok(Self { agent: config.into(), address: address.to_owned(), key, deadline, most })
  }

  /// The body of the answer.
  pub(super) fn send(&self, question: String) -> Result<Vec<u8>, NetError> {
    let mut request = self.agent.post(&self.address).header("content-type", "application/json");
    if let Some(key) = &self.key {
      let bearer = Zeroizing::new(format!("Bearer {}", key.as_str()));
      request = request.header("authorization", bearer.as_str());
    }
    let mut response = request.send(question).map_err(|error| self.why(&error))?;
    match response.status().as_u16() {
      200..=299 => {}
      300..=399 => return Err(NetError::Redirect),
      status => return Err(NetError::Status(status)),
    }
    let body = response.body_mut().with_config().limit(self.most).read_to_vec();
    body.map_err(|error| self.why(&error))
  }

  fn why(&self, error: &ureq::Error) -> NetError {
    match error {
      ureq::Error::Timeout(_) => NetError::Deadline(self.deadline),
      ureq::Error::BodyExceedsLimit(_) => NetError::TooLarge(self.most),
      ureq::Error::TooManyRedirects | ureq::Error::RedirectFailed => NetError::Redirect,
      ureq::Error::Io(error) => NetError::Unreachable(error.kind().to_string()),
      ureq::Error::HostNotFound => NetError::Unreachable("the host is not known".to_owned()),
      ureq::Error::ConnectionFailed => NetError::Unreachable("no connection".to_owned()),
      ureq::Error::Tls(_) | ureq::Error::Rustls(_) | ureq::Error::TlsRequired => {
        NetError::Unreachable("it cannot be encrypted, or the certificate is not valid".to_owned())
      }
      // Other messages of the library may repeat a header or an address.
      _ => NetError::Unreachable("the answer is not HTTP".to_owned()),
    }
  }
}
