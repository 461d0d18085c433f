"""Writes fixtures/tokenizer: reference tokenisations that the tokenizer in Rust must repeat.

Usage: reference_tokens.py VOCABULARY, with the vocabulary of all-MiniLM-L6-v2 (one piece a line).
The vocabulary that is committed has only the pieces that can be found in the texts, so that the fixture
stays small; the script checks that it gives the same pieces as the whole one.
"""

import glob
import json
import sys
from pathlib import Path

from tokenizers import BertWordPieceTokenizer

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "fixtures" / "tokenizer"
MAX_TOKENS = 256
PER_LANGUAGE = 3
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]

HARD = [
    "",
    " ",
    "\n\t\r",
    "Héllo WÖRLD naïve cafe\u0301 Ångström",
    "a\u0000b\ufffdc\u200bd\u00ade\u2060f\ufeffg",
    "\ue000private \U000f0000use",
    "\u2028line\u2029paragraph\u3000space\u00a0fixed\u1680ogham",
    "中文abc日本語テスト한국어 𠀀 㐀 豈",
    "İstanbul ISTANBUL ẞ straße ΣΊΣΥΦΟΣ ﬁne Ⅷ",
    "$a+b^c`d~e|f<g>h=i",
    "…—«»„“”‘’¿¡§¶†‡•‰′″‹›",
    "。、「」『』【】〜・！？：；（）",
    "٣٤ ۱۲ १२ ৩ 三",
    "مرحبا بالعالم، كيف الحال؟ مُحَمَّد",
    "שלום עולם שָׁלוֹם",
    "हिन्दी में नमस्ते दुनिया",
    "ภาษาไทย ไม่มี ช่องว่าง",
    "Việt Nam: Đường Nguyễn Huệ",
    "🫠 🙂 👩‍👩‍👧 ok ✓ → ★ ©®™",
    "a" * 100,
    "a" * 101,
    "é" * 100 + " " + "é" * 101,
    "word " * 400,
    "x" * 5000 + " end",
    "https://example.test/a_b?c=d&e=%20#f user@example.test v1.2.3-rc4 C:\\path\\to",
    "<!-- memfw:a1b2c3 quarantined --> - [ ] todo **bold** _it_ `code`",
    "##word ## # ##",
    "can't won't I'm x's 'quoted' \"double\"",
    "\u0301\u0302 lone marks \u0308a",
    "q\u0323\u0307 q\u0307\u0323 reordered",
    "ᄒ\u1161\u11ab 한 \u1112\u1161\u11ab",
    "\u0378unassigned",
    "supercalifragilisticexpialidocious antidisestablishmentarianism",
    "A.B.C. 1,000.50 3:45pm 50% #tag @name",
]


def texts():
    found = {}
    for path in sorted(glob.glob(str(ROOT / "training/data/written/*.jsonl"))):
        for line in open(path, encoding="utf-8"):
            item = json.loads(line)
            lines = found.setdefault(item["lang"], [])
            if len(lines) < PER_LANGUAGE:
                lines.append(item["text"])
    return HARD + [text for lang in sorted(found) for text in found[lang]]


def tokenizer(vocabulary):
    made = BertWordPieceTokenizer(vocabulary, lowercase=True)
    made.enable_truncation(MAX_TOKENS)
    return made


def main():
    pieces = Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()
    whole = tokenizer({piece: n for n, piece in enumerate(pieces)})
    normalise = lambda text: whole._tokenizer.normalizer.normalize_str(text)
    lines = texts()
    read = "\n".join(normalise(text) for text in lines)
    kept = [piece for piece in pieces if piece in SPECIAL or piece.removeprefix("##") in read]
    small = tokenizer({piece: n for n, piece in enumerate(kept)})
    with open(OUT / "reference.jsonl", "w", encoding="utf-8") as out:
        for text in lines:
            encoded = small.encode(text)
            assert encoded.tokens == whole.encode(text).tokens, text
            out.write(json.dumps({"text": text, "ids": encoded.ids}) + "\n")
    (OUT / "vocabulary.txt").write_text("\n".join(kept) + "\n", encoding="utf-8")


main()
