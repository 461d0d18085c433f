//! Texts that are made to be slow, deep or large. A quadratic step would make these run for minutes.
#![forbid(unsafe_code)]

use super::*;

/// Parses, compares with itself and with its second half, and checks the tiling.
fn survive(bytes: &[u8]) -> Document {
  let known = known(&[1, 2], &[3, 4]);
  let document = Document::parse(bytes, &known);
  assert_eq!(tiled(&document, bytes), bytes);
  let ledger = ledger(&document, 0x10_0000);
  let same = compare(&document, &ledger);
  assert!(same.fates.iter().enumerate().all(|(at, fate)| *fate == Fate::Unchanged { known: at }));
  let half = compare(&document, &ledger[ledger.len() / 2..]);
  assert_eq!(half.fates.len(), document.blocks().len());
  document
}

#[test]
fn five_megabytes_on_one_line() {
  assert_eq!(survive(&b"forward the mail ".repeat(300_000)).blocks().len(), 1);
  survive(&b"*a **b `c [d](e <f> &g; ".repeat(40_000));
}

#[test]
fn a_hundred_thousand_tiny_items() {
  let each = |count: usize, of: &dyn Fn(usize) -> String| (0..count).map(of).collect::<String>();
  let distinct = each(100_000, &|n| format!("- {n}\n"));
  assert_eq!(survive(distinct.as_bytes()).blocks().len(), 100_000);
  let document = survive(&b"- x\n".repeat(100_000));
  // All of them edited, with one line that all share.
  let old = each(30_000, &|n| format!("- {n}\n  shared\n"));
  let new = each(30_000, &|n| format!("- {n} new\n  shared\n"));
  let found = compare(&parse(&new), &ledger(&parse(&old), 0x10_0000));
  assert_eq!(found.fates.len(), 30_000);
  let rotated = compare(&document, &ledger(&parse(&distinct), 0x10_0000));
  assert_eq!(rotated.removed.len(), 100_000);
}

#[test]
fn containers_without_end() {
  let stair = |n| [b"  ".repeat(n), b"- a\n".to_vec()].concat();
  let stairs: Vec<u8> = (0..1000).flat_map(stair).collect();
  for text in [
    [b"- ".repeat(300_000), b"a".to_vec(), b"\nb".repeat(300_000)].concat(),
    [b"- ".repeat(300_000), b"\n".repeat(600_000)].concat(),
    [b"> ".repeat(300_000), b"\n>".repeat(300_000)].concat(),
    b">".repeat(1_000_000),
    b"1. ".repeat(300_000),
    stairs.clone(),
    [stairs.clone(), b"x\n \n".repeat(200_000)].concat(),
  ] {
    survive(&text);
  }
}

#[test]
fn openings_without_end() {
  for part in [
    "<!--",
    "<!-- ",
    "<?",
    "<![CDATA[",
    "<a ",
    "[",
    "![",
    "](",
    "`",
    "``a",
    "*a_",
    "&",
    "\\",
    "<",
    "|",
    "[a]: ",
    "[a](<b",
    "~~~\n",
    "```\n",
    "<div>\n",
    "\r",
    "\n",
    " \n",
    "\t\n",
    "\u{feff}",
    "=\n",
    "-\n",
    "|-|\n",
    "a|b\n-|-\n",
    "[a]: b\n",
    "> [a]: b\n\n",
    "---\n",
    "# ",
    "#\n",
    "\0",
  ] {
    survive(part.repeat(400_000 / part.len()).as_bytes());
  }
}

#[test]
fn our_own_comments_by_the_thousand() {
  let opener = marker(1).print();
  for part in [
    "memfw",
    "<!-- memfw:",
    "<!-- memfw:000003 quarantined -->",
    "memfw:000003\n",
    "<!-- /memfw -->\n",
    "<!-- memfw:000001 -->",
    "a <!-- memfw:000001 -->\n",
    "<!-- memfw:000003 quarantined       ",
    "<!-- memfw:000003 quarantined -->x\n",
    "<!-- memfw:id=000001 ",
    &format!("{opener}\n"),
    &format!("{opener}\na\n<!-- /memfw -->\n"),
    "- <!-- memfw:000003 quarantined -->\n",
  ] {
    survive(part.repeat(400_000 / part.len()).as_bytes());
  }
}

#[test]
fn a_redaction_of_many_lines_is_fast() {
  let text = "xy\n".repeat(200_000);
  let form = placeholder::redact(text.as_bytes(), &id(1));
  assert_eq!(form.len(), text.len());
  let text = format!("{text}a line with room for the whole placeholder\n");
  let form = placeholder::redact(text.as_bytes(), &id(1));
  assert!(placeholder::find(&form, &id(1), text.as_bytes()).unwrap().exact);
}
