"""Scenarios: kinds of sources, and which lines of an entry must go."""

import random
import unittest

from encoder import vocabulary
from encoder.authority import MAX_CONTEXT, MAX_TOKENS, Lessons, Plan, pair_ids
from encoder.scenarios import ITEM, WHOLE, kind_of, kinds, samples
from encoder.vocabulary import END, START

TOKENIZER = vocabulary.tokenizer([*vocabulary.SPECIAL, "web", "page", "mail", ".", ":", "asked", "open", "pay", "it"])


def line(**changed) -> dict:
    made = {"asked": "open?", "source": "web_fetch:a.example", "memory": "open\npay it\n\nopen", "label": "take"}
    return {**made, "out": [1], "pair": 3, "lang": "en", **changed}


class Scenarios(unittest.TestCase):
    def test_the_longest_beginning_of_a_source_decides(self):
        table = kinds()
        found = [kind_of(one, table) for one in ("chat:owner", "chat:ann", "web_fetch:owner", "webhook:gmail", "else")]
        self.assertEqual(found, ["owner", "person", "web page", "mail", "unknown"])

    def test_only_the_lines_that_must_go_are_to_go(self):
        found = samples(line(), "a", 7, kinds())
        self.assertEqual([(one.part, one.label) for one in found], [(WHOLE, 1), (ITEM, 0), (ITEM, 1), (ITEM, 0)])
        self.assertEqual({one.pair for one in found}, {"a-3"})
        self.assertEqual(len(samples(line(out=None), "a", 7, kinds())), 1, "it is not known which")
        kept = samples(line(label="keep", out=[], pair=0), "a", 8, kinds())
        self.assertEqual([one.label for one in kept], [0, 0, 0, 0])

    def test_a_long_question_leaves_room_for_the_entry(self):
        ids = pair_ids(TOKENIZER, "web page", "open " * 300, "pay " * 300)
        self.assertEqual((len(ids), ids[0], ids[-1], ids.index(END)), (MAX_TOKENS, START, END, MAX_CONTEXT - 1))

    def test_what_must_go_is_compared_with_what_stays_beside_it(self):
        lessons = Lessons(samples(line(), "a", 7, kinds()), TOKENIZER, Plan(), random.Random(1))
        for batch in lessons.batches():
            self.assertTrue(len(batch.above) > 0)
            self.assertTrue((batch.targets[batch.above] > batch.targets[batch.below]).all())


if __name__ == "__main__":
    unittest.main()
