//! The text of docs/findings.md about each code, for people who have only the program.
#![forbid(unsafe_code)]

use crate::detect::Code;

/// The page itself.
const FINDINGS: &str = include_str!("../../../docs/findings.md");

/// The text below the heading of a code, without the heading; `None` if there is none, which a test
/// forbids.
pub fn page(code: Code) -> Option<&'static str> {
  let below = |section: &'static str| {
    Some(section.strip_prefix('`')?.strip_prefix(code.as_str())?.strip_prefix('`')?.trim())
  };
  FINDINGS.split("\n## ").skip(1).find_map(below)
}

/// What a code means: the first lines of its page, without the example.
pub fn meaning(code: Code) -> Option<&'static str> {
  let page = page(code)?;
  Some(page.split("\nExample:").next().unwrap_or(page).trim())
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn every_code_has_a_page_with_a_meaning() {
    for &code in Code::ALL {
      let page = page(code).unwrap_or_else(|| panic!("{code}"));
      assert!(page.contains("Example:") && !page.contains("\n## "), "{code}: {page}");
      let meaning = meaning(code).unwrap();
      assert!(meaning.len() > 20 && !meaning.contains("Example:"), "{code}: {meaning}");
    }
    assert!(page(Code::UrlReference).unwrap().starts_with("A web address."));
  }
}
