//! What is a block: tables of texts.
#![forbid(unsafe_code)]

use super::*;

fn check(text: &str, blocks: &[&str]) {
  let document = parse(text);
  assert_eq!(texts(&document, text.as_bytes()), blocks, "{text:?}");
  assert_eq!(tiled(&document, text.as_bytes()), text.as_bytes());
}

#[test]
fn blocks_of_all_kinds() {
  for (text, blocks) in [
    ("", &[][..]),
    ("\n \n\t\n", &[]),
    ("a\nb\n\n\nc", &["a\nb\n", "c"]),
    ("- a\n- b\n\n  c\n  - d\n\n- e\n", &["- a\n", "- b\n\n  c\n  - d\n", "- e\n"]),
    ("* a\nlazy\n+ b\n", &["* a\nlazy\n", "+ b\n"]),
    ("1. a\n2. b\n   1. c\n3) d\n", &["1. a\n", "2. b\n   1. c\n", "3) d\n"]),
    ("-\ta\n\n\tb\n-\tc\n", &["-\ta\n\n\tb\n", "-\tc\n"]),
    ("| a |\n|---|\n| 1 |\n\n| b |\n|---|\n", &["| a |\n|---|\n| 1 |\n", "| b |\n|---|\n"]),
    ("> a\nlazy\n>\n> b\n\n> c\n", &["> a\nlazy\n>\n> b\n", "> c\n"]),
    ("```x\na\n\nb\n```\nc\n", &["```x\na\n\nb\n```\n", "c\n"]),
    ("    a\n\n    b\n\nc\n", &["    a\n\n    b\n", "c\n"]),
    ("a\n***\nb\n", &["a\n", "***\n", "b\n"]),
    ("[a]: /b\n[c]: /d\n\ne\n", &["[a]: /b\n[c]: /d\n", "e\n"]),
    ("[a]: /b\ntext\n", &["[a]: /b\n", "text\n"]),
    ("<div>\na\n\nb\n</div>\n", &["<div>\na\n", "b\n", "</div>\n"]),
    ("<!-- a\n\nb -->\nc\n", &["<!-- a\n\nb -->\n", "c\n"]),
    ("<script>\na\n\nb\n</script>\nc\n", &["<script>\na\n\nb\n</script>\n", "c\n"]),
    ("<?a\n\nb?>\nc\n", &["<?a\n\nb?>\n", "c\n"]),
    ("<!A\nb>\nc\n", &["<!A\nb>\n", "c\n"]),
    ("<![CDATA[a\n\n]]>\nc\n", &["<![CDATA[a\n\n]]>\n", "c\n"]),
    ("<x-y>\na\n\nc\n", &["<x-y>\na\n", "c\n"]),
    ("text\n<x-y>\n", &["text\n<x-y>\n"]),
    ("a\0b\n\nc\n", &["a\0b\n", "c\n"]),
  ] {
    check(text, blocks);
    // The same with other line ends and without the last one.
    let crlf = text.replace('\n', "\r\n");
    let blocks_crlf: Vec<String> = blocks.iter().map(|block| block.replace('\n', "\r\n")).collect();
    check(&crlf, &blocks_crlf.iter().map(String::as_str).collect::<Vec<_>>());
    if let (Some(bare), false) = (text.strip_suffix('\n'), blocks.is_empty()) {
      let last = blocks.last().unwrap().strip_suffix('\n').unwrap();
      let blocks: Vec<&str> = blocks[..blocks.len() - 1].iter().copied().chain([last]).collect();
      check(bare, &blocks);
    }
  }
}

#[test]
fn headings_join_what_follows() {
  check("# A\n\n## B\n- c\n- d\n# E\n", &["# A\n\n## B\n- c\n", "- d\n", "# E\n"]);
  check("A\n=\nb\n\nC\n-\n\n\n", &["A\n=\nb\n", "C\n-\n"]);
  check("# A\n\n[a]: /b\n\nc\n", &["# A\n\n[a]: /b\n", "c\n"]);
  let document = parse("# A\n\n## B\n- c\n");
  assert_eq!(document.blocks()[0].kind, BlockKind::Item);
  assert_eq!(document.blocks()[0].body, 3);
}

#[test]
fn front_matter_is_a_block_of_its_own() {
  check("---\ntags: [a]\n\nb: c\n---\n# A\nb\n", &["---\ntags: [a]\n\nb: c\n---\n", "# A\nb\n"]);
  check("---\na: b\n...\n\nc\n", &["---\na: b\n...\n", "c\n"]);
  check("---\na\n", &["---\n", "a\n"]);
  check("\n---\na\n---\n", &["---\n", "a\n---\n"]);
  assert_eq!(parse("---\na: b\n---\n").blocks()[0].kind, BlockKind::FrontMatter);
}

#[test]
fn a_byte_order_mark_stands_alone() {
  let text = "\u{feff}---\na: b\n---\n# c\n";
  let document = parse(text);
  assert_eq!(document.segments()[0], Segment { kind: SegmentKind::Bom, span: 0..3 });
  assert_eq!(document.blocks()[0].kind, BlockKind::FrontMatter);
  assert_eq!(tiled(&document, text.as_bytes()), text.as_bytes());
  assert_eq!(parse("\u{feff}").segments().len(), 1);
}

#[test]
fn invalid_bytes_keep_their_offsets() {
  let bytes = b"- a\xff\xfe b\n- \xe2\x82 c\n\n\x80\n";
  let document = parse(bytes);
  assert!(!document.is_utf8());
  assert_eq!(tiled(&document, bytes), bytes);
  let parts: Vec<_> = document.blocks().iter().map(|block| block.parts.clone()).collect();
  assert_eq!(parts, vec![vec![0..8], vec![8..15], vec![16..18]]);
  assert_eq!(document.blocks()[0].hash, ContentHash::of(b"- a\xff\xfe b\n"));
}

#[test]
fn hashes_and_lines() {
  let document = parse("x\n\n# A\r\nb\r\n\r\n- c");
  let [first, second, third] = document.blocks() else { panic!("three blocks") };
  assert_eq!(second.hash, ContentHash::of(b"# A\r\nb\r\n"));
  assert_eq!(second.norm_hash, ContentHash::of(b"# A\nb"));
  assert_eq!((second.start_line, second.end_line), (3, 4));
  assert_eq!((third.start_line, third.end_line), (6, 6));
  assert!(second.terminated && !third.terminated);
  assert_eq!(third.hash, third.norm_hash);
  assert_eq!(first.norm_hash, ContentHash::of(b"x"));
  let line = |text: &[u8]| LineHash::of_digest(&ContentHash::of(text).0);
  assert_eq!(first.lines[0].hash, line(b"x"));
  assert_eq!(second.lines[0].hash, line(b"# A"));
  assert_eq!(second.lines[1].hash, line(b"b"));
  assert_eq!(third.lines[0].hash, line(b"- c"));
  assert_eq!(parse("a\rb\r").blocks()[0].norm_hash, parse("a\r\nb").blocks()[0].norm_hash);
}

#[test]
fn open_ends_are_marked() {
  for (text, open) in [
    ("```\na\n", true),
    ("```\na\n```\n", false),
    ("<!-- a\n", true),
    ("<!-- a -->\n", false),
    ("<div>\n", true),
    ("a\n", false),
    ("- ```\n  a\n", false),
    ("> <!-- a\n", false),
    ("# H\n```\na\n", true),
  ] {
    assert_eq!(parse(text).blocks()[0].open_ended, open, "{text:?}");
  }
}
