//! The second step: known keys to a validated [`Config`], with the origin of each value.
#![forbid(unsafe_code)]

use {
  super::{
    key::{Config, KEYS, Key},
    preset,
    problem::ConfigProblem,
    raw::{Entry, Raw},
    setting::{Complaint, Rules},
    word::Preset,
  },
  std::{collections::BTreeMap, path::Path},
};

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueOrigin {
  /// Nobody set it.
  Default,
  /// From this preset.
  Preset(Preset),
  /// From this line of the configuration file, counted from 1.
  File {
    /// The line of the key.
    line: usize,
  },
  /// From this flag of the command line.
  Flag(&'static str),
  /// From this environment variable.
  Environment(&'static str),
}

/// The effective configuration, and the origin of each value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effective {
  /// The values.
  pub config: Config,
  origins: BTreeMap<&'static str, ValueOrigin>,
}

impl Effective {
  /// The configuration in `text`, or all its problems in the order of the text.
  ///
  /// `home` replaces `~`.
  pub fn parse(text: &str, home: Option<&Path>) -> Result<Self, Vec<ConfigProblem>> {
    Self::parse_under(None, text, home, true)
  }

  /// Like [`Self::parse`], with the preset of a flag, which overrides the preset in `text`. Unless
  /// the text is certainly `ours`, keys for programs and addresses are checked, but keep their
  /// defaults.
  pub fn parse_under(
    flag: Option<Preset>,
    text: &str,
    home: Option<&Path>,
    is_ours: bool,
  ) -> Result<Self, Vec<ConfigProblem>> {
    let mut raw = Raw::parse(text);
    let mut effective = Self::default();
    let entries = std::mem::take(&mut raw.entries);
    // A preset is applied before all other keys, wherever its line is.
    if let Some(named) = entries.iter().find(|entry| entry.key.name == PRESET) {
      // The loop below reports its problems in order.
      drop(effective.take(named, home));
    }
    let chosen = flag.unwrap_or(effective.config.preset);
    for key in preset::apply(chosen, &mut effective.config) {
      effective.set_origin(key.name, ValueOrigin::Preset(chosen));
    }
    let mut unused = Self::default();
    for entry in &entries {
      let into = if is_ours || !entry.key.reaches_out() { &mut effective } else { &mut unused };
      if let Err(complaint) = into.take(entry, home) {
        raw.complain(complaint.span.start, complaint.message, complaint.hint);
      }
    }
    if let Some(preset) = flag {
      effective.config.preset = preset;
      effective.set_origin(PRESET, ValueOrigin::Flag(PRESET_FLAG));
    }
    if raw.problems.is_empty() {
      Ok(effective)
    } else {
      raw.problems.sort();
      Err(raw.problems)
    }
  }

  fn take(&mut self, entry: &Entry<'_>, home: Option<&Path>) -> Result<(), Complaint> {
    let Entry { key, value, line } = entry;
    let rules = Rules { name: key.name, bounds: key.bounds.clone(), home };
    (key.read)(&mut self.config, value, &rules)?;
    self.set_origin(key.name, ValueOrigin::File { line: *line });
    Ok(())
  }

  /// Records that the value of `key` now comes from another origin than the file.
  pub fn set_origin(&mut self, key: &'static str, origin: ValueOrigin) {
    self.origins.insert(key, origin);
  }

  /// The origin of the value of a key.
  pub fn origin(&self, key: &Key) -> ValueOrigin {
    self.origins.get(key.name).copied().unwrap_or(ValueOrigin::Default)
  }

  /// All keys with value and origin, in the order of the example.
  pub fn values(&self) -> impl Iterator<Item = (&'static Key, toml::Value, ValueOrigin)> + '_ {
    KEYS.iter().map(|key| (key, key.value(&self.config), self.origin(key)))
  }
}

/// The key that chooses a preset.
const PRESET: &str = "preset";

/// The flag of the command line for a preset.
const PRESET_FLAG: &str = "--preset";

#[cfg(test)]
mod tests {
  use {
    super::{
      super::{key::find, setting::Owner, word::*},
      *,
    },
    crate::provenance::{SourcePattern, Trust, TrustRule},
    proptest::prelude::*,
    std::{path::PathBuf, time::Duration},
  };

  fn problems(text: &str) -> Vec<String> {
    Effective::parse(text, Some(Path::new("/home/ann")))
      .unwrap_err()
      .into_iter()
      .map(|problem| match &problem.hint {
        Some(hint) => format!("{problem} ({hint})"),
        None => problem.to_string(),
      })
      .collect()
  }

  #[test]
  fn an_empty_document_is_the_defaults() {
    let effective = Effective::parse("# nothing\n[files]\n", None).unwrap();
    assert_eq!(effective.config, Config::default());
    assert!(effective.values().all(|(_, _, origin)| origin == ValueOrigin::Default));
  }

  #[test]
  fn a_text_of_somebody_else_runs_nothing_and_reaches_nobody() {
    let text = "markers = \"id\"\n[agent]\nprogram = \"/tmp/x\"\n\
                [detection]\nembedding_provider = \"ollama\"\n\
                [notify]\nvia = \"command\"\ncommand = [\"/bin/sh\"]\n";
    let ours = Effective::parse_under(None, text, None, true).unwrap();
    let theirs = Effective::parse_under(None, text, None, false).unwrap();
    assert_eq!(ours.config.notify_command, ["/bin/sh"]);
    assert_eq!(theirs.config, Config { markers: Markers::Id, ..Config::default() });
    assert_eq!(theirs.origin(find("notify.command").unwrap()), ValueOrigin::Default);
    let wrong = Effective::parse_under(None, "[notify]\nvia = 3\n", None, false);
    assert!(wrong.is_err(), "the errors are still reported");
  }

  #[test]
  fn every_key_can_be_set_and_remembers_its_line() {
    let text = r#"workspaces = ["/srv/a", "~/b"]
preset = "quiet"
markers = "id"
[files]
idle_ms = 0
max_bytes = 1_000
owners = [0, "ann"]
protocol = "no-lease"
quarantine = ["SOUL.md"]
ignore = ["USER.md"]
[agent]
profiles = ["work"]
owner_devices = ["7f"]
program = "claw"
follow = "validated"
extra_paths = "quarantine"
[baseline]
action = "quarantine"
[versions]
keep_days = 3
max_mb = 0
[losses]
max_percent = 80
min_lines = 3
[events]
keep_days = 60
max_count = 5000
[quarantine]
rejected_days = 30
[detection]
scope = "relaxed"
sensitivity = "high"
hold = "off"
embedding_provider = "openai"
embedding_url = "https://api.example.com/v1"
embedding_model = "m"
embedding_key_file = "~/key"
[judge]
via = "endpoint"
url = "https://api.example.com/v1"
model = "m"
key_file = "~/judge"
may_release = true
per_hour = 2
per_day = 3
exclude_sources = ["email:*"]
exclude_files = ["memory/private*"]
[trust]
rule = [{ source = "exec", trust = "hostile" }]
[recall]
min_trust = "verified"
max_results = 7
include_unvalidated = true
[gate]
enabled = true
max_wait_ms = 500
[link]
writes = "ask"
[notify]
via = "command"
channel = "c"
target = "t"
command = ["say", "memory"]
interval_s = 5
flagged = false
[log]
level = "debug"
format = "json"
"#;
    let effective = Effective::parse(text, Some(Path::new("/home/ann"))).unwrap();
    assert_eq!(
      effective.config,
      Config {
        workspaces: vec![PathBuf::from("/srv/a"), PathBuf::from("/home/ann/b")],
        preset: Preset::Quiet,
        markers: Markers::Id,
        reshape_idle: Duration::ZERO,
        max_file_bytes: 1000,
        owners: vec![Owner::Uid(0), Owner::Name("ann".to_owned())],
        protocol: Protocol::NoLease,
        files_quarantine: vec![InstructionFile::Soul],
        files_ignore: vec![InstructionFile::User],
        agent_profiles: vec!["work".to_owned()],
        agent_owner_devices: vec!["7f".to_owned()],
        agent_program: "claw".to_owned(),
        agent_follow: Follow::Validated,
        agent_extra_paths: ExtraPaths::Quarantine,
        baseline_action: BaselineAction::Quarantine,
        version_days: 3,
        version_mb: 0,
        loss_percent: 80,
        loss_lines: 3,
        event_days: 60,
        event_count: 5000,
        rejected_days: 30,
        scope: Scope::Relaxed,
        sensitivity: Sensitivity::High,
        hold: Hold::Off,
        embedding_provider: EmbeddingProvider::OpenAi,
        embedding_url: "https://api.example.com/v1".to_owned(),
        embedding_model: "m".to_owned(),
        embedding_key_file: Some(PathBuf::from("/home/ann/key")),
        judge_via: JudgeVia::Endpoint,
        judge_url: "https://api.example.com/v1".to_owned(),
        judge_model: "m".to_owned(),
        judge_key_file: Some(PathBuf::from("/home/ann/judge")),
        judge_may_release: true,
        judge_per_hour: 2,
        judge_per_day: 3,
        judge_exclude_sources: vec![SourcePattern::new("email:*").unwrap()],
        judge_exclude_files: effective.config.judge_exclude_files.clone(),
        trust_rules: vec![TrustRule {
          source: SourcePattern::new("exec").unwrap(),
          trust: Trust::Hostile,
        }],
        recall_min_trust: Trust::Verified,
        recall_max_results: 7,
        recall_include_unvalidated: true,
        gate_enabled: true,
        gate_max_wait: Duration::from_millis(500),
        link_writes: LinkWrites::Ask,
        notify_via: NotifyVia::Command,
        notify_channel: "c".to_owned(),
        notify_target: "t".to_owned(),
        notify_command: vec!["say".to_owned(), "memory".to_owned()],
        notify_interval_s: 5,
        notify_flagged: false,
        log_level: LogLevel::Debug,
        log_format: LogFormat::Json,
      }
    );
    let lines: Vec<_> = effective.values().map(|(_, _, origin)| origin).collect();
    let expected = [
      1, 2, 3, 5, 6, 7, 8, 9, 10, 12, 13, 14, 15, 16, 18, 20, 21, 23, 24, 26, 27, 29, 31, 32, 33,
      34, 35, 36, 37, 39, 40, 41, 42, 43, 44, 45, 46, 47, 49, 51, 52, 53, 55, 56, 58, 60, 61, 62,
      63, 64, 65, 67, 68,
    ];
    assert_eq!(lines, expected.map(|line| ValueOrigin::File { line }));
  }

  #[test]
  fn a_preset_is_below_what_is_set_wherever_its_line_is() {
    let text = "detection.sensitivity = \"medium\"\npreset = \"strict\"\n";
    let effective = Effective::parse(text, None).unwrap();
    let config = &effective.config;
    assert_eq!(config.sensitivity, Sensitivity::Medium, "set by hand");
    assert_eq!(config.baseline_action, BaselineAction::Quarantine);
    let origin = |name| effective.origin(find(name).unwrap());
    assert_eq!(origin("preset"), ValueOrigin::File { line: 2 });
    assert_eq!(origin("detection.sensitivity"), ValueOrigin::File { line: 1 });
    assert_eq!(origin("baseline.action"), ValueOrigin::Preset(Preset::Strict));
    assert_eq!(origin("markers"), ValueOrigin::Default);
  }

  #[test]
  fn a_flag_holds_in_place_of_the_preset_of_the_file() {
    let text = "preset = \"strict\"\n";
    let effective = Effective::parse_under(Some(Preset::Quiet), text, None, true).unwrap();
    assert_eq!(effective.config.preset, Preset::Quiet);
    assert_eq!(effective.config.baseline_action, BaselineAction::Flag);
    assert_eq!(effective.config.sensitivity, Sensitivity::Low);
    assert_eq!(effective.origin(find("preset").unwrap()), ValueOrigin::Flag("--preset"));
    let wrong = Effective::parse_under(Some(Preset::Quiet), "preset = \"strct\"", None, true);
    assert_eq!(wrong.unwrap_err().len(), 1, "told once, and not hidden by the flag");
  }

  #[test]
  fn a_truth_value_is_without_quotes() {
    assert_eq!(
      problems("[gate]\nenabled = \"true\"\n"),
      ["line 2, column 11: `gate.enabled` must be `true` or `false`, found a string \
        (write `true` without quotes)"]
    );
    assert_eq!(
      problems("gate.enabled = 1"),
      ["line 1, column 16: `gate.enabled` must be `true` or `false`, found an integer"]
    );
  }

  #[test]
  fn dotted_keys_and_inline_tables_are_the_same() {
    let dotted = Effective::parse("files.idle_ms = 1\nlog = { level = \"warn\" }", None).unwrap();
    assert_eq!(dotted.config.reshape_idle, Duration::from_millis(1));
    assert_eq!(dotted.config.log_level, LogLevel::Warn);
  }

  #[test]
  fn all_problems_are_reported_at_once_in_order() {
    let text = "marker = \"wrap\"\nidle_ms = 3\n[files]\nidel_ms = 4\nmax_bytes = 0\n\
      [detecton]\nscope = 1\n[log]\nlevel = \"wran\"\nmarkers = \"id\"\n";
    assert_eq!(
      problems(text),
      [
        "line 1, column 1: unknown key `marker` (did you mean `markers`?)",
        "line 2, column 1: unknown key `idle_ms` (did you mean `idle_ms` under `[files]`?)",
        "line 4, column 1: unknown key `idel_ms` in `[files]` (did you mean `idle_ms`?)",
        "line 5, column 13: `files.max_bytes` must be a whole number from 1 to 67108864, found 0",
        "line 6, column 2: unknown table `[detecton]` (did you mean `[detection]`?)",
        "line 9, column 9: `log.level` must be `error`, `warn`, `info`, `debug` or `trace`, \
         found `wran` (did you mean `warn`?)",
        "line 10, column 1: unknown key `markers` in `[log]` \
         (did you mean `markers`, which must be above all tables?)",
      ]
    );
  }

  #[test]
  fn wrong_types_say_what_was_found() {
    let text = "workspaces = \"/srv\"\nmarkers = true\n[files]\nidle_ms = \"10\"\nowners = [1, \"1000\", -1]\n\
      max_bytes = -1\n[[log]]\n";
    assert_eq!(
      problems(text),
      [
        "line 1, column 14: `workspaces` must be an array, found a string \
         (put the value into brackets)",
        "line 2, column 11: `markers` must be `auto`, `wrap`, `id` or `none`, found a boolean",
        "line 4, column 11: `files.idle_ms` must be a whole number from 0 to 86400000, \
         found a string (write the number without quotes)",
        "line 5, column 14: `files.owners` contains `1000`, which is not a user name \
         (write the number without quotes)",
        "line 6, column 13: `files.max_bytes` must be a whole number from 1 to 67108864, found -1",
        "line 7, column 3: `log` must be a table, found an array \
         (write `[log]` on its own line)",
      ]
    );
  }

  #[test]
  fn broken_lines_are_reported_once_and_others_still_checked() {
    let problems =
      problems("files = = 3\nmarker = \"id\"\n[log]\nlevel = \"info\"\nlevel = \"warn\"\n");
    assert_eq!(problems.len(), 3, "{problems:#?}");
    assert!(problems[0].starts_with("line 1, "), "{problems:#?}");
    assert!(problems[1].starts_with("line 2, column 1: unknown key `marker`"), "{problems:#?}");
    assert!(problems[2].starts_with("line 5, column 1: duplicate key"), "{problems:#?}");
  }

  #[test]
  fn relative_workspaces_are_refused() {
    assert_eq!(
      problems("workspaces = [\"/a\", \"notes\"]"),
      [
        "line 1, column 21: `workspaces` must contain a path that is absolute or begins with `~/`, \
        found `notes` (try `~/notes`)"
      ]
    );
    assert!(Effective::parse("workspaces = [\"~/a\"]", None).is_err());
    assert!(Effective::parse("workspaces = [\"\"]", None).is_err());
  }

  proptest! {
    #[test]
    fn any_text_is_answered(text in "\\PC{0,80}|([a-z\\[\\]\\.=\"0-9\n ]{0,120})") {
      if let Err(problems) = Effective::parse(&text, None) {
        prop_assert!(!problems.is_empty());
        let lines = text.split('\n').count();
        prop_assert!(problems.iter().all(|p| p.line >= 1 && p.line <= lines && p.column >= 1));
        prop_assert!(problems.is_sorted());
      }
    }
  }
}
