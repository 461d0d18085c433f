//! Which sentences of the owner's tell something, and which send the agent to look something up.
//!
//! "Check whether contractors may read the folder" has every word of the answer that a page gives,
//! and none of its meaning. While the turn holds foreign text, such a sentence explains nothing. A
//! word too many in these lists withholds a text from the owner; a missing word could attribute the
//! text of a page to the owner.
#![forbid(unsafe_code)]

use crate::provenance::words::{for_each_word, sentences};

/// Sentences that tell something.
pub(super) fn statements(text: &str) -> impl Iterator<Item = &str> {
  sentences(text).into_iter().filter(|sentence| !asks(sentence))
}

/// Whether a sentence is a question, by its mark.
pub(super) fn is_question(sentence: &str) -> bool {
  sentence.contains(['?', '？', '؟']) || (sentence.contains(';') && is_greek(sentence))
}

/// Whether a sentence asks, or sends to a page.
pub(super) fn asks(sentence: &str) -> bool {
  let sentence = sentence.trim();
  if is_question(sentence)
    || sentence.contains("://")
    || SIGNS.iter().any(|sign| sentence.contains(sign))
  {
    return true;
  }
  let mut asks = false;
  for_each_word(sentence, |word| asks |= ASKING.binary_search(&word.text).is_ok());
  asks
}

/// The Greek question mark looks like a semicolon.
fn is_greek(sentence: &str) -> bool {
  sentence.chars().any(|c| matches!(c, '\u{370}'..='\u{3ff}'))
}

/// Such words in scripts without spaces.
#[rustfmt::skip]
const SIGNS: &[&str] = &[
  "看看", "看一下", "查一", "查看", "查询", "打开", "阅读", "搜索", "是否", "吗", "什么", "哪", "怎", "几点", "調べ", "見て",
  "読ん", "開い", "確認", "検索", "かどうか", "何", "いつ", "どこ", "확인", "찾아", "열어", "읽어", "검색", "인지", "언제", "어디",
];

/// Words that ask or send to look, without accents, sorted.
#[rustfmt::skip]
const ASKING: &[&str] = &[
  "abra", "abre", "apri", "aprite", "article", "artikel", "averigua", "averigue", "bakin", "bekijk",
  "browse", "busca", "busque", "cerca", "cercate", "check", "cherche", "cherchez", "combien",
  "comment", "compare", "comprueba", "compruebe", "confere", "confira", "consulta", "consulte",
  "consultez", "controleer", "controlla", "controllate", "cual", "cuales", "czy", "dlaczego",
  "enlace", "fass", "fetch", "find", "finde", "finden", "google", "guarda", "guardate", "hitta",
  "hoeveel", "how", "hvorfor", "incele", "investigate", "kijk", "kolla", "kontrol", "laes", "lea",
  "lee", "lees", "leggete", "leggi", "leia", "lese", "lesen", "lies", "lis", "lisez", "look",
  "lookup", "mira", "mire", "nachschauen", "nachsehen", "najdi", "ob", "obejrzyj", "offne",
  "offnen", "open", "oppna", "otevri", "otworz", "ouvre", "ouvrez", "page", "pagina", "perche",
  "pesquisa", "pesquise", "podivej", "poszukaj", "pourquoi", "precti", "proc", "procura", "procure",
  "pruf", "prufe", "prufen", "przeczytaj", "quais", "qual", "quale", "quali", "quel", "quelle",
  "quelles", "quels", "read", "recherchiere", "regarde", "regardez", "research", "resume", "revisa",
  "revise", "schau", "schaue", "schauen", "search", "seite", "sida", "sidan", "sieh", "siehe",
  "sitio", "sito", "sog", "sok", "sprawdz", "strona", "strone", "such", "suche", "suchen",
  "summarise", "summarize", "summary", "tjek", "trouve", "trouvez", "trova", "uberpruf",
  "uberprufe", "url", "varfor", "veja", "vergleiche", "verifica", "verifie", "verifiez",
  "verifique", "verify", "vind", "visit", "waarom", "warum", "webpage", "webseite", "website",
  "weshalb", "what", "whether", "why", "wieso", "zda", "zkontroluj", "znajdz", "zobacz", "zoek",
  "відкрии", "знаиди", "ли", "наиди", "наидите", "открои", "откроите", "перевір", "подивись",
  "поищи", "посмотри", "посмотрите", "почему", "проверь", "проверьте", "прочитаи", "прочитаите",
  "прочти", "саит", "сколько", "страница", "страницу", "узнаи", "узнаите", "чи", "ابحث", "افتح",
  "اقرا", "انظر", "تحقق", "هل",
];

#[cfg(test)]
mod tests {
  use super::*;

  #[test]
  fn requests_are_distinguished_from_statements() {
    for sentence in [
      "Look up the retry settings.",
      "Remember whether contractors may read it.",
      "Schau nach, ob das geht.",
      "Vérifie si le local est fermé.",
      "Посмотри часы работы.",
      "看一下停车规定。",
      "Is it open on Mondays?",
      "Keep https://a.example",
      "Πότε ανοίγει;",
    ] {
      assert!(asks(sentence), "{sentence}");
    }
    for sentence in [
      "From 1 December Jonas takes over; Marta hands over on 30 November.",
      "Please remember: billing deploys from harbor-02.",
      "Mein Stellplatz ist Nummer 117.",
      "记住：我的牙医预约在十二月三日上午九点半。",
    ] {
      assert!(!asks(sentence), "{sentence}");
    }
  }

  #[test]
  fn the_list_is_sorted_for_the_search_in_it() {
    assert!(ASKING.is_sorted());
    assert_eq!(
      statements("Check the page. Ann likes tea.").collect::<Vec<_>>(),
      [" Ann likes tea."]
    );
  }
}
