"""The network as an ONNX graph, built by hand.

onnxruntime runs it here. memfw takes the sizes and the weights from it, by the names that they have, and
computes the same by itself (src/detect/model/encoder/network.rs): what changes here changes there.

Inputs `ids` and `mask` are [batch, length] of int64; output `logits` is [batch, 2] of float.
`hidden.0` is the embedding, `hidden.n` the state after layer n.
"""

import math

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from .base import HEADS, HIDDEN
from .network import EPSILON, MASKED, Network

OPSET = 17


class Graph:
    """Collects nodes and weights under names that say where they belong."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def weight(self, name: str, value: np.ndarray) -> str:
        self.weights.append(numpy_helper.from_array(np.asarray(value, order="C"), name))
        return name

    def node(self, kind: str, inputs: list[str], name: str, **attributes) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def linear(self, states: str, weight: np.ndarray, bias: np.ndarray, name: str) -> str:
        """`weight` is [out, in], as torch keeps it."""
        product = self.node("MatMul", [states, self.weight(f"{name}.weight", weight.T)], f"{name}.product")
        return self.node("Add", [product, self.weight(f"{name}.bias", bias)], name)

    def norm(self, states: str, module: nn.LayerNorm, name: str) -> str:
        weight = self.weight(f"{name}.weight", array(module.weight))
        bias = self.weight(f"{name}.bias", array(module.bias))
        return self.node("LayerNormalization", [states, weight, bias], name, axis=-1, epsilon=EPSILON)


def array(parameter) -> np.ndarray:
    return parameter.detach().float().cpu().numpy()


def exported(network: Network) -> onnx.ModelProto:
    graph = Graph()
    bias = mask_bias(graph)
    states = embedded(graph, network)
    for index, layer in enumerate(network.layers, 1):
        states = layer_of(graph, layer, states, bias, index)
    linear = network.outputs
    graph.linear(pooled(graph, states), array(linear.weight), array(linear.bias), "logits")
    sizes = ["batch", "length"]
    made = helper.make_graph(
        graph.nodes,
        "memfw",
        [helper.make_tensor_value_info(name, TensorProto.INT64, sizes) for name in ("ids", "mask")],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 2])],
        graph.weights,
    )
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="memfw")
    model.ir_version = 8
    onnx.checker.check_model(model, full_check=True)
    return model


def mask_bias(graph: Graph) -> str:
    """Nought where a token is, very low where padding is: [batch, 1, 1, length]."""
    graph.weight("one", np.float32(1))
    graph.weight("masked", np.float32(MASKED))
    graph.weight("axes.heads", np.array([1, 2], dtype=np.int64))
    graph.node("Cast", ["mask"], "mask.float", to=TensorProto.FLOAT)
    graph.node("Sub", ["one", "mask.float"], "mask.padding")
    graph.node("Mul", ["mask.padding", "masked"], "mask.low")
    return graph.node("Unsqueeze", ["mask.low", "axes.heads"], "mask.bias")


def embedded(graph: Graph, network: Network) -> str:
    table = np.concatenate((array(network.known_tokens), array(network.new_tokens)))
    graph.weight("tokens", table)
    graph.weight("positions", array(network.positions)[:256])
    for name, value in (("start", 0), ("one_axis", 1), ("rows", 0)):
        graph.weight(f"slice.{name}", np.array([value], dtype=np.int64))
    graph.node("Gather", ["tokens", "ids"], "embedding.tokens", axis=0)
    graph.node("Shape", ["ids"], "ids.shape")
    graph.weight("slice.two", np.array([2], dtype=np.int64))
    graph.node("Slice", ["ids.shape", "slice.one_axis", "slice.two", "slice.start"], "ids.length")
    graph.node("Slice", ["positions", "slice.start", "ids.length", "slice.rows"], "embedding.positions")
    graph.node("Add", ["embedding.tokens", "embedding.positions"], "embedding.sum")
    return graph.norm("embedding.sum", network.embedded_norm, "hidden.0")


def layer_of(graph: Graph, layer: nn.Module, states: str, bias: str, index: int) -> str:
    name = f"layer.{index}"
    seen = attention(graph, layer, states, bias, name)
    graph.node("Add", [states, seen], f"{name}.attended.sum")
    middle = graph.norm(f"{name}.attended.sum", layer.attended_norm, f"{name}.attended.norm")
    wide = graph.linear(middle, array(layer.widened.weight), array(layer.widened.bias), f"{name}.widened")
    bent = gelu(graph, wide, f"{name}.gelu")
    narrow = graph.linear(bent, array(layer.narrowed.weight), array(layer.narrowed.bias), f"{name}.narrowed")
    graph.node("Add", [middle, narrow], f"{name}.narrowed.sum")
    return graph.norm(f"{name}.narrowed.sum", layer.narrowed_norm, f"hidden.{index}")


def attention(graph: Graph, layer: nn.Module, states: str, bias: str, name: str) -> str:
    weights = np.split(array(layer.query_key_value.weight), 3)
    biases = np.split(array(layer.query_key_value.bias), 3)
    # The query is divided here, once, so that the run time need not divide the products.
    scale = np.float32(1 / math.sqrt(HIDDEN / HEADS))
    if not any(one.name == "shape.heads" for one in graph.weights):
        graph.weight("shape.heads", np.array([0, 0, HEADS, HIDDEN // HEADS], dtype=np.int64))
        graph.weight("shape.joined", np.array([0, 0, HIDDEN], dtype=np.int64))
    parts = []
    for part, weight, one in zip(("query", "key", "value"), weights, biases, strict=True):
        factor = scale if part == "query" else np.float32(1)
        flat = graph.linear(states, weight * factor, one * factor, f"{name}.{part}")
        graph.node("Reshape", [flat, "shape.heads"], f"{name}.{part}.heads")
        order = [0, 2, 3, 1] if part == "key" else [0, 2, 1, 3]
        parts.append(graph.node("Transpose", [f"{name}.{part}.heads"], f"{name}.{part}.turned", perm=order))
    graph.node("MatMul", parts[:2], f"{name}.scores")
    graph.node("Add", [f"{name}.scores", bias], f"{name}.scores.masked")
    graph.node("Softmax", [f"{name}.scores.masked"], f"{name}.shares", axis=-1)
    graph.node("MatMul", [f"{name}.shares", parts[2]], f"{name}.seen")
    graph.node("Transpose", [f"{name}.seen"], f"{name}.seen.turned", perm=[0, 2, 1, 3])
    joined = graph.node("Reshape", [f"{name}.seen.turned", "shape.joined"], f"{name}.seen.joined")
    return graph.linear(joined, array(layer.attended.weight), array(layer.attended.bias), f"{name}.attended")


def gelu(graph: Graph, wide: str, name: str) -> str:
    """In the form that exporters write, which run times recognise."""
    if not any(one.name == "gelu.root" for one in graph.weights):
        graph.weight("gelu.root", np.float32(math.sqrt(2)))
        graph.weight("gelu.half", np.float32(0.5))
    graph.node("Div", [wide, "gelu.root"], f"{name}.scaled")
    graph.node("Erf", [f"{name}.scaled"], f"{name}.erf")
    graph.node("Add", [f"{name}.erf", "one"], f"{name}.raised")
    graph.node("Mul", [wide, f"{name}.raised"], f"{name}.product")
    return graph.node("Mul", [f"{name}.product", "gelu.half"], name)


def pooled(graph: Graph, states: str) -> str:
    """The first token's state and the mean of all tokens' states, side by side."""
    graph.weight("axes.last", np.array([-1], dtype=np.int64))
    graph.weight("axes.length", np.array([1], dtype=np.int64))
    graph.weight("first", np.array(0, dtype=np.int64))
    graph.node("Unsqueeze", ["mask.float", "axes.last"], "pool.weights")
    graph.node("Mul", [states, "pool.weights"], "pool.weighed")
    graph.node("ReduceSum", ["pool.weighed", "axes.length"], "pool.sum", keepdims=0)
    graph.node("ReduceSum", ["pool.weights", "axes.length"], "pool.count", keepdims=0)
    graph.node("Div", ["pool.sum", "pool.count"], "pool.mean")
    graph.node("Gather", [states, "first"], "pool.first", axis=1)
    return graph.node("Concat", ["pool.first", "pool.mean"], "pool", axis=1)
