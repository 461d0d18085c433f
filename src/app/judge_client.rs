//! The judge that answers questions about new entries: an endpoint, the agent framework's own model, or the queue.
#![forbid(unsafe_code)]

use super::keys;
use crate::{
  config::{Config, JudgeVia},
  daemon::judge::{Program, Via},
  net::{CHAT_DEADLINE, ChatSettings},
  os::Env,
};

/// The judge that the daemon asks, as configured; `program` runs the agent framework's own model.
pub fn via(
  env: &Env,
  config: &Config,
  program: impl FnOnce() -> Result<Program, String>,
) -> Option<Result<Via, String>> {
  Some(match config.judge_via {
    JudgeVia::Off => return None,
    JudgeVia::Queue => Ok(Via::Queue),
    JudgeVia::Agent => program().map(Via::Program),
    JudgeVia::Endpoint => {
      keys::read(env, keys::JUDGE, config.judge_key_file.as_deref()).map(|key| {
        let (url, model) = (config.judge_url.clone(), config.judge_model.clone());
        Via::Endpoint(ChatSettings { url, model, key, deadline: CHAT_DEADLINE })
      })
    }
  })
}
