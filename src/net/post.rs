//! One question over HTTP, and all that can go wrong with it.
#![forbid(unsafe_code)]

use std::time::Duration;

use ureq::Agent;
use zeroize::Zeroizing;

use super::check_url;

/// How long a connection is waited for.
const CONNECT: Duration = Duration::from_secs(3);

/// A clock that only goes on.
pub type Clock = Box<dyn Fn() -> Duration>;

/// Why there is no answer. Nothing of an answer, a text or a key stands in it.
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
  #[error("the answer has more than {0} bytes")]
  TooLarge(u64),
  /// It answered, and said nothing.
  #[error("the server answered, and said nothing")]
  Silent,
  /// The answer is not what was asked for.
  #[error("the answer cannot be used: {0}")]
  Answer(&'static str),
  /// It failed too often and is not asked for a while.
  #[error("it failed several times and is not asked for a while")]
  Resting,
}

/// Sends JSON to one address, which it was checked that text may be sent to.
pub(super) struct Post {
  agent: Agent,
  address: String,
  key: Option<Zeroizing<String>>,
  deadline: Duration,
  most: u64,
}

impl Post {
  /// Questions to `address` take `deadline` in all; an answer has `most` bytes.
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
      // What else the library says may repeat a header or an address.
      _ => NetError::Unreachable("the answer is not HTTP".to_owned()),
    }
  }
}
