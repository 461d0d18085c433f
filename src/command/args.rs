//! The command line as clap parses it: commands, options, help. No command runs here.
//!
//! The room that owns a closed set of words (trust, state, scope) parses them, so that the command line,
//! JSON and log always spell them alike.
#![forbid(unsafe_code)]

use {
  crate::config::{LogLevel, Preset},
  clap::{Args as ClapArgs, Parser, Subcommand},
};

/// A memory firewall for AI agents.
///
/// Watches the Markdown memory of an agent, judges every new block, moves poison into a sealed
/// quarantine, and restores the exact bytes when you approve them.
#[derive(Clone, Debug, Parser)]
#[command(
  name = "memfw",
  version,
  max_term_width = 100,
  help_template = help(),
  after_help = "Examples: memfw demo · memfw run · memfw review\n\
    Exit status: 0 yes or fine, 1 the answer is no, 2 could not tell."
)]
pub struct Args {
  /// The global options.
  #[command(flatten)]
  pub global: GlobalArgs,

  /// The command; without one, the state and what to do next are shown.
  #[command(subcommand)]
  pub command: Option<Command>,
}

/// The help of memfw itself: its commands in groups, so that a screen of 24 rows has all of them. A test
/// compares it with the commands.
const HELP: &str = "\
A memory firewall for AI agents: judges what is written into their memory

{usage-heading} {usage}   (none: the state, and what to do next)

Every day:  status, top       what is protected, what is not, and why; live
            review, list      decide about what waits for you, or list it
            show, explain     an item with its text, and why it was taken out
            approve, reject   restore the exact bytes, or refuse them
            undo              take the last decision back, exactly
Start:      init, demo, run, service, doctor
Origin:     provenance, audit, log, stats, report
Files:      scan, skills, restore, recall, quarantine, markers, settle
Settings:   config, policy, {agent}, completions, man
Programs:   link, gate, judge, eval

Options:    --quiet, --log-level LEVEL, --help, --version
`memfw COMMAND --help` explains a command.{after-help}
";

/// The help, with the name of the command about the agent framework.
fn help() -> String {
  HELP.replace("{agent}", super::openclaw::NAME)
}

/// Options of every command.
#[derive(Clone, Debug, ClapArgs)]
pub struct GlobalArgs {
  /// Lowest log level: error, warn, info, debug or trace
  #[arg(long, global = true, value_name = "LEVEL", display_order = 900)]
  pub log_level: Option<LogLevel>,

  /// Print answers and errors only, and log warnings
  #[arg(long, short, global = true, display_order = 901)]
  pub quiet: bool,
}

/// All commands.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
  /// Guard memory: the daemon, in the foreground
  Run(super::run::RunArgs),
  /// Make programs that read memory wait until it has been checked
  Gate(super::gate::GateArgs),
  /// Answer a plugin inside the agent, on standard input and output
  Link(super::link::LinkArgs),
  /// Set memfw up: a few questions, then it guards
  Init(super::init::InitArgs),
  /// Demonstrate memfw on a temporary workspace
  Demo(super::demo::DemoArgs),
  /// Show what is protected, what is not, and why
  Status(super::status::StatusArgs),
  /// Watch memory live: what comes in, what was taken out, what waits
  Top(super::top::TopArgs),
  /// Wait until every pending change has been processed
  Settle(super::settle::SettleArgs),
  /// Judge files or standard input without changing anything
  Scan(super::scan::ScanArgs),
  /// Measure detection on labelled text
  Eval(super::eval::EvalArgs),
  /// Decide about waiting items, one after the other
  Review(super::quarantine::ReviewArgs),
  /// List the items that wait for you, oldest first
  List(super::quarantine::QuarantineListArgs),
  /// Show items with their text and why they were taken out
  Show(super::quarantine::QuarantineShowArgs),
  /// Restore the exact bytes, and accept this text from now on
  Approve(super::quarantine::QuarantineApproveArgs),
  /// Refuse items and remove their placeholders
  Reject(super::quarantine::QuarantineChooseArgs),
  /// Take the last decision about an item back, exactly
  Undo(super::quarantine::QuarantineUndoArgs),
  /// All that can be done with text that was taken out of memory
  Quarantine(super::quarantine::QuarantineArgs),
  /// Serve questions about new entries to a model or a person
  Judge(super::judge::JudgeArgs),
  /// List exceptions, and whether they are still needed
  Policy(super::policy::PolicyArgs),
  /// Explain a decision about an item, or a finding code
  Explain(super::explain::ExplainArgs),
  /// Show who wrote each line of memory
  Provenance(super::provenance::ProvenanceArgs),
  /// Print what an agent may read of memory
  Recall(super::recall::RecallArgs),
  /// List past events, in order
  Audit(super::audit::AuditArgs),
  /// Follow events as they happen
  Log(super::log::LogArgs),
  /// Count entries, decisions, and how trusted memory is
  Stats(super::stats::StatsArgs),
  /// Write these figures as one page for a browser
  Report(super::report::ReportArgs),
  /// List, compare and restore earlier versions of a memory file
  Restore(super::restore::RestoreArgs),
  /// Remove memfw's comments from memory files, or add them again
  Markers(super::markers::MarkersArgs),
  /// Show, check and change the configuration
  Config(super::config::ConfigArgs),
  /// Check this installation for problems
  Doctor(super::doctor::DoctorArgs),
  /// Run memfw as a service: install, uninstall, status
  Service(super::service::ServiceArgs),
  /// Show what the agent framework does with memory
  #[command(name = super::openclaw::NAME)]
  Agent(super::openclaw::AgentArgs),
  /// List the agent's skills, check them, and decide which to trust
  Skills(super::skills::SkillsArgs),
  /// Print completions for bash, zsh or fish
  Completions(super::complete::CompletionsArgs),
  /// Print or write manual pages
  Man(super::man::ManArgs),
  /// List what can come next on a command line; completions call it
  #[command(hide = true)]
  Complete(super::complete::CompleteArgs),
}

impl Command {
  /// The preset that the flags of the command select, if any.
  pub const fn preset(&self) -> Option<Preset> {
    match self {
      Self::Run(args) => args.preset.preset,
      Self::Scan(args) => args.preset.preset,
      Self::Config(args) => args.preset(),
      _ => None,
    }
  }
}

#[cfg(test)]
mod tests {
  use {super::*, clap::CommandFactory as _};

  /// Every command of the contract, so that each of its options is checked.
  #[derive(Debug, Parser)]
  #[command(name = "memfw")]
  enum All {
    Run(crate::command::run::RunArgs),
    Gate(crate::command::gate::GateArgs),
    Link(crate::command::link::LinkArgs),
    Init(crate::command::init::InitArgs),
    Demo(crate::command::demo::DemoArgs),
    Status(crate::command::status::StatusArgs),
    Top(crate::command::top::TopArgs),
    Settle(crate::command::settle::SettleArgs),
    Scan(crate::command::scan::ScanArgs),
    Eval(crate::command::eval::EvalArgs),
    Quarantine(crate::command::quarantine::QuarantineArgs),
    Undo(crate::command::quarantine::QuarantineUndoArgs),
    Review(crate::command::quarantine::ReviewArgs),
    List(crate::command::quarantine::QuarantineListArgs),
    Show(crate::command::quarantine::QuarantineShowArgs),
    Approve(crate::command::quarantine::QuarantineApproveArgs),
    Reject(crate::command::quarantine::QuarantineChooseArgs),
    Judge(crate::command::judge::JudgeArgs),
    Policy(crate::command::policy::PolicyArgs),
    Explain(crate::command::explain::ExplainArgs),
    Provenance(crate::command::provenance::ProvenanceArgs),
    Recall(crate::command::recall::RecallArgs),
    Audit(crate::command::audit::AuditArgs),
    Log(crate::command::log::LogArgs),
    Stats(crate::command::stats::StatsArgs),
    Report(crate::command::report::ReportArgs),
    Restore(crate::command::restore::RestoreArgs),
    Markers(crate::command::markers::MarkersArgs),
    Config(crate::command::config::ConfigArgs),
    Doctor(crate::command::doctor::DoctorArgs),
    Service(crate::command::service::ServiceArgs),
    Skills(crate::command::skills::SkillsArgs),
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
  fn the_help_names_every_command_once() {
    let help = help();
    let groups = help.split("Every day:").nth(1).and_then(|rest| rest.split("\nOptions:").next());
    let words: Vec<&str> = groups
      .unwrap()
      .lines()
      .flat_map(|line| {
        // The explanation of a command begins after several spaces.
        let after = line.split_once(':').map_or(line, |(_, rest)| rest).trim_start();
        after.split("  ").next().unwrap_or_default().split(", ")
      })
      .map(str::trim)
      .filter(|word| !word.is_empty())
      .collect();
    let tree = Args::command();
    let mut commands: Vec<&str> = tree
      .get_subcommands()
      .filter(|one| !one.is_hide_set())
      .map(clap::Command::get_name)
      .collect();
    let mut named = words;
    commands.sort_unstable();
    named.sort_unstable();
    assert_eq!(named, commands);
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
      "memfw init",
      "memfw init --preset strict --service none --notify desktop --markers id --judge off --yes",
      "memfw init --workspace a --workspace b --dry-run --json",
      "memfw demo",
      "memfw status --json --wait 5",
      "memfw status --short",
      "memfw stats --prometheus --output memfw.prom",
      "memfw top",
      "memfw top --once",
      "memfw settle",
      "memfw settle 5",
      "memfw scan",
      "memfw scan - --jsonl",
      "memfw scan a b --source web_fetch:x --trust hostile --scope relaxed --mode document --json",
      "memfw eval a.jsonl b --trust hostile --sensitivity high --layers rules --floors f.toml",
      "memfw eval dev --json --svg curves.svg --mistakes 3",
      "memfw quarantine list --status flagged --status held --json",
      "memfw list --file MEMORY.md --code url-reference --source web_fetch --trust hostile --since 2d --each",
      "memfw review --file MEMORY.md --since 2d",
      "memfw show a1",
      "memfw approve a1 --days 30",
      "memfw approve a1 --lines 1,3-4 --reason ours --json",
      "memfw approve a1 --sentences 2",
      "memfw show a1 --parts",
      "memfw reject --code url-reference --yes --json",
      "memfw quarantine delete --source web_fetch:x --yes",
      "memfw quarantine show a1b2c3 MEMORY.md:3",
      "memfw quarantine add MEMORY.md:3 --reason old",
      "memfw quarantine approve a1 b2 --json",
      "memfw quarantine approve a1 --days 30",
      "memfw quarantine reject a1",
      "memfw undo",
      "memfw undo a1 b2 --reason mistake --json",
      "memfw quarantine undo a1",
      "memfw quarantine review a1 MEMORY.md:3",
      "memfw quarantine review --status flagged",
      "memfw quarantine delete a1 b2 --yes --reason old --json",
      "memfw quarantine export --status rejected --format sarif",
      "memfw quarantine export a1 --with-text",
      "memfw explain a1 --json",
      "memfw scan --sarif memory --fail-on quarantine",
      "memfw scan --ignore .memfw-ignore.toml --baseline known.json memory",
      "memfw policy allow web_fetch:docs.example.com url-reference --days 30 --reason ours --json",
      "memfw policy check --json",
      "memfw policy withdraw a1 b2 --reason old --json",
      "memfw provenance MEMORY.md:12 --json",
      "memfw recall",
      "memfw recall tea MEMORY.md --min-trust verified --max-results 5 --json",
      "memfw recall --query -tea --include-unvalidated MEMORY.md",
      "memfw recall --explain-frames",
      "memfw audit --days 7 --source exec --event approved --limit 10 --json",
      "memfw log -n 20 --no-follow --event approved --json",
      "memfw stats --days 7 --rows 3 --json",
      "memfw report --html r.html --days 90 --text --json",
      "memfw restore MEMORY.md --list --json",
      "memfw restore MEMORY.md --diff --at 3d",
      "memfw restore MEMORY.md --print",
      "memfw restore MEMORY.md --yes",
      "memfw config show --json",
      "memfw config show files log.level --preset strict",
      "memfw config set files.idle_ms 0 --json",
      "memfw config set notify.command -- say -v anna",
      "memfw config set markers --default",
      "memfw run --preset strict",
      "memfw scan - --preset quiet",
      "memfw doctor --json",
      "memfw service install --print",
      "memfw service uninstall --manager system --user ann",
      "memfw service status --manager launchd --json",
      "memfw doctor --fix",
      "memfw doctor --unguarded /old --unguarded /older",
      "memfw judge next --json",
      "memfw judge answer 0123456789abcdef --json",
      "memfw skills list --json",
      "memfw skills verify",
      "memfw skills verify weather ~/.agents/skills/notes --json",
      "memfw skills trust weather",
      "memfw skills trust weather notes --withdraw",
      "memfw skills key add RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3 --name author",
      "memfw skills key list --json",
      "memfw skills key remove 9F3D",
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
    assert!(parse("memfw scan --json --jsonl").is_err());
    assert!(parse("memfw restore MEMORY.md --list --yes").is_err());
    assert!(parse("memfw status --wait -1").is_err());
    let error = parse("memfw scan --preset loud").unwrap_err();
    assert!(error.contains("`quiet`, `balanced` or `strict`"), "{error}");
    let error = parse("memfw list --status bogus").unwrap_err();
    assert!(error.contains("flagged, quarantined, held, approved, rejected, corrected"), "{error}");
    let error = parse("memfw list --code concealmint").unwrap_err();
    assert!(error.contains("did you mean `concealment`?"), "{error}");
  }
}
