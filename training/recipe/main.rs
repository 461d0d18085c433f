//! The recipe of the n-gram heads and of the fusion: from labelled lines to `models/heads.bin` and
//! `models/fusion.toml`.
//!
//! `cargo run --release --example train-heads -- help`
//!
//! Features and normalisation are those of the product. Everything is seeded and deterministic: the
//! same lines give the same bytes. Lines are split by author and by source, never at random.
#![forbid(unsafe_code)]
#![expect(
  clippy::disallowed_methods,
  clippy::indexing_slicing,
  clippy::print_stdout,
  reason = "a recipe at a desk reads and writes files of its own, prints, and may stop on a mistake"
)]

mod adagrad;
mod authority;
mod data;
mod folds;
mod fuse;
mod heads;
mod limits;
mod logistic;
mod measure;
mod scenarios;
mod table;

use std::{
  error::Error,
  fs,
  io::{self, BufRead},
  path::PathBuf,
};

use clap::{Parser, Subcommand};

use crate::{data::Item, fuse::Part, heads::Settings};

#[derive(Parser)]
#[command(name = "train-heads", about = "Trains and measures the n-gram heads and the fusion")]
struct Arguments {
  #[command(subcommand)]
  task: Task,
}

#[derive(Subcommand)]
enum Task {
  /// Trains both heads on all lines and writes the file
  Train {
    /// Files or directories of labelled lines (`.jsonl`, `.jsonl.gz`)
    #[arg(long, required = true, num_args = 1..)]
    data: Vec<PathBuf>,
    /// Where the weights go
    #[arg(long)]
    out: PathBuf,
    #[command(flatten)]
    settings: Settings,
  },
  /// Scores every line by heads that saw neither its author nor its source
  Folds {
    /// Files or directories of labelled lines
    #[arg(long, required = true, num_args = 1..)]
    data: Vec<PathBuf>,
    /// Lines of other sources, scored by heads that saw all of `data`
    #[arg(long, num_args = 1..)]
    dev: Vec<PathBuf>,
    /// In how many parts authors and sources are divided
    #[arg(long, default_value_t = 5)]
    parts: usize,
    /// Where the scores go, one JSON object a line
    #[arg(long)]
    out: Option<PathBuf>,
    /// Reads the lines as they stand, to see what the normaliser is worth
    #[arg(long)]
    raw: bool,
    #[command(flatten)]
    settings: Settings,
  },
  /// Fits the fusion to scores of lines that were not trained on
  Fuse {
    /// What `folds --out` wrote
    #[arg(long)]
    heads: PathBuf,
    /// What `python -m encoder logits` wrote
    #[arg(long)]
    encoder: Option<PathBuf>,
    /// Where the parameters go
    #[arg(long)]
    out: Option<PathBuf>,
    /// Fits and measures without these, to see what they are worth
    #[arg(long, num_args = 1.., conflicts_with = "out")]
    without: Vec<Part>,
  },
  /// Trains the context head, fits the fusion of authority, and measures both
  Authority {
    /// Files or directories of scenarios
    #[arg(long, required = true, num_args = 1..)]
    data: Vec<PathBuf>,
    /// Where the model is: `authority.bin` and `authority.toml` are written there
    #[arg(long)]
    models: PathBuf,
    /// What `python -m encoder.authority logits` wrote
    #[arg(long)]
    logits: PathBuf,
  },
  /// Compresses a file as it is shipped, into one of the same name with `.zst` behind it
  Pack {
    /// The file
    file: PathBuf,
  },
  /// Reads JSON strings, one a line, and prints them as the product's model would see them
  Fold,
}

/// What stands at the top of the parameters.
const FUSION_NOTE: &str = "\
# From the logits of n-gram heads and encoder to a probability a kind. Made by
# `train-heads fuse` (training/recipe), do not edit: models/DIGESTS has its digest.
# `heads` and `encoder` hold four weights each: injection of the whole text and of its most
# suspicious sentence, then poison of either. See src/detect/model/fusion.rs.
";

/// The same for authority.
const AUTHORITY_NOTE: &str = "\
# From what all parts say to the probability that somebody outside gains power by an entry. Made by
# `train-heads authority` (training/recipe), do not edit: models/DIGESTS has its digest.
# See src/detect/model/authority.rs.
";

/// How hard zstd tries; it is done once.
const COMPRESSION: i32 = 19;

fn main() -> Result<(), Box<dyn Error>> {
  match Arguments::parse().task {
    Task::Train { data, out, settings } => {
      let items = data::read(&data)?;
      println!("{} lines by {} authors and sources", items.len(), data::groups(&items).len());
      let all: Vec<&Item> = items.iter().collect();
      let bytes = heads::train(&all, &settings).bytes();
      fs::write(&out, &bytes)?;
      println!("{} bytes in {}", bytes.len(), out.display());
    }
    Task::Folds { data, dev, parts, out, raw, settings } => {
      let mut items = data::read(&data)?;
      let mut dev = data::read(&dev)?;
      if raw {
        for item in items.iter_mut().chain(&mut dev) {
          item.views = vec![item.text.clone()];
        }
      }
      let scored = folds::score(&items, &dev, parts, &settings);
      if let Some(out) = out {
        fs::write(&out, folds::lines(&scored)?)?;
      }
      println!("{}", table::report(&scored));
    }
    Task::Fuse { heads, encoder, out, without } => {
      let (fusion, report) = fuse::fuse(&heads, encoder.as_deref(), &without)?;
      if let Some(out) = out {
        fs::write(&out, format!("{FUSION_NOTE}{}", toml::to_string(&fusion)?))?;
      }
      println!("{report}");
    }
    Task::Authority { data, models, logits } => {
      let made = authority::make(&scenarios::read(&data)?, &models, &logits)?;
      fs::write(models.join("authority.bin"), made.head)?;
      let text = format!("{AUTHORITY_NOTE}{}", toml::to_string(&made.fusion)?);
      fs::write(models.join("authority.toml"), text)?;
      println!("{}", made.report);
    }
    Task::Pack { file } => {
      let packed = zstd::bulk::compress(&fs::read(&file)?, COMPRESSION)?;
      let mut name = file.into_os_string();
      name.push(".zst");
      fs::write(name, packed)?;
    }
    Task::Fold => {
      for line in io::stdin().lock().lines() {
        let text: String = serde_json::from_str(&line?)?;
        let folded = data::views(&text).into_iter().next().unwrap_or_default();
        println!("{}", serde_json::to_string(&folded)?);
      }
    }
  }
  Ok(())
}
