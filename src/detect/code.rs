//! The closed list of finding codes.
#![forbid(unsafe_code)]

use std::{fmt, str::FromStr};

/// What a finding is. Each code is a heading in docs/findings.md, and the same word everywhere:
/// rules, JSON, log, docs, command line.
#[derive(
  Clone,
  Copy,
  Debug,
  PartialEq,
  Eq,
  PartialOrd,
  Ord,
  Hash,
  strum::EnumMessage,
  strum::IntoStaticStr,
  strum::VariantArray,
)]
#[strum(serialize_all = "kebab-case")]
pub enum Code {
  /// A memfw comment that the ledger does not know, or at a place where memfw writes none.
  #[strum(message = "a provenance comment that memfw did not write")]
  ForgedMarker,
  /// Markers from another installation, at a first scan.
  #[strum(message = "provenance comments of another installation")]
  ForeignMarkers,
  /// A marked block whose bytes changed.
  #[strum(message = "a marked block was edited")]
  EditedBlock,
  /// Text that continues the line of a quarantined one.
  #[strum(message = "the rest of a line that is in quarantine")]
  QuarantineContinued,
  /// Quarantined by a person with `memfw quarantine add`.
  #[strum(message = "put into quarantine by a person")]
  ManualQuarantine,
  /// To be taken out of a file that may not be written.
  #[strum(message = "poison in a file that memfw may not write")]
  LeftInPlace,
  /// A text that is larger than the part that memfw judges.
  #[strum(message = "only a part of a very long text was judged")]
  TextTooLarge,
  /// Zero-width characters inside words, or in long runs.
  #[strum(message = "invisible characters inside words")]
  ZeroWidth,
  /// Directional controls where no script needs them.
  #[strum(message = "the displayed order of the text is not its real order")]
  BidiControl,
  /// Text spelled in tag characters or variation selectors.
  #[strum(message = "text spelled in characters without a glyph")]
  TagCharacters,
  /// Terminal escape sequences.
  #[strum(message = "terminal escape sequences")]
  AnsiEscape,
  /// Look-alike letters of another script inside a word.
  #[strum(message = "words with look-alike letters")]
  MixedScript,
  /// An element that a style hides.
  #[strum(message = "text that a style hides")]
  HiddenCss,
  /// A rule hit inside text that a reader does not see.
  #[strum(message = "an instruction that a reader does not see")]
  HiddenInstruction,
  /// An encoded word that decodes to language.
  #[strum(message = "an encoded word that decodes to language")]
  EncodedText,
  /// Language in letters or an order that a filter does not read.
  #[strum(message = "obfuscated words")]
  DisguisedText,
  /// A rule hit inside decoded text.
  #[strum(message = "an encoded instruction")]
  EncodedInstruction,
  /// Ignores, forgets or replaces the agent's instructions.
  #[strum(message = "tells the agent to drop its instructions")]
  InstructionOverride,
  /// Makes the agent play a persona without limits.
  #[strum(message = "gives the agent another identity")]
  PersonaHijack,
  /// Asks for the system prompt or other hidden instructions.
  #[strum(message = "asks the agent to reveal its instructions")]
  PromptProbe,
  /// Text that poses as the system, an administrator or the developer.
  #[strum(message = "poses as the system or an authority")]
  FakeAuthority,
  /// Tokens of chat templates, such as the ones that begin a system message.
  #[strum(message = "tokens of a chat template")]
  ChatTemplateToken,
  /// Forged frames of the agent framework.
  #[strum(message = "forges a frame of the agent framework")]
  ForgedFrame,
  /// A forged follow-up of a compaction.
  #[strum(message = "poses as a follow-up to a compaction")]
  CompactionPayload,
  /// `trigger`, `importance` and other recall comments.
  #[strum(message = "comments that raise the rank of an entry in recall")]
  RecallMetadata,
  /// Sends data to an outside place.
  #[strum(message = "sends data to an outside destination")]
  ExfiltrationEndpoint,
  /// Collects, stores or reveals secrets.
  #[strum(message = "collects or reveals secrets")]
  CredentialHarvest,
  /// Hides data in images, queries, names or text.
  #[strum(message = "sends data out covertly")]
  CovertChannel,
  /// Hides something from the user.
  #[strum(message = "hides something from the user")]
  Concealment,
  /// Another account, wallet or payee.
  #[strum(message = "redirects a payment")]
  PaymentSwap,
  /// Moves money.
  #[strum(message = "transfers money")]
  FundsTransfer,
  /// Another registry, mirror, update server or webhook.
  #[strum(message = "redirects downloads or messages")]
  EndpointSwap,
  /// Removes confirmations, checks and limits.
  #[strum(message = "removes a safeguard")]
  SafeguardRemoval,
  /// Grants roles, rights or identities.
  #[strum(message = "grants rights by saying so")]
  PrivilegeGrant,
  /// Declares a source trusted.
  #[strum(message = "declares a source trusted")]
  TrustLaundering,
  /// Runs foreign code.
  #[strum(message = "runs code from elsewhere")]
  RemoteExecution,
  /// Deletes or publishes.
  #[strum(message = "orders destruction")]
  DestructiveOrder,
  /// Re-adds itself, copies itself.
  #[strum(message = "keeps itself in memory")]
  Persistence,
  /// Waits for an occasion.
  #[strum(message = "waits for an occasion")]
  DelayedTrigger,
  /// Acts when it is recalled.
  #[strum(message = "acts when it is recalled")]
  RecallTrigger,
  /// Steers choices against the user.
  #[strum(message = "steers choices covertly")]
  PreferenceHijack,
  /// Makes the agent forget notes, rules and warnings.
  #[strum(message = "drops earlier notes or warnings")]
  Suppression,
  /// Claims to be more important than anything else.
  #[strum(message = "inflates its own importance")]
  ImportanceInflation,
  /// Many system commands.
  #[strum(message = "many system commands")]
  CommandDensity,
  /// An instruction in a tag: in a hashtag, in front matter, or beside the text.
  #[strum(message = "an instruction in a tag")]
  TagInstruction,
  /// Always, never, must.
  #[strum(message = "a standing instruction")]
  StandingInstruction,
  /// From now on, in the future.
  #[strum(message = "applies from now on")]
  ImperativeFuture,
  /// A web address.
  #[strum(message = "a web address")]
  UrlReference,
  /// A command line.
  #[strum(message = "a command line")]
  CommandReference,
  /// Mentions secrets.
  #[strum(message = "mentions secrets")]
  CredentialReference,
  /// A path to keys or configuration.
  #[strum(message = "a path to keys or configuration")]
  KeyPath,
  /// Two families of triggers in one sentence.
  #[strum(message = "several triggers in one sentence")]
  TriggerCombination,
  /// Layer 2: reads like an instruction to the agent.
  #[strum(message = "reads like an instruction to the agent")]
  LikelyInjection,
  /// Layer 2: reads like poison in the form of memory.
  #[strum(message = "reads like a false memory that serves somebody else")]
  LikelyPoison,
  /// An outside source sets a rule for all future turns.
  #[strum(message = "somebody outside sets a standing rule")]
  ForeignOrder,
  /// An outside source has the agent run a program.
  #[strum(message = "somebody outside tells the agent to run something")]
  ForeignCommand,
  /// An outside source says where money goes.
  #[strum(message = "somebody outside says where to pay")]
  ForeignPayment,
  /// An outside source says how a person is reached.
  #[strum(message = "somebody outside changes a contact")]
  ForeignContact,
  /// An outside source names a registry, mirror, host or upload place.
  #[strum(message = "somebody outside names an endpoint to use")]
  ForeignEndpoint,
  /// An outside source grants a permission.
  #[strum(message = "somebody outside grants a permission")]
  ForeignPermission,
  /// An outside source says who a person or the agent is.
  #[strum(message = "somebody outside says who somebody is")]
  ForeignIdentity,
  /// An outside source has the agent keep something from the owner.
  #[strum(message = "somebody outside asks for secrecy")]
  ForeignSecrecy,
  /// An outside source sets a trigger.
  #[strum(message = "somebody outside sets a trigger")]
  ForeignTrigger,
  /// An outside source has the agent drop notes, checks or warnings.
  #[strum(message = "somebody outside asks to drop a note or check")]
  ForeignSuppression,
  /// An outside source has the agent promote a brand, link or person.
  #[strum(message = "somebody outside promotes something")]
  ForeignPromotion,
  /// An outside source has the agent send data away.
  #[strum(message = "somebody outside asks to send data away")]
  ForeignDisclosure,
  /// An outside source states a fact that harms if it is false.
  #[strum(message = "a fact from outside on which safety depends")]
  ForeignSafetyFact,
  /// Layer 2: the text gives an outside source power over the agent.
  #[strum(message = "gives somebody outside power over the agent")]
  LikelyAuthority,
  /// Layer 3: a model that read the text with its source says that it must be taken out.
  #[strum(message = "the judge says that the entry must be taken out")]
  JudgedHarmful,
}

impl Code {
  /// All codes, in the order of docs/findings.md.
  pub const ALL: &'static [Self] = <Self as strum::VariantArray>::VARIANTS;

  /// The kebab-case word.
  pub fn as_str(self) -> &'static str {
    self.into()
  }

  /// What it means, in a few plain words.
  pub fn title(self) -> &'static str {
    strum::EnumMessage::get_message(&self).unwrap_or_default()
  }
}

impl fmt::Display for Code {
  fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.pad(self.as_str())
  }
}

impl serde::Serialize for Code {
  fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(self.as_str())
  }
}

impl<'de> serde::Deserialize<'de> for Code {
  fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
    let word = String::deserialize(deserializer)?;
    word.parse().map_err(serde::de::Error::custom)
  }
}

/// The text is no known code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown finding code `{0}`")]
pub struct UnknownCode(pub String);

impl FromStr for Code {
  type Err = UnknownCode;

  fn from_str(text: &str) -> Result<Self, Self::Err> {
    Self::ALL
      .iter()
      .copied()
      .find(|code| code.as_str() == text)
      .ok_or_else(|| UnknownCode(text.to_owned()))
  }
}
