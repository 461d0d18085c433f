//! Disguises: each a small function from a sentence to how an evader would write it.
#![expect(
  clippy::disallowed_methods,
  clippy::format_collect,
  clippy::string_slice,
  reason = "the words are ASCII, and a transform is as short as its description"
)]

use super::encoders::*;

/// A name and the disguise.
pub(super) type Transform = (&'static str, fn(&str) -> String);

/// Every letter of ASCII by this.
fn letters(text: &str, to: impl Fn(char) -> String) -> String {
  text.chars().map(|c| if c.is_ascii_alphabetic() { to(c) } else { c.to_string() }).collect()
}

/// Letters from a block that starts at `a`; both cases.
fn block(text: &str, a: u32) -> String {
  letters(text, |c| at(a + (c.to_ascii_lowercase() as u32 - 97)))
}

/// Letters from two blocks.
fn blocks(text: &str, upper: u32, lower: u32) -> String {
  letters(text, |c| {
    at(if c.is_ascii_uppercase() { upper + (c as u32 - 65) } else { lower + (c as u32 - 97) })
  })
}

fn at(code: u32) -> String {
  char::from_u32(code).map(String::from).unwrap_or_default()
}

fn listed(text: &str, list: &str) -> String {
  let list: Vec<char> = list.chars().collect();
  letters(text, |c| list[c.to_ascii_lowercase() as usize - 97].to_string())
}

fn words(text: &str, each: impl Fn(usize, &str) -> String, gap: &str) -> String {
  let each = text.split(' ').enumerate().map(|(n, word)| each(n, word));
  each.collect::<Vec<_>>().join(gap)
}

/// A sign in the middle of each word of letters.
fn inside(text: &str, sign: &str) -> String {
  words(
    text,
    |_, word| {
      if word.len() < 4 || word.contains('/') {
        word.to_owned()
      } else {
        let middle = word.char_indices().nth(word.chars().count() / 2).map_or(0, |(at, _)| at);
        format!("{}{sign}{}", &word[..middle], &word[middle..])
      }
    },
    " ",
  )
}

fn after_each(text: &str, sign: &str) -> String {
  letters(text, |c| format!("{c}{sign}"))
}

fn capital(word: &str) -> String {
  let mut chars = word.chars();
  chars.next().map(|c| c.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

fn shift(text: &str, by: u8) -> String {
  letters(text, |c| {
    let base = if c.is_ascii_uppercase() { b'A' } else { b'a' };
    char::from((c as u8 - base + by) % 26 + base).to_string()
  })
}

fn atbash(text: &str) -> String {
  letters(text, |c| {
    let base = if c.is_ascii_uppercase() { b'A' } else { b'a' };
    char::from(25 - (c as u8 - base) + base).to_string()
  })
}

fn rot47(text: &str) -> String {
  text
    .chars()
    .map(|c| match c {
      '!'..='~' => char::from((c as u8 - 33 + 47) % 94 + 33),
      _ => c,
    })
    .collect()
}

fn reversed(text: &str) -> String {
  text.chars().rev().collect()
}

fn bytes(text: &str, gap: &str, each: impl Fn(u8) -> String) -> String {
  text.bytes().map(each).collect::<Vec<_>>().join(gap)
}

fn units(text: &str, gap: &str, each: impl Fn(u32) -> String) -> String {
  text.chars().map(|c| each(c as u32)).collect::<Vec<_>>().join(gap)
}

fn pieces(text: &str, length: usize, gap: &str) -> String {
  let text: Vec<char> = text.chars().collect();
  text.chunks(length).map(|piece| piece.iter().collect::<String>()).collect::<Vec<_>>().join(gap)
}

fn concatenated(text: &str, quote: char, gap: &str) -> String {
  let text: Vec<char> = text.chars().collect();
  let piece = |piece: &[char]| format!("{quote}{}{quote}", piece.iter().collect::<String>());
  text.chunks(5).map(piece).collect::<Vec<_>>().join(gap)
}

fn marks(text: &str, list: &[u32]) -> String {
  let stack: String = list.iter().map(|code| at(*code)).collect();
  after_each(text, &stack)
}

fn padding() -> String {
  "The quarterly notes about trains, gardens and recipes go on for a while here. ".repeat(512)
}

fn utf16(text: &str, big: bool) -> Vec<u8> {
  text
    .encode_utf16()
    .flat_map(|unit| if big { unit.to_be_bytes() } else { unit.to_le_bytes() })
    .collect()
}

const SMALL_CAPS: &str = "ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘꞯʀꜱᴛᴜᴠᴡxʏᴢ";
const TURNED: &str = "ɐqɔpǝɟƃɥᴉɾʞlɯuodbɹsʇnʌʍxʎz";
const CYRILLIC: &str = "аbсdеfgһіјklmnорqrѕtuvwхуz";
const ACCENTS: &str = "áƀćďéḟǵĥíĵḱĺḿńóṕqŕśťúṽẃẍýź";
const STROKES: &str = "ȺɃȻĐɆꞘǤĦƗɈꝀŁMNØⱣꝖɌSŦɄVWXɎƵ";

/// All disguises.
pub(super) const TRANSFORMS: &[Transform] = &[
  // How letters look.
  ("plain", |t| t.to_owned()),
  ("upper case", |t| t.to_uppercase()),
  ("lower case", |t| t.to_lowercase()),
  ("changing case", |t| {
    t.chars()
      .enumerate()
      .map(|(n, c)| if n % 2 == 0 { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() })
      .collect()
  }),
  ("full width", |t| {
    t.chars()
      .map(|c| match c {
        '!'..='~' => at(c as u32 + 0xfee0),
        c => c.to_string(),
      })
      .collect()
  }),
  ("mathematical bold", |t| blocks(t, 0x1d400, 0x1d41a)),
  ("mathematical script", |t| blocks(t, 0x1d4d0, 0x1d4ea)),
  ("mathematical fraktur", |t| blocks(t, 0x1d56c, 0x1d586)),
  ("mathematical double-struck", |t| block(t, 0x1d552)),
  ("mathematical sans", |t| blocks(t, 0x1d5a0, 0x1d5ba)),
  ("mathematical monospace", |t| blocks(t, 0x1d670, 0x1d68a)),
  ("circled", |t| blocks(t, 0x24b6, 0x24d0)),
  ("negative circled", |t| block(t, 0x1f150)),
  ("squared", |t| block(t, 0x1f130)),
  ("negative squared", |t| block(t, 0x1f170)),
  ("negative squared as emoji", |t| {
    letters(t, |c| at(0x1f170 + c.to_ascii_lowercase() as u32 - 97) + "\u{fe0f}")
  }),
  ("parenthesised", |t| block(t, 0x249c)),
  ("parenthesised capitals", |t| block(t, 0x1f110)),
  ("regional indicators", |t| block(t, 0x1f1e6)),
  ("regional indicators apart", |t| {
    letters(t, |c| at(0x1f1e6 + c.to_ascii_lowercase() as u32 - 97) + " ").replace("  ", "   ")
  }),
  ("small caps", |t| listed(t, SMALL_CAPS)),
  ("turned letters", |t| listed(t, TURNED)),
  ("turned letters backwards", |t| reversed(&listed(t, TURNED))),
  ("Cyrillic look-alikes", |t| listed(t, CYRILLIC)),
  ("accents", |t| listed(t, ACCENTS)),
  ("strokes", |t| listed(t, STROKES)),
  ("superscript", |t| listed(t, "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖqʳˢᵗᵘᵛʷˣʸᶻ")),
  ("keycaps", |t| after_each(t, "\u{20e3}")),
  ("keycaps as emoji", |t| after_each(t, "\u{fe0f}\u{20e3}")),
  ("one mark", |t| marks(t, &[0x301])),
  ("strike-through", |t| marks(t, &[0x336])),
  ("underline", |t| marks(t, &[0x332])),
  ("stacked marks", |t| marks(t, &[0x300, 0x301, 0x316, 0x321])),
  ("many stacked marks", |t| {
    marks(
      t,
      &[0x30d, 0x30e, 0x304, 0x305, 0x33f, 0x311, 0x306, 0x310, 0x352, 0x357, 0x316, 0x317, 0x318],
    )
  }),
  ("enclosing circles", |t| after_each(t, "\u{20dd}")),
  // Characters that no reader sees.
  ("zero-width spaces", |t| after_each(t, "\u{200b}")),
  ("joiners", |t| after_each(t, "\u{200d}")),
  ("word joiners", |t| after_each(t, "\u{2060}")),
  ("soft hyphens", |t| after_each(t, "\u{ad}")),
  ("grapheme joiners", |t| after_each(t, "\u{34f}")),
  ("variation selectors", |t| after_each(t, "\u{fe00}")),
  ("directional marks", |t| after_each(t, "\u{200e}")),
  ("Hangul fillers", |t| after_each(t, "\u{3164}")),
  ("braille blanks in words", |t| after_each(t, "\u{2800}")),
  ("braille blanks between words", |t| t.replace(' ', "\u{2800}")),
  ("tatweel", |t| after_each(t, "\u{640}")),
  ("musical format characters", |t| after_each(t, "\u{1d173}")),
  ("shorthand format characters", |t| after_each(t, "\u{1bca0}")),
  ("interlinear anchors", |t| after_each(t, "\u{fff9}")),
  ("ideographic format characters", |t| after_each(t, "\u{13430}")),
  ("tag characters", |t| {
    format!(
      "Notes {}",
      t.chars().filter(char::is_ascii).map(|c| at(c as u32 + 0xe0000)).collect::<String>()
    )
  }),
  ("variation selector bytes", |t| {
    format!(
      "Notes 😊{}",
      t.bytes()
        .map(|b| if b < 16 { at(0xfe00 + u32::from(b)) } else { at(0xe0100 + u32::from(b) - 16) })
        .collect::<String>()
    )
  }),
  ("direction override", |t| format!("\u{202e}{}\u{202c}", reversed(t))),
  ("figure spaces", |t| t.replace(' ', "\u{2007}")),
  ("no-break spaces", |t| t.replace(' ', "\u{a0}")),
  ("Ogham spaces", |t| t.replace(' ', "\u{1680}")),
  ("tabs", |t| t.replace(' ', "\t")),
  // Bytes as numbers.
  ("hex", |t| bytes(t, "", |b| format!("{b:02x}"))),
  ("hex in capitals", |t| bytes(t, "", |b| format!("{b:02X}"))),
  ("hex with spaces", |t| bytes(t, " ", |b| format!("{b:02x}"))),
  ("hex with colons", |t| bytes(t, ":", |b| format!("{b:02X}"))),
  ("hex with 0x", |t| bytes(t, " ", |b| format!("0x{b:02x}"))),
  ("hex array", |t| format!("[{}]", bytes(t, ", ", |b| format!("0x{b:02x}")))),
  ("hex with dashes", |t| bytes(t, "-", |b| format!("{b:02x}"))),
  ("hex in pairs", |t| pieces(&bytes(t, "", |b| format!("{b:02x}")), 4, " ")),
  ("hex dump", |t| {
    t.as_bytes()
      .chunks(16)
      .enumerate()
      .map(|(n, line)| {
        let hex = line.iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(" ");
        format!("{:08x}  {hex}\n", n * 16)
      })
      .collect()
  }),
  ("hex in lines", |t| pieces(&bytes(t, "", |b| format!("{b:02x}")), 20, "\n")),
  ("decimal", |t| bytes(t, " ", |b| b.to_string())),
  ("decimal with commas", |t| bytes(t, ",", |b| b.to_string())),
  ("decimal array", |t| format!("[{}]", units(t, ", ", |c| c.to_string()))),
  ("decimal lines", |t| bytes(t, "\n", |b| b.to_string())),
  ("binary", |t| bytes(t, " ", |b| format!("{b:08b}"))),
  ("binary without spaces", |t| bytes(t, "", |b| format!("{b:08b}"))),
  ("binary with 0b", |t| bytes(t, ", ", |b| format!("0b{b:08b}"))),
  ("octal", |t| bytes(t, " ", |b| format!("{b:03o}"))),
  ("octal escapes", |t| bytes(t, "", |b| format!("\\{b:03o}"))),
  ("code points", |t| units(t, " ", |c| format!("U+{c:04X}"))),
  ("hex escapes", |t| bytes(t, "", |b| format!("\\x{b:02x}"))),
  ("hex escapes of some letters", |t| {
    letters(t, |c| if "aeiou".contains(c) { format!("\\x{:02x}", c as u32) } else { c.to_string() })
  }),
  ("unicode escapes", |t| units(t, "", |c| format!("\\u{c:04x}"))),
  ("unicode escapes with braces", |t| units(t, "", |c| format!("\\u{{{c:x}}}"))),
  ("unicode escapes of some letters", |t| {
    letters(t, |c| if "aeiou".contains(c) { format!("\\u{:04x}", c as u32) } else { c.to_string() })
  }),
  ("decimal entities", |t| units(t, "", |c| format!("&#{c};"))),
  ("hex entities", |t| units(t, "", |c| format!("&#x{c:x};"))),
  ("percent", |t| bytes(t, "", |b| format!("%{b:02X}"))),
  ("percent of signs", |t| {
    t.bytes()
      .map(
        |b| if b.is_ascii_alphanumeric() { char::from(b).to_string() } else { format!("%{b:02X}") },
      )
      .collect()
  }),
  ("percent twice", |t| bytes(t, "", |b| format!("%25{b:02X}"))),
  ("quoted-printable", |t| bytes(t, "", |b| format!("={b:02X}"))),
  ("quoted-printable of some letters", |t| {
    t.bytes()
      .map(|b| {
        if b"aeiou".contains(&b) || b >= 128 {
          format!("={b:02X}")
        } else {
          char::from(b).to_string()
        }
      })
      .collect()
  }),
  // Encoded words.
  ("base64", |t| base64(t.as_bytes())),
  ("base64 for addresses", |t| {
    base64(t.as_bytes()).replace('+', "-").replace('/', "_").replace('=', "")
  }),
  ("base64 twice", |t| base64(base64(t.as_bytes()).as_bytes())),
  ("base64 backwards", |t| reversed(&base64(t.as_bytes()))),
  ("base64 of hex", |t| base64(bytes(t, "", |b| format!("{b:02x}")).as_bytes())),
  ("base64 of rot13", |t| base64(shift(t, 13).as_bytes())),
  ("rot13 of base64", |t| shift(&base64(t.as_bytes()), 13)),
  ("base64 of UTF-16", |t| base64(&utf16(t, false))),
  ("base64 of big-endian UTF-16", |t| base64(&utf16(t, true))),
  ("base64 of zlib", |t| base64(&zlib(t.as_bytes()))),
  ("base64 of deflate", |t| base64(&deflate(t.as_bytes()))),
  ("base64 of gzip", |t| base64(&gzip(t.as_bytes()))),
  ("hex of gzip", |t| gzip(t.as_bytes()).iter().map(|b| format!("{b:02x}")).collect()),
  ("hex of UTF-16", |t| utf16(t, true).iter().map(|b| format!("{b:02x}")).collect()),
  ("base64 in fours", |t| pieces(&base64(t.as_bytes()), 4, " ")),
  ("base64 in fives", |t| pieces(&base64(t.as_bytes()), 5, " ")),
  ("base64 with commas", |t| pieces(&base64(t.as_bytes()), 8, ",")),
  ("base64 in lines", |t| pieces(&base64(t.as_bytes()), 12, "\n")),
  ("base64 in items", |t| {
    base64(t.as_bytes())
      .as_bytes()
      .chunks(10)
      .map(|p| format!("- {}\n", String::from_utf8_lossy(p)))
      .collect()
  }),
  ("base64 in strings", |t| {
    concatenated_by(&base64(t.as_bytes()), 10, |n, p| format!("p{n} = \"{p}\"; "))
  }),
  ("base64 word by word", |t| words(t, |_, word| base64(word.as_bytes()), " ")),
  ("base64 data address", |t| format!("data:text/plain;base64,{}", base64(t.as_bytes()))),
  ("base32", |t| base32(t.as_bytes())),
  ("ascii85", |t| format!("<~{}~>", base85(t.as_bytes(), ASCII85))),
  ("ascii85 without ends", |t| base85(t.as_bytes(), ASCII85)),
  ("z85", |t| base85(t.as_bytes(), Z85)),
  ("base85 of RFC 1924", |t| base85(t.as_bytes(), RFC1924)),
  ("base58", |t| base58(t.as_bytes())),
  ("uuencode", |t| uuencode(t.as_bytes())),
  ("Morse", |t| morse(t)),
  // Ciphers.
  ("rot13", |t| shift(t, 13)),
  ("rot47", rot47),
  ("Caesar by 1", |t| shift(t, 1)),
  ("Caesar by 3", |t| shift(t, 3)),
  ("Caesar by 7", |t| shift(t, 7)),
  ("Caesar by 19", |t| shift(t, 19)),
  ("Caesar by 25", |t| shift(t, 25)),
  ("atbash", atbash),
  ("backwards", reversed),
  ("words backwards", |t| words(t, |_, word| reversed(word), " ")),
  ("last word first", |t| t.split(' ').rev().collect::<Vec<_>>().join(" ")),
  ("rot13 backwards", |t| reversed(&shift(t, 13))),
  ("leet", |t| {
    t.chars()
      .map(|c| match c.to_ascii_lowercase() {
        'o' => '0',
        'i' | 'l' => '1',
        'e' => '3',
        'a' => '4',
        's' => '5',
        't' => '7',
        _ => c,
      })
      .collect()
  }),
  // Source code.
  ("JavaScript strings", |t| concatenated(t, '"', " + ")),
  ("JavaScript strings without spaces", |t| concatenated(t, '\'', "+")),
  ("Python strings", |t| concatenated(t, '\'', " ")),
  ("strings in lines", |t| concatenated(t, '"', "\n")),
  ("array joined", |t| format!("[{}].join('')", concatenated(t, '\'', ", "))),
  ("chr", |t| units(t, "+", |c| format!("chr({c})"))),
  ("chr in hex", |t| units(t, " + ", |c| format!("chr(0x{c:x})"))),
  ("fromCharCode", |t| format!("String.fromCharCode({})", units(t, ",", |c| c.to_string()))),
  ("variables", |t| concatenated_by(t, 6, |n, p| format!("v{n} = \"{p}\"\n"))),
  // Signs between letters and words.
  ("letters apart", |t| {
    words(t, |_, word| word.chars().map(String::from).collect::<Vec<_>>().join(" "), "   ")
  }),
  ("letters with hyphens", |t| {
    words(t, |_, word| word.chars().map(String::from).collect::<Vec<_>>().join("-"), " ")
  }),
  ("letters with dots", |t| {
    words(t, |_, word| word.chars().map(String::from).collect::<Vec<_>>().join("."), "  ")
  }),
  ("dots between words", |t| t.replace(' ', ".")),
  ("slashes between words", |t| t.replace(' ', "/")),
  ("underscores between words", |t| t.replace(' ', "_")),
  ("hyphens between words", |t| t.replace(' ', "-")),
  ("bars between words", |t| t.replace(' ', " | ")),
  ("arrows between words", |t| t.replace(' ', " → ")),
  ("emoji between words", |t| t.replace(' ', " 🚀 ")),
  ("commas between words", |t| t.replace(' ', ", ")),
  ("full stops after words", |t| t.replace(' ', ". ")),
  ("stars between words", |t| t.replace(' ', "*")),
  ("CamelCase", |t| words(t, |_, word| capital(word), "")),
  ("no spaces", |t| t.replace(' ', "")),
  ("hyphens inside words", |t| inside(t, "-")),
  ("dots inside words", |t| inside(t, ".")),
  ("emoji inside words", |t| inside(t, "😀")),
  ("backslashes inside words", |t| inside(t, "\\")),
  ("bars inside words", |t| inside(t, "|")),
  ("spaces inside words", |t| inside(t, " ")),
  ("line breaks inside words", |t| inside(t, "-\n")),
  ("comments inside words", |t| inside(t, "<!-- x -->")),
  ("tags inside words", |t| inside(t, "<b></b>")),
  ("comments between words", |t| t.replace(' ', "<!-- and -->")),
  ("one word a line", |t| t.replace(' ', "\n")),
  ("one word a paragraph", |t| t.replace(' ', "\n\n")),
  ("one word an item", |t| words(t, |_, word| format!("- {word}"), "\n")),
  ("one word a row", |t| words(t, |_, word| format!("| {word} |"), "\n")),
  ("numbered words", |t| words(t, |n, word| format!("{}. {word}", n + 1), " ")),
  ("numbered words in brackets", |t| words(t, |n, word| format!("({}) {word}", n + 1), " ")),
  ("numbered lines", |t| words(t, |n, word| format!("{}. {word}", n + 1), "\n")),
  ("one word a link", |t| words(t, |n, word| format!("[{word}](https://a.example/{n})"), " ")),
  ("one word a heading", |t| words(t, |_, word| format!("# {word}"), "\n")),
  ("bold words", |t| words(t, |_, word| format!("**{word}**"), " ")),
  ("code words", |t| words(t, |_, word| format!("`{word}`"), " ")),
  ("quoted words", |t| words(t, |_, word| format!("\"{word}\""), " ")),
  // Around it.
  ("HTML comment", |t| format!("Notes.\n\n<!-- {t} -->\n")),
  ("hidden element", |t| format!("<p style=\"display:none\">{t}</p>")),
  ("padding before", |t| format!("{}{t}", padding())),
  ("padding around", |t| format!("{}{t} {}", padding(), padding())),
  ("padding in paragraphs", |t| format!("{0}\n\n{t}\n\n{0}", padding())),
  ("from a meeting", |t| format!("Source: team meeting. {t}")),
  ("example of a filter test", |t| format!("This is an example for our filter test: {t}")),
  ("quotation", |t| format!("\"{t}\"")),
  ("quotation with a frame", |t| {
    format!("Source: team meeting, as agreed with everybody: \"{t}\"")
  }),
  ("quotation in other signs", |t| format!("Noted at the team meeting: „{t}“ (agreed)")),
  ("security note", |t| format!("Security note (not an attack): {t}")),
  ("incident report", |t| format!("Incident report. {t}")),
  ("somebody's words", |t| {
    format!("Ann said in the meeting: \"{t}\" and everybody agreed with that.")
  }),
  ("report", |t| format!("Example of a test case for the detection team. {t}")),
];

/// Pieces of a text, each by this.
fn concatenated_by(text: &str, length: usize, each: impl Fn(usize, &str) -> String) -> String {
  let text: Vec<char> = text.chars().collect();
  let piece = |(n, piece): (usize, &[char])| each(n, &piece.iter().collect::<String>());
  text.chunks(length).enumerate().map(piece).collect()
}
