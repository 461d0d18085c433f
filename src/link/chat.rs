//! What the owner of an agent asks memfw in a chat: words behind `/memfw`, which a plugin passes on.
//!
//! Only the plugin knows who wrote them; it says so, and memfw answers only the owner.
#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};

use super::limits::{MAX_CHAT_WORDS_BYTES, MAX_NAME_BYTES};

/// Fewest digits of an id that a person has to type (a choice: fewer are a typing mistake).
const MIN_TYPED_DIGITS: usize = 4;
/// Most digits of an id.
const MAX_ID_DIGITS: usize = 16;

/// Words of a person in a chat.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct Chat {
  /// The words behind the name of the command.
  pub words: String,
  /// Whether the agent knows that the owner wrote them.
  pub sender_is_owner: Option<bool>,
  /// The channel, for the audit.
  pub channel: Option<String>,
}

impl Chat {
  /// What is longer than its limit.
  pub fn over_limit(&self) -> Option<&'static str> {
    let is_long = self.channel.as_ref().is_some_and(|name| name.len() > MAX_NAME_BYTES);
    if self.words.len() > MAX_CHAT_WORDS_BYTES {
      Some("words")
    } else {
      is_long.then_some("a name")
    }
  }

  /// Whether it is known that the owner wrote them. What is not known counts as no.
  pub const fn is_of_owner(&self) -> bool {
    matches!(self.sender_is_owner, Some(true))
  }
}

/// What the owner wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
  /// What can be asked.
  Help,
  /// Whether memory is guarded.
  Status,
  /// What waits.
  List,
  /// An item, without its words.
  Show(String),
  /// Why an item was taken out.
  Why(String),
  /// Put it back.
  Approve(String),
  /// Refuse it.
  Reject(String),
  /// Take a decision back: that about an item, or the last one.
  Undo(Option<String>),
}

impl Order {
  /// The order that these words are; the error says what is wrong with them, and repeats none of them.
  pub fn of(words: &str) -> Result<Self, &'static str> {
    let words: Vec<&str> = words.split_whitespace().collect();
    let (first, id, more) = match words.as_slice() {
      [] => return Ok(Self::Status),
      [first] => (*first, None, false),
      [first, id] => (*first, Some(*id), false),
      [first, id, ..] => (*first, Some(*id), true),
    };
    let one = |to: fn(String) -> Self| match (id, more) {
      (Some(id), false) => Ok(to(typed_id(id)?)),
      (None, _) => Err("name one item, by the id that `/memfw list` shows"),
      (_, true) => Err("name one item at a time"),
    };
    match first.to_ascii_lowercase().as_str() {
      "help" => Ok(Self::Help),
      "status" if id.is_none() => Ok(Self::Status),
      "list" if id.is_none() => Ok(Self::List),
      "status" | "list" => Err("there is nothing to add to this word"),
      "show" => one(Self::Show),
      "why" => one(Self::Why),
      "approve" => one(Self::Approve),
      "reject" => one(Self::Reject),
      "undo" if id.is_none() => Ok(Self::Undo(None)),
      "undo" => one(|id| Self::Undo(Some(id))),
      _ => Err("this is nothing that memfw can be asked in a chat: `/memfw help`"),
    }
  }
}

/// An id, or its beginning, as a person types it; nothing else that the command line takes for an item.
fn typed_id(typed: &str) -> Result<String, &'static str> {
  let is_id = (MIN_TYPED_DIGITS..=MAX_ID_DIGITS).contains(&typed.len())
    && typed.bytes().all(|byte| byte.is_ascii_hexdigit());
  if is_id {
    Ok(typed.to_ascii_lowercase())
  } else {
    Err("this is no id: `/memfw list` shows them")
  }
}

/// What the owner is to be told without having asked.
#[derive(Clone, Debug, Default, Serialize, PartialEq, Eq)]
pub struct News {
  /// A few lines without a word of memory; absent if there is nothing to tell.
  #[serde(skip_serializing_if = "Option::is_none")]
  pub text: Option<String>,
  /// Words that may be asked next about it.
  #[serde(skip_serializing_if = "Vec::is_empty")]
  pub offers: Vec<String>,
}

/// The answer to a person.
#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
pub struct Told {
  /// A few lines without a word of memory, for the owner; a model may read them as well.
  pub text: String,
  /// Whether what was asked is done.
  pub done: bool,
  /// Words that may be asked next about the items of the answer, as buttons of a chat.
  #[serde(skip_serializing_if = "Vec::is_empty")]
  pub offers: Vec<String>,
}

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn words_are_orders() {
    let id = || "a1b2c3".to_owned();
    for (words, order) in [
      ("", Order::Status),
      (" status ", Order::Status),
      ("list", Order::List),
      ("HELP me", Order::Help),
      ("show a1b2c3", Order::Show(id())),
      ("why  A1B2C3\n", Order::Why(id())),
      ("approve\ta1b2c3", Order::Approve(id())),
      ("Reject a1b2c3", Order::Reject(id())),
      ("undo", Order::Undo(None)),
      ("undo a1b2", Order::Undo(Some("a1b2".to_owned()))),
    ] {
      assert_eq!(Order::of(words), Ok(order), "{words:?}");
    }
  }

  #[test]
  fn other_words_are_refused_and_not_repeated() {
    for words in [
      "approve",
      "approve all",
      "approve a1b",
      "approve MEMORY.md:3",
      "approve /etc/passwd:1",
      "approve ../../x",
      "approve a1b2c3 d4e5f6",
      "approve a1b2c3 --at-end",
      "approve a1b2c3\u{202e}",
      "approve --yes",
      "approve %61%31%62%32",
      "show 0123456789abcdef0",
      "delete a1b2c3",
      "status now",
      "list --json",
      "undo *",
      "memfw approve a1b2c3",
    ] {
      let why = Order::of(words).unwrap_err();
      assert!(!why.contains(words.rsplit(' ').next().unwrap_or_default()), "{words}: {why}");
    }
  }

  #[test]
  fn only_a_plain_yes_makes_the_owner() {
    for (sender_is_owner, is_owner) in [(None, false), (Some(false), false), (Some(true), true)] {
      assert_eq!(Chat { sender_is_owner, ..Chat::default() }.is_of_owner(), is_owner);
    }
  }

  #[test]
  fn sizes_have_limits() {
    let long = |n: usize| "x".repeat(n);
    let words = |n| Chat { words: long(n), ..Chat::default() };
    assert_eq!(words(MAX_CHAT_WORDS_BYTES).over_limit(), None);
    assert_eq!(words(MAX_CHAT_WORDS_BYTES + 1).over_limit(), Some("words"));
    let channel = Chat { channel: Some(long(MAX_NAME_BYTES + 1)), ..Chat::default() };
    assert_eq!(channel.over_limit(), Some("a name"));
  }
}
