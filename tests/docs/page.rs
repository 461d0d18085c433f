//! A page of the documentation as a test sees it: blocks of commands, and words in code spans.
#![forbid(unsafe_code)]

/// Languages of a fence of which each line is a command.
const SCRIPT: &str = "sh";
/// Languages of a fence in which commands follow a `$ ` and their output follows them.
const CONSOLE: &str = "console";

/// A line to type, and the answer that the page shows.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Typed {
  /// The number of the line, from 1.
  pub(super) line: usize,
  /// Without `$ ` and without a comment.
  pub(super) text: String,
  /// The lines that follow it.
  pub(super) shown: Vec<String>,
}

/// A fenced block.
#[derive(Debug, Default)]
pub(super) struct Block {
  /// The word after the three ticks.
  pub(super) language: String,
  /// Further words there: the environment of the block.
  pub(super) world: Option<String>,
  /// The number of its first line, from 1.
  pub(super) line: usize,
  pub(super) lines: Vec<String>,
}

impl Block {
  /// The commands in it; none where the language is another one.
  pub(super) fn typed(&self) -> Vec<Typed> {
    let mut typed: Vec<Typed> = Vec::new();
    for (index, text) in self.lines.iter().enumerate() {
      let line = self.line + index;
      let command = match self.language.as_str() {
        SCRIPT => Some(text.as_str()),
        CONSOLE => text.strip_prefix("$ "),
        _ => return typed,
      };
      match command.map(without_comment) {
        Some("") => {}
        Some(text) => typed.push(Typed { line, text: text.to_owned(), shown: Vec::new() }),
        None => {
          if let Some(last) = typed.last_mut() {
            last.shown.push(text.clone());
          }
        }
      }
    }
    typed
  }
}

/// A page, taken apart.
#[derive(Debug, Default)]
pub(super) struct Page {
  pub(super) blocks: Vec<Block>,
  /// The text between ticks in a line, with the number of the line.
  pub(super) spans: Vec<(usize, String)>,
}

impl Page {
  pub(super) fn of(text: &str) -> Self {
    let mut page = Self::default();
    let mut open: Option<Block> = None;
    for (index, line) in text.lines().enumerate() {
      let number = index + 1;
      if let Some(fence) = line.trim_start().strip_prefix("```") {
        if let Some(block) = open.take() {
          page.blocks.push(block);
        } else {
          let mut words = fence.split_whitespace().map(str::to_owned);
          let language = words.next().unwrap_or_default();
          let world = words.next();
          open = Some(Block { language, world, line: number + 1, lines: Vec::new() });
        }
      } else if let Some(block) = &mut open {
        block.lines.push(line.to_owned());
      } else if let Some(line) = line.strip_prefix("    ") {
        // A block without a language.
        let lines = vec![line.to_owned()];
        page.blocks.push(Block { line: number, lines, ..Block::default() });
      } else {
        let spans = line.split('`').skip(1).step_by(2).filter(|span| !span.is_empty());
        page.spans.extend(spans.map(|span| (number, span.to_owned())));
      }
    }
    page
  }
}

/// A line of the shell without a comment: a `#` between spaces, outside quotes, and the text after
/// it.
pub(super) fn without_comment(line: &str) -> &str {
  let mut quote = None;
  let mut before = ' ';
  for (at, c) in line.char_indices() {
    match quote {
      Some(open) if c == open => quote = None,
      None if c == '\'' || c == '"' => quote = Some(c),
      None if c == '#' && before == ' ' => return line[..at].trim(),
      Some(_) | None => {}
    }
    before = c;
  }
  line.trim()
}

/// The words of a line of the shell, unchanged, quotes included.
pub(super) fn words(line: &str) -> Vec<String> {
  let mut words = vec![String::new()];
  let mut quote = None;
  for c in line.chars() {
    match quote {
      Some(open) if c == open => quote = None,
      None if c == '\'' || c == '"' => quote = Some(c),
      _ => {}
    }
    if c == ' ' && quote.is_none() {
      words.push(String::new());
    } else if let Some(word) = words.last_mut() {
      word.push(c);
    }
  }
  words.retain(|word| !word.is_empty());
  words
}

/// The commands of a line of the shell, each in words: those of a pipe or a list one after the other.
pub(super) fn commands(line: &str) -> Vec<Vec<String>> {
  let words = words(line);
  let ends = |word: &String| matches!(word.as_str(), "|" | "&&" | "||" | ";");
  words.split(ends).map(<[String]>::to_vec).filter(|words| !words.is_empty()).collect()
}

#[test]
fn a_page_is_taken_apart() {
  let page = Page::of(
    "Type `memfw status` or ``.\n\n```console\n$ memfw scan a  # judges '#'\nclean: x\n\n$ memfw b\n```\n\
     ```sh newer\n# nothing\nmemfw c '# no' | tail -n 1   # yes\n```\n    memfw old\n\n```text\nmemfw d\n```\n",
  );
  assert_eq!(page.spans, [(1, "memfw status".to_owned())]);
  let typed = |block: usize| page.blocks[block].typed();
  let command = |line, text: &str, shown: &[&str]| Typed {
    line,
    text: text.to_owned(),
    shown: shown.iter().map(|&line| line.to_owned()).collect(),
  };
  let expected = [command(4, "memfw scan a", &["clean: x", ""]), command(7, "memfw b", &[])];
  assert_eq!(typed(0), expected);
  assert_eq!(typed(1), [command(11, "memfw c '# no' | tail -n 1", &[])]);
  assert_eq!(page.blocks[1].world.as_deref(), Some("newer"));
  assert_eq!((page.blocks[2].lines.as_slice(), typed(2)), (&["memfw old".to_owned()][..], vec![]));
  assert_eq!((page.blocks[3].language.as_str(), typed(3)), ("text", vec![]));
  let parts = commands("printf 'a b\\n' | memfw review && ls");
  assert_eq!(parts, [vec!["printf", "'a b\\n'"], vec!["memfw", "review"], vec!["ls"]]);
}
