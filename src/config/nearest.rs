//! The nearest known name to a mistyped one.
#![forbid(unsafe_code)]

/// The candidate that `name` was probably meant to be; `None` if no candidate is near enough.
///
/// Near means that at most a third of the letters, but always one, were added, dropped, changed or
/// swapped with their neighbour: the limit that compilers use for misspelt identifiers. Long names
/// are not compared at all, so that a hostile name costs no time.
pub fn nearest<'c>(name: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
  const LONGEST: usize = 64;
  if name.len() > LONGEST {
    return None;
  }
  let name = name.to_lowercase();
  candidates
    .into_iter()
    .map(|candidate| (strsim::damerau_levenshtein(&name, &candidate.to_lowercase()), candidate))
    .filter(|(distance, candidate)| *distance <= (candidate.chars().count() / 3).max(1))
    .min_by_key(|(distance, _)| *distance)
    .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn typing_errors_are_found_and_strangers_are_not() {
    let known = ["idle_ms", "max_bytes", "owners"];
    assert_eq!(nearest("idel_ms", known), Some("idle_ms"));
    assert_eq!(nearest("max_byte", known), Some("max_bytes"));
    assert_eq!(nearest("OWNERS", known), Some("owners"));
    assert_eq!(nearest("memroy.md", ["MEMORY.md"]), Some("MEMORY.md"));
    assert_eq!(nearest("telemetry", known), None);
    assert_eq!(nearest(&"owners".repeat(100), known), None);
  }

  #[test]
  fn the_nearest_of_several_wins() {
    assert_eq!(nearest("wrp", ["id", "wrap", "warp"]), Some("wrap"));
  }
}
