//! Values that an effect depends on.
#![forbid(unsafe_code)]

use std::ops::Range;

use crate::detect::rules::words;

/// What kind of value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SlotKind {
  /// A bank account; the value has no spaces.
  Iban,
  /// A payment card.
  Card,
  /// A wallet of a cryptocurrency.
  Wallet,
  /// An e-mail address.
  Email,
  /// A web address.
  Url,
  /// A registrable domain.
  Domain,
  /// A host without a registrable domain.
  Host,
  /// An IP address.
  Ip,
  /// A range of IP addresses.
  Cidr,
  /// A telephone number, digits alone.
  Phone,
  /// The handle of an account.
  Handle,
  /// A path of a file.
  Path,
  /// A package, with its registry's form of the name.
  Package,
  /// A registry or mirror.
  Registry,
  /// The name of a person, as the text writes it, in lower case.
  Person,
  /// A role or right.
  Role,
  /// A sum of money.
  Amount,
  /// A day or time.
  Time,
}

words!(
  SlotKind,
  "kind of slot",
  "one of the kinds of slots of docs/detection.md",
  Iban = "iban",
  Card = "card",
  Wallet = "wallet",
  Email = "email",
  Url = "url",
  Domain = "domain",
  Host = "host",
  Ip = "ip",
  Cidr = "cidr",
  Phone = "phone",
  Handle = "handle",
  Path = "path",
  Package = "package",
  Registry = "registry",
  Person = "person",
  Role = "role",
  Amount = "amount",
  Time = "time",
);

/// How a slot compares with the owner's words of the turn and with trusted memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Novelty {
  /// The owner said it, or trusted memory holds it.
  Known,
  /// No trusted source has said it.
  New,
  /// A trusted source has another value.
  Contradicts,
}

words!(
  Novelty,
  "novelty",
  "`known`, `new` or `contradicts`",
  Known = "known",
  New = "new",
  Contradicts = "contradicts",
);

/// One value in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
  /// What kind of value.
  pub kind: SlotKind,
  /// Where, in bytes of the input.
  pub span: Range<usize>,
  /// The value in one form: lower case, without separators where the kind has none.
  pub value: String,
  /// How the value compares with known values.
  pub novelty: Novelty,
}

/// A value that trusted memory holds, and what it belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KnownSlot {
  /// What kind of value.
  pub kind: SlotKind,
  /// The value, in the form of [`Slot::value`].
  pub value: String,
  /// The folded words beside it that name its owner or purpose: another value of this kind with
  /// these words contradicts it.
  pub topic: Vec<String>,
  /// Whether the value is only compared, and never shown or sent.
  pub is_private: bool,
}
