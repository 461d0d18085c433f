"""The vocabulary: what is kept of the base model's, and what other languages add to it.

The base vocabulary is English. Kept are its most frequent tokens, every token that the training text
uses, and all single characters. Added are the characters and the most frequent subwords of the
training text that it cannot spell or cuts to single letters. An added token starts as the mean of
the pieces that the base vocabulary cuts it into.
"""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
PAD, UNKNOWN, START, END = range(4)
# A longer word is unknown as a whole, as in the base model.
MAX_WORD = 100


def tokenizer(tokens: list[str]) -> Tokenizer:
    """WordPiece with the normaliser of the base model: lower case, accents off, CJK set apart."""
    ids = {token: index for index, token in enumerate(tokens)}
    made = Tokenizer(models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=MAX_WORD))
    made.normalizer = normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=True, strip_accents=True, lowercase=True
    )
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return made


def build(base: list[str], texts: list[str], others: list[str], kept: int, added: int) -> list[str]:
    """The tokens, special ones first. `others` are the texts that are not in English."""
    usual = tokenizer(base)
    seen = Counter(token for one in usual.encode_batch(texts) for token in one.tokens)
    words = [token for token in base if not token.startswith("[") and token not in SPECIAL]
    stay = [token for rank, token in enumerate(words) if rank < kept or seen[token] > 1 or len(bare(token)) == 1]
    base_set, known = set(base), set(stay)
    chars = [char for char in characters(texts, least=2) if char not in known]
    tails = ["##" + char for char in characters(texts, least=2, inside=True) if "##" + char not in known]
    known.update(chars, tails)
    new = [token for token in subwords(others, added + 4000) if token not in known][:added]
    # The base model's first: those rows start from its embeddings.
    rest = sorted([*stay, *chars, *tails, *new], key=lambda token: token not in base_set)
    return [*SPECIAL, *rest]


def bare(token: str) -> str:
    return token.removeprefix("##")


def characters(texts: Iterable[str], least: int, inside: bool = False) -> list[str]:
    """Characters of words, or those within words, that occur at least so often."""
    cut = tokenizer(list(SPECIAL))
    counts: Counter[str] = Counter()
    for text in texts:
        shown = cut.normalizer.normalize_str(text)
        for word, _ in cut.pre_tokenizer.pre_tokenize_str(shown):
            counts.update(word[1:] if inside else word)
    return [char for char, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])) if count >= least]


def subwords(texts: list[str], count: int) -> list[str]:
    """Subwords that a WordPiece trainer finds, the most frequent first."""
    made = tokenizer(list(SPECIAL))
    letters = [*sorted(characters(texts, least=1)), *("##" + one for one in sorted(characters(texts, 1, inside=True)))]
    # Letters that are named here have fixed numbers. Left to the trainer, they are numbered in the order of a
    # hash table, which differs from run to run and decides between equally frequent subwords.
    trainer = trainers.WordPieceTrainer(
        vocab_size=count + len(letters), min_frequency=4, special_tokens=[*SPECIAL, *letters], show_progress=False
    )
    made.train_from_iterator(texts, trainer)
    ranked = sorted(made.get_vocab().items(), key=lambda item: item[1])
    return [token for token, _ in ranked if token not in SPECIAL and len(bare(token)) > 1]


def embeddings(tokens: list[str], base: list[str], table: np.ndarray) -> tuple[np.ndarray, int]:
    """A row for each token, and how many of them the base model knows (they come first)."""
    at = {token: index for index, token in enumerate(base)}
    known = sum(token in at for token in tokens)
    usual = tokenizer(base)
    noise = np.random.default_rng(0).normal(0, 0.01, (len(tokens), table.shape[1])).astype(np.float32)
    rows = np.empty((len(tokens), table.shape[1]), dtype=np.float32)
    for index, token in enumerate(tokens):
        if token in at:
            rows[index] = table[at[token]]
            continue
        pieces = [one for one in usual.encode(bare(token)).ids if base[one] != "[UNK]"]
        mean = table[pieces].mean(axis=0) if pieces else table.mean(axis=0)
        rows[index] = mean + noise[index]
    return rows, known


def write(path: Path, tokens: list[str]) -> None:
    path.write_text("".join(token + "\n" for token in tokens), encoding="utf-8")


def read(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")[:-1]
