//! `memfw init` as clap reads it.
#![forbid(unsafe_code)]

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::answers::{JudgeAnswer, NotifyAnswer, ServiceAnswer};
use crate::config::{Markers, Preset};

/// `memfw init`
#[derive(Clone, Debug, Args)]
#[command(after_help = "Example: memfw init --preset strict --service user --yes")]
pub struct InitArgs {
  /// How strict memfw is: quiet, balanced or strict
  #[arg(long, value_name = "PRESET")]
  pub preset: Option<Preset>,

  /// What starts memfw: user, system, launchd or none
  #[arg(long, value_name = "MANAGER")]
  pub service: Option<ServiceAnswer>,

  /// How you are notified: none, desktop, event, 'message CHANNEL RECIPIENT' or 'command PROGRAM...'
  #[arg(long, value_name = "HOW")]
  pub notify: Option<NotifyAnswer>,

  /// Which comments files get: auto, wrap, id or none
  #[arg(long, value_name = "MARKERS")]
  pub markers: Option<Markers>,

  /// Which judge reads new entries: off, agent, 'endpoint URL MODEL' or queue
  #[arg(long, value_name = "JUDGE")]
  pub judge: Option<JudgeAnswer>,

  /// Guard this directory, and not those that agents use; may be repeated
  #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
  pub workspace: Vec<PathBuf>,

  /// Do not ask: what no flag answers keeps its current value
  #[arg(long)]
  pub yes: bool,

  /// Change nothing; show what would be done
  #[arg(long)]
  pub dry_run: bool,

  /// Print JSON; with `--yes` or `--dry-run`
  #[arg(long)]
  pub json: bool,
}
