//! The documentation is true: each command in it runs and answers as the page shows, each command and
//! option that it names exists, and each command is named.
//!
//! Commands are in fences of the language `sh` (each line is one) or `console` (after `$ `,
//! followed by their output). [`stage`] describes the environment in which they run.

mod page;
mod stage;
mod tree;

use {
  crate::support::Output,
  page::{Block, Page, Typed, commands, without_comment},
  stage::Stage,
  std::{
    collections::BTreeSet,
    fs,
    num::NonZero,
    path::{Path, PathBuf},
    sync::{
      Mutex,
      atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
  },
  tree::Tree,
};

/// Programs that pages name and that these tests do not run, with the reason.
const NOT_RUN: &[(&str, &str)] = &[
  ("cargo", "it builds and tests memfw itself, which the build server does"),
  ("journalctl", "it reads the journal of the machine"),
  (
    "memfw openclaw",
    "it needs OpenClaw itself, with which tests/openclaw/plugin.sh installs the plugin",
  ),
  ("man", "what it shows is written by `memfw man`, which is run"),
  ("sudo", "tests run without it; tests/gate.rs and tests/packages.rs do what is said there"),
  ("systemctl", "it changes the machine; tests/service_files.rs has a stand-in for it"),
  ("tar", "it copies the directories of a user; tests/life.rs moves them"),
];

/// Words of the shell that feed memfw or write memory.
const HELPERS: &[&str] = &["echo", "printf"];

/// memfw as pages call it.
const MEMFW: &[&str] = &["memfw", "target/release/memfw"];

fn root() -> &'static Path {
  Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The pages whose commands are run: the README and all below docs/.
fn pages() -> Vec<PathBuf> {
  let mut pages = vec![root().join("README.md")];
  let mut dirs = vec![root().join("docs")];
  while let Some(dir) = dirs.pop() {
    for path in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
      if path.is_dir() {
        dirs.push(path);
      } else if path.extension().is_some_and(|extension| extension == "md") {
        pages.push(path);
      }
    }
  }
  pages.sort();
  pages
}

fn parsed(path: &Path) -> Page {
  Page::of(&fs::read_to_string(path).unwrap())
}

/// Commands for which the status 1 is an answer: those of the table in docs/shell.md.
fn may_say_no(tree: &Tree) -> BTreeSet<String> {
  let page = fs::read_to_string(root().join("docs/shell.md")).unwrap();
  let table = page.split("| command | 1 means |").nth(1).expect("the table of exit statuses");
  let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
  let path = |line: &str| {
    let words: Vec<String> = line.split('`').nth(1)?.split(' ').map(str::to_owned).collect();
    let words: Vec<String> = ["memfw".to_owned()].into_iter().chain(words).collect();
    Some(tree.path(&words))
  };
  rows.filter_map(path).collect()
}

/// The results of the commands of one block.
#[derive(Default)]
struct Tried {
  n_run: usize,
  not_run: BTreeSet<&'static str>,
  problems: Vec<String>,
}

/// Runs the commands of a block, in an environment of its own.
fn try_block(tree: &Tree, no: &BTreeSet<String>, block: &Block) -> Tried {
  let mut tried = Tried::default();
  let is_command = |line: &String| line.trim_start_matches("$ ").starts_with("memfw ");
  let typed = block.typed();
  if typed.is_empty()
    && let Some(line) = block.lines.iter().find(|line| is_command(line))
  {
    tried.problems.push(format!("{}: `{line}` belongs into a fence `sh` or `console`", block.line));
  }
  let mut stage = None;
  for typed in &typed {
    let commands = commands(&typed.text);
    match not_run(&commands) {
      Err(why) => {
        tried.problems.push(format!("{}: `{}`: {why}", typed.line, typed.text));
        continue;
      }
      Ok(Some(name)) => {
        tried.not_run.insert(name);
        continue;
      }
      Ok(None) => {}
    }
    if stage.is_none() {
      stage = Stage::new(block.world.as_deref());
    }
    let Some(stage) = &mut stage else {
      tried.problems.push(format!("{}: unknown environment", block.line));
      return tried;
    };
    let words = commands.iter().rfind(|words| MEMFW.contains(&words[0].as_str()));
    let path = words.map(|words| tree.path(words)).unwrap_or_default();
    let output = stage.run(&typed.text, &path);
    tried.n_run += 1;
    let problems = judged(typed, &output, no.contains(&path)).join("; ");
    if !problems.is_empty() {
      let said = format!("{}{}", output.stdout, output.stderr);
      let what = format!("{}: `{}`: {problems}; it said:\n{said}", typed.line, typed.text);
      tried.problems.push(what);
    }
  }
  tried
}

/// The program because of which a line is not run, if any; an error for an unknown program.
fn not_run(commands: &[Vec<String>]) -> Result<Option<&'static str>, String> {
  if let [memfw, openclaw, verb, ..] = &*commands.concat()
    && (memfw.as_str(), openclaw.as_str()) == ("memfw", "openclaw")
    && ["install", "uninstall"].contains(&verb.as_str())
  {
    return Ok(Some("memfw openclaw"));
  }
  let programs: Vec<&str> = commands.iter().map(|words| words[0].as_str()).collect();
  let is_memfw = |name: &&str| MEMFW.contains(name);
  if let Some((name, _)) = NOT_RUN.iter().find(|(name, _)| programs.contains(name)) {
    if programs.iter().any(is_memfw) {
      return Err(format!("`{name}` is not run here, and memfw cannot be without it"));
    }
    return Ok(Some(name));
  }
  match programs.iter().find(|name| !is_memfw(name) && !HELPERS.contains(name)) {
    Some(name) => {
      Err(format!("unknown program `{name}`: it is not in the table of programs that are not run"))
    }
    None => Ok(None),
  }
}

/// The differences from the page.
fn judged(typed: &Typed, output: &Output, may_say_no: bool) -> Vec<String> {
  let mut problems = Vec::new();
  let shows = |start: &str| typed.shown.iter().any(|line| line.starts_with(start));
  let is_right = match output.status {
    0 => !shows("error: "),
    1 => may_say_no && !shows("error: "),
    _ => shows("error: "),
  };
  if !is_right {
    problems.push(format!("its exit status is {}", output.status));
  }
  if output.stderr.contains("Usage: ") && !shows("Usage: ") {
    problems.push("it is no command of memfw".to_owned());
  }
  let said = format!("{}\n{}", output.stdout, output.stderr);
  let mut said = said.lines();
  let is_said = |line: &&String| !line.trim().is_empty() && line.trim() != "...";
  for line in typed.shown.iter().filter(is_said) {
    if !said.any(|found| is_like(line, found)) {
      problems.push(format!("there is no line like `{line}`, or not in this order"));
      break;
    }
  }
  problems
}

/// Whether a line that a page shows matches this line of another environment: the first words are
/// equal, where all numbers, ids and times count as one word and all paths as another. The heading
/// of a table has all words of the page, and more where the page leaves out columns, as a narrow
/// terminal does.
fn is_like(shown: &str, said: &str) -> bool {
  let (shown, said): (Vec<&str>, Vec<&str>) =
    (shown.split_whitespace().collect(), said.split_whitespace().collect());
  let is_name = |word: &&str| {
    word.starts_with(|c: char| c.is_ascii_uppercase())
      && word.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit())
  };
  if shown.len() > 1 && shown.iter().all(is_name) {
    let mut said = said.iter();
    return shown.iter().all(|word| said.any(|found| found == word));
  }
  class(shown.first().copied()) == class(said.first().copied())
}

/// The kind of a word, or the word itself.
fn class(word: Option<&str>) -> &str {
  let Some(word) = word else { return "" };
  let is_hash = word.len() >= 6 && word.chars().all(|c| c.is_ascii_hexdigit());
  if word.starts_with(['/', '~']) || word.starts_with("[TMP]") {
    "/"
  } else if is_hash || word.contains(|c: char| c.is_ascii_digit()) {
    "0"
  } else {
    word
  }
}

#[test]
fn every_command_in_the_documentation_runs_and_answers_as_it_says() {
  let pages = pages();
  let (next, all) = (AtomicUsize::new(0), Mutex::new(Tried::default()));
  let at_once = thread::available_parallelism().map_or(2, NonZero::get).min(pages.len());
  thread::scope(|scope| {
    for _ in 0..at_once {
      scope.spawn(|| {
        let tree = Tree::new();
        let no = may_say_no(&tree);
        while let Some(path) = pages.get(next.fetch_add(1, Relaxed)) {
          let name = path.strip_prefix(root()).unwrap().display();
          for block in parsed(path).blocks {
            let tried = try_block(&tree, &no, &block);
            let mut all = all.lock().unwrap();
            all.n_run += tried.n_run;
            all.not_run.extend(tried.not_run);
            all.problems.extend(tried.problems.into_iter().map(|line| format!("{name}:{line}")));
          }
        }
      });
    }
  });
  let mut all = all.into_inner().unwrap();
  let unused = NOT_RUN.iter().filter(|(name, _)| !all.not_run.contains(name));
  all.problems.extend(unused.map(|(name, _)| format!("no page needs the exception for `{name}`")));
  assert!(all.problems.is_empty(), "{}", all.problems.join("\n"));
  assert!(all.n_run > 50, "only {} commands were found, so this test sees nothing", all.n_run);
}

#[test]
fn every_command_and_option_that_a_page_names_exists_and_every_command_is_named() {
  let mut tree = Tree::new();
  let mut problems = Vec::new();
  let mut paths = pages();
  paths.extend(["SECURITY.md", "CONTRIBUTING.md", "ARCHITECTURE.md"].map(|name| root().join(name)));
  for path in paths {
    let page = parsed(&path);
    let mut texts = page.spans;
    for block in &page.blocks {
      texts.extend(block.typed().into_iter().map(|typed| (typed.line, typed.text)));
      if block.language == "yaml" {
        let line =
          |(index, line): (usize, &String)| (block.line + index, without_comment(line).to_owned());
        texts.extend(block.lines.iter().enumerate().map(line));
      }
    }
    let name = path.strip_prefix(root()).unwrap().display();
    for (line, text) in texts {
      // A page may show the answer to a mistyped command; that command is run, and must be refused.
      let is_refused = page.blocks.iter().flat_map(Block::typed).any(|typed| {
        typed.line == line && typed.shown.iter().any(|shown| shown.starts_with("error: "))
      });
      if !is_refused {
        problems.extend(tree.check(&text).into_iter().map(|why| format!("{name}:{line}: {why}")));
      }
    }
  }
  problems.extend(tree.left_out());
  assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn what_a_page_may_not_say_is_refused() {
  let tree = Tree::new();
  let no = may_say_no(&tree);
  assert!(no.contains("scan") && no.contains("policy check") && !no.contains("run"), "{no:?}");
  for (text, why) in [
    ("```sh\nmemfw frobnicate\n```", "it is no command of memfw"),
    ("```sh\nmemfw scan --frobnicate\n```", "it is no command of memfw"),
    ("```sh\nmemfw quarantine show nothing\n```", "its exit status is 2"),
    ("```console\n$ memfw config path\nerror: there is none\n```", "its exit status is 0"),
    ("```console\n$ memfw list\nID STATE\n```", "there is no line like `ID STATE`"),
    ("```console\n$ memfw list\nWHY ID\n```", "there is no line like `WHY ID`"),
    ("```console\n$ memfw config check\nfine\n```", "there is no line like `fine`"),
    ("```sh\ncurl example.com | sh\n```", "unknown program `curl`"),
    ("```sh\nmemfw report --html - | sudo tee\n```", "memfw cannot be without it"),
    ("```text\nmemfw config path\n```", "belongs into a fence"),
    ("    $ memfw config path\n", "belongs into a fence"),
    ("```sh moon\nmemfw config path\n```", "unknown environment"),
  ] {
    let problems = try_block(&tree, &no, &Page::of(text).blocks[0]).problems;
    assert!(problems.iter().any(|problem| problem.contains(why)), "{text}: {problems:?}");
  }
  let good = "```console\n$ memfw config path   # where\n/home/ann/.config/memfw/config.toml\n```";
  let tried = try_block(&tree, &no, &Page::of(good).blocks[0]);
  assert_eq!((tried.n_run, tried.problems), (1, vec![]));
}
