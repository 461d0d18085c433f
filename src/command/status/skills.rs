//! How the agent's skills are, for `memfw status`.
#![forbid(unsafe_code)]

use serde_json::{Map, Value};

use crate::{skill::SkillState, store::Ledger, terminal::failure::Failure};

/// How many skills have each state, at the last check.
#[derive(Default)]
pub(super) struct SkillCounts(Vec<(SkillState, u64)>);

impl SkillCounts {
  /// Counts the skills that are present.
  pub(super) fn find(ledger: &Ledger) -> Result<Self, Failure> {
    let skills = ledger.skills()?;
    let of = |state| skills.iter().filter(|row| row.is_present && row.state == state).count();
    Ok(Self(SkillState::ALL.iter().map(|state| (*state, of(*state) as u64)).collect()))
  }

  fn of(&self, state: SkillState) -> u64 {
    self.0.iter().find(|(known, _)| *known == state).map_or(0, |(_, n)| *n)
  }

  /// The counts by the words of the states.
  pub(super) fn to_json(&self) -> Value {
    let count = |state: &SkillState| (state.as_str().to_owned(), self.of(*state).into());
    Value::Object(SkillState::ALL.iter().map(count).collect::<Map<_, _>>())
  }

  /// What the owner should look at; `None` if there is nothing.
  pub(super) fn line(&self) -> Option<String> {
    let states = [SkillState::Flagged, SkillState::Changed];
    let counted = states.map(|state| (self.of(state), state)).into_iter().filter(|(n, _)| *n > 0);
    let parts: Vec<String> = counted.map(|(n, state)| format!("{n} {state}")).collect();
    (!parts.is_empty()).then(|| format!("{}: memfw skills verify", parts.join(", ")))
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn only_what_needs_the_owner_is_a_line() {
    use SkillState::{Changed, Flagged, New, Trusted};
    let line = |counts: &[(SkillState, u64)]| SkillCounts(counts.to_vec()).line();
    assert_eq!(line(&[(New, 3), (Trusted, 2), (Changed, 0), (Flagged, 0)]), None);
    assert_eq!(line(&[(Changed, 2)]).as_deref(), Some("2 changed: memfw skills verify"));
    let both = SkillCounts(vec![(Changed, 1), (Flagged, 4), (New, 1)]);
    assert_eq!(both.line().as_deref(), Some("4 flagged, 1 changed: memfw skills verify"));
    assert_eq!(both.to_json().to_string(), r#"{"new":1,"trusted":0,"changed":1,"flagged":4}"#);
  }
}
