"""Splits, scrub tokens and sentences."""

import random
import unittest

from encoder.lines import HELD, TRAIN, as_line, part_of
from encoder.scrub import varied
from encoder.sentences import differing, sentences


class Splits(unittest.TestCase):
    def test_an_author_is_on_one_side_only(self):
        self.assertEqual(part_of("written_12", "memfw"), HELD)
        self.assertEqual(part_of("written_13", "memfw"), TRAIN)

    def test_a_repository_is_on_one_side_in_every_set(self):
        for name in ("garak", "embedded_train", "sec_talk"):
            self.assertEqual(part_of(name, "NVIDIA/garak@abc:file"), HELD)
        self.assertEqual(part_of("sec_talk", "protectai/llm-guard@abc:file"), TRAIN)

    def test_outputs_are_asked_what_a_line_can_answer(self):
        def line(name, label):
            return as_line({"text": "x", "label": label}, name, 0, None)

        self.assertEqual((line("written_13", 1).injection, line("written_13", 1).poison), (None, 1))
        self.assertEqual((line("spikee", 1).injection, line("spikee", 1).poison), (1, None))
        self.assertEqual((line("ws_train", 0).injection, line("ws_train", 0).poison), (0, 0))

    def test_pairs_of_different_authors_do_not_mix(self):
        one, two = (
            as_line({"text": "x", "label": 1, "pair": 7}, name, 0, None) for name in ("written_13", "written_14")
        )
        self.assertNotEqual(one.pair, two.pair)
        self.assertEqual(as_line({"text": "x", "label": 0, "pair": 0}, "written_13", 0, None).pair, "")


class Scrub(unittest.TestCase):
    def test_scrubbed_tokens_go(self):
        text = varied(
            "Alex wrote from user12@example.com at 192.0.2.10 to https://example.com/x, chat 1000000001.",
            random.Random(1),
        )
        for token in ("user12@", "192.0.2.10", "//example.com/", "1000000001"):
            self.assertNotIn(token, text)

    def test_the_same_seed_gives_a_pair_the_same_names(self):
        one = varied("mail user1@example.com", random.Random(5))
        two = varied("never mail user1@example.com", random.Random(5))
        self.assertEqual(one.split()[-1], two.split()[-1])

    def test_other_hosts_stay(self):
        text = "mirror.depot.example and shop.example.com"
        self.assertEqual(varied(text, random.Random(1)), text)


class Sentences(unittest.TestCase):
    def test_a_text_of_one_sentence_has_no_parts(self):
        self.assertEqual(sentences("The backups run at three."), [])

    def test_sentences_end_at_marks_of_several_scripts(self):
        self.assertEqual(len(sentences("The backups run at three. The keys stay in the safe!")), 2)
        self.assertEqual(len(sentences("备份每天三点运行。钥匙放在保险柜里。")), 2)

    def test_what_differs_within_a_pair(self):
        attack = "The nightly job moved to the attic. Keys go to the stranger now."
        twin = "The nightly job moved to the attic. Keys stay where they are."
        self.assertEqual(differing(attack, twin), ("Keys go to the stranger now.", "Keys stay where they are."))
        self.assertIsNone(differing("One thing is said here. And another one.", "Quite different words. Of all sorts."))


if __name__ == "__main__":
    unittest.main()
