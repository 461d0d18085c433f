//! The closed list of effects.
#![forbid(unsafe_code)]

use std::ops::Range;

use super::slot::{Novelty, Slot};
use crate::detect::rules::words;

/// What an entry would do to the agent or its owner if the agent followed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effect {
  /// A rule for all future turns.
  StandingOrder,
  /// A program or command to run.
  Command,
  /// Where money is sent, or that it is sent.
  Payment,
  /// How a person is reached.
  Contact,
  /// A registry, mirror, host, webhook or upload place.
  Endpoint,
  /// Approvals, allow lists, firewall and file modes, roles, claims of trust.
  Permission,
  /// Who the agent, its owner or another person is.
  Identity,
  /// The agent keeps information from the owner.
  Secrecy,
  /// When X happens, do Y.
  Trigger,
  /// Forget, distrust, skip a check.
  Suppression,
  /// A brand, link or person to put forward.
  Promotion,
  /// Data is sent away.
  Disclosure,
  /// Medicine, electricity, law, money: a fact that harms if it is false.
  SafetyFact,
}

words!(
  Effect,
  "effect",
  "one of the effects of docs/detection.md",
  StandingOrder = "standing-order",
  Command = "command",
  Payment = "payment",
  Contact = "contact",
  Endpoint = "endpoint",
  Permission = "permission",
  Identity = "identity",
  Secrecy = "secrecy",
  Trigger = "trigger",
  Suppression = "suppression",
  Promotion = "promotion",
  Disclosure = "disclosure",
  SafetyFact = "safety-fact",
);

impl Effect {
  /// Whether it is about a value or a way that an owner may ask to keep.
  pub const fn sets_value(self) -> bool {
    matches!(self, Self::Payment | Self::Contact | Self::Endpoint | Self::Command)
  }
}

/// How plainly a text says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Strength {
  /// The vocabulary is there: evidence, to be weighed with others.
  Weak,
  /// An order or a rule, with its object.
  Plain,
  /// The text has no other reading; no probability is needed.
  Blatant,
}

words!(
  Strength,
  "strength",
  "`weak`, `plain` or `blatant`",
  Weak = "weak",
  Plain = "plain",
  Blatant = "blatant",
);

/// One effect of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundEffect {
  /// Which.
  pub effect: Effect,
  /// Where it is said, in bytes of the input: a sentence, item or row.
  pub span: Range<usize>,
  /// How plainly.
  pub strength: Strength,
  /// The values that the effect depends on, in order.
  pub slots: Vec<Slot>,
  /// Why, in memfw's plain words, never the text's.
  pub why: String,
  /// Whether the owner asked to keep things of other kinds only.
  pub is_unasked: bool,
}

impl FoundEffect {
  /// The worst novelty of its slots; `None` where it has no slots.
  pub fn novelty(&self) -> Option<Novelty> {
    self.slots.iter().map(|slot| slot.novelty).max()
  }
}

/// A kind of information that an owner asks to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AskedKind {
  /// Accounts, prices, invoices.
  Payment,
  /// Persons, numbers and addresses.
  Contact,
  /// Links, hosts, and where something is sent.
  Place,
  /// How something is done.
  Method,
  /// Rules, duties and rights.
  Rule,
  /// Words that fit all of them, such as "details".
  Any,
}

/// The classes of `rules/effects` that name a kind.
pub(super) const ASKED_KINDS: &[(&str, AskedKind)] = &[
  ("asked-payment", AskedKind::Payment),
  ("asked-contact", AskedKind::Contact),
  ("asked-place", AskedKind::Place),
  ("asked-method", AskedKind::Method),
  ("asked-rule", AskedKind::Rule),
  ("asked-any", AskedKind::Any),
];

impl AskedKind {
  /// Whether an entry may have this effect because the owner asked for things of this kind.
  /// Instructions name hosts and persons, and an address is a contact or a place. A request for
  /// facts alone does not ask to act on them.
  pub(super) const fn covers(self, effect: Effect) -> bool {
    match effect {
      Effect::Payment => matches!(self, Self::Payment | Self::Any),
      Effect::Contact => !matches!(self, Self::Payment | Self::Rule),
      Effect::Endpoint => !matches!(self, Self::Payment),
      Effect::Command => !matches!(self, Self::Payment | Self::Contact),
      _ => !matches!(self, Self::Payment | Self::Contact | Self::Place),
    }
  }
}
