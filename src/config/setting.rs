//! Values of keys: from TOML, and back for display.
#![forbid(unsafe_code)]

use {
  super::{
    nearest::nearest,
    word::{
      BaselineAction, EmbeddingProvider, ExtraPaths, Follow, Hold, InstructionFile, JudgeVia,
      LinkWrites, LogFormat, LogLevel, Markers, NotifyVia, Preset, Protocol, Scope, Sensitivity,
      Word, find, list,
    },
  },
  crate::provenance::Trust,
  std::{
    ops::{Range, RangeInclusive},
    path::{Path, PathBuf},
    time::Duration,
  },
  toml::{Spanned, Value, de::DeValue},
};

/// The context in which a value is checked.
pub(super) struct Rules<'r> {
  /// The full name of the key, for messages.
  pub(super) name: &'static str,
  /// Smallest and largest accepted number.
  pub(super) bounds: RangeInclusive<u64>,
  /// The directory that replaces `~`.
  pub(super) home: Option<&'r Path>,
}

const NO_QUOTES: &str = "write the number without quotes";

/// Why a value is not valid.
#[derive(Debug)]
pub(super) struct Complaint {
  pub(super) span: Range<usize>,
  pub(super) message: String,
  pub(super) hint: Option<String>,
}

impl Complaint {
  fn wrong_type(value: &Spanned<DeValue<'_>>, rules: &Rules<'_>, expected: &str) -> Self {
    Self {
      span: value.span(),
      message: format!("`{}` must be {expected}, found {}", rules.name, kind(value.get_ref())),
      hint: None,
    }
  }
}

/// A type that a key can have.
pub(super) trait Setting: Sized {
  /// The value of a key, checked.
  fn read(value: &Spanned<DeValue<'_>>, rules: &Rules<'_>) -> Result<Self, Complaint>;

  /// The value as TOML.
  fn show(&self) -> Value;

  /// All values, if the type is a closed set of words.
  fn words() -> Vec<&'static str> {
    Vec::new()
  }
}

/// The type of a value with its article, for messages.
pub(super) fn kind(value: &DeValue<'_>) -> &'static str {
  match value {
    DeValue::String(_) => "a string",
    DeValue::Integer(_) => "an integer",
    DeValue::Float(_) => "a float",
    DeValue::Boolean(_) => "a boolean",
    DeValue::Datetime(_) => "a date",
    DeValue::Array(_) => "an array",
    DeValue::Table(_) => "a table",
  }
}

impl Setting for u64 {
  fn read(value: &Spanned<DeValue<'_>>, rules: &Rules<'_>) -> Result<Self, Complaint> {
    let expected = || {
      let (low, high) = (rules.bounds.start(), rules.bounds.end());
      format!("a whole number from {low} to {high}")
    };
    let DeValue::Integer(integer) = value.get_ref() else {
      let mut complaint = Complaint::wrong_type(value, rules, &expected());
      if let Some(text) = value.get_ref().as_str()
        && text.parse::<Self>().is_ok()
      {
        complaint.hint = Some(NO_QUOTES.to_owned());
      }
      return Err(complaint);
    };
    match Self::from_str_radix(integer.as_str(), integer.radix()) {
      Ok(number) if rules.bounds.contains(&number) => Ok(number),
      _ => Err(Complaint {
        span: value.span(),
        message: format!("`{}` must be {}, found {integer}", rules.name, expected()),
        hint: None,
      }),
    }
  }

  fn show(&self) -> Value {
    Value::Integer(i64::try_from(*self).unwrap_or(i64::MAX))
  }
}

impl Setting for bool {
  fn read(value: &Spanned<DeValue<'_>>, rules: &Rules<'_>) -> Result<Self, Complaint> {
    let DeValue::Boolean(answer) = value.get_ref() else {
      let mut complaint = Complaint::wrong_type(value, rules, "`true` or `false`");
      if let Some(word @ ("true" | "false")) = value.get_ref().as_str() {
        complaint.hint = Some(format!("write `{word}` without quotes"));
      }
      return Err(complaint);
    };
    Ok(*answer)
  }

  fn show(&self) -> Value {
    Value::Boolean(*self)
  }

  fn words() -> Vec<&'static str> {
    vec!["true", "false"]
  }
}

/// A name or an argument: one line.
impl Setting for String {
  fn read(value: &Spanned<DeValue<'_>>, rules: &Rules<'_>) -> Result<Self, Complaint> {
    match value.get_ref().as_str() {
      Some(text) if text.chars().any(char::is_control) => Err(Complaint {
        span: value.span(),
        message: format!("`{}` contains a control character", rules.name),
        hint: None,
      }),
      Some(text) => Ok(text.to_owned()),
      None => Err(Complaint::wrong_type(value, rules, "text")),
    }
  }

  fn show(&self) -> Value {
    Value::String(self.clone())
  }
}

/// A duration in milliseconds: the key's name ends with `_ms`.
impl Setting for Duration {
  fn read(value: &Spanned<DeValue<'_>>, rules: &Rules<'_>) -> Result<Self, Complaint> {
    u64::read(value, rules).map(Self::from_millis)
  }

  fn show(&self) -> Value {
    Value::Integer(i64::try_from(self.as_millis()).unwrap_or(i64::MAX))
  }
}

/// A user of this machine: by number, or by a name that the caller resolves.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Owner {
  /// The numeric user id.
  Uid(u32),
  /// The login name.
  Name(String),
}

impl Setting for Owner {
  fn read(value: &Spanned<DeValue<'_>>, rules: &Rules<'_>) -> Result<Self, Complaint> {
    // The largest id is the kernel's "no user" and owns nothing.
    let bounds = 0..=u64::from(u32::MAX - 1);
    match value.get_ref() {
      DeValue::Integer(_) => {
        let number = u64::read(value, &Rules { bounds, ..*rules })?;
        Ok(Self::Uid(u32::try_from(number).unwrap_or(u32::MAX)))
      }
      DeValue::String(name) if is_login_name(name) => Ok(Self::Name(name.to_string())),
      DeValue::String(name) => Err(Complaint {
        span: value.span(),
        message: format!("`{}` contains `{name}`, which is not a user name", rules.name),
        hint: name.parse::<u32>().is_ok().then(|| NO_QUOTES.to_owned()),
      }),
      _ => Err(Complaint::wrong_type(value, rules, "an array of user ids or user names")),
    }
  }

  fn show(&self) -> Value {
    match self {
      Self::Uid(uid) => Value::Integer(i64::from(*uid)),
      Self::Name(name) => Value::String(name.clone()),
    }
  }
}

/// Whether text can be a login name: valid in `/etc/passwd` and not a number.
fn is_login_name(text: &str) -> bool {
  let plain = |c: char| !c.is_control() && !c.is_whitespace() && c != ':' && c != '/';
  !text.is_empty() && text.chars().all(plain) && !text.chars().all(|c| c.is_ascii_digit())
}

impl Setting for PathBuf {
  fn read(value: &Spanned<DeValue<'_>>, rules: &Rules<'_>) -> Result<Self, Complaint> {
    const EXPECTED: &str = "a path that is absolute or begins with `~/`";
    let Some(text) = value.get_ref().as_str() else {
      return Err(Complaint::wrong_type(value, rules, EXPECTED));
    };
    let complain = |message, hint| Err(Complaint { span: value.span(), message, hint });
    if text.contains('\0') {
      return complain(format!("`{}` contains a path with a NUL character", rules.name), None);
    }
    let below_home = if text == "~" { Some("") } else { text.strip_prefix("~/") };
    match (below_home, rules.home) {
      (Some(""), Some(home)) => Ok(home.to_path_buf()),
      (Some(rest), Some(home)) => Ok(home.join(rest)),
      (Some(_), None) => complain(
        format!("`{}` contains `{text}`, but there is no home directory", rules.name),
        Some("set `HOME` or write the path in full".to_owned()),
      ),
      (None, _) if Path::new(text).is_absolute() => Ok(Self::from(text)),
      (None, _) => complain(
        format!("`{}` must contain {EXPECTED}, found `{text}`", rules.name),
        (!text.is_empty() && !text.starts_with(['~', '.'])).then(|| format!("try `~/{text}`")),
      ),
    }
  }

  fn show(&self) -> Value {
    Value::String(self.display().to_string())
  }
}

impl Setting for Option<PathBuf> {
  /// An empty text means no value.
  fn read(value: &Spanned<DeValue<'_>>, rules: &Rules<'_>) -> Result<Self, Complaint> {
    if value.get_ref().as_str() == Some("") {
      return Ok(None);
    }
    PathBuf::read(value, rules).map(Some)
  }

  fn show(&self) -> Value {
    self.as_ref().map_or_else(|| Value::String(String::new()), Setting::show)
  }
}

impl<S: Setting> Setting for Vec<S> {
  /// Stops at the first bad element, because the message names the place of that element.
  fn read(value: &Spanned<DeValue<'_>>, rules: &Rules<'_>) -> Result<Self, Complaint> {
    match value.get_ref() {
      DeValue::Array(array) => array.iter().map(|element| S::read(element, rules)).collect(),
      other => Err(Complaint {
        hint: (!other.is_table()).then(|| "put the value into brackets".to_owned()),
        ..Complaint::wrong_type(value, rules, "an array")
      }),
    }
  }

  fn show(&self) -> Value {
    Value::Array(self.iter().map(Setting::show).collect())
  }

  fn words() -> Vec<&'static str> {
    S::words()
  }
}

macro_rules! word_settings {
  ($( $type:ty ),+) => { $(
    impl Setting for $type {
      fn read(value: &Spanned<DeValue<'_>>, rules: &Rules<'_>) -> Result<Self, Complaint> {
        read_word(value, rules)
      }

      fn show(&self) -> Value {
        Value::String(self.as_str().to_owned())
      }

      fn words() -> Vec<&'static str> {
        <$type as Word>::ALL.iter().map(|word| word.word()).collect()
      }
    }
  )+ };
}

word_settings!(
  EmbeddingProvider,
  ExtraPaths,
  Follow,
  JudgeVia,
  LinkWrites,
  Markers,
  Protocol,
  BaselineAction,
  Hold,
  InstructionFile,
  NotifyVia,
  Preset,
  Scope,
  Sensitivity,
  LogLevel,
  LogFormat,
  Trust
);

fn read_word<W: Word>(value: &Spanned<DeValue<'_>>, rules: &Rules<'_>) -> Result<W, Complaint> {
  let Some(text) = value.get_ref().as_str() else {
    return Err(Complaint::wrong_type(value, rules, &list::<W>()));
  };
  find(text).ok_or_else(|| Complaint {
    span: value.span(),
    message: format!("`{}` must be {}, found `{text}`", rules.name, list::<W>()),
    hint: nearest(text, W::ALL.iter().map(|word| word.word()))
      .map(|word| format!("did you mean `{word}`?")),
  })
}
