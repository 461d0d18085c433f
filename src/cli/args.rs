//! The command line as clap reads it: commands, options, help. No command is carried out here.
//!
//! Words of a closed set (trust, state, scope) are parsed by the rooms that own them, so that the
//! command line, JSON and log always write them alike.
#![forbid(unsafe_code)]

use {
  super::config::PresetArgs,
  crate::{
    config::{LogLevel, Scope},
    provenance::Trust,
  },
  clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum, ValueHint, builder::Resettable},
  std::path::PathBuf,
};

/// A memory firewall for AI agents.
///
/// Watches the markdown memory of an agent, judges every new block, moves poison into a sealed
/// quarantine, and gives it back when you approve it.
#[derive(Clone, Debug, Parser)]
#[command(
  name = "memfw",
  version,
  max_term_width = 100,
  after_help = "Examples: memfw demo · memfw run · memfw quarantine list\n\
    Exit status: 0 yes or fine, 1 the answer is no, 2 could not tell."
)]
pub struct Args {
  /// What is common to all commands.
  #[command(flatten)]
  pub global: GlobalArgs,

  /// The command.
  #[command(subcommand)]
  pub command: Command,
}

/// Options of every command.
#[derive(Clone, Debug, ClapArgs)]
pub struct GlobalArgs {
  /// Least log level: error, warn, info, debug or trace
  #[arg(long, global = true, value_name = "LEVEL", display_order = 900)]
  pub log_level: Option<LogLevel>,
}

/// All commands.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
  /// Guard memory: the daemon, in the foreground
  Run(RunArgs),
  /// Make readers of memory wait until it has been passed
  Gate(GateArgs),
  /// See it work on a throw-away workspace
  Demo(DemoArgs),
  /// What is protected, what is not, and why
  Status(StatusArgs),
  /// Wait until every pending change has been processed
  Settle(SettleArgs),
  /// Judge files or standard input without changing anything
  Scan(ScanArgs),
  /// Measure detection on labelled text
  Eval(super::eval::EvalArgs),
  /// Review what was taken out
  Quarantine(super::quarantine::QuarantineArgs),
  /// Questions about new entries, for whoever can read
  Judge(super::judge::JudgeArgs),
  /// What you have excused, and whether it is still needed
  Policy(super::policy::PolicyArgs),
  /// Why an item is where it is, or what a finding code means
  Explain(super::explain::ExplainArgs),
  /// Who wrote each line of memory
  Provenance(ProvenanceArgs),
  /// What happened, in order
  Audit(AuditArgs),
  /// What happens, as it happens
  Log(super::log::LogArgs),
  /// How much came, what became of it, how trusted memory is
  Stats(super::stats::StatsArgs),
  /// All of that as one page for a browser
  Report(super::report::ReportArgs),
  /// Earlier versions of a memory file: list, compare, bring back
  Restore(RestoreArgs),
  /// Take memfw's comments out of memory files, or put them back
  Markers(super::markers::MarkersArgs),
  /// The configuration: where it is, what it says, changing it
  Config(super::config::ConfigArgs),
  /// What could be wrong with this installation
  Doctor(DoctorArgs),
  /// Run memfw as a service: install, uninstall, status
  Service(super::service::ServiceArgs),
  /// What the agent framework does with memory
  #[command(name = super::openclaw::NAME)]
  Agent(super::openclaw::AgentArgs),
  /// Completions for bash, zsh or fish
  Completions(super::complete::CompletionsArgs),
  /// Manual pages, of all commands into a directory
  Man(super::man::ManArgs),
  /// What can stand next on a command line; completions ask for it
  #[command(hide = true)]
  Complete(super::complete::CompleteArgs),
}

/// `memfw run`
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = "Example: memfw run --workspace ~/notes")]
pub struct RunArgs {
  /// Process what is pending, then end
  #[arg(long)]
  pub once: bool,

  /// Guard this directory instead of the configured ones; may be repeated
  #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
  pub workspace: Vec<PathBuf>,

  /// A preset of the configuration.
  #[command(flatten)]
  pub preset: PresetArgs,
}

/// `memfw gate`
///
/// Makes readers of memory wait until the daemon has passed the bytes that they would see.
///
/// Needs `CAP_SYS_ADMIN` at its start and gives up all rights right after it. The daemon listens for
/// it where `gate.enabled = true`, and tells it which directories are guarded. Whoever waits for too
/// long is let through, and `memfw status` says so.
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = "Example: sudo MEMFW_HOME=\"$MEMFW_HOME\" memfw gate")]
pub struct GateArgs {
  /// Gate only this workspace of the daemon's, and do so also if another user owns it; may be
  /// repeated
  #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
  pub workspace: Vec<PathBuf>,
}

/// `memfw demo`
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = "Example: memfw demo")]
pub struct DemoArgs {}

/// `memfw status`
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = "Example: memfw status --wait 10")]
pub struct StatusArgs {
  /// Answer in JSON
  #[arg(long)]
  pub json: bool,

  /// Wait until the daemon has done its first scan, at most so many seconds; ends with 0 if it has
  #[arg(long, value_name = "SECS")]
  pub wait: Option<u32>,
}

/// `memfw settle`
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = "Example: memfw settle 30")]
pub struct SettleArgs {
  /// Give up after so many seconds
  #[arg(value_name = "SECS", default_value_t = 60)]
  pub secs: u32,
}

/// How a text is judged by `memfw scan`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ScanMode {
  /// As a new block of memory
  #[value(help = Resettable::Reset)]
  Write,
  /// As memory that is about to be shown to the agent
  #[value(help = Resettable::Reset)]
  Recall,
  /// As a document from outside
  #[value(help = Resettable::Reset)]
  Document,
}

/// What `memfw scan` calls a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
  /// Anything that is found
  #[value(help = Resettable::Reset)]
  Flag,
  /// Only what would be quarantined
  #[value(help = Resettable::Reset)]
  Quarantine,
}

/// `memfw scan`
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = "Example: memfw scan ~/notes/MEMORY.md")]
pub struct ScanArgs {
  /// Files or directories; `-` or nothing is standard input
  #[arg(value_name = "PATH", value_hint = ValueHint::AnyPath)]
  pub paths: Vec<PathBuf>,

  /// Where it comes from, such as `web_fetch:example.com`
  #[arg(long, value_name = "SOURCE")]
  pub source: Option<String>,

  /// Its source is trusted, verified, untrusted or hostile
  #[arg(long, value_name = "TRUST")]
  pub trust: Option<Trust>,

  /// Which rules judge: strict or relaxed
  #[arg(long, value_name = "SCOPE")]
  pub scope: Option<Scope>,

  /// New memory (write), memory about to be shown (recall), or a document from outside
  #[arg(long, value_name = "MODE", default_value = "write", hide_possible_values = true)]
  pub mode: ScanMode,

  /// Answer in JSON
  #[arg(long, conflicts_with_all = ["jsonl", "sarif"])]
  pub json: bool,

  /// Read one JSON object a line, answer one a line
  #[arg(long, conflicts_with = "sarif")]
  pub jsonl: bool,

  /// A preset of the configuration.
  #[command(flatten)]
  pub preset: PresetArgs,

  /// Answer in SARIF 2.1.0, for code scanning services
  #[arg(long)]
  pub sarif: bool,

  /// Least to fail on: flag or quarantine
  #[arg(
    long,
    value_name = "VERDICT",
    default_value = "flag",
    conflicts_with = "jsonl",
    hide_possible_values = true
  )]
  pub fail_on: FailOn,
}

/// `memfw provenance`
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = "Example: memfw provenance ~/notes/MEMORY.md:12")]
pub struct ProvenanceArgs {
  /// A memory file, or one line of it
  #[arg(value_name = "FILE[:LINE]")]
  pub place: String,

  /// Answer in JSON
  #[arg(long)]
  pub json: bool,
}

/// `memfw audit`
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = "Example: memfw audit --days 7 --event quarantined")]
pub struct AuditArgs {
  /// Only events of the last so many days
  #[arg(long, value_name = "N")]
  pub days: Option<u32>,

  /// Only events about this source; `web_fetch` means all of its kind
  #[arg(long, value_name = "SOURCE")]
  pub source: Option<String>,

  /// Only events of this name
  #[arg(long, value_name = "EVENT")]
  pub event: Option<String>,

  /// At most so many events, the latest ones
  #[arg(long, value_name = "N")]
  pub limit: Option<u32>,

  /// Answer in JSON
  #[arg(long)]
  pub json: bool,
}

/// `memfw restore`
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = "Example: memfw restore ~/notes/MEMORY.md --diff --at \"2h ago\"")]
pub struct RestoreArgs {
  /// A memory file, there or gone
  #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
  pub file: PathBuf,

  /// The version that stood there then (`2026-11-20 14:00`, `2h ago`), or the beginning of its hash;
  /// without it, the newest one that differs from what stands there
  #[arg(long, value_name = "TIME|VERSION")]
  pub at: Option<String>,

  /// List the versions, newest first, and change nothing
  #[arg(long, conflicts_with_all = ["at", "diff", "print", "yes"])]
  pub list: bool,

  /// Show what would change, and change nothing
  #[arg(long, conflicts_with_all = ["print", "yes"])]
  pub diff: bool,

  /// Print the version instead of bringing it back
  #[arg(long, conflicts_with_all = ["yes", "json"])]
  pub print: bool,

  /// Bring it back without asking
  #[arg(long)]
  pub yes: bool,

  /// Answer in JSON
  #[arg(long)]
  pub json: bool,
}

/// A command that only answers.
#[derive(Clone, Copy, Debug, ClapArgs)]
pub struct JsonArgs {
  /// Answer in JSON
  #[arg(long)]
  pub json: bool,
}

/// `memfw doctor`
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = "Example: memfw doctor --fix")]
pub struct DoctorArgs {
  /// Mend what is safe to mend, and say what is left to you
  #[arg(long)]
  pub fix: bool,

  /// Answer in JSON
  #[arg(long)]
  pub json: bool,
}

#[cfg(test)]
mod tests {
  use {super::*, clap::CommandFactory as _};

  /// Every command of the contract, so that each of its options is checked.
  #[derive(Debug, Parser)]
  #[command(name = "memfw")]
  enum All {
    Run(RunArgs),
    Gate(GateArgs),
    Demo(DemoArgs),
    Status(StatusArgs),
    Settle(SettleArgs),
    Scan(ScanArgs),
    Eval(crate::cli::eval::EvalArgs),
    Quarantine(crate::cli::quarantine::QuarantineArgs),
    Judge(crate::cli::judge::JudgeArgs),
    Policy(crate::cli::policy::PolicyArgs),
    Explain(crate::cli::explain::ExplainArgs),
    Provenance(ProvenanceArgs),
    Audit(AuditArgs),
    Log(crate::cli::log::LogArgs),
    Stats(crate::cli::stats::StatsArgs),
    Report(crate::cli::report::ReportArgs),
    Restore(RestoreArgs),
    Markers(crate::cli::markers::MarkersArgs),
    Config(crate::cli::config::ConfigArgs),
    Doctor(DoctorArgs),
    Service(crate::cli::service::ServiceArgs),
  }

  fn parse(line: &str) -> Result<All, String> {
    All::try_parse_from(line.split(' ')).map_err(|error| error.to_string())
  }

  #[test]
  fn the_command_line_is_consistent() {
    Args::command().debug_assert();
    All::command().debug_assert();
  }

  #[test]
  fn every_command_has_an_example() {
    fn check(command: &clap::Command) {
      let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
      assert!(help.starts_with("Example: "), "`{}` has no example", command.get_name());
      command.get_subcommands().for_each(check);
    }
    All::command().get_subcommands().for_each(check);
  }

  #[test]
  fn the_contract_parses() {
    for line in [
      "memfw run --once --workspace /a --workspace /b",
      "memfw gate --workspace /a --workspace /b",
      "memfw demo",
      "memfw status --json --wait 5",
      "memfw settle",
      "memfw settle 5",
      "memfw scan",
      "memfw scan - --jsonl",
      "memfw scan a b --source web_fetch:x --trust hostile --scope relaxed --mode document --json",
      "memfw eval a.jsonl b --trust hostile --sensitivity high --layers rules --floors f.toml",
      "memfw eval dev --json --svg curves.svg --mistakes 3",
      "memfw quarantine list --status flagged --status held --json",
      "memfw quarantine show a1b2c3 MEMORY.md:3",
      "memfw quarantine add MEMORY.md:3 --reason old",
      "memfw quarantine approve a1 b2 --json",
      "memfw quarantine approve a1 --days 30",
      "memfw quarantine reject a1",
      "memfw quarantine review a1 MEMORY.md:3",
      "memfw quarantine review --status flagged",
      "memfw quarantine delete a1 b2 --yes --reason old --json",
      "memfw quarantine export --status rejected --format sarif",
      "memfw quarantine export a1 --with-text",
      "memfw explain a1 --json",
      "memfw scan --sarif memory --fail-on quarantine",
      "memfw policy allow web_fetch:docs.example.com url-reference --days 30 --reason ours --json",
      "memfw policy check --json",
      "memfw policy withdraw a1 b2 --reason old --json",
      "memfw provenance MEMORY.md:12 --json",
      "memfw audit --days 7 --source exec --event approved --limit 10 --json",
      "memfw log -n 20 --no-follow --event approved --json",
      "memfw stats --days 7 --rows 3 --json",
      "memfw report --html r.html --days 90 --text --json",
      "memfw restore MEMORY.md --list --json",
      "memfw restore MEMORY.md --diff --at 3d",
      "memfw restore MEMORY.md --print",
      "memfw restore MEMORY.md --yes",
      "memfw config show --json",
      "memfw config show files log.level --strict",
      "memfw config set files.idle_ms 0 --json",
      "memfw config set notify.command -- say -v anna",
      "memfw config set markers --default",
      "memfw run --strict",
      "memfw scan - --quiet",
      "memfw doctor --json",
      "memfw service install --print",
      "memfw service uninstall --manager system --user ann",
      "memfw service status --manager launchd --json",
      "memfw doctor --fix",
      "memfw judge next --json",
      "memfw judge answer 0123456789abcdef --json",
      "memfw markers remove",
      "memfw markers add a.md b.md --json",
    ] {
      assert!(parse(line).is_ok(), "{line}: {}", parse(line).unwrap_err());
    }
  }

  #[test]
  fn nonsense_is_refused_with_the_words_that_are_right() {
    let error = parse("memfw scan --trust friendly").unwrap_err();
    assert!(error.contains("`trusted`, `verified`, `untrusted` or `hostile`"), "{error}");
    let error = parse("memfw quarantine lst").unwrap_err();
    assert!(error.contains("'list'"), "{error}");
    assert!(parse("memfw quarantine approve").is_err());
    assert!(parse("memfw scan --json --jsonl").is_err());
    assert!(parse("memfw restore MEMORY.md --list --yes").is_err());
    assert!(parse("memfw status --wait -1").is_err());
  }
}
