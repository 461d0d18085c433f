//! The closed list of finding codes.
#![forbid(unsafe_code)]

use std::{fmt, str::FromStr};

macro_rules! codes {
  ($($(#[$doc:meta])* $variant:ident = $word:literal, $title:literal;)*) => {
    /// What a finding is. Each code is a heading in docs/findings.md, and the same word everywhere:
    /// rules, JSON, log, docs, command line.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Code { $($(#[$doc])* $variant,)* }

    impl Code {
      /// All codes, in the order of docs/findings.md.
      pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

      /// The kebab-case word.
      pub const fn as_str(self) -> &'static str {
        match self { $(Self::$variant => $word,)* }
      }

      /// What it means, in a few plain words.
      pub const fn title(self) -> &'static str {
        match self { $(Self::$variant => $title,)* }
      }
    }
  };
}

codes! {
  /// A memfw comment that the ledger does not know, or that stands where it cannot.
  ForgedMarker = "forged-marker", "a provenance comment that memfw did not write";
  /// Markers from another installation, at a first scan.
  ForeignMarkers = "foreign-markers", "provenance comments of another installation";
  /// A marked block whose bytes changed.
  EditedBlock = "edited-block", "a marked block was edited";
  /// Text that continues the line of a quarantined one.
  QuarantineContinued = "quarantine-continued", "the rest of a line that is in quarantine";
  /// Put there by a person with `memfw quarantine add`.
  ManualQuarantine = "manual-quarantine", "put into quarantine by a person";
  /// To be taken out of a file that may not be written.
  LeftInPlace = "left-in-place", "poison in a file that memfw may not write";
  /// Larger than what is judged.
  TextTooLarge = "text-too-large", "only a part of a very long text was judged";
  /// Zero-width characters inside words, or in long runs.
  ZeroWidth = "zero-width", "invisible characters inside words";
  /// Directional controls where no script needs them.
  BidiControl = "bidi-control", "the displayed order of the text is not its real order";
  /// Text spelled in tag characters or variation selectors.
  TagCharacters = "tag-characters", "text spelled in characters without a glyph";
  /// Terminal escape sequences.
  AnsiEscape = "ansi-escape", "terminal escape sequences";
  /// Look-alike letters of another script inside a word.
  MixedScript = "mixed-script", "words with look-alike letters";
  /// An element that a style hides.
  HiddenCss = "hidden-css", "text that a style hides";
  /// A rule hit inside text that a reader does not see.
  HiddenInstruction = "hidden-instruction", "an instruction that a reader does not see";
  /// An encoded word that decodes to language.
  EncodedText = "encoded-text", "an encoded word that decodes to language";
  /// Language in letters or an order that a filter does not read.
  DisguisedText = "disguised-text", "obfuscated words";
  /// A rule hit inside decoded text.
  EncodedInstruction = "encoded-instruction", "an encoded instruction";
  /// Ignores, forgets or replaces the agent's instructions.
  InstructionOverride = "instruction-override", "tells the agent to drop its instructions";
  /// Makes the agent somebody without limits.
  PersonaHijack = "persona-hijack", "gives the agent another identity";
  /// Asks for the system prompt or other hidden instructions.
  PromptProbe = "prompt-probe", "asks the agent to reveal its instructions";
  /// Text that poses as the system, an administrator or the developer.
  FakeAuthority = "fake-authority", "poses as the system or an authority";
  /// Tokens of chat templates.
  ChatTemplateToken = "chat-template-token", "tokens of a chat template";
  /// Forged frames of the agent framework.
  ForgedFrame = "forged-frame", "forges a frame of the agent framework";
  /// A forged follow-up of a compaction.
  CompactionPayload = "compaction-payload", "poses as a follow-up to a compaction";
  /// `trigger`, `importance` and other recall comments.
  RecallMetadata = "recall-metadata", "comments that raise the rank of an entry in recall";
  /// Sends data to an outside place.
  ExfiltrationEndpoint = "exfiltration-endpoint", "sends data to an outside destination";
  /// Collects, stores or reveals secrets.
  CredentialHarvest = "credential-harvest", "collects or reveals secrets";
  /// Hides data in images, queries, names or text.
  CovertChannel = "covert-channel", "sends data out covertly";
  /// Hides something from the user.
  Concealment = "concealment", "hides something from the user";
  /// Another account, wallet or payee.
  PaymentSwap = "payment-swap", "redirects a payment";
  /// Moves money.
  FundsTransfer = "funds-transfer", "transfers money";
  /// Another registry, mirror, update server or webhook.
  EndpointSwap = "endpoint-swap", "redirects downloads or messages";
  /// Removes confirmations, checks and limits.
  SafeguardRemoval = "safeguard-removal", "removes a safeguard";
  /// Grants roles, rights or identities.
  PrivilegeGrant = "privilege-grant", "grants rights by saying so";
  /// Declares a source trusted.
  TrustLaundering = "trust-laundering", "declares a source trusted";
  /// Runs foreign code.
  RemoteExecution = "remote-execution", "runs code from elsewhere";
  /// Deletes or publishes.
  DestructiveOrder = "destructive-order", "orders destruction";
  /// Re-adds itself, copies itself.
  Persistence = "persistence", "keeps itself in memory";
  /// Waits for an occasion.
  DelayedTrigger = "delayed-trigger", "waits for an occasion";
  /// Acts when it is recalled.
  RecallTrigger = "recall-trigger", "acts when it is recalled";
  /// Steers choices against the user.
  PreferenceHijack = "preference-hijack", "steers choices and hides it";
  /// Makes the agent forget notes, rules and warnings.
  Suppression = "suppression", "drops earlier notes or warnings";
  /// Claims to be more important than anything else.
  ImportanceInflation = "importance-inflation", "inflates its own importance";
  /// Many system commands.
  CommandDensity = "command-density", "many system commands";
  /// An instruction in a tag.
  TagInstruction = "tag-instruction", "an instruction in a tag";
  /// Always, never, must.
  StandingInstruction = "standing-instruction", "a standing instruction";
  /// From now on, in the future.
  ImperativeFuture = "imperative-future", "speaks about all future";
  /// A web address.
  UrlReference = "url-reference", "a web address";
  /// A command line.
  CommandReference = "command-reference", "a command line";
  /// Mentions secrets.
  CredentialReference = "credential-reference", "mentions secrets";
  /// A path to keys or configuration.
  KeyPath = "key-path", "a path to keys or configuration";
  /// Two families of triggers in one sentence.
  TriggerCombination = "trigger-combination", "several triggers in one sentence";
  /// Layer 2: reads like an instruction to the agent.
  LikelyInjection = "likely-injection", "reads like an instruction to the agent";
  /// Layer 2: reads like poison in the form of memory.
  LikelyPoison = "likely-poison", "reads like a false memory that serves somebody else";
  /// Somebody outside sets a rule for all future turns.
  ForeignOrder = "foreign-order", "somebody outside sets a standing rule";
  /// Somebody outside has the agent run something.
  ForeignCommand = "foreign-command", "somebody outside tells the agent to run something";
  /// Somebody outside says where money goes.
  ForeignPayment = "foreign-payment", "somebody outside says where to pay";
  /// Somebody outside says how a person is reached.
  ForeignContact = "foreign-contact", "somebody outside changes a contact";
  /// Somebody outside names a registry, mirror, host or upload place.
  ForeignEndpoint = "foreign-endpoint", "somebody outside names an endpoint to use";
  /// Somebody outside grants a permission.
  ForeignPermission = "foreign-permission", "somebody outside grants a permission";
  /// Somebody outside says who somebody is.
  ForeignIdentity = "foreign-identity", "somebody outside says who somebody is";
  /// Somebody outside has something kept from the owner.
  ForeignSecrecy = "foreign-secrecy", "somebody outside asks for secrecy";
  /// Somebody outside sets a trigger.
  ForeignTrigger = "foreign-trigger", "somebody outside sets a trigger";
  /// Somebody outside has notes, checks or warnings dropped.
  ForeignSuppression = "foreign-suppression", "somebody outside asks to drop a note or check";
  /// Somebody outside has a brand, link or person put forward.
  ForeignPromotion = "foreign-promotion", "somebody outside promotes something";
  /// Somebody outside has data sent away.
  ForeignDisclosure = "foreign-disclosure", "somebody outside asks to send data away";
  /// Somebody outside states a fact that harms if it is false.
  ForeignSafetyFact = "foreign-safety-fact", "a fact from outside on which safety depends";
  /// Layer 2: somebody outside gains power by it.
  LikelyAuthority = "likely-authority", "gives somebody outside power over the agent";
  /// Layer 3: a model that read it with its source says that it has to go.
  JudgedHarmful = "judged-harmful", "the judge says that the entry must be taken out";
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
