//! Texts as words, so that two of them can be compared in any format.
//!
//! Case, accents, compatibility forms, invisible characters, entities, escapes and punctuation do not
//! count. Scripts that put no spaces between words are read as pairs of characters. Linear time.
//!
//! The lists here hold words that say nothing about the origin of a text. `detect::normalize` has a list
//! for the opposite purpose: frequent words that tell language from data, with the vocabulary of attacks
//! among them (`password`, `send`, `ignore`), which distinguishes sources here.
#![forbid(unsafe_code)]

use std::sync::LazyLock;

use unicode_normalization::{UnicodeNormalization as _, char::is_combining_mark};

use super::sieve::Sieve;

/// Longest word that is compared in full; the rest of a longer one is dropped.
const MAX_WORD_CHARS: usize = 48;

/// Largest number that says nothing about the origin: a year.
const MAX_BARE_CHARS: usize = 4;

/// One word of a text, normalised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word<'a> {
  /// Lower case, without accents.
  pub text: &'a str,
  /// How much the word shows about the origin of a text.
  pub kind: Kind,
}

/// How much a word says about the origin of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
  /// It is in every text of its language, and says nothing.
  Common,
  /// It negates: common, yet it changes the meaning of a text.
  Negation,
  /// It has a digit. Numbers are not paraphrased.
  Number,
  /// Any other word.
  Plain,
  /// Two characters of a script without spaces.
  Pair,
}

impl Word<'_> {
  /// The weight of a word that two texts share: rare words weigh more than short ones, common ones
  /// nothing. The steps were chosen on paraphrases written by hand (docs/attribution.md).
  pub fn weight(&self) -> f32 {
    let n_chars = self.text.chars().count();
    match self.kind {
      Kind::Common => 0.0,
      Kind::Negation => 0.5,
      Kind::Number if n_chars <= 2 => 0.7,
      Kind::Number => 1.5,
      Kind::Pair if self.text.chars().all(is_kana) => 0.2,
      Kind::Pair => 0.6,
      Kind::Plain if n_chars <= 3 => 0.7,
      Kind::Plain if n_chars <= 6 => 1.0,
      Kind::Plain => 1.4,
    }
  }
}

impl Word<'_> {
  /// Whether it is a short number, as in unrelated texts: of a date, a time,
  /// a count.
  pub fn is_bare(&self) -> bool {
    self.text.len() <= MAX_BARE_CHARS && self.text.bytes().all(|byte| byte.is_ascii_digit())
  }
}

/// Whether a text has only short numbers as words.
pub fn is_bare(text: &str) -> bool {
  let mut is_bare = true;
  for_each_word(text, |word| is_bare &= word.is_bare());
  is_bare
}

/// Calls `each` with every word of `text`, in order.
pub fn for_each_word(text: &str, mut each: impl FnMut(Word<'_>)) {
  let mut word = Builder::default();
  let mut rest = text.char_indices();
  while let Some((at, c)) = rest.next() {
    if c.is_ascii_alphanumeric() {
      word.push(c.to_ascii_lowercase(), &mut each);
      continue;
    }
    if c == '&' || c == '\\' {
      let after = text.get(at + 1..).unwrap_or_default();
      let (plain, n_bytes) = if c == '&' { entity(after) } else { escape(after) };
      if n_bytes > 0 {
        let end = at + 1 + n_bytes;
        while rest.offset() < end && rest.next().is_some() {}
      }
      match plain {
        Some(plain) => push_folded(plain, &mut word, &mut each),
        None => word.end(&mut each),
      }
      continue;
    }
    if c.is_ascii() {
      word.end(&mut each);
    } else {
      push_folded(c, &mut word, &mut each);
    }
  }
  word.end(&mut each);
}

/// Letters and digits of `text`, normalised and joined: the content of a line
/// without the quotes, escapes and bullets around and in it.
pub fn squeezed(text: &str) -> String {
  let mut squeezed = String::with_capacity(text.len());
  for c in text.chars() {
    if c.is_ascii() {
      if c.is_ascii_alphanumeric() {
        squeezed.push(c.to_ascii_lowercase());
      }
    } else {
      squeezed.extend(folded(c).filter(|c| c.is_alphanumeric()));
    }
  }
  squeezed
}

/// The sentences of a text: ended by a line end, or by a full stop before a space.
pub fn sentences(text: &str) -> Vec<&str> {
  let mut found = Vec::new();
  let mut start = 0;
  let mut before = '\n';
  for (at, c) in text.char_indices() {
    let ends = c == '\n'
      || (c.is_whitespace() && matches!(before, '.' | '!' | '?'))
      || matches!(before, '。' | '！' | '？' | '।');
    if ends {
      found.extend(text.get(start..at));
      start = at;
    }
    before = c;
  }
  found.extend(text.get(start..));
  found.retain(|sentence| !sentence.trim().is_empty());
  found
}

/// The current word.
#[derive(Default)]
struct Builder {
  text: String,
  n_chars: usize,
  has_digit: bool,
  /// The last character, if it is of a script without spaces.
  unspaced: Option<char>,
}

impl Builder {
  fn push(&mut self, c: char, each: &mut impl FnMut(Word<'_>)) {
    if is_unspaced(c) {
      self.end_word(each);
      if is_negative_sign(c) {
        let mut buffer = [0; 4];
        each(Word { text: c.encode_utf8(&mut buffer), kind: Kind::Negation });
      }
      if let Some(before) = self.unspaced {
        let mut buffer = [0; 8];
        let n_bytes = before.encode_utf8(&mut buffer).len();
        let n_more = buffer.get_mut(n_bytes..).map_or(0, |rest| c.encode_utf8(rest).len());
        if let Some(Ok(text)) = buffer.get(..n_bytes + n_more).map(std::str::from_utf8) {
          each(Word { text, kind: Kind::Pair });
        }
      }
      self.unspaced = Some(c);
      return;
    }
    self.unspaced = None;
    if self.n_chars < MAX_WORD_CHARS {
      self.text.push(c);
      self.n_chars += 1;
    }
    self.has_digit |= c.is_numeric();
  }

  fn end(&mut self, each: &mut impl FnMut(Word<'_>)) {
    self.unspaced = None;
    self.end_word(each);
  }

  fn end_word(&mut self, each: &mut impl FnMut(Word<'_>)) {
    // A single letter is the rest of an apostrophe or a list.
    let is_letter = self.n_chars == 1 && !self.has_digit && self.text.is_ascii();
    if self.n_chars > 0 && !is_letter {
      let text = self.text.as_str();
      let kind = match () {
        () if self.has_digit => Kind::Number,
        () if !LISTED.passes(text) => Kind::Plain,
        () if NEGATIONS.binary_search(&text).is_ok() => Kind::Negation,
        () if COMMON.binary_search(&text).is_ok() => Kind::Common,
        () => Kind::Plain,
      };
      each(Word { text, kind });
    }
    self.text.clear();
    self.n_chars = 0;
    self.has_digit = false;
  }
}

fn push_folded(c: char, word: &mut Builder, each: &mut impl FnMut(Word<'_>)) {
  if is_invisible(c) {
    return;
  }
  // A syllable of Hangul would be decomposed into its letters.
  if is_unspaced(c) {
    return word.push(c, each);
  }
  for c in folded(c) {
    if c.is_alphanumeric() { word.push(c, each) } else { word.end(each) }
  }
}

/// Lower case, compatibility form, no accents.
fn folded(c: char) -> impl Iterator<Item = char> {
  std::iter::once(c).nfkd().filter(|c| !is_combining_mark(*c)).flat_map(char::to_lowercase)
}

/// Whether a character has no width: joiners, direction marks, soft hyphens, combining accents.
pub fn is_invisible(c: char) -> bool {
  matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2064}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}')
    || is_combining_mark(c)
}

/// Scripts without spaces between words, and Hangul, whose words are inflected at the end.
pub fn is_unspaced(c: char) -> bool {
  is_kana(c)
    || matches!(c, '\u{0e00}'..='\u{0eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}')
    || matches!(c, '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}')
    || matches!(c, '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{323af}')
}

fn is_kana(c: char) -> bool {
  matches!(c, '\u{3040}'..='\u{30ff}' | '\u{31f0}'..='\u{31ff}')
}

fn is_negative_sign(c: char) -> bool {
  matches!(c, '不' | '没' | '沒' | '别' | '別' | '勿' | '禁' | '無' | '无' | '未' | '非')
}

/// The escape that a backslash begins in JSON, in a shell and in source code, and its length.
fn escape(after: &str) -> (Option<char>, usize) {
  let number = |from: usize, digits: usize| {
    let text = after.get(from..from + digits)?;
    char::from_u32(u32::from_str_radix(text, 16).ok()?)
  };
  match after.as_bytes().first() {
    Some(b'n' | b'r' | b't') => (None, 1),
    Some(b'u') => number(1, 4).map_or((None, 0), |c| (Some(c), 5)),
    Some(b'x') => number(1, 2).map_or((None, 0), |c| (Some(c), 3)),
    _ => (None, 0),
  }
}

/// The entity that an ampersand begins in HTML, and its length.
fn entity(after: &str) -> (Option<char>, usize) {
  let Some(end) = after.bytes().take(10).position(|b| b == b';') else { return (None, 0) };
  let name = after.get(..end).unwrap_or_default();
  let number = match name.strip_prefix('#') {
    Some(digits) => match digits.strip_prefix(['x', 'X']) {
      Some(hex) => u32::from_str_radix(hex, 16).ok(),
      None => digits.parse().ok(),
    },
    None => None,
  };
  match (number.and_then(char::from_u32), name) {
    (Some(c), _) => (Some(c), end + 1),
    (None, "shy" | "zwnj" | "zwj") => (Some('\u{ad}'), end + 1),
    (None, "nbsp" | "amp" | "lt" | "gt" | "quot" | "apos" | "mdash" | "ndash" | "hellip") => {
      (None, end + 1)
    }
    _ => (None, 0),
  }
}

/// The first bytes of the words of both lists.
static LISTED: LazyLock<Sieve> = LazyLock::new(|| {
  let mut sieve = Sieve::default();
  NEGATIONS.iter().chain(COMMON).for_each(|word| sieve.add(word));
  sieve
});

/// Negating words, without accents, sorted.
#[rustfmt::skip]
const NEGATIONS: &[&str] = &[
  "aldrig", "cannot", "geen", "ikke", "inte", "jamais", "kein", "keine", "keinem", "keinen",
  "keiner", "keines", "mai", "nao", "neither", "never", "nicht", "nie", "niemals", "nigdy", "no",
  "non", "none", "nooit", "nor", "not", "nunca", "pas", "sans", "sem", "sin", "without", "без",
  "не", "нет", "никогда",
];

/// Words that are in every text of their language, without accents, sorted.
#[rustfmt::skip]
const COMMON: &[&str] = &[
  "aan", "aber", "about", "aby", "ad", "afin", "after", "again", "agli", "ai", "al", "albo", "ale",
  "algo", "all", "alla", "alle", "allem", "allen", "aller", "alles", "allo", "alors", "als", "also",
  "altijd", "am", "an", "anche", "and", "andere", "anderen", "ante", "antes", "any", "ao", "aos",
  "apos", "apres", "are", "as", "asi", "at", "ate", "att", "au", "auch", "aucun", "auf", "aunque",
  "aus", "aussi", "autre", "autres", "aux", "av", "avant", "avec", "avoir", "bara", "be", "because",
  "been", "before", "bei", "beim", "being", "ben", "bez", "bij", "bin", "bis", "bitte", "bo",
  "both", "but", "by", "byc", "byl", "byla", "bylo", "cada", "can", "car", "ce", "ceci", "cela",
  "ces", "cet", "cette", "ceux", "chaque", "che", "chez", "chi", "ci", "ciascuno", "co", "com",
  "come", "comme", "comment", "como", "con", "contra", "could", "cual", "cuando", "cui", "czy",
  "da", "daar", "dagli", "dai", "dal", "dalla", "dalle", "damit", "dan", "dann", "dans", "das",
  "dass", "dat", "de", "debe", "deben", "degli", "dei", "dein", "deine", "del", "dela", "dele",
  "della", "delle", "dello", "dem", "den", "denn", "depois", "depuis", "der", "des", "desde",
  "deshalb", "det", "detta", "deux", "deve", "devem", "devono", "deze", "di", "did", "die", "dies",
  "diese", "diesem", "diesen", "dieser", "dieses", "dit", "dla", "do", "doch", "doen", "does",
  "doing", "dois", "doit", "doivent", "donc", "donde", "done", "dont", "door", "dopo", "dort",
  "dos", "dove", "du", "durch", "dus", "each", "ed", "een", "efter", "ein", "eine", "einem",
  "einen", "einer", "eines", "einmal", "el", "ela", "elas", "ele", "eles", "ella", "ellas", "elle",
  "eller", "elles", "ellos", "em", "en", "encore", "entre", "er", "era", "es", "esa", "ese", "eso",
  "essa", "esse", "essere", "est", "esta", "estan", "este", "esto", "estos", "et", "etait", "etre",
  "ett", "etwas", "eu", "euch", "euer", "eux", "every", "fa", "faire", "fait", "faut", "favor",
  "few", "foi", "for", "fra", "fran", "from", "fue", "fur", "ga", "gaan", "gdy", "gdzie", "gegen",
  "geweest", "gli", "go", "ha", "hab", "habe", "haben", "hacer", "hacia", "had", "hai", "han",
  "hanno", "har", "has", "hasta", "hat", "hatte", "have", "hay", "he", "heb", "hebben", "heeft",
  "her", "here", "hers", "het", "hier", "hij", "him", "his", "ho", "hoe", "hon", "how", "hun",
  "hur", "ich", "if", "ihm", "ihn", "ihnen", "ihr", "ihre", "ihrem", "ihren", "ihrer", "ik", "il",
  "ile", "ils", "im", "in", "innych", "ins", "into", "io", "is", "isso", "ist", "isto", "it", "its",
  "ja", "jag", "jak", "jako", "je", "jede", "jedem", "jeden", "jeder", "jedes", "jego", "jej",
  "jesli", "jest", "jetzt", "jij", "jou", "jouw", "jullie", "just", "juz", "kan", "kann", "kannst",
  "kazdy", "kiedy", "kto", "ktora", "ktore", "ktory", "kunnen", "la", "las", "le", "lei", "les",
  "let", "leur", "leurs", "lhe", "li", "like", "lo", "loro", "lors", "los", "lub", "lui", "ma",
  "maar", "made", "mais", "maja", "make", "man", "many", "mas", "may", "me", "med", "meer", "mehr",
  "mein", "meine", "meinem", "meinen", "meiner", "meme", "men", "mes", "mesmo", "met", "meu", "mi",
  "mia", "mich", "mig", "might", "mij", "mijn", "minha", "mio", "mir", "mis", "mit", "mnie", "moet",
  "moeten", "moi", "molto", "mon", "more", "most", "mot", "moze", "mu", "much", "mucho", "muito",
  "muss", "musst", "must", "muy", "my", "na", "naar", "nach", "nad", "nam", "nar", "nas", "ne",
  "need", "nei", "nel", "nella", "nelle", "nem", "new", "ni", "noch", "nog", "noi", "nos",
  "nosotros", "nossa", "nosso", "nostro", "notre", "nous", "now", "nu", "num", "numa", "nun", "nur",
  "ob", "och", "od", "oder", "of", "off", "ogni", "ohne", "om", "omdat", "on", "once", "onde",
  "onder", "one", "only", "ons", "ont", "onze", "ook", "op", "or", "oraz", "os", "oss", "other",
  "otra", "otro", "ou", "our", "out", "over", "own", "pa", "par", "para", "parce", "pela", "pelo",
  "per", "perche", "pero", "piu", "please", "plus", "po", "poco", "pod", "pode", "poi", "por",
  "porque", "pour", "pourquoi", "prima", "przed", "przez", "przy", "puede", "puo", "put", "qu",
  "quale", "quand", "quando", "quanto", "que", "quel", "quella", "quelle", "quello", "quels",
  "quem", "questa", "queste", "questi", "questo", "qui", "quien", "quoi", "sa", "said", "same",
  "samt", "schon", "se", "sea", "sehr", "sei", "sein", "seine", "seinem", "seinen", "seiner",
  "seit", "seja", "ser", "sera", "ses", "seu", "seus", "shall", "she", "should", "si", "sia",
  "sich", "sie", "since", "sind", "ska", "so", "sob", "sobre", "soit", "soll", "sollen", "sollte",
  "som", "some", "son", "sondern", "sono", "sont", "sous", "still", "su", "sua", "suas", "such",
  "sue", "sul", "sulla", "suo", "sur", "sus", "swoje", "ta", "tak", "taki", "tam", "tambem",
  "tambien", "tanto", "te", "tego", "tej", "tem", "ten", "ter", "tes", "than", "that", "the",
  "their", "them", "then", "there", "these", "they", "this", "those", "though", "through", "tiene",
  "tienen", "till", "to", "toch", "toda", "todas", "todo", "todos", "toen", "toi", "ton", "too",
  "tot", "tous", "tout", "toute", "toutes", "tra", "tras", "tres", "tu", "tua", "tuo", "tus",
  "tutte", "tutti", "tutto", "ty", "tylko", "tym", "uber", "uit", "um", "uma", "un", "una", "und",
  "under", "une", "uno", "unos", "uns", "unser", "unsere", "unter", "until", "up", "upon", "upp",
  "us", "use", "used", "uses", "using", "usted", "ut", "va", "van", "vanaf", "var", "vara", "veel",
  "vers", "very", "vi", "via", "vid", "voce", "voi", "voici", "vom", "von", "voor", "vor", "vos",
  "votre", "vous", "waar", "wann", "wanneer", "want", "war", "waren", "warum", "was", "wat", "we",
  "weil", "welche", "welcher", "welke", "wenn", "wer", "werd", "werden", "were", "what", "when",
  "where", "whether", "which", "while", "who", "whom", "whose", "why", "wie", "wiec", "wieder",
  "wij", "will", "wir", "wird", "with", "within", "wo", "worden", "wordt", "would", "wszystko",
  "wurde", "wurden", "ya", "yes", "yet", "yo", "you", "your", "yours", "za", "zal", "ze", "zich",
  "zij", "zijn", "zo", "zonder", "zou", "zu", "zum", "zur", "zwischen", "а", "бы", "был", "была",
  "были", "было", "быть", "в", "вам", "вас", "весь", "во", "вот", "все", "всех", "вы", "где", "да",
  "для", "до", "его", "ее", "если", "есть", "еще", "же", "за", "и", "из", "или", "им", "их", "к",
  "как", "когда", "кто", "ли", "мне", "мы", "на", "над", "нам", "нас", "него", "неи", "ни", "но",
  "о", "об", "он", "она", "они", "оно", "от", "по", "под", "при", "с", "со", "так", "такои", "там",
  "то", "тоже", "только", "тот", "ты", "у", "уже", "что", "чтобы", "эта", "эти", "это", "этот", "я",
];

#[cfg(test)]
mod tests {
  use super::*;

  fn words(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for_each_word(text, |word| found.push(word.text.to_owned()));
    found
  }

  #[test]
  fn the_same_words_are_found_whatever_they_are_wrapped_in() {
    let plain = words("Keep café keys at harbor-02");
    assert_eq!(plain, ["keep", "cafe", "keys", "at", "harbor", "02"]);
    assert_eq!(words("**Keep** <b>caf&eacute;".trim_end_matches("&eacute;")), ["keep", "caf"]);
    assert_eq!(words("Keep caf&#233; keys&nbsp;at harbor&#x2d;02"), plain);
    assert_eq!(words(r"Keep\ncaf\u00e9\tkeys at \x68arbor-02"), plain);
    assert_eq!(words("KEEP cafe\u{301} k\u{200b}ey\u{ad}s at ｈａｒｂｏｒ-02"), plain);
  }

  #[test]
  fn dates_and_times_are_bare() {
    assert!(is_bare("# 2026-11-25, 10:15"));
    assert!(!is_bare("IBAN DE89") && !is_bare("account 4711") && !is_bare("44556677"));
  }

  #[test]
  fn scripts_without_spaces_are_read_in_pairs() {
    assert_eq!(words("密码管理器"), ["密码", "码管", "管理", "理器"]);
    assert_eq!(words("API密码"), ["api", "密码"]);
    assert_eq!(words("不要"), ["不", "不要"]);
  }

  #[test]
  fn lists_are_sorted_for_the_search_in_them() {
    assert!(COMMON.is_sorted() && NEGATIONS.is_sorted());
    assert!(COMMON.iter().all(|word| NEGATIONS.binary_search(word).is_err()));
    assert!(COMMON.binary_search(&"the").is_ok());
  }

  #[test]
  fn sentences_end_at_full_stops_and_lines_but_not_in_names() {
    assert_eq!(
      sentences("See packages.example.org. Do it!\n- no 。完了。好"),
      ["See packages.example.org.", " Do it!", "\n- no 。", "完了。", "好"]
    );
  }

  proptest::proptest! {
    #[test]
    fn any_text_is_read(text in "\\PC{0,80}|[&#\\\\xu0-9a-f;]{0,40}") {
      for_each_word(&text, |word| {
        assert!(!word.text.is_empty() && word.text.chars().count() <= MAX_WORD_CHARS);
      });
      let whole: usize = sentences(&text).iter().map(|sentence| sentence.len()).sum();
      assert!(whole <= text.len());
      assert!(squeezed(&text).chars().all(char::is_alphanumeric));
    }
  }
}
