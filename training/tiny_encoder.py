"""Writes fixtures/encoder: a tiny encoder with random weights, and what onnxruntime says with it.

It is the shape of the shipped encoder at a hundredth of its size, so that the run time can be tested
without it: the same operators, the same quantisation.
"""

import json
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic
from tokenizers import BertWordPieceTokenizer

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "fixtures" / "encoder"
TOKENS = ROOT / "fixtures" / "tokenizer"
HIDDEN, HEADS, WIDE, POSITIONS, MAX_TOKENS = 32, 2, 48, 256, 128
KEPT = 40


class Graph:
    """Names are those of the shipped file, for by them the weights are found."""

    def __init__(self):
        self.random = np.random.default_rng(5)
        self.nodes, self.weights = [], []

    def weight(self, name, value, kind=np.float32):
        self.weights.append(numpy_helper.from_array(np.asarray(value, dtype=kind), name))
        return name

    def integers(self, *values):
        return self.weight(f"w{len(self.weights)}", values, np.int64)

    def node(self, kind, *inputs, name=None, **attributes):
        name = name or f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=name, **attributes))
        return name

    def linear(self, states, rows, columns, name):
        matrix = self.weight(f"{name}.weight", self.random.normal(0, 1 / rows**0.5, (rows, columns)))
        product = self.node("MatMul", states, matrix, name=f"{name}.product")
        bias = self.weight(f"{name}.bias", self.random.normal(0, 0.1, columns))
        return self.node("Add", product, bias, name=name)

    def norm(self, states, name):
        weight = self.weight(f"{name}.weight", self.random.normal(1, 0.1, HIDDEN))
        bias = self.weight(f"{name}.bias", self.random.normal(0, 0.1, HIDDEN))
        return self.node("LayerNormalization", states, weight, bias, name=name, axis=-1, epsilon=1e-12)


def made(n_tokens):
    g = Graph()
    table = g.weight("tokens", g.random.normal(0, 1, (n_tokens, HIDDEN)))
    places = g.weight("positions", g.random.normal(0, 1, (POSITIONS, HIDDEN)))
    one, two, nought = g.integers(1), g.integers(2), g.integers(0)
    length = g.node("Slice", g.node("Shape", "ids"), one, two, nought)
    place = g.node("Slice", places, nought, length, nought)
    states = g.norm(g.node("Add", g.node("Gather", table, "ids", axis=0), place), "hidden.0")
    seen = g.node("Cast", "mask", to=TensorProto.FLOAT)
    low = g.node("Mul", g.node("Sub", g.weight("one", 1), seen), g.weight("masked", -1e4))
    bias = g.node("Unsqueeze", low, g.integers(1, 2))
    apart = g.weight("shape.heads", (0, 0, HEADS, HIDDEN // HEADS), np.int64)
    joined = g.integers(0, 0, HIDDEN)
    parts = (("query", [0, 2, 1, 3]), ("key", [0, 2, 3, 1]), ("value", [0, 2, 1, 3]))
    query, key, value = (
        g.node("Transpose", g.node("Reshape", g.linear(states, HIDDEN, HIDDEN, f"layer.1.{part}"), apart), perm=order)
        for part, order in parts
    )
    shares = g.node("Softmax", g.node("Add", g.node("MatMul", query, key), bias), axis=-1)
    mixed = g.node("Transpose", g.node("MatMul", shares, value), perm=[0, 2, 1, 3])
    attended = g.linear(g.node("Reshape", mixed, joined), HIDDEN, HIDDEN, "layer.1.attended")
    states = g.norm(g.node("Add", states, attended), "layer.1.attended.norm")
    wide = g.linear(states, HIDDEN, WIDE, "layer.1.widened")
    raised = g.node("Add", g.node("Erf", g.node("Div", wide, g.weight("root", 2**0.5))), "one")
    bent = g.node("Mul", g.node("Mul", wide, raised), g.weight("half", 0.5))
    narrow = g.linear(bent, WIDE, HIDDEN, "layer.1.narrowed")
    states = g.norm(g.node("Add", states, narrow), "hidden.1")
    weights = g.node("Unsqueeze", seen, g.integers(-1))
    total = g.node("ReduceSum", g.node("Mul", states, weights), one, keepdims=0)
    mean = g.node("Div", total, g.node("ReduceSum", weights, one, keepdims=0))
    first = g.node("Gather", states, g.weight("first", 0, np.int64), axis=1, name="pool.first")
    g.linear(g.node("Concat", first, mean, axis=1), 2 * HIDDEN, 2, "logits")
    sizes = ["batch", "length"]
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, sizes) for name in ("ids", "mask")]
    output = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 2])
    graph = helper.make_graph(g.nodes, "tiny", inputs, [output], g.weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], producer_name="memfw")
    model.ir_version = 8
    onnx.checker.check_model(model)
    return model


def main():
    tokens = (TOKENS / "vocabulary.txt").read_text(encoding="utf-8").splitlines()
    path = OUT / "tiny.onnx"
    with tempfile.TemporaryDirectory() as place:
        plain = Path(place) / "plain.onnx"
        onnx.save(made(len(tokens)), plain)
        quantize_dynamic(
            plain,
            path,
            op_types_to_quantize=["MatMul", "Gather"],
            per_channel=True,
            reduce_range=True,
            weight_type=QuantType.QInt8,
            nodes_to_exclude=["logits.product", "pool.first"],
        )
    running = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    tokenizer = BertWordPieceTokenizer({one: n for n, one in enumerate(tokens)}, lowercase=True)
    tokenizer.enable_truncation(MAX_TOKENS)
    with open(TOKENS / "reference.jsonl", encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for line in lines]
    with open(OUT / "tiny.jsonl", "w", encoding="utf-8") as out:
        for text in texts[-KEPT:] + ["word " * 400, ""]:
            ids = np.array([tokenizer.encode(text).ids], dtype=np.int64)
            found = running.run(["logits"], {"ids": ids, "mask": np.ones_like(ids)})[0][0]
            logits = [round(float(one), 5) for one in found]
            out.write(json.dumps({"text": text, "logits": logits}) + "\n")


main()
