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
HIDDEN, HEADS, WIDE, POSITIONS, MAX_TOKENS = 16, 2, 32, 256, 128
KEPT = 40


class Graph:
    def __init__(self):
        self.random = np.random.default_rng(5)
        self.nodes, self.weights = [], []

    def weight(self, value, kind=np.float32):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value, dtype=kind), name))
        return name

    def node(self, kind, *inputs, name=None, **attributes):
        name = name or f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=name, **attributes))
        return name

    def linear(self, states, rows, columns, name=None):
        matrix = self.weight(self.random.normal(0, 1 / rows**0.5, (rows, columns)))
        product = self.node("MatMul", states, matrix, name=name and f"{name}.product")
        return self.node("Add", product, self.weight(self.random.normal(0, 0.1, columns)), name=name)

    def norm(self, states):
        ones, noughts = self.weight(np.ones(HIDDEN)), self.weight(np.zeros(HIDDEN))
        return self.node("LayerNormalization", states, ones, noughts, axis=-1, epsilon=1e-12)


def made(n_tokens):
    g = Graph()
    table = g.weight(g.random.normal(0, 1, (n_tokens, HIDDEN)))
    places = g.weight(g.random.normal(0, 1, (POSITIONS, HIDDEN)))
    integers = lambda *values: g.weight(values, np.int64)
    sizes = g.node("Shape", "ids")
    length = g.node("Slice", sizes, integers(1), integers(2), integers(0))
    place = g.node("Slice", places, integers(0), length, integers(0))
    states = g.norm(g.node("Add", g.node("Gather", table, "ids", axis=0), place))
    seen = g.node("Cast", "mask", to=TensorProto.FLOAT)
    low = g.node("Mul", g.node("Sub", g.weight(1), seen), g.weight(-1e4))
    bias = g.node("Unsqueeze", low, integers(1, 2))
    apart, joined = integers(0, 0, HEADS, HIDDEN // HEADS), integers(0, 0, HIDDEN)
    turned = [
        g.node("Transpose", g.node("Reshape", g.linear(states, HIDDEN, HIDDEN), apart), perm=order)
        for order in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
    ]
    scores = g.node("Add", g.node("MatMul", turned[0], turned[1]), bias)
    mixed = g.node("MatMul", g.node("Softmax", scores, axis=-1), turned[2])
    flat = g.node("Reshape", g.node("Transpose", mixed, perm=[0, 2, 1, 3]), joined)
    states = g.norm(g.node("Add", states, g.linear(flat, HIDDEN, HIDDEN)))
    wide = g.linear(states, HIDDEN, WIDE)
    raised = g.node("Add", g.node("Erf", g.node("Div", wide, g.weight(2**0.5))), g.weight(1))
    bent = g.node("Mul", g.node("Mul", wide, raised), g.weight(0.5))
    states = g.norm(g.node("Add", states, g.linear(bent, WIDE, HIDDEN)))
    shares = g.node("Unsqueeze", seen, integers(-1))
    total = g.node("ReduceSum", g.node("Mul", states, shares), integers(1), keepdims=0)
    mean = g.node("Div", total, g.node("ReduceSum", shares, integers(1), keepdims=0))
    first = g.node("Gather", states, g.weight(0, np.int64), axis=1, name="first")
    g.linear(g.node("Concat", first, mean, axis=1), 2 * HIDDEN, 2, name="logits")
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
            nodes_to_exclude=["logits.product", "first"],
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
