//! The service managers that memfw knows: the file of each, and the commands of each.
#![forbid(unsafe_code)]

use std::{
  ffi::OsString,
  path::{Path, PathBuf},
};

use clap::{ValueEnum, builder::Resettable};

use super::{
  facts::{Facts, Unsayable},
  plist, systemd,
};

/// The label of the agent of launchd, in the style of other labels.
pub const LABEL: &str = "ai.memfw.daemon";

/// A service manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, strum::Display, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Supervisor {
  /// systemd's manager of one user
  #[value(help = Resettable::Reset)]
  User,
  /// systemd's manager of the system
  #[value(help = Resettable::Reset)]
  System,
  /// launchd, for one user
  #[value(help = Resettable::Reset)]
  Launchd,
}

impl Supervisor {
  /// The manager that this system has.
  pub const fn native() -> Self {
    if cfg!(target_os = "macos") { Self::Launchd } else { Self::User }
  }

  /// The name of the manager on the command line.
  pub fn as_str(self) -> &'static str {
    self.into()
  }

  /// The program that controls the manager.
  pub const fn program(self) -> &'static str {
    match self {
      Self::User | Self::System => "systemctl",
      Self::Launchd => "launchctl",
    }
  }

  /// The file in the source, for a user called `you` or `ann`.
  pub const fn template(self) -> &'static str {
    match self {
      Self::User => include_str!("../../../systemd/memfw.service"),
      Self::System => include_str!("../../../systemd/memfw@.service"),
      Self::Launchd => include_str!("../../../launchd/ai.memfw.daemon.plist"),
    }
  }

  /// The name of the service.
  pub fn name(self, user: Option<&str>) -> String {
    match (self, user) {
      (Self::User, _) | (Self::System, None) => "memfw.service".to_owned(),
      (Self::System, Some(user)) => format!("memfw@{user}.service"),
      (Self::Launchd, _) => LABEL.to_owned(),
    }
  }

  /// The path of the service file.
  pub fn file(self, home: &Path, user: Option<&str>) -> PathBuf {
    let name = self.name(user);
    match self {
      // The agent puts its own units there, and every user manager looks there.
      Self::User => home.join(".config/systemd/user").join(name),
      Self::System => Path::new("/etc/systemd/system").join(name),
      Self::Launchd => home.join("Library/LaunchAgents").join(name + ".plist"),
    }
  }

  /// The content of the service file on this machine.
  pub fn render(self, facts: &Facts) -> Result<String, Unsayable> {
    match self {
      Self::User | Self::System => systemd::render(self.template(), facts),
      Self::Launchd => plist::render(self.template(), facts),
    }
  }

  /// A text as a comment line of a service file.
  pub fn comment(self, text: &str) -> String {
    match self {
      Self::User | Self::System => format!("# {text}"),
      Self::Launchd => format!("<!-- {} -->", text.replace("--", "- -")),
    }
  }

  /// The command with which a person follows the log of the service.
  pub fn follow(self, name: &str, home: &Path) -> String {
    match self {
      Self::User => format!("journalctl --user -fu {name}"),
      Self::System => format!("journalctl -fu {name}"),
      Self::Launchd => format!("tail -f {}", home.join("Library/Logs/memfw.log").display()),
    }
  }

  fn words(self, words: &[&str]) -> Vec<OsString> {
    let first = (self == Self::User).then_some("--user");
    first.into_iter().chain(words.iter().copied()).map(OsString::from).collect()
  }

  /// The command to read all files again; `None` for launchd, which does so by itself.
  pub fn reload(self) -> Option<Vec<OsString>> {
    (self != Self::Launchd).then(|| self.words(&["daemon-reload"]))
  }

  /// The command that succeeds if the manager can be reached, and changes nothing; `None` for launchd, which
  /// always runs.
  pub fn asks_for_its_version(self) -> Option<Vec<OsString>> {
    (self != Self::Launchd).then(|| self.words(&["show", "--property=Version"]))
  }

  /// The commands after the file was written. `runs`: the service runs; `is_new`: the file has changed.
  pub fn start(self, job: &Job<'_>, runs: bool, is_new: bool) -> Vec<Vec<OsString>> {
    let name = job.name;
    match self {
      Self::User | Self::System => {
        let verb = if runs && is_new { "restart" } else { "start" };
        let mut all: Vec<_> = self.reload().into_iter().collect();
        all.extend([self.words(&["enable", name]), self.words(&[verb, name])]);
        all
      }
      Self::Launchd if runs && !is_new => vec![],
      Self::Launchd => {
        let mut all = Vec::new();
        if runs {
          all.push(self.words(&["bootout", &job.target()]));
        }
        all.push(self.words(&["enable", &job.target()]));
        let mut words = self.words(&["bootstrap", &job.domain()]);
        words.push(job.file.as_os_str().to_owned());
        all.push(words);
        all
      }
    }
  }

  /// The command that restarts the service: systemd finds new writable directories only at a start.
  pub fn restart(self, job: &Job<'_>) -> Option<Vec<OsString>> {
    (self != Self::Launchd).then(|| self.words(&["restart", job.name]))
  }

  /// The commands before the file is removed. `runs`: the service is loaded.
  pub fn stop(self, job: &Job<'_>, runs: bool) -> Vec<Vec<OsString>> {
    match self {
      Self::User | Self::System => vec![self.words(&["disable", "--now", job.name])],
      Self::Launchd if runs => vec![self.words(&["bootout", &job.target()])],
      Self::Launchd => vec![],
    }
  }

  /// The command that succeeds while the service runs.
  pub fn asks_whether_it_runs(self, job: &Job<'_>) -> Vec<OsString> {
    match self {
      Self::User | Self::System => self.words(&["is-active", "--quiet", job.name]),
      Self::Launchd => self.words(&["print", &job.target()]),
    }
  }

  /// The command that succeeds if the service starts at the next login or boot; `None`: launchd starts
  /// it.
  pub fn asks_whether_it_will(self, job: &Job<'_>) -> Option<Vec<OsString>> {
    (self != Self::Launchd).then(|| self.words(&["is-enabled", "--quiet", job.name]))
  }
}

/// The service that a command is about.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
  /// The name of the service.
  pub name: &'a str,
  /// The file of the service.
  pub file: &'a Path,
  /// The uid of the user.
  pub uid: u32,
}

impl Job<'_> {
  fn domain(&self) -> String {
    format!("gui/{}", self.uid)
  }

  fn target(&self) -> String {
    format!("gui/{}/{}", self.uid, self.name)
  }
}

#[cfg(test)]
mod tests {
  use super::*;

  fn lines(all: &[Vec<OsString>]) -> Vec<String> {
    all.iter().map(|words| words.join(" ".as_ref()).into_string().unwrap()).collect()
  }

  #[test]
  fn systemd_gets_its_commands_in_order() {
    let job = Job { name: "memfw.service", file: Path::new("/f"), uid: 7 };
    assert_eq!(
      lines(&Supervisor::User.start(&job, false, true)),
      ["--user daemon-reload", "--user enable memfw.service", "--user start memfw.service"]
    );
    assert_eq!(Supervisor::User.start(&job, true, true)[2][1], "restart");
    assert_eq!(Supervisor::User.start(&job, true, false)[2][1], "start");
    let job = Job { name: "memfw@ann.service", ..job };
    assert_eq!(
      lines(&Supervisor::System.start(&job, false, true)),
      ["daemon-reload", "enable memfw@ann.service", "start memfw@ann.service"]
    );
    assert_eq!(lines(&Supervisor::System.stop(&job, true)), ["disable --now memfw@ann.service"]);
  }

  #[test]
  fn launchd_loads_a_changed_file_again() {
    let supervisor = Supervisor::Launchd;
    let job = Job { name: LABEL, file: Path::new("/a b.plist"), uid: 501 };
    let load = ["enable gui/501/ai.memfw.daemon", "bootstrap gui/501 /a b.plist"];
    assert_eq!(lines(&supervisor.start(&job, false, true)), load);
    let unload = "bootout gui/501/ai.memfw.daemon";
    assert_eq!(lines(&supervisor.start(&job, true, true)), [unload, load[0], load[1]]);
    assert_eq!(lines(&supervisor.start(&job, true, false)), [""; 0]);
    assert_eq!(lines(&supervisor.stop(&job, true)), [unload]);
    assert_eq!(lines(&supervisor.stop(&job, false)), [""; 0]);
  }

  #[test]
  fn files_are_where_their_manager_looks() {
    let home = Path::new("/home/ann");
    for (supervisor, user, file) in [
      (Supervisor::User, None, "/home/ann/.config/systemd/user/memfw.service"),
      (Supervisor::System, Some("ann"), "/etc/systemd/system/memfw@ann.service"),
      (Supervisor::Launchd, None, "/home/ann/Library/LaunchAgents/ai.memfw.daemon.plist"),
    ] {
      assert_eq!(supervisor.file(home, user), Path::new(file));
    }
  }
}
