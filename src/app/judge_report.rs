//! What the judge does on this machine, or would add, in one line and in JSON.
#![forbid(unsafe_code)]

use serde_json::{Value, json};

use super::{agent, context::Context};
use crate::{
  config::{Config, JudgeVia},
  os::{Clock as _, SystemClock},
  store::{Ledger, QuestionCounts},
  terminal::failure::Failure,
};

/// What the judge does on this machine.
pub struct JudgeReport {
  via: JudgeVia,
  counts: QuestionCounts,
  per_hour: u64,
  per_day: u64,
}

impl JudgeReport {
  /// Reads the configuration and the ledger, if there is one.
  pub fn find(config: &Config, ledger: Option<&Ledger>) -> Result<Self, Failure> {
    let counts = ledger.map(|ledger| ledger.question_counts(SystemClock.now())).transpose()?;
    let (per_hour, per_day) = (config.judge_per_hour, config.judge_per_day);
    Ok(Self { via: config.judge_via, counts: counts.unwrap_or_default(), per_hour, per_day })
  }

  /// The report in one line.
  pub fn line(&self) -> String {
    let who = match self.via {
      JudgeVia::Off => return "off (optional; catches plainly worded orders)".to_owned(),
      JudgeVia::Endpoint => "an endpoint",
      JudgeVia::Agent => "the agent's model",
      JudgeVia::Queue => "a queue",
    };
    let QuestionCounts { waiting, asked_day, answered_day, failed_day, refused_day, .. } =
      self.counts;
    let mut parts = vec![
      who.to_owned(),
      format!("{waiting} waiting"),
      format!("{answered_day} answered today"),
      format!("{asked_day} of {} asked", self.per_day),
    ];
    if failed_day > 0 {
      parts.push(format!("{failed_day} failed"));
    }
    if refused_day > 0 {
      parts.push(format!("{refused_day} left out"));
    }
    if self.is_spent() {
      parts.push("the budget is spent".to_owned());
    }
    parts.join(", ")
  }

  fn is_spent(&self) -> bool {
    self.counts.asked_day >= self.per_day || self.counts.asked_hour >= self.per_hour
  }

  /// The report in JSON.
  pub fn to_json(&self) -> Value {
    let QuestionCounts { waiting, asked_hour, asked_day, answered_day, failed_day, refused_day } =
      self.counts;
    json!({
      "via": self.via.as_str(),
      "waiting": waiting,
      "asked_this_hour": asked_hour,
      "asked_today": asked_day,
      "answered_today": answered_day,
      "failed_today": failed_day,
      "not_asked_today": refused_day,
      "per_hour": self.per_hour,
      "per_day": self.per_day,
      "budget_spent": self.via != JudgeVia::Off && self.is_spent(),
    })
  }

  /// Why memfw cannot ask the judge, if so.
  pub fn wrong(&self, context: &Context, config: &Config) -> Option<String> {
    let judge = agent::discover(&context.surroundings.env, config).helpers.judge;
    judge?.err().map(|why| format!("not available: {why}"))
  }
}
