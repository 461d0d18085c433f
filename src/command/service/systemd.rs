//! A systemd unit with the facts of this machine.
//!
//! The unit in the source is the template, and can be used unchanged; only the lines that name paths,
//! units or variables are rewritten. The rules of quoting were tested with systemd 252.
#![forbid(unsafe_code)]

use std::{ffi::OsStr, fmt::Write as _};

use super::facts::{Facts, Sandbox, Unsayable};

/// The first line of the settings that need a user namespace.
const NEEDS_NAMESPACE: &str = "PrivateUsers=yes";

/// The unit for this machine.
pub fn render(template: &str, facts: &Facts) -> Result<String, Unsayable> {
  let mut paragraphs = Vec::new();
  for paragraph in template.trim_end().split("\n\n") {
    let needs_namespace = paragraph.lines().any(|line| line == NEEDS_NAMESPACE);
    if let Some(why) = facts.sandbox.why().filter(|_| needs_namespace) {
      paragraphs.push(format!("# Without the rest of the sandbox: {why}."));
    } else {
      let lines = paragraph.lines().map(|line| rendered(line, facts));
      paragraphs.push(lines.collect::<Result<Vec<_>, _>>()?.join("\n"));
    }
  }
  Ok(paragraphs.join("\n\n") + "\n")
}

/// How much of the sandbox a unit has: whether it leaves out what needs a user namespace, and why.
pub fn sandbox_of(text: &str) -> Sandbox {
  let all = [Sandbox::NoNamespaces, Sandbox::OtherOwners];
  let said = |one: &Sandbox| one.why().is_some_and(|why| text.contains(why));
  all.into_iter().find(said).unwrap_or(Sandbox::Whole)
}

fn rendered(line: &str, facts: &Facts) -> Result<String, Unsayable> {
  let Some((key, value)) = line.split_once('=') else { return Ok(line.to_owned()) };
  Ok(match key {
    "Before" => format!("Before={}", facts.before.join(" ")),
    "ExecStartPre" | "ExecStart" | "ExecReload" => {
      let (dash, command) = value.strip_prefix('-').map_or(("", value), |command| ("-", command));
      match command.split_once(' ') {
        Some((program, rest)) if program.ends_with("/memfw") => {
          format!("{key}={} {rest}", program_word(dash, facts.program.as_os_str())?)
        }
        _ => line.to_owned(),
      }
    }
    "Environment" => {
      let mut lines = line.to_owned();
      for (name, value) in &facts.variables {
        write!(lines, "\nEnvironment={}", word(&format!("{name}={}", utf8(value)?))?)
          .unwrap_or_default();
      }
      lines
    }
    "PrivateTmp" if facts.shares_temporary_files() => {
      "# A guarded directory is below it.\nPrivateTmp=no".to_owned()
    }
    "ReadWritePaths" => {
      let mut line = "ReadWritePaths=".to_owned();
      for (index, path) in facts.all_writable().iter().enumerate() {
        let space = if index == 0 { "" } else { " " };
        // A path that does not exist yet does not keep the service from starting.
        write!(line, "{space}{}", word(&format!("-{}", utf8(path.as_os_str())?))?)
          .unwrap_or_default();
      }
      line
    }
    _ => line.to_owned(),
  })
}

/// The program of a command. systemd expands no variables in its name, and refuses quotes and
/// backslashes in any spelling.
fn program_word(dash: &str, program: &OsStr) -> Result<String, Unsayable> {
  let path = utf8(program)?;
  if path.contains(['"', '\'', '\\']) {
    return Err(Unsayable(path.to_owned()));
  }
  word(&format!("{dash}{path}"))
}

/// A text as one word: quoted if necessary, and never a specifier.
fn word(text: &str) -> Result<String, Unsayable> {
  if text.chars().any(char::is_control) {
    return Err(Unsayable(text.to_owned()));
  }
  let escaped = text.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%");
  let plain = |c: char| c.is_alphanumeric() || "/._:@=+,-%".contains(c);
  Ok(if text.chars().all(plain) { escaped } else { format!("\"{escaped}\"") })
}

fn utf8(text: &OsStr) -> Result<&str, Unsayable> {
  text.to_str().ok_or_else(|| Unsayable(text.to_string_lossy().into_owned()))
}

#[cfg(test)]
mod tests {
  use proptest::prelude::*;

  use super::*;
  use crate::command::service::supervisor::Supervisor;

  /// The value of the first line with this key.
  fn line<'t>(text: &'t str, key: &str) -> &'t str {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    lines.next().unwrap()
  }

  /// The facts of the file in the source, for a user called ann.
  fn facts(supervisor: Supervisor) -> Facts {
    let template =
      supervisor.template().replace("%h", "/home/ann").replace("/home/%i", "/home/ann");
    let paths =
      line(&template, "ReadWritePaths").split(' ').map(|path| path.trim_start_matches('-').into());
    Facts {
      program: line(&template, "ExecStart").split(' ').next().unwrap().into(),
      home: "/home/ann".into(),
      before: vec![line(&template, "Before").to_owned()],
      variables: vec![],
      workspaces: vec![],
      writable: paths.collect(),
      sandbox: Sandbox::Whole,
    }
  }

  fn user() -> Facts {
    facts(Supervisor::User)
  }

  #[test]
  fn the_file_of_the_source_is_what_is_installed() {
    // tests/service_files.rs checks that a machine without a configuration has these facts.
    let text = Supervisor::User.render(&user()).unwrap();
    assert_eq!(text, Supervisor::User.template().replace("%h", "/home/ann"));
    let text = Supervisor::System.render(&facts(Supervisor::System)).unwrap();
    assert_eq!(text, Supervisor::System.template().replace("/home/%i", "/home/ann"));
  }

  #[test]
  fn units_and_variables_and_paths_are_put_in() {
    let mut facts = user();
    facts.before = vec!["a.service".to_owned(), "a-work.service".to_owned()];
    facts.variables.push(("MEMFW_HOME".to_owned(), "/x y".into()));
    facts.writable.push("/srv/no tes".into());
    let text = Supervisor::User.render(&facts).unwrap();
    assert_eq!(line(&text, "Before"), "a.service a-work.service");
    assert!(text.contains("\nEnvironment=RTEN_NUM_THREADS=1\nEnvironment=\"MEMFW_HOME=/x y\"\n"));
    let paths = line(&text, "ReadWritePaths");
    assert!(paths.ends_with(" -/home/ann/.local/share/memfw \"-/srv/no tes\""), "{paths}");
    assert_eq!(line(&text, "PrivateTmp"), "yes");
  }

  #[test]
  fn what_lies_in_a_shared_directory_stays_shared() {
    let mut facts = user();
    facts.writable.push("/tmp/w".into());
    let text = Supervisor::User.render(&facts).unwrap();
    assert_eq!(line(&text, "PrivateTmp"), "no");
    assert!(line(&text, "ReadWritePaths").ends_with("memfw -/tmp -/var/tmp"));
  }

  #[test]
  fn without_user_namespaces_the_rest_is_left() {
    for sandbox in [Sandbox::NoNamespaces, Sandbox::OtherOwners] {
      let text = Supervisor::User.render(&Facts { sandbox, ..user() }).unwrap();
      for gone in ["PrivateUsers=", "ReadWritePaths=", "ProtectSystem=", "CapabilityBoundingSet="] {
        assert!(!text.contains(&format!("\n{gone}")), "{gone}");
      }
      assert!(text.contains("\nNoNewPrivileges=yes\n"));
      assert!(text.ends_with("\n\n[Install]\nWantedBy=default.target\n"), "{text}");
      assert_eq!(sandbox_of(&text), sandbox);
    }
    assert_eq!(sandbox_of(Supervisor::User.template()), Sandbox::Whole);
  }

  #[test]
  fn odd_names_are_quoted_as_systemd_reads_them() {
    // Each of these was written and read in a directory of that name, under systemd 252.
    assert_eq!(word("-/a \"b\" 100% $HOME \\x").unwrap(), "\"-/a \\\"b\\\" 100%% $HOME \\\\x\"");
    assert_eq!(word("-/a%h/é").unwrap(), "-/a%%h/é");
    assert!(word("/a\nExecStart=/bin/sh").is_err());
    let mut facts = user();
    facts.program = "/p 100% $HOME é/memfw".into();
    let text = Supervisor::User.render(&facts).unwrap();
    assert_eq!(line(&text, "ExecStart"), "\"/p 100%% $HOME é/memfw\" run");
    assert_eq!(line(&text, "ExecStartPre"), "\"-/p 100%% $HOME é/memfw\" config check");
    facts.program = "/a\"b/memfw".into();
    assert!(Supervisor::User.render(&facts).is_err());
  }

  proptest! {
    #[test]
    fn no_path_makes_a_line_of_its_own(path in "/\\PC{0,20}|/[ -~\\n\\t]{0,20}") {
      let mut facts = user();
      let usual = Supervisor::User.render(&facts).unwrap();
      facts.writable.push(path.clone().into());
      if let Ok(text) = Supervisor::User.render(&facts) {
        let keys = |text: &str| -> Vec<String> {
          let lines = text.lines().filter(|line| !line.starts_with('#'));
          lines.map(|line| line.split('=').next().unwrap().to_owned()).collect()
        };
        prop_assert_eq!(keys(&text), keys(&usual));
      } else {
        prop_assert!(path.chars().any(char::is_control));
      }
    }
  }
}
