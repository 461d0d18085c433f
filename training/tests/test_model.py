"""Vocabulary, batches, figures, and the exported graph against the network."""

import random
import tempfile
import unittest
from pathlib import Path

import numpy as np
import onnx
import torch

from encoder import export, figures, vocabulary
from encoder.batches import Epoch, epoch_lines, units_of
from encoder.graph import exported
from encoder.lines import as_line
from encoder.network import Network, averaged
from encoder.settings import Settings

BASE = [
    "[PAD]",
    "[unused0]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    *"abcdefghijklmnopqrstuvwxyz",
    *("##" + c for c in "abcdefghijklmnopqrstuvwxyz"),
]
BASE += ["the", "keys", "rare", "ro", "##ta"]


def tokens():
    texts = ["the keys", "ключи здесь ключи здесь ключи здесь ключи здесь", "the rota"]
    return vocabulary.build(BASE, texts, texts, kept=54, added=50)


class Vocabulary(unittest.TestCase):
    def test_the_base_models_tokens_come_first(self):
        known = [token in BASE for token in tokens()]
        self.assertEqual(known, sorted(known, reverse=True))

    def test_rare_tokens_go_and_foreign_words_come(self):
        self.assertNotIn("rare", tokens())
        self.assertIn("ключи", tokens())
        self.assertNotIn("[UNK]", vocabulary.tokenizer(tokens()).encode("ключи здесь").tokens)

    def test_the_same_texts_give_the_same_tokens(self):
        texts = [f"{a}{b}{c}" for a in "abc" for b in "defg" for c in "hijk"] * 4
        self.assertEqual(vocabulary.subwords(texts, 90), vocabulary.subwords(texts, 90))

    def test_known_tokens_keep_their_embeddings(self):
        table = np.random.default_rng(1).normal(size=(len(BASE), 8)).astype(np.float32)
        rows, known = vocabulary.embeddings(tokens(), BASE, table)
        for index, token in enumerate(tokens()[:known]):
            np.testing.assert_array_equal(rows[index], table[BASE.index(token)])


class Batches(unittest.TestCase):
    def test_an_attack_and_its_twin_share_a_batch(self):
        items = [
            {"text": f"the keys {n} {'rota ' * n}{label}", "label": label, "pair": n}
            for n in range(1, 40)
            for label in (0, 1)
        ]
        lines = [as_line(item, "written_13", n, None) for n, item in enumerate(items)]
        self.assertTrue(all(unit[0].label == 1 for unit in units_of(lines)))
        batches = Epoch(Settings(batch_tokens=256), vocabulary.tokenizer(tokens()), random.Random(1)).batches(lines)
        self.assertEqual(sum(len(batch.attacks) for batch in batches), 39)
        for batch in batches:
            self.assertTrue((batch.targets[batch.attacks, 1] > 0.5).all())
            self.assertTrue((batch.targets[batch.twins, 1] < 0.5).all())

    def test_samples_keep_every_harmless_line_of_other_languages(self):
        items = [{"text": f"{lang} {n}", "label": 0, "lang": lang} for lang in ("en", "ja") for n in range(3000)]
        lines = [as_line(item, "ws_train", n, None) for n, item in enumerate(items)]
        shown = [line.lang for line in epoch_lines(lines, [], random.Random(1))]
        self.assertEqual(shown.count("ja"), 3000)
        self.assertLess(shown.count("en"), 3000)


class Graph(unittest.TestCase):
    def test_the_graph_says_what_the_network_says(self):
        torch.manual_seed(1)
        network = Network(60, 50, layers=2).eval()
        for parameter in network.parameters():
            torch.nn.init.normal_(parameter, std=0.05)
        ids = torch.tensor([[2, 7, 9, 3], [2, 8, 3, 0]])
        mask = torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0]])
        with tempfile.TemporaryDirectory() as place, torch.inference_mode():
            path = Path(place) / "model.onnx"
            onnx.save(exported(network), path)
            found = export.session(path).run(["logits"], {"ids": ids.numpy(), "mask": mask.numpy()})[0]
            np.testing.assert_allclose(found, network(ids, mask).numpy(), atol=1e-4)
            # Padding changes nothing.
            alone = export.of_file(path)(ids.numpy()[1:], mask.numpy()[1:])
            np.testing.assert_allclose(alone[0], found[1], atol=1e-4)


class Soup(unittest.TestCase):
    def test_what_is_shipped_has_the_mean_weights_of_the_runs(self):
        runs = [Network(60, 50, layers=1), Network(60, 50, layers=1)]
        for value, run in enumerate(runs):
            for parameter in run.parameters():
                torch.nn.init.constant_(parameter, value)
        mean = averaged(runs)
        self.assertEqual(set(mean), set(runs[0].state_dict()))
        self.assertTrue(all((one == 0.5).all() for one in mean.values()))


class Figures(unittest.TestCase):
    def test_thresholds_keep_to_the_rate(self):
        lines = [as_line({"text": str(n), "label": 0}, "ws_dev", n, "dev") for n in range(1000)]
        logits = np.random.default_rng(1).normal(size=(1000, 2)).astype(np.float32)
        limits = figures.thresholds(figures.Scored(lines, logits))
        self.assertLessEqual(limits.flags(logits).mean(), figures.RATE)
        self.assertGreater(limits.flags(logits).mean(), 0)

    def test_intervals_hold_the_share(self):
        low, high = figures.wilson(5, 1000)
        self.assertTrue(0 < low < 0.005 < high < 0.02)


if __name__ == "__main__":
    unittest.main()
