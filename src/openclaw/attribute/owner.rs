//! Whether the owner said a text: whole sentences, word for word except for words that change
//! nothing.
//!
//! Shared words alone would attribute a text to the owner too easily: a page can have the agent
//! leave out a "never", swap two names, drop a condition, or write "below" for "above", and every
//! other word is the owner's. So sentence is compared with sentence. A wrong "no" withholds a text
//! from the owner; a wrong "yes" could attribute the text of a page to the owner.
#![forbid(unsafe_code)]

use super::{
  governed::{MessageSentence, sentences_of},
  material::{Material, Role},
  sentence::Sentence,
  turns::Context,
};

/// Most sentences of the owner's that are compared, the latest; of a longer text none is the owner's.
const MAX_SAID: usize = 128;
const MAX_SENTENCES: usize = 32;
/// How many sentences may be joined to one in the text, or in the owner's message.
const MAX_JOINED: usize = 4;

/// Whether every sentence of `text` is one of the owner's, or of the task that was handed over.
pub(super) fn has_said(text: &str, context: &Context<'_>) -> bool {
  let of_turn = |role| context.materials.iter().any(|one| one.in_turn && one.role == role);
  let is_clean = !context.is_marked && !of_turn(Role::Foreign);
  let text = sentences_of(text);
  let given = sentences_of(&context.given);
  if text.is_empty() || text.len() > MAX_SENTENCES {
    return false;
  }
  let mut said: Vec<Vec<MessageSentence>> = Vec::new();
  let mut n_said = 0;
  for (role, message) in messages(context) {
    let mut message = sentences_of(&message);
    if role == Role::Task {
      for one in &mut message {
        one.asks = false;
      }
    }
    n_said += message.len();
    if n_said > MAX_SAID {
      break;
    }
    // Without the sentence that takes something back, no part of the message is what the owner
    // said.
    let is_whole = |one: &MessageSentence| !one.revokes || repeats_any(&text, one, is_clean);
    said.extend(message.iter().all(is_whole).then_some(message));
  }
  // Up to which sentence all before it are found.
  let mut reached = vec![false; text.len() + 1];
  if let Some(first) = reached.first_mut() {
    *first = true;
  }
  for start in 0..text.len() {
    if reached.get(start) != Some(&true) {
      continue;
    }
    for n in 1..=MAX_JOINED.min(text.len() - start) {
      if is_among(&text, start, n, &said, &given, is_clean)
        && let Some(end) = reached.get_mut(start + n)
      {
        *end = true;
      }
    }
  }
  reached.last() == Some(&true)
}

/// What the owner said and the tasks that were handed over, the latest first; the pieces of one message that
/// something else parts are one.
fn messages(context: &Context<'_>) -> Vec<(Role, String)> {
  // An order of an earlier turn was noted then, or was not meant to be; while the turn holds a page
  // it could be any.
  let is_foreign = |one: &Material<'_>| one.in_turn && one.role == Role::Foreign && one.taints;
  let has_foreign = !context.was_there && context.materials.iter().any(is_foreign);
  let own = context
    .materials
    .iter()
    .filter(|one| matches!(one.role, Role::Owner | Role::Task) && (one.in_turn || !has_foreign));
  let mut found: Vec<(i64, Role, String)> = Vec::new();
  for one in own {
    match found.last_mut().filter(|(at, role, _)| (*at, *role) == (one.at, one.role)) {
      Some((.., text)) => {
        text.push_str("\n\n");
        text.push_str(&one.text);
      }
      None => found.push((one.at, one.role, one.text.to_string())),
    }
  }
  found.into_iter().rev().map(|(_, role, text)| (role, text)).collect()
}

/// Whether the text has a sentence of the owner's.
fn repeats_any(text: &[MessageSentence], said: &MessageSentence, is_clean: bool) -> bool {
  (0..text.len()).any(|start| {
    (1..=MAX_JOINED.min(text.len() - start)).any(|n| {
      joined(text, start, n).is_some_and(|part| is_same(&part, &said.sentence, None, is_clean))
    })
  })
}

fn joined(all: &[MessageSentence], start: usize, n: usize) -> Option<Sentence> {
  let sentences = all.get(start..start + n)?.iter().map(|one| &one.sentence);
  Some(Sentence::joined(sentences))
}

/// Whether `n` sentences of the text are one of these, or several of them that follow one another,
/// and are below the same introducing line as before.
fn is_among(
  text: &[MessageSentence],
  start: usize,
  n: usize,
  said: &[Vec<MessageSentence>],
  given: &[MessageSentence],
  is_clean: bool,
) -> bool {
  let Some(part) = joined(text, start, n) else { return false };
  said.iter().any(|all| {
    (0..all.len()).any(|first| {
      (1..=MAX_JOINED.min(all.len() - first)).any(|n_said| {
        let window = all.get(first..first + n_said).unwrap_or_default();
        // The sentence behind a question does not continue the one before it. "Search my mail every Friday" is an
        // order nevertheless where the text has every word of it.
        let asks = window.iter().any(|one| one.asks);
        if window.iter().any(|one| one.is_question) || asks && window.len() > 1 {
          return false;
        }
        let before = first.checked_sub(1).and_then(|before| all.get(before));
        let before = before.filter(|before| !before.asks).map(|before| &before.sentence);
        let is_said = |said: Sentence| {
          is_same(&part, &said, before, is_clean) && (!asks || part.len() == said.len())
        };
        joined(all, first, n_said).is_some_and(is_said)
          && is_introduced(text, start, given, all, first..first + n_said)
      })
    })
  })
}

/// Whether the text has the line below which the owner said it, and no other one. The heading may be above
/// the text in what was `given` to the call.
fn is_introduced(
  text: &[MessageSentence],
  start: usize,
  given: &[MessageSentence],
  all: &[MessageSentence],
  said: std::ops::Range<usize>,
) -> bool {
  let of_text = text.get(start).and_then(|one| text.get(one.intro?));
  let of_text = of_text.filter(|intro| !intro.says_nothing());
  said.clone().all(|at| {
    let intro = all.get(at).and_then(|one| one.intro).filter(|intro| !said.contains(intro));
    match (intro.and_then(|intro| all.get(intro)), of_text) {
      (Some(intro), Some(of_text)) => of_text.sentence.repeats(&intro.sentence),
      (Some(intro), None) => {
        intro.says_nothing() || text.get(start).is_some_and(|one| one.is_below(intro, given))
      }
      (None, of_text) => of_text.is_none(),
    }
  })
}

/// Whether two sentences have one meaning. Where the owner's sentence has a pronoun, the text may
/// have the name from the sentence `before` it instead.
fn is_same(text: &Sentence, said: &Sentence, before: Option<&Sentence>, is_clean: bool) -> bool {
  let named = before.map(|before| said.with_names_of(before)).unwrap_or_default();
  // Of two names a page could choose the wrong one.
  let named = named.iter().filter(|_| is_clean || named.len() == 1);
  let reworded = said.reworded().filter(|_| is_clean);
  std::iter::once(said).chain(named).chain(&reworded).any(|said| text.repeats(said))
}

#[cfg(test)]
mod tests {
  use proptest::prelude::*;

  use super::*;
  use crate::{openclaw::attribute::material::SessionStart, provenance::Source};

  /// Whether the owner said it in a turn that also held a page.
  fn said(text: &str, owner: &str) -> bool {
    said_in_turn(text, owner, true)
  }

  fn said_in_turn(text: &str, owner: &str, is_marked: bool) -> bool {
    let words = Material::new(Source::new("user:owner"), Role::Owner, owner, 0);
    let context = Context {
      materials: vec![words],
      is_marked,
      origin: SessionStart::Person,
      is_background: false,
      given: String::new(),
      was_there: false,
    };
    has_said(text, &context)
  }

  #[test]
  fn whole_sentences_are_the_owners_in_other_function_words() {
    for (text, owner) in [
      (
        "- Ann likes the window seat on night trains.",
        "Remember that Ann likes the window seat on night trains.",
      ),
      (
        "- Dentist: Linden Street 4, 3 December at 09:30.",
        "My dentist is in Linden Street 4, on 3 December at 09:30.",
      ),
      (
        "- Never send the deploy key to Orion.",
        "Please remember: never send the deploy key to Orion.",
      ),
      (
        "- Marta prefers review requests before noon.",
        "Marta hands over on 30 November. She prefers review requests before noon.",
      ),
      ("- 牙医预约在十二月三日上午九点半。", "记住：我的牙医预约在十二月三日上午九点半。"),
    ] {
      assert!(said(text, owner), "{text}");
    }
  }

  #[test]
  fn what_turns_the_meaning_round_is_not_the_owners() {
    for (text, owner) in [
      ("- Send the deploy key to Orion.", "Please remember: never send the deploy key to Orion."),
      ("- Send the deploy key to Orion.", "Please don't send the deploy key to Orion."),
      ("- Never send the deploy key to Orion.", "Send the deploy key to Orion."),
      (
        "- Lars approves the payments of Halden, Marta approves the payments of Orion.",
        "Marta approves the payments of Halden, Lars approves the payments of Orion.",
      ),
      ("- Bob pays Anna.", "Anna pays Bob."),
      (
        "- Send the deploy key to Orion.",
        "Send the deploy key to Orion only if Marta has approved it.",
      ),
      (
        "- Send the deploy key to Orion.",
        "Send the deploy key to Orion unless Friday is a holiday.",
      ),
      ("- Pay 30 euros to Orion.", "Pay 30 euros to Orion within 14 days."),
      (
        "- Invoices payment account: see notes today.",
        "yes, invoices, account and payment notes are fine, note these today",
      ),
      ("- Send it to Orion and pay Halden.", "Send it to Orion. Ann likes tea."),
      ("- 发送密钥给张伟。", "不要发送密钥给张伟。"),
    ] {
      assert!(!said(text, owner), "{text}");
    }
  }

  #[test]
  fn words_that_look_like_function_words_are_compared() {
    for (text, owner) in [
      ("Payments are blocked below 500.", "Payments are blocked above 500."),
      (
        "The invoices are paid to the wrong account.",
        "The invoices were paid to the wrong account.",
      ),
      ("Marta must approve payments.", "Marta may approve payments."),
      ("Send your key to Orion.", "Send my key to Orion."),
      ("Pay the latter.", "Pay the former."),
      ("Pay any invoice of Halden.", "Pay the first invoice of Halden."),
      ("Pay Halden or Orion.", "Pay Halden and Orion."),
      ("Pay Orion within 14 days.", "Pay Orion after 14 days."),
      ("Marta approved.", "Marta is approved."),
      ("Marta is approved.", "Marta approved."),
      ("Send 500 $ to Orion.", "Send 500 € to Orion."),
      ("Pay 15 to Orion.", "Pay 1.5 to Orion."),
      ("The limit is 5 degrees.", "The limit is -5 degrees."),
      ("Internet access is for staff.", "Internal access is for staff."),
      ("Pay the payee.", "Pay the payer."),
      ("An Orion zahlt Halden.", "Orion zahlt an Halden."),
      ("Den Hund beißt der Mann.", "Der Hund beißt den Mann."),
      ("Ana pago a Orion.", "Ana pagó a Orion."),
      ("A Ana paga Orion.", "Ana paga a Orion."),
      ("付款超过五百元。", "付款低于五百元。"),
      ("Lars prefers mail.", "Marta met Lars. She prefers mail."),
    ] {
      assert!(!said(text, owner), "{text}");
      assert!(said(owner, owner) && said(&format!("- {owner}"), &format!("Remember: {owner}")));
    }
  }

  #[test]
  fn sentences_and_their_parts_end_where_the_owner_ended_them() {
    for (text, owner) in [
      (
        "Ask before you pay. Orion, Halden can be paid without asking.",
        "Ask before you pay Orion. Halden can be paid without asking.",
      ),
      (
        "Ask before you pay; Orion, Halden can be paid without asking.",
        "Ask before you pay Orion; Halden can be paid without asking.",
      ),
      ("Pay Halden not, Orion.", "Pay Halden, not Orion."),
      ("Don't: pay Orion.", "Don't pay Orion."),
      ("Ask Marta, if she agrees. Pay Orion.", "Ask Marta. If she agrees, pay Orion."),
      ("Pay Halden not—Orion.", "Pay Halden—not Orion."),
      ("Pay Halden (not) Orion.", "Pay Halden (not Orion)."),
      ("Pay Halden not - Orion.", "Pay Halden - not Orion."),
      ("Pay the, Orion invoices.", "Pay the Orion invoices."),
      ("Never pay Orion gets 500.", "Never pay.\nOrion gets 500."),
    ] {
      assert!(!said_in_turn(text, owner, false), "{text}");
    }
    let owner = "Marta approves the payments. Lars approves nothing!";
    for text in [
      "- Marta approves payments; Lars approves nothing.",
      "- Marta approves the payments\n- Lars approves nothing",
    ] {
      assert!(said(text, owner), "{text}");
    }
  }

  #[test]
  fn a_question_is_between_what_is_before_and_behind_it() {
    for (text, owner) in [
      (
        "Marta approves the payments.",
        "Marta left the house. What about Lars? He approves the payments.",
      ),
      ("Ask Lars; pay Orion.", "Ask Lars. What does Eve say? Pay Orion."),
      // The pronoun refers to another person.
      ("Lars stays. Marta approves.", "Marta left. Lars stays. He approves."),
      ("Lars stays and Marta approves.", "Marta left. Lars stays and he approves."),
    ] {
      assert!(!said_in_turn(text, owner, false), "{text}");
    }
    assert!(said("Marta approves.", "Who is in? Marta left. She approves."));
  }

  #[test]
  fn a_sign_before_a_number_belongs_to_it() {
    for (text, owner) in [
      ("Pay 5 BTC to Halden.", "Pay .5 BTC to Halden."),
      ("Pay 5 BTC to Halden.", "Pay ,5 BTC to Halden."),
      ("The safe limit is 5 degrees.", "The safe limit is –5 degrees."),
      ("The safe limit is 5 degrees.", "The safe limit is —5 degrees."),
      ("The safe limit is 5 degrees.", "The safe limit is (-5) degrees."),
      ("The safe limit is 5 degrees.", "The safe limit is - 5 degrees."),
      ("The safe limit: 5 degrees.", "The safe limit is – 5 degrees."),
      ("The limit is 5 10 euros.", "The limit is 5–10 euros."),
      ("The limit is 5001 euros.", "The limit is 500¹ euros."),
      ("The limit is 500¹ euros.", "The limit is 5001 euros."),
      ("The limit is 5001 euros.", "The limit is 500① euros."),
    ] {
      assert!(!said_in_turn(text, owner, false), "{text} / {owner}");
      assert!(said(owner, owner), "{owner}");
    }
    assert!(said("The limit: -5 degrees.", "The limit is –5 degrees."));
    assert!(said("The limit is 500 euros.", "The limit is ５００ euros."));
  }

  #[test]
  fn words_that_may_be_pronouns_or_join_two_others_stay() {
    for (text, owner) in [
      ("Ana paga.", "Ana los paga."),
      ("Ana paga.", "Ana la paga."),
      ("Paul paie.", "Paul les paie."),
      ("Marta, Lars zahlt.", "Marta, die Lars zahlt."),
      ("Marta zahlt.", "Marta zahlt das."),
      ("Marta zahlt.", "Marta zahlt eine."),
      ("Lars Marta betalen.", "Lars en Marta betalen."),
      ("Let Marta.", "Let in Marta."),
      ("Zapłać 500.", "Zapłać im 500."),
      ("张伟不付款。", "张伟不在付款。"),
    ] {
      assert!(!said_in_turn(text, owner, false), "{text}");
    }
  }

  #[test]
  fn where_the_turn_was_clean_a_shift_may_be_described_in_other_words() {
    let owner =
      "From 1 December Jonas takes over the payments on-call; Marta hands over on 30 November.";
    let text = "- Jonas is on call for payments from 1 December; Marta hands over on 30 November.";
    assert!(said_in_turn(text, owner, false) && !said(text, owner));
    for (text, owner) in [
      ("Jonas is on call until 1 December.", "Jonas is on call from 1 December."),
      ("On 3 May Lars pays Marta.", "Marta pays Lars on 3 May."),
      ("Never pay Lars, pay Marta.", "Never pay Lars, never pay Marta."),
      ("张伟付李娜。", "李娜付张伟。"),
      (
        "Marta must not approve payments and the intern must approve payments.",
        "Marta must approve payments and the intern must not approve payments.",
      ),
      ("Always pay Halden and never pay Orion.", "Never pay Halden and always pay Orion."),
      (
        "Ask below the limit and pay invoices above it at once.",
        "Pay invoices below the limit at once and ask above it.",
      ),
      ("The landlord pays the tenant.", "The tenant pays the landlord."),
      (
        "Jonas is on call for payments from 1 December until Marta agrees.",
        "From 1 December Jonas takes over the payments on-call unless Marta agrees.",
      ),
    ] {
      assert!(!said_in_turn(text, owner, false), "{text}");
    }
  }

  /// Sentences without a word that may go.
  const SAID: &[&str] = &[
    "never send more than 500 euros from Halden to Orion before Marta approves",
    "invoices above 500 must wait until both partners signed unless Friday is near",
    "contractors may see all but write none without approval by Lars",
    "Rechnungen über 500 Euro zahlt Marta nur nach Freigabe durch Lars",
    "Marta paga todas facturas de Halden antes de marzo salvo estas",
    "созвон с Олегом перенесли на вторник до обеда",
  ];

  #[rustfmt::skip]
  const OTHERS: &[&str] = &[
    "above", "below", "over", "under", "more", "less", "before", "after", "until", "from", "to", "with",
    "without", "least", "most", "up", "down", "in", "out", "on", "off", "all", "none", "any", "only",
    "first", "last", "former", "latter", "same", "other", "my", "your", "their", "is", "was", "were", "will",
    "may", "can", "must", "some", "every", "unless", "if", "and", "or", "not", "never", "also", "Orion",
    "Eve", "7", "invoice", "unter", "vor", "ohne", "alle", "mit", "desde", "hasta", "con", "sin", "после",
    "без", "не",
  ];

  proptest! {
    #[test]
    fn one_other_word_is_not_the_owners(at in 0..SAID.len(), which in 0..99usize, other in 0..OTHERS.len()) {
      let mut words: Vec<&str> = SAID[at].split(' ').collect();
      let place = which % words.len();
      prop_assume!(words[place] != OTHERS[other]);
      words[place] = OTHERS[other];
      for is_marked in [true, false] {
        prop_assert!(!said_in_turn(&words.join(" "), SAID[at], is_marked), "{words:?}");
      }
    }

    #[test]
    fn a_word_less_is_not_the_owners(at in 0..SAID.len(), which in 0..99usize) {
      let mut words: Vec<&str> = SAID[at].split(' ').collect();
      words.remove(which % words.len());
      prop_assert!(!said(&words.join(" "), SAID[at]), "{words:?}");
    }

    #[test]
    fn articles_and_politeness_come_and_go(at in 0..3usize, which in 0..99usize, other in 0..2usize) {
      let mut words: Vec<&str> = SAID[at].split(' ').collect();
      words.insert(which % words.len(), ["the", "please"][other]);
      let more = words.join(" ");
      prop_assert!(said(&more, SAID[at]) && said(SAID[at], &more), "{words:?}");
    }
  }
}
