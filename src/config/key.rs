//! The table of all configuration keys: name, documentation, type, default, bounds.
//!
//! To add a key, add its sentence and its line to the table; the field of [`Config`], the default,
//! the example, `memfw config show` and the suggestions for mistyped keys are generated. A new type
//! of value also needs an implementation of `Setting`.
#![forbid(unsafe_code)]

use {
  super::{
    file_pattern::FilePattern,
    setting::{Complaint, Owner, Rules, Setting},
    word::{
      BaselineAction, EmbeddingProvider, ExtraPaths, Follow, Hold, InstructionFile, JudgeVia,
      LinkWrites, LogFormat, LogLevel, Markers, NotifyVia, Preset, Protocol, Scope, Sensitivity,
    },
  },
  crate::provenance::{SourcePattern, Trust, TrustRule},
  std::{ops::RangeInclusive, path::PathBuf, time::Duration},
  toml::{Spanned, de::DeValue},
};

/// One known key of the configuration file.
#[derive(Debug)]
pub struct Key {
  /// The dotted name, `files.idle_ms`; a name without a dot is a top-level key.
  pub name: &'static str,
  /// The documentation, one sentence per line, each with the leading space of a doc comment.
  pub about: &'static [&'static str],
  /// Smallest and largest accepted number, in the unit of the name; unused for words.
  pub bounds: RangeInclusive<u64>,
  /// All values, if the type is a closed set of words; for an array, all elements.
  pub words: fn() -> Vec<&'static str>,
  pub(super) read: fn(&mut Config, &Spanned<DeValue<'_>>, &Rules<'_>) -> Result<(), Complaint>,
  pub(super) show: fn(&Config) -> toml::Value,
}

impl Key {
  /// The table of the key; empty for a top-level key.
  pub fn section(&self) -> &'static str {
    self.name.rsplit_once('.').map_or("", |(section, _)| section)
  }

  /// The name within its table.
  pub fn leaf(&self) -> &'static str {
    self.name.rsplit_once('.').map_or(self.name, |(_, leaf)| leaf)
  }

  /// Whether the value names a program to run, or an address to which text is sent.
  pub fn reaches_out(&self) -> bool {
    matches!(self.section(), "notify" | "judge")
      || self.name == "agent.program"
      || self.name.starts_with("detection.embedding_")
  }

  /// The value that `config` has for this key, as TOML.
  pub fn value(&self, config: &Config) -> toml::Value {
    (self.show)(config)
  }
}

macro_rules! keys {
  ($(
    $(#[doc = $about:literal])+
    $name:literal => $field:ident: $type:ty = $default:expr $(, in $bounds:expr)?;
  )+) => {
    /// The validated configuration. Its `Default` is the only place of all defaults.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Config {
      $( $(#[doc = $about])+ pub $field: $type, )+
    }

    impl Default for Config {
      fn default() -> Self {
        Self { $( $field: $default, )+ }
      }
    }

    /// All known keys in the order of the example file: those without a table first.
    pub static KEYS: &[Key] = &[$( Key {
      name: $name,
      about: &[$( $about ),+],
      bounds: keys!(@bounds $( $bounds )?),
      words: <$type as Setting>::words,
      read: |config, value, rules| {
        config.$field = Setting::read(value, rules)?;
        Ok(())
      },
      show: |config| config.$field.show(),
    } ),+];
  };
  (@bounds) => { 0..=u64::MAX };
  (@bounds $bounds:expr) => { $bounds };
}

keys! {
  /// Directories whose memory is guarded, absolute or beginning with `~/`.
  /// Empty means the workspaces that the agent framework itself uses.
  "workspaces" => workspaces: Vec<PathBuf> = Vec::new();

  /// Values for several keys at once: "quiet", "balanced" (the defaults) or "strict". A key
  /// in the file overrides the preset.
  "preset" => preset: Preset = Preset::Balanced;

  /// How provenance is written into memory files: "wrap" (a comment pair around blocks that were
  /// written together), "id" (one short comment per entry), "none", or "auto" (as much as the file has
  /// room for).
  "markers" => markers: Markers = Markers::Auto;

  /// How long a file must be unchanged before markers are written, in milliseconds.
  "files.idle_ms" => reshape_idle: Duration = Duration::from_secs(5), in 0..=86_400_000;

  /// Largest memory file that is scanned, in bytes; a larger one is reported as not guarded.
  "files.max_bytes" => max_file_bytes: u64 = 8_388_608, in 1..=67_108_864;

  /// Other users, by number or name, whose memory files memfw may change.
  "files.owners" => owners: Vec<Owner> = Vec::new();

  /// How files are edited: "auto" (the best protocol that their file system allows),
  /// "equal-length-only" (text is overwritten in place, no markers) or "no-lease" (also without
  /// leases, and files are polled).
  "files.protocol" => protocol: Protocol = Protocol::Auto;

  /// Instruction files of the agent (AGENTS.md, USER.md and others) that are treated like memory:
  /// poison is taken out of them. In the others findings are flagged, and the text stays.
  "files.quarantine" => files_quarantine: Vec<InstructionFile> = Vec::new();

  /// Instruction files of the agent that are not judged.
  "files.ignore" => files_ignore: Vec<InstructionFile> = Vec::new();

  /// Additional profiles of the agent framework to guard, in addition to the one in the environment.
  "agent.profiles" => agent_profiles: Vec<String> = Vec::new();

  /// Devices of the owner, by the ids that the agent framework has for them: their messages count as
  /// the owner's if the framework does not say who the owner is.
  "agent.owner_devices" => agent_owner_devices: Vec<String> = Vec::new();

  /// The agent framework's own program, a name in `PATH` or a path; memfw runs it to rebuild the index
  /// and to send messages. Empty means the framework's usual name.
  "agent.program" => agent_program: String = String::new();

  /// When the agent framework may trust a dropped file again: "edits" (if edits by memfw were the only
  /// reason) or "validated" (also if the rest of a tainted write was judged and had no findings).
  "agent.follow" => agent_follow: Follow = Follow::Edits;

  /// Notes outside the workspaces that the agent framework is configured to search: "report" (findings
  /// are flagged, and the text stays), "quarantine" (poison is taken out) or "ignore".
  "agent.extra_paths" => agent_extra_paths: ExtraPaths = ExtraPaths::Report;

  /// What happens to poison in the baseline: "flag" or "quarantine".
  "baseline.action" => baseline_action: BaselineAction = BaselineAction::Flag;

  /// How long a version of a memory file is kept after it was replaced, in days.
  "versions.keep_days" => version_days: u64 = 14, in 1..=3650;

  /// Space for all versions together, in megabytes; the oldest superseded ones are deleted first, and
  /// the newest of each file stays. 0 keeps none.
  "versions.max_mb" => version_mb: u64 = 256, in 0..=1_048_576;

  /// How much of a memory file another program may remove within a day before you are asked, in
  /// percent of its lines; with 100 you are never asked.
  "losses.max_percent" => loss_percent: u64 = 50, in 1..=100;

  /// The smallest number of lines that is a loss.
  "losses.min_lines" => loss_lines: u64 = 10, in 1..=1_000_000;

  /// How long events are kept, in days.
  "events.keep_days" => event_days: u64 = 730, in 1..=36_500;

  /// How many events are kept at most; routine events are deleted first, then the oldest.
  "events.max_count" => event_count: u64 = 1_000_000, in 1_000..=100_000_000;

  /// How long the sealed text of a rejected item is kept after the decision, in days. Items that wait
  /// for a decision are kept without limit.
  "quarantine.rejected_days" => rejected_days: u64 = 365, in 1..=36_500;

  /// Which rules judge memory: "strict" (all rules) or "relaxed" (only unambiguous rules).
  "detection.scope" => scope: Scope = Scope::Strict;

  /// How much evidence is required before a block is quarantined: "low", "medium" or "high".
  /// A higher sensitivity quarantines more and has more false alarms.
  "detection.sensitivity" => sensitivity: Sensitivity = Sensitivity::Medium;

  /// What happens to text that gives somebody outside a power that only the owner may give: "on" (it
  /// is taken out of its file and waits for a person) or "off" (it stays, flagged).
  "detection.hold" => hold: Hold = Hold::On;

  /// Which provider computes the vectors that compare a text with known attacks, as an explanation:
  /// "local" (memfw itself; nothing leaves the machine), "openai" (any endpoint with OpenAI's API) or
  /// "ollama". The last two get blocks of untrusted and hostile sources.
  "detection.embedding_provider" => embedding_provider: EmbeddingProvider = EmbeddingProvider::Local;

  /// The address of that endpoint, without `/embeddings` or `/api/embed`; `https`, or `http` on this
  /// machine. Empty means `https://api.openai.com/v1` or `http://127.0.0.1:11434`.
  "detection.embedding_url" => embedding_url: String = String::new();

  /// The model of that endpoint. Empty means "text-embedding-3-small" or "nomic-embed-text".
  "detection.embedding_model" => embedding_model: String = String::new();

  /// A file that contains only the key for that endpoint, and that only you can read (mode 0600). The
  /// variable `MEMFW_EMBEDDING_KEY` replaces it; never put a key here.
  "detection.embedding_key_file" => embedding_key_file: Option<PathBuf> = None;

  /// Which judge reads new entries from outside and says whether they may stay: "off" (none),
  /// "endpoint" (a server with OpenAI's API), "agent" (the agent framework's own model) or "queue" (a
  /// program that takes questions with `memfw judge next`).
  "judge.via" => judge_via: JudgeVia = JudgeVia::Off;

  /// For "endpoint": its address, without `/chat/completions`; `https`, or `http` on this machine.
  "judge.url" => judge_url: String = String::new();

  /// The model of the judge. For "agent" empty means the agent framework's usual one.
  "judge.model" => judge_model: String = String::new();

  /// A file that contains only the key for the judge's endpoint, and that only you can read (mode
  /// 0600). The variable `MEMFW_JUDGE_KEY` replaces it; never put a key here.
  "judge.key_file" => judge_key_file: Option<PathBuf> = None;

  /// Whether an answer may also restore an entry that only a probability has held. An answer may
  /// always take an entry out.
  "judge.may_release" => judge_may_release: bool = false;

  /// How many questions memfw asks per hour at most.
  "judge.per_hour" => judge_per_hour: u64 = 60, in 1..=100_000;

  /// How many questions memfw asks per day (UTC) at most.
  "judge.per_day" => judge_per_day: u64 = 500, in 1..=1_000_000;

  /// Sources whose text is never sent to the judge; `*` matches any characters: "email:*".
  "judge.exclude_sources" => judge_exclude_sources: Vec<SourcePattern> = Vec::new();

  /// Files whose text is never sent to the judge, relative to their workspace; `*` matches any
  /// characters: "memory/private*".
  "judge.exclude_files" => judge_exclude_files: Vec<FilePattern> = Vec::new();

  /// How far sources are trusted. The first rule whose pattern matches applies, and these rules come
  /// before the built-in ones. A rule is a table of its own, and `*` matches any characters:
  ///     [[trust.rule]]
  ///     source = "web_fetch:*.example.com"
  ///     trust = "verified"
  /// The words are "trusted", "verified", "untrusted" and "hostile".
  "trust.rule" => trust_rules: Vec<TrustRule> = Vec::new();

  /// The least trust of a text that `memfw recall` hands out: "hostile" (any), "untrusted",
  /// "verified" or "trusted". Text that a person approved is always handed out.
  "recall.min_trust" => recall_min_trust: Trust = Trust::Hostile;

  /// How many entries `memfw recall` hands out at most for a query.
  "recall.max_results" => recall_max_results: u64 = 20, in 1..=100_000;

  /// Whether `memfw recall` hands out text that was not judged yet, in a frame that says so.
  "recall.include_unvalidated" => recall_include_unvalidated: bool = false;

  /// Whether readers of memory wait at a gate until layer 1 has passed its bytes. The gate is a
  /// separate process (`memfw gate`), for which the daemon then listens.
  "gate.enabled" => gate_enabled: bool = false;

  /// The longest time that a reader waits at the gate, in milliseconds.
  "gate.max_wait_ms" => gate_max_wait: Duration = Duration::from_secs(2), in 10..=60_000;

  /// What a plugin inside the agent does with a write of poison to memory: "quarantine" (the write
  /// happens, and the daemon takes the poison out), "refuse" (the call fails with a reason, and the
  /// text waits for you), or "ask" (the agent asks you first).
  "link.writes" => link_writes: LinkWrites = LinkWrites::Quarantine;

  /// How memfw notifies you when a block was taken out of a file: "none", "message" (to a channel of
  /// the agent framework), "event" (to the agent's own session), "desktop" (a desktop notification) or
  /// "command" (a program of yours).
  "notify.via" => notify_via: NotifyVia = NotifyVia::None;

  /// For "message": the channel, by its name in the agent framework.
  "notify.channel" => notify_channel: String = String::new();

  /// For "message": the recipient, as the channel names people.
  "notify.target" => notify_target: String = String::new();

  /// For "command": the program and its arguments, without a shell; the message is an additional
  /// argument.
  "notify.command" => notify_command: Vec<String> = Vec::new();

  /// The shortest time between two messages about the same source, in seconds.
  "notify.interval_s" => notify_interval_s: u64 = 900, in 1..=604_800;

  /// Whether memfw also notifies you of text that looks like poison, comes from outside, and is only
  /// flagged, so that it is still in its file.
  "notify.flagged" => notify_flagged: bool = true;

  /// The lowest level of log lines that are written: "error", "warn", "info", "debug" or "trace".
  "log.level" => log_level: LogLevel = LogLevel::Info;

  /// The format of log lines on standard error: "text" or "json".
  "log.format" => log_format: LogFormat = LogFormat::Text;
}

/// The key of this name.
pub fn find(name: &str) -> Option<&'static Key> {
  KEYS.iter().find(|key| key.name == name)
}

#[cfg(test)]
mod tests {
  use {super::*, std::collections::HashSet};

  #[test]
  fn names_are_unique_and_top_keys_come_first() {
    let names: HashSet<_> = KEYS.iter().map(|key| key.name).collect();
    assert_eq!(names.len(), KEYS.len());
    let first_section = KEYS.iter().position(|key| !key.section().is_empty()).unwrap();
    assert!(KEYS[first_section..].iter().all(|key| !key.section().is_empty()));
  }

  #[test]
  fn keys_of_one_section_are_together() {
    let mut seen = HashSet::new();
    let mut last = "";
    for key in KEYS {
      if key.section() != last {
        assert!(seen.insert(key.section()), "`{}` stands apart from its section", key.name);
        last = key.section();
      }
    }
  }

  #[test]
  fn what_names_a_program_or_an_address_reaches_out() {
    for key in KEYS {
      let leaf = key.leaf();
      let named =
        ["command", "program", "url", "endpoint", "provider", "via", "key_file", "target"];
      if named.iter().any(|word| leaf.contains(word)) {
        assert!(key.reaches_out(), "`{}`", key.name);
      }
    }
  }

  #[test]
  fn defaults_are_within_their_bounds() {
    for key in KEYS {
      if let Some(number) = key.value(&Config::default()).as_integer() {
        assert!(key.bounds.contains(&u64::try_from(number).unwrap()), "`{}`", key.name);
      }
    }
  }
}
