//! The check of one file after the race: every confirmed block exactly once, in its place.
#![forbid(unsafe_code)]

use {
  super::{
    block::{HEADER, NEEDLE, is_poison, text},
    way::Way,
  },
  crate::support::marks,
  std::collections::{BTreeMap, BTreeSet},
};

/// The confirmed blocks of a file: their numbers, in order, for each hand.
pub(crate) type Confirmed = Vec<Vec<usize>>;

/// The errors, one line each.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Account {
  /// Confirmed blocks that are neither in the file nor in quarantine.
  pub(crate) lost: Vec<String>,
  /// Blocks that are there more than once.
  pub(crate) twice: Vec<String>,
  /// Bytes that are NUL.
  pub(crate) nul: usize,
  /// Poison that can be read in the file.
  pub(crate) raw: usize,
  /// Other errors: torn blocks, foreign lines, a changed order.
  pub(crate) odd: Vec<String>,
}

impl Account {
  /// Whether there is no error.
  pub(crate) fn is_clean(&self) -> bool {
    *self == Self::default()
  }

  pub(crate) fn add(&mut self, other: Self) {
    self.lost.extend(other.lost);
    self.twice.extend(other.twice);
    self.nul += other.nul;
    self.raw += other.raw;
    self.odd.extend(other.odd);
  }
}

/// Checks a file with the texts in quarantine that came from it, and those of them that were
/// approved.
pub(crate) fn account(
  way: Way,
  confirmed: &Confirmed,
  file: &[u8],
  sealed: &[String],
  approved: &BTreeSet<usize>,
) -> Account {
  let mut account = Account::default();
  let texts: BTreeMap<usize, String> =
    confirmed.iter().flatten().map(|&n| (n, text(way, n))).collect();
  let (places, placeholders) = read(file, &texts, &mut account);
  let mut held: BTreeMap<usize, usize> = BTreeMap::new();
  for item in sealed {
    match texts.iter().find(|(n, text)| is_poison(**n) && *text == item) {
      Some((&n, _)) => *held.entry(n).or_default() += 1,
      None => account.odd.push(format!("in quarantine: {item:?}")),
    }
  }
  for &n in texts.keys() {
    let in_file = places.get(&n).map_or(0, Vec::len);
    let in_quarantine = held.get(&n).copied().unwrap_or(0);
    let belongs_there = !is_poison(n) || approved.contains(&n);
    let (wanted, what) =
      if belongs_there { (in_file, "the file") } else { (in_quarantine, "quarantine") };
    match wanted {
      0 => account.lost.push(format!("block {n} is not in {what}")),
      1 => {}
      times => account.twice.push(format!("block {n} is {times} times in {what}")),
    }
    if in_quarantine > 1 && belongs_there {
      account.twice.push(format!("block {n} is {in_quarantine} times in quarantine"));
    }
  }
  account.nul = marks::count(file, b"\0");
  account.raw = marks::count(file, NEEDLE).saturating_sub(approved.len());
  let n_out = texts.keys().filter(|n| is_poison(**n) && !approved.contains(n)).count();
  if placeholders != n_out {
    account.odd.push(format!("{placeholders} placeholders for {n_out} blocks"));
  }
  for hand in confirmed {
    let at: Vec<usize> = hand.iter().filter_map(|n| places.get(n)?.first().copied()).collect();
    let in_order =
      if way == Way::Prepend { at.is_sorted_by(|one, next| one > next) } else { at.is_sorted() };
    if !in_order {
      account.odd.push("the blocks have another order".to_owned());
    }
  }
  account
}

/// The places of the blocks in a file without its markers, and the number of placeholders. Other
/// lines must be blank: blank lines remain of a longer block in quarantine.
fn read(
  file: &[u8],
  texts: &BTreeMap<usize, String>,
  account: &mut Account,
) -> (BTreeMap<usize, Vec<usize>>, usize) {
  let first_lines: BTreeMap<&[u8], (usize, &str)> = texts
    .iter()
    .map(|(n, text)| (text.split_inclusive('\n').next().unwrap().as_bytes(), (*n, text.as_str())))
    .collect();
  let bare = marks::strip(file);
  let mut places: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
  let mut placeholders = 0;
  let mut header = HEADER.split_inclusive('\n').peekable();
  let mut at = 0;
  while at < bare.len() {
    let rest = &bare[at..];
    let end = rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |end| end + 1);
    let line = &rest[..end];
    let mut length = line.len();
    if header.next_if(|next| next.as_bytes() == line).is_some() {
      // An unchanged block.
    } else if let Some((n, text)) = first_lines.get(line)
      && rest.starts_with(text.as_bytes())
    {
      places.entry(*n).or_default().push(at);
      length = text.len();
    } else if marks::placeholders(line) == 1 && !line.starts_with(b"- ") {
      placeholders += 1;
    } else if !line.trim_ascii().is_empty() {
      account.odd.push(format!("in the file: `{}`", line.escape_ascii()));
    }
    at += length;
  }
  if let Some(missing) = header.next() {
    account.odd.push(format!("the header lacks {missing:?}"));
  }
  (places, placeholders)
}

#[cfg(test)]
mod tests {
  use super::*;

  const WAY: Way = Way::Append;

  /// A file with these blocks in it, one of them out.
  fn file(blocks: &[usize]) -> String {
    let mut file = HEADER.to_owned();
    for &n in blocks {
      if is_poison(n) {
        file.push_str("<!-- memfw:a1b2c3 quarantined -->\n");
      } else {
        file.push_str(&text(WAY, n));
      }
    }
    file
  }

  fn of(confirmed: &[usize], file: &str, sealed: &[usize]) -> Account {
    let sealed: Vec<String> = sealed.iter().map(|&n| text(WAY, n)).collect();
    account(WAY, &vec![confirmed.to_vec()], file.as_bytes(), &sealed, &BTreeSet::new())
  }

  #[test]
  fn what_is_right_is_right() {
    let found = of(&[1, 2, 3], &file(&[1, 2, 3]), &[3]);
    assert!(found.is_clean(), "{found:?}");
  }

  #[test]
  fn each_fault_is_seen() {
    assert_eq!(of(&[1, 2], &file(&[2]), &[]).lost.len(), 1);
    assert_eq!(of(&[1, 3], &file(&[1, 3]), &[]).lost.len(), 1);
    assert_eq!(of(&[1, 2], &file(&[1, 2, 2]), &[]).twice.len(), 1);
    assert_eq!(of(&[1, 3], &file(&[1, 3]), &[3, 3]).twice.len(), 1);
    let raw = format!("{}{}", file(&[1]), text(WAY, 3));
    assert_eq!(of(&[1, 3], &raw, &[3]).raw, 1);
    assert_eq!(of(&[1], &format!("{}\0\0", file(&[1])), &[]).nul, 2);
    // Torn, unknown, in another order, without its second line, without the header.
    let torn = file(&[1, 2]).replace("note 0002", "note <!--2");
    assert!(!of(&[1, 2], &torn, &[]).lost.is_empty());
    assert!(!of(&[1], &file(&[1, 2]), &[]).odd.is_empty());
    assert!(!of(&[1, 2], &file(&[2, 1]), &[]).odd.is_empty());
    assert!(!of(&[1], &file(&[1]).replace("  She said so on day 1.\n", ""), &[]).lost.is_empty());
    assert!(!of(&[1], &text(WAY, 1), &[]).odd.is_empty());
    assert!(!of(&[1, 3], &file(&[1]), &[3]).odd.is_empty());
    assert!(!of(&[1], &file(&[1]), &[3]).odd.is_empty());
  }
}
