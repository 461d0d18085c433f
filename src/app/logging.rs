//! The log: structured lines to standard error, for people, journald or programs.
//!
//! A text line is `[TIME] LEVEL message key=value ...`. Every value is escaped, so a file name can
//! forge neither a line nor a field. Where journald or another supervisor adds the time, memfw adds
//! none. Callers must never log memory text.
#![forbid(unsafe_code)]

use super::log_queue::LogQueue;
use crate::{
  config::{LogFormat, LogLevel},
  terminal::{escape::terminal, failure::Failure, output::Style},
};
use rustix::fs::fstat;
use std::{ffi::OsStr, fmt, io, sync::OnceLock};
use tracing::{Event, Level, Subscriber, field::Field, level_filters::LevelFilter};
use tracing_subscriber::{
  Layer as _,
  filter::Targets,
  fmt::{
    FmtContext, FormatEvent, FormatFields, MakeWriter,
    format::Writer,
    time::{FormatTime as _, SystemTime},
  },
  layer::SubscriberExt as _,
  registry::LookupSpan,
  util::SubscriberInitExt as _,
};

/// The lines of this process.
static QUEUE: OnceLock<LogQueue> = OnceLock::new();

/// Writes the waiting lines, before the process ends.
pub fn flush() {
  if let Some(queue) = QUEUE.get() {
    queue.flush();
  }
}

/// Whether another program adds the time to the lines: journald reads standard error, or a
/// service manager started memfw.
///
/// `JOURNAL_STREAM` names the device and inode that journald reads. Every child process inherits it, also a
/// shell in a desktop terminal whose output goes elsewhere, so memfw compares it with standard error.
pub fn is_stamped(journal_stream: Option<&OsStr>, notify_socket: Option<&OsStr>) -> bool {
  let read_by_journald = journal_stream.and_then(OsStr::to_str).is_some_and(|stream| {
    fstat(io::stderr()).is_ok_and(|stat| stream == format!("{}:{}", stat.st_dev, stat.st_ino))
  });
  read_by_journald || notify_socket.is_some_and(|socket| !socket.is_empty())
}

/// The settings of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSetup {
  /// The lowest level of memfw's lines that is written; lines of libraries are written from `warn` up.
  pub level: LogLevel,
  /// Text or JSON.
  pub format: LogFormat,
  /// Whether a text line begins with the time; `false` where a supervisor adds it.
  pub time: bool,
  /// Whether the level of a text line is coloured.
  pub colour: bool,
}

impl LogSetup {
  /// Starts logging to standard error for the rest of the process. A thread that logs never waits
  /// for the reader of the log.
  pub fn start(self) -> Result<(), Failure> {
    let failed =
      |error: &dyn fmt::Display| Failure::internal(format!("cannot start the log: {error}"));
    let tell = |lines: u64| {
      tracing::warn!(target: "memfw", lines, "the log was not read, and lines were dropped");
    };
    let queue = LogQueue::start(io::stderr(), tell).map_err(|error| failed(&error))?;
    let writer = queue.clone();
    self.subscriber(move || writer.clone()).try_init().map_err(|error| failed(&error))?;
    // Only the first log of a process can be started.
    QUEUE.set(queue).ok();
    Ok(())
  }

  fn subscriber<W>(self, writer: W) -> impl Subscriber + Send + Sync
  where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
  {
    let level = filter(self.level);
    let targets = Targets::new()
      .with_target(env!("CARGO_PKG_NAME"), level)
      .with_default(level.min(LevelFilter::WARN));
    let layer = tracing_subscriber::fmt::layer().with_writer(writer);
    let layer = match self.format {
      LogFormat::Json => layer
        .json()
        .flatten_event(true)
        .with_target(false)
        .with_current_span(false)
        .with_span_list(false)
        .boxed(),
      LogFormat::Text => layer.event_format(Text { time: self.time, colour: self.colour }).boxed(),
    };
    tracing_subscriber::registry().with(layer.with_filter(targets))
  }
}

/// The lowest level that is written.
pub const fn filter(level: LogLevel) -> LevelFilter {
  match level {
    LogLevel::Error => LevelFilter::ERROR,
    LogLevel::Warn => LevelFilter::WARN,
    LogLevel::Info => LevelFilter::INFO,
    LogLevel::Debug => LevelFilter::DEBUG,
    LogLevel::Trace => LevelFilter::TRACE,
  }
}

/// The name of a level in a line.
pub const fn word(level: Level) -> (&'static str, Style) {
  match level {
    Level::ERROR => ("error", Style::Red),
    Level::WARN => (" warn", Style::Yellow),
    Level::INFO => (" info", Style::Green),
    Level::DEBUG => ("debug", Style::Dim),
    Level::TRACE => ("trace", Style::Dim),
  }
}

/// A value as it is printed after its name: a value with a space, or that looks quoted, is quoted so that fields
/// remain distinct.
pub fn quoted(value: &str) -> String {
  let value = terminal(value);
  let bare = !value.is_empty() && !value.contains([' ', '"', '=']);
  if bare { value } else { format!("\"{}\"", value.replace('"', "\\\"")) }
}

/// Events of level info that wait for a person, and are not green for that reason.
const ALARMING: &[&str] = &["quarantined", "held", "returned", "flagged", "forged-marker"];

/// Whether an event of this name waits for a person.
pub fn is_alarming(event: &str) -> bool {
  ALARMING.contains(&event)
}

struct Text {
  time: bool,
  colour: bool,
}

impl<S, N> FormatEvent<S, N> for Text
where
  S: Subscriber + for<'s> LookupSpan<'s>,
  N: for<'w> FormatFields<'w> + 'static,
{
  fn format_event(
    &self,
    _: &FmtContext<'_, S, N>,
    mut writer: Writer<'_>,
    event: &Event<'_>,
  ) -> fmt::Result {
    if self.time {
      SystemTime.format_time(&mut writer)?;
      writer.write_char(' ')?;
    }
    let (word, style) = word(*event.metadata().level());
    let mut fields = Fields::default();
    event.record(&mut fields);
    let style = if fields.is_alarming { Style::Yellow } else { style };
    writer.write_str(&style.paint(word, self.colour))?;
    writeln!(writer, " {}{}", fields.message, fields.rest)
  }
}

/// The fields of one event as text.
#[derive(Default)]
struct Fields {
  message: String,
  rest: String,
  /// Whether the event asks for a person's attention, although it is no fault of memfw's.
  is_alarming: bool,
}

impl Fields {
  fn add(&mut self, field: &Field, value: &str) {
    if field.name() == "event" {
      // The message says it already; programs read it in JSON.
      self.is_alarming |= is_alarming(value);
      return;
    }
    if field.name() == "message" {
      self.message = terminal(value);
      return;
    }
    self.rest.extend([" ", field.name(), "=", &quoted(value)]);
  }
}

impl tracing::field::Visit for Fields {
  fn record_str(&mut self, field: &Field, value: &str) {
    self.add(field, value);
  }

  fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
    self.add(field, &value.to_string());
  }

  fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
    self.add(field, &format!("{value:?}"));
  }
}

#[cfg(test)]
mod tests {
  use {
    super::*,
    std::{
      io::Write,
      path::Path,
      sync::{Arc, Mutex},
    },
  };

  #[derive(Clone, Default)]
  struct Memory(Arc<Mutex<Vec<u8>>>);

  impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
      self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
      Ok(())
    }
  }

  fn logged(setup: LogSetup, log: impl FnOnce()) -> String {
    let memory = Memory::default();
    let writer = memory.clone();
    let subscriber = setup.subscriber(move || writer.clone());
    tracing::subscriber::with_default(subscriber, log);
    String::from_utf8(memory.0.lock().unwrap().clone()).unwrap()
  }

  const TEXT: LogSetup =
    LogSetup { level: LogLevel::Info, format: LogFormat::Text, time: false, colour: false };

  #[test]
  fn a_line_is_level_message_and_fields() {
    let text = logged(TEXT, || {
      tracing::info!(file = %Path::new("/w/MEMORY.md").display(), block = "a1b2c3", took_ms = 3, "quarantined");
      tracing::warn!(why = "two words", "odd");
    });
    assert_eq!(
      text,
      " info quarantined file=/w/MEMORY.md block=a1b2c3 took_ms=3\n warn odd why=\"two words\"\n"
    );
  }

  #[test]
  fn hostile_values_forge_neither_lines_nor_fields() {
    let text = logged(TEXT, || {
      tracing::info!(file = "a\n info approved block=1", source = "\x1b[2J\u{202e}\"", "seen");
    });
    assert_eq!(
      text,
      " info seen file=\"a\\n info approved block=1\" source=\"\\u{1b}[2J\\u{202e}\\\"\"\n"
    );
  }

  #[test]
  fn what_waits_for_a_person_is_not_green() {
    let colour = LogSetup { colour: true, ..TEXT };
    let kept = logged(colour, || tracing::info!(target: "memfw", event = "kept", "block kept"));
    let out = logged(
      colour,
      || tracing::info!(target: "memfw", event = "quarantined", "block quarantined"),
    );
    assert_eq!(kept, "\u{1b}[32m info\u{1b}[0m block kept\n");
    assert_eq!(out, "\u{1b}[33m info\u{1b}[0m block quarantined\n");
  }

  #[test]
  fn the_level_holds_for_us_and_libraries_say_less() {
    let setup = LogSetup { level: LogLevel::Debug, ..TEXT };
    let text = logged(setup, || {
      tracing::debug!("ours");
      tracing::trace!("too fine");
      tracing::info!(target: "library", "chatter");
      tracing::warn!(target: "library", "trouble");
    });
    assert_eq!(text, "debug ours\n warn trouble\n");
    let setup = LogSetup { level: LogLevel::Error, ..TEXT };
    assert_eq!(logged(setup, || tracing::warn!(target: "library", "trouble")), "");
  }

  #[test]
  fn only_the_stream_that_journald_reads_is_stamped() {
    let stat = fstat(io::stderr()).unwrap();
    let ours = format!("{}:{}", stat.st_dev, stat.st_ino);
    assert!(is_stamped(Some(ours.as_ref()), None));
    assert!(!is_stamped(Some("1:2".as_ref()), None));
    assert!(is_stamped(None, Some("/run/notify".as_ref())));
    assert!(!is_stamped(None, Some("".as_ref())));
    assert!(!is_stamped(None, None));
  }

  #[test]
  fn time_is_first_on_request() {
    let text = logged(LogSetup { time: true, ..TEXT }, || tracing::info!("ready"));
    let (time, rest) = text.split_once(' ').unwrap();
    assert!(time.parse::<jiff::Timestamp>().is_ok(), "{time}");
    assert_eq!(rest, " info ready\n");
  }

  #[test]
  fn programs_get_one_object_a_line() {
    let setup = LogSetup { format: LogFormat::Json, ..TEXT };
    let text = logged(setup, || tracing::info!(block = "a\nb", took_ms = 3, "quarantined"));
    assert_eq!(text.lines().count(), 1);
    let line: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(line["level"], "INFO");
    assert_eq!(line["message"], "quarantined");
    assert_eq!(line["block"], "a\nb");
    assert_eq!(line["took_ms"], 3);
    assert!(line["timestamp"].is_string());
  }
}
