//! The reports on past events for people and programs: `memfw stats`, `memfw log`, `memfw report`.

use {
  crate::support::{AT_ONCE, Guarded, NEVER, Writer, clean, eventually, id, poison},
  serde_json::Value,
  std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
  },
};

/// Runs in a browser that allows scripts.
const SCRIPT: &str = "<script>document.title='PWNED'</script>";
/// A script as the name of a file, which cannot have a slash.
const NAME: &str = "<img src=x onerror=document.title='PWNED'>\u{202e}";
/// Names that would end an attribute, a style or a comment, or begin a link, and one without end.
const NAMES: [&str; 6] = [
  NAME,
  "\"onmouseover=\"document.title='PWNED'\" autofocus onfocus=\"document.title='PWNED'",
  "<style><!--&lt;svg onload=document.title='PWNED'&gt;<svg onload=document.title='PWNED'>",
  "javascript:document.title='PWNED'",
  "--><iframe srcdoc=\"<script>parent.document.title='PWNED'</script\">",
  "averylongnamewithoutanyplacewhereitcouldbebrokenaverylongnamewithoutanyplacewhereitcouldbebroken",
];

/// A workspace with one clean and one poisoned line that came while the daemon ran, and one before.
fn poisoned() -> Guarded {
  let mut guarded = Guarded::new(AT_ONCE).memory("MEMORY.md", "# Memory\n\n- old\n");
  guarded.start();
  let file = guarded.path("MEMORY.md");
  Writer::Shell.add(&file, format!("{}\n", clean(1)).as_bytes());
  guarded.settle();
  Writer::Shell.add(&file, format!("{}\n", poison(1)).as_bytes());
  guarded.settle();
  guarded
}

fn row<'v>(stats: &'v Value, by: &str, name: &str) -> &'v Value {
  let rows = stats["by"][by].as_array().unwrap();
  rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("no {by} {name}: {stats:#}"))
}

#[test]
fn what_happened_is_counted_for_programs() {
  let guarded = poisoned();
  let stats = guarded.json(&["stats", "--json"]);
  let keys: Vec<&String> = stats.as_object().unwrap().keys().collect();
  assert_eq!(keys, ["since", "until", "truncated", "all", "by", "memory", "exposure"]);
  let keys: Vec<&String> = stats["all"].as_object().unwrap().keys().collect();
  assert_eq!(
    keys,
    [
      "name",
      "seen",
      "kept",
      "baseline",
      "flagged",
      "quarantined",
      "returned",
      "approved",
      "false_alarms",
      "rejected",
      "trust",
      "latency",
      "measured"
    ]
  );
  let file = Guarded::named("MEMORY.md");
  for line in [&stats["all"], row(&stats, "file", &file)] {
    assert_eq!((&line["seen"], &line["kept"]), (&3.into(), &2.into()), "{line:#}");
    assert_eq!((&line["quarantined"], &line["approved"]), (&1.into(), &0.into()), "{line:#}");
    assert!(line["latency"]["p99_us"].as_f64().unwrap() > 0.0, "{line:#}");
  }
  assert_eq!(row(&stats, "source", "baseline")["kept"], 1);
  assert_eq!(row(&stats, "source", "unknown")["seen"], 2);
  assert_eq!(row(&stats, "layer", "rules")["seen"], 2);
  assert_eq!(stats["by"]["day"].as_array().unwrap().len(), 1);
  assert_eq!(stats["memory"]["blocks"], 2);
  assert_eq!(stats["exposure"]["redactions"], 1);
  let found = stats["by"]["code"].as_array().unwrap();
  assert!(!found.is_empty() && found.iter().all(|code| code["approved"] == 0), "{found:?}");
  // An approval counts for the file, the source and every code.
  guarded.approve_all();
  guarded.settle();
  let stats = guarded.json(&["stats", "--json"]);
  assert_eq!(row(&stats, "file", &file)["approved"], 1);
  assert_eq!(row(&stats, "file", &file)["false_alarms"], 1);
  assert_eq!(row(&stats, "source", "unknown")["approved"], 1);
  assert_eq!(row(&stats, "layer", "rules")["approved"], 1);
  let codes = stats["by"]["code"].as_array().unwrap();
  assert!(codes.iter().any(|code| code["quarantined"] == 1 && code["approved"] == 1), "{codes:?}");
}

#[test]
fn what_happened_is_counted_for_people() {
  let guarded = poisoned();
  let text = guarded.ok(&["stats"]);
  for part in [
    "  seen       3 blocks: 2 kept, 0 flagged, 1 quarantined\n",
    "  reviewed   0 approved (0 false alarms), 0 rejected\n",
    "  decided    p50 ",
    "over the last 1 redaction\n",
    "TRUST      BLOCKS  SHARE\n",
    "DAY         SEEN  KEPT  FLAGGED  QUARANTINED  APPROVED\n",
    "exfiltration-endpoint",
    "█",
  ] {
    assert!(text.contains(part), "`{part}` is not in:\n{text}");
  }
  let none = Guarded::new(NEVER).memfw(&["stats"]);
  assert_eq!(none.status, 2, "nothing was guarded yet: {none:?}");
}

#[test]
fn the_log_is_followed_wherever_the_daemon_writes_it() {
  let guarded = poisoned();
  let ended = guarded.ok(&["log", "--no-follow", "-n", "100"]);
  assert!(ended.contains("Z  info started detail="), "{ended}");
  assert!(ended.contains("Z  info block quarantined file="), "{ended}");
  assert!(!ended.contains("block kept"), "that is for --log-level debug:\n{ended}");
  assert!(!ended.contains('\x1b'), "nobody asked for colours:\n{ended}");
  let all = guarded.ok(&["log", "--no-follow", "-n", "100", "--log-level", "debug"]);
  assert!(all.contains("Z debug block kept file="), "{all}");
  let one = guarded.ok(&["log", "--no-follow", "--event", "quarantined", "--json"]);
  let one: Value = serde_json::from_str(one.trim_end()).expect(&one);
  assert_eq!((&one["event"], &one["action"]), (&"quarantined".into(), &"quarantine".into()));
  assert!(one["took_ms"].as_f64().unwrap() > 0.0, "{one:#}");
  // A person's decision is no work of the daemon, and is still shown.
  let item = id(&guarded.waiting()[0]).to_owned();
  let mut follower = guarded.test().args(["log", "-n", "1"]).start();
  let shows = |text: &str, follower: &crate::support::Background| {
    String::from_utf8(follower.stdout()).unwrap().contains(text)
  };
  eventually("the last line is there", || shows("block quarantined", &follower));
  assert!(!shows("started", &follower));
  guarded.ok(&["quarantine", "reject", &item]);
  eventually("the next line comes", || shows("block rejected file=", &follower));
  assert!(!follower.has_ended(), "it goes on");
  follower.kill();
  let wrong = guarded.memfw(&["log", "--event", "aproved"]);
  assert_eq!(wrong.status, 2);
  assert!(wrong.stderr.contains("did you mean `approved`?"), "{}", wrong.stderr);
}

#[test]
fn a_follower_ends_when_nobody_reads_it() {
  let guarded = poisoned();
  let script = "\"$0\" log -n 1 | head -n 1";
  let home = guarded.tmp().join("memfw");
  let mut pipe = Command::new("sh");
  pipe.args(["-c", script, env!("CARGO_BIN_EXE_memfw")]).env("MEMFW_HOME", home);
  // The command would wait for the next event for ever, and so would the test.
  let output = pipe.output().unwrap();
  assert!(String::from_utf8(output.stdout).unwrap().contains("block quarantined"));
}

/// A workspace with hostile names, text and source.
fn hostile() -> Guarded {
  let mut guarded = Guarded::new(AT_ONCE).memory("MEMORY.md", "# Memory\n");
  guarded.start();
  fs::create_dir_all(guarded.path("memory")).unwrap();
  for (n, name) in NAMES.iter().enumerate() {
    let evil = format!("{} {SCRIPT}\n", poison(n));
    // A name has no slash; that of a tag's end can be left out.
    let file = guarded.path(format!("memory/{}.md", name.replace('/', "")));
    Writer::Shell.add(&file, evil.as_bytes());
    eventually("the poison waits", || guarded.waiting().len() > n);
  }
  guarded.settle();
  guarded
}

fn report(guarded: &Guarded, args: &[&str]) -> PathBuf {
  let path = guarded.tmp().join("report.html");
  let mut all = vec!["report", "--html", path.to_str().unwrap()];
  all.extend(args);
  assert_eq!(guarded.ok(&all), "written to [TMP]/report.html\n");
  path
}

#[test]
fn a_report_holds_hostile_names_as_text_and_no_memory_unless_asked() {
  let guarded = hostile();
  let path = report(&guarded, &[]);
  assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
  let page = fs::read_to_string(&path).unwrap();
  assert!(
    page.contains("&lt;img src=x onerror=document.title=&#39;PWNED&#39;&gt;\\u{202e}.md"),
    "{page}"
  );
  assert!(!page.contains("SSH keys") && !page.contains("PWNED&#39;&lt;/script"), "{page}");
  for part in ["<img", "<script", "<svg onload", "<iframe", "<style><", "\" on", "\u{202e}"] {
    assert!(!page.contains(part), "{part}");
  }
  let page = fs::read_to_string(report(&guarded, &["--text"])).unwrap();
  assert!(page.contains("SSH keys") && page.contains("PWNED&#39;&lt;/script&gt;"), "{page}");
  assert!(!page.contains("<script"));
}

#[test]
fn a_decision_that_was_taken_back_is_no_false_alarm() {
  let mut guarded = poisoned();
  guarded.stop();
  let id = id(&guarded.waiting()[0]).to_owned();
  for verb in ["approve", "reject"] {
    guarded.memfw(&[verb, &id]);
    guarded.ok(&["undo", &id]);
  }
  let stats = guarded.json(&["stats", "--json"]);
  assert_eq!((&stats["all"]["approved"], &stats["all"]["rejected"]), (&0.into(), &0.into()));
  let shown = guarded.ok(&["stats"]);
  assert!(shown.contains("  reviewed   0 approved (0 false alarms), 0 rejected\n"), "{shown}");
  let page = fs::read_to_string(report(&guarded, &[])).unwrap();
  assert!(page.contains("<b>0</b>false alarms"), "{page}");
  guarded.memfw(&["approve", &id]);
  assert_eq!(guarded.json(&["stats", "--json"])["all"]["approved"], 1);
}

#[test]
fn what_a_person_took_out_and_approved_is_no_false_alarm() {
  let mut guarded = Guarded::new(NEVER).memory("MEMORY.md", "# Memory\n\n- old\n- other\n");
  guarded.start();
  guarded.ok(&["quarantine", "add", "MEMORY.md:3"]);
  guarded.approve_all();
  guarded.stop();
  let stats = guarded.json(&["stats", "--json"]);
  assert_eq!((&stats["all"]["approved"], &stats["all"]["false_alarms"]), (&1.into(), &0.into()));
  let page = fs::read_to_string(report(&guarded, &[])).unwrap();
  assert!(page.contains("<b>0</b>false alarms"), "{page}");
}

#[test]
fn a_report_shows_new_blocks_by_local_day_and_files_with_findings() {
  let mut guarded = Guarded::new(NEVER).env("TZ", "XXX-13:30").memory("MEMORY.md", "# Memory\n");
  let old = (0..40).map(|n| format!("- old {n}\n")).collect::<Vec<_>>().concat();
  for file in ["memory/2026-11-20.md", "memory/2026-11-21.md"] {
    guarded = guarded.memory(file, format!("# Day\n\n{old}"));
  }
  guarded.start();
  Writer::Shell.add(&guarded.path("MEMORY.md"), format!("{}\n", poison(2)).as_bytes());
  eventually("the poison waits", || guarded.waiting().len() == 1);
  guarded.stop();
  let page = fs::read_to_string(report(&guarded, &[])).unwrap();
  assert!(page.contains("days of UTC+13:30; made at 20"), "{page}");
  assert!(page.contains(": 0 kept, 0 flagged, 1 quarantined</title>"), "{page}");
  let baseline = guarded.json(&["stats", "--json"])["all"]["baseline"].as_u64().unwrap();
  assert!(baseline > 70, "{baseline}");
  let without = format!("Without {baseline} blocks that memfw found in memory and kept.");
  assert!(page.contains(&without), "{page}");
  assert!(page.contains("2 files without findings: <code>memfw stats</code>"), "{page}");
  assert!(!page.contains("2026-11-20.md"), "{page}");
}

#[test]
fn a_report_is_opened_if_wanted() {
  let guarded = poisoned();
  let bin = guarded.tmp().join("bin");
  fs::create_dir(&bin).unwrap();
  let path = guarded.tmp().join("report.html");
  let open = |to: &Path| {
    let args = ["report", "--open", "--html", path.to_str().unwrap()];
    guarded.test().env("PATH", to.to_str().unwrap()).args(args).output()
  };
  let output = open(&bin);
  assert_eq!(output.status, 2, "{output:?}");
  assert!(output.stderr.contains("`xdg-open` cannot be run"), "{}", output.stderr);
  assert!(path.exists(), "the page is written anyway");
  let opened = guarded.tmp().join("opened");
  let script = format!("#!/bin/sh\n/bin/echo \"$1\" >{}\n", opened.display());
  fs::write(bin.join("xdg-open"), script).unwrap();
  fs::set_permissions(bin.join("xdg-open"), fs::Permissions::from_mode(0o755)).unwrap();
  assert_eq!(open(&bin).status, 0);
  let named = || fs::read_to_string(&opened).unwrap_or_default();
  eventually("the browser has the page", || named().trim_end() == path.to_str().unwrap());
}

#[test]
fn a_report_counts_what_is_flagged_as_the_status_does() {
  let before = format!("# Memory\n\n{}\n", poison(1));
  let mut guarded = Guarded::new(NEVER).memory("MEMORY.md", before);
  guarded.start();
  Writer::Shell.add(&guarded.path("MEMORY.md"), format!("{}\n", poison(2)).as_bytes());
  eventually("the poison waits", || guarded.waiting().len() == 1);
  let status = guarded.ok(&[]);
  assert!(status.contains("  waiting     2 for you"), "{status}");
  let page = fs::read_to_string(report(&guarded, &["--text"])).unwrap();
  assert!(page.contains("<b>2</b>wait for you"), "{page}");
  assert!(page.contains("<b class=\"warn\">flagged</b>"), "{page}");
  assert_eq!(page.matches("SSH keys").count(), 2, "{page}");
  let path = guarded.tmp().join("report.html");
  let value = guarded.json(&["report", "--json", "--html", path.to_str().unwrap()]);
  assert_eq!(value["waiting"], 2);
}

#[test]
fn a_report_is_written_over_nothing_but_a_report() {
  let guarded = poisoned();
  let mine = guarded.tmp().join("notes.html");
  fs::write(&mine, "mine\n").unwrap();
  for (place, why) in [
    (mine.clone(), "a file that memfw did not write"),
    (guarded.path("report.html"), "is guarded, and an agent reads there"),
    (guarded.path("MEMORY.md"), "is guarded, and an agent reads there"),
    (guarded.tmp().join("nowhere/report.html"), "no such file or directory"),
  ] {
    let output = guarded.memfw(&["report", "--html", place.to_str().unwrap()]);
    assert_eq!(output.status, 2, "{output:?}");
    assert!(output.stderr.contains(why), "{}", output.stderr);
  }
  assert_eq!(fs::read_to_string(mine).unwrap(), "mine\n");
  assert!(!guarded.path("report.html").exists());
  let first = report(&guarded, &[]);
  let second = report(&guarded, &["--days", "7"]);
  assert!(fs::read_to_string(second).unwrap().ends_with("</html>\n"));
  assert!(first.is_file());
}

/// A browser without a window; `None`, with a message, where there is none.
fn browser() -> Option<PathBuf> {
  const NAMES: [&str; 6] = [
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome-headless-shell",
    "chromium-headless-shell",
  ];
  let named = std::env::var_os("MEMFW_TEST_BROWSER").map(PathBuf::from);
  let paths = std::env::var_os("PATH").unwrap_or_default();
  let installed = std::env::split_paths(&paths).flat_map(|dir| NAMES.map(|name| dir.join(name)));
  let found = named.into_iter().chain(installed).find(|path| path.is_file());
  if found.is_none() {
    eprintln!("skipped: no Chromium or Chrome is on PATH, and MEMFW_TEST_BROWSER names none");
  }
  found
}

/// A file in a browser: the document, and the browser's complaints.
fn opened(browser: &Path, page: &Path) -> (String, String) {
  opened_as(browser, page, &[])
}

/// Opens a file with further arguments for the browser.
fn opened_as(browser: &Path, page: &Path, words: &[&str]) -> (String, String) {
  let profile = tempfile::tempdir().unwrap();
  let output = Command::new(browser)
    .args([
      "--headless",
      "--no-sandbox",
      "--disable-gpu",
      "--no-first-run",
      "--enable-logging=stderr",
    ])
    .args(["--virtual-time-budget=2000", "--dump-dom"])
    .args(words)
    .arg(format!("--user-data-dir={}", profile.path().display()))
    .arg(format!("file://{}", page.display()))
    .output()
    .unwrap();
  let text = |bytes| String::from_utf8(bytes).unwrap();
  (text(output.stdout), text(output.stderr))
}

#[test]
fn in_a_browser_nothing_of_it_executes() {
  let Some(browser) = browser() else { return };
  let guarded = hostile();
  let page = report(&guarded, &["--text"]);
  let (document, complaints) = opened(&browser, &page);
  assert!(document.contains("<title>memfw report</title>"), "{document}");
  assert!(document.contains("PWNED'&lt;/script&gt;"), "the text is there as text:\n{document}");
  // The document as the browser understood it: the elements of the page, and no others.
  let known = [
    "html", "head", "meta", "title", "style", "body", "header", "section", "div", "span", "h1",
    "h2", "p", "ul", "li", "b", "i", "br", "code", "pre", "svg", "g", "rect", "table", "thead",
    "tbody", "tr", "th", "td",
  ];
  for tag in document.split('<').skip(1).filter(|tag| !tag.starts_with(['/', '!'])) {
    let name = tag.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap();
    assert!(known.contains(&name), "<{name}");
    let attributes = tag.split('>').next().unwrap();
    assert!(!attributes.contains(" on") && !attributes.contains("srcdoc"), "<{attributes}>");
  }
  assert!(
    !complaints.contains("Content Security Policy"),
    "its own style is let in:\n{complaints}"
  );
  // This browser runs an unescaped script, and the policy would stop even that.
  let bare = guarded.tmp().join("bare.html");
  fs::write(
    &bare,
    format!("<title>bare</title><img src=x onerror=\"document.title='PWNED'\">{SCRIPT}"),
  )
  .unwrap();
  assert!(opened(&browser, &bare).0.contains("<title>PWNED</title>"), "it runs no scripts at all");
  let text = fs::read_to_string(&page).unwrap();
  let broken = guarded.tmp().join("broken.html");
  let img = "<img src=x onerror=\"document.title='PWNED'\">";
  fs::write(&broken, text.replace("<header>", &format!("{SCRIPT}{img}<header>"))).unwrap();
  let (document, complaints) = opened(&browser, &broken);
  assert!(
    document.contains("<script>") && document.contains("<title>memfw report</title>"),
    "{document}"
  );
  assert!(complaints.contains("Content Security Policy"), "{complaints}");
}

#[test]
fn a_report_fits_a_phone_and_a_desk() {
  let Some(browser) = browser() else { return };
  let guarded = hostile();
  let page = fs::read_to_string(report(&guarded, &["--text"])).unwrap();
  // The browser is asked for the width of the page, which the policy of the page would not allow.
  let (before, rest) = page.split_once("<meta http-equiv").unwrap();
  let (_, after) = rest.split_once('>').unwrap();
  let asks = "<script>addEventListener('load', () => {
    const root = document.documentElement;
    const is_dark = matchMedia('(prefers-color-scheme: dark)').matches;
    parent.postMessage(String([innerWidth, root.scrollWidth, is_dark]), '*');
  })</script>";
  let probe = guarded.tmp().join("probe.html");
  fs::write(&probe, format!("{before}{asks}{after}")).unwrap();
  for width in [390, 1280] {
    // No window of a browser is as narrow as a phone, but a frame in it is.
    let frame = format!(
      "<!doctype html><script>onmessage = event => {{ document.title = event.data }}</script>
       <iframe src=probe.html style='width: {width}px; height: 900px; border: 0'></iframe>"
    );
    let outer = guarded.tmp().join("outer.html");
    fs::write(&outer, frame).unwrap();
    for (scheme, is_dark) in [(0, true), (1, false)] {
      let scheme = format!("--blink-settings=preferredColorScheme={scheme}");
      let words = ["--window-size=1400,1000", &scheme, "--hide-scrollbars"];
      let (document, _) = opened_as(&browser, &outer, &words);
      let title = format!("<title>{width},{width},{is_dark}</title>");
      assert!(document.contains(&title), "{title} is not in:\n{document}");
    }
  }
}
