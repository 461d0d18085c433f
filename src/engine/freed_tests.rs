//! Text that was seen in an HTML comment alone, and is freed from it.
#![forbid(unsafe_code)]

use super::testing::{OVERRIDE, World};
use crate::{
  config::{Config, Markers},
  store::ItemFilter,
};

/// A guarded file from before memfw.
fn adopted(text: &str) -> World {
  let mut world = World::new(Config { markers: Markers::None, ..Config::default() });
  world.adopt(text);
  assert_eq!(world.read(), text, "a first scan changes nothing");
  world
}

#[test]
fn text_that_is_freed_from_a_comment_is_judged_as_new() {
  let poison = OVERRIDE.trim_end();
  let words = poison.trim_start_matches("- ");
  for (before, after) in [
    // Both ends of the comment are removed, or one of them.
    (format!("# M\n\n<!--\n{poison}\n-->\n\n- tea\n"), format!("# M\n\n{poison}\n\n- tea\n")),
    (format!("# M\n\n<!--\n\n{poison}\n\n- a cat\n"), format!("# M\n\n\n{poison}\n\n- a cat\n")),
    (format!("# M\n\n<!-- old:\n{poison}\n-->\n"), format!("# M\n\n{poison}\n-->\n")),
    (format!("# M\n\nold <!--\n{words}\n-->\n"), format!("# M\n\nold\n{words}\n")),
    // The end comes before the text.
    (
      format!("# M\n\n<!-- old:\n\n{poison}\n-->\n"),
      format!("# M\n\n<!-- old: -->\n\n{poison}\n-->\n"),
    ),
    (format!("# M\n\n- a\n  <!--\n  {poison}\n  -->\n"), format!("# M\n\n- a\n  {poison}\n")),
  ] {
    let mut world = adopted(&before);
    world.write(&after);
    world.pass();
    assert!(!world.read().contains(words), "{before}\n{after}\n{}", world.read());
    let items = world.engine.ledger().items(&ItemFilter::waiting()).unwrap();
    assert_eq!(items.len(), 1, "{before}");
    assert_eq!(items[0].source.as_str(), "unknown", "the program that freed it wrote it");
  }
}

#[test]
fn a_comment_that_moves_or_grows_stays_known() {
  let comment = format!("<!--\nold notes\n{OVERRIDE}-->\n");
  let mut world = adopted(&format!("# M\n\n{comment}\n- tea\n"));
  for text in [
    format!("# M\n\n- tea\n\n{comment}"),
    format!("# M\n\n- tea\n\n{}", comment.replace("old notes\n", "old notes\nand newer ones\n")),
  ] {
    world.write(&text);
    world.pass();
    assert_eq!(world.read(), text);
  }
}

#[test]
fn text_that_was_judged_before_a_comment_hid_it_is_not_new_afterwards() {
  let text = "# M\n\n- tea\n\n- a cat\n";
  let mut world = adopted(text);
  for (text, sources) in
    [("# M\n\n<!--\n- tea\n\n- a cat\n", 1), ("# M\n\n<!--\n- tea\n\n- a cat\n-->\n", 1), (text, 2)]
  {
    world.write(text);
    world.pass();
    let lines = world.blocks().into_iter().flat_map(|row| {
      let said = row.lines.clone();
      said.into_iter().filter_map(move |line| row.revision(line.revision).cloned())
    });
    let known = lines.filter(|revision| revision.source.is_baseline()).count();
    assert!(known >= 2, "{text}: {known}");
    assert!(world.blocks().len() >= sources);
  }
  assert_eq!(world.sources(), ["baseline verified"; 2]);
}
